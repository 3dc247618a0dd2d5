"""Five lines run cached Spark from the wheel, without a compiler on the PATH."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import warmset

BACKEND = Path(__file__).resolve().parents[2] / "python" / "build_backend"
FIVE_LINES = """
import sys, warmset.spark
spark = warmset.spark.builder(memory="64MiB", dir=sys.argv[1]).master("local[2]").getOrCreate()
data = spark.range(200_000).selectExpr("id", "id % 7 as k").cache()
print(data.groupBy("k").count().count(), data.count(), flush=True)
"""
AFTER = """
conf = spark.sparkContext.getConf()
spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
storage = spark.sparkContext._jsc.sc().getRDDStorageInfo()
print(conf.get("spark.plugins"), storage[0].numCachedPartitions() > 0)
loader = spark._jvm.java.lang.Thread.currentThread().getContextClassLoader()
print(loader.loadClass("io.warmset.spark.WarmsetPlugin").getName(), conf.get("spark.sql.cache.serializer"))
try:
    warmset.spark.builder(memory="128MiB", dir=sys.argv[1])
except RuntimeError as error:
    print(error)
spark.stop()
"""


def environment(tmp_path: Path) -> dict[str, str]:
    """A PATH with Java and what Spark's scripts need, and nothing that compiles."""
    tools = tmp_path / "bin"
    tools.mkdir()
    java = shutil.which("java")
    if java is None:
        pytest.skip("Spark needs Java")
    for name in ("java", "bash", "sh", "env", "dirname", "basename", "readlink", "ps", "uname", "cat", "nice", "rm"):
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(os.path.realpath(found) if name == "java" else found)
    home = Path(os.path.realpath(java)).parents[1]
    return {"PATH": str(tools), "HOME": str(tmp_path), "JAVA_HOME": str(home), "SPARK_LOCAL_IP": "127.0.0.1"}


def test_five_lines_run_cached_spark(tmp_path: Path):
    pytest.importorskip("pyspark")
    env = environment(tmp_path)
    for compiler in ("cc", "gcc", "rustc", "cargo", "javac", "mvn"):
        assert shutil.which(compiler, path=env["PATH"]) is None
    done = subprocess.run(
        [sys.executable, "-c", FIVE_LINES + AFTER, str(tmp_path)], env=env, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-4000:]
    said = done.stdout.splitlines()
    assert said[0] == "7 200000"
    assert said[1] == "io.warmset.spark.WarmsetPlugin True"
    loaded, serializer = said[2].split()
    assert loaded == "io.warmset.spark.WarmsetPlugin" and "warmset" in serializer
    assert "a Spark session is running already, where spark.warmset.memory is 67108864" in said[3]


def test_what_is_missing_or_wrong_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(FileNotFoundError, match="create it on a local disk"):
        warmset.spark.builder(memory="64MiB", dir=tmp_path / "none")
    with pytest.raises(ValueError, match="is not a size"):
        warmset.spark.builder(memory="lots")
    pyspark = pytest.importorskip("pyspark")
    monkeypatch.setattr(pyspark, "__version__", "3.5.1")
    with pytest.raises(ImportError, match=r"knows Spark 4\.1, 4\.2, 4\.3, and pyspark is 3\.5\.1"):
        warmset.spark.builder()
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(ImportError, match="pip install"):
        warmset.spark.builder()


def test_a_package_that_is_built_without_a_jdk_has_no_plugin_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    pytest.importorskip("maturin")
    monkeypatch.syspath_prepend(str(BACKEND))
    build = importlib.import_module("warmset_build")
    jars = tmp_path / "jars"
    jars.mkdir()
    (jars / "warmset-spark_2.13-0.0.1.jar").write_text("of an earlier build")
    monkeypatch.setattr(build, "JARS", jars)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("WARMSET_JAR", raising=False)
    build._plugin()
    assert not jars.exists() and "without the Spark plugin" in capsys.readouterr().err
    monkeypatch.setattr(warmset.spark.resources, "files", lambda _: tmp_path)
    with pytest.raises(FileNotFoundError, match="built where there was no JDK and Maven"):
        warmset.spark.jar()


def test_the_command_is_in_the_wheel_and_finds_its_library(tmp_path: Path):
    command = Path(sys.prefix) / "bin" / "warmset"
    done = subprocess.run([command, "--version"], capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.startswith("warmset ")
    assert (Path(sys.prefix) / "lib" / "warmset" / "libwarmset_direct.so").is_file()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as memory:
        file = Path(memory) / "file"
        file.write_text("served")
        asked = [command, "direct", "run", "--dir", memory, "--stats", tmp_path / "stats", "--", "cat", file]
        done = subprocess.run(asked, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "served"), done.stderr
    assert (tmp_path / "stats").read_text()
