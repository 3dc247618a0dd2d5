"""Whether engines agree: the rows of each query that the first engine gave, and what the others gave since.

Decimals, and the doubles that some engines make of them, are compared as numbers to six digits after the point. Rows
are compared as a set, and each engine's are looked at on their own: they have to come in the order that the query asks
for, with equal keys in any. Rows are kept in a file: a run that goes on compares with what was answered before.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

NUMBER = re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?")
# Averages and quotients of decimals: Spark rounds them to six digits.
CLOSE = 2e-6


class Answers:
    """What is known, by query."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.known: dict[str, list] = json.loads(file.read_text()) if file.exists() else {}

    def forget(self) -> None:
        """Begins anew."""
        self.known.clear()
        self.file.unlink(missing_ok=True)

    def save(self) -> None:
        """Writes down what is known."""
        self.file.write_text(json.dumps(self.known))

    def equal(self, key: str, rows: list[list]) -> bool | None:
        """Whether these rows are those that are known; `None` if none were."""
        found = sorted((list(map(comparable, row)) for row in rows), key=order)
        if key not in self.known:
            self.known[key] = found
            return None
        return same(self.known[key], found)


def ordered(rows: list[list], ordering: Sequence[tuple[int, bool]]) -> bool:
    """Whether the rows are ordered by these columns, descending where that is set; none of TPC-H's is ever null."""
    if any(index >= len(row) for row in rows for index, _ in ordering):
        return False
    keys = [[comparable(row[index]) for index, _ in ordering] for row in rows]
    return all(follows(one, other, [descends for _, descends in ordering]) for one, other in pairwise(keys))


def follows(earlier: list, later: list, descending: list[bool]) -> bool:
    """Whether the later key may come after the earlier one; numbers that are close may come in any order."""
    for one, other, descends in zip(earlier, later, descending, strict=True):
        alike = type(one) is type(other) and one is not None
        if alike and (one > other if descends else one < other):
            return True
        if not close(one, other):
            return False
    return True


def comparable(value: object) -> object:
    """Numbers as floats, also those that are written as text, as decimals are; all else as it is."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, str):
        return float(value) if NUMBER.fullmatch(value) else value
    return float(value)


def order(row: list) -> tuple:
    """Sorts rows whose numbers may differ in the last digits: texts first."""
    return (
        [str(value) for value in row if not isinstance(value, float)],
        [float(f"{value:.5g}") for value in row if isinstance(value, float)],
    )


def same(left: list[list], right: list[list]) -> bool:
    """Equality of rows."""
    return len(left) == len(right) and all(
        len(one) == len(other) and all(map(close, one, other)) for one, other in zip(left, right, strict=True)
    )


def close(one: object, other: object) -> bool:
    """Equality of values."""
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= CLOSE * max(1.0, abs(one), abs(other))
    return one == other
