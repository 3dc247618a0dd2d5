"""The benchmark's tables on stdout, and the README beside its raw figures."""

from __future__ import annotations

from harness import settings
from options import Options

COLUMNS = {
    "pass": "seconds", "compute": "compute_s", "collect": "collection_s", "reading": "reading_s", "CPU": "task_cpu_s",
    "waits": "wait_s", "fit": "fit_s",
}  # fmt: skip


def tables(raw: dict) -> str:
    """One table per regime, the limit, and the least memory."""
    parts = [regime(name, found) for name, found in raw["regimes"].items()]
    if raw.get("limit"):
        parts.append(limits(raw["limit"]))
    if raw["memory"]:
        parts.append(memory(raw["memory"]))
    return "\n\n".join(parts)


def regime(name: str, raw: dict) -> str:
    """Medians in seconds, an engine per line."""
    head = f"{name}: {raw['rows']} rows, {raw['total_bytes'] >> 20} MiB of memory for each engine; seconds per pass"
    lines = [head, f"{'':22}" + "".join(f"{column:>9}" for column in COLUMNS)]
    for found in raw["workloads"].values():
        for engine, died in ((engine, run["died"]) for engine, run in found["engines"].items()):
            passed = found["passes"][engine] or {}
            cells = "".join(f"{shown(passed.get(what)):>9}" for what in COLUMNS.values())
            end = (
                f"  {died['reason']} at {died['step']}: {died['detail']}"
                if died
                else setting(found["settings"][engine])
            )
            lines.append(f"{found['title'] if engine == 'stock' else '':21} {engine:7}"[:29].ljust(22) + cells + end)
        equal = "results equal" if found["results_equal"] else "RESULTS DIFFER"
        lines.append(
            f"{'':4}stock / Warmset: {shown(found['ratio'])} per pass, {shown(found['fit_ratio'])} per fit; {equal}"
        )
    return "\n".join(lines)


def setting(raw: dict) -> str:
    """How the engine was set."""
    pool = f" + {raw['pool_bytes'] >> 20}m" if raw["pool_bytes"] else ""
    pool += " shared" if raw.get("heap_first") else ""
    young = f" young {raw['young_percent']}%" if raw.get("young_percent") else ""
    kept = "" if raw.get("compressed", True) else " not compressed"
    return f"  {raw['heap_bytes'] >> 20}m{pool} {raw['collector']}{young} {raw['serialiser']}{kept}"


def limits(found: dict) -> str:
    """The distance to the limit, workload by workload."""
    lines = ["distance to the limit"]
    for name, each in found.items():
        lines.append(
            f"{name:10} {each['seconds']:6.2f} s; all resident {each['all_resident_s']:.2f} s, "
            f"{each['missing_bytes'] / 1e9:.2f} GB missing, {(each['read_bytes'] or 0) / 1e9:.2f} GB read "
            f"at {each['disk_bytes_per_s'] / 1e9:.2f} GB/s: {each['ratio']:.2f} "
            f"({each['ratio_of_total']:.2f} with all memory as pool)"
        )
    return "\n".join(lines)


def memory(raw: dict) -> str:
    """The least memory of each engine."""
    lines = ["least memory with which logistic regression finishes"]
    for engine, found in raw.items():
        least = "none that was tried" if found["bytes"] is None else f"{found['bytes'] >> 20} MiB"
        lines.append(f"{engine:10} {least}")
    return "\n".join(lines)


def shown(value: float | None) -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None or value != value else f"{value:.2f}"


def readme(options: Options, raw_file: str, chart_file: str) -> str:
    """How the figures in `raw_file` came about."""
    quick = " QUICK=1" if options.quick else ""
    arguments = f"--parts {','.join(options.parts)} --workloads {','.join(options.workloads)}"
    arguments += " --single" if options.single else ""
    arguments += "" if options.read_ahead_kb is None else f" --read-ahead {options.read_ahead_kb}"
    precision = "of the precision of 32-bit floats" if options.single else "of full precision"
    apart = "" if options.quick else f" ({options.sittings} of KMeans, whose processes differ: each by new ones)"
    return f"""# spark-ml

`make bench B=spark-ml{quick} ARGS="{arguments}"`, on the machine described in `{raw_file}`, which has all options,
settings and figures; `{chart_file}` shows the passes.

Each engine is Spark 4.3 in local mode on {options.cpus} cores in a process of its own, in a memory cgroup that holds
all it has: heap, pool, what a JVM needs besides, the Python driver, and the page cache of the blocks that it wrote to
disk. The total is the same for both. {options.rows} rows of 50 doubles, {precision},
are read from Parquet by ordinary `fit` calls in PySpark, {options.iterations} iterations each; the trainers cache what
they make of the rows themselves. `objects` is an RDD of a case class (an id, one of
5000 names, ten doubles of 1009 values) that takes as much of the heap, scanned {options.iterations} times;
`forest` a random forest.

A pass is one job over the cached data; the first two of each fit do not count. Both engines train on one file of the
data first, which does not count either; then come {options.rounds} whole fits of each, in interleaved rounds whose
order rotates{apart}. Figures are medians over all passes, a ratio is stock
over Warmset. Before, fits of {options.tuning_iterations} iterations find each engine's best heap, collector (G1,
Parallel), serialiser (Java, Kryo) and compression (Spark's default, LZ4, or none; both stock only) for each workload,
of `objects` also the young generation's size (the collector's choice, or {settings.YOUNG_PERCENT["stock"]} % of stock's
heap and {settings.YOUNG_PERCENT["warmset"]} % of Warmset's), with a second try for those within a tenth of the fastest;
linear regression and SVM take logistic
regression's{"; not in the quick form" if options.quick else ""}. Results are compared, to
eight digits, over all fits of both engines: MLlib adds partial sums in the order in which they arrive.

- `main`: {options.total_bytes >> 20} MiB, about half of the data.
- `fits`: half the rows in {options.fits_bytes >> 20} MiB. Both engines have stock's collector and serialiser, and nine
  tenths as heap; Warmset has `spark.warmset.totalMemory`, and keeps what fits on the heap, as stock does. Each engine
  has {options.sittings} processes, one after the other.
- `1x`, `4x`: the data is about once and four times the memory (`4x`: twice the rows); one fit each, of half the
  iterations where there are twice the rows.
- A pass's time is split by its tasks' time: compute is CPU, which for stock Spark holds the decoding of blocks from
  disk; collection is what Spark counts of it; reading is the rest, waiting for the disk. `waits` are those that
  Warmset itself counts, summed over tasks.
- `limit`: a pass in `main` over max(the faster engine's pass in `fits` for as many rows, bytes that the pool has no
  room for / the disk's O_DIRECT bandwidth at its best queue depth, measured before and after the workload: the mean),
  at the least 1.
"""
