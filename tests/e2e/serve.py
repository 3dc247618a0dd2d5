"""The child side: owns one SparkSession and runs scenarios on request.

Requests come as JSON lines on stdin, answers leave as JSON lines on what was stdout when the
process started; everything else that is printed goes to stderr, the log. Ends when stdin does.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import traceback
from collections.abc import Callable
from typing import Any, TextIO


def _claim_stdout() -> TextIO:
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    return answers


def _start(conf: dict[str, str]) -> Any:
    """A session; none for an empty configuration, where the scenario starts Spark itself."""
    if not conf:
        return None
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    builder._options = {}
    for key, value in conf.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def _stop() -> None:
    """Stops the session that there is, which may be another than was started here."""
    from pyspark.sql import SparkSession

    if session := SparkSession.getActiveSession() or SparkSession._instantiatedSession:
        session.stop()


def _start_again(conf: dict[str, str], first: dict[str, str]) -> Any:
    """Another session in the same JVM, which still has the settings that it was started with."""
    from pyspark import SparkContext

    _stop()
    if jvm := SparkContext._jvm:
        for key in first:
            jvm.System.clearProperty(key)
    return _start(conf)


def _answer(spark: Any, request: dict[str, Any]) -> dict[str, Any]:
    try:
        module, _, function = request["scenario"].rpartition(".")
        scenario = getattr(importlib.import_module("scenarios." + module), function)
        return {"result": scenario(spark, **request["arguments"])}
    except Exception:
        return {"error": traceback.format_exc()}


def main() -> int:
    answers = _claim_stdout()

    def say(message: dict[str, Any]) -> None:
        answers.write(json.dumps(message) + "\n")

    first: dict[str, str] = json.loads(sys.argv[1])

    def greet(start: Callable[[], Any]) -> Any:
        spark = start()
        say({"application": spark.sparkContext.applicationId if spark else None})
        return spark

    try:
        spark = greet(lambda: _start(first))
        for line in sys.stdin:
            request = json.loads(line)
            if "stop" in request:
                break
            if "start" in request:
                conf: dict[str, str] = request["start"]
                spark = greet(functools.partial(_start_again, conf, first))
                first = first or conf
            else:
                say(_answer(spark, request))
    except Exception:
        say({"error": traceback.format_exc()})
        return 1
    _stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
