"""Reference lines about messages: the output of ``tools/oracle`` (MessageTruth), and our differences from it.

A line has a message, a version, and either a value that Kafka encoded (``json`` to ``bytes`` or ``error``) or bytes
that it decoded (``bytes`` to ``json``, ``unknown_tags``, ``remaining``, ``again`` or an error).
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.agreement.kind import differences
from tests.protocol.messages.rows import to_row

from kafkaframes.errors import DecodeError, EncodeError
from kafkaframes.protocol.messages import Message

Find = Callable[[str], type[Message]]
Line = dict[str, Any]
COMPARED_KEYS = frozenset(
    {"message", "type", "version", "api_key", "json", "json_out", "unknown_tags", "bytes", "size", "error"}
    | {"remaining", "again", "again_error", "name", "class"}
)


def read_lines(file: Path) -> list[Line]:
    """Return the lines of a file, gzipped or not."""
    raw = file.read_bytes()
    text = gzip.decompress(raw) if file.suffix == ".gz" else raw
    return [json.loads(line) for line in text.decode().splitlines() if line.strip()]


def is_encoding(file: str) -> bool:
    """Return whether Kafka received the value (and not the bytes): a failed encoding has no bytes."""
    return "mutated" not in file and "hostile" not in file


def disagreements(line: Line, find: Find, *, encoding: bool, canonical: bool) -> Iterator[str]:
    """Yield the differences between Kafka's result and ours.

    Args:
        line: the reference; ``find`` returns the class of a message.
        encoding: whether Kafka received the value.
        canonical: whether the value has the form that Kafka prints (``json_out`` has the exceptions), so that decoding
            must return it. Unusual values do not have this form: a field of another version is ignored, and a default
            is written.
    """
    surplus = line.keys() - COMPARED_KEYS
    if surplus:
        yield f"the reference has keys that are not compared: {', '.join(sorted(surplus))}"
    where = f"{line['message']} v{line['version']}"
    cls = find(line["message"])
    for one in _compare_encoding(line, cls, canonical) if encoding else _compare_decoding(line, cls):
        yield f"{where}: {one}"


def _tags(line: Line) -> list[tuple[int, bytes]]:
    return [(tag, base64.b64decode(data)) for tag, data in line.get("unknown_tags", ())]


def _compare_encoding(line: Line, cls: type[Message], canonical: bool) -> Iterator[str]:
    version = line["version"]
    yield from _compare_spec(line, cls)
    value = None
    try:
        value = cls.from_json(line["json"], version)
        value.unknown_tags = _tags(line)
        data = value.encode(version)
    except EncodeError as error:
        if "error" not in line:
            yield f"expected bytes, found the error {error}"
        elif value is not None:
            yield from _check_rejected_columns(value, version)
        return
    if "error" in line:
        yield f"expected the error {line['error']}, found {data.hex()}"
        return
    yield from differences(
        {"bytes": line["bytes"], "size": line["size"]}, {"bytes": data.hex(), "size": value.size(version)}
    )
    back = cls.decode(data, version)
    if cls.decode(data, version, mode="strict") != back or (canonical and back != value):
        yield f"expected the value again, found {back!r}"
    if back.encode(version) != data:
        yield "encoding the decoded value gives other bytes"
    yield from _compare_json(line, back, canonical)
    for mode in ("reference", "strict"):
        yield from _compare_columns(back, data, version, mode)


def _compare_columns(value: Message, data: bytes, version: int, mode: str) -> Iterator[str]:
    """Check that columns have the object's values and encode to its bytes, or that both are rejected."""
    cls = type(value)
    columns = cls.decode_columns([data], version, mode=mode)
    actual_row, expected_row = columns[0].as_py(), to_row(value, cls.codec(version).plan.root)
    if repr(actual_row) != repr(expected_row):  # repr: NaN is not equal to NaN
        yield f"columns ({mode}): expected {expected_row}, found {actual_row}"
        return
    try:
        again: bytes | None = value.encode(version)
    except EncodeError:
        again = None
    try:
        bytes_found = cls.encode_columns(columns, version)[0].as_py()
    except EncodeError:
        bytes_found = None
    if bytes_found != again:
        yield f"columns ({mode}): expected the bytes {again!r}, found {bytes_found!r}"


def _check_rejected_columns(value: Message, version: int) -> Iterator[str]:
    try:
        row = pa.array([to_row(value, type(value).codec(version).plan.root, absent=True)])
        data = type(value).encode_columns(row, version)
    except EncodeError:
        return
    yield f"columns: expected an error, found {data[0].as_py()!r}"


def _compare_json(line: Line, back: Message, canonical: bool) -> Iterator[str]:
    version = line["version"]
    whole = back.to_json(version, records="base64", unknown_tags=False)
    if "json_out" in line:
        yield from differences(line["json_out"], back.to_json(version, unknown_tags=False), "json_out")
    elif canonical:
        yield from differences(line["json"], whole, "json")
    again = type(back).from_json(whole, version)
    if again.replace(unknown_tags=back.unknown_tags) != back:
        yield "the JSON form with its records is not converted back to the value"


def _compare_spec(line: Line, cls: type[Message]) -> Iterator[str]:
    if "type" in line and _kind(line["type"]) != _kind(cls.spec.type):
        yield f"expected type {line['type']}, found {cls.spec.type}"
    if "api_key" in line and line["api_key"] != cls.spec.api_key:
        yield f"expected API key {line['api_key']}, found {cls.spec.api_key}"


def _kind(kind: str) -> str:
    return "data" if kind.startswith("coordinator-") else kind  # Kafka's type of these records was "data" before 4.0


def _compare_decoding(line: Line, cls: type[Message]) -> Iterator[str]:
    version, data = line["version"], bytes.fromhex(line["bytes"])
    yield from _compare_spec(line, cls)
    try:
        value, position = cls.decode_prefix(data, version)
    except DecodeError as error:
        if "error" not in line:
            yield f"expected a value, found the error {error}"
        if cls.decode_columns([data], version)[0]["_error"].as_py() != str(error):
            yield f"columns: expected the error {error}"
        return
    if "error" in line:
        yield f"expected the error {line['error']}, found {value!r}"
        return
    tags = [[tag, base64.b64encode(payload).decode()] for tag, payload in value.unknown_tags]
    actual_values = {
        "json": value.to_json(version, unknown_tags=False),
        "unknown_tags": tags,
        "remaining": len(data) - position,
    }
    yield from differences({key: line[key] for key in actual_values}, actual_values)
    yield from _compare_columns(value, data[:position], version, "reference")
    if position < len(data) and not cls.decode_columns([data], version)[0]["_error"].is_valid:
        yield f"columns: expected an error for {len(data) - position} bytes left over"
    try:
        again = {"again": value.encode(version).hex()}
    except EncodeError as error:
        again = {"again_error": str(error)}
    if "again_error" in line and "again_error" in again:
        return
    yield from differences({key: line[key] for key in ("again", "again_error") if key in line}, again)
