"""How an engine is set: what the search varies, and Spark's configuration that follows.

Each engine has one total, the limit of its memory cgroup. What the heap leaves of it is page cache for stock Spark (for
the blocks that it put on disk, and for Parquet files), and the pool for Warmset.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from harness import engines, search
from harness.engines import WHOLE_QUERIES, Spec
from harness.machine import ROOT

MIB = 1 << 20
PEER_PYTHON = ROOT / ".venv-peers" / "bin" / "python"
# The Makefile downloads it, and knows its checksum. Of Spark 4.2 there is none yet.
COMET_VERSION = "1.2.0"
COMET_JAR = ROOT / "target" / "peers" / f"comet-spark-spark4.1_2.13-{COMET_VERSION}.jar"
# Spark starts with no less; the Parallel collector's survivor space does not count.
HEAP_BYTES_MIN = 528 * MIB
# What is left of the limit beside heap and pool: for the JVM's metaspace, direct buffers, the collector's tables, code,
# threads; for the Python driver; for the pages of their files. With 512 MiB Warmset, stock Spark and Parquet were all
# killed at the limit (at q5, while caching `lineitem`, at q21). The collector's tables grow with the heap: with 640 MiB
# beside a heap of 4.7 GiB, all of it touched, Warmset was killed in its second pass.
NATIVE_BYTES_MIN, NATIVE_SHARE = 640 * MIB, 1 / 8
# What Warmset has beside its pool for two tasks that aggregate. `ContainerRule` counts 96 MiB, with which it was killed
# at q16 of a second pass (with none at q17, with 64 at q20 of a third).
TASKS_BYTES = 160 * MIB
PAGE_BYTES = 4 * MIB - 16
POOL_BYTES_MIN = 48 * MIB
# Of its memory limit, what DuckDB is told to use; it needs some beside it.
DUCKDB_SHARE = 0.8
# Of the limit less native memory, Comet's heap: its tuning guide's benchmark has as much heap as off-heap memory, which
# holds hash tables and sorts here, too.
COMET_HEAP_SHARE = 0.5
LEVELS = {"off_heap": "OFF_HEAP", "disk_only": "DISK_ONLY", "parquet": None}
TITLES = {
    "warmset": "Warmset",
    "stock": "stock `cache()`",
    "uncompressed": "stock, uncompressed",
    "off_heap": "stock `OFF_HEAP`",
    "disk_only": "stock `DISK_ONLY`",
    "arrow": "stock 4.3, Arrow",
    "parquet": "Parquet, no cache",
    "duckdb": "DuckDB over Parquet",
    "polars": "Polars over Parquet",
    "comet": "Comet over Parquet",
}
ENGINES = ("stock", "uncompressed", "off_heap", "disk_only", "arrow", "parquet")
COLLECTORS = ("Parallel", "G1")
# Of the limit less native memory, as heap: engines whose blocks are elsewhere do with less. Parquet has none, and no
# use for page cache in a cgroup that its files are not charged to.
ON_HEAP, ELSEWHERE = (0.92, 1.0, 0.8), (0.8, 0.7, 0.92)
HEAPS = {
    "stock": ON_HEAP, "uncompressed": ON_HEAP, "arrow": (0.7, 0.8, 0.62), "off_heap": (0.35, 0.5, 0.7),
    "parquet": (1.0, 0.8, 0.92),
}  # fmt: skip
# Stock Spark unrolls a block into direct buffers before it counts it as off-heap memory: as much is left to that, or
# half of what the heap leaves, where it leaves less than twice that.
UNROLL_BYTES = 512 * MIB
WARMSET_HEAPS = (0.72, 0.6, 0.8)


def native_bytes(limit_bytes: int) -> int:
    """What is left of a memory limit beside heap and pool."""
    return max(NATIVE_BYTES_MIN, int(limit_bytes * NATIVE_SHARE))


@dataclass(frozen=True)
class Setting:
    """One way to set an engine; the defaults are Spark's, but for the collector.

    Below 1792 MiB and two processors the JVM itself would choose the serial collector, which is the worst of all.
    """

    engine: str
    heap_share: float
    collector: str = "Parallel"
    memory_fraction: float = 0.6
    storage_fraction: float = 0.5
    batch_rows: int = 10000
    codec: str = "lz4"
    partition_mib: int = 24
    shuffle_partitions: int = 8
    whole_queries: bool = False

    def heap_bytes(self, limit_bytes: int) -> int:
        """The heap, in whole MiB."""
        return max(HEAP_BYTES_MIN, int((limit_bytes - native_bytes(limit_bytes)) * self.heap_share) // MIB * MIB)

    def moved(self, limit_bytes: int, to_bytes: int) -> Setting:
        """This setting in another limit, with the heap that it has in `limit_bytes`."""
        heap_bytes = self.heap_bytes(limit_bytes) + MIB // 2
        return replace(self, heap_share=heap_bytes / (to_bytes - native_bytes(to_bytes)))

    def pool_bytes(self, limit_bytes: int) -> int:
        """What is left for a pool beside heap and native memory."""
        beside = native_bytes(limit_bytes) + (TASKS_BYTES if self.engine == "warmset" else 0)
        return max(POOL_BYTES_MIN, limit_bytes - self.heap_bytes(limit_bytes) - beside)

    def raw(self) -> dict:
        """For the raw results."""
        return asdict(self)

    def title(self, limit_bytes: int) -> str:
        """What was chosen, for people."""
        pool = f" and pool {self.pool_bytes(limit_bytes) // MIB}" if self.engine == "warmset" else ""
        whole = f", {', '.join(WHOLE_QUERIES)}" if self.whole_queries else ""
        return (
            f"heap {self.heap_bytes(limit_bytes) // MIB}{pool} MiB, {self.collector}, "
            f"memory.fraction {self.memory_fraction:g}, storageFraction {self.storage_fraction:g}, "
            f"batches of {self.batch_rows}, {self.codec}, partitions of {self.partition_mib} MiB, "
            f"{self.shuffle_partitions} after a shuffle{whole}"
        )


def knobs(engine: str) -> dict[str, tuple]:
    """What may be varied for the engine; the first of each is where the search starts."""
    found: dict[str, tuple] = {
        "heap_share": WARMSET_HEAPS if engine == "warmset" else HEAPS.get(engine, ELSEWHERE),
        "collector": COLLECTORS,
        "memory_fraction": (0.6, 0.7, 0.5),
        "shuffle_partitions": (8, 2, 24),
        "partition_mib": (24, 64, 128),
    }
    if engine != "parquet":
        found["batch_rows"] = (10000, 20000, 5000)
    if engine in ("stock", "uncompressed", "arrow"):
        found["storage_fraction"] = (0.5, 0.3, 0.8)
    if engine == "warmset":
        found["whole_queries"] = (False, True)
    if engine not in ("warmset", "parquet"):
        found["codec"] = ("lz4", "zstd", "none")
    return found


def drawn(engine: str, count: int) -> list[Setting]:
    """The default setting, and others that each change a part of its knobs at random; the same ones in every run."""
    values = knobs(engine)
    first = Setting(engine, **{name: each[0] for name, each in values.items()})
    return search.drawn(f"spark-sql/{engine}", first, values, count)


def spec(setting: Setting, limit_bytes: int, cpus: int, scratch: Path) -> Spec:
    """The engine as `harness.process` starts it."""
    heap, pool = setting.heap_bytes(limit_bytes), setting.pool_bytes(limit_bytes)
    name = setting.engine
    if name == "warmset":
        made = engines.warmset(heap + pool, cpus, scratch, heap)
        whole = {f"spark.warmset.{part}.enabled": str(setting.whole_queries).lower() for part in WHOLE_QUERIES}
        made = replace(made, conf=made.conf | whole)
    else:
        made = Spec(name, TITLES[name], engines.common(heap, cpus, scratch))
    conf = {
        **made.conf,
        "spark.driver.extraJavaOptions": f"{made.conf['spark.driver.extraJavaOptions']} -XX:+Use{setting.collector}GC",
        "spark.memory.fraction": str(setting.memory_fraction),
        "spark.memory.storageFraction": str(setting.storage_fraction),
        "spark.sql.inMemoryColumnarStorage.batchSize": str(setting.batch_rows),
        "spark.sql.files.maxPartitionBytes": f"{setting.partition_mib}m",
        "spark.sql.shuffle.partitions": str(setting.shuffle_partitions),
        # As Warmset sets it by itself (`PageRule`): stock `cache()` gains 6 % by it at `fits`, Parquet nothing.
        "spark.buffer.pageSize": str(PAGE_BYTES),
        # Blocks that are serialised or on disk; 10 MiB is the largest table that is broadcast, as Spark has it.
        "spark.rdd.compress": str(setting.codec != "none").lower(),
    }
    if setting.codec != "none":
        conf["spark.io.compression.codec"] = setting.codec
    if not setting.whole_queries:
        # Spark's own runtime filters at every size; by default only scans of 10 GB have them. TPC-H over Parquet takes
        # 83 s with them in a steady pass over twelve queries, 100 s without.
        conf["spark.sql.optimizer.runtime.bloomFilter.applicationSideScanSizeThreshold"] = "0"
    if name == "uncompressed":
        conf["spark.sql.inMemoryColumnarStorage.compressed"] = "false"
    if name == "off_heap":
        size = max(POOL_BYTES_MIN, pool // 2, pool - UNROLL_BYTES)
        conf |= {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": engines.mib(size)}
    if name == "arrow":
        conf["spark.sql.cache.serializer"] = engines.ARROW
    python = engines.PYTHON_43 if name == "arrow" else made.python
    return replace(made, conf=conf, level=LEVELS.get(name, made.level), python=python)


def peer(name: str, limit_bytes: int, cpus: int, scratch: Path) -> Spec:
    """An engine that a user would pick instead: it keeps no cache, and no setting of it is searched."""
    if name == "comet":
        return comet(limit_bytes, cpus, scratch)
    conf = {"engine": name}
    if name == "duckdb":
        memory = f"{int(limit_bytes * DUCKDB_SHARE) >> 20}MiB"
        conf |= {"memory_limit": memory, "threads": str(cpus), "temp_directory": str(scratch / "duckdb-spill")}
    return Spec(name, TITLES[name], conf, level=None, python=PEER_PYTHON, worker="harness.peer")


def comet(limit_bytes: int, cpus: int, scratch: Path) -> Spec:
    """Stock Spark 4.1 with Comet: native scans, shuffles and operators wherever it has them, else Spark's own.

    Its own shuffle, and all native memory from the off-heap pool. Joins stay sort-merge joins, which can spill: with
    `forceShuffledHashJoin` Q7 ran out of off-heap memory at scale 2.7 in 1536 MiB. It fails if its library can't be
    loaded, which it would otherwise pass over.
    """
    setting = Setting("comet", COMET_HEAP_SHARE, partition_mib=64)
    made = spec(setting, limit_bytes, cpus, scratch)
    conf = {
        **made.conf,
        "spark.jars": str(COMET_JAR),
        "spark.driver.extraClassPath": str(COMET_JAR),
        "spark.plugins": "org.apache.spark.CometPlugin",
        "spark.comet.nativeLoadRequired": "true",
        "spark.shuffle.manager": "org.apache.spark.sql.comet.execution.shuffle.CometShuffleManager",
        "spark.memory.offHeap.enabled": "true",
        "spark.memory.offHeap.size": engines.mib(setting.pool_bytes(limit_bytes)),
    }
    return replace(made, conf=conf, level=None, python=engines.PYTHON_41)
