"""Things that go wrong around a cache: cancelled jobs, failing tasks, release in mid-scan, restarts."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql import functions as F

from scenarios import regions
from scenarios.storage import digest, round_trip, sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SLEEP = "reflect('java.lang.Thread', 'sleep', cast({ms} as bigint))"


def _await_tasks(spark: SparkSession, seconds_max: float = 30.0) -> None:
    """Waits until tasks of some stage have been running for a moment."""
    tracker = spark.sparkContext.statusTracker()
    deadline = time.monotonic() + seconds_max
    while time.monotonic() < deadline:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        if any(stage and stage.numActiveTasks for stage in stages):
            break
        time.sleep(0.02)
    time.sleep(0.3)


def unpersist_in_mid_scan(spark: SparkSession) -> dict[str, Any]:
    """Releases the cache while tasks read it; the running query still answers right.

    Tasks that start after the release store their partitions once more, as Spark has it; those go
    when nothing refers to the query any more, so the caller looks for regions that are left.
    """
    frame = sample(spark, 4_000, partitions=8).cache()
    frame.count()
    slow = frame.filter(f"id % 10 != 0 or {SLEEP.format(ms=3)} is null").selectExpr("sum(id)", "count(unique)")
    answers: list[Any] = []
    reader = threading.Thread(target=lambda: answers.append(list(slow.first())))
    reader.start()
    _await_tasks(spark)
    running = reader.is_alive()
    frame.unpersist(blocking=True)
    reader.join(60)
    kept = [i for i in range(4_000) if i % 10]
    expected = [sum(kept), sum(1 for i in kept if i % 5)]
    return {"running": running, "answers": answers, "expected": expected}


def cancelled_materialisation(spark: SparkSession) -> dict[str, Any]:
    """Cancels the job that fills the cache; a later query fills it and is right."""
    frame = sample(spark, 2_000, partitions=8)
    slow = frame.filter(f"id % 2 = 0 or {SLEEP.format(ms=4)} is not null").cache()
    failures: list[str] = []

    def fill() -> None:
        spark.sparkContext.setJobGroup("fill", "fills the cache", interruptOnCancel=True)
        try:
            slow.count()
        except Exception as stopped:
            failures.append(type(stopped).__name__)

    filler = threading.Thread(target=fill)
    filler.start()
    _await_tasks(spark)
    spark.sparkContext.cancelAllJobs()
    filler.join(60)
    right = digest(slow)[0] == 2_000 and digest(slow) == digest(frame)
    slow.unpersist(blocking=True)
    return {"cancelled": len(failures), "right": right}


def failing_tasks(spark: SparkSession) -> dict[str, Any]:
    """Tasks that fail at their first attempt, in the middle of their partition."""

    @F.udf("long")
    def fails_once(value: int) -> int:
        if TaskContext.get().attemptNumber() == 0 and value % 1_000 == 777:
            raise ValueError("the first attempt fails")
        return value

    frame = sample(spark, 4_000, partitions=2)
    expected = digest(frame)
    cached = frame.withColumn("id", fails_once("id")).cache()
    right = digest(cached) == expected and digest(cached) == expected
    cached.unpersist(blocking=True)
    return {"right": right, "left": regions.left_after_collection(spark)}


def threads(spark: SparkSession, readers: int = 6) -> bool:
    """Several threads scan one cache that nobody has filled yet."""
    frame = sample(spark, 20_000)
    expected = digest(frame)
    frame.cache()
    answers: list[Any] = []
    workers = [threading.Thread(target=lambda: answers.append(digest(frame))) for _ in range(readers)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(120)
    frame.unpersist(blocking=True)
    return answers == [expected] * readers


def restart(spark: SparkSession, plugins: list[str]) -> list[dict[str, Any]]:
    """Stops Spark and starts it again in the same JVM, each time with the given plugins."""
    conf = dict(spark.sparkContext.getConf().getAll())
    ours = ("spark.sql.cache.serializer", "spark.sql.extensions")
    dropped = ("spark.app.id", "spark.app.startTime", "spark.driver.port", *ours)
    seen = []
    for plugin in plugins:
        spark.stop()
        builder = type(spark).builder
        builder._options = {}
        for key, value in conf.items():
            if key not in dropped:
                builder = builder.config(key, value)
        spark = builder.config("spark.plugins", plugin).getOrCreate()
        result = round_trip(spark, "MEMORY_AND_DISK")
        serializer = spark.sparkContext.getConf().get("spark.sql.cache.serializer", "")
        seen.append(result | {"serializer": serializer})
    return seen


def attempts(_: None, confs: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Starts Spark with each configuration in turn, in one JVM; what it said, or what caching gave."""
    from pyspark.sql import SparkSession

    outcomes: list[dict[str, Any]] = []
    log = Path("driver.log")
    for conf in confs:
        logged = log.stat().st_size
        builder = SparkSession.builder
        builder._options = {}
        for key, value in conf.items():
            builder = builder.config(key, value)
        try:
            spark = builder.getOrCreate()
        except Exception as refused:
            outcomes.append({"refused": str(refused)})
        else:
            try:
                outcomes.append(round_trip(spark, "MEMORY_AND_DISK", rows=4_000))
            finally:
                spark.stop()
        with log.open("rb") as written:
            written.seek(logged)
            lines = written.read().decode(errors="replace").splitlines()
        outcomes[-1]["warnings"] = [line for line in lines if " WARN " in line and "armset" in line]
    return outcomes
