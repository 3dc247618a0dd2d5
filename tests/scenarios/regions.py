"""What the plugin says of its regions, asked from the driver's JVM (local mode)."""

from __future__ import annotations

import gc
import json
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def stats(spark: SparkSession) -> dict[str, Any] | None:
    """The store's statistics; None where the plugin is not on or has no store."""
    if not spark.conf.get("spark.plugins", ""):
        return None
    return json.loads(spark._jvm.io.warmset.spark.Warmset.statsJson()) or None


def count(spark: SparkSession) -> int:
    """Regions that exist."""
    return (stats(spark) or {}).get("regions", 0)


def left_after_collection(spark: SparkSession, seconds_max: float = 15.0) -> int:
    """Regions that are left when unreferenced handles have been collected; waits for none."""
    deadline = time.monotonic() + seconds_max
    gc.collect()
    while count(spark) and time.monotonic() < deadline:
        spark._jvm.System.gc()
        time.sleep(0.1)
    return count(spark)


def not_linked(spark: SparkSession) -> list[str]:
    """What the plugin's classes name and this Spark lacks, by the plugin's own look."""
    missing = spark._jvm.io.warmset.spark.Linkage.missing()
    found = (missing.frames(), missing.rdds(), missing.common())
    return [each for part in found for each in spark._jvm.scala.jdk.javaapi.CollectionConverters.asJava(part)]
