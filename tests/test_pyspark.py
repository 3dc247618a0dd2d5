"""PySpark users' ways to cache, on every supported PySpark: right answers, bytes in regions, nothing kept.

One session per version serves all tests of it, except where a test needs settings of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from e2e import paths
from e2e.child import SparkChild
from e2e.launch import Launch
from scenarios.levels import DISK_LEVELS, MEMORY_LEVELS
from scenarios.types import COLUMNS

ROWS_ONLY = ("void", "collated", "array_empty")


@pytest.fixture(scope="module")
def child(launch: Launch, spark_version: str) -> Iterator[SparkChild]:
    """A driver with room for everything."""
    with launch.warm(spark_version) as started:
        yield started


def assert_round_trip(seen: dict[str, Any], in_regions: bool, stock: bool) -> None:
    """The answers are right, the bytes were where they should be, and they are gone."""
    assert seen["right"] == [True, True]
    assert seen["filtered"], "a filter gives other rows than without the cache"
    assert seen["level"], "the frame reports another storage level than was asked for"
    assert seen["left"] == 0, "regions are left after unpersist"
    if not stock:
        held = seen["stats"]["regions"], seen["stats"]["used_bytes"]
        assert all(held) if in_regions else not any(held)


def assert_filters(answer: dict[str, Any], stock: bool) -> None:
    """Every predicate gives some rows, and the same as without the cache."""
    for text, (cached, uncached) in answer["seen"].items():
        assert uncached[0] > 0, text
        assert cached == uncached, text
    assert stock or answer["held"] > 0


def assert_overflowed(seen: dict[str, Any], memory_bytes: int, stock: bool) -> None:
    """The answers are right, and what the memory has no room for went to disk and came back."""
    assert seen["right"] == [True, True, True]
    assert seen["groups"] == 9
    assert seen["left"] == 0
    if not stock:
        assert seen["stats"]["resident_bytes"] <= memory_bytes
        assert seen["stats"]["written_bytes_total"] > 0
        assert seen["stats"]["read_bytes_total"] > 0


# Sessions of their own come before the one of all other tests, which then has their JVM.


def test_failing_tasks(launch: Launch, spark_version: str) -> None:
    with launch.warm(spark_version, {"spark.master": "local[2,4]"}) as retrying:
        assert retrying.call("trouble.failing_tasks") == {"right": True, "left": 0}


def test_more_than_the_memory(launch: Launch, spark_version: str) -> None:
    moved = [0, 0]
    with launch.warm(spark_version, {"spark.warmset.memory": "16m"}) as small:
        for level in ("MEMORY_AND_DISK", "MEMORY_ONLY", "MEMORY_AND_DISK_DESER"):
            seen = small.call("storage.larger_than_memory", rows=2_000_000, level=level)
            assert_overflowed(seen, 16 << 20, stock=launch.stock)
            if not launch.stock:
                before, moved = moved, [seen["stats"][f"{way}_bytes_total"] for way in ("written", "read")]
                assert moved[0] > before[0] and moved[1] > before[1], level


@pytest.mark.usefixtures("only_with_plugin")
def test_restart_in_the_same_process(launch: Launch, spark_version: str) -> None:
    """With the plugin, without it, and with it again: each session caches in its own way, rightly."""
    with launch.warm(spark_version) as child:
        first, without, again = child.call("trouble.restart", plugins=[paths.PLUGIN_CLASS, "", paths.PLUGIN_CLASS])
    for seen in (first, without, again):
        assert seen["right"] == [True, True]
        assert seen["left"] == 0
    assert first["stats"]["regions"] and again["stats"]["regions"]
    assert without["stats"] is None
    assert "warmset" not in without["serializer"]


@pytest.mark.parametrize(("level", "adaptive"), [(level, True) for level in MEMORY_LEVELS] + [("MEMORY_ONLY", False)])
def test_levels_that_keep_data_in_memory_use_regions(
    child: SparkChild, launch: Launch, level: str, adaptive: bool
) -> None:
    seen = child.call("storage.round_trip", level=level, adaptive=adaptive)
    assert_round_trip(seen, in_regions=True, stock=launch.stock)


@pytest.mark.parametrize("level", DISK_LEVELS)
def test_levels_on_disk_only_stay_sparks(child: SparkChild, launch: Launch, level: str) -> None:
    assert_round_trip(child.call("storage.round_trip", level=level), in_regions=False, stock=launch.stock)


def test_the_level_of_persist_warm(child: SparkChild, launch: Launch) -> None:
    """Without spark.warmset.rdd.enabled: RDDs are in regions because they were asked to be."""
    seen = child.call("storage.warm_level")
    assert seen["right"] == [True] * 5
    assert seen["levels"] == [True, True]
    assert seen["left"] == 0
    assert launch.stock or all(seen["held"])


def test_filters(child: SparkChild, launch: Launch) -> None:
    assert_filters(child.call("storage.filters"), stock=launch.stock)


def test_sql_statements(child: SparkChild, launch: Launch) -> None:
    seen = child.call("storage.sql_statements")
    assert seen["right"] == [True, True, True]
    assert seen["cached"] == [False, False, False]
    assert launch.stock or (all(seen["held"]) and seen["held"][1] > seen["held"][0])
    assert seen["left"] == 0


@pytest.mark.parametrize("columns", [120, 400])
def test_more_than_a_hundred_columns(child: SparkChild, columns: int) -> None:
    assert child.call("storage.many_columns", columns=columns) == {"right": True, "some": [102]}


def test_empty_frames(child: SparkChild) -> None:
    assert child.call("storage.empty") == {
        "no rows": [0, 0, 0],
        "no partitions": [0, 0, 0],
        "all filtered": [0, 0, 0],
        "no columns": [10, 10, 10],
    }


@pytest.mark.parametrize("name", COLUMNS)
def test_type(child: SparkChild, launch: Launch, name: str) -> None:
    # Behind a shuffle all of them are tested together; alone, those that Spark has no columns for.
    for shuffled in (False, True) if name in ROWS_ONLY else (False,):
        assert_type(child.call("types.one", name=name, shuffled=shuffled), launch.stock)


def assert_type(seen: dict[str, Any], stock: bool) -> None:
    """Values came back from regions as they were."""
    assert seen["equal"] == [True, True], "with and without whole-stage code generation"
    assert stock or seen["held"] > 0


@pytest.mark.parametrize("shuffled", [False, True], ids=["", "shuffled"])
def test_all_types_in_one_relation(child: SparkChild, shuffled: bool) -> None:
    assert child.call("types.together", shuffled=shuffled)


@pytest.mark.parametrize("shuffled", [False, True], ids=["", "shuffled"])
def test_ml_vectors(child: SparkChild, launch: Launch, shuffled: bool) -> None:
    seen = child.call("types.ml_vectors", shuffled=shuffled)
    assert seen["equal"]
    assert seen["sums"]
    assert launch.stock or seen["held"] > 0


def test_python_functions(child: SparkChild, launch: Launch) -> None:
    seen = child.call("python_functions.functions")
    total = sum(range(30_000))
    assert seen["results"] == {
        "udf": total + 30_000,
        "arrow udf": 100,
        "pandas udf": 2 * total,
        "map in pandas": 2 * total,
        "grouped": [4285, 4285, 4286, 4286, 4286, 4286, 4286],
        "rdd": total,
    }
    assert launch.stock or seen["held"] > 0
    assert seen["left"] == 0


def test_limits_over_python_functions(child: SparkChild) -> None:
    seen = child.call("python_functions.limited")
    assert seen["counts"] == [size for size in range(1, 5) for _ in range(3)]
    assert seen["alive"]
    assert seen["left"] == 0


def test_to_pandas_and_arrow(child: SparkChild) -> None:
    assert all(child.call("python_functions.to_pandas").values())


def test_unpersist_in_mid_scan(child: SparkChild) -> None:
    seen = child.call("trouble.unpersist_in_mid_scan")
    assert seen["running"], "the scan was over before the cache was released: nothing was tested"
    assert seen["answers"] == [seen["expected"]]
    assert child.call("regions.left_after_collection") == 0


def test_cancelled_materialisation(child: SparkChild) -> None:
    assert child.call("trouble.cancelled_materialisation") == {"cancelled": 1, "right": True}
    assert child.call("regions.left_after_collection") == 0


def test_many_threads_scan_one_cache(child: SparkChild) -> None:
    assert child.call("trouble.threads")


@pytest.mark.usefixtures("only_with_plugin")
def test_a_killed_driver_leaves_no_file(launch: Launch, spark_version: str) -> None:
    workdir = launch.new_directory()
    with launch(spark_version, {"spark.warmset.memory": "16m"}, workdir=workdir) as child:
        seen = child.call("storage.larger_than_memory", rows=2_000_000, keep=True)
        assert seen["stats"]["flash_bytes"] > 0
        child.kill()
    assert list((workdir / "regions").iterdir()) == []


def test_starts_on_jdk_25(launch: Launch, spark_version: str) -> None:
    home = paths.java_home(25)
    if home is None:
        pytest.skip("no JDK 25 below /usr/lib/jvm")
    with launch(spark_version, environment={"JAVA_HOME": str(home)}) as child:
        assert_round_trip(child.call("storage.round_trip", level="MEMORY_AND_DISK"), True, launch.stock)
