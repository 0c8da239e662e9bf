"""Vectors of messages: every message at every version, and the same bytes damaged, with what is to be made of them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from kafkaframes.errors import DecodeError, EncodeError
from kafkaframes.protocol.messages import Message, class_of
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.model import MessageSpec
from kafkaframes.testing.vectors.values import CASES, ORDINARY, make_value

Row = dict[str, Any]
_CORRELATION_ID = 0x01020304
_CLIENT_ID = "client-1"


def catalog_specs() -> list[MessageSpec]:
    """Return the specs of all messages of the catalog."""
    return [catalog.load(name) for name in catalog.names()]


def _pairs(specs: Iterable[MessageSpec]) -> Iterator[tuple[MessageSpec, int]]:
    for spec in specs:
        for version in spec.valid_versions:
            yield spec, version


def value_rows(specs: Iterable[MessageSpec]) -> Iterator[Row]:
    """Yield each message at each version in each case: its JSON form and its bytes."""
    for spec, version in _pairs(specs):
        cls = class_of(spec)
        for case in CASES:
            value = make_value(cls, version, case)
            if value is not None:
                row = _row(spec, version, case)
                try:
                    yield row | {
                        "json": value.to_json(version, unknown_tags=False),
                        **_tags(value),
                        **_bytes(value, version),
                    }
                except EncodeError as error:  # a default that this version has no room for
                    yield row | {"error": str(error)}


def _row(spec: MessageSpec, version: int, case: str) -> Row:
    kind = str(spec.type)
    key = {} if spec.api_key is None else {"api_key": spec.api_key}
    return {"message": spec.name, "type": kind, "version": version, **key, "case": case}


def _tags(value: Message) -> Row:
    tags = [[tag, b64encode(data).decode()] for tag, data in value.unknown_tags]
    return {"unknown_tags": tags} if tags else {}


def _bytes(value: Message, version: int) -> Row:
    data = value.encode(version)
    return {"bytes": data.hex(), "size": len(data)}


def damaged_rows(specs: Iterable[MessageSpec]) -> Iterator[Row]:
    """Yield ordinary messages cut, with a byte too many, or one flipped: an error, or what is read and what is left."""
    for spec, version in _pairs(specs):
        cls = class_of(spec)
        value = make_value(cls, version, ORDINARY)
        assert value is not None
        data = value.encode(version)
        for damage, bad in _damaged(data):
            row = _row(spec, version, damage) | {"bytes": bad.hex()}
            try:
                result, end = cls.decode_prefix(bad, version)
            except DecodeError as error:
                yield row | {"error": str(error)}
            else:
                yield row | {
                    "json": result.to_json(version, unknown_tags=False),
                    **_tags(result),
                    "remaining": len(bad) - end,
                }


def _damaged(data: bytes) -> Iterator[tuple[str, bytes]]:
    if data:
        yield "the last byte is missing", data[:-1]
        yield "the second half is missing", data[: len(data) // 2]
        yield "the first byte is 0x7f", b"\x7f" + data[1:]
        at = len(data) // 2
        yield "a varint without end in the middle", data[:at] + b"\xff" * 6 + data[at:]
    yield "a byte too many", data + b"\x01"


def frame_rows(specs: Iterable[MessageSpec]) -> Iterator[Row]:
    """Yield each request and response with its header, at each version."""
    for spec, version in _pairs(specs):
        if spec.api_key is None or str(spec.type) not in ("request", "response"):
            continue
        value = make_value(class_of(spec), version, ORDINARY)
        assert value is not None
        if str(spec.type) == "request":
            data = encode_request(value, version, correlation_id=_CORRELATION_ID, client_id=_CLIENT_ID)
            values: Row = {"client_id": _CLIENT_ID}
        else:
            data, values = encode_response(value, version, correlation_id=_CORRELATION_ID), {}
        body = len(value.encode(version))
        row = _row(spec, version, ORDINARY) | {"correlation_id": _CORRELATION_ID, **values}
        yield row | {"header_size": len(data) - body, "bytes": data.hex()}
