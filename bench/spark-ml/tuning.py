"""Finds each engine's best setting for a workload, with fits of a few iterations.

First the heap, with the collector and the serialiser that Spark has by default; then the other collector with the
best heap; then (stock only: Warmset's blocks are not serialised) the other serialiser with the best of these, and the
best of these without compression. The RDD of objects is tried serialised as well, by Kryo; and since each pass makes
its objects again, a larger young generation with the best of all these, in all heaps. What comes close to the fastest
is tried once more, as it is itself: two engines that are set alike differ by some per cent.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import InitVar, dataclass, field, replace

from harness import passes, settings
from harness.settings import Setting
from harness.statistics import median_of, rounded
from harness.training import Engines, Place
from harness.workloads import Size, workload

# Times the fastest's seconds.
CLOSE = 1.1
TRIES = 2


@dataclass
class Search:
    """The trials of one engine on one workload. `kept` are those of an earlier run, as `raw` gave them."""

    name: str
    size: Size
    place: Place
    kept: InitVar[Sequence[dict]] = ()
    tries: dict[Setting, list[float]] = field(default_factory=dict)
    died: dict[Setting, str] = field(default_factory=dict)

    def __post_init__(self, kept: Sequence[dict]) -> None:
        for trial in kept:
            setting = settings.from_raw(trial)
            tries = trial.get("tries", [trial["seconds"]])
            self.tries[setting] = [math.inf if seconds is None else seconds for seconds in tries]
            if trial["died"] is not None:
                self.died[setting] = trial["died"]

    def best(self, engine: str, total_bytes: int) -> Setting:
        """The best setting, or the first where none finished."""
        for setting in settings.heaps(engine, total_bytes):
            self.try_out(setting)
        self.try_out(replace(self.leader(), collector="Parallel"))
        if engine == "stock":
            self.try_out(replace(self.leader(), serialiser="kryo"))
        if engine == "stock" and self.name == "objects":
            self.try_out(replace(self.leader(), serialiser="kryo", level="MEMORY_AND_DISK_SER"))
        if engine == "stock":
            self.try_out(replace(self.leader(), compressed=False))
        if self.name == "objects":
            young = replace(self.leader(), collector="Parallel", young_percent=settings.YOUNG_PERCENT[engine])
            for setting in settings.heaps(engine, total_bytes):
                self.try_out(replace(young, heap_bytes=setting.heap_bytes))
        within = CLOSE * self.seconds(self.leader())
        close = [setting for setting in self.tries if self.seconds(setting) <= within < math.inf]
        if len(close) > 1:
            for setting in close:
                self.try_out(setting, TRIES)
        return self.leader()

    def seconds(self, setting: Setting) -> float:
        """Per pass."""
        return median_of(self.tries[setting])

    def leader(self) -> Setting:
        """The fastest so far."""
        return min(self.tries, key=self.seconds)

    def try_out(self, setting: Setting, times: int = 1) -> None:
        """Finds the seconds per pass, with so many new engines in all; infinite if one died."""
        while len(self.tries.setdefault(setting, [])) < times:
            self.tries[setting].append(self.measured(setting))

    def measured(self, setting: Setting) -> float:
        """The seconds per pass of a new engine."""
        tried = workload(self.name, self.size)
        with Engines(self.place) as engines:
            player = engines.open(setting, self.name, self.size, "tuning")
            answer = player.ask(tried.name, tried.timeout_s, **tried.request(0))
            found = math.inf if answer is None else passes.median_s([answer], tried)
        if player.died is not None:
            self.died[setting] = str(player.died)
        self.place.progress.note(f"tuning: {self.name}: {setting.title}: {found:.2f} s per pass")
        return found

    def raw(self) -> list[dict]:
        """All trials."""
        return [
            {
                **setting.raw(),
                "seconds": rounded(self.seconds(setting)),
                "tries": [rounded(seconds) for seconds in tries],
                "died": self.died.get(setting),
            }
            for setting, tries in self.tries.items()
        ]
