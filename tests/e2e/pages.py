"""What the pages of the documentation show: their blocks of code, with a test's things in place of the user's."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def block(page: str, mark: str, *languages: str) -> str:
    """The page's one block in one of these languages that has `mark` in it."""
    found = [
        code for kind, code in FENCE.findall((REPOSITORY / page).read_text()) if kind in languages and mark in code
    ]
    assert len(found) == 1, f"{page} has {len(found)} blocks of {' or '.join(languages)} with {mark!r}"
    return found[0]


def replaced(code: str, places: dict[str, str]) -> str:
    """The code with the test's things in place of the user's; each must be there."""
    for theirs, ours in places.items():
        assert theirs in code, f"the page no longer has {theirs!r}"
        code = code.replace(theirs, ours)
    return code
