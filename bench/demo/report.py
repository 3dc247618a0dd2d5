"""What the demo says: the figures, the tables side by side, and how the raw results came about."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import mean

from harness import contest, queries
from harness.contest import Player
from harness.statistics import rounded

TITLES = {"stock": "stock `cache()`", "parquet": "Parquet, no cache", "warmset": "Warmset"}


def named(players: Sequence[Player]) -> dict[str, Player]:
    """The players by the names of their engines."""
    return {player.spec.name: player for player in players}


def fill_s(player: Player) -> float:
    """How long caching took; nothing where nothing is cached, NaN if it was not finished."""
    if player.spec.level is None:
        return 0.0
    return player.materialise["seconds"] if player.materialise else math.nan


def total_s(player: Player) -> float:
    """The whole job: caching, then every timed run; NaN if it was not finished."""
    if player.died is not None:
        return math.nan
    return fill_s(player) + sum(timing["seconds"] for timings in player.timings.values() for timing in timings)


def pace_s(player: Player) -> float:
    """Seconds of the mean query, each at its median; NaN if one was not answered."""
    return mean(player.median(query.name) for query in queries.ALL)


def break_even(player: Player, uncached: Player) -> float | None:
    """After how many queries caching has paid, against reading the files each time; `None`: never, or unknown."""
    saved_s = pace_s(uncached) - pace_s(player)
    return rounded(fill_s(player) / saved_s, 1) if saved_s > 0 else None


def outcome(player: Player) -> float | str | None:
    """Seconds, or what it died of: `oom` for want of memory."""
    if player.died is None:
        return rounded(total_s(player), 1)
    return "oom" if player.died.of_memory else player.died.reason


def figures(players: Sequence[Player]) -> dict:
    """The result line."""
    by_name = named(players)
    stock, parquet, warmset = (by_name[name] for name in ("stock", "parquet", "warmset"))
    equal = contest.answers_equal(players, queries.ALL)
    return {
        "speedup": rounded(total_s(stock) / total_s(warmset), 2),
        "vs_parquet": rounded(total_s(parquet) / total_s(warmset), 2),
        **{name: outcome(by_name[name]) for name in ("stock", "parquet", "warmset")},
        "break_even_stock": break_even(stock, parquet),
        "break_even_warmset": break_even(warmset, parquet),
        "rows_equal": equal if warmset.died is None else False,
    }


def tables(players: Sequence[Player], raw: dict) -> str:
    """Seconds side by side, the whole job first, and a line on each engine that died."""
    by_name = named(players)
    stock, parquet, warmset = (by_name[name] for name in ("stock", "parquet", "warmset"))
    rows = [("**whole job**", *map(total_s, (stock, parquet, warmset)))]
    rows += [("cache it", *map(fill_s, (stock, parquet, warmset)))]
    rows += [
        (query.name, *(player.median(query.name) for player in (stock, parquet, warmset))) for query in queries.ALL
    ]
    lines = [
        f"| seconds | {' | '.join(TITLES.values())} | stock / Warmset | Parquet / Warmset |",
        "|---|---|---|---|---|---|",
    ]
    for name, *seconds in rows:
        ratios = [theirs / seconds[2] if theirs else math.nan for theirs in seconds[:2]]
        lines.append(f"| {name} | {' | '.join(shown(each) for each in (*seconds, *ratios))} |")
    lines.append("")
    for player in (stock, warmset):
        found = raw["result"][f"break_even_{player.spec.name}"]
        if player.died is None and parquet.died is None:
            paid = "never pays" if found is None else f"has paid after {found:.0f} queries"
            lines.append(f"{TITLES[player.spec.name]}: the cache {paid}, against reading Parquet each time.")
    for player in players:
        if player.died is not None:
            what = "ran out of memory" if player.died.of_memory else "failed"
            lines.append(f"{player.spec.title} {what} at step `{player.died.step}`: {player.died.detail}")
    return "\n".join(lines)


def shown(value: float) -> str:
    """A figure for people."""
    return "–" if math.isnan(value) else f"{value:.2f}"


def readme(players: Sequence[Player], raw: dict) -> str:
    """The page of the run."""
    options, machine = raw["options"], raw["machine"]
    quick = " QUICK=1" if options["quick"] else ""
    limit = players[0].limit_bytes >> 20
    heap = named(players)["parquet"].spec.conf["spark.driver.memory"]
    grouped = f"in a memory cgroup of {limit} MiB" if players[0].group else "without a memory cgroup"
    return f"""# demo

`make demo{quick}` on {machine["cpu_model"]}, {machine["cpus"]} cores, kernel {machine["kernel"]}, {machine["java"]},
Spark {players[0].version}, commit {machine["commit"]}.

{tables(players, raw)}

![medians](chart.png)

## How it was measured
TPC-H `lineitem` at scale {options["scale"]:g} (prices as doubles) is cached by stock Spark (`df.cache()`,
{options["memory"]} MiB of heap) and by Spark with Warmset ({options["memory"]} MiB of heap and pool), and read from
its Parquet files, without a cache, by a third Spark ({heap} of heap, the rest being page cache). Each is in local mode,
in a process of its own, {grouped}. The Parquet files are evicted first, so that their pages are charged to the engine
that reads them again and again. Nothing is tuned: `make bench B=spark-sql` searches for the best. Five
queries are run in interleaved rounds, each as a new query object: one warm-up, then {options["rounds"]} that count. The
whole job is caching and all timed runs; the others are medians. A cache has paid when what it saves in each query, at
the medians, has made up for filling it. `raw.json` has every run, the configurations, and what died of what.
"""
