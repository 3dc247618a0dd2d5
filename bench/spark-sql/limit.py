"""Distance to the limit: a scan cannot be faster than its all-resident time, nor than the disk brings what misses."""

from __future__ import annotations

from harness import queries
from harness.contest import Player
from harness.statistics import geomean


def distances(overflow: Player, fits: Player, read_bytes_per_s: float) -> dict[str, dict]:
    """For each query: its time in overflow over max(all-resident time, missing bytes / bandwidth)."""
    found = {}
    for query in queries.ALL:
        if not overflow.timings.get(query.name) or not fits.timings.get(query.name):
            continue
        missing_bytes = overflow.median(query.name, "read_bytes")
        resident_s = fits.median(query.name)
        bound_s = max(resident_s, missing_bytes / read_bytes_per_s)
        seconds = overflow.median(query.name)
        found[query.name] = {
            "seconds": seconds,
            "all_resident_s": resident_s,
            "missing_bytes": missing_bytes,
            "bound_s": bound_s,
            "ratio": seconds / bound_s,
        }
    return found


def mean_ratio(found: dict[str, dict]) -> float:
    """The geometric mean over the queries."""
    return geomean([each["ratio"] for each in found.values()])
