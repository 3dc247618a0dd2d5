"""`make demo`: TPC-H data that outgrows memory, cached by stock Spark and with Warmset, and read from Parquet without a
cache, each with the same total memory.

It prints a table side by side, saves a chart, says where stock Spark ran out of memory and after how many queries a
cache has paid, and ends with `result: {json}`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import chart
import report
from harness import coldstart, contest, data, engines, groups, queries
from harness.contest import Player
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe
from harness.progress import Progress

MIB = 1 << 20
# What a JVM in local mode needs beside its heap (metaspace, code, stacks, the collector's tables), with the Python
# driver and a little page cache.
OVERHEAD_BYTES = 576 * MIB
MAKERS = (engines.parquet, engines.stock, engines.warmset)


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument("--scale", type=float, help="TPC-H scale factor (default 4; 0.25 with --quick)")
    parser.add_argument(
        "--memory", type=int, metavar="MIB", help="heap and pool together (default 1024; 672 with --quick)"
    )
    parser.add_argument("--rounds", type=int, help="how often each query is timed (default 5; 2 with --quick)")
    options = parser.parse_args(arguments)
    options.scale = options.scale or (0.25 if options.quick else 4.0)
    options.memory = options.memory or (672 if options.quick else 1024)
    options.rounds = options.rounds or (2 if options.quick else 5)
    return options


def play(options: argparse.Namespace, logs: Path, scratch: Path, progress: Progress) -> list[Player]:
    """All engines, interleaved; each dies for itself."""
    cpus, budget = min(2, len(os.sched_getaffinity(0))), options.memory * MIB
    progress.step(f"generating TPC-H lineitem, scale {options.scale:g} (kept in data/)")
    tables = {name: data.table(name, options.scale) for name in ("lineitem", "supplier")}
    with ExitStack() as stack:
        players = []
        for maker in MAKERS:
            spec = engines.for_small_heap(maker(budget, cpus, scratch / maker.__name__))
            progress.step(f"starting Spark: {spec.title}")
            players.append(contest.open_player(stack, spec, budget + OVERHEAD_BYTES, logs, scratch))
        # The cgroup of whoever reads a page first is charged for it: of the one that reads it again and again.
        coldstart.evict(str(file) for directory in tables.values() for file in directory.iterdir())
        for player in players:
            progress.step(f"{'caching' if player.spec.level else 'opening'} lineitem: {player.spec.title}")
            contest.load(player, tables, cached=["lineitem"])
            if player.spec.level is None:
                contest.play([player], queries.ALL, 0, 1, progress)
        contest.play(players, queries.ALL, options.rounds, 1, progress)
    return players


def main() -> int:
    """Runs the demo; exit code 1 if Warmset failed, or if its answers are not known to be right."""
    end_in_order()
    options = parse()
    run = Run.create("demo", options.quick)
    progress = Progress(total=7 + len(queries.ALL) * (3 * options.rounds + 4))
    if groups.find_place() is None:
        progress.note(groups.why_none())
    with tempfile.TemporaryDirectory(prefix="warmset-demo-", dir=ROOT / "target") as directory:
        players = play(options, run.logs(), Path(directory), progress)
    progress.finish()
    figures = report.figures(players)
    raw = {
        "machine": describe(), "options": vars(options), "result": figures,
        "engines": [player.raw() for player in players],
    }  # fmt: skip
    run.write("raw.json", raw)
    run.write("README.md", report.readme(players, raw))
    print(report.tables(players, raw))
    chart.save(players, options, run.directory / "chart.png")
    print(f"chart: {run.shown('chart.png')}\nraw figures: {run.shown('raw.json')}")
    print(f"result: {json.dumps(figures)}")
    return 0 if isinstance(figures["warmset"], float) and figures["rows_equal"] else 1


if __name__ == "__main__":
    sys.exit(main())
