"""What the demo says: the figures, the table side by side, and how the raw results came about."""

from __future__ import annotations

import argparse
import math

from harness import queries
from harness.contest import Player
from harness.statistics import rounded


def total_seconds(player: Player) -> float:
    """The whole job: caching, then every timed run; NaN if it was not finished."""
    if player.died is not None or player.materialise is None:
        return math.nan
    return player.materialise["seconds"] + sum(
        timing["seconds"] for timings in player.timings.values() for timing in timings
    )


def outcome(player: Player) -> float | str | None:
    """Seconds, or what it died of: `oom` for want of memory."""
    if player.died is None:
        return rounded(total_seconds(player), 1)
    return "oom" if player.died.of_memory else player.died.reason


def figures(stock: Player, warmset: Player, equal: bool | None) -> dict:
    """The result line."""
    speedup = total_seconds(stock) / total_seconds(warmset)
    return {
        "speedup": rounded(speedup, 2),
        "stock": outcome(stock),
        "warmset": outcome(warmset),
        "rows_equal": equal if warmset.died is None else False,
    }


def table(stock: Player, warmset: Player, options: argparse.Namespace, budget: int, limit: int) -> str:
    """The table side by side, and a line on each engine that died."""
    grouped = f"each in a memory cgroup of {limit >> 20} MiB" if stock.group else "without a memory cgroup"
    lines = [
        f"lineitem at scale {options.scale:g}, cached; {budget >> 20} MiB of heap and pool, {grouped}",
        "",
        f"{'':14}{'stock Spark':>14}{'Warmset':>12}{'faster':>10}",
    ]
    rows = [("cache it", seconds_of_cache(stock), seconds_of_cache(warmset))]
    rows += [(query.name, stock.median(query.name), warmset.median(query.name)) for query in queries.ALL]
    rows += [("whole job", total_seconds(stock), total_seconds(warmset))]
    for name, left, right in rows:
        ratio = "" if math.isnan(left / right) else f"{left / right:.2f} x"
        lines.append(f"{name:14}{shown(left):>14}{shown(right):>12}{ratio:>10}")
    for player in (stock, warmset):
        if player.died is not None:
            what = "ran out of memory" if player.died.of_memory else "failed"
            lines.append(f"\n{player.spec.title} {what} at step `{player.died.step}`: {player.died.detail}")
    return "\n".join(lines)


def seconds_of_cache(player: Player) -> float:
    """How long caching took; NaN if it was not finished."""
    return player.materialise["seconds"] if player.materialise else math.nan


def shown(seconds: float) -> str:
    """A time for people."""
    return "-" if math.isnan(seconds) else f"{seconds:.2f} s"


def readme(options: argparse.Namespace, cpus: int, budget: int, limit: int) -> str:
    """How the raw figures came about."""
    quick = " QUICK=1" if options.quick else ""
    return f"""# demo

`make demo{quick}` on the machine described in `raw.json`. TPC-H `lineitem` at scale {options.scale:g} (prices as
doubles) is cached by stock Spark 4.2 (`df.cache()`, {budget >> 20} MiB of heap) and by Spark with Warmset
({budget >> 20} MiB of heap and pool), each in local mode on {cpus} cores, in a process and a memory cgroup of
{limit >> 20} MiB of its own.
Five queries are run in interleaved rounds, each as a new query object: one warm-up, then {options.rounds} that count.
At the end they are asked once of the Parquet files, without plugin and cache, for the rows to compare with.
`raw.json` has every run, the configurations, and what died of what; `chart.png` shows the medians.
"""
