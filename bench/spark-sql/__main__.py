"""`make bench B=spark-sql`: TPC-H over cached tables with Warmset, stock Spark tuned by search, DuckDB and Polars.

Parts: `search` (the best setting of each engine), `rounds` (whole jobs at each size), `limit` (the queries of `twice`
with all in memory), `sizes` (footprint, materialising, huge pages) and `half` (half the memory). Each job is written
down when it ends, and the same command goes on with what is missing. It ends with `result: {json}`; a figure whose
part was not run is null.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

import chart
import choices
import figures
import half
import job
import report
import search
import sizes
import work
from answers import Answers
from choices import Setting
from harness import groups
from harness.ending import end_in_order
from harness.keeping import Keeper, Unfinished
from harness.machine import ROOT, Run, commit, describe, disk_speed, probe_s
from harness.progress import Progress
from options import SEARCHED_AT, Options, Size, parse, together

# A stock engine that on no query of round 0 comes within this of the best is not played in further rounds.
HOPELESS = 1.5
# Passes of the job with all in memory: the least of all but the first is a bound.
LIMIT_PASSES = 4


class Bench:
    """One run, and what it has measured so far."""

    def __init__(self, options: Options, run: Run, scratch: Path, progress: Progress) -> None:
        self.options, self.run, self.scratch, self.progress = options, run, scratch, progress
        self.file = f"raw{options.suffix}.json"
        self.keeper = Keeper(run, self.file, options.minutes)
        answers = Answers(run.logs() / f"answers{options.suffix}{'-quick' if options.quick else ''}.json")
        self.raw = self.earlier()
        if self.raw is None:
            answers.forget()
            self.raw = {
                "machine": describe(), "options": plain(options), "kept": options.kept(),
                "trials": search.trials_from(options.settings_from), "jobs": [], "devices": {}, "result": None,
            }  # fmt: skip
        self.stage = job.Stage(options, run.logs(), scratch, answers)

    def earlier(self) -> dict | None:
        """What an earlier command of this day measured, if it asked for the same."""
        wanted = self.options.kept()

        def alike(raw: dict) -> bool:
            found = raw.get("kept") or {}
            sizes = {name: rest for name, *rest in found.get("sizes", [])}
            return all(found.get(name) == wanted[name] for name in ("quick", "form", "passes", "candidates")) and all(
                sizes.get(name, rest) == rest for name, *rest in wanted["sizes"]
            )

        raw = None if self.options.again else self.keeper.earlier(alike)
        # More rounds, engines or sizes are added to what there is.
        return raw and {**raw, "kept": together(raw["kept"], wanted), "options": plain(self.options)}

    def save(self) -> None:
        """Writes down what there is, and raises `Unfinished` if no time is left."""
        self.stage.answers.save()
        self.keeper.save(self.raw)

    def play(self, size: Size, engine: str, setting: Setting | None, passes: int, names: tuple[str, ...]) -> dict:
        """One job, with what tells it apart later."""
        probe = probe_s()
        played = job.play(self.stage, size, engine, setting, passes, names)
        return {**played, "commit": commit(), "probe_s": probe, "scale": size.scale, "limit_bytes": size.limit_bytes}

    def best(self, engine: str, size: Size) -> Setting:
        """The engine's best setting at this size: found out, or known from before."""

        def trial(setting: Setting, names: tuple[str, ...], passes: int) -> dict:
            self.progress.step(f"search, {size.name}: {engine}: {setting.title(size.limit_bytes)}")
            played = self.play(size, engine, setting, passes, names)
            self.progress.note(f"  {search.cost_s(played, self.options.passes):.1f} s; {played['died'] or 'finished'}")
            return played

        return search.best(engine, size, self.options, Saving(self.raw["trials"], self.save), trial)

    def contenders(self, size: Size, number: int) -> list[str]:
        """Warmset, the peers, and the stock engines: after round 0 those that may be the best on some query."""
        stock = list(self.options.engines)
        found = figures.SizeFigures.of([each for each in self.raw["jobs"] if each["round"] == 0], size.name)
        if number > 0 and found.stock():
            # An engine that was played before need not be asked for now.
            known = {*stock, *found.stock()}
            seconds = {engine: {query: found.seconds(engine, query) for query in work.NAMES} for engine in known}
            least = {query: min(seconds[engine][query] for engine in found.stock()) * HOPELESS for query in work.NAMES}
            near = [engine for engine in stock if any(seconds[engine][query] <= least[query] for query in work.NAMES)]
            stock = [engine for engine in stock if engine in ("stock", "parquet", *near)]
        return ["warmset", *stock, *self.options.peers]

    def rounds(self) -> list[tuple[str, str, int]]:
        """Plays the whole jobs; answers with what had to be played: size, engine, round."""
        expected = []
        for number in range(self.options.rounds):
            for size in self.options.sizes:
                engines = self.contenders(size, number)
                turn = number % len(engines)
                for engine in [*engines[turn:], *engines[:turn]]:
                    expected.append((size.name, engine, number))
                    self.one_job(size, engine, number)
        return expected

    def one_job(self, size: Size, engine: str, number: int) -> None:
        """Plays a whole job that was not played yet, with the device measured before and after Warmset's."""
        if any(
            (each["size"], each["engine"], each["round"]) == (size.name, engine, number) for each in self.raw["jobs"]
        ):
            return
        setting = None if engine in self.options.peers else self.best(engine, searched(size))
        self.progress.step(f"round {number}, {size.name}: {choices.TITLES[engine]}")
        speeds = self.raw["devices"].setdefault(f"{size.name}/{number}", [])
        if engine == "warmset":
            speeds.append(disk_speed(self.scratch)["read_bytes_per_s"])
        played = self.play(size, engine, setting, self.options.passes, work.NAMES)
        if engine == "warmset":
            speeds.append(disk_speed(self.scratch)["read_bytes_per_s"])
        whole = job.whole_s(played)
        self.progress.note(f"  {whole and round(whole, 1)} s; {played['died'] or ''}")
        if played["died"] and number == 0 and setting is not None:
            self.raw["trials"].append({"rung": search.WHOLE, **played, "size": searched(size).name})
            if self.best(engine, searched(size)) != setting:
                self.save()
                return self.one_job(size, engine, number)
        self.raw["jobs"].append({"round": number, **played})
        self.save()
        return None

    def limit(self) -> list[str]:
        """Plays the queries of `twice` with all in memory, in the same heap; answers with what is impossible or wrong.

        A run without `twice` has no limit.
        """
        raw, twice = self.raw, figures.SizeFigures.of(self.raw["jobs"], "twice")
        if not twice.whole("warmset"):
            return []
        if "resident" not in raw:
            played = twice.jobs["warmset"][0]
            setting = Setting(**played["setting"]).moved(played["limit_bytes"], self.options.fits_bytes)
            size = Size("resident", played["scale"], self.options.fits_bytes)
            self.progress.step("the queries of `twice` with all in memory")
            raw["resident"] = [{"round": 0, **self.play(size, "warmset", setting, LIMIT_PASSES, work.NAMES)}]
            self.save()
        speeds = [speed for key, found in raw["devices"].items() if key.startswith("twice/") for speed in found]
        raw["limit"] = figures.limits(twice, figures.SizeFigures.of(raw["resident"], "resident"), speeds)
        return [
            *figures.missing(raw["resident"], []),
            *(f"other rows than the first engine's: {each}" for each in figures.unequal(raw["resident"])),
            *(f"{query}: {each['ratio']:.2f} of the least time that it can take: what was measured is wrong"
              for query, each in raw["limit"].items() if each["ratio"] < figures.BELOW_BOUND),
        ]  # fmt: skip


def plain(options: Options) -> dict:
    """The options as JSON has them."""
    return {**asdict(options), "settings_from": str(options.settings_from or "")}


class Saving(list):
    """The list of trials that the search fills: it is the run's own."""

    def __init__(self, trials: list[dict], save) -> None:  # noqa: ANN001
        super().__init__(trials)
        self.trials, self.save = trials, save

    def append(self, trial: dict) -> None:
        """Keeps the trial and writes it down."""
        super().append(trial)
        self.trials.append(trial)
        self.save()


def searched(size: Size) -> Size:
    """The size whose search gives this size's settings."""
    return replace(size, name=SEARCHED_AT[size.name], scale=size.scale / 2) if size.name in SEARCHED_AT else size


def main() -> int:
    """Runs the parts; exit code 1 if something is missing, wrong, or impossible."""
    end_in_order()
    options = parse()
    run = Run.create("spark-sql", options.quick)
    progress = Progress(total=1)
    if groups.find_place() is None:
        progress.note(groups.why_none())
        return 1
    with tempfile.TemporaryDirectory(prefix="warmset-bench-", dir=ROOT / "target") as directory:
        bench = Bench(options, run, Path(directory), progress)
        try:
            faults = measure(bench)
        except Unfinished:
            progress.finish()
            print("parts are left: run the same command again", file=sys.stderr)
            return 0
    progress.finish()
    raw = bench.raw
    raw["faults"] = faults
    raw["result"] = figures.result(raw)
    run.write(bench.file, raw)
    run.write(f"README{options.suffix}.md", report.readme(raw, bench.file))
    if raw["jobs"]:
        chart.save(raw, run.directory / f"chart{options.suffix}.svg")
    print(report.tables(raw))
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    print(f"raw figures: {run.shown(bench.file)}")
    print(f"result: {json.dumps(raw['result'])}")
    return 1 if faults else 0


def measure(bench: Bench) -> list[str]:
    """Runs the parts that were asked for; answers with what makes the run unsound."""
    options, raw = bench.options, bench.raw
    faults: list[str] = []
    bench.progress.total = search.trials(options) * (1 + len(options.engines)) * len(options.sizes)
    for size in options.sizes:
        bench.progress.step(f"TPC-H, scale {size.scale:g} (kept in data/)")
        work.tables(size.scale, options.form)
    if "search" in options.parts:
        for size in options.sizes:
            for engine in ("warmset", *options.engines):
                bench.best(engine, searched(size))
    if "rounds" in options.parts:
        faults += figures.missing(raw["jobs"], bench.rounds())
        faults += [f"other rows than the first engine's: {each}" for each in figures.unequal(raw["jobs"])]
        faults += [f"rows not in the order that was asked for: {each}" for each in figures.unordered(raw["jobs"])]
    if "limit" in options.parts:
        faults += bench.limit()
    if "sizes" in options.parts and "sizes" not in raw:
        raw["sizes"] = sizes.play(options, bench.run.logs(), bench.scratch, bench.progress)
        bench.save()
    if "half" in options.parts:
        if "half" not in raw:
            raw["half"] = half.play(options, bench.run.logs(), bench.scratch, bench.progress)
            bench.save()
        faults += [] if raw["half"]["ok"] else ["half the memory: not all was cached and answered rightly"]
    return faults


if __name__ == "__main__":
    sys.exit(main())
