"""`make bench B=sim`: runs `warmset sim --json`, compares it with the published figures, keeps it. All is simulated."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

from harness import machine

HERE = Path(__file__).parent
PUBLISHED = ("hemem", "hemem+colloid", "tpp", "tpp+colloid", "memtis", "memtis+colloid")
REACTS = ("hemem+colloid", "warm")


def summary(report: dict) -> dict:
    """The keys of the `result` line."""
    cells = {(cell["policy"], cell["contention"]): cell["simulated_gbps"] for cell in report["gups"]}
    checked = [cell for cell in report["gups"] if cell["ok"] is not None]
    best = {c: max(cells[policy, c] for policy in PUBLISHED) for c in range(4)}
    dynamic = {(row["scenario"], row["policy"]): row for row in report["dynamic"]}
    scenarios = sorted({scenario for scenario, _ in dynamic})
    gains = [
        dynamic[scenario, "warm"]["gbps"]
        / max(row["gbps"] for (name, policy), row in dynamic.items() if name == scenario and policy != "warm")
        for scenario in scenarios
    ]
    ratios = [dynamic[s, REACTS[0]]["convergence_s"] / dynamic[s, "warm"]["convergence_s"] for s in scenarios]
    figures = {
        "warm_worst": min(cells["warm", c] / best[c] for c in range(4)),
        "warm_geomean_dynamic": math.prod(gains) ** (1 / len(gains)),
        "warm_vs_best_static_worst": min(cells["warm", c] / cells["best", c] for c in range(4)),
        "warm_convergence_ratio": min(ratios),
    }
    return {
        "cells_ok": sum(cell["ok"] for cell in checked),
        "cells_total": len(checked),
        **{key: round(value, 4) for key, value in figures.items()},
    }


def main() -> None:
    """Runs and keeps."""
    command = ["target/release/warmset", "sim", "--json"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    result = summary(report)
    raw = Path("target/sim.json")
    raw.write_text(json.dumps({**report, "result": result}))
    machine.keep("sim", raw, HERE / "README.md", quick="--quick" in sys.argv[1:])
    print("result: " + json.dumps({"sim": result}))


if __name__ == "__main__":
    main()
