"""The child of an engine that is not Spark: DuckDB or Polars over the Parquet files, with the requests of `worker`.

It measures and reports; it decides nothing. A query that the engine can't run is answered with `failed` and the reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from harness.serving import plain, serve


class DuckDb:
    """Views over the files, in one connection."""

    def __init__(self, conf: dict[str, str]) -> None:
        import duckdb

        self.failures = (duckdb.NotImplementedException, duckdb.BinderException, duckdb.ParserException)
        self.version = duckdb.__version__
        self.connection = duckdb.connect(config=conf)

    def table(self, name: str, path: str) -> None:
        """A view over a directory's files."""
        self.connection.execute(f"create view {name} as select * from read_parquet('{path}/*.parquet')")

    def rows(self, text: str) -> list[tuple]:
        """The query's rows."""
        return self.connection.execute(text).fetchall()


class Polars:
    """Lazy frames over the files in its SQL context, collected by the streaming engine."""

    def __init__(self, conf: dict[str, str]) -> None:
        import polars

        self.failures = (
            polars.exceptions.SQLInterfaceError,
            polars.exceptions.SQLSyntaxError,
            polars.exceptions.InvalidOperationError,
            polars.exceptions.ColumnNotFoundError,
            polars.exceptions.SchemaError,
        )
        self.version = polars.__version__
        self.polars = polars
        self.context = polars.SQLContext()
        assert not conf, "Polars has no setting here: its threads come from the environment"

    def table(self, name: str, path: str) -> None:
        """A lazy frame over a directory's files."""
        self.context.register(name, self.polars.scan_parquet(str(Path(path) / "*.parquet")))

    def rows(self, text: str) -> list[tuple]:
        """The query's rows."""
        return self.context.execute(text, eager=False).collect(engine="streaming").rows()


KINDS: dict[str, Callable[[dict[str, str]], DuckDb | Polars]] = {"duckdb": DuckDb, "polars": Polars}


class Worker:
    """Holds the engine between requests."""

    def __init__(self) -> None:
        self.engine: DuckDb | Polars | None = None

    def on_start(self, conf: dict[str, str]) -> dict:
        """Opens the engine that `engine` names, with the other settings."""
        settings = dict(conf)
        self.engine = KINDS[settings.pop("engine")](settings)
        return {"version": self.engine.version}

    def on_table(self, name: str, path: str) -> dict:
        """Makes a Parquet directory known under that name."""
        self.engine.table(name, path)
        return {}

    def on_query(self, text: str) -> dict:
        """Runs a query; answers with its rows and its seconds, or with why the engine can't run it."""
        started = time.perf_counter()
        try:
            rows = self.engine.rows(text)
        except self.engine.failures as error:
            return {"failed": f"{type(error).__name__}: {error}"[:200]}
        seconds = time.perf_counter() - started
        return {"seconds": seconds, "rows": [list(map(plain, row)) for row in rows]}

    def on_stop(self) -> dict:
        """The process ends afterwards."""
        return {}


if __name__ == "__main__":
    serve(Worker())
