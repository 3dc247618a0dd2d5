"""Figures from the runs: ratios to the fastest of the others, and the distance to what the machine can give."""

from __future__ import annotations

from harness.statistics import median_of, rounded

COLUMNS = 128
EPOCHS = 5
ORDERS = ("in order", "shuffled")
OTHERS = ("memmap", "memmap-advised", "joblib", "arrow", "lmdb", "lance", "parquet")
WAYS = ("warmset", *OTHERS)
# One that is slower than the fastest of the others by this in the first round is not played again: it is not the best.
HOPELESS = 1.3
# A bound is made of measured times, each of which differs by some per cent from one run to the next.
BELOW_BOUND = 0.95
# Sums of the same numbers in float32 differ by less; one part of them is more than that.
SUM_DIFFERENCE = 1e-3
GOALS = {
    "sequential": "at least 1.8",
    "whole": "at least 1.4",
    "shuffled": "at least 1.5",
    "limit_ratio": "1.0 to 1.2",
    "fits": "at least 0.97",
    "get_us": "at most 100",
    "import_ms": "at most 50",
}


def seconds(raw: dict, way: str, order: str, what: str) -> float:
    """The median over the rounds; NaN if it was not run."""
    return median_of([run[what] for run in raw["runs"] if (run["way"], run["order"]) == (way, order)])


def contenders(raw: dict, order: str, number: int) -> list[str]:
    """The ways of a round: all in the first, later those that may be the fastest."""
    if number == 0:
        return list(WAYS)
    first = {run["way"]: run for run in raw["runs"] if (run["round"], run["order"]) == (0, order)}
    kept = {
        way
        for what in ("later_s", "whole_s")
        for way in OTHERS
        if first[way][what] <= HOPELESS * min(first[other][what] for other in OTHERS)
    }
    left = [way for way in WAYS if way == "warmset" or way in kept]
    # Who begins takes turns: the machine may be faster early or late in a round.
    turn = number % len(left)
    return left[turn:] + left[:turn]


def limits(raw: dict) -> dict[str, list[dict]]:
    """By order and round, the store's later epochs over the least that one could take.

    That is max(the same computation on an array in memory, bytes that the memory has no room for / the device's speed,
    measured before and after).
    """
    missing_bytes = raw["kept"]["data_bytes"] - raw["kept"]["memory_bytes"]
    found: dict[str, list[dict]] = {order: [] for order in ORDERS}
    for run in raw["runs"]:
        if run["way"] != "warmset":
            continue
        device = max(raw["devices"][f"{run['order']}/{run['round']}"])
        compute_s = raw["compute"][str(run["round"])]
        epoch_s = run["later_s"] / (EPOCHS - 1)
        bound_s = max(compute_s, missing_bytes / device)
        found[run["order"]].append(
            {"epoch_s": epoch_s, "compute_s": compute_s, "missing_bytes": missing_bytes, "device_bytes_per_s": device,
             "bound_s": bound_s, "ratio": epoch_s / bound_s}
        )  # fmt: skip
    return found


def faults(raw: dict) -> list[str]:
    """What makes the run unsound."""
    too_fast = [
        f"round {number + 1}, {order}: {each['ratio']:.2f} of the least time that an epoch can take: what was "
        "measured is wrong"
        for order, found in raw["limit"].items()
        for number, each in enumerate(found)
        if each["ratio"] < BELOW_BOUND
    ]
    expected = next(run["sum"] for run in raw["runs"] if run["way"] == "memmap")
    return too_fast + [
        f"round {run['round'] + 1}, {run['order']}: the sum of {run['way']} is {run['sum']}, not {expected}"
        for run in raw["runs"]
        if abs(run["sum"] - expected) > SUM_DIFFERENCE * abs(expected) + 1
    ]


def result(raw: dict) -> dict[str, float | None]:
    """The result line. `limit_ratio` is that of the order which is farther from its bound."""

    def over_ours(order: str, what: str) -> float | None:
        return rounded(min(seconds(raw, way, order, what) for way in OTHERS) / seconds(raw, "warmset", order, what))

    return {
        "sequential": over_ours("in order", "later_s"),
        "whole": over_ours("in order", "whole_s"),
        "shuffled": over_ours("shuffled", "later_s"),
        "limit_ratio": rounded(max(median_of([each["ratio"] for each in found]) for found in raw["limit"].values())),
        **{key: raw["package"][key] for key in ("fits", "get_us", "import_ms")},
    }


README = """# python

`make bench B=python{quick}` on {cpus} CPUs ({model}), {memory_gib:.0f} GiB, Linux {kernel}; all figures are in
`raw.json`.

An array of float32, {rows:,} rows of {columns}, {data_gib:.2f} GiB, in a cgroup of {limit_gib:.2f} GiB that
counts page cache. Each way runs in a process of its own: it writes its file from the same source, evicted before, and
reads it {epochs} times in parts of 4096 rows, in order and in shuffled order; what is computed is the sum of each part.
All sums must agree. Mapped files are read with the disk's read-ahead, which is {read_ahead}.

- **warmset**: `store.put(..., batch_rows=4096)` and `store.scan(...)` with {memory_mib} MiB.
- **memmap**: a `numpy.memmap`. **memmap-advised** announces each part four parts ahead with `madvise(MADV_WILLNEED)`.
- **joblib** (its mapping) and **arrow** (a mapped Arrow IPC file, each batch made once): in order the kernel reads
  ahead, which is faster there; in shuffled order parts are announced as for memmap-advised.
- **lmdb**: a key for each part, read in place; shuffled, four ahead in a thread.
- **lance**: a scan; shuffled, a range of rows for each part, read four ahead in a thread.
- **parquet**: row groups of rows of fixed size (no compression, no dictionaries), read four ahead in a thread.

Seconds are medians of {rounds} rounds, each of which another way begins. A way that was slower than {hopeless}
times the fastest of the others in the first round was not run again.

{table}

The least that an epoch can take is max(the same sums on an array in memory, bytes that the memory has no room for /
speed of the device). The device is read raw with O_DIRECT before and after the store's run of each round.

{limits}

{result}
"""


def readme(raw: dict) -> str:
    """What was run and how, and what came out."""
    machine, kept = raw["machine"], raw["kept"]
    return README.format(
        quick=" QUICK=1" if kept["quick"] else "",
        cpus=machine["cpus"],
        model=machine["cpu_model"],
        memory_gib=machine["memory_bytes"] / 2**30,
        kernel=machine["kernel"],
        rows=kept["rows"],
        columns=COLUMNS,
        data_gib=kept["data_bytes"] / 2**30,
        limit_gib=kept["limit_bytes"] / 2**30,
        epochs=EPOCHS,
        memory_mib=kept["memory_bytes"] >> 20,
        read_ahead="not known" if raw["read_ahead_kb"] is None else f"{raw['read_ahead_kb']} KiB",
        rounds=kept["rounds"],
        hopeless=HOPELESS,
        table=table(raw),
        limits=limit_table(raw),
        result=result_table(raw["result"]),
    )


def table(raw: dict) -> str:
    """Markdown, a row for each way."""
    rows = [
        "| way | order | fill | first epoch | later epochs, mean | whole | rounds |",
        "|---|---|---|---|---|---|---|",
    ]
    for order in ORDERS:
        for way in WAYS:
            found = [seconds(raw, way, order, what) for what in ("fill_s", "first_s", "later_s", "whole_s")]
            found[2] /= EPOCHS - 1
            count = sum((run["way"], run["order"]) == (way, order) for run in raw["runs"])
            rows.append(f"| {way} | {order} | " + " | ".join(f"{each:.2f}" for each in found) + f" | {count} |")
    return "\n".join(rows)


def limit_table(raw: dict) -> str:
    """Markdown, a row for each of the store's runs."""
    rows = [
        "| order | round | epoch, s | sums in memory, s | missing, GiB | device, GB/s | ratio |",
        "|---|---|---|---|---|---|---|",
    ]
    for order, found in raw["limit"].items():
        for number, each in enumerate(found):
            rows.append(
                f"| {order} | {number + 1} | {each['epoch_s']:.2f} | {each['compute_s']:.2f} | "
                f"{each['missing_bytes'] / 2**30:.2f} | {each['device_bytes_per_s'] / 1e9:.2f} | {each['ratio']:.2f} |"
            )
    return "\n".join(rows)


def result_table(result: dict) -> str:
    """Markdown, a row for each key."""
    rows = [f"| `{key}` | {GOALS[key]} | {value} |" for key, value in result.items()]
    return "\n".join(["| key | goal | measured |", "|---|---|---|", *rows])
