"""The two regimes: the cache outgrows memory, or fits. Warmset plays against every stock engine in interleaved rounds.

Engines that do not fit the machine's memory together play in batches; Warmset plays in each of them, and a stock
engine is compared with Warmset's rounds of the same batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness import contest, engines, queries
from harness.contest import Player
from harness.progress import Progress
from harness.statistics import geomean
from options import FITS_OVERHEAD_BYTES, OVERHEAD_BYTES, Options

# An engine that is this much slower than the best stock engine on every query in the first round is not timed further.
HOPELESS = 1.6


@dataclass
class Outcome:
    """What a regime measured."""

    name: str
    memory_bytes: int
    batches: list[list[Player]]
    storage: dict[str, dict]

    def warmset(self) -> Player:
        """Warmset in the first batch."""
        return self.batches[0][0]

    def ratios(self, what: str = "seconds") -> dict[str, float]:
        """For each query, the best stock engine's median over Warmset's of the same batch."""
        found: dict[str, float] = {}
        for query in queries.ALL:
            per_engine = [
                player.median(query.name, what) / batch[0].median(query.name, what)
                for batch in self.batches
                for player in batch[1:]
                if player.timings.get(query.name) and not player.dropped and batch[0].timings.get(query.name)
            ]
            if per_engine:
                found[query.name] = min(per_engine)
        return found

    def equal(self) -> bool | None:
        """Whether all engines gave the same answers; `None` if no stock engine gave them all."""
        return contest.answers_equal([player for batch in self.batches for player in batch], queries.ALL)

    def raw(self) -> dict:
        """Everything, for the raw results."""
        return {
            "regime": self.name,
            "memory_bytes": self.memory_bytes,
            "batches": [[player.raw() for player in batch] for batch in self.batches],
            "storage": self.storage,
            "ratios": self.ratios(),
            "task_cpu_ratios": self.ratios("task_cpu_s"),
            "geomean": geomean(self.ratios().values()),
            "answers_equal": self.equal(),
        }


def batches_of(names: Sequence[str], group_bytes: int) -> list[list[str]]:
    """Splits the stock engines so that each batch, with Warmset, fits the machine."""
    size = max(1, int(contest.MEMORY_SHARE * contest.available_bytes() // group_bytes) - 1)
    return [list(names[start : start + size]) for start in range(0, len(names), size)]


def play(
    name: str,
    memory_bytes: int,
    options: Options,
    tables: dict[str, Path],
    logs: Path,
    scratch: Path,
    progress: Progress,
) -> Outcome:
    """Runs one regime."""
    outcome = Outcome(name, memory_bytes, [], {})
    best: dict[str, float] = {}
    group_bytes = memory_bytes + (OVERHEAD_BYTES if name == "overflow" else FITS_OVERHEAD_BYTES)
    for number, names in enumerate(batches_of(options.engines, group_bytes)):
        with ExitStack() as stack:
            players = []
            for maker in ("warmset", *names):
                place = scratch / f"{name}-{number}"
                spec = engines.MAKERS[maker](memory_bytes, options.cpus, place / maker)
                if name == "overflow":
                    spec = engines.for_small_heap(spec)
                progress.step(f"{name}: starting and caching: {spec.title}")
                player = contest.open_player(stack, spec, group_bytes, logs, place)
                contest.load(player, tables, cached=["lineitem"])
                players.append(player)
            outcome.batches.append(players)
            progress.total += (options.rounds + options.warmups) * len(players) * len(queries.ALL)

            def after_round(done: int, players: list[Player] = players) -> None:
                if done == 1 and not options.keep_all:
                    for dropped in contest.drop_hopeless(players, queries.ALL, HOPELESS, best):
                        progress.note(
                            f"{name}: {dropped.spec.title} cannot be the best stock engine, not timed further"
                        )

            contest.play(players, queries.ALL, options.rounds, options.warmups, progress, after_round)
            for player in players:
                garbage = player.ask("collect garbage", 120, op="collect_garbage")
                outcome.storage[player.spec.name] = {
                    **(player.ask("storage", 60, op="storage") or {}),
                    **(garbage or {}),
                }
    return outcome
