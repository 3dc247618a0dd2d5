"""The commands of the README and two more pages do what they say, on a small table: they are read from the pages.

Only what belongs to the user is replaced (where the disk is, how much memory there is, where output goes, how large the
table is), and what the tests have already: what `make wheel` and `make jar` built, the packages that `pip` would fetch.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from e2e import pages, paths
from e2e.launch import Launch
from e2e.pages import replaced

VERSION = "4.2"
GUIDE = "docs/guide/spark.md"
# Appended to the README's Python: what the cached view holds, and whether it holds it in regions.
CHECK = """
import json
count = spark.sql("select count(*), sum(l_orderkey) from lineitem").first()
stats = json.loads(spark._jvm.io.warmset.spark.Warmset.statsJson())
print("seen:", json.dumps([*count, stats["regions"] > 0]))
"""
# The trainer's result again, and that the settings have arrived where they are used.
CHECK_MLLIB = """
import json
coefficients = LogisticRegression(maxIter=10).fit(rows).coefficients.tolist()
stats = json.loads(spark._jvm.io.warmset.spark.Warmset.statsJson())
print("seen:", json.dumps([coefficients, stats["total_budget_bytes"], spark.conf.get("spark.warmset.rdd.enabled")]))
"""

pytestmark = pytest.mark.usefixtures("only_with_plugin")


def block(language: str, mark: str, page: str = "README.md") -> str:
    """The page's one code block in this language that has `mark` in it."""
    return pages.block(page, mark, language)


def commands(code: str) -> list[str]:
    """The lines of a shell block, those that end with a backslash joined with the next."""
    return code.replace("\\\n", " ").splitlines()


def without_the_tests_python(path: str) -> str:
    """A search path as a user has it, on which nothing of ours is found."""
    return ":".join(place for place in path.split(":") if not Path(place).is_relative_to(paths.REPOSITORY))


# In the place of `make wheel`, of the guide's `make jar` and of what `pip` would fetch.
HAVE_WHEEL = "mkdir dist && ln -s {wheel} dist/"
HAVE_JAR = 'mkdir -p "$(dirname {jar})" && ln -s {built} {jar}'
HAVE_PACKAGES = """
test "$VIRTUAL_ENV" = "$PWD/target/try"
pip install --quiet --disable-pip-version-check --no-index --no-deps dist/warmset-*.whl
echo {packages} > "$(python -c 'import site; print(site.getsitepackages()[0])')/have.pth"
for program in {programs}/*; do
    test -e "$VIRTUAL_ENV/bin/$(basename "$program")" || ln -s "$program" "$VIRTUAL_ENV/bin/"
done
"""


@pytest.fixture(scope="module")
def workdir(launch: Launch) -> Path:
    """Where a user stands who has followed the README and the guide so far: in a clone, with wheel, jar and a table."""
    code = block("sh", "git clone")
    jar = re.search(r"spark/target/\S+\.jar", block("sh", "pyspark --jars", GUIDE))[0]
    assert "make jar" in block("sh", "git clone", GUIDE)
    pins = re.search(r"^pip install dist/warmset-\*\.whl (.*)$", code, re.MULTILINE)
    pinned = (paths.REPOSITORY / "etc" / "python" / "spark-4.2.txt").read_text().splitlines()
    assert set(pins[1].split()) <= set(pinned), "the README names other versions than are tested"
    programs = paths.venv(VERSION) / "bin"
    packages = paths.spark_home(VERSION).parent
    wheel_line = next(line for line in commands(code) if line.startswith("make wheel"))
    have_jar = HAVE_JAR.format(jar=jar, built=paths.plugin_jar())
    places = {
        "<this repository>": f"--quiet file://{paths.REPOSITORY}",
        wheel_line: f"{HAVE_WHEEL.format(wheel=paths.wheel())} && {have_jar}",
        pins[0]: HAVE_PACKAGES.format(packages=packages, programs=programs),
        "--scale-factor 1": "--scale-factor 0.01",
    }
    directory = launch.new_directory()
    done = run(["bash", "-ec", replaced(code, places)], directory)
    assert done.returncode == 0, done.stderr[-2000:]
    (directory / "warmset" / "disk").mkdir()
    return directory / "warmset"


@pytest.fixture(scope="module")
def table(workdir: Path) -> list[int]:
    """The table's rows, and the sum of its keys."""
    keys = pq.read_table(workdir / "target" / "try" / "lineitem.parquet", columns=["l_orderkey"])["l_orderkey"]
    return [len(keys), sum(keys.to_pylist())]


def run(
    command: list[str], directory: Path, settings: dict[str, str] | None = None, typed: str = ""
) -> subprocess.CompletedProcess[str]:
    """Runs a command as a user would: with what the README made, and nothing of the tests' own."""
    environment = {
        **os.environ,
        "PATH": f"{directory}/target/try/bin:{without_the_tests_python(os.environ['PATH'])}",
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(directory),
        **(settings or {}),
    }
    for name in ("SPARK_HOME", "PYTHONPATH", "VIRTUAL_ENV", "PYSPARK_PYTHON"):
        environment.pop(name, None)
    return subprocess.run(
        command, cwd=directory, env=environment, input=typed, capture_output=True, text=True, timeout=300
    )


def test_python(workdir: Path, table: list[int]) -> None:
    (workdir / "use.py").write_text(block("python", "createOrReplaceTempView") + CHECK)
    done = run(["python", "use.py"], workdir)
    assert done.returncode == 0, done.stderr[-2000:]
    assert f"seen: {json.dumps([*table, True])}" in done.stdout


def test_pyspark_and_the_tab(workdir: Path) -> None:
    """The guide's shell, its query, and what its page on the tab asks the session's UI."""
    # Smaller partitions than `spark.warmset.smallPartition` stay on the heap.
    keys = np.random.default_rng(7).integers(1 << 62, size=100_000)
    orders = {"o_orderkey": keys, "o_orderpriority": ["1-URGENT", *["5-LOW"] * (len(keys) - 1)]}
    pq.write_table(pa.table(orders), workdir / "orders")
    query = replaced(block("python", "/data/orders", GUIDE), {"/data/orders": "orders"})
    ask = block("sh", "curl", "docs/guide/spark-ui.md").strip()
    # Executors report every three seconds.
    rest = f"""
import subprocess, time
asked = {ask!r}.replace("http://localhost:4040", spark.sparkContext.uiWebUrl)
bytes_in_memory = lambda: int(subprocess.run(["bash", "-c", asked], capture_output=True, text=True).stdout)
end = time.monotonic() + 120
while bytes_in_memory() == 0 and time.monotonic() < end: time.sleep(0.1)

print("seen:", bytes_in_memory())
"""
    (command,) = commands(block("sh", "pyspark --jars", GUIDE))
    # Python starts a shell's first file only where somebody types, or with this option.
    done = run(["bash", "-c", command], workdir, {"PYSPARK_DRIVER_PYTHON_OPTS": "-i"}, query + rest)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "|1-URGENT|1|" in done.stdout.replace(" ", "")
    assert int(done.stdout.split("seen: ")[1].split()[0]) > 0, done.stdout[-500:]


def test_mllib(workdir: Path) -> None:
    code = replaced(block("python", "LogisticRegression", GUIDE), {"4g": "600m", "6g": "700m"})
    (workdir / "fit.py").write_text(code + CHECK_MLLIB)
    done = run(["python", "fit.py"], workdir)
    assert done.returncode == 0, done.stderr[-2000:]
    coefficients, *numbers = json.loads(done.stdout.split("seen: ")[1])
    assert len(coefficients) == 2 and all(map(math.isfinite, coefficients)) and any(coefficients)
    assert numbers == [700 << 20, "true"]


def test_sql(workdir: Path, table: list[int]) -> None:
    """What was cached is seen in the event log: `spark-sql` itself has no other way to show it."""
    (workdir / "events").mkdir()
    (workdir / "spark-defaults.conf").write_text(
        f"spark.eventLog.enabled true\nspark.eventLog.compress false\nspark.eventLog.dir file://{workdir}/events\n"
        "spark.warmset.stats.interval 100ms\n"
    )
    code = replaced(block("sh", "spark-sql", GUIDE), {"/mnt/nvme": str(workdir / "disk"), "8g": "64m"})
    (command,) = commands(code)
    done = run(["bash", "-c", command], workdir, {"SPARK_CONF_DIR": str(workdir)})
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.split() == [str(table[0])]
    (log,) = workdir.glob("events/*/events_*")
    events = [json.loads(line) for line in log.read_text().splitlines()]
    reports = [json.loads(event["stats"]) for event in events if event["Event"].endswith("WarmsetReport")]
    assert reports[-1]["budget_bytes"] == 64 << 20
    assert reports[-1]["regions"] > 0


def test_looking_at_the_machine(workdir: Path) -> None:
    """In the root of the tree, where the README's reader stands; only the output goes elsewhere."""
    places = {"/mnt/nvme": f"{workdir}/disk", "man man/": f"man {workdir}/man/", "> warmset.bash": f"> {workdir}/bash"}
    filtered = []
    for command in commands(replaced(block("sh", "doctor --json", GUIDE), places)):
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


# A user's way to record as root into the own profiles.
SUDO = 'sudo env XDG_DATA_HOME="$HOME/.local/share" target/try/bin/'


@pytest.mark.skipif(os.geteuid() != 0, reason="recording needs root")
def test_warm_starts(workdir: Path) -> None:
    """A program that is there, in place of the debugger."""
    code = replaced(block("sh", "warmset learn"), {SUDO: "", "gdb --version": "python3 --version"})
    for command in commands(code):
        done = run(["bash", "-c", command], workdir, {"XDG_DATA_HOME": f"{workdir}/xdg"})
        assert done.returncode == 0, f"{command}: {done.stderr}"
    assert done.stdout.startswith("Python 3") and done.stderr == ""


@pytest.mark.parametrize("command", commands(block("sh", "make demo", "docs/reference/make.md")))
def test_make_knows_what_the_readme_makes(command: str) -> None:
    """`make` says what it would do; the steps themselves are what calls this test, and `.ci/run`."""
    words = command.split("#")[0].split()
    done = subprocess.run([*words, "--dry-run"], cwd=paths.REPOSITORY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
