"""The chart: steady seconds of each query, Warmset beside the best stock engine, Comet and DuckDB, a panel per size."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import work
from figures import SizeFigures

matplotlib.use("Agg")
from matplotlib import pyplot as plt

SERIES = (
    ("Warmset", "#1b7f5c"),
    ("best stock engine of the query", "#c8762b"),
    ("Comet over Parquet", "#5b78b0"),
    ("DuckDB over Parquet", "#a9b0bd"),
)
WIDTH = 0.2


def save(raw: dict, path: Path) -> None:
    """Writes the chart as SVG."""
    sizes = [name for name, _, _ in raw["kept"]["sizes"] if any(each["size"] == name for each in raw["jobs"])]
    figure, axes = plt.subplots(len(sizes), 1, figsize=(11, 3.2 * len(sizes)), layout="constrained", squeeze=False)
    for name, panel in zip(sizes, axes[:, 0], strict=True):
        found = SizeFigures.of(raw["jobs"], name)
        stock = [[found.seconds(engine, query) for engine in found.stock()] for query in work.NAMES]
        heights = (
            [found.seconds("warmset", query) for query in work.NAMES],
            [min(each, default=float("nan")) for each in stock],
            *([found.seconds(peer, query) for query in work.NAMES] for peer in ("comet", "duckdb")),
        )
        for index, ((label, colour), values) in enumerate(zip(SERIES, heights, strict=True)):
            panel.bar([place + WIDTH * index for place in range(len(values))], values, WIDTH, color=colour, label=label)
        panel.set_xticks([place + 1.5 * WIDTH for place in range(len(work.NAMES))], work.NAMES, fontsize=7)
        panel.set_ylabel("seconds")
        panel.set_title(name, fontsize=10)
        panel.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8)
    with matplotlib.rc_context({"svg.hashsalt": "spark-sql"}):
        figure.savefig(path, metadata={"Date": None})
    plt.close(figure)
