"""The files of this tree, for the checks beside this module."""

from __future__ import annotations

import importlib.util
import subprocess
from functools import cache
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[2]


@cache
def tracked() -> tuple[Path, ...]:
    """Every file git tracks or would track, relative to the root; none that is deleted."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
    return tuple(sorted({Path(name) for name in names if name and (ROOT / name).is_file()}))


def sources(*suffixes: str) -> list[Path]:
    """The tracked files with one of these suffixes."""
    return [path for path in tracked() if path.suffix in suffixes]


def text(path: Path) -> str:
    """The file's text."""
    return (ROOT / path).read_text(encoding="utf-8")


def script(name: str) -> ModuleType:
    """A program of `scripts/` as a module, made anew."""
    spec = importlib.util.spec_from_file_location(f"{name}_script", ROOT / "scripts" / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found
