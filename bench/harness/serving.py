"""How a child answers its parent: one JSON object per line, over a socket that it was started with."""

from __future__ import annotations

import json
import socket
import sys
import traceback
from collections.abc import Callable


def plain(value: object) -> object:
    """A value of a row as JSON can hold it; floats keep ten digits, since sums depend on the order of their terms."""
    if isinstance(value, float):
        return float(f"{value:.10g}")
    return value if isinstance(value, (int, str, bool)) or value is None else str(value)


def serve(worker: object) -> None:
    """Answers each request by the worker's method `on_` and its name, until told to stop."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    stream = connection.makefile("rw")
    for line in stream:
        request = json.loads(line)
        operation = request.pop("op")
        handler: Callable[..., dict] = getattr(worker, f"on_{operation}")
        try:
            answer = handler(**request)
        except Exception:
            answer = {"error": traceback.format_exc()}
        stream.write(json.dumps(answer) + "\n")
        stream.flush()
        if operation == "stop":
            return
