"""``N.snapshot``: what the broker knew of each producer before offset N (Kafka's ProducerStateManager, KIP-98).

Version int16 (1), CRC-32C of everything after itself, count int32, and 46 bytes a producer. Of the five batches that a
broker remembers in memory only the last one is written.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass

from kafkaframes.errors import LogDirError
from kafkaframes.wire.checksum import crc32c

_HEADER = struct.Struct(">hIi")
_CRC_FROM = 6
_ENTRY = struct.Struct(">qhiqiqiq")
VERSION = 1


@dataclass(frozen=True, slots=True)
class ProducerEntry:
    """One producer, in the file's order of fields.

    Attributes:
        last_sequence: of its last data batch; -1 where there is none (a marker of transactions protocol 2 clears it).
        last_offset: of its last data batch; -1 likewise.
        offset_delta: last minus first offset of that batch.
        timestamp: of its last batch or marker, milliseconds since 1970.
        coordinator_epoch: of its last marker; -1 before the first.
        current_txn_first_offset: where its open transaction began; -1 without one.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def read_producer_snapshot(raw: bytes, *, file: str | None = None) -> tuple[ProducerEntry, ...]:
    """Read a producer snapshot, in the file's order.

    Raises:
        LogDirError: version, CRC, count or size are wrong (Kafka then deletes the file and replays the log).
    """
    if len(raw) < _HEADER.size:
        raise LogDirError(f"{len(raw)} bytes are no producer snapshot", position=len(raw), file=file)
    version, crc, count = _HEADER.unpack_from(raw)
    if version != VERSION:
        raise LogDirError(f"unknown version {version} of a producer snapshot", position=0, file=file)
    computed = crc32c(memoryview(raw)[_CRC_FROM:])
    if computed != crc:
        raise LogDirError(f"CRC is {computed:#010x}, the file says {crc:#010x}", position=2, file=file)
    if count < 0 or _HEADER.size + count * _ENTRY.size != len(raw):
        raise LogDirError(f"{count} producers do not make {len(raw)} bytes", position=_CRC_FROM, file=file)
    return tuple(ProducerEntry(*fields) for fields in _ENTRY.iter_unpack(raw[_HEADER.size :]))


def write_producer_snapshot(producers: Iterable[ProducerEntry]) -> bytes:
    """Write a producer snapshot, in the order given."""
    listed = [
        _ENTRY.pack(
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            one.last_offset,
            one.offset_delta,
            one.timestamp,
            one.coordinator_epoch,
            one.current_txn_first_offset,
        )
        for one in producers
    ]
    body = struct.pack(">i", len(listed)) + b"".join(listed)
    return struct.pack(">hI", VERSION, crc32c(body)) + body
