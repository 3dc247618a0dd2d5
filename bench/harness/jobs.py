"""Spark's jobs and what their tasks cost, from Spark's own status store."""

from __future__ import annotations

from pyspark import SparkContext


def of_group(context: SparkContext, group: str) -> list[dict]:
    """The jobs of a group in the order in which they began, with their wall times and the sums over their tasks."""
    context._jsc.sc().listenerBus().waitUntilEmpty()
    return [job(context, number) for number in sorted(context.statusTracker().getJobIdsForGroup(group))]


def job(context: SparkContext, number: int) -> dict:
    """One job. Its tasks' run time holds their CPU time, the collections they were stopped by, and all else they
    waited for.
    """
    store = context._jsc.sc().statusStore()
    data = store.job(number)
    info = context.statusTracker().getJobInfo(number)
    stages = [store.lastStageAttempt(stage) for stage in (info.stageIds if info else [])]
    return {
        "name": data.name(),
        "began_s": seconds_of(data.submissionTime()),
        "ended_s": seconds_of(data.completionTime()),
        "task_run_s": sum(stage.executorRunTime() for stage in stages) / 1e3,
        "task_cpu_s": sum(stage.executorCpuTime() for stage in stages) / 1e9,
        "task_collection_s": sum(stage.jvmGcTime() for stage in stages) / 1e3,
    }


def seconds_of(moment) -> float | None:  # noqa: ANN001
    """An optional Java date, in seconds since the epoch."""
    return moment.get().getTime() / 1e3 if moment.isDefined() else None
