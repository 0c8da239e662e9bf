"""Internal topics, to which coordinators append their state, and from which they load the state after a restart."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafkaframes.broker.state.topics import GROUP_OFFSETS, SHARE_GROUP_STATE, Partition
from kafkaframes.coordination.groups.ports import LoadedRecord, Record
from kafkaframes.records.batch import Batch, read_batches
from kafkaframes.records.layout import BATCH_V2, CONTROL, TRANSACTIONAL
from kafkaframes.records.scan import FILE
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.producers import COORDINATOR
from kafkaframes.storage.partition import PartitionLog
from kafkaframes.storage.partition.fetch import LOG_END
from kafkaframes.wire.checksum import crc32c
from kafkaframes.wire.integers import MAX_INT64
from kafkaframes.wire.varint import write_varlong

# Encode a few records as one batch of format 2 in plain Python. Coordinators append such batches, often many times per
# second. ``records.build_records`` encodes the same bytes, but its set-up costs more than the work for one or two
# records.

_BATCH_HEADER = struct.Struct(">qiibIhiqqqhii")
_CRC_END = BATCH_V2.end_of("crc")  # end of the CRC field in a batch header
_LOG_OVERHEAD_BYTES = 12  # bytes of base offset and length, which the length does not include
assert _BATCH_HEADER.size == BATCH_V2.size


def _encode_varint(number: int) -> bytes:
    out = bytearray()
    write_varlong(out, number)
    return bytes(out)


_NULL_VARINT = _encode_varint(-1)


def _blob(data: bytes | None) -> bytes:
    return _NULL_VARINT if data is None else _encode_varint(len(data)) + data


def _encode_record(delta: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"\x00\x00" + _encode_varint(delta) + _blob(key) + _blob(value) + b"\x00"
    return _encode_varint(len(body)) + body


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
    """Return keys and values as one uncompressed batch of format 2, with the same timestamp and without headers."""
    body = b"".join(_encode_record(delta, key, value) for delta, (key, value) in enumerate(records))
    header = bytearray(
        _BATCH_HEADER.pack(
            base_offset,
            _BATCH_HEADER.size - _LOG_OVERHEAD_BYTES + len(body),
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
    struct.pack_into(">I", batch, _CRC_END - 4, crc32c(memoryview(batch)[_CRC_END:]))
    return batch


def build_marker(
    *, commit: bool, timestamp_ms: int, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
) -> bytearray:
    """Return the control batch that ends a transaction, with a COMMIT or ABORT record (KIP-98)."""
    record = _encode_marker_key(commit=commit), struct.pack(">hi", 0, coordinator_epoch)
    return build_batch(
        [record],
        timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        transactional=True,
        control=True,
    )


def _encode_marker_key(*, commit: bool) -> bytes:
    """Return the key of a control record: its version, and the type of the marker."""
    return struct.pack(">hh", 0, int(commit))


_CHUNK_BYTES = 1 << 20  # bytes of a log that are read at once
# Base sequences that Kafka's coordinators set in these topics.
_BASE_SEQUENCES = {GROUP_OFFSETS: 0, SHARE_GROUP_STATE: 0}
KeyValue = tuple[bytes | None, bytes | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class InternalTopics:
    """The internal topics of a broker.

    Attributes:
        partition_of: function that returns a topic's partition, and creates the topic if it does not exist.
        partitions: function that returns the existing partitions of a topic.
        appended: function that is called after each append, to start flushes and wake waiting fetches.
    """

    partition_of: Callable[[str, int], Partition]
    partitions: Callable[[str], Sequence[Partition]]
    now_ms: Callable[[], int]
    appended: Callable[[Partition], None]

    def append(
        self,
        topic: str,
        partition: int,
        records: Sequence[KeyValue],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
        transactional: bool = False,
    ) -> int:
        """Append records; return the offset of the first record.

        With ``log`` durability, the records are written when ``append`` returns. With ``fsync``, the server delays all
        responses until earlier appends are flushed.

        Raises:
            AppendRefusedError: the log rejects the records, for example because a transaction's producer is fenced.
            StorageError: the disk fails.
        """
        data = build_batch(
            records,
            timestamp_ms=self.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=_BASE_SEQUENCES.get(topic, -1),
            transactional=transactional,
        )
        return self._append(self.partition_of(topic, partition), data)

    def write_marker(
        self, partition: Partition, *, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
    ) -> int:
        """Append the marker that ends a producer's transaction in any partition; return its offset.

        Raises:
            AppendRefusedError: the producer epoch is older than the producer's epoch in the log.
            StorageError: the disk fails.
        """
        data = build_marker(
            commit=commit,
            timestamp_ms=self.now_ms(),
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            coordinator_epoch=coordinator_epoch,
        )
        return self._append(partition, data)

    def _append(self, partition: Partition, data: bytearray) -> int:
        log = partition.log
        info = log.append_as_leader(data, leader_epoch=partition.leader_epoch, now_ms=self.now_ms(), origin=COORDINATOR)
        log.update_high_watermark(log.log_end_offset)
        self.appended(partition)
        return info.first_offset

    def replay(self, topic: str) -> Iterator[LoadedRecord]:
        """Yield every record of an internal topic, partition by partition, in offset order."""
        for partition in self.partitions(topic):
            start_offset = partition.log.log_start_offset
            for batch in read_log_batches(partition.log):
                yield from _iterate_records(partition.index, batch, start_offset)


class RecordsInMemory:
    """The state of a read-only broker's coordinators: the latest record of each key, and transaction markers.

    One marker is kept for each partition and producer, because a read-only broker accepts no new transactions.
    """

    def __init__(self) -> None:
        self._records: dict[str, dict[tuple[int, bytes | int | None], LoadedRecord]] = {}
        self._count = 0

    def append(self, topic: str, partition: int, records: Sequence[Record], *, now_ms: int) -> None:
        """Add records to a partition of an internal topic."""
        latest = self._records.setdefault(topic, {})
        for key, value in records:
            latest.pop((partition, key), None)  # moves the record to the end
            latest[partition, key] = LoadedRecord(partition, self._count, now_ms, key, value, -1, -1, False, False)
            self._count += 1

    def add_marker(
        self, topic_partition: TopicPartition, *, commit: bool, producer_id: int, producer_epoch: int, now_ms: int
    ) -> None:
        """Add the marker that ends a producer's transaction in a partition of any topic."""
        key = _encode_marker_key(commit=commit)
        marker = LoadedRecord(
            topic_partition.partition,
            self._count,
            now_ms,
            key,
            None,
            producer_id,
            producer_epoch,
            is_transactional=True,
            is_marker=True,
        )
        self._records.setdefault(topic_partition.topic, {}).setdefault((topic_partition.partition, producer_id), marker)
        self._count += 1

    def markers(self) -> Iterator[tuple[TopicPartition, LoadedRecord]]:
        """Yield the markers of all topics, each with its partition."""
        for topic, records in self._records.items():
            for record in records.values():
                if record.is_marker:
                    yield TopicPartition(topic, record.partition), record

    def replay(self, topic: str) -> Iterator[LoadedRecord]:
        """Yield the records and markers of an internal topic, in the order in which they were added."""
        yield from tuple(self._records.get(topic, {}).values())


def read_log_batches(log: PartitionLog) -> Iterator[Batch]:
    """Yield the batches of a log. The first batch may have records before the log start offset.

    A segment without records still has batches, because compaction keeps the last batch of each producer.
    """
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        next_offset = offset
        for batch in read_batches(log.read(offset, max_bytes=_CHUNK_BYTES, isolation=LOG_END).records, rules=FILE):
            yield batch
            if batch.last_offset is not None:
                next_offset = max(next_offset, batch.last_offset + 1)
        if next_offset == offset:
            return
        offset = next_offset


def _iterate_records(partition: int, batch: Batch, start_offset: int) -> Iterator[LoadedRecord]:
    """Yield the records of a batch at or above an offset."""
    producer = (-1, -1) if batch.producer_id is None else (batch.producer_id, batch.producer_epoch or 0)
    for record in batch.records:
        if start_offset <= record.offset <= MAX_INT64:
            yield LoadedRecord(
                partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                *producer,
                batch.transactional,
                batch.control,
            )
