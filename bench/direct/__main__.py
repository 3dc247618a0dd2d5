"""`make bench B=direct`: files that are read and written without system calls, against the kernel's own ways.

Parts: the loop, fio, programs, and the cost beside the path. Each figure is kept below target/bench-direct as soon as
it is measured, so that a run that was cut off goes on; `--again` measures again. It ends with `result: {json}`.
"""

from __future__ import annotations

import argparse
import json
import mmap
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import quantiles

import chart
import programs
from harness.ending import end_in_order
from harness.machine import ROOT, Run, describe
from harness.progress import Progress
from harness.statistics import median_of, rounded

WARMSET = ROOT / "target" / "release" / "warmset"
KEPT = ROOT / "target" / "bench-direct"
SIZES = {"512": 512, "4K": 4096, "64K": 65536, "512K": 524288, "16M": 16 << 20}
FILE_BYTES = 64 << 20
# How it is opened: where, and whether the library serves it. The bare copies call nothing: no call can be faster.
VARIANTS = {
    "direct": ("tmpfs", True),
    "direct huge": ("huge", True),
    "bare": ("tmpfs", False),
    "bare huge": ("huge", False),
    "tmpfs": ("tmpfs", False),
    "huge": ("huge", False),
    "ramfs": ("ramfs", False),
    "ext4": ("ext4", False),
}
RATIOS = (("direct", "tmpfs"), ("bare", "tmpfs"), ("direct huge", "huge"), ("bare huge", "huge"))
USES = {
    "1 job": ("1", "own"),
    "2 jobs": ("2", "own"),
    "2 jobs shared": ("2", "shared"),
    "1 job shared": ("1", "shared"),
}
FIO = ("read", "write", "randread", "randwrite")
# Other file systems are shown where programs spend most of their calls.
FIO_ELSEWHERE = ("huge", "ramfs", "ext4")
FIO_ELSEWHERE_ROWS = ("4K randread", "4K randwrite", "64K randread", "64K randwrite")
README = """# direct

`make bench B=direct{quick}`, on the machine described in `raw.json`, which has all figures.

Eight ways to the same bytes: **direct** is `warmset direct run` on a tmpfs of 4 KiB pages, **direct huge** on a tmpfs
mounted with `huge=always`; **tmpfs**, **huge** and **ramfs** are these without it, and **ext4** is the disk with all
pages cached. **bare** and **bare huge** are libc's memcpy from or to a mapping, in the same loop: what it would be if a
call cost nothing. Every figure is the median of {rounds} rounds in which all ways take turns, after one that is
discarded; ratios are of figures of the same round. Files have 64 MiB and all their pages; each job warms up first.
Before each part, memory is touched and freed: what a virtual machine frees its host takes back, and pages would be slow
to come.

## The loop (`loop.c`), GB/s
{loop}
Charts: {charts}

## fio, MB/s
psync on tmpfs through `warmset direct run`, fio's mmap engine on the same file, and psync on tmpfs without; some rows
have psync on other file systems, too.
{fio}
Charts: {fio_charts}

## Programs, seconds
On a tmpfs, with `warmset direct run` and without; the ratio is without / with, above 1 where it is faster. The start
of the program and of `warmset` is in it.
{programs}
## Beside the path
{beside}
"""


class Kept(dict[str, dict[str, list[float]]]):
    """Figures by name and way, in a file that has each as soon as it is measured."""

    def __init__(self, path: Path) -> None:
        super().__init__(json.loads(path.read_text()) if path.exists() else {})
        self._path = path

    def __setitem__(self, name: str, of: dict[str, list[float]]) -> None:
        super().__setitem__(name, {way: [float(f"{value:.5g}") for value in values] for way, values in of.items()})
        written = self._path.with_suffix(".new")
        written.write_text(json.dumps(self))
        written.rename(self._path)


def parse() -> argparse.Namespace:
    """The options."""
    parser = argparse.ArgumentParser(prog="make bench B=direct", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="few sizes and rounds; for tests")
    parser.add_argument("--again", action="store_true", help="measure parts again that were measured")
    parser.add_argument("--parts", default="loop,fio,programs,beside", help="of loop,fio,programs,beside")
    options = parser.parse_args()
    options.rounds = 2 if options.quick else 3
    options.seconds = 0.03 if options.quick else 0.08
    return options


def warm_memory(bytes_count: int = 1 << 30) -> None:
    """Touches memory and frees it at once, so that the next allocations find pages."""
    with mmap.mmap(-1, bytes_count) as memory:
        for at in range(0, bytes_count, 4096):
            memory[at] = 1


@contextmanager
def rooms() -> Iterator[dict[str, Path]]:
    """A directory on each kind of file system; all go when the context ends."""
    with ExitStack() as stack:
        base = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="warmset-direct-", dir="/tmp")))
        found = {"ext4": base / "ext4"}
        found["ext4"].mkdir()
        options = {"tmpfs": "size=2g,huge=never", "huge": "size=2g,huge=always", "ramfs": ""}
        for name, option in options.items():
            found[name] = base / name
            found[name].mkdir()
            kind = "ramfs" if name == "ramfs" else "tmpfs"
            mount = ["mount", "-t", kind, *(["-o", option] if option else []), "none", str(found[name])]
            subprocess.run(mount, check=True)
            stack.callback(subprocess.run, ["umount", str(found[name])], check=True)
        yield found


def output(command: list[str], where: Path | None, served: bool, **more: object) -> str:
    """What a command says, started by `warmset direct run` for one directory if `served`."""
    if served:
        command = [str(WARMSET), "direct", "run", "--dir", str(where), "--", *command]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, **more)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    return done.stdout


def in_turns(names: list[str], rounds: int, measure) -> dict[str, list[float]]:  # noqa: ANN001
    """Figures of each way, round by round; each round begins with another one, and the first is discarded."""
    found: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds + 1):
        shift = turn % len(names)
        for name in names[shift:] + names[:shift]:
            value = measure(name)
            if turn > 0:
                found[name].append(value)
    return found


def built_loop() -> str:
    """The driver, compiled."""
    KEPT.mkdir(parents=True, exist_ok=True)
    program = KEPT / "loop"
    subprocess.run(["cc", "-O2", "-o", program, Path(__file__).parent / "loop.c"], check=True)
    return str(program)


def measure_loop(options: argparse.Namespace, room: dict[str, Path], progress: Progress, found: Kept) -> None:
    """Operations per second of each way, for each size, direction, order and use."""
    loop = built_loop()
    sizes = ["4K", "512K"] if options.quick else list(SIZES)
    for size in sizes:
        for use, (jobs, which) in USES.items():
            progress.step(f"loop, {size}, {use}")
            for way in ("read", "write"):
                for order in ("random", "order"):
                    if which == "shared" and (order == "order" or (jobs == "1" and (size, way) != ("4K", "write"))):
                        continue
                    entry = f"{size} {way} {order}, {use}"
                    if entry in found:
                        continue

                    def one(name: str, way=way, order=order, size=size, jobs=jobs, which=which) -> float:  # noqa: ANN001
                        where, served = VARIANTS[name]
                        path = room[where]
                        bare = "map" if name.startswith("bare") else ""
                        command = [loop, bare + way, order, str(SIZES[size]), jobs, which]
                        command += [str(FILE_BYTES), str(options.seconds), str(path)]
                        return float(output(command, path, served))

                    found[entry] = in_turns(list(VARIANTS), options.rounds, one)


def measure_fio(options: argparse.Namespace, room: dict[str, Path], progress: Progress, found: Kept) -> None:
    """Bytes per second of fio's engines."""
    for size in ["4K"] if options.quick else SIZES:
        for way in ["randread"] if options.quick else FIO:
            if f"{size} {way}" in found:
                continue
            progress.step(f"fio, {size}, {way}")

            def one(name: str, way=way, size=size) -> float:  # noqa: ANN001
                engine = "mmap" if name == "mmap" else "psync"
                path = room[name if name in FIO_ELSEWHERE else "tmpfs"]
                command = ["fio", "--name=x", f"--filename={path}/fio", f"--size={FILE_BYTES}", f"--rw={way}"]
                command += [f"--bs={SIZES[size]}", f"--ioengine={engine}", "--time_based", "--runtime=400ms"]
                command += ["--ramp_time=100ms", "--output-format=json", "--thread", "--randrepeat=1", "--norandommap"]
                command += ["--invalidate=0", "--fallocate=none", "--gtod_reduce=1"]
                said = output(command, path, name == "direct")
                job = json.loads(said[said.index("{") :])["jobs"][0]
                return job["read" if "read" in way else "write"]["bw_bytes"]

            elsewhere = FIO_ELSEWHERE if f"{size} {way}" in FIO_ELSEWHERE_ROWS and not options.quick else ()
            found[f"{size} {way}"] = in_turns(["direct", "mmap", "tmpfs", *elsewhere], 3, one)


def timed(command: list[str], where: Path, served: bool, **more: object) -> float:
    """Seconds of a whole run."""
    started = time.perf_counter()
    output(command, where, served, **more)
    return time.perf_counter() - started


def measure_programs(options: argparse.Namespace, room: dict[str, Path], progress: Progress, found: Kept) -> None:
    """Seconds of programs, with and without."""
    path = room["tmpfs"]
    scripts = path.parent / "scripts"
    scripts.mkdir()
    python = programs.prepare(scripts)
    environment = {**os.environ, "D": str(path), "P": python, "T": str(scripts)}
    for program in programs.ALL[:2] if options.quick else programs.ALL:
        if program.name in found:
            continue
        progress.step(program.name)
        subprocess.run(["sh", "-ec", program.prepare], env=environment, check=True)

        def one(name: str, program=program) -> float:  # noqa: ANN001
            command = ["sh", "-ec", program.script]
            return timed(command, path, name == "direct", env=environment)

        found[program.name] = in_turns(["direct", "tmpfs"], 2 if options.quick else 9, one)


def measure_beside(options: argparse.Namespace, room: dict[str, Path], progress: Progress, found: Kept) -> None:
    """Calls on files outside the served directory, and starting a program."""
    loop = built_loop()
    outside, served = room["ext4"], room["tmpfs"]
    for way, size in (("read", "512"), ("write", "512"), ("read", "4K"), ("write", "4K"), ("open", "512")):
        if f"outside {way} {size}" in found:
            continue
        progress.step(f"outside, {way} {size}")

        def one(name: str, way=way, size=size) -> float:  # noqa: ANN001
            command = [loop, way, "random", str(SIZES[size]), "1", "own", str(FILE_BYTES), "0.05", str(outside)]
            return float(output(command, served, name == "direct"))

        # Many short pairs: what rounds differ by is more than what is looked for.
        found[f"outside {way} {size}"] = in_turns(["direct", "plain"], 4 if options.quick else 24, one)
    if "start" in found:
        return
    progress.step("start")
    library = WARMSET.with_name("libwarmset_direct.so")
    alone = {**os.environ, "LD_PRELOAD": str(library), "WARMSET_DIRECT_DIRS": str(served)}

    def start(name: str) -> float:
        return timed(["/bin/true"], served, name == "direct", **({"env": alone} if name == "library" else {}))

    found["start"] = in_turns(["direct", "library", "plain"], 20 if options.quick else 200, start)


PARTS = {"loop": measure_loop, "fio": measure_fio, "programs": measure_programs, "beside": measure_beside}


def ratio(of: dict[str, list[float]], over: str, under: str) -> float:
    """The median over the rounds."""
    return median_of([a / b for a, b in zip(of[over], of[under], strict=True)])


def figures(parts: dict[str, dict]) -> dict:
    """The result's keys."""
    loop, fio = parts.get("loop", {}), parts.get("fio", {})

    def least(over: str, under: str, *starts: str) -> float | None:
        found = [
            ratio(of, over, under) for name, of in loop.items() if name.startswith(starts) and "shared" not in name
        ]
        return rounded(min(found)) if found else None

    def scale(way: str) -> float | None:
        two, one = (loop.get(f"4K write random, {jobs} shared") for jobs in ("2 jobs", "1 job"))
        return rounded(median_of(two[way]) / median_of(one[way])) if two and one else None

    made = parts.get("programs", {})
    speed = {name: ratio(of, "tmpfs", "direct") for name, of in made.items()}
    beside = parts.get("beside", {})
    outside = [ratio(of, "plain", "direct") - 1 for name, of in beside.items() if name.startswith("outside")]
    start = beside.get("start")
    return {
        "read_4k": least("direct", "tmpfs", "4K read"),
        "write_4k": least("direct", "tmpfs", "4K write"),
        "read_mid_min": least("direct", "tmpfs", "64K read", "512K read"),
        "write_mid_min": least("direct", "tmpfs", "64K write", "512K write"),
        "large_min": least("direct", "tmpfs", "16M"),
        "bare_read_4k": least("bare", "tmpfs", "4K read"),
        "bare_write_4k": least("bare", "tmpfs", "4K write"),
        "bare_read_mid_min": least("bare", "tmpfs", "64K read", "512K read"),
        "vs_huge_min": least("direct huge", "huge", ""),
        "vs_huge_4k": least("direct huge", "huge", "4K"),
        "bare_vs_huge_4k": least("bare huge", "huge", "4K"),
        "vs_mmap_min": rounded(min((ratio(of, "direct", "mmap") for of in fio.values()), default=None))
        if fio
        else None,
        "shared_scale": scale("direct"),
        "shared_scale_tmpfs": scale("tmpfs"),
        "shared_scale_bare": scale("bare"),
        "outside_cost": rounded(max(outside)) if outside else None,
        "start_ms": rounded(1e3 * (median_of(start["direct"]) - median_of(start["plain"]))) if start else None,
        "programs_worst": rounded(min(speed.values())) if speed else None,
        "sqlite_read": rounded(speed["sqlite reads"]) if speed else None,
    }


def table(names: list[str], rows: dict[str, list[str]]) -> str:
    """In Markdown."""
    lines = ["| | " + " | ".join(names) + " |", "|---" * (len(names) + 1) + "|"]
    return "\n".join(lines + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()]) + "\n"


def write(run: Run, parts: dict[str, dict], options: argparse.Namespace) -> None:
    """Raw figures, charts and the page."""
    rows, charts, fio_charts = {}, [], []
    for size, size_bytes in SIZES.items():
        of = (
            {name: each for name, each in parts["loop"].items() if name.startswith(size + " ")}
            if "loop" in parts
            else {}
        )
        speeds = {n: {way: median_of(v) * size_bytes / 1e9 for way, v in each.items()} for n, each in of.items()}
        for name, each in speeds.items():
            over = [f"{ratio(of[name], *pair):.2f}" for pair in RATIOS]
            rows[name] = [f"{each[way]:.2f}" for way in VARIANTS] + over
        if speeds:
            short = [(name.removeprefix(size + " "), each) for name, each in speeds.items()]
            chart.save(short, f"records of {size}", chart.LOOP, run.directory / f"{size}.svg")
            charts.append(f"[{size}]({size}.svg)")
        engines = [
            (name.removeprefix(size + " "), {way: median_of(v) / 1e9 for way, v in of.items()})
            for name, of in parts.get("fio", {}).items()
            if name.startswith(size + " ")
        ]
        if engines:
            chart.save(engines, f"fio, records of {size}", chart.FIO, run.directory / f"fio-{size}.svg")
            fio_charts.append(f"[{size}](fio-{size}.svg)")
    loop = table([*VARIANTS, *(f"{over} / {under}" for over, under in RATIOS)], rows)
    fio = {
        name: [f"{median_of(of[way]) / 1e6:.0f}" if way in of else "" for way in chart.FIO]
        + [f"{ratio(of, 'direct', 'mmap'):.2f}", f"{ratio(of, 'direct', 'tmpfs'):.2f}"]
        for name, of in parts.get("fio", {}).items()
    }
    made = {
        name: [f"{median_of(of['direct']):.3f}", f"{median_of(of['tmpfs']):.3f}", f"{ratio(of, 'tmpfs', 'direct'):.3f}"]
        for name, of in parts.get("programs", {}).items()
    }
    beside, starts = {}, {}
    for name, of in parts.get("beside", {}).items():
        if name == "start":
            starts = {way: [f"{1e3 * each:.2f}" for each in quantiles(of[way], n=4)] for way in of}
        else:
            costs = [100 * (plain / direct - 1) for plain, direct in zip(of["plain"], of["direct"], strict=True)]
            beside[name] = [f"{median_of(of[way]):.5g}" for way in ("direct", "plain")]
            low, median, high = quantiles(costs, n=4)
            beside[name] += [f"{median:+.1f} %", f"{low:+.1f} to {high:+.1f} %"]
    run.write("raw.json", json.dumps({"machine": describe(), "parts": parts}, separators=(",", ":")) + "\n")
    run.write(
        "README.md",
        README.format(
            quick=" QUICK=1" if options.quick else "",
            rounds=options.rounds,
            loop=loop,
            charts=", ".join(charts),
            fio_charts=", ".join(fio_charts),
            fio=table([*chart.FIO, "direct / mmap", "direct / tmpfs"], fio),
            programs=table(["direct", "tmpfs", "tmpfs / direct"], made),
            beside="Calls per second outside the directory, and how much longer one takes, by pairs of runs.\n"
            + table(["with", "without", "longer (median)", "middle half of the pairs"], beside)
            + "\nMilliseconds to start and end `true`: by `warmset direct run`, with the library alone, and without.\n"
            + table(["lower quartile", "median", "upper quartile"], starts),
        ),
    )


def main() -> None:
    """Measures what is not measured yet, writes all and prints the result."""
    options = parse()
    end_in_order()
    if os.geteuid() != 0:
        sys.exit("bench/direct: mounting tmpfs and ramfs needs root")
    if shutil.which("fio") is None:
        sys.exit("bench/direct: fio is not installed")
    KEPT.mkdir(parents=True, exist_ok=True)
    kept = {name: KEPT / f"{name}{'-quick' if options.quick else ''}.json" for name in PARTS}
    progress = Progress(60)
    for name in options.parts.split(","):
        if options.again or options.quick:
            kept[name].unlink(missing_ok=True)
        with rooms() as room:
            warm_memory()
            PARTS[name](options, room, progress, Kept(kept[name]))
    progress.finish()
    parts = {name: json.loads(path.read_text()) for name, path in kept.items() if path.exists()}
    run = Run.create("direct", options.quick)
    write(run, parts, options)
    print(f"raw figures: {run.shown('raw.json')}", file=sys.stderr)
    print("result:", json.dumps({"direct": figures(parts)}))


if __name__ == "__main__":
    main()
