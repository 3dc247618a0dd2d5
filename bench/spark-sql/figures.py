"""Figures from the jobs of a run: medians, ratios with their intervals, break-even, distance to the limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import TypeVar

import job
import work
from choices import ENGINES
from harness.statistics import geomean, median_of, rounded

Figure = TypeVar("Figure")

# A bound is made of two measured times, each of which differs by some per cent from one run to the next.
BELOW_BOUND = 0.95


@dataclass(frozen=True)
class SizeFigures:
    """The jobs of one size, by engine; those that were not finished are kept apart."""

    jobs: dict[str, list[dict]]

    @classmethod
    def of(cls, jobs: list[dict], size: str) -> SizeFigures:
        found: dict[str, list[dict]] = {}
        for each in jobs:
            if each["size"] == size:
                found.setdefault(each["engine"], []).append(each)
        return cls(found)

    def steady(self, engine: str, query: str, what: str = "seconds") -> list[float]:
        """Seconds, or something else that was measured, of the query in all passes but the first of each job."""
        return self.timings(engine, query, what, slice(1, None))

    def timings(self, engine: str, query: str, what: str, of_passes: slice) -> list[float]:
        """The same in these passes of each job."""
        passes = [one for each in self.jobs.get(engine, []) for one in each["passes"][of_passes]]
        return [one[query][what] for one in passes if what in one.get(query, {})]

    def seconds(self, engine: str, query: str, *, first: bool = False) -> float:
        """The median of them, or of the first passes; NaN of none."""
        return median_of(self.timings(engine, query, "seconds", slice(1) if first else slice(1, None)))

    def cpu_ratio(self, engine: str) -> float:
        """Over TPC-H's queries, the geometric mean of the engine's processor time over Warmset's, steady; NaN if
        unknown."""
        found = {
            name: [median_of([cpu_s for cpu_s in self.steady(name, query, "cpu_s") if cpu_s]) for query in work.TPCH]
            for name in (engine, "warmset")
        }
        ratios = [theirs / ours for theirs, ours in zip(found[engine], found["warmset"], strict=True)]
        return geomean([ratio for ratio in ratios if not math.isnan(ratio)])

    def finished(self) -> list[str]:
        """Engines all of whose jobs were finished."""
        return [
            engine for engine, jobs in self.jobs.items() if jobs and all(job.whole_s(each) is not None for each in jobs)
        ]

    def whole(self, engine: str, queries: tuple[str, ...] = work.TPCH) -> list[float]:
        """Seconds of whole jobs of these queries."""
        found = [job.whole_s(each, queries) for each in self.jobs.get(engine, [])]
        return [seconds for seconds in found if seconds is not None]

    def stock(self) -> list[str]:
        """Stock engines that finished a whole job, even if another of theirs was killed."""
        return [engine for engine in ENGINES if self.whole(engine)]

    def answered(self) -> list[str]:
        """Stock engines with a steady timing: what one measured before it was killed counts, too."""
        return [engine for engine in ENGINES if any(self.steady(engine, query) for query in work.NAMES)]

    def best_stock_whole(self) -> str | None:
        """The stock engine whose whole job is the shortest."""
        return min(self.stock(), key=lambda engine: median(self.whole(engine)), default=None)

    def ratios(self, *, first: bool = False) -> dict[str, float]:
        """By query, the best stock engine's median over Warmset's, in steady passes or the first ones: each query has a
        best of its own."""
        found = {}
        for query in work.NAMES:
            seconds = [self.seconds(engine, query, first=first) for engine in self.answered()]
            theirs = [each for each in seconds if not math.isnan(each)]
            ours = self.seconds("warmset", query, first=first)
            if theirs and not math.isnan(ours):
                found[query] = min(theirs) / ours
        return found

    def geomeans_by_job(self) -> list[float]:
        """The geometric mean over TPC-H's queries with each of Warmset's finished jobs alone, the least first.

        Two or three jobs are too few for an interval; queries of one job are slow or fast together.
        """
        jobs = [each for each in self.jobs.get("warmset", []) if job.whole_s(each) is not None]
        alone = [SizeFigures({**self.jobs, "warmset": [each]}) for each in jobs]
        return sorted(geomean(of_tpch(each.ratios()).values()) for each in alone)

    def break_even(self, engine: str) -> float | None:
        """After how many queries caching in `engine` has paid against Parquet; `None`: never, or nothing to compare.

        Both at their steady pace, over TPC-H's mean query; caching is paid in advance.
        """
        ours, theirs = self.pace_s(engine), self.pace_s("parquet")
        fills = [each["fill_s"] for each in self.jobs.get(engine, [])]
        if ours is None or theirs is None or not fills or ours >= theirs:
            return None
        opening = median(each["fill_s"] for each in self.jobs["parquet"])
        return max(0.0, (median(fills) - opening) / (theirs - ours))

    def pace_s(self, engine: str) -> float | None:
        """Seconds of TPC-H's mean query in a steady pass."""
        seconds = [self.seconds(engine, query) for query in work.TPCH]
        return None if engine not in self.finished() or any(map(math.isnan, seconds)) else sum(seconds) / len(seconds)

    def cache_bytes(self, engine: str) -> int | None:
        """What its cache takes."""
        return next((found for each in self.jobs.get(engine, []) if (found := job.cache_bytes(each))), None)

    def spilled_bytes(self, engine: str) -> int:
        """What Spark itself put of it on disk while all was cached."""
        return max((each["storage"]["disk_bytes"] for each in self.jobs.get(engine, []) if each["storage"]), default=0)


def of_tpch(figures: dict[str, Figure]) -> dict[str, Figure]:
    """Those of TPC-H's 22 queries, without ours."""
    return {query: figure for query, figure in figures.items() if query in work.TPCH}


def limits(twice: SizeFigures, resident: SizeFigures, devices: list[float]) -> dict[str, dict]:
    """By query, Warmset's seconds where the cache outgrows memory over the least that they could be.

    That is max(its least time with all in memory, bytes that it read / the device's speed). Both have the same tables
    and the same heap.
    """
    found = {}
    for query in work.NAMES:
        seconds, least = twice.seconds("warmset", query), resident.steady("warmset", query)
        if math.isnan(seconds) or not least:
            continue
        passes = [one[query] for each in twice.jobs["warmset"] for one in each["passes"][1:] if query in one]
        read_bytes = median(each["read_bytes"] for each in passes)
        bound_s = max(min(least), read_bytes / max(devices))
        found[query] = {
            "seconds": seconds, "resident_s_least": min(least), "read_bytes": read_bytes, "bound_s": bound_s,
            "ratio": seconds / bound_s,
        }  # fmt: skip
    return found


def distances(bounds: dict[str, dict]) -> list[float]:
    """The ratios of TPC-H's queries in `limits` whose bound holds: a time below its bound is no distance to it."""
    return [each["ratio"] for each in of_tpch(bounds).values() if each["ratio"] >= 1]


def missing(jobs: list[dict], expected: list[tuple[str, str, int]]) -> list[str]:
    """Jobs that were not played, and queries of Warmset's that were not answered."""
    played = [(each["size"], each["engine"], each["round"]) for each in jobs]
    absent = [f"{size}, round {number}: {engine} was not played" for size, engine, number in expected
              if (size, engine, number) not in played]  # fmt: skip
    absent += [f"{each['size']}, round {each['round']}: Warmset: {each['died'] or 'queries are missing'}"
               for each in jobs if each["engine"] == "warmset" and job.whole_s(each) is None]  # fmt: skip
    return absent


def unequal(jobs: list[dict]) -> list[str]:
    """Queries whose rows were not those of the first engine."""
    return failing(jobs, "equal")


def unordered(jobs: list[dict]) -> list[str]:
    """Queries whose rows did not come in the order that was asked for."""
    return failing(jobs, "ordered")


def failing(jobs: list[dict], what: str) -> list[str]:
    """Queries of which this was looked at, and is false."""
    return sorted({f"{each['size']}: {each['engine']} {query}" for each in jobs for one in each["passes"]
                   for query, timing in one.items() if timing.get(what) is False})  # fmt: skip


def ordered_jobs(jobs: list[dict]) -> int:
    """Of how many jobs the order of the rows was looked at: older ones do without."""
    return sum(any("ordered" in timing for one in each["passes"] for timing in one.values()) for each in jobs)


def compared(jobs: list[dict]) -> bool:
    """Whether each query of each size was answered by two engines at least."""
    keys = {
        (each["size"], number, query): 0 for each in jobs for number, one in enumerate(each["passes"]) for query in one
    }
    for each in jobs:
        for number, one in enumerate(each["passes"]):
            for query, timing in one.items():
                keys[each["size"], number, query] += "seconds" in timing
    return bool(keys) and all(count > 1 for count in keys.values())


def result(raw: dict) -> dict:
    """The result line; a figure whose part was not run is null."""
    jobs = raw["jobs"]
    sizes = {name: SizeFigures.of(jobs, name) for name in ("fits", "twice", "four")}
    ratios = {name: of_tpch(figures.ratios()) for name, figures in sizes.items()}
    bounds = raw.get("limit") or {}
    sizes_raw = raw.get("sizes") or {}
    return {
        "overflow_geomean": rounded(geomean(ratios["twice"].values())),
        "overflow_worst": rounded(min(ratios["twice"].values(), default=math.nan)),
        "fits_geomean": rounded(geomean(ratios["fits"].values())),
        "fits_worst": rounded(min(ratios["fits"].values(), default=math.nan)),
        "four_geomean": rounded(geomean(ratios["four"].values())),
        "limit_ratio": rounded(geomean(distances(bounds))),
        "footprint_ratio": rounded(sizes_raw.get("footprint_ratio")),
        "materialise_ratio": rounded(sizes_raw.get("materialise_ratio")),
        "half_memory_ok": (raw.get("half") or {}).get("ok"),
        "answers_equal": False if unequal(jobs) or unordered(jobs) else True if compared(jobs) else None,
        "queries": len(ratios["twice"] or ratios["fits"]),
        **{
            query: rounded(sizes["fits"].seconds("stock", query) / sizes["fits"].seconds("warmset", query))
            for query in ("q1", "q6")
        },
        "cpu_geomean": rounded(sizes["twice" if ratios["twice"] else "fits"].cpu_ratio("stock")),
        "tuned_trials": len(raw["trials"]),
    }
