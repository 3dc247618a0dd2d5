"""Other ways to the same bytes: what the kernel moves and what the library moves is one file."""

from __future__ import annotations

import subprocess
import warnings
from pathlib import Path

import pytest
from served import Room, compiled, tool

WAYS = ["position", "stdio", "sendfile", "copy_file_range", "splice", "io_uring", "mmap", "raw", "vectors"]


def test_every_way_reads_what_was_served_and_is_read_by_it(room: Room, on_disk: Path) -> None:
    room.plain(compiled("rewrite.c", on_disk), "records").must_succeed()
    done = room.served(compiled("ways.c", on_disk), "records").must_succeed()
    names = done.out.splitlines()
    if names[0].startswith("io_uring is missing"):
        warnings.warn(
            f"SKIPPED io_uring of test_every_way_reads_what_was_served_and_is_read_by_it: {names[0]}", stacklevel=1
        )
        assert names[1:] == [way for way in WAYS if way != "io_uring"]
    else:
        assert names == WAYS
    assert done.counts["reads"] > 2000 and done.counts["writes"] > 1000, done.counts


# Writers that work at once, each in a part of one file: engine, and whether it is served. fio's mmap engine is not
# among them: it draws other offsets, so that no other engine can check what it wrote.
WRITERS = [("psync", True), ("io_uring", False), ("psync", False), ("sync", True), ("libaio", False), ("pvsync", True)]
PART_BYTES = 4 << 20


def fio(engine: str, part: int, block: str, job: str) -> list[str]:
    """One writer, or the one that checks what a writer of that part wrote."""
    size = "bsrange" if "-" in block else "bs"
    return [
        str(tool("fio")), "--name=x", "--filename=file", f"--offset={part * PART_BYTES}", f"--size={PART_BYTES}",
        "--rw=randwrite", f"--{size}={block}", f"--ioengine={engine}", "--verify=crc32c", "--verify_fatal=1",
        "--allow_file_create=0", "--randseed=7", "--fallocate=none", "--invalidate=0", "--loops=1", f"--{job}",
    ]  # fmt: skip


@pytest.mark.parametrize("block", ["512", "4k", "64k", "4k-128k"])
def test_fio_verifies_what_writers_of_all_kinds_wrote_at_once(room: Room, block: str) -> None:
    probe = room.plain(tool("fio"), "--name=x", "--filename=probe", "--size=4k", "--rw=write", "--ioengine=io_uring")
    writers = [writer for writer in WRITERS if writer[0] != "io_uring" or probe.code == 0]
    if len(writers) < len(WRITERS):
        warnings.warn(
            f"SKIPPED io_uring of test_fio_verifies_what_writers_of_all_kinds_wrote_at_once: {probe.err}", stacklevel=1
        )
    (room.path / "file").write_bytes(bytes(len(writers) * PART_BYTES))
    # They write and check their own parts, all at once; then each part is checked by the next kind.
    for shift, job in ((0, "do_verify=1"), (1, "verify_only=1"), (2, "verify_only=1")):
        scripts = []
        for part in range(len(writers)):
            engine, is_served = writers[(part + shift) % len(writers)]
            start = "" if is_served else "env -u LD_PRELOAD "
            scripts.append(start + subprocess.list2cmdline(fio(engine, part, block, job)))
        together = "\n".join(f'{script} > /dev/null & pids="$pids $!"' for script in scripts)
        wait = "status=0; for pid in $pids; do wait $pid || status=1; done; exit $status"
        done = room.served("sh", "-c", f"{together}\n{wait}").must_succeed()
        assert done.counts["reads"] + done.counts["writes"] > 30, done.counts
