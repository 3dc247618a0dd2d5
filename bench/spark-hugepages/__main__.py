"""`make bench B=spark-hugepages`: cached data on huge pages from birth, against none, all, and later ones.

A column of doubles is cached and read again and again, in order and at random, at three sizes. It ends with
`result: {json}`; a figure whose variant could not be run is null.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass
from statistics import mean

import promotion
import variants
from harness import contest
from harness.contest import CACHE_TIMEOUT_S, Player
from harness.course import Course
from harness.machine import lookups
from harness.progress import Progress
from harness.statistics import geomean, rounded
from harness.training import Place

MIB = 1 << 20
SMALL_BYTES = 32 * MIB
WARMUPS = 5
# What a JVM in local mode needs beside heap and pool, with the Python driver and a little page cache.
OVERHEAD_BYTES = 640 * MIB
README = """# spark-hugepages

`make bench B=spark-hugepages{quick}`, on the machine described in `raw.json`, which has all figures. A column of random
doubles ({sizes} MiB) is cached, and read where it lies {rounds} times in order and {rounds} times at random, in
interleaved rounds whose order rotates, by four engines that are alive at once: Warmset, with the same heap and pool.

{variants}

`late` is filled while the kernel gives no huge pages (`transparent_hugepage/enabled` is `never` meanwhile); from its
first read on, another process collapses its pool (MADV_COLLAPSE). A ratio is the mean time of all reads over that of
`birth`, promotion included; that over `off` is of reads at random at the largest size, the others are geometric means
over sizes and orders. At random, each of {cpus} tasks reads 8M values one after the other, anywhere in its partition,
which is its part of the data; the next place depends on the value that was read before. `plain` is what the same
lookups take in plain arrays outside of Spark, on base pages and on huge ones: the limit of this machine. `looks` has
where huge pages were, after the data were cached and after each round.
"""


@dataclass(frozen=True)
class Reading:
    """One way to read the column; played like a query."""

    name: str
    at_random: bool
    timeout_s: float = 600

    def request(self, _run: int) -> dict:
        """What the engine is asked."""
        return {"op": "columns", "name": "numbers", "at_random": self.at_random}


IN_ORDER, AT_RANDOM = Reading("in order", False), Reading("at random", True)
READINGS = (IN_ORDER, AT_RANDOM)


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make bench B=spark-hugepages", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument("--sizes", help="MiB of data, comma-separated (512,1024,2048; 64 with --quick)")
    parser.add_argument("--rounds", type=int, help="how often each way of reading is timed (10; 2 with --quick)")
    options = parser.parse_args()
    options.sizes = [int(size) for size in (options.sizes or ("64" if options.quick else "512,1024,2048")).split(",")]
    options.rounds = options.rounds or (2 if options.quick else 10)
    options.cpus = min(2, len(os.sched_getaffinity(0)))
    return options


def main() -> int:
    """Runs all sizes; exit code 1 if an engine failed or sums differ."""
    options = parse()
    steps = 8 * len(options.sizes) * (options.rounds + 1)
    course = Course("spark-hugepages", readme(options), "sizes", figures, table, lambda size: size["sound"])
    return course.run(options, steps, measure)


def measure(options: argparse.Namespace, place: Place) -> Iterator[tuple[str, dict]]:
    """Size by size."""
    trouble = promotion.why_not()
    if trouble:
        place.progress.note(trouble)
    names = [name for name in variants.TITLES if name != "late" or not trouble]
    for size in options.sizes:
        # Before and after, where figures matter: the machine has no engines then.
        plain = [lookups(size, options.cpus)]
        played = play(names, size * MIB, options, place)
        if not options.quick:
            plain.append(lookups(size, options.cpus))
        yield str(size), {**played, "plain": plain}


def play(names: list[str], data_bytes: int, options: argparse.Namespace, place: Place) -> dict:
    """One size: all variants alive at once."""
    with ExitStack() as stack:
        players = {}
        for name in names:
            place.progress.step(f"{data_bytes >> 20} MiB: caching: {variants.TITLES[name]}")
            scratch = place.scratch / str(data_bytes >> 20)
            spec = variants.spec(name, data_bytes, place.cpus, scratch / name)
            limit_bytes = int(variants.HEAP_BYTES + data_bytes / variants.FILL) + OVERHEAD_BYTES
            players[name] = contest.open_player(stack, spec, limit_bytes, place.logs, scratch)
            with promotion.base_pages_only() if name == "late" else nullcontext():
                warm_up(players[name], options)
                fill(players[name], data_bytes, place.cpus)
        looks = [look(players)]
        promoting = Promoting(players.get("late"))
        for name, player in players.items():
            if name == "late":
                promoting.start()
            first(player, promoting, place.progress)
        looks.append(look(players))
        everybody = list(players.values())
        contest.play(everybody, READINGS, options.rounds - 1, 0, place.progress, lambda _: looks.append(look(players)))
    sound = all(player.alive for player in everybody) and not contest.differences(everybody, READINGS)
    return {
        "seconds": {
            name: {way.name: mean_s(player, way) for way in READINGS} for name, player in players.items()
        },
        "promotion": {"seconds": promoting.seconds, "bytes": promoting.collapsed_bytes},
        "looks": looks,
        "sound": sound,
        "engines": {name: player.raw() for name, player in players.items()},
    }  # fmt: skip


def look(players: dict[str, Player]) -> dict[str, dict]:
    """Where huge pages are now: engine by engine those of the pool, the pool's bytes, and those of the rest."""
    found = {}
    for name, player in players.items():
        pages = player.ask("count huge pages", 60, op="pages") or {}
        store = (player.ask("storage", 60, op="storage") or {}).get("warmset") or {}
        found[name] = {
            "huge_bytes": store.get("huge_bytes"),
            "pool_bytes": store.get("pool_bytes"),
            "elsewhere_huge_bytes": pages.get("heap_huge_bytes"),
        }
    return found


def warm_up(player: Player, options: argparse.Namespace) -> None:
    """Reads a small column, so that no variant's first read compiles its code."""
    fill(player, SMALL_BYTES, options.cpus)
    for _ in range(1 if options.quick else WARMUPS):
        for reading in READINGS:
            player.ask("read a small column", reading.timeout_s, **reading.request(0))
    player.ask("forget a small column", 60, op="uncache", name="numbers")


def first(player: Player, promoting: Promoting, progress: Progress) -> None:
    """Each variant's first round is alone; `late` goes on until its pages are promoted."""
    contest.play([player], READINGS, 1, 0, progress)
    while promoting.is_alive() and player.alive:
        contest.play([player], READINGS, 1, 0, progress)


class Promoting(threading.Thread):
    """Collapses the pool of `late` while it is read."""

    def __init__(self, player: Player | None) -> None:
        super().__init__()
        self.pid = player and (player.ask("count huge pages", 60, op="pages") or {}).get("pid")
        self.seconds: float | None = None
        self.collapsed_bytes = 0

    def run(self) -> None:
        """In steps, until all is done."""
        if self.pid:
            started = time.perf_counter()
            self.collapsed_bytes = promotion.collapse(self.pid)
            self.seconds = time.perf_counter() - started


def fill(player: Player, data_bytes: int, cpus: int) -> None:
    """Caches the column."""
    query = f"select rand(7) as d0 from range(0, {data_bytes // 8}, 1, {cpus})"
    player.materialise = player.ask(
        "cache", CACHE_TIMEOUT_S, op="cache", name="numbers", query=query, level="MEMORY_AND_DISK_DESER"
    )


def mean_s(player: Player, reading: Reading) -> float | None:
    """The mean of all reads, the first ones too: what comes late has its price there."""
    seconds = [timing["seconds"] for timing in player.timings.get(reading.name, [])]
    return mean(seconds) if seconds else None


def figures(sizes: dict[str, dict]) -> dict:
    """The result line."""
    largest = sizes[max(sizes, key=int)] if sizes else None
    births = [look["birth"] for size in sizes.values() for look in size["looks"]]
    heaps = [each["elsewhere_huge_bytes"] for each in births]
    return {
        "birth_vs_off": rounded(ratio(largest, "off", AT_RANDOM) if largest else math.nan),
        "birth_vs_entire": rounded(mean_ratio(sizes, "entire")),
        "birth_vs_late": rounded(mean_ratio(sizes, "late")),
        "huge_fraction": rounded(
            min((each["huge_bytes"] / each["pool_bytes"] for each in births if each["pool_bytes"]), default=math.nan)
        ),
        "heap_huge_bytes": max((heap for heap in heaps if heap is not None), default=None),
    }


def ratio(size: dict, other: str, way: Reading) -> float:
    """The mean time of a read of that variant over that of `birth`; NaN if either has none."""
    theirs, ours = (size["seconds"].get(name, {}).get(way.name) for name in (other, "birth"))
    return theirs / ours if theirs and ours else math.nan


def mean_ratio(sizes: dict[str, dict], other: str) -> float:
    """The geometric mean over sizes and orders; NaN if one is missing."""
    return geomean([ratio(size, other, way) for size in sizes.values() for way in READINGS])


def table(sizes: dict[str, dict]) -> str:
    """Mean seconds of a read, a variant per line."""
    lines = [
        f"{'MiB':>6}  {'huge pages':28}"
        + "".join(f"{way.name:>12}" for way in READINGS)
        + f"{'huge MiB':>12}{'in the end':>12}"
    ]
    for size, found in sizes.items():
        for name, seconds in found["seconds"].items():
            cells = "".join(f"{seconds[way.name]:12.3f}" if seconds[way.name] else f"{'-':>12}" for way in READINGS)
            huge = [(each[name]["huge_bytes"] or 0) >> 20 for each in (found["looks"][0], found["looks"][-1])]
            lines.append(f"{size:>6}  {variants.TITLES[name]:28}{cells}{huge[0]:>12}{huge[1]:>12}")
        plain = ", ".join(f"{each['ratio']:.2f}" for each in found["plain"])
        lines.append(f"{size:>6}  plain arrays at random, base pages over huge ones: {plain}")
    return "\n".join(lines)


def readme(options: argparse.Namespace) -> str:
    """How the figures came about."""
    titles = "\n".join(f"- `{name}`: {title}" for name, title in variants.TITLES.items())
    sizes = ", ".join(map(str, options.sizes))
    return README.format(
        quick=" QUICK=1" if options.quick else "",
        sizes=sizes,
        rounds=options.rounds,
        variants=titles,
        cpus=options.cpus,
    )


if __name__ == "__main__":
    sys.exit(main())
