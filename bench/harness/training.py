"""Engines that train: where they run, and how one is started and warmed up."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness import contest, learnable
from harness.contest import Player
from harness.progress import Progress
from harness.settings import Setting
from harness.workloads import Size, workload


@dataclass(frozen=True)
class Place:
    """Where engines run, and who is told."""

    cpus: int
    logs: Path
    scratch: Path
    progress: Progress


class Engines:
    """Engines that are alive, by their setting.

    Invariant: `open` hands out only engines that live. With `keep` they stay for the next workload, which saves their
    start; without, `end` closes them, so that no workload finds a heap that another one has used.
    """

    def __init__(self, place: Place, keep: bool = False) -> None:
        self.place = place
        self.keep = keep
        self.stack = ExitStack()
        self.players: dict[Setting, Player] = {}

    def __enter__(self) -> Engines:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, setting: Setting, name: str, size: Size, regime: str) -> Player:
        """An engine with that setting, which has compiled its code for the workload on a small part of the data."""
        if setting not in self.players:
            self.place.progress.step(f"{regime}: {name}: starting {setting.title}")
            scratch = self.place.scratch / regime / name
            spec = setting.spec(self.place.cpus, scratch / setting.engine, learnable.file_bytes_max(size.path))
            logs = self.place.logs / regime / name
            logs.mkdir(parents=True, exist_ok=True)
            self.players[setting] = contest.open_player(self.stack, spec, setting.total_bytes, logs, scratch)
        player = self.players[setting]
        small = workload(name, size.small())
        player.ask(f"{name} on a part", small.timeout_s, **small.request(0))
        return player

    def end(self) -> None:
        """A workload is over."""
        if not self.keep or not all(player.alive for player in self.players.values()):
            self.close()

    def close(self) -> None:
        """Stops all of them."""
        self.stack.close()
        self.players.clear()
