"""The page of a run, and its tables, from its raw figures alone: whole fits first, then what a pass is made of."""

from __future__ import annotations

from statistics import median

from harness import search, settings
from harness.statistics import shown
from harness.workloads import PASSES_SKIPPED, ROW_BYTES, TUNED_AS
from summary import interval, seconds, spread
from tuning import RUNG_ITERATIONS

MIB = 1 << 20
TITLES = {"stock": "stock", "warmset": "Warmset"}
REGIMES = {"main": "the data outgrows memory", "fits": "all fits", "1x": "about the memory", "4x": "four times"}
COLUMNS = {
    "pass": "seconds", "compute": "compute_s", "collection": "collection_s", "reading": "reading_s",
    "CPU": "task_cpu_s", "waits": "wait_s",
}  # fmt: skip


def tables(raw: dict) -> str:
    """All tables of the run, in Markdown."""
    played = {name: found for name, found in raw["regimes"].items() if found["workloads"]}
    parts = [whole_table(name, found) for name, found in played.items()]
    parts += [pass_table(name, found) for name, found in played.items()]
    if raw.get("limit"):
        parts.append(limit_table(raw["limit"]))
    if raw["memory"]:
        parts.append(memory_table(raw["memory"]))
    if raw["result"]["tuned_trials"]:
        parts.append(trials_table(raw))
    return "\n\n".join(parts)


def heading(name: str, found: dict) -> str:
    """What the regime's name means: the rows against the cgroup's limit."""
    times = found["rows"] * ROW_BYTES / found["total_bytes"]
    return (
        f"**`{name}`**: {REGIMES.get(name, name)}; {found['rows']} rows, {times:.2f} times the cgroup's limit of "
        f"{found['total_bytes'] // MIB} MiB, in {found['partitions']} partitions"
    )


def whole_table(name: str, found: dict) -> str:
    """Whole fits: reading the files, filling the cache, all passes."""
    lines = [
        f"{heading(name, found)}. Whole fits, seconds; medians, with the least and the largest:",
        "",
        "| workload | stock | from – to | Warmset | from – to | **stock / Warmset** | from – to | of a pass (95 %) | "
        "results |",
        f"|---|{'---|' * 8}",
    ]
    below = []
    for each in found["workloads"].values():
        cells = [cell for engine in TITLES for cell in of_engine(each["engines"][engine], seconds(each, engine))]
        of_pass = shown(each["ratio"]) + interval(each)
        equal = {True: "equal", False: "**differ**", None: "not compared"}[each["results_equal"]]
        whole = f"**{shown(each['fit_ratio'])}**"
        lines.append(f"| {' | '.join((each['title'], *cells, whole, spread(each), of_pass, equal))} |")
        ratios = {"whole fit": each["fit_ratio"], "pass": each["ratio"]}
        below += [f"{each['title']}, {what} ({ratio:.2f})" for what, ratio in ratios.items() if ratio and ratio < 1]
    return "\n".join([*lines, "", f"Below 1: {', '.join(below) or 'none'}."])


def of_engine(engine: dict, fits: list[float]) -> tuple[str, str]:
    """Its median and its extremes, or what it died of."""
    died = engine["died"]
    why = f"{died['reason']} at {died['step']}" if died else ""
    if not fits:
        return why or "–", ""
    return f"{median(fits):.1f}{f' (then {why})' if died else ''}", f"{min(fits):.1f} – {max(fits):.1f}"


def pass_table(name: str, found: dict) -> str:
    """A pass, and what comes before those that count."""
    lines = [
        f"`{name}`, seconds: a steady pass (median) and what it is made of; the first {PASSES_SKIPPED} passes of a fit "
        "together, of which the first fills the cache; the rest of a fit beside its passes.",
        "",
        f"| workload | engine | {' | '.join(COLUMNS)} | first {PASSES_SKIPPED} passes | beside passes | set to |",
        f"|---|---|{'---|' * (len(COLUMNS) + 3)}",
    ]
    for each in found["workloads"].values():
        for engine, title in TITLES.items():
            passed = each["passes"][engine] or {}
            cells = [shown(passed.get(what)) for what in (*COLUMNS.values(), "first_s", "beside_s")]
            title_of_setting = settings.from_raw(each["settings"][engine]).title
            lines.append(f"| {each['title']} | {title} | {' | '.join(cells)} | {title_of_setting} |")
    return "\n".join(lines)


def limit_table(found: dict) -> str:
    """The distance to the limit, workload by workload."""
    lines = [
        "Distance of Warmset's pass in `main` to max(the faster engine's pass in `fits`, scaled to as many rows, bytes "
        "that the pool has no room for / the device):",
        "",
        "| workload | pass, s | all resident, s | missing, GB | read, GB | device, GB/s | ratio | "
        "with all memory as pool |",
        f"|---|{'---|' * 7}",
    ]
    for name, each in found.items():
        lines.append(
            f"| {name} | {each['seconds']:.2f} | {each['all_resident_s']:.2f} | {each['missing_bytes'] / 1e9:.2f} | "
            f"{(each['read_bytes'] or 0) / 1e9:.2f} | {each['disk_bytes_per_s'] / 1e9:.2f} | {each['ratio']:.2f} | "
            f"{each['ratio_of_total']:.2f} |"
        )
    return "\n".join(
        [*lines, "", "Below 1 the bound is too high: what a pass costs however few rows counts twice in it."]
    )


def memory_table(raw: dict) -> str:
    """The least memory of each engine."""
    lines = ["| least memory with which logistic regression finishes | |", "|---|---|"]
    for engine, found in raw.items():
        least = "none that was tried" if found["bytes"] is None else f"{found['bytes'] // MIB} MiB"
        lines.append(f"| {TITLES[engine]} | {least} |")
    return "\n".join(lines)


def trials_table(raw: dict) -> str:
    """All trials of the search, the best first."""
    lines = ["Trials of the search, each by its longest fit; whole fits that follow from it, seconds:", "",
             "| workload | engine | trials | setting: seconds |", "|---|---|---|---|"]  # fmt: skip
    for name, engines in raw["tuning"].items():
        for engine, trials in engines.items():
            longest = {settings.from_raw(trial): trial for trial in sorted(trials, key=lambda each: each["rung"])}
            ordered = sorted(longest.values(), key=lambda each: (-each["rung"], each["whole_s"] or float("inf")))
            texts = [f"{settings.from_raw(each).title}: {shown(each['whole_s'], 0)}" for each in ordered]
            lines.append(f"| {name} | {TITLES[engine]} | {len(trials)} | {'; '.join(texts)} |")
    return "\n".join(lines)


def readme(raw: dict, raw_file: str, chart_file: str) -> str:
    """The page of the run."""
    machine, kept = raw["machine"], raw["kept"]
    quick = " QUICK=1" if kept["quick"] else ""
    arguments = f"--parts {','.join(kept['parts'])} --workloads {','.join(kept['workloads'])}"
    arguments += f" --candidates {kept['candidates']} --rounds {kept['rounds']} --rows {kept['rows']}"
    arguments += f" --settings-from {kept['settings_from']}" if kept["settings_from"] else ""
    arguments += " --single" if kept["single"] else ""
    arguments += "" if kept["read_ahead_kb"] is None else f" --read-ahead {kept['read_ahead_kb']}"
    precision = "of the precision of 32-bit floats" if kept["single"] else "of full precision"
    played = [each for found in raw["regimes"].values() for each in found["workloads"].values()]
    commits = sorted({each["commit"] for each in played if each["commit"]}) or [machine["commit"]]
    versions = {engine["version"] for each in played for engine in each["engines"].values() if engine["version"]}
    results = "\n".join(f"| `{key}` | {value} |" for key, value in raw["result"].items())
    apart = "" if kept["quick"] else f" ({kept['sittings']} of KMeans, whose processes differ: each by new ones)"
    picture = f"![a pass, split]({chart_file})\n" if raw["regimes"] else ""
    same = ", ".join(f"{name} takes {other}'s" for name, other in TUNED_AS.items())
    return f"""# spark-ml

`make bench B=spark-ml{quick} ARGS="{arguments}"` on {machine["cpu_model"]}, {machine["cpus"]} cores, kernel
{machine["kernel"]}, {machine["java"]}, BLAS {machine["blas"]}, Spark {", ".join(sorted(versions)) or "4.3"}.
Commits: {", ".join(map(str, commits))}. All figures are in `{raw_file}`; this page is written from it.

| key | value |
|---|---|
{results}

{picture}
{tables(raw)}

## How it was measured
Each engine is Spark 4.3 in local mode in a process of its own, in a memory cgroup that holds
all it has: heap, pool, what a JVM needs besides, the Python driver, and the page cache of the blocks that it wrote to
disk. The total is the same for both. {kept["rows"]} rows of 50 doubles, {precision},
are read from Parquet by ordinary `fit` calls in PySpark, {kept["iterations"]} iterations each; the trainers cache what
they make of the rows themselves. `objects` is an RDD of a case class (an id, one of
5000 names, ten doubles of 1009 values) that takes as much of the heap, scanned {kept["iterations"]} times;
`forest` a random forest.

A whole fit is reading the files, filling the cache and all passes. A pass is one job over the cached data; the first
{PASSES_SKIPPED} of each fit do not count as steady. Both engines train on one file of the data first, which does not
count; then come {kept["rounds"]} whole fits of each, in interleaved rounds whose order rotates{apart}. Figures are
medians, a ratio is stock over Warmset. The interval of a pass comes from resampling the passes of these processes: it
does not hold what another process would differ by. Results are compared, to eight digits, over all fits of both
engines: MLlib adds partial sums in the order in which they arrive.

{search_text(kept)}

- `main`: {kept["total_bytes"] // MIB} MiB, about half of the data.
- `fits`: half the rows in {kept["fits_bytes"] // MIB} MiB. Both engines have stock's collector, serialiser and
  fractions, and all but {settings.NATIVE_BYTES // MIB} MiB as heap; Warmset has that as `spark.warmset.totalMemory`,
  and keeps what fits on the heap, as stock does. Each engine has {kept["sittings"]} processes, one after the other.
- `1x`, `4x`: the data is about once and four times the memory (`4x`: twice the rows); one fit each, of half the
  iterations where there are twice the rows, with the settings of `main`.
- A pass's time is split by its tasks' time: compute is CPU, which for stock Spark holds the decoding of blocks from
  disk; collection is what Spark counts of it; reading is the rest, waiting for the disk. `waits` are those that
  Warmset itself counts, summed over tasks.
- The device is read by O_DIRECT at its best queue depth, before and after each workload; the mean of both counts.
- {same}.
"""


def search_text(kept: dict) -> str:
    """What the search did."""
    if kept["settings_from"]:
        return f"Settings are those of `{'`, `'.join(kept['settings_from'].split())}`."
    if kept["candidates"] == 1:
        return "Settings were not searched: each engine has Spark's own, and the first heap of its list."
    stock, ours = settings.YOUNG_PERCENT["stock"], settings.YOUNG_PERCENT["warmset"]
    halved = len(search.counts(kept["candidates"])) > 1
    further = f", the best third of them {RUNG_ITERATIONS[1]}" if halved else ""
    return f"""Settings come from a search with the same number of trials for both engines in each
workload: {kept["candidates"]} settings fit {RUNG_ITERATIONS[0]} iterations over all the data{further}; the one
whose whole fit of {kept["iterations"]} would be the shortest is taken. Stock's first are Spark's own settings,
Warmset's those of its guide for a small heap (G1 whose marking starts at 80 % of the heap). Then come some that were
good in earlier runs or that experts choose (Parallel collector; for stock the same G1;
Kryo without `referenceTracking`, not compressed; the RDD of objects as bytes,
compressed and not, with a larger young generation), then, where more are tried than these, others that
each change a part of the first at random: heap and so page cache or pool, collector,
`spark.memory.fraction`, `storageFraction`; of stock also serialiser, Kryo's `referenceTracking`, `spark.rdd.compress`,
codec; of `objects` also the young generation ({stock} % of stock's heap, {ours} % of Warmset's) and, of stock, the
storage level."""
