"""The state of each producer at the end of a log, built from a snapshot and then batch by batch (KIP-98, KIP-890).

Kafka's ProducerStateManager, without its locks: recovery writes it as snapshots, the cleaner asks which batch must stay
so that a producer's last sequence or epoch is not forgotten. First the generations of brokers that differ in how they
clean, load and recover a log: also in when they forget a producer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kafkaframes.errors import LogDirError
from kafkaframes.records.batch import sequence_of
from kafkaframes.storage.files.directory import Partition
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.producer_files import ProducerEntry, read_producer_snapshot
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.transactions import Marker, markers_of

# The broker's generation: 2.8 (and all before 3.1) has no delete horizons (KIP-534) and judges tombstones and markers
# by file times; 3.9 has them and keeps formats; 4.x writes formats 0 and 1 anew as format 2 (KAFKA-13093).
BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD = "2.8", "3.9", "4.x"
# Before producer.id.expiration.ms (KIP-854) producers were kept for transactional.id.expiration.ms.
OLD_EXPIRATION_MS = 604_800_000
DEFAULT_EXPIRATION_MS = 86_400_000  # producer.id.expiration.ms
BROKER_RELEASES = (BEFORE_HORIZONS, KEEPS_FORMATS, REWRITES_OLD)


def expiration_of(broker_release: str, expiration_ms: int | None) -> int:
    """Return after how many milliseconds a broker forgets a producer that writes nothing."""
    if expiration_ms is not None:
        return expiration_ms
    return OLD_EXPIRATION_MS if broker_release == BEFORE_HORIZONS else DEFAULT_EXPIRATION_MS


NONE = -1


class ProducerStates:
    """Every producer's state, by producer id, in the order in which they were first seen."""

    def __init__(self, entries: Iterable[ProducerEntry] = ()) -> None:
        self.entries: dict[int, ProducerEntry] = {entry.producer_id: entry for entry in entries}

    def drop_expired(self, now_ms: int, expiration_ms: int = DEFAULT_EXPIRATION_MS) -> None:
        """Drop producers without an open transaction that have expired, as loading a snapshot does."""
        self.entries = {
            producer_id: entry
            for producer_id, entry in self.entries.items()
            if entry.current_txn_first_offset != NONE or now_ms - entry.timestamp < expiration_ms
        }

    def see(self, header: BatchHeader, markers: Iterable[Marker]) -> None:
        """Update the state with a batch that has a producer id: data, or a control batch with its markers."""
        if header.is_control:
            # A control batch that the cleaner has emptied adds its producer, without any other state.
            self.entries.setdefault(header.producer_id, self._entry(header.producer_id, NONE))
            for marker in markers:
                self.marker(marker, header.max_timestamp)
        else:
            self.data(header)

    def data(self, header: BatchHeader) -> None:
        """Update the state with a data batch."""
        if header.producer_id <= NONE:
            return
        entry = self._entry(header.producer_id, header.producer_epoch)
        opens = header.is_transactional and entry.current_txn_first_offset == NONE
        delta = header.last_offset - header.base_offset
        self.entries[header.producer_id] = entry._replace(
            last_sequence=sequence_of(header.base_sequence, delta),
            last_offset=header.last_offset,
            offset_delta=delta,
            timestamp=header.max_timestamp,
            current_txn_first_offset=header.base_offset if opens else entry.current_txn_first_offset,
        )

    def marker(self, marker: Marker, timestamp_ms: int) -> None:
        """Update the state with the end of a transaction; a new epoch (KIP-890) clears the last sequence."""
        entry = self._entry(marker.producer_id, marker.producer_epoch)
        self.entries[marker.producer_id] = entry._replace(
            timestamp=timestamp_ms,
            coordinator_epoch=marker.coordinator_epoch,
            current_txn_first_offset=NONE,
        )

    def _entry(self, producer_id: int, epoch: int) -> ProducerEntry:
        entry = self.entries.get(producer_id)
        if entry is None or entry.producer_epoch != epoch:
            kept = (NONE, NONE) if entry is None else (entry.coordinator_epoch, entry.current_txn_first_offset)
            return ProducerEntry(producer_id, epoch, NONE, NONE, 0, NONE, *kept)
        return entry

    @property
    def first_open_offset(self) -> int | None:
        """Where the earliest open transaction began."""
        opened = [
            entry.current_txn_first_offset for entry in self.entries.values() if entry.current_txn_first_offset != NONE
        ]
        return min(opened, default=None)


def load_producer_states(
    filesystem: FileSystem,
    partition: Partition,
    *,
    now_ms: int,
    end_offset: int,
    expiration_ms: int = DEFAULT_EXPIRATION_MS,
) -> ProducerStates:
    """Return the producers as a broker has them that starts on this partition at ``now_ms``.

    The latest snapshot at or below ``end_offset`` that can be read, without expired producers, and the batches after
    it. If a snapshot is corrupt, an earlier one is used.

    Raises:
        LogDirError: a segment cannot be read.
    """
    states, from_offset = _latest_snapshot(filesystem, partition, end_offset)
    states.drop_expired(now_ms, expiration_ms)
    for header, markers in _batches_from(filesystem, partition, from_offset, end_offset):
        states.see(header, markers)
    return states


def _latest_snapshot(filesystem: FileSystem, partition: Partition, end_offset: int) -> tuple[ProducerStates, int]:
    usable = [file for file in partition.producer_snapshots if file.name.offset <= end_offset]
    for file in sorted(usable, key=lambda file: file.name.offset, reverse=True):
        try:
            entries = read_producer_snapshot(filesystem.read(file.path), file=file.path)
        except LogDirError:
            continue
        return ProducerStates(entries), file.name.offset
    return ProducerStates(), partition.log_start_offset


def _batches_from(
    filesystem: FileSystem, partition: Partition, from_offset: int, end_offset: int
) -> Iterator[tuple[BatchHeader, tuple[Marker, ...]]]:
    """Yield the batches of format 2 that have a producer, with the markers of control batches."""
    nexts = [segment.base_offset for segment in partition.segments[1:]] + [end_offset]
    for segment, next_base in zip(partition.segments, nexts, strict=False):  # there may be no segment
        if next_base <= from_offset:
            continue
        with open_segment(filesystem, segment) as reader:
            for header in reader.producer_headers(reader.start_before(from_offset)):
                if header.last_offset >= from_offset and header.magic >= 2 and header.producer_id > NONE:
                    yield header, tuple(markers_of(reader, header)) if header.is_control else ()
