"""A standalone cluster on loopback: a cache over two executors survives the loss of one in mid-scan.

The plugin comes to the executors as users bring it: by spark.jars, or on the class path of every
node. Afterwards nothing is left in the directories where executors kept data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from e2e import paths
from e2e.child import ScenarioFailed, SparkChild, StartFailed
from e2e.cluster import Cluster, await_true, standalone
from e2e.launch import Launch
from e2e.web import fetch
from harness.groups import memory_cgroup, why_none

VERSION = "4.2"
ROWS_SUM = sum(range(2_400_000))
CLUSTER_CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.executor.cores": "1",
    "spark.cores.max": "2",
    "spark.task.maxFailures": "8",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    # Less than each executor's half of the cache: some of it is on disk when the executor dies.
    "spark.warmset.memory": "16m",
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone(VERSION, tmp_path_factory.mktemp("cluster")) as running:
        yield running


def connect(launch: Launch, cluster: Cluster, conf: Mapping[str, str | None], **options: Any) -> SparkChild:
    """A driver whose executors run on the cluster."""
    settings = CLUSTER_CONF | {"spark.master": cluster.url, "spark.warmset.dir": str(cluster.workdir / "regions")}
    return launch(VERSION, settings | conf, **options)


def fill(child: SparkChild, folder: Path, level: str = "MEMORY_AND_DISK") -> list[Any]:
    """Fills the cache and returns the digest it must have."""
    folder.mkdir()
    expected, filled = child.call("spread.fill", level=level, made=str(folder))
    assert filled == expected
    return expected


def kill_in_mid_scan(child: SparkChild, cluster: Cluster, folder: Path) -> int:
    """Starts a slow scan, kills an executor in it with SIGKILL, and returns the scan's answer."""
    folder.mkdir()
    child.begin("spread.slow_scan", started=str(folder), pause_s=0.05)
    await_true(lambda: any(folder.iterdir()), "the scan has begun", 60)
    victim, *_ = cluster.executors(child.hello["application"])
    victim.kill()
    (folder / "go").touch()
    return child.finish()


def assert_nothing_left(cluster: Cluster, application: str) -> None:
    """No executor runs and no file is left where executors kept data."""
    await_true(lambda: not cluster.executors(application), "executors have ended", 30)
    await_true(lambda: not cluster.files(), f"no files in {cluster.workdir}: {cluster.files()[:5]}", 30)


@pytest.mark.parametrize("way", ["spark.jars", "extraClassPath"])
def test_losing_an_executor_in_mid_scan(launch: Launch, cluster: Cluster, tmp_path: Path, way: str) -> None:
    conf: dict[str, str] = {}
    if way == "extraClassPath" and not launch.stock:
        jar = str(paths.plugin_jar())
        conf = {"spark.jars": "", "spark.driver.extraClassPath": jar, "spark.executor.extraClassPath": jar}
    with connect(launch, cluster, conf) as child:
        application = child.hello["application"]
        expected = fill(child, tmp_path / "made")
        executors = cluster.executors(application)
        assert len(executors) == 2
        if not launch.stock:
            assert all(executor.has_mapped("libwarmset_jni") for executor in executors)
            assert all(cluster.open_files(executor.pid) for executor in executors), "no executor overflows to disk"
        assert kill_in_mid_scan(child, cluster, tmp_path / "started") == ROWS_SUM
        assert child.call("spread.scan") == expected
        await_true(lambda: len(cluster.executors(application)) == 2, "a new executor has come", 60)
        assert child.call("spread.scan") == expected
        child.call("spread.release")
    assert_nothing_left(cluster, application)


def test_a_replica_takes_over(launch: Launch, cluster: Cluster, tmp_path: Path) -> None:
    """At replication 2 the loss of an executor costs no partition: nothing is computed again."""
    with connect(launch, cluster, {"spark.warmset.memory": "128m"}) as child:
        application = child.hello["application"]
        expected = fill(child, tmp_path / "made", "MEMORY_AND_DISK_2")
        made = len(list((tmp_path / "made").iterdir()))
        assert kill_in_mid_scan(child, cluster, tmp_path / "started") == ROWS_SUM
        assert child.call("spread.scan") == expected
        assert len(list((tmp_path / "made").iterdir())) == made, "partitions were computed again"
        child.call("spread.release")
    assert_nothing_left(cluster, application)


@pytest.mark.usefixtures("only_with_plugin")
def test_executors_without_a_usable_directory_fall_back(launch: Launch, cluster: Cluster, tmp_path: Path) -> None:
    with connect(launch, cluster, {"spark.warmset.dir": "/nonexistent/warmset"}) as child:
        application = child.hello["application"]
        expected = fill(child, tmp_path / "made")
        assert child.call("spread.scan") == expected
        logs = [log.read_text() for log in (cluster.workdir / "work" / application).glob("*/stderr")]
    assert len(logs) == 2
    for log in logs:
        warnings = [line for line in log.splitlines() if " WARN " in line and "armset" in line]
        assert len(warnings) == 1
        assert "spark.warmset.dir" in warnings[0]
    assert_nothing_left(cluster, application)


@pytest.mark.usefixtures("only_with_plugin")
def test_required_stops_the_application(launch: Launch, cluster: Cluster, tmp_path: Path) -> None:
    """Executors that must have a store and cannot: the application ends, and says which setting it is."""
    conf = {"spark.warmset.dir": "/nonexistent/warmset", "spark.warmset.required": "true"}
    workdir = launch.new_directory()
    with (
        pytest.raises((StartFailed, ScenarioFailed)),
        connect(launch, cluster, conf, workdir=workdir, start_seconds_max=60) as child,
    ):
        child.call("spread.fill", level="MEMORY_ONLY", made=str(tmp_path), seconds_max=60)
    log = (workdir / "driver.log").read_text()
    assert "spark.warmset.required" in log
    assert "spark.warmset.dir: /nonexistent/warmset" in log
    await_true(lambda: not cluster.state()["activeapps"], "the application has ended", 30)
    await_true(lambda: not cluster.files(), f"no files in {cluster.workdir}", 30)


@pytest.mark.usefixtures("only_with_plugin")
def test_the_containers_of_the_page_on_clusters_have_the_pool_that_it_names(launch: Launch) -> None:
    page = (paths.REPOSITORY / "docs" / "operating" / "clusters.md").read_text()
    (named,) = re.findall(r"^\| cached data \|.* ([0-9.]+) GiB \|$", page, re.MULTILINE)
    commands = re.findall(r"^ *spark-submit .*(?:\n +.*)*", page, re.MULTILINE)
    assert len(commands) == 2
    for command in commands:
        conf = dict(re.findall(r"--conf ([\w.-]+)=(\S+)", command))
        assert conf["spark.plugins"] == "io.warmset.spark.WarmsetPlugin"
        sizes = {key: conf[key] for key in ("spark.executor.memory", "spark.executor.memoryOverhead")}
        with launch.warm(VERSION) as driver:
            _, _, pool = driver.call("spread.container", conf=sizes)
        assert f"{pool / (1 << 30):.1f}" == named


@pytest.mark.usefixtures("only_with_plugin")
@pytest.mark.parametrize("sized", ["as Kubernetes is asked", "by the cgroup"])
def test_executors_in_containers_of_their_own_are_not_killed(launch: Launch, tmp_path: Path, sized: str) -> None:
    """Two executors in memory cgroups of the size that Kubernetes is asked for. Their pools are what cached data gets
    there, or with no key set what an executor finds in its cgroup."""
    container = {"spark.executor.memory": "512m", "spark.executor.memoryOverhead": "768m"}
    shown = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
    with launch.warm(VERSION) as driver:
        heap, overhead, pool = driver.call("spread.container", conf=container)
    assert pool == 194 << 20, "768 MiB, less 384 for the JVM, 128 for tasks and 62 to read through"
    if sized == "by the cgroup":
        settings = container | {"spark.warmset.memory": None, "spark.executor.cores": None}
        # 60 % of what heap and 512 MiB leave; of the heap, the JVM does not count a survivor space.
        pools = range(152 << 20, 170 << 20)
    else:
        settings, pools = container | {"spark.warmset.memory": str(pool)}, range(pool, pool + 1)
    with (
        memory_cgroup("executor-0", heap + overhead) as first,
        memory_cgroup("executor-1", heap + overhead) as second,
    ):
        if first is None or second is None:
            pytest.skip(why_none())
        groups = (first, second)
        with (
            standalone(VERSION, tmp_path / "cluster", [group.directory for group in groups]) as cluster,
            connect(launch, cluster, settings | shown) as child,
        ):
            application = child.hello["application"]
            # 480 MB, which is more than both pools hold; each executor also feeds a Python process in its container.
            seen = child.call("storage.larger_than_memory", rows=30_000_000, keep=True, seconds_max=300)
            await_true(lambda: len(cluster.executors(application)) == 2, "both executors run", 30)
            started = {executor.id for executor in cluster.executors(application)}
            fill(child, tmp_path / "made")
            child.call("spread.scan")
            assert all(seen["right"]) and seen["groups"] == 9
            assert started == {"0", "1"}, "an executor was replaced"
            executors = fetch(f"{child.call('ui.url')}/warmset/json/")["executors"]
            assert all(executor["stats"]["budget_bytes"] in pools for executor in executors), executors
            peaks = [group.peak_bytes() for group in groups]
            assert all(peak and peak > pools[0] for peak in peaks), (
                f"the executors did not run in their groups: {peaks}"
            )
            assert [group.kills() for group in groups] == [0, 0]
