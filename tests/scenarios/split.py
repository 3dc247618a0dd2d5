"""One budget for heap and pool: scans that outgrow the pool, a heap that grows by itself, and the sum meanwhile."""

from __future__ import annotations

import gc
import threading
import time
from typing import TYPE_CHECKING, Any

from scenarios.rdds import persisted_rows
from scenarios.regions import count, left_after_collection, stats

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

KEYS = (
    "heap_committed_bytes",
    "heap_allowed_bytes",
    "pool_bytes",
    "budget_bytes",
    "total_budget_bytes",
    "split_moves_total",
    "split_collections_total",
)
# How long scans wait for what they look for.
SCANS_SECONDS_MAX = 120.0


class Sampler:
    """Takes the store's statistics over and over while a job runs."""

    def __init__(self, spark: SparkSession) -> None:
        self.samples: list[dict[str, Any]] = []
        self._spark = spark
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def _run(self) -> None:
        began = time.monotonic()
        while not self._over.wait(0.05):
            seen = stats(self._spark) or {}
            self.samples.append({key: seen[key] for key in KEYS} | {"seconds": time.monotonic() - began})

    def __enter__(self) -> list[dict[str, Any]]:
        self._thread.start()
        return self.samples

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()


def cached(spark: SparkSession, mebibytes: int) -> DataFrame:
    """A cached frame of random longs, which do not get smaller, of about so many MiB."""
    columns = [f"xxhash64(id, {n}) as c{n}" for n in range(8)]
    frame = spark.range(0, mebibytes << 14, 1, 8).selectExpr(*columns)
    frame.cache().count()
    return frame


def scans(
    spark: SparkSession, mebibytes: int, seconds: float, heap_mebibytes: int = 0, until: dict[str, int] | None = None
) -> dict[str, Any]:
    """Scans a cached frame again and again, after a heap that has grown to hold so much and dropped it.

    With `until` it goes on, for two minutes at most, until a sample has no more than `until["heap_bytes"]` of heap and
    no less than `until["budget_bytes"]` of budget: a busy machine's collector gives memory back late.
    """

    def is_there() -> bool:
        return until is None or any(
            each["heap_committed_bytes"] <= until["heap_bytes"] and each["budget_bytes"] >= until["budget_bytes"]
            for each in samples
        )

    passes = 0
    held = [spark._jvm.java.nio.ByteBuffer.allocate(8 << 20) for _ in range(heap_mebibytes // 8)]
    del held
    with Sampler(spark) as samples:
        frame = cached(spark, mebibytes)
        began = time.monotonic()
        while (now := time.monotonic() - began) < seconds or (now < SCANS_SECONDS_MAX and not is_there()):
            # Another query each time: the same one would reuse its finished stages.
            frame.selectExpr(*[f"bit_xor(c{n} + {passes})" for n in range(8)]).collect()
            passes += 1
    frame.unpersist(blocking=True)
    return {"passes": passes, "samples": samples}


def grows(spark: SparkSession, mebibytes: int, live_mebibytes: int) -> dict[str, Any]:
    """Fills the pool, then has the heap grow by itself."""
    frame = cached(spark, mebibytes)
    right = frame.count()
    with Sampler(spark) as samples:
        held = spark._jvm.java.util.ArrayList()
        for _ in range(live_mebibytes // 16):
            held.add(spark._jvm.java.nio.ByteBuffer.allocate(16 << 20))
            time.sleep(0.05)
        after = settled(spark)
    again = frame.count()
    del held
    frame.unpersist(blocking=True)
    return {"right": right == again, "samples": samples, "after": {key: after[key] for key in KEYS}}


def settled(spark: SparkSession, seconds_max: float = 20.0) -> dict[str, Any]:
    """The statistics once heap and pool are within their total: the pool writes what is dirty before it yields."""
    end = time.monotonic() + seconds_max
    while True:
        time.sleep(0.5)
        now = stats(spark) or {}
        if now["heap_committed_bytes"] + now["pool_bytes"] <= now["total_budget_bytes"] or time.monotonic() > end:
            return now


def outgrown(spark: SparkSession, mebibytes: int, yields_mebibytes: int, seconds_max: float = 120.0) -> dict[str, Any]:
    """Direct buffers take what a container has left, 16 MiB after 16 MiB, until the pool, which a cached frame fills,
    has yielded so much; then they are garbage, which only a collection frees."""
    native = spark._jvm.io.warmset.region.NativeStore

    def left() -> int:
        return native.memoryLimit() - native.memoryBeside(0)

    def wait(is_there: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        end = time.monotonic() + seconds_max
        while not is_there(now := stats(spark) or {}):
            if time.monotonic() > end:
                raise TimeoutError(f"{left()} bytes are left, the pool has {now}")
            time.sleep(0.05)
        return now

    frame = cached(spark, mebibytes)
    before = frame.selectExpr("bit_xor(c0)").collect()[0][0]
    start = stats(spark) or {}
    held = []
    least = start
    while least["budget_bytes"] > start["budget_bytes"] - (yields_mebibytes << 20):
        held.append(spark._jvm.java.nio.ByteBuffer.allocateDirect(16 << 20))
        least = wait(lambda _: left() >= 32 << 20)
    after = frame.selectExpr("bit_xor(c0 + 1 - 1)").collect()[0][0]
    del held
    gc.collect()

    def is_back(now: dict[str, Any]) -> bool:
        # A pool that nobody reads is content with less.
        frame.selectExpr("bit_xor(c0)").collect()
        return now["budget_bytes"] == start["budget_bytes"]

    back = wait(is_back)
    frame.unpersist(blocking=True)
    return {"right": before == after, "start": start, "least": least, "back": back}


def sheds(spark: SparkSession, rows: int, mebibytes: int, seconds: float) -> dict[str, Any]:
    """Objects that nobody reads fill the heap; a cached frame that outgrows the pool is scanned."""
    objects = persisted_rows(spark.range(0, rows, 1, 16).selectExpr("id", "'n' || id as s"))
    objects.count()

    def on_heap() -> int:
        context = spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        infos = context.getRDDStorageInfo()
        return next(info.memSize() for info in infos if info.id() == objects.id())

    before, regions = on_heap(), count(spark)
    frame = cached(spark, mebibytes)
    passes, end = 0, time.monotonic() + seconds
    while time.monotonic() < end and on_heap() > before * 3 // 4:
        frame.selectExpr(*[f"bit_xor(c{n} + {passes})" for n in range(8)]).collect()
        passes += 1
    after, right = on_heap(), objects.count() == rows
    frame.unpersist(blocking=True)
    seen = {"before": before, "after": after, "regions": regions, "right": right}
    objects.unpersist(True)
    return {**seen, "left": left_after_collection(spark)}


def memory(spark: SparkSession) -> dict[str, Any]:
    """The statistics of now."""
    time.sleep(1.5)
    return stats(spark) or {}
