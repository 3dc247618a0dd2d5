"""Starts a database, waits, asks it for rows here and there in a table, and writes how long the answer took.

`first_query.py POSTGRES DATABASE SECONDS`; the server runs alone (`--single`) as the user postgres.
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROWS = 1_000_000
KEYS = 600
# Multiples of a prime modulo the number of rows: the same rows each time, all over the table.
SELECT = (
    "set enable_seqscan = off; set enable_bitmapscan = off; select count(*), sum(length(text)) from items "
    f"where id in (select (n * 7919::bigint * 104729) % {ROWS} from generate_series(1, {KEYS}) n);"
)
FILL = (
    "create table items (id bigint primary key, text text); "
    f"insert into items select n, repeat(md5(n::text), 4) from generate_series(0, {ROWS - 1}) n; "
    "vacuum analyze items; checkpoint;"
)


def server(program: str, database: Path) -> subprocess.Popen:
    """The database, which takes one command a line."""
    words = ["runuser", "-u", "postgres", "--", program, "--single", "-D", str(database), "postgres"]
    return subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


def fill(program: str, database: Path) -> None:
    """Makes the table."""
    process = server(program, database)
    process.communicate("".join(each.strip() + ";\n" for each in FILL.split(";") if each.strip()))
    if process.returncode != 0:
        raise RuntimeError(f"{program} has not made its table: it ended with {process.returncode}")


def main() -> None:
    """Asks and measures."""
    program, database, seconds = sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])
    process = server(program, database)
    time.sleep(seconds)
    started = time.perf_counter()
    for each in SELECT.split("; "):
        process.stdin.write(each.rstrip(";") + ";\n")
    process.stdin.flush()
    # The second column of the answer's only row.
    for line in process.stdout:
        if "sum = " in line:
            print("loaded", time.perf_counter() - started)
            break
    process.communicate()
    sys.exit(process.returncode)


if __name__ == "__main__":
    main()
