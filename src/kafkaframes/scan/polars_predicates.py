"""Convert a Polars expression to conditions of a scan, for predicate pushdown.

Comparisons of offset, timestamp, partition and topic become conditions. Each supported part of a conjunction is pushed
down; unsupported parts are ignored. Polars applies the whole predicate again, so an ignored part costs time but does
not change the result. Polars evaluates constant expressions.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kafkaframes.scan.where import NO_CONDITIONS, Interval, RowFilter, to_milliseconds

if TYPE_CHECKING:
    import polars as pl

_Node = Mapping[str, Any]
_MIRRORED_OPERATORS: Final = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}
_OPERATORS_BY_CLOSED_SIDES: Final = {
    "Both": ("GtEq", "LtEq"),
    "Left": ("GtEq", "Lt"),
    "Right": ("Gt", "LtEq"),
    "None": ("Gt", "Lt"),
}
_MICROSECOND: Final = timedelta(microseconds=1)


def extract_row_filter(expression: pl.Expr, polars: Any) -> RowFilter:
    """Return conditions that hold for every row for which a Polars expression is true."""
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except Exception:  # a Python function cannot be serialized as JSON: only Polars applies it
        return NO_CONDITIONS
    row_filter = NO_CONDITIONS
    for part in _split_conjuncts(tree):
        row_filter &= _parse_condition(part, lambda node: _evaluate_constant(node, polars))
    return row_filter


def _split_conjuncts(node: _Node) -> Iterator[_Node]:
    """Yield the expressions that are combined with "and"."""
    binary = node.get("BinaryExpr")
    if isinstance(binary, dict) and binary.get("op") in ("And", "LogicalAnd"):
        yield from _split_conjuncts(binary["left"])
        yield from _split_conjuncts(binary["right"])
    else:
        yield node


def _parse_condition(node: _Node, constant: Callable[[_Node], Any]) -> RowFilter:
    """Return the conditions of a comparison or function; no conditions if it is not supported."""
    binary, function = node.get("BinaryExpr"), node.get("Function")
    if isinstance(binary, dict) and binary.get("op") in _MIRRORED_OPERATORS:
        first, right, comparison = binary["left"], binary["right"], binary["op"]
        if _find_column(first) is None:
            first, right, comparison = right, first, _MIRRORED_OPERATORS[comparison]
        return _convert_comparison(_find_column(first), comparison, constant(right))
    if isinstance(function, dict):
        return _convert_function(function, constant)
    return NO_CONDITIONS


def _find_column(node: _Node) -> str | None:
    """Return the column of a column expression, also inside a cast to Int64, which Polars before version 2 adds."""
    cast = node.get("Cast")
    if isinstance(cast, dict) and cast.get("dtype") == {"Literal": "Int64"}:
        node = cast.get("expr", {})
    name = node.get("Column")
    return name if isinstance(name, str) else None


def _convert_function(function: _Node, constant: Callable[[_Node], Any]) -> RowFilter:
    """Return the conditions of ``is_in`` or ``is_between``; no conditions for other functions."""
    call = function.get("function", {})
    name = call.get("Boolean") if isinstance(call, dict) else None
    column, *values = function.get("input", [{}])
    compared_column = _find_column(column)
    if not isinstance(name, dict) or compared_column is None:
        return NO_CONDITIONS
    if "IsIn" in name and len(values) == 1:
        return _convert_membership(compared_column, constant(values[0]))
    if "IsBetween" in name and len(values) == 2:
        minimum, maximum = _OPERATORS_BY_CLOSED_SIDES.get(name["IsBetween"].get("closed"), ("", ""))
        comparisons = (
            _convert_comparison(compared_column, *part)
            for part in zip((minimum, maximum), map(constant, values), strict=True)
        )
        return next(comparisons) & next(comparisons)
    return NO_CONDITIONS


def _convert_comparison(column: object, comparison: str, value: object) -> RowFilter:
    """Return the conditions that a comparison between a column and a value specifies."""
    if comparison == "Eq" and column in ("topic", "partition"):
        return _convert_membership(column, [value])
    if column == "offset" and isinstance(value, int) and not isinstance(value, bool):
        return RowFilter(offsets=_to_interval(comparison, value, value + 1))
    if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        return RowFilter(
            timestamps_ms=_to_interval(comparison, to_milliseconds(value), to_milliseconds(value + _MICROSECOND))
        )
    return NO_CONDITIONS


def _to_interval(comparison: str, minimum: int, following_number: int) -> Interval:
    """Return the interval of the numbers that satisfy a comparison with a value.

    ``minimum`` is the first number at or above the value, and ``following_number`` the first one above it.
    """
    return {
        "Eq": (minimum, following_number),
        "GtEq": (minimum, None),
        "Gt": (following_number, None),
        "Lt": (None, minimum),
        "LtEq": (None, following_number),
    }.get(comparison, (None, None))


def _convert_membership(column: object, values: object) -> RowFilter:
    """Return the condition that a column has one of these values."""
    if not isinstance(values, list):
        return NO_CONDITIONS
    if column == "topic" and all(isinstance(value, str) for value in values):
        return RowFilter(topics=frozenset(values))
    if column == "partition" and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return RowFilter(partitions=frozenset(values))
    return NO_CONDITIONS


def _evaluate_constant(node: _Node, polars: Any) -> Any:
    """Return the value of an expression without columns; None for other expressions."""
    text = json.dumps(node)
    if '"Column"' in text:
        return None
    try:
        value = polars.select(polars.Expr.deserialize(io.StringIO(text), format="json")).item()
    except Exception:
        return None
    return value.to_list() if isinstance(value, polars.Series) else value
