"""`make bench B=tier-daemon`: what `warmset tier` takes of a processor while it manages an idle map of 64 GiB."""

from __future__ import annotations

import argparse
import json
import mmap
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from harness import machine

sys.path.insert(0, str(machine.ROOT / "tests" / "tier"))
import guest

HERE = Path(__file__).parent
MAP_BYTES = 64 << 30
CHUNK_BYTES = 2 << 20
# linux/mman.h; older Pythons lack the name.
MAP_NORESERVE = 0x4000
RESIDENT_CHUNKS = 64
REGIONS_BUSY = 400
CLOCK = os.sysconf("SC_CLK_TCK")
PARTS = Path("target") / "tier-daemon"


def idle_map() -> tuple[mmap.mmap, int]:
    """64 GiB of addresses with a little memory behind them, and where they begin."""
    area = mmap.mmap(-1, MAP_BYTES, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
    for chunk in range(RESIDENT_CHUNKS):
        area[chunk * (MAP_BYTES // RESIDENT_CHUNKS)] = 1
    sizes = [re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line) for line in Path("/proc/self/maps").read_text().splitlines()]
    ranges = [(int(m.group(1), 16), int(m.group(2), 16)) for m in sizes if m]
    return area, next(start for start, end in ranges if end - start >= MAP_BYTES)


def processor_seconds(pid: int) -> float:
    """User and system time of a process so far."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / CLOCK


def daemon(regions: list[dict], seconds: float) -> dict:
    """The daemon's share of a processor over a while, from its second decision on."""
    with tempfile.TemporaryDirectory() as directory:
        accesses = Path(directory) / "accesses.json"
        accesses.write_text(json.dumps(regions))
        command = [
            "target/release/warmset", "tier", "--pid", str(os.getpid()), "--dry-run", "--json", "--latency", "probe",
            "--tracker", "scripted", "--accesses", str(accesses),
        ]  # fmt: skip
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        lines = [process.stdout.readline() for _ in range(3)]
        assert json.loads(lines[-1])["event"] == "quantum", lines
        begin, before = time.monotonic(), processor_seconds(process.pid)
        decisions = 0
        while time.monotonic() - begin < seconds:
            decisions += json.loads(process.stdout.readline())["event"] == "quantum"
        taken, elapsed = processor_seconds(process.pid) - before, time.monotonic() - begin
        process.terminate()
        process.stdout.read()
        assert process.wait() == 0
    return {"core_fraction": taken / elapsed, "seconds": elapsed, "decisions": decisions}


def kernel_thread() -> dict | None:
    """DAMON's own thread, in a virtual machine: this kernel may lack it, and emulation only makes it dearer."""
    reason = guest.missing()
    if reason is not None:
        print(f"SKIPPED the kernel thread's share: {reason}", file=sys.stderr)
        return None
    with tempfile.TemporaryDirectory() as directory:
        initramfs = Path(directory) / "initramfs.gz"
        program, _ = guest.build()
        initramfs.write_bytes(guest.archive({"init": guest.stripped(program, Path(directory))}))
        run = guest.run(initramfs, 2, "warmset.scenarios=cost")
    found = re.search(r"cost: (\{.*?\})", run.output)
    assert found is not None, run.output
    return json.loads(found.group(1))


def part(name: str, measure: Callable[[], dict | None]) -> dict | None:
    """Measures once; an interrupted run takes up what is there."""
    path = PARTS / f"{name}.json"
    if not path.exists():
        PARTS.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(measure()))
        print(f"{name}: {path.read_text()}", file=sys.stderr)
    return json.loads(path.read_text())


def main() -> None:
    """Measures and keeps."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    seconds, runs = (5, 1) if quick else (15, 3)
    area, start = idle_map()
    step = MAP_BYTES // REGIONS_BUSY // CHUNK_BYTES * CHUNK_BYTES
    busy = [
        {"start": start + i * step, "end": start + i * step + CHUNK_BYTES, "rate": 1.0} for i in range(REGIONS_BUSY)
    ]
    raw = {"quick": quick, "idle": [], "busy": []}
    for run in range(runs):
        raw["idle"].append(part(f"idle-{run}-{seconds}", lambda: daemon([], seconds)))
        raw["busy"].append(part(f"busy-{run}-{seconds}", lambda: daemon(busy, seconds)))
    raw["kernel_thread"] = part("kernel-thread", kernel_thread)
    area.close()
    own = statistics.median(each["core_fraction"] for each in raw["idle"])
    emulated = (raw["kernel_thread"] or {}).get("kernel_thread_core_fraction")
    raw["result"] = result = {
        "core_fraction": round(own + (emulated or 0.0), 4),
        "daemon_core_fraction": round(own, 4),
        "daemon_core_fraction_400_regions": round(statistics.median(each["core_fraction"] for each in raw["busy"]), 4),
        "kernel_thread_core_fraction_emulated": emulated,
    }
    path = Path("target/tier-daemon.json")
    path.write_text(json.dumps(raw))
    machine.keep("tier-daemon", path, HERE / "README.md", quick)
    for file in PARTS.glob("*.json"):
        file.unlink()
    print("result: " + json.dumps({"tier-daemon": result}))


if __name__ == "__main__":
    main()
