"""Whole fits of several runs in one table, for pages that show them together: each row is of one machine."""

from __future__ import annotations

from statistics import mean, median

from harness import passes
from harness.statistics import extremes, shown
from harness.workloads import KINDS, NAMES, Workload

# What a whole fit was to be, stock over Warmset.
GOALS = {"lr": 1.4, "lgr": 1.4, "svm": 1.4, "kmeans": 1.2, "forest": 1.6, "objects": 2.0}
HEAD = (
    "| | machine | stock, whole fit | Warmset, whole fit | **stock / Warmset** | least – largest | aimed at | "
    "ratio of a pass (95 % within these processes) | a pass over the longer of its processor time and its reads |",
    f"|---|{'---|' * 8}",
)


def found(raws: list[dict], regime: str) -> dict[str, tuple[dict, dict]]:
    """Each workload's raw figures in that regime, with its run's: of two runs the later one's, in the usual order."""
    played = {name: (raw, each) for raw in raws for name, each in workloads(raw, regime).items()}
    return {name: played[name] for name in NAMES if name in played}


def workloads(raw: dict, regime: str) -> dict[str, dict]:
    """What a run measured in a regime."""
    return raw["regimes"].get(regime, {}).get("workloads", {})


def table(raws: list[dict], regime: str) -> str:
    """Seconds of whole fits, medians with their extremes; then the ratio of passes."""
    lines = [*HEAD]
    for name, (raw, each) in found(raws, regime).items():
        stock, ours = (seconds(each, engine) for engine in ("stock", "warmset"))
        goal = f"{GOALS[name]:g}" if regime == "main" else "–"
        lines.append(
            f"| {each['title']} | {raw['machine']['cpu_model']} | {fits_text(stock)} | {fits_text(ours)} | "
            f"{shown(each['fit_ratio'])} | {spread(each)} | {goal} | "
            f"{shown(each['ratio'])}{interval(each)} | {shown(over_limit(raw, name, each))} |"
        )
    return "\n".join(lines)


def seconds(each: dict, engine: str) -> list[float]:
    """Whole fits of one engine."""
    return [timing["seconds"] for timing in each["engines"][engine]["timings"]]


def over_limit(raw: dict, name: str, each: dict) -> float | None:
    """Warmset's mean steady pass over what it must cost.

    That is its processor time spread over all cores, or the bytes that the pool has no room for at the device's speed,
    whichever is longer.
    """
    ours, pool_bytes = each["passes"]["warmset"], each["settings"]["warmset"]["pool_bytes"]
    if ours is None or ours["live_bytes"] is None:
        return None
    workload = Workload(name, *KINDS[name][:2], message={})
    jobs = [job for timing in each["engines"]["warmset"]["timings"] for job in passes.steady(timing, workload)]
    compute_s = mean(job["task_cpu_s"] for job in jobs) / raw["machine"]["cpus"]
    missing_s = max(0, ours["live_bytes"] - pool_bytes) / mean(each["disk_bytes_per_s"])
    return mean(map(passes.seconds, jobs)) / max(compute_s, missing_s)


def fits_text(fits: list[float]) -> str:
    """Their median and how many there are."""
    return f"{median(fits):.1f} ({len(fits)})" if fits else "not finished"


def interval(each: dict) -> str:
    """Of the ratio of passes."""
    return f" ({each['interval'][0]:.2f} – {each['interval'][1]:.2f})" if each.get("interval") else ""


def ratios(raws: list[dict], regime: str, what: str) -> str:
    """One ratio of each workload in words: of whole fits or of passes, with how far it may be off."""
    return ", ".join(
        f"{each['title']} {shown(each[what])}{f' ({spread(each)})' if what == 'fit_ratio' else interval(each)}"
        for _, each in found(raws, regime).values()
    )


def spread(each: dict) -> str:
    """The least and the largest ratio of two whole fits, where there are two; a dash where an engine finished none."""
    stock, ours = (seconds(each, engine) for engine in ("stock", "warmset"))
    if not stock or not ours:
        return "–"
    if len(stock) == len(ours) == 1:
        return "one fit of each"
    low, high = extremes(stock, ours)
    return f"{low:.2f} – {high:.2f}"
