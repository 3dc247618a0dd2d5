"""The chart: per program, cold, with `warmset run`, and warm."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt

matplotlib.use("Agg")
matplotlib.rcParams["svg.fonttype"] = "none"

COLOURS = {"cold": "#9aa5b1", "run": "#d9480f", "warm": "#dee2e6"}


def save(results: dict[str, dict[str, dict]], titles: dict[str, str], path: Path, warm: dict[str, float]) -> None:
    """Writes one panel for each condition, as SVG; `warm` is the floor where a condition has none of its own."""
    count = max(len(results), 1)
    figure, panels = plt.subplots(count, 1, figsize=(9, 3.6 * count), layout="constrained", squeeze=False)
    for axes, (key, of) in zip(panels[:, 0], results.items(), strict=False):
        for offset, (name, colour) in zip((-0.27, 0, 0.27), COLOURS.items(), strict=True):
            floor = warm if name == "warm" else {}
            heights = [each["median"].get(name, floor.get(program, 0)) for program, each in of.items()]
            axes.bar([index + offset for index in range(len(of))], heights, 0.26, label=name, color=colour)
        axes.set_xticks(range(len(of)), list(of), rotation=30, ha="right")
        axes.set_ylabel("seconds (median)")
        axes.set_title(titles[key], fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
