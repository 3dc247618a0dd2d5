"""Arrays and tables larger than memory, and cached Spark: see `Store` and `warmset.spark`.

Units: sizes are bytes, or text such as ``"4GiB"``. Everything that is read is shown in place, read-only, and held in
memory for as long as any Python object refers to it.

Doctest
-------
>>> import tempfile, warmset
>>> store = warmset.Store(tempfile.mkdtemp(), memory="64MiB")
>>> "trips" in store
False
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warmset._native import BadFileError, Batch, BusyError, NoSpaceError, WarmsetError
from warmset._sizes import parse_bytes
from warmset._store import Damage, Store, Table, Writer

if TYPE_CHECKING:
    from warmset import spark as spark

__all__ = [
    "BadFileError",
    "Batch",
    "BusyError",
    "Damage",
    "NoSpaceError",
    "Store",
    "Table",
    "WarmsetError",
    "Writer",
    "__version__",
    "parse_bytes",
    "spark",
]


def __getattr__(name: str) -> Any:
    # Neither is needed by most, and both take longer to import than the rest.
    if name == "spark":
        import importlib

        return importlib.import_module("warmset.spark")
    if name == "__version__":
        from importlib.metadata import version

        return version("warmset")
    raise AttributeError(f"module 'warmset' has no attribute {name!r}")
