"""The charts: for each record size, how much each file system moves."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {
    "direct": "#d9480f",
    "direct huge": "#f08c4a",
    "tmpfs": "#9aa5b1",
    "huge": "#66788a",
    "ramfs": "#ced4da",
    "ext4": "#e9ecef",
}


def save(rows: list[tuple[str, dict[str, float]]], title: str, path: Path) -> None:
    """One group of bars for each row: its name, and GB/s by file system."""
    figure, axes = plt.subplots(figsize=(9, 4), layout="constrained")
    width = 0.8 / len(COLOURS)
    for place, (name, colour) in enumerate(COLOURS.items()):
        heights = [row.get(name, 0) for _, row in rows]
        at = [index + (place - len(COLOURS) / 2 + 0.5) * width for index in range(len(rows))]
        axes.bar(at, heights, width, label=name, color=colour)
    axes.set_xticks(range(len(rows)), [name for name, _ in rows], rotation=30, ha="right", fontsize=8)
    axes.set_ylabel("GB/s (median)")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, ncols=6, fontsize=8)
    figure.savefig(path)
    plt.close(figure)
