"""Caches to look at in the Spark UI: more than the memory holds, under names that a page must not believe."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOSTILE = "<script>alert(1)</script>"
PLAIN = "lineitem"


def fill(spark: SparkSession, rows: int) -> dict[str, Any]:
    """Caches two tables and reads them twice, so that segments go to disk and come back."""
    for name, share in ((PLAIN, 1), (HOSTILE, 4)):
        frame = spark.range(0, rows // share, 1, 4).selectExpr("id", "xxhash64(id) a", "xxhash64(id, 1) b")
        frame.createOrReplaceTempView(f"`{name}`")
        spark.sql(f"CACHE TABLE `{name}`")
    sums = [
        spark.table(f"`{name}`").selectExpr("sum(id)", "bit_xor(a)", "bit_xor(b)").first()[0]
        for name in (PLAIN, HOSTILE, PLAIN)
    ]
    return {"url": spark.sparkContext.uiWebUrl, "sums": sums}


def stats(spark: SparkSession) -> dict[str, Any]:
    """What the store says of itself."""
    return json.loads(spark._jvm.io.warmset.spark.Warmset.statsJson())


def url(spark: SparkSession) -> str:
    """Where the UI is."""
    return spark.sparkContext.uiWebUrl
