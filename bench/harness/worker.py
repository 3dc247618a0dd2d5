"""The child: one Spark session in local mode that answers requests, one JSON object per line.

It measures and reports; it decides nothing. Requests and answers are described at each `on_` function.
"""

from __future__ import annotations

import json
import os
import re
import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.storagelevel import StorageLevel

from harness import pages
from harness.serving import plain, serve

LEVELS = {
    "MEMORY_AND_DISK_DESER": StorageLevel(True, True, False, True),
    "MEMORY_AND_DISK": StorageLevel(True, True, False, False),
    "OFF_HEAP": StorageLevel(True, True, True, False),
    "DISK_ONLY": StorageLevel(True, False, False, False),
    "MEMORY_ONLY": StorageLevel(False, True, False, True),
}
# The start of the `stat` of a thread of HotSpot's compilers.
COMPILER = re.compile(r"\d+ \(C[12] ")
# The summary that ends Comet's explanation of a plan.
ACCELERATED = re.compile(r"Comet accelerated (\d+) out of (\d+) eligible operators")

# 14 doubles, 5 longs, 2 integers and a string; the values repeat from run to run.
WIDE = [
    *[f"rand({column}) * {column + 1} as d{column}" for column in range(14)],
    *[f"cast(rand({column + 100}) * 1e15 as bigint) as l{column}" for column in range(4)],
    "id",
    "cast(id % 1000 as int) as i0",
    "cast(rand(200) * 1e9 as int) as i1",
    "concat('key-', cast(id % 5000 as string)) as s0",
]


class Worker:
    """Holds the session and the cached tables between requests."""

    def __init__(self) -> None:
        self.spark: SparkSession | None = None
        self.cached: dict[str, DataFrame] = {}
        self.asked = 0

    def on_start(self, conf: dict[str, str]) -> dict:
        """Starts the session with this configuration."""
        builder = SparkSession.builder
        for key, value in conf.items():
            builder = builder.config(key, value)
        self.spark = builder.getOrCreate()
        self.spark.sparkContext.setLogLevel("WARN")
        return {"version": self.spark.version}

    def on_table(self, name: str, path: str) -> dict:
        """Makes a Parquet directory known as a view."""
        self.spark.read.parquet(path).createOrReplaceTempView(name)
        return {}

    def on_cache(self, name: str, query: str, level: str) -> dict:
        """Materialises the query's rows under that name; answers with the time and the rows."""
        frame = self.spark.sql(query)
        frame.persist(LEVELS[level])
        before = self.reading()
        rows = frame.count()
        measured = self.since(before)
        frame.createOrReplaceTempView(name)
        self.cached[name] = frame
        return {**measured, "rows": rows, "storage": self.storage()}

    def on_wide(self, name: str, rows: int, level: str | None, partitions: int | None = None) -> dict:
        """Materialises a made-up frame of 22 columns, as PySpark users cache one; a view if `level` is `None`.

        As many partitions as cores, unless told how many.
        """
        frame = self.spark.range(0, rows, 1, partitions).selectExpr(*WIDE)
        if level is None:
            frame.createOrReplaceTempView(name)
            return {}
        frame.persist(LEVELS[level])
        before = self.reading()
        counted = frame.count()
        measured = self.since(before)
        frame.createOrReplaceTempView(name)
        self.cached[name] = frame
        return {**measured, "rows": counted, "storage": self.storage()}

    def on_uncache(self, name: str) -> dict:
        """Forgets a cached table, and waits for that."""
        self.cached.pop(name).unpersist(blocking=True)
        return {}

    def on_query(self, text: str) -> dict:
        """Runs a query as a new object; answers with its rows and what it cost."""
        self.asked += 1
        context = self.spark.sparkContext
        context.setJobGroup(f"query-{self.asked}", text)
        before = self.reading()
        frame = self.spark.sql(text)
        rows = frame.collect()
        measured = self.since(before)
        found = {**measured, **self.tasks(f"query-{self.asked}"), "rows": [list(map(plain, row)) for row in rows]}
        return found | self.native(frame)

    def native(self, frame: DataFrame) -> dict:
        """With Comet, how many of the operators of the plan that was run are its own; nothing without it."""
        if "comet" not in self.plugins():
            return {}
        plan = frame._jdf.queryExecution().executedPlan()
        told = self.jvm.org.apache.comet.ExtendedExplainInfo().generateExtendedInfo(plan)
        found = ACCELERATED.search(told)
        if found is None:
            raise ValueError(f"Comet does not say how much of the plan it ran: {told[-300:]}")
        return {"native_operators": int(found[1]), "operators": int(found[2])}

    def on_collect_garbage(self) -> dict:
        """Collects the heap; answers with what is left on it."""
        self.jvm.java.lang.System.gc()
        runtime = self.jvm.java.lang.Runtime.getRuntime()
        return {"heap_used_bytes": runtime.totalMemory() - runtime.freeMemory()}

    def on_pages(self) -> dict:
        """Huge pages of the JVM that are not the pool's, and which process that is."""
        pid = self.jvm.java.lang.ProcessHandle.current().pid()
        smaps = Path(f"/proc/{pid}/smaps")
        outside = pages.outside_pool(smaps.read_text, lambda: self.warmset()["huge_bytes"])
        return {"pid": pid, "heap_huge_bytes": outside}

    def on_storage(self) -> dict:
        """What the cache takes, in memory and on disk."""
        return self.storage()

    def on_stop(self) -> dict:
        """Stops the session; the process ends afterwards."""
        if self.spark is not None:
            self.spark.stop()
        return {}

    @property
    def jvm(self):  # noqa: ANN201
        """The JVM, through which everything is reached that PySpark has no name for."""
        return self.spark.sparkContext._jvm

    def plugins(self) -> str:
        """The plugins of this session, in small letters."""
        return self.spark.sparkContext.getConf().get("spark.plugins", "").lower()

    def warmset(self) -> dict | None:
        """The store's statistics, or `None` in a session without the plugin."""
        if "warmset" not in self.plugins():
            return None
        return json.loads(self.jvm.io.warmset.spark.Warmset.statsJson())

    def storage(self) -> dict:
        """Bytes of the cache as Spark accounts them, and as the store does."""
        context = self.spark.sparkContext._jsc.sc()
        context.listenerBus().waitUntilEmpty()
        infos = context.getRDDStorageInfo()
        return {
            "memory_bytes": sum(info.memSize() for info in infos),
            "disk_bytes": sum(info.diskSize() for info in infos),
            "warmset": self.warmset(),
        }

    def reading(self) -> dict:
        """The clocks before something is measured."""
        beans = self.jvm.java.lang.management.ManagementFactory.getGarbageCollectorMXBeans()
        process = Path(f"/proc/{self.jvm.java.lang.ProcessHandle.current().pid()}")
        return {
            "collection_ms": sum(bean.getCollectionTime() for bean in beans),
            # All of the JVM: tasks, collections, compilation.
            "cpu_s": processor_s((process / "stat").read_text()),
            "compiling_cpu_s": compiling_cpu_s(process),
            "warmset": self.warmset(),
            "started": time.perf_counter(),
        }

    def since(self, before: dict) -> dict:
        """What has passed since the reading."""
        seconds = time.perf_counter() - before["started"]
        after = self.reading()
        passed = {
            "seconds": seconds,
            "collection_s": (after["collection_ms"] - before["collection_ms"]) / 1000,
            "cpu_s": after["cpu_s"] - before["cpu_s"],
            "compiling_cpu_s": after["compiling_cpu_s"] - before["compiling_cpu_s"],
        }
        if before["warmset"] is not None:
            passed["read_bytes"] = after["warmset"]["read_bytes_total"] - before["warmset"]["read_bytes_total"]
            passed["wait_s"] = (after["warmset"]["wait_ns_total"] - before["warmset"]["wait_ns_total"]) / 1e9
        return passed

    def tasks(self, group: str) -> dict:
        """CPU and run time of the tasks of a job group, from Spark's own status store."""
        context = self.spark.sparkContext
        context._jsc.sc().listenerBus().waitUntilEmpty()
        tracker = context.statusTracker()
        stages = {
            stage
            for job in tracker.getJobIdsForGroup(group)
            for stage in (tracker.getJobInfo(job).stageIds if tracker.getJobInfo(job) else [])
        }
        store = context._jsc.sc().statusStore()
        data = [store.lastStageAttempt(stage) for stage in stages]
        return {
            "task_cpu_s": sum(stage.executorCpuTime() for stage in data) / 1e9,
            "task_run_s": sum(stage.executorRunTime() for stage in data) / 1e3,
        }


def processor_s(stat: str) -> float:
    """Processor time of a process or thread by its `stat` in /proc.

    After the name, which ends in the last bracket, utime and stime are fields 14 and 15 of proc_pid_stat(5).
    """
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def compiling_cpu_s(process: Path) -> float:
    """Processor time of the threads of HotSpot's two compilers."""
    threads = (process / "task").iterdir()
    return sum(processor_s(text) for each in threads if COMPILER.match(text := stat_of(each)))


def stat_of(thread: Path) -> str:
    """The `stat` of a thread; of one that has just ended, an empty text."""
    try:
        return (thread / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


if __name__ == "__main__":
    serve(Worker())
