"""Select the range of an open log to compact, if a compaction is due (LogCleanerManager), without reading files."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Partition
from kafkaframes.storage.files import directory
from kafkaframes.storage.files.names import FileName, TopicPartition
from kafkaframes.storage.files.producer_files import AbortedTransaction, ProducerEntry
from kafkaframes.storage.partition import PartitionLog
from kafkaframes.storage.partition.segment import LogSegment

_CLEANER_TOPIC_SETTINGS = (
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
)


@dataclass(frozen=True, slots=True)
class CleaningRange:
    """The range of a log to compact, with the log's state at the start of the round.

    Attributes:
        dirty: first uncompacted offset.
        end: end of the range: a segment's base offset.
        segments: all segments of the log, by base offset.
        partition: directory listing of the segments.
        log_end_offset, high_watermark, aborted, producers: state of the log at the start of the round.
        now_ms, delete_retention_ms: times that decide which tombstones are removed.
        ratio: dirty ratio, the share of uncompacted bytes in the compactable bytes.
    """

    key: TopicPartition
    log: PartitionLog
    dirty: int
    end: int
    segments: dict[int, LogSegment]
    partition: directory.Partition
    log_end_offset: int
    high_watermark: int
    aborted: tuple[AbortedTransaction, ...]
    producers: tuple[ProducerEntry, ...]
    now_ms: int
    delete_retention_ms: int
    ratio: float


def find_cleaning_range(broker: BrokerState, partition: Partition) -> CleaningRange | None:
    """Return the range of a log to compact; None if no compaction is due."""
    log, key = partition.log, partition.topic_partition
    topic = broker.topics.get(key.topic)
    if topic is None:
        return None
    text = {name: broker.settings.get_topic_value(name, topic.configs) for name in _CLEANER_TOPIC_SETTINGS}
    dirty = _find_first_dirty_offset(log, broker.logs.cleaner_offsets.get(key))
    now_ms = broker.clock.now_ms
    end = _find_first_uncleanable_offset(log, dirty, now_ms=now_ms, lag_ms=int(text["min.compaction.lag.ms"]))
    sizes = {segment.base_offset: segment.size_bytes for segment in log.segments if segment.base_offset < end}
    cleanable = sum(size for base, size in sizes.items() if base >= dirty)
    is_late = _exceeds_max_lag(log, dirty, end, now_ms - int(text["max.compaction.lag.ms"]))
    ratio = cleanable / sum(sizes.values()) if cleanable else 0.0
    if not cleanable or not (is_late or ratio > float(text["min.cleanable.dirty.ratio"])):
        return None
    return CleaningRange(
        key,
        log,
        dirty,
        end,
        segments={segment.base_offset: segment for segment in log.segments},
        partition=directory.Partition(key, log.directory, segments=tuple(map(_list_segment_files, log.segments))),
        log_end_offset=log.log_end_offset,
        high_watermark=log.high_watermark,
        aborted=tuple(
            transaction for segment in log.segments for transaction in segment.txn_index.aborted_transactions
        ),
        producers=tuple(log.producers.entries()),
        now_ms=now_ms,
        delete_retention_ms=int(text["delete.retention.ms"]),
        ratio=ratio,
    )


def _find_first_dirty_offset(log: PartitionLog, checkpoint_offset: int | None) -> int:
    """Return the end offset of the last compaction. A checkpoint outside of the log is ignored (LogCleanerManager)."""
    start = log.log_start_offset
    return (
        start
        if checkpoint_offset is None or not start <= checkpoint_offset <= log.log_end_offset
        else checkpoint_offset
    )


def _find_first_uncleanable_offset(log: PartitionLog, dirty: int, *, now_ms: int, lag_ms: int) -> int:
    """Return the first offset that must not be compacted.

    Such an offset is in the active segment, unstable, not replicated, or too recent.
    """
    segments = list(log.segments)
    limits = [log.segments.active.base_offset, log.last_stable_offset, log.high_watermark]
    for segment, next_segment in pairwise(segments) if lag_ms > 0 else ():
        if next_segment.base_offset > dirty and segment.largest_timestamp > now_ms - lag_ms:
            limits.append(segment.base_offset)
            break
    end = min(limits)
    return max((segment.base_offset for segment in segments if segment.base_offset <= end), default=end)


def _exceeds_max_lag(log: PartitionLog, dirty: int, end: int, oldest_ms: int) -> bool:
    """Return whether a dirty record is older than ``max.compaction.lag.ms`` (KIP-354)."""
    segments = (segment for segment in log.segments if dirty <= segment.base_offset < end)
    return any(0 <= segment.first_timestamp < oldest_ms for segment in segments)


def _list_segment_files(segment: LogSegment) -> directory.Segment:
    """Return a segment with its index files, as the cleaner expects them."""
    base = segment.base_offset

    def file(kind: str, path: str, size_bytes: int) -> directory.LogFile:
        return directory.LogFile(FileName(base, kind), path, size_bytes, segment.read_modification_time())

    return directory.Segment(
        file("log", segment.path, segment.size_bytes),
        file("index", segment.index.path, segment.index.size_bytes),
        file("timeindex", segment.time_index.path, segment.time_index.size_bytes),
    )
