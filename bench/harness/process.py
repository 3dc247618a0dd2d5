"""An engine in a child process: started in its memory cgroup, told what to do over a socket, and watched while it dies.

Invariant: when an `Engine` is closed no process of it is left. A call either returns, or raises `EngineDied` with what
killed the engine and during which step.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
from pathlib import Path

from harness.engines import Spec
from harness.groups import MemoryCgroup
from harness.machine import ROOT


class EngineDied(Exception):
    """The engine is gone: `reason` is `oom`, `oom-killed`, `timeout`, or what its log says."""

    def __init__(self, reason: str, step: str, detail: str = "") -> None:
        super().__init__(f"{reason} during {step}{': ' + detail if detail else ''}")
        self.reason = reason
        self.step = step
        self.detail = detail

    @property
    def of_memory(self) -> bool:
        """Whether it died for want of memory."""
        return self.reason in ("oom", "oom-killed")


class Engine:
    """The parent's end of one child."""

    def __init__(self, spec: Spec, log: Path, scratch: Path, group: MemoryCgroup | None) -> None:
        self.spec = spec
        self.log = log
        self.group = group
        ours, theirs = socket.socketpair()
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT / "bench"),
            "PYSPARK_PYTHON": str(spec.python),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(scratch),
            # What a JVM that is killed leaves goes with the scratch directory.
            "JDK_JAVA_OPTIONS": f'{os.environ.get("JDK_JAVA_OPTIONS", "")} "-Djava.io.tmpdir={scratch}"'.strip(),
            # The allocator's arenas would otherwise grow with the machine's CPUs, outside of every budget.
            "MALLOC_ARENA_MAX": "2",
            # Each task computes on one core; a native BLAS would start threads of its own.
            "OPENBLAS_NUM_THREADS": "1",
        }
        scratch.mkdir(parents=True, exist_ok=True)
        with log.open("wb") as output:
            self.process = subprocess.Popen(
                [str(spec.python), "-m", spec.worker, str(theirs.fileno())],
                env=environment,
                cwd=scratch,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                preexec_fn=group.enter if group else None,
            )
        theirs.close()
        self.socket = ours
        self.stream = ours.makefile("r")

    def call(self, step: str, timeout_s: float, **request: object) -> dict:
        """Sends one request and waits for its answer."""
        self.socket.settimeout(timeout_s)
        try:
            self.socket.sendall((json.dumps(request) + "\n").encode())
            line = self.stream.readline()
        except TimeoutError:
            self.close()
            raise EngineDied("timeout", step, f"no answer in {timeout_s:.0f} s") from None
        except OSError:
            line = ""
        if not line:
            raise EngineDied(*self.cause(step))
        answer = json.loads(line)
        if "error" in answer:
            self.close()
            reason = "oom" if "OutOfMemoryError" in answer["error"] else "error"
            raise self.died(reason, step, answer["error"])
        return answer

    def died(self, reason: str, step: str, detail: str) -> EngineDied:
        """Prefers what the log and the kernel say over a broken connection."""
        if reason == "error":
            seen = self.cause(step)
            if seen[0] in ("oom", "oom-killed"):
                return EngineDied(*seen)
        return EngineDied(reason, step, headline(detail))

    def cause(self, step: str) -> tuple[str, str, str]:
        """Why the child is gone, from its group, its log and its exit code."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=10)
        text = self.log.read_text(errors="replace")
        found = re.search(r"java\.lang\.OutOfMemoryError[^\n]*", text)
        if found:
            return "oom", step, found.group(0)[:200]
        if self.group and self.group.kills():
            return "oom-killed", step, "killed by the kernel at the group's limit"
        return "error", step, f"exit code {self.process.poll()}, see {self.log}"

    def close(self) -> None:
        """Stops the child and all it started."""
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                self.socket.settimeout(10)
                self.socket.sendall(b'{"op": "stop"}\n')
                self.stream.readline()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(timeout=10)
        # The JVM is in the child's session; so is whatever it started.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.leave_group()
        self.stream.close()
        self.socket.close()

    def leave_group(self) -> None:
        """Kills what is still in the group: a gateway JVM makes a process group of its own."""
        if self.group is None:
            return
        for _ in range(100):
            try:
                left = (self.group.directory / "cgroup.procs").read_text().split()
            except OSError:
                return
            if not left:
                return
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            time.sleep(0.05)


def headline(trace: str) -> str:
    """The line of a trace that says most: the innermost cause, else the last exception, else the last line."""
    lines = [line.strip() for line in trace.strip().splitlines()]
    causes = [line for line in lines if line.startswith("Caused by: ")]
    named = [line.removeprefix(": ") for line in lines if re.match(r"(: )?[\w.$]+(Error|Exception)\b", line)]
    best = (causes or named or lines or [""])[-1]
    return best.removeprefix("Caused by: ")[:300]
