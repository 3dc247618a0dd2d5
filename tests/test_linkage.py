"""Everything that the plugin's classes refer to is there, in every Spark that is supported."""

from __future__ import annotations

import zipfile
from pathlib import PurePath

import pytest
from e2e import linkage, paths

OURS = ("io/warmset/", "org/apache/spark/")
BUNDLED = "io/warmset/shaded/"
# What is never run on that version, and the class that sees to it.
ABSENT = {
    "4.1": {
        "io/warmset/columns/SpatialValues: no class org/apache/spark/unsafe/types/BinaryView",
        "io/warmset/columns/SpatialValues: no org/apache/spark/sql/catalyst/expressions/SpecializedGetters."
        "getBinaryView(I)Lorg/apache/spark/unsafe/types/BinaryView;",
        "io/warmset/columns/WarmSpatialVector: no class org/apache/spark/unsafe/types/BinaryView",
    },
    "4.2": set(),
    "4.3": {
        "org/apache/spark/storage/memory/warmset/WarmMemoryStore: no org/apache/spark/storage/memory/MemoryStore."
        "putIteratorAsBytes(Lorg/apache/spark/storage/BlockId;Lscala/collection/Iterator;Lscala/reflect/ClassTag;"
        "Lorg/apache/spark/memory/MemoryMode;)Lscala/util/Either;",
    },
}


# Whose code was looked at: where `Consumer` knows the caller, none keeps an element, or its arrays, beyond the call
# that hands it over.
USERS = {
    "ml/feature/InstanceBlock": {
        "AFTBlockAggregator", "AFTSurvivalRegression", "BinaryLogisticBlockAggregator", "HingeBlockAggregator",
        "HuberBlockAggregator", "InstanceBlock", "KMeans", "KMeansAggregator", "LeastSquaresBlockAggregator",
        "LinearRegression", "LinearSVC", "LogisticRegression", "MultinomialLogisticBlockAggregator",
    },
    "mllib/clustering/VectorWithNorm": {
        "BisectingKMeans", "BisectingKMeansModel", "ClusteringTreeNode", "CosineDistanceMeasure", "DistanceMeasure",
        "EuclideanDistanceMeasure", "KMeans", "KMeansModel", "LocalKMeans", "VectorWithNorm",
    },
    "ml/tree/impl/BaggedPoint": {"BaggedPoint", "GradientBoostedTrees", "RandomForest"},
}  # fmt: skip
# What takes them, which `Consumer` finds among its callers: by class a part of the method's name, and those that get an
# iterator, which were looked at as well.
TAKERS = {
    "rdd/RDD": ("$treeAggregate$", ("4", "5", "6", "6$adapted")),
    "ml/clustering/KMeans": ("$trainWithBlock$", ("6",)),
    "mllib/clustering/KMeans": ("$runAlgorithmWithWeight$", ("4",)),
    "ml/tree/impl/RandomForest$": ("$findBestSplits$", ("16", "21")),
}


@pytest.mark.parametrize("element", USERS)
@pytest.mark.parametrize("version", ABSENT)
def test_mllib_has_no_other_users_of_the_elements_whose_arrays_are_used_again(version: str, element: str) -> None:
    """See `Consumer`: it lets arrays be used again for what MLlib does with them, and nobody else can name them."""
    paths.installed(version)
    (jar,) = (paths.spark_home(version) / "jars").glob("spark-mllib_*.jar")
    with zipfile.ZipFile(jar) as classes:
        users = {
            PurePath(name).stem.split("$")[0]
            for name in classes.namelist()
            if name.endswith(".class") and element.encode() in classes.read(name)
        }
    assert users == USERS[element]


@pytest.mark.parametrize("version", ABSENT)
def test_the_calls_by_which_those_who_keep_nothing_are_known_are_there(version: str) -> None:
    """See `Consumer`: were one called otherwise, arrays would no longer be used again, and nothing would fail."""
    paths.installed(version)
    named = {f"org/apache/spark/{name}.class" for name in (*TAKERS, "util/CompletionIterator")}
    found = {}
    for jar in (paths.spark_home(version) / "jars").glob("spark-*.jar"):
        with zipfile.ZipFile(jar) as classes:
            found |= {name: linkage.parse(classes.read(name)) for name in named.intersection(classes.namelist())}
    assert set(found) == named
    for taker, (method, ends) in TAKERS.items():
        members = found[f"org/apache/spark/{taker}.class"].members
        takes = {name for name, form in members if method in name and "scala/collection/Iterator;)" in form}
        assert takes == {f"$anonfun{method}{end}" for end in ends}, taker


@pytest.mark.parametrize("version", ABSENT)
def test_nothing_is_missing(version: str) -> None:
    paths.installed(version)
    jars = sorted((paths.spark_home(version) / "jars").glob("*.jar"))
    found = linkage.problems(paths.plugin_jar(), jars, OURS)
    assert {problem for problem in found if not problem.startswith(BUNDLED)} == ABSENT[version]


def test_the_jar_brings_the_licences_of_what_it_bundles() -> None:
    with zipfile.ZipFile(paths.plugin_jar()) as jar:
        notices = jar.read("META-INF/THIRD-PARTY-NOTICES.txt").decode()
        fory = jar.read("META-INF/NOTICE").decode()
    assert "Apache Fory" in fory
    for crate in ("io-uring", "jni", "papaya", "rustix", "serde_json"):
        assert f"\n{crate} " in notices
    # Tests' and build scripts' crates are not in the library.
    assert "\nproptest " not in notices and "\nsyn " not in notices
    assert "Permission is hereby granted" in notices
