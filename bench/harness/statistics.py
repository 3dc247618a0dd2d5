"""The few statistics that the figures need."""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Sequence
from statistics import median

RESAMPLES = 1000


def geomean(values: Iterable[float]) -> float:
    """The geometric mean of positive values; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def median_of(values: Sequence[float]) -> float:
    """The median; NaN of none."""
    return median(values) if values else math.nan


def extremes(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float]:
    """The least and the largest ratio of two of them: with few of each, that is all that can be said."""
    return min(theirs) / max(ours), max(theirs) / min(ours)


def ratio_interval(theirs: Sequence[float], ours: Sequence[float]) -> tuple[float, float] | None:
    """A 95 % interval of the ratio of the medians, by resampling both; `None` if either has one value or none."""
    if min(len(theirs), len(ours)) < 2:
        return None
    chance = random.Random(RESAMPLES)
    found = sorted(
        median(chance.choices(theirs, k=len(theirs))) / median(chance.choices(ours, k=len(ours)))
        for _ in range(RESAMPLES)
    )
    edge = RESAMPLES // 40
    return found[edge], found[-1 - edge]


def rounded(value: float | None, digits: int = 3) -> float | None:
    """For JSON, which has no NaN."""
    return None if value is None or math.isnan(value) or math.isinf(value) else round(value, digits)


def shown(value: float | None, digits: int = 2) -> str:
    """For pages: a figure, or a dash where there is none."""
    return "–" if value is None or value != value else f"{value:.{digits}f}"
