"""A job: an engine started in its memory cgroup, all tables cached, then passes over the queries.

Invariant: a job that is written down was played to its end, or until its engine died, which is written down with it.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import choices
import work
from answers import Answers, ordered
from choices import Setting
from harness import coldstart, contest
from harness.contest import CACHE_TIMEOUT_S, START_TIMEOUT_S, Player
from options import Options, Size

# What may stay of files that were evicted: a page here and there that is just being looked at.
RESIDENT_FRACTION_MAX = 0.01


@dataclass(frozen=True)
class Stage:
    """Where jobs run: their data, logs, scratch space, and the answers known so far."""

    options: Options
    logs: Path
    scratch: Path
    answers: Answers


def play(stage: Stage, size: Size, engine: str, setting: Setting | None, passes: int, names: Sequence[str]) -> dict:
    """Plays one job; `setting` is `None` for engines that are not Spark. Answers with all that was measured."""
    options = stage.options
    scratch = stage.scratch / f"{engine}-{time.monotonic_ns()}"
    if setting is None:
        spec = choices.peer(engine, size.limit_bytes, options.cpus, scratch)
    else:
        spec = choices.spec(setting, size.limit_bytes, options.cpus, scratch)
    # It reads the files, which puts them in the page cache, and charges nobody here for it.
    tables = work.tables(size.scale, options.form)
    if options.charge_files:
        uncharge(tables)
    with ExitStack() as stack:
        player = contest.open_player(stack, spec, size.limit_bytes, stage.logs, scratch)
        fill_s, storage, fills = fill(player, tables)
        timings = [one_pass(stage, player, size, number, names) for number in range(passes) if player.alive]
    complete = [len(each) == len(names) for each in timings]
    return {
        "engine": engine,
        "size": size.name,
        "setting": setting and setting.raw(),
        "version": player.version,
        "start_s": player.start_s,
        "fill_s": fill_s,
        "fills": fills,
        "storage": storage,
        "passes": timings,
        "complete": len(complete) == passes and all(complete),
        "peak_bytes": player.peak_bytes,
        "died": None if player.died is None else {"reason": player.died.reason, "step": player.died.step,
                                                  "detail": player.died.detail},
    }  # fmt: skip


def uncharge(tables: dict[str, Path]) -> None:
    """Evicts the tables' files, so that whoever reads them next is charged for their pages.

    Raises `RuntimeError` if pages stayed: they are charged to nobody here, and a figure would be of something else.
    """
    files = [file for directory in tables.values() for file in directory.iterdir()]
    coldstart.evict(map(str, files))
    left = coldstart.resident_fraction(files)
    if left > RESIDENT_FRACTION_MAX:
        raise RuntimeError(
            f"{left:.0%} of the Parquet files in data/ stayed in the page cache after they were evicted: another "
            "program reads or maps them; end it and run the same command again"
        )


def fill(player: Player, tables: dict[str, Path]) -> tuple[float, dict | None, dict[str, float]]:
    """Makes the tables known, and caches each if the engine caches: seconds in all, what the cache takes, by table."""
    seconds: dict[str, float] = {}
    storage = None
    started = time.perf_counter()
    for name, path in tables.items():
        cached = player.spec.level is not None
        view = f"{name}_files" if cached else name
        player.ask(f"open {name}", START_TIMEOUT_S, op="table", name=view, path=str(path))
        if cached:
            query = f"select * from {view}"
            answer = player.ask(
                f"cache {name}", CACHE_TIMEOUT_S, op="cache", name=name, query=query, level=player.spec.level
            )
            if answer is not None:
                seconds[name], storage = answer["seconds"], answer["storage"]
    return time.perf_counter() - started, storage, seconds


def one_pass(stage: Stage, player: Player, size: Size, number: int, names: Sequence[str]) -> dict[str, dict]:
    """One pass: what each query cost, whether its rows are those that other engines gave, and in order."""
    found = {}
    for asked in work.queries(player.spec.name, size.scale, number):
        if asked.name not in names:
            continue
        answer = player.ask(asked.name, work.TIMEOUT_S, op="query", text=asked.text)
        if answer is None:
            break
        rows = answer.pop("rows", None)
        if rows is not None:
            answer["ordered"] = ordered(rows, asked.ordering)
            answer["equal"] = stage.answers.equal(f"{size.scale:g}/{stage.options.form}/{number}/{asked.name}", rows)
        found[asked.name] = answer
    return found


def seconds_of(one: dict[str, dict]) -> dict[str, float]:
    """Seconds by query, of those that were answered."""
    return {name: each["seconds"] for name, each in one.items() if "seconds" in each}


def whole_s(job: dict, queries: tuple[str, ...] = work.TPCH) -> float | None:
    """The whole job: caching all tables and all passes over these queries; `None` if not all of it was finished."""
    answered = all("seconds" in each for one in job["passes"] for each in one.values())
    if job["died"] or not job["complete"] or not answered:
        return None
    return job["fill_s"] + sum(one[query]["seconds"] for one in job["passes"] for query in queries)


def cache_bytes(job: dict) -> int | None:
    """What the cache takes: what Spark accounts in memory and on disk, and the store's bytes where there is one."""
    if job["storage"] is None:
        return None
    store = job["storage"]["warmset"]
    ours = store["live_bytes"] if store else 0
    return ours + job["storage"]["memory_bytes"] + job["storage"]["disk_bytes"]
