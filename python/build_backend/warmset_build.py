"""Builds the wheel: maturin's backend, after the command, the preload library and the Spark plugin are in their places.

`WARMSET_JAR` names a plugin that is built already. Without it the plugin is built if there are a JDK and Maven, else
left out with one line that says so.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from maturin import (
    build_sdist,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from maturin import build_wheel as _build_wheel
from maturin import prepare_metadata_for_build_wheel as _prepare_metadata

__all__ = [
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
    "prepare_metadata_for_build_wheel",
]

ROOT = Path(__file__).resolve().parents[2]
RELEASE = ROOT / "target" / "release"
DATA = ROOT / "target" / "wheel" / "warmset.data"
JARS = ROOT / "python" / "warmset" / "jars"
NOTICES = ROOT / "python" / "warmset" / "THIRD-PARTY-NOTICES.txt"
CRATES = ("warmset-py", "warmset-cli", "warmset-direct")


def build_wheel(directory: str, config_settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Builds what the wheel has beside the module, then the wheel."""
    _command_and_library()
    _notices()
    _plugin()
    return _build_wheel(directory, config_settings, metadata)


def prepare_metadata_for_build_wheel(directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Writes the metadata; maturin wants the folder of the data that the build puts there."""
    DATA.mkdir(parents=True, exist_ok=True)
    return _prepare_metadata(directory, config_settings)


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)


def _command_and_library() -> None:
    _run("cargo", "build", "--release", "--locked", "-q", "-p", "warmset-cli", "-p", "warmset-direct")
    shutil.rmtree(DATA, ignore_errors=True)
    # Below the environment's prefix `lib/warmset` is where the command looks for it.
    for source, target in [("warmset", "scripts"), ("libwarmset_direct.so", "data/lib/warmset")]:
        folder = DATA / target
        folder.mkdir(parents=True)
        copied = folder / source
        shutil.copy(RELEASE / source, copied)
        if shutil.which("strip"):
            _run("strip", "--strip-unneeded", str(copied))


def _notices() -> None:
    command = [sys.executable, str(ROOT / "scripts" / "notices.py"), *CRATES]
    made = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True)
    NOTICES.write_text(made.stdout)


def _plugin() -> None:
    shutil.rmtree(JARS, ignore_errors=True)
    given = os.environ.get("WARMSET_JAR")
    if given:
        source = Path(given)
    elif shutil.which("javac") and shutil.which("mvn") and shutil.which("make"):
        _run("make", "jar")
        source = next((ROOT / "spark" / "target").glob("warmset-spark_*[0-9].jar"))
    else:
        print("warmset: no JDK, Maven or make: the package is built without the Spark plugin", file=sys.stderr)
        return
    JARS.mkdir()
    shutil.copy(source, JARS / source.name)
