"""Huge pages outside of the pool, from what `smaps` says."""

from __future__ import annotations

import pytest
from harness import pages

SMAPS = """\
7f0000000000-7f0040000000 rw-p 00000000 00:00 0
Size:            1048576 kB
Rss:              409600 kB
AnonHugePages:    401408 kB
ShmemPmdMapped:        0 kB
VmFlags: rd wr mr mw me ac hg
7f0040000000-7f0040021000 rw-p 00000000 00:00 0                          [heap]
Rss:                 132 kB
AnonHugePages:         0 kB
7f0080000000-7f0081000000 rw-p 00000000 00:00 0                          [anon:stack]
AnonHugePages:      4096 kB
"""


def test_huge_pages_of_all_mappings_are_added_up():
    assert pages.huge_bytes(SMAPS) == (401408 + 4096) * 1024


def test_a_kernel_without_huge_pages_is_no_zero():
    with pytest.raises(ValueError, match="AnonHugePages"):
        pages.huge_bytes("7f00-7f01 rw-p 0 00:00 0\nRss: 4 kB\n")


def test_the_pools_own_are_left_out():
    assert pages.outside_pool(lambda: SMAPS, lambda: 401408 * 1024) == 4 << 20


def test_a_pool_that_grows_meanwhile_is_looked_at_again():
    grown = iter([0, 401408 * 1024, 401408 * 1024, 401408 * 1024])
    assert pages.outside_pool(lambda: SMAPS, lambda: next(grown)) == 4 << 20
    assert next(grown, None) is None
