"""A Spark standalone cluster on loopback: one master, two workers with one executor core each.

Invariant: leaving the context ends every process of the cluster, executors included, within a
bounded time, whatever happened in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from e2e import paths

WORKERS = 2
WORKER_MEMORY = "1g"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 20.0


def await_true(condition: Callable[[], Any], what: str, seconds_max: float) -> Any:
    """Waits until the condition gives something true, and returns it."""
    deadline = time.monotonic() + seconds_max
    while True:
        if result := condition():
            return result
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds_max:.0f} s: {what}")
        time.sleep(0.1)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass(frozen=True)
class Executor:
    """A running executor process."""

    pid: int
    id: str

    def kill(self) -> None:
        """SIGKILL: no shutdown hook runs."""
        os.kill(self.pid, signal.SIGKILL)

    def has_mapped(self, file_name: str) -> bool:
        """Whether the process has such a file mapped, for instance a native library."""
        return file_name in Path(f"/proc/{self.pid}/maps").read_text()


@dataclass(frozen=True)
class Cluster:
    """Addresses and directories of a running cluster."""

    url: str
    web_url: str
    workdir: Path

    def state(self) -> dict[str, Any]:
        """What the master says of its workers and applications."""
        with urllib.request.urlopen(f"{self.web_url}/json/", timeout=5) as answer:
            return json.load(answer)

    def executors(self, application: str) -> list[Executor]:
        """The application's executor processes, found by their command lines.

        Another cluster may have given an application the same name, so that they have to run in this one's directory.
        """
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            try:
                words = (process / "cmdline").read_bytes().decode(errors="replace").split("\0")
                here = (process / "cwd").readlink().is_relative_to(self.workdir / "work")
            except OSError:
                continue
            if here and "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and application in words:
                found.append(Executor(int(process.name), words[words.index("--executor-id") + 1]))
        return found

    def files(self) -> list[Path]:
        """Files in the directories where executors keep data."""
        # Unlike rglob, this is content with directories that go meanwhile.
        walks = (os.walk(self.workdir / name) for name in ("local", "regions"))
        return [Path(folder) / file for walk in walks for folder, _, files in walk for file in files]

    def open_files(self, pid: int) -> list[str]:
        """What the process has open below the region directory, files without a name included."""
        held = []
        for link in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                held.append(str(link.readlink()))
        return [path for path in held if path.startswith(str(self.workdir / "regions"))]


def _spawn(version: str, workdir: Path, name: str, arguments: list[str], env: Mapping[str, str]) -> subprocess.Popen:
    home = paths.spark_home(version)
    with (workdir / f"{name}.log").open("ab") as log:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), *arguments],
            cwd=workdir,
            env={**os.environ, **env, "SPARK_HOME": str(home)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def _end(processes: list[subprocess.Popen]) -> None:
    """Workers first: they end their executors."""
    for process in reversed(processes):
        process.terminate()
    for process in reversed(processes):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS_MAX)


# Starts Java; an executor enters the first of the groups that no other has entered.
IN_GROUPS = """#!/bin/sh
case " $* " in *" org.apache.spark.executor.CoarseGrainedExecutorBackend "*)
    for group in {groups}; do
        if mkdir "{workdir}/entered-$(basename "$group")" 2>/dev/null; then
            echo $$ > "$group/cgroup.procs" || exit 1
            break
        fi
    done
esac
exec {java} "$@"
"""


def _java_in_groups(workdir: Path, groups: Sequence[Path]) -> Path:
    """A home of Java whose executors run in these groups, as in a cluster manager's containers."""
    java = Path(shutil.which("java") or "java").resolve()
    program = workdir / "java" / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(IN_GROUPS.format(groups=" ".join(map(str, groups)), workdir=workdir, java=java))
    program.chmod(0o755)
    return workdir / "java"


@contextlib.contextmanager
def standalone(version: str, workdir: Path, groups: Sequence[Path] = ()) -> Iterator[Cluster]:
    """Starts a cluster and waits until its workers have registered; its first executors run in these cgroups."""
    for name in ("local", "regions", "work"):
        (workdir / name).mkdir(parents=True)
    port, web_port = _free_port(), _free_port()
    env = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_LOCAL_DIRS": str(workdir / "local"),
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": str(paths.interpreter(version)),
    }
    if groups:
        env["JAVA_HOME"] = str(_java_in_groups(workdir, groups))
    package = "org.apache.spark.deploy"
    host = ["--host", "127.0.0.1"]
    master = [f"{package}.master.Master", *host, "--port", str(port), "--webui-port", str(web_port)]
    cluster = Cluster(f"spark://127.0.0.1:{port}", f"http://127.0.0.1:{web_port}", workdir)
    worker = [f"{package}.worker.Worker", *host, "--cores", "1", "--memory", WORKER_MEMORY]
    worker += ["--webui-port", "0", "--work-dir", str(workdir / "work"), cluster.url]

    def registered() -> bool:
        # Until its JSON is there, the master answers with its page.
        with contextlib.suppress(OSError, json.JSONDecodeError):
            return sum(w["state"] == "ALIVE" for w in cluster.state()["workers"]) == WORKERS
        return False

    processes: list[subprocess.Popen] = []
    try:
        processes.append(_spawn(version, workdir, "master", master, env))
        for number in range(WORKERS):
            processes.append(_spawn(version, workdir, f"worker-{number}", worker, env))
        await_true(registered, f"{WORKERS} workers registered, see {workdir}/*.log", START_SECONDS_MAX)
        yield cluster
    finally:
        _end(processes)
