"""Spark's own shell, fed with a script as a user would type it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from e2e import paths

SECONDS_MAX = 180.0


def answers(version: str, conf: Mapping[str, str], workdir: Path, script: str) -> dict[str, str]:
    """What the script said by `answer(name, value)`; raises with the shell's words if it said nothing."""
    home = paths.spark_home(version)
    said = workdir / "answers"
    say = (
        "def answer(name: String, value: Any): Unit = java.nio.file.Files.writeString("
        f'java.nio.file.Path.of("{said}"), '
        's"$name\\t$value\\n", java.nio.file.StandardOpenOption.CREATE, java.nio.file.StandardOpenOption.APPEND)'
    )
    settings = [argument for key, value in conf.items() for argument in ("--conf", f"{key}={value}")]
    env = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1", "TERM": "dumb"}
    ended = subprocess.run(
        [str(home / "bin" / "spark-shell"), *settings],
        input=f"{say}\n{script}\n:quit\n",
        capture_output=True,
        text=True,
        cwd=workdir,
        env=env,
        timeout=SECONDS_MAX,
        check=False,
    )
    if not said.exists():
        raise AssertionError(f"the shell said nothing (exit {ended.returncode})\n{ended.stdout}\n{ended.stderr}")
    return dict(line.split("\t", 1) for line in said.read_text().splitlines()) | {"shell": ended.stdout}
