"""The options of the benchmark, and the sizes of its full and its quick form."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from choices import ENGINES
from harness.choosing import chosen

MIB = 1 << 20
# What a JVM in local mode needs beside heap and pool, with the Python driver and a little page cache.
OVERHEAD_BYTES = 576 * MIB
FORMS = ("raw", "double")
SIZES = ("fits", "twice", "four")
# A size that takes the settings found at another one, which has the same limit.
SEARCHED_AT = {"four": "twice"}
PARTS = ("search", "rounds", "limit", "sizes", "half")
PEERS = ("duckdb", "polars", "comet")
# What is played if nothing is said: less than an hour. Most of the other engines take six minutes and more a job.
USUAL_ENGINES, USUAL_SIZES = ("stock", "parquet"), ("twice",)
# Stock Spark's cache of all tables takes 1140 MiB for each unit of scale: twice the limit below.
SCALE, LIMIT_MIB, FITS_MIB = 2.7, 1536, 8192


@dataclass(frozen=True)
class Size:
    """Data of a scale, in a memory cgroup of that limit: what they come to is measured, not promised by the name."""

    name: str
    scale: float
    limit_bytes: int


@dataclass(frozen=True)
class Options:
    """What is run, and how large."""

    quick: bool
    parts: tuple[str, ...]
    engines: tuple[str, ...]
    peers: tuple[str, ...]
    form: str
    sizes: tuple[Size, ...]
    rounds: int
    passes: int
    # Settings in the first rung of each engine's search; a third of them go on to the second.
    candidates: int
    sizes_scale: float
    half_rows: int
    half_bytes: int
    # A limit in which the cache of `twice` fits.
    fits_bytes: int
    minutes: float
    again: bool
    charge_files: bool
    settings_from: Path | None
    cpus: int

    @property
    def suffix(self) -> str:
        """What tells the files of this kind of run from others of the same day: parts that are not all, the form."""
        parts = [part for part in PARTS if part in self.parts]
        names = [*(parts if len(parts) < len(PARTS) else []), *(["doubles"] if self.form == "double" else [])]
        names += ["charged"] if self.charge_files else []
        return "".join(f"-{name}" for name in names)

    def kept(self) -> dict:
        """What a run is of, for its page and for the command that goes on with it."""
        return {
            "quick": self.quick, "form": self.form, "rounds": self.rounds, "passes": self.passes,
            "candidates": self.candidates, "engines": list(self.engines), "peers": list(self.peers),
            "charge_files": self.charge_files, "settings_from": str(self.settings_from or ""),
            "sizes": [[size.name, size.scale, size.limit_bytes] for size in self.sizes],
        }  # fmt: skip


def together(earlier: dict, wanted: dict) -> dict:
    """What a run is of that an earlier command began and this one adds to: sizes, engines, peers and rounds of both."""
    sizes = {name: [name, *rest] for name, *rest in (*earlier["sizes"], *wanted["sizes"])}
    return {
        **wanted,
        "rounds": max(earlier["rounds"], wanted["rounds"]),
        "engines": [name for name in ENGINES if name in (*earlier["engines"], *wanted["engines"])],
        "peers": [name for name in PEERS if name in (*earlier["peers"], *wanted["peers"])],
        "sizes": [sizes[name] for name in SIZES if name in sizes],
    }


def parse(arguments: list[str] | None = None) -> Options:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="make bench B=spark-sql",
        description="TPC-H over cached tables, whole jobs, against stock Spark tuned by search, DuckDB and Polars",
    )
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts to run (%(default)s)")
    parser.add_argument(
        "--engines",
        help=f"which stock engines to compare with, of {','.join(ENGINES)}; or all ({','.join(USUAL_ENGINES)}; "
        "parquet with --quick)",
    )
    parser.add_argument("--peers", help=f"which engines that a user would pick instead, of {','.join(PEERS)}; none: -")
    parser.add_argument("--scale", type=float, help="TPC-H scale factor of the cache that is twice the limit")
    parser.add_argument("--form", choices=FORMS, default=FORMS[0], help="raw: decimals; or doubles (%(default)s)")
    parser.add_argument(
        "--limit", type=int, metavar="MIB", help="the memory cgroup's limit where the cache outgrows it"
    )
    parser.add_argument("--fits", type=int, metavar="MIB", help="the limit where the cache fits")
    parser.add_argument(
        "--only", help=f"which sizes to run, of {','.join(SIZES)}; or all ({','.join(USUAL_SIZES)}; fits with --quick)"
    )
    parser.add_argument("--rounds", type=int, default=1, help="whole jobs of each engine and size (%(default)s)")
    parser.add_argument("--passes", type=int, help="passes over all queries in a job; all but the first are steady")
    parser.add_argument("--candidates", type=int, help="settings that the search of each engine starts with")
    parser.add_argument(
        "--minutes", type=float, default=50,
        help="stop after the job that ends past this (%(default)s); the same command goes on",
    )  # fmt: skip
    parser.add_argument("--again", action="store_true", help="forget what an earlier command of this day measured")
    parser.add_argument(
        "--charge-files", action="store_true",
        help="evict the Parquet files before each job, so that their pages are charged to the engine's cgroup",
    )  # fmt: skip
    parser.add_argument(
        "--settings-from", type=Path, metavar="RAW",
        help="take the trials of the search from an earlier run's raw.json with the same sizes",
    )  # fmt: skip
    given = parser.parse_args(arguments)
    quick = given.quick
    scale = given.scale or (0.05 if quick else SCALE)
    limit = (given.limit or LIMIT_MIB) * MIB
    sizes = (
        Size("fits", scale, (given.fits or (2048 if quick else FITS_MIB)) * MIB),
        Size("twice", scale, limit),
        Size("four", 2 * scale, limit),
    )
    wanted = chosen(parser, "--only", given.only or ("fits" if quick else ",".join(USUAL_SIZES)), SIZES)
    return Options(
        quick=quick,
        parts=chosen(parser, "--parts", given.parts, PARTS),
        engines=chosen(
            parser, "--engines", given.engines or ("parquet" if quick else ",".join(USUAL_ENGINES)), ENGINES
        ),
        peers=chosen(parser, "--peers", given.peers or ("duckdb" if quick else ",".join(PEERS)), PEERS),
        form=given.form,
        sizes=tuple(size for size in sizes if size.name in wanted),
        rounds=given.rounds,
        passes=given.passes or 2,
        candidates=given.candidates or (1 if quick else 3),
        sizes_scale=0.05 if quick else 1.0,
        half_rows=200_000 if quick else 20_000_000,
        half_bytes=(1344 if quick else 3072) * MIB,
        fits_bytes=sizes[0].limit_bytes,
        minutes=given.minutes,
        again=given.again or quick,
        charge_files=given.charge_files,
        settings_from=given.settings_from,
        cpus=min(2, len(os.sched_getaffinity(0))),
    )
