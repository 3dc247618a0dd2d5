"""The README's commands do what it says, on a small table: what is run is read from README.md itself.

Only what belongs to the user is replaced: where the disk is, how much memory there is, where output goes.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from e2e import paths
from e2e.launch import Launch

VERSION = "4.2"
ROWS = 300_000
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Appended to the README's Python: what the cached view holds, and whether it holds it in regions.
CHECK = """
import json
count = spark.sql("select count(*), sum(l_orderkey) from lineitem").first()
stats = json.loads(spark._jvm.io.warmset.spark.Warmset.statsJson())
print("seen:", json.dumps([*count, stats["regions"] > 0]))
"""

pytestmark = pytest.mark.usefixtures("only_with_plugin")


def block(language: str, mark: str) -> str:
    """The README's one code block in this language that has `mark` in it."""
    text = (paths.REPOSITORY / "README.md").read_text()
    found = [code for kind, code in FENCE.findall(text) if kind == language and mark in code]
    assert len(found) == 1, f"README.md has {len(found)} {language} blocks with {mark!r}"
    return found[0]


def replaced(code: str, places: dict[str, str]) -> str:
    """The code with the user's own things in place of the README's; each must be there."""
    for theirs, ours in places.items():
        assert theirs in code, f"README.md no longer has {theirs!r}"
        code = code.replace(theirs, ours)
    return code


def commands(code: str) -> list[str]:
    """The lines of a shell block, those that end with a backslash joined with the next."""
    return code.replace("\\\n", " ").splitlines()


@pytest.fixture
def workdir(launch: Launch) -> Path:
    """Where a user stands: the jar, and a table named lineitem."""
    directory = launch.new_directory()
    (directory / "warmset-spark_2.13-0.1.0.jar").symlink_to(paths.plugin_jar())
    (directory / "lineitem").mkdir()
    keys = pa.array(range(ROWS), pa.int64())
    table = pa.table({"l_orderkey": keys, "l_extendedprice": keys.cast(pa.float64())})
    pq.write_table(table, directory / "lineitem" / "part-0.parquet")
    (directory / "disk").mkdir()
    return directory


def run(
    command: list[str], directory: Path, settings: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user would who has this PySpark."""
    environment = {
        **os.environ,
        "PATH": f"{paths.venv(VERSION) / 'bin'}:{os.environ['PATH']}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
        **(settings or {}),
    }
    for name in ("SPARK_HOME", "PYTHONPATH"):
        environment.pop(name, None)
    return subprocess.run(command, cwd=directory, env=environment, capture_output=True, text=True, timeout=300)


def test_python(workdir: Path) -> None:
    (workdir / "use.py").write_text(block("python", "WarmsetPlugin") + CHECK)
    done = run(["python", "use.py"], workdir)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"seen: {json.dumps([ROWS, ROWS * (ROWS - 1) // 2, True])}" in done.stdout


def test_sql(workdir: Path) -> None:
    """What was cached is seen in the event log: `spark-sql` itself has no other way to show it."""
    (workdir / "events").mkdir()
    (workdir / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file://{workdir}/events\n"
        "spark.warmset.stats.interval 100ms\n"
    )
    code = replaced(block("sh", "spark-sql"), {"/mnt/nvme": str(workdir / "disk"), "8g": "64m"})
    (command,) = commands(code)
    done = run(["bash", "-c", command], workdir, {"SPARK_CONF_DIR": str(workdir)})
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [str(ROWS)]
    (log,) = workdir.glob("events/*/events_*")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    reports = [json.loads(event["stats"]) for event in events if event["Event"].endswith("WarmsetReport")]
    assert reports[-1]["budget_bytes"] == 64 << 20
    assert reports[-1]["regions"] > 0


def test_looking_at_the_machine(workdir: Path) -> None:
    """In the root of the tree, where the README's reader stands; only the output goes elsewhere."""
    places = {"/mnt/nvme": f"{workdir}/disk", "man man/": f"man {workdir}/man/", "> warmset.bash": f"> {workdir}/bash"}
    filtered = []
    for command in commands(replaced(block("sh", "doctor"), places)):
        done = subprocess.run(["bash", "-c", command], cwd=paths.REPOSITORY, capture_output=True, text=True)
        # Exit code 1 of doctor says that this machine is not ideal, which is no failure.
        codes = (0, 1) if re.search(r"doctor\b[^|]*$", command) else (0,)
        assert done.returncode in codes, f"{command}: {done.stderr}"
        if "jq" in command:
            filtered.append(done.stdout)
    (found,) = filtered
    findings = json.loads("[" + re.sub(r"\n}\n(?=\{)", "\n},\n", found) + "]")
    assert all(finding["state"] != "ok" and finding["check"] for finding in findings)
    assert (workdir / "man" / "warmset-doctor.1").exists()
    assert "complete -F" in (workdir / "bash").read_text()


@pytest.mark.parametrize("command", commands(block("sh", "make demo")))
def test_make_knows_what_the_readme_makes(command: str) -> None:
    """`make` says what it would do; the steps themselves are what calls this test, and `.ci/run`."""
    words = command.split("#")[0].split()
    done = subprocess.run([*words, "--dry-run"], cwd=paths.REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
