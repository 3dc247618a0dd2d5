"""The parts of the benchmark one after the other, and the figures that they add up to."""

from __future__ import annotations

from collections.abc import Callable

import least
import limit
import regimes
from harness import learnable, settings
from harness.keeping import raw_figures
from harness.machine import commit, disk_speed
from harness.settings import Setting
from harness.statistics import rounded
from harness.training import Engines, Place
from harness.workloads import NAMES, TRAINERS, TUNED_AS, Size
from options import FURTHER, MAIN, Options
from tuning import Search

ENGINES = ("stock", "warmset")
# The job whose least memory is looked for.
LEAST_OF = "lgr"
# Whose passes differ more from process to process than within one: new processes play each round of `main`.
APART = ("kmeans",)


class Measuring:
    """What has been measured so far, in `raw`; `save` is called whenever there is something new to keep."""

    def __init__(self, options: Options, place: Place, raw: dict, save: Callable[[], None] = lambda: None) -> None:
        self.options = options
        self.place = place
        self.raw = raw
        self.save = save
        for part in ("settings", "tuning", "regimes", "memory"):
            raw.setdefault(part, {})
        self.chosen: dict[str, dict[str, Setting]] = {}
        found = [raw_figures(file)["settings"] for file in options.settings_from]
        for settings_raw in (*found, raw["settings"]):
            for name, chosen in settings_raw.items():
                self.chosen[name] = {engine: settings.from_raw(each) for engine, each in chosen.items()}

    def play(self) -> None:
        """Runs the parts, but for what is in `raw` already."""
        options = self.options
        if "search" in options.parts:
            for name in options.workloads:
                for engine in ENGINES:
                    self.setting(name, engine)
        if "main" in options.parts:
            self.regime("main", self.size(options.rows), options.total_bytes, options.rounds)
        if "fits" in options.parts:
            # Half the rows, so that both engines may be alive: this ratio is small, and the machine's speed changes.
            self.regime("fits", self.size(options.rows // 2), options.fits_bytes, options.rounds)
        if {"main", "fits"} <= self.raw["regimes"].keys():
            main, fits = (self.raw["regimes"][name] for name in ("main", "fits"))
            factor = main["rows"] / fits["rows"]
            self.raw["limit"] = limit.distances(main["workloads"], fits["workloads"], factor)
            self.save()
        if "memory" in options.parts:
            size = self.size(options.rows).shorter(options.least_iterations)
            for engine in ENGINES:
                if engine not in self.raw["memory"]:
                    most = self.setting(LEAST_OF, engine)
                    self.raw["memory"][engine] = least.find(engine, LEAST_OF, size, most, self.place)
                    self.save()
        if "regimes" in options.parts:
            for factor in FURTHER:
                # More data, not less memory: a JVM needs the same besides, however large the data is.
                data_bytes = max(options.data_bytes, factor * options.total_bytes)
                rows = options.rows * max(1, round(data_bytes / options.data_bytes))
                total_bytes = int(options.total_bytes * MAIN / factor * rows / options.rows)
                # As many rows read as elsewhere.
                size = self.size(rows).shorter(max(2, options.iterations * options.rows // rows))
                self.regime(f"{factor:g}x", size, total_bytes, 1, TRAINERS)

    def size(self, rows: int) -> Size:
        """The data of so many rows, generated if it is not there; files stay as large."""
        files = max(1, self.options.files * rows // self.options.rows)
        self.place.progress.step(f"generating {rows} rows of numbers (kept in data/)")
        return Size(learnable.table(rows, files, self.options.single), rows, files, self.options.iterations)

    def regime(
        self, name: str, size: Size, total_bytes: int, rounds: int, among: tuple[str, ...] | None = None
    ) -> None:
        """One regime, workload by workload."""
        raw = self.raw["regimes"].setdefault(
            name, {"total_bytes": total_bytes, "rows": size.rows, "partitions": size.partitions, "workloads": {}}
        )
        with Engines(self.place, keep=self.options.quick) as engines:
            for each in self.options.workloads:
                if each in raw["workloads"] or (among is not None and each not in among):
                    continue
                chosen = [self.setting(each, engine) for engine in ENGINES]
                in_fits = name == "fits"
                if in_fits:
                    stock = chosen[0].for_fits(total_bytes)
                    fitted = [stock, stock.with_plugin()]
                else:
                    fitted = [setting.within(total_bytes) for setting in chosen]
                speeds = [disk_speed(self.place.scratch)["read_bytes_per_s"]]
                apart = in_fits or (name == "main" and each in APART)
                sittings = self.options.sittings if apart else 1
                duel = regimes.play(each, size, fitted, rounds if sittings == 1 else 1, sittings, engines, name)
                speeds.append(disk_speed(self.place.scratch)["read_bytes_per_s"])
                raw["workloads"][each] = {**duel.raw(), "disk_bytes_per_s": speeds, "commit": commit()}
                if duel.equal is False:
                    self.place.progress.note(f"{name}: {each}: THE ENGINES' RESULTS DIFFER")
                self.save()

    def setting(self, name: str, engine: str) -> Setting:
        """The engine's best setting for that workload in `main`; looked for the first time that it is wanted."""
        name = TUNED_AS.get(name, name)
        chosen = self.chosen.setdefault(name, {})
        if engine not in chosen:
            trials = self.raw["tuning"].setdefault(name, {}).setdefault(engine, [])
            size = self.size(self.options.rows)
            search = Search(name, size, self.place, self.options.candidates, trials, self.save)
            chosen[engine] = search.best(engine, self.options.total_bytes)
        self.raw["settings"].setdefault(name, {})[engine] = chosen[engine].raw()
        return chosen[engine]

    def workloads(self, regime: str) -> dict[str, dict]:
        """What was measured in that regime."""
        return self.raw["regimes"].get(regime, {}).get("workloads", {})

    @property
    def sound(self) -> bool:
        """Whether Warmset finished everything, kept it in its regions, and no results differ."""
        finished = self.raw["memory"].get("warmset", {}).get("bytes", True)
        played = (found["sound"] for regime in self.raw["regimes"] for found in self.workloads(regime).values())
        return bool(finished) and all(played)

    def figures(self) -> dict:
        """The result line; `whole_` is of the whole fit, without it of a pass."""
        main, fits = self.workloads("main"), self.workloads("fits")
        figures: dict = {name: main[name]["ratio"] if name in main else None for name in NAMES}
        figures |= {f"whole_{name}": main[name]["fit_ratio"] if name in main else None for name in NAMES}
        figures["objects_gc_ratio"] = collection_ratio(main["objects"]["passes"]) if "objects" in main else None
        figures["limit_ratio"] = rounded(limit.mean_ratio(self.raw["limit"])) if self.raw.get("limit") else None
        stock, ours = (self.raw["memory"].get(engine, {}).get("bytes") for engine in ENGINES)
        figures["min_memory_ratio"] = rounded(ours / stock) if stock and ours else None
        # A workload that has no ratio, or did not fit, must not be left out of the worst.
        ratios = [found["ratio"] for found in fits.values() if found["all_fits"]]
        whole = ratios and len(ratios) == len(fits) and None not in ratios
        figures["fits_worst"] = min(ratios) if whole else None
        equal = [found["results_equal"] for regime in self.raw["regimes"] for found in self.workloads(regime).values()]
        figures["answers_equal"] = False if False in equal else True if equal and None not in equal else None
        tuning = self.raw["tuning"].values()
        figures["tuned_trials"] = sum(len(trials) for engines in tuning for trials in engines.values())
        return figures


def collection_ratio(passes: dict[str, dict | None]) -> float | None:
    """Warmset's time in collection over stock's, filling included; null if stock had none."""
    stock, ours = ((passes[engine] or {}).get("fit_collection_s") for engine in ENGINES)
    return rounded(ours / stock) if stock and ours is not None else None
