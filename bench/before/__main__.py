"""`make bench B=before ARGS=COMMIT`: today's plugin against the one of an earlier commit, in whole Spark jobs.

Each job is a new engine, alone, in a memory cgroup: TPC-H over cached tables (fill, a cold pass and a warm one), and
logistic regression. The variants take turns and the order rotates from round to round. `plain` is today's plugin
without what it does for whole queries. A ratio is the earlier plugin's median over today's. Each job is written down
when it ends, and the same command goes on with what is missing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import building
import report
from harness import contest, data, engines, groups, learnable, passes, tpch
from harness.choosing import chosen
from harness.ending import end_in_order
from harness.engines import Spec
from harness.keeping import Keeper, Unfinished
from harness.machine import ROOT, Run, commit, describe
from harness.progress import Progress
from harness.settings import NATIVE_BYTES, Setting
from harness.workloads import ROW_BYTES, Size, workload

MIB = 1 << 20
VARIANTS = ("before", "now", "plain")
HEAP_SHARE, HEAP_BYTES_MAX = 0.72, 2048 * MIB
SCALE, QUERY_TIMEOUT_S, ROWS, ITERATIONS, FILES = 2.7, 300, 10_000_000, 20, 50
# The limit of the cgroup: all tables take 1.1 times the first; the rows of the trainer take twice 1936 MiB.
LIMITS_MIB = {"sql_twice": 1536, "sql_fits": 7168, "lgr_twice": 1936, "lgr_fits": 7168}
# Wide aggregates, joins of large tables, strings, a filter; the others would make a round longer than the hour allows.
QUERIES = (1, 3, 4, 6, 9, 12, 13, 14, 18, 19)


def parse() -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(prog="make bench B=before", description=__doc__.split("\n\n")[0])
    parser.add_argument("commit", help="the earlier commit, which is built in target/before")
    parser.add_argument("--quick", action="store_true", help="small data, one round")
    parser.add_argument("--jobs", default=",".join(LIMITS_MIB), help="which of %(default)s")
    parser.add_argument("--variants", default=",".join(VARIANTS), help="which of %(default)s")
    parser.add_argument("--rounds", type=int, help="jobs of each variant (3)")
    parser.add_argument(
        "--minutes", type=float, help="stop after the job that ends past this; the same command goes on"
    )
    given = parser.parse_args()
    given.jobs = chosen(parser, "--jobs", given.jobs, tuple(LIMITS_MIB))
    given.variants = chosen(parser, "--variants", given.variants, VARIANTS)
    return given


class Bench:
    """Where jobs run, and how large they are."""

    def __init__(self, jar: Path, quick: bool, scratch: Path, logs: Path) -> None:
        self.jar, self.scratch, self.logs = jar, scratch, logs
        self.scale, self.rows, self.files = (0.05, 240_000, 8) if quick else (SCALE, ROWS, FILES)

    def play(self, job: str, variant: str) -> dict:
        """One job: its parts in seconds, and its answers."""
        limit_bytes = LIMITS_MIB[job] * MIB
        scratch = self.scratch / f"{job}-{variant}-{time.monotonic_ns()}"
        with ExitStack() as stack:
            if job.startswith("sql"):
                spec = self.set_up(variant, sql_spec(limit_bytes, scratch))
                return self.sql(contest.open_player(stack, spec, limit_bytes, self.logs, scratch))
            size = Size(learnable.table(self.rows, self.files), self.rows, self.files, ITERATIONS)
            setting = ml_setting(limit_bytes, self.rows * ROW_BYTES)
            spec = self.set_up(variant, setting.spec(2, scratch, learnable.file_bytes_max(size.path)))
            return lgr(contest.open_player(stack, spec, limit_bytes, self.logs, scratch), size)

    def set_up(self, variant: str, spec: Spec) -> Spec:
        """The same engine with the variant's jar and keys."""
        conf = spec.conf
        if variant == "before":
            conf = {key: value.replace(str(engines.JAR), str(self.jar)) for key, value in conf.items()}
        # The earlier plugin may not know these keys.
        if variant == "plain":
            conf = conf | {f"spark.warmset.{part}.enabled": "false" for part in engines.WHOLE_QUERIES}
        return replace(spec, conf=conf)

    def sql(self, player: contest.Player) -> dict:
        """Caches all tables, then two passes over the queries."""
        files = {name: data.table(name, self.scale, "raw") for name in tpch.TABLES}
        started = time.perf_counter()
        contest.load(player, files, tuple(files))
        parts, rows = {"fill": time.perf_counter() - started}, {}
        for number, name in enumerate(("first", "steady")):
            parts[name] = 0.0
            for query in QUERIES:
                text = tpch.text(query, tpch.drawn(self.scale, number)[query])
                answer = player.ask(f"q{query}", QUERY_TIMEOUT_S, op="query", text=text)
                if answer is None:
                    return died(player)
                parts[name] += answer["seconds"]
                rows[f"{number}/q{query}"] = answer["rows"]
        return {"whole": sum(parts.values()), **parts, "rows": rows, "died": None}


def sql_spec(limit_bytes: int, scratch: Path) -> Spec:
    """Warmset with the settings that the search of `spark-sql` comes to."""
    total = limit_bytes - NATIVE_BYTES
    spec = engines.warmset(total, 2, scratch, min(max(engines.HEAP_BYTES_MIN, total * HEAP_SHARE), HEAP_BYTES_MAX))
    java = f"{spec.conf['spark.driver.extraJavaOptions']} -XX:+UseParallelGC"
    return replace(spec, conf=spec.conf | {
        "spark.driver.extraJavaOptions": java, "spark.sql.files.maxPartitionBytes": "24m",
        "spark.sql.shuffle.partitions": "8",
    })  # fmt: skip


def ml_setting(limit_bytes: int, data_bytes: int) -> Setting:
    """Warmset with a small heap, and one budget for heap and pool where all fits."""
    if limit_bytes > data_bytes:
        heap = (limit_bytes - NATIVE_BYTES) // 2
        return Setting("warmset", limit_bytes, heap, collector="Parallel", heap_first=True)
    return Setting("warmset", limit_bytes, 640 * MIB, collector="Parallel")


def lgr(player: contest.Player, size: Size) -> dict:
    """One whole fit, after a fit of one file that compiles the code."""
    small, asked = workload("lgr", size.small()), workload("lgr", size)
    player.ask("lgr on a part", small.timeout_s, **small.request(0))
    answer = player.ask("lgr", asked.timeout_s, **asked.request(0))
    if answer is None:
        return died(player)
    return {
        "whole": answer["seconds"], "steady": passes.median_s([answer], asked), "rows": answer["rows"], "died": None
    }  # fmt: skip


def died(player: contest.Player) -> dict:
    """A job that did not come to its end."""
    return {"whole": None, "died": str(player.died)}


def main() -> int:
    """Plays what is missing; exit code 1 if a job died or answers differ."""
    end_in_order()
    given = parse()
    jobs, variants = given.jobs, given.variants
    rounds = given.rounds or (1 if given.quick else 3)
    run, progress = Run.create("before", given.quick), Progress(total=len(jobs) * rounds * len(variants))
    if groups.find_place() is None:
        print(groups.why_none(), file=sys.stderr)
        return 1
    name, jar = building.jar(given.commit)
    keeper = Keeper(run, "raw.json", given.minutes)
    kept = {"before": name, "quick": given.quick}
    raw = None if given.quick else keeper.earlier(lambda found: found["kept"] == kept)
    raw = raw or {"machine": describe(), "kept": kept, "jobs": [], "result": None}
    with tempfile.TemporaryDirectory(prefix="warmset-bench-", dir=ROOT / "target") as directory:
        bench = Bench(jar, given.quick, Path(directory), run.logs())
        try:
            for job in jobs:
                for number in range(rounds):
                    turn = number % len(variants)
                    for variant in [*variants[turn:], *variants[:turn]]:
                        if any((each["job"], each["round"], each["variant"]) == (job, number, variant)
                               for each in raw["jobs"]):  # fmt: skip
                            continue
                        progress.step(f"{job}, round {number}: {variant}")
                        played = bench.play(job, variant)
                        progress.note(f"  {played['whole'] and round(played['whole'], 1)} s; {played['died'] or ''}")
                        raw["jobs"].append({"job": job, "round": number, "variant": variant,
                                            "commit": name if variant == "before" else commit(), **played})  # fmt: skip
                        keeper.save(raw)
        except Unfinished:
            print("parts are left: run the same command again", file=sys.stderr)
            return 0
    progress.finish()
    raw["result"] = report.result(raw["jobs"])
    faults = report.faults(raw["jobs"])
    run.write("raw.json", report.without_rows(raw))
    run.write("README.md", report.readme(raw, LIMITS_MIB, faults))
    print(report.readme(raw, LIMITS_MIB, faults))
    for fault in faults:
        print(f"FAULT: {fault}", file=sys.stderr)
    print(f"result: {json.dumps(raw['result'])}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
