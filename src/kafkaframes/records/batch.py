"""Records as Python values: for people, tools and tests. ``columns.py`` is the form for data.

``read_values`` walks batches as Kafka's iterators do and gives a ``Batch`` for each, with its records up to where Kafka
would stop, and the reason if that is before the end. Bad bytes never raise: a field that cannot be read is ``None``,
damage is a value (``Batch.damage``, ``Walk.end``).
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafkaframes.records import decode
from kafkaframes.records.decoded import Index, Sections, problem_of
from kafkaframes.records.fields import END_OF_TRANSACTION, control_type, coordinator_epoch
from kafkaframes.records.layout import (
    BATCH_V2,
    CODEC_MASK,
    CODECS,
    COLUMN,
    CONTROL,
    DELETE_HORIZON,
    LOG_APPEND_TIME,
    OVERHEAD_BYTES,
    TIMESTAMP_TYPES,
    TRANSACTIONAL,
)
from kafkaframes.records.limits import DEFAULT_LIMIT_BYTES
from kafkaframes.records.reasons import UNREADABLE_FIELD
from kafkaframes.records.scan import MEMORY, Batches, Bytes, End, as_array, check_crcs, runs_of, scan
from kafkaframes.wire.checksum import crc32
from kafkaframes.wire.primitives import java_text
from kafkaframes.wire.varint import read_varint

# Batches are decoded in groups of about this many bytes (compressed) and at most this many batches.
_GROUP_BYTES = 1 << 18
_GROUP_BATCHES = 512


_SHOWN_BYTES = 60
_SHOWN_HEADERS = 5


def show_bytes(value: bytes | None) -> str:
    """Return bytes as they are written in Python; of long ones the first, with the size.

    >>> show_bytes(b"paid"), show_bytes(None), show_bytes(b"x" * 1000)
    ("b'paid'", 'None', "b'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx'... (1,000 bytes)")
    """
    if value is None or len(value) <= _SHOWN_BYTES:
        return repr(value)
    return f"{bytes(value[:_SHOWN_BYTES])!r}... ({len(value):,} bytes)"


class Header(NamedTuple):
    """One header of a record; the key's bytes need not be UTF-8."""

    raw_key: bytes
    value: bytes | None

    @property
    def key(self) -> str:
        """The key as Java shows it."""
        return java_text(self.raw_key)


class Record(NamedTuple):
    """One record.

    Attributes:
        timestamp: milliseconds, -1 for none.
        timestamp_type: ``CreateTime``, ``LogAppendTime`` or ``NoTimestampType``, as its batch says.
        sequence: -1 where the batch has none.
        control: it belongs to a control batch.
        crc_ok: for formats 0 and 1, whether the message's own CRC fits; ``None`` for format 2.
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
        """Return one short line; of long keys, values and headers the first bytes, with the size."""
        headers = "".join(f", {one.key}={show_bytes(one.value)}" for one in self.headers[:_SHOWN_HEADERS])
        more = f", and {len(self.headers) - _SHOWN_HEADERS} headers" if len(self.headers) > _SHOWN_HEADERS else ""
        shown = f"key={show_bytes(self.key)}, value={show_bytes(self.value)}, timestamp={self.timestamp}"
        return f"<Record {self.offset}: {shown}{headers[:400]}{more}>"

    @property
    def control_type(self) -> str | None:
        """What a control record is; ``None`` for others.

        Raises:
            CorruptRecordError: its key cannot be read.
        """
        return control_type(self.key) if self.control else None

    @property
    def coordinator_epoch(self) -> int | None:
        """The coordinator's epoch of an ABORT or COMMIT marker; ``None`` for other records.

        Raises:
            CorruptRecordError: its key or value cannot be read.
        """
        is_marker = self.control_type in END_OF_TRANSACTION
        return coordinator_epoch(self.value) if is_marker else None


class Damage(NamedTuple):
    """Why a batch's records ended before their time.

    Attributes:
        status: a number of ``reasons.py``.
        reached: how many records Kafka's iterator hands out before it fails: one more than were readable where the
            last one's key or value is not.
    """

    status: int
    reason: str
    reached: int


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch of format 2, or one message of format 0 or 1 with all that a compressed one holds.

    A field that the batch is too short for is ``None``. ``count`` is the header's (format 2), else how many records
    were reached. ``base_offset`` of a compressed message is its first record's offset. Timestamps are milliseconds.
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
    damage: Damage | None


@dataclass(slots=True)
class Walk:
    """Iterate over batches; afterwards ``end`` says where and why the walk stopped."""

    data: Bytes
    position: int
    rules: str
    limit_bytes: int
    lenient: bool
    end: End | None = None

    def __iter__(self) -> Iterator[Batch]:
        position = self.position
        while True:
            result = scan(self.data, position=position, rules=self.rules)
            for first, last in runs_of(result.column("size"), _GROUP_BYTES, longest=_GROUP_BATCHES):
                yield from self._decode(result.part(first, last))
            if not result.end.goes_on:
                self.end = result.end
                return
            position = result.end.position

    def _decode(self, batches: Batches) -> Iterator[Batch]:
        sections = decode.open_sections(self.data, batches, limit_bytes=self.limit_bytes)
        index = decode.index_records(batches, sections, lenient=self.lenient)
        valid = check_crcs(self.data, batches).tolist()
        records = _records(batches, sections, index)
        first = 0
        for row, count in enumerate(index.rows.tolist()):
            fields = dict(zip(COLUMN, batches.table[:, row].tolist(), strict=True))
            problem = problem_of(row, index, sections)
            if self.lenient and fields["magic"] >= 2 and fields["count"] == 0:
                problem = None  # of a batch that says it is empty nothing is read
            damage, base = None, records[first].offset if count else None
            if problem is not None:
                unreadable = problem.status == UNREADABLE_FIELD and row not in sections.problems
                damage = Damage(problem.status, problem.reason, count + unreadable)
                if unreadable and not count and fields["attributes"] & CODEC_MASK:
                    base = _first_inner_offset(sections.buf[sections.starts[row] : sections.ends[row]].data, fields)
            yield _batch(fields, bool(valid[row]), tuple(records[first : first + count]), damage, base)
            first += count


def read_values(
    data: bytes | bytearray | memoryview,
    *,
    position: int = 0,
    rules: str = MEMORY,
    limit_bytes: int = DEFAULT_LIMIT_BYTES,
    lenient: bool = False,
) -> Walk:
    """Walk the batches in ``data`` from ``position`` on, with their records.

    Args:
        data: a log's bytes, whole.
        position: the byte at which the first batch starts.
        rules: ``scan.MEMORY`` or ``scan.FILE``.
        limit_bytes: the largest decompressed size of a batch; records within it are given.
        lenient: find records as Kafka's iterator does that skips keys and values. In compressed batches of format 2
            they may then be cut from the wrong place; in formats 0 and 1 those that reach past their message are null,
            and no damage. Of a batch of format 2 without compression Kafka's checks all, and this one does not.
    """
    return Walk(as_array(data), position, rules, limit_bytes, lenient)


def _records(batches: Batches, sections: Sections, index: Index) -> list[Record]:
    buf = sections.buf.tobytes() if sections.buf.size <= _GROUP_BYTES * 4 else sections.buf.data
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
                _headers(buf, headers_at, header_count) if header_count else (),
                sequence_of(sequences[owner], offset - bases[owner]) if is_v2 else -1,
                is_v2 and bool(flags & CONTROL),
                None if is_v2 else message_crc_fits(_message(buf, headers_at, end)),
            )
        )
    return result


def _headers(buf: bytes | memoryview, position: int, count: int) -> tuple[Header, ...]:
    result = []
    for _ in range(count):
        size, position = read_varint(buf, position)
        key = bytes(buf[position : position + size])
        size, position = read_varint(buf, position + size)
        result.append(Header(key, None if size < 0 else bytes(buf[position : position + size])))
        position += max(size, 0)
    return tuple(result)


def _message(buf: bytes | memoryview, at: int, end: int) -> bytes | memoryview:
    """Return the message of format 0 or 1 whose CRC stands at ``at``, from there on.

    One that is no wrapper is a section of its own, to ``end``; before an inner one (``end`` is 0) stands its size.
    """
    return buf[at : end or at + int.from_bytes(buf[at - 4 : at], "big")]


def message_crc_fits(message: bytes | memoryview) -> bool:
    """Whether a message of format 0 or 1, from its CRC on, has the CRC of its bytes."""
    return crc32(memoryview(message)[4:]) == int.from_bytes(message[:4], "big")


def sequence_of(base_sequence: int, delta: int) -> int:
    """Return a record's sequence number: it wraps from 2^31 - 1 to 0 (``DefaultRecordBatch.incrementSequence``).

    >>> sequence_of(2**31 - 2, 3), sequence_of(-1, 3)
    (1, -1)
    """
    if base_sequence < 0:
        return -1
    delta = _int32(delta)
    if base_sequence > _int32(2**31 - 1 - delta):
        return _int32(delta - (2**31 - 1 - base_sequence) - 1)
    return _int32(base_sequence + delta)


def _int32(value: int) -> int:
    return (value + 2**31) % 2**32 - 2**31


def _first_inner_offset(inner: memoryview, fields: dict[str, int]) -> int:
    """Return the offset of the first message in a compressed one, which can be read where its key or value cannot.

    Inner offsets of format 1 are relative: the last one's is the wrapper's (KIP-31), unless that is 0.
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


def _batch(
    fields: dict[str, int], valid: bool, records: tuple[Record, ...], damage: Damage | None, first_offset: int | None
) -> Batch:
    is_v2, flags = fields["magic"] >= 2, fields["attributes"]
    number = flags & CODEC_MASK

    def get(name: str) -> int | None:
        needed = BATCH_V2.end_of("last_offset_delta" if name == "last_offset" else name) if is_v2 else 0
        return fields[name] if needed <= fields["size"] else None

    base_offset: int | None = fields["base_offset"]
    if not is_v2 and number:  # what Kafka calls the base offset here is the first record's; there may be none
        base_offset = first_offset
    base_sequence, last_offset = get("base_sequence"), get("last_offset")
    last_sequence = None
    if base_sequence is not None and last_offset is not None:
        delta = last_offset - fields["base_offset"]
        last_sequence = -1 if base_sequence == -1 else _last_sequence(base_sequence, delta)
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
        max_timestamp=get("max_timestamp"),
        base_timestamp=get("base_timestamp"),
        producer_id=get("producer_id"),
        producer_epoch=get("producer_epoch"),
        base_sequence=base_sequence,
        last_sequence=last_sequence,
        leader_epoch=get("leader_epoch"),
        transactional=is_v2 and bool(flags & TRANSACTIONAL),
        control=is_v2 and bool(flags & CONTROL),
        delete_horizon=get("base_timestamp") if is_v2 and flags & DELETE_HORIZON else None,
        count=_count(get("count"), records, damage) if is_v2 else _count(None, records, damage),
        records=records,
        damage=damage,
    )


def _last_sequence(base_sequence: int, delta: int) -> int:
    """Add the last offset delta as Kafka does, which does not look at the sign of the base here."""
    if base_sequence >= 0:
        return sequence_of(base_sequence, delta)
    return _int32(base_sequence + delta)


def _count(stored: int | None, records: tuple[Record, ...], damage: Damage | None) -> int:
    if stored is not None:
        return stored
    return damage.reached if damage is not None else len(records)
