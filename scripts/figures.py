#!/usr/bin/env python3
"""Writes the spark-sql figures of README.md and docs/reference/benchmarks.md from the kept run that they link to.

usage: .venv/bin/python scripts/figures.py [--check]; with --check it writes nothing, and ends with 1 where a page's
figures are not the run's.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
# The benchmark's own words and tables.
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "spark-sql")]

import report  # noqa: E402
from figures import SizeFigures  # noqa: E402
from harness.statistics import geomean  # noqa: E402

RUN = Path("bench/runs/2026-11-26-intel-xeon-2cpu-24g/spark-sql")
BEGIN, END = "<!-- figures: spark-sql -->", "<!-- /figures: spark-sql -->"
ROW = "| TPC-H's 22 queries and three more over eight cached tables with decimals"
WHAT = {"twice": "the cache outgrows memory", "fits": "all fits"}


def row(raw: dict) -> str:
    """The README's row: the sizes that were measured, steady and whole."""
    steady, whole = [], []
    for name, words in WHAT.items():
        found = SizeFigures.of(raw["jobs"], name)
        best = found.best_stock_whole()
        if best is None or not found.whole("warmset"):
            continue
        ratios = found.ratios().values()
        steady.append(f"{words}: {geomean(ratios):.2f} × (worst {min(ratios):.2f})")
        whole.append(f"{median(found.whole(best)) / median(found.whole('warmset')):.2f} ×")
    return (
        f"{ROW}, against the best stock Spark 4.2 of each query, settings searched | {'; '.join(steady)} | "
        f"{'; '.join(whole)} | [spark-sql]({RUN}/README.md) |"
    )


def pages(raw: dict) -> dict[Path, str]:
    """The pages as they should be."""
    reference, readme = ROOT / "docs" / "reference" / "benchmarks.md", ROOT / "README.md"
    marked = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    rows = re.compile("^" + re.escape(ROW) + ".*$", re.MULTILINE)
    return {
        reference: replaced(marked, f"{BEGIN}\n{report.tables(raw)}\n{END}", reference),
        readme: replaced(rows, row(raw), readme),
        # Pages show what lies below docs/.
        ROOT / "docs" / "reference" / "tpch.svg": (ROOT / RUN / "chart.svg").read_text(),
    }


def replaced(place: re.Pattern[str], text: str, page: Path) -> str:
    """The page with that text in its one place."""
    found, count = place.subn(lambda _: text, page.read_text())
    if count != 1:
        raise SystemExit(f"{page}: {count} places for the figures of spark-sql, and there must be one")
    return found


def main() -> int:
    """Writes the pages, or compares them."""
    wanted = pages(json.loads((ROOT / RUN / "raw.json").read_text()))
    stale = [page for page, text in wanted.items() if not page.exists() or page.read_text() != text]
    if "--check" in sys.argv[1:]:
        for page in stale:
            print(
                f"{page.relative_to(ROOT)}: other figures than {RUN}/raw.json; run scripts/figures.py", file=sys.stderr
            )
        return 1 if stale else 0
    for page in stale:
        page.write_text(wanted[page])
    return 0


if __name__ == "__main__":
    sys.exit(main())
