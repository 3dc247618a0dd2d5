"""Five fixed splits of one budget, and the controller that moves it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from harness import engines
from harness.engines import Spec
from harness.settings import COLLECTORS, HEAP_BYTES_MIN, JOBS_JAR, MIB

# Of the budget, what is heap; the smallest is little more than what Spark starts with.
SHARES = (0.35, 0.45, 0.55, 0.65, 0.75)
# Where the budget is little more than the smallest heap.
SHARES_QUICK = (0.7,)
# With the controller the heap may become this large.
HEAP_MOST = 0.85
CONTROLLER = "controller"


@dataclass(frozen=True)
class Split:
    """One engine: a share of the budget as heap, or whatever the controller makes of it."""

    share: float | None

    @property
    def name(self) -> str:
        """As the engine is called."""
        return CONTROLLER if self.share is None else f"heap_{self.share * 100:.0f}"

    def spec(self, budget_bytes: int, cpus: int, scratch: Path, file_bytes: int) -> Spec:
        """The engine, with heap and pool within the budget."""
        heap_bytes = max(HEAP_BYTES_MIN, int(budget_bytes * (self.share or HEAP_MOST)))
        made = engines.warmset(budget_bytes, cpus, scratch, heap_bytes)
        conf = {
            **made.conf,
            "spark.driver.extraJavaOptions": f"{made.conf['spark.driver.extraJavaOptions']} {COLLECTORS['G1']}",
            "spark.warmset.rdd.enabled": "true",
            # The controller's default; here splits are compared, not where RDDs begin.
            "spark.warmset.rdd.heapFirst": "true",
            "spark.jars": f"{engines.JAR},{JOBS_JAR}",
            "spark.driver.extraClassPath": f"{engines.JAR}:{JOBS_JAR}",
            "spark.sql.files.maxPartitionBytes": str(file_bytes + MIB),
            # The groups of a shuffle stay objects on the heap, as those of an RDD are.
            "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": str(1 << 30),
        }
        if self.share is None:
            del conf["spark.warmset.memory"]
            conf["spark.warmset.totalMemory"] = engines.mib(budget_bytes)
        title = "the controller" if self.share is None else f"heap {self.share:.0%}"
        # As spark-ml does, for the trainers' sake.
        python = engines.PYTHON_43
        return replace(made, name=self.name, title=title, conf=conf, worker="harness.trainer", python=python)


def of_shares(shares: tuple[float, ...]) -> list[Split]:
    """Those, and the controller."""
    return [*map(Split, shares), Split(None)]
