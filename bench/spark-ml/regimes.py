"""One regime: each workload is played by stock Spark and by Warmset in interleaved rounds, within the same total.

Invariant: a round is one whole fit of each engine, and the order rotates. Where the machine cannot hold both engines at
once they play one after the other, and the raw figures say so. In every sitting the engines are new processes: two that
are set alike differ by some per cent for as long as they live.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness import contest, passes
from harness.contest import Player
from harness.settings import Setting
from harness.statistics import ratio_interval, rounded
from harness.training import Engines
from harness.workloads import Size, Workload, workload

# Samples of what is cached and what is resident are not of one moment.
ALL = 0.99


@dataclass
class Duel:
    """What one workload's two engines measured."""

    workload: Workload
    settings: Sequence[Setting]
    together: bool
    players: list[Player] = field(default_factory=list)
    # By engine.
    results: dict[str, list] = field(default_factory=dict)

    def player(self, engine: str) -> Player:
        """The engine of that name."""
        return next(player for player in self.players if player.spec.name == engine)

    def take(self, players: Sequence[Player]) -> None:
        """Adds what the engines of one sitting measured."""
        for player in players:
            known = next((each for each in self.players if each.spec.name == player.spec.name), None)
            if known is None:
                self.players.append(player)
            elif known is not player:
                known.timings.setdefault(self.workload.name, []).extend(player.timings.get(self.workload.name, []))
                known.died = known.died or player.died

    def summary(self, engine: str) -> dict | None:
        """What a pass cost that engine."""
        return passes.summary(self.player(engine), self.workload)

    def ratio(self, what: str = "seconds") -> float:
        """Stock over Warmset; NaN if either has none, or Warmset's is nothing."""
        stock, ours = (self.summary(engine) for engine in ("stock", "warmset"))
        return stock[what] / ours[what] if stock and ours and ours[what] else float("nan")

    def interval(self) -> tuple[float, float] | None:
        """Of the ratio of passes, by resampling them."""
        timings = [self.player(engine).timings.get(self.workload.name, []) for engine in ("stock", "warmset")]
        return ratio_interval(
            *(
                [passes.seconds(job) for timing in found for job in passes.steady(timing, self.workload)]
                for found in timings
            )
        )

    @property
    def equal(self) -> bool | None:
        """Whether every fit of either engine came to the same result, numbers to eight digits.

        `None` if that cannot be said, since one engine finished none.
        """
        results = [result for found in self.results.values() for result in found]
        same = all(contest.same(result, results[0]) for result in results)
        return same if not same or len(self.results) == len(self.settings) else None

    @property
    def all_fits(self) -> bool:
        """Whether Spark put nothing on disk in either, and Warmset's pool held all that was in regions."""
        both = [self.summary(engine) or {} for engine in ("stock", "warmset")]
        live, resident = both[1].get("live_bytes"), both[1].get("resident_bytes")
        on_heap = all(each.get("disk_bytes") == 0 for each in both)
        return on_heap and live is not None and resident >= ALL * live

    @property
    def sound(self) -> bool:
        """Whether Warmset finished and kept what was cached, and nothing differs."""
        ours = self.summary("warmset")
        if ours is None or self.player("warmset").died is not None:
            return False
        # Without Warmset's store there is no such figure; with it, what fits may be on the heap.
        kept = ours["live_bytes"] or (ours["memory_bytes"] if self.all_fits else 0)
        return self.equal is not False and bool(kept)

    def raw(self) -> dict:
        """Everything, for the raw results."""
        engines = {player.spec.name: self.of_player(player) for player in self.players}
        return {
            "title": self.workload.title,
            "message": self.workload.message,
            "settings": {setting.engine: setting.raw() for setting in self.settings},
            "alive_together": self.together,
            "ratio": rounded(self.ratio()),
            "fit_ratio": rounded(self.ratio("fit_s")),
            "interval": self.interval(),
            "results_equal": self.equal,
            "all_fits": self.all_fits,
            "sound": self.sound,
            "passes": {name: self.summary(name) for name in engines},
            "engines": engines,
        }

    def of_player(self, player: Player) -> dict:
        """What one engine measured in this workload; it may have played others before."""
        if player.peak_bytes is None:
            player.note_peak()
        raw = player.raw()
        return {**raw, "timings": player.timings.get(self.workload.name, [])}


def play(
    name: str, size: Size, settings: Sequence[Setting], rounds: int, sittings: int, engines: Engines, regime: str
) -> Duel:
    """Plays one workload, so many rounds in each sitting."""
    progress = engines.place.progress
    duel = Duel(workload(name, size), settings, contest.fit_together([each.total_bytes for each in settings]))
    for sitting in range(sittings):
        order = list(settings) if sitting % 2 == 0 else list(reversed(settings))
        for group in [order] if duel.together else [[setting] for setting in order]:
            players = [engines.open(setting, name, size, regime) for setting in group]
            progress.total += rounds * len(players)
            contest.play(players, [duel.workload], rounds, 0, progress, collect(duel, players))
            duel.take(players)
            if not duel.together or sitting + 1 < sittings:
                engines.close()
    engines.end()
    return duel


def collect(duel: Duel, players: list[Player]) -> Callable[[int], None]:
    """Keeps each round's results for comparison."""

    def after_round(_: int) -> None:
        for player in players:
            answer = player.answers.pop(duel.workload.name, None)
            if answer is not None:
                duel.results.setdefault(player.spec.name, []).append(answer)

    return after_round
