"""The chart: per program, cold, with `warmset run`, and warm."""

from __future__ import annotations

from pathlib import Path

import matplotlib
from matplotlib import pyplot as plt

matplotlib.use("Agg")
matplotlib.rcParams["svg.fonttype"] = "none"

COLOURS = {"cold": "#9aa5b1", "run": "#d9480f", "warm": "#dee2e6"}


def save(results: dict[str, dict[str, dict]], path: Path) -> None:
    """Writes one panel for each read-ahead, as SVG."""
    count = max(len(results), 1)
    figure, panels = plt.subplots(1, count, figsize=(7 * count, 4.2), layout="constrained", squeeze=False)
    for axes, (key, of) in zip(panels[0], results.items(), strict=False):
        for offset, (name, colour) in zip((-0.27, 0, 0.27), COLOURS.items(), strict=True):
            heights = [each["median"][name] for each in of.values()]
            axes.bar([index + offset for index in range(len(of))], heights, 0.26, label=name, color=colour)
        axes.set_xticks(range(len(of)), list(of), rotation=40, ha="right")
        axes.set_ylabel("seconds (median)")
        axes.set_title(f"read-ahead {key}" + ("" if key == "default" else " KiB"), fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
        axes.legend(frameon=False)
    figure.savefig(path)
    plt.close(figure)
