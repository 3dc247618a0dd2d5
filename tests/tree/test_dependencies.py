"""Dependencies run one way, and unsafe code stays where it belongs.

`cli, jni, py → tiering, prefetch, direct, tables → region → placement, platform`; `sim → placement`; `jni →
kernels`; benchmarks may use anything but `jni`, `py`. `placement` depends on nothing of ours and forbids unsafe code.

In the plugin: `entry → cachedframes, rddblocks → store → memorysplit → settings`, and `rules of plans → kernels`.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest
from tree import ROOT, sources, text, tracked

GROUND = {"placement", "platform"}
MIDDLE = {"region", "tiering", "prefetch", "direct"}
ALLOWED = {
    "kernels": set(),
    "placement": set(),
    "platform": set(),
    "sim": {"placement"},
    **dict.fromkeys(MIDDLE, GROUND),
    "tables": GROUND | {"region"},
    "jni": GROUND | MIDDLE | {"tables", "kernels"},
    "py": GROUND | MIDDLE | {"tables"},
    "cli": GROUND | MIDDLE | {"sim", "tables"},
}
UNSAFE_IN = {"platform", "jni", "py", "direct", "region", "tables"}
# The region store touches raw memory only where it hands addresses out and fills them.
UNSAFE_FILES_OF_REGION_MAX = 4

PLUGIN = Path("spark/src/main/scala/io/warmset/spark")
PARTS = {"cachedframes", "kernels", "rddblocks", "memorysplit", "ui"}
# What of the tab needs what Spark keeps to itself.
TAB = Path("spark/src/main/scala/org/apache/spark/ui/warmset")
# What of the package itself uses its parts. All else in it, and outside, uses none.
USES_PARTS = {
    "BlockOwnership": {"cachedframes", "rddblocks"},
    "WarmsetSerializer": {"cachedframes"},
    "StoreHolder": {"memorysplit"},
    "ContainerRule": {"kernels"},
    "QuickLike": {"kernels"},
    "UseKernels": {"kernels"},
    "WarmsetAggregateExec": {"kernels"},
    "StatsReporter": {"ui"},
}
ENTRY = {"BlockOwnership", "WarmsetExtensions", "WarmsetPlugin", "WarmsetSerializer"}
SETTINGS = {"MemoryRule", "StoreRoom", "TaskSlots", "Units", "WarmsetConf"}


def packages() -> list[dict]:
    command = ["cargo", "metadata", "--format-version=1", "--no-deps", "--locked", "--offline"]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)["packages"]


def crate(package: dict) -> str:
    return Path(package["manifest_path"]).parent.name


def is_ours(package: dict) -> bool:
    return Path(package["manifest_path"]).parent.parent == ROOT / "crates"


REGION = Path("crates/region/src")


def test_modules_of_the_region_store_import_one_way():
    imports = {}
    for path in sorted((ROOT / REGION).glob("*.rs")):
        code = path.read_text().split("#[cfg(test)]")[0]
        named = re.findall(r"^\s*(?:pub(?:\(crate\))? )?use crate::(\w+)", code, re.MULTILINE)
        imports[path.stem] = {name for name in named if (ROOT / REGION / f"{name}.rs").is_file()}
    del imports["lib"]
    while imports:
        leaves = {name for name, used in imports.items() if not used & imports.keys()}
        assert leaves, f"these import one another: {imports}"
        imports = {name: used for name, used in imports.items() if name not in leaves}


def test_dependencies_run_one_way():
    for package in filter(is_ours, packages()):
        name = crate(package)
        assert name in ALLOWED, f"crates/{name} is not in the design: say what it may depend on"
        ours = {
            Path(dependency["path"]).name
            for dependency in package["dependencies"]
            if dependency.get("path") and dependency["kind"] != "dev"
        }
        assert ours <= ALLOWED[name], f"crates/{name} may not depend on {sorted(ours - ALLOWED[name])}"


def test_every_crate_takes_the_lints_of_the_workspace():
    for package in packages():
        manifest = Path(package["manifest_path"])
        assert re.search(r"\[lints\]\s+workspace = true", manifest.read_text()), f"{manifest} has no [lints]"


def test_placement_forbids_unsafe_code_and_touches_no_system():
    assert "#![forbid(unsafe_code)]" in text(Path("crates/placement/src/lib.rs"))
    for path in rust_sources("placement"):
        if "tests" in path.parts:
            continue
        for banned in ("std::fs", "std::io", "std::time", "std::thread", "std::env", "std::net"):
            assert banned not in text(path), f"{path}: placement is pure, and {banned} is not"


def rust_sources(name: str) -> list[Path]:
    return [path for path in tracked() if path.parts[:2] == ("crates", name) and path.suffix == ".rs"]


def has_unsafe(path: Path) -> bool:
    code = re.sub(r"//[^\n]*", "", text(path))
    return re.search(r"\bunsafe\b\s*(\{|fn\b|impl\b|extern\b|trait\b)", code) is not None


@pytest.mark.parametrize("name", sorted({path.parts[1] for path in tracked() if path.parts[0] == "crates"}))
def test_unsafe_code_stays_in_its_crates(name: str):
    with_unsafe = [path for path in rust_sources(name) if "src" in path.parts and has_unsafe(path)]
    if name not in UNSAFE_IN:
        assert not with_unsafe, f"unsafe code outside of {sorted(UNSAFE_IN)}: {list(map(str, with_unsafe))}"
    if name == "region":
        assert len(with_unsafe) <= UNSAFE_FILES_OF_REGION_MAX, list(map(str, with_unsafe))


def plugin_sources() -> list[Path]:
    return [path for path in sources(".java", ".scala") if path.parts[:3] == ("spark", "src", "main")]


def part(path: Path) -> str | None:
    return path.parent.name if path.parent.parent == PLUGIN else None


def names_used(path: Path) -> set[str]:
    """What of `io.warmset.spark` a file names: parts in lower case, classes as they are."""
    code = re.sub(r"/\*.*?\*/|//[^\n]*", "", text(path), flags=re.DOTALL)
    code = re.sub(r"^package .*", "", code, flags=re.MULTILINE)
    used = re.findall(r"\bio\.warmset\.spark\.(?:(\w+)|\{([^}]*)\})", code)
    names = {name for one, several in used for name in re.split(r"[,\s]+", one or several) if name}
    relative = re.findall(r"(?<![\w.])(cachedframes|kernels|rddblocks|memorysplit)\.(?:[A-Z_{])", code)
    return names | set(relative)


def test_the_parts_of_the_plugin_are_known():
    found = {part(path) for path in plugin_sources()} - {None}
    assert found == PARTS, "say in PARTS, and in docs/ARCHITECTURE.md, who may use whom"


@pytest.mark.parametrize("path", plugin_sources(), ids=str)
def test_dependencies_in_the_plugin_run_one_way(path: Path):
    used = names_used(path)
    if part(path) is None:
        allowed = USES_PARTS.get(path.stem, set()) if path.parent == PLUGIN else {"ui"} if path.parent == TAB else set()
        assert used & PARTS <= allowed, f"{path} may not use {sorted(used & PARTS - allowed)}"
    elif part(path) == "memorysplit":
        assert used <= SETTINGS, f"{path} may not use {sorted(used - SETTINGS)}"
    elif part(path) == "ui":
        allowed = {"StatsReport", "Units", "ui"}
        assert used <= allowed, f"{path} may not use {sorted(used - allowed)}"
    else:
        banned = PARTS | ENTRY | {"_"}
        assert not used & banned, f"{path} may not use {sorted(used & banned)}"
