"""`make bench B=loading`: how long programs take to load something later, long after their start.

Each program waits for a second, as for its user, loads, and writes how long that took. The first recording finds the
burst, the second one chooses its trigger.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "launch"))

from harness.machine import ROOT
from measure import printed_seconds
from programs import SCRATCH, Program
from suite import Suite

PYTHON = str(ROOT / "target" / "launch-venv" / "bin" / "python")
WAIT_S = 1.2
README = """# loading

`make bench B=loading{quick}`, on the machine described in `raw.json`, which has all figures. Seconds, medians of
{rounds} interleaved rounds after one that is discarded. Each program starts, waits for 1.2 s as for its user, and
loads: a module, a package, the symbols of a large program. The seconds are those of the loading alone, written by the
program.

Method, variants and columns are those of [launch](../launch/README.md): files evicted one by one and checked with
cachestat(2), {warmed} MiB of memory warmed before each run. **run** fetches when the trigger fires that two recordings
have chosen; **launch-all** fetches everything at the program's start, which no user could lose against here, since the
set fits in memory and is always needed.

{tables}
Not installed: {missing}.

![seconds per program](loading.svg)
"""


def python(name: str, modules: str) -> Program:
    """A Python that imports modules later."""
    code = (
        f"import time; time.sleep({WAIT_S}); t = time.perf_counter()\n"
        f"import {modules}\nprint('loaded', time.perf_counter() - t)"
    )
    return Program(name, (PYTHON, "-c", code))


def r_package(name: str) -> Program:
    """An R session that loads a package later."""
    code = (
        f"Sys.sleep({WAIT_S}); t <- Sys.time(); suppressMessages(library({name}));"
        "cat('loaded', as.numeric(Sys.time() - t, units = 'secs'), '\\n')"
    )
    return Program(f"R {name}", ("Rscript", "-e", code))


def gdb(name: str, program: str) -> Program:
    """A debugger that reads a large program's symbols later."""
    before = f"python import time; time.sleep({WAIT_S}); t = time.perf_counter()"
    after = "python print('loaded', time.perf_counter() - t)"
    words = ("-nx", "--batch", "-ex", before, "-ex", f"file {program}", "-ex", "info line main", "-ex", after)
    return Program(name, ("gdb", *words))


ALL = (
    python("scipy", "scipy.stats"),
    python("scikit-learn", "sklearn.ensemble"),
    python("matplotlib", "matplotlib.pyplot"),
    r_package("ggplot2"),
    gdb("gdb symbols", str(SCRATCH / "symbols")),
)


def prepare() -> None:
    """Copies a program with symbols, whose file no build replaces."""
    SCRATCH.mkdir(exist_ok=True)
    shutil.copyfile(ROOT / "target" / "release" / "warmset", SCRATCH / "symbols")
    (SCRATCH / "symbols").chmod(0o755)


if __name__ == "__main__":
    Suite("loading", ALL, ("R ggplot2",), README, prepare=prepare, runs=2, figure=printed_seconds).main()
