"""Records and batches as Python values, for inspection, tools and tests; ``columns.py`` is for large data.

``read_batches`` iterates over batches as Kafka does. The iterator yields a ``Batch`` for each batch, with the records
up to where Kafka would stop, and the reason if Kafka would stop before the end of the batch. Damaged bytes never raise
an error: an unreadable field is ``None``, and damage is reported in ``Batch.damage`` and ``BatchWalk.end``.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafkaframes.records import decode
from kafkaframes.records.decoded import RecordIndex, RecordSections, find_problem
from kafkaframes.records.fields import END_MARKER_TYPES, parse_control_type, parse_coordinator_epoch
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    CODECS,
    COLUMN_INDEX,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    OVERHEAD_BYTES,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
)
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES
from kafkaframes.records.reasons import UNREADABLE_FIELD
from kafkaframes.records.scan import (
    MEMORY,
    BatchHeaders,
    Bytes,
    Ints,
    ScanEnd,
    as_array,
    check_crcs,
    scan_batches,
    split_into_runs,
)
from kafkaframes.wire.checksum import crc32
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import decode_java_text
from kafkaframes.wire.varint import read_varint

# Batches are decoded in groups of about this many compressed bytes, and at most this many batches.
_DECODE_GROUP_BYTES = 1 << 18
_DECODE_GROUP_BATCHES = 512


_MAX_PRINTED_BYTES = 60
_MAX_PRINTED_HEADERS = 5


def format_bytes(value: bytes | None) -> str:
    """Return bytes as a Python literal. Long bytes are truncated and followed by their size.

    >>> format_bytes(b"paid"), format_bytes(None), format_bytes(b"x" * 1000)
    ("b'paid'", 'None', "b'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'... (1,000 bytes)")
    """
    if value is None or len(value) <= _MAX_PRINTED_BYTES:
        return repr(value)
    return f"{bytes(value[:_MAX_PRINTED_BYTES])!r}... ({len(value):,} bytes)"


class Header(NamedTuple):
    """A record header. The bytes of the key need not be UTF-8."""

    raw_key: bytes
    value: bytes | None

    @property
    def key(self) -> str:
        """The key decoded as Java does: U+FFFD replaces bytes that are not UTF-8."""
        return decode_java_text(self.raw_key)


class Record(NamedTuple):
    """A record: offset, timestamp, key, value and headers as Python values.

    Attributes:
        timestamp: timestamp in milliseconds; -1 if the record has none.
        timestamp_type: ``CreateTime``, ``LogAppendTime`` or ``NoTimestampType``, from the batch header.
        sequence: sequence number; -1 if the batch has none.
        control: whether the record is in a control batch.
        crc_ok: whether the message's own CRC is right (formats 0 and 1); None in format 2.
    """

    offset: int
    timestamp: int
    timestamp_type: str
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...]
    sequence: int
    control: bool
    crc_ok: bool | None

    def __repr__(self) -> str:
        """Return the record as a short line. Long keys, values and headers are truncated and followed by their size."""
        headers = "".join(
            f", {header.key}={format_bytes(header.value)}" for header in self.headers[:_MAX_PRINTED_HEADERS]
        )
        unprinted_count = len(self.headers) - _MAX_PRINTED_HEADERS
        more = f", and {unprinted_count} headers" if unprinted_count > 0 else ""
        fields = f"key={format_bytes(self.key)}, value={format_bytes(self.value)}, timestamp={self.timestamp}"
        return f"<Record {self.offset}: {fields}{headers[:400]}{more}>"

    @property
    def control_type(self) -> str | None:
        """The type of a control record; None for other records.

        Raises:
            CorruptRecordError: the record's key is invalid.
        """
        return parse_control_type(self.key) if self.control else None

    @property
    def coordinator_epoch(self) -> int | None:
        """The coordinator epoch of an ABORT or COMMIT marker; None for other records.

        Raises:
            CorruptRecordError: the record's key or value is invalid.
        """
        is_marker = self.control_type in END_MARKER_TYPES
        return parse_coordinator_epoch(self.value) if is_marker else None


class BatchDamage(NamedTuple):
    """The reason why a batch has fewer readable records than its header states.

    Attributes:
        status: a status code of ``reasons.py``.
        reason: the damage as text.
        reached: number of records that Kafka's iterator returns before it fails. The number is one more than the
            readable records if the key or value of the next record exceeds its message.
    """

    status: int
    reason: str
    reached: int


@dataclass(frozen=True, slots=True)
class Batch:
    """A format 2 batch, or a message of format 0 or 1 with the messages inside it.

    Fields after the end of a truncated header are ``None``. ``count`` is the header's record count (format 2) or the
    number of records that were read. ``base_offset`` of a compressed message is the offset of its first record.
    Timestamps are in milliseconds.
    """

    position: int
    size: int
    magic: int
    valid: bool
    crc: int
    base_offset: int | None
    last_offset: int | None
    codec: str | None
    timestamp_type: str
    max_timestamp: int | None
    base_timestamp: int | None
    producer_id: int | None
    producer_epoch: int | None
    base_sequence: int | None
    last_sequence: int | None
    leader_epoch: int | None
    transactional: bool
    control: bool
    delete_horizon: int | None
    count: int
    records: tuple[Record, ...]
    damage: BatchDamage | None


@dataclass(slots=True)
class BatchWalk:
    """Iterates over batches. After the iteration, ``end`` states where and why it stopped."""

    data: Bytes
    position: int
    rules: str
    limit_bytes: int
    lenient: bool
    end: ScanEnd | None = None

    def __iter__(self) -> Iterator[Batch]:
        position = self.position
        while True:
            result = scan_batches(self.data, position=position, rules=self.rules)
            for first, last in split_into_runs(
                result.column("size"), _DECODE_GROUP_BYTES, max_count=_DECODE_GROUP_BATCHES
            ):
                yield from self._decode_batches(result.part(first, last))
            if not result.end.can_continue:
                self.end = result.end
                return
            position = result.end.position

    def _decode_batches(self, batches: BatchHeaders) -> Iterator[Batch]:
        sections = decode.open_sections(self.data, batches, limit_bytes=self.limit_bytes)
        index = decode.index_records(batches, sections, lenient=self.lenient)
        valid = check_crcs(self.data, batches).tolist()
        records = _make_records(batches, sections, index)
        first = 0
        for row, count in enumerate(index.rows.tolist()):
            fields = dict(zip(COLUMN_INDEX, batches.table[:, row].tolist(), strict=True))
            problem = find_problem(row, index, sections)
            if self.lenient and fields["magic"] >= 2 and fields["count"] == 0:
                problem = None  # a lenient reader does not read a batch with a count of 0
            damage, base = None, records[first].offset if count else None
            if problem is not None:
                unreadable = problem.status == UNREADABLE_FIELD and row not in sections.problems
                damage = BatchDamage(problem.status, problem.reason, count + unreadable)
                if unreadable and not count and fields["attributes"] & CODEC_MASK:
                    base = _find_first_inner_offset(
                        sections.buf[sections.starts[row] : sections.ends[row]].data, fields
                    )
            yield _make_batch(fields, bool(valid[row]), tuple(records[first : first + count]), damage, base)
            first += count


def read_batches(
    data: bytes | bytearray | memoryview,
    *,
    position: int = 0,
    rules: str = MEMORY,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    lenient: bool = False,
) -> BatchWalk:
    """Iterate over the batches in ``data`` from ``position`` on, with their records.

    Args:
        data: the bytes of a whole log segment.
        position: position of the first batch, in bytes.
        rules: ``scan.MEMORY`` or ``scan.FILE``.
        limit_bytes: largest decompressed size of a batch; records within this limit are returned.
        lenient: whether records are only checked like in the Kafka iterator that skips keys and values. In compressed
            batches of format 2, this mode may misplace keys and values. In formats 0 and 1 a key or value that exceeds
            its message is null without being damage. In uncompressed format 2 batches, Kafka checks all fields, but
            this mode does not.
    """
    return BatchWalk(as_array(data), position, rules, limit_bytes, lenient)


def read_offsets_and_timestamps(data: bytes, *, rules: str = MEMORY) -> tuple[Ints, Ints]:
    """Return the offsets and the timestamps of the records that ``read_batches`` returns for the first batch.

    Keys, values and headers are not copied.
    """
    array = as_array(data)
    batches = scan_batches(array, rules=rules).part(0, 1)
    index = decode.index_records(batches, decode.open_sections(array, batches, limit_bytes=DEFAULT_LIMIT_BYTES))
    return index.offsets, index.timestamps


def _make_records(batches: BatchHeaders, sections: RecordSections, index: RecordIndex) -> list[Record]:
    """Return the records of each decoded batch as Python values."""
    buf = sections.buf.tobytes() if sections.buf.size <= _DECODE_GROUP_BYTES * 4 else sections.buf.data
    owners = np.repeat(np.arange(len(batches)), index.rows).tolist()
    magics, attributes = batches.column("magic").tolist(), batches.column("attributes").tolist()
    bases, sequences = batches.column("base_offset").tolist(), batches.column("base_sequence").tolist()
    ends = sections.ends.tolist()
    result = []
    rows = zip(*(column.tolist() for column in index[:8]), owners, strict=True)
    for offset, stamp, key_at, key_size, value_at, value_size, headers_at, header_count, owner in rows:
        flags, is_v2 = attributes[owner], magics[owner] >= 2
        end = 0 if flags & CODEC_MASK else ends[owner]
        result.append(
            Record(
                offset,
                stamp,
                _timestamp_type(magics[owner], flags),
                None if key_size < 0 else bytes(buf[key_at : key_at + key_size]),
                None if value_size < 0 else bytes(buf[value_at : value_at + value_size]),
                _read_headers(buf, headers_at, header_count) if header_count else (),
                compute_sequence(sequences[owner], offset - bases[owner]) if is_v2 else -1,
                is_v2 and bool(flags & CONTROL),
                None if is_v2 else is_message_crc_valid(_get_message_bytes(buf, headers_at, end)),
            )
        )
    return result


def _read_headers(buf: bytes | memoryview, position: int, count: int) -> tuple[Header, ...]:
    """Return the headers that start at a position."""
    result = []
    for _ in range(count):
        size, position = read_varint(buf, position)
        key = bytes(buf[position : position + size])
        size, position = read_varint(buf, position + size)
        result.append(Header(key, None if size < 0 else bytes(buf[position : position + size])))
        position += max(size, 0)
    return tuple(result)


def _get_message_bytes(buf: bytes | memoryview, value_position: int, end: int) -> bytes | memoryview:
    """Return the bytes of a message of format 0 or 1, from its CRC on.

    An uncompressed message ends at ``end``. For an inner message ``end`` is 0, and its size precedes the CRC.
    """
    return buf[value_position : end or value_position + int.from_bytes(buf[value_position - 4 : value_position], "big")]


def is_message_crc_valid(message: bytes | memoryview) -> bool:
    """Return whether the CRC of a message of format 0 or 1 is right; ``message`` starts with the CRC."""
    return crc32(memoryview(message)[4:]) == int.from_bytes(message[:4], "big")


def compute_sequence(base_sequence: int, delta: int) -> int:
    """Return a record's sequence number: it wraps from 2^31 - 1 to 0 (``DefaultRecordBatch.incrementSequence``).

    >>> compute_sequence(2**31 - 2, 3), compute_sequence(-1, 3)
    (1, -1)
    """
    if base_sequence < 0:
        return -1
    delta = _int32(delta)
    if base_sequence > _int32(MAX_INT32 - delta):
        return _int32(delta - (MAX_INT32 - base_sequence) - 1)
    return _int32(base_sequence + delta)


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _find_first_inner_offset(inner: memoryview, fields: dict[str, int]) -> int:
    """Return the offset of the first message inside a compressed message, even if its key or value is unreadable.

    Inner offsets of format 1 are relative: the last one equals the wrapper's offset (KIP-31), unless that is 0.
    """
    first, size = struct.unpack_from(">qi", inner)
    last, position = first, 0
    while position + OVERHEAD_BYTES <= len(inner):
        offset, size = struct.unpack_from(">qi", inner, position)
        position += OVERHEAD_BYTES + size
        last = offset if position <= len(inner) else last
    is_relative = fields["magic"] == 1 and fields["base_offset"] != 0
    return int(first + (fields["base_offset"] - last if is_relative else 0))


def _timestamp_type(magic: int, attributes: int) -> str:
    return TIMESTAMP_TYPES[-1 if magic == 0 else int(bool(attributes & LOG_APPEND_TIME))]


def _make_batch(
    fields: dict[str, int],
    valid: bool,
    records: tuple[Record, ...],
    damage: BatchDamage | None,
    first_offset: int | None,
) -> Batch:
    """Return a batch with its header fields and records as Python values."""
    is_v2, flags = fields["magic"] >= 2, fields["attributes"]
    number = flags & CODEC_MASK

    def get_field(name: str) -> int | None:
        """Return a header field; None if the header ends before it."""
        end = BATCH_V2.end_of("last_offset_delta" if name == "last_offset" else name) if is_v2 else 0
        return fields[name] if end <= fields["size"] else None

    base_offset: int | None = fields["base_offset"]
    if not is_v2 and number:  # Kafka's base offset of a wrapper is that of its first record, if there is one
        base_offset = first_offset
    base_sequence, last_offset = get_field("base_sequence"), get_field("last_offset")
    last_sequence = None
    if base_sequence is not None and last_offset is not None:
        delta = last_offset - fields["base_offset"]
        last_sequence = -1 if base_sequence == -1 else _compute_last_sequence(base_sequence, delta)
    return Batch(
        position=fields["position"],
        size=fields["size"],
        magic=fields["magic"],
        valid=valid,
        crc=fields["crc"],
        base_offset=base_offset,
        last_offset=last_offset,
        codec=CODECS[number] if number < len(CODECS) else None,
        timestamp_type=_timestamp_type(fields["magic"], flags),
        max_timestamp=get_field("max_timestamp"),
        base_timestamp=get_field("base_timestamp"),
        producer_id=get_field("producer_id"),
        producer_epoch=get_field("producer_epoch"),
        base_sequence=base_sequence,
        last_sequence=last_sequence,
        leader_epoch=get_field("leader_epoch"),
        transactional=is_v2 and bool(flags & TRANSACTIONAL),
        control=is_v2 and bool(flags & CONTROL),
        delete_horizon=get_field("base_timestamp") if is_v2 and flags & DELETE_HORIZON else None,
        count=_count_records(get_field("count"), records, damage) if is_v2 else _count_records(None, records, damage),
        records=records,
        damage=damage,
    )


def _compute_last_sequence(base_sequence: int, delta: int) -> int:
    """Return the last record's sequence number as Kafka computes it, regardless of the sign of the base sequence."""
    if base_sequence >= 0:
        return compute_sequence(base_sequence, delta)
    return _int32(base_sequence + delta)


def _count_records(header_count: int | None, records: tuple[Record, ...], damage: BatchDamage | None) -> int:
    """Return the record count of the header, or the number of records that were read."""
    if header_count is not None:
        return header_count
    return damage.reached if damage is not None else len(records)
