"""The programs that are started, and whether this machine has them."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """One command; its first word is looked up on the PATH."""

    name: str
    command: tuple[str, ...]

    def found(self) -> list[str] | None:
        """The command with the program's real path, or None where it is not installed."""
        path = shutil.which(self.command[0])
        return None if path is None else [path, *self.command[1:]]


def python(name: str, code: str) -> Program:
    """A script of the Python that runs the benchmark, which has pandas and pyarrow."""
    return Program(name, (sys.executable, "-c", code))


def toolchain(name: str) -> str:
    """The real compiler behind rustup's proxy, which would add a process of its own."""
    path = shutil.which(name)
    if path is None:
        return name
    home = Path.home() / ".rustup" / "toolchains"
    real = sorted(home.glob(f"*/bin/{name}")) if home.is_dir() else []
    return str(real[-1]) if real else path


ALL = (
    python("pandas", "import pandas, pyarrow"),
    python("matplotlib", "import matplotlib.pyplot"),
    Program("rustc", (toolchain("rustc"), "-vV")),
    Program("cargo", (toolchain("cargo"), "--version")),
    Program("javac", ("javac", "-version")),
    Program("maven", ("mvn", "-v")),
    Program("node", ("node", "-e", "0")),
    Program("npm", ("npm", "--version")),
    Program("gdb", ("gdb", "-nx", "--batch", "-ex", "show version")),
    Program("aws", ("aws", "--version")),
    Program("perf", ("perf", "--version")),
    Program("git", ("git", "--version")),
    Program("psql", ("psql", "--version")),
    Program("octave", ("octave-cli", "--eval", "1;")),
    Program("Rscript", ("Rscript", "-e", "1")),
)
QUICK = ("rustc", "javac")
