#!/usr/bin/env python3
"""Writes the spark-sql figures of README.md and docs/reference/benchmarks.md from the kept run that they link to, and
from the newest kept run whose files were charged to the cgroup, where there is one (`--charge-files`).

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

RUN = Path("bench/runs/2026-11-28-amd-epyc-2cpu-24g/spark-sql/raw-search-rounds.json")
BEGIN, END = "<!-- figures: spark-sql -->", "<!-- /figures: spark-sql -->"
ROW = "| TPC-H's 22 queries and three more over eight cached tables with decimals"
CHARGED_ROW = "| the same, with the Parquet files charged to the cgroup"
WHAT = {"twice": "the cache outgrows memory", "four": "twice the rows in the same memory", "fits": "all fits"}


def charged() -> Path | None:
    """The raw figures of the newest run whose files were charged to the cgroup."""
    files = [each for each in sorted(ROOT.glob("bench/runs/*/spark-sql*/raw*.json")) if "-quick/" not in str(each)]
    found = [each for each in files if json.loads(each.read_text())["kept"].get("charge_files")]
    return found[-1].relative_to(ROOT) if found else None


def page_of(file: Path) -> Path:
    """The page that a run wrote beside its raw figures."""
    return file.with_name(f"README{file.stem.removeprefix('raw')}.md")


def chart_of(file: Path) -> Path:
    """The chart that a run drew beside its raw figures."""
    return file.with_name(f"chart{file.stem.removeprefix('raw')}.svg")


def row(raw: dict, begin: str, page: Path) -> str:
    """A row of the README: the sizes that were measured, whole and steady."""
    steady, whole = [], []
    for name, words in WHAT.items():
        found = SizeFigures.of(raw["jobs"], name)
        best = found.best_stock_whole()
        if best is None or not found.whole("warmset"):
            continue
        ratios = found.ratios().values()
        whole.append(f"{words}: {median(found.whole(best)) / median(found.whole('warmset')):.2f} ×")
        steady.append(f"{geomean(ratios):.2f} × (worst {min(ratios):.2f})")
    return f"{begin} | {'; '.join(whole)} | {'; '.join(steady)} | [spark-sql]({page}) |"


def block(raw: dict, raw_charged: dict | None, page_charged: Path | None) -> str:
    """The tables of the reference."""
    parts = [report.conditions(raw), report.tables(raw)]
    if raw_charged is not None:
        parts += [
            "**Files charged to the cgroup**", report.conditions(raw_charged), report.charged_tables(raw_charged),
            f"[That run](../../{page_charged}).",
        ]  # fmt: skip
    return "\n\n".join(parts)


def pages(raw: dict, file_charged: Path | None) -> dict[Path, str]:
    """The pages as they should be."""
    reference, readme = ROOT / "docs" / "reference" / "benchmarks.md", ROOT / "README.md"
    marked = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    rows = re.compile(f"^{re.escape(ROW)}.*$(\\n{re.escape(CHARGED_ROW)}.*$)?", re.MULTILINE)
    stock = f"{ROW}, against the best stock Spark 4.2 of each query, settings searched"
    shown, raw_charged, page_charged = [row(raw, stock, page_of(RUN))], None, None
    if file_charged is not None:
        raw_charged, page_charged = json.loads((ROOT / file_charged).read_text()), page_of(file_charged)
        shown.append(row(raw_charged, CHARGED_ROW, page_charged))
    tables = block(raw, raw_charged, page_charged)
    return {
        reference: replaced(marked, f"{BEGIN}\n{tables}\n{END}", reference),
        readme: replaced(rows, "\n".join(shown), readme),
        # Pages show what lies below docs/.
        ROOT / "docs" / "reference" / "tpch.svg": (ROOT / chart_of(RUN)).read_text(),
    }


def replaced(place: re.Pattern[str], text: str, page: Path) -> str:
    """The page with that text in its one place."""
    found, count = place.subn(lambda _: text, page.read_text())
    if count != 1:
        raise SystemExit(f"{page}: {count} places for the figures of spark-sql, and there must be one")
    return found


def main() -> int:
    """Writes the pages, or compares them."""
    wanted = pages(json.loads((ROOT / RUN).read_text()), charged())
    stale = [page for page, text in wanted.items() if not page.exists() or page.read_text() != text]
    if "--check" in sys.argv[1:]:
        for page in stale:
            print(f"{page.relative_to(ROOT)}: other figures than {RUN}; run scripts/figures.py", file=sys.stderr)
        return 1 if stale else 0
    for page in stale:
        page.write_text(wanted[page])
    return 0


if __name__ == "__main__":
    sys.exit(main())
