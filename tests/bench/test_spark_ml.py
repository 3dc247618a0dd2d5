"""The parts of spark-ml, played by engines that are told what to answer: what is searched, kept, compared, drawn."""

from __future__ import annotations

import gzip
import importlib
import io
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import pytest
from harness import contest, learnable, settings, training
from harness.contest import Player
from harness.engines import Spec
from harness.keeping import Keeper, Unfinished
from harness.machine import ROOT, Run
from harness.process import EngineDied
from harness.progress import Progress
from harness.training import Place
from harness.workloads import Size

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
    fits_bytes = 9 << 29

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


def options(bench: dict, *arguments: str) -> object:
    return bench["options"].parse(list(arguments))


def measure(bench: dict, chosen: object, tmp_path: Path, raw: dict | None = None) -> object:
    place = Place(2, tmp_path / "logs", tmp_path / "scratch", Progress(1, stream=io.StringIO()))
    known = {"cpu_model": "a", "cpus": 2, "kernel": "b", "java": "c", "commit": "d", "blas": "e"}
    raw = {"machine": known, "kept": chosen.kept()} if raw is None else raw
    measuring = bench["measuring"].Measuring(chosen, place, raw, lambda: json.dumps(raw, allow_nan=False))
    measuring.play()
    raw["result"] = measuring.figures()
    return measuring


def page(bench: dict, measuring: object) -> str:
    return bench["report"].readme(measuring.raw, "raw.json", "chart.png")


def search(bench: dict, monkeypatch, tmp_path: Path, name: str, whole_s: Callable) -> object:
    """A search whose trials take what `whole_s` says of their setting."""
    found = bench["tuning"].Search
    monkeypatch.setattr(found, "measured", lambda _, setting, iterations: {
        "iterations": iterations, "whole_s": whole_s(setting), "died": None,
    })  # fmt: skip
    size = Size(tmp_path, 1000, 2, 20)
    return found(name, size, Place(2, tmp_path, tmp_path, Progress(1, stream=io.StringIO())), 6, [])


def test_settings_come_from_all_runs_that_are_named_the_last_one_first(bench: dict, tmp_path: Path):
    small, large = (settings.with_heap("warmset", 4 << 30, share) for share in (0.2, 0.57))
    files = [tmp_path / "first.json", tmp_path / "second.json.gz"]
    files[0].write_text(json.dumps({"settings": {"lgr": {"warmset": small.raw()}, "kmeans": {"warmset": small.raw()}}}))
    files[1].write_bytes(gzip.compress(json.dumps({"settings": {"lgr": {"warmset": large.raw()}}}).encode()))
    chosen = options(bench, "--parts", "memory", "--settings-from", *map(str, files))
    found = bench["measuring"].Measuring(chosen, Place(2, tmp_path, tmp_path, Progress(1, stream=io.StringIO())), {})
    assert (found.setting("svm", "warmset"), found.setting("kmeans", "warmset")) == (large, small)
    assert chosen.kept()["settings_from"].split() == [str(file) for file in files]


KNOBS = {
    "collector": ("G1", "Parallel"),
    "memory_fraction": (0.6, 0.75),
    "serialiser": ("java", "kryo"),
    "reference_tracking": (True, False),
    "compressed": (True, False),
}


@pytest.mark.parametrize(("knob", "worse", "better"), [(knob, *values) for knob, values in KNOBS.items()])
def test_the_search_finds_what_is_better_of_stock(
    bench: dict, monkeypatch, tmp_path: Path, knob: str, worse: object, better: object
):
    for name in ("lgr", "kmeans", "objects", "forest"):
        tried = search(bench, monkeypatch, tmp_path, name, lambda each: 2.0 if getattr(each, knob) == worse else 1.0)
        assert getattr(tried.best("stock", 1936 * MIB), knob) != worse
        assert better in {trial[knob] for trial in tried.trials}


def test_both_engines_get_the_same_number_of_trials(bench: dict, monkeypatch, tmp_path: Path):
    for name in ("lgr", "kmeans", "objects", "forest"):
        counts = set()
        for engine in ("stock", "warmset"):
            tried = search(bench, monkeypatch, tmp_path, name, lambda each: each.heap_bytes / MIB)
            best = tried.best(engine, 1936 * MIB)
            assert best.heap_bytes == min(trial["heap_bytes"] for trial in tried.trials)
            counts.add((len(tried.trials), sum(trial["rung"] == 1 for trial in tried.trials)))
            assert all(trial["engine"] == engine for trial in tried.trials)
            again = bench["tuning"].Search(name, tried.size, tried.place, 6, tried.trials)
            monkeypatch.setattr(bench["tuning"].Search, "measured", None)
            assert again.best(engine, 1936 * MIB) == best, "what is known is not tried again"
        assert counts == {(8, 2)}


def test_the_objects_are_tried_as_bytes_compressed_and_not(bench: dict, monkeypatch, tmp_path: Path):
    tried = search(bench, monkeypatch, tmp_path, "objects", lambda _: 1.0)
    tried.best("stock", 1936 * MIB)
    as_bytes = [trial for trial in tried.trials if trial["level"] == "MEMORY_AND_DISK_SER"]
    assert {trial["compressed"] for trial in as_bytes} == {True, False}
    young = next(settings.from_raw(trial) for trial in as_bytes if trial["young_percent"])
    conf = young.spec(2, tmp_path, 1 << 20).conf
    assert f"-Xmn{young.heap_bytes * 45 // 100 >> 20}m" in conf["spark.driver.extraJavaOptions"]
    assert conf["spark.kryo.referenceTracking"] == "false"


def test_a_trial_counts_as_the_whole_fit_that_is_timed(bench: dict, tmp_path: Path):
    size = Size(tmp_path, 1000, 2, 20)
    place = Place(2, tmp_path, tmp_path, Progress(1, stream=io.StringIO()))
    setting = settings.heaps("stock", 1936 * MIB)[0]
    for name, lacking in (("lgr", 15), ("forest", 3)):
        trial = bench["tuning"].Search(name, size, place, 6, []).measured(setting, 5)
        # 27 s as measured, and 3 s for each pass that it lacks.
        assert trial["whole_s"] == 27 + 3 * lacking


def test_all_parts(bench: dict, tmp_path: Path):
    measuring = measure(bench, options(bench, "--parts", "all", "--workloads", "all"), tmp_path)
    figures = measuring.figures()
    assert measuring.sound
    assert all(figures[name] == 3 for name in ("lr", "lgr", "svm", "kmeans", "objects", "forest"))
    assert figures["fits_worst"] == 3 and figures["objects_gc_ratio"] == pytest.approx(1 / 3, abs=1e-3)
    assert all(figures[f"whole_{name}"] == 3 for name in ("lr", "lgr", "svm", "kmeans", "objects", "forest"))
    assert figures["answers_equal"] is True and figures["tuned_trials"] == 4 * 2 * 8
    # The pool holds less than 3 of the 5 GiB: what misses takes the disk more than 2 s, the fakes' pass takes 0.5 s.
    assert all(each["bound_s"] > 2 for each in measuring.raw["limit"].values())
    assert figures["limit_ratio"] < 0.25, "what is below the bound is shown"
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
        "heap_bytes": chosen["stock"]["heap_bytes"] - settings.POOL_BYTES_MIN,
        "heap_first": True,
        "pool_bytes": chosen["warmset"]["pool_bytes"],
    }
    text = page(bench, measuring)
    assert "least memory" in text and "| equal |" in text and "differ**" not in text
    assert "**`main`**: the data outgrows memory; 10000000 rows, 1.97 times the cgroup's limit of 1936 MiB" in text
    assert (
        "| linear regression | 13.5 | 13.5 – 13.5 | 4.5 | 4.5 – 4.5 | **3.00** | 3.00 – 3.00 | 3.00 (3.00 – 3.00) |"
        in text
    )
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
    assert distance(2.0)["ratio"] == 0.75, "a pass that beats the bound shows that the bound is too high"


def test_the_quick_form_keeps_its_engines(bench: dict, tmp_path: Path):
    measuring = measure(bench, options(bench, "--quick"), tmp_path)
    assert sorted(Fake.opened) == ["stock", "warmset"]
    assert measuring.figures()["limit_ratio"] is None and measuring.figures()["objects"] == 3
    workloads = measuring.raw["regimes"]["main"]["workloads"]
    assert list(workloads) == ["lgr", "objects"]
    runs = workloads["objects"]["engines"]
    assert len(runs["stock"]["timings"]) == 1, "the timings of this workload alone"


def test_other_data_and_another_read_ahead_have_files_of_their_own(bench: dict):
    plain = options(bench, "--parts", "all", "--workloads", "lgr")
    other = options(bench, "--parts", "all", "--workloads", "lgr", "--single", "--read-ahead", "128")
    assert plain.suffix == "-lgr" and other.suffix == "-lgr-single-read-ahead-128"
    assert plain.kept() != other.kept()


def test_what_does_not_fit_makes_no_worst_figure(bench: dict, monkeypatch, tmp_path: Path):
    monkeypatch.setattr(Fake, "fits_bytes", 64 << 30)
    measuring = measure(bench, options(bench, "--parts", "fits", "--workloads", "lgr,svm"), tmp_path)
    assert measuring.sound and measuring.figures()["fits_worst"] is None


def test_results_that_differ_are_unsound(bench: dict, tmp_path: Path):
    Fake.differs = True
    measuring = measure(bench, options(bench, "--quick", "--workloads", "lgr"), tmp_path)
    assert not measuring.sound and "| **differ** |" in page(bench, measuring)
    assert measuring.figures()["answers_equal"] is False


def test_figures_of_an_empty_pool_are_unsound(bench: dict, tmp_path: Path):
    Fake.kept_bytes = 0
    assert not measure(bench, options(bench, "--quick"), tmp_path).sound


def test_settings_of_an_earlier_run_are_not_looked_for_again(bench: dict, tmp_path: Path):
    raw = tmp_path / "raw.json"
    first = measure(bench, options(bench, "--parts", "main", "--workloads", "lgr"), tmp_path)
    raw.write_text(json.dumps(first.raw))
    Fake.opened = []
    arguments = ("--parts", "main", "--workloads", "lgr", "--settings-from", str(raw))
    again = measure(bench, options(bench, *arguments), tmp_path)
    assert Fake.opened == ["stock", "warmset"]
    assert again.raw["settings"] == first.raw["settings"]


def test_an_interrupted_run_is_resumed(bench: dict, tmp_path: Path):
    arguments = ("--parts", "main,fits,memory", "--workloads", "lgr,objects")
    whole = measure(bench, options(bench, *arguments), tmp_path)
    kept = json.loads(json.dumps(whole.raw))
    del kept["regimes"]["main"]["workloads"]["objects"], kept["regimes"]["fits"], kept["memory"]["warmset"]
    Fake.opened = []
    again = measure(bench, options(bench, *arguments), tmp_path, json.loads(json.dumps(kept)))
    assert again.figures() == whole.figures() and again.sound
    assert again.raw["regimes"]["main"]["workloads"]["lgr"] == kept["regimes"]["main"]["workloads"]["lgr"]
    trials = len(again.raw["memory"]["warmset"]["trials"])
    sitting = ["stock", "warmset"]
    fits = 2 * [*sitting, *reversed(sitting), *sitting]
    assert Fake.opened == sitting + fits + ["warmset"] * trials


def test_a_search_that_is_broken_off_goes_on_trial_by_trial(bench: dict, tmp_path: Path):
    run = Run(tmp_path)
    keeper = Keeper(run, "raw.json", minutes=0)
    chosen = options(bench, "--parts", "search", "--workloads", "objects")
    place = Place(2, tmp_path, tmp_path, Progress(1, stream=io.StringIO()))
    for count in (1, 2):
        found = keeper.earlier(lambda _: True) or {}
        with pytest.raises(Unfinished):
            bench["measuring"].Measuring(chosen, place, found, partial(keeper.save, found)).play()
        raw = keeper.earlier(lambda _: True)
        assert len(raw["tuning"]["objects"]["stock"]) == len(Fake.opened) == count
    assert keeper.earlier(lambda _: False) is None


def test_where_stock_dies_nothing_was_compared(bench: dict, monkeypatch, tmp_path: Path):
    call = Fake.call

    def dies(self: Fake, step: str, timeout_s: float, **request: object) -> dict:
        if not self.spec.is_warmset:
            raise EngineDied("oom-killed", step)
        return call(self, step, timeout_s, **request)

    monkeypatch.setattr(Fake, "call", dies)
    measuring = measure(bench, options(bench, "--quick", "--workloads", "lgr"), tmp_path)
    assert measuring.sound and measuring.figures()["answers_equal"] is None
    assert "| not compared |" in page(bench, measuring) and "oom-killed at lgr on a part" in page(bench, measuring)


def test_an_engine_that_dies_leaves_a_null(bench: dict, tmp_path: Path):
    chosen = replace(options(bench, "--quick", "--workloads", "lgr,svm"), total_bytes=800 * MIB)
    measuring = measure(bench, chosen, tmp_path)
    assert not measuring.sound
    assert measuring.figures()["lgr"] is None
    assert Fake.opened == ["stock", "warmset"] * 2, "the dead are not asked again"
    assert "oom-killed" in page(bench, measuring)
