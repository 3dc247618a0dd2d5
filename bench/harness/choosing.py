"""Names that a command line chooses from."""

from __future__ import annotations

import argparse


def chosen(parser: argparse.ArgumentParser, flag: str, text: str, known: tuple[str, ...]) -> tuple[str, ...]:
    """The names in a comma-separated list, in their own order; `-` is none, `all` is all of them."""
    if text == "all":
        return known
    names = [name for name in text.split(",") if name and name != "-"]
    for name in names:
        if name not in known:
            parser.error(f"{flag}: {name} is none of {', '.join(known)}")
    return tuple(name for name in known if name in names)
