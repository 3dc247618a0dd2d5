"""Elements of cached RDDs, coded by the classes in the installed jar."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def round_trips(spark: SparkSession) -> dict[str, Any]:
    """Writes and reads Java objects; says for each whether it came back equal, and by which id it was written."""
    jvm = spark._jvm
    rdd = jvm.io.warmset.rdd
    listed = jvm.java.util.ArrayList()
    mapped = jvm.java.util.HashMap()
    for i in range(1000):
        listed.add(f"value {i % 7}")
        mapped.put(f"key {i}", i)
    nested = jvm.java.util.ArrayList()
    nested.add(listed)
    nested.add(mapped)
    nested.add(listed)
    elements = {
        "flat": jvm.org.apache.spark.ml.feature.LabeledPoint(1.0, jvm.org.apache.spark.ml.linalg.Vectors.zeros(9)),
        "module": jvm.scala.Option.empty(),
        "list": listed,
        "map": mapped,
        "nested": nested,
        "properties": jvm.java.util.Properties(),
    }
    coder = rdd.ElementCoder(rdd.ElementFallbacks.current(), rdd.TableBudget(1 << 20))
    sink = rdd.ByteSink(1024)
    ids = {}
    for name, element in elements.items():
        start = sink.position()
        assert coder.write(element, sink), f"{name}: {coder.lastReason()}"
        ids[name] = jvm.org.apache.spark.unsafe.Platform.getShort(None, sink.address() + start)
    source = rdd.ByteSource(sink.address(), sink.position())
    equal = {name: bool(element.equals(coder.read(source))) for name, element in elements.items()}
    sink.close()
    return {"equal": equal, "ids": ids}
