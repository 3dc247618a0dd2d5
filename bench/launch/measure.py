"""Times all variants of one program in interleaved rounds."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from harness import coldstart
from harness.coldstart import Timed
from harness.machine import read_ahead
from harness.statistics import median_of

# Variant, whether the files are evicted before.
COLD = ("cold", "run", "launch-all", "vmtouch")
WARM = ("warm", "warm run")
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


def learn(command: list[str], environment: dict[str, str], warmset: str, runs: int) -> dict:
    """Records the program and returns its profile. With two runs the second one chooses triggers."""
    coldstart.timed(command, environment)
    forget(environment)
    coldstart.timed([warmset, "learn", "--exact", "--", *command], environment)
    for _ in range(runs - 1):
        coldstart.timed([warmset, "learn", "--", *command], environment)
    return coldstart.profile_of(warmset, environment)


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
    rounds: int,
    environment: dict[str, str],
    warmset: str,
    disk: Path,
    kib: int | None,
    runs: int = 1,
    figure: Callable[[Timed], float] = lambda done: done.seconds,
) -> dict:
    """All variants of one program, round by round; the first round is discarded."""
    profile = learn(command, environment, warmset, runs)
    files = [each["path"] for each in profile["files"]]
    known: dict = {"unused": unused(command, environment, profile, disk)}
    known["bytes"] = sum(read["end"] - read["start"] for read in profile["reads"])
    known["files"] = len(files)
    known["triggers"] = [trigger_name(burst["trigger"]) for burst in profile["bursts"]]
    LISTED.write_text("\n".join(files))
    variants = [*COLD, *WARM]
    if all(name == "launch" for name in known["triggers"]):
        # It would be the very same command as `run`.
        variants.remove("launch-all")
    if shutil.which("vmtouch") is None:
        variants.remove("vmtouch")
    seconds: dict[str, list[float]] = {name: [] for name in variants}
    left = []
    with read_ahead(disk, kib):
        for turn in range(rounds + 1):
            shift = turn % len(variants)
            for name in variants[shift:] + variants[:shift]:
                if name in COLD:
                    coldstart.evict(files)
                    left.append(coldstart.resident_fraction(map(Path, files)))
                else:
                    coldstart.timed(command, environment)
                coldstart.warm_memory()
                # What starting anything at all needs belongs to no variant.
                subprocess.run(
                    ["sh", "-c", f"exec {warmset} --version"], env=environment, check=True, capture_output=True
                )
                taken = figure(coldstart.timed(started(name, command, warmset), environment))
                if turn > 0:
                    seconds[name].append(round(taken, 5))
    medians = {name: median_of(values) for name, values in seconds.items()}
    return {**known, "seconds": seconds, "median": medians, "left": median_of(left), "rounds": rounds}


def trigger_name(trigger: str | dict) -> str:
    """`launch`, `file` or `instruction`."""
    return trigger if isinstance(trigger, str) else next(iter(trigger))


def printed_seconds(done: Timed) -> float:
    """The seconds that a program wrote itself: `loaded 0.123`."""
    return float(re.findall(r"loaded ([0-9.]+)", done.output)[-1])
