"""What is taken is given back: holds on memory, regions, Python's own objects, however a use of them ends."""

from __future__ import annotations

import gc
import itertools
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import warmset

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
BATCH = pa.record_batch({"a": np.arange(1000), "b": ["text"] * 1000})


def use(store: warmset.Store, n: int) -> None:
    """Takes what there is in all ways, and lets go of it half used."""
    view = store["X"]
    assert memoryview(view[n % 100 : n % 100 + 5])[0] == n % 100
    # A scan that is given up, one whose batches outlive it, and streams that are not read to their end or not at all.
    next(store.scan("X", epochs=3, shuffle=True, seed=n))
    batches = list(itertools.islice(store.scan("t"), 2))
    assert pa.record_batch(batches[1]).slice(3)["a"][0].as_py() == 1003
    pa.RecordBatchReader.from_stream(store["t"]).read_next_batch()
    table = store["t"]
    table.__arrow_c_stream__()
    table.__arrow_c_schema__()
    table.batch(n % table.num_batches).__arrow_c_array__()
    for wrong in (lambda: store["none"], lambda: table.batch(1000), lambda: store.put("X", np.array([object()]))):
        with pytest.raises((KeyError, ValueError, TypeError)):
            wrong()


def write(store: warmset.Store, name: str) -> None:
    """Writes, replaces and deletes what is still shown; leaves a writer by an error."""
    store[name] = np.arange(10_000)
    view = store[name]
    store.put(name, BATCH)
    held = store[name].batch(0)
    del store[name]
    assert view[-1] == 9999 and len(held) == 1000
    with pytest.raises(RuntimeError, match="mine"), store.writer(name, BATCH.schema) as writer:
        writer.append(BATCH)
        raise RuntimeError("mine")


@pytest.fixture
def filled(store: warmset.Store) -> warmset.Store:
    """A store with an array and a table."""
    store["X"] = np.arange(1_000_000)
    store.put("t", pa.Table.from_batches([BATCH.set_column(0, "a", pa.array(np.arange(n, n + 1000)))
                                          for n in range(0, 8000, 1000)]), batch_rows=1000)  # fmt: skip
    return store


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Runs it at once with 0, 1, ...; an exception fails here."""
    failures: list[BaseException] = []

    def run(n: int) -> None:
        try:
            work(n)
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert failures == []


def test_nothing_is_held_after_many_uses_at_once(filled: warmset.Store):
    def work(thread: int) -> None:
        for n in range(200):
            use(filled, n)
            if n % 10 == 0:
                write(filled, f"own {thread}")

    in_threads(work, 4)
    del filled["X"], filled["t"]
    gc.collect()
    # What is released goes in the background.
    deadline = time.monotonic() + 60
    while (stats := filled.stats())["regions"] and time.monotonic() < deadline:
        time.sleep(0.01)
    left = {key: stats[key] for key in ("regions", "segments", "live_bytes", "resident_bytes", "window_bytes")}
    assert not any(left.values()), left


def test_what_is_put_is_let_go(store: warmset.Store):
    array, buffer = np.arange(1000), pa.py_buffer(bytes(8000))
    column = pa.Array.from_buffers(pa.int64(), 1000, [None, buffer])
    before = sys.getrefcount(array), sys.getrefcount(buffer), pa.total_allocated_bytes()
    for _ in range(3):
        store["X"] = array
        store["dict"] = {"x": array}
        store["t"] = pa.table({"a": column})
        store["stream"] = pa.RecordBatchReader.from_batches(BATCH.schema, (BATCH for _ in range(3)))
    gc.collect()
    assert (sys.getrefcount(array), sys.getrefcount(buffer), pa.total_allocated_bytes()) == before


def test_uses_leave_no_object_and_no_memory(filled: warmset.Store):
    def after(rounds: int) -> tuple[int, int]:
        for n in range(rounds):
            use(filled, n)
        gc.collect()
        return sys.getallocatedblocks(), int(Path("/proc/self/statm").read_text().split()[1]) * PAGE_BYTES

    after(50)
    blocks, resident_bytes = after(50)
    more_blocks, more_bytes = after(2000)
    # A tenth of an object, or 8 KiB, for each use would be a leak.
    assert more_blocks - blocks < 200
    assert more_bytes - resident_bytes < 2000 * 8192
