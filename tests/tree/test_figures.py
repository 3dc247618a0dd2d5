"""Figures of pages come from kept runs: a script writes Spark's, and every measured row links to its run."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from tree import ROOT, script

SCRIPT = ROOT / "scripts" / "figures.py"
README_BLOCK = re.compile(r"<!-- figures: from bench/runs only -->(.*?)<!-- /figures -->", re.DOTALL)
RUN_LINK = re.compile(r"\]\((bench/runs/[^)]+)\)")


@pytest.fixture(name="script")
def made() -> ModuleType:
    return script("figures")


def test_the_pages_show_the_kept_run():
    done = subprocess.run([sys.executable, SCRIPT, "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def raw_of(script: ModuleType, sizes: tuple[str, ...], *, charged: bool = False, peers: tuple[str, ...] = ()) -> dict:
    """Raw figures of a run in which Warmset takes 1 s a query, Parquet 2 s, and peers half a second."""

    def job(engine: str, size: str, seconds: float) -> dict:
        timing = {"seconds": seconds, "ordered": True}
        # What is not of TPC-H must not count in whole jobs.
        ours = {"seconds": 100 * seconds * seconds, "ordered": True}
        one = dict.fromkeys(script.report.work.TPCH, timing) | dict.fromkeys(script.report.work.OTHERS, ours)
        return {"engine": engine, "size": size, "round": 0, "fill_s": 10.0, "complete": True, "died": None,
                "passes": [one, one], "setting": None, "storage": None, "commit": "abcdef0"}  # fmt: skip

    seconds = {"warmset": 1.0, "parquet": 2.0, **dict.fromkeys(peers, 0.5)}
    return {
        "kept": {"rounds": 1, "passes": 2, "candidates": 3, "engines": ["parquet"], "peers": list(peers),
                 "charge_files": charged, "form": "raw", "sizes": [[size, 2.7, 1536 << 20] for size in sizes]},
        "machine": {"cpu_model": "a machine", "cpus": 2, "kernel": "6", "java": "17"},
        "jobs": [job(engine, size, each) for size in sizes for engine, each in seconds.items()],
        "trials": [], "faults": [],
    }  # fmt: skip


def test_all_sizes_and_peers_of_a_run_are_shown(script: ModuleType):
    raw = raw_of(script, ("fits", "twice", "four"), peers=("duckdb", "comet"))
    row = script.row(raw, script.ROW, Path("run/README.md"))
    assert row.index("the cache outgrows memory: 1.81 × (one job") < row.index(
        "twice the rows in the same memory: 1.81 ×"
    )
    assert row.endswith(
        f"| {'; '.join(['2.00 × (worst 2.00; first pass 2.00, worst 2.00)'] * 3)} | "
        "[spark-sql, a machine](run/README.md) |"
    )
    shown = script.block(raw, [])
    assert all(
        f"At `{size}`: one job of each engine (not played: stock `cache()`; " in shown
        for size in ("fits", "twice", "four")
    )
    assert shown.count("against Comet over Parquet alone: 0.50.") == 3
    assert "charged to the cgroup" not in shown


def test_engines_that_played_fewer_jobs_are_named(script: ModuleType):
    raw = raw_of(script, ("twice",), peers=("duckdb",))
    raw["jobs"] += [each for each in raw["jobs"] if each["engine"] != "duckdb"]
    assert (
        "At `twice`: 2 jobs of each engine, but 1 of DuckDB over Parquet (not played: stock `cache()`; "
        in script.report.conditions(raw)
    )


def test_a_run_with_files_charged_is_shown_beside(script: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    run = (tmp_path / script.RUN).parent
    pages = ("README.md", "docs/reference/benchmarks.md", script.TERACACHE_PAGE, script.chart_of(script.RUN))
    for name in (*pages, *script.FURTHER, script.DOUBLES, *script.ML_RUNS):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    monkeypatch.setattr(script, "ROOT", tmp_path)
    raw = raw_of(script, ("twice",), peers=("comet",))
    (tmp_path / script.RUN).write_text(json.dumps(raw))
    assert script.charged() is None
    plain = script.pages(raw, None)
    further = plain[tmp_path / "docs/reference/benchmarks.md"].count("Whole job, the best stock engine") - 1
    for folder, name in (("spark-sql", "raw-search-rounds-charged"), ("spark-sql-charged", "raw")):
        file = run.with_name(folder) / f"{name}.json"
        file.parent.mkdir(exist_ok=True)
        file.write_text(json.dumps(raw_of(script, ("twice", "fits"), charged=True)))
        assert script.charged() == file.relative_to(tmp_path)
        both = script.pages(raw, script.charged())
        page = f"{folder}/README{name.removeprefix('raw')}.md"
        assert both[tmp_path / "README.md"].count(page) == 1
        assert script.CHARGED_ROW in both[tmp_path / "README.md"]
        reference = both[tmp_path / "docs/reference/benchmarks.md"]
        assert reference.count("evicted before each job, and charged to the cgroup") == 1 and page in reference
        assert reference.count("Whole job, the best stock engine") == 3 + further
        # Written, and then without that run again: nothing of it is left.
        (tmp_path / "README.md").write_text(both[tmp_path / "README.md"])
        assert script.pages(raw, None)[tmp_path / "README.md"] == plain[tmp_path / "README.md"]


@pytest.mark.parametrize("page", ["README.md", "docs/reference/benchmarks.md"])
def test_another_figure_on_a_page_is_found(script: ModuleType, monkeypatch: pytest.MonkeyPatch, page: str):
    read = Path.read_text
    raw = json.loads((ROOT / script.RUN).read_text())
    figure = re.search(r"(\d+\.\d\d) × \(worst", script.row(raw, script.ROW, script.RUN))[1]

    def changed(path: Path, *arguments: object, **more: object) -> str:
        text = read(path, *arguments, **more)
        if path == ROOT / page:
            assert figure in text
            return text.replace(figure, "9.99")
        return text

    monkeypatch.setattr(Path, "read_text", changed)
    monkeypatch.setattr(sys, "argv", ["figures.py", "--check"])
    assert script.main() == 1


def test_what_was_aimed_at_is_beside_what_came_of_it(script: ModuleType):
    text = script.goals(raw_of(script, ("fits", "twice", "four"), peers=("duckdb",)), raw_of(script, ("twice",)))
    assert "| geometric mean of TPC-H's steady queries ≥ 2 | 2.00 | 2.00 | 2.00 | 2.00 | – |" in text
    assert "| worst query ≥ 1.0 | 2.00 (q1) | 2.00 (q1) | 2.00 (q1) | 2.00 (q1) | – |" in text
    assert "| a steady pass over DuckDB's ≤ 4 | 2.0 | – | 2.0 | 2.0 | – |" in text


def trained(machine: str, name: str, stock: list[float], live_bytes: int = 0, *, regime: str = "main") -> dict:
    """Raw figures of a run of one trainer: a pass takes Warmset 4 s, stock Spark 12 s (or nothing is known of it)."""
    ours = {"seconds": 4.0, "memory_bytes": 10**8, "disk_bytes": 0, "live_bytes": live_bytes, "read_bytes": 0}
    theirs = {**ours, "seconds": 12.0, "disk_bytes": 5 * 10**9, "live_bytes": None}
    one = {"title": name, "engines": {"stock": {"timings": [{"seconds": each} for each in stock]},
                                      "warmset": {"timings": [{"seconds": 5}]}},
           "fit_ratio": 2.0, "ratio": 3.0, "interval": None, "disk_bytes_per_s": [1e9, 1e9],
           "passes": {"warmset": ours, "stock": theirs if stock else None},
           "settings": {"warmset": {"pool_bytes": 10**9, "total_bytes": 10**9}}}  # fmt: skip
    played = {"rows": 10 if regime == "main" else 5, "total_bytes": 2 * 10**9, "workloads": {name: one}}
    return {"machine": {"cpu_model": machine, "cpus": 2}, "regimes": {regime: played}}


def test_trainers_of_several_runs_are_in_one_table(script: ModuleType):
    kmeans, forest = trained("A", "kmeans", [10, 12]), trained("B", "forest", [])
    text = script.summary.table([kmeans, forest], "main")
    assert "| kmeans | A | 11.0 (2) | 5.0 (1) | 2.00 | 2.00 – 2.40 | 3.00 | 2.5, 0.1 | 1.2 | – |" in text
    assert "| forest | B | not finished | 5.0 (1) | 2.00 | – | 3.00 | – | 1.6 | – |" in text
    assert script.summary.ratios([kmeans, trained("B", "kmeans", [9])], "main", "ratio") == "kmeans 3.00"


def test_a_pass_over_its_limit_takes_the_run_where_all_fits(script: ModuleType):
    fits = trained("A", "lr", [9], regime="fits")
    fits["regimes"]["fits"]["workloads"]["lr"]["passes"]["warmset"]["seconds"] = 1.0
    # Half the rows: 2 s; the disk needs 0.5 s for what the pool of 1 GB has no room for, or 3 s.
    assert script.summary.distances([trained("A", "lr", [9], 15 * 10**8), fits]) == {"lr": 2.0}
    assert script.summary.distances([trained("A", "lr", [9], 4 * 10**9), fits]) == {"lr": pytest.approx(4 / 3)}
    fits["regimes"]["fits"]["workloads"]["lr"]["passes"]["warmset"]["seconds"] = 3.0
    assert "bound too high" in script.summary.table([trained("A", "lr", [9]), fits], "main")


def test_data_that_fit_once_they_are_cached_are_called_so(script: ModuleType):
    small = trained("A", "objects", [9])
    small["regimes"]["main"]["workloads"]["objects"]["passes"]["stock"]["disk_bytes"] = 0
    assert script.summary.ratios([small], "main", "ratio") == "objects (cached, they fit) 3.00"


def test_every_row_of_the_readme_has_a_run_that_is_kept():
    (block,) = README_BLOCK.findall((ROOT / "README.md").read_text())
    rows = [line for line in block.splitlines() if line.startswith("| ")][1:]
    assert rows
    for row in rows:
        links = RUN_LINK.findall(row)
        assert links, f"no run: {row}"
        assert all((ROOT / link).is_file() for link in links), row
