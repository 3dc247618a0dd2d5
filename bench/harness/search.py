"""The search for the best of many settings by successive halving: all are tried a little, the best third of them more.

Invariant: engines that are searched with as many candidates get as many trials, and the same candidates in every run.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

PART_KEPT = 3
# Where the knobs allow fewer settings than are asked for, drawing ends.
DRAWS_MAX = 1000

Setting = TypeVar("Setting")


def drawn(
    seed: str, first: Setting, knobs: Mapping[str, Sequence], count: int, known: Sequence[Setting] = ()
) -> list[Setting]:
    """So many settings: `first`, then those `known` to be good elsewhere, then others.

    Each of the others changes a part of the fields of `first` that `knobs` names, at random; a knob's own first value
    is that of `first`.
    """
    chance = random.Random(seed)
    names = chance.sample(sorted(knobs), len(knobs))
    parts = max(1, min(count - 1, len(names) // 2))
    found = list(dict.fromkeys([first, *known]))[:count]
    for turn in range(DRAWS_MAX):
        if len(found) >= count:
            break
        changed = names[turn % parts :: parts]
        other = replace(first, **{name: chance.choice(knobs[name][1:]) for name in changed})
        if other not in found:
            found.append(other)
    return found


def counts(candidates: int) -> list[int]:
    """How many settings each rung tries: one alone needs no comparison."""
    return [count for count in (candidates, candidates // PART_KEPT) if count > 1]


def halved(found: list[Setting], counts: Sequence[int], cost: Callable[[int, Setting], float]) -> list[Setting]:
    """The settings, the best first: in each rung so many of the best so far are tried, by `cost(rung, setting)`."""
    for rung, count in enumerate(counts):
        costs = {setting: cost(rung, setting) for setting in found[:count]}
        found = [*sorted(costs, key=costs.__getitem__), *found[count:]]
    return found
