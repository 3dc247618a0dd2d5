"""A virtual machine with several memory nodes: its parts, and one run of it."""

from __future__ import annotations

import gzip
import json
import os
import re
import selectors
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KERNEL = ROOT / "target" / "guest" / "vmlinuz"
MUSL = "x86_64-unknown-linux-musl"
GNU = "x86_64-unknown-linux-gnu"
NODE_MIB = 640
# Scenarios may take minutes on a busy machine; silence for longer than one of them may take is a hang.
SILENCE_S_MAX = 170
RUN_S_MAX = 420
LINE = re.compile(r"guest: (\w+) (ok|FAILED(?:: .*)?) ([\d.]+) s")


def missing() -> str | None:
    """Why there is no such machine here; None if there is one."""
    if shutil.which("qemu-system-x86_64") is None:
        return "there is no qemu-system-x86_64 (Debian: qemu-system-x86)"
    if not KERNEL.exists():
        return f"there is no kernel in {KERNEL} (scripts/setup.sh guest fetches it with apt)"
    return None


def static_build() -> tuple[list[str], dict[str, str]]:
    """Options and environment for programs that need no shared library: with musl if Rust has it, else with glibc."""
    library = subprocess.run(
        ["rustc", "--print", "target-libdir", "--target", MUSL], capture_output=True, text=True, check=False
    )
    if library.returncode == 0 and any(Path(library.stdout.strip()).glob("libstd-*")):
        return ["--target", MUSL], dict(os.environ)
    flags = {**os.environ, "RUSTFLAGS": "-C target-feature=+crt-static"}
    return ["--target", GNU, "--target-dir", str(ROOT / "target" / "guest" / "build")], flags


def built(*command: str) -> Path:
    """Builds one program."""
    options, environment = static_build()
    done = subprocess.run(
        ["cargo", *command, "--locked", "--message-format=json", *options],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    (program,) = [message["executable"] for message in messages if message.get("executable")]
    return Path(program)


def build() -> tuple[Path, Path]:
    """The test program and the `warmset` command."""
    program = built("test", "--no-run", "-p", "warmset-tiering", "--test", "guest")
    return program, built("build", "-p", "warmset-cli")


def archive(files: dict[str, bytes]) -> bytes:
    """A file system of executable files, in the form that the kernel unpacks at its start (cpio, newc)."""
    directories = sorted({str(parent) for name in files for parent in Path(name).parents if str(parent) != "."})
    entries = [(name, 0o040755, b"") for name in directories] + [(n, 0o100755, data) for n, data in files.items()]
    out = bytearray()
    for number, (name, mode, data) in enumerate([*entries, ("TRAILER!!!", 0, b"")], 1):
        links = 2 if mode == 0o040755 else 1
        fields = [number, mode, 0, 0, links, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0]
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return gzip.compress(bytes(out), compresslevel=1)


def stripped(program: Path, directory: Path) -> bytes:
    """The program without what only a debugger reads: the machine unpacks it at each start."""
    out = directory / program.name
    strip = shutil.which("strip")
    if strip is None:
        return program.read_bytes()
    subprocess.run([strip, "-o", str(out), str(program)], check=True)
    return out.read_bytes()


@dataclass
class Run:
    """What a virtual machine said."""

    outcomes: dict[str, str] = field(default_factory=dict)
    output: str = ""
    done: bool = False


def command(initramfs: Path, nodes: int, arguments: str, plugged: bool) -> list[str]:
    """QEMU with all processors on node 0 and the others at growing distances; the last may be plugged in."""
    words = [
        "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2",
        "-kernel", str(KERNEL), "-initrd", str(initramfs), "-nographic", "-no-reboot", "-nodefaults",
        "-serial", "stdio", "-monitor", "none",
        "-append", f"console=ttyS0 quiet panic=-1 transparent_hugepage=madvise {arguments}",
    ]  # fmt: skip
    at_boot = nodes - 1 if plugged else nodes
    words += ["-m", f"{at_boot * NODE_MIB}" + (",slots=1,maxmem=4G" if plugged else "")]
    for node in range(nodes):
        cpus = ",cpus=0-1" if node == 0 else ""
        memory = f",memdev=m{node}" if node < at_boot else ""
        words += ["-object", f"memory-backend-ram,id=m{node},size={NODE_MIB}M"]
        words += ["-numa", f"node,nodeid={node}{memory}{cpus}"]
        if node >= at_boot:
            words += ["-device", f"pc-dimm,id=dimm{node},memdev=m{node},node={node}"]
    for a in range(nodes):
        for b in range(a + 1, nodes):
            words += ["-numa", f"dist,src={a},dst={b},val={10 + 10 * b}"]
    return words


def run(initramfs: Path, nodes: int, arguments: str, plugged: bool = False) -> Run:
    """Boots it, and reads what it says until it is done, silent for too long, or out of time."""
    result = Run()
    process = subprocess.Popen(
        command(initramfs, nodes, arguments, plugged),
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    begin = time.monotonic()
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while time.monotonic() - begin < RUN_S_MAX:
                if not selector.select(SILENCE_S_MAX):
                    break
                part = process.stdout.read1(65536)
                if not part:
                    break
                result.output += part.decode(errors="replace")
                if "guest: done" in result.output:
                    result.done = True
                    break
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
    result.outcomes = {name: outcome for name, outcome, _ in LINE.findall(result.output)}
    return result
