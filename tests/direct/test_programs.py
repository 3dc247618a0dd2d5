"""Programs that cannot take the library run as without it, and what they and others write is the same file."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from served import PROGRAMS, ROOT, Done, Room, compiled

# Go compiles its own library first, which takes half a minute.
GO_CACHE = ROOT / "target" / "direct-tools" / "go-cache"


@pytest.fixture
def records(room: Room, on_disk: Path) -> Path:
    """A file of records in the room."""
    room.plain(compiled("rewrite.c", on_disk), "records").must_succeed()
    return room.path / "records"


def takes_turns_with_a_served_program(room: Room, records: Path, on_disk: Path, program: list[str]) -> Done:
    """The program, a served one and the program again: each reads what the one before it wrote."""
    served = compiled("rewrite.c", on_disk)
    done = room.served(*program, records, "0", "1").must_succeed()
    assert done.counts["reads"] == done.counts["writes"] == 0, "the library is not in it"
    other = room.served(served, records, "1", "2").must_succeed()
    assert other.counts["reads"] > 150 and other.counts["writes"] > 150, other.counts
    room.served(*program, records, "2", "3").must_succeed()
    room.plain(served, records, "3", "4").must_succeed()
    return done


def test_a_static_program_runs_as_without(room: Room, records: Path, on_disk: Path) -> None:
    folder = on_disk / "static"
    folder.mkdir()
    program = compiled("rewrite.c", folder, "-static")
    done = takes_turns_with_a_served_program(room, records, on_disk, [str(program)])
    assert done.err.endswith("runs as without `warmset direct`: it is statically linked\n"), done.err


def test_a_set_user_id_program_runs_as_without(room: Room, records: Path, on_disk: Path) -> None:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("making a program of root's for another user needs root and setpriv")
    folder = on_disk / "own"
    folder.mkdir()
    program = compiled("rewrite.c", folder)
    program.chmod(0o4755)
    for directory in (room.path.parent, room.path):
        directory.chmod(0o777)
    # An ordinary user starts it: the dynamic linker drops the library then.
    user = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    done = takes_turns_with_a_served_program(room, records, on_disk, [*user, str(program)])
    assert done.out == "user 0\n"
    # Started by that user with the command, which says so.
    shown = subprocess.run(
        [*user, *command_for_all(on_disk), "direct", "run", "--dir", room.path, "--", program, records, "4", "5"],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (shown.returncode, shown.stdout) == (0, "user 0\n"), shown.stderr
    assert shown.stderr.endswith("it is set-user-ID or set-group-ID\n"), shown.stderr


def command_for_all(folder: Path) -> list[Path]:
    """The command and the library, where every user can start them."""
    from served import WARMSET

    for file in (WARMSET, WARMSET.with_name("libwarmset_direct.so")):
        shutil.copy(file, folder / file.name)
    return [folder / "warmset"]


@pytest.mark.parametrize("linked", ["by itself", "with libc"])
def test_a_go_program_runs_as_without(room: Room, records: Path, on_disk: Path, linked: str) -> None:
    if shutil.which("go") is None:
        pytest.skip("there is no Go compiler (Debian: golang-go)")
    program = on_disk / "rewrite-go"
    # `-linkmode=external` makes it a dynamic program, which loads the library and does not call it.
    options = [] if linked == "by itself" else ["-ldflags=-linkmode=external"]
    more = {"CGO_ENABLED": "0" if linked == "by itself" else "1", "GO111MODULE": "off", "GOCACHE": str(GO_CACHE)}
    built = subprocess.run(
        ["go", "build", *options, "-o", program, PROGRAMS / "rewrite.go"],
        env={**os.environ, **more, "GOFLAGS": ""}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr
    done = takes_turns_with_a_served_program(room, records, on_disk, [str(program)])
    assert "it is written in Go, whose runtime makes its own system calls" in done.err, done.err


def test_edges_are_those_of_bare_tmpfs(room: Room, on_disk: Path) -> None:
    program = compiled("edges.c", on_disk)
    served = room.served(program, room.path).must_succeed()
    plain = room.plain(program, room.path).must_succeed()
    assert served.out.splitlines() == plain.out.splitlines()
    assert "EFAULT" in plain.out and "EISDIR" in plain.out and "ESPIPE" in plain.out
    assert served.counts["reads"] > 100, served.counts
