"""The least memory with which a job still finishes: bisection over totals, on a coarse grid.

At each total the smallest heap that Spark starts with is tried, and the shares that are usual; the job finishes if it
does with one of them. Warmset gets the smallest pool, so that what it needs more than stock Spark is counted.
"""

from __future__ import annotations

from dataclasses import replace

from harness import settings
from harness.settings import HEAP_BYTES_MIN, MIB, Setting
from harness.training import Engines, Place
from harness.workloads import Size, workload

STEP_BYTES = 64 * MIB
LEAST_BYTES = HEAP_BYTES_MIN + STEP_BYTES


def find(engine: str, name: str, size: Size, most: Setting, place: Place) -> dict:
    """Bisects between what cannot do and the total of `most`, which is tried as well."""
    trials: list[dict] = []
    low, high = LEAST_BYTES // STEP_BYTES - 1, -(-most.total_bytes // STEP_BYTES)
    if not finishes(most, name, size, place, trials):
        return {"engine": engine, "bytes": None, "trials": trials}
    while high - low > 1:
        middle = (low + high) // 2
        total = middle * STEP_BYTES
        if any(finishes(setting, name, size, place, trials) for setting in tight(most, total)):
            high = middle
        else:
            low = middle
    return {"engine": engine, "bytes": min(high * STEP_BYTES, most.total_bytes), "trials": trials}


def tight(most: Setting, total_bytes: int) -> list[Setting]:
    """The heaps that are tried in a total."""
    smallest = replace(most, total_bytes=total_bytes, heap_bytes=HEAP_BYTES_MIN)
    usual = [replace(smallest, heap_bytes=each.heap_bytes) for each in settings.heaps(most.engine, total_bytes)]
    return list(dict.fromkeys([smallest, *usual]))


def finishes(setting: Setting, name: str, size: Size, place: Place, trials: list[dict]) -> bool:
    """Whether the job finishes so."""
    job = workload(name, size)
    with Engines(place) as engines:
        player = engines.open(setting, name, size, "memory")
        answer = player.ask(job.name, job.timeout_s, **job.request(0))
    died = None if player.died is None else str(player.died)
    trials.append({**setting.raw(), "seconds": answer and answer["seconds"], "died": died})
    place.progress.note(f"memory: {setting.total_bytes >> 20} MiB, {setting.title}: {died or 'finished'}")
    return answer is not None
