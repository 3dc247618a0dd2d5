"""How a benchmark ends when it is told to: like any failure, so that engines, groups and scratch files go too."""

from __future__ import annotations

import signal
import sys
from types import FrameType


def end_in_order() -> None:
    """Makes SIGTERM, SIGINT and SIGHUP leave through the open contexts; also where the caller had ignored them."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, leave)


def leave(number: int, _frame: FrameType | None) -> None:
    """Raises what unwinds all contexts; a second signal must not break their clean-up off."""
    for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    sys.exit(128 + number)
