"""`make bench B=spark-ml`: MLlib's trainers on data that outgrows memory, with Warmset against stock Spark at its best.

Parts: `main` (the data is twice the memory; settings are looked for first), `fits` (all in DRAM), `memory` (the least
with which a job finishes) and `regimes` (the data is once and four times the memory). It ends with `result: {json}`; a
figure whose part was not run, or not finished, is null.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

import chart
import report
from harness import groups
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe, read_ahead
from harness.progress import Progress
from harness.training import Place
from measuring import Measuring
from options import parse


def main() -> int:
    """Runs the parts; exit code 1 if Warmset failed somewhere or results differ."""
    end_in_order()
    options = parse()
    run = Run.create("spark-ml", options.quick)
    progress = Progress(total=4)
    if groups.find_place() is None:
        progress.note(groups.why_none())
    file, picture = f"raw{options.suffix}.json", f"chart{options.suffix}.png"
    run.write(f"README{options.suffix}.md", report.readme(options, file, picture))
    sources = {name: str(getattr(options, name) or "") for name in ("settings_from", "resume")}
    head = {"machine": describe(), "options": {**asdict(options), **sources}}
    with (
        tempfile.TemporaryDirectory(prefix="warmset-bench-", dir=ROOT / "target") as directory,
        read_ahead(Path(directory), options.read_ahead_kb) as head["read_ahead_kb"],
    ):
        place = Place(options.cpus, run.logs(), Path(directory), progress)
        measuring = Measuring(options, place)
        for _ in measuring.parts():
            run.write(file, {**head, **measuring.raw, "result": measuring.figures()})
    progress.finish()
    print(report.tables(measuring.raw))
    if measuring.raw["regimes"]:
        chart.save(measuring.raw["regimes"], run.directory / picture)
        print(f"chart: {run.shown(picture)}")
    print(f"raw figures: {run.shown(file)}")
    print(f"result: {json.dumps(measuring.figures())}")
    return 0 if measuring.sound else 1


if __name__ == "__main__":
    sys.exit(main())
