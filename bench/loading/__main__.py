"""`make bench B=loading`: how long programs take to load something later, long after their start.

Each program waits for a second, as for its user, loads, and writes how long that took. The first recording finds the
burst, the second one chooses its trigger.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "launch"))

import first_query as first_query_table
import programs
from harness.machine import ROOT
from measure import printed_seconds
from programs import POSTGRES, SCRATCH, Program
from suite import Suite

PYTHON = str(ROOT / "target" / "launch-venv" / "bin" / "python")
WAIT_S = 1.2
QUERY = Path(__file__).with_name("first_query.py")
OPEN_LATER = Path(__file__).with_name("open_later.py")
DATABASE = SCRATCH / "postgres" / "data"
POSTGRES_PROGRAM = str(POSTGRES[-1]) if POSTGRES else "postgres"
README = """# loading

`make bench B=loading{quick}`, on the machine described in `raw.json`, which has all figures. Seconds, medians of
interleaved rounds: {rounds}.
The first round is discarded, but on the throttled disk. Each program starts, waits for
1.2 s as for its user, and loads: a module, a package, the symbols of a large program, the rows of a query. The seconds
are those of the loading alone, written by the program.

Method, variants and columns are those of [launch](../launch/README.md): files evicted one by one and checked with
cachestat(2), {warmed} MiB of memory warmed before each run, a disk throttled to {iops} requests and {mib_per_s} MiB a
second. **run** fetches when the trigger fires that two recordings have chosen, or before, after the start's own files,
where the trigger would fire too late to hide the fetching. **launch-all** fetches everything at the program's start.

Not installed: {missing}. Failed: {failed}. Not there: torch (its wheel from PyPI needs gigabytes of CUDA libraries).

{tables}
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


def first_query() -> Program:
    """A database that answers its first query later."""
    return Program(
        "postgres query", (PYTHON, str(QUERY), POSTGRES_PROGRAM, str(DATABASE), str(WAIT_S)), POSTGRES_PROGRAM
    )


def office() -> Program:
    """An office that opens a file when it is up and idle."""
    soffice = shutil.which("soffice") or "soffice"
    return Program("libreoffice open", (PYTHON, str(OPEN_LATER), soffice, str(SCRATCH), str(WAIT_S)), needs=soffice)


ALL = (
    python("scipy", "scipy.stats"),
    python("scikit-learn", "sklearn.ensemble"),
    python("matplotlib", "matplotlib.pyplot"),
    r_package("ggplot2"),
    gdb("gdb symbols", str(SCRATCH / "symbols")),
    first_query(),
    office(),
)


def prepare() -> None:
    """Makes the database's table, and copies a program with symbols, whose file no build replaces."""
    programs.prepare()
    if POSTGRES and not (DATABASE / "filled").exists():
        first_query_table.fill(POSTGRES_PROGRAM, DATABASE)
        (DATABASE / "filled").touch()
    if (SCRATCH / "symbols").exists():
        return
    shutil.copyfile(ROOT / "target" / "release" / "warmset", SCRATCH / "symbols")
    (SCRATCH / "symbols").chmod(0o755)


if __name__ == "__main__":
    Suite("loading", ALL, ("R ggplot2",), README, prepare=prepare, runs=2, figure=printed_seconds).main()
