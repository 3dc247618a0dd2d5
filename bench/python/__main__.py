"""`make bench B=python`: epochs over an array twice a cgroup's limit, by a store and by what else keeps arrays.

Each way runs in a child process in a cgroup (page cache included): it writes its own file from a source that is
evicted first, then reads it five times. It ends with `result: {json}`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

from harness.ending import end_in_order
from harness.groups import memory_group, why_none
from harness.machine import ROOT, Run, describe
from harness.statistics import median_of

WORKER = Path(__file__).with_name("ways.py")
PACKAGE = ROOT / ".venv-package" / "bin" / "python"
OTHERS = ("memmap", "memmap-advised", "joblib", "arrow", "lmdb", "lance", "parquet")
WAYS = ("warmset", *OTHERS)
COLUMNS = 128
EPOCHS = 5
# What a child needs beside the data: the interpreter, its libraries and a batch or two.
CHILD_BYTES = 256 << 20
README = """# python

`make bench B=python{quick}`, on the machine described in `raw.json`, which has all figures.

An array of float32, {rows:,} rows of {columns}, {data_gib:.2f} GiB, in a cgroup of {limit_gib:.2f} GiB that
counts page cache. Each way writes its file from the same source, evicted before, and reads it {epochs} times in parts
of 4096 rows, in order and in shuffled order; what is computed is the sum of each part. **warmset** is
`store.put(..., batch_rows=4096)` and `store.scan(...)` with {memory_mib} MiB, **memmap** a `numpy.memmap`,
**memmap-advised** the same with `madvise(MADV_WILLNEED)` two parts ahead, **joblib** joblib's mapping, **arrow** a
mapped Arrow IPC file, **lmdb** a key for each part, read in place, **lance** a scan or a range of rows for each part,
**parquet** row groups read again (no compression, no dictionaries). Figures are seconds, medians of {rounds} runs that
take turns.

{table}
"""


def child(way: str, order: str, room: Path, options: argparse.Namespace, limit: int) -> dict:
    """Runs one way in a group of its own."""
    directory = room / way
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    command = [str(PACKAGE), str(WORKER), way, order, str(room / "source.npy"), str(directory)]
    command += [str(EPOCHS), str(limit - CHILD_BYTES)]
    with memory_group(f"{way}-{order}", limit) as group:
        if group is None:
            sys.exit(f"bench/python: {why_none()}")
        done = subprocess.run(command, capture_output=True, text=True, preexec_fn=group.enter)
        if done.returncode != 0:
            raise RuntimeError(f"{way}, {order}: exit code {done.returncode}: {done.stderr[-2000:]}")
        found = {**json.loads(done.stdout), "peak_bytes": group.peak_bytes()}
    shutil.rmtree(directory)
    return found


def figures(runs: dict, package: dict) -> dict:
    """The ratios that the README and the issue tracker name."""

    def seconds(way: str, order: str, what: str) -> float:
        return median_of([run[what] for run in runs[order][way]])

    def best(order: str, what: str) -> float:
        return min(seconds(other, order, what) for other in OTHERS)

    later = {order: seconds("warmset", order, "later_s") for order in runs}
    return {
        "sequential": round(best("in order", "later_s") / later["in order"], 3),
        "whole": round(best("in order", "whole_s") / seconds("warmset", "in order", "whole_s"), 3),
        "shuffled": round(best("shuffled", "later_s") / later["shuffled"], 3),
        **package,
    }


def table(runs: dict) -> str:
    """Markdown, a row for each way."""
    rows = ["| way | order | fill | first epoch | later epochs, mean | whole |", "|---|---|---|---|---|---|"]
    for order, ways in runs.items():
        for way, found in ways.items():
            cells = [
                median_of([run[key] for run in found]) / (EPOCHS - 1 if key == "later_s" else 1)
                for key in ("fill_s", "first_s", "later_s", "whole_s")
            ]
            rows.append(f"| {way} | {order} | " + " | ".join(f"{cell:.2f}" for cell in cells) + " |")
    return "\n".join(rows)


def parse() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="make bench B=python", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the data, one run")
    parser.add_argument("--limit-mib", type=int, help="limit of the cgroup (default: 2048; quick: 512)")
    parser.add_argument("--rounds", type=int, help="runs of each way (default: 3; quick: 1)")
    parser.add_argument("--dir", type=Path, default=ROOT / "target" / "bench-python", help="where the files go")
    options = parser.parse_args()
    options.limit_mib = options.limit_mib or (512 if options.quick else 2048)
    options.rounds = options.rounds or (1 if options.quick else 3)
    return options


def main() -> None:
    """Measures all ways in turns, keeps the figures and prints the result."""
    options = parse()
    end_in_order()
    room: Path = options.dir
    shutil.rmtree(room, ignore_errors=True)
    room.mkdir(parents=True)
    limit = options.limit_mib << 20
    rows = 2 * limit // (4 * COLUMNS)
    try:
        make = [str(PACKAGE), str(WORKER), "source", "", str(room / "source.npy"), str(rows), str(COLUMNS)]
        subprocess.run(make, check=True)
        runs: dict = {order: {way: [] for way in WAYS} for order in ("in order", "shuffled")}
        for number in range(options.rounds):
            for order, ways in runs.items():
                for way, found in ways.items():
                    found.append(child(way, order, room, options, limit))
                    spent = found[-1]
                    print(f"round {number + 1}: {way}, {order}: {spent['whole_s']:.1f} s", file=sys.stderr)
        small = [str(PACKAGE), str(WORKER), "package", "", "", str(room)]
        package = json.loads(subprocess.run(small, check=True, capture_output=True, text=True).stdout)
    finally:
        shutil.rmtree(room, ignore_errors=True)
    run = Run.create("python", options.quick)
    run.write("raw.json", {"machine": describe(), "limit_bytes": limit, "rows": rows, "runs": runs, "package": package})
    run.write(
        "README.md",
        README.format(
            quick=" QUICK=1" if options.quick else "",
            rows=rows,
            columns=COLUMNS,
            data_gib=2 * limit / 2**30,
            limit_gib=limit / 2**30,
            epochs=EPOCHS,
            memory_mib=(limit - CHILD_BYTES) >> 20,
            rounds=options.rounds,
            table=table(runs),
        ),
    )
    print(f"raw figures: {run.shown('raw.json')}", file=sys.stderr)
    print("result:", json.dumps({"python": figures(runs, package)}))


if __name__ == "__main__":
    main()
