"""The short way in place: an ordinary batch or wrapper gets its offsets, and is otherwise kept as it came."""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from kafkaframes.log.append import _kernels
from kafkaframes.log.append.ordinary import Ordinary, range_of
from kafkaframes.log.append.settings import AppendSettings
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    LOG_APPEND_TIME,
    MESSAGE_V1,
    TRANSACTIONAL,
)
from kafkaframes.wire.checksum import crc32, crc32c

_CRC_V2_AT, _CRC_V2_FROM, _EPOCH_AT = (
    BATCH_V2.place_of("crc"),
    BATCH_V2.end_of("crc"),
    BATCH_V2.place_of("leader_epoch"),
)
_CRC_V1_AT, _CRC_V1_FROM = MESSAGE_V1.place_of("crc"), MESSAGE_V1.end_of("crc")
_ATTRIBUTES_V2_AT, _MAX_V2_AT = BATCH_V2.place_of("attributes"), BATCH_V2.place_of("max_timestamp")
_ATTRIBUTES_V1_AT, _TIMESTAMP_V1_AT = MESSAGE_V1.place_of("attributes"), MESSAGE_V1.place_of("timestamp")
_KEPT_V2 = CODEC_MASK | TRANSACTIONAL  # what an ordinary batch can have


class InPlace(NamedTuple):
    """A batch with its new header, how many records it has, and its largest timestamp in milliseconds."""

    records: bytes
    records_count: int
    max_timestamp: int


def take_in_place(sent: Ordinary, offset: int, settings: AppendSettings) -> InPlace | None:
    """Give an ordinary batch its offsets; ``None`` where Kafka would do more, or anything is odd inside."""
    if sent.magic != settings.magic or settings.target_codec(sent.codec) != sent.codec:
        return None
    if sent.magic == 2:
        return _batch(sent, offset, settings)
    return _wrapper(sent, offset, settings) if sent.magic == 1 and sent.codec else None


def _batch(sent: Ordinary, offset: int, settings: AppendSettings) -> InPlace | None:
    if sent.base_offset != 0 or sent.last_offset + 1 != sent.records_count:
        return None
    fits, largest = _kernels.check_batch(
        np.frombuffer(sent.records, np.uint8),
        sent.start,
        sent.records_count,
        sent.base_timestamp,
        *range_of(settings),
        settings.compacted,
    )
    if not fits:
        return None
    out = bytearray(sent.data)
    struct.pack_into(">q", out, 0, offset)
    struct.pack_into(">i", out, _EPOCH_AT, settings.leader_epoch)
    largest = settings.now_ms if settings.append_time else largest
    if settings.append_time or largest != sent.max_timestamp:
        kept = sent.attributes & _KEPT_V2 | (LOG_APPEND_TIME if settings.append_time else 0)
        struct.pack_into(">h", out, _ATTRIBUTES_V2_AT, kept)
        struct.pack_into(">q", out, _MAX_V2_AT, largest)
        struct.pack_into(">I", out, _CRC_V2_AT, crc32c(bytes(out[_CRC_V2_FROM:])))
    return InPlace(bytes(out), sent.records_count, largest)


def _wrapper(sent: Ordinary, offset: int, settings: AppendSettings) -> InPlace | None:
    count, largest = _kernels.check_set(
        np.frombuffer(sent.records, np.uint8), sent.last_offset, *range_of(settings), settings.compacted
    )
    if not count:
        return None
    out = bytearray(sent.data)
    struct.pack_into(">q", out, 0, offset + count - 1)
    largest = settings.now_ms if settings.append_time else largest
    if settings.append_time or largest != sent.max_timestamp:
        out[_ATTRIBUTES_V1_AT] = sent.codec | (LOG_APPEND_TIME if settings.append_time else 0)
        struct.pack_into(">q", out, _TIMESTAMP_V1_AT, largest)
        struct.pack_into(">I", out, _CRC_V1_AT, crc32(bytes(out[_CRC_V1_FROM:])))
    return InPlace(bytes(out), count, largest)
