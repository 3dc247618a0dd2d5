"""Cached Spark: a session builder with all of Warmset's keys set, and the plugin's jar."""

from __future__ import annotations

import os
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from warmset._sizes import parse_bytes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLUGIN = "io.warmset.spark.WarmsetPlugin"
SPARK_VERSIONS = ("4.1", "4.2", "4.3")
"""Versions of Spark that the plugin knows."""


def jar() -> Path:
    """The plugin's jar; FileNotFoundError if this package was built without it."""
    found = sorted(Path(str(resources.files("warmset"))).glob("jars/warmset-spark_*.jar"))
    if not found:
        raise FileNotFoundError(
            "this warmset package has no Spark plugin: it was built where there was no JDK and Maven; install a wheel "
            "that has it, or build it with both"
        )
    return found[-1]


def builder(
    memory: int | str | None = None,
    dir: str | os.PathLike[str] | None = None,
    **settings: object,
) -> SparkSession.Builder:
    """A `SparkSession.builder` that caches with Warmset; call ``getOrCreate()`` on it, or set more keys first.

    Parameters
    ----------
    memory
        Memory for cached data per executor, outside the Java heap: bytes or text such as ``"4GiB"``. Default: by the
        plugin's rule, from what the machine or container leaves.
    dir
        Where cached data goes that the memory does not hold: an existing directory of a local disk. Default: all of
        Spark's local directories.
    settings
        More of Warmset's keys without their prefix, dots as underscores: ``rdd_enabled=True`` sets
        ``spark.warmset.rdd.enabled``. An unknown key stops the application with a message.

    Raises ImportError if pyspark is missing or of a version that the plugin does not know, RuntimeError if a session is
    running already with other settings, ValueError for a size that is none, FileNotFoundError for a missing directory.
    """
    import_pyspark()
    from pyspark.sql import SparkSession

    wanted = {"spark.plugins": PLUGIN, "spark.jars": str(jar())}
    if memory is not None:
        wanted["spark.warmset.memory"] = str(parse_bytes(memory))
    if dir is not None:
        path = Path(dir).absolute()
        if not path.is_dir():
            raise FileNotFoundError(f"dir={os.fspath(dir)!r} is not a directory: create it on a local disk")
        wanted["spark.warmset.dir"] = str(path)
    for key, value in settings.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        wanted[f"spark.warmset.{key.replace('_', '.')}"] = text
    _refuse_other_session(wanted)
    made = SparkSession.builder
    for key, value in wanted.items():
        made = made.config(key, value)
    return made


def import_pyspark() -> None:
    """Raises ImportError with what to install, unless pyspark is there and known."""
    try:
        import pyspark
    except ImportError as error:
        raise ImportError("warmset.spark needs pyspark: pip install 'pyspark>=4.1,<4.4'") from error
    version = ".".join(pyspark.__version__.split(".")[:2])
    if version not in SPARK_VERSIONS:
        raise ImportError(
            f"warmset.spark knows Spark {', '.join(SPARK_VERSIONS)}, and pyspark is {pyspark.__version__}: "
            "pip install 'pyspark>=4.1,<4.4'"
        )


def _refuse_other_session(wanted: dict[str, str]) -> None:
    """Spark gives out the running session, whatever the builder says: its plugins are those it started with."""
    from pyspark.sql import SparkSession

    running = SparkSession.getActiveSession()
    if running is None:
        return
    conf = running.sparkContext.getConf()
    other = {key: conf.get(key) for key in wanted if key != "spark.jars" and conf.get(key) != wanted[key]}
    if other:
        told = ", ".join(f"{key} is {value or 'not set'}" for key, value in other.items())
        raise RuntimeError(f"a Spark session is running already, where {told}: stop it first (spark.stop())")
