"""The options of the benchmark, and the sizes of its full and its quick form."""

from __future__ import annotations

import argparse
import os
from dataclasses import dataclass

MIB = 1 << 20
# What a JVM in local mode needs beside heap and pool, with the Python driver and a little page cache.
OVERHEAD_BYTES = 576 * MIB
# Where everything fits, no engine is to die of its group's limit: a large heap has large tables, and some engines keep
# buffers outside it.
FITS_OVERHEAD_BYTES = 1536 * MIB
FORMS = ("double", "raw")
PARTS = ("overflow", "fits", "sizes", "half")


@dataclass(frozen=True)
class Options:
    """What is run, and how large."""

    quick: bool
    parts: tuple[str, ...]
    engines: tuple[str, ...]
    scale: float
    form: str
    overflow_bytes: int
    fits_bytes: int
    rounds: int
    warmups: int
    sizes_scale: float
    half_rows: int
    half_bytes: int
    keep_all: bool
    cpus: int

    @property
    def suffix(self) -> str:
        """What tells the files of this kind of run from others of the same day: parts that are not all, the form."""
        parts = [part for part in PARTS if part in self.parts]
        names = [*(parts if len(parts) < len(PARTS) else []), *(["decimals"] if self.form == "raw" else [])]
        return "".join(f"-{name}" for name in names)


def parse(known_engines: tuple[str, ...]) -> Options:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="make bench B=spark-sql", description="cached DataFrames, engine by engine")
    parser.add_argument("--quick", action="store_true", help="a small version, for tests")
    parser.add_argument("--parts", default=",".join(PARTS), help="which parts to run (%(default)s)")
    parser.add_argument("--engines", help="which stock engines to compare with")
    parser.add_argument("--scale", type=float, help="TPC-H scale factor")
    parser.add_argument(
        "--form",
        choices=FORMS,
        default=FORMS[0],
        help="prices as doubles, or raw: the decimals that TPC-H has (%(default)s)",
    )
    parser.add_argument("--overflow", type=int, metavar="MIB", help="heap and pool where the cache does not fit")
    parser.add_argument("--fits", type=int, metavar="MIB", help="heap and pool where it fits")
    parser.add_argument("--rounds", type=int, help="timed rounds")
    parser.add_argument("--keep-all", action="store_true", help="time also engines that cannot be the best any more")
    given = parser.parse_args()
    parts = tuple(part for part in given.parts.split(",") if part)
    for part in parts:
        if part not in PARTS:
            parser.error(f"--parts: {part} is none of {', '.join(PARTS)}")
    default_engines = ("uncompressed",) if given.quick else known_engines
    engines = tuple(given.engines.split(",")) if given.engines else default_engines
    for engine in engines:
        if engine not in known_engines:
            parser.error(f"--engines: {engine} is none of {', '.join(known_engines)}")
    quick = given.quick
    return Options(
        quick=quick,
        parts=parts,
        engines=engines,
        form=given.form,
        scale=given.scale or (0.25 if quick else 6.0),
        overflow_bytes=(given.overflow or (672 if quick else 1088)) * MIB,
        fits_bytes=(given.fits or (2048 if quick else 9216)) * MIB,
        rounds=given.rounds or (1 if quick else 5),
        warmups=1 if quick else 2,
        sizes_scale=0.1 if quick else 2.0,
        half_rows=200_000 if quick else 20_000_000,
        half_bytes=(1344 if quick else 3072) * MIB,
        keep_all=given.keep_all,
        cpus=min(2, len(os.sched_getaffinity(0))),
    )
