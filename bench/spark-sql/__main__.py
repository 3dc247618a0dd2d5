"""`make bench B=spark-sql`: cached DataFrames with Warmset against the best that stock Spark can be set to.

Parts: `overflow` (the cache is about twice the memory), `fits`, `sizes` (footprint, materialising, huge pages) and
`half` (half the memory). It ends with `result: {json}`; a figure whose part was not run, or not finished, is null.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import half
import limit
import regimes
import report
import sizes
from harness import data, engines, groups
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe, disk_speed
from harness.progress import Progress
from harness.statistics import geomean, rounded
from options import Options, parse

STOCK = tuple(name for name in engines.MAKERS if name != "warmset")


def main() -> int:
    """Runs the parts; exit code 1 if Warmset failed somewhere or answers differ."""
    end_in_order()
    options = parse(STOCK)
    run = Run.create("spark-sql", options.quick)
    progress = Progress(total=40)
    if groups.find_place() is None:
        progress.note(groups.why_none())
    file = f"raw{options.suffix}.json"
    run.write(f"README{options.suffix}.md", report.readme(options, file))
    head = {"machine": describe(), "options": asdict(options)}

    def keep(figures: dict, raw: dict) -> None:
        run.write(file, {**head, **raw, "result": figures})

    with tempfile.TemporaryDirectory(prefix="warmset-bench-", dir=ROOT / "target") as directory:
        figures, raw, sound = measure(options, run, Path(directory), progress, keep)
    progress.finish()
    print(report.tables(raw))
    print(f"raw figures: {run.shown(file)}")
    print(f"result: {json.dumps(figures)}")
    return 0 if sound else 1


def measure(
    options: Options, run: Run, scratch: Path, progress: Progress, keep: Callable[[dict, dict], None]
) -> tuple[dict, dict, bool]:
    """Runs the parts that were asked for; answers with the result line, the raw figures, and whether all was sound.

    After each part `keep` gets what there is: a run that is broken off leaves the parts that it finished.
    """
    figures: dict[str, object] = dict.fromkeys(
        ["overflow_geomean", "overflow_worst", "fits_geomean", "fits_cpu_geomean", "fits_worst", "limit_ratio",
         "footprint_ratio", "materialise_ratio", "half_memory_ok", "huge_fraction",
         "heap_huge_bytes"]
    )  # fmt: skip
    raw: dict[str, object] = {}
    sound = True
    outcomes: dict[str, regimes.Outcome] = {}
    if {"overflow", "fits"} & set(options.parts):
        progress.step(f"generating TPC-H, scale {options.scale:g} (kept in data/)")
        tables = {name: data.table(name, options.scale, options.form) for name in ("lineitem", "supplier")}
    for name, memory in (("overflow", options.overflow_bytes), ("fits", options.fits_bytes)):
        if name in options.parts:
            outcome = regimes.play(name, memory, options, tables, run.logs(), scratch, progress)
            outcomes[name], raw[name] = outcome, outcome.raw()
            ratios = outcome.ratios()
            figures[f"{name}_geomean"] = rounded(geomean(ratios.values()))
            figures[f"{name}_worst"] = rounded(min(ratios.values(), default=float("nan")))
            sound &= outcome.equal() is not False and all(batch[0].died is None for batch in outcome.batches)
            keep(figures, raw)
    if "fits" in outcomes:
        figures["fits_cpu_geomean"] = rounded(geomean(outcomes["fits"].ratios("task_cpu_s").values()))
    if len(outcomes) == 2:
        raw["disk_speed"] = disk_speed(scratch)
        found = limit.distances(
            outcomes["overflow"].warmset(), outcomes["fits"].warmset(), raw["disk_speed"]["read_bytes_per_s"]
        )
        raw["limit"], figures["limit_ratio"] = found, rounded(limit.mean_ratio(found))
    if "sizes" in options.parts:
        measured = sizes.play(options, run.logs(), scratch, progress)
        raw["sizes"] = measured.raw
        figures["footprint_ratio"] = rounded(measured.footprint_ratio)
        figures["materialise_ratio"] = rounded(measured.materialise_ratio)
        figures["huge_fraction"] = rounded(measured.huge_fraction)
        figures["heap_huge_bytes"] = measured.heap_huge_bytes
        keep(figures, raw)
    if "half" in options.parts:
        raw["half"] = half.play(options, run.logs(), scratch, progress)
        figures["half_memory_ok"] = raw["half"]["ok"]
        sound &= bool(raw["half"]["ok"])
    keep(figures, raw)
    return figures, raw, sound


if __name__ == "__main__":
    sys.exit(main())
