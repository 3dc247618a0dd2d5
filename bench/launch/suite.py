"""Measures a list of programs, resumable, and writes tables, chart and result."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import chart
from harness import coldstart
from harness.coldstart import Timed
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe
from harness.progress import Progress
from harness.statistics import median_of, rounded
from measure import measure, recording
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
        parser.add_argument("--rounds", type=int, help="timed rounds (9; 2 with --quick)")
        parser.add_argument(
            "--read-ahead", help="KiB, comma-separated; 0 is the machine's value (128,0; 128 with --quick)"
        )
        parser.add_argument(
            "--programs", help="names, comma-separated: " + ",".join(each.name for each in self.programs)
        )
        parser.add_argument("--again", action="store_true", help="forget what was measured before")
        parser.add_argument("--warmset", default=str(ROOT / "target" / "release" / "warmset"), help="the command")
        parser.add_argument("--no-recording", action="store_true", help="do not measure what recording costs")
        parser.add_argument("--report", action="store_true", help="measure nothing: write what was measured before")
        options = parser.parse_args()
        options.rounds = options.rounds or (2 if options.quick else 9)
        wanted = options.read_ahead or ("128" if options.quick else "128,0")
        options.read_ahead = [int(each) or None for each in wanted.split(",")]
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
        progress = Progress(len(commands) * len(options.read_ahead))
        for name in missing:
            progress.note(f"SKIPPED {name}: not installed")
        results: dict[str, dict[str, dict]] = {}
        with ExitStack() as stack:
            environment = scratch(stack)
            for kib in options.read_ahead:
                key = "default" if kib is None else str(kib)
                of = results.setdefault(key, {})
                for name, command in commands.items():
                    progress.step(f"{name}, read-ahead {key}")
                    file = kept / f"{key}-{name}.json"
                    if not file.exists() and not options.report:
                        found = measure(
                            command, options.rounds, environment, options.warmset, ROOT, kib, self.runs, self.figure
                        )
                        file.write_text(json.dumps(found))
                    if file.exists():
                        of[name] = json.loads(file.read_text())
            recorded = {}
            for name, command in commands.items():
                file = kept / f"recording-{name}.json"
                if self.figure is whole and not file.exists() and not options.report and not options.no_recording:
                    file.write_text(json.dumps(recording(command, 3, environment, options.warmset)))
                if file.exists():
                    recorded[name] = json.loads(file.read_text())
        progress.finish()
        results = {key: of for key, of in results.items() if of}
        self.report(options, results, recorded, commands, missing)

    def report(
        self, options: argparse.Namespace, results: dict, recorded: dict, commands: dict, missing: list[str]
    ) -> None:
        """Writes raw figures, tables and chart, and prints the result."""
        run = Run.create(self.name, options.quick)
        chart.save(results, run.directory / f"{self.name}.svg")
        raw = {
            "machine": describe(),
            "commands": commands,
            "missing": missing,
            "results": results,
            "recording": recorded,
        }
        run.write("raw.json", json.dumps(raw) + "\n")
        tables = "\n".join([*(table(key, of) for key, of in results.items()), *recording_table(recorded)])
        quick = " QUICK=1" if options.quick else ""
        rounds = ", ".join(f"{key}: {min(each['rounds'] for each in of.values())}" for key, of in results.items())
        fields = {"quick": quick, "rounds": rounds, "tables": tables, "missing": ", ".join(missing) or "none"}
        run.write("README.md", self.readme.format(warmed=coldstart.WARMED_MIB, **fields))
        print(f"raw figures: {run.shown('raw.json')}", file=sys.stderr)
        print("result:", json.dumps({self.name: figures(results, recorded)}))


def scratch(stack: ExitStack) -> dict[str, str]:
    """An environment whose profiles are in a directory of its own."""
    directory = stack.enter_context(tempfile.TemporaryDirectory(prefix="warmset-bench-"))
    return {**os.environ, "XDG_DATA_HOME": directory, "PYTHONDONTWRITEBYTECODE": "1", "LC_ALL": "C.UTF-8"}


def mean(values: list[float]) -> float | None:
    """The arithmetic mean, rounded."""
    return rounded(sum(values) / len(values)) if values else None


def figures(results: dict[str, dict[str, dict]], recorded: dict[str, dict]) -> dict:
    """The result's keys, from the results by read-ahead and program."""

    def saved(of: dict[str, dict]) -> list[float]:
        return [1 - each["median"]["run"] / each["median"]["cold"] for each in of.values()]

    every = [each for of in results.values() for each in of.values()]
    medians = [each["median"] for each in every]
    gaps = [(m["cold"] - m["run"]) / (m["cold"] - m["warm"]) for m in medians if m["cold"] > m["warm"]]
    slower = [m["run"] / m["cold"] - 1 for m in medians] + [m["warm run"] / m["warm"] - 1 for m in medians]
    recorders = [each["median"] for each in recorded.values()]
    return {
        "programs": len(next(iter(results.values()), {})),
        "saved_mean_128": mean(saved(results.get("128", {}))),
        "saved_mean_default": mean(saved(results.get("default", {}))),
        "gap_closed": mean(gaps),
        "worst": rounded(max(slower)) if slower else None,
        "worst_cold": rounded(max(m["run"] / m["cold"] - 1 for m in medians)) if medians else None,
        "warm_overhead_ms": rounded(1e3 * median_of([m["warm run"] - m["warm"] for m in medians])),
        "unused_fraction": mean([each["unused"] for each in every]),
        "hdd_saved_mean": None,
        "vs_launch_all": mean([m["launch-all"] / m["run"] for m in medians if "launch-all" in m]),
        "vs_vmtouch": mean([m["vmtouch"] / m["run"] for m in medians if "vmtouch" in m]),
        "learn_root_ratio": rounded(median_of([each["root"] / each["plain"] for each in recorders])),
        "learn_user_ratio": rounded(median_of([each["user"] / each["plain"] for each in recorders])),
    }


def table(key: str, of: dict[str, dict]) -> str:
    """One read-ahead's table."""
    heads = ["program", *COLUMNS, "saved", "gap", "unused", "left", "late triggers"]
    lines = [f"Read-ahead: {key}{'' if key == 'default' else ' KiB'}.\n", "| " + " | ".join(heads) + " |"]
    lines.append("|---" * len(heads) + "|")
    for name, each in of.items():
        m = each["median"]
        gap = (m["cold"] - m["run"]) / (m["cold"] - m["warm"])
        cells = [f"{m[v]:.3f}" if v in m else "–" for v in COLUMNS]
        cells += [f"{1 - m['run'] / m['cold']:.0%}", f"{gap:.0%}", f"{each['unused']:.0%}", f"{each['left']:.0%}"]
        cells.append(", ".join(each["triggers"][1:]) or "–")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def recording_table(recorded: dict[str, dict]) -> list[str]:
    """What recording costs, for each program."""
    if not recorded:
        return []
    names = ("plain", "root", "root whole", "user", "user whole")
    lines = ["Recording a warm run, seconds: the program alone, under each recorder, and the whole `learn`.\n"]
    lines += ["| program | " + " | ".join(names) + " | root / plain | user / plain |", "|---" * 8 + "|"]
    for name, each in recorded.items():
        m = each["median"]
        ratios = f"{m['root'] / m['plain']:.2f} | {m['user'] / m['plain']:.2f}"
        lines.append(f"| {name} | " + " | ".join(f"{m[key]:.3f}" for key in names) + f" | {ratios} |")
    return ["\n".join(lines) + "\n"]
