"""Memory cgroups: the limit binds, a kill is seen, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys

import pytest
from harness import groups

MIB = 1 << 20


@pytest.fixture(autouse=True)
def _needs_groups():
    if groups.find_place() is None:
        pytest.skip(groups.why_none())


def run_in(group: groups.MemoryCgroup, code: str) -> int:
    return subprocess.run([sys.executable, "-c", code], preexec_fn=group.enter, check=False).returncode


def test_a_process_beyond_the_limit_is_killed_and_the_group_says_so():
    with groups.memory_cgroup("kill", 64 * MIB) as group:
        assert run_in(group, "b'x' * (8 << 20)") == 0
        assert group.kills() == 0
        assert run_in(group, "b'x' * (256 << 20)") == -9
        assert group.kills() == 1
        assert 0 < group.peak_bytes() <= 64 * MIB
        directory = group.directory
    assert not directory.exists()


def test_a_group_is_removed_when_its_body_fails():
    with pytest.raises(RuntimeError), groups.memory_cgroup("fail", 64 * MIB) as group:
        directory = group.directory
        raise RuntimeError
    assert not directory.exists()
