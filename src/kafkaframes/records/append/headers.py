"""The headers of the records to append: are the batches whole, which codec they have, and the fields a broker sets.

A batch that stays as it came gets its place in the log by a few header bytes, and rarely the CRC (KIP-31).
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    COLUMN,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_V1,
    MIN_SIZE,
    TRANSACTIONAL,
    HeaderLayout,
)
from kafkaframes.records.reasons import END_REASONS, HUGE_SIZE
from kafkaframes.records.scan import Batches, Bytes, End, check_crcs, scan_all
from kafkaframes.wire.checksum import crc32, crc32c


def valid_batches(data: Bytes) -> tuple[Batches, int]:
    """Scan batches, and check the size, CRC and codec of each as the broker does before all else.

    Returns:
        The headers of the whole batches, and how many bytes these have.

    Raises:
        AppendRefusedError: for the first batch that is damaged, or because there is none.
    """
    batches = scan_all(data)
    magics, sizes = batches.column("magic"), batches.column("size")
    short = (magics >= 2) & (sizes < BATCH_V2.size)
    wrong = check_crcs(data, batches) == 0
    unknown = batches.codecs >= len(Codec)
    bad = np.flatnonzero(short | wrong | unknown)
    if len(bad):
        row = int(bad[0])
        if short[row] or wrong[row]:
            reason = "is shorter than its header" if short[row] else "has a CRC that is not that of its bytes"
            raise AppendRefusedError("CorruptRecordException", f"batch {row} {reason}")
        raise AppendRefusedError("IllegalArgumentException", f"batch {row} has an unknown codec")
    refuse_corrupt(batches.end)
    if batches.end.position == 0:
        error = AppendRefusedError("CorruptRecordException", "there is no whole batch")
        error.valid_bytes = 0
        raise error
    return batches, batches.end.position


def refuse_corrupt(end: End) -> None:
    """Refuse what Kafka's iterator ends with an error at.

    Raises:
        AppendRefusedError: with the exception of Kafka; of a size near 2^31 it computes a negative limit of a buffer.
    """
    if end.corrupt:
        exception = "IllegalArgumentException" if end.status == HUGE_SIZE else "CorruptRecordException"
        raise AppendRefusedError(exception, f"{END_REASONS[end.status]} (at byte {end.position}, {MIN_SIZE=})")


def source_codec(batches: Batches) -> Codec:
    """Return the codec of the last batch that has one."""
    numbers = batches.codecs
    compressed = numbers[numbers != 0]
    return Codec(int(compressed[-1])) if len(compressed) else Codec.NONE


# What a rewrite of the attributes keeps: Kafka drops bits 7 to 15 (and, in a message, 4 to 7).
_KEPT = {1: CODEC_MASK, 2: CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON}


class _Positions(NamedTuple):
    attributes: int
    attributes_format: str
    max_timestamp: int
    crc: int
    crc_from: int


def _positions_of(layout: HeaderLayout, attributes_format: str, timestamp: str) -> _Positions:
    crc, crc_from = layout.position_of("crc"), layout.end_of("crc")
    return _Positions(layout.position_of("attributes"), attributes_format, layout.position_of(timestamp), crc, crc_from)


_V1, _V2 = _positions_of(MESSAGE_V1, ">b", "timestamp"), _positions_of(BATCH_V2, ">h", "max_timestamp")
_AT_EPOCH = BATCH_V2.position_of("leader_epoch")


def set_offsets(out: bytearray, batches: Batches, last_offsets: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """Write the offset field of each batch so that its last record gets ``last_offsets``."""
    deltas = np.where(batches.is_v2, batches.column("last_offset") - batches.column("base_offset"), 0).astype(np.int64)
    values = (last_offsets - deltas).astype(">i8").view(np.uint8).reshape(-1, 8)
    target = np.frombuffer(out, np.uint8)
    positions = batches.column("position")[:, None] + np.arange(8)
    target[positions] = values


def set_leader_epoch(out: bytearray, batches: Batches, leader_epoch: int) -> None:
    """Write the leader epoch of every batch (format 2; outside the CRC)."""
    for position in batches.column("position").tolist():
        struct.pack_into(">i", out, position + _AT_EPOCH, leader_epoch)


def set_max_timestamp(out: bytearray, batches: Batches, row: int, append_time: bool, timestamp: int) -> None:
    """Set timestamp type and largest timestamp of a batch (formats 1, 2); the CRC only if that changes anything."""
    position, size, magic, attributes, current = (
        int(batches.table[COLUMN[name], row]) for name in ("position", "size", "magic", "attributes", "max_timestamp")
    )
    if bool(attributes & LOG_APPEND_TIME) == append_time and current == timestamp:
        return
    positions = _V1 if magic == 1 else _V2
    attributes = attributes & _KEPT[magic] | (LOG_APPEND_TIME if append_time else 0)
    struct.pack_into(positions.attributes_format, out, position + positions.attributes, attributes)
    struct.pack_into(">q", out, position + positions.max_timestamp, timestamp)
    checked = memoryview(out)[position + positions.crc_from : position + size]
    crc = crc32(checked) if magic == 1 else crc32c(checked)
    checked.release()
    struct.pack_into(">I", out, position + positions.crc, crc)
