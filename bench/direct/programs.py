"""Real programs on a directory: each is a command whose whole run is timed."""

from __future__ import annotations

import shutil
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

from harness.machine import ROOT

WHEELS = ("lmdb==3.0.0", "rocksdict==0.3.29")
KEYS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i<{count})"
# As SQLite's own speed test: inserts in one transaction and in many, selects by range and by key, updates, an index.
SPEED = f"""PRAGMA cache_size=-1000; PRAGMA mmap_size=0;
CREATE TABLE t(a INTEGER PRIMARY KEY, b INTEGER, c TEXT);
BEGIN; {KEYS.format(count=60000)} INSERT INTO t SELECT i, (i*7919)%100003, hex(zeroblob(40)) FROM n; COMMIT;
CREATE INDEX tb ON t(b);
{"".join(f"INSERT INTO t VALUES({100000 + i},{i},'one transaction each');" for i in range(300))}
{KEYS.format(count=100)} SELECT sum((SELECT count(*) FROM t WHERE b BETWEEN i*100 AND i*100+500)) FROM n;
UPDATE t SET b=b+1 WHERE a%3=0; DELETE FROM t WHERE a%5=0; SELECT count(*), sum(b) FROM t;
"""
READS = f"""PRAGMA cache_size=-500; PRAGMA mmap_size=0;
{KEYS.format(count=400000)} SELECT sum(length(c)) FROM n JOIN t ON t.a = 1 + (i*48271)%200000;
"""
LMDB = """import lmdb, random, sys, shutil
path = sys.argv[1] + "/lmdb"
shutil.rmtree(path, ignore_errors=True)
e = lmdb.open(path, map_size=1 << 28)
r = random.Random(1)
for _ in range(60):
    with e.begin(write=True) as t:
        for _ in range(500): t.put(b"%08d" % r.randrange(10**7), b"v" * 200)
with e.begin() as t: print(sum(len(v) for _, v in t.cursor()))
"""
ROCKS = """import random, sys, shutil
from rocksdict import Rdict
path = sys.argv[1] + "/rocks"
shutil.rmtree(path, ignore_errors=True)
d = Rdict(path)
r = random.Random(1)
keys = [r.randrange(10**7) for _ in range(40000)]
for k in keys: d[k] = b"v" * 200
d.flush()
print(sum(len(d[k]) for k in keys))
d.close()
"""


@dataclass(frozen=True)
class Program:
    """A shell script; `$D` is the directory, `$P` the Python with the wheels, `$T` a folder for scripts."""

    name: str
    script: str
    prepare: str = ":"


ALL = (
    Program("sqlite", 'rm -f "$D/s.db"*; sqlite3 "$D/s.db" < "$T/speed.sql"'),
    Program(
        "sqlite reads",
        'sqlite3 "$D/r.db" < "$T/reads.sql"',
        'rm -f "$D/r.db"; sqlite3 "$D/r.db" < "$T/table.sql"',
    ),
    Program("lmdb", '"$P" "$T/lmdb_test.py" "$D"'),
    Program("rocksdb", '"$P" "$T/rocks_test.py" "$D"'),
    Program(
        "git",
        'rm -rf "$D/g"; cp -r "$D/tree" "$D/g"; cd "$D/g"; git init -q .; git add .;'
        " git -c user.name=n -c user.email=e commit -qm m; git gc -q; git status -s; git log -p | wc -c",
        'rm -rf "$D/tree"; cp -r "$T/tree" "$D/tree"',
    ),
    Program(
        "tar",
        'cd "$D"; tar -cf a.tar trees; rm -rf x; mkdir x; tar -C x -xf a.tar; tar -df a.tar',
        # Large enough that starting the programs, which has a figure of its own, is a small part.
        'rm -rf "$D/trees"; mkdir "$D/trees"; for i in 1 2 3 4 5 6 7 8 9 10; do cp -r "$T/tree" "$D/trees/$i"; done',
    ),
    Program(
        "cc",
        'cd "$D/c"; TMPDIR="$D" cc -O1 -pthread -o fuzz *.c',
        'rm -rf "$D/c"; cp -r "$T/c" "$D/c"',
    ),
)


def prepare(room: Path) -> str:
    """Writes the scripts and their inputs; returns the Python that has the wheels."""
    folder = ROOT / "target" / "bench-direct" / "venv"
    python = folder / "bin" / "python"
    if not (folder / "done").exists():
        venv.create(folder, with_pip=True, clear=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *WHEELS], check=True, stdout=sys.stderr)
        (folder / "done").touch()
    (room / "speed.sql").write_text(SPEED)
    (room / "reads.sql").write_text(READS)
    table = "CREATE TABLE t(a INTEGER PRIMARY KEY, c TEXT);" + KEYS.format(count=200000)
    (room / "table.sql").write_text(table + " INSERT INTO t SELECT i, hex(zeroblob(60)) FROM n;")
    (room / "lmdb_test.py").write_text(LMDB)
    (room / "rocks_test.py").write_text(ROCKS)
    for part in ("crates", "docs", "bench/harness"):
        shutil.copytree(ROOT / part, room / "tree" / part, ignore=shutil.ignore_patterns("target", "__pycache__"))
    (room / "c").mkdir()
    for source in (ROOT / "bench" / "direct" / "fuzz").glob("*.[ch]"):
        shutil.copy(source, room / "c")
    return str(python)
