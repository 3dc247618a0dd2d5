"""Starting a driver as a user would: settings on top of a common base, the plugin by one line."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
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
}


@dataclass(frozen=True)
class Launch:
    """Starts drivers, each in a working directory of its own; the caller closes them."""

    new_directory: Callable[[], Path]
    stock: bool

    def conf(self, workdir: Path, conf: Mapping[str, str], plugin: bool) -> dict[str, str]:
        """The settings of a driver; without the plugin none of ours are among them."""
        settings = dict(BASE_CONF)
        if plugin and not self.stock:
            settings |= PLUGIN_CONF | {"spark.warmset.dir": str(workdir / "regions")}
            settings["spark.jars"] = str(paths.plugin_jar())
            return settings | dict(conf)
        return settings | {key: value for key, value in conf.items() if not key.startswith("spark.warmset.")}

    def __call__(
        self,
        version: str,
        conf: Mapping[str, str] | None = None,
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
