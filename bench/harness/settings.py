"""How an engine that trains is set: heap, collector, serialiser and so on, for Warmset a pool, all within one total.

The total is the limit of the memory cgroup. What the heap leaves of it, stock Spark has as page cache for the blocks it
put on disk; Warmset has it as pool. Either needs some of it beside both: metaspace, code, stacks, the collector's
tables, the Python driver.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path

from harness import engines
from harness.engines import Spec
from harness.machine import ROOT

MIB = 1 << 20
JOBS_JAR = ROOT / "target" / "bench-jobs" / "warmset-bench-jobs_2.13-0.1.0.jar"
# MLlib's blocks are arrays of 1 MiB: they would be more than half of G1's usual regions, which costs it dear.
G1 = "-XX:+UseG1GC -XX:G1HeapRegionSize=4m"
COLLECTORS = {
    "G1": G1,
    "Parallel": "-XX:+UseParallelGC",
    # A small heap is always past G1's usual threshold while Parquet is read, and marking would not stop.
    "G1 late": f"{G1} -XX:-G1UseAdaptiveIHOP -XX:InitiatingHeapOccupancyPercent=80",
}
# Warmset's first is its guide's for small heaps: with plain G1 in 512 MiB, marking takes 0.2 to 19 s of a fit's
# processor time.
COLLECTORS_TRIED = {"stock": tuple(COLLECTORS), "warmset": ("G1 late", "Parallel")}
SERIALISERS = {
    "java": "org.apache.spark.serializer.JavaSerializer",
    "kryo": "org.apache.spark.serializer.KryoSerializer",
}
# Spark starts with no less.
HEAP_BYTES_MIN = 512 * MIB
# What Warmset's pool leaves to the JVM beside its heap (430 MiB: metaspace 150, direct buffers 65, collector, symbols,
# code, threads), to the native BLAS (about 50), to the Python driver (65), and to the pages of their files.
NATIVE_BYTES = 640 * MIB
POOL_BYTES_MIN = 32 * MIB
# Of the total less native memory, the heaps that are tried: stock Spark's smaller ones leave it page cache, its largest
# none (with less than 512 MiB beside the heap the kernel killed it), Warmset's leave it a pool.
HEAPS = {"stock": (1.0, 0.82, 0.63), "warmset": (0.2, 0.38, 0.57)}
# Of the heap, as young generation, where that is tried; the collector itself takes a third. What stock Spark keeps in
# memory has to fit into the old one.
YOUNG_PERCENT = {"stock": 45, "warmset": 70}


@dataclass(frozen=True)
class Setting:
    """One way to set an engine."""

    engine: str
    total_bytes: int
    heap_bytes: int
    collector: str = "G1"
    serialiser: str = "java"
    # Of the RDD of objects; MLlib's trainers choose theirs.
    level: str = "MEMORY_AND_DISK"
    # Of blocks on disk and serialised ones: `spark.rdd.compress`, which Spark 4.3 does. Warmset's regions are not.
    compressed: bool = True
    codec: str = "lz4"
    # Kryo's: what holds no object twice does without.
    reference_tracking: bool = True
    memory_fraction: float = 0.6
    storage_fraction: float = 0.5
    # Of the heap; 0: as the collector has it.
    young_percent: int = 0
    # Of Warmset: heap and pool share one budget, and what fits stays on the heap.
    heap_first: bool = False

    @property
    def pool_bytes(self) -> int | None:
        """Warmset's pool."""
        if self.engine != "warmset":
            return None
        return max(POOL_BYTES_MIN, self.total_bytes - self.heap_bytes - NATIVE_BYTES)

    @property
    def title(self) -> str:
        """For people."""
        pool = "" if self.pool_bytes is None else f" + {self.pool_bytes >> 20}m"
        pool += " shared" if self.heap_first else ""
        kept = " serialised" if self.level.endswith("_SER") else ""
        if not self.compressed:
            kept += " not compressed"
        elif self.codec != "lz4":
            kept += f" {self.codec}"
        if self.serialiser == "kryo" and not self.reference_tracking:
            kept += " no references"
        if (self.memory_fraction, self.storage_fraction) != (0.6, 0.5):
            kept += f" memory.fraction {self.memory_fraction:g} storageFraction {self.storage_fraction:g}"
        young = f" young {self.young_percent}%" if self.young_percent else ""
        return f"{self.engine} {self.heap_bytes >> 20}m{pool} {self.collector}{young} {self.serialiser}{kept}"

    def raw(self) -> dict:
        """For the raw results."""
        return {**asdict(self), "pool_bytes": self.pool_bytes}

    def within(self, total_bytes: int) -> Setting:
        """The same choice in another total: stock's heap keeps its share, Warmset's keeps its size."""
        share = self.heap_bytes / self.total_bytes
        heap = int(total_bytes * share) if self.engine == "stock" else self.heap_bytes
        return replace(self, total_bytes=total_bytes, heap_bytes=max(HEAP_BYTES_MIN, heap))

    def for_fits(self, total_bytes: int) -> Setting:
        """Stock's choice where everything fits: objects, on a heap that is all but native memory."""
        heap = total_bytes - NATIVE_BYTES
        return replace(self, total_bytes=total_bytes, heap_bytes=heap, level="MEMORY_AND_DISK", young_percent=0)

    def with_plugin(self) -> Setting:
        """Stock's choice, with Warmset in it: heap and pool together are what the heap was."""
        return replace(self, engine="warmset", heap_bytes=self.heap_bytes - POOL_BYTES_MIN, heap_first=True)

    def spec(self, cpus: int, scratch: Path, file_bytes: int) -> Spec:
        """The engine. Each file of the data becomes one partition."""
        if self.engine == "warmset":
            made = engines.warmset(self.heap_bytes + self.pool_bytes, cpus, scratch, self.heap_bytes)
            jars = [engines.JAR, JOBS_JAR]
            ours = {"spark.warmset.rdd.enabled": "true"}
            if self.heap_first:
                del made.conf["spark.warmset.memory"]
                ours["spark.warmset.totalMemory"] = engines.mib(self.heap_bytes + self.pool_bytes)
        else:
            made = Spec("stock", "stock", engines.common(self.heap_bytes, cpus, scratch))
            jars, ours = [JOBS_JAR], {}
        options = f"{made.conf['spark.driver.extraJavaOptions']} {COLLECTORS[self.collector]}"
        if self.young_percent:
            options += f" -Xmn{(self.heap_bytes * self.young_percent // 100) >> 20}m"
        if self.heap_first and self.collector == "Parallel":
            # Without it this collector's heap gives nothing back, and the split would stay as it starts.
            options += " -XX:+UseAdaptiveSizePolicyWithSystemGC"
        conf = {
            **made.conf,
            **ours,
            "spark.driver.extraJavaOptions": options,
            "spark.serializer": SERIALISERS[self.serialiser],
            # Kryo writes the name of a class that it was not told of with each object.
            "spark.kryo.classesToRegister": "io.warmset.bench.Reading",
            "spark.kryo.referenceTracking": str(self.reference_tracking).lower(),
            "spark.rdd.compress": str(self.compressed).lower(),
            "spark.io.compression.codec": self.codec,
            "spark.memory.fraction": str(self.memory_fraction),
            "spark.memory.storageFraction": str(self.storage_fraction),
            "spark.bench.level": self.level,
            "spark.jars": ",".join(map(str, jars)),
            "spark.driver.extraClassPath": ":".join(map(str, jars)),
            "spark.sql.files.maxPartitionBytes": str(file_bytes + MIB),
        }
        # Spark 4.2 takes a configuration again for every number of a vector that a trainer checks: four times slower.
        return replace(made, conf=conf, worker="harness.trainer", python=engines.PYTHON_43)


def with_heap(engine: str, total_bytes: int, share: float) -> Setting:
    """That share of the total less native memory as heap, rounded to 16 MiB."""
    heap = int((total_bytes - NATIVE_BYTES) * share) // (16 * MIB) * 16 * MIB
    return Setting(engine, total_bytes, max(HEAP_BYTES_MIN, heap))


def heaps(engine: str, total_bytes: int) -> list[Setting]:
    """The heaps that are tried; the search starts with the first."""
    return list(dict.fromkeys(with_heap(engine, total_bytes, share) for share in HEAPS[engine]))


def knobs(engine: str, name: str, total_bytes: int) -> dict[str, tuple]:
    """What may be varied for an engine in a workload; the first of each is where the search starts."""
    found: dict[str, tuple] = {
        "heap_bytes": tuple(each.heap_bytes for each in heaps(engine, total_bytes)),
        "collector": COLLECTORS_TRIED[engine],
        "memory_fraction": (0.6, 0.75, 0.45),
        "storage_fraction": (0.5, 0.3, 0.8),
    }
    if engine == "stock":
        found |= {
            "serialiser": tuple(SERIALISERS), "reference_tracking": (True, False), "compressed": (True, False),
            "codec": ("lz4", "zstd", "snappy"),
        }  # fmt: skip
    if name == "objects":
        found["young_percent"] = (0, YOUNG_PERCENT[engine])
        if engine == "stock":
            found["level"] = ("MEMORY_AND_DISK", "MEMORY_AND_DISK_SER")
    return found


def known(engine: str, name: str, total_bytes: int) -> list[Setting]:
    """What was best in earlier runs, or is what an expert would try first: all of them take part in the search."""
    each = {share: with_heap(engine, total_bytes, share) for share in HEAPS[engine]}
    large, middle = (each[share] for share in HEAPS[engine][:2])
    young = {"collector": "Parallel", "young_percent": YOUNG_PERCENT[engine]}
    if engine == "warmset":
        parallel = replace(each[min(each)], collector="Parallel")
        return [replace(each[max(each)], **young), parallel] if name == "objects" else [parallel]
    kryo = {"serialiser": "kryo", "reference_tracking": False}
    if name == "objects":
        bytes_ = {**kryo, "level": "MEMORY_AND_DISK_SER"}
        return [
            replace(middle, **young, **bytes_),
            replace(large, collector="Parallel", compressed=False, memory_fraction=0.75, **bytes_),
        ]
    return [
        replace(large, collector="Parallel", compressed=False, **kryo),
        replace(large, collector="G1 late", compressed=False, **kryo),
        replace(middle, collector="Parallel", compressed=False, memory_fraction=0.75, **kryo),
        replace(large, collector="Parallel", compressed=False, memory_fraction=0.8, **kryo),
    ]


def from_raw(raw: dict) -> Setting:
    """A setting as `raw` wrote it."""
    return Setting(**{each.name: raw[each.name] for each in fields(Setting) if each.name in raw})
