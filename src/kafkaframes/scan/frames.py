"""Scans as the frames of other libraries: pandas, Polars, DuckDB. Each is an extra, imported when it is called for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkaframes.errors import MissingExtraError, OptionError
from kafkaframes.scan.predicates import where_of_expression
from kafkaframes.scan.running import read_plan
from kafkaframes.scan.slices import Rows, ScanPlan

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb
    import pandas as pd
    import polars as pl
    import ray.data

_ROWS_AT_ONCE: Final = 100_000  # of a frame that Polars is handed: fewer cost more calls than reading


def _library(name: str, feature: str, *, extra: str | None = None) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise MissingExtraError(f"`{feature}`", extra or name) from error


def to_pandas(table: pa.Table, **options: Any) -> pd.DataFrame:
    """Return a table as a pandas DataFrame.

    Raises:
        MissingExtraError: pandas is absent.
    """
    _library("pandas", "to_pandas")
    return table.to_pandas(**options)


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return a table as a Polars DataFrame.

    Raises:
        MissingExtraError: Polars is absent.
    """
    return _library("polars", "to_polars").from_arrow(table)


def lazy(scan: Rows) -> pl.LazyFrame:
    """Return a Polars LazyFrame that reads the scan.

    Raises:
        MissingExtraError: Polars is absent.
    """
    polars = _library("polars", "lazy")
    plugins = import_module("polars.io.plugins")

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        names = scan.schema.names if columns is None else columns
        needed = names if predicate is None else [*names, *predicate.meta.root_names()]
        reading = scan.select(*dict.fromkeys(needed or scan.schema.names[:1]))
        if predicate is not None and scan.most is None:  # of a limited scan, the first rows are fixed before
            with suppress(OptionError):  # a table of captures, whose columns of these names mean something else
                reading = reading.narrowed(where_of_expression(predicate, polars))
        if predicate is None and rows is not None:
            reading = reading.limit(rows)
        batches = reading.to_batches()
        for table in _gathered(batches, batches.schema, batch_rows or _ROWS_AT_ONCE):
            frame = polars.from_arrow(table)
            frame = frame if predicate is None else frame.filter(predicate)
            yield (frame if rows is None else frame.head(rows)).select(names)
            rows = None if rows is None else rows - frame.height
            if rows is not None and rows <= 0:
                return

    schema = polars.from_arrow(scan.schema.empty_table()).schema
    return plugins.register_io_source(frames, schema=schema)


def _gathered(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Yield the batches as tables of about ``rows`` rows; at least one table."""
    waiting: list[pa.RecordBatch] = []
    is_first = True
    for batch in batches:
        waiting.append(batch)
        if sum(one.num_rows for one in waiting) >= rows:
            yield pa.Table.from_batches(waiting, schema)
            waiting, is_first = [], False
    if waiting or is_first:
        yield pa.Table.from_batches(waiting, schema)


def to_dask(plan: ScanPlan) -> dd.DataFrame:
    """Return a Dask DataFrame that reads the slices of a plan.

    Raises:
        MissingExtraError: Dask is absent.
    """
    dask = _library("dask.dataframe", "to_dask", extra="dask")
    return dask.from_map(_arrow_typed, plan.apart(), meta=_typed(plan.schema.empty_table()))


def _arrow_typed(plan: ScanPlan) -> pd.DataFrame:
    return _typed(read_plan(plan))


def _typed(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=import_module("pandas").ArrowDtype)


def to_ray(plan: ScanPlan) -> ray.data.Dataset:
    """Return a Ray dataset that reads the slices of a plan.

    Raises:
        MissingExtraError: Ray is absent.
    """
    data = _library("ray.data", "to_ray", extra="ray")
    plans = plan.apart()
    return data.from_items(plans, override_num_blocks=len(plans)).map_batches(_read_items, batch_size=1)


def _read_items(items: dict[str, Any]) -> pa.Table:
    return read_plan(items["item"][0])


def to_duckdb(scan: Rows, connection: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyConnection:
    """Register a scan as a view of a connection.

    Raises:
        MissingExtraError: DuckDB is absent.
    """
    _library("duckdb", "to_duckdb")
    from kafkaframes.scan.dataset import ScanDataset  # half of what an import of scans would take

    return connection.register(name, ScanDataset(scan))
