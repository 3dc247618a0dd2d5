"""spark-hugepages: what its figures hold against what, from sizes as a run leaves them."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from harness.machine import ROOT


@pytest.fixture
def bench(monkeypatch) -> ModuleType:
    directory = ROOT / "bench" / "spark-hugepages"
    monkeypatch.syspath_prepend(str(directory))
    found = importlib.util.spec_from_file_location("spark_hugepages", directory / "__main__.py")
    module = importlib.util.module_from_spec(found)
    monkeypatch.setitem(sys.modules, "spark_hugepages", module)
    found.loader.exec_module(module)
    return module


def size(huge: list[int], heap: list[int], **seconds: tuple[float, float]) -> dict:
    """Seconds of a read in order and at random; huge bytes of the pool's 100, and of the rest, look by look."""
    looks = [
        {"birth": {"huge_bytes": here, "pool_bytes": 100, "elsewhere_huge_bytes": there}}
        for here, there in zip(huge, heap, strict=True)
    ]
    return {
        "seconds": {name: dict(zip(("in order", "at random"), both, strict=True)) for name, both in seconds.items()},
        "looks": looks,
    }


def test_each_figure_is_of_its_sizes_orders_and_looks(bench: ModuleType):
    sizes = {
        "512": size([100, 90], [0, 0], off=(9, 9), entire=(2, 2), late=(1, 1), birth=(1, 1)),
        "1024": size([100, 100], [0, 7], off=(9, 3), entire=(4, 4), late=(4, 1), birth=(2, 2)),
    }
    assert bench.figures(sizes) == {
        "birth_vs_off": 1.5,
        "birth_vs_entire": 2.0,
        "birth_vs_late": 1.0,
        "huge_fraction": 0.9,
        "heap_huge_bytes": 7,
    }


def test_what_was_not_measured_has_no_figure(bench: ModuleType):
    without = {"512": size([100], [0], off=(2, 2), entire=(2, 2), birth=(1, 1))}
    found = bench.figures(without)
    assert found["birth_vs_late"] is None and found["birth_vs_off"] == 2
    assert set(bench.figures({}).values()) == {None}
