"""The demo's chart: the median time of each query, side by side."""

from __future__ import annotations

import argparse
import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
import report
from harness import queries
from harness.contest import Player

matplotlib.use("Agg")
from matplotlib import pyplot as plt

COLOURS = {"stock": "#9aa5b1", "parquet": "#c9b458", "warmset": "#d9480f"}


def save(players: Sequence[Player], options: argparse.Namespace, path: Path) -> None:
    """Writes the chart as PNG. A query that an engine did not finish has no bar, and says why."""
    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    names = ["cache it", *[query.name for query in queries.ALL]]
    for number, (name, colour) in enumerate(COLOURS.items()):
        player = report.named(players)[name]
        values = [report.fill_s(player), *[player.median(query.name) for query in queries.ALL]]
        places = [index + 0.27 * (number - 1) for index in range(len(names))]
        heights = [0 if math.isnan(value) else value for value in values]
        label = report.TITLES[name].replace("`", "")
        bars = axes.bar(places, heights, 0.25, label=label, color=colour)
        axes.bar_label(bars, ["-" if math.isnan(value) else f"{value:.1f}" for value in values], fontsize=7)
        if player.died is not None:
            axes.plot([], [], " ", label=f"{label}: {player.died.reason} at `{player.died.step}`")
    axes.set_xticks(range(len(names)), names)
    axes.set_ylabel("seconds (median)")
    axes.set_title(f"TPC-H lineitem at scale {options.scale:g}, {options.memory} MiB of heap and pool", fontsize=10)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
