"""What a pass over cached data is, how its time is split, and when partial sums have one order."""

from __future__ import annotations

from pathlib import Path

import pytest
from harness import passes, settings
from harness.contest import Player
from harness.engines import Spec
from harness.settings import Setting
from harness.workloads import NAMES, PASSES_SKIPPED, Size, workload

SIZE = Size(Path("/nowhere"), 8_000_000, 40, 20)
MIB = 1 << 20


def job(name: str, began_s: float, seconds: float, cpu: float, collection: float, run: float) -> dict:
    return {
        "name": name, "began_s": began_s, "ended_s": began_s + seconds, "task_cpu_s": cpu,
        "task_collection_s": collection, "task_run_s": run,
    }  # fmt: skip


def fit(*seconds: float) -> dict:
    jobs = [job("treeAggregate at Summarizer.scala:233", 0, 50, 1, 1, 1)]
    for number, each in enumerate(seconds):
        jobs.append(job("treeAggregate at RDDLossFunction.scala:61", 100.0 * number, each, each, each / 2, 2 * each))
    samples = [{"at_s": 100.0 * at, "read_bytes": 1000 * at, "wait_s": at} for at in range(len(seconds) + 1)]
    return {"seconds": sum(seconds), "collection_s": 1.0, "jobs": jobs, "samples": samples}


def played(*timings: dict) -> Player:
    player = Player(Spec("stock", "stock"), 1 << 30)
    player.timings["lgr"] = list(timings)
    return player


def test_the_first_passes_do_not_count():
    found = passes.summary(played(fit(9, 9, 2, 4), fit(9, 9, 6)), workload("lgr", SIZE))
    assert PASSES_SKIPPED == 2
    assert found["passes"] == 3 and found["seconds"] == 4
    assert found["compute_s"] == pytest.approx(2) and found["collection_s"] == pytest.approx(1)
    assert found["reading_s"] == pytest.approx(1), "what tasks neither computed nor were stopped for"


def test_counters_are_taken_over_the_passes_that_count():
    found = passes.summary(played(fit(9, 9, 100, 100)), workload("lgr", SIZE))
    assert found["read_bytes"] == pytest.approx(1000) and found["wait_s"] == pytest.approx(1)
    assert found["live_bytes"] is None


def test_no_fit_is_no_summary():
    assert passes.summary(played(), workload("lgr", SIZE)) is None
    assert passes.summary(played(fit(9, 9)), workload("lgr", SIZE)) is None


def test_every_workload_says_what_it_asks_for():
    for name in NAMES:
        message = workload(name, SIZE).request(0)
        assert message["op"] in ("fit", "objects")
        assert message == workload(name, SIZE).request(1)


def test_a_setting_stays_within_its_total():
    for engine in ("stock", "warmset"):
        for setting in settings.heaps(engine, 1638 * MIB):
            assert setting.heap_bytes + (setting.pool_bytes or 0) <= setting.total_bytes
            assert settings.from_raw(setting.raw()) == setting
            larger = setting.within(2 * setting.total_bytes)
            assert larger.heap_bytes + (larger.pool_bytes or 0) <= larger.total_bytes
    stock = Setting("stock", 1000 * MIB, 600 * MIB)
    assert stock.within(2000 * MIB).heap_bytes == pytest.approx(1200 * MIB)


def test_an_engine_gets_its_collector_and_serialiser():
    setting = Setting("warmset", 1638 * MIB, 640 * MIB, "Parallel", "kryo", compressed=False)
    spec = setting.spec(2, Path("/nowhere"), MIB)
    assert spec.conf["spark.rdd.compress"] == "false" and "not compressed" in setting.title
    assert "-XX:+UseParallelGC" in spec.conf["spark.driver.extraJavaOptions"]
    assert spec.conf["spark.serializer"].endswith("KryoSerializer")
    assert spec.conf["spark.warmset.memory"] == f"{1638 - 640 - 640}m"
    assert spec.is_warmset and spec.worker == "harness.trainer"
