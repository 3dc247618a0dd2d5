"""What is kept of a benchmark in another language: its figures, the machine's description, its README."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from harness import machine


def test_figures_of_other_languages_name_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    known = machine.describe()
    assert known["kernel"] and known["memory_bytes"] and known["commit"]
    monkeypatch.setattr(machine, "ROOT", tmp_path)
    monkeypatch.setattr(machine, "describe", lambda: known)
    (tmp_path / "figures.json").write_text('{"result": {"ratio": 1.5}}')
    (tmp_path / "about.md").write_text("# scan\n")
    machine.keep("scan", tmp_path / "figures.json", tmp_path / "about.md", quick=True)
    (directory,) = tmp_path.glob("bench/runs/*-quick/scan")
    kept = json.loads((directory / "raw.json").read_text())
    assert kept == {"machine": known, "result": {"ratio": 1.5}}
    assert (directory / "README.md").read_text() == "# scan\n"
