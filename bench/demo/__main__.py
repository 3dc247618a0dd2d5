"""`make demo`: caches TPC-H data that outgrows memory, in stock Spark and with Warmset, at the same total memory.

It prints a table side by side, saves a chart, says where stock Spark ran out of memory, and ends with `result: {json}`.
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
from harness import contest, data, engines, groups, queries
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe
from harness.progress import Progress

MIB = 1 << 20
# What a JVM in local mode needs beside its heap (metaspace, code, stacks, the collector's tables), with the Python
# driver and a little page cache.
OVERHEAD_BYTES = 576 * MIB


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument("--scale", type=float, help="TPC-H scale factor (default 4; 0.25 with --quick)")
    parser.add_argument(
        "--memory", type=int, metavar="MIB", help="heap and pool together (default 1024; 672 with --quick)"
    )
    parser.add_argument("--rounds", type=int, help="how often each query is timed (default 5; 2 with --quick)")
    options = parser.parse_args()
    options.scale = options.scale or (0.25 if options.quick else 4.0)
    options.memory = options.memory or (672 if options.quick else 1024)
    options.rounds = options.rounds or (2 if options.quick else 5)
    return options


def main() -> int:
    """Runs the demo; exit code 1 if Warmset failed, or if its answers are not known to be right."""
    end_in_order()
    options = parse()
    cpus = min(2, len(os.sched_getaffinity(0)))
    budget = options.memory * MIB
    run = Run.create("demo", options.quick)
    progress = Progress(total=5 + len(queries.ALL) * (2 * options.rounds + 3))
    if groups.find_place() is None:
        progress.note(groups.why_none())
    progress.step(f"generating TPC-H lineitem, scale {options.scale:g} (kept in data/)")
    tables = {name: data.table(name, options.scale) for name in ("lineitem", "supplier")}
    with tempfile.TemporaryDirectory(prefix="warmset-demo-", dir=ROOT / "target") as directory:
        scratch = Path(directory)
        with ExitStack() as stack:
            players = []
            for maker in (engines.stock, engines.warmset):
                spec = engines.for_small_heap(maker(budget, cpus, scratch / maker.__name__))
                progress.step(f"starting Spark: {spec.title}")
                players.append(contest.open_player(stack, spec, budget + OVERHEAD_BYTES, run.logs(), scratch))
            for player in players:
                progress.step(f"caching lineitem: {player.spec.title}")
                contest.load(player, tables, cached=["lineitem"])
            contest.play(players, queries.ALL, options.rounds, 1, progress)
            stored = {player.spec.name: player.ask("storage", 60, op="storage") for player in players}
        with ExitStack() as stack:
            # What the rows must be, also where stock Spark dies of its cache.
            spec = engines.parquet(budget, cpus, scratch / "reference")
            reference = contest.open_player(stack, spec, budget + OVERHEAD_BYTES, run.logs(), scratch)
            contest.load(reference, tables, cached=[])
            contest.play([reference], queries.ALL, 1, 0, progress)
    progress.finish()
    stock, warmset = players
    equal = contest.answers_equal([*players, reference], queries.ALL)
    figures = report.figures(stock, warmset, equal)
    raw = {"machine": describe(), "options": vars(options), "storage": stored, "result": figures}
    run.write("raw.json", {**raw, "engines": [player.raw() for player in (*players, reference)]})
    run.write("README.md", report.readme(options, cpus, budget, budget + OVERHEAD_BYTES))
    print(report.table(stock, warmset, options, budget, budget + OVERHEAD_BYTES))
    chart.save(stock, warmset, options, run.directory / "chart.png")
    print(f"chart: {run.shown('chart.png')}\nraw figures: {run.shown('raw.json')}")
    print(f"result: {json.dumps(figures)}")
    return 0 if warmset.died is None and equal else 1


if __name__ == "__main__":
    sys.exit(main())
