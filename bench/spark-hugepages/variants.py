"""The four ways to page cached data. All are Warmset with the same heap and pool: nothing but the pages differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from harness import engines
from harness.engines import Spec
from harness.settings import JOBS_JAR

MIB = 1 << 20
HEAP_BYTES = 768 * MIB
# A batch of this column is a run of 8 MiB, Warmset's largest.
RUN = {"spark.sql.inMemoryColumnarStorage.batchSize": str(1 << 22)}
# Of the pool, what the data takes: it all stays in memory.
FILL = 0.8
TITLES = {
    "birth": "the data alone, from birth",
    "off": "base pages alone",
    "entire": "the whole JVM and the data",
    "late": "the data alone, later",
}


def spec(name: str, data_bytes: int, cpus: int, scratch: Path) -> Spec:
    """The engine of that name."""
    made = engines.warmset(HEAP_BYTES + data_bytes / FILL, cpus, scratch, HEAP_BYTES)
    jars = [engines.JAR, JOBS_JAR]
    options = made.conf["spark.driver.extraJavaOptions"] + " -XX:+UseG1GC"
    conf = {
        **made.conf,
        **RUN,
        "spark.warmset.hugePages": "off" if name == "off" else "on",
        "spark.driver.extraJavaOptions": options + (" -XX:+UseTransparentHugePages" if name == "entire" else ""),
        "spark.jars": ",".join(map(str, jars)),
        "spark.driver.extraClassPath": ":".join(map(str, jars)),
    }
    return replace(made, name=name, title=TITLES[name], conf=conf, worker="harness.trainer")
