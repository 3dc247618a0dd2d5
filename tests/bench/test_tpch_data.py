"""Parameters of TPC-H's queries, the nested table, and engines that are not Spark: without any engine."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness import data, peer, tpch


def test_drawn_parameters_follow_the_rules_of_the_specification():
    for seed in range(50):
        drawn = tpch.drawn(10.0, seed)
        assert set(drawn) == set(tpch.NUMBERS)
        assert 60 <= drawn[1]["delta"] <= 120
        assert dict(tpch.NATIONS)[drawn[8]["nation"]] == tpch.REGIONS.index(drawn[8]["region"])
        assert drawn[7]["nation1"] != drawn[7]["nation2"] and drawn[12]["mode1"] != drawn[12]["mode2"]
        assert date(1993, 1, 1) <= drawn[4]["date"] <= date(1997, 10, 1) and drawn[4]["date"].day == 1
        assert float(drawn[11]["fraction"]) == pytest.approx(0.0001 / 10)
        assert len(set(drawn[16]["sizes"].split(", "))) == 8
        assert len(set(drawn[22]["codes"].split(", "))) == 7
        assert not any("{" in tpch.text(number, drawn[number]) for number in tpch.NUMBERS)
    assert tpch.drawn(1.0, 5) == tpch.drawn(1.0, 5) != tpch.drawn(1.0, 6)
    assert len(set(tpch.COLOURS)) == 92


def test_validation_parameters_have_a_place_in_each_text():
    for number in tpch.NUMBERS:
        text = tpch.validation(number)
        assert "{" not in text and all(str(value) in text for value in tpch.VALIDATION[number].values())
        assert set(tpch.VALIDATION[number]) == set(tpch.drawn(1.0, 0)[number])


def test_the_columns_that_queries_order_by_are_known():
    found = {number: tpch.ordering(tpch.validation(number)) for number in tpch.NUMBERS}
    assert [number for number, ordering in found.items() if not ordering] == [6, 14, 17, 19]
    assert found[2] == ((0, True), (2, False), (1, False), (3, False))
    assert found[9] == ((0, False), (1, True))
    assert found[15] == ((0, False),), "of the outermost select"
    assert found[16] == ((3, True), (0, False), (1, False), (2, False))
    assert found[22] == ((0, False),)


def test_an_order_is_one_row_with_all_its_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    raw = tmp_path / "lineitem"
    raw.mkdir()
    table = pa.table(
        {
            "l_orderkey": [1, 1, 3, 4, 4, 4],
            "l_quantity": pa.array(map(Decimal, "123456"), pa.decimal128(15, 2)),
            "l_extendedprice": pa.array([Decimal(1)] * 6, pa.decimal128(15, 2)),
            "l_discount": pa.array([Decimal(0)] * 6, pa.decimal128(15, 2)),
            "l_shipdate": [date(1995, 1, 1)] * 6,
            "l_shipmode": pa.array(list("abcdef"), pa.string_view()),
        }
    )
    pq.write_table(table, raw / "part.parquet")
    monkeypatch.setattr(data, "DATA", tmp_path / "data")
    monkeypatch.setattr(data, "table", lambda *_: raw)
    read = pq.read_table(data.nested(1.0)).to_pylist()
    assert [each["ol_orderkey"] for each in read] == [1, 3, 4]
    assert [[line["l_shipmode"] for line in each["ol_lines"]] for each in read] == [["a", "b"], ["c"], ["d", "e", "f"]]
    assert read[2]["ol_lines"][1]["l_quantity"] == Decimal(5)


class Small:
    """An engine that knows one query."""

    version = "1"
    failures = (ValueError,)
    views: ClassVar[dict[str, str]] = {}

    def __init__(self, conf: dict[str, str]) -> None:
        assert conf == {"threads": "2"}

    def table(self, name: str, path: str) -> None:
        self.views[name] = path

    def rows(self, text: str) -> list[tuple]:
        if text != "known":
            raise ValueError("no such function")
        return [(Decimal("1.50"), 2.0, None)]


def test_an_engine_that_is_not_spark_says_which_query_it_cannot_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(peer.KINDS, "small", Small)
    worker = peer.Worker()
    assert worker.on_start({"engine": "small", "threads": "2"}) == {"version": "1"}
    worker.on_table("orders", "/data/orders")
    assert Small.views == {"orders": "/data/orders"}
    answer = worker.on_query("known")
    assert answer["rows"] == [["1.50", 2.0, None]] and answer["seconds"] >= 0
    assert worker.on_query("unknown") == {"failed": "ValueError: no such function"}
