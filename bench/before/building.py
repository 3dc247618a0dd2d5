"""Builds the jar of an earlier commit."""

from __future__ import annotations

import subprocess
from pathlib import Path

from harness.engines import JAR
from harness.machine import ROOT


def jar(commit: str) -> tuple[str, Path]:
    """The commit's short name, and its jar in a checkout of its own; both stay for the next run.

    Raises `RuntimeError` with git's or make's words if there is no such commit, or if it can't be built.
    """
    name = run("git", "-C", str(ROOT), "rev-parse", "--short", f"{commit}^{{commit}}")
    directory = ROOT / "target" / "before" / name
    built = directory / JAR.relative_to(ROOT)
    if not built.exists():
        if not directory.exists():
            run("git", "-C", str(ROOT), "worktree", "add", "--detach", str(directory), name)
        run("make", "-s", "-C", str(directory), "jar")
    return name, built


def run(*command: str) -> str:
    """The command's output."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout.strip()
