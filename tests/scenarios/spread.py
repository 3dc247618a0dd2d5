"""On a cluster: a cache over several executors, scanned slowly enough to lose one in the middle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark import StorageLevel, TaskContext
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 2_400_000
PARTITIONS = 8
VALUES = ("count(1)", "bit_xor(a)", "bit_xor(b)", "sum(k)", "bit_xor(xxhash64(s))")
_kept: dict[str, DataFrame] = {}


def fill(spark: SparkSession, level: str, made: str) -> list[Any]:
    """Fills the cache; each partition that is computed leaves a file in `made`. Returns two digests."""

    def mark(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        context = TaskContext.get()
        (Path(made) / f"{context.partitionId()}-{context.taskAttemptId()}").touch()
        yield from batches

    frame = spark.range(0, ROWS, 1, PARTITIONS).selectExpr(
        "xxhash64(id) as a", "xxhash64(id + 7) as b", "id % 9 as k", "concat('name ', id % 50) as s", "id"
    )
    expected = list(frame.selectExpr(*VALUES).first())
    cached = frame.mapInPandas(mark, frame.schema).persist(getattr(StorageLevel, level))
    _kept["cached"] = cached
    return [expected, list(cached.selectExpr(*VALUES).first())]


def scan(_: SparkSession) -> list[Any]:
    """The digest again, from the cache."""
    return list(_kept["cached"].selectExpr(*VALUES).first())


def slow_scan(_: SparkSession, started: str, pause_s: float) -> int:
    """Reads the cache through Python; leaves a file when it has begun, and pauses at each batch until `go` is there."""

    def pause(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        import time

        for batch in batches:
            (Path(started) / str(TaskContext.get().taskAttemptId())).touch()
            if not (Path(started) / "go").exists():
                time.sleep(pause_s)
            yield batch

    rows = _kept["cached"].select("a", "id")
    return rows.mapInPandas(pause, "a long, id long").agg(F.sum("id")).first()[0]


def release(_: SparkSession) -> None:
    """Lets the cache go."""
    _kept.pop("cached").unpersist(blocking=True)


def container(spark: SparkSession, conf: dict[str, str]) -> list[int]:
    """What executors get on Kubernetes with these settings: heap, overhead, and of this the pool, in bytes."""
    jvm = spark._jvm
    settings = jvm.org.apache.spark.SparkConf(False).set("spark.master", "k8s://https://localhost")
    for key, value in conf.items():
        settings.set(key, value)
    asked = jvm.io.warmset.spark.ContainerRule.of(settings).get()
    return [asked.heapBytes(), asked.overheadBytes(), asked.poolBytesMax()]
