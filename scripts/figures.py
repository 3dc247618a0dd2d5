#!/usr/bin/env python3
"""Writes the figures of Spark's benchmarks into README.md and docs/reference/benchmarks.md, from kept runs, and the
pages of these runs.

usage: .venv/bin/python scripts/figures.py [--check]; with --check it writes nothing, and ends with 1 where a page's
figures are not the runs'.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
# The benchmarks' own words and tables; both have a module `report`, and spark-sql's is the first.
sys.path[:0] = [str(ROOT / "bench"), str(ROOT / "bench" / "spark-sql"), str(ROOT / "bench" / "spark-ml")]

import figures  # noqa: E402
import report  # noqa: E402
import summary  # noqa: E402
from figures import SizeFigures, of_tpch  # noqa: E402
from harness.keeping import raw_figures  # noqa: E402
from harness.statistics import geomean, shown  # noqa: E402

RUN = Path("bench/runs/2026-11-28-intel-xeon-2cpu-24g/spark-sql/raw-rounds-limit-sizes-half.json")
# Runs on other machines, shown in short beside it.
FURTHER = (Path("bench/runs/2026-11-28-amd-epyc-2cpu-24g/spark-sql/raw-search-rounds.json"),)
# The form with doubles in place of decimals.
DOUBLES = Path("bench/runs/2026-11-28-intel-xeon-2cpu-24g/spark-sql/raw-rounds-doubles.json")
# Runs of spark-ml; a workload that two of them have is the later one's.
ML_RUNS = (
    Path("bench/runs/2026-11-28-intel-xeon-2cpu-24g/spark-ml/raw-search-main-kmeans-forest.json.gz"),
    Path("bench/runs/2026-11-28-intel-xeon-2cpu-24g/spark-ml/raw-main-objects.json"),
    Path("bench/runs/2026-11-28-intel-xeon-2cpu-24g/spark-ml/raw-search-main-lr-lgr-svm.json.gz"),
    Path("bench/runs/2026-11-28-intel-xeon-2cpu-24g/spark-ml/raw-fits-lgr.json.gz"),
    Path("bench/runs/2026-11-28-intel-xeon-2cpu-24g/spark-ml/raw-fits-lr-svm-kmeans-objects-forest.json.gz"),
)
ROW = "| TPC-H's 22 queries over eight cached tables with decimals"
FURTHER_ROW = "| the same on another machine"
DOUBLES_ROW = "| the same with doubles in place of decimals"
CHARGED_ROW = "| the same, with the Parquet files charged to the cgroup"
ML_ROW = "| MLlib on Spark 4.3, data of twice the memory, settings of both searched"
ML_FURTHER_ROW = "| the same where "
# TeraCache's published evaluation, per cent: time saved against Spark's memory and disk; time in collections.
TERACACHE_PAGE = "docs/published/teracache.md"
TERACACHE = {"lr": (32, -43), "lgr": (37, -50), "svm": (20, -45), "kmeans": (7, 5)}
REGIMES = {
    "main": "The data are about twice the cgroup's limit",
    "fits": "All fits (half the rows)",
    "1x": "The data are about the cgroup's limit",
    "4x": "The data are about four times the cgroup's limit (twice the rows)",
}
LIMIT_WORDS = (
    ". A pass's limit is a pass with all in memory (the faster engine's, below, for as many rows), or the bytes that "
    "the pool has no room for at the device's speed, whichever is longer"
)
WHAT = {"twice": "the cache outgrows memory", "four": "twice the rows in the same memory", "fits": "all fits"}


def charged() -> Path | None:
    """The raw figures of the newest run whose files were charged to the cgroup."""
    files = [each for each in sorted(ROOT.glob("bench/runs/*/spark-sql*/raw*.json")) if "-quick/" not in str(each)]
    found = [each for each in files if raw_figures(each)["kept"].get("charge_files")]
    return found[-1].relative_to(ROOT) if found else None


def page_of(file: Path) -> Path:
    """The page that a run wrote beside its raw figures."""
    return file.with_name(f"README{file.name.partition('.')[0].removeprefix('raw')}.md")


def chart_of(file: Path) -> Path:
    """The chart that a run drew beside its raw figures."""
    return file.with_name(f"chart{file.name.partition('.')[0].removeprefix('raw')}.svg")


def row(raw: dict, begin: str, page: Path) -> str:
    """A row of the README: the sizes that were measured, whole and steady."""
    steady, whole = [], []
    for name, words in WHAT.items():
        found = SizeFigures.of(raw["jobs"], name)
        best = found.best_stock_whole()
        if best is None or not found.whole("warmset"):
            continue
        ratios = of_tpch(found.ratios()).values()
        ratio = median(found.whole(best)) / median(found.whole("warmset"))
        against = "" if best == "parquet" else f" against {report.TITLES[best]}"
        spread = report.whole_spread(found, best) or " (one job)"
        jobs, finished = found.jobs["warmset"], len(found.whole("warmset"))
        lost = f", Warmset finished {finished} of {len(jobs)} jobs ({report.why(jobs)})" if finished < len(jobs) else ""
        whole.append(f"{words}: {ratio:.2f} ×{against}{spread}{lost}")
        first = of_tpch(found.ratios(first=True)).values()
        steady.append(
            f"{geomean(ratios):.2f} × (worst {min(ratios):.2f}; first pass {geomean(first):.2f}, "
            f"worst {min(first):.2f})"
        )
    link = f"[spark-sql, {raw['machine']['cpu_model']}]({page})"
    return f"{begin} | {'; '.join(whole)} | {'; '.join(steady)} | {link} |"


def block(raw: dict, beside: list[tuple[str, Path, dict]]) -> str:
    """The tables of the reference: RUN's, then in short those of the runs beside it, each under a heading."""
    parts = [report.conditions(raw), report.tables(raw)]
    for heading, file, other in beside:
        parts += [
            f"**{heading}**: {report.conditions(other)}", report.short_tables(other),
            f"[That run](../../{page_of(file)}).",
        ]  # fmt: skip
    return "\n\n".join(parts)


def goals(raw: dict, further: dict) -> str:
    """What was aimed at, and what each machine came to at each size."""
    sizes = [(raw, "twice"), (further, "twice"), (raw, "four"), (raw, "fits"), (further, "fits")]
    found = [SizeFigures.of(run["jobs"], size) for run, size in sizes]
    heads = [f"`{size}`, {run['machine']['cpu_model'].split('(')[0]}" for run, size in sizes]

    def worst(each: SizeFigures) -> str:
        ratios = of_tpch(each.ratios())
        if not ratios:
            return "–"
        query = min(ratios, key=ratios.__getitem__)
        more = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio < 1 and name != query]
        return f"{ratios[query]:.2f} ({'; '.join([query, *more])})"

    def against_cache(each: SizeFigures) -> str:
        return ", ".join(shown(each.seconds("stock", q) / each.seconds("warmset", q), 1) for q in ("q1", "q6"))

    def over_duckdb(each: SizeFigures) -> str:
        ours, theirs = each.pace_s("warmset"), each.pace_s("duckdb")
        return shown(ours / theirs if ours and theirs else None, 1)

    # Queries below their bound are a fault: the bound is too high there, and the mean says nothing.
    distance = [
        shown(figures.result(run)["limit_ratio"]) if size == "twice" and not run["faults"] else "–"
        for run, size in sizes
    ]
    rows = {
        "geometric mean of TPC-H's steady queries ≥ 2": [shown(geomean(of_tpch(e.ratios()).values())) for e in found],
        "worst query ≥ 1.0": [worst(each) for each in found],
        "Q1, Q6 against stock `cache()` where all fits ≥ 5, ≥ 8": [
            against_cache(each) if size == "fits" else "–" for each, (_, size) in zip(found, sizes, strict=True)
        ],
        "processor time of stock `cache()`'s JVM over that of Warmset's ≥ 2": [
            shown(each.cpu_ratio("stock")) for each in found
        ],
        "a steady pass over DuckDB's ≤ 4": [over_duckdb(each) for each in found],
        "distance to the limit 1.0 to 1.3": distance,
    }
    lines = [f"| what was aimed at | {' | '.join(heads)} |", f"|---|{'---|' * len(heads)}"]
    return "\n".join([*lines, *(f"| {what} | {' | '.join(cells)} |" for what, cells in rows.items())])


def ml_block(trained: dict[Path, dict]) -> str:
    """Whole fits of all runs of spark-ml, by regime."""
    parts, raws = [], list(trained.values())
    for regime, words in REGIMES.items():
        if summary.found(raws, regime):
            parts.append(
                f"{words}; seconds, medians of so many fits{LIMIT_WORDS if regime == 'main' else ''}:\n\n"
                f"{summary.table(raws, regime)}"
            )
    links = [
        f"[{raw['machine']['cpu_model']}, {', '.join(raw['kept']['workloads'])}](../../{page_of(file)})"
        for file, raw in trained.items()
    ]
    return "\n\n".join([*parts, f"Runs, with all trials: {', '.join(links)}."])


def teracache_block(trained: dict[Path, dict]) -> str:
    """What caching saves of each trainer's time, and of its time in collections, beside the published figures."""
    saved = ["| time saved | theirs | ours, a pass | ours, the whole fit |", "|---|---|---|---|"]
    collected = ["| time in collections, in whole fits | theirs | ours |", "|---|---|---|"]
    played = summary.found(list(trained.values()), "main")
    for name, (time_percent, collection_percent) in TERACACHE.items():
        each = played[name][1]
        a_pass, whole = (round(100 - 100 / each[what]) for what in ("ratio", "fit_ratio"))
        theirs, ours = (each["passes"][engine]["fit_collection_s"] for engine in ("stock", "warmset"))
        saved.append(f"| {each['title']} | {time_percent} % | {a_pass} % | {whole} % |")
        collected.append(f"| {each['title']} | {collection_percent:+} % | {round(100 * ours / theirs - 100):+} % |")
    return "\n".join([*saved, "", *collected])


def ml_rows(trained: dict[Path, dict]) -> str:
    """Spark-ml's rows of the README: a regime each."""
    rows, raws = [], list(trained.values())
    for regime, words in REGIMES.items():
        if not (played := summary.found(raws, regime)):
            continue
        links = ", ".join(
            f"[spark-ml {', '.join(raw['kept']['workloads'])}, {raw['machine']['cpu_model']}]({page_of(file)})"
            for file, raw in trained.items()
            if any(raw is used for used, _ in played.values())
        )
        whole, steady = (summary.ratios(raws, regime, what) for what in ("fit_ratio", "ratio"))
        begin = ML_ROW if regime == "main" else f"{ML_FURTHER_ROW}{words[0].lower()}{words[1:]}"
        rows.append(f"{begin} | {whole} | a pass: {steady} | {links} |")
    return "\n".join(rows)


def pages(raw: dict, file_charged: Path | None) -> dict[Path, str]:
    """The pages as they should be."""
    reference, readme = ROOT / "docs" / "reference" / "benchmarks.md", ROOT / "README.md"
    beside = [("On another machine", file, read(file)) for file in FURTHER]
    stock = (
        f"{ROW}, Spark 4.2: the best stock engine, which is Parquet without a cache, over Warmset; the best of "
        "three settings of each or more"
    )
    table = [row(raw, stock, page_of(RUN)), *(row(other, FURTHER_ROW, page_of(file)) for _, file, other in beside)]
    table.append(row(read(DOUBLES), DOUBLES_ROW, page_of(DOUBLES)))
    aims = goals(raw, beside[0][2])
    if file_charged is not None:
        beside.append(("Files charged to the cgroup", file_charged, read(file_charged)))
        table.append(row(beside[-1][2], CHARGED_ROW, page_of(file_charged)))
    ml_rows_old = f"^{re.escape(ML_ROW)}.*$(\\n{re.escape(ML_FURTHER_ROW)}.*$)*"
    rows = f"^{re.escape(ROW)}.*$(\\n({'|'.join(map(re.escape, (FURTHER_ROW, DOUBLES_ROW, CHARGED_ROW)))}).*$)*"
    trained = {file: read(file) for file in ML_RUNS}
    return {
        reference: replaced(
            {marked("spark-sql"): between("spark-sql", block(raw, beside)),
             marked("spark-sql's aims"): between("spark-sql's aims", aims),
             marked("spark-ml"): between("spark-ml", ml_block(trained))}, reference),
        readme: replaced({rows: "\n".join(table), ml_rows_old: ml_rows(trained)}, readme),
        ROOT / TERACACHE_PAGE: replaced(
            {marked("teracache"): between("teracache", teracache_block(trained))}, ROOT / TERACACHE_PAGE),
        # Pages show what lies below docs/.
        ROOT / "docs" / "reference" / "tpch.svg": (ROOT / chart_of(RUN)).read_text(),
    }  # fmt: skip


def run_pages() -> dict[Path, str]:
    """The pages of the runs that are shown, as they should be."""
    place = importlib.util.spec_from_file_location("ml_report", ROOT / "bench" / "spark-ml" / "report.py")
    ml_report = importlib.util.module_from_spec(place)
    place.loader.exec_module(ml_report)
    found = {page_of(file): report.readme(read(file), file.name) for file in (RUN, *FURTHER, DOUBLES)}
    found |= {
        page_of(file): ml_report.readme(read(file), file.name, chart_of(file).with_suffix(".png").name)
        for file in ML_RUNS
    }
    return {ROOT / page: text for page, text in found.items()}


def read(file: Path) -> dict:
    """Raw figures of a kept run."""
    return raw_figures(ROOT / file)


def marked(name: str) -> str:
    """The pattern of a benchmark's place in a page."""
    return between(re.escape(name), "(.|\\n)*?")


def between(name: str, text: str) -> str:
    """A text between the marks of a benchmark's place."""
    return f"<!-- figures: {name} -->\n{text}\n<!-- /figures: {name} -->"


def replaced(places: dict[str, str], page: Path) -> str:
    """The page with each text in its one place."""
    text = page.read_text()
    for pattern, new in places.items():
        text, count = re.subn(pattern, lambda _, new=new: new, text, flags=re.MULTILINE)
        if count != 1:
            raise SystemExit(f"{page}: {count} places for the figures of {pattern}, and there must be one")
    return text


def main() -> int:
    """Writes the pages, or compares them."""
    wanted = pages(read(RUN), charged()) | run_pages()
    stale = [page for page, text in wanted.items() if not page.exists() or page.read_text() != text]
    if "--check" in sys.argv[1:]:
        for page in stale:
            print(
                f"{page.relative_to(ROOT)}: other figures than the kept runs'; run scripts/figures.py", file=sys.stderr
            )
        return 1 if stale else 0
    for page in stale:
        page.write_text(wanted[page])
    return 0


if __name__ == "__main__":
    sys.exit(main())
