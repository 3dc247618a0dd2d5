"""Caching and letting go: storage levels, SQL statements, sizes from none to more than memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark import StorageLevel

from scenarios import regions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SAMPLE = (
    "id",
    "cast(id % 7 as int) as few",
    "if(id % 11 = 0, null, id * 0.5D) as number",
    "concat('name ', id % 100) as name",
    "if(id % 5 = 0, null, sha2(cast(id as string), 224)) as unique",
    "cast(id as decimal(18,2)) as price",
    "date_add(date'2020-01-01', cast(id % 1000 as int)) as day",
    "array(id, id + 1) as pair",
    "named_struct('a', id, 'b', cast(id as string)) as nested",
)


FILTERS = (
    "few = 3 and number > 10",
    "id between 100 and 300",
    "few in (1, 5) and unique is null",
    "number is null",
    "number < 77.5",
    "name = 'name 42'",
    "name like 'name 1%' and few > 2",
    "name in ('name 7', 'name 8', 'no name')",
    "unique >= 'f' or unique is null",
    "price in (1.00, 2.00, 4000.00)",
    "price > 19000.5 and number is not null",
    "day = date'2020-02-29'",
    "day > date'2022-01-01' and name < 'name 5'",
    "nested.a < 10",
)


def sample(spark: SparkSession, rows: int, partitions: int = 4) -> DataFrame:
    """Rows of several types and encodings."""
    return spark.range(0, rows, 1, partitions).selectExpr(*SAMPLE)


def digest(frame: DataFrame) -> list[Any]:
    """A digest of all values, in a query object of its own; the order of rows does not matter."""
    row = frame.selectExpr("count(1)", "bit_xor(xxhash64(*))", "sum(number)", "count(name)").first()
    return list(row)


def round_trip(spark: SparkSession, level: str, rows: int = 20_000, adaptive: bool = True) -> dict[str, Any]:
    """Persists, reads twice, releases; returns what was seen on the way."""
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    frame = sample(spark, rows)
    expected = digest(frame)
    passing = digest(frame.filter(FILTERS[0]))
    frame.persist(getattr(StorageLevel, level))
    reads = [digest(frame), digest(frame)]
    seen = {
        "right": [read == expected for read in reads],
        "filtered": passing[0] > 0 and digest(frame.filter(FILTERS[0])) == passing,
        "level": str(frame.storageLevel) == str(getattr(StorageLevel, level)),
        "stats": regions.stats(spark),
    }
    frame.unpersist(blocking=True)
    return seen | {"left": regions.left_after_collection(spark)}


def filters(spark: SparkSession, rows: int = 20_000) -> dict[str, Any]:
    """Each filter's rows, of the cache and before there was one."""
    frame = sample(spark, rows)
    expected = {text: digest(frame.filter(text)) for text in FILTERS}
    frame.cache()
    seen = {text: [digest(frame.filter(text)), expected[text]] for text in FILTERS}
    held = regions.count(spark)
    frame.unpersist(blocking=True)
    return {"seen": seen, "held": held}


def sql_statements(spark: SparkSession) -> dict[str, Any]:
    """CACHE TABLE in its forms, and UNCACHE TABLE."""
    sample(spark, 5_000).createOrReplaceTempView("source")
    expected = digest(spark.table("source"))
    right, held = [], []
    spark.sql("CACHE TABLE source")
    right.append(digest(spark.table("source")) == expected)
    held.append(regions.count(spark))
    spark.sql("CACHE LAZY TABLE lazily AS SELECT id, name FROM source WHERE id < 100")
    right.append(spark.table("lazily").count() == 100)
    spark.sql("CACHE TABLE on_disk OPTIONS ('storageLevel' 'DISK_ONLY') AS SELECT id FROM source")
    right.append(spark.table("on_disk").agg({"id": "sum"}).first()[0] == sum(range(5_000)))
    held.append(regions.count(spark))
    for name in ("source", "lazily", "on_disk"):
        spark.sql(f"UNCACHE TABLE {name}")
    cached = [spark.catalog.isCached(name) for name in ("source", "lazily", "on_disk")]
    return {"right": right, "held": held, "cached": cached, "left": regions.left_after_collection(spark)}


def many_columns(spark: SparkSession, columns: int) -> dict[str, Any]:
    """A relation so wide that Spark reads it by rows."""
    frame = spark.range(0, 500, 1, 2).selectExpr("id", *(f"id + {i} as c{i}" for i in range(columns)))
    sums = [f"sum(c{i})" for i in range(columns)]
    expected = list(frame.selectExpr(*sums).first())
    frame.cache()
    right = list(frame.selectExpr(*sums).first()) == expected and frame.count() == 500
    some = frame.filter("c7 = 100").select("c9").collect()
    frame.unpersist(blocking=True)
    return {"right": right, "some": [row[0] for row in some]}


def empty(spark: SparkSession) -> dict[str, Any]:
    """Frames without rows, without partitions, without columns."""
    schema = "id long, name string, pair array<long>"
    frames = {
        "no rows": spark.createDataFrame([], schema),
        "no partitions": spark.createDataFrame(spark.sparkContext.emptyRDD(), schema),
        "all filtered": sample(spark, 1_000).filter("id < 0"),
        "no columns": spark.range(10).select(),
    }
    counts = {}
    for name, frame in frames.items():
        frame.cache()
        counts[name] = [frame.count(), len(frame.collect()), len(frame.toPandas())]
        frame.unpersist(blocking=True)
    return counts


def larger_than_memory(
    spark: SparkSession, rows: int, level: str = "MEMORY_AND_DISK", keep: bool = False
) -> dict[str, Any]:
    """16 bytes a row that no encoding shrinks, read three times; released at the end unless kept."""
    frame = spark.range(0, rows, 1, 8).selectExpr("xxhash64(id) as a", "xxhash64(id + 1) as b", "id % 9 as k")
    values = ("count(1)", "bit_xor(a)", "bit_xor(b)")
    expected = list(frame.selectExpr(*values).first())
    frame.persist(getattr(StorageLevel, level))
    right = [list(frame.selectExpr(*values).first()) == expected for _ in range(3)]
    groups = frame.groupBy("k").count().count()
    seen = {"right": right, "groups": groups, "stats": regions.stats(spark)}
    if keep:
        return seen
    frame.unpersist(blocking=True)
    return seen | {"left": regions.left_after_collection(spark)}


def warm_level(spark: SparkSession) -> dict[str, Any]:
    """The level of `persistWarm()`, asked for from Python: for an RDD of Python objects, and for a frame."""
    level = StorageLevel(True, True, True, True, 1)
    held = []
    numbers = spark.sparkContext.parallelize(range(50_000), 4).map(lambda i: (i, f"n{i}", [i] * 3))
    numbers.persist(level)
    right = [numbers.map(lambda t: t[0] + len(t[2])).sum() == sum(range(50_000)) + 150_000 for _ in range(2)]
    right.append(numbers.take(2) == [(0, "n0", [0, 0, 0]), (1, "n1", [1, 1, 1])])
    held.append(regions.count(spark))
    numbers.unpersist(blocking=True)
    frame = sample(spark, 20_000)
    expected = digest(frame)
    frame.persist(level)
    right += [digest(frame) == expected for _ in range(2)]
    held.append(regions.count(spark))
    levels = [str(numbers.getStorageLevel()) == str(StorageLevel.NONE), frame.storageLevel == level]
    frame.unpersist(blocking=True)
    return {"right": right, "held": held, "levels": levels, "left": regions.left_after_collection(spark)}
