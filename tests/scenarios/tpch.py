"""TPC-H in the child: register the tables, cache them, run a query.

Rows are returned as lists of strings, so that decimals are compared exactly.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")


def register(spark: SparkSession, folder: str) -> dict[str, int]:
    """Makes each table a view over its Parquet file; returns row counts."""
    rows = {}
    for table in TABLES:
        frame = spark.read.parquet(f"{folder}/{table}.parquet")
        frame.createOrReplaceTempView(table)
        rows[table] = frame.count()
    return rows


def cache(spark: SparkSession) -> dict[str, bool]:
    """Caches every table; returns which of them Spark says are cached."""
    for table in TABLES:
        spark.sql(f"CACHE TABLE {table}")
    return {table: spark.catalog.isCached(table) for table in TABLES}


def query(spark: SparkSession, text: str, settings: dict[str, str] | None = None) -> dict[str, object]:
    """Runs one query; returns its rows, how many cached relations its plan scans, and the joins that were run."""
    for key, value in (settings or {}).items():
        spark.conf.set(key, value)
    try:
        frame = spark.sql(text)
        rows = [[str(value) for value in row] for row in frame.collect()]
        execution = frame._jdf.queryExecution()
        joins = re.findall(r"(\w+Join)\b", execution.executedPlan().toString().split("== Initial Plan ==")[0])
        scans = execution.withCachedData().toString().count("InMemoryRelation")
        return {"rows": rows, "cached_scans": scans, "joins": joins}
    finally:
        for key in settings or {}:
            spark.conf.unset(key)
