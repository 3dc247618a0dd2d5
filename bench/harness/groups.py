"""Memory cgroups (v1 or v2, whichever is mounted and writable) that hold one engine each.

Invariant: a group exists only while its context is open, and is empty when it is removed. Where no group can be made
the benchmarks run without one, and say so: the heap and pool sizes still bind, the page cache does not.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Files:
    """What one version of cgroups calls its files."""

    limit: str
    peak: str
    events: str
    usage: str


V1 = Files("memory.limit_in_bytes", "memory.max_usage_in_bytes", "memory.oom_control", "memory.usage_in_bytes")
V2 = Files("memory.max", "memory.peak", "memory.events", "memory.current")


@dataclass(frozen=True)
class Place:
    """A directory below which groups can be made."""

    parent: Path
    files: Files


class MemoryCgroup:
    """One group with a limit. Processes are put in with `enter`, called between fork and exec."""

    def __init__(self, place: Place, directory: Path, limit_bytes: int) -> None:
        self.files = place.files
        self.directory = directory
        self.limit_bytes = limit_bytes

    def enter(self) -> None:
        """Moves the calling process into the group; its children follow."""
        (self.directory / "cgroup.procs").write_text(str(os.getpid()))

    def peak_bytes(self) -> int | None:
        """The most that the group ever used, page cache included."""
        try:
            return int((self.directory / self.files.peak).read_text())
        except (OSError, ValueError):
            return None

    def kills(self) -> int:
        """How many of its processes the kernel killed for want of memory."""
        try:
            lines = (self.directory / self.files.events).read_text().splitlines()
        except OSError:
            return 0
        return next((int(line.split()[1]) for line in lines if line.startswith("oom_kill ")), 0)


@contextmanager
def memory_cgroup(name: str, limit_bytes: int) -> Iterator[MemoryCgroup | None]:
    """A group of that limit, or `None` where this process may not make one (see `why_none`)."""
    place = find_place()
    if place is None:
        yield None
        return
    directory = place.parent / f"warmset-{os.getpid()}-{name}"
    directory.mkdir()
    try:
        (directory / place.files.limit).write_text(str(limit_bytes))
        yield MemoryCgroup(place, directory, limit_bytes)
    finally:
        remove(directory)


def remove(directory: Path) -> None:
    """Removes a group; its last processes may take a moment to go."""
    for _ in range(100):
        try:
            directory.rmdir()
            return
        except OSError:
            time.sleep(0.05)


def find_place() -> Place | None:
    """The first place where a group with a memory limit can really be made; found out by making one."""
    return next((place for place in candidates() if works(place)), None)


def why_none() -> str:
    """What to say where `find_place` finds nothing."""
    return (
        "WITHOUT A MEMORY CGROUP: this user may not make a memory cgroup (root in a v1 or v2 hierarchy can); "
        "heap and pool sizes still bind, the page cache is unlimited for both sides"
    )


def candidates() -> list[Place]:
    """Own group first, then its ancestors: v1's memory hierarchy, then v2."""
    found = []
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        is_v2 = controllers == ""
        if not is_v2 and "memory" not in controllers.split(","):
            continue
        mount = mount_point(is_v2)
        if mount is None:
            continue
        group = mount / path.lstrip("/")
        ancestors = [group, *[parent for parent in group.parents if parent.is_relative_to(mount)]]
        places = [Place(parent, V2 if is_v2 else V1) for parent in ancestors]
        found = found + places if is_v2 else places + found
    return found


def mount_point(is_v2: bool) -> Path | None:
    """Where the hierarchy with the memory controller is mounted."""
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        head, _, tail = line.partition(" - ")
        kind, _, options = tail.split(" ", 2)
        if kind == "cgroup2" if is_v2 else kind == "cgroup" and "memory" in options.split(","):
            return Path(head.split(" ")[4])
    return None


def works(place: Place) -> bool:
    """Whether a group below it can be made, limited, and entered by a process."""
    probe = place.parent / f"warmset-{os.getpid()}-probe"
    try:
        probe.mkdir()
        (probe / place.files.limit).write_text(str(1 << 30))
        pid = os.fork()
        if pid == 0:
            try:
                (probe / "cgroup.procs").write_text(str(os.getpid()))
                os._exit(0)
            except OSError:
                os._exit(1)
        return os.waitpid(pid, 0)[1] == 0
    except OSError:
        return False
    finally:
        if probe.is_dir():
            remove(probe)
