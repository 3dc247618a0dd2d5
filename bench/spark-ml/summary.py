"""Whole fits of several runs in one table, for pages that show them together: each row is of one machine."""

from __future__ import annotations

from statistics import median

import limit
from harness.statistics import extremes, shown
from harness.workloads import NAMES

# What a whole fit was to be, stock over Warmset.
GOALS = {"lr": 1.4, "lgr": 1.4, "svm": 1.4, "kmeans": 1.2, "forest": 1.6, "objects": 2.0}
HEAD = (
    "", "machine", "stock, whole fit", "Warmset, whole fit", "**stock / Warmset**", "least – largest",
    "ratio of a pass (95 % within these processes)", "cached, times the limit: stock, Warmset",
)  # fmt: skip
# Of data that outgrow the memory.
HEAD_MAIN = ("aimed at", "a pass over its limit")


def found(raws: list[dict], regime: str) -> dict[str, tuple[dict, dict]]:
    """Each workload's raw figures in that regime, with its run's: of two runs the later one's, in the usual order."""
    played = {name: (raw, each) for raw in raws for name, each in workloads(raw, regime).items()}
    return {name: played[name] for name in NAMES if name in played}


def workloads(raw: dict, regime: str) -> dict[str, dict]:
    """What a run measured in a regime."""
    return raw["regimes"].get(regime, {}).get("workloads", {})


def table(raws: list[dict], regime: str) -> str:
    """Seconds of whole fits, medians with their extremes; then the ratio of passes."""
    head = (*HEAD, *HEAD_MAIN) if regime == "main" else HEAD
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    bounds = distances(raws) if regime == "main" else {}
    for name, (raw, each) in found(raws, regime).items():
        stock, ours = (seconds(each, engine) for engine in ("stock", "warmset"))
        cells = [
            each["title"], raw["machine"]["cpu_model"], fits_text(stock), fits_text(ours), shown(each["fit_ratio"]),
            spread(each), f"{shown(each['ratio'])}{interval(each)}", cached_text(raw, regime, each),
        ]  # fmt: skip
        if regime == "main":
            over = bounds.get(name)
            cells += [f"{GOALS[name]:g}", "bound too high" if over and over < 1 else shown(over)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def seconds(each: dict, engine: str) -> list[float]:
    """Whole fits of one engine."""
    return [timing["seconds"] for timing in each["engines"][engine]["timings"]]


def distances(raws: list[dict]) -> dict[str, float]:
    """Warmset's pass in `main` over its limit (`limit.py`), of workloads that were played in `main` and in `fits`."""
    main, fits = found(raws, "main"), found(raws, "fits")
    ratios = {}
    for name in [name for name in main if name in fits]:
        (raw, ours), (raw_fits, resident) = main[name], fits[name]
        factor = raw["regimes"]["main"]["rows"] / raw_fits["regimes"]["fits"]["rows"]
        ratios |= {key: each["ratio"] for key, each in limit.distances({name: ours}, {name: resident}, factor).items()}
    return ratios


def cached_bytes(each: dict) -> tuple[int, int] | None:
    """What the caches of stock Spark and of Warmset hold, in memory and on disk."""
    stock, ours = (each["passes"][engine] for engine in ("stock", "warmset"))
    if stock is None or ours is None:
        return None
    return tuple(part["memory_bytes"] + part["disk_bytes"] + (part["live_bytes"] or 0) for part in (stock, ours))


def cached_text(raw: dict, regime: str, each: dict) -> str:
    """The caches against the cgroup's limit."""
    limit_bytes, cached = raw["regimes"][regime]["total_bytes"], cached_bytes(each)
    return ", ".join(f"{bytes_ / limit_bytes:.1f}" for bytes_ in cached) if cached else "–"


def fits_note(raw: dict, regime: str, each: dict) -> str:
    """Says if both caches are smaller than the limit, though the rows as objects are not."""
    cached = cached_bytes(each)
    return " (cached, they fit)" if cached and max(cached) < raw["regimes"][regime]["total_bytes"] else ""


def fits_text(fits: list[float]) -> str:
    """Their median and how many there are."""
    return f"{median(fits):.1f} ({len(fits)})" if fits else "not finished"


def interval(each: dict) -> str:
    """Of the ratio of passes."""
    return f" ({each['interval'][0]:.2f} – {each['interval'][1]:.2f})" if each.get("interval") else ""


def ratios(raws: list[dict], regime: str, what: str) -> str:
    """One ratio of each workload in words: of whole fits or of passes, with how far it may be off."""
    return ", ".join(
        f"{each['title']}{fits_note(raw, regime, each) if regime == 'main' else ''} {shown(each[what])}"
        f"{f' ({spread(each)})' if what == 'fit_ratio' else interval(each)}"
        for raw, each in found(raws, regime).values()
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
