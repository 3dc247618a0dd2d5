"""Programs under `warmset direct run`, and what the library counted of them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WARMSET = ROOT / "target" / "release" / "warmset"
TOOLS = ROOT / "target" / "direct-tools" / "bin"
PROGRAMS = Path(__file__).parent / "programs"
# What no run may take on a busy machine.
RUN_S_MAX = 240


@dataclass
class Done:
    """What a program said, and what the library counted in it and in all that it started."""

    code: int
    out: str
    err: str
    counts: dict[str, int]

    def must_succeed(self) -> Done:
        assert self.code == 0, f"exit code {self.code}\n{self.out[-4000:]}\n{self.err[-4000:]}"
        return self


@dataclass
class Room:
    """A directory on tmpfs whose files are served, from the first operation on."""

    path: Path

    def served(self, *command: str | Path, **options: object) -> Done:
        """Runs a program under the library, in the directory."""
        counts = self.path.with_name(self.path.name + ".counts")
        counts.unlink(missing_ok=True)
        words = [WARMSET, "direct", "run", "--dir", self.path, "--stats", counts, "--", *command]
        done = self._run(words, {"WARMSET_DIRECT_AFTER": "0"}, options)
        lines = counts.read_text().splitlines() if counts.exists() else []
        counts.unlink(missing_ok=True)
        for line in lines:
            for name, count in json.loads(line).items():
                done.counts[name] = done.counts.get(name, 0) + count
        return done

    def plain(self, *command: str | Path, **options: object) -> Done:
        """Runs a program without the library, in the directory."""
        return self._run(command, {}, options)

    def _run(self, words: object, more: dict[str, str], options: dict) -> Done:
        environment = {**os.environ, **more, **options.pop("env", {})}
        done = subprocess.run(
            [str(word) for word in words],
            cwd=self.path, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
            timeout=RUN_S_MAX, **options,
        )  # fmt: skip
        return Done(done.returncode, done.stdout, done.stderr, {"reads": 0, "writes": 0})


def tool(name: str) -> Path:
    """A tool that `scripts/setup.sh direct` built, or one on the PATH; the test is skipped without it."""
    found = TOOLS / name if (TOOLS / name).exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name} (scripts/setup.sh direct installs it)")
    return Path(found)


def compiled(source: str, folder: Path, *options: str) -> Path:
    """One of `programs`, compiled; the test is skipped without a compiler."""
    if shutil.which("cc") is None:
        pytest.skip("there is no C compiler (cc)")
    program = folder / Path(source).stem
    command = [
        "cc",
        "-O1",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wno-stringop-overflow",
        "-Wno-nonnull",
        "-pthread",
        *options,
        "-o",
        program,
        PROGRAMS / source,
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 and "-static" in options:
        pytest.skip("the compiler cannot link statically (Debian: libc6-dev)")
    assert done.returncode == 0, done.stderr
    return program
