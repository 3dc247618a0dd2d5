"""NumPy arrays: what goes in comes out, in place and read-only."""

from __future__ import annotations

import gc
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
import warmset
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

ANY_DTYPE = st.one_of(
    hnp.boolean_dtypes(),
    hnp.integer_dtypes(endianness="="),
    hnp.integer_dtypes(endianness=">"),
    hnp.floating_dtypes(endianness="=", sizes=(16, 32, 64)),
    hnp.complex_number_dtypes(endianness="="),
    hnp.datetime64_dtypes(endianness="="),
    hnp.timedelta64_dtypes(endianness="="),
    hnp.byte_string_dtypes(min_len=1, max_len=9),
    hnp.unicode_string_dtypes(endianness="=", min_len=1, max_len=9),
)


def same(left: np.ndarray, right: np.ndarray) -> bool:
    return left.dtype == right.dtype and left.shape == right.shape and left.tobytes() == right.tobytes()


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    array=hnp.arrays(
        dtype=st.one_of(ANY_DTYPE, hnp.array_dtypes(ANY_DTYPE, max_size=3)),
        shape=hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=9),
    ),
    rows=st.integers(1, 5),
    transposed=st.booleans(),
)
def test_any_array_comes_back(store: warmset.Store, array: np.ndarray, rows: int, transposed: bool):
    if transposed:
        array = array.T
    store.put("X", array, batch_rows=rows)
    assert same(store["X"], array)
    parts = list(store.scan("X"))
    assert all(len(part) <= rows for part in parts)
    assert all(part.dtype == array.dtype for part in parts)
    assert b"".join(part.tobytes() for part in parts) == array.tobytes()
    assert store.verify() == []


def test_structures_with_padding_come_back(store: warmset.Store):
    apart = np.dtype({"names": ["a", "b"], "formats": ["i4", "f8"], "offsets": [0, 16]})
    for dtype in (np.dtype([("a", "i4"), ("b", "f8")], align=True), apart):
        store["X"] = np.zeros(3, dtype)
        assert store["X"].dtype == dtype


def test_a_view_is_read_only_in_place_and_holds_its_bytes(store: warmset.Store):
    expected = np.arange(1_000_000, dtype=np.float32).reshape(-1, 10)
    store["X"] = expected
    first, second = store["X"], store.array("X")
    assert first.ctypes.data == second.ctypes.data, "no byte is copied"
    assert first.ctypes.data % 64 == 0
    assert not first.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        first[0] = 1
    row = first[77]
    del first, second, store["X"]
    gc.collect()
    with pytest.raises(KeyError, match="X"):
        store["X"]
    # Much else goes through the memory meanwhile.
    store["Y"] = np.zeros(20_000_000)
    for _ in store.scan("Y", epochs=2):
        pass
    assert (row == expected[77]).all()


def test_memory_comes_back_when_the_last_view_is_gone(store: warmset.Store):
    for n in range(40):
        store["X"] = np.full(1_000_000, n, np.int64)
        view = store["X"]
        assert view[0] == n and view[-1] == n
    del view
    gc.collect()
    assert store.stats()["used_bytes"] <= 32 << 20


def test_an_array_larger_than_memory_is_scanned(store: warmset.Store):
    expected = np.arange(12_000_000, dtype=np.int64)
    store["X"] = expected
    with pytest.raises(warmset.NoSpaceError, match="scan it, or open the store with more memory"):
        store.array("X")
    start = 0
    for part in store.scan("X", epochs=2):
        assert part[0] == start % len(expected) and (np.diff(part) == 1).all()
        start += len(part)
    assert start == 2 * len(expected)
    assert store.stats()["read_bytes_total"] < 2 * expected.nbytes, "a part stays from epoch to epoch"


def test_shuffled_epochs_differ_and_repeat_by_seed(store: warmset.Store):
    store.put("X", np.arange(1000), batch_rows=10)

    def order(seed: int) -> list[int]:
        return [int(part[0]) for part in store.scan("X", epochs=2, shuffle=True, seed=seed)]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == sorted(2 * list(range(0, 1000, 10)))


def test_an_arrow_library_opens_the_file(store: warmset.Store):
    expected = np.arange(60, dtype=np.float32).reshape(10, 2, 3)
    store["X"] = expected
    with pa.memory_map(str(store.dir / "X.arrow")) as source:
        column = pa.ipc.open_file(source).read_all().column("values").combine_chunks()
    assert isinstance(column.type, pa.FixedShapeTensorType)
    assert (column.to_numpy_ndarray() == expected).all()


def test_what_cannot_be_kept_is_refused(store: warmset.Store):
    with pytest.raises(TypeError, match="Python objects"):
        store["X"] = np.array([object()])
    with pytest.raises(TypeError, match="its mask would be lost"):
        store["X"] = np.ma.array([1, 2], mask=[True, False])
    with pytest.raises(ValueError, match="no dimension"):
        store["X"] = np.array(1.0)
    with pytest.raises(TypeError, match="neither an Arrow table"):
        store["X"] = "text"
    with pytest.raises(ValueError, match="cannot be a name"):
        store["../X"] = np.arange(3)
    with pytest.raises(ValueError, match="at least one row"):
        store.put("X", np.arange(3), batch_rows=0)
    assert list(store) == [] and "X" not in store and len(store) == 0


def test_a_handle_is_pickled_to_its_directory(store: warmset.Store):
    store["X"] = np.arange(10)
    again = pickle.loads(pickle.dumps(store))
    assert again.dir == store.dir and again.memory == 32 << 20
    assert (again["X"] == np.arange(10)).all()


def test_sizes_and_settings_that_cannot_be(tmp_path):
    with pytest.raises(ValueError, match="is not a size"):
        warmset.Store(tmp_path, memory="much")
    with pytest.raises(ValueError, match="memory"):
        warmset.Store(tmp_path, memory=1000)
    with pytest.raises(OSError, match="file"):
        (tmp_path / "file").write_text("")
        warmset.Store(tmp_path / "file" / "store", memory="32MiB")
    store = warmset.Store(tmp_path / "store", memory="32MiB", memory_max="64MiB")
    store.resize(memory="64MiB")
    assert store.memory == store.stats()["budget_bytes"] == 64 << 20
    with pytest.raises(ValueError, match="memory"):
        store.resize(memory="1GiB")
    store.resize(memory="16MiB")
    assert store.memory == 16 << 20
