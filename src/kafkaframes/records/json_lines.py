"""Convert records to and from JSON lines. A line is one record, with the column names of readers.

``key``, ``value`` and header values are text if their bytes are UTF-8, otherwise ``{"base64": "..."}``. Null remains
null. The conversion is lossless. ``consume``, ``produce``, ``export``, ``testing.seed`` and the broker's HTTP controls
use this format.

>>> from_json_bytes("paid"), from_json_bytes({"base64": "/w=="}), from_json_bytes(None)
(b'paid', b'\\xff', None)
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, Final

from kafkaframes.errors import EncodeError
from kafkaframes.records.build import READER_COLUMNS
from kafkaframes.records.rows import reject_unknown_columns

JsonBytes = str | dict[str, str] | None
_BASE64_SUFFIX: Final = "base64"
_MAX_ERROR_CHARS: Final = 60  # maximum length of a value in an error message
_OLD_TIMESTAMP_COLUMN: Final = (
    "timestamp_ms"  # timestamp column of older versions, which wrote base64 without marking it
)


def to_json_bytes(raw: bytes | None) -> JsonBytes:
    """Return bytes as JSON lines represent them.

    >>> to_json_bytes(b"paid"), to_json_bytes(b"\\xff"), to_json_bytes(None)
    ('paid', {'base64': '/w=='}, None)
    """
    if raw is None:
        return None
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError:
        return {_BASE64_SUFFIX: b64encode(raw).decode()}


def from_json_bytes(value: Any) -> bytes | None:
    """Return the bytes that a value of a JSON line represents.

    Raises:
        EncodeError: the value is not text, ``{"base64": "..."}`` or null.
    """
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        try:
            return value.encode()
        except UnicodeEncodeError:
            raise EncodeError("the text has an unpaired surrogate, which UTF-8 cannot encode") from None
    if isinstance(value, dict) and value.keys() == {_BASE64_SUFFIX} and isinstance(value[_BASE64_SUFFIX], str):
        try:
            return b64decode(value[_BASE64_SUFFIX], validate=True)
        except ValueError as error:
            raise EncodeError(f"the text is not base64: {error}").within(_BASE64_SUFFIX) from None
    text = json.dumps(value, default=repr)
    text = text if len(text) <= _MAX_ERROR_CHARS else f"{text[:_MAX_ERROR_CHARS]}..."
    raise EncodeError(f'{text} is neither text, {{"base64": "..."}} nor null')


def to_json_headers(headers: Iterable[Mapping[str, Any]] | None) -> list[dict[str, Any]]:
    """Return headers as JSON lines represent them.

    Args:
        headers: mappings with ``key`` (text or bytes) and ``value`` (bytes); None is an empty list.
    """
    return [{"key": _to_json_key(header["key"]), "value": to_json_bytes(header["value"])} for header in headers or ()]


def _to_json_key(key: str | bytes) -> JsonBytes:
    return key if isinstance(key, str) else to_json_bytes(key)


def from_json_headers(headers: Any) -> list[dict[str, Any]]:
    """Return the headers in a list of ``{"key": ..., "value": ...}`` objects or of (key, value) pairs.

    Raises:
        EncodeError: a header does not have one of these forms.
    """
    if headers is None:
        return []
    if not isinstance(headers, list | tuple):
        raise EncodeError(f"headers must be a list, not {type(headers).__name__}").within("headers")
    result = []
    for position, header in enumerate(headers):
        try:
            result.append(_from_json_header(header))
        except EncodeError as error:
            raise error.within(position).within("headers") from None
    return result


def _from_json_header(header: Any) -> dict[str, Any]:
    is_pair = isinstance(header, list | tuple) and len(header) == 2
    pair = dict(zip(("key", "value"), header, strict=True)) if is_pair else header
    if not isinstance(pair, Mapping) or pair.keys() != {"key", "value"} or pair["key"] is None:
        raise EncodeError("a header must be an object with key (not null) and value")
    return {"key": from_json_bytes(pair["key"]), "value": from_json_bytes(pair["value"])}


def from_json_record(row: Any) -> dict[str, Any]:
    """Return ``key``, ``value``, ``headers`` and ``timestamp`` (milliseconds, or None) of a JSON record.

    Other columns of readers, such as ``topic``, ``partition`` and ``offset``, are accepted and ignored.

    Raises:
        EncodeError: a field is unknown, or its value has a wrong type. ``path`` names the field.
    """
    if not isinstance(row, Mapping):
        raise EncodeError(f"a record must be an object with key and value, not {type(row).__name__}")
    if _OLD_TIMESTAMP_COLUMN in row:
        reason = "written by `kafkaframes consume` of an older version, with key and value in base64"
        raise EncodeError(
            f"{reason}; consume it again, or convert it to text and rename this field to timestamp"
        ).within(_OLD_TIMESTAMP_COLUMN)
    reject_unknown_columns(row, ignore=READER_COLUMNS)
    record: dict[str, Any] = {}
    for name in ("key", "value"):
        try:
            record[name] = from_json_bytes(row.get(name))
        except EncodeError as error:
            raise error.within(name) from None
    timestamp = row.get("timestamp")
    if timestamp is not None and (not isinstance(timestamp, int) or isinstance(timestamp, bool)):
        raise EncodeError(f"{timestamp!r} is not a whole number of milliseconds").within("timestamp")
    return {**record, "headers": from_json_headers(row.get("headers")), "timestamp": timestamp}


def to_json_line(record: Mapping[str, Any]) -> bytes:
    """Return a JSON line, with its line end, for a record of JSON values."""
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
