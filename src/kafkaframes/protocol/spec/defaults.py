"""Parse the text of a spec's ``default`` to a typed value, by the rules of Kafka's generator."""

from __future__ import annotations

import base64
import binascii
import math
import re
import uuid
from collections.abc import Callable
from typing import Final

from kafkaframes.protocol.spec.model import Default, FieldType
from kafkaframes.protocol.spec.versions import parse_integer, trim
from kafkaframes.wire.primitives import INTEGER_RANGES, NIL_UUID

NULL_TEXT: Final = "null"
_JAVA_DOUBLE_PATTERN = re.compile(
    r"[+-]?(?:NaN|Infinity|(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?"
    r"|0[xX](?:[0-9a-fA-F]+(?:\.[0-9a-fA-F]*)?|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+[fFdD]?)"
)
_BASE64URL_PATTERN = re.compile(r"[A-Za-z0-9_-]*={0,2}")


class BadDefaultError(ValueError):
    """Raised for a text that is not a default value of the field's type; the error text states what is expected."""


def parse_default(field_type: FieldType, text: str) -> Default:
    """Return the typed default of a field; ``""`` means the type's own default.

    ``null`` is ``None`` for every nullable type. A separate rule checks that all versions of the field allow null.

    Raises:
        BadDefaultError: the generator would reject the text.
    """
    if field_type.is_array or field_type.is_struct:
        return _parse_empty_or_null(text, (), "array" if field_type.is_array else "struct")
    return _PARSERS[field_type.name](text)


def _parse_empty_or_null(text: str, empty: Default, kind: str) -> Default:
    if text in ("", NULL_TEXT):
        return empty if text == "" else None
    raise BadDefaultError(f"the default of a {kind} can only be empty or null")


def _parse_integer(name: str) -> Callable[[str], Default]:
    low, high = INTEGER_RANGES[name]

    def parse(text: str) -> Default:
        hexadecimal = text.startswith("0x")
        digits = text[2:] if hexadecimal else text
        if not digits:
            return 0
        value = parse_integer(digits, base=16 if hexadecimal else 10)
        if value is None:
            raise BadDefaultError(f"{text!r} is not a whole number: write decimal digits, or 0x and hex digits")
        if not low <= value <= high:
            raise BadDefaultError(f"{text} does not fit {name} ({low} to {high})")
        return value

    return parse


def _parse_bool(text: str) -> Default:
    lower_text = text.lower()
    if lower_text not in ("", "true", "false"):
        raise BadDefaultError(f"{text!r} is not a bool: write true or false")
    return lower_text == "true"


def _parse_double(text: str) -> Default:
    if not text:
        return 0.0
    bare = trim(text)
    if not _JAVA_DOUBLE_PATTERN.fullmatch(bare):
        raise BadDefaultError(f"{text!r} is not a float64: write it as 1.5, 1e9, NaN or Infinity")
    if "x" in bare.lower():
        return _parse_hex_double(bare.rstrip("fFdD"))
    return float(bare if bare[-1] not in "fFdD" else bare[:-1])


def _parse_hex_double(text: str) -> float:
    try:
        return float.fromhex(text)
    except OverflowError:
        return -math.inf if text.startswith("-") else math.inf


def _parse_uuid(text: str) -> Default:
    """Parse base64url of at least 16 bytes. Kafka uses the first 16 bytes; more bytes are a lint warning."""
    if not text:
        return NIL_UUID
    bare = text.rstrip("=")
    has_padding = len(bare) != len(text)
    if not _BASE64URL_PATTERN.fullmatch(text) or len(bare) % 4 == 1 or (has_padding and len(text) % 4):
        raise BadDefaultError(f"{text!r} is not a uuid: write 22 characters of base64url")
    try:
        raw = base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        raise BadDefaultError(f"{text!r} is not a uuid: write 22 characters of base64url") from None
    if len(raw) < 16:
        raise BadDefaultError(f"{text!r} is a uuid of {len(raw)} bytes: write 22 characters of base64url")
    return uuid.UUID(bytes=raw[:16])


_PARSERS: dict[str, Callable[[str], Default]] = {
    "bool": _parse_bool,
    "float64": _parse_double,
    "uuid": _parse_uuid,
    "string": lambda text: None if text == NULL_TEXT else text,
    "bytes": lambda text: _parse_empty_or_null(text, b"", "bytes field"),
    "records": lambda _text: None,  # the generator ignores the default of records
}
_PARSERS.update({name: _parse_integer(name) for name in INTEGER_RANGES})
