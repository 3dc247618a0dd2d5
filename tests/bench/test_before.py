"""The comparison with an earlier commit: ratios of medians, jobs that died, rows that differ."""

from __future__ import annotations

import importlib.util
from types import ModuleType

import pytest
from harness.machine import ROOT


@pytest.fixture(scope="module")
def report() -> ModuleType:
    """The benchmark's report, under a name that no other benchmark has."""
    found = importlib.util.spec_from_file_location("before_report", ROOT / "bench" / "before" / "report.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


def job(variant: str, number: int, whole: float | None, rows: object = None) -> dict:
    return {
        "job": "sql_fits", "round": number, "variant": variant, "commit": "abc", "whole": whole, "steady": whole,
        "rows": {"0/q1": [[1, 2.0], [3, 4.0]]} if rows is None else rows,
        "died": None if whole else "oom in q9",
    }  # fmt: skip


def test_ratios_are_of_medians_and_rows_of_any_order_are_equal(report: ModuleType):
    jobs = [job("before", number, seconds) for number, seconds in enumerate((10.0, 12.0, 90.0))]
    jobs += [job("now", 0, 6.0, {"0/q1": [[3, 4.0], [1, 2.0]]}), job("plain", 0, 24.0)]
    assert report.result(jobs) == {"sql_fits": 2.0, "sql_fits_plain": 0.5, "answers_equal": True}
    assert report.faults(jobs) == []


def test_a_job_that_died_and_other_rows_are_faults(report: ModuleType):
    jobs = [job("before", 0, 10.0), job("now", 0, None), job("plain", 0, 9.0, {"0/q1": [[1, 2.5], [3, 4.0]]})]
    found = report.faults(jobs)
    assert found == ["sql_fits, round 0, now: oom in q9", "sql_fits: variants gave different rows"]
    result = report.result(jobs)
    assert (result["sql_fits"], result["answers_equal"]) == (None, False)


def test_the_page_lists_every_timing_and_keeps_no_rows(report: ModuleType):
    jobs = [job("before", 0, 10.0), job("before", 1, 11.0), job("now", 0, 5.0), job("plain", 0, 7.0)]
    raw = {"machine": {"cpu_model": "Xeon", "cpus": 2, "kernel": "6"}, "kept": {"before": "123"}, "jobs": jobs}
    page = report.readme(raw, {"sql_fits": 4096}, ["gone"])
    assert "| sql_fits | 4096 | whole job | 10.0, 11.0 | 5 | 7 | 2.1 | 1.5 |" in page
    assert "- FAULT: gone" in page
    assert all("rows" not in each for each in report.without_rows(raw)["jobs"])
