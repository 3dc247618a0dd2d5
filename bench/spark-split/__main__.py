"""`make bench B=spark-split`: one budget for heap and pool, split by hand in five ways or by the controller.

Each workload of spark-ml, and a job whose phases change (a shuffle that fills the heap, then scans of cached data), is
run with every split. It ends with `result: {json}`; a figure that was not measured is null.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import mean

import splits
from harness import contest, learnable, passes
from harness.contest import CACHE_TIMEOUT_S, Player
from harness.course import Course
from harness.statistics import rounded
from harness.training import Place
from harness.workloads import NAMES, ROW_BYTES, TRAINERS, Size, Workload, workload

MIB = 1 << 20
# What a JVM needs beside heap and pool; the controller keeps 512 MiB of it free.
OVERHEAD_BYTES = 576 * MIB
CHANGING = "changing"
CYCLES, CYCLES_QUICK, SCANS = 2, 1, 8
README = """# spark-split

`make bench B=spark-split{quick}`, on the machine described in `raw.json`, which has all figures. Every engine is Spark
4.2 with Warmset in a memory group of {budget} MiB of heap and pool together, plus {overhead} MiB for what a JVM needs
besides. Some have a fixed heap ({shares} of the budget); one has `spark.warmset.totalMemory`. Each runs each workload
asked for ({rows} rows, {iterations} iterations) once, alone, after a warm-up on a part of the data (not in the quick
form); a workload's time is the mean of its passes but the first two. `{changing}` runs {cycles} times a shuffle that
fills the heap and {scans} scans of a cached table; its time is the whole. A ratio is the best fixed split's time over
the controller's.
"""


@dataclass(frozen=True)
class Job:
    """What is run with every split, and how its time is taken."""

    name: str
    play: Callable[[Player], dict | None]
    seconds: Callable[[dict], float]


def parse() -> argparse.Namespace:
    """The options."""
    names = (*NAMES, CHANGING)
    parser = argparse.ArgumentParser(prog="make bench B=spark-split", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument("--jobs", help=f"which of {','.join(names)} to run")
    parser.add_argument("--rows", type=int, help="rows of 50 doubles")
    parser.add_argument("--budget", type=int, metavar="MIB", help="heap and pool together")
    parser.add_argument("--iterations", type=int, help="iterations of a fit")
    options = parser.parse_args()
    quick = options.quick
    options.jobs = (options.jobs or ",".join((*(TRAINERS if not quick else ("lgr",)), CHANGING))).split(",")
    for name in options.jobs:
        if name not in names:
            parser.error(f"--jobs: {name} is none of {', '.join(names)}")
    options.rows = options.rows or (500_000 if quick else 4_000_000)
    options.files = 8 if quick else 40
    options.budget = options.budget or (768 if quick else 1600)
    options.iterations = options.iterations or (5 if quick else 12)
    options.cycles = CYCLES_QUICK if quick else CYCLES
    options.shares = splits.SHARES_QUICK if quick else splits.SHARES
    options.cpus = min(2, len(os.sched_getaffinity(0)))
    return options


def main() -> int:
    """Runs all jobs with all splits; exit code 1 if the controller failed somewhere or results differ."""
    options = parse()
    course = Course("spark-split", readme(options), "jobs", figures, table, sound)
    return course.run(options, 1 + len(options.jobs) * len(splits.of_shares(options.shares)), measure)


def measure(options: argparse.Namespace, place: Place) -> Iterator[tuple[str, dict]]:
    """Job by job."""
    contestants = splits.of_shares(options.shares)
    place.progress.step(f"generating {options.rows} rows of numbers (kept in data/)")
    size = Size(learnable.table(options.rows, options.files), options.rows, options.files, options.iterations)
    for job in jobs(options, size):
        yield job.name, {split.name: play(split, job, size, options.budget * MIB, place) for split in contestants}


def jobs(options: argparse.Namespace, size: Size) -> Iterator[Job]:
    """The jobs that were asked for."""
    for name in options.jobs:
        if name == CHANGING:
            yield changing(size, options.cycles)
        else:
            small = None if options.quick else workload(name, size.small())
            yield training(workload(name, size), small)


def training(job: Workload, small: Workload | None) -> Job:
    """A fit, after a warm-up on a part of the data if there is one."""

    def play(player: Player) -> dict | None:
        if small is not None:
            player.ask(f"{job.name} on a part", small.timeout_s, **small.request(0))
        return player.ask(job.name, job.timeout_s, **job.request(0))

    return Job(job.name, play, lambda answer: mean(map(passes.seconds, passes.steady(answer, job))))


def changing(size: Size, cycles: int) -> Job:
    """Phases over a cached table as large as the rows."""
    rows = size.rows * ROW_BYTES // 64

    def play(player: Player) -> dict | None:
        columns = ", ".join(f"rand({number}) as d{number}" for number in range(8))
        query = f"select {columns} from range(0, {rows}, 1, {size.partitions})"
        player.ask("cache", CACHE_TIMEOUT_S, op="cache", name="numbers", query=query, level="MEMORY_AND_DISK_DESER")
        message = {"op": "phases", "table": "numbers", "cycles": cycles, "rows": size.rows * 4, "scans": SCANS}
        return player.ask(CHANGING, CACHE_TIMEOUT_S, **message)

    return Job(CHANGING, play, lambda answer: answer["seconds"])


def play(split: splits.Split, job: Job, size: Size, budget_bytes: int, place: Place) -> dict:
    """One job with one split, alone on the machine."""
    place.progress.step(f"{job.name}: {split.name}")
    with ExitStack() as stack:
        scratch = place.scratch / split.name
        spec = split.spec(budget_bytes, place.cpus, scratch, learnable.file_bytes_max(size.path))
        player = contest.open_player(stack, spec, budget_bytes + OVERHEAD_BYTES, place.logs, place.scratch)
        answer = job.play(player)
    return {
        "seconds": None if answer is None else job.seconds(answer),
        "rows": answer and answer.pop("rows"),
        "measured": answer,
        "engine": player.raw(),
    }


def sound(runs: dict[str, dict]) -> bool:
    """Whether the controller finished, and all that finished came to the same."""
    rows = [run["rows"] for run in runs.values() if run["rows"] is not None]
    return runs[splits.CONTROLLER]["seconds"] is not None and all(each == rows[0] for each in rows)


def ratio(runs: dict[str, dict]) -> float:
    """The best fixed split's time over the controller's."""
    fixed = [run["seconds"] for name, run in runs.items() if name != splits.CONTROLLER and run["seconds"]]
    ours = runs[splits.CONTROLLER]["seconds"]
    return min(fixed) / ours if fixed and ours else math.nan


def figures(found: dict[str, dict]) -> dict:
    """The result line."""
    steady = [ratio(runs) for name, runs in found.items() if name != CHANGING]
    return {
        "worst_vs_best_static": rounded(min(steady)) if steady and not any(map(math.isnan, steady)) else None,
        "changing_vs_best_static": rounded(ratio(found[CHANGING])) if CHANGING in found else None,
    }


def table(found: dict[str, dict]) -> str:
    """Seconds, a job per line."""
    names = list(next(iter(found.values())))
    lines = [f"{'seconds':12}" + "".join(f"{name:>12}" for name in names) + f"{'ratio':>8}"]
    for job, runs in found.items():
        cells = "".join(f"{runs[name]['seconds'] or math.nan:12.2f}" for name in names)
        lines.append(f"{job:12}{cells}{ratio(runs):8.2f}" + ("" if sound(runs) else "  FAILED OR DIFFERENT"))
    return "\n".join(lines)


def readme(options: argparse.Namespace) -> str:
    """How the figures came about."""
    return README.format(
        quick=" QUICK=1" if options.quick else "", budget=options.budget, overhead=OVERHEAD_BYTES >> 20,
        shares=", ".join(f"{share:.0%}" for share in options.shares), rows=options.rows,
        iterations=options.iterations, changing=CHANGING, cycles=options.cycles, scans=SCANS,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
