"""The kernels of ``_kernels_build.py`` in plain Python, with the same arguments and results."""

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


def _read_blob(index: int, starts: Any, lengths: Any, data: Any) -> bytes | None:
    start, length = int(starts[index]), int(lengths[index])
    return None if length < 0 else bytes(data[start : start + length])


def _write_blob(out: bytearray, blob: bytes | None) -> None:
    write_varint(out, -1 if blob is None else len(blob))
    out += blob or b""


def _build_record(
    timestamp_delta: int, offset_delta: int, blobs: list[bytes | None], headers: list[bytes | None]
) -> bytes:
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


def _build_headers(row: int, header_starts: Any, names: tuple[Any, ...], items: tuple[Any, ...]) -> list[bytes | None]:
    if not len(header_starts):
        return []
    blobs: list[bytes | None] = []
    for header in range(int(header_starts[row]), int(header_starts[row + 1])):
        blobs += (_read_blob(header, *names), _read_blob(header, *items))
    return blobs


def _message_size(magic: int, key_length: int, value_length: int) -> int:
    return 12 + (22 if magic else 14) + max(key_length, 0) + max(value_length, 0)


def _blob_size(length: int) -> int:
    return len(_encode_varint(length)) + max(length, 0)


def _encode_varint(value: int) -> bytes:
    out = bytearray()
    write_varlong(out, value)
    return bytes(out)


def _measure_body(row: int, deltas: tuple[int, int], lengths: tuple[Any, Any], headers: tuple[Any, Any, Any]) -> int:
    size = 1 + sum(len(_encode_varint(delta)) for delta in deltas) + sum(_blob_size(int(blob[row])) for blob in lengths)
    header_starts, name_lengths, item_lengths = headers
    entries = range(int(header_starts[row]), int(header_starts[row + 1])) if len(header_starts) else range(0)
    size += len(_encode_varint(len(entries)))
    return size + sum(_blob_size(int(name_lengths[at])) + _blob_size(int(item_lengths[at])) for at in entries)


def split_rows(
    offsets: Any,
    timestamps: Any,
    key_lengths: Any,
    value_lengths: Any,
    header_starts: Any,
    name_lengths: Any,
    item_lengths: Any,
    magic: int,
    batch_bytes: int,
    batch_records: int,
    horizon: int,
    same_timestamp: int,
    starts: Any,
) -> int:
    def measure_record(row: int, first: int) -> int:
        if magic < 2:
            return _message_size(magic, int(key_lengths[row]), int(value_lengths[row]))
        base = int(timestamps[first]) if horizon == -1 else horizon
        deltas = int(timestamps[row]) - base, int(offsets[row]) - int(offsets[first])
        body = _measure_body(row, deltas, (key_lengths, value_lengths), (header_starts, name_lengths, item_lengths))
        return body + len(_encode_varint(body))

    count, size = 0, 0
    for row in range(len(offsets)):
        first = int(starts[count - 1]) if count else row
        fits = (
            count > 0
            and size + measure_record(row, first) <= batch_bytes
            and row - first < batch_records
            and int(offsets[row]) - int(offsets[first]) < 2**31
            and (not same_timestamp or timestamps[row] == timestamps[first])
        )
        if not fits:
            starts[count] = first = row
            count += 1
            size = _HEADER_SIZE if magic >= 2 else 0
        size += measure_record(row, first)
    return count


def measure_v2_batches(
    offsets: Any,
    timestamps: Any,
    key_lengths: Any,
    value_lengths: Any,
    header_starts: Any,
    name_lengths: Any,
    item_lengths: Any,
    table: Any,
    body_sizes: Any,
) -> int:
    position = 0
    for batch in table:
        size = _HEADER_SIZE
        for row in range(int(batch[START]), int(batch[STOP])):
            deltas = int(timestamps[row]) - int(batch[BASE_TIMESTAMP]), int(offsets[row]) - int(batch[BASE_OFFSET])
            body = _measure_body(row, deltas, (key_lengths, value_lengths), (header_starts, name_lengths, item_lengths))
            body_sizes[row] = body
            size += len(_encode_varint(body)) + body
        batch[POSITION], batch[SIZE] = position, size
        position += size
    return position


def measure_messages(key_lengths: Any, value_lengths: Any, magic: int, table: Any) -> int:
    position = 0
    for batch in table:
        rows = range(int(batch[START]), int(batch[STOP]))
        size = sum(_message_size(magic, int(key_lengths[row]), int(value_lengths[row])) for row in rows)
        batch[POSITION], batch[SIZE] = position, size
        position += size
    return position


def write_v2_batches(
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
            blobs = [
                _read_blob(row, key_starts, key_lengths, keys),
                _read_blob(row, value_starts, value_lengths, values),
            ]
            headers = _build_headers(
                row, header_starts, (name_starts, name_lengths, names), (item_starts, item_lengths, items)
            )
            timestamp_delta = int(timestamps[row]) - batch[BASE_TIMESTAMP]
            records += _build_record(timestamp_delta, int(offsets[row]) - batch[BASE_OFFSET], blobs, headers)
        checked_bytes = struct.pack(
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
        checked_bytes += records
        size, crc = (9 + len(checked_bytes), crc32c(checked_bytes)) if checksums else (0, 0)
        whole = struct.pack(">qiibI", batch[BASE_OFFSET], size, batch[LEADER_EPOCH], 2, crc) + checked_bytes
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
            checked_bytes = bytearray((magic, attributes))
            if magic:
                checked_bytes += struct.pack(">q", int(timestamps[row]))
            for starts, lengths, data in ((key_starts, key_lengths, keys), (value_starts, value_lengths, values)):
                blob = _read_blob(row, starts, lengths, data)
                checked_bytes += struct.pack(">i", -1 if blob is None else len(blob)) + (blob or b"")
            offset = int(offsets[row]) - batch[BASE_OFFSET]
            messages += struct.pack(">qiI", offset, 4 + len(checked_bytes), crc32(checked_bytes)) + checked_bytes
        out[batch[POSITION] : batch[POSITION] + batch[SIZE]] = memoryview(messages)
