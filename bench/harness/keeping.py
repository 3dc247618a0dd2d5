"""A run that is broken off and gone on with: its raw figures are written down step by step, within the time given."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from harness.machine import Run


def raw_figures(file: Path) -> dict:
    """The raw figures of a run, compressed or not."""
    found = file.read_bytes()
    return json.loads(gzip.decompress(found) if file.suffix == ".gz" else found)


class Unfinished(Exception):
    """The time that was given is over."""


@dataclass
class Keeper:
    """One file of raw figures; `minutes` is how long this command may take, `None` for as long as it needs."""

    run: Run
    file: str
    minutes: float | None = None
    started: float = field(default_factory=time.monotonic)

    def earlier(self, alike: Callable[[dict], bool]) -> dict | None:
        """What an earlier command of this day wrote, if that is `alike`."""
        path = self.run.directory / self.file
        raw = json.loads(path.read_text()) if path.exists() else None
        return raw if raw is not None and alike(raw) else None

    def save(self, raw: dict) -> None:
        """Writes down what there is, and raises `Unfinished` if no time is left."""
        self.run.write(self.file, raw)
        if self.minutes is not None and time.monotonic() - self.started > self.minutes * 60:
            raise Unfinished
