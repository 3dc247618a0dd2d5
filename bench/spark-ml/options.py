"""The options of the benchmark, and the sizes of its full and its quick form."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from harness.choosing import chosen
from harness.workloads import NAMES, ROW_BYTES

MIB = 1 << 20
PARTS = ("search", "main", "fits", "memory", "regimes")
# Data over memory in `main`, and in the two further regimes.
MAIN, FURTHER = 2.0, (1.0, 4.0)
# In `fits`, where the ratio is small, and for KMeans, whose processes differ, at least so many pairs of new processes
# play one round each.
SITTINGS = 3
# What is played if nothing is said: less than an hour.
USUAL_PARTS, USUAL_WORKLOADS = ("search", "main"), ("lr", "lgr", "svm", "objects")
# One of each kind: what a trainer caches, and small objects.
QUICK_WORKLOADS = ("lgr", "objects")


@dataclass(frozen=True)
class Options:
    """What is run, and how large. A total is the limit of an engine's memory cgroup: heap, pool, all else."""

    quick: bool
    parts: tuple[str, ...]
    workloads: tuple[str, ...]
    rows: int
    files: int
    total_bytes: int
    fits_bytes: int
    rounds: int
    iterations: int
    # Settings in the first rung of each search; a third of them go on to the second.
    candidates: int
    least_iterations: int
    # Of two files that have settings for a workload, the later one counts.
    settings_from: tuple[Path, ...]
    single: bool
    read_ahead_kb: int | None
    minutes: float
    again: bool
    cpus: int

    @property
    def data_bytes(self) -> int:
        """What the trainers cache of the rows."""
        return self.rows * ROW_BYTES

    @property
    def sittings(self) -> int:
        """New processes of each engine, one round each; with `quick` the same ones play all rounds."""
        return 1 if self.quick else max(SITTINGS, self.rounds)

    @property
    def suffix(self) -> str:
        """What tells the files of this run from others of the same day: what is not all, or not as usual."""
        parts = [part for part in PARTS if part in self.parts]
        names = [name for name in NAMES if name in self.workloads]
        found = [*(parts if len(parts) < len(PARTS) else []), *(names if len(names) < len(NAMES) else [])]
        if self.single:
            found.append("single")
        if self.read_ahead_kb is not None:
            found.append(f"read-ahead-{self.read_ahead_kb}")
        return "".join(f"-{name}" for name in found)

    def kept(self) -> dict:
        """What a run is of, for its page and for the command that goes on with it."""
        return {
            "quick": self.quick, "parts": list(self.parts), "workloads": list(self.workloads), "rows": self.rows,
            "files": self.files, "total_bytes": self.total_bytes, "fits_bytes": self.fits_bytes, "rounds": self.rounds,
            "sittings": self.sittings, "iterations": self.iterations, "candidates": self.candidates,
            "single": self.single, "read_ahead_kb": self.read_ahead_kb,
            "settings_from": " ".join(map(str, self.settings_from)),
        }  # fmt: skip


def parse(arguments: list[str] | None = None) -> Options:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="make bench B=spark-ml", description="MLlib's trainers, stock Spark tuned by search, and Warmset"
    )
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument(
        "--parts", help=f"which of {','.join(PARTS)} to run; or all ({','.join(USUAL_PARTS)}; main with --quick)"
    )
    parser.add_argument(
        "--workloads",
        help=f"which of {','.join(NAMES)} to run; or all ({','.join(USUAL_WORKLOADS)}; "
        f"{','.join(QUICK_WORKLOADS)} with --quick)",
    )
    parser.add_argument("--rows", type=int, help="rows of 50 doubles")
    parser.add_argument("--total", type=int, metavar="MIB", help="memory of an engine in `main`")
    parser.add_argument("--fits", type=int, metavar="MIB", help="memory of an engine in `fits`")
    parser.add_argument(
        "--rounds",
        type=int,
        help="whole fits of each engine that are timed "
        f"(in fits, and of kmeans, at least {SITTINGS}, each in a process of its own)",
    )
    parser.add_argument("--iterations", type=int, help="iterations of a fit")
    parser.add_argument("--candidates", type=int, help="settings that the search of each engine starts with")
    parser.add_argument(
        "--settings-from", type=Path, metavar="RAW", nargs="+", default=(),
        help="take the engines' settings from raw figures of earlier runs, compressed or not",
    )  # fmt: skip
    parser.add_argument(
        "--single", action="store_true", help="features of the precision of 32-bit floats, as many data sets have them"
    )
    parser.add_argument(
        "--read-ahead", type=int, metavar="KIB", help="the disk's read-ahead meanwhile, for the files of stock Spark"
    )
    parser.add_argument(
        "--minutes", type=float, default=50,
        help="stop after the trial or workload that ends past this (%(default)s); the same command goes on",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="forget what an earlier command of this day measured")
    given = parser.parse_args(arguments)
    quick = given.quick
    parts = chosen(parser, "--parts", given.parts or ("main" if quick else ",".join(USUAL_PARTS)), PARTS)
    return Options(
        quick=quick,
        parts=parts,
        workloads=chosen(
            parser, "--workloads", given.workloads or ",".join(QUICK_WORKLOADS if quick else USUAL_WORKLOADS), NAMES
        ),
        rows=given.rows or (240_000 if quick else 10_000_000),
        files=8 if quick else 50,
        total_bytes=(given.total or (1216 if quick else 1936)) * MIB,
        fits_bytes=(given.fits or (2048 if quick else 5120)) * MIB,
        rounds=given.rounds or (1 if quick else 2),
        iterations=given.iterations or (12 if quick else 20),
        candidates=given.candidates or (1 if quick else 6),
        least_iterations=4,
        settings_from=tuple(given.settings_from),
        single=given.single,
        read_ahead_kb=given.read_ahead,
        minutes=given.minutes,
        again=given.again or quick,
        cpus=min(2, len(os.sched_getaffinity(0))),
    )
