"""The machine a benchmark runs on, the folder its raw figures go to, and the speed of its disk."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import subprocess
import sys
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Of the probe: each time takes some 20 ms.
PROBE_WORDS = 1 << 16


def describe() -> dict:
    """Processor, memory, kernel and JDK, as raw results keep them."""
    cpuinfo = Path("/proc/cpuinfo").read_text()
    model = re.search(r"^model name\s*:\s*(.*)$", cpuinfo, re.MULTILINE)
    memory = re.search(r"^MemTotal:\s*(\d+) kB", Path("/proc/meminfo").read_text(), re.MULTILINE)
    java = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr.splitlines()
    return {
        "cpus": len(os.sched_getaffinity(0)),
        "cpu_model": model.group(1) if model else platform.processor(),
        "memory_bytes": int(memory.group(1)) * 1024 if memory else None,
        "kernel": platform.release(),
        "java": java[0] if java else None,
        "commit": commit(),
        "blas": blas(),
    }


def commit() -> str | None:
    """The commit that is checked out, and whether anything differs from it but runs."""

    def git(*arguments: str) -> subprocess.CompletedProcess:
        return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False)

    name = git("rev-parse", "--short", "HEAD").stdout.strip()
    differs = git("diff", "--quiet", "HEAD", "--", ".", ":!bench/runs").returncode != 0
    return (name + ("-dirty" if differs else "")) or None


def blas() -> str | None:
    """The native BLAS that MLlib finds; without one it computes in Java."""
    try:
        ctypes.CDLL("libblas.so.3")
    except OSError:
        return None
    maps = Path("/proc/self/maps").read_text()
    return next((Path(path).name for path in re.findall(r"\S*blas\S*", maps)), None)


def name() -> str:
    """A short name for this kind of machine, used in the folder of its results: `amd-epyc-2cpu-24g`."""
    known = describe()
    memory = round((known["memory_bytes"] or 0) / 2**30)
    return f"{processor(known['cpu_model'])}-{known['cpus']}cpu-{memory}g"


def probe_s() -> float:
    """The least of five times of one fixed computation: what one processor of this machine gives just now."""
    text = b"".join(number.to_bytes(4, "little") for number in range(PROBE_WORDS))
    taken = []
    for _ in range(5):
        started = time.perf_counter()
        zlib.compress(text, 6)
        taken.append(time.perf_counter() - started)
    return min(taken)


def processor(model: str) -> str:
    """The maker and the family of a processor: `Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz` is `intel-xeon`."""
    words = re.findall(r"[a-z0-9]+", re.sub(r"\((r|tm)\)", " ", model.lower()))
    return "-".join(words[:2]) or platform.machine()


@dataclass(frozen=True)
class Run:
    """Where one run of a benchmark leaves its figures: `bench/runs/<date>-<machine>/<benchmark>/`."""

    directory: Path

    @classmethod
    def create(cls, benchmark: str, quick: bool) -> Run:
        date = datetime.now(UTC).strftime("%Y-%m-%d")
        suffix = "-quick" if quick else ""
        directory = ROOT / "bench" / "runs" / f"{date}-{name()}{suffix}" / benchmark
        directory.mkdir(parents=True, exist_ok=True)
        return cls(directory)

    def logs(self) -> Path:
        """Where the engines' own output goes; not kept with the figures."""
        directory = ROOT / "target" / "bench-logs" / self.directory.name
        directory.mkdir(parents=True, exist_ok=True)
        return directory

    def write(self, file: str, content: object) -> Path:
        """Writes text as it is, and anything else as JSON."""
        path = self.directory / file
        path.write_text(content if isinstance(content, str) else json.dumps(content, indent=1) + "\n")
        return path

    def shown(self, file: str) -> str:
        """The file's path as a user would name it."""
        return str((self.directory / file).relative_to(ROOT))


@contextmanager
def read_ahead(directory: Path, wanted_kb: int | None) -> Iterator[int]:
    """How far the kernel reads ahead on the directory's disk, in KiB; `wanted_kb` for as long as the context is open.

    Raises `RuntimeError` if it cannot be set, with the reason.
    """
    number = directory.stat().st_dev
    device = Path(f"/sys/dev/block/{os.major(number)}:{os.minor(number)}").resolve()
    # A partition has the queue of its disk.
    setting = next((each for d in (device, device.parent) if (each := d / "queue" / "read_ahead_kb").exists()), None)
    if setting is None:
        raise RuntimeError(f"{directory}: its file system has no disk of its own whose read-ahead could be told")
    before = int(setting.read_text())
    try:
        if wanted_kb is not None:
            setting.write_text(str(wanted_kb))
        yield before if wanted_kb is None else wanted_kb
    except PermissionError as error:
        raise RuntimeError(f"{setting}: only root can set it; run without --read-ahead") from error
    finally:
        if wanted_kb is not None and int(setting.read_text()) != before:
            setting.write_text(str(before))


def disk_speed(directory: Path) -> dict:
    """What the directory's disk gives at most: O_DIRECT reads at the best queue depth, as `region-scan` measures them.

    Raises `RuntimeError` if it could not be measured, with the reason.
    """
    return region_scan("--raw-only", "--dir", str(directory))


def lookups(size_mib: int, threads: int) -> dict:
    """Seconds that lookups at random take in a plain array on base pages and in one on huge pages, run by run.

    Raises `RuntimeError` if it could not be measured, with the reason.
    """
    return region_scan("--random-only", str(size_mib), "--threads", str(threads))


def region_scan(*arguments: str) -> dict:
    """What one part of `region-scan` measures."""
    command = [str(ROOT / "target" / "release" / "region-scan"), "--quick", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {result.stderr.strip()}")
    return json.loads(result.stdout.removeprefix("result: "))


def keep(benchmark: str, raw: Path, readme: Path, quick: bool) -> None:
    """Keeps what a benchmark in another language measured, with the machine's description, and its README."""
    run = Run.create(benchmark, quick)
    run.write("raw.json", {"machine": describe(), **json.loads(raw.read_text())})
    run.write("README.md", readme.read_text())
    print(f"raw figures: {run.shown('raw.json')}", file=sys.stderr)


if __name__ == "__main__":
    # `python -m harness.machine NAME RAW README [quick]`
    keep(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), quick="quick" in sys.argv[4:])
