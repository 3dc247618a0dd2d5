"""The programs that are started, and whether this machine has them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

SCRATCH = Path("/var/tmp/warmset-launch")
POSTGRES = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))

CHROMIUM = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={SCRATCH}/chromium", "--dump-dom")


@dataclass(frozen=True)
class Program:
    """One command; its first word is looked up on the PATH."""

    name: str
    command: tuple[str, ...]
    needs: str | None = None

    def found(self) -> list[str] | None:
        """The command with the program's real path, or None where it is not installed."""
        path = shutil.which(self.command[0])
        if path is None or (self.needs is not None and shutil.which(self.needs) is None):
            return None
        return [path, *self.command[1:]]


def python(name: str, code: str) -> Program:
    """A script of the Python that runs the benchmark, which has pandas and pyarrow."""
    return Program(name, (sys.executable, "-c", code))


def real(name: str, pattern: str) -> str:
    """The program behind a proxy of rustup or pyenv, which would add a process of its own."""
    found = sorted(Path.home().glob(pattern))
    return str(found[-1]) if found else name


def prepare() -> None:
    """Makes the documents and the database that some programs open."""
    SCRATCH.mkdir(mode=0o755, exist_ok=True)
    (SCRATCH / "letter.txt").write_text("A letter.\n" * 50)
    (SCRATCH / "paper.tex").write_text("\\documentclass{article}\\begin{document}A paper.\\end{document}\n")
    (SCRATCH / "query.sql").write_text("select count(*) from pg_class;\n")
    database = SCRATCH / "postgres"
    if POSTGRES and not (database / "data" / "PG_VERSION").exists():
        database.mkdir(exist_ok=True)
        shutil.chown(database, "postgres")
        initdb = str(POSTGRES[-1].with_name("initdb"))
        command = ["runuser", "-u", "postgres", "--", initdb, "-D", str(database / "data")]
        subprocess.run(command, check=True, capture_output=True)
    chromium = shutil.which("chromium")
    if chromium is not None and not (SCRATCH / "chromium").exists():
        # Its first start of all makes the files of a new user.
        subprocess.run([chromium, *CHROMIUM, "about:blank"], check=True, capture_output=True)


OFFICE = (f"-env:UserInstallation=file://{SCRATCH}/office", "--convert-to", "pdf", "--outdir", str(SCRATCH))
QUERY = (
    f"runuser -u postgres -- {POSTGRES[-1] if POSTGRES else 'postgres'} --single "
    f"-D {SCRATCH}/postgres/data postgres < {SCRATCH}/query.sql"
)

ALL = (
    python("pandas", "import pandas, pyarrow"),
    Program("Rscript", ("Rscript", "-e", "1")),
    Program("octave", ("octave-cli", "--eval", "1;")),
    Program("chromium", ("chromium", *CHROMIUM, "about:blank")),
    Program("libreoffice", ("soffice", "--headless", *OFFICE, f"{SCRATCH}/letter.txt")),
    Program(
        "pdflatex",
        ("pdflatex", "-interaction=batchmode", f"-output-directory={SCRATCH}", f"{SCRATCH}/paper.tex"),
    ),
    Program("maven", ("mvn", "-v")),
    Program("npm", ("npm", "ls", "--global")),
    Program("postgres", ("sh", "-c", QUERY), needs=str(POSTGRES[-1]) if POSTGRES else "postgres"),
    Program("rustc", (real("rustc", ".rustup/toolchains/*/bin/rustc"), "-vV")),
    Program("gdb", ("gdb", "-nx", "--batch", "-ex", "show version")),
    Program("aws", (real("aws", ".pyenv/versions/*/bin/aws"), "--version")),
    Program("javac", ("javac", "-version")),
    Program("git", ("git", "--version")),
)
QUICK = ("rustc", "git")
