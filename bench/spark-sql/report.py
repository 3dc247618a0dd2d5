"""The README of a run: its tables, from its raw figures alone, so that a page can be written again from them."""

from __future__ import annotations

import math
from collections import Counter
from statistics import median

import work
from choices import COMET_VERSION, ENGINES, MIB, TITLES, Setting
from figures import SizeFigures, distances, of_tpch, ordered_jobs, result
from harness import search as halving
from harness.statistics import extremes, geomean, shown
from job import seconds_of, whole_s
from options import PEERS, SEARCHED_AT

SIZES = {"fits": "the cache fits", "twice": "the cache outgrows memory", "four": "twice the rows in the same memory"}


def conditions(raw: dict) -> str:
    """What was played, and what of it all was not."""
    kept = raw["kept"]
    played = [name for name, *_ in kept["sizes"] if figures_of(raw, name).jobs]
    trials = "nothing searched" if kept["candidates"] == 1 else f"{kept['candidates']} settings tried of each engine"
    trials += f" (those in `{kept['settings_from']}` taken from there)" if kept.get("settings_from") else ""
    absent = [f"`{name}`" for name in SIZES if name not in played]
    absent += [f"the part `{name}`" for name in ("limit", "sizes", "half") if name not in raw]
    absent += ["doubles instead of decimals"] if kept["form"] == "raw" else []
    charged = (
        "evicted before each job, and charged to the cgroup"
        if kept.get("charge_files")
        else "in the page cache, outside the cgroup's limit, which helps Parquet, DuckDB, Polars and Comet"
    )
    return (
        f"{machine_text(raw)} Commits: {', '.join(commits(raw['jobs']))}. "
        f"{' '.join(counted(raw, name) for name in played)} "
        f"{trials[0].upper()}{trials[1:]}. The Parquet files were {charged}. {probe_text(raw['jobs'])}"
        f"Not played: {', '.join(absent) or 'nothing'}."
    )


def probe_text(jobs: list[dict]) -> str:
    """How fast the machine was before the jobs: machines of one name differ, and one differs from hour to hour."""
    found = [each["probe_s"] * 1000 for each in jobs if each.get("probe_s")]
    of_jobs = "" if len(found) == len(jobs) else f" {len(found)} of the"
    return f"Before{of_jobs} jobs a fixed computation took {min(found):.0f} to {max(found):.0f} ms. " if found else ""


def machine_text(raw: dict) -> str:
    """The machine, and the versions of what ran on it."""
    machine = raw["machine"]
    versions = sorted({(TITLES[each["engine"]], each["version"]) for each in raw["jobs"] if each.get("version")})
    found = ", ".join(f"{title} {version}" for title, version in versions)
    return (
        f"{machine['cpu_model']}, {machine['cpus']} cores, kernel {machine['kernel']}, {machine['java']}. Versions (of "
        f"Spark, where it is one of its engines): {found or 'not known'}."
    )


def counted(raw: dict, size: str) -> str:
    """How many jobs the engines played at a size."""
    counts = Counter(each["engine"] for each in raw["jobs"] if each["size"] == size)
    most = max(counts.values())
    jobs = "one job" if most == 1 else f"{most} jobs"
    fewer = [f"{count} of {TITLES[engine]}" for engine, count in counts.items() if count < most]
    absent = "; ".join(TITLES[engine] for engine in (*ENGINES, *PEERS) if engine not in counts)
    return (
        f"At `{size}`: {jobs} of each engine{', but ' if fewer else ''}{', '.join(fewer)}"
        f"{f' (not played: {absent})' if absent else ''}."
    )


def short_tables(raw: dict) -> str:
    """Whole jobs, the geometric mean of each size, and what other parts measured: for a page that links to the run."""
    parts = []
    for name, *_ in raw["kept"]["sizes"]:
        found = figures_of(raw, name)
        if found.jobs:
            parts.append(whole_table(raw, name))
            parts += [f"`{name}`, steady passes: {geomean_text(found)}"] if found.ratios() else []
    return "\n\n".join(parts + other_parts(raw))


def other_parts(raw: dict) -> list[str]:
    """What parts measured that play no rounds."""
    parts = [sizes_text(raw["sizes"])] if raw.get("sizes") else []
    return parts + ([half_table(raw["half"])] if raw.get("half") else [])


def commits(played: list[dict]) -> list[str]:
    """The commits that were measured in these jobs or trials."""
    return sorted({each["commit"] for each in played if each["commit"]})


def tables(raw: dict) -> str:
    """All tables of the run, in Markdown."""
    names = [name for name, _, _ in raw["kept"]["sizes"]]
    parts = [whole_table(raw, name) for name in names if figures_of(raw, name).jobs]
    parts += [query_table(raw, name) for name in names if figures_of(raw, name).jobs]
    parts.append(settings_table(raw))
    parts += [limit_table(raw)] if raw.get("limit") else []
    parts += other_parts(raw)
    return "\n\n".join(parts)


def figures_of(raw: dict, size: str) -> SizeFigures:
    """The figures of one size."""
    return SizeFigures.of(raw["jobs"], size)


def heading(raw: dict, size: str) -> str:
    """What the size's name means: the limit, and the caches against it."""
    _, scale, limit = next(each for each in raw["kept"]["sizes"] if each[0] == size)
    found = figures_of(raw, size)
    caches = [
        f"{TITLES[engine]}'s cache is {bytes_ / limit:.1f} times that{on_disk(found.spilled_bytes(engine))}"
        for engine in ("warmset", "stock")
        if (bytes_ := found.cache_bytes(engine))
    ]
    return f"**`{size}`**: {SIZES[size]}; scale {scale:g}, a cgroup's limit of {limit // MIB} MiB" + (
        f"; {', '.join(caches)}" if caches else ""
    )


def on_disk(spilled_bytes: int) -> str:
    """Says if a cache was not all in memory."""
    return f" ({spilled_bytes // MIB} MiB of it on disk, as its setting compresses it there)" if spilled_bytes else ""


def whole_table(raw: dict, size: str) -> str:
    """Whole jobs first: caching and all passes; then what they are made of."""
    found = figures_of(raw, size)
    passes = raw["kept"]["passes"]
    lines = [
        f"{heading(raw, size)}. Seconds; whole job: cache TPC-H's eight tables and the one that `nested` reads, "
        f"{passes} passes over TPC-H's {len(work.TPCH)} "
        f"queries (`{'`, `'.join(work.OTHERS)}` end each pass, and are not counted).",
        "",
        "| engine | whole job | from – to | cache | first pass | steady pass | queries until caching has paid | "
        "cache, MiB | start |",
        f"|---|{'---|' * 8}",
    ]
    order = sorted(found.jobs, key=lambda engine: median(found.whole(engine) or [float("inf")]))
    for engine in order:
        jobs, whole = found.jobs[engine], found.whole(engine)
        if not whole:
            lines.append(f"| {TITLES[engine]} | {why(jobs)} | | | | | | | |")
            continue
        pace = found.pace_s(engine)
        first = median(sum(of_tpch(seconds_of(each["passes"][0])).values()) for each in jobs if each["complete"])
        even = found.break_even(engine)
        size_bytes = found.cache_bytes(engine)
        comparable = engine in (*ENGINES[:-1], "warmset") and found.pace_s("parquet") is not None
        paid = "–" if not comparable else "never" if even is None else f"{even:.0f}"
        failed = f" ({len(whole)} of {len(jobs)} jobs; {why(jobs)})" if len(whole) < len(jobs) else ""
        starts = [job["start_s"] for job in jobs if job.get("start_s")]
        lines.append(
            f"| {TITLES[engine]} | {median(whole):.1f}{failed} | {min(whole):.1f} – {max(whole):.1f} | "
            f"{median(job['fill_s'] for job in jobs if whole_s(job)):.1f} | {first:.1f} | "
            f"{shown(pace and pace * len(work.TPCH), 1)} | {paid} | {size_bytes // MIB if size_bytes else '–'} | "
            f"{shown(median(starts) if starts else None, 1)} |"
        )
    best = found.best_stock_whole()
    if best and found.whole("warmset"):
        theirs, ours = found.whole(best), found.whole("warmset")
        ratio = median(theirs) / median(ours)
        of_all = median(found.whole(best, work.NAMES)) / median(found.whole("warmset", work.NAMES))
        lines += ["", f"Whole job, the best stock engine ({TITLES[best]}) over Warmset: **{ratio:.2f}**"
                  f"{whole_spread(found, best)}{with_start(found, best)}; {of_all:.2f} with "
                  f"`{'`, `'.join(work.OTHERS)}`."]  # fmt: skip
        lines += cpu_lines(found)
    return "\n".join(lines)


def whole_spread(found: SizeFigures, best: str) -> str:
    """The least and the largest ratio of two jobs, and of how many; nothing where each engine has one."""
    theirs, ours = found.whole(best), found.whole("warmset")
    if max(len(theirs), len(ours)) < 2:
        return ""
    low, high = extremes(theirs, ours)
    return f" ({low:.2f} – {high:.2f}, {len(theirs)} and {len(ours)} jobs)"


def with_start(found: SizeFigures, best: str) -> str:
    """The same ratio where starting the engine counts, too."""
    starts = {
        engine: [each["start_s"] for each in found.jobs[engine] if each.get("start_s")] for engine in (best, "warmset")
    }
    if not all(starts.values()):
        return ""
    theirs, ours = (median(found.whole(engine)) + median(starts[engine]) for engine in (best, "warmset"))
    return f"; {theirs / ours:.2f} with the start of the engine"


def cpu_lines(found: SizeFigures) -> list[str]:
    """What processors did in Warmset's first and second pass: tasks, and the rest of its JVM; none if not measured."""
    played = [each["passes"] for each in found.jobs["warmset"] if whole_s(each)]
    timings = [timing for passes in played for one in passes[:2] for timing in one.values()]
    if not timings or not all({"cpu_s", "task_cpu_s"} <= timing.keys() for timing in timings):
        return []
    parts = {"task_cpu_s": "tasks", "compiling_cpu_s": "HotSpot's compilers"}
    known = [what for what in parts if all(what in timing for timing in timings)]

    def summed(what: str, number: int) -> str:
        return f"{median(sum(timing[what] for timing in passes[number].values()) for passes in played):.0f}"

    first, second = (
        f"{summed('cpu_s', number)} (of which {', '.join(f'{summed(what, number)} {parts[what]}' for what in known)})"
        for number in (0, 1)
    )
    return [
        f"Processor seconds of Warmset's JVM in its first pass: {first}; in the second: {second}. The rest is "
        "planning, collections, and what else Spark does on the driver."
    ]


def why(jobs: list[dict]) -> str:
    """What became of an engine that finished none of its jobs."""
    died = next((each["died"] for each in jobs if each["died"]), None)
    if died:
        return f"{died['reason']} at {died['step']}"
    timings = [item for each in jobs for one in each["passes"] for item in one.items()]
    failed = sorted({name for name, timing in timings if "failed" in timing}, key=work.NAMES.index)
    return f"can't run {', '.join(failed)}"


def query_table(raw: dict, size: str) -> str:
    """Steady passes, query by query."""
    found = figures_of(raw, size)
    engines = measured(found)
    ratios, first = found.ratios(), found.ratios(first=True)
    lines = [
        f"`{size}`, steady passes: medians in seconds; the ratio is the best stock engine of the query over Warmset; "
        "the last column is the same ratio of first passes.",
        "",
        f"| query | {' | '.join(TITLES[engine] for engine in engines)} | ratio | first |",
        f"|---|{'---|' * len(engines)}---|---|",
    ]
    for name in work.NAMES:
        cells = " | ".join(shown(found.seconds(engine, name)) for engine in engines)
        lines.append(f"| {name} | {cells} | {shown(ratios.get(name))} | {shown(first.get(name))} |")
    if ratios:
        lines += ["", geomean_text(found)]
    if "comet" in found.jobs:
        lines += ["", native_text(found.jobs["comet"])]
    return "\n".join(lines)


def geomean_text(found: SizeFigures) -> str:
    """The geometric mean of the ratios, with what each of Warmset's jobs alone gives, and against each engine alone."""
    ratios = found.ratios()
    by_job = found.geomeans_by_job()
    between = (
        f"its {len(by_job)} jobs alone: {by_job[0]:.2f} – {by_job[-1]:.2f}" if len(by_job) > 1
        else "one timing of each query"
    )  # fmt: skip
    first = of_tpch(found.ratios(first=True))
    others = [engine for engine in measured(found) if engine != "warmset"]
    return (
        f"Geometric mean of TPC-H's queries **{geomean(of_tpch(ratios).values()):.2f}** ({between}), worst "
        f"{min(of_tpch(ratios).values()):.2f}; {geomean(ratios.values()):.2f} with `{'`, `'.join(work.OTHERS)}`. "
        f"Below 1: {below(ratios)}. First passes: {geomean(first.values()):.2f}, worst "
        f"{min(first.values(), default=math.nan):.2f}, below 1: "
        f"{below(first)}. Steady, TPC-H's queries "
        + ", ".join(f"against {TITLES[engine]} alone: {versus(found, engine):.2f}" for engine in others)
        + "."
    )


def below(ratios: dict[str, float]) -> str:
    """The queries that stock Spark answers sooner."""
    return ", ".join(f"{name} ({ratio:.2f})" for name, ratio in ratios.items() if ratio < 1) or "none"


def measured(found: SizeFigures) -> list[str]:
    """The engines with a steady timing, in the order of their titles."""
    return [
        engine for engine in TITLES if engine in found.jobs and any(found.steady(engine, name) for name in work.NAMES)
    ]


def native_text(jobs: list[dict]) -> str:
    """How much of each query Comet ran itself, by its own account of the plans that were run."""
    operators: dict[str, tuple[int, int]] = {}
    for each in jobs:
        for one in each["passes"]:
            for name, timing in one.items():
                if "operators" in timing:
                    found = timing["native_operators"], timing["operators"]
                    # Adaptive execution may plan it otherwise in another pass: the least is shown.
                    operators[name] = min(found, operators.get(name, found), key=lambda pair: pair[0] / pair[1])
    partly = {name: found for name, found in operators.items() if found[0] < found[1]}
    told = ", ".join(f"{name} ({ours} of {all_} operators)" for name, (ours, all_) in partly.items())
    return (
        f"Comet ran {len(operators) - len(partly)} of {len(operators)} queries natively from the scan to the last "
        f"operator; in part: {told or 'none'}."
    )


def versus(found: SizeFigures, engine: str) -> float:
    """The geometric mean over TPC-H's queries that both answered."""
    pairs = [(found.seconds(engine, name), found.seconds("warmset", name)) for name in work.TPCH]
    return geomean([theirs / ours for theirs, ours in pairs if theirs == theirs and ours == ours])


def limit_table(raw: dict) -> str:
    """The distance to the limit; a time below its bound says that the bound is too high, and no more."""
    lines = ["`twice`, distance to max(least time with all in memory, bytes read / the device):", "",
             "| query | seconds | all in memory, least | read, MB | ratio |", "|---|---|---|---|---|"]  # fmt: skip
    for name, each in raw["limit"].items():
        ratio = f"{each['ratio']:.2f}" if each["ratio"] >= 1 else "bound too high"
        lines.append(
            f"| {name} | {each['seconds']:.2f} | {each['resident_s_least']:.2f} | {each['read_bytes'] / 1e6:.0f} | "
            f"{ratio} |"
        )
    known = distances(raw["limit"])
    return "\n".join([*lines, "", f"Geometric mean of the {len(known)} of TPC-H's {len(work.TPCH)} queries whose bound "
                      f"holds: {shown(geomean(known))}."])  # fmt: skip


def settings_table(raw: dict) -> str:
    """What each engine was set to, and how many trials it got."""
    lines = ["| engine | size | trials | set to |", "|---|---|---|---|"]
    for name, _, _ in raw["kept"]["sizes"]:
        for engine, jobs in figures_of(raw, name).jobs.items():
            if jobs[0]["setting"]:
                at = SEARCHED_AT.get(name, name)
                limits = Counter(
                    each["limit_bytes"] for each in raw["trials"] if each["engine"] == engine and each["size"] == at
                )
                lines.append(f"| {TITLES[engine]} | {name} | {tried(limits, jobs[0])} | {titled(jobs[0])} |")
    return "\n".join(lines)


def tried(limits: Counter, played: dict) -> str:
    """How many trials there were, and at which limit, if that was not the job's."""
    return (
        ", ".join(
            f"{count}{'' if limit == played['limit_bytes'] else f' at {limit // MIB} MiB'}"
            for limit, count in sorted(limits.items())
        )
        or "none"
    )


def titled(played: dict) -> str:
    """How a job's engine was set."""
    return Setting(**played["setting"]).title(played["limit_bytes"])


def sizes_text(raw: dict) -> str:
    """Footprint and materialising."""
    seconds = {TITLES.get(name, name): median(each) for name, each in raw["materialise_seconds"].items() if each}
    took = ", ".join(f"{title} {shown(each, 1)} s" for title, each in seconds.items())
    once = " (one timing of each)" if all(len(each) <= 1 for each in raw["materialise_seconds"].values()) else ""
    return (
        f"`lineitem` with decimals in Warmset's cache takes {shown(raw['footprint_ratio'])} of the bytes of stock's "
        f"compressed cache. Caching it at scale {raw['scale']:g}{once}: {took}."
    )


def half_table(raw: dict) -> str:
    """What became of each run at half the memory."""
    lines = ["| 20M rows of 22 columns | the cgroup's limit, MiB | outcome |", "|---|---|---|"]
    for name, run in raw["runs"].items():
        died = run["died"]
        what = f"{died['reason']} at {died['step']}" if died else "answered"
        if run["materialise"] and not died:
            took = [f"{query} in {timings[0]['seconds']:.1f} s" for query, timings in run["timings"].items()]
            what = f"cached in {run['materialise']['seconds']:.1f} s, {', '.join(took)}"
        memory = run["group_limit_bytes"] and run["group_limit_bytes"] // MIB
        lines.append(f"| {half_name(name)} | {memory or '–'} | {what} |")
    return "\n".join(lines)


def half_name(label: str) -> str:
    """Which run of `half` it is, for people."""
    known = {
        "warmset": "Warmset, 2 partitions",
        "warmset_half": "Warmset, half of that, 2 partitions",
        "stock": "stock, 2 partitions",
        "stock_arrow": "stock, Arrow, 2 partitions",
        "reference": "stock, no cache",
    }
    if label in known:
        return known[label]
    parts = label.split("_")
    collector = "Parallel collector, " if "parallel" in parts else ""
    return f"stock, {collector}{next(part for part in parts if part.isdigit())} partitions"


def readme(raw: dict, file: str) -> str:
    """The page of the run."""
    kept = raw["kept"]
    chart = f"chart{file.removeprefix('raw').removesuffix('.json')}.svg"
    faults = "".join(f"- **{fault}**\n" for fault in raw["faults"])
    speeds = [speed for found in raw["devices"].values() for speed in found]
    device = f"{min(speeds) / 1e9:.2f} to {max(speeds) / 1e9:.2f} GB/s" if speeds else "not measured"
    form = "decimals, as TPC-H has them" if kept["form"] == "raw" else "doubles instead of decimals"
    results = "\n".join(f"| `{key}` | {value} |" for key, value in result(raw).items())
    picture = f"![steady seconds by query]({chart})\n" if raw["jobs"] else ""
    return f"""# spark-sql

{conditions(raw)}
Commits of the trials: {", ".join(commits(raw["trials"])) or "none"}. All figures are in `{file}`; this page is
written from it. The same again: `{command(raw)}`.

| key | value |
|---|---|
{results}

{faults}
{picture}
{tables(raw)}

## How it was measured
TPC-H, {form}: the 22 queries over all eight tables, a scan of all columns of `lineitem` (`scan`), a
string search in its comments (`search`), and an array of structs (`nested`). Parameters are drawn anew for each pass by
`qgen`'s rules, the same ones for every engine; queries come in the order of their numbers. {rows_text(raw["jobs"])}
Queries and data are derived from TPC-H; this is no TPC-H result, and not comparable with published ones.

A job is a new engine, alone on the machine, in a memory cgroup that holds heap, off-heap memory, the Python driver,
and the page cache of the blocks that it wrote. {files_text(kept)}
A job caches all tables, then plays {kept["passes"]} passes; the first is cold, and "steady" are all others. Starting
the engine is given beside it. Engines play one after the other, and further rounds begin with another one. Whole jobs
are medians, with the least and the largest beside them. A stock engine that was killed counts with the queries that it
had answered before in a steady pass. The device gave
{device} to O_DIRECT reads at its best queue depth, measured before and after each of Warmset's jobs.

{search_text(kept)} Stock engines that in their first whole job came on
no query within 1.5 times the best one are not played further. {peers_text(kept)}
"""


def command(raw: dict) -> str:
    """What plays all of this run; where one size had fewer engines or jobs than another, it plays more."""
    kept = raw["kept"]
    given = {
        "parts": ",".join(raw["options"]["parts"]), "engines": ",".join(kept["engines"]),
        "peers": ",".join(kept["peers"]) or "-", "only": ",".join(name for name, *_ in kept["sizes"]),
        "rounds": kept["rounds"], "passes": kept["passes"], "candidates": kept["candidates"],
        "settings-from": kept.get("settings_from"), "form": kept["form"],
    }  # fmt: skip
    arguments = " ".join(f"--{name} {value}" for name, value in given.items() if value)
    return f'make bench B=spark-sql ARGS="{arguments}{" --charge-files" if kept.get("charge_files") else ""}"'


def rows_text(jobs: list[dict]) -> str:
    """How rows are compared."""
    looked_at = ordered_jobs(jobs)
    of_jobs = "" if looked_at == len(jobs) else f" (looked at in {looked_at} of {len(jobs)} jobs)"
    return f"""Rows of all engines
are compared as sets; each engine's have to come in the order that the query asks for, equal keys in any{of_jobs}."""


def files_text(kept: dict) -> str:
    """Who is charged for the Parquet files' pages."""
    if kept.get("charge_files"):
        return """**The cgroup is charged for the Parquet files' pages, too**: they are evicted before each job, so that
it reads them from the disk, and keeps of them what its limit leaves. (Footprint, materialising and half the memory are
measured as ever: no files are evicted there.)"""
    return """**The Parquet files are in page cache that the cgroup is not charged for**: they were read before each
job, outside of it. So filling a cache reads no disk, and Parquet without a cache, DuckDB and Polars read from memory,
at every size, more than the limit would leave them."""


def peers_text(kept: dict) -> str:
    """How the engines are set that a user would pick instead."""
    told = {
        "duckdb": "DuckDB has four fifths of the limit.",
        "polars": "Polars answers by its SQL, with its streaming engine.",
        "comet": f"""Comet {COMET_VERSION} runs
in Spark 4.1 (on 2026-11-26 there was none for Spark 4.2), with its own shuffle, sort-merge joins, which can spill,
and half of what the limit leaves as heap, half as off-heap memory; what it can't run, Spark runs.""",
    }
    if not kept["peers"]:
        return ""
    return f"""Nothing of the following
was searched. Spark's own runtime filters are on at every size (`applicationSideScanSizeThreshold` 0), but for
Warmset where its own are. {" ".join(told[name] for name in kept["peers"])}
Gluten is not compared: on 2026-11-28 Maven Central had no jar of it for Spark 4."""


def search_text(kept: dict) -> str:
    """What the search did."""
    if kept["candidates"] == 1:
        return "Settings were not searched: each engine has Spark's own, and the Parallel collector."
    elsewhere = (
        f"Trials that `{kept['settings_from']}` has were taken from there. " if kept.get("settings_from") else ""
    )
    halved = len(halving.counts(kept["candidates"])) > 1
    further = (
        " The best third of them play all queries once."
        if halved
        else " The best of them is taken: so few trials tell settings apart that differ much, and no others."
    )
    return f"""Settings come from a search with the same number of trials for Warmset and each
stock engine: {kept["candidates"]} settings play the caching and {len(work.SAMPLE)} queries, Spark's own but for the
Parallel collector, partitions of 24 MiB and 8 of them after a shuffle, and others that
each change a part of that at random (heap and so the page cache's share, collector, `spark.memory.fraction`,
`storageFraction`, batch size, codec, partition size, partitions after a shuffle; for Warmset, too, what it does for
whole queries).{further} {elsewhere}Where a whole job is not finished with the best one, the next one is taken. At
`four` the settings of `twice` are used."""
