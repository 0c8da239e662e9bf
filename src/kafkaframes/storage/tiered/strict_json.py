"""Parse untrusted JSON objects. Each field is read by name and type, and unknown fields are rejected."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from kafkaframes.errors import DecodeError
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64, MIN_INT64

_Value = TypeVar("_Value")
MAX_NUMBER_LENGTH: Final = 20  # characters of the smallest 64-bit integer, with its sign
_INT64_RANGE: Final = (MIN_INT64, MAX_INT64)


class JsonFields:
    """The remaining fields of one JSON object; ``take`` removes a field and returns its value."""

    def __init__(self, values: dict[str, Any]) -> None:
        self._remaining = dict(values)

    @property
    def names(self) -> list[str]:
        """The names of the remaining fields."""
        return list(self._remaining)

    def take(self, name: str, parse: Callable[[Any], _Value]) -> _Value:
        """Return a required field.

        Raises:
            DecodeError: the field is missing, or ``parse`` rejects it.
        """
        if name not in self._remaining:
            raise DecodeError("the field is missing", path=(name,))
        try:
            return parse(self._remaining.pop(name))
        except DecodeError as error:
            raise error.within(name) from None

    def take_optional(self, name: str, parse: Callable[[Any], _Value]) -> _Value | None:
        """Return an optional field; None if it is missing or null. Raises the errors of ``take``."""
        if self._remaining.get(name) is None:
            self._remaining.pop(name, None)
            return None
        return self.take(name, parse)

    def reject_other_fields(self) -> None:
        """Reject an object with fields that were not read by ``take`` or ``take_optional``.

        Raises:
            DecodeError: a field was not read; it might change the meaning of the other fields.
        """
        for name in self._remaining:
            raise DecodeError("an unknown field", path=(name[:100],))


def parse_object(raw: bytes) -> JsonFields:
    """Parse a text that consists of one JSON object.

    Raises:
        DecodeError: ``raw`` is not JSON (RFC 8259), not an object, or has a duplicate field.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_reject_duplicate_fields,
            parse_constant=_no_constant,
            parse_int=_parse_integer,
        )
    except (ValueError, RecursionError) as error:
        position = getattr(error, "pos", getattr(error, "start", None))
        raise DecodeError(f"not JSON: {str(error)[:200]}", position=position) from None
    return parse_fields(value)


def _reject_duplicate_fields(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    unique = dict(pairs)
    if len(unique) != len(pairs):
        raise ValueError("a field occurs twice")
    return unique


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a number")


def _parse_integer(text: str) -> int:
    if len(text) > MAX_NUMBER_LENGTH:
        raise ValueError(f"a number has {len(text)} digits")
    return int(text)


def parse_fields(value: Any) -> JsonFields:
    """Return the fields of a value, which must be an object."""
    if not isinstance(value, dict):
        raise DecodeError(f"must be an object, not {_kind(value)}")
    return JsonFields(value)


def parse_text(value: Any) -> str:
    """Return a value, which must be a string."""
    if not isinstance(value, str):
        raise DecodeError(f"must be a string, not {_kind(value)}")
    return value


def parse_boolean(value: Any) -> bool:
    """Return a value, which must be true or false."""
    if not isinstance(value, bool):
        raise DecodeError(f"must be true or false, not {_kind(value)}")
    return value


def parse_integer(value: Any) -> int:
    """Return a value, which must be a 64-bit integer."""
    if type(value) is not int or not _INT64_RANGE[0] <= value <= _INT64_RANGE[1]:
        raise DecodeError(f"must be a whole number, not {str(value)[:40]}")
    return value


def parse_non_negative(value: Any) -> int:
    """Return a value, which must be an integer from 0 to 2^31 - 1."""
    number = parse_integer(value)
    if not 0 <= number <= MAX_INT32:
        raise DecodeError(f"{number} is not a valid size")
    return number


def parse_positive(value: Any) -> int:
    """Return a value, which must be an integer from 1 to 2^31 - 1."""
    if parse_non_negative(value) == 0:
        raise DecodeError("expected at least 1, not 0")
    return int(value)


def _kind(value: Any) -> str:
    return type(value).__name__ if value is not None else "null"
