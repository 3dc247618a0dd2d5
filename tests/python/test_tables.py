"""Tables: any Arrow type, from and to the libraries that speak Arrow."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.ipc
import pytest
import warmset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

# As many microseconds as 64 bits hold, and some less.
TIME = datetime.timedelta(days=100_000_000)

# A type, and values of it.
SCALARS = [
    (pa.null(), st.none()),
    (pa.bool_(), st.booleans()),
    (pa.int8(), st.integers(-(2**7), 2**7 - 1)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    (pa.float16(), st.floats(width=16, allow_nan=False)),
    (pa.float32(), st.floats(width=32, allow_nan=False)),
    (pa.float64(), st.floats(allow_nan=False)),
    (pa.string(), st.text(max_size=20)),
    (pa.large_string(), st.text(max_size=20)),
    (pa.string_view(), st.text(max_size=30)),
    (pa.binary(), st.binary(max_size=20)),
    (pa.large_binary(), st.binary(max_size=20)),
    (pa.binary_view(), st.binary(max_size=30)),
    (pa.binary(5), st.binary(min_size=5, max_size=5)),
    (pa.date32(), st.dates()),
    (pa.date64(), st.dates()),
    (pa.time32("s"), st.times()),
    (pa.time64("us"), st.times()),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(datetime.UTC))),
    (pa.duration("us"), st.timedeltas(-TIME, TIME)),
    (pa.month_day_nano_interval(), st.tuples(*[st.integers(-1000, 1000)] * 3)),
    (pa.decimal32(9, 3), st.decimals(-(10**5), 10**5, places=3)),
    (pa.decimal64(15, 3), st.decimals(-(10**9), 10**9, places=3)),
    (pa.decimal128(20, 3), st.decimals(-(10**9), 10**9, places=3)),
    (pa.decimal256(50, 3), st.decimals(-(10**9), 10**9, places=3)),
    (pa.dictionary(pa.int16(), pa.string()), st.sampled_from(["red", "green", "blue"])),
    (pa.uuid(), st.binary(min_size=16, max_size=16)),
    (pa.json_(), st.just('{"a": 1}')),
]


def nested(inner: st.SearchStrategy) -> st.SearchStrategy:
    """Lists, structures and maps of what `inner` draws."""

    def wrap(pair: tuple) -> st.SearchStrategy:
        kind, values = pair
        values = st.none() | values
        return st.sampled_from(
            [
                (pa.list_(kind), st.lists(values, max_size=3)),
                (pa.large_list(kind), st.lists(values, max_size=3)),
                (pa.list_view(kind), st.lists(values, max_size=3)),
                (pa.large_list_view(kind), st.lists(values, max_size=3)),
                (pa.list_(kind, 2), st.lists(values, min_size=2, max_size=2)),
                (pa.struct([("a", kind), ("b", pa.int32())]), st.fixed_dictionaries({"a": values, "b": st.just(1)})),
                (pa.map_(pa.string(), kind), st.lists(st.tuples(st.text(max_size=3), values), max_size=2)),
            ]
        )

    return inner.flatmap(wrap)


# Dictionaries inside of lists may differ from batch to batch, which no Arrow file can have; extensions stay flat.
INNER = [
    pair for pair in SCALARS if not pa.types.is_dictionary(pair[0]) and not isinstance(pair[0], pa.BaseExtensionType)
]
COLUMN = st.recursive(st.sampled_from(INNER), nested, max_leaves=3) | st.sampled_from(SCALARS)


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    """A table of a few columns in a few batches."""
    rows = draw(st.integers(0, 30))
    columns = {}
    for n in range(draw(st.integers(1, 4))):
        kind, values = draw(COLUMN)
        drawn = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        storage = kind.storage_type if isinstance(kind, pa.BaseExtensionType) else kind
        array = pa.array(drawn, storage)
        columns[f"c{n}"] = pa.ExtensionArray.from_storage(kind, array) if storage is not kind else array
    table = pa.table(columns)
    cut = draw(st.integers(0, rows))
    return pa.concat_tables([table.slice(0, cut), table.slice(cut)])


@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(table=tables(), rows=st.none() | st.integers(1, 9))
def test_any_table_comes_back(store: warmset.Store, table: pa.Table, rows: int | None):
    store.put("t", table, batch_rows=rows)
    found = pa.table(store["t"])
    found.validate(full=True)
    assert found.schema.equals(table.schema, check_metadata=True)
    assert found.equals(table)
    with pa.memory_map(str(store.dir / "t.arrow")) as source:
        assert pa.ipc.open_file(source).read_all().equals(table)
    assert store.verify() == []


def of(kind: pa.BaseExtensionType, storage: list) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(storage, kind.storage_type))


# What the strategies above do not draw.
RARE = {
    "runs": pa.RunEndEncodedArray.from_arrays(pa.array([2, 5], pa.int32()), pa.array(["a", None])),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["x"])]
    ),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["x", "y", "z"])]
    ),
    "views of one list": pa.ListViewArray.from_arrays(
        pa.array([0, 1, 0], pa.int32()), pa.array([2, 2, 3], pa.int32()), pa.array([1, 2, 3])
    ),
    "ordered dictionary": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, None], pa.int8()), pa.array(["low", "high"]), ordered=True
    ),
    "dictionary of numbers": pa.array([1.5, None, 1.5]).dictionary_encode(),
    "dictionary of views": pa.array(["a" * 20, "b", None], pa.string_view()).dictionary_encode(),
    "dictionary in a list": pa.array([["a", "b"], ["a"]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
    "extension in a list": pa.ListArray.from_arrays([0, 1, 2], of(pa.uuid(), [b"a" * 16, b"b" * 16])),
    "extension in a structure": pa.StructArray.from_arrays([of(pa.uuid(), [b"a" * 16, None])], ["u"]),
    "unknown extension": of(pa.opaque(pa.int64(), "kind", "vendor"), [1, None]),
    "missing and empty structures": pa.array([{}, None, {}], pa.struct([])),
    "lists of no elements": pa.array([[], None], pa.list_(pa.int32(), 0)),
    "texts of no bytes": pa.array([b"", None], pa.binary(0)),
}


@pytest.mark.parametrize("name", RARE)
def test_a_rare_type_comes_back(store: warmset.Store, name: str):
    for cut in range(len(RARE[name]) + 1):
        table = pa.table({"c": RARE[name]})
        table = pa.concat_tables([table.slice(0, cut), table.slice(cut)])
        store["t"] = table
        found = pa.table(store["t"])
        found.validate(full=True)
        assert found.schema.equals(table.schema, check_metadata=True)
        assert found.equals(table)


def test_columns_of_more_than_two_gib(tmp_path: Path):
    rows, row_bytes = 2200, 1 << 20
    marked = [0, 2047, 2048, rows - 1]
    source = tmp_path / "source"
    with source.open("wb") as file:
        # A hole: it takes neither disk nor memory.
        file.truncate(rows * row_bytes)
    mapped = np.memmap(source, np.uint8, "r+", shape=(rows, row_bytes))
    mapped[marked, 0] = range(1, len(marked) + 1)
    offsets = np.arange(rows + 1, dtype=np.int64) * row_bytes
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(mapped.reshape(-1))]
    column = pa.Array.from_buffers(pa.large_binary(), rows, buffers)
    store = warmset.Store(tmp_path / "store", memory="64MiB")
    try:
        store["t"] = pa.table({"c": column})
        firsts = []
        for batch in store.scan("t"):
            for value in pa.record_batch(batch)["c"]:
                content = memoryview(value.as_buffer())
                assert len(content) == row_bytes
                firsts.append(content[0])
        assert firsts == mapped[:, 0].tolist() and sum(firsts) == 10
        del store["t"]
        store["X"] = mapped
        firsts = [first for part in store.scan("X") for first in part[:, 0].tolist()]
        assert firsts == mapped[:, 0].tolist()
        del store["X"]
    finally:
        source.unlink()


def test_metadata_no_rows_and_no_columns(store: warmset.Store):
    schema = pa.schema([pa.field("a", pa.int32(), metadata={"unit": "m"})], metadata={"made": "today"})
    store["empty"] = schema.empty_table()
    found = pa.table(store["empty"])
    assert found.schema.equals(schema, check_metadata=True) and found.num_rows == 0
    assert store["empty"].num_batches == 0 and list(store.scan("empty", epochs=3)) == []
    store["narrow"] = pa.table({"a": [1, 2, 3]}).select([])
    assert len(store["narrow"]) == 3 and store["narrow"].column_names == []


def test_a_batch_a_stream_and_a_dict_are_tables(store: warmset.Store):
    batch = pa.record_batch({"a": [1, 2], "b": ["x", None]})
    store["batch"] = batch
    assert pa.table(store["batch"]).to_batches() == [batch]
    assert pa.record_batch(store["batch"].batch(0)) == batch
    store["stream"] = pa.RecordBatchReader.from_batches(batch.schema, (batch for _ in range(5)))
    assert len(store["stream"]) == 10
    store["dict"] = {"x": np.arange(4), "y": np.arange(8.0).reshape(4, 2), "z": [1.5, 2.5, 3.5, 4.5]}
    found = pa.table(store["dict"])
    assert found["x"].to_pylist() == [0, 1, 2, 3] and found["z"].to_pylist()[3] == 4.5
    assert (found["y"].combine_chunks().to_numpy_ndarray() == np.arange(8.0).reshape(4, 2)).all()
    with pytest.raises(ValueError, match=r"same length|equal"):
        store["dict"] = {"x": np.arange(4), "y": np.arange(5)}
    for array in (np.array(["a", "b"]), np.zeros(2, complex), np.zeros((2, 2), bool), np.zeros(2, [("a", "i4")])):
        with pytest.raises(TypeError, match="no Arrow type"):
            store["dict"] = {"x": array}
    with pytest.raises(ValueError, match="NaT"):
        store["dict"] = {"x": np.array(["2026-11-25", "NaT"], "M8[s]")}
    store["dict"] = {"yes": np.arange(20) > 10, "big": np.arange(20, dtype=">i4"), "time": np.zeros(20, "M8[ms]")}
    found = pa.table(store["dict"])
    assert found.schema.types == [pa.bool_(), pa.int32(), pa.timestamp("ms")]
    assert found["yes"].to_pylist() == [n > 10 for n in range(20)] and found["big"].to_pylist() == list(range(20))


def test_a_source_may_use_the_writer_that_reads_it(store: warmset.Store):
    batch = pa.record_batch({"a": [1, 2]})
    with store.writer("t", batch.schema) as writer:

        def source():
            for n in range(3):
                assert writer.num_rows == 2 * n
                yield batch

        writer.append(pa.RecordBatchReader.from_batches(batch.schema, source()))
    assert len(store["t"]) == 6


def test_a_stream_that_fails_leaves_nothing(store: warmset.Store):
    batch = pa.record_batch({"a": [1, 2]})

    def failing():
        yield batch
        raise RuntimeError("the source is gone")

    with pytest.raises(warmset.WarmsetError, match="the source is gone"):
        store["t"] = pa.RecordBatchReader.from_batches(batch.schema, failing())
    assert "t" not in store
    with pytest.raises(RuntimeError, match="mine"), store.writer("t", batch.schema) as writer:
        writer.append(batch)
        raise RuntimeError("mine")
    assert "t" not in store


def test_a_writer_joins_small_batches_and_refuses_others(store: warmset.Store):
    schema = pa.schema([("a", pa.int64())])
    with store.writer("log", schema) as writer:
        for n in range(1000):
            writer.append(pa.record_batch({"a": [n]}))
        assert writer.num_rows == 1000 and "log" not in store
        with pytest.raises(ValueError, match="a: Utf8"):
            writer.append(pa.record_batch({"a": ["text"]}))
    assert store["log"].num_batches == 1
    assert pc.sum(pa.table(store["log"])["a"]).as_py() == 499_500


def test_different_dictionaries_become_one(store: warmset.Store):
    halves = [pa.table({"c": pa.array(words).dictionary_encode()}) for words in (["a", "b"], ["c", "a"])]
    store["t"] = pa.concat_tables(halves)
    assert pa.table(store["t"])["c"].to_pylist() == ["a", "b", "c", "a"]
    with pytest.raises(ValueError, match="unify"), store.writer("u", halves[0].schema, batch_rows=2) as writer:
        for half in halves:
            writer.append(half)


def test_a_table_larger_than_memory(store: warmset.Store):
    # A small store has up to 64 MiB beside its memory.
    rows = 12_000_000
    store["t"] = pa.table({"a": np.arange(rows), "b": np.arange(rows) * 0.5})
    total, count = 0, 0
    for batch in store.scan("t", epochs=2):
        total += pc.sum(pa.record_batch(batch)["a"]).as_py()
        count += len(batch)
    assert (total, count) == (rows * (rows - 1), 2 * rows)
    # pyarrow's name of ENOMEM.
    with pytest.raises(MemoryError, match="scan"):
        pa.table(store["t"])
    # A consumer that lets go of what it has read is fine.
    reader = pa.RecordBatchReader.from_stream(store["t"])
    assert sum(len(batch) for batch in reader) == rows


def test_polars_pandas_and_duckdb_read_it(store: warmset.Store):
    duckdb, pandas, polars = (pytest.importorskip(name) for name in ("duckdb", "pandas", "polars"))
    frame = polars.DataFrame({"a": [1, 2, 3], "b": ["x", "y", None], "c": [datetime.date(2026, 11, 25)] * 3})
    store["t"] = frame
    assert polars.DataFrame(store["t"]).equals(frame)
    t = store["t"]
    assert duckdb.sql("select sum(a), count(b) from t").fetchall() == [(6, 2)]
    assert pandas.DataFrame.from_arrow(t)["a"].tolist() == [1, 2, 3]
    store["p"] = pandas.DataFrame({"a": [1.5, 2.5]})
    assert polars.DataFrame(store["p"])["a"].to_list() == [1.5, 2.5]
    store["d"] = duckdb.sql("select 42 as answer")
    assert pa.table(store["d"])["answer"].to_pylist() == [42]


def test_a_read_shows_the_same_bytes(store: warmset.Store):
    store["t"] = pa.table({"a": np.arange(100_000)})

    def address() -> int:
        return pa.table(store["t"])["a"].chunk(0).buffers()[1].address

    assert address() == address()
