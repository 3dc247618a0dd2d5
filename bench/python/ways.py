"""The ways that `bench/python` compares, each in a process of its own: writes its file, reads it again and again.

usage: ways.py WAY ORDER SOURCE DIRECTORY EPOCHS MEMORY_BYTES
       ways.py source "" PATH ROWS COLUMNS
       ways.py package "" "" DIRECTORY
"""

from __future__ import annotations

import json
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from harness.coldstart import evict

ROWS = 4096
Reader = Callable[[list[int]], Iterator[np.ndarray]]


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


def memmap(source: np.ndarray, directory: Path, advised: bool = False) -> Reader:
    """A file of plain rows, mapped; `advised`: each part is announced to the kernel two parts ahead."""
    made = np.lib.format.open_memmap(directory / "X.npy", "w+", source.dtype, source.shape)
    for number, part in enumerate(parts_of(source)):
        made[number * ROWS : number * ROWS + len(part)] = part
    made.flush()
    mapped = np.load(directory / "X.npy", mmap_mode="r")
    if not advised:
        return lambda order: (part_of(mapped, n) for n in order)
    start = mapped.offset % mmap.ALLOCATIONGRANULARITY
    part_bytes = ROWS * mapped.strides[0]

    def announced(order: list[int]) -> Iterator[np.ndarray]:
        for place, number in enumerate(order):
            for ahead in order[place + 1 : place + 3] if place else order[:3]:
                begin = (start + ahead * part_bytes) // mmap.PAGESIZE * mmap.PAGESIZE
                mapped._mmap.madvise(mmap.MADV_WILLNEED, begin, min(part_bytes, len(mapped._mmap) - begin))
            yield part_of(mapped, number)

    return announced


def joblib(source: np.ndarray, directory: Path) -> Reader:
    """joblib's file of an array, mapped."""
    import joblib

    joblib.dump(source, directory / "X.joblib")
    mapped = joblib.load(directory / "X.joblib", mmap_mode="r")
    return lambda order: (part_of(mapped, n) for n in order)


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
    shape = (-1, source.shape[1])
    return lambda order: (
        np.frombuffer(transaction.get(int(n).to_bytes(4, "big")), np.float32).reshape(shape) for n in order
    )


def lance(source: np.ndarray, directory: Path, memory_bytes: int) -> Reader:
    """A Lance data set: scanned where the order is that of the rows, else a range of rows for each part."""
    import lance
    import pyarrow as pa

    schema, batch = batches(source)
    reader = pa.RecordBatchReader.from_batches(schema, map(batch, parts_of(source)))
    made = lance.write_dataset(reader, str(directory / "X.lance"), max_rows_per_file=len(source))
    # Its read-ahead is memory that it holds itself.
    options = {"batch_size": ROWS, "batch_readahead": 4, "io_buffer_size": memory_bytes // 4}

    def values(found: pa.RecordBatch) -> np.ndarray:
        return found.column(0).flatten().to_numpy()

    def read(order: list[int]) -> Iterator[np.ndarray]:
        if order == sorted(order):
            return map(values, made.to_batches(scan_in_order=True, **options))
        return (values(found) for n in order for found in made.to_batches(offset=int(n) * ROWS, limit=ROWS, **options))

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
    """An Arrow IPC file, mapped."""
    import pyarrow as pa

    schema, batch = batches(source)
    with pa.ipc.new_file(str(directory / "X.arrow"), schema) as writer:
        for part in parts_of(source):
            writer.write_batch(batch(part))
    reader = pa.ipc.open_file(pa.memory_map(str(directory / "X.arrow")))
    return lambda order: (reader.get_batch(n).column(0).flatten().to_numpy() for n in order)


def parquet(source: np.ndarray, directory: Path) -> Reader:
    """Row groups of a Parquet file, read again."""
    import pyarrow.parquet as pq

    schema, batch = batches(source)
    options = {"compression": "none", "use_dictionary": False, "write_statistics": False}
    with pq.ParquetWriter(directory / "X.parquet", schema, **options) as writer:
        for part in parts_of(source):
            writer.write_batch(batch(part), row_group_size=ROWS)
    file = pq.ParquetFile(directory / "X.parquet", pre_buffer=True)
    return lambda order: (file.read_row_group(n).column(0).combine_chunks().flatten().to_numpy() for n in order)


# What each needs beside the array and its directory: some have to be told what memory there is.
OTHERS: dict[str, Callable[[np.ndarray, Path, int], Reader]] = {
    "memmap": lambda source, directory, _: memmap(source, directory),
    "memmap-advised": lambda source, directory, _: memmap(source, directory, advised=True),
    "joblib": lambda source, directory, _: joblib(source, directory),
    "arrow": lambda source, directory, _: arrow(source, directory),
    "lmdb": lambda source, directory, _: lmdb(source, directory),
    "lance": lance,
    "parquet": lambda source, directory, _: parquet(source, directory),
}


def measure(way: str, order: str, source_path: Path, directory: Path, epochs: int, memory_bytes: int) -> dict:
    """Seconds of the fill and of each epoch."""
    evict([str(source_path)])
    source = np.load(source_path, mmap_mode="r")
    parts = -(-len(source) // ROWS)
    began = time.perf_counter()
    if way == "warmset":
        import warmset

        store = warmset.Store(directory, memory=memory_bytes)
        store.put("X", source, batch_rows=ROWS)
        filled = time.perf_counter()
        readers = [lambda n=n: store.scan("X", shuffle=order == "shuffled", seed=n) for n in range(epochs)]
    else:
        read = OTHERS[way](source, directory, memory_bytes)
        for written in filter(Path.is_file, directory.rglob("*")):
            with written.open("rb") as file:
                os.fsync(file.fileno())
        filled = time.perf_counter()
        readers = [lambda chosen=chosen: read(chosen) for chosen in orders(parts, epochs, order)]
    del source
    spent, sums = [], []
    for reader in readers:
        start = time.perf_counter()
        sums.append(sum(float(part.sum(dtype=np.float32)) for part in reader()))
        spent.append(time.perf_counter() - start)
    if max(sums) - min(sums) > abs(sums[0]) * 1e-3 + 1:
        raise RuntimeError(f"epochs differ: {sums}")
    whole = filled - began + sum(spent)
    return {
        "fill_s": filled - began,
        "epochs_s": spent,
        "first_s": spent[0],
        "later_s": sum(spent[1:]),
        "whole_s": whole,
        "sum": sums[0],
    }


def make_source(path: Path, rows: int, columns: int) -> None:
    """Rows that do not compress, made part by part."""
    made = np.lib.format.open_memmap(path, "w+", np.float32, (rows, columns))
    dice = np.random.default_rng(3)
    for start in range(0, rows, 1 << 16):
        part = made[start : start + (1 << 16)]
        part[:] = dice.standard_normal(part.shape, np.float32)
    made.flush()
    evict([str(path)])


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

    def seconds(table: pa.Table) -> float:
        start = time.perf_counter()
        for name in ("a", "b"):
            for chunk in table.column(name).chunks:
                chunk.to_numpy().sum()
        return time.perf_counter() - start

    seconds(in_memory), seconds(pa.table(store["t"]))
    pairs = [(seconds(in_memory), seconds(pa.table(store["t"]))) for _ in range(9)]
    theirs, ours = (sorted(spent)[4] for spent in zip(*pairs, strict=True))
    gets = []
    for _ in range(200):
        start = time.perf_counter()
        store["t"]
        gets.append(time.perf_counter() - start)
    return {
        "fits": round(theirs / ours, 3),
        "get_us": round(sorted(gets)[100] * 1e6, 1),
        "import_ms": round(sorted(imports)[4] * 1e3, 1),
    }


def main() -> None:
    """Does what the command line says, and prints JSON."""
    way, order, source, directory, *rest = sys.argv[1:]
    if way == "source":
        make_source(Path(source), int(directory), int(rest[0]))
    elif way == "package":
        print(json.dumps(package(Path(directory))))
    else:
        print(json.dumps(measure(way, order, Path(source), Path(directory), int(rest[0]), int(rest[1]))))


if __name__ == "__main__":
    main()
