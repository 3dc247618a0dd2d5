"""`Store`: named tables and arrays in a directory, read through a fixed amount of memory."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, MutableMapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from warmset import _arrays, _native
from warmset._sizes import parse_bytes

if TYPE_CHECKING:
    import numpy as np

# A store that a worker opens for itself has this part of its parent's memory, and at least so many bytes.
_WORKER_PART = 8
_WORKER_BYTES_MIN = 64 << 20


class Damage(NamedTuple):
    """Bytes of a file that are not what was written."""

    path: Path
    offset: int
    """Where the damaged part begins, in bytes from the start of the file."""
    bytes: int
    """How many bytes the part has."""


class Table:
    """A table of a store. It is Arrow data to whoever asks: ``pyarrow.table(t)``, ``polars.DataFrame(t)``, DuckDB.

    Batches are read when they are asked for, and shown in place. A consumer that keeps all of them needs the store to
    have memory for all of them; else read the table with `Store.scan`.
    """

    __slots__ = ("_table",)

    def __init__(self, table: _native.Table) -> None:
        self._table = table

    @property
    def num_rows(self) -> int:
        """Rows."""
        return self._table.num_rows

    @property
    def num_batches(self) -> int:
        """Record batches."""
        return self._table.num_batches

    @property
    def nbytes(self) -> int:
        """Bytes of all batches in memory."""
        return self._table.nbytes

    @property
    def column_names(self) -> list[str]:
        """Names of the columns."""
        return self._table.column_names

    @property
    def path(self) -> Path:
        """The Arrow IPC file."""
        return Path(self._table.path)

    def batch(self, n: int) -> _native.Batch:
        """Batch `n` in place; raises ValueError if there is none, NoSpaceError if all memory is held."""
        return self._table.batch(n)

    def __len__(self) -> int:
        return self._table.num_rows

    def __iter__(self) -> Iterator[_native.Batch]:
        return self._table.scan()

    def __arrow_c_schema__(self) -> object:
        return self._table.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._table.__arrow_c_stream__(requested_schema)

    def __repr__(self) -> str:
        return f"<warmset.Table: {self.num_rows} rows, {self.nbytes} bytes, columns {self.column_names}>"


class Writer:
    """A table being written, as a context: it has its name when the block ends, and nothing of it stays after an error.

    >>> import tempfile, warmset, numpy as np, pyarrow as pa
    >>> store = warmset.Store(tempfile.mkdtemp(), memory="64MiB")
    >>> with store.writer("log", pa.schema([("n", pa.int64())])) as writer:
    ...     for start in range(0, 30, 10):
    ...         writer.append(pa.record_batch({"n": pa.array(range(start, start + 10))}))
    >>> len(store["log"])
    30
    """

    def __init__(self, writer: _native.Writer) -> None:
        self._writer = writer

    def append(self, table: object) -> None:
        """Adds a record batch or table with the writer's columns.

        Raises ValueError for other columns, NoSpaceError for a full disk.
        """
        self._writer.append(table)

    @property
    def num_rows(self) -> int:
        """Rows appended so far."""
        return self._writer.num_rows

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._writer.commit()
        else:
            self._writer.abort()


class Store(MutableMapping[str, Any]):
    """A directory of named tables and arrays, read through `memory` bytes.

    Parameters
    ----------
    dir
        The directory, on a local disk; made if it is missing. Each name is an Arrow IPC file in it, which outlives the
        process and which any Arrow library reads.
    memory
        What the store may keep in memory: bytes or text such as ``"4GiB"``; at least 2 MiB.
    memory_max
        The most that `resize` may raise it to. Default: `memory`.
    worker_memory
        Memory of the store that a forked or spawned worker opens in the place of this one. Default: an eighth of
        `memory`, at least 64 MiB.

    Raises ValueError for a size that this process may not use, OSError for a directory that cannot be made or found. A
    directory that can only be read is read, and writing to it raises OSError.

    Several processes may open one directory. One at a time writes; another that tries meanwhile gets a BusyError. Names
    that are replaced or deleted stay readable for who has them.

    >>> import tempfile, numpy as np, warmset
    >>> store = warmset.Store(tempfile.mkdtemp(), memory="64MiB")
    >>> store["X"] = np.arange(12.0).reshape(4, 3)
    >>> store["X"][2]
    array([6., 7., 8.])
    >>> store["points"] = {"x": np.array([1, 2]), "y": np.array([0.5, 0.25])}
    >>> store["points"]
    <warmset.Table: 2 rows, ... bytes, columns ['x', 'y']>
    >>> sorted(store)
    ['X', 'points']
    >>> del store["points"]
    """

    def __init__(
        self,
        dir: str | os.PathLike[str],
        memory: int | str,
        *,
        memory_max: int | str | None = None,
        worker_memory: int | str | None = None,
    ) -> None:
        memory_bytes = parse_bytes(memory)
        memory_max_bytes = None if memory_max is None else parse_bytes(memory_max)
        default = min(memory_bytes, max(memory_bytes // _WORKER_PART, _WORKER_BYTES_MIN))
        self._worker_bytes = default if worker_memory is None else parse_bytes(worker_memory)
        self._store = _native.Store(os.fspath(dir), memory_bytes, memory_max_bytes)
        self._dir = Path(self._store.dir)
        self._process = os.getpid()

    @property
    def _native(self) -> _native.Store:
        """The store of this process: a child that was forked opens its own."""
        if self._process != os.getpid():
            self._store = _native.Store(os.fspath(self._dir), self._worker_bytes, None)
            self._process = os.getpid()
        return self._store

    @property
    def dir(self) -> Path:
        """The directory."""
        return self._dir

    @property
    def memory(self) -> int:
        """Bytes of memory."""
        return self._native.memory_bytes

    def __setitem__(self, name: str, value: object) -> None:
        """Writes a table or array, in place of what had the name. See `put`."""
        self.put(name, value)

    def put(self, name: str, value: object, *, batch_rows: int | None = None) -> None:
        """Writes a table or array; it has its name when it is whole and on disk.

        Parameters
        ----------
        name
            Up to 200 bytes without a slash, not starting with a dot.
        value
            A NumPy array of any shape but scalars and any type but objects; a dict of arrays of equal length, which
            becomes a table; or anything with Arrow's PyCapsule interface (pyarrow, polars, pandas, DuckDB). A stream is
            written batch by batch, unless it has dictionary columns: then all of it is taken into memory first.
        batch_rows
            Rows of each batch but the last, which is what a scan gives at once. Default: as many as fill 2 to 8 MiB.

        Raises TypeError for a value that is none of these, ValueError for a name or type that cannot be, NoSpaceError
        for a full disk, BusyError while another process writes.
        """
        if _arrays.is_array(value):
            self._native.put_array(name, _arrays.parts(name, value), batch_rows)  # type: ignore[arg-type]
        elif isinstance(value, Mapping):
            columns = [(str(key), _arrays.column(str(key), _as_array(array))) for key, array in value.items()]
            if not columns:
                raise ValueError("a table of no columns has no rows: give it a column")
            self._native.put_columns(name, columns, batch_rows)
        else:
            self._native.put_table(name, value, batch_rows)

    def __getitem__(self, name: str) -> Table | np.ndarray:
        """A table, or an array as a NumPy view of it; KeyError if there is none. See `get_verified` and `array`."""
        table = self._native.get(name)
        return _whole(table) if table.is_array else Table(table)

    def get_verified(self, name: str) -> Table | np.ndarray:
        """The same after all of its file was compared with its checksums; BadFileError names file and offset.

        Bytes that come into memory are always compared with their checksums; this reads the whole file now.
        """
        for damage in self.verify(name):
            raise _native.BadFileError(
                f"{damage.path}: the checksum of {damage.bytes} bytes at offset {damage.offset} is wrong: "
                "write it again"
            )
        return self[name]

    def array(self, name: str) -> np.ndarray:
        """An array as a read-only NumPy view, in memory as long as the view or a part of it lives.

        Raises KeyError if there is none, ValueError for a table, NoSpaceError if it does not fit in memory at once.
        """
        return _whole(self._native.get(name))

    def scan(
        self, name: str, *, epochs: int = 1, shuffle: bool = False, seed: int = 0
    ) -> Iterator[_native.Batch] | Iterator[np.ndarray]:
        """All batches of a table, or all rows of an array in parts, `epochs` times.

        What does not fit in memory is prefetched while the batch before is used; a part of it stays in memory from
        epoch to epoch. Hold only a few batches at a time: what is referred to stays in memory.

        Parameters
        ----------
        name
            A table: gives `Batch` objects, which are Arrow record batches. An array of shape (n, ...): gives read-only
            arrays of shape (rows, ...).
        epochs
            How many times.
        shuffle
            Batches in a new order in each epoch; rows keep their batch.
        seed
            Decides the orders.

        Raises KeyError if there is none; NoSpaceError if all memory is held.

        >>> import tempfile, numpy as np, warmset
        >>> store = warmset.Store(tempfile.mkdtemp(), memory="64MiB")
        >>> store.put("X", np.arange(6), batch_rows=2)
        >>> [part.tolist() for part in store.scan("X", epochs=2)]
        [[0, 1], [2, 3], [4, 5], [0, 1], [2, 3], [4, 5]]
        """
        if epochs < 0:
            raise ValueError(f"epochs is {epochs}: it is how many times to read it")
        table = self._native.get(name)
        scan = table.scan(epochs, seed if shuffle else None)
        return _parts(table, scan) if table.is_array else scan

    def writer(self, name: str, schema: object, *, batch_rows: int | None = None) -> Writer:
        """Starts a table that is appended to; `schema` is an Arrow schema (anything with `__arrow_c_schema__`)."""
        return Writer(self._native.writer(name, schema, batch_rows))

    def __delitem__(self, name: str) -> None:
        """Deletes a name; KeyError if there is none. Views of it stay; the memory is free when they are gone."""
        self._native.remove(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._native.names())

    def __len__(self) -> int:
        return len(self._native.names())

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and self._native.contains(name)

    def verify(self, name: str | None = None) -> list[Damage]:
        """Compares all bytes of a name, or of all, with their checksums; returns what is damaged."""
        names = self._native.names() if name is None else [name]
        return [Damage(Path(path), offset, size) for one in names for path, offset, size in self._native.verify(one)]

    def stats(self) -> dict[str, Any]:
        """What the memory is used for: figures in bytes; `_total` counts since the store was opened."""
        return json.loads(self._native.stats())

    def resize(self, *, memory: int | str) -> None:
        """Changes the memory, up to `memory_max`; returns at once. ValueError for more."""
        self._native.resize(parse_bytes(memory))

    def __reduce__(self) -> tuple[Any, ...]:
        # The one who unpickles it is a worker.
        return _open, (os.fspath(self._dir), self._worker_bytes)

    def __repr__(self) -> str:
        return f"warmset.Store({os.fspath(self._dir)!r}, memory={self._store.memory_bytes})"


def _open(dir: str, memory: int) -> Store:
    return Store(dir, memory, worker_memory=memory)


def _as_array(value: object) -> np.ndarray:
    import numpy as np

    return value if _arrays.is_array(value) else np.asarray(value)  # type: ignore[return-value]


def _whole(table: _native.Table) -> np.ndarray:
    whole = table.whole()
    return _arrays.view(whole, _arrays.dtype_of(table.dtype or ""), tuple(table.shape or ()))


def _parts(table: _native.Table, scan: _native.Scan) -> Iterator[np.ndarray]:
    dtype, shape = _arrays.dtype_of(table.dtype or ""), tuple(table.shape or ())
    for pinned, _, rows in scan:
        yield _arrays.view(pinned, dtype, (rows, *shape[1:]))
        # The loop's name would hold it while the next is read.
        del pinned
