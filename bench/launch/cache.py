"""The page cache: emptied before a cold run, and asked what is left of a file."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

CACHESTAT = 451
LIBC = ctypes.CDLL(None, use_errno=True)


class Range(ctypes.Structure):
    """What of a file is asked for; a length of 0 is all of it."""

    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class Statistics(ctypes.Structure):
    """Pages, as cachestat(2) counts them."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently"))


def drop() -> None:
    """Empties the page cache and the caches of names and inodes. Raises `PermissionError` for all but root."""
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3")


def resident_bytes(path: Path) -> int:
    """Bytes of the file in the page cache. Raises `OSError` where the kernel has no cachestat (before 6.5)."""
    wanted, found = Range(0, 0), Statistics()
    with path.open("rb") as file:
        done = LIBC.syscall(CACHESTAT, file.fileno(), ctypes.byref(wanted), ctypes.byref(found), 0)
    if done != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(path))
    return found.cache * os.sysconf("SC_PAGE_SIZE")


def resident_fraction(paths: Iterable[Path]) -> float:
    """Which part of these files' bytes is in the page cache."""
    known = [path for path in paths if path.is_file()]
    total = sum(path.stat().st_size for path in known)
    return sum(map(resident_bytes, known)) / total if total else 0.0
