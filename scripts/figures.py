#!/usr/bin/env python3
"""Writes the spark-sql figures of README.md and docs/reference/benchmarks.md from the kept run that they link to.

usage: figures.py [--check]; with --check it writes nothing, and ends with 1 where a page's figures are not the run's.

The kept run is of the benchmark before it became all of TPC-H: five scan queries over doubles. Once a run of the
present one is kept, RUN names it, and its tables are those that `bench/spark-sql/report.py` writes for it.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
RUN = Path("bench/runs/2026-11-21-amd-epyc-2cpu-24g/spark-sql")
BEGIN, END = "<!-- figures: spark-sql -->", "<!-- /figures: spark-sql -->"
QUERIES = {"q1": "Q1", "q6": "Q6", "filter": "filter", "group_by": "group by", "join": "join"}
TITLES = {
    "warmset": "Warmset",
    "stock": "stock `cache()`",
    "uncompressed": "stock, uncompressed",
    "off_heap": "stock `OFF_HEAP`",
    "disk_only": "stock `DISK_ONLY`",
    "arrow": "stock 4.3, Arrow",
    "parquet": "Parquet, no cache",
}
ROW = (
    "| five queries (TPC-H Q1, Q6, a filter, a group-by, a join) over prices as doubles; "
    "the cache is twice heap and pool, 1.2 times the cgroup's limit"
)


def players(raw: dict, regime: str) -> list[dict]:
    """Each engine once: Warmset, which played in every batch, as it did in the first."""
    found: dict[str, dict] = {}
    for batch in raw[regime]["batches"]:
        for player in batch:
            found.setdefault(player["engine"], player)
    return list(found.values())


def finished(player: dict) -> bool:
    """Whether it played all rounds."""
    return player["died"] is None and not player["dropped"] and set(player["timings"]) == set(QUERIES)


def fill_s(player: dict) -> float:
    """Seconds that caching took; none where nothing is cached."""
    return player["materialise"]["seconds"] if player["materialise"] else 0.0


def whole_s(player: dict) -> float:
    """The whole job: caching, and every timed run."""
    return fill_s(player) + sum(run["seconds"] for runs in player["timings"].values() for run in runs)


def table(raw: dict, regime: str, title: str) -> list[str]:
    """One regime: whole jobs first, then the medians."""
    rounds = raw["options"]["rounds"]
    lines = [
        f"| {title}: {raw[regime]['memory_bytes'] >> 20} MiB of heap and pool | whole job, {rounds} rounds | "
        f"cache it | {' | '.join(QUERIES.values())} |",
        f"|---|---|---|{'---|' * len(QUERIES)}",
    ]
    for player in sorted(players(raw, regime), key=lambda each: (not finished(each), whole_s(each))):
        name = TITLES[player["engine"]]
        cached = f"{fill_s(player):.1f}" if player["materialise"] else "–"
        if finished(player):
            medians = [f"{median(run['seconds'] for run in player['timings'][query]):.2f}" for query in QUERIES]
            lines.append(f"| {name} | {whole_s(player):.1f} | {cached} | {' | '.join(medians)} |")
        else:
            died = player["died"]
            why = (
                f"{died['reason']} at {died['step']}" if died else "1.6 times slower on every query; not timed further"
            )
            lines.append(f"| {name} | {why} | {cached} |{' |' * len(QUERIES)}")
    ratios = " | ".join(f"{raw[regime]['ratios'][query]:.2f}" for query in QUERIES)
    mean = raw[regime]["geomean"]
    lines.append(
        f"| **best stock / Warmset**, geometric mean {mean:.1f} | {whole_ratio(raw, regime):.2f} | | {ratios} |"
    )
    return lines


def whole_ratio(raw: dict, regime: str) -> float:
    """The best whole job of a stock engine over Warmset's of the same batch."""
    return min(
        whole_s(player) / whole_s(batch[0])
        for batch in raw[regime]["batches"]
        for player in batch[1:]
        if finished(player)
    )


def half(raw: dict) -> list[str]:
    """Half the memory."""
    total = raw["options"]["half_bytes"] / (1 << 30)
    rows = {
        "stock": ("stock Spark 4.2", total), "stock_arrow": ("stock Spark 4.3, Arrow serialiser", total),
        "warmset": ("Warmset", total), "warmset_half": ("Warmset", total / 2),
    }  # fmt: skip
    lines = ["| | heap and pool | caching it |", "|---|---|---|"]
    for name, (title, gib) in rows.items():
        run = raw["half"]["runs"][name]
        died = run["died"] and run["died"]["detail"].removeprefix("java.lang.")
        what = f"dies: `{died}`" if died else f"{run['materialise']['seconds']:.1f} s"
        lines.append(f"| {title} | {gib:g} GiB | {what} |")
    return lines


def block(raw: dict) -> str:
    """The tables of the reference."""
    parts = [
        table(raw, "overflow", "the cache is twice that"),
        table(raw, "fits", "it fits"),
        half(raw),
    ]
    return "\n\n".join("\n".join(part) for part in parts)


def row(raw: dict) -> str:
    """The README's row."""
    found = raw["overflow"]
    return (
        f"{ROW}, against the best of six stock engines, each with one configuration | {found['geomean']:.1f} × | "
        f"{whole_ratio(raw, 'overflow'):.2f} × | [spark-sql]({RUN}/README.md) |"
    )


def pages(raw: dict) -> dict[Path, str]:
    """The pages as they should be."""
    reference, readme = ROOT / "docs" / "reference" / "benchmarks.md", ROOT / "README.md"
    marked = re.compile(re.escape(BEGIN) + ".*?" + re.escape(END), re.DOTALL)
    rows = re.compile("^" + re.escape(ROW) + ".*$", re.MULTILINE)
    return {
        reference: replaced(marked, f"{BEGIN}\n{block(raw)}\n{END}", reference),
        readme: replaced(rows, row(raw), readme),
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
    stale = [page for page, text in wanted.items() if page.read_text() != text]
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
