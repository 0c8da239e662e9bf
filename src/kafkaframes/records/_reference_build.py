"""The plain twins of ``_kernels_build.py``: the same arguments, the same results, one record after the other."""

from __future__ import annotations

import struct
from typing import Any

from kafkaframes.records._kernels_build import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_SEQUENCE,
    BASE_TIMESTAMP,
    LAST_OFFSET,
    LEADER_EPOCH,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_EPOCH,
    PRODUCER_ID,
    SIZE,
    START,
    STOP,
)
from kafkaframes.wire.checksum import crc32, crc32c
from kafkaframes.wire.varint import write_varint, write_varlong

_HEADER_AFTER_CRC = ">hiqqqhii"
_HEADER_SIZE = 61


def _blob(index: int, starts: Any, lengths: Any, data: Any) -> bytes | None:
    start, length = int(starts[index]), int(lengths[index])
    return None if length < 0 else bytes(data[start : start + length])


def _write_blob(out: bytearray, blob: bytes | None) -> None:
    write_varint(out, -1 if blob is None else len(blob))
    out += blob or b""


def _record(timestamp_delta: int, offset_delta: int, blobs: list[bytes | None], headers: list[bytes | None]) -> bytes:
    body = bytearray(1)
    write_varlong(body, timestamp_delta)
    write_varint(body, offset_delta)
    for blob in blobs:
        _write_blob(body, blob)
    write_varint(body, len(headers) // 2)
    for blob in headers:
        _write_blob(body, blob)
    out = bytearray()
    write_varint(out, len(body))
    return bytes(out + body)


def _headers(row: int, header_starts: Any, names: tuple[Any, ...], items: tuple[Any, ...]) -> list[bytes | None]:
    if not len(header_starts):
        return []
    found: list[bytes | None] = []
    for header in range(int(header_starts[row]), int(header_starts[row + 1])):
        found += (_blob(header, *names), _blob(header, *items))
    return found


def write_v2(
    offsets: Any,
    timestamps: Any,
    key_starts: Any,
    key_lengths: Any,
    keys: Any,
    value_starts: Any,
    value_lengths: Any,
    values: Any,
    header_starts: Any,
    name_starts: Any,
    name_lengths: Any,
    names: Any,
    item_starts: Any,
    item_lengths: Any,
    items: Any,
    table: Any,
    _body_sizes: Any,
    checksums: int,
    out: Any,
) -> None:
    for batch in table.tolist():
        records = bytearray()
        for row in range(batch[START], batch[STOP]):
            blobs = [_blob(row, key_starts, key_lengths, keys), _blob(row, value_starts, value_lengths, values)]
            headers = _headers(
                row, header_starts, (name_starts, name_lengths, names), (item_starts, item_lengths, items)
            )
            timestamp_delta = int(timestamps[row]) - batch[BASE_TIMESTAMP]
            records += _record(timestamp_delta, int(offsets[row]) - batch[BASE_OFFSET], blobs, headers)
        checked = struct.pack(
            _HEADER_AFTER_CRC,
            batch[ATTRIBUTES],
            batch[LAST_OFFSET] - batch[BASE_OFFSET],
            batch[BASE_TIMESTAMP],
            batch[MAX_TIMESTAMP],
            batch[PRODUCER_ID],
            batch[PRODUCER_EPOCH],
            batch[BASE_SEQUENCE],
            batch[STOP] - batch[START],
        )
        checked += records
        crc = crc32c(checked) if checksums else 0
        whole = struct.pack(">qiibI", batch[BASE_OFFSET], 9 + len(checked), batch[LEADER_EPOCH], 2, crc) + checked
        out[batch[POSITION] : batch[POSITION] + batch[SIZE]] = memoryview(whole)


def write_messages(
    offsets: Any,
    timestamps: Any,
    key_starts: Any,
    key_lengths: Any,
    keys: Any,
    value_starts: Any,
    value_lengths: Any,
    values: Any,
    table: Any,
    magic: int,
    attributes: int,
    out: Any,
) -> None:
    for batch in table.tolist():
        messages = bytearray()
        for row in range(batch[START], batch[STOP]):
            checked = bytearray((magic, attributes))
            if magic:
                checked += struct.pack(">q", int(timestamps[row]))
            for starts, lengths, data in ((key_starts, key_lengths, keys), (value_starts, value_lengths, values)):
                blob = _blob(row, starts, lengths, data)
                checked += struct.pack(">i", -1 if blob is None else len(blob)) + (blob or b"")
            offset = int(offsets[row]) - batch[BASE_OFFSET]
            messages += struct.pack(">qiI", offset, 4 + len(checked), crc32(checked)) + checked
        out[batch[POSITION] : batch[POSITION] + batch[SIZE]] = memoryview(messages)
