"""Batches that a producer sends: cut out of built bytes, stamped with producer id, epoch and sequence. Pure.

A stamp changes a format 2 header and its CRC and nothing else, so that a batch is built (and compressed) once,
no matter who sends it and however often it is renumbered.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.records.layout import BATCH_V2, TRANSACTIONAL
from kafkaframes.records.scan import scan_all
from kafkaframes.wire.checksum import crc32c

if TYPE_CHECKING:
    import asyncio

NO_PRODUCER_ID: Final = -1


class Producer(NamedTuple):
    """Who produces (KIP-98): an id and epoch that the transaction coordinator gave out."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1


class Stamp(NamedTuple):
    """What a producer puts into a batch's header beside the records."""

    producer: Producer = Producer()
    base_sequence: int = -1
    transactional: bool = False


NOT_STAMPED: Final = Stamp()


class RecordMetadata(NamedTuple):
    """Where a record went. ``offset`` is -1 without acks; ``timestamp`` the broker's own if the topic takes that."""

    topic: str
    partition: int
    offset: int
    timestamp: int


@dataclass(slots=True, eq=False)
class Batch:
    """One batch (formats 0 and 1: one message set) on its way to one partition.

    Attributes:
        data: the bytes.
        count: how many sequence numbers, so how many offsets, it takes.
        created: seconds of the sender's clock.
        done: a future of the base offset and the append time that the broker gave.
        stamped: what stands in the header.
        number: the sequence that it has, and keeps when it is sent again; None before it is first sent.
        order: among all batches of the producer, in the order they were put.
        in_doubt: it was written to a connection, and no answer says what became of it.
    """

    partition: TopicPartition
    data: bytes
    count: int
    created: float
    done: asyncio.Future[tuple[int, int]]
    stamped: Stamp = NOT_STAMPED
    number: Stamp | None = None
    order: int = 0
    in_doubt: bool = False
    attempts: int = 0
    not_before: float = 0.0

    def stamp(self) -> None:
        """Put its number into the header, unless it is there already."""
        number = self.number
        if number is not None and self.stamped != number:
            self.data = stamped(self.data, number.producer, number.base_sequence, transactional=number.transactional)
            self.stamped = number


_CRC_AT: Final = BATCH_V2.position_of("crc")
_ATTRIBUTES_AT: Final = BATCH_V2.position_of("attributes")
_PRODUCER_AT: Final = BATCH_V2.position_of("producer_id")
_BASE_OFFSET_0: Final = bytes(8)
_PRODUCER: Final = struct.Struct(">qhi")


def stamped(data: bytes, producer: Producer, base_sequence: int, *, transactional: bool) -> bytes:
    """Return a format 2 batch with this producer, sequence and transactional bit, and a CRC that fits."""
    changed = bytearray(data)
    (attributes,) = struct.unpack_from(">h", changed, _ATTRIBUTES_AT)
    attributes = attributes | TRANSACTIONAL if transactional else attributes & ~TRANSACTIONAL
    struct.pack_into(">h", changed, _ATTRIBUTES_AT, attributes)
    _PRODUCER.pack_into(changed, _PRODUCER_AT, *producer, base_sequence)
    struct.pack_into(">I", changed, _CRC_AT, crc32c(memoryview(changed)[_ATTRIBUTES_AT:]))
    return bytes(changed)


def split(data: bytes) -> Iterator[tuple[bytes, int]]:
    """Cut built format 2 batches apart; give each with the count of its offsets.

    Each gets base offset 0 (outside of the CRC): a broker takes offsets that count from 0 without a look inside.
    """
    batches = scan_all(data)
    columns = (batches.column(name).tolist() for name in ("position", "size", "base_offset", "last_offset"))
    whole = memoryview(data)
    for position, size, base, last in zip(*columns, strict=True):
        part = whole[position : position + size]
        yield bytes(part) if not base else b"".join((_BASE_OFFSET_0, part[8:])), last - base + 1
