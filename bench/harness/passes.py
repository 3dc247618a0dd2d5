"""What one pass over the cached data costs, from the jobs of the fits.

A pass's wall time is split by what its tasks did: computing (their CPU time, which for stock Spark holds the decoding
of blocks that were on disk), collection (they were stopped by the collector), and reading: everything else, which is
waiting for the disk. Warmset counts its waits itself besides.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from statistics import mean

import numpy as np

from harness.contest import Player
from harness.statistics import median_of
from harness.workloads import PASSES_SKIPPED, Workload


def all_of(timing: dict, workload: Workload) -> list[dict]:
    """The passes of one fit; the first fills the cache."""
    return [job for job in timing["jobs"] if re.search(workload.passes, job["name"])]


def steady(timing: dict, workload: Workload) -> list[dict]:
    """The passes of one fit that count."""
    return all_of(timing, workload)[PASSES_SKIPPED:]


def seconds(job: dict) -> float:
    """A job's wall time."""
    return job["ended_s"] - job["began_s"]


def median_s(timings: Sequence[dict], workload: Workload) -> float:
    """The median wall time of all passes that count; NaN if there is none."""
    return median_of([seconds(job) for timing in timings for job in steady(timing, workload)])


def summary(player: Player, workload: Workload) -> dict | None:
    """What a pass cost this engine, or `None` if it finished no fit."""
    timings = player.timings.get(workload.name, [])
    jobs = [job for timing in timings for job in steady(timing, workload)]
    if not jobs:
        return None
    typical_s = median_of([seconds(job) for job in jobs])
    return {
        "passes": len(jobs),
        "seconds": typical_s,
        **split(jobs, typical_s),
        "task_cpu_s": mean(job["task_cpu_s"] for job in jobs),
        "task_collection_s": mean(job["task_collection_s"] for job in jobs),
        "task_run_s": mean(job["task_run_s"] for job in jobs),
        "fit_s": median_of([timing["seconds"] for timing in timings]),
        "first_s": median_of([sum(map(seconds, all_of(timing, workload)[:PASSES_SKIPPED])) for timing in timings]),
        "beside_s": median_of([timing["seconds"] - sum(map(seconds, all_of(timing, workload))) for timing in timings]),
        "fit_collection_s": median_of([timing["collection_s"] for timing in timings]),
        "memory_bytes": most(timings, "memory_bytes"),
        "disk_bytes": most(timings, "disk_bytes"),
        "live_bytes": most(timings, "live_bytes"),
        "resident_bytes": most(timings, "resident_bytes"),
        "read_bytes": counted(timings, workload, "read_bytes"),
        "wait_s": counted(timings, workload, "wait_s"),
    }


def split(jobs: Sequence[dict], typical_s: float) -> dict:
    """A pass's wall time in three, in the proportions of all passes' task time."""
    cpu = sum(job["task_cpu_s"] for job in jobs)
    collection = sum(job["task_collection_s"] for job in jobs)
    # CPU clocks and the collector's tick apart: rounding must not make the rest negative.
    waiting = max(0.0, sum(job["task_run_s"] for job in jobs) - cpu - collection)
    all_s = (cpu + collection + waiting) or 1.0
    return {
        "compute_s": typical_s * cpu / all_s,
        "collection_s": typical_s * collection / all_s,
        "reading_s": typical_s * waiting / all_s,
    }


def most(timings: Sequence[dict], what: str) -> int | None:
    """The largest value that was seen."""
    values = [sample[what] for timing in timings for sample in timing["samples"] if what in sample]
    return max(values, default=None)


def counted(timings: Sequence[dict], workload: Workload, what: str) -> float | None:
    """How much a counter of Warmset's grew in one pass, from the samples around each fit's passes."""
    grown = []
    for timing in timings:
        jobs = steady(timing, workload)
        samples = [sample for sample in timing["samples"] if what in sample]
        if jobs and len(samples) >= 2:
            at = [sample["at_s"] for sample in samples]
            values = [sample[what] for sample in samples]
            begun, ended = np.interp([jobs[0]["began_s"], jobs[-1]["ended_s"]], at, values)
            grown.append(float(ended - begun) / len(jobs))
    return mean(grown) if grown else None
