"""`make bench B=sim`: runs `warmset sim --json`, compares it with the published figures, keeps it. All is simulated."""

from __future__ import annotations

import json
import math
import subprocess
import sys
import time
from pathlib import Path

from harness.machine import Run, describe

HERE = Path(__file__).parent
TABLES = ("gups", "latency sweep", "object size", "applications")


def summary(report: dict) -> dict:
    """The keys of the `result` line."""
    asked = [cell for cell in report["cells"] if cell["ok"] is not None]
    cells = [row for row in report["warm"] if row["table"] in TABLES]
    dynamic = [row for row in report["warm"] if row["table"] == "dynamic"]
    held_out = [row for row in report["warm"] if row["table"] == "held out"]
    # A run that never leaves the 2 % around its last figure settles in no time: there is nothing to compare.
    settle = [row for row in dynamic if row["convergence_s"] > 0 and row["convergence_hemem_colloid_s"] > 0]
    figures = {
        "warm_worst": min(row["of_six"] for row in cells),
        "warm_geomean_dynamic": geomean([row["of_six"] for row in dynamic]),
        "warm_vs_best_static_worst": min(row["of_static"] for row in cells),
        "warm_convergence_ratio": min(row["convergence_hemem_colloid_s"] / row["convergence_s"] for row in settle),
        "warm_migration_worst": max(row["migration_share"] for row in cells),
        "held_out_worst": min(row["of_six"] for row in held_out),
        "held_out_geomean": geomean([row["of_six"] for row in held_out]),
    }
    return {
        "cells_ok": sum(cell["ok"] for cell in asked),
        "cells_total": len(asked),
        **{key: round(value, 4) for key, value in figures.items()},
    }


def geomean(values: list[float]) -> float:
    """The geometric mean."""
    return math.prod(values) ** (1 / len(values))


def figure(cell: dict, value: float) -> str:
    """A figure with its unit's digits."""
    if cell["unit"] in ("share", "part"):
        return f"{value * 100:.1f} %"
    return f"{value:.2f}" if cell["unit"] in ("gain", "ratio") else f"{value:.1f}"


def asked_for(cell: dict) -> str:
    """The published figure, or the range that is asked for."""
    if cell["published"] is not None:
        return figure(cell, cell["published"])
    if cell["range"] is None:
        return "-"
    low, high = cell["range"]
    parts = [f"≥ {figure(cell, low)}" if low is not None else "", f"≤ {figure(cell, high)}" if high is not None else ""]
    return ", ".join(part for part in parts if part)


def tables(report: dict) -> str:
    """Every table as Markdown."""
    lines, table = [], None
    for cell in report["cells"]:
        if cell["table"] != table:
            table = cell["table"]
            lines += ["", f"### {table}", "", "| case | policy | simulated | published | within | fitted |"]
            lines += ["|---|---|---|---|---|---|"]
        within = {True: "yes", False: "**no**", None: "-"}[cell["ok"]]
        lines.append(
            f"| {cell['case']} | {cell['policy']} | {figure(cell, cell['simulated'])} | {asked_for(cell)} "
            f"| {within} | {'fitted' if cell['fitted'] else 'predicted'} |"
        )
    lines += ["", "### warm against the others", ""]
    lines += [
        "| table | case | GB/s | of the best of the six | of the best static | copied | settles (hemem+colloid) |"
    ]
    lines += ["|---|---|---|---|---|---|---|"]
    lines += [
        f"| {row['table']} | {row['case']} | {row['warm']:.1f} | {row['of_six']:.3f} ({row['best_of_six']}) "
        f"| {row['of_static']:.3f} | {row['migration_share'] * 100:.2f} % "
        f"| {row['convergence_s']:.1f} s ({row['convergence_hemem_colloid_s']:.1f} s) |"
        for row in report["warm"]
    ]
    return "\n".join(lines) + "\n"


def page(report: dict, result: dict, path: Path) -> None:
    """Writes the tables again below the mark in the page on the published system."""
    mark = "<!-- Below: written by `python bench/sim --page`. -->\n"
    head = path.read_text().split(mark)[0]
    path.write_text(f"{head}{mark}\nSeed {report['seed']}: `{json.dumps(result)}`\n{tables(report)}")


def main() -> None:
    """Runs and keeps."""
    started = time.monotonic()
    done = subprocess.run(
        ["target/release/warmset", "sim", "--held-out", "--json"], check=True, capture_output=True, text=True
    )
    report = json.loads(done.stdout)
    result = summary(report)
    run = Run.create("sim", quick="--quick" in sys.argv[1:])
    run.write(
        "raw.json", {"machine": describe(), "seconds": round(time.monotonic() - started, 1), **report, "result": result}
    )
    run.write("README.md", (HERE / "README.md").read_text() + tables(report))
    if "--page" in sys.argv[1:]:
        page(report, result, Path("docs/published/colloid.md"))
    print(f"raw figures: {run.shown('raw.json')}", file=sys.stderr)
    print("result: " + json.dumps({"sim": result}))


if __name__ == "__main__":
    main()
