"""The kernels of ``_kernels_*.py`` in plain Python, with the same names, arguments and results.

Only tests use this module: ``tests/records/test_twins.py`` compares it with the kernels on any bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from kafkaframes.errors import DecodeError, TruncatedError
from kafkaframes.records.layout import (
    BATCH_V2,
    BYTES_TO_MAGIC,
    CODEC_MASK,
    COLUMN_INDEX,
    LOG_APPEND_TIME,
    MESSAGE_V0,
    MESSAGE_V1,
    MIN_STATED_BATCH_BYTES,
    OVERHEAD_BYTES,
    HeaderLayout,
)
from kafkaframes.records.reasons import (
    BAD_HEADER_COUNT,
    BAD_MAGIC,
    BAD_RECORD_LENGTH,
    BAD_VARINT,
    DAMAGED_STREAM,
    EMPTY_SET,
    END,
    FIELD_PAST_RECORD,
    FULL,
    HUGE_SIZE,
    LEFT_OVER,
    LENGTH_MISMATCH,
    MAX_HEADERS,
    MAX_RECORDS,
    MORE,
    NEGATIVE_COUNT,
    NESTED,
    NULL_HEADER_KEY,
    OFFSET_BELOW_INNER,
    PREMATURE_END,
    SMALL_INNER_SIZE,
    SMALL_SIZE,
    TOO_MANY_HEADERS,
    TOO_MANY_RECORDS,
    TORN,
    UNREADABLE_FIELD,
    WHOLE,
)
from kafkaframes.wire.checksum import crc32, crc32c
from kafkaframes.wire.varint import read_varint, read_varlong

SKIPPED, DAMAGED_DATA = 0, 2
_INT32_MAX = 2**31 - 1
_BATCH_FOUND = -1  # a status of _next_batch that scan_batches never returns


def _number(raw: bytes, start: int, end: int, *, signed: bool = True) -> int:
    return int.from_bytes(raw[start:end], "big", signed=signed)


def _read_field(raw: bytes, at: int, layout: HeaderLayout, name: str, batch_size: int) -> int:
    """Read a header field. Return -1 if the batch is too short for the field."""
    if layout.end_of(name) > batch_size:
        return -1
    unsigned = name == "crc" or (name == "attributes" and layout is not BATCH_V2)
    return _number(raw, at + layout.position_of(name), at + layout.end_of(name), signed=not unsigned)


def _wrap_int64(value: int) -> int:
    """Wrap a number like a Java long."""
    return (value + 2**63) % 2**64 - 2**63


# --------------------------------------------------------------------------------------------------- scan


def scan_batches(buf: Any, position: int, end: int, memory_rules: int, whole: int, table: Any) -> tuple[int, int, int]:
    raw = bytes(buf)
    row = 0
    while True:
        status, size = _next_batch(raw, position, end, memory_rules)
        if status == _BATCH_FOUND and whole and position + size > len(raw):
            status = MORE
        if status == _BATCH_FOUND and row == table.shape[1]:
            status = FULL
        if status != _BATCH_FOUND:
            return row, position, status
        for name, value in _read_header(raw, position, size).items():
            table[COLUMN_INDEX[name], row] = value
        row += 1
        position += size


def _next_batch(raw: bytes, position: int, end: int, memory_rules: int) -> tuple[int, int]:
    remaining_bytes = end - position
    if remaining_bytes <= 0:
        return END, 0
    if remaining_bytes < OVERHEAD_BYTES or (not memory_rules and remaining_bytes <= BYTES_TO_MAGIC):
        return TORN, 0
    if position + min(remaining_bytes, BATCH_V2.size) > len(raw):
        return MORE, 0
    body = _read_field(raw, position, MESSAGE_V0, "size", OVERHEAD_BYTES)
    if body < MIN_STATED_BATCH_BYTES:
        return SMALL_SIZE, 0
    if memory_rules and remaining_bytes < BYTES_TO_MAGIC:
        return TORN, 0
    if memory_rules and not 0 <= _read_field(raw, position, MESSAGE_V0, "magic", BYTES_TO_MAGIC) <= 2:
        return BAD_MAGIC, 0
    size = body + OVERHEAD_BYTES
    if memory_rules and size > _INT32_MAX:
        return HUGE_SIZE, 0
    return (TORN, 0) if size > remaining_bytes else (_BATCH_FOUND, size)


def _read_header(raw: bytes, at: int, size: int) -> dict[str, int]:
    magic = _read_field(raw, at, MESSAGE_V0, "magic", size)
    layout = BATCH_V2 if magic >= 2 else MESSAGE_V1 if magic != 0 else MESSAGE_V0
    fields = {name: _read_field(raw, at, layout, name, size) for name in layout._bounds}
    header = dict.fromkeys(COLUMN_INDEX, -1) | {name: fields[name] for name in fields.keys() & COLUMN_INDEX.keys()}
    header |= {"position": at, "size": size, "base_offset": fields["offset"]}
    if magic >= 2:
        has_delta = size >= BATCH_V2.end_of("last_offset_delta")
        header["last_offset"] = _wrap_int64(fields["offset"] + fields["last_offset_delta"]) if has_delta else -1
    else:
        stamp = fields.get("timestamp", -1)
        header |= {"last_offset": fields["offset"], "base_timestamp": stamp, "max_timestamp": stamp}
    return header


def check_crcs(buf: Any, table: Any, first: int, last: int, ok: Any) -> None:
    raw = bytes(buf)
    for row in range(first, last):
        at, size, magic = (int(table[COLUMN_INDEX[name], row]) for name in ("position", "size", "magic"))
        layout, checksum = (BATCH_V2, crc32c) if magic >= 2 else (MESSAGE_V0, crc32)
        computed_crc = checksum(raw[at + layout.end_of("crc") : at + size])
        ok[row] = computed_crc == table[COLUMN_INDEX["crc"], row] and (magic < 2 or size >= BATCH_V2.size)


# -------------------------------------------------------------------------------------------------- index


class _Row(NamedTuple):
    offset: int
    timestamp: int
    key_at: int
    key_size: int
    value_at: int
    value_size: int
    headers_at: int
    header_count: int


class _DamagedError(Exception):
    def __init__(self, status: int) -> None:
        self.status = status


class _Batch(NamedTuple):
    """The position of a batch's records, and the header fields that are needed to read them."""

    header: dict[str, int]
    raw: bytes
    start: int
    end: int
    damaged: bool
    lenient: bool


def _read_varint(raw: bytes, position: int, end: int) -> tuple[int, int]:
    try:
        return read_varint(memoryview(raw)[:end], position)
    except DecodeError as error:
        raise _DamagedError(BAD_VARINT) from error


def _read_varlong(raw: bytes, position: int, end: int) -> tuple[int, int]:
    try:
        return read_varlong(memoryview(raw)[:end], position)
    except DecodeError as error:
        raise _DamagedError(BAD_VARINT) from error


def _skip_bytes(raw: bytes, position: int, end: int) -> tuple[int, int, int]:
    """Skip bytes with a length prefix. Return (position of the bytes, length, next position)."""
    length, position = _read_varint(raw, position, end)
    if length > end - position:
        raise _DamagedError(FIELD_PAST_RECORD)
    return position, length, position + max(length, 0)


def _read_record_bounds(batch: _Batch, position: int) -> tuple[int, int]:
    """Read a record's length. Return (start of the record's body, end of the record)."""
    try:
        length, start = read_varint(memoryview(batch.raw)[: batch.end], position)
    except TruncatedError:
        raise _DamagedError(DAMAGED_STREAM if batch.damaged else PREMATURE_END) from None
    except DecodeError:
        raise _DamagedError(BAD_VARINT) from None
    if batch.lenient:
        return start, batch.end
    if length < 0:
        raise _DamagedError(BAD_RECORD_LENGTH)
    if length > batch.end - start:
        raise _DamagedError(DAMAGED_STREAM if batch.damaged else BAD_RECORD_LENGTH)
    return start, start + length


def _read_record(batch: _Batch, position: int) -> tuple[_Row, int]:
    raw, header = batch.raw, batch.header
    position, stop = _read_record_bounds(batch, position)
    if position >= stop:
        raise _DamagedError(BAD_VARINT)
    delta, position = _read_varlong(raw, position + 1, stop)  # after the unused attributes
    offset_delta, position = _read_varint(raw, position, stop)
    key_at, key_size, position = _skip_bytes(raw, position, stop)
    value_at, value_size, position = _skip_bytes(raw, position, stop)
    count, position = _read_varint(raw, position, stop)
    if count < 0 or (not batch.lenient and count > stop - position):
        raise _DamagedError(BAD_HEADER_COUNT)
    headers_at = position
    for _ in range(count):
        length, _place = _read_varint(raw, position, stop)
        if length < 0:
            raise _DamagedError(NULL_HEADER_KEY)
        _place, _length, position = _skip_bytes(raw, position, stop)
        _place, _length, position = _skip_bytes(raw, position, stop)
    if not batch.lenient and position != stop:
        raise _DamagedError(LENGTH_MISMATCH)
    append_time = header["attributes"] & LOG_APPEND_TIME
    stamp = header["max_timestamp"] if append_time else _wrap_int64(header["base_timestamp"] + delta)
    offset = _wrap_int64(header["base_offset"] + offset_delta)
    return _Row(offset, stamp, key_at, key_size, value_at, value_size, headers_at, count), position


def _read_records_v2(batch: _Batch) -> Iterator[tuple[_Row, int]]:
    count = batch.header["count"]
    if count < 0:
        raise _DamagedError(NEGATIVE_COUNT)
    position, headers = batch.start, 0
    for record_count in range(count):
        if record_count >= MAX_RECORDS:
            raise _DamagedError(TOO_MANY_RECORDS)
        row, position = _read_record(batch, position)
        headers += row.header_count
        if headers > MAX_HEADERS:
            raise _DamagedError(TOO_MANY_HEADERS)
        if record_count + 1 == count:
            if position != batch.end:
                raise _DamagedError(LEFT_OVER)
            if batch.damaged:
                raise _DamagedError(DAMAGED_STREAM)
        yield row, position


def _read_message(batch: _Batch, at: int, end: int, offset: int, stamp: int) -> _Row:
    """Index the message whose CRC is at ``at``. The lenient reader replaces unreadable fields with null."""
    raw = batch.raw
    layout = MESSAGE_V0 if _magic(raw, at) == 0 else MESSAGE_V1
    position = at + layout.size - OVERHEAD_BYTES
    places: list[int] = []
    for _ in range(2):
        size = _number(raw, position, position + 4)
        position += 4
        if size > end - position or position > end:
            if not batch.lenient:
                raise _DamagedError(UNREADABLE_FIELD)
            break
        places += [position, size]
        position += max(size, 0)
    key_at, key_size, value_at, value_size = [*places, at, -1, at, -1][:4]
    return _Row(offset, stamp, key_at, key_size, value_at, value_size, at, 0)


def _magic(raw: bytes, at: int) -> int:
    return _number(raw, at + 4, at + 5)


def _list_inner_messages(batch: _Batch) -> list[tuple[int, int, int]]:
    """List (offset, position of the CRC, end) of the complete messages in a message set."""
    raw, position = batch.raw, batch.start
    messages = []
    while batch.end - position >= OVERHEAD_BYTES:
        size = _read_field(raw, position, MESSAGE_V0, "size", OVERHEAD_BYTES)
        if size < MIN_STATED_BATCH_BYTES:
            raise _DamagedError(SMALL_INNER_SIZE)
        at = position + OVERHEAD_BYTES
        if size > batch.end - at:
            break
        messages.append((_number(raw, position, position + 8), at, at + size))
        position = at + size
    if batch.damaged:
        raise _DamagedError(DAMAGED_STREAM)
    if len(messages) > MAX_RECORDS:
        raise _DamagedError(TOO_MANY_RECORDS)
    if not messages:
        raise _DamagedError(EMPTY_SET)
    return messages


def _read_message_set(batch: _Batch) -> Iterator[tuple[_Row, int]]:
    raw, header = batch.raw, batch.header
    inner = _list_inner_messages(batch)
    base = 0
    if header["magic"] == 1 and header["base_offset"] != 0:
        if header["base_offset"] < inner[-1][0]:
            raise _DamagedError(OFFSET_BELOW_INNER)
        base = _wrap_int64(header["base_offset"] - inner[-1][0])
    append_time = header["magic"] == 1 and header["attributes"] & LOG_APPEND_TIME
    for offset, at, end in inner:
        if raw[at + 5] & CODEC_MASK:
            raise _DamagedError(NESTED)
        magic = _magic(raw, at)
        stamp = -1 if magic == 0 else _number(raw, at + 6, at + 14)
        if magic == 1 and append_time:
            stamp = header["max_timestamp"]
        yield _read_message(batch, at, end, _wrap_int64(base + offset), stamp), end


def _read_uncompressed_message(batch: _Batch) -> Iterator[tuple[_Row, int]]:
    header = batch.header
    row = _read_message(batch, batch.start, batch.end, header["base_offset"], header["max_timestamp"])
    yield row, batch.end


def _read_records(batch: _Batch) -> Iterator[tuple[_Row, int]]:
    if batch.header["magic"] >= 2:
        return _read_records_v2(batch)
    return _read_message_set(batch) if batch.header["attributes"] & CODEC_MASK else _read_uncompressed_message(batch)


def index_records(  # the kernel's arguments, in its order
    buf: Any,
    table: Any,
    first: int,
    last: int,
    starts: Any,
    ends: Any,
    kinds: Any,
    lenient: int,
    *outputs: Any,
) -> int:
    columns, (rows, statuses) = outputs[:8], outputs[8:10]
    raw = bytes(buf)
    total = 0
    for index in range(first, last):
        header = {name: int(table[place, index]) for name, place in COLUMN_INDEX.items()}
        batch = _Batch(header, raw, int(starts[index]), int(ends[index]), kinds[index] == DAMAGED_DATA, bool(lenient))
        record_count, status = 0, WHOLE
        try:
            for row, _position in _read_records(batch) if kinds[index] != SKIPPED else ():
                for column, value in zip(columns, row, strict=True):
                    column[total + record_count] = value
                record_count += 1
        except _DamagedError as damage:
            status = damage.status
        rows[index], statuses[index] = record_count, status
        total += record_count
    return total


# ------------------------------------------------------------------------------------------------- gather


def gather_binary(buf: Any, places: Any, sizes: Any, count: int, offsets: Any, data: Any, validity: Any) -> int:
    raw = bytes(buf)
    values = [
        None if size < 0 else raw[place : place + size]
        for place, size in zip(places[:count].tolist(), sizes[:count].tolist(), strict=True)
    ]
    bits = [1] * (-(-count // 8) * 8)
    offsets[0] = 0
    for row, value in enumerate(values):
        start = int(offsets[row])
        bits[row] = int(value is not None)
        offsets[row + 1] = start + len(value or b"")
        data[start : start + len(value or b"")] = list(value or b"")
    for byte in range(len(bits) // 8):
        validity[byte] = sum(bit << place for place, bit in enumerate(bits[8 * byte : 8 * byte + 8]))
    return values.count(None)


def index_headers(buf: Any, places: Any, counts: Any, records: int, lists: Any, *outputs: Any) -> int:
    raw = bytes(buf)
    total = 0
    lists[0] = 0
    for record in range(records):
        position = int(places[record])
        for _ in range(counts[record]):
            key_at, key_size, position = _skip_bytes(raw, position, len(raw))
            value_at, value_size, position = _skip_bytes(raw, position, len(raw))
            for column, value in zip(outputs, (key_at, key_size, value_at, value_size), strict=True):
                column[total] = value
            total += 1
        lists[record + 1] = total
    return total
