"""NumPy arrays as the native side takes and gives them. NumPy is imported when the first array is met."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from warmset._native import Pinned

# The bytes, the shape, what the elements are to Arrow, and NumPy's description of them.
Parts = tuple[Any, list[int], str, str]

_NUMBERS = frozenset(
    ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"]
)


def is_array(value: object) -> bool:
    """Whether this is a NumPy array, without importing NumPy."""
    return hasattr(value, "__array_interface__") and hasattr(value, "dtype")


def _element(dtype: np.dtype) -> str:
    if dtype.isnative and dtype.name in _NUMBERS:
        return dtype.name
    if dtype.isnative and dtype.kind in "mM":
        import numpy as np

        unit, count = np.datetime_data(dtype)
        if unit in ("s", "ms", "us", "ns") and count == 1:
            return f"{'timestamp' if dtype.kind == 'M' else 'duration'}[{unit}]"
    return f"bytes[{dtype.itemsize}]"


def describe(name: str, dtype: np.dtype) -> str:
    """Text that `dtype_of` makes the same type of; TypeError for a type that no text describes."""
    import numpy as np

    found = np.lib.format.dtype_to_descr(dtype)
    text = found if isinstance(found, str) else repr(found)
    if dtype_of(text) != dtype:
        raise TypeError(f"{name!r} is of type {dtype}, which NumPy has no description of: view it as another type")
    return text


def dtype_of(text: str) -> np.dtype:
    """The type of a description."""
    import ast

    import numpy as np

    return np.lib.format.descr_to_dtype(ast.literal_eval(text) if text.startswith("[") else text)


def parts(name: str, array: np.ndarray) -> Parts:
    """An array's bytes and what they are; copied only if they are not in C order.

    Raises TypeError for arrays of Python objects, ValueError for one without a dimension.
    """
    import numpy as np

    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(f"{name!r} is a masked array, and its mask would be lost: put array.filled() or an Arrow table")
    if array.dtype.hasobject:
        raise TypeError(
            f"{name!r} is an array of Python objects, which have no bytes of their own: convert it to numbers, or to "
            "an Arrow table"
        )
    if array.ndim == 0:
        raise ValueError(f"{name!r} has no dimension: an array has rows")
    description = describe(name, array.dtype)
    array = np.require(array, requirements=["C", "A"])
    data = array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)
    return data, list(array.shape), _element(array.dtype), description


def column(name: str, array: np.ndarray) -> Parts:
    """The same for a column of a table: numbers, times and, with one dimension, booleans, as Arrow has them."""
    import numpy as np

    native = array.dtype.newbyteorder("=")
    if array.dtype.kind == "b" and array.ndim == 1:
        data, shape, _, description = parts(name, array)
        return data, shape, "bool", description
    if array.dtype.names or _element(native).startswith("bytes"):
        raise TypeError(
            f"column {name!r} is of type {array.dtype}, which has no Arrow type: make an Arrow table of the columns, "
            "for instance with pyarrow.table() or polars.DataFrame()"
        )
    if array.dtype.kind in "mM" and np.isnat(array).any():
        raise ValueError(
            f"column {name!r} has times that are NaT, and an array has no missing values in Arrow: make an Arrow table "
            "of the columns, for instance with pyarrow.table()"
        )
    return parts(name, array.astype(native, copy=False))


def view(pinned: Pinned, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A read-only array over bytes that are held as long as it lives."""
    import numpy as np

    if 0 in shape or dtype.itemsize == 0:
        array = np.empty(shape, dtype)
        array.flags.writeable = False
        return array
    return np.frombuffer(pinned, np.uint8).view(dtype).reshape(shape)
