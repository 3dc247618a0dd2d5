"""launch and loading: what their figures hold against what, and which variants are timed how."""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

import pytest
from harness import coldstart
from harness.coldstart import Timed
from harness.machine import ROOT

NAMES = ("chart", "measure", "programs", "suite")


@pytest.fixture
def suite(monkeypatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(ROOT / "bench" / "launch"))
    for name in NAMES:
        monkeypatch.delitem(sys.modules, name, raising=False)
    yield importlib.import_module("suite")
    for name in NAMES:
        sys.modules.pop(name, None)


def program(unused: float = 0.1, **median: float) -> dict:
    median = {name.replace("_", " "): value for name, value in median.items()}
    # Two timed runs that differ by a tenth of their median.
    seconds = {name: [0.95 * value, 1.05 * value] for name, value in median.items()}
    return {"median": median, "seconds": seconds, "unused": unused}


def test_figures_are_means_over_programs_and_the_worst_of_all(suite: ModuleType):
    results = {
        "128": {
            "a": program(0.1, cold=1.0, run=0.5, warm=0.5, warm_run=0.51, vmtouch=1.0),
            "b": program(0.3, cold=2.0, run=1.8, warm=1.0, warm_run=1.2, vmtouch=1.8),
        },
        "default": {
            "a": program(0.1, cold=1.0, run=1.1, warm=0.5),
            "b": program(0.3, cold=2.0, run=1.0, warm=1.0),
        },
    }
    recorded = {"a": {"median": {"plain": 1.0, "root": 1.1, "user": 1.5}}}
    found = suite.figures(results, recorded)
    wanted = {
        "programs": 2,
        "saved_mean_128": 0.3,
        "saved_mean_default": 0.2,
        "gap_closed": 0.5,
        "worst": 0.2,
        "worst_cold": 0.1,
        "scatter_warm": 0.05,
        "warm_overhead_ms": 105.0,
        "unused_fraction": 0.2,
        "vs_vmtouch": 1.5,
        "learn_root_ratio": 1.1,
        "learn_user_ratio": 1.5,
    }
    assert {key: found[key] for key in wanted} == wanted


def test_each_variant_starts_the_program_itself(suite: ModuleType):
    measure = sys.modules["measure"]
    command = ["/bin/true", "a b"]
    assert measure.started("cold", command, "w") == command == measure.started("warm", command, "w")
    for name in ("run", "warm run"):
        assert measure.started(name, command, "w") == ["w", "run", "--", *command]
    assert measure.started("vmtouch", command, "w")[-2:] == command
    assert measure.printed_seconds(Timed(9.0, "loaded 1.0\nloaded 0.25\n")) == 0.25


def test_a_file_is_evicted_and_counted(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 8192)
    try:
        found = coldstart.resident_bytes(path)
    except OSError as error:
        pytest.skip(f"this kernel has no cachestat: {error}")
    assert found == 8192 and coldstart.resident_fraction([path, tmp_path / "none"]) == 1.0
    assert coldstart.resident_pages(str(path)) == {0, 1}
    if os.statvfs(tmp_path).f_blocks and "tmpfs" not in str(tmp_path):
        coldstart.evict([str(path)])
        assert coldstart.resident_bytes(path) in (0, 8192), "a file in memory stays"


def test_unused_is_what_a_further_run_does_not_touch():
    files = [{"path": "/a"}, {"path": "/b"}]
    reads = [{"file": 0, "start": 0, "end": 16384}, {"file": 1, "start": 0, "end": 4096}]
    assert coldstart.unused_fraction({"files": files, "reads": reads}, {"/a": {0, 1, 2}}) == 0.25
