"""Compare records with the expected records of a test, and show the differences."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Any

from kafkaframes.records.batch import format_bytes

Expected = Mapping[str, Any] | bytes | str | None
_RECORD_FIELDS = ("key", "value", "headers", "timestamp", "partition", "offset")
_MAX_PRINTED_EQUAL_RECORDS = 3


def assert_records(records: Iterable[Any], expected: Iterable[Expected], *, in_order: bool = True) -> None:
    """Assert that records match the expected records.

    >>> assert_records([], [])

    Args:
        records: actual records from ``Broker.records`` or a consumer: objects with ``key``, ``value``, ``headers``, ...
        expected: a mapping of the fields to compare for each record (``{"key": b"42", "value": "paid"}``), or only its
            value. Text is encoded as UTF-8. The field ``headers`` is a mapping or a list of pairs.
        in_order: whether the order of the records must match.

    Raises:
        AssertionError: the records differ. The message marks missing records with ``-`` and unexpected ones with ``+``.
        TypeError: an expected record has an unknown field.
    """
    __tracebackhide__ = True
    targets = [_normalize_record(target) for target in expected]
    actual = list(records)
    names = [name for name in _RECORD_FIELDS if any(name in target for target in targets)] or ["value"]
    keys = [tuple(name for name in names if name in target) for target in targets]
    if in_order:
        matches = len(actual) == len(targets) and all(map(_matches, actual, targets))
        if matches:
            return
        lines = _describe_difference_in_order(actual, targets, names, keys)
    else:
        lines = _describe_difference_in_any_order(actual, targets, names)
        if not lines:
            return
    counts = f"{len(targets)} expected, {len(actual)} found"
    raise AssertionError("\n".join([f"records differ: {counts} (- expected, + found)", *lines]))


def _normalize_record(record: Expected) -> dict[str, Any]:
    fields = dict(record) if isinstance(record, Mapping) else {"value": record}
    for name, content in fields.items():
        if name not in _RECORD_FIELDS:
            raise TypeError(f"a record has no field {name!r}; expected {', '.join(_RECORD_FIELDS)}")
        fields[name] = _normalize_field(name, content)
    return fields


def _normalize_field(name: str, content: Any) -> Any:
    if name == "headers":
        pairs = content.items() if isinstance(content, Mapping) else content or ()
        return tuple((_to_text(pair[0]), _to_bytes(pair[1])) for pair in map(_to_header_pair, pairs))
    return _to_bytes(content) if name in ("key", "value") else content


def _to_header_pair(header: Any) -> Sequence[Any]:
    return (header["key"], header["value"]) if isinstance(header, Mapping) else header


def _to_text(key: Any) -> str:
    return bytes(key).decode(errors="replace") if isinstance(key, bytes | bytearray) else str(key)


def _to_bytes(content: Any) -> Any:
    return content.encode() if isinstance(content, str) else content


def _get_field(record: Any, name: str) -> Any:
    content = record[name] if isinstance(record, Mapping) else getattr(record, name)
    return _normalize_field(name, content)


def _matches(record: Any, targets: Mapping[str, Any]) -> bool:
    return all(_get_field(record, name) == content for name, content in targets.items())


def _format_record(values: Mapping[str, Any]) -> str:
    return "  ".join(f"{name}={_format_value(name, content)}" for name, content in values.items())


def _format_value(name: str, content: Any) -> str:
    if name == "headers":
        return "{" + ", ".join(f"{key}: {format_bytes(value)}" for key, value in content) + "}"
    return format_bytes(content) if isinstance(content, bytes) else repr(content)


def _describe_difference_in_order(
    actual: Sequence[Any], targets: Sequence[Mapping[str, Any]], names: Sequence[str], keys: Sequence[tuple[str, ...]]
) -> list[str]:
    is_uniform = len(set(keys)) <= 1
    columns = keys[0] if is_uniform and keys else tuple(names)
    remaining_targets = [_format_record(record) for record in targets]
    right = [_format_record({name: _get_field(record, name) for name in columns}) for record in actual]
    if (
        not is_uniform
    ):  # if expected records have different fields, show an actual record with the fields of its position
        right = [
            _format_record({name: _get_field(record, name) for name in (keys[row] if row < len(keys) else columns)})
            for row, record in enumerate(actual)
        ]
    lines: list[str] = []
    for kind, first, last, start, stop in SequenceMatcher(None, remaining_targets, right, autojunk=False).get_opcodes():
        if kind == "equal":
            lines += [
                f"  {row:>5}  {remaining_targets[row]}"
                for row in range(first, min(last, first + _MAX_PRINTED_EQUAL_RECORDS))
            ]
            lines += [f"         ... {last - first - _MAX_PRINTED_EQUAL_RECORDS} equal records"] * (
                last - first > _MAX_PRINTED_EQUAL_RECORDS
            )
            continue
        lines += [f"- {row:>5}  {remaining_targets[row]}" for row in range(first, last)]
        lines += [f"+ {row:>5}  {right[row]}" for row in range(start, stop)]
    return lines


def _describe_difference_in_any_order(
    actual: Sequence[Any], targets: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> list[str]:
    remaining_rows = list(actual)
    lines = []
    for row, target in enumerate(targets):
        match = next((index for index, record in enumerate(remaining_rows) if _matches(record, target)), None)
        if match is None:
            lines.append(f"- {row:>5}  {_format_record(target)}")
        else:
            del remaining_rows[match]
    return [
        *lines,
        *(f"+        {_format_record({name: _get_field(line, name) for name in names})}" for line in remaining_rows),
    ]
