"""Finds each engine's best setting for a workload, with fits of a few iterations.

First the heap, with the collector and the serialiser that Spark has by default; then the other collector with the
best heap; then (stock only: Warmset's blocks are not serialised) the other serialiser with the best of these. The RDD
of objects is tried serialised as well, by Kryo.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from harness import passes, settings
from harness.settings import Setting
from harness.training import Engines, Place
from harness.workloads import Size, workload


@dataclass
class Search:
    """The trials of one engine on one workload."""

    name: str
    size: Size
    place: Place
    seconds: dict[Setting, float] = field(default_factory=dict)
    died: dict[Setting, str] = field(default_factory=dict)

    def best(self, engine: str, total_bytes: int) -> Setting:
        """The best setting, or the first where none finished."""
        for setting in settings.heaps(engine, total_bytes):
            self.try_out(setting)
        self.try_out(replace(self.leader(), collector="Parallel"))
        if engine == "stock":
            self.try_out(replace(self.leader(), serialiser="kryo"))
        if engine == "stock" and self.name == "objects":
            self.try_out(replace(self.leader(), serialiser="kryo", level="MEMORY_AND_DISK_SER"))
        return self.leader()

    def leader(self) -> Setting:
        """The fastest so far."""
        return min(self.seconds, key=self.seconds.__getitem__)

    def try_out(self, setting: Setting) -> None:
        """Finds the seconds per pass; infinite if the engine died."""
        tried = workload(self.name, self.size)
        with Engines(self.place) as engines:
            player = engines.open(setting, self.name, self.size, "tuning")
            answer = player.ask(tried.name, tried.timeout_s, **tried.request(0))
            found = math.inf if answer is None else passes.median_s([answer], tried)
        if player.died is not None:
            self.died[setting] = str(player.died)
        self.seconds[setting] = found
        self.place.progress.note(f"tuning: {self.name}: {setting.title}: {found:.2f} s per pass")

    def raw(self) -> list[dict]:
        """All trials."""
        return [
            {**setting.raw(), "seconds": None if math.isinf(found) else found, "died": self.died.get(setting)}
            for setting, found in self.seconds.items()
        ]
