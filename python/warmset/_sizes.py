"""Sizes as people write them."""

from __future__ import annotations

import re

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    # As in Spark, a unit without the i is binary too.
    _UNITS.update({_letter: 1024**_power, f"{_letter}b": 1024**_power, f"{_letter}ib": 1024**_power})
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]*)\s*")


def parse_bytes(size: int | str) -> int:
    """Bytes of a size: a number of bytes, or text with a binary unit (KiB, MiB, GiB, TiB; KB and K mean the same).

    Raises ValueError for anything else.

    >>> parse_bytes("4GiB"), parse_bytes("1.5 MiB"), parse_bytes(512)
    (4294967296, 1572864, 512)
    >>> parse_bytes("4 apples")
    Traceback (most recent call last):
    ...
    ValueError: '4 apples' is not a size: write bytes or a unit, such as "512MiB" or "4GiB"
    """
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    found = _SIZE.fullmatch(size) if isinstance(size, str) else None
    unit = _UNITS.get(found.group(2).lower()) if found else None
    if found is None or unit is None:
        raise ValueError(f'{size!r} is not a size: write bytes or a unit, such as "512MiB" or "4GiB"')
    return int(float(found.group(1)) * unit)
