"""scripts/release.py: what it refuses, the files it makes, and that nothing newer than glibc 2.28 passes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tree import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import portable
import release

FILES = {
    "Cargo.toml": '[workspace.package]\nversion = "1.2.3"\n',
    "spark/pom.xml": '<project xmlns="http://maven.apache.org/POM/4.0.0"><version>1.2.3</version></project>\n',
    "CHANGELOG.md": "# Changelog\n\n## Unreleased\n\n- New.\n\n## 1.2.3\n\n- Old.\n\n## 1.2.2\n\n- Older.\n",
    ".gitignore": "/dist/\n",
}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A tree that could be released as 1.2.3."""
    for name, content in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "all"]):
        subprocess.run([*git, *command], check=True)
    return tmp_path


def test_a_clean_tree_of_that_version_is_released(root: Path):
    (root / "dist").mkdir()
    (root / "dist" / "old.whl").write_text("ignored")
    assert release.Release(root, "1.2.3").problems() == []
    assert release.Release(root, "1.2.3").changes() == "## 1.2.3\n\n- Old.\n"


def test_another_version_is_refused(root: Path):
    found = release.Release(root, "1.2.4").problems()
    assert found == [
        "Cargo.toml has version 1.2.3, and VERSION is 1.2.4",
        "spark/pom.xml has version 1.2.3, and VERSION is 1.2.4",
        "CHANGELOG.md has no section '## 1.2.4' with a line in it",
    ]


@pytest.mark.parametrize("name", ["new.txt", "Cargo.toml"])
def test_a_tree_with_changes_is_refused(root: Path, name: str):
    with (root / name).open("a") as file:
        file.write("# changed\n")
    (found,) = release.Release(root, "1.2.3").problems()
    assert found == f"the tree has changes that are not committed: {name}"
    rehearsal = release.Release(root, "1.2.3", rehearsal=True)
    assert rehearsal.problems() == []
    assert rehearsal.changes() == "## Unreleased\n\n- New.\n"


def test_a_refusal_is_said_before_anything_is_built():
    done = subprocess.run(["make", "release", "VERSION=99.0"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode != 0 and done.stdout == ""
    assert "release: spark/pom.xml has version" in done.stderr and "VERSION is 99.0" in done.stderr
    none = subprocess.run(["make", "release"], cwd=ROOT, capture_output=True, text=True)
    assert none.returncode != 0 and "make release VERSION=x" in none.stderr


def test_the_files_of_a_release():
    assert release.Release(ROOT, "1.0").artifacts() == [
        "CHANGELOG-1.0.md",
        "LICENSE",
        "THIRD-PARTY-NOTICES.txt",
        "warmset-1.0-cp311-abi3-manylinux_2_28_aarch64.whl",
        "warmset-1.0-cp311-abi3-manylinux_2_28_x86_64.whl",
        "warmset-1.0.tar.gz",
        "warmset-spark_2.13-1.0-javadoc.jar",
        "warmset-spark_2.13-1.0-sources.jar",
        "warmset-spark_2.13-1.0.jar",
        "warmset-spark_2.13-1.0.pom",
    ]


def test_the_pom_says_what_a_public_repository_asks():
    pom = ElementTree.parse(ROOT / "spark" / "pom.xml").getroot()
    for wanted in ("name", "description", "url", "licenses/license/url", "developers/developer/name", "scm/url"):
        assert pom.findtext("/".join(f"{release.POM}{part}" for part in wanted.split("/"))), wanted


def test_sources_come_with_metadata_and_without_raw_figures(tmp_path: Path):
    of = release.Release(ROOT, "1.0")
    with zipfile.ZipFile(tmp_path / "any.whl", "w") as wheel:
        wheel.writestr("warmset-1.0.dist-info/METADATA", "Name: warmset\nVersion: 1.0\n")
    release.write_sdist(of, tmp_path / "any.whl", tmp_path)
    listing = ["tar", "-tzf", str(tmp_path / "warmset-1.0.tar.gz")]
    names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.splitlines()
    kept = {
        f"warmset-1.0/{name}" for name in ("PKG-INFO", "Cargo.lock", "pyproject.toml", "scripts/notices.py", "LICENSE")
    }
    assert kept <= set(names)
    assert not [name for name in names if "/bench/runs/" in name]


def test_checksums_are_as_the_tools_read_them(tmp_path: Path):
    (tmp_path / "a.whl").write_text("a")
    (tmp_path / "b.jar").write_text("b")
    release.write_checksums(tmp_path)
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == "a.whl: OK\nb.jar: OK\n"


def test_what_needs_a_newer_system_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    program = Path(sys.executable).resolve()
    assert portable.machine(program.read_bytes()[:64]) in ("x86_64", "aarch64")
    said = {
        "-d": " 0x01 (NEEDED)  Shared library: [libc.so.6]\n 0x01 (NEEDED)  Shared library: [libssl.so.3]\n",
        "-V": "  0x0010:   Name: GLIBC_2.28  Flags: none\n  0x0020:   Name: GLIBC_2.34  Flags: none\n",
    }
    monkeypatch.setattr(portable, "readelf", lambda path, option: said[option])
    with zipfile.ZipFile(tmp_path / "in.jar", "w") as jar:
        jar.write(program, "native/x.so")
    with zipfile.ZipFile(tmp_path / "out.whl", "w") as wheel:
        wheel.write(tmp_path / "in.jar", "warmset/jars/in.jar")
        wheel.writestr("warmset/__init__.py", "")
    inside = tmp_path / "out.whl" / "warmset/jars/in.jar" / "native/x.so"
    assert portable.problems_of(tmp_path / "out.whl") == [
        f"{inside} needs the library libssl.so.3",
        f"{inside} needs GLIBC_2.34",
    ]
