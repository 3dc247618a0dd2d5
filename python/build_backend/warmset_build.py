"""Builds the wheel: maturin's backend, after the command, the preload library and the Spark plugin are in their places.

`WARMSET_JAR` names a plugin that is built already. Without it the plugin is built if there are a JDK and Maven, else
left out with one line that says so.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from maturin import build_wheel as _build_wheel
from maturin import get_requires_for_build_wheel
from maturin import prepare_metadata_for_build_wheel as _prepare_metadata

__all__ = ["build_wheel", "get_requires_for_build_wheel", "prepare_metadata_for_build_wheel"]

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "target" / "wheel" / "warmset.data"
JARS = ROOT / "python" / "warmset" / "jars"
NOTICES = ROOT / "python" / "warmset" / "THIRD-PARTY-NOTICES.txt"
CRATES = ("warmset-py", "warmset-cli", "warmset-direct")
# Below the environment's prefix `lib/warmset` is where the command looks for its library.
PROGRAMS = {"warmset": "scripts", "libwarmset_direct.so": "data/lib/warmset"}
# The preload library is for x86-64; what is built of it elsewhere does nothing.
PROGRAMS_ELSEWHERE = {"warmset": "scripts"}


def build_wheel(directory: str, config_settings: dict[str, Any] | None = None, metadata: str | None = None) -> str:
    """Builds what the wheel has beside the module, then the wheel."""
    _run("cargo", "build", "--release", "--locked", "-q", "-p", "warmset-cli", "-p", "warmset-direct")
    place_programs(ROOT / "target" / "release", platform.machine())
    if shutil.which("strip"):
        for program in filter(Path.is_file, DATA.rglob("*")):
            _run("strip", "--strip-unneeded", str(program))
    place_notices([])
    _plugin()
    return _build_wheel(directory, config_settings, metadata)


def prepare_metadata_for_build_wheel(directory: str, config_settings: dict[str, Any] | None = None) -> str:
    """Writes the metadata; maturin wants the folder of the data that the build puts there."""
    DATA.mkdir(parents=True, exist_ok=True)
    return _prepare_metadata(directory, config_settings)


def place_programs(built: Path, machine: str) -> None:
    """Puts the command, and the preload library where there is one, where maturin takes them from."""
    shutil.rmtree(DATA, ignore_errors=True)
    for name, target in (PROGRAMS if machine == "x86_64" else PROGRAMS_ELSEWHERE).items():
        folder = DATA / target
        folder.mkdir(parents=True)
        shutil.copy(built / name, folder / name)


def place_notices(targets: list[str]) -> None:
    """Writes the licences of what is linked for these targets of the compiler (none: for this machine's)."""
    command = [sys.executable, str(ROOT / "scripts" / "notices.py"), *(f"--target={target}" for target in targets)]
    made = subprocess.run([*command, *CRATES], cwd=ROOT, check=True, capture_output=True, text=True)
    NOTICES.write_text(made.stdout)


def place_jar(jar: Path) -> None:
    """Puts the Spark plugin into the package."""
    shutil.rmtree(JARS, ignore_errors=True)
    JARS.mkdir()
    shutil.copy(jar, JARS / jar.name)


def _run(*command: str) -> None:
    subprocess.run(command, cwd=ROOT, check=True, stdout=sys.stderr)


def _plugin() -> None:
    given = os.environ.get("WARMSET_JAR")
    if given:
        place_jar(Path(given))
    elif shutil.which("javac") and shutil.which("mvn") and shutil.which("make"):
        _run("make", "jar")
        place_jar(next((ROOT / "spark" / "target").glob("warmset-spark_*[0-9].jar")))
    else:
        shutil.rmtree(JARS, ignore_errors=True)
        print("warmset: no JDK, Maven or make: the package is built without the Spark plugin", file=sys.stderr)
