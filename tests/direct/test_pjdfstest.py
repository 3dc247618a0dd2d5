"""pjdfstest, a suite about names, permissions, sizes and times: the same outcome with the library as without."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

import pytest
from served import Done, Room, tool

# Every feature that Linux has. Timestamps of tmpfs come with the clock tick, which is 10 ms at the slowest.
CONFIGURATION = """
[features]
posix_fallocate = {}
rename_ctime = {}
utimensat = {}
utime_now = {}
[settings]
naptime = 0.02
allow_remount = true
[dummy_auth]
entries = [["nobody", "nogroup"], ["daemon", "daemon"]]
"""
# It mounts file systems again read-only: each side gets one of its own, in a mount namespace of its own.
SCRIPT = """
mount -t tmpfs -o mode=755 none "$1"
exec "$2" -c "$3" -s /var/tmp -p "$1"
"""
LINE = re.compile(r"^(\S+::\S+)\s+(ok|FAILED|skipped|failed as expected|PASSED UNEXPECTEDLY)$", re.MULTILINE)


def outcomes(done: Done) -> dict[str, str]:
    return dict(LINE.findall(done.out))


def test_outcomes_are_those_of_bare_tmpfs(room: Room, tmp_path: Path) -> None:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("pjdfstest changes users and mounts file systems, which needs root and unshare")
    settings = tmp_path / "pjdfstest.toml"
    settings.write_text(CONFIGURATION)
    sides = {}
    for side in ("served", "plain"):
        own = Room(room.path / side)
        own.path.mkdir()
        # The library looks at the directory when a program starts: in pjdfstest it finds the new mount.
        words = ["sh", "-ec", SCRIPT, "sh", own.path, tool("pjdfstest"), settings]
        run = own.served if side == "served" else own.plain
        sides[side] = run("unshare", "-m", "--propagation", "private", *words)
    plain, served = outcomes(sides["plain"]), outcomes(sides["served"])
    assert len(plain) > 350 and list(plain.values()).count("ok") > 350, sides["plain"].out[-2000:]
    differing = {name: (plain.get(name), served.get(name)) for name in plain | served
                 if plain.get(name) != served.get(name)}  # fmt: skip
    assert not differing, sides["served"].out[-4000:]
