"""Fixtures of the tests of `warmset direct` with other people's programs."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import WARMSET, Room


@pytest.fixture
def room() -> Iterator[Room]:
    """A served directory on tmpfs; all in it goes afterwards."""
    assert WARMSET.exists(), "make test-direct builds it"
    with tempfile.TemporaryDirectory(prefix="warmset-direct-", dir="/dev/shm") as directory:
        path = Path(directory) / "served"
        path.mkdir()
        yield Room(path)


@pytest.fixture
def on_disk() -> Iterator[Path]:
    """A directory from which programs can be started, also set-user-ID ones by an ordinary user."""
    with tempfile.TemporaryDirectory(prefix="warmset-direct-", dir="/var/tmp") as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)
