"""Command prefixes that start a driver where something of the machine is missing.

Mount changes happen in a mount namespace of the child's own; limits are inherited by the child
only. Nothing outside the child is changed, and nothing is left when it ends.
"""

from __future__ import annotations

import functools
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

_PRELUDE = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
def prctl(*arguments):
    if libc.prctl(*(ctypes.c_ulong(a) for a in arguments)):
        raise OSError(ctypes.get_errno(), "prctl")
"""
_NO_HUGE_PAGES = _PRELUDE + "prctl(41, 1, 0, 0, 0)\n"  # PR_SET_THP_DISABLE
# PR_SET_NO_NEW_PRIVS, then a filter: load the call's number; io_uring_setup (425) fails with EPERM.
_NO_IO_URING = (
    _PRELUDE
    + """
prctl(38, 1, 0, 0, 0)
filters = [(0x20, 0, 0, 0), (0x15, 0, 1, 425), (0x06, 0, 0, 0x00050001), (0x06, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *f) for f in filters))
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("filters", ctypes.c_void_p)]
program = Program(len(filters), ctypes.addressof(code))
prctl(22, 2, ctypes.addressof(program), 0, 0)
"""
)
_RUN = "\nos.execvp(sys.argv[1], sys.argv[1:])\n"


@functools.cache
def can_mount() -> bool:
    """Whether this user may make a mount namespace and mount a tmpfs in it."""
    probe = ["unshare", "-m", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]
    return subprocess.run(probe, capture_output=True, timeout=20).returncode == 0


@functools.cache
def can_mount_images() -> bool:
    """Whether `loop_image` works here: containers often have no loop devices, small systems no mkfs.ext4."""
    if not can_mount():
        return False
    with tempfile.TemporaryDirectory() as directory:
        folder = Path(directory) / "mounted"
        folder.mkdir()
        probe = [*mounts(loop_image(Path(directory) / "disk.img", folder, 12)), "true"]
        return subprocess.run(probe, capture_output=True, timeout=60).returncode == 0


def mounts(*commands: str) -> list[str]:
    """Runs the shell commands in a new mount namespace, then the child."""
    return ["unshare", "-m", "sh", "-c", " && ".join([*commands, 'exec "$@"']), "sandbox"]


def tmpfs(folder: Path, size: str, options: str = "rw") -> str:
    """A file system in memory over `folder`."""
    return f"mount -t tmpfs -o size={size},{options} tmpfs {shlex.quote(str(folder))}"


def loop_image(image: Path, folder: Path, mebibytes: int) -> str:
    """A small ext4 image over `folder`."""
    where = shlex.quote(str(image))
    return (
        f"truncate -s {mebibytes}M {where} && mkfs.ext4 -q -m 0 {where} && "
        f"mount -o loop {where} {shlex.quote(str(folder))}"
    )


def remount(folder: str, options: str) -> str:
    """The same contents with other mount options, such as ro or noexec."""
    return f"mount --bind {folder} {folder} && mount -o remount,bind,{options} {folder}"


def show_text(file: str, text: str, scratch: Path) -> str:
    """A file of the kernel that says `text`, kept in `scratch` meanwhile."""
    where = shlex.quote(str(scratch))
    return f"printf '%s\\n' {shlex.quote(text)} > {where} && mount --bind {where} {shlex.quote(file)}"


def without_huge_pages() -> list[str]:
    """Transparent huge pages are refused to the child, whatever it asks for."""
    return [sys.executable, "-c", _NO_HUGE_PAGES + _RUN]


def without_io_uring() -> list[str]:
    """io_uring_setup fails in the child, as in many containers."""
    return [sys.executable, "-c", _NO_IO_URING + _RUN]
