"""Damaged files, full disks, foreign files: an error that says what and where, and nothing lost."""

from __future__ import annotations

import multiprocessing
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
import warmset


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ 1]))


def test_a_damaged_byte_is_named(tmp_path: Path):
    store = warmset.Store(tmp_path, memory="32MiB")
    store.put("X", np.arange(3_000_000), batch_rows=500_000)
    path = tmp_path / "X.arrow"
    flip(path, 13_000_000)
    (damage,) = store.verify("X")
    assert damage.path == path and damage.offset <= 13_000_000 < damage.offset + damage.bytes
    store = warmset.Store(tmp_path, memory="32MiB")
    for read in (
        lambda: store["X"],
        lambda: store.get_verified("X"),
        lambda: list(store.scan("X")),
    ):
        with pytest.raises(warmset.BadFileError, match=f"{path}.*offset {damage.offset}"):
            read()
    # What is not damaged can be read.
    scan = store.scan("X")
    assert [int(next(scan)[0]) for _ in range(3)] == [0, 500_000, 1_000_000]
    flip(path, 13_000_000)
    assert store.verify() == [] and store.get_verified("X").sum() == np.arange(3_000_000).sum()


def test_a_foreign_and_a_cut_file(tmp_path: Path):
    store = warmset.Store(tmp_path, memory="32MiB")
    table = pa.table({"a": [1, 2]})
    with pa.ipc.new_file(str(tmp_path / "theirs.arrow"), table.schema) as writer:
        writer.write_table(table)
    with pytest.raises(warmset.BadFileError, match="no Warmset store has written"):
        store["theirs"]
    store["ours"] = table
    path = tmp_path / "ours.arrow"
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(warmset.BadFileError, match="does not end as an Arrow file"):
        store["ours"]
    path.write_bytes(whole)
    assert pa.table(store["ours"]) == table


def test_a_full_disk_is_an_error_and_leaves_what_was(tmp_path: Path):
    mount = tmp_path / "disk"
    mount.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "none", mount]).returncode:
        pytest.skip("a small file system needs the right to mount one")
    try:
        store = warmset.Store(mount, memory="32MiB")
        store["X"] = np.arange(1_000_000)
        with pytest.raises(warmset.NoSpaceError, match="No space left"):
            store["X"] = np.zeros(5_000_000)
        with pytest.raises(warmset.NoSpaceError, match="No space left"):
            store["Y"] = pa.table({"a": np.zeros(5_000_000)})
        assert list(store) == ["X"] and store["X"][-1] == 999_999
        store["Y"] = np.arange(1_000_000)
        assert store.verify() == []
        del store
    finally:
        subprocess.run(["umount", "-l", mount], check=True)


@pytest.fixture
def sealed(tmp_path: Path) -> Iterator[Path]:
    """A store that was written to and now can only be read: by its file system, or for who is not root by its mode."""
    directory = tmp_path / "sealed"
    directory.mkdir()
    mounted = os.geteuid() == 0
    if mounted and subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "none", directory]).returncode:
        pytest.skip("a read-only file system needs the right to mount one")
    try:
        store = warmset.Store(directory, memory="32MiB")
        store["X"] = np.arange(1_000_000)
        store["t"] = pa.table({"a": ["x", "y"]})
        if mounted:
            subprocess.run(["mount", "-o", "remount,ro", directory], check=True)
        else:
            directory.chmod(0o500)
        yield directory
    finally:
        directory.chmod(0o700) if not mounted else subprocess.run(["umount", "-l", directory], check=True)


def test_a_store_that_cannot_be_written_to_is_read(sealed: Path):
    store = warmset.Store(sealed, memory="32MiB")
    assert sorted(store) == ["X", "t"] and store.verify() == []
    assert store["X"][-1] == 999_999 and sum(len(part) for part in store.scan("X", epochs=2)) == 2_000_000
    assert pa.table(store["t"])["a"].to_pylist() == ["x", "y"]

    def delete() -> None:
        del store["X"]

    for change in (
        lambda: store.put("Y", np.arange(3)),
        lambda: store.put("t", pa.table({"a": [1]})),
        lambda: store.writer("log", pa.schema([("a", pa.int64())])),
        delete,
    ):
        with pytest.raises(OSError, match=r"Read-only file system|Permission denied") as refused:
            change()
        assert str(sealed) in str(refused.value)
    assert sorted(store) == ["X", "t"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_reads_what_is_open_to_all():
    def read(directory: Path) -> None:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
        store = warmset.Store(directory, memory="32MiB")
        assert store["X"][-1] == 999_999 and sum(len(part) for part in store.scan("X", epochs=2)) == 2_000_000
        assert store.verify() == [] and store.stats()["read_bytes_total"] > 0
        for change in (lambda: store.put("Y", np.arange(3)), lambda: store.pop("X")):
            with pytest.raises(PermissionError, match=re.escape(str(directory))):
                change()

    with tempfile.TemporaryDirectory() as made:
        store = warmset.Store(Path(made) / "store", memory="32MiB")
        store["X"] = np.arange(1_000_000)
        for path in (Path(made), store.dir):
            path.chmod(0o755)
        (store.dir / "X.arrow").chmod(0o644)
        reader = multiprocessing.get_context("fork").Process(target=read, args=(store.dir,))
        reader.start()
        reader.join(120)
        assert reader.exitcode == 0
        assert store["X"][0] == 0


def test_a_file_system_without_nameless_files(tmp_path: Path):
    """Network file systems have none, either; the kernels of test machines have no network file system."""
    below, mount = tmp_path / "below", tmp_path / "mount"
    below.mkdir()
    mount.mkdir()
    if shutil.which("bindfs") is None:
        pytest.skip("no bindfs (Debian: bindfs): a file system in user space stands for those on the network")
    mounted = subprocess.run(["bindfs", below, mount], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"a file system in user space cannot be mounted: {mounted.stderr.strip()}")
    try:
        with pytest.raises(OSError, match="not supported"):
            os.open(mount, os.O_TMPFILE | os.O_RDWR)
        store = warmset.Store(mount / "store", memory="32MiB")
        for last in (1_999_999, 2_999_999):
            store["X"] = np.arange(last + 1)
            store["t"] = pa.table({"a": np.arange(last + 1)})
            assert store["X"][-1] == last and pa.table(store["t"])["a"][-1].as_py() == last
        assert sum(len(part) for part in store.scan("X", epochs=2)) == 6_000_000 and store.verify() == []
        with store.writer("log", pa.schema([("a", pa.int64())])):
            code = "import sys, warmset; warmset.Store(sys.argv[1], memory='32MiB')['Y'] = {'a': [1]}"
            other = subprocess.run([sys.executable, "-c", code, store.dir], capture_output=True, text=True)
            assert f"process {os.getpid()}" in other.stderr
        del store["X"]
        # As on NFS, an open file whose name is gone has a hidden one until it is closed.
        shown = {path.name for path in store.dir.iterdir() if not path.name.startswith(".fuse_hidden")}
        assert shown == {"t.arrow", "log.arrow", ".warmset.lock"} and sorted(store) == ["log", "t"]
        del store
    finally:
        subprocess.run(["fusermount3" if shutil.which("fusermount3") else "fusermount", "-u", "-z", mount], check=True)


def test_the_doctests_and_the_time_of_an_import():
    code = """
import doctest, sys, time
start = time.perf_counter()
import warmset
spent = time.perf_counter() - start
assert "numpy" not in sys.modules and "pyspark" not in sys.modules
import warmset._sizes, warmset._store
modules = (warmset, warmset._sizes, warmset._store)
failed = sum(doctest.testmod(module, optionflags=doctest.ELLIPSIS).failed for module in modules)
print(spent)
sys.exit(failed)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
