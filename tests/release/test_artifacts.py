"""The files of a release are there, whole, and need no newer system than they say."""

from __future__ import annotations

import subprocess
import tarfile
import tomllib
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import portable
import pytest
from release import NATIVE, POM, TARGETS, Release


def test_all_files_are_there_with_their_checksums(folder: Path, release: Release):
    assert sorted(path.name for path in folder.iterdir()) == sorted([*release.artifacts(), "SHA256SUMS"])
    done = subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count(": OK") == len(release.artifacts()), done.stdout + done.stderr


def test_nothing_needs_a_newer_system(folder: Path, release: Release):
    for name in release.artifacts():
        assert portable.problems_of(folder / name) == []


@pytest.mark.parametrize("machine", TARGETS)
def test_a_wheel_has_programs_of_its_architecture_and_the_plugin(folder: Path, release: Release, machine: str):
    wheel = folder / release.wheel(machine)
    found = {name.split(".whl/")[1]: portable.machine(content) for name, content in portable.elves(wheel)}
    stem = f"warmset-{release.version}.data"
    own = {f"{stem}/scripts/warmset", "warmset/_native.abi3.so"}
    if machine == "x86_64":
        own.add(f"{stem}/data/lib/warmset/libwarmset_direct.so")
    jar = f"warmset/jars/{release.jar}.jar/native/linux"
    assert found == dict.fromkeys(own, machine) | {f"{jar}/{each}/{NATIVE}": each for each in TARGETS}
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        assert {"warmset/py.typed", "warmset/THIRD-PARTY-NOTICES.txt"} <= names
        assert (
            f"Tag: cp311-abi3-manylinux_2_28_{machine}"
            in archive.read(f"warmset-{release.version}.dist-info/WHEEL").decode()
        )
        assert archive.read(f"warmset/jars/{release.jar}.jar") == (folder / f"{release.jar}.jar").read_bytes()


def test_the_jar_has_licences_and_stands_with_sources_and_documentation(folder: Path, release: Release):
    def names(ending: str) -> set[str]:
        with zipfile.ZipFile(folder / f"{release.jar}{ending}") as jar:
            return set(jar.namelist())

    assert {"META-INF/LICENSE", "META-INF/THIRD-PARTY-NOTICES.txt", "META-INF/NOTICE"} <= names(".jar")
    assert {"io/warmset/spark/WarmsetPlugin.scala", "io/warmset/region/NativeLibrary.java"} <= names("-sources.jar")
    assert "io/warmset/spark/WarmsetPlugin.html" in names("-javadoc.jar")


def test_a_public_repository_takes_the_pom(folder: Path, release: Release):
    pom = ElementTree.parse(folder / f"{release.jar}.pom").getroot()
    for wanted in ("groupId", "artifactId", "name", "description", "url"):
        assert pom.findtext(f"{POM}{wanted}"), wanted
    assert pom.findtext(f"{POM}version") == release.version
    for wanted in ("licenses/license/url", "developers/developer/name", "scm/url", "scm/connection"):
        assert pom.findtext("/".join(f"{POM}{part}" for part in wanted.split("/"))), wanted
    kept = {
        each.findtext(f"{POM}artifactId"): each.findtext(f"{POM}scope")
        for each in pom.iterfind(f"{POM}dependencies/{POM}dependency")
    }
    assert "fory-core" not in kept, "it is in the jar"
    assert set(kept.values()) <= {"provided", "test"}


def test_the_sources_are_a_whole_workspace(folder: Path, release: Release, tmp_path: Path):
    stem = f"warmset-{release.version}"
    with tarfile.open(folder / f"{stem}.tar.gz") as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / stem
    assert f"Version: {release.version}\n" in (root / "PKG-INFO").read_text()
    backend = tomllib.loads((root / "pyproject.toml").read_text())["build-system"]
    assert (root / backend["backend-path"][0] / f"{backend['build-backend']}.py").is_file()
    command = ["cargo", "metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
