"""Every type Spark can cache, with and without nulls: cached values equal the uncached ones.

Values are compared as text that Spark makes of each column, on the row and the columnar path.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scenarios import regions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

COLUMNS = {
    "boolean": "id % 3 = 0",
    "byte": "cast(id % 100 - 50 as tinyint)",
    "short": "cast(id % 20000 - 10000 as smallint)",
    "int": "cast(id * 7919 % 2000000000 as int)",
    "long": "id * 1000000007",
    "long_extreme": "if(id % 2 = 0, 9223372036854775807L, -9223372036854775807L)",
    "constant": "42",
    "float": "case id % 5 when 0 then float('NaN') when 1 then float('-0.0') else cast(id / 3 as float) end",
    "double": "case id % 5 when 0 then double('Infinity') when 1 then double('-0.0') else id / 7 end",
    "decimal_small": "cast(id % 1000 as decimal(7,2)) / 10",
    "decimal_long": "cast(id as decimal(18,4))",
    "decimal_big": "cast(id as decimal(38,10)) * cast('12345678901234567.89' as decimal(20,2))",
    "text_repeated": "concat('value ', id % 10)",
    "text_unique": "concat('é', sha2(cast(id as string), 256))",
    "text_empty": "''",
    "binary": "unhex(lpad(hex(id), 8, '0'))",
    "char": "cast(concat('c', id % 9) as char(5))",
    "varchar": "cast(concat('v', id % 9) as varchar(5))",
    "collated": "cast(id as string) collate UTF8_LCASE",
    "date": "date_add(date'1500-01-01', cast(id * 37 as int))",
    "timestamp": "timestamp_micros(id * 86400123457 - 1000000000000)",
    "timestamp_ntz": "timestamp_ntz'2001-02-03 04:05:06' + make_dt_interval(0, 0, 0, id)",
    "day_time": "make_dt_interval(cast(id as int), 1, 2, 3.5)",
    "year_month": "make_ym_interval(cast(id % 100 as int), 5)",
    "calendar": "make_interval(1, 2, 3, cast(id % 9 as int), 5, 6, 7.5)",
    "array": "array(id, null, id + 1)",
    "array_empty": "array()",
    "array_deep": "array(array(cast(id as string)), array(), null)",
    "map": "map(cast(id as string), id, 'two', null)",
    "struct": "named_struct('a', id, 'b', named_struct('c', cast(id as string), 'd', array(id % 3 = 0)))",
    "array_struct": "array(named_struct('x', id, 'y', concat('s', id)))",
    "map_deep": "map(id, map('k', array(cast(id as decimal(30,5)))))",
    "variant": 'parse_json(concat(\'{"a": \', id, \', "b": [1, "x", null]}\'))',
    "void": "null",
}
# The text of a value, where a plain cast to string would lose or refuse something.
TEXT = {"binary": "hex({0})", "variant": "to_json({0})", "void": "string({0} is null)"}
NO_NULLS = ("void",)


def _text(name: str, column: str = "") -> str:
    return TEXT.get(name, "cast({0} as string)").format(f"`{column or name}`")


def _texts(frame: DataFrame, name: str) -> tuple[list[Any], list[Any]]:
    rows = frame.selectExpr("id", f"{_text(name)} as text", f"{_text(name, 'other')} as other_text")
    rows = rows.orderBy("id").collect()
    return [row["text"] for row in rows], [row["other_text"] for row in rows]


def one(spark: SparkSession, name: str, rows: int = 300, shuffled: bool = False) -> dict[str, Any]:
    """Caches one column of the type, with nulls in between, and compares all values.

    Behind a shuffle the cached plan is an adaptive one, which takes another way into the cache.
    """
    value = COLUMNS[name] if name in NO_NULLS else f"if(id % 13 = 5, null, {COLUMNS[name]})"
    frame = spark.range(0, rows, 1, 2).selectExpr("id", f"{COLUMNS[name]} as `{name}`", f"{value} as `{name}_null`")
    frame = frame.selectExpr("id", f"`{name}`", f"`{name}_null` as other")
    frame = frame.repartition(3) if shuffled else frame
    expected = _texts(frame, name)
    frame.cache()
    frame.count()
    held = regions.count(spark)
    equal = []
    for codegen in ("true", "false"):
        spark.conf.set("spark.sql.codegen.wholeStage", codegen)
        equal.append(_texts(frame, name) == expected)
    spark.conf.set("spark.sql.codegen.wholeStage", "true")
    frame.unpersist(blocking=True)
    return {"equal": equal, "held": held, "distinct": len(set(expected[0]))}


def together(spark: SparkSession, rows: int = 2_000, shuffled: bool = False) -> bool:
    """All types in one relation, every column compared."""
    frame = spark.range(0, rows, 1, 3).selectExpr("id", *(f"{sql} as `{name}`" for name, sql in COLUMNS.items()))
    frame = frame.repartition(3) if shuffled else frame
    texts = ["id", *(f"{_text(name)} as `{name}`" for name in COLUMNS)]
    expected = sorted(frame.selectExpr(*texts).collect())
    frame.cache()
    right = sorted(frame.selectExpr(*texts).collect()) == expected
    frame.unpersist(blocking=True)
    return right


def ml_vectors(spark: SparkSession, shuffled: bool = False) -> dict[str, Any]:
    """User-defined types: dense and sparse vectors, as rows and in a trainer's input."""
    from pyspark.ml.functions import vector_to_array
    from pyspark.ml.linalg import Vectors

    data = [
        (i, Vectors.dense([i, i * 0.5, -i]) if i % 2 else Vectors.sparse(3, {1: float(i)}), None if i % 3 else i)
        for i in range(500)
    ]
    frame = spark.createDataFrame(data, ["id", "features", "label"])
    frame = frame.repartition(3) if shuffled else frame
    expected = [tuple(row) for row in frame.orderBy("id").collect()]
    sums = frame.select("id", vector_to_array("features").alias("f")).selectExpr("sum(f[0])", "sum(f[1])").first()
    frame.cache()
    frame.count()
    held = regions.count(spark)
    got = [tuple(row) for row in frame.orderBy("id").collect()]
    again = frame.select("id", vector_to_array("features").alias("f")).selectExpr("sum(f[0])", "sum(f[1])").first()
    frame.unpersist(blocking=True)
    return {"equal": got == expected, "sums": tuple(sums) == tuple(again), "held": held}
