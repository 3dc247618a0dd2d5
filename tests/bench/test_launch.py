"""launch: what its figures hold against what, and which variants are timed how."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from harness.machine import ROOT


@pytest.fixture
def bench(monkeypatch) -> ModuleType:
    directory = ROOT / "bench" / "launch"
    monkeypatch.syspath_prepend(str(directory))
    for name in ("cache", "chart", "programs"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    found = importlib.util.spec_from_file_location("launch", directory / "__main__.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "launch", module)
    found.loader.exec_module(module)
    return module


def program(learn: float = 1.0, **median: float) -> dict:
    return {"median": median | {"warm run": median.pop("warm_run")}, "plain_s": 1.0, "learn_s": learn}


def test_figures_are_means_over_programs_and_the_worst_of_all(bench: ModuleType):
    results = {
        "128": {
            "a": program(2.0, cold=1.0, run=0.5, warm=0.5, warm_run=0.51),
            "b": program(4.0, cold=2.0, run=1.8, warm=1.0, warm_run=1.2),
        },
        "default": {
            "a": program(2.0, cold=1.0, run=1.1, warm=0.5, warm_run=0.5, vmtouch=2.2),
            "b": program(2.0, cold=2.0, run=1.0, warm=1.0, warm_run=1.0, vmtouch=1.0),
        },
    }
    assert bench.figures(results) == {
        "programs": 2,
        "saved_mean_128": 0.3,
        "saved_mean_default": 0.2,
        "gap_closed": 0.5,
        "worst": 0.2,
        "warm_overhead_ms": 5.0,
        "vs_vmtouch": 1.5,
        "learn_ratio": 2.0,
    }


def test_each_variant_starts_the_program_itself(bench: ModuleType):
    command = ["/bin/true", "a b"]
    assert bench.variant("cold", command, []) == command == bench.variant("warm", command, [])
    for name in ("run", "warm run"):
        assert bench.variant(name, command, [])[1:] == ["run", "--", *command]
    assert bench.variant("vmtouch", command, ["/bin/true"])[-2:] == command


def test_a_file_in_the_page_cache_is_counted(bench: ModuleType, tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 8192)
    try:
        found = bench.cache.resident_bytes(path)
    except OSError as error:
        pytest.skip(f"this kernel has no cachestat: {error}")
    assert found == 8192 and bench.cache.resident_fraction([path, tmp_path / "none"]) == 1.0
