"""Distance to the limit: a pass cannot be faster than with all in memory, nor than the disk brings what is missing."""

from __future__ import annotations

from harness.statistics import geomean
from regimes import Duel


def distances(main: dict[str, Duel], fits: dict[str, Duel], read_bytes_per_s: float) -> dict[str, dict]:
    """For each workload that both regimes have: Warmset's pass over max(a pass when all fits, missing bytes' time).

    What a pass must cost at the least when all fits is the faster engine's. Bytes are missing that the pool has no
    room for, whether or not they were read.
    """
    found = {}
    for name in main.keys() & fits.keys():
        ours = main[name].summary("warmset")
        resident = [each["seconds"] for each in map(fits[name].summary, ("stock", "warmset")) if each]
        if ours is None or not resident or ours["live_bytes"] is None:
            continue
        pool_bytes = next(each.pool_bytes for each in main[name].settings if each.engine == "warmset")
        missing_bytes = max(0, ours["live_bytes"] - pool_bytes)
        bound_s = max(min(resident), missing_bytes / read_bytes_per_s)
        found[name] = {
            "seconds": ours["seconds"],
            "all_resident_s": min(resident),
            "missing_bytes": missing_bytes,
            "read_bytes": ours["read_bytes"],
            "bound_s": bound_s,
            "ratio": ours["seconds"] / bound_s,
        }
    return found


def mean_ratio(found: dict[str, dict]) -> float:
    """The geometric mean over the workloads."""
    return geomean([each["ratio"] for each in found.values()])
