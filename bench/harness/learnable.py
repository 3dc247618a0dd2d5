"""Numbers that a model can be learned from, in Parquet files that Spark reads as a column of vectors.

A row has `features`, a dense vector, `label`, 0 or 1, and `target`, a number. Features come from overlapping clusters,
and are mixed by a matrix of a wide spectrum: no trainer is done with them in a few iterations. Each file has a seed of
its own, so that rows are the same whatever was generated before.

Invariant: as in `data`, a directory with its final name is complete.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.ml.linalg import VectorUDT
from pyspark.sql.types import DoubleType, StructField, StructType

from harness.data import DATA, generated

SEED = 20_260
WIDTH = 50
CLUSTERS = 24
# The cluster centres lie this far apart, in standard deviations of a cluster: assignments go on changing.
SPREAD = 0.6
# From the widest to the narrowest direction of the features.
SPECTRUM = 1e-2
ROWS_PER_GROUP = 1 << 15
# What Spark finds the type of the vectors by.
SPARK_SCHEMA_KEY = b"org.apache.spark.sql.parquet.row.metadata"
SPARK_SCHEMA = StructType(
    [
        StructField("features", VectorUDT(), False),
        StructField("label", DoubleType(), False),
        StructField("target", DoubleType(), False),
    ]
)
VECTOR = pa.struct(
    [
        pa.field("type", pa.int8(), nullable=False),
        pa.field("size", pa.int32()),
        pa.field("indices", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("values", pa.list_(pa.field("element", pa.float64(), nullable=False))),
    ]
)
SCHEMA = pa.schema(
    [
        pa.field("features", VECTOR, nullable=False),
        pa.field("label", pa.float64(), nullable=False),
        pa.field("target", pa.float64(), nullable=False),
    ],
    metadata={SPARK_SCHEMA_KEY: SPARK_SCHEMA.json().encode()},
)
DENSE = 1


class Model:
    """What the rows are drawn from; the same for every file. With `single`, features are rounded to 32-bit floats, as
    measurements and public data sets have them; they stay doubles.
    """

    def __init__(self, single: bool = False) -> None:
        self.single = single
        random = np.random.default_rng(SEED)
        left, _ = np.linalg.qr(random.standard_normal((WIDTH, WIDTH)))
        right, _ = np.linalg.qr(random.standard_normal((WIDTH, WIDTH)))
        self.mixing = (left * np.geomspace(1.0, SPECTRUM, WIDTH)) @ right
        self.centres = random.standard_normal((CLUSTERS, WIDTH)) * SPREAD
        self.weights = random.standard_normal(WIDTH) / np.sqrt(WIDTH)

    def rows(self, number: int, count: int) -> pa.RecordBatch:
        """The rows with that number of chunk."""
        random = np.random.default_rng([SEED, number])
        hidden = random.standard_normal((count, WIDTH)) + self.centres[random.integers(CLUSTERS, size=count)]
        margin = hidden @ self.weights
        label = (margin + random.logistic(scale=0.5, size=count) > 0).astype(np.float64)
        target = margin + random.standard_normal(count)
        features = np.ascontiguousarray(hidden @ self.mixing)
        if self.single:
            features = features.astype(np.float32).astype(np.float64)
        return pa.record_batch([vectors(features), pa.array(label), pa.array(target)], schema=SCHEMA)


def vectors(features: np.ndarray) -> pa.StructArray:
    """Dense vectors as Spark's own type stores them."""
    count, width = features.shape
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * width)
    values = pa.ListArray.from_arrays(offsets, pa.array(features.reshape(-1)), type=VECTOR.field("values").type)
    columns = [
        pa.array(np.full(count, DENSE, dtype=np.int8)),
        pa.nulls(count, pa.int32()),
        pa.nulls(count, VECTOR.field("indices").type),
        values,
    ]
    return pa.StructArray.from_arrays(columns, fields=list(VECTOR))


def table(rows: int, files: int, single: bool = False) -> Path:
    """The directory of so many files of as many rows each; generated if it is not there."""

    def fill(directory: Path) -> None:
        model = Model(single)
        for number in range(files):
            write(model, number, rows // files, directory / f"part-{number:05}.parquet")

    kind = "single" if single else "learnable"
    return generated(DATA / f"{kind}-{rows}x{WIDTH}-in-{files}", fill)


def write(model: Model, number: int, rows: int, path: Path) -> None:
    """One file. Doubles that are drawn at random do not compress, and would only cost time."""
    with pq.ParquetWriter(path, SCHEMA, compression="none", use_dictionary=False) as writer:
        writer.write_batch(model.rows(number, rows), row_group_size=ROWS_PER_GROUP)


def file_bytes_max(directory: Path) -> int:
    """The size of the largest file."""
    return max(file.stat().st_size for file in directory.glob("*.parquet"))
