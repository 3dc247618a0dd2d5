"""Half the memory: a DataFrame of 20M rows and 22 columns, cached from PySpark with `persist(MEMORY_AND_DISK)`.

Stock Spark, with its default and with 4.3's Arrow serialiser, is in a memory cgroup of the same limit as Warmset, and
has as heap what that leaves beside native memory. Warmset then gets half the heap and half the pool. Since stock may
die, the rows that count are those of Spark without the plugin and without a cache, which is asked last. The frame has
as many partitions as there are cores, each of 10M rows on two. If stock Spark dies of that, it is given what an expert
would try: the Parallel collector, and then four times as many partitions, until it finishes.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from choices import native_bytes
from harness import contest, engines
from harness.contest import CACHE_TIMEOUT_S, Player
from harness.engines import Spec
from harness.progress import Progress
from harness.queries import Query
from options import OVERHEAD_BYTES, Options

QUERIES = (
    Query("sums", "select count(*), sum(d0), sum(d7), max(l1), max(id) as run_{run} from wide"),
    Query("groups", "select s0, count(*), avg(d3) as run_{run} from wide group by s0 order by s0 limit 50"),
)


REFERENCE = "reference"
SPLIT_MAX = 512
PARALLEL = "-XX:+UseParallelGC"


def play(options: Options, logs: Path, scratch: Path, progress: Progress) -> dict:
    """Runs them one after the other; answers with what became of each."""
    memory = options.half_bytes
    limit = memory + OVERHEAD_BYTES
    heap = limit - native_bytes(limit)

    def once(label: str, spec: Spec, size: int, partitions: int | None = None) -> Player:
        verb = "caches" if spec.level else "makes"
        split = f" in {partitions} partitions" if partitions else ""
        progress.step(f"half: {label} {verb} {options.half_rows} rows x 22 columns{split} in {size >> 20} MiB")
        with ExitStack() as stack:
            player = contest.open_player(stack, spec, size + OVERHEAD_BYTES, logs, scratch)
            asked = {"rows": options.half_rows, "level": spec.level, "partitions": partitions}
            player.materialise = player.ask("materialise", CACHE_TIMEOUT_S, op="wide", name="wide", **asked)
            for query in QUERIES:
                contest.run_once(player, query, 0, keep=True)
        return player

    runs: list[tuple[str, Spec, int]] = []
    for label, maker, size, given in (
        ("warmset", engines.warmset, memory, memory),
        ("warmset_half", engines.warmset, memory // 2, memory // 2),
        ("stock", engines.stock, memory, heap),
        *([] if options.quick else [("stock_arrow", engines.arrow, memory, heap)]),
        (REFERENCE, engines.stock, memory, heap),
    ):
        spec = maker(given, options.cpus, scratch / label)
        runs.append((label, replace(spec, name=label, level=None if label == REFERENCE else "MEMORY_AND_DISK"), size))
    players = {label: once(label, spec, size) for label, spec, size in runs}
    # Sums of made-up doubles depend on how Spark splits the rows: these are not compared.
    split: dict[str, Player] = {}
    stock, partitions = players["stock"], options.cpus
    while stock.died is not None and stock.died.of_memory and partitions <= SPLIT_MAX:
        label = f"stock_parallel_{partitions}_partitions"
        stock = split[label] = once(label, with_parallel(replace(stock.spec, name=label)), memory, partitions)
        partitions *= 4
    ours = [players["warmset"], players["warmset_half"]]
    equal = contest.answers_equal(list(players.values()), QUERIES)
    finished = all(player.died is None and len(player.answers) == len(QUERIES) for player in ours)
    return {
        "ok": equal if finished else False,
        "answers_equal": equal,
        "runs": {name: p.raw() for name, p in (players | split).items()},
    }


def with_parallel(spec: Spec) -> Spec:
    """The engine with the Parallel collector, which fills a small heap better than G1."""
    options = spec.conf["spark.driver.extraJavaOptions"].replace(PARALLEL, "").strip()
    return replace(spec, conf={**spec.conf, "spark.driver.extraJavaOptions": f"{options} {PARALLEL}"})
