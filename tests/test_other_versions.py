"""The Sparks that the other suites do not run on: cached DataFrames, RDDs, trainers and the tab work there, too.

One driver per version serves all tests; its memory is smaller than some of the data. What a version may break is here:
each way by which the plugin gets at Spark's inside is gone once. What depends less on the version (filters, trainers,
one budget) comes with `--full`, by which the other suites run on Spark 4.3 as well.
"""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator

import pytest
from e2e import paths
from e2e.child import SparkChild
from e2e.launch import Launch
from scenarios.levels import MEMORY_LEVELS
from test_elements import SMALL_HEAP, assert_left_the_heap, assert_round_trips
from test_pyspark import assert_filters, assert_overflowed, assert_round_trip

VERSIONS = ("4.1", "4.3")
CONF = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.warmset.memory": "16m",
    "spark.warmset.rdd.enabled": "true",
}


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """One of the versions; skipped by name where it is not installed."""
    return paths.installed(request.param)


@pytest.fixture(scope="module")
def child(launch: Launch, version: str) -> Iterator[SparkChild]:
    """A session with its UI on, and RDDs in regions."""
    with launch.warm(version, CONF) as started:
        yield started


# Before the session of all other tests, which then has its JVM.
@pytest.mark.usefixtures("only_with_plugin")
def test_objects_that_leave_the_heap(launch: Launch, version: str) -> None:
    with launch.warm(version, SMALL_HEAP | {"spark.warmset.rdd.heapFirst": "true"}) as small:
        assert_left_the_heap(small.call("rdds.leaving_the_heap"))


@pytest.mark.parametrize("level", MEMORY_LEVELS)
def test_levels_that_keep_data_in_memory_use_regions(child: SparkChild, launch: Launch, level: str) -> None:
    seen = child.call("storage.round_trip", level=level, adaptive=level != "MEMORY_ONLY")
    assert_round_trip(seen, in_regions=True, stock=launch.stock)


@pytest.mark.full
def test_filters(child: SparkChild, launch: Launch) -> None:
    assert_filters(child.call("storage.filters"), stock=launch.stock)


@pytest.mark.parametrize("shuffled", [False, True], ids=["", "shuffled"])
def test_all_types_in_one_relation(child: SparkChild, shuffled: bool) -> None:
    assert child.call("types.together", shuffled=shuffled)


def test_more_than_a_hundred_columns(child: SparkChild) -> None:
    assert child.call("storage.many_columns", columns=120) == {"right": True, "some": [102]}


def test_more_than_the_memory(child: SparkChild, launch: Launch) -> None:
    seen = child.call("storage.larger_than_memory", rows=2_000_000)
    assert_overflowed(seen, 16 << 20, stock=launch.stock)


@pytest.mark.parametrize("scenario", ["rdds.java_rows", "rdds.pickled"])
def test_rdds(child: SparkChild, launch: Launch, scenario: str) -> None:
    seen = child.call(scenario)
    assert seen["right"] == [True, True]
    assert seen["left"] == 0
    assert launch.stock or seen["held"] > 0


@pytest.mark.usefixtures("only_with_plugin")
def test_elements_round_trip_with_the_jar(child: SparkChild) -> None:
    assert_round_trips(child.call("elements.round_trips"))


@pytest.mark.usefixtures("only_with_plugin")
def test_all_that_the_plugin_names_is_there(child: SparkChild) -> None:
    """The look at a vendor's build, which would be refused for what it does not find."""
    assert child.call("regions.not_linked") == []


@pytest.mark.usefixtures("only_with_plugin")
def test_the_tab(child: SparkChild) -> None:
    with urllib.request.urlopen(child.call("ui.url") + "/warmset/", timeout=30) as answer:
        page = answer.read().decode()
    assert "Memory budget over time" in page and "</html>" in page


@pytest.mark.full
@pytest.mark.usefixtures("only_with_plugin")
def test_trainers_find_what_they_find_without_the_plugin(launch: Launch, version: str) -> None:
    with launch.warm(version, plugin=False) as stock:
        found = stock.call("rdds.fit")["found"]
    with launch.warm(version, CONF) as child:
        seen = child.call("rdds.fit")
    assert seen["found"] == found
    assert seen["written"] > 0, "the trainers' data fits the memory, or was not in regions"


@pytest.mark.full
@pytest.mark.usefixtures("only_with_plugin")
def test_one_budget_and_objects_that_leave_the_heap(launch: Launch, version: str) -> None:
    with launch(version, SMALL_HEAP | {"spark.driver.memory": "512m", "spark.warmset.totalMemory": "640m"}) as child:
        assert child.call("split.memory")["total_budget_bytes"] == 640 << 20
        assert_left_the_heap(child.call("rdds.leaving_the_heap"))
