"""Times all variants of one program in interleaved rounds."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from harness import coldstart
from harness.coldstart import Timed
from harness.machine import read_ahead
from harness.statistics import median_of
from harness.throttle import throttled

COLD = ("cold", "run", "launch-all", "vmtouch")


@dataclass(frozen=True)
class Condition:
    """How the disk is while a program is measured, and how often what is measured."""

    key: str
    title: str
    variants: tuple[str, ...]
    rounds: int
    # The first round is not counted, but on a throttled disk, whose seconds the host's cache cannot change.
    discarded: int = 1
    read_ahead_kib: int | None = None
    throttled: bool = False


def conditions(quick: bool, rounds: int | None) -> list[Condition]:
    """All of them."""
    all_variants = (*COLD, "warm", "warm run")
    return [
        Condition("128", "read-ahead 128 KiB", all_variants, rounds or (2 if quick else 6), read_ahead_kib=128),
        Condition("default", "the machine's read-ahead", ("cold", "run", "warm"), rounds or (1 if quick else 4)),
        Condition(
            "hdd",
            "the disk throttled to a hard disk's rates, read-ahead 128 KiB",
            ("cold", "run"),
            1 if quick else min(rounds or 3, 3),
            discarded=0,
            read_ahead_kib=128,
            throttled=True,
        ),
    ]


LISTED = Path("/var/tmp/warmset-launch/files")


def started(variant: str, command: list[str], warmset: str) -> list[str]:
    """What is started for one variant."""
    if variant in ("run", "warm run"):
        return [warmset, "run", "--", *command]
    if variant == "launch-all":
        return [warmset, "run", "--trigger", "launch", "--", *command]
    if variant == "vmtouch":
        return ["sh", "-c", 'vmtouch -tq -b "$0" </dev/null >/dev/null 2>&1 & exec "$@"', str(LISTED), *command]
    return command


def forget(environment: dict[str, str]) -> None:
    """Removes all profiles."""
    shutil.rmtree(Path(environment["XDG_DATA_HOME"]) / "warmset", ignore_errors=True)


def learned(
    command: list[str], environment: dict[str, str], warmset: str, runs: int, options: list[str], disk: Path
) -> dict:
    """Records the program unless its profile is there, and describes it. A second run chooses triggers."""
    description = Path(environment["XDG_DATA_HOME"]) / "profile.json"
    if description.exists():
        return json.loads(description.read_text())
    coldstart.timed(command, environment)
    forget(environment)
    coldstart.timed([warmset, "learn", "--exact", *options, "--", *command], environment)
    for _ in range(runs - 1):
        coldstart.timed([warmset, "learn", "--", *command], environment)
    profile = coldstart.profile_of(warmset, environment)
    found = {
        "paths": [each["path"] for each in profile["files"]],
        "unused": unused(command, environment, profile, disk),
        "bytes": sum(read["end"] - read["start"] for read in profile["reads"]),
        "ranges": len(profile["reads"]),
        "triggers": [trigger_name(burst["trigger"]) for burst in profile["bursts"]],
    }
    description.write_text(json.dumps(found))
    return found


def recording(command: list[str], rounds: int, environment: dict[str, str], warmset: str) -> dict:
    """What recording costs a warm program, by recorder: its own seconds, and those of the whole command."""
    seconds: dict[str, list[float]] = {"plain": [], "root": [], "user": [], "root whole": [], "user whole": []}
    for turn in range(rounds + 1):
        found = {"plain": coldstart.timed(command, environment).seconds}
        for name, options in (("root", []), ("user", ["--user"])):
            forget(environment)
            found[f"{name} whole"] = coldstart.timed([warmset, "learn", *options, "--", *command], environment).seconds
            found[name] = coldstart.profile_of(warmset, environment)["seconds"]
        if turn > 0:
            for name, value in found.items():
                seconds[name].append(round(value, 5))
    return {"seconds": seconds, "median": {name: median_of(values) for name, values in seconds.items()}}


def unused(command: list[str], environment: dict[str, str], profile: dict, disk: Path) -> float:
    """Which part of what is fetched a further run does not touch."""
    files = [each["path"] for each in profile["files"]]
    with read_ahead(disk, 0):
        return coldstart.unused_fraction(profile, coldstart.touched_pages(command, environment, files))


def measure(
    command: list[str],
    condition: Condition,
    environment: dict[str, str],
    warmset: str,
    disk: Path,
    runs: int = 1,
    figure: Callable[[Timed], float] = lambda done: done.seconds,
) -> dict:
    """The condition's variants of one program, round by round."""
    options = ["--disk-order"] if condition.throttled else []
    known = learned(command, environment, warmset, runs, options, disk)
    files = known.pop("paths")
    known["files"] = len(files)
    LISTED.write_text("\n".join(files))
    variants = list(condition.variants)
    if all(name == "launch" for name in known["triggers"]) and "launch-all" in variants:
        # It would be the very same command as `run`.
        variants.remove("launch-all")
    if shutil.which("vmtouch") is None and "vmtouch" in variants:
        variants.remove("vmtouch")
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    left = []
    with ExitStack() as stack:
        stack.enter_context(read_ahead(disk, condition.read_ahead_kib))
        group = stack.enter_context(throttled(disk)) if condition.throttled else None
        for turn in range(condition.discarded + condition.rounds):
            shift = turn % len(variants)
            for name in variants[shift:] + variants[:shift]:
                if name in COLD:
                    coldstart.evict(files)
                    left.append(coldstart.resident_fraction(map(Path, files)))
                # Otherwise the run before has left all that this one needs in the page cache.
                coldstart.warm_memory()
                # What starting anything at all needs belongs to no variant.
                subprocess.run(
                    ["sh", "-c", f"{warmset} --version; vmtouch -q {warmset}"],
                    env=environment,
                    check=False,
                    capture_output=True,
                )
                taken = figure(coldstart.timed(started(name, command, warmset), environment, group))
                if turn >= condition.discarded:
                    seconds[name].append(round(taken, 5))
    medians = {name: median_of(values) for name, values in seconds.items()}
    known["rounds"] = condition.rounds
    return {**known, "seconds": seconds, "median": medians, "left": median_of(left)}


def trigger_name(trigger: str | dict) -> str:
    """`launch`, `file` or `instruction`."""
    return trigger if isinstance(trigger, str) else next(iter(trigger))


def printed_seconds(done: Timed) -> float:
    """The seconds that a program wrote itself: `loaded 0.123`."""
    return float(re.findall(r"loaded ([0-9.]+)", done.output)[-1])
