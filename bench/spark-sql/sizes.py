"""Footprint and materialising: how large the cache is, and how long making it takes.

The footprint is taken on `lineitem` as the generator writes it, decimals and all, against stock's compressed cache.
Materialising is timed in interleaved rounds, with prices in the form that was asked for, against stock's uncompressed
cache. Huge pages are counted at its end, when the Java heap has been used.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

from harness import contest, data, engines
from harness.contest import CACHE_TIMEOUT_S, START_TIMEOUT_S, Player
from harness.progress import Progress
from harness.statistics import median_of, rounded
from options import MIB, OVERHEAD_BYTES, Options


def play(options: Options, logs: Path, scratch: Path, progress: Progress) -> dict:
    """Runs both measurements."""
    memory_bytes = int(max(2048, 2600 * options.sizes_scale)) * MIB
    with ExitStack() as stack:
        players = {}
        for maker in ("warmset", "stock", "uncompressed"):
            spec = engines.MAKERS[maker](memory_bytes, options.cpus, scratch / "sizes" / maker)
            progress.step(f"sizes: starting {spec.title}")
            players[maker] = contest.open_player(stack, spec, memory_bytes + OVERHEAD_BYTES, logs, scratch / "sizes")
        footprints = {name: footprint(players[name], options, progress) for name in ("warmset", "stock")}
        seconds = materialise([players["warmset"], players["uncompressed"]], options, progress)
        pages = players["warmset"].ask("count huge pages", 60, op="pages") or {}
    ours, theirs = cached_bytes(footprints["warmset"]), cached_bytes(footprints["stock"])
    statistics = (footprints["warmset"] or {}).get("warmset") or {}
    return {
        "footprint_ratio": rounded(ours / theirs if theirs else None),
        "materialise_ratio": rounded(median_of(seconds["warmset"]) / median_of(seconds["uncompressed"])),
        "huge_fraction": rounded(huge_fraction(statistics)),
        "heap_huge_bytes": pages.get("heap_huge_bytes"),
        "footprints": footprints,
        "materialise_seconds": seconds,
        "scale": options.sizes_scale,
    }


def footprint(player: Player, options: Options, progress: Progress) -> dict | None:
    """Caches the raw table once and forgets it; answers with its storage."""
    progress.step(f"sizes: footprint of lineitem with decimals: {player.spec.title}")
    path = data.table("lineitem", min(1.0, options.sizes_scale), "raw")
    player.ask("open lineitem", START_TIMEOUT_S, op="table", name="raw_files", path=str(path))
    answer = player.ask(
        "materialise raw",
        CACHE_TIMEOUT_S,
        op="cache",
        name="raw",
        query="select * from raw_files",
        level=player.spec.level,
    )
    player.ask("forget raw", 60, op="uncache", name="raw")
    return answer and answer["storage"]


def cached_bytes(storage: dict | None) -> float:
    """True bytes of a cache: the store's where there is one, else Spark's account."""
    if storage is None:
        return float("nan")
    store = storage["warmset"]
    if store:
        # Whole frames while all is resident; else the bytes themselves, since a frame may also be on disk.
        return store["used_bytes"] if store["written_bytes_total"] == 0 else store["live_bytes"]
    return storage["memory_bytes"] + storage["disk_bytes"]


def huge_fraction(statistics: dict) -> float:
    """Which part of the pool's faulted bytes is on huge pages."""
    pool = statistics.get("pool_bytes")
    return statistics["huge_bytes"] / pool if pool else float("nan")


def materialise(players: list[Player], options: Options, progress: Progress) -> dict[str, list[float]]:
    """Caches and forgets the table in turns; the first round is a warm-up."""
    path = data.table("lineitem", options.sizes_scale, options.form)
    seconds: dict[str, list[float]] = {player.spec.name: [] for player in players}
    for player in players:
        player.ask("open lineitem", START_TIMEOUT_S, op="table", name="lineitem_files", path=str(path))
    for number in range(options.rounds + 1):
        for player in players if number % 2 == 0 else reversed(players):
            progress.step(f"sizes: materialising, round {number}: {player.spec.title}")
            answer = player.ask(
                "materialise", CACHE_TIMEOUT_S, op="cache", name="lineitem", query="select * from lineitem_files",
                level=player.spec.level,
            )  # fmt: skip
            player.ask("forget lineitem", 60, op="uncache", name="lineitem")
            if answer is not None and number > 0:
                seconds[player.spec.name].append(answer["seconds"])
    return seconds
