"""The child that trains: a worker that also fits MLlib's models, scans RDDs of objects, and reads columns in place.

The answer has the time, and of what is trained or scanned the Spark jobs that it consisted of and what the cache held
meanwhile. `rows` is the result without rounding, so that engines can be compared by it.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.ml.classification import LinearSVC, LogisticRegression, RandomForestClassifier
from pyspark.ml.clustering import KMeans
from pyspark.ml.regression import LinearRegression

from harness import jobs
from harness.serving import serve
from harness.worker import Worker

TRAINERS = {
    each.__name__: each for each in (KMeans, LinearRegression, LinearSVC, LogisticRegression, RandomForestClassifier)
}
# The first samples come sooner one after the other: what is over soon is seen as well.
SAMPLE_INTERVAL_S, SAMPLE_INTERVAL_FIRST_S = 0.5, 0.03
# What a session with one budget for heap and pool has besides.
SPLIT_FIGURES = (
    "heap_committed_bytes",
    "heap_allowed_bytes",
    "budget_bytes",
    "pool_bytes",
    "split_moves_total",
    "split_collections_total",
)


class Trainer(Worker):
    """A worker whose requests run for minutes, and are watched."""

    def on_fit(self, trainer: str, path: str, parameters: dict) -> dict:
        """Fits a model to the Parquet files as a program would; answers with the model's numbers."""
        estimator = TRAINERS[trainer](**parameters)
        frame = self.spark.read.parquet(path)
        return self.watched(lambda: model_rows(estimator.fit(frame)))

    def on_objects(self, readings: int, width: int, partitions: int, scans: int) -> dict:
        """Caches an RDD of small objects and scans it again and again; answers with the scans' sums."""
        return self.watched(lambda: self.scan_objects(readings, width, partitions, scans))

    def on_phases(self, table: str, cycles: int, rows: int, shuffles: int, scans: int) -> dict:
        """In turn shuffles whose groups live on the heap, and scans of a cached table; says how long each took."""
        columns = ", ".join(f"max({name})" for name in self.spark.table(table).columns)
        groups = f"select id % {max(1, rows // 100)} as k, collect_list(id) as ids from range({rows}) group by k"
        phases = {
            "shuffles": [f"select count(*), sum(size(ids)) as run_{at} from ({groups})" for at in range(shuffles)],
            "scans": [f"select {columns}, count(*) as run_{at} from {table}" for at in range(scans)],
        }
        took: list[dict] = []

        def work() -> list:
            turns = [phase for _ in range(cycles) for phase in phases.items()]
            return [row for name, queries in turns for row in self.timed(name, queries, took)]

        return {**self.watched(work), "phases": took}

    def timed(self, name: str, queries: list[str], took: list[dict]) -> list:
        """Runs the queries one by one, and notes each one's time as one phase."""
        rows, seconds = [], []
        for query in queries:
            started = time.perf_counter()
            rows += map(list, self.spark.sql(query).collect())
            seconds.append(time.perf_counter() - started)
        took.append({"name": name, "seconds": seconds})
        return rows

    def on_columns(self, name: str, at_random: bool) -> dict:
        """Reads the first column of a cached table where it lies; answers with the sum of its bits."""
        before = self.reading()
        total = self.jvm.io.warmset.bench.Columns.sum(self.spark.table(name)._jdf, at_random)
        return {**self.since(before), "rows": [[total]]}

    def scan_objects(self, readings: int, width: int, partitions: int, scans: int) -> list:
        objects = self.jvm.io.warmset.bench.Objects
        cached = objects.cached(self.spark.sparkContext._jsc.sc(), readings, width, partitions)
        try:
            sums = {tuple(float(value).hex() for value in objects.scan(cached)) for _ in range(scans)}
        finally:
            cached.unpersist(True)
        return sorted(map(list, sums))

    def watched(self, work: Callable[[], list]) -> dict:
        """Does the work as one group of jobs."""
        self.asked += 1
        group = f"training-{self.asked}"
        self.spark.sparkContext.setJobGroup(group, group)
        before = self.reading()
        with self.sampling() as samples:
            rows = work()
        measured = self.since(before)
        return {**measured, "jobs": jobs.of_group(self.spark.sparkContext, group), "samples": samples, "rows": rows}

    @contextmanager
    def sampling(self) -> Iterator[list[dict]]:
        """Takes samples in a thread of its own for as long as the context is open."""
        samples: list[dict] = []
        done = threading.Event()

        def take() -> None:
            interval_s = SAMPLE_INTERVAL_FIRST_S
            while not done.wait(interval_s):
                samples.append(self.sample())
                interval_s = min(2 * interval_s, SAMPLE_INTERVAL_S)

        thread = threading.Thread(target=take)
        thread.start()
        try:
            yield samples
        finally:
            done.set()
            thread.join()

    def sample(self) -> dict:
        """What the cache holds now, and what Warmset has read and waited for since it began."""
        at_s = time.time()
        storage = self.storage()
        store = storage.pop("warmset")
        if store is not None:
            storage |= {
                "read_bytes": store["read_bytes_total"],
                "wait_s": store["wait_ns_total"] / 1e9,
                "live_bytes": store["live_bytes"],
                "resident_bytes": store["resident_bytes"],
            }
            storage |= {name: store[name] for name in SPLIT_FIGURES if name in store}
        return {"at_s": at_s, **storage}


def model_rows(model) -> list:  # noqa: ANN001
    """What was learned: numbers without rounding, or a checksum of trees."""
    if hasattr(model, "clusterCenters"):
        return [centre.tolist() for centre in model.clusterCenters()]
    if hasattr(model, "coefficients"):
        return [model.coefficients.toArray().tolist(), [model.intercept]]
    # Its first line names the object.
    trees = model.toDebugString.partition("\n")[2]
    return [[hashlib.sha256(trees.encode()).hexdigest()]]


if __name__ == "__main__":
    serve(Trainer())
