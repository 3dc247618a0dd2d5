"""The file system exerciser on served files: what it reads is what it wrote, whichever way either was done."""

from __future__ import annotations

from pathlib import Path

import pytest
from served import Room, tool

# All operations of fsx; `disturbing` are those that take pages or the end of the file away.
CONFIGURATION = """
flen = {flen}
[opsize]
max = {opsize}
[weights]
read = 10
write = 10
mapread = 1
mapwrite = 1
sendfile = 1
close_open = 0.5
invalidate = 0.2
fsync = 0.5
fdatasync = 0.5
posix_fadvise = 0.5
truncate = {disturbing}
posix_fallocate = {disturbing}
punch_hole = {disturbing}
copy_file_range = {disturbing}
"""
# Sizes around a page, around the library's parts of 64 KiB, and around what it maps at once.
SHAPES = {
    "small": {"flen": 40_000, "opsize": 9_000, "disturbing": 0.5},
    "large": {"flen": 8 << 20, "opsize": 300_000, "disturbing": 0.02},
    "disturbed": {"flen": 1 << 20, "opsize": 50_000, "disturbing": 1},
}
OPERATIONS = {"small": 100_000, "large": 10_000, "disturbed": 20_000}


def configuration(folder: Path, shape: str) -> Path:
    path = folder / f"{shape}.toml"
    path.write_text(CONFIGURATION.format(**SHAPES[shape]))
    return path


def command(folder: Path, shape: str, seed: int, operations: int, name: str) -> list[str]:
    words = [tool("fsx"), "-f", configuration(folder, shape), "-N", operations, "-S", seed, "-P", folder, name]
    return [str(word) for word in words]


@pytest.mark.parametrize("shape", SHAPES)
def test_one_process_reads_what_it_wrote(room: Room, tmp_path: Path, shape: str) -> None:
    done = room.served(*command(tmp_path, shape, 41, OPERATIONS[shape], "file")).must_succeed()
    assert "All operations completed A-OK" in done.out
    served = done.counts["reads"] + done.counts["writes"]
    assert served > OPERATIONS[shape] / 50, done.counts


def test_several_processes_read_what_they_wrote(room: Room, tmp_path: Path) -> None:
    runs = [" ".join(command(tmp_path, shape, seed, OPERATIONS[shape] // 4, f"{shape}.{seed}"))
            for shape in SHAPES for seed in (51, 52)]  # fmt: skip
    script = "\n".join(f'{run} & pids="$pids $!"' for run in runs)
    done = room.served("sh", "-c", f"{script}\nfor pid in $pids; do wait $pid || exit 1; done").must_succeed()
    assert done.out.count("All operations completed A-OK") == len(runs)
    assert done.counts["reads"] > 2000 and done.counts["writes"] > 2000, done.counts


def test_a_wrong_byte_would_be_found(room: Room, tmp_path: Path) -> None:
    done = room.served(*command(tmp_path, "large", 41, 1000, "file"), "--inject", "400")
    assert done.code != 0, done.out
