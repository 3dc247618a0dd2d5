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


def describe(dtype: np.dtype) -> str:
    """Text that `dtype_of` makes the same type of."""
    return repr(dtype.descr) if dtype.names else dtype.str


def dtype_of(text: str) -> np.dtype:
    """The type of a description."""
    import ast

    import numpy as np

    return np.dtype(ast.literal_eval(text) if text.startswith("[") else text)


def parts(name: str, array: np.ndarray) -> Parts:
    """An array's bytes and what they are; copied only if they are not in C order.

    Raises TypeError for arrays of Python objects, ValueError for one without a dimension.
    """
    import numpy as np

    if array.dtype.hasobject:
        raise TypeError(
            f"{name!r} is an array of Python objects, which have no bytes of their own: convert it to numbers, or to "
            "an Arrow table"
        )
    if array.ndim == 0:
        raise ValueError(f"{name!r} has no dimension: an array has rows")
    array = np.require(array, requirements=["C", "A"])
    data = array.reshape(-1).view(np.uint8) if array.nbytes else np.empty(0, np.uint8)
    return data, list(array.shape), _element(array.dtype), describe(array.dtype)


def column(name: str, array: np.ndarray) -> Parts:
    """The same for a column of a table, where Arrow's own types are wanted."""
    if array.dtype.kind in "SUO" or array.dtype.names:
        raise TypeError(
            f"column {name!r} is of type {array.dtype}, which has no Arrow type: make an Arrow table of the columns, "
            "for instance with pyarrow.table() or polars.DataFrame()"
        )
    return parts(name, array)


def view(pinned: Pinned, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """A read-only array over bytes that are held as long as it lives."""
    import numpy as np

    if 0 in shape or dtype.itemsize == 0:
        array = np.empty(shape, dtype)
        array.flags.writeable = False
        return array
    return np.frombuffer(pinned, np.uint8).view(dtype).reshape(shape)
