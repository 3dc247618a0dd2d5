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


def test_the_read_ahead_is_put_back(tmp_path: Path):
    try:
        with machine.read_ahead(tmp_path, None) as before:
            pass
    except RuntimeError as error:
        pytest.skip(str(error))
    with machine.read_ahead(tmp_path, before) as same:
        assert same == before
    try:
        with pytest.raises(KeyError), machine.read_ahead(tmp_path, 128) as now:
            assert now == 128
            raise KeyError
    except RuntimeError as error:
        pytest.skip(str(error))
    with machine.read_ahead(tmp_path, None) as after:
        assert after == before
