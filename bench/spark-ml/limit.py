"""Distance to the limit: a pass cannot be faster than with all in memory, nor than the disk brings what is missing."""

from __future__ import annotations

from statistics import mean

from harness.statistics import geomean


def distances(main: dict[str, dict], fits: dict[str, dict], factor: float) -> dict[str, dict]:
    """For each workload in both regimes' raw figures: Warmset's pass over what it must cost at the least.

    In `main` there are `factor` times as many rows.

    That is max(the faster engine's pass when all fits, missing bytes' time). A ratio below 1 says that this bound is
    too high: what a pass costs however few the rows is counted `factor` times in it. Bytes are missing that the pool
    has no room for, whether or not they were read. `ratio_of_total` takes the whole total for the pool, as if a JVM
    needed nothing.
    """
    found = {}
    for name in [name for name in main if name in fits]:
        ours = main[name]["passes"]["warmset"]
        resident = [factor * each["seconds"] for each in fits[name]["passes"].values() if each]
        if ours is None or not resident or ours["live_bytes"] is None:
            continue
        setting, speed = main[name]["settings"]["warmset"], mean(main[name]["disk_bytes_per_s"])
        missing_bytes = max(0, ours["live_bytes"] - setting["pool_bytes"])
        bound_s = max(min(resident), missing_bytes / speed)
        bound_of_total_s = max(min(resident), (ours["live_bytes"] - setting["total_bytes"]) / speed)
        found[name] = {
            "seconds": ours["seconds"],
            "all_resident_s": min(resident),
            "disk_bytes_per_s": speed,
            "missing_bytes": missing_bytes,
            "read_bytes": ours["read_bytes"],
            "bound_s": bound_s,
            "ratio": ours["seconds"] / bound_s,
            "ratio_of_total": ours["seconds"] / bound_of_total_s,
        }
    return found


def mean_ratio(found: dict[str, dict]) -> float:
    """The geometric mean over the workloads."""
    return geomean([each["ratio"] for each in found.values()])
