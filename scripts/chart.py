#!/usr/bin/env python3
"""Draws the README's chart from the kept run that its caption names: seconds of five queries over a cached table.

usage: chart.py [FILE]; without a file it writes docs/reference/cached-scans.svg. Figures are those of raw.json.
"""

from __future__ import annotations

import json
import statistics
import sys
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RUN = ROOT / "bench" / "runs" / "2026-11-21-amd-epyc-2cpu-24g" / "spark-sql" / "raw.json"
CHART = ROOT / "docs" / "reference" / "cached-scans.svg"
ENGINES = {
    "warmset": ("Warmset", "#1b7f5c"),
    "parquet": ("Parquet, no cache: the best stock setting", "#8a94a6"),
    "stock": ("stock cache()", "#c8762b"),
}
QUERIES = {"q1": "TPC-H Q1", "q6": "TPC-H Q6", "filter": "filter", "group_by": "group by", "join": "join"}
WIDTH, LEFT, BAR, GAP, TOP = 760, 90, 13, 12, 74
LABEL_WIDTH = 60


def medians(raw: dict) -> dict[str, dict[str, float]]:
    """Median seconds by engine and query, of the run whose cache is twice the memory."""
    (batch,) = raw["overflow"]["batches"]
    played = {each["engine"]: each["timings"] for each in batch}
    return {
        engine: {query: statistics.median(run["seconds"] for run in played[engine][query]) for query in QUERIES}
        for engine in ENGINES
    }


def drawn(seconds: dict[str, dict[str, float]]) -> str:
    """The chart as SVG. Colours are legible on light and dark pages; texts take the page's colour where they can."""
    scale = (WIDTH - LEFT - LABEL_WIDTH) / max(max(each.values()) for each in seconds.values())
    group = BAR * len(ENGINES) + GAP
    height = TOP + group * len(QUERIES)
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
        'font-family="sans-serif" font-size="12">',
        "<style>text { fill: #24292f } @media (prefers-color-scheme: dark) { text { fill: #d0d7de } }</style>",
        '<text x="0" y="16" font-size="14">Seconds per query; the cached table is twice the memory (lower is better)'
        "</text>",
    ]
    x = 0
    for title, colour in ENGINES.values():
        lines += [f'<rect x="{x}" y="34" width="11" height="11" fill="{colour}"/>']
        lines += [f'<text x="{x + 16}" y="44">{escape(title)}</text>']
        x += 36 + 7 * len(title)
    for row, (query, name) in enumerate(QUERIES.items()):
        y = TOP + row * group
        lines += [f'<text x="0" y="{y + group / 2 - 1:.0f}">{escape(name)}</text>']
        for engine, (_, colour) in ENGINES.items():
            value = seconds[engine][query]
            lines += [
                f'<rect x="{LEFT}" y="{y}" width="{value * scale:.1f}" height="{BAR - 2}" fill="{colour}"/>',
                f'<text x="{LEFT + value * scale + 6:.1f}" y="{y + BAR - 3}" font-size="11">{value:.2f}</text>',
            ]
            y += BAR
    return "\n".join([*lines, "</svg>", ""])


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else CHART
    target.write_text(drawn(medians(json.loads(RUN.read_text()))))
