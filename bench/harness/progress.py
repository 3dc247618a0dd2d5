"""Progress on stderr: one line that is rewritten on a terminal, and one line per step elsewhere."""

from __future__ import annotations

import os
import sys
import time


class Progress:
    """Counts steps towards a total and says what runs now. It writes to stderr alone: stdout is for results."""

    def __init__(self, total: int, stream=sys.stderr) -> None:  # noqa: ANN001
        self.total = max(total, 1)
        self.done = 0
        self.stream = stream
        self.started = time.monotonic()
        self.bar = stream.isatty() and os.environ.get("TERM") != "dumb"

    def step(self, what: str) -> None:
        """Says that `what` begins now."""
        seconds = time.monotonic() - self.started
        if self.bar:
            width = 24
            filled = min(width, width * self.done // self.total)
            line = f"[{'#' * filled}{'.' * (width - filled)}] {seconds:4.0f} s  {what}"
            print(f"\r\x1b[K{line[:110]}", end="", file=self.stream, flush=True)
        else:
            print(f"[{self.done + 1}/{self.total}] {seconds:4.0f} s  {what}", file=self.stream, flush=True)
        self.done += 1

    def note(self, what: str) -> None:
        """Says something that stays on the screen."""
        print(f"{chr(13) + chr(27) + '[K' if self.bar else ''}{what}", file=self.stream, flush=True)

    def finish(self) -> None:
        """Ends the line of the bar."""
        if self.bar:
            print("\r\x1b[K", end="", file=self.stream, flush=True)
