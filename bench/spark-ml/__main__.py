"""`make bench B=spark-ml`: MLlib's trainers on data that outgrows memory, with Warmset against stock Spark at its best.

Parts: `search` (the best setting of each engine), `main` (the data is twice the memory), `fits` (all in DRAM), `memory`
(the least with which a job finishes) and `regimes` (the data is once and four times the memory). Each trial and each
workload is written down when it ends, and the same command goes on with what is missing. It ends with `result: {json}`;
a figure whose part was not run, or not finished, is null.
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
from harness.keeping import Keeper, Unfinished
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
    keeper = Keeper(run, f"raw{options.suffix}.json", options.minutes)
    raw = None if options.again else keeper.earlier(lambda found: found.get("kept") == options.kept())
    raw = raw or {"machine": describe(), "kept": options.kept()}
    raw["options"] = {**asdict(options), "settings_from": list(map(str, options.settings_from))}
    finished = True
    with (
        tempfile.TemporaryDirectory(prefix="warmset-bench-", dir=ROOT / "target") as directory,
        read_ahead(Path(directory), options.read_ahead_kb) as raw["read_ahead_kb"],
    ):
        place = Place(options.cpus, run.logs(), Path(directory), progress)
        measuring = Measuring(options, place, raw, lambda: keeper.save(raw))
        try:
            measuring.play()
        except Unfinished:
            finished = False
    progress.finish()
    raw["result"] = measuring.figures()
    run.write(keeper.file, raw)
    picture = f"chart{options.suffix}.png"
    if raw["regimes"]:
        chart.save(raw["regimes"], run.directory / picture)
        print(f"chart: {run.shown(picture)}")
    run.write(f"README{options.suffix}.md", report.readme(raw, keeper.file, picture))
    if not finished:
        print("parts are left: run the same command again", file=sys.stderr)
        return 0
    print(report.tables(raw))
    print(f"raw figures: {run.shown(keeper.file)}")
    print(f"result: {json.dumps(raw['result'])}")
    return 0 if measuring.sound else 1


if __name__ == "__main__":
    sys.exit(main())
