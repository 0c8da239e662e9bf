"""Conversion of scans to data frames of other libraries: pandas, Polars, DuckDB, Dask and Ray.

Each library is an optional extra that is imported when its function is called. If it is not installed, the function
raises a MissingExtraError.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkaframes.errors import OptionError, import_extra
from kafkaframes.scan.arrow import FAR_TIMESTAMPS_COLUMN
from kafkaframes.scan.slices import Rows, ScanPlan, read_plan, warn_at_end
from kafkaframes.scan.where import NO_CONDITIONS, Interval, Where, milliseconds

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb
    import pandas as pd
    import polars as pl
    import ray.data

# ---------------------------------------------------------------------------------------------------------------------
# Predicate pushdown from Polars: comparisons of offset, timestamp, partition and topic become conditions of the scan.
#
# Each supported part of a conjunction is pushed down; unsupported parts are ignored. Polars applies the whole predicate
# again, so an ignored part costs time but does not change the result. Polars evaluates constant expressions.

_Node = Mapping[str, Any]
_MIRRORED_OPERATORS: Final = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}
_BETWEEN_OPERATORS: Final = {
    "Both": ("GtEq", "LtEq"),
    "Left": ("GtEq", "Lt"),
    "Right": ("Gt", "LtEq"),
    "None": ("Gt", "Lt"),
}
_MICROSECOND: Final = timedelta(microseconds=1)


def where_of_expression(expression: pl.Expr, polars: Any) -> Where:
    """Return conditions that hold for every row for which the expression is true."""
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except Exception:  # not serializable as JSON (a Python function): only Polars applies it
        return NO_CONDITIONS
    where = NO_CONDITIONS
    for part in _conjuncts(tree):
        where &= _condition(part, lambda node: _constant(node, polars))
    return where


def _conjuncts(node: _Node) -> Iterator[_Node]:
    binary = node.get("BinaryExpr")
    if isinstance(binary, dict) and binary.get("op") in ("And", "LogicalAnd"):
        yield from _conjuncts(binary["left"])
        yield from _conjuncts(binary["right"])
    else:
        yield node


def _condition(node: _Node, constant: Callable[[_Node], Any]) -> Where:
    binary, function = node.get("BinaryExpr"), node.get("Function")
    if isinstance(binary, dict) and binary.get("op") in _MIRRORED_OPERATORS:
        first, right, comparison = binary["left"], binary["right"], binary["op"]
        if _column(first) is None:
            first, right, comparison = right, first, _MIRRORED_OPERATORS[comparison]
        return _where_of_comparison(_column(first), comparison, constant(right))
    if isinstance(function, dict):
        return _where_of_function(function, constant)
    return NO_CONDITIONS


def _column(node: _Node) -> str | None:
    """Return the column of a column expression, also inside a cast to Int64, which Polars before version 2 adds."""
    cast = node.get("Cast")
    if isinstance(cast, dict) and cast.get("dtype") == {"Literal": "Int64"}:
        node = cast.get("expr", {})
    name = node.get("Column")
    return name if isinstance(name, str) else None


def _where_of_function(function: _Node, constant: Callable[[_Node], Any]) -> Where:
    call = function.get("function", {})
    name = call.get("Boolean") if isinstance(call, dict) else None
    column, *values = function.get("input", [{}])
    compared_column = _column(column)
    if not isinstance(name, dict) or compared_column is None:
        return NO_CONDITIONS
    if "IsIn" in name and len(values) == 1:
        return _where_of_values(compared_column, constant(values[0]))
    if "IsBetween" in name and len(values) == 2:
        least, most = _BETWEEN_OPERATORS.get(name["IsBetween"].get("closed"), ("", ""))
        comparisons = (
            _where_of_comparison(compared_column, *part)
            for part in zip((least, most), map(constant, values), strict=True)
        )
        return next(comparisons) & next(comparisons)
    return NO_CONDITIONS


def _where_of_comparison(column: object, comparison: str, value: object) -> Where:
    if comparison == "Eq" and column in ("topic", "partition"):
        return _where_of_values(column, [value])
    if column == "offset" and isinstance(value, int) and not isinstance(value, bool):
        return Where(offsets=_interval(comparison, value, value + 1))
    if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        return Where(timestamps_ms=_interval(comparison, milliseconds(value), milliseconds(value + _MICROSECOND)))
    return NO_CONDITIONS


def _interval(comparison: str, least: int, after: int) -> Interval:
    """Return the numbers that satisfy a comparison with a value, from the first number at and the first above it."""
    return {
        "Eq": (least, after),
        "GtEq": (least, None),
        "Gt": (after, None),
        "Lt": (None, least),
        "LtEq": (None, after),
    }.get(comparison, (None, None))


def _where_of_values(column: object, values: object) -> Where:
    if not isinstance(values, list):
        return NO_CONDITIONS
    if column == "topic" and all(isinstance(value, str) for value in values):
        return Where(topics=frozenset(values))
    if column == "partition" and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return Where(partitions=frozenset(values))
    return NO_CONDITIONS


def _constant(node: _Node, polars: Any) -> Any:
    """Return the value of an expression without columns; None for other expressions."""
    text = json.dumps(node)
    if '"Column"' in text:
        return None
    try:
        value = polars.select(polars.Expr.deserialize(io.StringIO(text), format="json")).item()
    except Exception:
        return None
    return value.to_list() if isinstance(value, polars.Series) else value


# ---------------------------------------------------------------------------------------------------------------------

_ROWS_PER_FRAME: Final = 100_000  # rows of a frame for Polars; with fewer, the calls cost more than the read


def to_pandas(table: pa.Table, **options: Any) -> pd.DataFrame:
    """Return a table as a pandas DataFrame."""
    import_extra("`to_pandas`", "pandas", "pandas")
    return table.to_pandas(**options)


def to_polars(table: pa.Table) -> pl.DataFrame:
    """Return a table as a Polars DataFrame."""
    return import_extra("`to_polars`", "polars", "polars").from_arrow(table)


def lazy(scan: Rows) -> pl.LazyFrame:
    """Return a Polars LazyFrame that reads the scan."""
    polars = import_extra("`lazy`", "polars", "polars")
    plugins = import_module("polars.io.plugins")

    def frames(
        columns: list[str] | None, predicate: pl.Expr | None, rows: int | None, batch_rows: int | None
    ) -> Iterator[pl.DataFrame]:
        names = scan.schema.names if columns is None else columns
        columns_to_read = names if predicate is None else [*names, *predicate.meta.root_names()]
        reading = scan.select(*dict.fromkeys(columns_to_read or scan.schema.names[:1]))
        if predicate is not None and scan.most is None:  # a limit applies before the predicate
            with suppress(OptionError):  # a captures table with other columns of these names
                reading = reading.with_conditions(where_of_expression(predicate, polars))
        if predicate is None and rows is not None:
            reading = reading.limit(rows)
        batches = reading.to_batches()
        for table in _group_batches(warn_at_end(batches), batches.schema, batch_rows or _ROWS_PER_FRAME):
            frame = polars.from_arrow(table)
            frame = frame if predicate is None else frame.filter(predicate)
            yield (frame if rows is None else frame.head(rows)).select(names)
            rows = None if rows is None else rows - frame.height
            if rows is not None and rows <= 0:
                return

    schema = polars.from_arrow(scan.schema.empty_table()).schema
    return plugins.register_io_source(frames, schema=schema)


def _group_batches(batches: Iterable[pa.RecordBatch], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Yield the batches as tables of about ``rows`` rows. Without rows, yield one empty table."""
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
    """Return a Dask DataFrame that reads the slices of a plan."""
    dask = import_extra("`to_dask`", "dask", "dask.dataframe")
    return dask.from_map(_arrow_typed, plan.apart(), meta=_to_pandas(plan.schema.empty_table()))


def _arrow_typed(plan: ScanPlan) -> pd.DataFrame:
    return _to_pandas(read_plan(plan))


def _to_pandas(table: pa.Table) -> pd.DataFrame:
    return table.to_pandas(types_mapper=import_module("pandas").ArrowDtype)


def to_ray(plan: ScanPlan) -> ray.data.Dataset:
    """Return a Ray dataset that reads the slices of a plan."""
    data = import_extra("`to_ray`", "ray", "ray.data")
    plans = plan.apart()
    return data.from_items(plans, override_num_blocks=len(plans)).map_batches(_read_items, batch_size=1)


def _read_items(items: dict[str, Any]) -> pa.Table:
    return read_plan(items["item"][0])


def to_duckdb(scan: Rows, connection: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyConnection:
    """Register a scan as a view of a DuckDB connection."""
    import_extra("`to_duckdb`", "duckdb", "duckdb")
    from kafkaframes.scan.dataset import ScanDataset  # as expensive as all other imports of a scan together

    return connection.register(name, ScanDataset(scan, has_far_times=_has_far_times(scan)))


def _has_far_times(scan: Rows) -> bool:
    """Return whether the source reports timestamps out of the range of microseconds."""
    if "timestamp" not in scan.schema.names or FAR_TIMESTAMPS_COLUMN in scan.schema.names:
        return False
    return scan.source.has_far_times([part.work for part in scan.plan().slices])
