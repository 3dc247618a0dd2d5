"""Finds each engine's best setting for a workload, by successive halving; every engine gets as many trials.

A trial is a new engine and one short fit over all the data. What is compared is the whole fit that the benchmark times:
what the short one took, and the passes that it lacks at its median pass. The first rung tries all candidates with
`RUNG_ITERATIONS[0]` iterations, the next one the best third of them with more.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from harness import passes, search, settings
from harness.settings import Setting
from harness.statistics import rounded
from harness.training import Engines, Place
from harness.workloads import Size, passes_of, workload

RUNG_ITERATIONS = (5, 8)


@dataclass
class Search:
    """The trials of one engine on one workload, in `trials`, some of which an earlier command may have made.

    `size` has the iterations of the fit that is timed; `keep` is called when a trial has ended.
    """

    name: str
    size: Size
    place: Place
    candidates: int
    trials: list[dict]
    keep: Callable[[], None] = lambda: None

    def best(self, engine: str, total_bytes: int) -> Setting:
        """The best setting; the first one where none finished."""
        knobs = settings.knobs(engine, self.name, total_bytes)
        first = Setting(engine, total_bytes, **{name: values[0] for name, values in knobs.items()})
        known = settings.known(engine, self.name, total_bytes)
        found = search.drawn(f"spark-ml/{self.name}/{engine}", first, knobs, self.candidates, known)
        return search.halved(found, search.counts(self.candidates), self.cost_s)[0]

    def cost_s(self, rung: int, setting: Setting) -> float:
        """Seconds of a whole fit with this setting; infinite if it died."""
        trial = next((each for each in self.trials if self.matches(each, rung, setting)), None)
        if trial is None:
            trial = {"rung": rung, **setting.raw(), **self.measured(setting, RUNG_ITERATIONS[rung])}
            self.trials.append(trial)
            self.keep()
        return math.inf if trial["whole_s"] is None else trial["whole_s"]

    def matches(self, trial: dict, rung: int, setting: Setting) -> bool:
        """Whether it is that trial."""
        return trial["rung"] == rung and settings.from_raw(trial) == setting

    def measured(self, setting: Setting, iterations: int) -> dict:
        """One trial."""
        tried = workload(self.name, self.size.shorter(iterations))
        with Engines(self.place) as engines:
            player = engines.open(setting, self.name, self.size, "search")
            answer = player.ask(tried.name, tried.timeout_s, **tried.request(0))
        pass_s = math.nan if answer is None else passes.median_s([answer], tried)
        lacking = passes_of(self.name, self.size.iterations) - passes_of(self.name, iterations)
        whole_s = math.nan if answer is None else answer["seconds"] + max(0, lacking) * pass_s
        died = None if player.died is None else str(player.died)
        self.place.progress.note(f"search: {self.name}: {setting.title}: {whole_s:.1f} s; {died or 'finished'}")
        return {
            "iterations": iterations, "fit_s": answer and answer["seconds"], "seconds": rounded(pass_s),
            "whole_s": rounded(whole_s), "died": died,
        }  # fmt: skip
