"""The demo, played by engines that are told what to answer: what it compares, says and draws."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
from harness import contest, machine
from harness.contest import Player
from harness.engines import Spec
from harness.process import EngineDied
from harness.progress import Progress

SECONDS = {"warmset": 1.0, "stock": 3.0, "parquet": 2.0}


class Fake:
    """An engine that takes its seconds for each query and ten times as many to cache, and may die or lie."""

    asked: ClassVar[list[tuple[str, str]]] = []
    dies: ClassVar[dict[str, str]] = {}
    lies: ClassVar[set[str]] = set()

    def __init__(self, spec: Spec) -> None:
        self.name = spec.name

    def call(self, step: str, timeout_s: float, **request: object) -> dict:
        Fake.asked.append((self.name, step))
        if Fake.dies.get(self.name) == step:
            raise EngineDied("oom", step, "java.lang.OutOfMemoryError: Java heap space")
        seconds = SECONDS[self.name] * (10 if request["op"] == "cache" else 1)
        return {"seconds": seconds, "rows": [["z"]] if self.name in Fake.lies else [["a"]]}


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, ModuleType]]:
    """The demo's own modules, without data or engines."""
    folder = machine.ROOT / "bench" / "demo"
    monkeypatch.syspath_prepend(str(folder))
    for name in ("report", "chart"):
        # Another benchmark's modules have the same names.
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = {name: importlib.import_module(name) for name in ("report", "chart")}
    spec = importlib.util.spec_from_file_location("demo_main", folder / "__main__.py")
    found["main"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found["main"])
    (tmp_path / "part.parquet").write_bytes(b"-")
    monkeypatch.setattr(found["main"].data, "table", lambda *_: tmp_path)
    monkeypatch.setattr(contest, "open_player", lambda _, spec, limit, *__: Player(spec, limit, Fake(spec)))
    Fake.asked, Fake.dies, Fake.lies = [], {}, set()
    yield found
    for name in ("report", "chart"):
        del sys.modules[name]


def play(bench: dict[str, ModuleType], tmp_path: Path) -> tuple[list[Player], dict]:
    """The players after the rounds, and the raw figures."""
    options = bench["main"].parse([])
    players = bench["main"].play(options, tmp_path, tmp_path, Progress(1, stream=io.StringIO()))
    known = {"cpu_model": "a", "cpus": 2, "kernel": "b", "java": "c", "commit": "d"}
    return players, {"machine": known, "options": vars(options), "result": bench["report"].figures(players)}


def test_parquet_is_beside_the_caches_with_the_queries_after_which_they_pay(bench, tmp_path: Path):
    players, raw = play(bench, tmp_path)
    # 5 queries, 5 rounds; caching takes ten times a query.
    assert raw["result"] == {
        "speedup": 3.0, "vs_parquet": 1.43, "stock": 105.0, "parquet": 50.0, "warmset": 35.0,
        "break_even_stock": None, "break_even_warmset": 10.0, "rows_equal": True,
    }  # fmt: skip
    page = bench["report"].readme(players, raw)
    assert "| **whole job** | 105.00 | 50.00 | 35.00 | 3.00 | 1.43 |" in page
    assert "Warmset: the cache has paid after 10 queries" in page
    assert "stock `cache()`: the cache never pays" in page
    bench["chart"].save(players, bench["main"].parse([]), tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 10_000
    first = next(step for step in Fake.asked if step[1] == "q1")
    assert first[0] == "parquet", "its pages are charged to its own cgroup"
    json.dumps(raw, allow_nan=False)


def test_a_death_is_said_and_leaves_the_others(bench, tmp_path: Path):
    Fake.dies = {"stock": "materialise lineitem"}
    players, raw = play(bench, tmp_path)
    assert (raw["result"]["stock"], raw["result"]["speedup"]) == ("oom", None)
    assert (raw["result"]["vs_parquet"], raw["result"]["rows_equal"]) == (1.43, True)
    page = bench["report"].readme(players, raw)
    assert "ran out of memory at step `materialise lineitem`" in page
    assert "| q1 | – | 2.00 | 1.00 | – | 2.00 |" in page


@pytest.mark.parametrize(("dies", "lies"), [({"warmset": "q6"}, set()), ({}, {"warmset"})])
def test_a_warmset_that_dies_or_lies_has_no_equal_rows(bench, tmp_path: Path, dies: dict, lies: set):
    Fake.dies, Fake.lies = dies, lies
    _, raw = play(bench, tmp_path)
    assert raw["result"]["rows_equal"] is False
