"""Measures a list of programs, resumable, and writes tables, chart and result."""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles

import chart
from harness import coldstart, throttle
from harness.coldstart import Timed
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe
from harness.progress import Progress
from harness.statistics import median_of, rounded
from measure import Condition, conditions, measure, recording
from programs import Program

COLUMNS = ("cold", "run", "launch-all", "vmtouch", "warm", "warm run")


def whole(done: Timed) -> float:
    """The seconds of the whole run."""
    return done.seconds


@dataclass(frozen=True)
class Suite:
    """One benchmark: its programs, and what of a run is its figure."""

    name: str
    programs: Sequence[Program]
    quick: Sequence[str]
    readme: str
    prepare: Callable[[], None]
    runs: int = 1
    figure: Callable[[Timed], float] = whole

    def parse(self) -> argparse.Namespace:
        """The options."""
        parser = argparse.ArgumentParser(prog=f"make bench B={self.name}")
        parser.add_argument("--quick", action="store_true", help="few programs and rounds; for tests")
        parser.add_argument(
            "--rounds", type=int, help="timed rounds on the disk as it is (6 and 4; 2 and 1 with --quick)"
        )
        parser.add_argument("--conditions", help="comma-separated: 128, default, hdd (128 and hdd with --quick)")
        parser.add_argument(
            "--minutes", type=float, help="stop after the program that ends past this; go on by the same command"
        )
        parser.add_argument(
            "--programs", help="names, comma-separated: " + ",".join(each.name for each in self.programs)
        )
        parser.add_argument("--again", action="store_true", help="forget what was measured before")
        parser.add_argument("--warmset", default=str(ROOT / "target" / "release" / "warmset"), help="the command")
        parser.add_argument("--no-recording", action="store_true", help="do not measure what recording costs")
        parser.add_argument("--report", action="store_true", help="measure nothing: write what was measured before")
        options = parser.parse_args()
        keys = options.conditions.split(",") if options.conditions else ["128", "hdd"] if options.quick else None
        all_conditions = conditions(options.quick, options.rounds)
        options.conditions = [each for each in all_conditions if keys is None or each.key in keys]
        names = options.programs.split(",") if options.programs else self.quick if options.quick else None
        options.programs = [each for each in self.programs if names is None or each.name in names]
        return options

    def main(self) -> None:
        """Measures, keeps the raw figures and prints the result."""
        options = self.parse()
        end_in_order()
        if os.geteuid() != 0:
            sys.exit(f"bench/{self.name}: recording and evicting need root")
        kept = ROOT / "target" / f"bench-{self.name}" / ("quick" if options.quick else "full")
        if options.again:
            shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir(parents=True, exist_ok=True)
        self.prepare()
        commands = {each.name: each.found() for each in options.programs}
        missing = [name for name, command in commands.items() if command is None]
        commands = {name: command for name, command in commands.items() if command is not None}
        progress = Progress(len(commands) * len(options.conditions))
        for name in missing:
            progress.note(f"SKIPPED {name}: not installed")
        failed: dict[str, str] = {}
        results: dict[str, dict[str, dict]] = {each.key: {} for each in options.conditions}
        recorded: dict[str, dict] = {}
        end = time.monotonic() + (options.minutes or math.inf) * 60
        unfinished = 0
        for name, command in commands.items():
            parts: list[tuple[str, dict[str, dict], Callable[[dict[str, str]], dict]]] = [
                (each.key, results[each.key], self.part(each, command, options.warmset)) for each in options.conditions
            ]
            if self.figure is whole and not options.no_recording:
                parts.append(
                    ("recording", recorded, lambda of, command=command: recording(command, 3, of, options.warmset))
                )
            for key, of, part in parts:
                file = kept / f"{key}-{name}.json"
                if not file.exists() and not options.report:
                    if time.monotonic() > end:
                        unfinished += 1
                        continue
                    progress.step(f"{name}, {key}")
                    try:
                        found = part(environment(kept, f"{name}-{key}" if key in ("hdd", "recording") else name))
                    except RuntimeError as error:
                        failed[f"{name}, {key}"] = str(error)
                        progress.note(f"FAILED {name}, {key}: {error}")
                        continue
                    file.write_text(json.dumps(found))
                if file.exists():
                    of[name] = json.loads(file.read_text())
        progress.finish()
        if unfinished:
            print(f"{unfinished} parts are left: run the same command again", file=sys.stderr)
            sys.exit(3)
        results = {key: of for key, of in results.items() if of}
        self.report(options, results, recorded, commands, missing, failed)

    def part(self, condition: Condition, command: list[str], warmset: str) -> Callable[[dict[str, str]], dict]:
        """Measures one program under one condition, in an environment."""
        return lambda of: measure(command, condition, of, warmset, ROOT, self.runs, self.figure)

    def report(
        self,
        options: argparse.Namespace,
        results: dict[str, dict[str, dict]],
        recorded: dict[str, dict],
        commands: dict,
        missing: list[str],
        failed: dict[str, str],
    ) -> None:
        """Writes raw figures, tables and chart, and prints the result."""
        run = Run.create(self.name, options.quick)
        titles = {each.key: each.title for each in options.conditions}
        warm = {name: each["median"]["warm"] for name, each in results.get("128", {}).items()}
        chart.save(results, titles, run.directory / f"{self.name}.svg", warm)
        raw = {
            "machine": describe(),
            "commands": commands,
            "missing": missing,
            "failed": failed,
            "results": results,
            "recording": recorded,
        }
        run.write("raw.json", json.dumps(raw) + "\n")
        tables = "\n".join([*(table(titles[key], of, warm) for key, of in results.items()), *recording_table(recorded)])
        rounds = "; ".join(
            f"{titles[key]}: {min(each['rounds'] for each in of.values())}" for key, of in results.items()
        )
        fields = {
            "quick": " QUICK=1" if options.quick else "",
            "rounds": rounds,
            "tables": tables,
            "missing": ", ".join(missing) or "none",
            "failed": "; ".join(f"{name}: {why}" for name, why in failed.items()) or "none",
            "iops": throttle.IOPS,
            "mib_per_s": throttle.BYTES_PER_S >> 20,
        }
        run.write("README.md", self.readme.format(warmed=coldstart.WARMED_MIB, **fields))
        print(f"raw figures: {run.shown('raw.json')}", file=sys.stderr)
        print("result:", json.dumps({self.name: figures(results, recorded)}))


def environment(kept: Path, name: str) -> dict[str, str]:
    """An environment whose profiles are in a directory of its own, which stays for a run that goes on."""
    directory = kept / "profiles" / name.replace(" ", "-")
    directory.mkdir(parents=True, exist_ok=True)
    return {**os.environ, "XDG_DATA_HOME": str(directory), "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}


def mean(values: list[float]) -> float | None:
    """The arithmetic mean, rounded."""
    return rounded(sum(values) / len(values)) if values else None


def figures(results: dict[str, dict[str, dict]], recorded: dict[str, dict]) -> dict:
    """The result's keys, from the results by read-ahead and program."""

    def saved(key: str) -> float | None:
        medians = [each["median"] for each in results.get(key, {}).values()]
        return mean([1 - m["run"] / m["cold"] for m in medians])

    def bounded(key: str) -> float | None:
        """The same, no program saving more than a warm start does: what goes beyond is noise."""
        medians = [each["median"] for each in results.get(key, {}).values()]
        return mean([1 - max(m["run"], m["warm"]) / m["cold"] for m in medians])

    first = [each["median"] for each in results.get("128", {}).values()]
    disk = [each for key in ("128", "default") for each in results.get(key, {}).values()]
    fast = [each["median"] for each in disk]
    every = [each for of in results.values() for each in of.values()]
    slower_cold = [each["median"]["run"] / each["median"]["cold"] - 1 for each in every]
    slower_warm = [m["warm run"] / m["warm"] - 1 for m in first]
    recorders = [each["median"] for each in recorded.values()]
    gaps = [gap(each, each["median"]["warm"]) for each in disk]
    return {
        "programs": len(results.get("128", {})),
        "saved_mean_128": saved("128"),
        "saved_mean_default": saved("default"),
        "saved_bounded_128": bounded("128"),
        "saved_bounded_default": bounded("default"),
        "gap_closed": mean([value for value in gaps if value is not None]),
        "gap_of_sums": rounded(
            sum(m["cold"] - m["run"] for m in fast) / (sum(m["cold"] - m["warm"] for m in fast) or math.nan)
        ),
        "saved_at_most_128": mean([1 - m["warm"] / m["cold"] for m in first]),
        "worst": rounded(max([*slower_cold, *slower_warm], default=math.nan)),
        "worst_cold": rounded(max(slower_cold, default=math.nan)),
        "worst_warm": rounded(max(slower_warm, default=math.nan)),
        "scatter_warm": rounded(
            median_of(
                [scatter(each["seconds"]["warm"]) / each["median"]["warm"] for each in results.get("128", {}).values()]
            )
        ),
        "warm_overhead_ms": rounded(1e3 * median_of([m["warm run"] - m["warm"] for m in first])),
        "unused_fraction": mean([each["unused"] for each in results.get("128", {}).values()]),
        "hdd_saved_mean": saved("hdd"),
        "vs_launch_all": mean([m["launch-all"] / m["run"] for m in first if "launch-all" in m]),
        "vs_vmtouch": mean([m["vmtouch"] / m["run"] for m in first if "vmtouch" in m]),
        "learn_root_ratio": rounded(median_of([each["root"] / each["plain"] for each in recorders])),
        "learn_user_ratio": rounded(median_of([each["user"] / each["plain"] for each in recorders])),
    }


def gap(each: dict, warm: float | None) -> float | None:
    """Which part of the gap between cold and warm is closed, at most all of it; `None` where that gap is within the
    scatter of the cold runs."""
    cold = each["median"]["cold"]
    if warm is None or len(each["seconds"]["cold"]) < 2 or cold - warm < scatter(each["seconds"]["cold"]):
        return None
    return min((cold - each["median"]["run"]) / (cold - warm), 1.0)


def scatter(values: list[float]) -> float:
    """The distance between the quartiles."""
    low, _, high = quantiles(values, n=4, method="inclusive")
    return high - low


def table(title: str, of: dict[str, dict], warm: dict[str, float]) -> str:
    """One condition's table; `warm` are the seconds of a warm start where the condition has none of its own."""
    heads = ["program", *COLUMNS, "saved", "at most", "gap", "MiB", "files", "unused", "left", "late triggers"]
    lines = [f"### {title[0].upper()}{title[1:]}\n", "| " + " | ".join(heads) + " |"]
    lines.append("|---" * len(heads) + "|")
    for name, each in of.items():
        m = each["median"]
        floor = m.get("warm", warm.get(name))
        closed = gap(each, floor)
        cells = [f"{m[v]:.4f}" if v in m else "–" for v in COLUMNS]
        cells += [f"{1 - m['run'] / m['cold']:.1%}", "–" if floor is None else f"{1 - floor / m['cold']:.1%}"]
        cells += ["–" if closed is None else f"{closed:.0%}", f"{each['bytes'] / 2**20:.1f}", str(each["files"])]
        cells += [f"{each['unused']:.0%}", f"{each['left']:.0%}", ", ".join(each["triggers"][1:]) or "–"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def recording_table(recorded: dict[str, dict]) -> list[str]:
    """What recording costs, for each program."""
    if not recorded:
        return []
    names = ("plain", "root", "root whole", "user", "user whole")
    lines = ["### Recording a warm run\n", "The program alone, under each recorder, and the whole `learn`.\n"]
    lines += ["| program | " + " | ".join(names) + " | root / plain | user / plain |", "|---" * 8 + "|"]
    for name, each in recorded.items():
        m = each["median"]
        ratios = f"{m['root'] / m['plain']:.2f} | {m['user'] / m['plain']:.2f}"
        lines.append(f"| {name} | " + " | ".join(f"{m[key]:.3f}" for key in names) + f" | {ratios} |")
    return ["\n".join(lines) + "\n"]
