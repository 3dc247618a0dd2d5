"""The charts: for each record size, how much each file system or engine moves."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

LOOP = {
    "direct": "#d9480f",
    "direct huge": "#f08c4a",
    "bare": "#2b8a3e",
    "bare huge": "#8ce99a",
    "tmpfs": "#9aa5b1",
    "huge": "#66788a",
    "ramfs": "#ced4da",
    "ext4": "#e9ecef",
}
FIO = {
    "direct": "#d9480f",
    "mmap": "#2b8a3e",
    "tmpfs": "#9aa5b1",
    "huge": "#66788a",
    "ramfs": "#ced4da",
    "ext4": "#e9ecef",
}


def save(rows: list[tuple[str, dict[str, float]]], title: str, colours: dict[str, str], path: Path) -> None:
    """One group of bars for each row: its name, and GB/s by what has a colour."""
    figure, axes = plt.subplots(figsize=(11, 4.5), layout="constrained")
    colours = {name: colour for name, colour in colours.items() if any(name in row for _, row in rows)}
    width = 0.8 / len(colours)
    for place, (name, colour) in enumerate(colours.items()):
        heights = [row.get(name, 0) for _, row in rows]
        at = [index + (place - len(colours) / 2 + 0.5) * width for index in range(len(rows))]
        axes.bar(at, heights, width, label=name, color=colour)
    axes.set_xticks(range(len(rows)), [name for name, _ in rows], rotation=30, ha="right", fontsize=8)
    axes.set_ylabel("GB/s (median)")
    axes.set_title(title, fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    figure.legend(loc="outside lower center", frameon=False, ncols=8, fontsize=8)
    figure.savefig(path)
    plt.close(figure)
