#!/usr/bin/env python3
"""Says of every kept run of a benchmark how old the code is that it measured.

usage: runs.py; one line per run: the oldest commit that its raw figures name, and how many commits since then touched
what the benchmark measures. In a clone without that commit the number is not known, and the line says so.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench"))

from harness.keeping import raw_figures  # noqa: E402

RUNS = ROOT / "bench" / "runs"
STORE = ("crates/region", "crates/placement", "crates/platform")
SPARK = ("spark/src/main", "crates/jni", "crates/kernels", *STORE)
# Changed tests make a run no older.
TESTS = ":(exclude,glob)crates/*/tests/**"
# What each benchmark measures; one that is not named here measures Spark's plugin.
MEASURED = {
    "region-scan": STORE, "region-scale": STORE, "python": ("python/warmset", "crates/py", *STORE),
    "sim": ("crates/sim", "crates/placement"), "direct": ("crates/direct", "crates/platform"),
    "launch": ("crates/prefetch", "crates/cli", "crates/platform"),
    "loading": ("crates/prefetch", "crates/cli", "crates/platform"),
    "tier-daemon": ("crates/tiering", "crates/cli", "crates/platform"),
}  # fmt: skip


def named(found: object) -> Iterator[str]:
    """The commits that raw figures name, wherever they do."""
    if isinstance(found, dict):
        for key, value in found.items():
            if key == "commit" and value:
                yield value
            elif key == "commits":
                found_here = value.values() if isinstance(value, dict) else value
                yield from filter(None, found_here)
            else:
                yield from named(value)
    elif isinstance(found, list):
        for each in found:
            yield from named(each)


def commits(run: Path) -> set[str]:
    """Those of all raw figures of one run."""
    files = [*run.glob("raw*.json"), *run.glob("raw*.json.gz")]
    return {commit.removesuffix("-dirty") for file in files for commit in named(raw_figures(file))}


def since(commit: str, paths: tuple[str, ...], root: Path = ROOT) -> int | None:
    """How many commits since that one touched these paths; `None` where this clone does not have it."""
    command = ["git", "-C", str(root), "rev-list", "--count", f"{commit}..HEAD", "--", *paths, TESTS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return int(done.stdout) if done.returncode == 0 else None


def age(run: Path) -> tuple[str, int | None]:
    """The oldest commit of a run, and how many touched what it measured since; `None` if one is not known."""
    ages = {commit: since(commit, MEASURED.get(run.name, SPARK)) for commit in sorted(commits(run))}
    if not ages:
        raise SystemExit(f"{run}: its raw figures name no commit")
    unknown = [commit for commit, count in ages.items() if count is None]
    oldest = unknown[0] if unknown else max(ages, key=lambda commit: ages[commit] or 0)
    return oldest, ages[oldest]


def main() -> int:
    """One line per run."""
    for run in sorted(path for path in RUNS.glob("*/*") if path.is_dir() and not path.parent.name.endswith("-quick")):
        commit, count = age(run)
        what = "not known in this clone" if count is None else f"{count} commits since then touched what it measures"
        print(f"{run.relative_to(RUNS)}: {commit}, {what}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
