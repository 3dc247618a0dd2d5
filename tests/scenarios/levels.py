"""Names that tests are parametrised over; imports nothing of Spark."""

from __future__ import annotations

MEMORY_LEVELS = (
    "MEMORY_ONLY",
    "MEMORY_ONLY_2",
    "MEMORY_AND_DISK",
    "MEMORY_AND_DISK_2",
    "MEMORY_AND_DISK_DESER",
    "OFF_HEAP",
)
DISK_LEVELS = ("DISK_ONLY", "DISK_ONLY_2", "DISK_ONLY_3")
