"""The few statistics that the figures need."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from statistics import median


def geomean(values: Iterable[float]) -> float:
    """The geometric mean of positive values; NaN of none."""
    logs = [math.log(value) for value in values]
    return math.exp(sum(logs) / len(logs)) if logs else math.nan


def median_of(values: Sequence[float]) -> float:
    """The median; NaN of none."""
    return median(values) if values else math.nan


def rounded(value: float | None, digits: int = 3) -> float | None:
    """For JSON, which has no NaN."""
    return None if value is None or math.isnan(value) or math.isinf(value) else round(value, digits)
