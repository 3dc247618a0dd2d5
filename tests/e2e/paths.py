"""Where the things under test lie: interpreters, the plugin jar, Java installations.

Every place can be named by an environment variable; otherwise it is where `make` puts it.
Nothing is searched for outside the repository except installed JDKs.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
TESTS = REPOSITORY / "tests"
PLUGIN_CLASS = "io.warmset.spark.WarmsetPlugin"
# What all suites run on; `test_other_versions.py` is for the others.
SPARK_VERSION = "4.2"
# What they run on as well with --full.
SPARK_VERSION_FULL = "4.3"

_VENV_BY_VERSION = {"4.1": ".venv-41", "4.2": ".venv", "4.3": ".venv-43"}


def venv(version: str) -> Path:
    """The virtual environment that holds PySpark `version`."""
    named = os.environ.get("WARMSET_VENV_" + version.replace(".", ""))
    return Path(named) if named else REPOSITORY / _VENV_BY_VERSION[version]


def interpreter(version: str) -> Path:
    """The Python that runs PySpark `version`."""
    return venv(version) / "bin" / "python"


def installed(version: str) -> str:
    """`version`, or the test is skipped by name where that PySpark is not installed."""
    if not interpreter(version).exists():
        pytest.skip(f"PySpark {version} is not installed at {venv(version)}: `make test` installs it")
    return version


def spark_home(version: str) -> Path:
    """The Spark distribution inside the PySpark package."""
    found = sorted(venv(version).glob("lib/python3*/site-packages/pyspark"))
    if not found:
        raise FileNotFoundError(f"no PySpark {version} under {venv(version)}: run `make test` once")
    return found[0]


def plugin_jar() -> Path:
    """The jar that users install: WARMSET_JAR, or what Maven built last."""
    named = os.environ.get("WARMSET_JAR")
    if named:
        return Path(named)
    built = [
        jar
        for jar in (REPOSITORY / "spark" / "target").glob("warmset-spark*.jar")
        if not jar.stem.endswith(("-tests", "-sources", "-javadoc")) and not jar.stem.startswith("original-")
    ]
    if not built:
        raise FileNotFoundError("no plugin jar in spark/target: run `make build`, or set WARMSET_JAR")
    return max(built, key=lambda jar: jar.stat().st_mtime)


def wheel() -> Path:
    """The Python package that `make wheel` built."""
    built = sorted((REPOSITORY / "dist").glob("warmset-*.whl"))
    if not built:
        raise FileNotFoundError("no wheel in dist: run `make wheel`")
    return built[-1]


def java_home(major: int) -> Path | None:
    """An installed JDK of that major version, or None."""
    for release in sorted(Path("/usr/lib/jvm").glob("*/release")):
        for line in release.read_text(errors="replace").splitlines():
            if line.startswith(f'JAVA_VERSION="{major}.') or line == f'JAVA_VERSION="{major}"':
                return release.parent.resolve()
    return None
