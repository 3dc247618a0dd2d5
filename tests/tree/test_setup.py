"""scripts/setup.sh on machines that lack something: what it installs, or the one line in which it names it.

Every command it may call is a stand-in that writes down how it was called; nothing is installed here.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tree import ROOT

TOOLS = ["bash", "cat", "chmod", "cp", "cut", "dirname", "env", "head", "mkdir", "mktemp", "sed", "sort", "tr"]
PRESENT = {"cc": "", "make": "", "git": "", "mvn": "", "javac": "echo javac 17.0.1"}
RUSTC = "echo rustc {version}"
# Stands for cargo with the named subcommands.
CARGO = 'case "$1" in --version{commands}|install) ;; *) exit 101 ;; esac'
RUSTUP_INIT = """#!/bin/sh
mkdir -p "$HOME/.cargo/bin"
printf '#!/bin/sh\\necho rustc 1.95.0\\n' > "$HOME/.cargo/bin/rustc"
printf '#!/bin/sh\\nexit 0\\n' > "$HOME/.cargo/bin/cargo"
chmod +x "$HOME/.cargo/bin/rustc" "$HOME/.cargo/bin/cargo"
"""


@dataclass
class Machine:
    """A machine that has what is in `bin` and no more."""

    root: Path
    user: int = 0
    calls: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.bin = self.root / "bin"
        self.bin.mkdir()
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or pytest.fail(f"this machine has no {tool}"))
        (self.bin / "python3").symlink_to(sys.executable)
        self.has("id", f"echo {self.user}")
        self.has("uname", '[ "$1" = -s ] && echo Linux || echo x86_64')
        for name, script in PRESENT.items():
            self.has(name, script)

    def has(self, name: str, script: str) -> None:
        """Puts a command there that says how it was called and then does `script`."""
        path = self.bin / name
        path.write_text(f'#!/bin/bash\necho "{name} $*" >> "{self.root}/calls"\n{script}\n')
        path.chmod(0o755)

    def has_rust(self, version: str, *commands: str) -> None:
        """A compiler that is on the PATH."""
        self.has("rustc", RUSTC.format(version=version))
        self.has("cargo", CARGO.format(commands="".join(f"|{command}" for command in commands)))

    def has_apt(self, candidate: str) -> None:
        """Debian packages, of which Rust's are of this version."""
        self.has("apt-cache", f'[ "$1" != policy ] || echo "  Candidate: {candidate}+dfsg1-2"')
        rust = f"printf '#!/bin/bash\\necho rustc {candidate}\\n' > {self.bin}/rustc; chmod +x {self.bin}/rustc"
        self.has("apt-get", f'case "$*" in *rustc*) {rust}; cp {self.bin}/rustc {self.bin}/cargo ;; esac')

    def setup(self, *step: str) -> subprocess.CompletedProcess[str]:
        """Runs one step; `calls` has what it called."""
        environment = {"PATH": str(self.bin), "HOME": str(self.root), "TMPDIR": str(self.root)}
        command = [str(self.bin / "bash"), str(ROOT / "scripts" / "setup.sh"), *step]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
        calls = self.root / "calls"
        self.calls = calls.read_text().splitlines() if calls.exists() else []
        return done

    def installed(self) -> list[str]:
        """What packages it asked for."""
        options = {"apt-get", "install", "-y", "-qq", "--no-install-recommends"}
        asked = [call.split() for call in self.calls if call.startswith("apt-get install")]
        return [word for words in asked for word in words if word not in options]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine of root's that has all but Rust."""
    return Machine(tmp_path)


def test_rust_of_the_system_is_installed_if_new_enough(machine: Machine) -> None:
    machine.has_apt("1.85.0")
    done = machine.setup("base")
    assert done.returncode == 0, done.stderr
    assert machine.installed() == ["rustc", "cargo"]


def test_rust_of_rustup_is_installed_where_that_of_the_system_is_old(machine: Machine) -> None:
    machine.has_apt("1.63.0")
    (machine.root / "rustup-init").write_text(RUSTUP_INIT)
    copy = f'while [ "$1" != -o ]; do shift; done; cp {machine.root}/rustup-init "$2"'
    machine.has("curl", copy)
    done = machine.setup("base")
    assert done.returncode == 0, done.stderr
    assert machine.installed() == []
    (call,) = [call for call in machine.calls if call.startswith("curl")]
    assert "https://static.rust-lang.org/rustup/dist/x86_64-unknown-linux-gnu/rustup-init" in call
    assert "--proto =https" in call


def test_what_to_install_is_one_line_where_rustup_cannot_be_reached(machine: Machine) -> None:
    machine.has_apt("1.63.0")
    machine.has("curl", "exit 6")
    done = machine.setup("base")
    assert done.returncode == 1
    named = [line for line in done.stderr.splitlines() if "please" in line]
    assert len(named) == 1 and "please install Rust 1.85 or newer (https://rustup.rs)" in named[0], done.stderr


@pytest.mark.parametrize("content", ["what was published", "something else"])
def test_a_download_is_kept_if_its_checksum_is_right(machine: Machine, content: str) -> None:
    for tool in ("mv", "rm", "sha256sum"):
        (machine.bin / tool).symlink_to(shutil.which(tool))
    published = hashlib.sha256(b"what was published").hexdigest()
    machine.has("curl", f'while [ "$1" != -o ]; do shift; done; printf "{content}" > "$2"')
    file = machine.root / "peers" / "an.jar"
    done = machine.setup("download", "https://example.org/an.jar", published, str(file))
    right = content == "what was published"
    assert (done.returncode == 0) is right is file.exists(), done.stderr
    assert right or "has another SHA-256" in done.stderr
    assert not list(file.parent.glob("*.part"))
    (call,) = [call for call in machine.calls if call.startswith("curl")]
    assert "--proto =https" in call and "--retry-all-errors" in call


def test_without_root_nothing_is_installed(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=1000)
    machine.has_apt("1.85.0")
    machine.has("curl", "exit 6")
    done = machine.setup("base")
    assert done.returncode == 1 and "please install Rust 1.85" in done.stderr
    assert not [call for call in machine.calls if call.startswith(("apt-get", "curl"))]


def test_without_root_all_that_is_missing_is_named_at_once(tmp_path: Path) -> None:
    machine = Machine(tmp_path, user=1000)
    machine.has_apt("1.85.0")
    for name in ("mvn", "cc", "python3"):
        (machine.bin / name).unlink()
    machine.has("python3", "exit 1")
    done = machine.setup("base")
    assert done.returncode == 1
    apt, rust, tests = done.stderr.splitlines()
    assert apt.endswith("install --no-install-recommends build-essential python3 python3-venv maven")
    assert "please install Rust 1.85" in rust
    assert "make test" in tests and all(
        f" {name}" in tests for name in ("jq", "chromium", "fio", "golang-go", "qemu-system-x86")
    )


def test_a_newer_python_beside_an_old_one_is_found_by_its_name(machine: Machine) -> None:
    machine.has_rust("1.85.0")
    (machine.bin / "python3").rename(machine.bin / "python3.12")
    machine.has("python3", "exit 1")
    assert machine.setup("base").returncode == 0
    assert machine.setup("python").stdout == "python3.12\n"
    assert not re.search(r"(?m)^\t(.*[ @|])?python3 ", (ROOT / "Makefile").read_text()), (
        "the Makefile has one name for it"
    )


def test_other_systems_are_refused_in_one_sentence(machine: Machine) -> None:
    machine.has("uname", "echo Darwin")
    done = machine.setup("base")
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1 and "runs on Linux only, and this is Darwin" in done.stderr


def test_a_rust_that_is_there_is_its_owners(machine: Machine) -> None:
    machine.has_apt("1.85.0")
    machine.has_rust("1.84.1", "fmt", "clippy")
    done = machine.setup("base")
    assert done.returncode == 1 and "the rustc on the PATH is 1.84.1" in done.stderr
    assert machine.installed() == []


def test_rustfmt_and_clippy_are_for_the_checks_only(machine: Machine) -> None:
    machine.has_rust("1.85.0")
    assert machine.setup("base").returncode == 0
    done = machine.setup("check")
    assert done.returncode == 1 and "please install rustfmt and clippy" in done.stderr
    machine.has("rustup", "")
    machine.setup("check")
    assert "rustup component add rustfmt clippy" in machine.calls
    machine.has_rust("1.85.0", "fmt", "clippy")
    assert machine.setup("check").returncode == 0


@pytest.mark.parametrize(
    "compiler, version", [("1.85.0", "0.18.3"), ("1.87.0", "0.18.3"), ("1.88.0", "0.20.2"), ("1.95.0", "0.20.2")]
)
def test_cargo_deny_is_one_that_the_compiler_builds(machine: Machine, compiler: str, version: str) -> None:
    machine.has_rust(compiler)
    done = machine.setup("deny")
    assert done.returncode == 0, done.stderr
    assert f"cargo install --quiet --locked --debug cargo-deny@{version}" in machine.calls


@pytest.mark.parametrize("name", ["runs", "harness", "none"])
def test_a_benchmark_that_does_not_exist_is_named_and_the_others_too(name: str) -> None:
    done = subprocess.run(["make", "bench", f"B={name}"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 2
    assert f"there is no benchmark {name}" in done.stderr and "region-scan" in done.stderr
