"""The chart: a pass over the cached data, split in computing, collection and reading, side by side."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt

ENGINES = {"stock": "stock", "warmset": "Warmset"}
PARTS = {
    "compute_s": ("compute", "#4c6a85"),
    "collection_s": ("collection", "#d9480f"),
    "reading_s": ("reading", "#c9b458"),
}


def save(found: dict[str, dict], path: Path) -> None:
    """Writes one panel per regime as PNG. An engine that finished no fit has no bar, and says why."""
    figure, axes = plt.subplots(len(found), 1, figsize=(9, 3.6 * len(found)), layout="constrained", squeeze=False)
    for (name, regime), panel in zip(found.items(), axes[:, 0], strict=True):
        draw(panel, regime["workloads"])
        total = f"{regime['total_bytes'] >> 20} MiB of memory"
        panel.set_title(f"{name}: {regime['rows']} rows of 50 doubles, {total}", fontsize=10)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw(panel: plt.Axes, workloads: dict[str, dict]) -> None:
    """Two bars per workload."""
    places, labels = [], []
    bars = [(index, raw, engine) for index, raw in enumerate(workloads.values()) for engine in ENGINES]
    for index, raw, engine in bars:
        place = 2.6 * index + list(ENGINES).index(engine)
        passed = raw["passes"].get(engine)
        places.append(place)
        labels.append(ENGINES[engine])
        bottom = 0.0
        for part, (label, colour) in PARTS.items():
            height = passed[part] if passed else 0.0
            panel.bar(place, height, 0.9, bottom, color=colour, label=label if place == 0 else None)
            bottom += height
        died = raw["engines"][engine]["died"]
        panel.annotate(
            f"{bottom:.2f}" if passed else (died or {}).get("reason", "-"), (place, bottom), ha="center", va="bottom",
            fontsize=8,
        )  # fmt: skip
    panel.set_xticks(places, labels, fontsize=7)
    for index, raw in enumerate(workloads.values()):
        panel.annotate(
            raw["title"], (2.6 * index + 0.5, 0), (0, -26), xycoords=("data", "axes fraction"),
            textcoords="offset points", ha="center", fontsize=9,
        )  # fmt: skip
    panel.set_ylabel("seconds per pass (median)")
    panel.spines[["top", "right"]].set_visible(False)
    panel.margins(y=0.12)
