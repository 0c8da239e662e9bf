"""A few records as one batch of format 2, in plain Python: what coordinators write, many times a second.

``records.build_records`` writes the same bytes; for one or two records its set-up costs more than the work.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from kafkaframes.records.layout import BATCH_V2, CONTROL, TRANSACTIONAL
from kafkaframes.wire.checksum import crc32c

_HEADER = struct.Struct(">qiibIhiqqqhii")
_BEFORE_CRC = BATCH_V2.end_of("crc")
_OVERHEAD = 12  # base offset and length, which the length does not count
assert _HEADER.size == BATCH_V2.size


def _varint(number: int) -> bytes:
    """Return a signed number zig-zag coded."""
    value = (number << 1) ^ (number >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_NULL = _varint(-1)


def _blob(data: bytes | None) -> bytes:
    return _NULL if data is None else _varint(len(data)) + data


def _record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\x00\x00" + _varint(delta) + _blob(key) + _blob(value) + b"\x00"
    return _varint(len(body)) + body


def build_batch(
    records: Sequence[tuple[bytes | None, bytes | None]],
    *,
    timestamp_ms: int,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    transactional: bool = False,
    control: bool = False,
    leader_epoch: int = -1,
    base_offset: int = 0,
) -> bytearray:
    """Return one uncompressed batch of format 2; every record has the same timestamp, and no headers.

    Args:
        records: (key, value) of each; at least one.
        timestamp_ms: of all of them.
        producer_id, producer_epoch, base_sequence, transactional, control, leader_epoch, base_offset: of its header.
    """
    body = b"".join(_record(delta, key, value) for delta, (key, value) in enumerate(records))
    header = bytearray(
        _HEADER.pack(
            base_offset,
            _HEADER.size - _OVERHEAD + len(body),
            leader_epoch,
            2,
            0,
            TRANSACTIONAL * transactional | CONTROL * control,
            len(records) - 1,
            timestamp_ms,
            timestamp_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            len(records),
        )
    )
    batch = header + body
    struct.pack_into(">I", batch, _BEFORE_CRC - 4, crc32c(memoryview(batch)[_BEFORE_CRC:]))
    return batch


def build_marker(
    *, commit: bool, timestamp_ms: int, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
) -> bytearray:
    """Return the control batch that ends a transaction: one record, COMMIT or ABORT (KIP-98)."""
    record = struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, coordinator_epoch)
    return build_batch(
        [record],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )
