"""Engines that play the same queries in interleaved rounds, each in a process and a memory cgroup of its own.

Invariant: in every round each living engine runs each query once, and the order of the engines rotates, so that a
machine that slows down slows all of them. The first rounds are warm-ups and are not kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from harness.engines import Spec
from harness.groups import MemoryCgroup, memory_cgroup
from harness.process import Engine, EngineDied
from harness.progress import Progress
from harness.queries import Query
from harness.statistics import median_of

START_TIMEOUT_S = 120
CACHE_TIMEOUT_S = 900
# Of the memory that is free, what the engines that are alive together may be granted.
MEMORY_SHARE = 0.85


@dataclass
class Player:
    """One engine, what it measured, and what it died of."""

    spec: Spec
    limit_bytes: int
    engine: Engine | None = None
    group: MemoryCgroup | None = None
    materialise: dict | None = None
    timings: dict[str, list[dict]] = field(default_factory=dict)
    answers: dict[str, list] = field(default_factory=dict)
    died: EngineDied | None = None
    peak_bytes: int | None = None
    # Of the engine that answers, as it says itself; and how long its start took, what it sets aside included.
    version: str | None = None
    start_s: float | None = None

    @property
    def alive(self) -> bool:
        """Whether it still plays."""
        return self.engine is not None and self.died is None

    def median(self, query: str, what: str = "seconds") -> float:
        """The median over the kept rounds."""
        return median_of([timing[what] for timing in self.timings.get(query, [])])

    def ask(self, step: str, timeout_s: float, **request: object) -> dict | None:
        """One request; `None` if the engine is dead or dies of it, which is remembered."""
        if not self.alive:
            return None
        try:
            return self.engine.call(step, timeout_s, **request)
        except EngineDied as died:
            self.died = died
            return None

    def note_peak(self) -> None:
        """Reads the group's peak while the group is there."""
        self.peak_bytes = self.group.peak_bytes() if self.group else None

    def raw(self) -> dict:
        """Everything that was measured, for the raw results."""
        return {
            "engine": self.spec.name,
            "title": self.spec.title,
            "conf": self.spec.conf,
            "level": self.spec.level,
            "version": self.version,
            "start_s": self.start_s,
            "group_limit_bytes": self.limit_bytes if self.group else None,
            "group_peak_bytes": self.peak_bytes,
            "materialise": self.materialise,
            "timings": self.timings,
            "died": None if self.died is None else {"reason": self.died.reason, "step": self.died.step,
                                                    "detail": self.died.detail},
        }  # fmt: skip


def available_bytes() -> int:
    """What `/proc/meminfo` says is available."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/meminfo has no MemAvailable")


def fit_together(limits_bytes: Sequence[int]) -> bool:
    """Whether engines with these limits may be alive at once."""
    return sum(limits_bytes) <= MEMORY_SHARE * available_bytes()


def open_player(stack: ExitStack, spec: Spec, limit_bytes: int, logs: Path, scratch: Path) -> Player:
    """Starts the engine; it is closed when the stack is."""
    player = Player(spec, limit_bytes)
    player.group = stack.enter_context(memory_cgroup(spec.name, limit_bytes))
    player.engine = Engine(spec, logs / f"{spec.name}.log", scratch / spec.name, player.group)
    stack.callback(player.engine.close)
    stack.callback(player.note_peak)
    started = time.perf_counter()
    answer = player.ask("start", START_TIMEOUT_S, op="start", conf=spec.conf)
    player.start_s = time.perf_counter() - started
    player.version = answer and answer["version"]
    return player


def load(player: Player, tables: dict[str, Path], cached: Sequence[str]) -> None:
    """Makes the tables known, and materialises those that are to be cached."""
    for name, path in tables.items():
        to_cache = name in cached and player.spec.level is not None
        view = f"{name}_files" if to_cache else name
        player.ask(f"open {name}", START_TIMEOUT_S, op="table", name=view, path=str(path))
        if to_cache:
            query = f"select * from {view}"
            player.materialise = player.ask(
                f"materialise {name}", CACHE_TIMEOUT_S, op="cache", name=name, query=query, level=player.spec.level
            )


def play(
    players: Sequence[Player],
    queries: Sequence[Query],
    rounds: int,
    warmups: int,
    progress: Progress,
    after_round: Callable[[int], None] = lambda _: None,
) -> None:
    """Runs the rounds."""
    for number in range(warmups + rounds):
        order = [*players[number % len(players) :], *players[: number % len(players)]]
        for query in queries:
            for player in filter(lambda each: each.alive, order):
                progress.step(f"{'warm-up' if number < warmups else 'round'} {query.name}: {player.spec.title}")
                run_once(player, query, number, keep=number >= warmups)
        if number >= warmups:
            after_round(number - warmups + 1)


def run_once(player: Player, query: Query, number: int, keep: bool) -> None:
    """One run of one query."""
    answer = player.ask(query.name, query.timeout_s, **query.request(number))
    if answer is None:
        return
    player.answers[query.name] = answer.pop("rows")
    if keep:
        player.timings.setdefault(query.name, []).append(answer)


def answers_equal(players: Sequence[Player], queries: Sequence[Query]) -> bool | None:
    """Whether all engines that answered a query gave the same rows; floats to nine digits.

    `None` if there is a query that Warmset, or everybody else, did not answer: then nothing was compared.
    """
    if differences(players, queries):
        return False

    def answered(query: Query, ours: bool) -> bool:
        return any(query.name in player.answers for player in players if player.spec.is_warmset is ours)

    return True if all(answered(query, ours) for query in queries for ours in (True, False)) else None


def differences(players: Sequence[Player], queries: Sequence[Query]) -> list[str]:
    """The queries on which engines disagree."""
    found = []
    for query in queries:
        known = [player.answers[query.name] for player in players if query.name in player.answers]
        if any(not same(known[0], other) for other in known[1:]):
            found.append(query.name)
    return found


def same(left: object, right: object) -> bool:
    """Equality of nested lists; floats may differ in the order of summation."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(same(a, b) for a, b in zip(left, right, strict=True))
    if isinstance(left, float) and isinstance(right, float):
        return abs(left - right) <= 1e-8 * max(abs(left), abs(right), 1.0)
    return left == right
