"""Figures of pages come from kept runs: a script writes spark-sql's, and every measured row links to its run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tree import ROOT, script

SCRIPT = ROOT / "scripts" / "figures.py"
README_BLOCK = re.compile(r"<!-- figures: from bench/runs only -->(.*?)<!-- /figures -->", re.DOTALL)
# The geometric mean of the kept run.
FIGURE = "1.61"
RUN_LINK = re.compile(r"\]\((bench/runs/[^)]+)\)")


@pytest.fixture(name="script")
def made() -> ModuleType:
    return script("figures")


def test_the_pages_show_the_kept_run():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", ["README.md", "docs/reference/benchmarks.md"])
def test_another_figure_on_a_page_is_found(script: ModuleType, monkeypatch: pytest.MonkeyPatch, page: str):
    read = Path.read_text

    def changed(path: Path, *arguments: object, **more: object) -> str:
        text = read(path, *arguments, **more)
        if path == ROOT / page:
            assert FIGURE in text
            return text.replace(FIGURE, "9.99", 1)
        return text

    monkeypatch.setattr(Path, "read_text", changed)
    monkeypatch.setattr(sys, "argv", ["figures.py", "--check"])
    assert script.main() == 1


def test_every_row_of_the_readme_has_a_run_that_is_kept():
    (block,) = README_BLOCK.findall((ROOT / "README.md").read_text())
    rows = [line for line in block.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        links = RUN_LINK.findall(row)
        assert links, f"no run: {row}"
        assert all((ROOT / link).is_file() for link in links), row
