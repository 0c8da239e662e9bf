"""Batches that a producer sends: cut out of built bytes, stamped with producer id, epoch and sequence. Pure.

A stamp changes a format 2 header and its CRC and nothing else, so that a batch is built (and compressed) once,
whoever sends it and however often it is renumbered.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple

from kafkaframes.client.metadata import TopicPartition
from kafkaframes.records.layout import BATCH_V2, TRANSACTIONAL
from kafkaframes.records.scan import scan_all
from kafkaframes.wire.checksum import crc32c

NO_PRODUCER_ID: Final = -1


class Producer(NamedTuple):
    """Who produces (KIP-98): an id and epoch that the transaction coordinator gave out."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = -1


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
        base_sequence: -1 before it is stamped.
        done: a future of the base offset and the append time that the broker gave.
    """

    partition: TopicPartition
    data: bytes
    count: int
    created: float
    done: asyncio.Future[tuple[int, int]]
    base_sequence: int = -1
    place: int = 0  # among all batches of the sender, in the order they were put
    attempts: int = 0
    not_before: float = 0.0

    def stamp(self, producer: Producer, base_sequence: int, *, transactional: bool) -> None:
        """Put the producer into the header."""
        self.data = stamped(self.data, producer, base_sequence, transactional=transactional)
        self.base_sequence = base_sequence


_CRC_AT: Final = BATCH_V2.place_of("crc")
_ATTRIBUTES_AT: Final = BATCH_V2.place_of("attributes")
_PRODUCER_AT: Final = BATCH_V2.place_of("producer_id")
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
    for position, size, base, last in zip(*columns, strict=True):
        yield bytes(8) + data[position + 8 : position + size], last - base + 1
