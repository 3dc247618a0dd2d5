"""`warmset tier` in a real kernel with several memory nodes, under emulation. See crates/tiering/tests/guest."""

from __future__ import annotations

import re
from pathlib import Path

import guest
import pytest

SOURCE = guest.ROOT / "crates" / "tiering" / "tests" / "guest" / "main.rs"


def scenarios(table: str) -> list[str]:
    """The names that the program has, so that one that never reported counts as failed."""
    body = re.search(rf"const {table}: .*?=\s*\[(.*?)\];", SOURCE.read_text(), re.DOTALL)
    assert body is not None
    return re.findall(r'\("(\w+)"', body.group(1))


@pytest.fixture(scope="session")
def initramfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file system of the machine: two static programs."""
    reason = guest.missing()
    if reason is not None:
        pytest.skip(reason)
    directory = tmp_path_factory.mktemp("guest")
    program, warmset = guest.build()
    files = {"init": guest.stripped(program, directory), "bin/warmset": guest.stripped(warmset, directory)}
    path = directory / "initramfs.gz"
    path.write_bytes(guest.archive(files))
    return path


@pytest.fixture(scope="session")
def two_nodes(initramfs: Path) -> guest.Run:
    """All scenarios for two nodes."""
    return guest.run(initramfs, 2, "warmset.scenarios=two")


@pytest.fixture(scope="session")
def three_nodes(initramfs: Path) -> guest.Run:
    """All scenarios for three nodes, without NUMA balancing."""
    return guest.run(initramfs, 3, "warmset.scenarios=three numa_balancing=disable")


@pytest.fixture(scope="session")
def plugged_node(initramfs: Path) -> guest.Run:
    """All scenarios for a second node that was plugged in."""
    return guest.run(initramfs, 2, "warmset.scenarios=plugged memhp_default_state=online_movable", plugged=True)


@pytest.mark.parametrize("name", scenarios("TWO_NODES"))
def test_on_two_nodes(two_nodes: guest.Run, name: str) -> None:
    assert two_nodes.outcomes.get(name) == "ok", two_nodes.output


@pytest.mark.parametrize("name", scenarios("THREE_NODES"))
def test_on_three_nodes(three_nodes: guest.Run, name: str) -> None:
    assert three_nodes.outcomes.get(name) == "ok", three_nodes.output


@pytest.mark.parametrize("name", scenarios("PLUGGED_NODE"))
def test_on_a_plugged_node(plugged_node: guest.Run, name: str) -> None:
    if f"SKIPPED {name}" in plugged_node.output:
        pytest.skip(plugged_node.output.split(f"SKIPPED {name}")[1].splitlines()[0])
    assert plugged_node.outcomes.get(name) == "ok", plugged_node.output
