"""`make bench B=spark-split`: one budget for heap and pool, split by hand in five ways or by the controller.

Each workload of spark-ml, and a job whose phases change (shuffles that fill the heap, then scans of cached data), is
run with every split in interleaved rounds. It ends with `result: {json}`; a figure that was not measured is null.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

import splits
from harness import contest, learnable, passes
from harness.contest import CACHE_TIMEOUT_S, Player
from harness.course import Course
from harness.statistics import median_of, rounded
from harness.training import Place
from harness.workloads import NAMES, ROW_BYTES, Size, Workload, workload

MIB = 1 << 20
# What a JVM needs beside heap and pool, with the Python driver; where it takes more, the controller gives out less.
OVERHEAD_BYTES = 576 * MIB
CHANGING = "changing"
ROUNDS, ROUNDS_QUICK = 2, 1


@dataclass(frozen=True)
class Phases:
    """How the changing job goes: in each cycle so many shuffles, then so many scans."""

    cycles: int
    shuffles: int
    scans: int


# A minute and a half, so that what a phase's first seconds cost is a small part of it.
PHASES, PHASES_QUICK = Phases(1, 8, 120), Phases(1, 1, 8)
# For each row that is cached. Their groups live on the heap, some 24 bytes for each number: a quarter of the budget.
SHUFFLED_ROWS = 6
README = """# spark-split

`make bench B=spark-split{quick}`, on the machine described in `raw.json`, which has all figures. Every engine is Spark
4.3 with Warmset in a memory cgroup of {budget} MiB of heap and pool together, plus {overhead} MiB for what a JVM needs
besides. Some have a fixed heap ({shares} of the budget); one has `spark.warmset.totalMemory`. All have G1 with regions
of 4 MiB. Each runs each workload asked for ({rows} rows, {iterations} iterations) once a round, alone, in a new
process, after a warm-up on a part of the data (not in the quick form). A round is every split once; there are {rounds}.
A workload's time is the median of its passes but the first two. `{changing}` runs {cycles} times {shuffles} shuffles
that fill the heap and {scans} scans of a cached table; its time is the whole. A ratio is the best fixed split's median
over the rounds, over the controller's.
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
    parser.add_argument("--rounds", type=int, help="how often every split runs each job")
    parser.add_argument(
        "--resume", metavar="RAW", help="keep the jobs that an interrupted run wrote to its raw.json; run the rest"
    )
    options = parser.parse_args()
    quick = options.quick
    options.jobs = (options.jobs or ",".join((*(NAMES if not quick else ("lgr",)), CHANGING))).split(",")
    for name in options.jobs:
        if name not in names:
            parser.error(f"--jobs: {name} is none of {', '.join(names)}")
    finished = kept(options).get("jobs", {})
    options.jobs = [name for name in options.jobs if name not in finished]
    options.rows = options.rows or (500_000 if quick else 3_000_000)
    options.files = 8 if quick else 40
    options.budget = options.budget or (768 if quick else 1600)
    options.iterations = options.iterations or (12 if quick else 40)
    options.rounds = options.rounds or (ROUNDS_QUICK if quick else ROUNDS)
    phases = PHASES_QUICK if quick else PHASES
    options.cycles, options.shuffles, options.scans = phases.cycles, phases.shuffles, phases.scans
    options.shares = splits.SHARES_QUICK if quick else splits.SHARES
    options.cpus = min(2, len(os.sched_getaffinity(0)))
    return options


def kept(options: argparse.Namespace) -> dict:
    """What an interrupted run wrote."""
    return json.loads(Path(options.resume).read_text()) if options.resume else {}


def main() -> int:
    """Runs all jobs with all splits; exit code 1 if the controller failed somewhere or results differ."""
    options = parse()
    course = Course("spark-split", readme(options), "jobs", figures, table, sound, kept(options))
    plays = options.rounds * len(options.jobs) * len(splits.of_shares(options.shares))
    return course.run(options, 1 + plays, measure)


def measure(options: argparse.Namespace, place: Place) -> Iterator[tuple[str, dict]]:
    """Job by job, and in each round the splits in another order: a machine that slows down slows all of them."""
    contestants = splits.of_shares(options.shares)
    place.progress.step(f"generating {options.rows} rows of numbers (kept in data/)")
    size = Size(learnable.table(options.rows, options.files), options.rows, options.files, options.iterations)
    for job in jobs(options, size):
        plays: dict[str, list[dict]] = {split.name: [] for split in contestants}
        for number in range(options.rounds):
            at = number * len(contestants) // options.rounds
            for split in [*contestants[at:], *contestants[:at]]:
                plays[split.name].append(play(split, job, size, options.budget * MIB, place))
        yield job.name, {name: together(rounds) for name, rounds in plays.items()}


def together(rounds: list[dict]) -> dict:
    """A split's rounds as one: the median of its times, and none if it failed in one of them."""
    seconds = [each["seconds"] for each in rounds]
    return {"seconds": None if None in seconds else median_of(seconds), "rounds": rounds}


def jobs(options: argparse.Namespace, size: Size) -> Iterator[Job]:
    """The jobs that were asked for."""
    for name in options.jobs:
        if name == CHANGING:
            yield changing(size, Phases(options.cycles, options.shuffles, options.scans))
        else:
            small = None if options.quick else workload(name, size.small())
            yield training(workload(name, size), small)


def training(job: Workload, small: Workload | None) -> Job:
    """A fit, after a warm-up on a part of the data if there is one."""

    def play(player: Player) -> dict | None:
        if small is not None:
            player.ask(f"{job.name} on a part", small.timeout_s, **small.request(0))
        return player.ask(job.name, job.timeout_s, **job.request(0))

    return Job(job.name, play, lambda answer: passes.median_s([answer], job))


def changing(size: Size, phases: Phases) -> Job:
    """Phases over a cached table as large as the rows."""
    rows = size.rows * ROW_BYTES // 64

    def play(player: Player) -> dict | None:
        columns = ", ".join(f"rand({number}) as d{number}" for number in range(8))
        query = f"select {columns} from range(0, {rows}, 1, {size.partitions})"
        player.ask("cache", CACHE_TIMEOUT_S, op="cache", name="numbers", query=query, level="MEMORY_AND_DISK_DESER")
        message = {"op": "phases", "table": "numbers", "rows": size.rows * SHUFFLED_ROWS, **asdict(phases)}
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
    """Whether the controller finished, and all that finished came to the same, numbers to eight digits."""
    rows = [each["rows"] for run in runs.values() for each in run["rounds"] if each["rows"] is not None]
    return runs[splits.CONTROLLER]["seconds"] is not None and all(contest.same(each, rows[0]) for each in rows)


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
        iterations=options.iterations, rounds=options.rounds, changing=CHANGING, cycles=options.cycles,
        shuffles=options.shuffles, scans=options.scans,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
