"""From a Polars expression to what a scan can narrow by: comparisons of offset, timestamp, partition and topic.

Only what is understood is taken, of a conjunction each part by itself; Polars filters by the whole expression again, so
what is not taken costs time, not rows. Values are constants that Polars itself works out.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from kafkaframes.scan.where import EVERYTHING, Interval, Where, milliseconds

if TYPE_CHECKING:
    import polars as pl

_Node = Mapping[str, Any]
_FLIPPED: Final = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq", "Eq": "Eq"}
_BETWEEN: Final = {"Both": ("GtEq", "LtEq"), "Left": ("GtEq", "Lt"), "Right": ("Gt", "LtEq"), "None": ("Gt", "Lt")}
_MICROSECOND: Final = timedelta(microseconds=1)


def where_of_expression(expression: pl.Expr, polars: Any) -> Where:
    """Return conditions that every row fulfils for which the expression is true.

    Args:
        expression: a predicate.
        polars: the library.
    """
    try:
        tree = json.loads(expression.meta.serialize(format="json"))
    except Exception:  # what cannot be written as JSON (a function of Python) is filtered by Polars alone
        return EVERYTHING
    where = EVERYTHING
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
    if isinstance(binary, dict) and binary.get("op") in _FLIPPED:
        left, right, comparison = binary["left"], binary["right"], binary["op"]
        if _column(left) is None:
            left, right, comparison = right, left, _FLIPPED[comparison]
        return _compared(_column(left), comparison, constant(right))
    if isinstance(function, dict):
        return _of_function(function, constant)
    return EVERYTHING


def _column(node: _Node) -> str | None:
    """Return the column that an expression is, as it is or as 64-bit integers, which Polars before 2 compares."""
    cast = node.get("Cast")
    if isinstance(cast, dict) and cast.get("dtype") == {"Literal": "Int64"}:
        node = cast.get("expr", {})
    name = node.get("Column")
    return name if isinstance(name, str) else None


def _of_function(function: _Node, constant: Callable[[_Node], Any]) -> Where:
    called = function.get("function", {})
    name = called.get("Boolean") if isinstance(called, dict) else None
    column, *values = function.get("input", [{}])
    compared_column = _column(column)
    if not isinstance(name, dict) or compared_column is None:
        return EVERYTHING
    if "IsIn" in name and len(values) == 1:
        return _among(compared_column, constant(values[0]))
    if "IsBetween" in name and len(values) == 2:
        least, most = _BETWEEN.get(name["IsBetween"].get("closed"), ("", ""))
        compared = (
            _compared(compared_column, *part) for part in zip((least, most), map(constant, values), strict=True)
        )
        return next(compared) & next(compared)
    return EVERYTHING


def _compared(column: object, comparison: str, value: object) -> Where:
    if comparison == "Eq" and column in ("topic", "partition"):
        return _among(column, [value])
    if column == "offset" and isinstance(value, int) and not isinstance(value, bool):
        return Where(offsets=_interval(comparison, value, value + 1))
    if column == "timestamp" and isinstance(value, datetime) and value.tzinfo is not None:
        return Where(timestamps_ms=_interval(comparison, milliseconds(value), milliseconds(value + _MICROSECOND)))
    return EVERYTHING


def _interval(comparison: str, least: int, after: int) -> Interval:
    """Return the numbers that compare so with a value: ``least`` is the first not below it, ``after`` that above."""
    return {
        "Eq": (least, after),
        "GtEq": (least, None),
        "Gt": (after, None),
        "Lt": (None, least),
        "LtEq": (None, after),
    }.get(comparison, (None, None))


def _among(column: object, values: object) -> Where:
    if not isinstance(values, list):
        return EVERYTHING
    if column == "topic" and all(isinstance(value, str) for value in values):
        return Where(topics=frozenset(values))
    if column == "partition" and all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return Where(partitions=frozenset(values))
    return EVERYTHING


def _constant(node: _Node, polars: Any) -> Any:
    """Return the value of an expression without columns; None for any other."""
    text = json.dumps(node)
    if '"Column"' in text:
        return None
    try:
        value = polars.select(polars.Expr.deserialize(io.StringIO(text), format="json")).item()
    except Exception:
        return None
    return value.to_list() if isinstance(value, polars.Series) else value
