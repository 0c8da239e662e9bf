"""Split encoded bytes into a producer's batches, and stamp each batch with producer id, epoch and sequence.

A stamp changes only the batch header and its CRC. A batch is therefore built and compressed only once, even if it is
renumbered several times. Only format 2 batches can be stamped. The functions do no I/O.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.errors import CorruptRecordError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.records.layout import BATCH_V2, TRANSACTIONAL
from kafkaframes.records.scan import scan_all
from kafkaframes.wire.checksum import crc32c

if TYPE_CHECKING:
    import asyncio

    from kafkaframes.errors import KafkaframesError

NO_PRODUCER_ID: Final = -1


class ProducerIdentity(NamedTuple):
    """The identity of an idempotent or transactional producer.

    Attributes:
        producer_id: producer id; -1 if none is assigned.
        epoch: producer epoch; -1 if none is assigned.
    """

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1


class BatchStamp(NamedTuple):
    """The fields of a batch header that a producer sets in addition to the records."""

    producer: ProducerIdentity = ProducerIdentity()
    base_sequence: int = -1
    transactional: bool = False


NO_STAMP: Final = BatchStamp()  # stamp of a batch without producer id


class RecordMetadata(NamedTuple):
    """The result of a sent record.

    Attributes:
        topic: topic name.
        partition: partition number.
        offset: offset of the record; -1 with ``acks=0``.
        timestamp: timestamp in milliseconds since 1970: the broker's if the topic uses LogAppendTime, else the record's
            own.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int


class PartResult(NamedTuple):
    """The result of consecutive records of one batch. A batch that was split has several results (KIP-126).

    Attributes:
        first: position of the first record in the batch, from 0.
        records: number of records.
        base_offset: offset of the first record; -1 with ``acks=0``.
        append_time: time of append in ms if the broker stamps records itself, else -1.
        error: reason why the records are not, or may not be, in the log; None if they are in the log.
    """

    first: int
    records: int
    base_offset: int = -1
    append_time: int = -1
    error: Exception | None = None


class WrittenBatches(list[int]):
    """The batches that ``send_batches`` has written: a list of the offsets of their first records.

    Attributes:
        divided_count: number of batches that were larger than the leader accepts: their records were decoded and
            written in smaller batches.
    """

    def __init__(self, base_offsets: Iterable[int] = (), *, divided_count: int = 0) -> None:
        """Create a list of offsets, with the number of split batches."""
        super().__init__(base_offsets)
        self.divided_count = divided_count


@dataclass(slots=True, eq=False)
class BatchDelivery:
    """The result of a batch, which is complete when every record has a result.

    Attributes:
        results: a future with the results for all parts, in order. The future never ends in an exception.
        open_records: number of records without a result.
        is_split: whether the batch was split, because it was larger than a leader accepts.
    """

    results: asyncio.Future[list[PartResult]]
    open_records: int
    is_split: bool = False
    parts: list[PartResult] = field(default_factory=list)

    def add(self, part: PartResult) -> None:
        """Add the result of a part of the batch."""
        self.parts.append(part)
        self.open_records -= part.records
        if not self.open_records and not self.results.done():
            self.results.set_result(sorted(self.parts, key=attrgetter("first")))


@dataclass(slots=True, eq=False)
class Batch:
    """A batch to send to one partition (in formats 0 and 1, a message set).

    Attributes:
        data: encoded batch.
        count: number of offsets in the batch, which is also the number of its sequences.
        created_at: time of creation, in seconds of the sender's clock.
        delivery: object that collects the batch's result. The parts of a split batch share one delivery.
        first: position of the first record in the batch before it was split.
        header_stamp: stamp in the batch header.
        assigned_stamp: base sequence, kept for retries; None before the batch is first sent.
        order: position among the partition's batches, in the order of ``enqueue``.
        in_doubt: whether the batch was written to a connection and its result is unknown.
        last_error: rejection or connection error after which the batch was last retried.
        is_reported: whether the caller has the result. A batch with an expired ``delivery_timeout_ms`` stays
            in flight until the leader responds, because the response is needed for the sequences.
    """

    partition: TopicPartition
    data: bytes
    count: int
    created_at: float
    delivery: BatchDelivery
    first: int = 0
    header_stamp: BatchStamp = NO_STAMP
    assigned_stamp: BatchStamp | None = None
    order: int = 0
    in_doubt: bool = False
    attempts: int = 0
    last_error: KafkaframesError | None = None
    not_before: float = 0.0
    is_reported: bool = False

    def write_assigned_stamp(self) -> None:
        """Write the assigned producer id, epoch and sequence into the batch header, unless it has them already."""
        stamp = self.assigned_stamp
        if stamp is not None and self.header_stamp != stamp:
            self.data = stamp_batch(self.data, stamp.producer, stamp.base_sequence, transactional=stamp.transactional)
            self.header_stamp = stamp


_CRC_POSITION: Final = BATCH_V2.position_of("crc")
_ATTRIBUTES_POSITION: Final = BATCH_V2.position_of("attributes")
_PRODUCER_POSITION: Final = BATCH_V2.position_of("producer_id")
_ZERO_BASE_OFFSET: Final = bytes(8)
_PRODUCER_STRUCT: Final = struct.Struct(">qhi")  # producer id, producer epoch, base sequence


def stamp_batch(data: bytes, producer: ProducerIdentity, base_sequence: int, *, transactional: bool) -> bytes:
    """Return a format 2 batch with this producer, base sequence and transactional bit, and a matching CRC."""
    buffer = bytearray(data)
    (attributes,) = struct.unpack_from(">h", buffer, _ATTRIBUTES_POSITION)
    attributes = attributes | TRANSACTIONAL if transactional else attributes & ~TRANSACTIONAL
    struct.pack_into(">h", buffer, _ATTRIBUTES_POSITION, attributes)
    _PRODUCER_STRUCT.pack_into(buffer, _PRODUCER_POSITION, *producer, base_sequence)
    struct.pack_into(">I", buffer, _CRC_POSITION, crc32c(memoryview(buffer)[_ATTRIBUTES_POSITION:]))
    return bytes(buffer)


def split_batches(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Split encoded bytes into format 2 batches. Yield each batch with the number of its offsets.

    Each batch gets the base offset 0, which the CRC does not cover. A broker accepts such offsets without
    recompression.

    Raises:
        CorruptRecordError: the bytes are not complete batches of format 2. The error is raised before the first batch
            is yielded.
    """
    batches = scan_all(data)
    position = batches.end.position
    if position < len(data):
        remaining_text = count_text(len(data) - position, "byte")
        raise CorruptRecordError(
            f"{remaining_text} at the end {verb_text(len(data) - position)} not a complete batch: {batches.end.reason}",
            position=position,
        )
    if not batches.is_v2.all():
        position = int(batches.column("position")[~batches.is_v2][0])
        raise CorruptRecordError("only batches of format 2 can be written unchanged", position=position)
    columns = (batches.column(name).tolist() for name in ("position", "size", "base_offset", "last_offset"))
    whole = memoryview(data)
    for position, size, base, last in zip(*columns, strict=True):
        part = whole[position : position + size]
        yield reset_base_offset(part), last - base + 1


def reset_base_offset(batch: bytes | memoryview) -> bytes:
    """Return a format 2 batch with base offset 0. The CRC does not cover the base offset."""
    return b"".join((_ZERO_BASE_OFFSET, batch[8:]))
