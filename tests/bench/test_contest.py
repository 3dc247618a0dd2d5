"""The rules of a comparison, without Spark: equality of answers, what a dead engine leaves."""

from __future__ import annotations

import io
import math
import platform
from pathlib import Path

import pyarrow as pa
import pytest
from harness import contest, data, engines, machine, process, queries, statistics
from harness.contest import Player
from harness.process import EngineDied
from harness.progress import Progress


class Scripted:
    """An engine that answers what it was told, or dies."""

    def __init__(self, seconds: float, rows: list, dies_at: str | None = None) -> None:
        self.seconds, self.rows, self.dies_at, self.calls = seconds, rows, dies_at, []

    def call(self, step: str, timeout_s: float, **request: object) -> dict:
        self.calls.append((step, request.get("text")))
        if step == self.dies_at:
            raise EngineDied("oom", step, "java.lang.OutOfMemoryError: Java heap space")
        return {"seconds": self.seconds, "rows": self.rows}

    def close(self) -> None:
        self.calls.append(("close", None))


def player(name: str, seconds: float, rows: list | None = None, dies_at: str | None = None) -> Player:
    spec = engines.MAKERS[name](1 << 30, 2, Path("/nowhere"))
    return Player(spec, 1 << 30, Scripted(seconds, rows or [[1.0, "a"]], dies_at))


def quiet() -> Progress:
    return Progress(1, stream=io.StringIO())


def test_rounds_interleave_and_warm_ups_are_not_kept():
    players = [player("warmset", 1.0), player("stock", 2.0)]
    contest.play(players, queries.ALL, rounds=3, warmups=1, progress=quiet())
    for each in players:
        assert {name: len(runs) for name, runs in each.timings.items()} == {query.name: 3 for query in queries.ALL}
        texts = [text for step, text in each.engine.calls if step == "q6"]
        assert len(set(texts)) == len(texts) == 4, "every run is a query of its own"
    assert contest.answers_equal(players, queries.ALL)


def test_a_dead_engine_keeps_what_it_measured_and_is_asked_no_more():
    players = [player("warmset", 1.0), player("stock", 2.0, dies_at="q6")]
    contest.play(players, queries.ALL, rounds=2, warmups=0, progress=quiet())
    stock = players[1]
    assert stock.died.of_memory and stock.died.step == "q6"
    assert len(stock.timings["q1"]) == 1 and "filter" not in stock.timings
    assert stock.raw()["died"]["reason"] == "oom"
    assert len(players[0].timings["join"]) == 2


def test_differing_rows_are_found_and_rounding_is_not_a_difference():
    players = [player("warmset", 1.0, [[0.1 + 0.2, "a"]]), player("stock", 2.0, [[0.3, "a"]])]
    contest.play(players, queries.ALL, rounds=1, warmups=0, progress=quiet())
    assert contest.answers_equal(players, queries.ALL)
    players[1].answers["q6"] = [[0.31, "a"]]
    assert contest.differences(players, queries.ALL) == ["q6"]
    assert not contest.same([[1, 2]], [[1]])


def test_answers_of_warmset_alone_are_compared_with_nothing():
    players = [player("warmset", 1.0), player("stock", 2.0, dies_at="filter")]
    contest.play(players, queries.ALL, rounds=1, warmups=0, progress=quiet())
    assert contest.answers_equal(players, queries.ALL) is None
    right, wrong = player("parquet", 3.0), player("parquet", 3.0, [["x"]])
    contest.play([right, wrong], queries.ALL, rounds=1, warmups=0, progress=quiet())
    assert contest.answers_equal([*players, right], queries.ALL) is True
    assert contest.answers_equal([*players, wrong], queries.ALL) is False
    assert contest.answers_equal([players[1], right], queries.ALL) is None


@pytest.mark.parametrize("name", sorted(engines.MAKERS))
def test_every_engine_stays_within_the_memory_it_is_given(name: str):
    budget = 2 << 30
    spec = engines.MAKERS[name](budget, 2, Path("/nowhere"))
    keys = ("spark.driver.memory", "spark.warmset.memory", "spark.memory.offHeap.size")
    granted = sum(int(spec.conf[key].removesuffix("m")) << 20 for key in keys if key in spec.conf)
    assert granted <= budget


def test_the_innermost_cause_is_what_is_reported():
    trace = (
        "Traceback\npy4j.Error: x\n: org.apache.Outer: y\n\tat a.b\nCaused by: java.io.IOException: no room\n\tat c.d\n"
    )
    assert process.headline(trace) == "java.io.IOException: no room"
    assert process.headline("Traceback\n  File x\nValueError: bad") == "ValueError: bad"
    assert process.headline("") == ""


def test_statistics_of_nothing_are_no_numbers():
    assert math.isnan(statistics.geomean([])) and math.isnan(statistics.median_of([]))
    assert statistics.geomean([1, 4]) == pytest.approx(2)
    assert statistics.rounded(float("nan")) is None
    assert statistics.rounded(1.23456, 2) == 1.23


def test_decimals_become_doubles_and_views_strings():
    assert data.as_double(pa.decimal128(15, 2)) == pa.float64()
    assert data.as_double(pa.string_view()) == pa.string()
    assert data.as_double(pa.int64()) == pa.int64()


@pytest.mark.parametrize(
    ("model", "short"),
    [("AMD EPYC", "amd-epyc"), ("Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz", "intel-xeon"), ("", "")],
)
def test_machines_are_named_by_maker_and_family(model: str, short: str):
    assert machine.processor(model) == (short or platform.machine())
