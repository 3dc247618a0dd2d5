"""Starting a driver as a user would: settings on top of a common base, the plugin by one line."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from e2e import paths
from e2e.child import SparkChild

BASE_CONF = {
    "spark.master": "local[2]",
    "spark.driver.memory": "1g",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.warehouse.dir": "warehouse",
}
# Small units, so that small data takes the ways of large data.
PLUGIN_CONF = {
    "spark.plugins": paths.PLUGIN_CLASS,
    "spark.warmset.memory": "256m",
    "spark.warmset.rowGroup": "1m",
    "spark.warmset.smallPartition": "0",
    # What is tested does not depend on how full the disk is.
    "spark.warmset.flashReserve": "1g",
}


@dataclass(frozen=True)
class Launch:
    """Starts drivers, each in a working directory of its own; the caller closes them."""

    new_directory: Callable[[], Path]
    stock: bool
    # JVMs without a session, by Spark's version; at most one.
    _idle: dict[str, SparkChild] = field(default_factory=dict)

    def conf(self, workdir: Path, conf: Mapping[str, str | None], plugin: bool) -> dict[str, str]:
        """The settings of a driver; without the plugin none of ours are among them. One of None is left out."""
        settings = dict(BASE_CONF)
        if plugin and not self.stock:
            settings |= PLUGIN_CONF | {"spark.warmset.dir": str(workdir / "regions")}
            settings["spark.jars"] = str(paths.plugin_jar())
        else:
            conf = {key: value for key, value in conf.items() if not key.startswith("spark.warmset.")}
        return {key: value for key, value in (settings | dict(conf)).items() if value is not None}

    def __call__(
        self,
        version: str,
        conf: Mapping[str, str | None] | None = None,
        *,
        plugin: bool = True,
        workdir: Path | None = None,
        start_spark: bool = True,
        **options: Any,
    ) -> SparkChild:
        workdir = workdir or self.new_directory()
        (workdir / "regions").mkdir(parents=True, exist_ok=True)
        settings = self.conf(workdir, conf or {}, plugin) if start_spark else {}
        return SparkChild(version, settings, workdir, **options)

    @contextlib.contextmanager
    def warm(self, version: str, conf: Mapping[str, str] | None = None, *, plugin: bool = True) -> Iterator[SparkChild]:
        """A session of its own, in a JVM that an earlier one has warmed up and left, if there is such a one.

        For tests of what a session does, not of how a process starts or ends; settings of the JVM are the base's.
        """
        workdir = self.new_directory()
        (workdir / "regions").mkdir()
        settings = self.conf(workdir, conf or {}, plugin)
        if not self.stock:
            # A later session may want it; by itself it does nothing.
            settings["spark.jars"] = str(paths.plugin_jar())
        child = self._idle.pop(version, None)
        self.close_idle()
        if child is None:
            child = SparkChild(version, settings, workdir)
        else:
            child.start_again(settings)
        try:
            yield child
            if child.is_alive:
                child.start_again({})
        except BaseException:
            child.close()
            raise
        if child.is_alive and not self._idle:
            self._idle[version] = child
        else:
            child.close()

    def close_idle(self) -> None:
        """Ends the JVM that waits for a session."""
        while self._idle:
            self._idle.popitem()[1].close()
