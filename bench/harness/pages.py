"""What the kernel says about huge pages: those of a whole process, and those outside of the store's pool."""

from __future__ import annotations

from collections.abc import Callable


def huge_bytes(smaps: str) -> int:
    """Bytes on transparent huge pages, over all mappings of a process's `smaps`."""
    found = [line.split() for line in smaps.splitlines() if line.startswith("AnonHugePages:")]
    if not found:
        raise ValueError("smaps has no line AnonHugePages: the kernel has no transparent huge pages")
    return sum(int(kib) * 1024 for _, kib, _ in found)


def outside_pool(smaps: Callable[[], str], pool_huge_bytes: Callable[[], int]) -> int:
    """Bytes on huge pages outside of the pool, whose own the store knows from the same file, by the pool's addresses.

    The pool may be faulting frames while it is looked at: the two looks are repeated until they belong together.
    """
    while True:
        before = pool_huge_bytes()
        everything = huge_bytes(smaps())
        if pool_huge_bytes() == before:
            return max(0, everything - before)
