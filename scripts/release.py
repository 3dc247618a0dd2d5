#!/usr/bin/env python3
"""Builds all that a release publishes into dist/VERSION. `make release VERSION=x` runs it; `--check` only looks.

Wheels and native libraries are for x86-64 and AArch64 with glibc 2.28 or newer, linked by Zig. They are built in a
copy of the tracked files below target/, so that nothing else of the tree changes. `--rehearse` takes the tree as it
is, and the section "Unreleased" of the changelog.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

sys.path.insert(0, str(Path(__file__).parent))
from portable import GLIBC_MAX, problems_of

ROOT = Path(__file__).resolve().parents[1]
TARGETS = {"x86_64": "x86_64-unknown-linux-gnu", "aarch64": "aarch64-unknown-linux-gnu"}
PLATFORM = "manylinux_" + "_".join(map(str, GLIBC_MAX))
NATIVE = "libwarmset_jni.so"
# Raw figures are of no use to who installs from sources.
NOT_IN_SDIST = ("bench/runs/",)
POM = "{http://maven.apache.org/POM/4.0.0}"


@dataclass(frozen=True)
class Release:
    """A version of the tree at `root`."""

    root: Path
    version: str
    rehearsal: bool = False

    @property
    def jar(self) -> str:
        """The plugin's name without its ending."""
        return f"warmset-spark_2.13-{self.version}"

    def wheel(self, machine: str) -> str:
        """The wheel's file."""
        return f"warmset-{self.version}-cp311-abi3-{PLATFORM}_{machine}.whl"

    def artifacts(self) -> list[str]:
        """All files of the release but the checksums."""
        jars = [f"{self.jar}{ending}" for ending in (".jar", "-sources.jar", "-javadoc.jar", ".pom")]
        texts = [f"CHANGELOG-{self.version}.md", "LICENSE", "THIRD-PARTY-NOTICES.txt"]
        return sorted([*map(self.wheel, TARGETS), f"warmset-{self.version}.tar.gz", *jars, *texts])

    def files(self) -> list[Path]:
        """What git tracks, or would; relative to the root."""
        command = ["git", "-C", str(self.root), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")
        return sorted({Path(name) for name in names if name and (self.root / name).is_file()})

    def changes(self) -> str | None:
        """The changelog's section of this version; `None` if there is none."""
        title = "Unreleased" if self.rehearsal else self.version
        text = (self.root / "CHANGELOG.md").read_text()
        found = re.search(rf"^## {re.escape(title)}\b[^\n]*\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        return found[0].strip() + "\n" if found and found[1].strip() else None

    def problems(self) -> list[str]:
        """Why it cannot be released, a line each."""
        found = []
        status = ["git", "-C", str(self.root), "status", "--porcelain"]
        changed = subprocess.run(status, check=True, capture_output=True, text=True).stdout.splitlines()
        if changed and not self.rehearsal:
            found.append(f"the tree has changes that are not committed: {', '.join(line[3:] for line in changed[:5])}")
        cargo = tomllib.loads((self.root / "Cargo.toml").read_text())["workspace"]["package"]["version"]
        pom = ElementTree.parse(self.root / "spark" / "pom.xml").findtext(f"{POM}version")
        for file, version in (("Cargo.toml", cargo), ("spark/pom.xml", pom)):
            if version != self.version:
                found.append(f"{file} has version {version}, and VERSION is {self.version}")
        if self.changes() is None:
            title = "Unreleased" if self.rehearsal else self.version
            found.append(f"CHANGELOG.md has no section '## {title}' with a line in it")
        return found


def run(*command: str, cwd: Path, **variables: str) -> None:
    """Runs a command and says so."""
    print("release:", " ".join(command), file=sys.stderr)
    subprocess.run(command, cwd=cwd, check=True, stdout=sys.stderr, env={**os.environ, **variables})


def copy_sources(release: Release) -> Path:
    """A copy of the tracked files, with their times."""
    copy = release.root / "target" / "release-source"
    shutil.rmtree(copy, ignore_errors=True)
    for path in release.files():
        (copy / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(release.root / path, copy / path)
    return copy


def build_native(source: Path, target_dir: Path) -> dict[str, Path]:
    """The command and the libraries for each architecture; the folder that has them."""
    folders = {}
    crates = ("-p", "warmset-cli", "-p", "warmset-direct", "-p", "warmset-jni")
    for machine, target in TARGETS.items():
        libc = ".".join(map(str, GLIBC_MAX))
        run("cargo", "zigbuild", "--release", "--locked", "-q", "--target", f"{target}.{libc}", *crates, cwd=source)
        folders[machine] = target_dir / target / "release"
    return folders


def build_jars(release: Release, source: Path, native: dict[str, Path], out: Path) -> Path:
    """The plugin's jars and its POM; the jar."""
    libraries = source / "target" / "native"
    for machine, folder in native.items():
        (libraries / machine).mkdir(parents=True)
        shutil.copy(folder / NATIVE, libraries / machine / NATIVE)
    notices = source / "target" / "notices" / "THIRD-PARTY-NOTICES.txt"
    notices.parent.mkdir()
    targets = [f"--target={target}" for target in TARGETS.values()]
    command = [sys.executable, "scripts/notices.py", *targets, "warmset-jni"]
    notices.write_bytes(subprocess.run(command, cwd=source, check=True, capture_output=True).stdout)
    maven = ("mvn", "-B", "-ntp", "-q", "-f", "spark/pom.xml", "-Prelease", f"-Dnative.libraries={libraries}")
    run(*maven, "package", "-DskipTests", cwd=source)
    built = source / "spark" / "target"
    for ending in (".jar", "-sources.jar", "-javadoc.jar"):
        shutil.copy(built / f"{release.jar}{ending}", out)
    # Without what the jar has inside.
    shutil.copy(built / "dependency-reduced-pom.xml", out / f"{release.jar}.pom")
    return out / f"{release.jar}.jar"


def build_wheels(source: Path, native: dict[str, Path], jar: Path, out: Path) -> str:
    """A wheel for each architecture; the licences of what they link."""
    sys.path.insert(0, str(source / "python" / "build_backend"))
    import warmset_build

    warmset_build.place_notices(list(TARGETS.values()))
    warmset_build.place_jar(jar)
    for machine, target in TARGETS.items():
        warmset_build.place_programs(native[machine], machine)
        command = ("maturin", "build", "--release", "--zig", "--quiet", "--target", target, "--compatibility", PLATFORM)
        run(*command, "--out", str(out), cwd=source)
    return warmset_build.NOTICES.read_text()


def write_sdist(release: Release, wheel: Path, out: Path) -> None:
    """The tracked files, with the metadata that a wheel has."""
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        info = archive.read(metadata)
    stem = f"warmset-{release.version}"
    with tarfile.open(out / f"{stem}.tar.gz", "w:gz", format=tarfile.PAX_FORMAT) as archive:
        for path in release.files():
            if not str(path).startswith(NOT_IN_SDIST):
                archive.add(release.root / path, f"{stem}/{path}")
        about = tarfile.TarInfo(f"{stem}/PKG-INFO")
        about.size = len(info)
        archive.addfile(about, io.BytesIO(info))


def write_checksums(out: Path) -> None:
    """As `sha256sum -c` reads them."""
    lines = []
    for path in sorted(out.iterdir()):
        with path.open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n")
    (out / "SHA256SUMS").write_text("".join(lines))


def build(release: Release) -> Path:
    """Builds everything, then puts it into dist/VERSION at once; the folder."""
    target_dir = release.root / "target"
    # Symbols would be most of the bytes.
    os.environ |= {"CARGO_TARGET_DIR": str(target_dir), "CARGO_PROFILE_RELEASE_STRIP": "symbols"}
    os.environ |= {"CARGO_PROFILE_RELEASE_DEBUG": "0"}
    source = copy_sources(release)
    out = target_dir / "release-out"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir()
    native = build_native(source, target_dir)
    jar = build_jars(release, source, native, out)
    (out / "THIRD-PARTY-NOTICES.txt").write_text(build_wheels(source, native, jar, out))
    write_sdist(release, out / release.wheel("x86_64"), out)
    shutil.copy(release.root / "LICENSE", out)
    (out / f"CHANGELOG-{release.version}.md").write_text(release.changes() or "")
    made = sorted(path.name for path in out.iterdir())
    if made != release.artifacts():
        sys.exit(f"release: built {made}, and it should be {release.artifacts()}")
    found = [problem for name in made for problem in problems_of(out / name)]
    if found:
        sys.exit("release: these need more than a stock system has:\n" + "\n".join(found))
    write_checksums(out)
    final = release.root / "dist" / release.version
    shutil.rmtree(final, ignore_errors=True)
    final.parent.mkdir(exist_ok=True)
    shutil.copytree(out, final)
    return final


def main() -> None:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("version", metavar="VERSION")
    parser.add_argument("--check", action="store_true", help="say what is in the way, and build nothing")
    parser.add_argument("--rehearse", action="store_true", help="build from the tree as it is")
    options = parser.parse_args()
    release = Release(ROOT, options.version, options.rehearse)
    problems = release.problems()
    if problems:
        sys.exit("\n".join(f"release: {problem}" for problem in problems))
    if not options.check:
        print(build(release))


if __name__ == "__main__":
    main()
