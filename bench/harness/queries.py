"""The queries, over `lineitem` and `supplier` of TPC-H, with prices as doubles or decimals (see `data`).

Every text is fixed but for the name of one result column, which changes from run to run: a new query object each time,
with the same generated code, so that no run times its own compilation. Q1 and Q6 are TPC-H's with their validation
parameters; the others are ours.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Query:
    """A name and a text with `{run}` where the run's number goes."""

    name: str
    text: str
    timeout_s: float = 300

    def request(self, run: int) -> dict:
        """What the engine is asked in one run."""
        return {"op": "query", "text": self.text.format(run=run)}


PRICING = Query(
    "q1",
    """
    select l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice),
           sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)),
           avg(l_quantity), avg(l_extendedprice), avg(l_discount), count(*) as run_{run}
    from lineitem where l_shipdate <= date '1998-12-01' - interval '90' day
    group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus""",
)
FORECAST = Query(
    "q6",
    """
    select sum(l_extendedprice * l_discount) as run_{run} from lineitem
    where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01'
      and l_discount between 0.0499 and 0.0701 and l_quantity < 24""",
)
SELECTIVE = Query(
    "filter",
    """
    select count(*), sum(l_extendedprice), max(l_orderkey) as run_{run} from lineitem
    where l_shipmode = 'AIR' and l_shipinstruct = 'NONE' and l_partkey between 1000 and 3000""",
)
GROUPED = Query(
    "group_by",
    """
    select l_shipdate, count(*), sum(l_extendedprice), avg(l_discount), max(l_quantity) as run_{run}
    from lineitem group by l_shipdate order by l_shipdate""",
)
JOINED = Query(
    "join",
    """
    select s_nationkey, count(*), sum(l_extendedprice * (1 - l_discount)) as run_{run}
    from lineitem join supplier on l_suppkey = s_suppkey group by s_nationkey order by s_nationkey""",
)
ALL = (PRICING, FORECAST, SELECTIVE, GROUPED, JOINED)
