"""Cold and warm starts: files are evicted one by one and checked with cachestat(2), and memory is warmed."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
WARMED_MIB = 384
RUN_S_MAX = 120
CACHESTAT = 451
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = ctypes.c_void_p


class Range(ctypes.Structure):
    """What of a file is asked for; a length of 0 is all of it."""

    _fields_ = (("offset", ctypes.c_uint64), ("length", ctypes.c_uint64))


class Statistics(ctypes.Structure):
    """Pages, as cachestat(2) counts them."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("cache", "dirty", "writeback", "evicted", "recently"))


@dataclass(frozen=True)
class Timed:
    """One run: how long it took, and what it wrote."""

    seconds: float
    output: str


def evict(paths: Iterable[str]) -> None:
    """Drops the files' pages from the page cache. Pages that a running program has mapped stay."""
    for path in paths:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOATIME)
        except OSError:
            continue
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def warm_memory() -> None:
    """Touches and frees memory, so that page allocation waits for nobody: a host takes freed memory back."""
    with mmap.mmap(-1, WARMED_MIB << 20) as memory:
        for offset in range(0, WARMED_MIB << 20, PAGE):
            memory[offset] = 1


def resident_bytes(path: Path) -> int:
    """Bytes of the file in the page cache. Raises `OSError` where the kernel has no cachestat (before 6.5)."""
    wanted, found = Range(0, 0), Statistics()
    with path.open("rb") as file:
        done = LIBC.syscall(CACHESTAT, file.fileno(), ctypes.byref(wanted), ctypes.byref(found), 0)
    if done != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(path))
    return found.cache * PAGE


def resident_fraction(paths: Iterable[Path]) -> float:
    """Which part of these files' bytes is in the page cache; files that are gone do not count."""
    total = resident = 0
    for path in paths:
        try:
            resident += resident_bytes(path)
            total += path.stat().st_size
        except FileNotFoundError:
            continue
    return resident / total if total else 0.0


def resident_pages(path: str) -> set[int]:
    """The numbers of the file's pages in the page cache, from mincore(2)."""
    size = Path(path).stat().st_size
    if size == 0:
        return set()
    count = -(-size // PAGE)
    found = (ctypes.c_ubyte * count)()
    descriptor = os.open(path, os.O_RDONLY)
    address = LIBC.mmap(None, ctypes.c_size_t(size), mmap.PROT_READ, mmap.MAP_SHARED, descriptor, ctypes.c_long(0))
    LIBC.mincore(ctypes.c_void_p(address), ctypes.c_size_t(size), found)
    LIBC.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
    os.close(descriptor)
    return {index for index, flag in enumerate(found) if flag & 1}


def timed(command: list[str], environment: dict[str, str], group: Path | None = None) -> Timed:
    """Runs the command to its end, in the cgroup of that process list. Raises `RuntimeError` if it failed."""
    if group is not None:
        # Not between fork and exec: the copy of a large Python would be timed.
        command = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(group), *command]
    started = time.perf_counter()
    try:
        done = subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_S_MAX
        )
    except subprocess.TimeoutExpired as error:
        raise RuntimeError(f"{' '.join(command)} has not ended within {RUN_S_MAX} s") from error
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return Timed(seconds, done.stdout)


def profile_of(warmset: str, environment: dict[str, str]) -> dict:
    """The newest profile."""
    kept = Path(environment["XDG_DATA_HOME"]) / "warmset" / "profiles"
    newest = max(kept.glob("*.profile"), key=os.path.getmtime)
    shown = timed([warmset, "profile", "show", "--json", newest.stem], environment)
    return json.loads(shown.output)["profile"]


def unused_fraction(profile: dict, touched: dict[str, set[int]]) -> float:
    """Which part of the profile's bytes is in pages that a run did not touch, of the files that could be evicted."""
    fetched = unused = 0
    for read in profile["reads"]:
        pages = touched.get(profile["files"][read["file"]]["path"])
        if pages is None:
            continue
        wanted = range(read["start"] // PAGE, -(-read["end"] // PAGE))
        fetched += len(wanted)
        unused += sum(page not in pages for page in wanted)
    return unused / fetched if fetched else 0.0


def touched_pages(command: list[str], environment: dict[str, str], files: list[str]) -> dict[str, set[int]]:
    """What one run touches of each file that can be evicted. The disk must not read ahead meanwhile."""
    evict(files)
    empty = [path for path in files if Path(path).exists() and not resident_pages(path)]
    timed(command, environment)
    # What the run itself has removed is not there to be fetched either.
    return {path: resident_pages(path) for path in empty if Path(path).exists()}
