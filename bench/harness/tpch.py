"""TPC-H's 22 queries: their texts, the specification's validation parameters, and parameters drawn by its rules.

The texts are in `tpch_queries/`, with names in braces where a parameter goes; so are the
colours of the specification. `drawn` follows the rules of `qgen` (section 2.4 of the specification) with a generator of
its own: a seed names its parameters on every machine.
"""

from __future__ import annotations

import random
import re
from datetime import date, timedelta
from pathlib import Path

TEXTS = Path(__file__).with_name("tpch_queries")
NUMBERS = range(1, 23)
TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")

REGIONS = ("AFRICA", "AMERICA", "ASIA", "EUROPE", "MIDDLE EAST")
# Name and region, in the order of their keys.
NATIONS = (
    ("ALGERIA", 0), ("ARGENTINA", 1), ("BRAZIL", 1), ("CANADA", 1), ("EGYPT", 4), ("ETHIOPIA", 0), ("FRANCE", 3),
    ("GERMANY", 3), ("INDIA", 2), ("INDONESIA", 2), ("IRAN", 4), ("IRAQ", 4), ("JAPAN", 2), ("JORDAN", 4),
    ("KENYA", 0), ("MOROCCO", 0), ("MOZAMBIQUE", 0), ("PERU", 1), ("CHINA", 2), ("ROMANIA", 3), ("SAUDI ARABIA", 4),
    ("VIETNAM", 2), ("RUSSIA", 3), ("UNITED KINGDOM", 3), ("UNITED STATES", 1),
)  # fmt: skip
SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "HOUSEHOLD", "MACHINERY")
MODES = ("AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK")
SIZES = ("STANDARD", "SMALL", "MEDIUM", "LARGE", "ECONOMY", "PROMO")
FINISHES = ("ANODIZED", "BURNISHED", "PLATED", "POLISHED", "BRUSHED")
METALS = ("TIN", "NICKEL", "BRASS", "STEEL", "COPPER")
CONTAINER_SIZES = ("SM", "LG", "MED", "JUMBO", "WRAP")
CONTAINER_KINDS = ("CASE", "BOX", "BAG", "JAR", "PKG", "PACK", "CAN", "DRUM")
COLOURS = tuple((TEXTS / "colours.txt").read_text().split())
COMPLAINTS = (("special", "pending", "unusual", "express"), ("packages", "requests", "accounts", "deposits"))

VALIDATION: dict[int, dict[str, object]] = {
    1: {"delta": 90},
    2: {"size": 15, "kind": "BRASS", "region": "EUROPE"},
    3: {"segment": "BUILDING", "date": "1995-03-15"},
    4: {"date": "1993-07-01"},
    5: {"region": "ASIA", "date": "1994-01-01"},
    6: {"date": "1994-01-01", "discount": "0.06", "quantity": 24},
    7: {"nation1": "FRANCE", "nation2": "GERMANY"},
    8: {"nation": "BRAZIL", "region": "AMERICA", "kind": "ECONOMY ANODIZED STEEL"},
    9: {"colour": "green"},
    10: {"date": "1993-10-01"},
    11: {"nation": "GERMANY", "fraction": "0.0001"},
    12: {"mode1": "MAIL", "mode2": "SHIP", "date": "1994-01-01"},
    13: {"word1": "special", "word2": "requests"},
    14: {"date": "1995-09-01"},
    15: {"date": "1996-01-01"},
    16: {"brand": "Brand#45", "kind": "MEDIUM POLISHED", "sizes": "49, 14, 23, 45, 19, 3, 36, 9"},
    17: {"brand": "Brand#23", "container": "MED BOX"},
    18: {"quantity": 300},
    19: {"brand1": "Brand#12", "brand2": "Brand#23", "brand3": "Brand#34",
         "quantity1": 1, "quantity2": 10, "quantity3": 20},
    20: {"colour": "forest", "date": "1994-01-01", "nation": "CANADA"},
    21: {"nation": "SAUDI ARABIA"},
    22: {"codes": "'13', '31', '23', '29', '30', '18', '17'"},
}  # fmt: skip


def text(number: int, parameters: dict[str, object]) -> str:
    """A query with these parameters."""
    return (TEXTS / f"q{number:02d}.sql").read_text().format(**parameters)


def validation(number: int) -> str:
    """A query with the specification's validation parameters."""
    return text(number, VALIDATION[number])


def ordering(query: str) -> tuple[tuple[int, bool], ...]:
    """By which of its columns a query orders its rows, the most significant first, and whether each descends.

    Its outermost `select`, `from` and `order by` begin a line, as they do in all texts here.
    """
    found = re.search(r"^select (.*?)^from .*^order by ([^\n]*)", query, re.MULTILINE | re.DOTALL)
    if found is None:
        return ()
    # Commas that no bracket encloses.
    columns = [each.split()[-1] for each in re.split(r",(?![^()]*\))", found[1])]
    keys = [each.split() for each in found[2].split(",")]
    return tuple((columns.index(name), "desc" in rest) for name, *rest in keys)


def drawn(scale: float, seed: int) -> dict[int, dict[str, object]]:
    """Parameters of all queries; each query draws from a generator of its own, so that none hangs on the others."""
    return {number: one(number, scale, random.Random(f"{seed}/{number}")) for number in NUMBERS}


def one(number: int, scale: float, chance: random.Random) -> dict[str, object]:
    """Parameters of one query, by the specification's rules for it."""
    nation, region = chance.choice(NATIONS)
    nations = [name for name, _ in chance.sample(NATIONS, 2)]
    years = f"{chance.randint(1993, 1997)}-01-01"
    found: dict[int, dict[str, object]] = {
        1: {"delta": chance.randint(60, 120)},
        2: {"size": chance.randint(1, 50), "kind": chance.choice(METALS), "region": chance.choice(REGIONS)},
        3: {"segment": chance.choice(SEGMENTS), "date": date(1995, 3, 1) + timedelta(days=chance.randint(0, 30))},
        4: {"date": month(chance, 1993, 1, 1997, 10)},
        5: {"region": chance.choice(REGIONS), "date": years},
        6: {"date": years, "discount": f"0.0{chance.randint(2, 9)}", "quantity": chance.randint(24, 25)},
        7: {"nation1": nations[0], "nation2": nations[1]},
        8: {"nation": nation, "region": REGIONS[region],
            "kind": f"{chance.choice(SIZES)} {chance.choice(FINISHES)} {chance.choice(METALS)}"},
        9: {"colour": chance.choice(COLOURS)},
        10: {"date": month(chance, 1993, 2, 1995, 1)},
        11: {"nation": nation, "fraction": f"{0.0001 / scale:.12f}"},
        12: {**dict(zip(("mode1", "mode2"), chance.sample(MODES, 2), strict=True)), "date": years},
        13: {"word1": chance.choice(COMPLAINTS[0]), "word2": chance.choice(COMPLAINTS[1])},
        14: {"date": month(chance, 1993, 1, 1997, 12)},
        15: {"date": month(chance, 1993, 1, 1997, 10)},
        16: {"brand": brand(chance), "kind": f"{chance.choice(SIZES)} {chance.choice(FINISHES)}",
             "sizes": ", ".join(map(str, chance.sample(range(1, 51), 8)))},
        17: {"brand": brand(chance),
             "container": f"{chance.choice(CONTAINER_SIZES)} {chance.choice(CONTAINER_KINDS)}"},
        18: {"quantity": chance.randint(312, 315)},
        19: {"brand1": brand(chance), "brand2": brand(chance), "brand3": brand(chance),
             "quantity1": chance.randint(1, 10), "quantity2": chance.randint(10, 20),
             "quantity3": chance.randint(20, 30)},
        20: {"colour": chance.choice(COLOURS), "date": years, "nation": nation},
        21: {"nation": nation},
        22: {"codes": ", ".join(f"'{code}'" for code in chance.sample(range(10, 35), 7))},
    }  # fmt: skip
    return found[number]


def brand(chance: random.Random) -> str:
    """A brand: two digits from 1 to 5."""
    return f"Brand#{chance.randint(1, 5)}{chance.randint(1, 5)}"


def month(chance: random.Random, first_year: int, first_month: int, last_year: int, last_month: int) -> date:
    """The first day of a month between two, both included."""
    first = first_year * 12 + first_month - 1
    drawn_month = chance.randint(first, last_year * 12 + last_month - 1)
    return date(drawn_month // 12, drawn_month % 12 + 1, 1)
