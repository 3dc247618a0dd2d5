"""Tests of what `make release` built, which `make test-release VERSION=x` runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from release import Release


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--release", type=Path, required=True, metavar="DIR", help="the folder of a release")


@pytest.fixture(scope="session")
def folder(request: pytest.FixtureRequest) -> Path:
    """The folder of the release."""
    found: Path = request.config.getoption("--release").absolute()
    if not found.is_dir():
        pytest.fail(f"there is no {found}: run make release first")
    return found


@pytest.fixture(scope="session")
def release(folder: Path) -> Release:
    """What it is a release of."""
    return Release(Path(__file__).resolve().parents[2], folder.name)
