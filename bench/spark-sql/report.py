"""The benchmark's tables on stdout, and the README beside its raw figures."""

from __future__ import annotations

from harness import queries
from harness.statistics import median_of
from options import FITS_OVERHEAD_BYTES, OVERHEAD_BYTES, Options

FORMS = {
    "double": "prices as doubles (`--form double`: Spark's arithmetic on wide decimals\n  costs more than a scan)",
    "raw": "prices as the decimals that TPC-H has (`--form raw`)",
}
LIMIT = """
- `limit`: a query's time in `overflow` over max(its time in `fits`, bytes it read / the disk's bandwidth in the same
  run: O_DIRECT reads at the best queue depth, `region-scan --raw-only`)."""


def tables(raw: dict) -> str:
    """One table per regime, the limit, and what became of the half-memory runs."""
    parts = [regime(raw[name]) for name in ("overflow", "fits") if name in raw]
    if "limit" in raw:
        parts.append(limits(raw["limit"], raw["disk_speed"]["read_bytes_per_s"]))
    if "half" in raw:
        parts.append(half(raw["half"]))
    return "\n\n".join(parts)


def regime(raw: dict) -> str:
    """Medians in seconds, an engine per line."""
    names = [query.name for query in queries.ALL]
    head = f"{raw['regime']}: {raw['memory_bytes'] >> 20} MiB of heap and pool; seconds, medians"
    lines = [head, f"{'':22}{'cache it':>10}" + "".join(f"{name:>10}" for name in names)]
    for batch in raw["batches"]:
        for player in batch:
            cached = player["materialise"]["seconds"] if player["materialise"] else None
            values = [median_of([run["seconds"] for run in player["timings"].get(name, [])]) for name in names]
            cells = [shown(cached), *map(shown, values)]
            end = ""
            if player["died"]:
                end = f"  {player['died']['reason']} at {player['died']['step']}: {player['died']['detail']}"
            elif player["dropped"]:
                end = "  not timed further"
            lines.append(f"{player['title']:22}" + "".join(f"{cell:>10}" for cell in cells) + end)
    lines.append(f"{'best stock / Warmset':32}" + "".join(f"{shown(raw['ratios'].get(name)):>10}" for name in names))
    lines.append(
        f"{'the same, task CPU':32}" + "".join(f"{shown(raw['task_cpu_ratios'].get(name)):>10}" for name in names)
    )
    return "\n".join(lines)


def limits(found: dict, read_bytes_per_s: float) -> str:
    """The distance to the limit, query by query."""
    lines = [f"distance to the limit, at {read_bytes_per_s / 1e9:.2f} GB/s from the disk"]
    for name, each in found.items():
        lines.append(
            f"{name:10} {each['seconds']:6.2f} s; all resident {each['all_resident_s']:.2f} s, "
            f"{each['missing_bytes'] / 1e9:.2f} GB read: {each['ratio']:.2f}"
        )
    return "\n".join(lines)


def half(raw: dict) -> str:
    """What became of each run."""
    lines = ["half the memory"]
    for name, run in raw["runs"].items():
        if run["died"]:
            lines.append(f"{name:14} {run['died']['reason']} at {run['died']['step']}: {run['died']['detail']}")
        elif run["level"] is None:
            lines.append(f"{name:14} answered without a cache")
        else:
            lines.append(f"{name:14} cached in {run['materialise']['seconds']:.1f} s, answered")
    return "\n".join(lines)


def shown(value: float | None) -> str:
    """A figure, or a dash where there is none."""
    return "-" if value is None or value != value else f"{value:.2f}"


def readme(options: Options, raw_file: str) -> str:
    """How the figures in `raw_file` came about."""
    quick = " QUICK=1" if options.quick else ""
    parts = {
        "overflow": f"{options.overflow_bytes >> 20} MiB of heap and pool.",
        "fits": f"{options.fits_bytes >> 20} MiB of heap and pool.",
        "sizes": f"footprint at scale {min(1.0, options.sizes_scale):g}, with `lineitem`'s decimals in either form; "
        f"materialising at scale {options.sizes_scale:g}.",
        "half": f"{options.half_rows} rows x 22 columns in {options.half_bytes >> 20} MiB and, for Warmset, also in "
        "half of it. Answers are compared with those of stock Spark without a cache, `reference`.",
    }
    what = "\n".join(f"- `{part}`: {text}" for part, text in parts.items() if part in options.parts)
    if {"overflow", "fits"} <= set(options.parts):
        what += LIMIT
    return f"""# spark-sql

`make bench B=spark-sql{quick} ARGS="--parts {",".join(options.parts)} --form {options.form}"`, on the machine described
in `{raw_file}`, which has all options and figures.

Each engine is Spark in local mode on {options.cpus} cores in a process of its own, in a memory cgroup of its heap and
pool plus {OVERHEAD_BYTES >> 20} MiB for what a JVM needs besides ({FITS_OVERHEAD_BYTES >> 20} MiB in `fits`).
All engines of a batch are alive at once and play five queries in interleaved rounds whose order rotates:
{options.warmups} warm-up, then {options.rounds} that count. Every run is a new query object; a result column's name
changes from run to run, the generated code does not. Figures are medians; a ratio is the best stock engine's median
over Warmset's of the same batch, query by query. After the first round, stock engines that are at least 1.6 times
slower than the best one on every query are not timed further.

- data: TPC-H `lineitem` at scale {options.scale:g}, {FORMS[options.form]};
  `supplier` is read from Parquet.
{what}
"""
