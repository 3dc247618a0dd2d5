#!/usr/bin/env python3
"""Says what programs and libraries need of a system beyond glibc 2.28. usage: portable.py FILE...

Looks into wheels and jars, and into jars in wheels. Exit code 1 if there is something.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

GLIBC_MAX = (2, 28)
# Parts of glibc, which is there.
LIBRARIES = re.compile(r"(lib(c|m|dl|rt|pthread|util)\.so\.[0-9]+|libgcc_s\.so\.1|ld-linux-[a-z0-9_-]+\.so\.[0-9])$")
MACHINES = {62: "x86_64", 183: "aarch64"}


def readelf(path: Path, *options: str) -> str:
    """What binutils' readelf prints; it reads all architectures."""
    command = ["readelf", "--wide", *options, str(path)]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={"LC_ALL": "C"}).stdout


def machine(content: bytes) -> str | None:
    """The architecture of a 64-bit little-endian ELF file."""
    return MACHINES.get(int.from_bytes(content[18:20], "little"), "another") if content[:4] == b"\x7fELF" else None


def problems_of_elf(path: Path, name: str) -> list[str]:
    """Libraries and versions of glibc's symbols that an older system lacks."""
    needed = re.findall(r"\(NEEDED\).*\[(.*)\]", readelf(path, "-d"))
    found = [f"{name} needs the library {library}" for library in needed if not LIBRARIES.match(library)]
    versions = re.findall(r"Name: GLIBC_([0-9.]+)", readelf(path, "-V"))
    newer = [version for version in set(versions) if tuple(map(int, version.split("."))) > GLIBC_MAX]
    return found + [f"{name} needs GLIBC_{version}" for version in newer]


def elves(path: Path, content: bytes | None = None) -> list[tuple[str, bytes]]:
    """The ELF files of a file, a wheel or a jar, with names that say where they are."""
    content = path.read_bytes() if content is None else content
    if machine(content):
        return [(str(path), content)]
    if path.suffix not in (".whl", ".jar"):
        return []
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        inside = [(path / name, archive.read(name)) for name in archive.namelist()]
    return [found for name, part in inside for found in elves(name, part)]


def problems_of(path: Path) -> list[str]:
    """What this file, or what is in it, needs."""
    found = []
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory) / "elf"
        for name, content in elves(path):
            copy.write_bytes(content)
            found += problems_of_elf(copy, name)
    return found


def main() -> None:
    """The command line."""
    found = [problem for name in sys.argv[1:] for problem in problems_of(Path(name))]
    print("\n".join(found), end="\n" if found else "")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
