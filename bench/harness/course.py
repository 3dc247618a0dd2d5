"""What a benchmark of parts of one kind has around them: its folder, its progress, scratch space, its last lines."""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from harness import groups
from harness.ending import end_in_order
from harness.machine import ROOT, Run, commit, describe
from harness.progress import Progress
from harness.training import Place


@dataclass(frozen=True)
class Course:
    """One benchmark. `parts` is what the raw figures call its parts; `sound` judges one, the others see all.

    `kept` is what an interrupted run wrote: its parts count as measured, and `measure` must leave them out.
    """

    name: str
    readme: str
    parts: str
    figures: Callable[[dict[str, dict]], dict]
    table: Callable[[dict[str, dict]], str]
    sound: Callable[[dict], bool]
    kept: dict | None = None

    def run(
        self,
        options: argparse.Namespace,
        steps: int,
        measure: Callable[[argparse.Namespace, Place], Iterable[tuple[str, dict]]],
    ) -> int:
        """Measures part by part; a run that is broken off leaves those that it finished. Answers with the exit code."""
        end_in_order()
        run = Run.create(self.name, options.quick)
        progress = Progress(steps)
        if groups.find_place() is None:
            progress.note(groups.why_none())
        kept = self.kept or {}
        found: dict[str, dict] = kept.get(self.parts, {})
        # Parts of one file may have been measured at different commits.
        commits: dict[str, str | None] = kept.get("commits", {})
        raw = {"machine": describe(), "options": vars(options), "commits": commits, self.parts: found}
        run.write("README.md", self.readme)
        with tempfile.TemporaryDirectory(prefix="warmset-bench-", dir=ROOT / "target") as directory:
            for name, part in measure(options, Place(options.cpus, run.logs(), Path(directory), progress)):
                found[name], commits[name] = part, commit()
                run.write("raw.json", {**raw, "result": self.figures(found)})
        progress.finish()
        print(self.table(found))
        print(f"raw figures: {run.shown('raw.json')}")
        print(f"result: {json.dumps(self.figures(found))}")
        return 0 if all(map(self.sound, found.values())) else 1
