"""What is around a benchmark's parts: what it leaves, says and answers with; and that short parts are sampled."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from harness import course, machine
from harness.course import Course
from harness.trainer import Trainer
from harness.training import Place

OPTIONS = argparse.Namespace(quick=True, cpus=2)


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tree whose benchmarks may leave figures; nobody's signals are touched."""
    known = {**machine.describe(), "commit": "1234567"}
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(course, "ROOT", tmp_path)
    monkeypatch.setattr(course, "describe", lambda: known)
    monkeypatch.setattr(course, "commit", lambda: "1234567")
    monkeypatch.setattr(course, "end_in_order", lambda: None)
    (tmp_path / "target").mkdir()
    return tmp_path


def play(measure: Callable[[argparse.Namespace, Place], Iterator[tuple[str, dict]]], kept: dict | None = None) -> int:
    known = Course(
        "walk", "# walk\n", "legs",
        figures=lambda legs: {"sum": sum(leg["seconds"] for leg in legs.values())},
        table=lambda legs: f"{len(legs)} legs",
        sound=lambda leg: leg["seconds"] > 0,
        kept=kept,
    )  # fmt: skip
    return known.run(OPTIONS, 2, measure)


def raw(tree: Path) -> dict:
    (file,) = tree.glob("bench/runs/*-quick/walk/raw.json")
    return json.loads(file.read_text())


def test_a_benchmark_leaves_its_figures_and_nothing_else(tree: Path, capsys: pytest.CaptureFixture[str]):
    def measure(options: argparse.Namespace, place: Place) -> Iterator[tuple[str, dict]]:
        (place.scratch / "file").write_text("of an engine")
        yield "out", {"seconds": 1}
        yield "back", {"seconds": 2}

    assert play(measure) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "2 legs" and said[-1] == 'result: {"sum": 3}'
    found = raw(tree)
    assert found["legs"] == {"out": {"seconds": 1}, "back": {"seconds": 2}} and found["result"] == {"sum": 3}
    assert found["machine"]["commit"] == "1234567" and found["options"] == {"quick": True, "cpus": 2}
    assert next(tree.glob("bench/runs/*-quick/walk/README.md")).read_text() == "# walk\n"
    assert [path.name for path in (tree / "target").iterdir()] == ["bench-logs"]


def test_a_part_that_is_not_sound_fails_and_one_that_breaks_off_leaves_the_others(tree: Path):
    assert play(lambda *_: iter([("out", {"seconds": 0}), ("back", {"seconds": 2})])) == 1

    def measure(*_: object) -> Iterator[tuple[str, dict]]:
        yield "out", {"seconds": 1}
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(measure)
    assert raw(tree)["legs"] == {"out": {"seconds": 1}}
    assert [path.name for path in (tree / "target").iterdir()] == ["bench-logs"]


def test_parts_that_were_kept_count_and_each_has_its_commit(tree: Path, capsys: pytest.CaptureFixture[str]):
    kept = {"legs": {"out": {"seconds": 1}}, "commits": {"out": "7654321"}, "result": {"sum": 1}}
    assert play(lambda *_: iter([("back", {"seconds": 2})]), kept) == 0
    assert capsys.readouterr().out.splitlines()[-1] == 'result: {"sum": 3}'
    found = raw(tree)
    assert list(found["legs"]) == ["out", "back"] and found["commits"] == {"out": "7654321", "back": "1234567"}


def test_what_is_over_soon_is_sampled_too(monkeypatch: pytest.MonkeyPatch):
    trainer = Trainer()
    monkeypatch.setattr(trainer, "sample", lambda: {"at_s": time.time()})
    with trainer.sampling() as samples:
        time.sleep(0.3)
    assert len(samples) >= 2, "enough for what a counter grew by"
