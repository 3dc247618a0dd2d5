"""The commands of the guides, as the pages have them, with the `warmset` that the wheel installed.

What is replaced is what a test has not got: the user's program, directory and process. Commands of the plugin are in
tests/test_readme.py.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import warmset
from e2e import pages
from e2e.pages import replaced

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.prefix) / "bin"
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="mounts, recording as root and DAMON need root")


def block(page: str, mark: str) -> str:
    """The page's one block of commands that has `mark` in it."""
    return pages.block(page, mark, "", "sh")


def commands(code: str) -> list[str]:
    """One command a line, comments left out."""
    lines = code.replace("\\\n", " ").splitlines()
    return [stripped for line in lines if (stripped := line.split("  #")[0].split(" # ")[0].strip())]


def without_sudo(code: str) -> str:
    """The same for who is root; the path of the command is that of the wheel's."""
    return re.sub(
        r'sudo (?:env XDG_DATA_HOME="\$HOME/\.local/share" )?(?:"\$\(command -v (\w+)\)"|target/try/bin/)?', r"\1", code
    )


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as a shell does, the wheel's before others."""
    own = {"PATH": f"{BIN}:{os.environ['PATH']}", "XDG_DATA_HOME": str(directory / "xdg")}
    return subprocess.run(
        ["bash", "-ec", command], cwd=directory, env={**os.environ, **own}, capture_output=True, text=True, timeout=300
    )


def succeed(command: str, directory: Path) -> str:
    """What it says."""
    done = run(command, directory)
    assert done.returncode == 0, f"{command}: exit code {done.returncode}: {done.stderr[-2000:]}"
    return done.stdout


@needs_root
@pytest.mark.parametrize("page", ["README.md", "docs/guide/prefetch.md"])
def test_warm_starts(page: str, tmp_path: Path):
    code = replaced(without_sudo(block(page, "warmset learn")), {"gdb": "ls"})
    learn, start = commands(code)
    assert succeed(learn, tmp_path)
    assert succeed(start, tmp_path).startswith("ls (GNU coreutils)")
    said = {
        command: succeed(command, tmp_path)
        for command in commands(replaced(block("docs/guide/prefetch.md", "profile list"), {"gdb": "ls"}))
    }
    assert "ls --version" in said["warmset profile list"] and "ls" in said["warmset profile show ls"]
    assert "ls" not in succeed("warmset profile list", tmp_path)


def test_stores(tmp_path: Path):
    store = warmset.Store(tmp_path / "warm", memory="32MiB")
    store["X"], store["log"] = np.arange(1000.0), {"n": np.arange(3)}
    listed, verified, _ = [
        succeed(command, tmp_path)
        for command in commands(
            replaced(block("docs/guide/python.md", "store ls"), {"/mnt/nvme/warm": str(tmp_path / "warm")})
        )
    ]
    assert "array" in listed and "table" in listed and "X" in verified
    assert list(store) == ["X"]


def test_top(tmp_path: Path):
    store = warmset.Store(tmp_path / "warm", memory="32MiB")
    store["X"] = np.arange(1000.0)
    _view = store["X"]
    metrics = "/var/lib/node_exporter/warmset.prom"
    code = replaced(block("docs/guide/top.md", "--once"), {metrics: f"{tmp_path}/warmset.prom"})
    live, once, as_json, as_metrics = commands(code)
    # crates/cli/tests/stores/top.rs has a terminal.
    assert live == "warmset top" and run(live, tmp_path).returncode == 2
    assert "python" in succeed(once, tmp_path)
    # Without --once they go on for ever.
    (shown,) = [
        each
        for each in json.loads(succeed(f"{as_json} --once", tmp_path))["stores"]
        if each["dirs"] == [str(store.dir)]
    ]
    assert shown["user"] == "python"
    succeed(f"{as_metrics} --once", tmp_path)
    assert "\nwarmset_" in (tmp_path / "warmset.prom").read_text()


@needs_root
@pytest.mark.parametrize("page", ["README.md", "docs/guide/direct.md"])
def test_memory_files(page: str, tmp_path: Path):
    """In a mount namespace of its own, in which nothing but the test's is below /mnt."""
    code = without_sudo(block(page, "direct setup"))
    if page == "README.md":
        if shutil.which("sqlite3") is None:
            pytest.skip("sqlite3 is not installed")
        (tmp_path / "target" / "try").mkdir(parents=True)
        code += "warmset direct teardown\n"
    else:
        code = replaced(code, {"./program": "cmp data.bin"})
        (tmp_path / "data.bin").write_bytes(np.random.default_rng(1).bytes(3 << 20))
    (tmp_path / "block.sh").write_text(f"set -e\nmount -t tmpfs none /mnt\n{code}")
    said = succeed("unshare --mount bash block.sh", tmp_path)
    (counts,) = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    # A program that makes few calls is passed on.
    served = counts["reads"] > counts["passed_on"] > 0 if page == "README.md" else counts["passed_on"] > 0
    assert served and (page != "README.md" or "80000000" in said), said


@needs_root
def test_tiers(tmp_path: Path):
    """With one node, without DAMON or where another program has it they say so; tests/tier has several nodes."""
    here = str(os.getpid())
    (once,) = [command for command in commands(without_sudo(block("README.md", "warmset tier"))) if " tier " in command]
    guide = replaced(without_sudo(block("docs/guide/tier.md", "warmset")), {"PID": here, "./server --port 80": "true"})
    dry, real, own = [command for command in commands(guide) if command.startswith("warmset")]
    for command in (replaced(once, {"$$": here}), f"{dry} --once", f"{real} --once"):
        done = run(command, tmp_path)
        says_why = done.returncode == 3 and re.search(r"DAMON|NUMA node", done.stderr)
        assert done.returncode == 0 or says_why, f"{command}: {done.stderr}"
    succeed(own, tmp_path)


def test_simulations(tmp_path: Path):
    """The published experiments take a minute each (`make bench B=sim QUICK=1` runs them): here they are understood."""
    for command in [*commands(block("docs/guide/sim.md", "sim --seed 2")), "warmset sim"]:
        assert "three-tiers" in succeed(f"{command} --list", tmp_path)
    for command in commands(block("docs/guide/sim.md", "mine.toml")):
        succeed(command, tmp_path)
    assert list((tmp_path / "charts").glob("*.svg"))


def test_commands_of_pages_name_options_that_there_are(tmp_path: Path):
    """What the text of a page calls in passing: `warmset doctor --dir DIR` and such."""
    inline = re.compile(r"`(warmset (?:[a-z]+ ?)+(?: ?--[a-z-]+)+)")
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    found = {call for page in pages for call in inline.findall(page.read_text())}
    assert len(found) > 5
    for call in sorted(found):
        words = shlex.split(call)
        subcommand = [word for word in words[1:] if not word.startswith("--")]
        help_ = ""
        while subcommand and not help_:
            done = run(shlex.join(["warmset", *subcommand, "--help"]), tmp_path)
            help_ = done.stdout if done.returncode == 0 else ""
            subcommand.pop()
        assert help_, call
        missing = [word for word in words if word.startswith("--") and word not in help_]
        assert not missing, f"{call}: {missing}"
