"""Python over cached data: functions, Arrow in and out, limits that stop a scan in the middle.

Python workers read from their own thread and may outlive the iterator that feeds them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType

from scenarios import regions
from scenarios.storage import sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 30_000


def _cached(spark: SparkSession) -> DataFrame:
    frame = sample(spark, ROWS).cache()
    frame.count()
    return frame


@F.udf(LongType())
def _plus_one(value: int) -> int:
    return value + 1


@F.udf(StringType(), useArrow=True)
def _shout(text: str) -> str:
    return text.upper()


def _add_pandas(left: pd.Series, right: pd.Series) -> pd.Series:
    return left + right


def _double(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    for batch in batches:
        yield pd.DataFrame({"id": batch["id"] * 2})


def _count_group(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"few": [group["few"].iloc[0]], "n": [len(group)]})


def functions(spark: SparkSession) -> dict[str, Any]:
    """Each kind of Python function once, over the whole cache."""
    frame = _cached(spark)
    add = F.pandas_udf(_add_pandas, "long")
    held = regions.count(spark)
    results = {
        "udf": frame.select(F.sum(_plus_one("id"))).first()[0],
        "arrow udf": frame.select(_shout("name").alias("s")).distinct().count(),
        "pandas udf": frame.select(F.sum(add("id", "id"))).first()[0],
        "map in pandas": frame.select("id").mapInPandas(_double, "id long").agg(F.sum("id")).first()[0],
        "grouped": sorted(
            row["n"] for row in frame.groupBy("few").applyInPandas(_count_group, "few int, n long").collect()
        ),
        "rdd": frame.select("id").rdd.map(lambda row: row[0]).sum(),
    }
    frame.unpersist(blocking=True)
    return {"results": results, "held": held, "left": regions.left_after_collection(spark)}


def limited(spark: SparkSession, rounds: int = 4) -> dict[str, Any]:
    """Limits over Python functions end the scan while the writer thread still reads."""
    frame = _cached(spark)
    add = F.pandas_udf(_add_pandas, "long")
    counts = []
    for size in range(1, rounds + 1):
        counts.append(len(frame.select(_plus_one("id")).limit(size).collect()))
        counts.append(len(frame.select(add("id", "id")).limit(size).collect()))
        counts.append(len(frame.select("id").mapInPandas(_double, "id long").take(size)))
    frame.unpersist(blocking=True)
    alive = spark.range(10).count() == 10
    return {"counts": counts, "alive": alive, "left": regions.left_after_collection(spark)}


def to_pandas(spark: SparkSession) -> dict[str, Any]:
    """Whole frames to pandas and Arrow, through Arrow and not."""
    frame = sample(spark, 5_000).select("id", "few", "number", "name", "unique", "day", "price")
    expected = frame.toPandas().sort_values("id", ignore_index=True)
    frame.cache()
    frame.count()
    equal = {}
    for arrow in ("true", "false"):
        spark.conf.set("spark.sql.execution.arrow.pyspark.enabled", arrow)
        got = frame.toPandas().sort_values("id", ignore_index=True)
        equal[f"arrow {arrow}"] = got.astype(str).equals(expected.astype(str))
    table = frame.toArrow().sort_by("id").to_pandas()
    equal["toArrow"] = table["name"].tolist() == expected["name"].tolist()
    kept = frame.limit(7).toPandas()
    equal["limit"] = len(kept) == 7
    from_pandas = spark.createDataFrame(expected[["id", "name"]]).cache()
    equal["from pandas"] = from_pandas.count() == len(expected) and from_pandas.select("name").distinct().count() == 100
    frame.unpersist(blocking=True)
    from_pandas.unpersist(blocking=True)
    return equal
