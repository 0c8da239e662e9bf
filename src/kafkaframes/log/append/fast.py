"""The short way for what nearly every producer sends: one intact batch, taken in place as it is.

``take_in_place`` answers only where nothing is odd and Kafka would change header fields alone; otherwise it answers
``None`` and the general path decides. A test runs both on the same bytes and compares all that comes out.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from kafkaframes.log.append import _kernels
from kafkaframes.log.append.settings import AS_KAFKA, REASSIGN, AppendSettings
from kafkaframes.records.codecs import Codec, decompress
from kafkaframes.records.layout import (
    BATCH_V2,
    BYTES_TO_MAGIC,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_V1,
    OVERHEAD_BYTES,
    TRANSACTIONAL,
)
from kafkaframes.wire.checksum import crc32, crc32c

_V2 = struct.Struct(">" + "".join(field.format for field in BATCH_V2.fields))
_V1 = struct.Struct(">" + "".join(field.format for field in MESSAGE_V1.fields) + "ii")
_CRC_V2_AT, _CRC_V2_FROM, _EPOCH_AT = (
    BATCH_V2.place_of("crc"),
    BATCH_V2.end_of("crc"),
    BATCH_V2.place_of("leader_epoch"),
)
_CRC_V1_AT, _CRC_V1_FROM = MESSAGE_V1.place_of("crc"), MESSAGE_V1.end_of("crc")
_ATTRIBUTES_V2_AT, _MAX_V2_AT = BATCH_V2.place_of("attributes"), BATCH_V2.place_of("max_timestamp")
_ATTRIBUTES_V1_AT, _TIMESTAMP_V1_AT = MESSAGE_V1.place_of("attributes"), MESSAGE_V1.place_of("timestamp")
_KEPT_V2 = CODEC_MASK | TRANSACTIONAL | CONTROL | DELETE_HORIZON
_MOST_MS = 2**61  # beyond it sums could wrap as Java's do: the general path knows
NO_TIMESTAMP = -1


class InPlace(NamedTuple):
    """A batch with its new header, how many records it has, and its largest timestamp in milliseconds."""

    records: bytes
    records_count: int
    max_timestamp: int


def take_in_place(data: bytes, offset: int, settings: AppendSettings) -> InPlace | None:
    """Give one ordinary batch its offsets; ``None`` where it is not ordinary."""
    if len(data) < _V1.size or settings.on_noncontiguous not in (AS_KAFKA, REASSIGN):
        return None
    magic, size = data[BYTES_TO_MAGIC - 1], int.from_bytes(data[8:OVERHEAD_BYTES], "big", signed=True)
    if magic != settings.magic or size + OVERHEAD_BYTES != len(data):
        return None
    if settings.max_batch_bytes is not None and len(data) > settings.max_batch_bytes:
        return None
    if magic == 2 and len(data) >= BATCH_V2.size:
        return _batch(data, offset, settings)
    return _wrapper(data, offset, settings) if magic == 1 else None


def _range(settings: AppendSettings) -> tuple[int, int]:
    """Return the least and the largest timestamp that need no closer look."""
    if settings.append_time:
        return 0, _MOST_MS
    lowest, highest = settings.now_ms - settings.before_max_ms, settings.now_ms + settings.after_max_ms
    return max(lowest, 0), min(highest, _MOST_MS)


def _batch(data: bytes, offset: int, settings: AppendSettings) -> InPlace | None:
    (base, _, _, _, crc, attributes, last_delta, base_timestamp, max_timestamp, producer_id, _, sequence, count) = (
        _V2.unpack_from(data)
    )
    codec = attributes & CODEC_MASK
    odd = attributes & (LOG_APPEND_TIME | CONTROL | DELETE_HORIZON) or base != 0 or last_delta + 1 != count
    if odd or count <= 0 or codec > Codec.ZSTD or (producer_id >= 0 and sequence < 0):
        return None
    if settings.target_codec(Codec(codec)) != codec or (not 0 <= base_timestamp <= _MOST_MS and base_timestamp != -1):
        return None
    if crc32c(data[_CRC_V2_FROM:]) != crc:
        return None
    if codec:
        records, error = decompress(codec, data[BATCH_V2.size :], magic=2)
        if error is not None:
            return None
        start = 0
    else:
        records, start = data, BATCH_V2.size
    fits, largest = _kernels.check_batch(
        np.frombuffer(records, np.uint8), start, count, base_timestamp, *_range(settings), settings.compacted
    )
    if not fits:
        return None
    out = bytearray(data)
    struct.pack_into(">q", out, 0, offset)
    struct.pack_into(">i", out, _EPOCH_AT, settings.leader_epoch)
    largest = settings.now_ms if settings.append_time else largest
    if settings.append_time or largest != max_timestamp:
        kept = attributes & _KEPT_V2 | (LOG_APPEND_TIME if settings.append_time else 0)
        struct.pack_into(">h", out, _ATTRIBUTES_V2_AT, kept)
        struct.pack_into(">q", out, _MAX_V2_AT, largest)
        struct.pack_into(">I", out, _CRC_V2_AT, crc32c(bytes(out[_CRC_V2_FROM:])))
    return InPlace(bytes(out), count, largest)


def _wrapper(data: bytes, offset: int, settings: AppendSettings) -> InPlace | None:
    wrapper_offset, _, crc, _, attributes, timestamp, key_length, length = _V1.unpack_from(data)
    codec = attributes & CODEC_MASK
    if not codec or codec >= Codec.ZSTD or attributes & LOG_APPEND_TIME or key_length != -1:
        return None
    if length != len(data) - _V1.size or settings.target_codec(Codec(codec)) != codec:
        return None
    if crc32(data[_CRC_V1_FROM:]) != crc:
        return None
    records, error = decompress(codec, data[_V1.size :], magic=1)
    if error is not None:
        return None
    count, largest = _kernels.check_set(
        np.frombuffer(records, np.uint8), wrapper_offset, *_range(settings), settings.compacted
    )
    if not count:
        return None
    out = bytearray(data)
    struct.pack_into(">q", out, 0, offset + count - 1)
    largest = settings.now_ms if settings.append_time else largest
    if settings.append_time or largest != timestamp:
        out[_ATTRIBUTES_V1_AT] = codec | (LOG_APPEND_TIME if settings.append_time else 0)
        struct.pack_into(">q", out, _TIMESTAMP_V1_AT, largest)
        struct.pack_into(">I", out, _CRC_V1_AT, crc32(bytes(out[_CRC_V1_FROM:])))
    return InPlace(bytes(out), count, largest)
