"""Pages say what the sources say: messages in the troubleshooting page, files and menus of the site."""

from __future__ import annotations

import re

import pytest
from tree import ROOT, sources, text

PAGE = ROOT / "docs" / "operating" / "troubleshooting.md"
ROW = re.compile(r"^\| (.*?) \| ", re.MULTILINE)
CODE = re.compile(r"`([^`]*)`")
COMMANDS = ("warmset ", "ls ")


def messages() -> list[str]:
    """What the first columns of the page quote; commands and names are not messages."""
    quoted = [found for row in ROW.findall(PAGE.read_text()) for found in CODE.findall(row)]
    return [found for found in quoted if (" " in found or found.endswith("Error")) and not found.startswith(COMMANDS)]


@pytest.fixture(scope="module")
def code() -> str:
    """All sources that are not tests."""
    return "\n".join(text(path) for path in sources(".rs", ".scala", ".java", ".py") if "tests" not in path.parts)


def test_quoted_messages_are_what_the_programs_say(code: str):
    found = messages()
    assert len(found) >= 20
    assert [message for message in found if message not in code] == []
