"""The parts of spark-ml, played by engines that are told what to answer: what is searched, kept, compared, drawn."""

from __future__ import annotations

import importlib
import io
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import pytest
from harness import contest, learnable, training
from harness.contest import Player
from harness.engines import Spec
from harness.machine import ROOT
from harness.process import EngineDied
from harness.progress import Progress
from harness.training import Place

MIB = 1 << 20
JOBS = {
    "KMeans": "collectAsMap at KMeans.scala:585",
    "RandomForestClassifier": "collectAsMap at RandomForest.scala:693",
    "objects": "collect at Objects.scala:24",
}


class Fake:
    """An engine that takes a second per pass, more with a bad setting, and dies in too little memory."""

    opened: ClassVar[list[str]] = []
    differs = False
    kept_bytes = 3 << 30
    fits_bytes = 6 << 30

    def __init__(self, spec: Spec, limit_bytes: int) -> None:
        self.spec, self.limit_bytes = spec, limit_bytes
        Fake.opened.append(spec.name)

    def call(self, step: str, timeout_s: float, **request: object) -> dict:
        if self.limit_bytes < 900 * MIB:
            raise EngineDied("oom-killed", step)
        second = 1.0 if self.spec.is_warmset else 3.0
        if "ParallelGC" in self.spec.conf["spark.driver.extraJavaOptions"]:
            second *= 0.5
        name = JOBS.get(str(request.get("trainer", request["op"])), "treeAggregate at RDDLossFunction.scala:61")
        jobs = [
            {"name": name, "began_s": 10.0 * at, "ended_s": 10.0 * at + second, "task_run_s": 2 * second,
             "task_cpu_s": second, "task_collection_s": second / 2}
            for at in range(6)
        ]  # fmt: skip
        fits = self.limit_bytes > Fake.fits_bytes
        sample = {"memory_bytes": 1, "disk_bytes": 0 if fits else 2}
        if self.spec.is_warmset:
            resident = Fake.kept_bytes if fits else 1 << 30
            sample |= {"read_bytes": 5, "wait_s": 0.5, "live_bytes": Fake.kept_bytes, "resident_bytes": resident}
        samples = [{"at_s": 60.0 * at, **sample} for at in range(2)]
        rows = [["0x1p0" if self.spec.is_warmset and Fake.differs else "0x1p1"]]
        return {"seconds": 9 * second, "collection_s": second / 2, "jobs": jobs, "samples": samples, "rows": rows}

    def close(self) -> None:
        """Nothing was started."""


@pytest.fixture
def bench(monkeypatch, tmp_path: Path) -> Iterator[dict]:
    """The benchmark's own modules, by their names, without data."""
    names = ("options", "measuring", "regimes", "report", "chart", "tuning", "least", "limit")
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "spark-ml"))
    # Another benchmark's modules may have the same names.
    for name in names:
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = {name: importlib.import_module(name) for name in names}
    (tmp_path / "part-00000.parquet").write_bytes(b"-")
    monkeypatch.setattr(learnable, "table", lambda rows, files, single: tmp_path)
    monkeypatch.setattr(found["measuring"], "disk_speed", lambda _: {"read_bytes_per_s": 1e9})
    monkeypatch.setattr(
        training.contest, "open_player", lambda _, spec, limit, *__: Player(spec, limit, Fake(spec, limit))
    )
    monkeypatch.setattr(contest, "fit_together", lambda limits: sum(limits) < 8 << 30)
    Fake.opened, Fake.differs, Fake.kept_bytes = [], False, 5 << 30
    yield found
    for name in names:
        del sys.modules[name]


def options(bench: dict, monkeypatch, *arguments: str) -> object:
    monkeypatch.setattr(sys, "argv", ["spark-ml", *arguments])
    return bench["options"].parse()


def measure(bench: dict, chosen: object, tmp_path: Path) -> object:
    place = Place(2, tmp_path / "logs", tmp_path / "scratch", Progress(1, stream=io.StringIO()))
    measuring = bench["measuring"].Measuring(chosen, place)
    for _ in measuring.parts():
        json.dumps(measuring.raw, allow_nan=False)
    return measuring


def test_what_comes_close_in_tuning_is_tried_again(bench: dict, monkeypatch, tmp_path: Path):
    search = bench["tuning"].Search
    speeds = {"G1": [3.0, 3.2], "Parallel": [2.9, 4.0]}
    asked = []

    def measured(_, setting) -> float:
        asked.append(setting)
        large = setting.heap_bytes > 1000 * MIB
        return 9.0 if large else speeds[setting.collector][asked.count(setting) - 1]

    monkeypatch.setattr(search, "measured", measured)
    place = Place(2, tmp_path, tmp_path, Progress(1, stream=io.StringIO()))
    monkeypatch.setattr(bench["tuning"].settings, "WARMSET_HEAPS", (0.2, 0.9))
    first = search("lgr", None, place)
    best = first.best("warmset", 3112 * MIB)
    assert best.collector == "G1", "the second try of the other was slow"
    assert [asked.count(setting) for setting in first.tries] == [2, 1, 2]
    again = search("lgr", None, place, first.raw())
    count = len(asked)
    assert again.best("warmset", 3112 * MIB).collector == "G1"
    assert len(asked) == count, "what an earlier run tried is kept"


@pytest.mark.parametrize("better", [True, False])
def test_a_larger_young_generation_is_tried_where_passes_make_objects(
    bench: dict, monkeypatch, tmp_path: Path, better: bool
):
    search, heaps = bench["tuning"].Search, bench["tuning"].settings.heaps
    seconds = {0: 3.0, 70: 2.0 if better else 4.0}
    monkeypatch.setattr(search, "measured", lambda _, setting: seconds[setting.young_percent])
    place = Place(2, tmp_path, tmp_path, Progress(1, stream=io.StringIO()))
    objects, trainer = (search(name, None, place) for name in ("objects", "lgr"))
    assert objects.best("warmset", 3112 * MIB).young_percent == (70 if better else 0)
    tried = [setting for setting in objects.tries if setting.young_percent]
    assert len(tried) == len(heaps("warmset", 3112 * MIB))
    assert {setting.collector for setting in tried} == {"Parallel"}
    assert trainer.best("warmset", 3112 * MIB).young_percent == 0
    assert not [setting for setting in trainer.tries if setting.young_percent]
    options = tried[0].spec(2, tmp_path, 1 << 20).conf["spark.driver.extraJavaOptions"]
    assert f"-Xmn{tried[0].heap_bytes * 70 // 100 >> 20}m" in options


def test_stock_is_tried_without_compression(bench: dict, monkeypatch, tmp_path: Path):
    search = bench["tuning"].Search
    monkeypatch.setattr(search, "measured", lambda _, setting: 3.0 if setting.compressed else 2.0)
    place = Place(2, tmp_path, tmp_path, Progress(1, stream=io.StringIO()))
    for name in ("lgr", "objects"):
        assert not search(name, None, place).best("stock", 3112 * MIB).compressed
        assert search(name, None, place).best("warmset", 3112 * MIB).compressed, "its regions are not compressed anyway"


def test_all_parts(bench: dict, monkeypatch, tmp_path: Path):
    measuring = measure(bench, options(bench, monkeypatch), tmp_path)
    figures = measuring.figures()
    assert measuring.sound
    assert all(figures[name] == 3 for name in ("lr", "lgr", "svm", "kmeans", "objects", "forest"))
    assert figures["fits_worst"] == 3 and figures["objects_gc_ratio"] == pytest.approx(1 / 3, abs=1e-3)
    # The pool holds less than 3 of the 5 GiB: what misses takes the disk more than 2 s, a pass takes 0.5 s.
    assert figures["limit_ratio"] == 1
    assert all(each["bound_s"] > 2 for each in measuring.raw["limit"].values())
    assert figures["min_memory_ratio"] == 1
    assert measuring.raw["memory"]["stock"]["bytes"] == 960 * MIB
    assert {each["collector"] for each in measuring.raw["settings"]["lgr"].values()} == {"Parallel"}
    assert set(measuring.raw["regimes"]) == {"main", "fits", "1x", "4x"}
    fits = measuring.raw["regimes"]["fits"]
    assert fits["rows"] == measuring.raw["regimes"]["main"]["rows"] // 2
    assert not fits["workloads"]["lr"]["alive_together"]
    assert [len(each["timings"]) for each in fits["workloads"]["lr"]["engines"].values()] == [3, 3], "a fit a sitting"
    main = measuring.raw["regimes"]["main"]["workloads"]
    rounds = {name: {len(each["timings"]) for each in found["engines"].values()} for name, found in main.items()}
    assert rounds.pop("kmeans") == {3} and set.union(*rounds.values()) == {2}, "k-means has new processes for each fit"
    chosen = fits["workloads"]["lr"]["settings"]
    assert chosen["warmset"] == {
        **chosen["stock"],
        "engine": "warmset",
        "heap_first": True,
        "pool_bytes": chosen["warmset"]["pool_bytes"],
    }
    text = bench["report"].tables(measuring.raw)
    assert "least memory" in text and "results equal" in text and "DIFFER" not in text
    bench["chart"].save(measuring.raw["regimes"], tmp_path / "chart.png")
    assert (tmp_path / "chart.png").stat().st_size > 10_000


def test_the_distance_to_the_limit(bench: dict):
    setting = {"warmset": {"pool_bytes": 2e9, "total_bytes": 3e9}}
    passed = {"seconds": 3.0, "live_bytes": 5e9, "read_bytes": 2e9}
    main = {"passes": {"warmset": passed}, "settings": setting, "disk_bytes_per_s": [1e9, 3e9]}

    def distance(fits_s: float) -> dict:
        fits = {"passes": {"stock": {"seconds": fits_s}, "warmset": {"seconds": 9.0}}}
        return bench["limit"].distances({"lr": main}, {"lr": fits}, 2)["lr"]

    disk = distance(0.1)
    assert (disk["bound_s"], disk["ratio"], disk["ratio_of_total"]) == (1.5, 2.0, 3.0)
    resident = distance(1.25)
    assert (resident["bound_s"], resident["ratio"], resident["ratio_of_total"]) == (2.5, 1.2, 1.2)
    assert distance(2.0)["ratio"] == 1, "a pass that beats the bound is its own limit"


def test_the_quick_form_keeps_its_engines(bench: dict, monkeypatch, tmp_path: Path):
    measuring = measure(bench, options(bench, monkeypatch, "--quick"), tmp_path)
    assert sorted(Fake.opened) == ["stock", "warmset"]
    assert measuring.figures()["limit_ratio"] is None and measuring.figures()["objects"] == 3
    workloads = measuring.raw["regimes"]["main"]["workloads"]
    assert list(workloads) == ["lgr", "objects"]
    runs = workloads["objects"]["engines"]
    assert len(runs["stock"]["timings"]) == 1, "the timings of this workload alone"


def test_other_data_and_another_read_ahead_have_files_of_their_own(bench: dict, monkeypatch):
    plain = options(bench, monkeypatch, "--workloads", "lgr")
    other = options(bench, monkeypatch, "--workloads", "lgr", "--single", "--read-ahead", "128")
    assert plain.suffix == "-lgr" and other.suffix == "-lgr-single-read-ahead-128"
    assert "--single --read-ahead 128" in importlib.import_module("report").readme(other, "raw.json", "chart.png")


def test_what_does_not_fit_makes_no_worst_figure(bench: dict, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(Fake, "fits_bytes", 64 << 30)
    measuring = measure(bench, options(bench, monkeypatch, "--parts", "fits", "--workloads", "lgr,svm"), tmp_path)
    assert measuring.sound and measuring.figures()["fits_worst"] is None


def test_results_that_differ_are_unsound(bench: dict, monkeypatch, tmp_path: Path):
    Fake.differs = True
    measuring = measure(bench, options(bench, monkeypatch, "--quick", "--workloads", "lgr"), tmp_path)
    assert not measuring.sound and "DIFFER" in bench["report"].tables(measuring.raw)


def test_figures_of_an_empty_pool_are_unsound(bench: dict, monkeypatch, tmp_path: Path):
    Fake.kept_bytes = 0
    assert not measure(bench, options(bench, monkeypatch, "--quick"), tmp_path).sound


def test_settings_of_an_earlier_run_are_not_looked_for_again(bench: dict, monkeypatch, tmp_path: Path):
    raw = tmp_path / "raw.json"
    first = measure(bench, options(bench, monkeypatch, "--parts", "main", "--workloads", "lgr"), tmp_path)
    raw.write_text(json.dumps(first.raw))
    Fake.opened = []
    arguments = ("--parts", "main", "--workloads", "lgr", "--settings-from", str(raw))
    again = measure(bench, options(bench, monkeypatch, *arguments), tmp_path)
    assert Fake.opened == ["stock", "warmset"]
    assert again.raw["settings"] == first.raw["settings"]


def test_an_interrupted_run_is_resumed(bench: dict, monkeypatch, tmp_path: Path):
    raw = tmp_path / "raw.json"
    arguments = ("--parts", "main,fits,memory", "--workloads", "lgr,objects")
    whole = measure(bench, options(bench, monkeypatch, *arguments), tmp_path)
    kept = json.loads(json.dumps(whole.raw))
    del kept["regimes"]["main"]["workloads"]["objects"], kept["regimes"]["fits"], kept["memory"]["warmset"]
    raw.write_text(json.dumps(kept))
    Fake.opened = []
    again = measure(bench, options(bench, monkeypatch, *arguments, "--resume", str(raw)), tmp_path)
    assert again.figures() == whole.figures() and again.sound
    assert again.raw["regimes"]["main"]["workloads"]["lgr"] == kept["regimes"]["main"]["workloads"]["lgr"]
    trials = len(again.raw["memory"]["warmset"]["trials"])
    sitting = ["stock", "warmset"]
    fits = 2 * [*sitting, *reversed(sitting), *sitting]
    assert Fake.opened == sitting + fits + ["warmset"] * trials


def test_an_engine_that_dies_leaves_a_null(bench: dict, monkeypatch, tmp_path: Path):
    chosen = replace(options(bench, monkeypatch, "--quick", "--workloads", "lgr,svm"), total_bytes=800 * MIB)
    measuring = measure(bench, chosen, tmp_path)
    assert not measuring.sound
    assert measuring.figures()["lgr"] is None
    assert Fake.opened == ["stock", "warmset"] * 2, "the dead are not asked again"
    assert "oom-killed" in bench["report"].tables(measuring.raw)
