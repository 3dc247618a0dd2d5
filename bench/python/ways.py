"""The ways that `bench/python` compares, each in a process of its own: writes its file, reads it again and again.

usage: ways.py WAY ORDER SOURCE DIRECTORY EPOCHS MEMORY_BYTES
       ways.py source "" PATH ROWS COLUMNS
       ways.py compute "" "" ROWS COLUMNS
       ways.py package "" "" DIRECTORY
"""

from __future__ import annotations

import ctypes
import functools
import json
import mmap
import os
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from harness.coldstart import evict

ROWS = 4096
# How many parts the others ask for before the one that they use: with 8, a mapped array is slower than with 4.
AHEAD = 4
Reader = Callable[[list[int]], Iterator[np.ndarray]]
LIBC = ctypes.CDLL(None, use_errno=True)


def orders(parts: int, epochs: int, order: str) -> list[list[int]]:
    """The parts of each epoch."""
    dice = np.random.default_rng(7)
    return [list(dice.permutation(parts)) if order == "shuffled" else list(range(parts)) for _ in range(epochs)]


def parts_of(source: np.ndarray) -> Iterator[np.ndarray]:
    """Rows as they are read."""
    for start in range(0, len(source), ROWS):
        yield source[start : start + ROWS]


def part_of(mapped: np.ndarray, number: int) -> np.ndarray:
    """Rows of a part."""
    return mapped[number * ROWS : (number + 1) * ROWS]


def ahead(order: list[int], begin: Callable[[int], Any]) -> Iterator[Any]:
    """What `begin` gives for each number, begun `AHEAD` numbers before it is used."""
    begun: deque = deque()
    for number in order:
        begun.append(begin(int(number)))
        if len(begun) > AHEAD:
            yield begun.popleft()
    while begun:
        yield begun.popleft()


def announced(part: np.ndarray) -> np.ndarray:
    """A part of a mapped file, after the kernel was told that it will be read."""
    start = part.ctypes.data // mmap.PAGESIZE * mmap.PAGESIZE
    length = part.ctypes.data + part.nbytes - start
    if LIBC.madvise(ctypes.c_void_p(start), ctypes.c_size_t(length), mmap.MADV_WILLNEED) != 0:
        raise OSError(ctypes.get_errno(), "madvise")
    return part


def by_order(part: Callable[[int], np.ndarray]) -> Reader:
    """Parts of a mapped file: where their order is that of the file the kernel reads ahead, else they are announced."""

    def read(order: list[int]) -> Iterator[np.ndarray]:
        return map(part, order) if order == sorted(order) else ahead(order, lambda number: announced(part(number)))

    return read


def threaded(read: Callable[[int], np.ndarray]) -> Reader:
    """Reads parts in a thread, ahead of who uses them."""
    pool = ThreadPoolExecutor(1)

    def results(order: list[int]) -> Iterator[np.ndarray]:
        found: Iterator[Future] = ahead(order, lambda number: pool.submit(read, number))
        return (future.result() for future in found)

    return results


def memmap(source: np.ndarray, directory: Path) -> np.ndarray:
    """A file of plain rows, mapped."""
    made = np.lib.format.open_memmap(directory / "X.npy", "w+", source.dtype, source.shape)
    for number, part in enumerate(parts_of(source)):
        made[number * ROWS : number * ROWS + len(part)] = part
    made.flush()
    return np.load(directory / "X.npy", mmap_mode="r")


def joblib(source: np.ndarray, directory: Path) -> Reader:
    """joblib's file of an array, mapped."""
    import joblib

    joblib.dump(source, directory / "X.joblib")
    mapped = joblib.load(directory / "X.joblib", mmap_mode="r")
    return by_order(lambda number: part_of(mapped, number))


def lmdb(source: np.ndarray, directory: Path) -> Reader:
    """A part per key of an LMDB environment, read in place; synced once, when it is written."""
    import lmdb

    path, size = str(directory / "X.lmdb"), 2 * source.nbytes + (1 << 26)
    with lmdb.open(path, map_size=size, sync=False, meminit=False) as environment:
        for number, part in enumerate(parts_of(source)):
            # Dirty pages are memory until their transaction ends.
            with environment.begin(write=True) as transaction:
                transaction.put(number.to_bytes(4, "big"), np.ascontiguousarray(part).data.cast("B"), append=True)
        environment.sync(True)
    environment = lmdb.open(path, map_size=size, readonly=True, lock=False)
    transaction = environment.begin(buffers=True)

    def part(number: int) -> np.ndarray:
        # The binding touches all pages of a value that it gives, without the interpreter's lock.
        found = np.frombuffer(transaction.get(number.to_bytes(4, "big")), np.float32)
        return found.reshape(-1, source.shape[1])

    in_thread = threaded(part)
    return lambda order: map(part, order) if order == sorted(order) else in_thread(order)


def lance(source: np.ndarray, directory: Path, memory_bytes: int) -> Reader:
    """A Lance data set: scanned where the order is that of the rows, else a range of rows for each part."""
    import lance
    import pyarrow as pa

    schema, batch = batches(source)
    reader = pa.RecordBatchReader.from_batches(schema, map(batch, parts_of(source)))
    made = lance.write_dataset(reader, str(directory / "X.lance"), max_rows_per_file=len(source))
    # Its read-ahead is memory that it holds itself.
    options = {"batch_size": ROWS, "batch_readahead": AHEAD, "io_buffer_size": memory_bytes // 4}

    def values(found: pa.RecordBatch) -> np.ndarray:
        return found.column(0).flatten().to_numpy()

    def part(number: int) -> np.ndarray:
        (found,) = made.to_batches(offset=number * ROWS, limit=ROWS, **options)
        return values(found)

    def read(order: list[int]) -> Iterator[np.ndarray]:
        if order == sorted(order):
            return map(values, made.to_batches(scan_in_order=True, **options))
        return threaded(part)(order)

    return read


def batches(source: np.ndarray) -> tuple:
    """The schema of a column of rows, and what makes a batch of some."""
    import pyarrow as pa

    kind = pa.list_(pa.float32(), source.shape[1])
    schema = pa.schema([("x", kind)])

    def batch(part: np.ndarray) -> pa.RecordBatch:
        values = pa.array(np.ascontiguousarray(part).reshape(-1))
        return pa.record_batch([pa.FixedSizeListArray.from_arrays(values, source.shape[1])], schema=schema)

    return schema, batch


def arrow(source: np.ndarray, directory: Path) -> Reader:
    """An Arrow IPC file, mapped. A batch is made once: the library announces it each time, which is slow in order."""
    import pyarrow as pa

    schema, batch = batches(source)
    with pa.ipc.new_file(str(directory / "X.arrow"), schema) as writer:
        for part in parts_of(source):
            writer.write_batch(batch(part))
    reader = pa.ipc.open_file(pa.memory_map(str(directory / "X.arrow")))
    return by_order(functools.cache(lambda number: reader.get_batch(number).column(0).flatten().to_numpy()))


def parquet(source: np.ndarray, directory: Path) -> Reader:
    """Row groups of a Parquet file, read again; a row is bytes of a fixed size, which needs no levels."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    row = pa.binary(source.itemsize * source.shape[1])
    schema = pa.schema([pa.field("x", row, nullable=False)])
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(directory / "X.parquet", schema, **options) as writer:
        for part in parts_of(source):
            data = pa.py_buffer(np.ascontiguousarray(part))
            column = pa.FixedSizeBinaryArray.from_buffers(row, len(part), [None, data])
            writer.write_batch(pa.record_batch([column], schema=schema), row_group_size=ROWS)
    file = pq.ParquetFile(directory / "X.parquet", pre_buffer=True)

    def part(number: int) -> np.ndarray:
        column = file.read_row_group(number).column(0).combine_chunks()
        data = np.frombuffer(column.buffers()[1], np.float32).reshape(-1, source.shape[1])
        return data[column.offset : column.offset + len(column)]

    return threaded(part)


def plain(source: np.ndarray, directory: Path) -> Reader:
    """A mapped file without a word to the kernel."""
    mapped = memmap(source, directory)
    return lambda order: (part_of(mapped, n) for n in order)


def advised(source: np.ndarray, directory: Path) -> Reader:
    """A mapped file, each part of which is announced to the kernel."""
    mapped = memmap(source, directory)
    return lambda order: ahead(order, lambda n: announced(part_of(mapped, n)))


# What each needs beside the array and its directory: some have to be told what memory there is.
OTHERS: dict[str, Callable[[np.ndarray, Path, int], Reader]] = {
    "memmap": lambda source, directory, _: plain(source, directory),
    "memmap-advised": lambda source, directory, _: advised(source, directory),
    "joblib": lambda source, directory, _: joblib(source, directory),
    "arrow": lambda source, directory, _: arrow(source, directory),
    "lmdb": lambda source, directory, _: lmdb(source, directory),
    "lance": lance,
    "parquet": lambda source, directory, _: parquet(source, directory),
}


def measure(way: str, order: str, source_path: Path, directory: Path, epochs: int, memory_bytes: int) -> dict:
    """Seconds of the fill and of each epoch; of the store also the bytes that each epoch read."""
    evict([str(source_path)])
    source = np.load(source_path, mmap_mode="r")
    parts = -(-len(source) // ROWS)
    read_bytes = lambda: 0  # noqa: E731
    began = time.perf_counter()
    if way == "warmset":
        import warmset

        store = warmset.Store(directory, memory=memory_bytes)
        store.put("X", source, batch_rows=ROWS)
        filled = time.perf_counter()
        read_bytes = lambda: store.stats()["read_bytes_total"]  # noqa: E731
        readers = [lambda n=n: store.scan("X", shuffle=order == "shuffled", seed=n) for n in range(epochs)]
    else:
        read = OTHERS[way](source, directory, memory_bytes)
        for written in filter(Path.is_file, directory.rglob("*")):
            with written.open("rb") as file:
                os.fsync(file.fileno())
        filled = time.perf_counter()
        readers = [lambda chosen=chosen: read(chosen) for chosen in orders(parts, epochs, order)]
    del source
    spent, sums, fetched = [], [], []
    for reader in readers:
        before = read_bytes()
        start = time.perf_counter()
        sums.append(total(reader()))
        spent.append(time.perf_counter() - start)
        fetched.append(read_bytes() - before)
    if max(sums) - min(sums) > abs(sums[0]) * 1e-3 + 1:
        raise RuntimeError(f"epochs differ: {sums}")
    return {
        "fill_s": filled - began,
        "epochs_s": spent,
        "first_s": spent[0],
        "later_s": sum(spent[1:]),
        "whole_s": filled - began + sum(spent),
        "sum": sums[0],
        **({"read_bytes": fetched} if way == "warmset" else {}),
    }


def total(parts: Iterator[np.ndarray]) -> float:
    """What is computed of an epoch."""
    return sum(float(part.sum(dtype=np.float32)) for part in parts)


def compute(rows: int, columns: int) -> dict:
    """Seconds that the same takes of a plain array in memory: a quarter of the rows, times four."""
    held = np.ones((rows // 4, columns), np.float32)
    spent = []
    for _ in range(6):
        start = time.perf_counter()
        total(parts_of(held))
        spent.append(time.perf_counter() - start)
    return {"seconds": 4 * sorted(spent[1:])[2]}


def make_source(path: Path, rows: int, columns: int) -> None:
    """Rows that do not compress, made part by part; the file has its name when it is whole."""
    aside = path.with_suffix(".part")
    made = np.lib.format.open_memmap(aside, "w+", np.float32, (rows, columns))
    dice = np.random.default_rng(3)
    for start in range(0, rows, 1 << 16):
        part = made[start : start + (1 << 16)]
        part[:] = dice.standard_normal(part.shape, np.float32)
    made.flush()
    evict([str(aside)])
    aside.rename(path)


def package(directory: Path) -> dict:
    """What an import and a resident read cost."""
    import pyarrow as pa
    import warmset

    timed = "import time; a = time.perf_counter(); import warmset; print(time.perf_counter() - a)"
    command = [sys.executable, "-c", timed]
    imports = [float(subprocess.run(command, capture_output=True, text=True).stdout) for _ in range(9)]
    store = warmset.Store(directory / "package", memory=1536 << 20)
    store["t"] = pa.table({"a": np.arange(1 << 26), "b": np.arange(1 << 26)})
    in_memory = pa.table({"a": np.arange(1 << 26), "b": np.arange(1 << 26)})

    def seconds(table: Callable[[], pa.Table]) -> float:
        start = time.perf_counter()
        shown = table()
        for name in ("a", "b"):
            for chunk in shown.column(name).chunks:
                chunk.to_numpy().sum()
        return time.perf_counter() - start

    kinds = (lambda: in_memory, lambda: pa.table(store["t"]))
    pairs = []
    for turn in range(10):
        # Who is first takes turns, too.
        spent = {which: seconds(kinds[which]) for which in (turn % 2, 1 - turn % 2)}
        pairs.append((spent[0], spent[1]))
    # The first is to warm up. Both of a pair met the machine at one speed, which may change from pair to pair.
    ratios = sorted(theirs / ours for theirs, ours in pairs[1:])
    gets = []
    for _ in range(200):
        start = time.perf_counter()
        store["t"]
        gets.append(time.perf_counter() - start)
    return {
        "fits": round(ratios[4], 3),
        "fits_pairs_s": pairs[1:],
        "get_us": round(sorted(gets)[100] * 1e6, 1),
        "import_ms": round(sorted(imports)[4] * 1e3, 1),
    }


def main() -> None:
    """Does what the command line says, and prints JSON."""
    way, order, source, directory, *rest = sys.argv[1:]
    if way == "source":
        make_source(Path(source), int(directory), int(rest[0]))
    elif way == "compute":
        print(json.dumps(compute(int(directory), int(rest[0]))))
    elif way == "package":
        print(json.dumps(package(Path(directory))))
    else:
        print(json.dumps(measure(way, order, Path(source), Path(directory), int(rest[0]), int(rest[1]))))


if __name__ == "__main__":
    main()
