"""Fill the fields that a proposal adds: turn ``Message.path=value`` into a column for the structs with the field.

* a constant: ``7``, ``true``, ``null``, ``[1, 2]``, ``"text"`` (JSON), or any text that is not JSON
* a range: ``1..100`` gives its numbers in turn. For strings, bytes and arrays, these numbers are lengths.
* a function: ``@FILE.py:NAME`` is called with each struct as a dict and returns the value
"""

from __future__ import annotations

import json
import re
import runpy
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.errors import OptionError, format_path_error
from kafkaframes.jobs.analyze.proposals import MessageForm
from kafkaframes.jobs.analyze.sizes import (
    MakeColumn,
)
from kafkaframes.protocol.messages._program import PRIMITIVES
from kafkaframes.protocol.messages.plan import FieldPlan
from kafkaframes.protocol.spec.layout import list_slots, walk_slots
from kafkaframes.protocol.spec.model import MessageSpec, snake_case

_NUMBER_RANGE_PATTERN: Final = re.compile(r"(-?\d+)\.\.(-?\d+)")
_FUNCTION_REFERENCE_PATTERN: Final = re.compile(r"@(.+\.py):(\w+)")
# A prime: multiples of it, modulo the size of a range, have an order that compression cannot exploit.
_RANGE_STEP: Final = 2654435761


def plan_new_columns(values: tuple[str, ...], form: MessageForm, *, has_header: bool) -> dict[str, MakeColumn]:
    """Return functions that make the columns of new fields, by path in the message and its header."""
    columns: dict[str, MakeColumn] = {}
    parts = {form.spec.name: (form.spec, form.version, "body." if has_header else "")}
    if has_header:
        version = form.spec.header_version(form.version)
        if version == form.header.valid_versions.highest:  # older headers do not have the new fields
            parts[form.header.name] = form.header, version, "header."
    for text in values:
        path, sign, value = text.partition("=")
        name, _, field = path.partition(".")
        if not sign or not field:
            raise OptionError(f"`values` {text}: expected Message.path=value")
        if name in parts:
            columns[_find_column_path(*parts[name], field)] = _parse_value(value)
    return columns


def _find_column_path(spec: MessageSpec, version: int, prefix: str, path: str) -> str:
    """Return the column path of a new field. ``path`` is the path of the field in the new spec."""
    paths = {".".join(names): names for names, _ in walk_slots(list_slots(spec, version))}
    if path not in paths:
        raise OptionError(f"`values` {spec.name}.{path}: version {version} of the new spec does not have this field")
    return prefix + ".".join(name[:1].lower() + name[1:] for name in paths[path])


@lru_cache(maxsize=256)
def _parse_value(text: str) -> MakeColumn:
    """Return the function that fills a new field: from a number range, a Python function or a constant."""
    bounds, function = _NUMBER_RANGE_PATTERN.fullmatch(text), _FUNCTION_REFERENCE_PATTERN.fullmatch(text)
    if bounds is not None and int(bounds[1]) <= int(bounds[2]):
        return partial(_fill_from_range, int(bounds[1]), int(bounds[2]))
    if function is not None:
        return partial(_fill_from_function, _load_function(function[1], function[2]))
    try:
        constant = json.loads(text)
    except ValueError:
        constant = text
    return partial(_fill_from_function, lambda _: constant)


def _load_function(file: str, name: str) -> Callable[[Any], Any]:
    """Run a Python file, and return the function that it defines under a name."""
    try:
        function = runpy.run_path(file).get(name)
    except OSError as error:
        raise OptionError(f"`values`: {format_path_error(error, file)}") from None
    if not callable(function):
        raise OptionError(f"`values` {file}: the file does not define a function {name}")
    return function  # type: ignore[no-any-return]


def _fill_from_function(function: Callable[[Any], Any], structs: pa.StructArray, field: FieldPlan) -> pa.Array:
    """Return a column with the function's result for each struct; null for a null struct."""
    rows = [{snake_case(name): value for name, value in row.items()} for row in structs.to_pylist() if row is not None]
    values = iter(_convert_value(function(row), field) for row in rows)
    presence = structs.is_valid().to_pylist()
    return _build_array([next(values) if is_present else None for is_present in presence], field)


def _fill_from_range(low: int, high: int, structs: pa.StructArray, field: FieldPlan) -> pa.Array:
    """Return a column of numbers spread over a range; for arrays, text and bytes, values of these lengths."""
    numbers = low + (np.arange(len(structs), dtype=np.int64) * _RANGE_STEP) % (high - low + 1)
    if field.array:
        element: Any = {} if field.struct is not None else _convert_value(0, field, is_element=True)
        return _build_array([[element] * count for count in numbers.tolist()], field)
    if field.type in ("string", "bytes", "records"):
        return _build_array([_convert_value("x" * length, field) for length in numbers.tolist()], field)
    return _build_array([_convert_value(number, field) for number in numbers.tolist()], field)


def _convert_value(value: Any, field: FieldPlan, *, is_element: bool = False) -> Any:
    """Convert a value to the form in which columns store it."""
    if field.array and not is_element and isinstance(value, list):
        return [_convert_value(element, field, is_element=True) for element in value]
    if field.type in ("bytes", "records") and isinstance(value, str):
        return value.encode()
    if field.type == "string" and value is not None:
        return str(value)
    if field.type == "uuid" and value is not None:
        return str(value).encode()[:16].ljust(16, b"\0")
    return value


def _build_array(values: list[Any], field: FieldPlan) -> pa.Array:
    """Convert Python values to an Arrow array of the field's type."""
    if field.struct is not None:
        return pa.array(values)
    type_ = PRIMITIVES[field.type][2]
    try:
        return pa.array(values, pa.list_(type_) if field.array else type_)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError) as error:
        raise OptionError(f"`values` {field.name}: {error}") from None
