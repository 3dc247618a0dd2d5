"""All 22 TPC-H queries over cached tables give what they give over the Parquet files.

Once with room for everything and once with a budget that the cache outgrows, so that the
same columns are also read back from disk. Values are compared exactly, in the order the
query asks for; a query whose ORDER BY leaves ties is compared as a multiset.
"""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e import paths
from e2e.child import SparkChild
from e2e.launch import Launch
from harness import tpch

SCALE_FACTOR = 0.05
QUERIES = range(1, 23)
# ORDER BY of these names a key of the result, or nothing can tie; the others may tie.
TOTALLY_ORDERED = frozenset({1, 4, 7, 8, 9, 12, 13, 15, 16, 21, 22})
# At this scale the validation parameters select nothing: equality says little, so it is said here.
EMPTY_AT_THIS_SCALE: frozenset[int] = frozenset()
BUDGETS = {"fits": "512m", "overflows": "16m"}
# What the optimiser is told, and what scans are told, of cached tables, and whether aggregates are native code: no
# answer hangs on it.
UNTOLD = {
    "spark.warmset.statistics.enabled": "false",
    "spark.warmset.joinFilters.enabled": "false",
    "spark.warmset.kernels.enabled": "false",
}
TOLD = dict.fromkeys(UNTOLD, "true")
# Joins that are broadcast over Parquet at scale 4, by Spark's default of 10 MiB; this is that limit at this scale.
BROADCAST_OVER_FILES = (8, 9)
BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "128k"}


def query_text(number: int) -> str:
    """The query with the specification's validation parameters."""
    return tpch.validation(number)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """TPC-H tables as Parquet files."""
    folder = tmp_path_factory.mktemp("tpch")
    command = [str(paths.venv("4.2") / "bin" / "tpchgen-cli"), "parquet"]
    command += ["-s", str(SCALE_FACTOR), "--output-dir", str(folder)]
    subprocess.run(command, check=True, timeout=120, capture_output=True)
    return folder


@pytest.fixture(scope="module")
def uncached(launch: Launch, tables: Path) -> dict[int, list[list[str]]]:
    """What stock Spark 4.2 answers over the files; 4.3 must answer the same from its cache."""
    with launch.warm("4.2", plugin=False) as child:
        child.call("tpch.register", folder=str(tables))
        return {number: child.call("tpch.query", text=query_text(number))["rows"] for number in QUERIES}


@pytest.fixture(scope="module")
def joins_over_files(launch: Launch, tables: Path) -> dict[int, list[str]]:
    """The joins that stock Spark runs over the files."""
    with launch.warm("4.2", plugin=False) as child:
        child.call("tpch.register", folder=str(tables))
        return {
            number: child.call("tpch.query", text=query_text(number), settings=BROADCAST)["joins"]
            for number in BROADCAST_OVER_FILES
        }


@pytest.fixture(scope="module", params=BUDGETS)
def budget(request: pytest.FixtureRequest) -> str:
    """Whether the cache fits the memory."""
    return request.param


@pytest.fixture(scope="module")
def cached(
    spark_version: str,
    budget: str,
    launch: Launch,
    tables: Path,
    uncached: dict[int, list[list[str]]],
    joins_over_files: dict[int, list[str]],
) -> Iterator[SparkChild]:
    """A driver that has cached all tables within the given budget."""
    with launch.warm(spark_version, {"spark.warmset.memory": BUDGETS[budget], **TOLD}) as child:
        child.call("tpch.register", folder=str(tables))
        assert all(child.call("tpch.cache").values())
        yield child


def assert_same(number: int, rows: list[list[str]], expected: list[list[str]]) -> None:
    """In the order that the query asks for."""
    if number in TOTALLY_ORDERED:
        assert rows == expected
    else:
        assert Counter(map(tuple, rows)) == Counter(map(tuple, expected))


@pytest.mark.parametrize("number", QUERIES)
def test_query(number: int, budget: str, cached: SparkChild, uncached: dict[int, list[list[str]]]) -> None:
    answer = cached.call("tpch.query", text=query_text(number), settings=TOLD)
    assert answer["cached_scans"] > 0
    assert bool(uncached[number]) == (number not in EMPTY_AT_THIS_SCALE)
    assert_same(number, answer["rows"], uncached[number])
    if budget == "fits":
        untold = cached.call("tpch.query", text=query_text(number), settings=UNTOLD)
        assert_same(number, untold["rows"], uncached[number])


@pytest.mark.usefixtures("only_with_plugin")
@pytest.mark.parametrize("number", BROADCAST_OVER_FILES)
def test_joins_are_broadcast_as_over_files(
    number: int, cached: SparkChild, joins_over_files: dict[int, list[str]]
) -> None:
    over_files = joins_over_files[number]
    over_caches = cached.call("tpch.query", text=query_text(number), settings=BROADCAST | TOLD)["joins"]
    assert over_files.count("BroadcastHashJoin") > 0
    assert over_caches.count("BroadcastHashJoin") >= over_files.count("BroadcastHashJoin"), over_caches


@pytest.mark.usefixtures("only_with_plugin")
def test_where_the_bytes_were(budget: str, cached: SparkChild) -> None:
    """After all queries: in regions, on disk only if they did not fit."""
    stats = cached.call("regions.stats")
    assert stats["regions"] > 0
    if budget == "overflows":
        assert stats["read_bytes_total"] > 0
    else:
        assert stats["written_bytes_total"] == 0
