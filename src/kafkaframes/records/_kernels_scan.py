"""Scan bytes for batches and verify their CRCs (numba). Start reading at ``scan.py``.

1. Arguments are arrays and integers, results are numbers. The kernels raise no exceptions, create no objects and do no
   I/O. The caller allocates arrays.
2. Each kernel has a plain Python twin of the same name in ``tests/records/reference.py``; ``test_twins.py`` runs both.
3. The constants that the kernels share are here: rows of a scan's table, and positions of header fields.
"""

from __future__ import annotations

from kafkaframes.records import layout
from kafkaframes.records.layout import BATCH_V2, COLUMN_INDEX, MESSAGE_V0, MESSAGE_V1
from kafkaframes.records.reasons import BAD_MAGIC, END, FULL, HUGE_SIZE, MORE, SMALL_SIZE, TORN
from kafkaframes.wire._jit import BYTES, INT64S, OUT_INT8S, OUT_TABLE, TABLE, device, kernel, types
from kafkaframes.wire._kernels import (
    address_of,
    crc32_of,
    crc32c_of,
    load_i8,
    load_i16,
    load_i32,
    load_i64,
    load_u8,
    load_u32,
)

POSITION, SIZE, MAGIC, CRC, ATTRIBUTES = (
    COLUMN_INDEX[name] for name in ("position", "size", "magic", "crc", "attributes")
)
BASE_OFFSET, LAST_OFFSET, LEADER_EPOCH = (
    COLUMN_INDEX["base_offset"],
    COLUMN_INDEX["last_offset"],
    COLUMN_INDEX["leader_epoch"],
)
BASE_TIMESTAMP, MAX_TIMESTAMP = COLUMN_INDEX["base_timestamp"], COLUMN_INDEX["max_timestamp"]
PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE = (
    COLUMN_INDEX["producer_id"],
    COLUMN_INDEX["producer_epoch"],
    COLUMN_INDEX["base_sequence"],
)
COUNT = COLUMN_INDEX["count"]

OVERHEAD, TO_MAGIC, MIN_STATED_BATCH_BYTES = layout.OVERHEAD_BYTES, layout.BYTES_TO_MAGIC, layout.MIN_STATED_BATCH_BYTES
AT_SIZE, AT_MAGIC = MESSAGE_V0.position_of("size"), MESSAGE_V0.position_of("magic")
OLD_CRC, OLD_ATTRIBUTES = MESSAGE_V0.position_of("crc"), MESSAGE_V0.position_of("attributes")
OLD_TIMESTAMP, OLD_CRC_FROM = MESSAGE_V1.position_of("timestamp"), MESSAGE_V0.end_of("crc")
V0_HEADER, V1_HEADER, V2_HEADER = MESSAGE_V0.size, MESSAGE_V1.size, BATCH_V2.size
LENGTH_FIELDS_BYTES = 8  # key length and value length, four bytes each
V2_EPOCH, V2_CRC, V2_CRC_FROM = (
    BATCH_V2.position_of("leader_epoch"),
    BATCH_V2.position_of("crc"),
    BATCH_V2.end_of("crc"),
)
V2_ATTRIBUTES, V2_DELTA = BATCH_V2.position_of("attributes"), BATCH_V2.position_of("last_offset_delta")
V2_BASE_TIMESTAMP, V2_MAX_TIMESTAMP = BATCH_V2.position_of("base_timestamp"), BATCH_V2.position_of("max_timestamp")
V2_PRODUCER_ID, V2_PRODUCER_EPOCH = BATCH_V2.position_of("producer_id"), BATCH_V2.position_of("producer_epoch")
V2_BASE_SEQUENCE, V2_COUNT = BATCH_V2.position_of("base_sequence"), BATCH_V2.position_of("count")
CODEC_MASK, APPEND_TIME = layout.CODEC_MASK, layout.LOG_APPEND_TIME
MAX_INT32 = 2**31 - 1
I64 = types.int64


@device
def _scan_message(buf, at, magic, table, row):
    table[CRC, row] = load_u32(buf, at + OLD_CRC)
    table[ATTRIBUTES, row] = load_u8(buf, at + OLD_ATTRIBUTES)
    timestamp = load_i64(buf, at + OLD_TIMESTAMP) if magic != 0 else -1
    offset = load_i64(buf, at)
    table[BASE_OFFSET, row] = offset
    table[LAST_OFFSET, row] = offset
    table[BASE_TIMESTAMP, row] = timestamp
    table[MAX_TIMESTAMP, row] = timestamp
    table[LEADER_EPOCH, row] = -1
    table[PRODUCER_ID, row] = -1
    table[PRODUCER_EPOCH, row] = -1
    table[BASE_SEQUENCE, row] = -1
    table[COUNT, row] = -1


@device
def _scan_v2_batch(buf, at, size, table, row):
    """Fill a row of the table.

    Fields after the end of a truncated header are -1; callers that need them compare sizes.
    """
    table[CRC, row] = load_u32(buf, at + V2_CRC)
    table[ATTRIBUTES, row] = load_i16(buf, at + V2_ATTRIBUTES)
    base = load_i64(buf, at)
    table[BASE_OFFSET, row] = base
    table[LEADER_EPOCH, row] = load_i32(buf, at + V2_EPOCH)
    if size >= V2_HEADER:
        table[LAST_OFFSET, row] = base + load_i32(buf, at + V2_DELTA)
        table[BASE_TIMESTAMP, row] = load_i64(buf, at + V2_BASE_TIMESTAMP)
        table[MAX_TIMESTAMP, row] = load_i64(buf, at + V2_MAX_TIMESTAMP)
        table[PRODUCER_ID, row] = load_i64(buf, at + V2_PRODUCER_ID)
        table[PRODUCER_EPOCH, row] = load_i16(buf, at + V2_PRODUCER_EPOCH)
        table[BASE_SEQUENCE, row] = load_i32(buf, at + V2_BASE_SEQUENCE)
        table[COUNT, row] = load_i32(buf, at + V2_COUNT)
        return
    table[LAST_OFFSET, row] = base + load_i32(buf, at + V2_DELTA) if size >= V2_BASE_TIMESTAMP else -1
    table[BASE_TIMESTAMP, row] = load_i64(buf, at + V2_BASE_TIMESTAMP) if size >= V2_MAX_TIMESTAMP else -1
    table[MAX_TIMESTAMP, row] = load_i64(buf, at + V2_MAX_TIMESTAMP) if size >= V2_PRODUCER_ID else -1
    table[PRODUCER_ID, row] = load_i64(buf, at + V2_PRODUCER_ID) if size >= V2_PRODUCER_EPOCH else -1
    table[PRODUCER_EPOCH, row] = load_i16(buf, at + V2_PRODUCER_EPOCH) if size >= V2_BASE_SEQUENCE else -1
    table[BASE_SEQUENCE, row] = load_i32(buf, at + V2_BASE_SEQUENCE) if size >= V2_COUNT else -1
    table[COUNT, row] = -1


@kernel(types.Tuple((I64, I64, I64))(BYTES, I64, I64, I64, I64, OUT_TABLE))
def scan_batches(buf, position, end, memory_rules, whole, table):
    """Scan ``buf`` from ``position``. The source ends at ``end``, which may be after the end of ``buf``.

    Returns ``(rows, position, status)``: the number of batches, the end of the last one, and an end status of
    ``reasons.py``. With ``whole``, a batch must be completely in ``buf``; otherwise its header is enough.
    """
    row = 0
    while True:
        remaining_bytes = end - position
        if remaining_bytes <= 0:
            return row, position, END
        if remaining_bytes < OVERHEAD or (not memory_rules and remaining_bytes <= TO_MAGIC):
            return row, position, TORN
        if position + min(remaining_bytes, V2_HEADER) > buf.size:
            return row, position, MORE
        body = load_i32(buf, position + AT_SIZE)
        if body < MIN_STATED_BATCH_BYTES:
            return row, position, SMALL_SIZE
        if memory_rules:
            if remaining_bytes < TO_MAGIC:
                return row, position, TORN
            magic = load_i8(buf, position + AT_MAGIC)
            if magic < 0 or magic > 2:
                return row, position, BAD_MAGIC
            if body > MAX_INT32 - OVERHEAD:
                return row, position, HUGE_SIZE
        size = body + OVERHEAD
        if size > remaining_bytes:
            return row, position, TORN
        if whole and position + size > buf.size:
            return row, position, MORE
        if row == table.shape[1]:
            return row, position, FULL
        magic = load_i8(buf, position + AT_MAGIC)
        table[POSITION, row] = position
        table[SIZE, row] = size
        table[MAGIC, row] = magic
        if magic < 2:
            _scan_message(buf, position, magic, table, row)
        else:
            _scan_v2_batch(buf, position, size, table, row)
        row += 1
        position += size


@device
def is_crc_valid(buf, table, row):
    """Return whether the CRC of a batch is correct."""
    at, size = table[POSITION, row], table[SIZE, row]
    if table[MAGIC, row] < 2:
        return crc32_of(buf, at + OLD_CRC_FROM, at + size) == table[CRC, row]
    return size >= V2_HEADER and crc32c_of(buf, at + V2_CRC_FROM, at + size) == table[CRC, row]


@device
def is_message_crc_valid(buf, crc_at):
    """Return whether the CRC at ``crc_at`` is correct. The CRC must belong to a complete message of format 0 or 1."""
    end = crc_at + load_i32(buf, crc_at - OLD_CRC + AT_SIZE) + OVERHEAD - OLD_CRC
    return crc32_of(buf, crc_at - OLD_CRC + OLD_CRC_FROM, end) == load_u32(buf, crc_at)


@kernel(types.void(BYTES, INT64S, OUT_INT8S))
def check_message_crcs(buf, positions, ok):
    """Set ``ok`` to 1 for each message of format 0 or 1 with a correct CRC.

    ``positions`` are the positions of the CRCs.
    """
    address = address_of(buf)
    for row in range(positions.size):
        ok[row] = is_message_crc_valid(address, positions[row])


@kernel(types.void(BYTES, TABLE, I64, I64, OUT_INT8S))
def check_crcs(buf, table, first, last, ok):
    """Set ``ok`` to 1 for each batch in rows ``first`` to ``last`` with a correct CRC."""
    for row in range(first, last):
        ok[row] = is_crc_valid(buf, table, row)
