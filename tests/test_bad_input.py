"""Settings and machines that Warmset cannot work with: a clear word that names the setting, nothing lost.

A malformed setting stops Spark at start. A machine that does not allow what Warmset needs stops it
only with spark.warmset.required=true; else one warning says why and Spark caches by itself.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from e2e import sandbox
from e2e.child import SparkChild
from e2e.launch import Launch

VERSION = "4.2"
REQUIRED = {"spark.warmset.required": "true"}
MALFORMED = {
    "spark.warmset.memory": ["0", "-1", "-512m", "lots", "1.5g", "12q", "", "1k", "999999g", "99999999999999999999"],
    "spark.warmset.flashMax": ["-1", "much"],
    "spark.warmset.flashReserve": ["-1", "half"],
    "spark.warmset.hugePages": ["maybe"],
    "spark.warmset.io": ["uring"],
    "spark.warmset.required": ["perhaps"],
    "spark.warmset.enabled": ["si"],
    "spark.warmset.dir": ["", "relative/path"],
    "spark.warmset.totalMemory": ["-1", "some", "12m", "900000g"],
    "spark.warmset.rdd.enabled": ["always"],
    "spark.warmset.rdd.heapFirst": ["2"],
    "spark.warmset.smallPartition": ["-1"],
}
MALFORMED_WHY = {
    ("spark.warmset.totalMemory", "12m"): "must be a size",
    ("spark.warmset.totalMemory", "900000g"): "are kept for what the JVM needs",
}
PROBLEMS = {
    "missing directory": ("spark.warmset.dir", {"spark.warmset.dir": "/nonexistent/warmset"}),
    "a file in place of the directory": ("spark.warmset.dir", {"spark.warmset.dir": "/etc/hostname"}),
    "a directory of the kernel": ("spark.warmset.dir", {"spark.warmset.dir": "/proc"}),
    "encryption": ("spark.io.encryption.enabled", {"spark.io.encryption.enabled": "true"}),
}
MALFORMED_CASES = [(key, value) for key, values in MALFORMED.items() for value in values]

pytestmark = pytest.mark.usefixtures("only_with_plugin")
needs_mounts = pytest.mark.skipif(
    not sandbox.can_mount(), reason="needs a mount namespace of its own (unshare -m, as root)"
)
needs_images = pytest.mark.skipif(
    not sandbox.can_mount_images(), reason="needs loop devices and mkfs.ext4 (package e2fsprogs), as root"
)


def assert_stock_and_right(seen: dict[str, Any]) -> None:
    """Caching worked as it does without the plugin."""
    assert seen["right"] == [True, True]
    assert seen["stats"] is None, "a store is open although the plugin said that it is not used"


def warmset_warnings(lines: list[str]) -> list[str]:
    """Warnings in a driver's log that speak of Warmset."""
    return [line for line in lines if " WARN " in line and "armset" in line]


@pytest.fixture(scope="module")
def outcomes(launch: Launch) -> dict[str, dict[str, Any]]:
    """What Spark did with each bad setting; all are tried in one JVM, one after the other."""
    workdir = launch.new_directory()
    confs = {f"{key}={value}": {key: value} for key, value in MALFORMED_CASES}
    for name, (_, conf) in PROBLEMS.items():
        confs[name] = conf
        confs[f"{name}, required"] = conf | REQUIRED
    confs["good again"] = {}
    complete = [launch.conf(workdir, conf, plugin=True) for conf in confs.values()]
    with launch(VERSION, workdir=workdir, start_spark=False) as child:
        answers = child.call("trouble.attempts", confs=complete, seconds_max=240)
    return dict(zip(confs, answers, strict=True))


@pytest.mark.parametrize(("key", "value"), MALFORMED_CASES)
def test_malformed_setting_stops_the_start_and_is_named(
    outcomes: dict[str, dict[str, Any]], key: str, value: str
) -> None:
    seen = outcomes[f"{key}={value}"]
    assert "refused" in seen, f"Spark started with {key}={value!r}: {seen}"
    assert key in seen["refused"] and MALFORMED_WHY.get((key, value), "") in seen["refused"]


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem_falls_back_with_one_warning(outcomes: dict[str, dict[str, Any]], name: str) -> None:
    seen = outcomes[name]
    assert "refused" not in seen, seen
    assert_stock_and_right(seen)
    assert len(seen["warnings"]) == 1, seen["warnings"]
    assert PROBLEMS[name][0] in seen["warnings"][0]


@pytest.mark.parametrize("name", PROBLEMS)
def test_problem_stops_the_start_when_required(outcomes: dict[str, dict[str, Any]], name: str) -> None:
    refused = outcomes[f"{name}, required"].get("refused", "it started")
    assert PROBLEMS[name][0] in refused
    assert "spark.warmset.required" in refused


def test_a_good_start_after_all_the_bad_ones(outcomes: dict[str, dict[str, Any]]) -> None:
    seen = outcomes["good again"]
    assert seen["right"] == [True, True]
    assert seen["stats"]["regions"] > 0
    assert seen["left"] == 0


@pytest.fixture(scope="module")
def disks(launch: Launch) -> Iterator[tuple[SparkChild, Path]]:
    """A driver without a session that sees odd file systems, and the directory in which they are mounted."""
    workdir = launch.new_directory()
    kinds = {"read only": ("1m", "ro"), "tmpfs": ("12m", "rw")}
    for name in (*kinds, "ext4 image", "ramfs"):
        (workdir / name).mkdir()
    commands = [sandbox.tmpfs(workdir / name, *options) for name, options in kinds.items()]
    commands.append(f"mount -t ramfs ramfs {workdir / 'ramfs'}")
    if sandbox.can_mount_images():
        commands.append(sandbox.loop_image(workdir / "disk.img", workdir / "ext4 image", 12))
    with launch(VERSION, workdir=workdir, prefix=sandbox.mounts(*commands), start_spark=False) as child:
        yield child, workdir


def use_disk(launch: Launch, disks: tuple[SparkChild, Path], kind: str, conf: dict[str, str]) -> Path:
    """Starts a session that is told to keep its regions there."""
    child, folder = disks
    child.start_again(launch.conf(folder, {"spark.warmset.dir": str(folder / kind)} | conf, plugin=True))
    return folder / kind


@needs_mounts
def test_read_only_directory(launch: Launch, disks: tuple[SparkChild, Path]) -> None:
    use_disk(launch, disks, "read only", {})
    child, _ = disks
    assert_stock_and_right(child.call("storage.round_trip", level="MEMORY_AND_DISK"))
    warnings = warmset_warnings(child.log_lines())
    assert len(warnings) == 1
    assert "spark.warmset.dir" in warnings[0]


@needs_mounts
@pytest.mark.parametrize("kind", ["tmpfs", pytest.param("ext4 image", marks=needs_images)])
def test_full_disk_loses_nothing(launch: Launch, disks: tuple[SparkChild, Path], kind: str) -> None:
    """32 MB of data with 16 MB of memory and 12 MB of disk: the rest stays under Spark's rules."""
    folder = use_disk(launch, disks, kind, {"spark.warmset.memory": "16m"})
    child, _ = disks
    full = child.call("storage.larger_than_memory", rows=3_000_000)
    after = child.call("storage.round_trip", level="MEMORY_AND_DISK")
    log = "\n".join(child.log_lines())
    for seen in (full, after):
        assert all(seen["right"])
        assert seen["left"] == 0
    assert full["groups"] == 9
    assert full["stats"]["regions"] > 0
    assert after["stats"]["regions"] > 0, "space was freed, so regions can be used again"
    assert "spark.warmset.dir" in log or str(folder) in log, "the log does not say which disk is full"


@needs_mounts
def test_what_the_store_warns_of_is_in_the_log(launch: Launch, disks: tuple[SparkChild, Path]) -> None:
    """A file system without O_DIRECT: the store works, and says so in one line."""
    folder = use_disk(launch, disks, "ramfs", {})
    child, _ = disks
    seen = child.call("storage.round_trip", level="MEMORY_AND_DISK")
    log = child.log_lines()
    warnings = warmset_warnings(log)
    assert seen["stats"]["regions"] > 0
    assert len(warnings) == 1
    assert "no direct I/O" in warnings[0]
    assert str(folder) in warnings[0]
    assert not [line for line in log if line.startswith("warmset: ")], "written to stderr, past the logger"


@pytest.fixture
def outside_tmp(launch: Launch) -> Iterator[Path]:
    """A working directory that is not below /tmp."""
    workdir = Path(tempfile.mkdtemp(prefix="warmset-test-", dir="/var/tmp"))
    yield workdir
    shutil.rmtree(workdir)


outside_of_tmp = pytest.mark.skipif(
    Path(__file__).resolve().is_relative_to("/tmp"),
    reason="this tree lies in /tmp: nothing of it could be started there",
)


@needs_mounts
@pytest.mark.parametrize("options", ["ro", pytest.param("noexec", marks=outside_of_tmp)])
def test_tmp_that_cannot_be_used(launch: Launch, outside_tmp: Path, options: str) -> None:
    (outside_tmp / "tmp").mkdir()
    prefix = sandbox.mounts(sandbox.remount("/tmp", options))
    environment = {"TMPDIR": str(outside_tmp / "tmp"), "JAVA_TOOL_OPTIONS": f"-Djava.io.tmpdir={outside_tmp}/tmp"}
    environment = {"JDK_JAVA_OPTIONS": "", **(environment if options == "ro" else {})}
    with launch(VERSION, workdir=outside_tmp, prefix=prefix, environment=environment) as child:
        seen = child.call("storage.round_trip", level="MEMORY_AND_DISK")
    assert seen["right"] == [True, True]
    assert seen["stats"]["regions"] > 0
    assert seen["left"] == 0


@needs_mounts
def test_directory_that_does_not_allow_execution(launch: Launch) -> None:
    """A data disk that no library can be loaded from: Spark's local directory serves for that."""
    workdir = launch.new_directory()
    (workdir / "regions").mkdir()
    prefix = sandbox.mounts(sandbox.tmpfs(workdir / "regions", "64m", "noexec"))
    with launch(VERSION, workdir=workdir, prefix=prefix) as child:
        seen = child.call("storage.round_trip", level="MEMORY_AND_DISK")
        warnings = warmset_warnings(child.log_lines())
    assert seen["right"] == [True, True]
    assert seen["stats"]["regions"] > 0
    assert seen["left"] == 0
    assert not warnings


@needs_mounts
def test_huge_pages_that_the_kernel_does_not_give(launch: Launch) -> None:
    enabled = "/sys/kernel/mm/transparent_hugepage/enabled"
    workdir = launch.new_directory()
    prefix = sandbox.mounts(sandbox.show_text(enabled, "always madvise [never]", workdir / "enabled"))
    with launch(VERSION, {"spark.warmset.hugePages": "on"}, workdir=workdir, prefix=prefix) as child:
        assert_stock_and_right(child.call("storage.round_trip", level="MEMORY_AND_DISK"))
        warnings = warmset_warnings(child.log_lines())
    assert len(warnings) == 1
    assert f"spark.warmset.hugePages: this kernel gives no transparent huge pages ({enabled}" in warnings[0]


@pytest.fixture(scope="module")
def no_io_uring(launch: Launch) -> Iterator[tuple[SparkChild, Path]]:
    """A driver without a session to which the kernel refuses io_uring, and its directory."""
    workdir = launch.new_directory()
    with launch(VERSION, workdir=workdir, prefix=sandbox.without_io_uring(), start_spark=False) as child:
        yield child, workdir


def test_io_uring_that_is_demanded_and_refused(launch: Launch, no_io_uring: tuple[SparkChild, Path]) -> None:
    child, workdir = no_io_uring
    child.start_again(launch.conf(workdir, {"spark.warmset.io": "io_uring"}, plugin=True))
    assert_stock_and_right(child.call("storage.round_trip", level="MEMORY_AND_DISK"))
    warnings = warmset_warnings(child.log_lines())
    assert len(warnings) == 1
    assert "spark.warmset.io: cannot start: " in warnings[0]


def assert_threads_and_small_pages(child: SparkChild) -> None:
    """More than the memory is cached rightly, by threads that read into base pages."""
    seen = child.call("storage.larger_than_memory", rows=1_500_000)
    assert all(seen["right"])
    assert seen["stats"]["huge_bytes"] == 0
    assert seen["stats"]["io_backend"] == "threads"
    assert seen["stats"]["read_bytes_total"] > 0
    assert seen["left"] == 0


def test_io_uring_is_refused_and_huge_pages_are_off(launch: Launch, no_io_uring: tuple[SparkChild, Path]) -> None:
    child, workdir = no_io_uring
    conf = {"spark.warmset.memory": "16m", "spark.warmset.hugePages": "off", "spark.warmset.io": "auto"}
    child.start_again(launch.conf(workdir, conf, plugin=True))
    assert_threads_and_small_pages(child)


def test_huge_pages_are_refused_and_io_uring_is_off(launch: Launch) -> None:
    conf = {"spark.warmset.memory": "16m", "spark.warmset.hugePages": "auto", "spark.warmset.io": "threads"}
    with launch(VERSION, conf, prefix=sandbox.without_huge_pages()) as child:
        assert_threads_and_small_pages(child)


def test_flash_limit_loses_nothing(launch: Launch) -> None:
    conf = {"spark.warmset.memory": "16m", "spark.warmset.flashMax": "8m"}
    with launch.warm(VERSION, conf) as child:
        seen = child.call("storage.larger_than_memory", rows=3_000_000)
    assert all(seen["right"])
    assert seen["stats"]["flash_bytes"] <= 8 << 20
    assert seen["left"] == 0
