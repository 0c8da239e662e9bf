"""Validate the batch headers of records to append, and set the fields that a broker assigns.

A batch that needs no rebuild gets its offsets by changing a few header bytes, and rarely the CRC (KIP-31).
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
    COLUMN_INDEX,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_V1,
    TRANSACTIONAL,
    HeaderLayout,
)
from kafkaframes.records.reasons import END_REASONS, HUGE_SIZE
from kafkaframes.records.scan import BatchHeaders, Bytes, ScanEnd, check_crcs, scan_all
from kafkaframes.wire.checksum import crc32, crc32c


def scan_valid_batches(data: Bytes) -> tuple[BatchHeaders, int]:
    """Scan batches and validate the size, CRC and codec of each, as the broker does first.

    Returns:
        The headers of the complete batches, and their total size in bytes.

    Raises:
        AppendRefusedError: a batch is damaged, or there is no complete batch.
    """
    batches = scan_all(data)
    magics, sizes = batches.column("magic"), batches.column("size")
    short = (magics >= 2) & (sizes < BATCH_V2.size)
    has_invalid_crc = check_crcs(data, batches) == 0
    unknown = batches.codecs >= len(Codec)
    bad = np.flatnonzero(short | has_invalid_crc | unknown)
    if len(bad):
        row = int(bad[0])
        if short[row] or has_invalid_crc[row]:
            reason = "is shorter than its header" if short[row] else "has a wrong CRC"
            raise AppendRefusedError("CorruptRecordException", f"batch {row} {reason}")
        raise AppendRefusedError("IllegalArgumentException", f"batch {row} has an unknown codec")
    reject_corrupt_end(batches.end)
    if batches.end.position == 0:
        error = AppendRefusedError("CorruptRecordException", "the records contain no complete batch")
        error.valid_bytes = 0
        raise error
    return batches, batches.end.position


def reject_corrupt_end(end: ScanEnd) -> None:
    """Reject records if Kafka's iterator raises an error at their end.

    Raises:
        AppendRefusedError: always if the end is corrupt, with the name of Kafka's exception. For a size near 2^31,
            Kafka's buffer limit becomes negative.
    """
    if end.is_corrupt:
        exception = "IllegalArgumentException" if end.status == HUGE_SIZE else "CorruptRecordException"
        raise AppendRefusedError(exception, f"{END_REASONS[end.status]} (at byte {end.position})")


def find_source_codec(batches: BatchHeaders) -> Codec:
    """Return the codec of the last compressed batch, or ``NONE``."""
    numbers = batches.codecs
    codec_numbers = numbers[numbers != 0]
    return Codec(int(codec_numbers[-1])) if len(codec_numbers) else Codec.NONE


# The attributes that Kafka preserves when it writes them again. It drops bits 7 to 15 (in a message, bits 4 to 7).
_PRESERVED_ATTRIBUTES = {1: CODEC_MASK, 2: CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON}


class _FieldPositions(NamedTuple):
    """Byte positions of the header fields that an append overwrites."""

    attributes: int
    attributes_format: str
    max_timestamp: int
    crc: int
    crc_from: int


def _find_field_positions(layout: HeaderLayout, attributes_format: str, timestamp: str) -> _FieldPositions:
    """Return the positions of a header's fields; ``timestamp`` is the name of its timestamp field."""
    crc, crc_from = layout.position_of("crc"), layout.end_of("crc")
    attributes = layout.position_of("attributes")
    return _FieldPositions(attributes, attributes_format, layout.position_of(timestamp), crc, crc_from)


_V1, _V2 = _find_field_positions(MESSAGE_V1, ">b", "timestamp"), _find_field_positions(BATCH_V2, ">h", "max_timestamp")
_LEADER_EPOCH_POSITION = BATCH_V2.position_of("leader_epoch")


def set_offsets(
    out: bytearray, batches: BatchHeaders, last_offsets: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> None:
    """Write the offset field of each batch so that its last record has the offset in ``last_offsets``."""
    deltas = np.where(batches.is_v2, batches.column("last_offset") - batches.column("base_offset"), 0).astype(np.int64)
    values = (last_offsets - deltas).astype(">i8").view(np.uint8).reshape(-1, 8)
    target = np.frombuffer(out, np.uint8)
    positions = batches.column("position")[:, None] + np.arange(8)
    target[positions] = values


def set_leader_epoch(out: bytearray, batches: BatchHeaders, leader_epoch: int) -> None:
    """Write the leader epoch of every format 2 batch. The CRC does not cover the leader epoch."""
    for position in batches.column("position").tolist():
        struct.pack_into(">i", out, position + _LEADER_EPOCH_POSITION, leader_epoch)


def set_max_timestamp(out: bytearray, batches: BatchHeaders, row: int, append_time: bool, timestamp: int) -> None:
    """Set the timestamp type and the largest timestamp of a batch (formats 1 and 2), and its CRC if they change."""
    position, size, magic, attributes, current = (
        int(batches.table[COLUMN_INDEX[name], row])
        for name in ("position", "size", "magic", "attributes", "max_timestamp")
    )
    if bool(attributes & LOG_APPEND_TIME) == append_time and current == timestamp:
        return
    positions = _V1 if magic == 1 else _V2
    attributes = attributes & _PRESERVED_ATTRIBUTES[magic] | (LOG_APPEND_TIME if append_time else 0)
    struct.pack_into(positions.attributes_format, out, position + positions.attributes, attributes)
    struct.pack_into(">q", out, position + positions.max_timestamp, timestamp)
    crc_input = memoryview(out)[position + positions.crc_from : position + size]
    crc = crc32(crc_input) if magic == 1 else crc32c(crc_input)
    crc_input.release()
    struct.pack_into(">I", out, position + positions.crc, crc)
