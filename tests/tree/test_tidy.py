"""The tree stays tidy: small files, nothing left undone, few files at the root, links that lead somewhere."""

from __future__ import annotations

import re
import statistics
import subprocess
from pathlib import Path

import pytest
from tree import ROOT, sources, text, tracked

CODE = (".rs", ".py", ".java", ".scala", ".sh", ".js", ".css")
LINES_MAX = 600
LINES_MEDIAN_MAX = 250
LINE_CHARS_MAX = 140
SUBJECT_CHARS_MAX = 72
FILE_BYTES_MAX = 1_000_000
UNDONE = re.compile(
    r"\b(" + "|".join(["TO" + "DO", "FIX" + "ME", "XX" + "X", "todo" + "!", "unimple" + "mented!"]) + r")"
)
IGNORED_TEST = re.compile(r"#\[ignore|@Ignore|@Disabled|pytest\.mark\.skip\(\s*\)")
ROOT_FILES = {
    ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "Cargo.lock", "Cargo.toml", "LICENSE", "Makefile", "README.md",
    "SECURITY.md", "clippy.toml", "deny.toml", "pyproject.toml", "rustfmt.toml",
}  # fmt: skip
LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
FENCE = re.compile(r"```.*?```", re.DOTALL)


def lines(path: Path) -> int:
    return text(path).count("\n")


def test_files_are_small():
    counts = {path: lines(path) for path in sources(*CODE)}
    long = {str(path): count for path, count in counts.items() if count > LINES_MAX}
    assert not long, f"files of more than {LINES_MAX} lines: {long}"
    assert statistics.median(counts.values()) <= LINES_MEDIAN_MAX


def test_lines_are_short_and_end_clean():
    found = []
    for path in sources(*CODE):
        for number, line in enumerate(text(path).splitlines(), 1):
            if len(line) > LINE_CHARS_MAX or line != line.rstrip() or "\t" in line.lstrip("\t"):
                found.append(f"{path}:{number}: {line[:60]}")
            if path.suffix in (".java", ".scala") and line.startswith("\t"):
                found.append(f"{path}:{number}: indented with a tab")
    assert not found, "\n".join(found)


@pytest.mark.parametrize("pattern", [UNDONE, IGNORED_TEST], ids=["undone", "ignored"])
def test_nothing_is_left_undone_or_ignored(pattern: re.Pattern[str]):
    this = Path(__file__).relative_to(ROOT)
    found = [
        f"{path}:{number}: {line.strip()}"
        for path in sources(*CODE, ".md", ".toml", ".yml")
        if path != this
        for number, line in enumerate(text(path).splitlines(), 1)
        if pattern.search(line)
    ]
    assert not found, "\n".join(found)


def test_few_files_lie_at_the_root():
    names = {path.name for path in tracked() if len(path.parts) == 1}
    assert names <= ROOT_FILES, f"a folder suits these better: {sorted(names - ROOT_FILES)}"


@pytest.mark.parametrize("path", sources(".rs", ".py"), ids=str)
def test_every_module_says_what_it_is(path: Path):
    start = text(path).lstrip()
    if path.suffix == ".py":
        assert not start or start.startswith(('"""', "#!", "from __future__")), f"{path} starts with no doc string"
    elif "tests" not in path.parts or path.name != "mod.rs":
        assert start.startswith(("//!", "#!", "// ")), f"{path} starts with no `//!` comment"


def links() -> list[tuple[Path, str]]:
    found = []
    for path in sources(".md"):
        for match in LINK.finditer(FENCE.sub("", text(path))):
            target = match.group(1) or match.group(2)
            if not re.match(r"[a-z]+:|#", target):
                found.append((path, target))
    return found


@pytest.mark.parametrize("path, target", links(), ids=lambda value: str(value))
def test_relative_links_lead_somewhere(path: Path, target: str):
    assert (ROOT / path.parent / target.split("#")[0]).exists(), f"{path} links to {target}, which does not exist"


def test_no_tracked_file_is_large():
    """Raw figures of a kept run are compressed."""
    large = {
        str(path): (ROOT / path).stat().st_size for path in tracked() if (ROOT / path).stat().st_size > FILE_BYTES_MAX
    }
    assert not large, f"files of more than {FILE_BYTES_MAX} bytes: {large}"


def test_code_is_for_the_rust_that_the_manifest_names():
    """Let chains came with Rust 1.88; no older compiler is at hand to say so."""
    oldest = re.search(r'^rust-version = "1\.(\d+)"$', (ROOT / "Cargo.toml").read_text(), re.MULTILINE)
    assert oldest, "Cargo.toml names no rust-version"
    chained = re.compile(r"^\s*(&&|\|\|) let |\b(if|while) let .*&& let ")
    found = [
        f"{path}:{number}"
        for path in sources(".rs")
        for number, line in enumerate(text(path).splitlines(), 1)
        if chained.search(line)
    ]
    assert int(oldest[1]) >= 88 or not found, found


def test_subjects_of_the_newest_commits_are_short():
    """Older ones, and the trees of releases, which have no history, are not looked at."""
    log = subprocess.run(["git", "-C", str(ROOT), "log", "-n", "40", "--format=%s"], capture_output=True, text=True)
    assert [subject for subject in log.stdout.splitlines() if len(subject) > SUBJECT_CHARS_MAX] == []
