"""One Spark driver in a child process, driven from the test process.

Invariant: every wait is bounded, and when a `SparkChild` is closed no process of it is left:
the child leads its own process group, and the group is killed if it does not end by itself.
It does not interpret results; scenarios return plain JSON values.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from e2e import paths

START_SECONDS_MAX = 120.0
CALL_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 30.0


class ScenarioFailed(AssertionError):
    """A scenario raised inside the child; the text is the child's own traceback."""


class StartFailed(RuntimeError):
    """The driver did not start; the text is what it said."""


class ChildLost(RuntimeError):
    """The child died or did not answer in time."""


class SparkChild:
    """A child interpreter that owns one SparkSession and runs scenarios in it.

    A child that did not answer in time is killed, so that later calls fail at once.
    """

    def __init__(
        self,
        version: str,
        conf: Mapping[str, str],
        workdir: Path,
        *,
        environment: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
        start_seconds_max: float = START_SECONDS_MAX,
    ) -> None:
        """Starts the driver; raises StartFailed with Spark's message if Spark refuses."""
        workdir.mkdir(parents=True, exist_ok=True)
        self.log_path = workdir / "driver.log"
        local_dirs = workdir / "local"
        local_dirs.mkdir(exist_ok=True)
        python = paths.interpreter(version)
        env = {
            **os.environ,
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(local_dirs),
            "PYSPARK_PYTHON": str(python),
            "PYSPARK_DRIVER_PYTHON": str(python),
            "PYTHONPATH": str(paths.TESTS),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(environment or {}),
        }
        env.pop("SPARK_HOME", None)
        command = [*prefix, str(python), "-m", "e2e.serve", json.dumps(dict(conf))]
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=workdir,
                env=env,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
            )
        self._unread = b""
        self._logged = 0
        self.hello: dict[str, Any] = self._greet(start_seconds_max)

    @property
    def pid(self) -> int:
        """The Python process of the driver (its JVM is a child of it)."""
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether the driver's process runs."""
        return self._process.poll() is None

    def start_again(self, conf: Mapping[str, str]) -> None:
        """Stops Spark and starts it with other settings in the same JVM, or not at all if there are none."""
        self._logged = self.log_path.stat().st_size
        self._send({"start": dict(conf)})
        self.hello = self._greet(START_SECONDS_MAX)

    def call(self, scenario: str, *, seconds_max: float = CALL_SECONDS_MAX, **arguments: Any) -> Any:
        """Runs `module.function` of tests/scenarios in the child and returns its result."""
        self.begin(scenario, **arguments)
        return self.finish(seconds_max)

    def begin(self, scenario: str, **arguments: Any) -> None:
        """Starts a scenario without waiting for it; `finish` fetches the result."""
        self._send({"scenario": scenario, "arguments": arguments})

    def finish(self, seconds_max: float = CALL_SECONDS_MAX) -> Any:
        """Waits for the scenario that `begin` started."""
        reply = self._reply(seconds_max)
        if "error" in reply:
            raise ScenarioFailed(f"{reply['error']}\nlog: {self.log_path}")
        return reply["result"]

    def log_lines(self) -> list[str]:
        """What the driver (Spark's log included) has written to stderr since Spark was started."""
        return self.log_path.read_bytes()[self._logged :].decode(errors="replace").splitlines()

    def kill(self) -> None:
        """SIGKILL to the driver and everything it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait(STOP_SECONDS_MAX)

    def close(self) -> None:
        """Stops Spark, then whatever is left of the process group."""
        process = self._process
        if process.poll() is None and not process.stdin.closed:
            with contextlib.suppress(ChildLost):
                self._send({"stop": True})
        with contextlib.suppress(BrokenPipeError):
            process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS_MAX)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(STOP_SECONDS_MAX)
        process.stdout.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _greet(self, seconds_max: float) -> dict[str, Any]:
        try:
            hello = self._reply(seconds_max)
        except BaseException:
            self.close()
            raise
        if "error" in hello:
            self.close()
            raise StartFailed(hello["error"])
        return hello

    def _send(self, message: dict[str, Any]) -> None:
        try:
            self._process.stdin.write(json.dumps(message).encode() + b"\n")
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as lost:
            raise ChildLost(f"the driver process is gone\n{self._log_tail()}") from lost

    def _reply(self, seconds_max: float) -> dict[str, Any]:
        deadline = time.monotonic() + seconds_max
        descriptor = self._process.stdout.fileno()
        while b"\n" not in self._unread:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                # What would come later would be taken for the answer to the next call.
                self.kill()
                raise ChildLost(f"no answer within {seconds_max:.0f} s\n{self._log_tail()}")
            piece = os.read(descriptor, 1 << 16)
            if not piece:
                raise ChildLost(f"the driver died (exit {self._process.poll()})\n{self._log_tail()}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        return json.loads(line)

    def _log_tail(self) -> str:
        return "\n".join([f"log: {self.log_path}", *(line[:300] for line in self.log_lines()[-25:])])
