"""`spark.warmset.totalMemory`: memory moves to where it saves time; the sum passes the total for moments only."""

from __future__ import annotations

import itertools
import statistics
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from e2e import paths
from e2e.cluster import await_true, standalone
from e2e.launch import Launch
from e2e.web import fetch
from harness.groups import memory_cgroup, why_none

MIB = 1 << 20
# A heap that grows is seen within a tenth of a second; what the pool then gives up and is dirty, it writes first: some
# 300 MiB in the one test that has them, on a disk that may be busy.
OVER_S = 1.0
OVER_WRITING_S = 4.0
# Of samples that come 20 times a second: the rest of a longer gap is the sampler's own delay.
GAP_S_MAX = 0.2
VERSION = paths.SPARK_VERSION

pytestmark = pytest.mark.usefixtures("only_with_plugin")


def settings(total_mib: int, heap: str, **more: str) -> dict[str, str]:
    """One budget; the pool starts small, so that there is something to move."""
    return {
        "spark.driver.memory": heap,
        "spark.warmset.totalMemory": f"{total_mib}m",
        "spark.warmset.memory": "64m",
        "spark.warmset.rowGroup": "8m",
    } | more


def over_s_max(samples: list[dict[str, Any]]) -> float:
    """The longest time for which every sample had heap and pool above their total; they come 20 times a second."""
    longest = now = 0.0
    for before, sample in itertools.pairwise(samples):
        is_over = sample["heap_committed_bytes"] + sample["pool_bytes"] > sample["total_budget_bytes"]
        now = now + min(sample["seconds"] - before["seconds"], GAP_S_MAX) if is_over else 0.0
        longest = max(longest, now)
    return longest


def late(samples: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last third: at one instant the pool may keep away from a heap that rose a moment ago."""
    return samples[len(samples) * 2 // 3 :]


def median_late(samples: list[dict[str, Any]], *keys: str) -> float:
    """The median of the sum of these figures in the last third."""
    return statistics.median(sum(each[key] for key in keys) for each in late(samples))


def test_scans_draw_memory_to_the_pool(launch: Launch) -> None:
    total = 1536
    with launch(VERSION, settings(total, "1500m")) as child:
        # More than the total: the pool can use all that it gets.
        seen = child.call("split.scans", mebibytes=1600, seconds=15, seconds_max=180)
    samples = seen["samples"]
    assert samples[0]["budget_bytes"] <= 64 * MIB, "the pool starts as it was told"
    assert median_late(samples, "budget_bytes") >= 512 * MIB, samples[-1]
    # Lent, or moved where the disk is slow enough for waits: what the heap does not hold is the pool's.
    handed_out = max(each["budget_bytes"] + each["heap_committed_bytes"] for each in late(samples))
    assert handed_out >= total * MIB * 9 // 10, samples[-1]
    assert samples[-1]["total_budget_bytes"] == total * MIB
    assert over_s_max(samples) < OVER_S


def test_a_heap_that_grows_takes_from_the_pool(launch: Launch) -> None:
    total = 1100
    conf = settings(total, "1g") | {"spark.warmset.memory": "700m"}
    with launch(VERSION, conf) as child:
        seen = child.call("split.grows", mebibytes=600, live_mebibytes=640, seconds_max=180)
    assert seen["right"]
    assert over_s_max(seen["samples"]) < OVER_WRITING_S
    after = seen["after"]
    assert after["heap_committed_bytes"] >= 640 * MIB
    assert after["budget_bytes"] < 400 * MIB
    assert after["heap_committed_bytes"] + after["pool_bytes"] <= total * MIB == after["total_budget_bytes"]


def test_objects_that_nobody_reads_leave_the_heap_for_data_that_is_scanned(launch: Launch) -> None:
    # Without looking ahead scans wait for all that is absent, on a fast disk too.
    conf = settings(1100, "1000m") | {"spark.warmset.rdd.enabled": "true", "spark.warmset.prefetch.max": "0"}
    with launch(VERSION, conf) as child:
        seen = child.call("split.sheds", rows=2_000_000, mebibytes=1500, seconds=90, seconds_max=240)
    assert seen["right"] and seen["left"] == 0
    assert seen["regions"] == 0, seen
    assert seen["before"] > 150 * MIB
    # So many that the scans wait less than a tenth of the time.
    assert seen["after"] <= seen["before"] * 3 // 4, seen


def started_fixed(launch: Launch, options: str, why: str) -> dict[str, Any]:
    """The memory of a driver with these options, whose log says once why its split does not move."""
    with launch(VERSION, settings(800, "512m") | {"spark.driver.extraJavaOptions": options}) as child:
        stats = child.call("split.memory")
        said = [line for line in child.log_lines() if "stays as it starts" in line]
    assert len(said) == 1 and why in said[0]
    return stats


def test_a_heap_that_cannot_shrink_is_said_once_and_split_as_it_starts(launch: Launch) -> None:
    stats = started_fixed(launch, "-Xms512m", why="-Xms is equal to -Xmx")
    assert stats["budget_bytes"] == 64 * MIB and stats["total_budget_bytes"] == 800 * MIB


def test_a_collector_that_gives_nothing_back_is_said_once(launch: Launch) -> None:
    stats = started_fixed(launch, "-XX:+UseParallelGC", why="-XX:+UseAdaptiveSizePolicyWithSystemGC")
    assert stats["budget_bytes"] == 64 * MIB and stats["split_collections_total"] == 0


COLLECTORS = {
    "parallel": "-XX:+UseParallelGC -XX:+UseAdaptiveSizePolicyWithSystemGC",
    "serial": "-XX:+UseSerialGC",
    "shenandoah": "-XX:+UseShenandoahGC",
    "zgc": "-XX:+UseZGC -XX:ZUncommitDelay=1",
}


@pytest.mark.parametrize("collector", COLLECTORS)
def test_other_collectors_give_memory_back_too(launch: Launch, collector: str) -> None:
    total, options = 900, COLLECTORS[collector]
    if subprocess.run(["java", *options.split(), "-version"], capture_output=True, check=False).returncode:
        pytest.skip(f"this JVM does not have {options}")
    # Without looking ahead scans wait for all that is absent, on a fast disk too: else nothing is gained by moving.
    conf = settings(total, "800m") | {"spark.driver.extraJavaOptions": options, "spark.warmset.prefetch.max": "0"}
    with launch(VERSION, conf) as child:
        until = {"heap_bytes": 500 * MIB, "budget_bytes": 256 * MIB}
        seen = child.call("split.scans", mebibytes=700, seconds=15, heap_mebibytes=560, until=until, seconds_max=240)
        said = [line for line in child.log_lines() if "stays as it" in line]
    samples = seen["samples"]
    assert not said
    assert samples[0]["heap_committed_bytes"] >= 560 * MIB, "the heap has grown before"
    # At some moment, not at the last: a young generation may grow again after a collection that made the old one small.
    small = [each for each in samples if each["heap_committed_bytes"] <= until["heap_bytes"]]
    assert small and max(each["budget_bytes"] for each in small) >= until["budget_bytes"], samples[-1]
    assert median_late(samples, "heap_committed_bytes", "pool_bytes") <= total * MIB, samples[-1]


HOLDS = "held = b'x' * int(input()); print(len(held), flush=True); input()"


def test_what_else_a_container_holds_is_not_given_out(launch: Launch) -> None:
    total, limit, others = 1100 * MIB, 1800 * MIB, 700 * MIB
    with memory_cgroup("split", limit) as group:
        if group is None:
            pytest.skip(why_none())
        enter = ["sh", "-c", f'echo $$ > {group.directory}/cgroup.procs; exec "$0" "$@"']
        with launch(VERSION, settings(1100, "600m"), prefix=enter) as child:

            def budget() -> int:
                return int(child.call("split.memory")["total_budget_bytes"])

            assert budget() == total
            with subprocess.Popen(
                [sys.executable, "-c", HOLDS],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                preexec_fn=group.enter,
            ) as worker:
                assert worker.stdin and worker.stdout
                print(others, file=worker.stdin, flush=True)
                assert int(worker.stdout.readline()) == others
                await_true(lambda: budget() < limit - others - 100 * MIB, "less is given out", 30)
                print(file=worker.stdin, flush=True)
            await_true(lambda: budget() == total, "all is given out again", 30)
        assert group.kills() == 0


def test_a_pool_of_a_fixed_size_yields_before_its_container_is_killed(launch: Launch) -> None:
    """Heap, pool and what the JVM and Python usually have beside them fit; with the direct buffers they do not."""
    limit, pool = 1500, 512
    conf = {
        "spark.driver.memory": "544m",
        "spark.driver.extraJavaOptions": "-XX:MaxDirectMemorySize=2g",
        "spark.warmset.memory": f"{pool}m",
    }
    with memory_cgroup("guard", limit * MIB) as group:
        if group is None:
            pytest.skip(why_none())
        enter = ["sh", "-c", f'echo $$ > {group.directory}/cgroup.procs; exec "$0" "$@"']
        with launch(VERSION, conf, prefix=enter) as child:
            seen = child.call("split.outgrown", mebibytes=pool - 32, yields_mebibytes=200)
            said = [line for line in child.log_lines() if "spark.warmset.memory: " in line]
        assert group.kills() == 0
    assert seen["right"]
    assert seen["start"]["budget_bytes"] == seen["back"]["budget_bytes"] == pool * MIB
    assert seen["least"]["budget_bytes"] <= (pool - 200) * MIB
    assert len(said) == 1 and "make the container larger" in said[0]


def test_each_executor_splits_a_budget_of_its_own(launch: Launch, tmp_path: Path) -> None:
    conf = {
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.warmset.stats.interval": "200ms",
        "spark.warmset.totalMemory": "640m",
        "spark.warmset.memory": "32m",
    }
    made = tmp_path / "made"
    made.mkdir()
    with standalone(VERSION, tmp_path / "cluster") as cluster:
        where = {"spark.master": cluster.url, "spark.warmset.dir": str(cluster.workdir)}
        with launch(VERSION, conf | where) as child:
            base = child.call("ui.url")
            child.call("spread.fill", level="MEMORY_AND_DISK", made=str(made))

            def stores() -> list[dict[str, Any]]:
                found = [executor["stats"] for executor in fetch(f"{base}/warmset/json/")["executors"]]
                return found if len(found) == 2 and all(within(store) for store in found) else []

            def within(store: dict[str, Any]) -> bool:
                total = store.get("total_budget_bytes")
                return total == 640 * MIB and 0 < store["heap_committed_bytes"] + store["pool_bytes"] <= total

            await_true(stores, "both executors report their split, and are within it", 30)
            with urllib.request.urlopen(f"{base}/warmset/", timeout=30) as answer:
                page = answer.read().decode()
            assert "total budget" in page and "heap and pool" in page
