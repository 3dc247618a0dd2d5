"""The Warmset tab and the driver's metrics on a cluster: executors apart and summed, gone, and without a store."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e.child import SparkChild
from e2e.cluster import Cluster, await_true, standalone
from e2e.launch import Launch
from e2e.web import fetch

VERSION = "4.2"
CONF = {
    "spark.ui.enabled": "true",
    "spark.ui.port": "0",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.warmset.memory": "16m",
    "spark.warmset.stats.interval": "200ms",
    "spark.metrics.namespace": "ns",
}

pytestmark = pytest.mark.usefixtures("only_with_plugin")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(VERSION, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def connect(launch: Launch, cluster: Cluster, **conf: str) -> SparkChild:
    """A driver with its UI on, whose executors run on the cluster."""
    settings = {"spark.master": cluster.url, "spark.warmset.dir": str(cluster.workdir / "regions")}
    return launch(VERSION, CONF | settings | conf)


def page(address: str) -> str:
    """A page's source."""
    with urllib.request.urlopen(address, timeout=10) as answer:
        return answer.read().decode()


def test_executors_are_listed_and_summed(launch: Launch, cluster: Cluster, tmp_path: Path) -> None:
    (tmp_path / "made").mkdir()
    with connect(launch, cluster) as child:
        base = child.call("ui.url")
        child.call("spread.fill", level="MEMORY_AND_DISK", made=str(tmp_path / "made"))

        def view() -> dict[str, Any]:
            return fetch(f"{base}/warmset/json/")

        def all_cached() -> bool:
            return [row["partitions"] for row in view()["caches"]] == [8]

        await_true(all_cached, "all partitions are in the reports", 20)
        seen = view()
        stores = [executor["stats"] for executor in seen["executors"]]
        assert [executor["id"] for executor in seen["executors"]] == ["0", "1"]
        for key in ("budget_bytes", "live_bytes", "regions", "segments"):
            assert seen["totals"][key] == sum(store[key] for store in stores)
        assert seen["totals"]["budget_bytes"] == 2 * (16 << 20)
        assert all(store["regions"] > 0 for store in stores), "one executor holds everything"
        assert page(f"{base}/warmset/").count('class="warmset-bar"') == 3

        def summed() -> bool:
            gauges = fetch(f"{base}/metrics/json/")["gauges"]
            name = "ns.driver.plugin.io.warmset.spark.WarmsetPlugin."
            return all(gauges[name + key]["value"] == seen["totals"][key] for key in ("budget_bytes", "live_bytes"))

        await_true(summed, "the driver's metrics are the sums", 10)

        victim, *_ = cluster.executors(child.hello["application"])
        victim.kill()

        def one_has_gone() -> bool:
            executors = {executor["id"]: executor for executor in view()["executors"]}
            return not executors[victim.id]["active"]

        await_true(one_has_gone, "the tab knows that an executor has gone", 60)
        assert ">gone<" in page(f"{base}/warmset/")
        child.call("spread.release")


def test_executors_without_a_store_say_why(launch: Launch, cluster: Cluster) -> None:
    with connect(launch, cluster, **{"spark.warmset.dir": "/nonexistent/<i>warmset</i>"}) as child:
        base = child.call("ui.url")

        def told() -> bool:
            if len(fetch(f"{base}/warmset/json/")["executors"]) < 2:
                return False
            return "/nonexistent/&lt;i&gt;warmset&lt;/i&gt; is not an existing directory" in page(f"{base}/warmset/")

        await_true(told, "the tab has both executors and gives their reason", 60)
        assert "Some executors have no region store" in page(f"{base}/warmset/")
        assert [executor["stats"] for executor in fetch(f"{base}/warmset/json/")["executors"]] == [None, None]
