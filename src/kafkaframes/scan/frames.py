"""Conversion of scans to data frames of other libraries: pandas, Polars, DuckDB, Dask and Ray.

Each library is an optional extra that is imported when its function is called. If a library is not installed, the
function raises a MissingExtraError.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkaframes.errors import OptionError, import_extra
from kafkaframes.scan.arrow import OUT_OF_RANGE_TIMESTAMPS_COLUMN
from kafkaframes.scan.polars_predicates import extract_row_filter
from kafkaframes.scan.slices import ReadableScan, ScanPlan, log_damage_at_end, read_plan

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb
    import pandas as pd
    import polars as pl
    import ray.data


_ROWS_PER_FRAME: Final = 100_000  # rows of a frame for Polars; with fewer, the calls cost more than the read


def to_pandas(table: pa.Table, **options: Any) -> pd.DataFrame:
    """Return a table as a pandas DataFrame."""
    import_extra("`to_pandas`", "pandas", "pandas")
    return table.to_pandas(**options)


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return a table as a Polars DataFrame."""
    return import_extra("`to_polars`", "polars", "polars").from_arrow(table)


def to_lazy_frame(scan: ReadableScan) -> pl.LazyFrame:
    """Return a Polars LazyFrame that reads the scan."""
    polars = import_extra("`to_lazy_frame`", "polars", "polars")
    plugins = import_module("polars.io.plugins")

    def read_frames(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        """Yield the rows as Polars data frames, with the columns, the predicate and the row limit of a Polars query."""
        names = scan.schema.names if columns is None else columns
        columns_to_read = names if predicate is None else [*names, *predicate.meta.root_names()]
        reading = scan.select(*dict.fromkeys(columns_to_read or scan.schema.names[:1]))
        if predicate is not None and scan.row_limit is None:  # a limit applies before the predicate
            with suppress(OptionError):  # a captures table has other columns with these names
                reading = reading.with_conditions(extract_row_filter(predicate, polars))
        if predicate is None and rows is not None:
            reading = reading.limit(rows)
        batches = reading.to_batches()
        for table in _group_batches(log_damage_at_end(batches), batches.schema, batch_rows or _ROWS_PER_FRAME):
            frame = polars.from_arrow(table)
            frame = frame if predicate is None else frame.filter(predicate)
            yield (frame if rows is None else frame.head(rows)).select(names)
            rows = None if rows is None else rows - frame.height
            if rows is not None and rows <= 0:
                return

    schema = polars.from_arrow(scan.schema.empty_table()).schema
    return plugins.register_io_source(read_frames, schema=schema)


def _group_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Yield the batches as tables of about ``rows`` rows. Without rows, yield one empty table."""
    waiting: list[pa.RecordBatch] = []
    is_first = True
    for batch in batches:
        waiting.append(batch)
        if sum(batch_rows.num_rows for batch_rows in waiting) >= rows:
            yield pa.Table.from_batches(waiting, schema)
            waiting, is_first = [], False
    if waiting or is_first:
        yield pa.Table.from_batches(waiting, schema)


def to_dask(plan: ScanPlan) -> dd.DataFrame:
    """Return a Dask DataFrame that reads the slices of a plan."""
    dask = import_extra("`to_dask`", "dask", "dask.dataframe")
    return dask.from_map(_arrow_typed, plan.split_by_slice(), meta=_to_pandas(plan.schema.empty_table()))


def _arrow_typed(plan: ScanPlan) -> pd.DataFrame:
    return _to_pandas(read_plan(plan))


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=import_module("pandas").ArrowDtype)


def to_ray(plan: ScanPlan) -> ray.data.Dataset:
    """Return a Ray dataset that reads the slices of a plan."""
    data = import_extra("`to_ray`", "ray", "ray.data")
    plans = plan.split_by_slice()
    return data.from_items(plans, override_num_blocks=len(plans)).map_batches(_read_items, batch_size=1)


def _read_items(items: dict[str, Any]) -> pa.Table:
    return read_plan(items["item"][0])


def to_duckdb(scan: ReadableScan, connection: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyConnection:
    """Register a scan as a view of a DuckDB connection."""
    import_extra("`to_duckdb`", "duckdb", "duckdb")
    # This import costs as much as all other imports of a scan together.
    from kafkaframes.scan.dataset import ScanDataset

    return connection.register(name, ScanDataset(scan, has_out_of_range_timestamps=_has_out_of_range_timestamps(scan)))


def _has_out_of_range_timestamps(scan: ReadableScan) -> bool:
    """Return whether the source reports timestamps that do not fit into microseconds."""
    if "timestamp" not in scan.schema.names or OUT_OF_RANGE_TIMESTAMPS_COLUMN in scan.schema.names:
        return False
    return scan.source.has_out_of_range_timestamps([part.work for part in scan.plan().slices])
