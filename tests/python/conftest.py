"""The tests run in an environment of their own, where the wheel is installed: see `make test-package`."""

from __future__ import annotations

from pathlib import Path

import pytest
import warmset


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--kills", type=int, default=12, help="how often a writer is killed")


@pytest.fixture
def store(tmp_path: Path) -> warmset.Store:
    """A store with little memory."""
    return warmset.Store(tmp_path / "store", memory="32MiB")


@pytest.fixture(scope="session")
def kills(request: pytest.FixtureRequest) -> int:
    """How often a writer is killed."""
    return request.config.getoption("--kills")
