"""The engines that are compared: how Spark is configured for each, within the same total memory.

`memory_bytes` is what an engine may use for heap, off-heap pool and Warmset's pool together. What a JVM needs besides
(metaspace, code, stacks, the collector's tables) and the page cache come on top, from the memory cgroup, alike for all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.machine import ROOT

JAR = ROOT / "spark" / "target" / "warmset-spark_2.13-0.1.0.jar"
PYTHON_41 = ROOT / ".venv-41" / "bin" / "python"
PYTHON_42 = ROOT / ".venv" / "bin" / "python"
PYTHON_43 = ROOT / ".venv-43" / "bin" / "python"
ARROW = "org.apache.spark.sql.execution.columnar.ArrowCachedBatchSerializer"
MIB = 1 << 20
# Of a budget, what Warmset leaves to the Java heap: enough for Spark itself and the queries' hash tables.
HEAP_SHARE = 0.45
HEAP_BYTES_MIN = 640 * MIB
# What Warmset does for whole queries, each under a key of this name.
WHOLE_QUERIES = ("statistics", "joinFilters", "kernels")
# Engines that keep no blocks in memory that Spark manages.
ELSEWHERE = ("warmset", "parquet")
# The Arrow serialiser keeps its batches on the heap and reads them into direct memory: with all of the budget as heap
# it is killed at the group's limit.
ARROW_HEAP_SHARE = 0.75


@dataclass(frozen=True)
class Spec:
    """One engine: a name, its configuration, the level it caches at, the Python that has its Spark, and the module
    that answers in it.
    """

    name: str
    title: str
    conf: dict[str, str] = field(default_factory=dict)
    level: str | None = "MEMORY_AND_DISK_DESER"
    python: Path = PYTHON_42
    worker: str = "harness.worker"

    @property
    def is_warmset(self) -> bool:
        """Whether the plugin is on."""
        return "warmset" in self.conf.get("spark.plugins", "").lower()


def mib(size_bytes: float) -> str:
    """A size as Spark and the JVM read it."""
    return f"{int(size_bytes / MIB)}m"


def common(heap_bytes: float, cpus: int, scratch: Path) -> dict[str, str]:
    """What all engines have: local mode, a heap of that size, no user interface."""
    return {
        "spark.master": f"local[{cpus}]",
        "spark.driver.memory": mib(heap_bytes),
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # The results are small: each further partition costs files and tasks, and no query is faster for it.
        "spark.sql.shuffle.partitions": str(cpus),
        # The whole heap belongs to the budget: neither side may grow beyond it by committing lazily.
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -Xss4m",
        "spark.sql.session.timeZone": "UTC",
    }


def warmset(memory_bytes: float, cpus: int, scratch: Path, heap_bytes: float | None = None) -> Spec:
    """The plugin, with the budget split between the heap and the pool."""
    heap = heap_bytes or max(HEAP_BYTES_MIN, memory_bytes * HEAP_SHARE)
    return Spec(
        "warmset",
        "Warmset",
        {
            **common(heap, cpus, scratch),
            "spark.jars": str(JAR),
            "spark.driver.extraClassPath": str(JAR),
            "spark.plugins": "io.warmset.spark.WarmsetPlugin",
            "spark.warmset.memory": mib(memory_bytes - heap),
            "spark.warmset.dir": str(scratch),
            "spark.warmset.required": "true",
        },
    )


def stock(memory_bytes: float, cpus: int, scratch: Path) -> Spec:
    """`df.cache()` as Spark ships it."""
    return Spec("stock", "stock, compressed", common(memory_bytes, cpus, scratch))


def uncompressed(memory_bytes: float, cpus: int, scratch: Path) -> Spec:
    """The default serialiser without its compression."""
    conf = {"spark.sql.inMemoryColumnarStorage.compressed": "false"}
    return Spec("uncompressed", "stock, uncompressed", {**common(memory_bytes, cpus, scratch), **conf})


def arrow(memory_bytes: float, cpus: int, scratch: Path) -> Spec:
    """The Arrow serialiser of Spark 4.3."""
    conf = {"spark.sql.cache.serializer": ARROW}
    heap = memory_bytes * ARROW_HEAP_SHARE
    return Spec("arrow", "stock 4.3, Arrow", {**common(heap, cpus, scratch), **conf}, python=PYTHON_43)


def parquet(memory_bytes: float, cpus: int, scratch: Path) -> Spec:
    """No cache: the Parquet files are read again for each query, through the page cache."""
    heap = max(HEAP_BYTES_MIN, memory_bytes * HEAP_SHARE)
    return Spec("parquet", "Parquet, no cache", common(heap, cpus, scratch), level=None)


def for_small_heap(spec: Spec) -> Spec:
    """The same engine, with small blocks if it keeps blocks on the heap.

    With the default of 128 MiB of Parquet per partition, a small heap could keep hardly any of them. Engines that keep
    their data elsewhere are faster with fewer and larger partitions.
    """
    if spec.name in ELSEWHERE:
        return spec
    return replace(spec, conf={**spec.conf, "spark.sql.files.maxPartitionBytes": "24m"})


MAKERS = {maker.__name__: maker for maker in (warmset, stock, uncompressed, arrow, parquet)}
