"""What is trained: four iterative trainers of MLlib, a random forest, and an RDD of small objects.

Every fit does a fixed number of iterations (its tolerance is 0), and each iteration is one Spark job over what the
trainer has cached itself. A `Workload` can be played by `harness.contest`, like a query.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

TIMEOUT_S = 2400
# 50 doubles.
ROW_BYTES = 400
# What stock Spark takes on the heap for an object of `OBJECT_WIDTH` doubles, with its name.
OBJECT_BYTES, OBJECT_WIDTH = 200, 10
SEED = 7
# As many as Spark-Bench's KMeans makes, which TeraCache was compared with (KMeans/conf/env.sh).
CLUSTERS = 10
TREES = 10
TREE_DEPTH_MAX = 8
# The first job fills the cache, the next one may still be compiled.
PASSES_SKIPPED = 2
# A trainer's first passes over a small part of the data compile what the measured ones run.
WARMUP_ITERATIONS = 4


@dataclass(frozen=True)
class Workload:
    """One workload: how to ask for it, and which of its jobs are passes over the cache."""

    name: str
    title: str
    passes: str
    message: dict
    timeout_s: float = TIMEOUT_S

    def request(self, _run: int) -> dict:
        """What the engine is asked; every run is the same."""
        return self.message


@dataclass(frozen=True)
class Size:
    """The data that a workload runs on, and for how many iterations."""

    path: Path
    rows: int
    partitions: int
    iterations: int

    def small(self) -> Size:
        """One file of it, for a few iterations."""
        first = min(self.path.glob("*.parquet"))
        return Size(first, self.rows // self.partitions, 2, WARMUP_ITERATIONS)

    def shorter(self, iterations: int) -> Size:
        """The same data, for fewer iterations."""
        return replace(self, iterations=iterations)


def fit(trainer: str, parameters: Callable[[Size], dict]) -> Callable[[Size], dict]:
    """A request that fits."""
    return lambda size: {"op": "fit", "trainer": trainer, "path": str(size.path), "parameters": parameters(size)}


def descent(**more: object) -> Callable[[Size], dict]:
    """Parameters of the trainers that descend a gradient."""
    return lambda size: {"maxIter": size.iterations, "tol": 0.0, **more}


def objects(size: Size) -> dict:
    """Objects that take as much of the heap as the rows' numbers."""
    return {
        "op": "objects",
        "readings": size.rows * ROW_BYTES // OBJECT_BYTES,
        "width": OBJECT_WIDTH,
        "partitions": size.partitions,
        "scans": size.iterations,
    }


def clusters(size: Size) -> dict:
    """Parameters of KMeans: random first centres, and blocks as the other trainers have them."""
    return {
        "k": CLUSTERS, "maxIter": size.iterations, "tol": 0.0, "seed": SEED, "initMode": "random", "solver": "block",
    }  # fmt: skip


def trees(size: Size) -> dict:
    """Parameters of the forest: each pass over the points makes the trees one level deeper."""
    return {"numTrees": TREES, "maxDepth": min(size.iterations, TREE_DEPTH_MAX), "seed": SEED}


KINDS: dict[str, tuple[str, str, Callable[[Size], dict]]] = {
    "lr": (
        "linear regression",
        "RDDLossFunction",
        fit("LinearRegression", descent(solver="l-bfgs", labelCol="target")),
    ),
    "lgr": ("logistic regression", "RDDLossFunction", fit("LogisticRegression", descent())),
    "svm": ("linear SVM", "RDDLossFunction", fit("LinearSVC", descent(regParam=1e-4))),
    "kmeans": ("KMeans", r"collectAsMap at KMeans", fit("KMeans", clusters)),
    "objects": ("small objects", r"Objects\.scala", objects),
    "forest": ("random forest", r"collectAsMap at RandomForest", fit("RandomForestClassifier", trees)),
}
NAMES = tuple(KINDS)
# They cache the same blocks, and read them the same way: the settings that are best for one are taken for all.
TUNED_AS = {"lr": "lgr", "svm": "lgr"}
# The trainers that descend or move centres; the further regimes are theirs.
TRAINERS = ("lr", "lgr", "svm", "kmeans")


def passes_of(name: str, iterations: int) -> int:
    """Passes over the cache in a fit of so many iterations, to a few."""
    return min(iterations, TREE_DEPTH_MAX) if name == "forest" else iterations


def workload(name: str, size: Size) -> Workload:
    """The workload of that name on that data."""
    title, passes, message = KINDS[name]
    return Workload(name, title, passes, message(size))
