"""Write ordinary batches anew, one after the other without Python (numba). Start reading at ``fast.py``.

1. A batch is ordinary if its CRC and those of the messages in it are right, its stream usual, all its records whole,
   and its format and codec known. The first that is not ends the run: ``ODD`` is no verdict, the long way
   (``batches.py``) then says what becomes of it.
2. The bytes are those of the long way: the same index, the same C functions, the same fields;
   ``tests/jobs/convert/test_fast.py`` compares.
3. One batch at a time is opened, indexed, written and compressed, so that all of it stays in the processor's cache.
"""

from __future__ import annotations

import numpy as np

from kafkaframes.records._kernels_codecs import NO_ROOM, ODD, open_batch
from kafkaframes.records._kernels_compress import compress_stream, most_compressed
from kafkaframes.records._kernels_index import WHOLE_DATA, index_batch
from kafkaframes.records._kernels_scan import (
    APPEND_TIME,
    ATTRIBUTES,
    CODEC_MASK,
    COUNT,
    I64,
    LARGEST,
    MAGIC,
    OLD_LENGTHS,
    OVERHEAD,
    POSITION,
    SIZE,
    V0_HEADER,
    V2_ATTRIBUTES,
    V2_HEADER,
    crc_is_right,
    message_crc_is_right,
)
from kafkaframes.records._kernels_write import (
    MOST_RECORD_OVERHEAD,
    finish_batch,
    finish_wrapper,
    message_size,
    record_size,
    store_i8,
    store_i16,
    wrapper_header_size,
    write_batch_header,
    write_message,
    write_record,
)
from kafkaframes.records.layout import MIN_RECORD_BYTES
from kafkaframes.records.reasons import WHOLE
from kafkaframes.wire._jit import BYTES, INT8S, OUT_BYTES, OUT_INT32S, OUT_INT64S, TABLE, device, kernel, types
from kafkaframes.wire._kernels import address_of, copy_bytes

# What becomes of a batch: nothing, or one that is the same, that has other compression (format 2), that is new (format
# 2), a new wrapper, or messages by themselves.
LEAVE, COPY, RECOMPRESS, BUILD, WRAP, UNWRAP = range(6)
# The answer of a run: the row that it ended before, the bytes that it wrote, their records, and why (0: it is done).
ROW, BYTES_WRITTEN, RECORDS, WHY = range(4)
ANSWER_WORDS = 4
_FEWEST_BYTES = V0_HEADER + OLD_LENGTHS  # of a message of format 0 or 1


@device
def _write_records(data, rows, offsets, stamps, key_at, key_size, value_at, value_size, out, room):
    """Write the records of a format 2 batch without headers; ``ODD`` where offsets do not ascend or are far apart."""
    base_offset, base_stamp, last = offsets[0], stamps[0], np.int64(-1)
    position = np.int64(0)
    for row in range(rows):
        key, value = max(np.int64(key_size[row]), -1), max(np.int64(value_size[row]), -1)
        delta = offsets[row] - base_offset
        if delta <= last or delta > LARGEST or max(key, 0) + max(value, 0) + MOST_RECORD_OVERHEAD > room - position:
            return ODD
        last = delta
        stamp = stamps[row] - base_stamp
        size = record_size(stamp, delta, key, value) + 1
        position = write_record(
            out, position, size, stamp, delta, data, key_at[row], key, data, value_at[row], value
        )  # fmt: skip
        store_i8(out, position, 0)  # no headers
        position += 1
    return position


@device
def _write_messages(
    data, rows, magic, base, attributes, offsets, stamps, key_at, key_size, value_at, value_size, out, room
):
    """Write messages of format 0 or 1, offsets counted from ``base``; ``ODD`` as for format 2."""
    last, position = np.int64(-1), np.int64(0)
    for row in range(rows):
        key, value = max(np.int64(key_size[row]), -1), max(np.int64(value_size[row]), -1)
        delta = offsets[row] - offsets[0]
        if delta <= last or delta > LARGEST or message_size(magic, key, value) > room - position:
            return ODD
        last = delta
        position = write_message(
            out, position, magic, attributes, offsets[row] - base, stamps[row],
            data, key_at[row], key, data, value_at[row], value,
        )  # fmt: skip
    return position


@device
def _is_ordinary(data, table, row):
    magic = table[MAGIC, row]
    return (magic == 0 or magic == 1 or magic == 2) and crc_is_right(data, table, row)


@device
def _open(data, table, row, limit, opened, calls):
    """Find, and where need be decompress, a batch's records: the address that they are counted from, start and end."""
    start, end = table[POSITION, row], table[POSITION, row] + table[SIZE, row]
    start += V2_HEADER if table[MAGIC, row] >= 2 else OVERHEAD
    if table[ATTRIBUTES, row] & CODEC_MASK == 0:
        return data, start, end
    to = address_of(opened)
    size = open_batch(data, start, end, table, row, limit, to, opened.size, calls)
    return to, np.int64(0), size if size >= 0 else ODD


@device
def _inner_crcs_are_right(source, table, row, rows, crc_at):
    """Tell whether the CRCs of a wrapper's messages are right, which no batch that is written anew would show."""
    if table[MAGIC, row] >= 2 or table[ATTRIBUTES, row] & CODEC_MASK == 0:
        return True
    wrong = 0
    for message in range(rows):
        wrong += not message_crc_is_right(source, crc_at[message])
    return wrong == 0


@device
def _may_be_too_many(table, row, size, most):
    """Tell whether a batch may have more records than ``most``."""
    if table[MAGIC, row] >= 2:
        return min(table[COUNT, row], size // MIN_RECORD_BYTES + 1) > most
    return size // _FEWEST_BYTES + 1 > most


@device
def _recompressed(data, at, attributes, codec, records, size, out, room, calls):
    """Write a format 2 batch with other compression under its own header; return its size, or ``ODD``."""
    copy_bytes(out, 0, data, at, V2_HEADER)
    store_i16(out, V2_ATTRIBUTES, attributes & ~CODEC_MASK | codec)
    found = compress_stream(codec, records, size, out + V2_HEADER, room - V2_HEADER, calls)
    return finish_batch(out, 0, V2_HEADER + found) if found >= 0 else ODD


@device
def _built(append, codec, records, size, rows, offsets, stamps, largest, out, room, calls):
    """Write a format 2 batch that no producer is known of; return its size, or ``ODD``."""
    found = compress_stream(codec, records, size, out + V2_HEADER, room - V2_HEADER, calls)
    if found < 0:
        return ODD
    last_delta = offsets[rows - 1] - offsets[0]
    write_batch_header(out, 0, offsets[0], -1, codec | append, last_delta, stamps[0], largest, -1, -1, -1, rows)
    return finish_batch(out, 0, V2_HEADER + found)


@device
def _wrapped(append, magic, codec, records, size, last_offset, largest, out, room, calls):
    """Write a wrapper of compressed messages; return its size, or ``ODD``."""
    header = wrapper_header_size(magic)
    found = compress_stream(codec, records, size, out + header, room - header, calls)
    return finish_wrapper(out, 0, magic, codec | append, last_offset, largest, found) if found >= 0 else ODD


@device
def _span(stamps, rows):
    """Return the smallest and the largest timestamp."""
    least, largest = stamps[0], stamps[0]
    for row in range(1, rows):
        least, largest = min(least, stamps[row]), max(largest, stamps[row])
    return least, largest


@kernel(
    types.void(
        BYTES,
        TABLE,
        I64,
        I64,
        INT8S,
        INT8S,
        INT8S,
        I64,
        OUT_BYTES,
        OUT_BYTES,
        OUT_INT64S,
        OUT_INT64S,
        OUT_INT64S,
        OUT_INT32S,
        OUT_INT64S,
        OUT_INT32S,
        OUT_INT64S,
        OUT_INT32S,
        OUT_BYTES,
        OUT_INT64S,
        OUT_INT64S,
        OUT_INT64S,
    )
)
def rewrite_batches(
    buf, table, first, last, actions, magics, codecs, limit,
    opened, plain, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
    out, reading, writing, answer,
):  # fmt: skip
    """Write the batches of rows ``first`` to ``last`` one after the other into ``out`` and fill ``answer``.

    ``actions``, ``magics`` and ``codecs`` say what becomes of each; ``opened`` and ``plain`` are for one batch's
    records, as they were and as they will be; the eight arrays behind them for their index. The run ends before the
    first batch that is ``ODD`` or for which ``out`` has ``NO_ROOM``; a batch that finds an empty ``out`` too small is
    odd, too.
    """
    data, to, fresh, row = address_of(buf), address_of(out), address_of(plain), first
    size, records = np.int64(0), np.int64(0)
    answer[WHY] = 0
    while row < last:
        action, codec, attributes = actions[row], codecs[row], table[ATTRIBUTES, row]
        at, whole, magic = table[POSITION, row], table[SIZE, row], np.int64(magics[row])
        why, found = np.int64(ODD), np.int64(ODD)
        if action != LEAVE and _is_ordinary(data, table, row):
            source, start, end = _open(data, table, row, limit, opened, reading)
            rows = np.int64(0)
            if end >= start and not _may_be_too_many(table, row, end - start, offsets.size):
                rows, status, _ = index_batch(
                    source, start, end, 0, WHOLE_DATA, 0, table, row,
                    0, 0, offsets, stamps, key_at, key_size, value_at, value_size, headers_at, header_counts,
                )  # fmt: skip
                if status != WHOLE or not _inner_crcs_are_right(source, table, row, rows, headers_at):
                    rows = np.int64(0)
            length, room, largest = end - start, out.size - size, np.int64(0)
            append = attributes & APPEND_TIME if table[MAGIC, row] else np.int64(0)
            if rows and action >= BUILD:
                least, largest = _span(stamps, rows)
                if append and least != largest:
                    length = np.int64(ODD)
                elif action == BUILD:
                    length = _write_records(
                        source, rows, offsets, stamps, key_at, key_size, value_at, value_size, fresh, plain.size
                    )  # fmt: skip
                else:
                    base = offsets[0] if magic and action == WRAP else np.int64(0)
                    length = _write_messages(
                        source, rows, magic, base, append, offsets, stamps, key_at, key_size, value_at, value_size,
                        fresh, plain.size,
                    )  # fmt: skip
            if rows and length >= 0:
                needed = whole if action == COPY else V2_HEADER + most_compressed(length)
                if needed > room:
                    why = np.int64(NO_ROOM if size else ODD)
                elif action == COPY:
                    copy_bytes(to, size, data, at, whole)
                    found = whole
                elif action == RECOMPRESS:
                    found = _recompressed(
                        data, at, attributes, codec, source + start, length, to + size, room, writing
                    )  # fmt: skip
                elif action == BUILD:
                    found = _built(
                        append, codec, fresh, length, rows, offsets, stamps, largest, to + size, room, writing
                    )  # fmt: skip
                elif action == WRAP:
                    found = _wrapped(
                        append, magic, codec, fresh, length, offsets[rows - 1], largest, to + size, room, writing
                    )  # fmt: skip
                else:
                    copy_bytes(to, size, fresh, 0, length)
                    found = length
        if found < 0:
            answer[WHY] = why
            break
        size += found
        records += rows
        row += 1
    answer[ROW], answer[BYTES_WRITTEN], answer[RECORDS] = row, size, records
