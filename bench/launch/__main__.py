"""`make bench B=launch`: how long real programs take to start, cold, with `warmset run`, and warm.

Each program is recorded once. Then its variants are timed in interleaved rounds, the first of which is discarded. It
ends with `result: {json}`; a program that is not installed is named.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import cache
import chart
import programs
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe, read_ahead
from harness.progress import Progress
from harness.statistics import median_of, rounded

WARMSET = ROOT / "target" / "release" / "warmset"
# Variant, whether the page cache is emptied before.
VARIANTS = (("cold", True), ("run", True), ("vmtouch", True), ("warm", False), ("warm run", False))
README = """# launch

`make bench B=launch{quick}`, on the machine described in `raw.json`, which has all figures. Seconds, medians of
{rounds} interleaved rounds after one that is discarded. Before each cold run the page cache of the whole machine is
emptied (`drop_caches`); `left` is the part of the recorded files' bytes that cachestat(2) still found there: files that
running processes have mapped. The host's cache is not emptied: a cold read costs what the virtual disk gives.

- **cold**: the program alone. **run**: `warmset run`, its own time included, from a profile of one earlier run.
- **vmtouch**: whole files of the same profile are read by `vmtouch` in the background while the program starts.
- **warm**: everything in the page cache. **warm run**: the same with `warmset run`.

{tables}
`saved` is 1 − run / cold; `gap` is (cold − run) / (cold − warm). Not installed: {missing}.

![seconds per program](launch.svg)
"""


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make bench B=launch", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two programs, few rounds; for tests")
    parser.add_argument("--rounds", type=int, help="timed rounds (9; 2 with --quick)")
    parser.add_argument("--read-ahead", help="KiB, comma-separated; 0 is the machine's value (128,0; 0 with --quick)")
    parser.add_argument("--programs", help="names, comma-separated: " + ",".join(each.name for each in programs.ALL))
    options = parser.parse_args()
    options.rounds = options.rounds or (2 if options.quick else 9)
    wanted = options.read_ahead or ("0" if options.quick else "128,0")
    options.read_ahead = [int(each) or None for each in wanted.split(",")]
    names = options.programs.split(",") if options.programs else programs.QUICK if options.quick else None
    options.programs = [each for each in programs.ALL if names is None or each.name in names]
    return options


def timed(command: list[str], environment: dict[str, str]) -> float:
    """Seconds until the command has ended. Raises `RuntimeError` if it failed."""
    started = time.perf_counter()
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    seconds = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-500:]}")
    return seconds


@contextmanager
def scratch() -> Iterator[dict[str, str]]:
    """An environment whose profiles are in a directory of its own."""
    directory = tempfile.mkdtemp(prefix="warmset-launch-")
    try:
        yield {**os.environ, "XDG_DATA_HOME": directory, "PYTHONDONTWRITEBYTECODE": "1"}
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def learn(command: list[str], environment: dict[str, str]) -> dict:
    """Records the program, warm; what that cost, and its files."""
    plain = median_of([timed(command, environment) for _ in range(3)])
    learning = timed([str(WARMSET), "learn", "--", *command], environment)
    profiles = sorted(Path(environment["XDG_DATA_HOME"]).glob("warmset/profiles/*.json"), key=os.path.getmtime)
    profile = json.loads(profiles[-1].read_text())
    return {"plain_s": plain, "learn_s": learning, "files": [file["path"] for file in profile["files"]]}


def variant(name: str, command: list[str], files: list[str]) -> list[str]:
    """What is started for one variant."""
    if name in ("run", "warm run"):
        return [str(WARMSET), "run", "--", *command]
    if name == "vmtouch":
        listed = Path(tempfile.gettempdir()) / "warmset-launch-files"
        listed.write_text("\n".join(files))
        script = 'vmtouch -tq -b "$0" </dev/null >/dev/null 2>&1 & exec "$@"'
        return ["sh", "-c", script, str(listed), *command]
    return command


def measure(command: list[str], rounds: int, environment: dict[str, str]) -> dict:
    """All variants of one program, round by round."""
    known = learn(command, environment)
    files = [Path(file) for file in known["files"]]
    seconds: dict[str, list[float]] = {name: [] for name, _ in VARIANTS}
    left = []
    for turn in range(rounds + 1):
        shift = turn % len(VARIANTS)
        for name, cold in VARIANTS[shift:] + VARIANTS[:shift]:
            if name == "vmtouch" and shutil.which("vmtouch") is None:
                continue
            if cold:
                cache.drop()
                left.append(cache.resident_fraction(files))
                cold_files_stay_cold(environment)
            else:
                timed(variant(name, command, known["files"]), environment)
            taken = timed(variant(name, command, known["files"]), environment)
            if turn > 0:
                seconds[name].append(taken)
    medians = {name: median_of(values) for name, values in seconds.items() if values}
    known["files"] = len(files)
    return {**known, "seconds": seconds, "median": medians, "left": median_of(left)}


def cold_files_stay_cold(environment: dict[str, str]) -> None:
    """Brings back what starting anything at all needs: the shell and its libraries, which belong to no variant."""
    subprocess.run(["sh", "-c", ":"], env=environment, check=True)


def figures(results: dict[str, dict[str, dict]]) -> dict:
    """The result's keys, from the results by read-ahead and program."""

    def saved(of: dict[str, dict]) -> list[float]:
        return [1 - each["median"]["run"] / each["median"]["cold"] for each in of.values()]

    def mean(values: list[float]) -> float | None:
        return rounded(sum(values) / len(values)) if values else None

    everything = [each["median"] for of in results.values() for each in of.values()]
    gaps = [(m["cold"] - m["run"]) / (m["cold"] - m["warm"]) for m in everything if m["cold"] > m["warm"]]
    with_vmtouch = [m["vmtouch"] / m["run"] for m in everything if "vmtouch" in m]
    slower = [m["run"] / m["cold"] - 1 for m in everything] + [m["warm run"] / m["warm"] - 1 for m in everything]
    named = {("default" if key == "default" else "128"): of for key, of in results.items()}
    return {
        "programs": len(next(iter(results.values()))),
        "saved_mean_128": mean(saved(named.get("128", {}))),
        "saved_mean_default": mean(saved(named.get("default", {}))),
        "gap_closed": mean(gaps),
        "worst": rounded(max(slower)),
        "warm_overhead_ms": rounded(1e3 * median_of([m["warm run"] - m["warm"] for m in everything])),
        "vs_vmtouch": mean(with_vmtouch),
        "learn_ratio": rounded(
            median_of([e["learn_s"] / e["plain_s"] for of in results.values() for e in of.values()])
        ),
    }


def table(key: str, of: dict[str, dict]) -> str:
    """One read-ahead's table."""
    lines = [f"Read-ahead: {key}.\n", "| program | cold | run | vmtouch | warm | warm run | saved | gap | left |"]
    lines.append("|---|---|---|---|---|---|---|---|---|")
    for name, each in of.items():
        m = each["median"]
        gap = (m["cold"] - m["run"]) / (m["cold"] - m["warm"])
        cells = [f"{m[v]:.3f}" if v in m else "–" for v, _ in VARIANTS]
        cells += [f"{1 - m['run'] / m['cold']:.0%}", f"{gap:.0%}", f"{each['left']:.0%}"]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measures, keeps the raw figures and prints the result."""
    options = parse()
    end_in_order()
    if os.geteuid() != 0:
        sys.exit("bench/launch: emptying the page cache needs root")
    commands = {each.name: each.found() for each in options.programs}
    missing = [name for name, command in commands.items() if command is None]
    commands = {name: command for name, command in commands.items() if command is not None}
    progress = Progress(len(commands) * len(options.read_ahead))
    for name in missing:
        progress.note(f"SKIPPED {name}: not installed")
    results: dict[str, dict[str, dict]] = {}
    for wanted in options.read_ahead:
        with scratch() as environment, read_ahead(ROOT, wanted) as kib:
            of = results.setdefault("default" if wanted is None else str(kib), {})
            for name, command in commands.items():
                progress.step(f"{name}, read-ahead {kib} KiB")
                of[name] = measure(command, options.rounds, environment)
    progress.finish()
    run = Run.create("launch", options.quick)
    chart.save(results, run.directory / "launch.svg")
    raw = json.dumps({"machine": describe(), "commands": commands, "missing": missing, "results": results})
    run.write("raw.json", re.sub(r"(\d\.\d{4})\d+", r"\1", raw) + "\n")
    tables = "\n".join(table(key, of) for key, of in results.items())
    quick = " QUICK=1" if options.quick else ""
    run.write("README.md", README.format(quick=quick, rounds=options.rounds, tables=tables, missing=missing or "none"))
    print(f"raw figures: {run.shown('raw.json')}", file=sys.stderr)
    print("result:", json.dumps({"launch": figures(results)}))


if __name__ == "__main__":
    main()
