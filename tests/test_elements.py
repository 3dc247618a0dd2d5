"""The jar as users install it codes elements of RDDs: generated codecs and the library that is inside it work there."""

from __future__ import annotations

import json
import zipfile
from typing import Any

import pytest
from e2e import paths, shell
from e2e.launch import Launch

FORY, FIRST = 1, 3
# Spark's own memory has room for little.
SMALL_HEAP = {
    "spark.warmset.rdd.enabled": "true",
    "spark.warmset.smallPartition": "0",
    "spark.testing.reservedMemory": "0",
    "spark.testing.memory": str(60 << 20),
}


def assert_round_trips(seen: dict[str, Any]) -> None:
    """Everything came back equal, by the way that is meant for it."""
    assert all(seen["equal"].values()), seen
    assert {name for name, id_ in seen["ids"].items() if id_ >= FIRST} == {"flat", "module"}
    assert {name for name, id_ in seen["ids"].items() if id_ == FORY} == {"list", "map", "nested", "properties"}


@pytest.mark.usefixtures("only_with_plugin")
def test_elements_round_trip_with_the_jar(launch: Launch, spark_version: str) -> None:
    with launch.warm(spark_version) as child:
        assert_round_trips(child.call("elements.round_trips"))


@pytest.mark.usefixtures("only_with_plugin")
def test_elements_round_trip_on_jdk_25(launch: Launch) -> None:
    home = paths.java_home(25)
    if home is None:
        pytest.skip("no JDK 25 below /usr/lib/jvm")
    with launch("4.3", environment={"JAVA_HOME": str(home)}) as child:
        assert_round_trips(child.call("elements.round_trips"))


@pytest.mark.usefixtures("only_with_plugin")
def test_objects_stay_on_the_heap_while_they_fit_and_in_regions_else(launch: Launch, spark_version: str) -> None:
    with launch.warm(spark_version, SMALL_HEAP | {"spark.warmset.rdd.heapFirst": "true"}) as child:
        assert_left_the_heap(child.call("rdds.leaving_the_heap"))


def assert_left_the_heap(seen: dict[str, Any]) -> None:
    """What fitted stayed there, what did not went to regions, and none was lost."""
    fits, overflows = seen["fits"], seen["overflows"]
    assert fits["right"] and overflows["right"]
    assert fits["cached"] == overflows["cached"] == seen["partitions"]
    assert fits["held"] == 0 and overflows["held"] >= seen["partitions"] - 3, seen
    assert overflows["spark_disk"] == 0 and overflows["spark_memory"] < 20 << 20
    assert seen["left"] == 0


def test_the_jar_has_what_it_bundles_under_its_own_name_with_its_licences() -> None:
    with zipfile.ZipFile(paths.plugin_jar()) as jar:
        names = set(jar.namelist())
        notice = jar.read("META-INF/NOTICE").decode()
        manifest = jar.read("META-INF/MANIFEST.MF").decode()
    assert "io/warmset/shaded/fory/Fory.class" in names
    assert not [name for name in names if "org/apache/fory" in name]
    assert {"META-INF/LICENSE", "META-INF/licenses/LICENSE-janino.txt", "META-INF/licenses/LICENSE-kryo.txt"} <= names
    assert "Apache Fory" in notice
    assert "Multi-Release: true" in manifest and "io.warmset.spark" in manifest


REDEFINED = """
case class Point(x: Int, name: String)
val old = sc.parallelize(0 until 20000, 2).map(i => Point(i, "n" + i)).persist()
answer("filled", old.count())
case class Point(name: String, x: Double, more: Array[Long])
val fresh = sc.parallelize(0 until 20000, 2).map(i => Point("f" + i, -i, Array(i, i + 1L))).persist()
answer("filled again", fresh.count())
answer("old", old.map(p => p.x.toLong + p.name.length).sum().toLong)
answer("fresh", fresh.map(p => p.x.toLong + p.more.sum + p.name.length).sum().toLong)
answer("both", old.zip(fresh).map { case (a, b) => a.x + b.x }.sum().toLong)
answer("first", old.first().toString + fresh.first().name)
answer("regions", io.warmset.spark.Warmset.statsJson())
import io.warmset.spark._
val warm = sc.parallelize(0 until 20000, 2).map(i => Point("w" + i, i, Array(1L))).persistWarm()
answer("warm", warm.count() + warm.map(_.name.length).sum().toLong)
answer("level", warm.getStorageLevel == WarmLevel)
"""


@pytest.mark.usefixtures("only_with_plugin")
def test_a_class_defined_again_in_the_shell(launch: Launch, spark_version: str) -> None:
    """What was cached before is read as the old class, what is cached after as the new one."""
    workdir = launch.new_directory()
    (workdir / "regions").mkdir()
    conf = launch.conf(workdir, {"spark.warmset.rdd.enabled": "true"}, plugin=True)
    seen = shell.answers(spark_version, conf, workdir, REDEFINED)
    numbers, digits = sum(range(20_000)), sum(len(str(i)) + 1 for i in range(20_000))
    assert (seen["filled"], seen["filled again"]) == ("20000", "20000"), seen["shell"]
    assert int(seen["old"]) == numbers + digits
    assert int(seen["fresh"]) == -numbers + 2 * numbers + 20_000 + digits
    assert (seen["both"], seen["first"]) == ("0", "Point(0,n0)f0")
    assert json.loads(seen["regions"])["regions"] == 4
    assert (int(seen["warm"]), seen["level"]) == (20_000 + digits, "true")
