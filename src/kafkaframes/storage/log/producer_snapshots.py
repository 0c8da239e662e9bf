"""Which producer snapshots a partition has after Kafka has loaded it, and what is in them (KIP-98).

Kafka's ProducerStateManager and UnifiedLog.rebuildProducerState, on snapshots in memory: nothing is written
here. A snapshot is deleted when it lies beyond the offset that is being recovered, or is corrupt, or stray; one is
taken after each recovered segment, at the last two segments and at the log's end.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.broker_release import DEFAULT_EXPIRATION_MS
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.producer_snapshot import ProducerEntry, read_producer_snapshot, write_producer_snapshot
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.files.segment_reader import SegmentReader
from kafkaframes.storage.log.producer_state import ProducerStates
from kafkaframes.storage.log.rebuild import with_producers
from kafkaframes.storage.log.transactions import Marker

_FEWEST_BUCKETS = 16
_LOAD_FACTOR = 0.75
Replay = Callable[[int, int], Iterator[tuple[BatchHeader, tuple[Marker, ...]]]]


@dataclass(slots=True)
class StoredSnapshots:
    """The snapshots of one partition, and the settings that decide which of them stay.

    Attributes:
        snapshots: the files' bytes, by the offset in their names.
        now_ms: the clock at loading; producers that have been idle for ``expiration_ms`` are forgotten.
        record_format: of the topic; below 2 (``message.format.version``, before 4.0) snapshots are empty.
    """

    snapshots: dict[int, bytes]
    now_ms: int
    expiration_ms: int = DEFAULT_EXPIRATION_MS
    record_format: int = 2

    def remove_stray(self, bases: Iterable[int]) -> None:
        """Drop snapshots that belong to no segment, except the last one if it lies beyond every segment."""
        known = set(bases)
        strays = sorted(offset for offset in self.snapshots if offset not in known)
        keep_last = bool(strays) and strays[-1] >= max(known, default=strays[-1])
        for offset in strays[:-1] if keep_last else strays:
            del self.snapshots[offset]


@dataclass(slots=True)
class ProducerLoad:
    """A ProducerStateManager. Kafka makes one for every segment that it recovers, and one for the log.

    Attributes:
        stored: the snapshots, shared by all of these of a partition.
        states: every producer's.
        map_end: the offset up to which ``states`` is complete.
        last_snapshot: the offset of the snapshot that was loaded or taken last.
    """

    stored: StoredSnapshots
    states: ProducerStates = field(default_factory=ProducerStates)
    map_end: int = 0
    last_snapshot: int = 0

    def take_snapshot(self) -> None:
        """Write a snapshot at ``map_end``, unless the last one is there already."""
        if self.map_end > self.last_snapshot:
            self.stored.snapshots[self.map_end] = write_producer_snapshot(in_file_order(self.states.entries.values()))
            self.last_snapshot = self.map_end

    def rebuild(
        self, bases: Sequence[int], *, start_offset: int, end_offset: int, is_clean: bool, replay: Replay
    ) -> None:
        """Update the producers up to ``end_offset``, and take the snapshots that Kafka takes meanwhile.

        Args:
            bases: of the segments that are there, ascending.
            start_offset: of the log.
            end_offset: up to which batches count.
            is_clean: after a clean stop a log without snapshots is not replayed: an old broker wrote it.
            replay: ``replay(base, from_offset)`` yields the batches with a producer of one segment.
        """
        due = [*bases[-2:], end_offset]
        if self.stored.record_format < 2 or (not self.stored.snapshots and is_clean):
            for offset in due:
                self.map_end = offset
                self.take_snapshot()
            return
        is_empty = not self.states.entries and self.map_end >= end_offset
        self._reload(start_offset, end_offset)
        if end_offset > self.map_end and not is_empty:
            self._replay(bases, due, start_offset, end_offset, replay)
        self.map_end = end_offset
        self.take_snapshot()

    def _replay(self, bases: Sequence[int], due: list[int], start_offset: int, end_offset: int, replay: Replay) -> None:
        holds_end = max((base for base in bases if base <= end_offset), default=None)
        for base in _between(bases, self.map_end, end_offset):
            self.map_end = max(base, self.map_end, start_offset)
            if base in due:
                self.take_snapshot()
            for header, markers in replay(base, self.map_end):
                if base == holds_end and header.last_offset >= end_offset:
                    break
                self.states.see(header, markers)

    def _reload(self, start_offset: int, end_offset: int) -> None:
        for offset in [one for one in self.stored.snapshots if one > end_offset or one <= start_offset]:
            del self.stored.snapshots[offset]
        if end_offset != self.map_end:
            self.states = ProducerStates()
            self.last_snapshot = self.map_end = self._load(start_offset)
        else:
            self.map_end = max(self.map_end, start_offset)
            self.last_snapshot = max(self.stored.snapshots, default=start_offset)

    def _load(self, start_offset: int) -> int:
        for offset in sorted(self.stored.snapshots, reverse=True):
            try:
                self.states = ProducerStates(read_producer_snapshot(self.stored.snapshots[offset]))
            except LogDirError:  # Kafka deletes it and tries the one before
                del self.stored.snapshots[offset]
                continue
            self.states.drop_expired(self.stored.now_ms, self.stored.expiration_ms)
            return offset
        return start_offset


def _between(bases: Sequence[int], start: int, end: int) -> list[int]:
    """Return the segments that may hold offsets from ``start`` up to ``end``."""
    first = max(bisect_right(bases, start) - 1, 0)
    return [base for base in bases[first:] if base < end]


def replay_of(filesystem: FileSystem, segments: dict[int, Segment]) -> Replay:
    """Return the function with which ``ProducerLoad.rebuild`` reads batches."""

    def replay(base: int, from_offset: int) -> Iterator[tuple[BatchHeader, tuple[Marker, ...]]]:
        segment = segments.get(base)
        if segment is None:  # a swap of which truncation has left nothing
            return
        with filesystem.open(segment.path) as read_at:
            reader = SegmentReader(filesystem, segment, read_at, use_indexes=False)
            for window in scan_segment(read_at, size_bytes=segment.size_bytes, file=segment.path):
                for header, markers in with_producers(reader, window.batches):
                    if header.last_offset >= from_offset:
                        yield header, markers

    return replay


def in_file_order(entries: Iterable[ProducerEntry]) -> list[ProducerEntry]:
    """Sort producers as Kafka writes them: in the order of a Java HashMap, so by bucket, then by first sight."""
    listed = list(entries)
    buckets = _FEWEST_BUCKETS
    while len(listed) > buckets * _LOAD_FACTOR:
        buckets *= 2
    return sorted(listed, key=lambda entry: _bucket(entry.producer_id, buckets))


def _bucket(producer_id: int, buckets: int) -> int:
    hashed = (producer_id ^ (producer_id >> 32)) & 0xFFFFFFFF
    return (hashed ^ (hashed >> 16)) & (buckets - 1)
