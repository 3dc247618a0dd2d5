"""bench/python, with runs that are told how fast they are: who is played again, what goes on, what figures mean."""

from __future__ import annotations

import importlib
import importlib.util
import io
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from harness.machine import ROOT, Run
from harness.progress import Progress

FOLDER = ROOT / "bench" / "python"
# Seconds of an epoch after the first; filling takes ten.
PACE = {"warmset": 1.0, "memmap": 2.0, "memmap-advised": 1.8, "joblib": 2.4, "arrow": 9.0, "lmdb": 2.2, "lance": 8.0,
        "parquet": 20.0}  # fmt: skip


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.delitem(sys.modules, "figures", raising=False)
    spec = importlib.util.spec_from_file_location("python_epochs", FOLDER / "__main__.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "describe", lambda: {
        "cpus": 2, "cpu_model": "of a test", "memory_bytes": 1 << 34, "kernel": "6.18", "commit": "-",
    })  # fmt: skip
    monkeypatch.setattr(module, "commit", lambda: "-")
    monkeypatch.setattr(module, "read_ahead_of", lambda _: 8192)
    yield module
    del sys.modules["figures"]


class Machine:
    """Plays ways at their pace; stops a bench of so many minutes after some runs."""

    def __init__(self, bench: ModuleType, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.bench, self.directory = bench, directory
        self.played: list[tuple[str, str]] = []
        # The missing bytes of the default size take 2 GiB/s a second.
        self.device = 2.0 * (1 << 30)
        self.compute_s = 0.5
        monkeypatch.setattr(bench, "child", self.child)
        monkeypatch.setattr(bench, "worker", self.worker)
        monkeypatch.setattr(bench, "disk_speed", lambda _: {"read_bytes_per_s": self.device})

    def child(self, way: str, order: str, _source: Path, _kept: dict) -> dict:
        self.played.append((way, order))
        pace = PACE[way] * (1 if order == "in order" else 1.5)
        epochs = [2 * pace, *[pace] * 4]
        return {"fill_s": 10.0, "epochs_s": epochs, "first_s": epochs[0], "later_s": 4 * pace, "sum": 1.0,
                "whole_s": 10 + sum(epochs), "peak_bytes": 1}  # fmt: skip

    def worker(self, what: str, *arguments: str) -> dict:
        if what == "source":
            Path(arguments[1]).write_bytes(b"-")
        return {"seconds": self.compute_s} if what == "compute" else {
            "source": {}, "package": {"fits": 0.98, "fits_pairs_s": [], "get_us": 2.0, "import_ms": 14.0},
        }[what]  # fmt: skip

    def open(self, *arguments: str) -> object:
        options = self.bench.parse(["--dir", str(self.directory), *arguments])
        return self.bench.Bench(options, Run(self.directory), Progress(1, stream=io.StringIO()))

    def raw(self, *arguments: str) -> dict:
        run = self.open(*arguments)
        run.measure()
        figures = self.bench.figures
        run.raw["limit"] = figures.limits(run.raw)
        run.raw["result"] = figures.result(run.raw)
        return run.raw


@pytest.fixture
def machine(bench: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Machine:
    return Machine(bench, monkeypatch, tmp_path)


def test_the_ratios_are_to_the_fastest_of_the_others(machine: Machine):
    raw = machine.raw()
    assert raw["result"] == {
        "sequential": 1.8, "whole": round((10 + 6 * 1.8) / (10 + 6 * 1.0), 3), "shuffled": 1.8,
        # 2176 MiB of 4096 are missing: 1.06 s at 2 GiB/s; an epoch of shuffled order takes 1.5 s.
        "limit_ratio": round(1.5 / (2176 / 2048), 3), "fits": 0.98, "get_us": 2.0, "import_ms": 14.0,
    }  # fmt: skip


def test_slow_ways_are_played_once_and_the_rest_in_every_round(machine: Machine):
    machine.raw()
    counts = Counter(machine.played)
    assert {way for way, _ in counts} == set(PACE)
    slow = {"arrow", "lance", "parquet"}
    assert all(count == (1 if way in slow else 3) for (way, _), count in counts.items()), counts


def test_each_round_is_begun_by_another_way(machine: Machine):
    machine.raw()
    rounds = 3
    left = len(PACE) - 3
    in_order = [way for way, order in machine.played if order == "in order"]
    begun = [in_order[0], *in_order[len(PACE) :: left]]
    assert len(begun) == len(set(begun)) == rounds, in_order


def test_a_way_that_computes_something_else_is_a_fault(machine: Machine):
    machine.device *= 2
    raw = machine.raw("--rounds", "1")
    assert not machine.bench.figures.faults(raw)
    raw["runs"][-1]["sum"] = 3.0
    assert machine.bench.figures.faults(raw) == ["round 1, shuffled: the sum of parquet is 3.0, not 1.0"]


def test_the_same_command_goes_on_where_time_ran_out(machine: Machine, bench: ModuleType):
    stops = 0
    while True:
        run = machine.open("--minutes", "0")
        try:
            run.measure()
        except bench.Unfinished:
            stops += 1
            assert run.source.exists(), "what the next command goes on with"
            continue
        break
    assert stops > len(PACE)
    counts = Counter(machine.played)
    machine.played.clear()
    machine.raw("--again")
    assert counts == Counter(machine.played), "nothing was played twice"


def test_another_size_starts_anew(machine: Machine):
    with pytest.raises(machine.bench.Unfinished):
        run = machine.open("--minutes", "0")
        run.play(0, "warmset", "in order")
    assert not machine.open("--limit-mib", "1024").raw["runs"]


def test_an_epoch_below_what_is_possible_is_a_fault(machine: Machine):
    machine.compute_s = 1.2
    raw = machine.raw("--rounds", "1")
    faults = machine.bench.figures.faults(raw)
    assert len(faults) == 1 and "round 1, in order: 0.83" in faults[0]


def test_the_page_has_every_way_and_the_goals(machine: Machine, bench: ModuleType):
    raw = json.loads(json.dumps(machine.raw()))
    page = bench.figures.readme(raw)
    for way in PACE:
        assert f"| {way} | in order |" in page and f"| {way} | shuffled |" in page
    assert "8,388,608 rows of 128, 4.00 GiB, in a cgroup of 2.00 GiB" in page
    assert "| `sequential` | at least 1.8 | 1.8 |" in page and "read-ahead, which is 8192 KiB" in page
    assert "| in order | 1 | 1.00 | 0.50 | 2.12 | 2.15 | 0.94 |" in page
