"""The short way to write an ordinary set anew: another codec or format, or inner offsets with holes.

Kafka's paths are in the table of ``validator.py``. One kernel reads the records into a table of places, another writes
them in the target's format; Python runs per batch, never per record.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np

from kafkaframes.log.append import _kernels_rebuild as kernels
from kafkaframes.log.append.desk import range_of
from kafkaframes.log.append.ordinary import NO_TIMESTAMP, Ordinary
from kafkaframes.log.append.settings import REASSIGN, AppendSettings
from kafkaframes.records.codecs import Codec, compress
from kafkaframes.records.layout import BATCH_V2, LOG_APPEND_TIME, OVERHEAD_BYTES, TRANSACTIONAL
from kafkaframes.wire.checksum import crc32, crc32c

_V2 = struct.Struct(">" + "".join(field.format for field in BATCH_V2.fields))
_CRC_AT, _CRC_FROM = BATCH_V2.place_of("crc"), BATCH_V2.end_of("crc")
Table = np.ndarray[Any, np.dtype[np.int64]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Rebuilt(NamedTuple):
    """A set written anew, how many records it has, its largest timestamp, and the size of what was read (bytes)."""

    records: bytes
    records_count: int
    max_timestamp: int
    uncompressed_bytes: int


class _Read(NamedTuple):
    """The records as places in ``buf``."""

    buf: Bytes
    rows: Table
    largest: int
    contiguous: bool


def rebuild(sent: Ordinary, offset: int, settings: AppendSettings) -> Rebuilt | None:
    """Write an ordinary set anew; ``None`` where Kafka would take it in place or refuse it, or anything is odd."""
    target = settings.target_codec(sent.codec)
    same = target is sent.codec and sent.magic == settings.magic
    if not _can_be_written(sent, settings, target) or (same and target is Codec.NONE):
        return None
    found = _read(sent, settings)
    if found is None or (same and not _must_be_written(sent, settings, found)):
        return None
    records = _written(sent, found, offset, settings, target)
    if settings.max_batch_bytes is not None and len(records) > settings.max_batch_bytes:
        return None
    size = len(sent.records) - sent.start
    return Rebuilt(records, len(found.rows), _reported(found, settings), size)


def _can_be_written(sent: Ordinary, settings: AppendSettings, target: Codec) -> bool:
    transactional = bool(sent.attributes & TRANSACTIONAL) and sent.magic >= 2
    if settings.magic < 2:
        return not transactional and sent.producer_id < 0 and target is not Codec.ZSTD
    if sent.producer_id < 0:
        return not transactional and sent.producer_id == -1
    return sent.producer_epoch != -1


def _must_be_written(sent: Ordinary, settings: AppendSettings, found: _Read) -> bool:
    """Whether a set that already has the target's codec and format cannot be taken in place."""
    if sent.magic == 2:
        return not found.contiguous and settings.on_noncontiguous == REASSIGN
    return sent.magic == 0 or not found.contiguous


def _read(sent: Ordinary, settings: AppendSettings) -> _Read | None:
    buf = np.frombuffer(sent.records, np.uint8)
    least = kernels.LEAST_BYTES[sent.magic]
    most = (len(buf) - sent.start) // least
    if sent.records_count > most:
        return None
    rows = np.empty((sent.records_count if sent.magic == 2 else most, kernels.COLUMNS), np.int64)
    limits = (*range_of(settings), settings.compacted)
    if sent.magic == 2:
        count, largest, contiguous = kernels.read_batch(
            buf, sent.start, sent.base_offset, sent.base_timestamp, *limits, settings.magic >= 2, rows
        )
    else:
        count, largest, contiguous = kernels.read_messages(buf, sent.magic, sent.last_offset, *limits, rows)
    return _Read(buf, rows[:count], largest, bool(contiguous)) if count else None


def _written(sent: Ordinary, found: _Read, offset: int, settings: AppendSettings, target: Codec) -> bytes:
    out = np.empty(len(sent.records) - sent.start + kernels.MOST_OVERHEAD * len(found.rows), np.uint8)
    if settings.magic >= 2:
        size = kernels.write_batch(found.buf, found.rows, out)
        return _batch(sent, found, compress(target, out[:size].data, level=settings.level), offset, settings, target)
    relative = settings.magic == 1 and target is not Codec.NONE
    append_time = settings.append_time and settings.magic == 1
    size = kernels.write_messages(
        found.buf,
        found.rows,
        settings.magic,
        0 if relative else offset,
        LOG_APPEND_TIME if append_time else 0,
        settings.now_ms if append_time else NO_TIMESTAMP,
        out,
    )
    plain = out[:size].data
    return bytes(plain) if target is Codec.NONE else _wrapper(found, plain, offset, settings, target)


def _batch(sent: Ordinary, found: _Read, records: bytes, offset: int, settings: AppendSettings, target: Codec) -> bytes:
    header = bytearray(
        _V2.pack(
            offset,
            BATCH_V2.size - OVERHEAD_BYTES + len(records),
            settings.leader_epoch,
            2,
            0,
            target | sent.attributes & TRANSACTIONAL | (LOG_APPEND_TIME if settings.append_time else 0),
            len(found.rows) - 1,
            int(found.rows[0, kernels.TIMESTAMP]),
            settings.now_ms if settings.append_time else found.largest,
            sent.producer_id,
            sent.producer_epoch,
            sent.base_sequence,
            len(found.rows),
        )
    )
    struct.pack_into(">I", header, _CRC_AT, crc32c(records, crc32c(bytes(header[_CRC_FROM:]))))
    return bytes(header) + records


def _wrapper(found: _Read, plain: memoryview, offset: int, settings: AppendSettings, target: Codec) -> bytes:
    """Wrap a compressed set into one message: no key, the offset of the last, the largest timestamp."""
    inner = compress(target, plain, level=settings.level, magic=settings.magic)
    kind = LOG_APPEND_TIME if settings.append_time and settings.magic else 0
    largest = settings.now_ms if settings.append_time else found.largest
    timestamp = struct.pack(">q", largest) if settings.magic else b""
    checked = b"".join((bytes((settings.magic, target | kind)), timestamp, struct.pack(">ii", -1, len(inner)), inner))
    return struct.pack(">qiI", offset + len(found.rows) - 1, 4 + len(checked), crc32(checked)) + checked


def _reported(found: _Read, settings: AppendSettings) -> int:
    if settings.append_time:
        return settings.now_ms
    return NO_TIMESTAMP if settings.magic == 0 else found.largest
