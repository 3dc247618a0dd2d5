"""RDDs in regions: of Java objects, of pickled ones, and those that MLlib's trainers persist."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

from scenarios import regions
from scenarios.storage import digest, sample

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def persisted_rows(frame: DataFrame) -> Any:
    """An RDD of the JVM's rows of a frame, persisted as objects."""
    level = frame.sparkSession.sparkContext._getJavaStorageLevel(StorageLevel(True, True, False, True))
    return frame._jdf.toJavaRDD().persist(level)


def frame_of(persisted: Any, like: DataFrame) -> DataFrame:
    """A frame of the rows of such an RDD."""
    spark = like.sparkSession
    return type(like)(spark._jsparkSession.createDataFrame(persisted, like._jdf.schema()), spark)


def java_rows(spark: SparkSession, rows: int = 20_000) -> dict[str, Any]:
    """Persists the JVM's rows of several types as objects, reads them twice, releases them."""
    frame = sample(spark, rows)
    expected = digest(frame)
    persisted = persisted_rows(frame)
    reads = [digest(frame_of(persisted, frame)) for _ in range(2)]
    held = regions.count(spark)
    persisted.unpersist(True)
    return {
        "right": [read == expected for read in reads],
        "held": held,
        "left": regions.left_after_collection(spark),
    }


def leaving_the_heap(spark: SparkSession, rows: int = 400_000, partitions: int = 16) -> dict[str, Any]:
    """Persists objects for which Spark's memory has no room, and some for which it has."""
    seen = {}
    for name, count in (("fits", rows // 100), ("overflows", rows)):
        frame = spark.range(0, count, 1, partitions).selectExpr("id", "array(id, -id, id * 3) as a", "'n' || id as s")
        persisted = persisted_rows(frame)
        # Counts what is persisted, not what Spark's SQL would make of it.
        counts = [persisted.count() for _ in range(2)]
        total = frame_of(persisted, frame).selectExpr("sum(id + a[1] + a[2]) + sum(length(s))").first()[0]
        expected = frame.selectExpr("sum(id * 3) + sum(length('n' || id))").first()[0]
        context = spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        (info,) = context.getRDDStorageInfo()
        seen[name] = {
            "right": counts == [count] * 2 and total == expected,
            "cached": info.numCachedPartitions(),
            "spark_disk": info.diskSize(),
            "spark_memory": info.memSize(),
            "held": regions.count(spark),
        }
        persisted.unpersist(True)
    return {**seen, "partitions": partitions, "left": regions.left_after_collection(spark)}


def pickled(spark: SparkSession, rows: int = 20_000) -> dict[str, Any]:
    """Persists what Python's workers make of a range."""
    persisted = spark.sparkContext.range(rows, numSlices=2).map(lambda i: (i, str(i))).persist()
    expected = sum(i + len(str(i)) for i in range(rows))
    sums = [persisted.map(lambda pair: pair[0] + len(pair[1])).sum() for _ in range(2)]
    held = regions.count(spark)
    persisted.unpersist(True)
    return {"right": [s == expected for s in sums], "held": held, "left": regions.left_after_collection(spark)}


def fit(spark: SparkSession, rows: int = 60_000, features: int = 40) -> dict[str, Any]:
    """What two trainers find, to the last bit, and what was written to disk meanwhile.

    Two partitions: the sum of two parts is the same in either order.
    """
    from pyspark.ml.classification import LogisticRegression
    from pyspark.ml.clustering import KMeans
    from pyspark.ml.functions import array_to_vector

    numbers = ", ".join(f"randn({i})" for i in range(features))
    frame = spark.range(0, rows, 1, 2).selectExpr(f"array({numbers}) as x")
    frame = frame.selectExpr("if(x[0] + x[1] + x[2] > 0, 1D, 0D) as label", "x")
    frame = frame.select("label", array_to_vector("x").alias("features"))
    before = regions.stats(spark)
    regression = LogisticRegression(maxIter=5, tol=0.0).fit(frame)
    clusters = KMeans(k=4, maxIter=3, seed=7).fit(frame)
    after = regions.stats(spark)
    found = [*regression.coefficients, regression.intercept, *(x for c in clusters.clusterCenters() for x in c)]
    written = after["written_bytes_total"] - before["written_bytes_total"] if after else 0
    return {"found": [float(x).hex() for x in found], "written": written}
