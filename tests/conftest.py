"""Fixtures of the end-to-end suites.

`launch` starts a Spark driver in a child process with the plugin on. With `--stock` the same
tests run without the plugin: what fails there too is Spark's doing, not ours.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from e2e import paths
from e2e.launch import Launch

# Files that take more than a minute, the longest first: of two workers, each of which takes the next file, one would be
# alone with a long file that is begun last.
LONGEST = ("test_split.py", "test_bad_input.py", "test_pyspark.py", "test_other_versions.py", "test_tpch.py")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Adds --stock and --full."""
    parser.addoption("--stock", action="store_true", help="run without the plugin, as a baseline")
    parser.addoption("--full", action="store_true", help=f"run all suites on Spark {paths.SPARK_VERSION_FULL}, too")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Tests that ask for `spark_version` run on each version that was chosen."""
    if "spark_version" in metafunc.fixturenames:
        chosen = [paths.SPARK_VERSION, *([paths.SPARK_VERSION_FULL] if metafunc.config.getoption("--full") else [])]
        metafunc.parametrize("spark_version", chosen, indirect=True, scope="session")


def pytest_configure(config: pytest.Config) -> None:
    """Names our marks."""
    config.addinivalue_line("markers", "full: only with --full, by `make test-full`")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Puts the longest files first, where the order within a file stays; leaves out what --full is for."""
    if not config.getoption("--full"):
        left_out = [item for item in items if item.get_closest_marker("full")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]
    items.sort(key=lambda item: LONGEST.index(item.path.name) if item.path.name in LONGEST else len(LONGEST))


@pytest.fixture(scope="session", autouse=True)
def temporary_files_of_jvms() -> Iterator[None]:
    """A JVM that is killed leaves its temporary files: they lie in a directory that goes when the tests end."""
    parent = paths.REPOSITORY / "target" / "tmp"
    parent.mkdir(parents=True, exist_ok=True)
    given = os.environ.get("JDK_JAVA_OPTIONS", "")
    with (
        tempfile.TemporaryDirectory(prefix="tests-", dir=parent, ignore_cleanup_errors=True) as directory,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("JDK_JAVA_OPTIONS", f'{given} "-Djava.io.tmpdir={directory}"'.strip())
        yield


@pytest.fixture(scope="session")
def launch(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Launch]:
    """Starts drivers in child processes."""
    started = Launch(lambda: tmp_path_factory.mktemp("driver"), bool(request.config.getoption("--stock")))
    yield started
    started.close_idle()


@pytest.fixture
def only_with_plugin(launch: Launch) -> None:
    """For tests of what stock Spark does not have."""
    if launch.stock:
        pytest.skip("--stock: nothing to compare with, stock Spark has no such thing")


@pytest.fixture(scope="session")
def spark_version(request: pytest.FixtureRequest) -> str:
    """A PySpark that was chosen; skipped by name where it is not installed."""
    return paths.installed(request.param)
