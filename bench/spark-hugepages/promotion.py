"""Huge pages after the fact: memory that was filled on base pages is collapsed while it is used."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
HUGE_PAGE_BYTES = 2 << 20
# A collapse takes the memory map's lock: other threads get their turn between two steps.
STEP_BYTES = 16 * HUGE_PAGE_BYTES
SYS_PROCESS_MADVISE = 440
MADV_COLLAPSE = 25
LIBC = ctypes.CDLL(None, use_errno=True)


class Piece(ctypes.Structure):
    """`struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


def why_not() -> str | None:
    """Why this user cannot switch huge pages off for a while, or `None`."""
    if not os.access(ENABLED, os.W_OK):
        return f"{ENABLED} cannot be written by this user: the variant `late` is left out (root can)"
    return None


@contextmanager
def base_pages_only() -> Iterator[None]:
    """Nobody on this machine gets a huge page by a fault while the context is open."""
    before = re.search(r"\[(\w+)\]", ENABLED.read_text()).group(1)
    ENABLED.write_text("never")
    try:
        yield
    finally:
        ENABLED.write_text(before)


def collapse(pid: int) -> int:
    """Puts everything on huge pages for which the process asked for them; answers with the bytes that were."""
    descriptor = os.pidfd_open(pid)
    try:
        return sum(collapse_range(descriptor, *bounds) for bounds in advised(Path(f"/proc/{pid}/smaps").read_text()))
    finally:
        os.close(descriptor)


def advised(smaps: str) -> Iterator[tuple[int, int]]:
    """The mappings of a process's `smaps` with the flag `hg`: MADV_HUGEPAGE was called for them."""
    bounds = (0, 0)
    for line in smaps.splitlines():
        if found := re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line):
            bounds = (int(found[1], 16), int(found[2], 16))
        elif line.startswith("VmFlags:") and "hg" in line.split():
            yield bounds


def collapse_range(descriptor: int, begin: int, end: int) -> int:
    """Step by step; a step without memory behind it, or which the kernel has no huge page for, stays as it is."""
    collapsed = 0
    for address in range(begin, end, STEP_BYTES):
        piece = Piece(address, min(STEP_BYTES, end - address))
        done = LIBC.syscall(SYS_PROCESS_MADVISE, descriptor, ctypes.byref(piece), 1, MADV_COLLAPSE, 0)
        collapsed += max(0, done)
    return collapsed
