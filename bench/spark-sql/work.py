"""The work of a job: TPC-H's 22 queries, a scan of all columns, a string search and a nested column, pass by pass.

Each pass draws its own parameters, by `qgen`'s rules, from the pass's number: engines meet the same texts.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from pathlib import Path

from harness import data, tpch

TIMEOUT_S = 300
NESTED = "order_lines"
TABLES = (*tpch.TABLES, NESTED)
# What a table function of an array is called.
EXPLODE = {"duckdb": "unnest", "polars": "unnest"}
# In the search's first rung: a wide aggregate, a filter, two joins of large tables, a string column.
SAMPLE = ("q1", "q6", "q9", "q13", "q18")
SCAN = """
select count(*), sum(l_orderkey), sum(l_partkey), sum(l_suppkey), sum(l_linenumber), sum(l_quantity),
  sum(l_extendedprice), sum(l_discount), sum(l_tax), max(l_returnflag), max(l_linestatus), max(l_shipdate),
  max(l_commitdate), max(l_receiptdate), sum(length(l_shipinstruct)), sum(length(l_shipmode)), sum(length(l_comment))
from lineitem where l_linenumber <> {line}"""
SEARCH = """
select count(*), min(l_orderkey), sum(l_quantity) from lineitem where l_comment like '%{adverb} {adjective}%'"""
NESTED_QUERY = """
select count(*), sum(line.l_quantity), max(line.l_extendedprice)
from (select {explode}(ol_lines) as line from order_lines) as lines
where line.l_shipmode = '{mode}'"""
ADVERBS = ("blithely", "carefully", "furiously", "quickly", "slyly")
ADJECTIVES = ("bold", "even", "express", "final", "ironic", "pending", "regular", "special", "unusual")
OTHERS = ("scan", "search", "nested")
TPCH = tuple(f"q{number}" for number in tpch.NUMBERS)
NAMES = (*TPCH, *OTHERS)


@dataclass(frozen=True)
class Asked:
    """One query of one pass."""

    name: str
    text: str

    @property
    def ordering(self) -> tuple[tuple[int, bool], ...]:
        """The columns that its rows are ordered by, and whether each descends."""
        return tpch.ordering(self.text)


def queries(engine: str, scale: float, number: int) -> list[Asked]:
    """The queries of a pass, in order."""
    parameters = tpch.drawn(scale, number)
    chance = random.Random(f"others/{number}")
    others = {
        "scan": SCAN.format(line=chance.randint(1, 7)),
        "search": SEARCH.format(adverb=chance.choice(ADVERBS), adjective=chance.choice(ADJECTIVES)),
        "nested": NESTED_QUERY.format(mode=chance.choice(tpch.MODES), explode=EXPLODE.get(engine, "explode")),
    }
    texts = {f"q{each}": tpch.text(each, parameters[each]) for each in tpch.NUMBERS} | others
    return [Asked(name, texts[name]) for name in NAMES]


def tables(scale: float, form: str) -> dict[str, Path]:
    """The Parquet files; generated where they are not there."""
    return {name: data.nested(scale) if name == NESTED else data.table(name, scale, form) for name in TABLES}
