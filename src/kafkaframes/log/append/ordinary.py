"""What nearly every producer sends, opened once: one intact batch or wrapper, or intact messages in a row.

``open_ordinary`` answers only where nothing about the header is odd; for all else it answers ``None``, and the general
path (``validator.py``) decides what Kafka would say. ``fast_rebuild.py`` writes the answer anew; a test runs that
beside the general path on the same bytes and compares all that comes out. ``fast.py`` comes first and needs no answer.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from kafkaframes.log.append.settings import AS_KAFKA, REASSIGN, AppendSettings
from kafkaframes.records.codecs import Codec, decompress
from kafkaframes.records.layout import (
    BATCH_V2,
    BYTES_TO_MAGIC,
    CODEC_MASK,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    MESSAGE_V0,
    MESSAGE_V1,
    OVERHEAD_BYTES,
)
from kafkaframes.wire.checksum import crc32, crc32c

_V2 = struct.Struct(">" + "".join(field.format for field in BATCH_V2.fields))
_OLD = [struct.Struct(">" + "".join(field.format for field in old.fields) + "ii") for old in (MESSAGE_V0, MESSAGE_V1)]
_CRC_V2_FROM, _CRC_OLD_FROM = BATCH_V2.end_of("crc"), MESSAGE_V0.end_of("crc")
_ODD_FLAGS = LOG_APPEND_TIME | CONTROL | DELETE_HORIZON
MOST_MS = 2**61  # beyond it sums could wrap as Java's do: the general path knows
NO_TIMESTAMP = -1


class Ordinary(NamedTuple):
    """An intact batch, wrapper or row of messages.

    Attributes:
        data: all of it, as it came.
        attributes: of the batch or wrapper; 0 for messages in a row.
        last_offset: of a wrapper (formats 0 and 1): its own offset field.
        base_timestamp, max_timestamp: of the header, in milliseconds; ``max_timestamp`` is a wrapper's own.
        records_count: of the header; -1 where the format has none.
        records: the uncompressed bytes that hold the records, from ``start`` on.
    """

    data: bytes
    magic: int
    codec: Codec
    attributes: int
    base_offset: int
    last_offset: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    records_count: int
    records: bytes
    start: int


def open_ordinary(data: bytes, settings: AppendSettings) -> Ordinary | None:
    """Check the frame of what was sent, its CRC, and decompress it; ``None`` where it is not ordinary."""
    if len(data) < _OLD[0].size or settings.on_noncontiguous not in (AS_KAFKA, REASSIGN):
        return None
    if settings.max_batch_bytes is not None and len(data) > settings.max_batch_bytes:
        return None
    magic, size = data[BYTES_TO_MAGIC - 1], int.from_bytes(data[8:OVERHEAD_BYTES], "big", signed=True)
    alone = size + OVERHEAD_BYTES == len(data)
    if magic == 2:
        return _batch(data, settings) if alone and len(data) >= BATCH_V2.size else None
    if magic > 2 or len(data) < _OLD[magic].size:
        return None
    compressed = data[MESSAGE_V0.place_of("attributes")] & CODEC_MASK
    if not compressed:  # every message is checked when it is read
        return Ordinary(data, magic, Codec.NONE, 0, 0, -1, NO_TIMESTAMP, NO_TIMESTAMP, -1, -1, -1, -1, data, 0)
    return _wrapper(data, magic) if alone else None


def _batch(data: bytes, settings: AppendSettings) -> Ordinary | None:
    base, _, _, _, crc, attributes, last_delta, base_timestamp, max_timestamp, *producer, count = _V2.unpack_from(data)
    codec = attributes & CODEC_MASK
    contiguous = last_delta + 1 == count or (settings.origin != "CLIENT" and last_delta >= 0)
    if attributes & _ODD_FLAGS or base < 0 or not contiguous or count <= 0 or codec > Codec.ZSTD:
        return None
    producer_id, producer_epoch, base_sequence = producer
    if producer_id >= 0 and base_sequence < 0:
        return None
    if not 0 <= base_timestamp <= MOST_MS or crc32c(data[_CRC_V2_FROM:]) != crc:
        return None
    records, start = _content(data, codec, BATCH_V2.size, 2)
    if records is None:
        return None
    return Ordinary(
        data,
        2,
        Codec(codec),
        attributes,
        base,
        base + last_delta,
        base_timestamp,
        max_timestamp,
        producer_id,
        producer_epoch,
        base_sequence,
        count,
        records,
        start,
    )


def _wrapper(data: bytes, magic: int) -> Ordinary | None:
    offset, _, crc, _, attributes, *timestamp, key_length, length = _OLD[magic].unpack_from(data)
    codec = attributes & CODEC_MASK
    if codec >= Codec.ZSTD or attributes & LOG_APPEND_TIME or key_length != -1:
        return None
    if offset < 0 or length != len(data) - _OLD[magic].size or crc32(data[_CRC_OLD_FROM:]) != crc:
        return None
    records, start = _content(data, codec, _OLD[magic].size, magic)
    if records is None:
        return None
    largest = timestamp[0] if timestamp else NO_TIMESTAMP
    return Ordinary(
        data, magic, Codec(codec), attributes, 0, offset, NO_TIMESTAMP, largest, -1, -1, -1, -1, records, start
    )


def _content(data: bytes, codec: int, header: int, magic: int) -> tuple[bytes | None, int]:
    if not codec:
        return data, header
    records, error = decompress(codec, data[header:], magic=magic)
    return (None if error is not None else bytes(records)), 0
