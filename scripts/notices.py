#!/usr/bin/env python3
"""Writes the licences of all that crates of this workspace link, as one text.

usage: notices.py [--target T]... CRATE...

Crates of the workspace and what is only run while it is built (procedural macros, build scripts) are left out.
Equal texts are written once. A crate whose sources have no licence file is listed with the licence it names.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

LICENCE_FILES = ("license", "licence", "copying", "copyright", "notice", "unlicense")
RULE = "=" * 100


def host() -> str:
    """This machine's target."""
    said = subprocess.run(["rustc", "-vV"], check=True, capture_output=True, text=True).stdout
    return next(line.split()[1] for line in said.splitlines() if line.startswith("host:"))


def metadata(targets: list[str]) -> dict:
    """What cargo says of this workspace's packages, for these targets together."""
    command = ["cargo", "metadata", "--locked", "--format-version", "1"]
    for target in targets:
        command += ["--filter-platform", target]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def linked(found: dict, crates: list[str]) -> list[dict]:
    """The packages that `crates` link, sorted by name and version."""
    packages = {package["id"]: package for package in found["packages"]}
    nodes = {node["id"]: node for node in found["resolve"]["nodes"]}
    roots = [id for id in found["workspace_members"] if packages[id]["name"] in crates]
    if len(roots) != len(crates):
        sys.exit(f"notices: {', '.join(crates)} are not all crates of this workspace")
    seen, waiting = set(roots), roots
    while waiting:
        for dependency in nodes[waiting.pop()]["deps"]:
            package = packages[dependency["pkg"]]
            macro = any("proc-macro" in target["kind"] for target in package["targets"])
            normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if normal and not macro and dependency["pkg"] not in seen:
                seen.add(dependency["pkg"])
                waiting.append(dependency["pkg"])
    foreign = [packages[id] for id in seen if packages[id]["source"]]
    return sorted(foreign, key=lambda package: (package["name"], package["version"]))


def licence_texts(package: dict) -> list[str]:
    """The texts of the licence files in the root of the crate's sources."""
    directory = Path(package["manifest_path"]).parent
    found = sorted(
        path for path in directory.iterdir() if path.is_file() and path.name.lower().startswith(LICENCE_FILES)
    )
    return [path.read_text(encoding="utf-8", errors="replace").strip() for path in found]


def notices(packages: list[dict]) -> str:
    """One section for each text, with all that bring it."""
    sections: dict[str, list[str]] = {}
    for package in packages:
        name = f"{package['name']} {package['version']} ({package['license']}) {package['repository'] or ''}".strip()
        texts = licence_texts(package)
        if not texts:
            texts = [f"Its sources have no licence file; its licence is: {package['license']}"]
        for text in texts:
            sections.setdefault(text, []).append(name)
    head = "What the native part of Warmset links, with its licences. Apache Fory, in the jar: META-INF/NOTICE.\n"
    return head + "".join(
        f"\n{RULE}\n" + "\n".join(names) + f"\n{RULE}\n\n{text}\n" for text, names in sections.items()
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", action="append", help="a target of the compiler (default: this machine's)")
    parser.add_argument("crates", nargs="+", metavar="CRATE")
    options = parser.parse_args()
    sys.stdout.write(notices(linked(metadata(options.target or [host()]), options.crates)))
