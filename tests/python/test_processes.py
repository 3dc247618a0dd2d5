"""Several processes: one writer, many readers, workers, forks, and writers that are killed."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import warmset

CHILD = """
import sys, numpy as np, warmset
store = warmset.Store(sys.argv[1], memory="32MiB")
{body}
"""


def child(directory: Path, body: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", CHILD.format(body=body), str(directory)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def ask(process: subprocess.Popen[str], line: str = "") -> str:
    """Has the child go on, and waits for what it says."""
    assert process.stdin and process.stdout
    if line:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


def test_readers_see_what_another_process_writes(tmp_path: Path):
    store = warmset.Store(tmp_path, memory="32MiB")
    store["X"] = np.zeros(1000)
    reader = child(tmp_path, "for line in sys.stdin: print(store['X'][0], flush=True)")
    for n in range(5):
        store["X"] = np.full(1000, float(n))
        assert ask(reader, "read") == str(float(n))
    reader.stdin.close()
    assert reader.wait(60) == 0


def test_a_second_writer_is_told_who_writes(tmp_path: Path):
    body = """
import pyarrow as pa
with store.writer("log", pa.schema([("a", pa.int64())])) as writer:
    print("writing", flush=True)
    sys.stdin.readline()
"""
    writer = child(tmp_path, body)
    assert ask(writer) == "writing"
    store = warmset.Store(tmp_path, memory="32MiB")
    with pytest.raises(warmset.BusyError, match=f"process {writer.pid}"):
        store["X"] = np.arange(3)
    with pytest.raises(warmset.BusyError):
        del store["log"]
    writer.kill()
    writer.wait(60)
    # The dead one gives its lock up.
    store["X"] = np.arange(3)
    assert list(store) == ["X"]


def test_a_killed_writer_leaves_whole_regions_only(tmp_path: Path, kills: int):
    body = """
n = int(sys.stdin.readline())
while True:
    store["a"] = np.full(300_000, n, np.int64)
    store["b"] = np.full((1000, 100), n, np.int32)
    n += 1
    print(n, flush=True)
"""
    dice = random.Random(11)
    for _ in range(kills):
        writer = child(tmp_path, body)
        number = int(ask(writer, str(dice.randrange(1 << 30))))
        for _ in range(dice.randrange(3)):
            number = int(ask(writer))
        # At any moment of the next round.
        threading.Event().wait(dice.random() * 0.03)
        writer.send_signal(signal.SIGKILL)
        writer.communicate(timeout=60)
        store = warmset.Store(tmp_path, memory="32MiB")
        assert store.verify() == []
        assert sorted(store) == ["a", "b"]
        for name in store:
            array = store[name]
            assert (array == array.flat[0]).all() and array.flat[0] >= number - 1
        # What it left between the two steps of a commit goes when somebody writes again.
        store["c"] = np.arange(3)
        del store["c"]
        assert {path.name for path in tmp_path.iterdir()} == {"a.arrow", "b.arrow", ".warmset.lock"}


def read_in_worker(store: warmset.Store, name: str, expected: float) -> float:
    assert store[name].sum() == expected
    return float(sum(part.sum() for part in store.scan(name)))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_workers_read(tmp_path: Path, method: str):
    store = warmset.Store(tmp_path, memory="128MiB")
    store["X"] = np.arange(300_000.0)
    expected = float(np.arange(300_000.0).sum())
    with multiprocessing.get_context(method).Pool(2) as pool:
        found = pool.starmap(read_in_worker, [(store, "X", expected)] * 4)
    assert found == [expected] * 4
    assert store["X"].sum() == expected, "the parent reads on"


def answer_of_child(store: warmset.Store, view: np.ndarray, expected: np.ndarray) -> tuple[int, int]:
    """A forked child that reads both: the end of a pipe that it answers into, and its process."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            right = bool((view == expected).all() and (store["X"] == expected).all())
            os.write(write, b"right" if right else b"wrong")
            code = 0
        finally:
            os._exit(code)
    os.close(write)
    return read, process


def test_a_forked_child_reads_handles_and_views_made_before(tmp_path: Path):
    expected = np.arange(2_000_000)
    # Where the parent's threads stand at the fork, and the locks' addresses, differ from store to store.
    for _ in range(10):
        store = warmset.Store(tmp_path, memory="128MiB")
        store["X"] = expected
        view = store["X"]
        children = [answer_of_child(store, view, expected) for _ in range(5)]
        # The parent's memory is used for other things while they read.
        store["Y"] = np.ones(10_000_000)
        assert store["Y"].sum() == 10_000_000
        for read, process in children:
            with os.fdopen(read, "rb") as pipe:
                assert pipe.read() == b"right"
            assert os.waitpid(process, 0)[1] == 0
        assert (view == expected).all()


def in_child(work: Callable[[], None]) -> None:
    """Runs it in a forked child; an exception there fails here, and so does a child that hangs."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(120)
    if process.is_alive():
        process.kill()
        pytest.fail("the forked child hangs")
    assert process.exitcode == 0


def test_a_forked_child_can_neither_spoil_a_writer_nor_use_a_table(tmp_path: Path):
    store = warmset.Store(tmp_path, memory="64MiB")
    schema = pa.schema([("a", pa.int64())])
    rows = pa.record_batch({"a": np.arange(1_000_000)})
    store["before"] = pa.table([rows["a"]], schema)
    table = store["before"]
    with store.writer("log", schema) as writer:
        writer.append(rows)

        def work() -> None:
            with pytest.raises(ValueError, match="forked from"):
                for _ in range(20):
                    writer.append(rows)
            with pytest.raises(warmset.WarmsetError):
                table.batch(0)
            assert pa.table(store["before"])["a"][-1].as_py() == 999_999

        in_child(work)
        writer.append(rows)
    assert pa.table(store["log"])["a"].to_numpy()[[0, 999_999, 1_000_000, -1]].tolist() == [0, 999_999, 0, 999_999]
    assert store.verify() == []


def test_forks_while_threads_begin_and_end_holds(tmp_path: Path):
    store = warmset.Store(tmp_path, memory="64MiB")
    store["X"] = np.arange(2_000_000)
    view = store["X"]
    ended = threading.Event()

    def hold() -> None:
        while not ended.is_set():
            for part in store.scan("X"):
                assert part[0] + len(part) - 1 == part[-1]

    def work() -> None:
        assert view[-1] == 1_999_999
        inner = os.fork()
        if inner == 0:
            # The views outlive a second fork, too.
            os._exit(0 if view.sum() == 1_999_999 * 1_000_000 else 1)
        assert os.waitpid(inner, 0)[1] == 0

    threads = [threading.Thread(target=hold) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(20):
            in_child(work)
    finally:
        ended.set()
        for thread in threads:
            thread.join(60)
    assert view.sum() == 1_999_999 * 1_000_000


def test_threads_read_and_write(tmp_path: Path):
    store = warmset.Store(tmp_path, memory="64MiB")
    store["X"] = np.arange(3_000_000)
    failures: list[BaseException] = []

    def work(n: int) -> None:
        try:
            for round_ in range(5):
                assert sum(int(part.sum()) for part in store.scan("X", shuffle=True, seed=n)) == 4499998500000
                store[f"own {n}"] = np.full(1000, round_)
                assert store[f"own {n}"][-1] == round_
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert failures == [] and len(store) == 7
