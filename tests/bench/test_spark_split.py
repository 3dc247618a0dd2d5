"""spark-split, played by engines that are told how fast they are: rounds, medians, and what is held against what."""

from __future__ import annotations

import importlib.util
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
from harness import contest, learnable
from harness.contest import Player
from harness.engines import PYTHON_43, Spec
from harness.machine import ROOT
from harness.process import EngineDied
from harness.progress import Progress
from harness.training import Place

FULL = ["heap_35", "heap_45", "heap_55", "heap_65", "heap_75", "controller"]


class Fake:
    """An engine whose passes take what `seconds` says of its name and of how often it was opened before."""

    opened: ClassVar[list[str]] = []
    specs: ClassVar[list[Spec]] = []
    seconds: ClassVar[dict[tuple[str, int], float]] = {}
    rows: ClassVar[dict[str, float]] = {}

    def __init__(self, spec: Spec) -> None:
        self.name = spec.name
        self.second = Fake.seconds.get((spec.name, Fake.opened.count(spec.name)), 2.0)
        Fake.opened.append(spec.name)
        Fake.specs.append(spec)

    def call(self, step: str, timeout_s: float, **request: object) -> dict:
        if self.second == 0:
            raise EngineDied("oom", step)
        # The first two passes and one of the others are slow.
        took = [9 * self.second] * 2 + [self.second] * 3 + [7 * self.second]
        name = "treeAggregate at RDDLossFunction.scala:61"
        jobs = [{"name": name, "began_s": 100.0 * at, "ended_s": 100.0 * at + each} for at, each in enumerate(took)]
        return {"seconds": 10 * self.second, "jobs": jobs, "rows": [[Fake.rows.get(self.name, 1)]]}


@pytest.fixture
def bench(monkeypatch, tmp_path: Path) -> Iterator[ModuleType]:
    """The benchmark without data."""
    directory = ROOT / "bench" / "spark-split"
    monkeypatch.syspath_prepend(str(directory))
    found = importlib.util.spec_from_file_location("spark_split", directory / "__main__.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "spark_split", module)
    found.loader.exec_module(module)
    (tmp_path / "part-00000.parquet").write_bytes(b"-")
    monkeypatch.setattr(learnable, "table", lambda *_: tmp_path)
    monkeypatch.setattr(contest, "open_player", lambda _, spec, limit, *__: Player(spec, limit, Fake(spec)))
    Fake.opened, Fake.specs, Fake.seconds, Fake.rows = [], [], {}, {}
    yield module
    del sys.modules["splits"]


def measured(bench: ModuleType, monkeypatch, tmp_path: Path, *arguments: str) -> dict[str, dict]:
    monkeypatch.setattr(sys, "argv", ["spark-split", *arguments])
    place = Place(2, tmp_path / "logs", tmp_path / "scratch", Progress(1, stream=io.StringIO()))
    return dict(bench.measure(bench.parse(), place))


def test_each_round_is_every_split_once_in_another_order(bench: ModuleType, monkeypatch, tmp_path: Path):
    found = measured(bench, monkeypatch, tmp_path, "--jobs", "lgr", "--rounds", "3")
    rounds = [Fake.opened[at : at + len(FULL)] for at in range(0, len(Fake.opened), len(FULL))]
    assert len(rounds) == 3 and all(sorted(each) == sorted(FULL) for each in rounds)
    assert len({each[0] for each in rounds}) == 3
    assert list(found["lgr"]) == FULL and len(found["lgr"]["controller"]["rounds"]) == 3


def test_every_workload_is_run_by_default_and_the_rounds_are_two(bench: ModuleType, monkeypatch, tmp_path: Path):
    found = measured(bench, monkeypatch, tmp_path)
    assert list(found) == ["lr", "lgr", "svm", "kmeans", "objects", "forest", "changing"]
    assert set(Counter(Fake.opened).values()) == {2 * len(found)}


def test_the_engines_differ_in_their_split_alone(bench: ModuleType, monkeypatch, tmp_path: Path):
    measured(bench, monkeypatch, tmp_path, "--jobs", "lgr", "--rounds", "1")
    own = ("spark.driver.memory", "spark.warmset.memory", "spark.warmset.totalMemory", "spark.local.dir",
           "spark.warmset.dir", "spark.sql.warehouse.dir")  # fmt: skip
    confs = [{key: value for key, value in spec.conf.items() if key not in own} for spec in Fake.specs]
    assert all(conf == confs[0] for conf in confs)
    assert "-XX:G1HeapRegionSize=4m" in confs[0]["spark.driver.extraJavaOptions"]
    assert {spec.python for spec in Fake.specs} == {PYTHON_43}


def test_a_time_is_the_median_of_passes_and_of_rounds(bench: ModuleType, monkeypatch, tmp_path: Path):
    # The best of one round is not the best of all.
    Fake.seconds = {("heap_35", 0): 0.5, ("heap_35", 1): 3.0, ("heap_35", 2): 3.0, ("controller", 2): 40.0}
    found = measured(bench, monkeypatch, tmp_path, "--jobs", "lgr,changing", "--rounds", "3")
    runs = found["lgr"]
    assert (runs["heap_35"]["seconds"], runs["heap_45"]["seconds"], runs["controller"]["seconds"]) == (3.0, 2.0, 2.0)
    assert found["changing"]["heap_45"]["seconds"] == 20
    assert bench.figures(found) == {"worst_vs_best_static": 1.0, "changing_vs_best_static": 1.0}
    assert bench.sound(runs)


def test_a_split_that_fails_in_one_round_has_no_time(bench: ModuleType, monkeypatch, tmp_path: Path):
    Fake.seconds = {("heap_35", 0): 0.5, ("heap_35", 1): 0}
    runs = measured(bench, monkeypatch, tmp_path, "--jobs", "lgr")["lgr"]
    assert runs["heap_35"]["seconds"] is None and bench.sound(runs)
    assert bench.figures({"lgr": runs})["worst_vs_best_static"] == 1.0


def test_a_controller_that_fails_and_results_that_differ_are_unsound(bench: ModuleType, monkeypatch, tmp_path: Path):
    Fake.seconds = {("controller", 1): 0}
    runs = measured(bench, monkeypatch, tmp_path, "--jobs", "lgr")["lgr"]
    assert not bench.sound(runs) and bench.figures({"lgr": runs})["worst_vs_best_static"] is None
    Fake.opened, Fake.seconds, Fake.rows = [], {}, {"heap_55": 2}
    assert not bench.sound(measured(bench, monkeypatch, tmp_path, "--jobs", "lgr")["lgr"])
    Fake.opened, Fake.rows = [], dict.fromkeys(FULL, 1.0) | {"heap_55": 1 + 1e-15}
    assert bench.sound(measured(bench, monkeypatch, tmp_path, "--jobs", "lgr")["lgr"])


def test_what_an_interrupted_run_finished_is_not_run_again(bench: ModuleType, monkeypatch, tmp_path: Path):
    raw = tmp_path / "raw.json"
    raw.write_text(json.dumps({"jobs": {"lgr": {}}}))
    found = measured(bench, monkeypatch, tmp_path, "--jobs", "lgr,changing", "--resume", str(raw))
    assert list(found) == ["changing"]
