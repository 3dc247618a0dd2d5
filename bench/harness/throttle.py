"""A block-I/O cgroup (v1 or v2) that gives a disk the rates of a hard disk, for the processes in it alone.

Each request counts, whether or not the disk's heads would have to move for it: a real disk reads neighbours faster.
Invariant: the group exists only while its context is open.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

IOPS = 120
BYTES_PER_S = 120 << 20
V1 = Path("/sys/fs/cgroup/blkio")
V2 = Path("/sys/fs/cgroup")


def disk_of(directory: Path) -> str:
    """The number of the whole disk that holds the directory: `254:0`."""
    number = directory.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    whole = device if (device / "queue").exists() else device.parent
    return (whole / "dev").read_text().strip()


@contextmanager
def throttled(directory: Path) -> Iterator[Path]:
    """A group that reads the directory's disk at these rates: processes write themselves to the file that is given.

    Raises `RuntimeError` if there is no such group here, with the reason.
    """
    is_v1 = (V1 / "blkio.throttle.read_iops_device").exists() or (V1 / "tasks").exists()
    group = (V1 if is_v1 else V2) / f"warmset-bench-{os.getpid()}"
    try:
        disk = disk_of(directory)
        group.mkdir()
    except OSError as error:
        raise RuntimeError(f"no block-I/O cgroup can be made: {error}") from error
    try:
        try:
            if is_v1:
                (group / "blkio.throttle.read_iops_device").write_text(f"{disk} {IOPS}")
                (group / "blkio.throttle.read_bps_device").write_text(f"{disk} {BYTES_PER_S}")
            else:
                (group / "io.max").write_text(f"{disk} riops={IOPS} rbps={BYTES_PER_S}")
        except OSError as error:
            raise RuntimeError(f"{group}: the disk {disk} cannot be throttled: {error}") from error
        yield group / "cgroup.procs"
    finally:
        # The processes that fetch end soon after their programs.
        for _ in range(200):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)
