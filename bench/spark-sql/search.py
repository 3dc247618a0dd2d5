"""The search for an engine's best setting: successive halving, with the same number of trials for every engine.

The first rung plays all candidates: a job that caches all tables and plays a sample of the queries. The best third goes
on to whole jobs of one pass over all queries, if it is more than one. The best of these is the engine's setting, and
the next one if its first whole job is not finished. What is compared is the job that the benchmark times: caching, and
the passes at the pace of those that were played.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import job
import work
from choices import Setting, drawn
from harness import search as halving
from harness.keeping import raw_figures
from options import Options, Size

# In the place of a rung's number: a whole job that was not finished, though the trials before it were.
WHOLE = "whole"


def rungs(options: Options) -> list[tuple[int, tuple[str, ...], int]]:
    """Of each rung: how many settings, which queries, and how many passes over them."""
    work_of = ((work.SAMPLE, 1), (work.NAMES, 1))
    return [(count, *each) for count, each in zip(halving.counts(options.candidates), work_of, strict=False)]


def trials(options: Options) -> int:
    """How many trials each engine gets."""
    return sum(count for count, _, _ in rungs(options))


def cost_s(trial: dict, passes: int) -> float:
    """What a job of so many passes would take at the pace of the trial's last pass; infinite if it was not finished."""
    if trial["died"] or not trial["complete"]:
        return math.inf
    seconds = job.seconds_of(trial["passes"][-1]).values()
    return trial["fill_s"] + passes * sum(seconds) * len(work.NAMES) / len(seconds)


def best(
    engine: str, size: Size, options: Options, known: list[dict], play: Callable[[Setting, tuple[str, ...], int], dict]
) -> Setting:
    """The engine's best setting at this size; `known` are the trials so far, and gets those that are played.

    Settings that were tried at this size take part though they are none of today's candidates.
    """
    steps = rungs(options)
    candidates = drawn(engine, options.candidates)
    before = [(each, Setting(**each["setting"])) for each in known if each["engine"] == engine]
    tried = dict.fromkeys(setting for each, setting in before if matches(each, 0, setting, size))
    others = [setting for setting in tried if setting not in candidates]

    def cost(rung: int, setting: Setting) -> float:
        trial = next((each for each in known if matches(each, rung, setting, size)), None)
        if trial is None:
            trial = {"rung": rung, **play(setting, *steps[rung][1:])}
            known.append(trial)
        return cost_s(trial, options.passes)

    counts = [count + (len(others) if rung == 0 else 0) for rung, (count, *_) in enumerate(steps)]
    found = halving.halved(candidates + others, counts, cost)
    died = [setting for setting in found if any(matches(each, WHOLE, setting, size) for each in known)]
    return next((setting for setting in found if setting not in died), found[0])


def trials_from(raw: Path | None) -> list[dict]:
    """The trials of an earlier run."""
    return raw_figures(raw)["trials"] if raw else []


def matches(trial: dict, rung: int | str, setting: Setting, size: Size) -> bool:
    """Whether this trial is of that setting, in that rung, with these rows and this limit."""
    return (
        trial["rung"] == rung
        and trial["setting"] == setting.raw()
        and (trial["size"], trial["scale"], trial["limit_bytes"]) == (size.name, size.scale, size.limit_bytes)
    )
