"""`make bench B=python`: epochs over an array twice a cgroup's limit, by a store and by what else keeps arrays.

Each way runs in a child process in a cgroup (page cache included): it writes its own file from a source that is
evicted first, then reads it five times. What was run is written down at once, and the same command goes on with what is
missing. It ends with `result: {json}`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import figures
from figures import COLUMNS, EPOCHS, ORDERS
from harness.ending import end_in_order
from harness.groups import find_place, memory_cgroup, why_none
from harness.keeping import Keeper, Unfinished
from harness.machine import ROOT, Run, commit, describe, disk_speed, read_ahead
from harness.progress import Progress

WORKER = Path(__file__).with_name("ways.py")
PACKAGE = ROOT / ".venv-package" / "bin" / "python"
# What a child needs beside the data: the interpreter, its libraries and a batch or two.
CHILD_BYTES = 128 << 20


class Bench:
    """One run, and what it has measured so far."""

    def __init__(self, options: argparse.Namespace, run: Run, progress: Progress) -> None:
        self.run, self.progress = run, progress
        self.keeper = Keeper(run, "raw.json", options.minutes)
        self.room = options.dir / "warmset-bench-python"
        self.source = self.room / "source.npy"
        limit = options.limit_mib << 20
        rows = 2 * limit // (4 * COLUMNS)
        kept = {
            "quick": options.quick, "limit_bytes": limit, "memory_bytes": limit - CHILD_BYTES, "rows": rows,
            "data_bytes": rows * 4 * COLUMNS, "rounds": options.rounds,
        }  # fmt: skip
        # A run that was finished is measured again.
        self.raw = (
            None
            if options.again
            else self.keeper.earlier(lambda found: found.get("kept") == kept and "result" not in found)
        )
        if self.raw is None:
            shutil.rmtree(self.room, ignore_errors=True)
            self.raw = {
                "machine": describe(), "kept": kept, "runs": [], "devices": {}, "compute": {}, "package": None,
            }  # fmt: skip
        self.room.mkdir(parents=True, exist_ok=True)
        self.raw["read_ahead_kb"] = read_ahead_of(self.room)

    def save(self) -> None:
        """Writes down what there is, and raises `Unfinished` if no time is left."""
        self.keeper.save(self.raw)

    def measure(self) -> None:
        """Plays all that was not played yet."""
        kept = self.raw["kept"]
        if not self.source.exists():
            self.progress.step("making the source")
            worker("source", "", str(self.source), str(kept["rows"]), str(COLUMNS))
        for number in range(kept["rounds"]):
            if str(number) not in self.raw["compute"]:
                found = worker("compute", "", "", str(kept["rows"]), str(COLUMNS))
                self.raw["compute"][str(number)] = found["seconds"]
                self.save()
            for order in ORDERS:
                for way in figures.contenders(self.raw, order, number):
                    self.play(number, way, order)
        if self.raw["package"] is None:
            self.progress.step("what fits in memory")
            self.raw["package"] = worker("package", "", "", str(self.room))
            self.save()

    def play(self, number: int, way: str, order: str) -> None:
        """One way in one order that was not played yet, with the device measured around the store."""
        played = {"round": number, "way": way, "order": order}
        if any(played.items() <= run.items() for run in self.raw["runs"]):
            return
        self.progress.step(f"round {number + 1}: {way}, {order}")
        speeds = [self.device()] if way == "warmset" else []
        found = child(way, order, self.source, self.raw["kept"])
        if way == "warmset":
            self.raw["devices"][f"{order}/{number}"] = [*speeds, self.device()]
        self.raw["runs"].append({**played, "commit": commit(), **found})
        self.progress.note(f"  {found['whole_s']:.1f} s")
        self.save()

    def device(self) -> float:
        """Bytes per second that the disk gives at most, now."""
        return disk_speed(self.room)["read_bytes_per_s"]


def read_ahead_of(directory: Path) -> int | None:
    """How far the kernel reads ahead for files there, in KiB; `None` where no disk tells."""
    try:
        with read_ahead(directory, None) as found:
            return found
    except RuntimeError:
        return None


def worker(*arguments: str) -> dict:
    """Runs a part that needs no cgroup; answers with what it prints."""
    done = subprocess.run([str(PACKAGE), str(WORKER), *arguments], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: exit code {done.returncode}: {done.stderr[-2000:]}")
    return json.loads(done.stdout or "{}")


def child(way: str, order: str, source: Path, kept: dict) -> dict:
    """Runs one way in a group of its own."""
    directory = source.parent / way
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    command = [str(PACKAGE), str(WORKER), way, order, str(source), str(directory)]
    command += [str(EPOCHS), str(kept["memory_bytes"])]
    with memory_cgroup(f"{way}-{order.replace(' ', '-')}", kept["limit_bytes"]) as group:
        if group is None:
            raise RuntimeError(why_none())
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=group.enter)
        if done.returncode != 0:
            killed = f", killed by the kernel {group.kills()} times for want of memory" if group.kills() else ""
            raise RuntimeError(f"{way}, {order}: exit code {done.returncode}{killed}: {done.stderr[-2000:]}")
        found = {**json.loads(done.stdout), "peak_bytes": group.peak_bytes()}
    shutil.rmtree(directory)
    return found


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="make bench B=python", description="Epochs over an array of twice a cgroup's limit, way by way"
    )
    parser.add_argument("--quick", action="store_true", help="a quarter of the data, one round")
    parser.add_argument("--limit-mib", type=int, help="limit of the cgroup (default: 2048; quick: 512)")
    parser.add_argument("--rounds", type=int, help="runs of each way that may be the fastest (default: 3; quick: 1)")
    parser.add_argument("--dir", type=Path, default=ROOT / "target", help="the disk that the files go to")
    parser.add_argument(
        "--minutes", type=float, help="stop after the run that ends past this; the same command goes on"
    )
    parser.add_argument("--again", action="store_true", help="forget what an earlier command of this day measured")
    options = parser.parse_args(arguments)
    options.limit_mib = options.limit_mib or (512 if options.quick else 2048)
    options.rounds = options.rounds or (1 if options.quick else 3)
    options.again = options.again or options.quick
    return options


def main() -> int:
    """Measures all ways in turns, keeps the figures and prints the result; exit code 1 if they cannot be right."""
    options = parse()
    end_in_order()
    if find_place() is None:
        print(f"bench/python: {why_none()}", file=sys.stderr)
        return 1
    progress = Progress(total=2 * len(figures.WAYS) * options.rounds + 2)
    bench = Bench(options, Run.create("python", options.quick), progress)
    try:
        bench.measure()
    except Unfinished:
        progress.finish()
        print(f"parts are left: run the same command again; its source is kept in {bench.room}", file=sys.stderr)
        return 0
    except BaseException:
        shutil.rmtree(bench.room, ignore_errors=True)
        raise
    shutil.rmtree(bench.room)
    progress.finish()
    raw = bench.raw
    raw["limit"] = figures.limits(raw)
    raw["faults"] = figures.faults(raw)
    raw["result"] = figures.result(raw)
    bench.run.write("raw.json", raw)
    bench.run.write("README.md", figures.readme(raw))
    print(figures.table(raw), figures.limit_table(raw), sep="\n\n")
    for fault in raw["faults"]:
        print(f"FAULT: {fault}", file=sys.stderr)
    print(f"raw figures: {bench.run.shown('raw.json')}", file=sys.stderr)
    print("result:", json.dumps({"python": raw["result"]}))
    return 1 if raw["faults"] else 0


if __name__ == "__main__":
    sys.exit(main())
