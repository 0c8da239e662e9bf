"""Write records as bytes of a segment or request: formats 0, 1 and 2, all codecs.

``build_records`` splits rows into batches and writes them. ``build_batch`` writes one batch with the header fields that
the caller sets (the append path, the cleaner, conversions). ``build_records`` and ``build_batch`` use the same kernels,
with one call for all batches. Python code runs per batch only for compression.

As in Kafka:

* Format 2: ``baseTimestamp`` is the first record's timestamp or the delete horizon. Holes between offsets are
  preserved.
* Formats 0 and 1, uncompressed: each message is independent. Compressed: a wrapper has the offset of the **last** inner
  message and the largest timestamp. Inner offsets are relative in format 1 and absolute in format 0.
* LogAppendTime: the batch (format 1: each message) has the timestamp, so a new batch starts where the timestamp
  changes.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records import _kernels_build as kernels
from kafkaframes.records.codecs import Codec, codec_of, compress
from kafkaframes.records.fields import (
    CREATE_TIME,
    DEFAULT_FIELDS,
    LOG_APPEND_TIME,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_BIT,
    BatchFields,
    check_options,
)
from kafkaframes.records.layout import BATCH_V2, OVERHEAD_BYTES
from kafkaframes.records.makers import COLUMNS
from kafkaframes.records.rows import Bytes, Int64s, Rows, rows_of
from kafkaframes.records.scan import split_into_runs
from kafkaframes.wire.checksum import crc32, crc32c
from kafkaframes.wire.integers import MAX_INT32

DEFAULT_BATCH_BYTES = 16384
_PORTION_BYTES = 2 * 1024 * 1024
_PORTION_ROWS = 4096
_TIMESTAMP_TYPES = {"CreateTime": CREATE_TIME, "LogAppendTime": LOG_APPEND_TIME, 0: CREATE_TIME, 1: LOG_APPEND_TIME}
_OFFSET_BYTES = BATCH_V2.end_of("offset")
_ZERO_OFFSET = bytes(_OFFSET_BYTES)
_MAX_KEY_AND_VALUE_BYTES = MAX_INT32 - 1024
_V2_HEADER_STRUCT = struct.Struct(">" + "".join(field.format for field in BATCH_V2.fields))
Table = np.ndarray[Any, np.dtype[np.int64]]
Finish = Callable[[memoryview, list[int]], bytes]  # an uncompressed batch and its table row -> the compressed batch


def _to_camel_case(name: str) -> str:
    first, *words = name.split("_")
    return first + "".join(map(str.capitalize, words))


# The columns of this package's readers: in snake case for scans and consumers, in camel case for Spark sources. Writers
# accept them all, but assign offset, partition and the batch fields themselves.
READER_COLUMNS = frozenset((*COLUMNS, *map(_to_camel_case, COLUMNS), "topic", "partition", "file", "source"))


def next_sequence(sequence: int, increment: int) -> int:
    """Return a producer's sequence number plus ``increment``, with a wrap from 2^31 - 1 to 0.

    >>> next_sequence(2**31 - 1, 1), next_sequence(5, 3)
    (0, 8)
    """
    return (sequence + increment) & MAX_INT32


def build_records(
    columns: Any,
    *,
    record_format: int = 2,
    codec: str | int = "none",
    level: int | None = None,
    base_offset: int = 0,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    batch_records: int | None = None,
    timestamp_type: str | int = "CreateTime",
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = NO_SEQUENCE,
    transactional: bool = False,
    control: bool = False,
    delete_horizon_ms: int | None = None,
    negative_timestamps: bool = False,
) -> bytes:
    """Write records in Kafka's format, as in a segment or a produce request.

    >>> build_records([{"key": b"k", "value": b"v", "timestamp": 1_700_000_000_000}], codec="lz4")[16]
    2

    Args:
        columns: a ``pa.Table``, a ``pa.RecordBatch``, a mapping of names to arrays or sequences, or a sequence of
            mappings. The columns are ``key`` and ``value`` (binary or string, may be null), ``offset`` (increasing;
            holes are preserved), ``timestamp`` (milliseconds or an Arrow timestamp) and ``headers`` (lists of
            struct<key, value>, maps, or pairs). Other columns that readers return are accepted and ignored.
        record_format: 0, 1 or 2. Formats 0 and 1 do not support headers, nor the options after ``timestamp_type``.
            Format 0 has no timestamps and ignores that column. A wrapper of format 0 or 1 has the offset of its last
            message, as Java producers 0.8.2 to 0.10 and all brokers write it; KIP-31 does not define it.
        codec: none, gzip, snappy, lz4 or zstd (format 2 only).
        level: the compression level (KIP-390); None is Kafka's default.
        base_offset: the first offset if ``columns`` has no offsets.
        batch_bytes: largest uncompressed size of a batch (Kafka's ``batch.size``). A batch has at least one record.
        batch_records: largest number of records in a batch; None for unlimited.
        timestamp_type: CreateTime or LogAppendTime. With LogAppendTime, a new batch starts where the timestamp changes.
        leader_epoch, producer_id, producer_epoch: header fields; -1 means that the field is not set.
        base_sequence: sequence number of the first record. Later batches continue this sequence, which wraps from 2^31
            - 1 to 0. -1 means no sequence numbers.
        transactional, control: header flags. Control records have their own keys and values in ``columns``.
        delete_horizon_ms: base timestamp of every batch, marked as a delete horizon (KIP-534).
        negative_timestamps: whether timestamps below -1 are accepted, which a log may contain but Kafka's producers
            reject.

    Returns:
        Consecutive batches (format 2), wrappers (formats 0 and 1, compressed) or messages.

    Raises:
        EncodeError: a value does not fit the format; ``path`` names the column and the row.
        OptionError: an option is unknown, or not supported in this format.
    """
    codec = codec_of(codec)
    if timestamp_type not in _TIMESTAMP_TYPES:
        raise OptionError(f"unknown timestamp type {timestamp_type!r}; expected CreateTime or LogAppendTime")
    fields = BatchFields(
        _TIMESTAMP_TYPES[timestamp_type],
        leader_epoch,
        producer_id,
        producer_epoch,
        base_sequence,
        transactional,
        control,
        delete_horizon_ms,
    )
    check_options(record_format, codec, fields, batch_bytes, batch_records)
    return build_rows(
        rows_of(columns, base_offset=base_offset, ignore=READER_COLUMNS, negative_timestamps=negative_timestamps),
        record_format=record_format,
        codec=codec,
        level=level,
        batch_bytes=batch_bytes,
        batch_records=batch_records,
        fields=fields,
    )


def build_separate_batches(
    columns: Any,
    *,
    codec: str | int = "none",
    level: int | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    batch_records: int | None = None,
    fields: BatchFields = DEFAULT_FIELDS,
) -> Iterator[tuple[bytes, int]]:
    """Write ``columns`` as separate format 2 batches, each with base offset 0, as a producer sends them.

    The batches equal those of ``build_records``, except for their base offsets, which the CRC does not cover. The
    batches are built a few at a time on demand, so that memory of batches that were already sent can be reused.

    Yields:
        Each batch, and the number of its offsets.

    Raises:
        EncodeError: a row does not fit the format; ``path`` names it.
    """
    codec = codec_of(codec)
    check_options(2, codec, fields, batch_bytes, batch_records)
    rows = rows_of(columns, ignore=READER_COLUMNS)
    _check_rows(rows, 2)
    starts = _split_rows(rows, 2, codec, fields, batch_bytes, batch_records or rows.size + 1)
    table = _make_header_table(rows, starts, codec, fields)
    finish = _create_v2_compressor(codec, level)
    for plain, portion in _fill_portions(rows, table, 2, codec, fields):
        for batch in portion.tolist():
            start = batch[kernels.POSITION]
            message = plain[start : start + batch[kernels.SIZE]]
            message[:_OFFSET_BYTES] = _ZERO_OFFSET
            data = bytes(message) if codec is Codec.NONE else finish(message, batch)
            yield data, batch[kernels.LAST_OFFSET] - batch[kernels.BASE_OFFSET] + 1


def build_rows(
    rows: Rows,
    *,
    record_format: int = 2,
    codec: str | int = "none",
    level: int | None = None,
    batch_bytes: int = DEFAULT_BATCH_BYTES,
    batch_records: int | None = None,
    fields: BatchFields = DEFAULT_FIELDS,
) -> bytes:
    """Write rows as ``build_records`` writes columns.

    Raises:
        EncodeError: a row does not fit the format; ``path`` names it.
    """
    codec = codec_of(codec)
    check_options(record_format, codec, fields, batch_bytes, batch_records)
    _check_rows(rows, record_format)
    starts = _split_rows(rows, record_format, codec, fields, batch_bytes, batch_records or rows.size + 1)
    return _encode_batches(rows, _make_header_table(rows, starts, codec, fields), record_format, codec, level, fields)


def build_batch(
    rows: Rows,
    *,
    record_format: int = 2,
    codec: int = Codec.NONE,
    level: int | None = None,
    fields: BatchFields = DEFAULT_FIELDS,
    start: int = 0,
    stop: int | None = None,
) -> bytes:
    """Write ``rows[start:stop]`` as one batch, one wrapper, or (formats 0 and 1, uncompressed) as messages.

    Raises:
        EncodeError: a row does not fit the format or the batch, or the range is empty.
    """
    codec = codec_of(codec)
    stop = rows.size if stop is None else stop
    if not 0 <= start < stop <= rows.size:
        raise EncodeError(f"rows {start} to {stop} of {rows.size}: the range is empty or out of bounds")
    check_options(record_format, codec, fields, 1, None)
    _check_rows(rows, record_format)
    table = _make_header_table(rows, np.array([start], np.int64), codec, fields, stop)
    return _encode_batches(rows, table, record_format, codec, level, fields)


def build_batches(
    rows: Rows,
    starts: Int64s,
    fields: Sequence[BatchFields],
    *,
    record_format: int = 2,
    codec: int = Codec.NONE,
    level: int | None = None,
) -> list[bytes]:
    """Write many batches at once, each with its own header fields, as a rewrite of a log needs.

    Args:
        rows: the records of all batches, in order.
        starts: the first row of each batch; no batch may be empty.
        fields: the header fields of each batch. In formats 0 and 1, all batches must have the same timestamp type.

    Returns:
        The bytes of each batch (formats 0 and 1, uncompressed: of each batch's messages).

    Raises:
        EncodeError: a row does not fit the format or its batch.
    """
    codec = codec_of(codec)
    _check_rows(rows, record_format)
    for message in set(fields):
        check_options(record_format, codec, message, 1, None)
    table = _make_header_table(rows, starts, codec, BatchFields())
    _set_header_fields(table, fields, codec)
    _check_deltas(rows, table)
    batches = memoryview(_encode_batches(rows, table, record_format, codec, level, fields[0]))
    ends = np.cumsum(table[:, kernels.SIZE]).tolist() if codec is Codec.NONE else _find_batch_ends(batches, len(starts))
    return [bytes(batches[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def _find_batch_ends(batches: memoryview, count: int) -> list[int]:
    """Return the end of each compressed batch, from its size field."""
    ends, position = [], 0
    for _ in range(count):
        (size,) = struct.unpack_from(">i", batches, position + BATCH_V2.position_of("size"))
        position += OVERHEAD_BYTES + size
        ends.append(position)
    return ends


def _set_header_fields(table: Table, fields: Sequence[BatchFields], codec: Codec) -> None:
    """Replace the common header fields from ``_make_header_table`` with each batch's own fields."""
    for column, values in (
        (kernels.LEADER_EPOCH, [message.leader_epoch for message in fields]),
        (kernels.ATTRIBUTES, [message.attributes(codec) for message in fields]),
        (kernels.PRODUCER_ID, [message.producer_id for message in fields]),
        (kernels.PRODUCER_EPOCH, [message.producer_epoch for message in fields]),
        (kernels.BASE_SEQUENCE, [message.base_sequence for message in fields]),
    ):
        table[:, column] = values
    for column, overrides in (
        (kernels.BASE_OFFSET, [message.base_offset for message in fields]),
        (kernels.LAST_OFFSET, [message.last_offset for message in fields]),
        (kernels.BASE_TIMESTAMP, [message.delete_horizon_ms for message in fields]),
        (kernels.MAX_TIMESTAMP, [message.max_timestamp for message in fields]),
    ):
        defaults = table[:, column].tolist()
        pairs = zip(overrides, defaults, strict=True)
        table[:, column] = [default if override is None else override for override, default in pairs]


def build_empty_batch(
    base_offset: int,
    last_offset: int,
    *,
    max_timestamp: int = -1,
    fields: BatchFields = DEFAULT_FIELDS,
) -> bytes:
    """Write a format 2 header without records, with which the cleaner keeps a producer's last sequence (KAFKA-5490)."""
    base_timestamp = -1 if fields.delete_horizon_ms is None else fields.delete_horizon_ms
    header = bytearray(
        _V2_HEADER_STRUCT.pack(
            base_offset,
            BATCH_V2.size - OVERHEAD_BYTES,
            fields.leader_epoch,
            2,
            0,
            fields.attributes(Codec.NONE),
            last_offset - base_offset,
            base_timestamp,
            max_timestamp,
            fields.producer_id,
            fields.producer_epoch,
            fields.base_sequence,
            0,
        )
    )
    return _seal_batch(header, b"")


def build_end_transaction(
    offset: int,
    *,
    commit: bool,
    timestamp: int,
    producer_id: int,
    producer_epoch: int,
    coordinator_epoch: int = 0,
    leader_epoch: int = -1,
) -> bytes:
    """Return the marker that ends a transaction: a control batch with an ABORT (0) or COMMIT (1) record."""
    key, value = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch)
    rows = rows_of({"offset": [offset], "timestamp": [timestamp], "key": [key], "value": [value]})
    fields = BatchFields(
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
    return build_batch(rows, fields=fields)


# ------------------------------------------------------------------------------------------------------ checks


def _check_rows(rows: Rows, magic: int) -> None:
    if magic < 2 and len(rows.header_starts):
        row = int(np.flatnonzero(np.diff(rows.header_starts))[0])
        raise EncodeError(f"format {magic} does not support headers").within(row).within("headers")
    sizes = rows.keys.lengths + rows.values.lengths
    if sizes.max(initial=0) > _MAX_KEY_AND_VALUE_BYTES:
        row = int(sizes.argmax())
        reason = f"the key and value have {sizes[row]} bytes; the limit is {_MAX_KEY_AND_VALUE_BYTES}"
        raise EncodeError(reason).within(row).within("value")


# ------------------------------------------------------------------------------------------------------ batches


def _split_rows(
    rows: Rows, magic: int, codec: Codec, fields: BatchFields, batch_bytes: int, batch_records: int
) -> Int64s:
    if rows.size == 0:
        return np.zeros(0, np.int64)
    # The messages are independent, so they are built in portions of moderate size.
    if magic < 2 and codec is Codec.NONE:
        return np.arange(0, rows.size, _PORTION_ROWS, dtype=np.int64)
    starts = np.empty(rows.size, np.int64)
    count = kernels.split_rows(
        *_compute_byte_lengths(rows),
        magic,
        batch_bytes,
        batch_records,
        -1 if fields.delete_horizon_ms is None else fields.delete_horizon_ms,
        int(fields.timestamp_type == LOG_APPEND_TIME),
        starts,
    )
    return starts[:count]


def _make_header_table(rows: Rows, starts: Int64s, codec: Codec, fields: BatchFields, stop: int | None = None) -> Table:
    """Return a table with a row of header values for each batch; ``_kernels_build`` defines the columns."""
    table = np.zeros((len(starts), kernels.COLUMN_COUNT), np.int64)
    if not len(starts):
        return table
    stops = np.append(starts[1:], rows.size if stop is None else stop)
    table[:, kernels.START] = starts
    table[:, kernels.STOP] = stops
    table[:, kernels.BASE_OFFSET] = _value_or(fields.base_offset, rows.offsets[starts])
    table[:, kernels.LAST_OFFSET] = _value_or(fields.last_offset, rows.offsets[stops - 1])
    table[:, kernels.LEADER_EPOCH] = fields.leader_epoch
    table[:, kernels.ATTRIBUTES] = fields.attributes(codec)
    table[:, kernels.BASE_TIMESTAMP] = _value_or(fields.delete_horizon_ms, rows.timestamps[starts])
    largest = np.maximum.reduceat(rows.timestamps[: stops[-1]], starts)
    table[:, kernels.MAX_TIMESTAMP] = _value_or(fields.max_timestamp, largest)
    table[:, kernels.PRODUCER_ID] = fields.producer_id
    table[:, kernels.PRODUCER_EPOCH] = fields.producer_epoch
    table[:, kernels.BASE_SEQUENCE] = _compute_base_sequences(table, fields.base_sequence)
    _check_deltas(rows, table)
    return table


def _value_or(value: int | None, default: Any) -> Any:
    return default if value is None else value


def _compute_base_sequences(table: Table, first: int) -> Any:
    """Return the base sequence of each batch. A batch uses as many sequence numbers as offsets (KIP-98)."""
    if first == NO_SEQUENCE:
        return NO_SEQUENCE
    counts = table[:, kernels.LAST_OFFSET] - table[:, kernels.BASE_OFFSET] + 1
    return (first + np.cumsum(counts) - counts) & MAX_INT32


def _check_deltas(rows: Rows, table: Table) -> None:
    base, last = table[:, kernels.BASE_OFFSET], table[:, kernels.LAST_OFFSET]
    first_rows, last_rows = table[:, kernels.START], table[:, kernels.STOP] - 1
    wide = (last - base > MAX_INT32) | (rows.offsets[first_rows] < base) | (rows.offsets[last_rows] > last)
    if wide.any():
        batch = int(np.flatnonzero(wide)[0])
        row = int(last_rows[batch])
        raise (
            EncodeError(
                f"offset {rows.offsets[row]} does not fit into a batch of offsets {base[batch]} to {last[batch]}"
            )
            .within(row)
            .within("offset")
        )


def _encode_batches(
    rows: Rows, table: Table, magic: int, codec: Codec, level: int | None, fields: BatchFields
) -> bytes:
    output = io.BytesIO()
    finish = None
    if codec is not Codec.NONE:
        finish = (
            _create_v2_compressor(codec, level)
            if magic >= 2
            else partial(_wrap_messages, magic=magic, codec=codec, level=level)
        )
    for plain, portion in _fill_portions(rows, table, magic, codec, fields):
        output.writelines([plain] if finish is None else _finish_batches(plain, portion, finish))
    return output.getvalue()


def _fill_portions(
    rows: Rows, table: Table, magic: int, codec: Codec, fields: BatchFields
) -> Iterator[tuple[memoryview, Table]]:
    """Yield uncompressed batches in portions that fit the processor's cache.

    Each portion overwrites the memory of the previous one.
    """
    if not len(table):
        return
    body_sizes = _measure_batches(rows, table, magic)
    if magic >= 2 or codec is not Codec.NONE:
        _check_sizes(table)
    scratch = np.empty(0, np.uint8)
    for first, last in split_into_runs(table[:, kernels.SIZE], _PORTION_BYTES):
        portion = table[first:last].copy()
        portion[:, kernels.POSITION] -= portion[0, kernels.POSITION]
        size = int(portion[:, kernels.SIZE].sum())
        scratch = scratch if len(scratch) >= size else np.empty(size, np.uint8)
        if magic >= 2:
            _fill_v2_batches(rows, portion, body_sizes, codec, scratch)
        else:
            _fill_messages(rows, portion, magic, codec, fields, scratch)
        yield memoryview(scratch.data)[:size], portion


def _measure_batches(rows: Rows, table: Table, magic: int) -> Int64s:
    """Set the columns POSITION and SIZE of each batch, and return the sizes of the record bodies (format 2)."""
    if magic < 2:
        kernels.measure_messages(rows.keys.lengths, rows.values.lengths, magic, table)
        return np.empty(0, np.int64)
    body_sizes = np.empty(rows.size, np.int64)
    kernels.measure_v2_batches(*_compute_byte_lengths(rows), table, body_sizes)
    return body_sizes


def _compute_byte_lengths(rows: Rows) -> tuple[Int64s, ...]:
    return (
        rows.offsets,
        rows.timestamps,
        rows.keys.lengths,
        rows.values.lengths,
        rows.header_starts,
        rows.header_names.lengths,
        rows.header_values.lengths,
    )


def _fill_v2_batches(rows: Rows, table: Table, body_sizes: Int64s, codec: Codec, out: Bytes) -> None:
    kernels.write_v2_batches(
        rows.offsets,
        rows.timestamps,
        *rows.keys,
        *rows.values,
        rows.header_starts,
        *rows.header_names,
        *rows.header_values,
        table,
        body_sizes,
        int(codec is Codec.NONE),
        out,
    )


def _fill_messages(rows: Rows, table: Table, magic: int, codec: Codec, fields: BatchFields, out: Bytes) -> None:
    if magic == 0 or codec is Codec.NONE:
        table[:, kernels.BASE_OFFSET] = 0
    attributes = TIMESTAMP_TYPE_BIT if fields.timestamp_type == LOG_APPEND_TIME else 0
    kernels.write_messages(rows.offsets, rows.timestamps, *rows.keys, *rows.values, table, magic, attributes, out)


def _finish_batches(plain: memoryview, table: Table, finish: Finish) -> Iterator[bytes]:
    """Compress the batches in ``plain``, and yield them."""
    for batch in table.tolist():
        start = batch[kernels.POSITION]
        yield finish(plain[start : start + batch[kernels.SIZE]], batch)


def _check_sizes(table: Table) -> None:
    large = np.flatnonzero(table[:, kernels.SIZE] > MAX_INT32)
    if len(large):
        batch = table[large[0]]
        row = int(batch[kernels.START])
        reason = f"the batch that starts at this row has {batch[kernels.SIZE]} bytes; the limit is {MAX_INT32}"
        raise EncodeError(reason).within(row)


def _create_v2_compressor(codec: Codec, level: int | None) -> Finish:
    """Return a function that compresses the records of a format 2 batch and sets its size and CRC."""

    def finish(plain: memoryview, _batch: list[int]) -> bytes:
        return _seal_batch(bytearray(plain[: BATCH_V2.size]), compress(codec, plain[BATCH_V2.size :], level=level))

    return finish


def _seal_batch(header: bytearray, records: bytes) -> bytes:
    """Set the size and CRC in the header of a format 2 batch, and return the batch."""
    struct.pack_into(">i", header, BATCH_V2.position_of("size"), BATCH_V2.size - OVERHEAD_BYTES + len(records))
    crc = crc32c(records, crc32c(header[BATCH_V2.end_of("crc") :]))
    struct.pack_into(">I", header, BATCH_V2.position_of("crc"), crc)
    return bytes(header) + records


def _wrap_messages(plain: memoryview, batch: list[int], *, magic: int, codec: Codec, level: int | None) -> bytes:
    """Compress messages into a wrapper with a null key, the last offset and the largest timestamp."""
    inner = compress(codec, plain, level=level, magic=magic)
    attributes = codec | batch[kernels.ATTRIBUTES] & TIMESTAMP_TYPE_BIT
    timestamp = struct.pack(">q", batch[kernels.MAX_TIMESTAMP]) if magic else b""
    body = b"".join((bytes((magic, attributes)), timestamp, struct.pack(">ii", -1, len(inner)), inner))
    return struct.pack(">qiI", batch[kernels.LAST_OFFSET], 4 + len(body), crc32(body)) + body
