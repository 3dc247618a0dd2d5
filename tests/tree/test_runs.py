"""Kept runs name the code that they measured, and its age is counted where the clone has the history for it."""

from __future__ import annotations

import json
import subprocess
import warnings
from pathlib import Path
from types import ModuleType

import pytest
from tree import ROOT, script

# Commits to what a run measures after which pages must not show it any more.
BEHIND_MAX = 10


@pytest.fixture(name="script")
def made() -> ModuleType:
    return script("runs")


@pytest.fixture(name="pages")
def made_pages() -> ModuleType:
    return script("figures")


def test_every_kept_run_names_its_commits(script: ModuleType):
    tracked = subprocess.run(
        ["git", "-C", ROOT, "ls-files", "bench/runs"], capture_output=True, text=True, check=True
    ).stdout.split()
    kept = {ROOT / Path(*Path(file).parts[:4]) for file in tracked}
    assert kept
    assert not [run for run in kept if not script.commits(run)]


@pytest.mark.parametrize("kind", ["RUN", "FURTHER", "DOUBLES", "ML_RUNS"])
def test_what_the_pages_show_is_of_code_that_is_not_much_older(script: ModuleType, pages: ModuleType, kind: str):
    shown = getattr(pages, kind)
    for file in [shown] if isinstance(shown, Path) else shown:
        raw = pages.read(file)
        # Trials of a search may be of an earlier run.
        for commit in set(script.named([raw.get("jobs"), raw.get("regimes")])):
            assert not commit.endswith("-dirty"), f"{file}: {commit} is no commit that anybody else has"
            behind = script.since(commit, script.SPARK)
            if behind is None:
                warnings.warn(f"{file}: how old {commit} is can't be said in this clone", stacklevel=1)
            else:
                assert behind <= BEHIND_MAX, f"{file}: {behind} commits since {commit} touched what it measures"


def test_what_each_benchmark_measures_is_there(script: ModuleType):
    paths = {path for paths in (*script.MEASURED.values(), script.SPARK) for path in paths}
    assert not [path for path in paths if not (ROOT / path).is_dir()]


def test_commits_since_a_run_are_those_that_touched_its_paths(script: ModuleType, tmp_path: Path):
    def git(*arguments: str) -> str:
        who = ["-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", "-C", tmp_path, *who, *arguments], capture_output=True, text=True, check=True)
        return done.stdout.strip()

    git("init", "-q")
    for name in ("measured", "other", "measured", "measured"):
        (tmp_path / name).mkdir(exist_ok=True)
        with (tmp_path / name / "file").open("a") as file:
            file.write("line\n")
        git("add", ".")
        git("commit", "-q", "-m", name)
    first = git("rev-list", "--max-parents=0", "HEAD")[:7]
    assert script.since(first, ("measured",), tmp_path) == 2
    assert script.since(first, ("other",), tmp_path) == 1
    assert script.since("0123456", ("measured",), tmp_path) is None, "a shallow clone may lack it"


def test_commits_are_found_wherever_raw_figures_have_them(script: ModuleType, tmp_path: Path):
    raw = {"machine": {"commit": "a-dirty"}, "jobs": [{"commit": "b"}, {"commit": None}], "commits": {"part": "c"}}
    (tmp_path / "raw-main.json").write_text(json.dumps(raw))
    assert script.commits(tmp_path) == {"a", "b", "c"}
