"""TPC-H tables from the `tpchgen` generator, kept in `data/` between runs.

Two forms are kept. `raw` is what the generator writes, with TPC-H's decimals. `double` has prices, discounts, taxes and
quantities as doubles: Spark computes with decimals of more than 18 digits as Java objects, which costs more than any
scan and would be all that a benchmark of scans measures. The form that a figure belongs to is said with it.

Invariant: a directory with its final name is complete; it is written aside and renamed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from harness.machine import ROOT

DATA = ROOT / "data"
ROWS_PER_GROUP = 1 << 20
ORDERS_PER_GROUP = 1 << 15
NESTED_COLUMNS = ["l_quantity", "l_extendedprice", "l_discount", "l_shipdate", "l_shipmode"]
# One file for each half million rows of `lineitem`: Spark then makes partitions of one size at every scale, small
# enough that stock Spark can keep blocks of them in a small heap.
SCALE_PER_FILE = 1 / 12


def table(name: str, scale: float, form: str = "double") -> Path:
    """The directory of a table's Parquet files; generated if it is not there."""
    final = DATA / f"tpch-sf{scale:g}" / form / name
    if form == "raw":
        return generated(final, lambda aside: generate(name, scale, aside))

    def fill(aside: Path) -> None:
        raw = table(name, scale, "raw")
        convert(raw, aside)
        # It can be made again, and at larger scales it is as large as the rest.
        shutil.rmtree(raw)

    return generated(final, fill)


def nested(scale: float) -> Path:
    """The directory of `order_lines`: one row for each order, with an array of its lines as structs."""

    def fill(aside: Path) -> None:
        for file in sorted(table("lineitem", scale, "raw").glob("*.parquet")):
            read = pq.read_table(file)
            lines = read.cast(pa.schema([(each.name, as_string(each.type)) for each in read.schema])).combine_chunks()
            keys = lines["l_orderkey"].to_numpy()
            # The generator writes an order's lines together, and never into two files.
            begins = np.flatnonzero(np.r_[True, keys[1:] != keys[:-1]])
            values = lines.select(NESTED_COLUMNS).to_struct_array().combine_chunks()
            offsets = pa.array(np.r_[begins, len(keys)], pa.int32())
            columns = {"ol_orderkey": keys[begins], "ol_lines": pa.ListArray.from_arrays(offsets, values)}
            pq.write_table(pa.table(columns), aside / file.name, row_group_size=ORDERS_PER_GROUP)

    return generated(DATA / f"tpch-sf{scale:g}" / "raw" / "order_lines", fill)


def generated(final: Path, make: Callable[[Path], None]) -> Path:
    """The directory, which `make` fills aside if it is not there: with its final name it is complete."""
    if final.is_dir():
        warm(final)
        return final
    aside = final.with_name(f".{final.name}.partial")
    shutil.rmtree(aside, ignore_errors=True)
    aside.mkdir(parents=True)
    try:
        make(aside)
        aside.rename(final)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise
    return final


def warm(directory: Path) -> None:
    """Reads the files once, so that no engine is the first to fetch them from the disk."""
    for file in directory.iterdir():
        with file.open("rb") as stream:
            while stream.read(1 << 22):
                pass


def generate(name: str, scale: float, directory: Path) -> None:
    """Runs the generator; several files for a large table."""
    program = Path(sys.executable).with_name("tpchgen-cli")
    parts = max(1, round(scale / SCALE_PER_FILE)) if name == "lineitem" else 1
    command = [str(program), "parquet", "-s", f"{scale:g}", f"--tables={name}", f"--output-dir={directory}"]
    result = subprocess.run([*command, f"--parts={parts}"], capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"tpchgen-cli failed: {result.stderr.strip()}")
    written = directory / name
    if written.is_dir():
        for file in written.iterdir():
            file.rename(directory / file.name)
        written.rmdir()


def convert(source: Path, directory: Path) -> None:
    """Copies the files with decimals as doubles."""
    for file in sorted(source.glob("*.parquet")):
        reader = pq.ParquetFile(file)
        schema = pa.schema([pa.field(item.name, as_double(item.type)) for item in reader.schema_arrow])
        with pq.ParquetWriter(directory / file.name, schema, compression="snappy") as writer:
            for batch in batches(reader):
                writer.write_table(pa.Table.from_batches([batch]).cast(schema))


def batches(reader: pq.ParquetFile) -> Iterator[pa.RecordBatch]:
    """The file's rows, a row group's worth at a time."""
    yield from reader.iter_batches(batch_size=ROWS_PER_GROUP)


def as_double(kind: pa.DataType) -> pa.DataType:
    """Decimals become doubles, views plain strings; all else stays."""
    return pa.float64() if pa.types.is_decimal(kind) else as_string(kind)


def as_string(kind: pa.DataType) -> pa.DataType:
    """Views become plain strings, which all writers and readers know."""
    return pa.string() if pa.types.is_string_view(kind) or pa.types.is_large_string(kind) else kind
