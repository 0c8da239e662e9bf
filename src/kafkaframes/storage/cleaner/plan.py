"""Plan a round of cleaning: its range of offsets, and the segments to merge (Kafka's LogCleanerManager).

Planning reads only names, sizes, times, batch headers and the small files of the partition.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from kafkaframes.errors import OptionError
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.findings import Finding
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.producer_state import (
    BEFORE_HORIZONS,
    BROKER_RELEASES,
    REWRITES_OLD,
    get_producer_expiration_ms,
    load_producer_states,
)
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.swaps import swap_findings
from kafkaframes.storage.log.transactions import read_transactions, rebuild_txn_indexes
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

# ---------------------------------------------------------------------------------------------------------------------
# The settings of a round of cleaning: topic configuration, broker generation and time.


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSettings:
    """The settings for one cleaning of a partition. The settings have the same names and defaults as in Kafka.

    Attributes:
        now_ms: time of the round, in milliseconds since 1970.
        broker_release: broker release that determines the rules.
        delete_retention_ms: time for which tombstones and markers are retained after their first cleaning.
        segment_bytes: ``segment.bytes``; largest size of merged segments.
        index_bytes: ``segment.index.bytes``; largest size of the indexes of merged segments.
        min_compaction_lag_ms: minimum age of records that are cleaned.
        expiration_ms: ``producer.id.expiration.ms``; None selects the broker's default (a day; a week in 2.8).
        first_dirty_offset: end offset of the previous round; None reads it from ``cleaner-offset-checkpoint``.
        high_watermark: end of the committed records; None selects the log end offset.
    """

    now_ms: int
    broker_release: str = REWRITES_OLD
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = 1 << 30
    index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    min_compaction_lag_ms: int = 0
    expiration_ms: int | None = None
    first_dirty_offset: int | None = None
    high_watermark: int | None = None

    def __post_init__(self) -> None:
        if self.broker_release not in BROKER_RELEASES:
            raise OptionError(
                f"broker_release must be one of {', '.join(BROKER_RELEASES)}, not {self.broker_release!r}"
            )

    @property
    def has_horizons(self) -> bool:
        """Whether batches carry the time at which tombstones and markers may be removed (KIP-534)."""
        return self.broker_release != BEFORE_HORIZONS

    @property
    def keeps_last_of_round(self) -> bool:
        """Whether a cleaning retains its last batch even if it is empty, to preserve the offset (KAFKA-17076, 4.0)."""
        return self.broker_release == REWRITES_OLD


# ---------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CleaningPlan:
    """The offset range that one cleaning of a partition covers, and the transactions in it.

    Attributes:
        first_dirty_offset: start of the dirty part. Keys of the records from this offset on are added to the offset
            map.
        first_uncleanable_offset: base offset of the first segment that the round does not change.
        aborted_transactions: aborted transactions of the partition, in the order of their markers.
        findings: transaction indexes that differ from the markers, and swap files that are read as segments.
        txn_indexes: correct content of the transaction indexes that differ, by base offset of their segments.
    """

    partition: Partition
    first_dirty_offset: int
    first_uncleanable_offset: int
    reason: str
    log_end_offset: int
    high_watermark: int
    aborted_transactions: tuple[AbortedTransaction, ...]
    producers: Producers
    findings: tuple[Finding, ...] = ()
    txn_indexes: Mapping[int, bytes] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to clean."""
        first, end = self.first_dirty_offset, self.first_uncleanable_offset
        return end <= first or not any(segment.size_bytes for segment in self.list_segments_between(first, end))

    def list_aborted_transactions(self, start: int, end: int) -> list[AbortedTransaction]:
        """Return the aborted transactions that overlap offsets from ``start`` to before ``end``."""
        return [
            transaction
            for transaction in self.aborted_transactions
            if transaction.last_offset >= start and transaction.first_offset < end
        ]

    def list_segments_between(self, start: int, end: int) -> list[Segment]:
        """Return the segments that may contain offsets from ``start`` to before ``end``."""
        segments = self.partition.segments
        nexts = [segment.base_offset for segment in segments[1:]] + [MAX_INT64]
        return [
            segment
            for segment, next_base in zip(segments, nexts, strict=True)
            if next_base > start and segment.base_offset < end
        ]


def plan_round(filesystem: FileSystem, partition: Partition, settings: CleanerSettings) -> CleaningPlan:
    """Find the cleanable range of a partition.

    Raises:
        LogDirError: a segment cannot be read.
    """
    state = read_transactions(filesystem, partition)
    end = state.log_end_offset
    producers = Producers()
    if state.has_producers or partition.producer_snapshots:
        producers = load_producer_states(
            filesystem,
            partition,
            now_ms=settings.now_ms,
            end_offset=end,
            expiration_ms=get_producer_expiration_ms(settings.broker_release, settings.expiration_ms),
        )
    high_watermark = end if settings.high_watermark is None else settings.high_watermark
    dirty = _find_first_dirty_offset(partition, settings, end)
    limits = [(partition.segments[-1].base_offset, "the active segment is never cleaned")] if partition.segments else []
    # A broker replays its log from the log start; earlier transactions are only in a snapshot.
    open_offsets = [offset for offset in state.open.values() if offset >= partition.log_start_offset]
    limits += [(offset, "an open transaction") for offset in (*producers.open, *open_offsets)]
    if settings.broker_release != BEFORE_HORIZONS:  # 2.8 always cleans up to the active segment
        limits.append((high_watermark, "the high watermark"))
    lagging = _find_first_lagging_base(filesystem, partition, settings, dirty)
    if lagging is not None:
        limits.append((lagging, f"younger than min.compaction.lag.ms ({settings.min_compaction_lag_ms})"))
    uncleanable, reason = min(limits)
    return CleaningPlan(
        partition,
        dirty,
        _find_segment_base(partition.segments, uncleanable),
        reason,
        end,
        high_watermark,
        state.aborted_transactions,
        producers,
        (*swap_findings(partition), *state.findings),
        rebuild_txn_indexes(partition, state.aborted_transactions, state.findings),
    )


def _find_first_dirty_offset(partition: Partition, settings: CleanerSettings, end: int) -> int:
    start = partition.log_start_offset
    dirty = settings.first_dirty_offset
    if dirty is None:
        dirty = partition.checkpointed_offsets.get(names.CLEANER_CHECKPOINT, start)
    return dirty if start <= dirty <= end else start


def _find_first_lagging_base(
    filesystem: FileSystem, partition: Partition, settings: CleanerSettings, dirty: int
) -> int | None:
    """Return the base offset of the first dirty segment with a record younger than the compaction lag."""
    if settings.min_compaction_lag_ms <= 0:
        return None
    lag_limit_ms = settings.now_ms - settings.min_compaction_lag_ms
    for segment, following in pairwise(partition.segments):
        if following.base_offset > dirty and largest_timestamp(filesystem, segment) > lag_limit_ms:
            return segment.base_offset
    return None


def largest_timestamp(filesystem: FileSystem, segment: Segment) -> int:
    """Return a segment's largest timestamp; the file's modification time if no record has one, as in Kafka."""
    with open_segment(filesystem, segment) as reader:
        largest = reader.largest_timestamp
    return largest if largest >= 0 else segment.log.mtime_ms or 0


def _find_segment_base(segments: Sequence[Segment], offset: int) -> int:
    """Return the base offset of the segment that contains an offset."""
    below = [segment.base_offset for segment in segments if segment.base_offset <= offset]
    return below[-1] if below else offset


def group_segments(
    segments: Sequence[Segment], settings: CleanerSettings, first_uncleanable_offset: int
) -> list[list[Segment]]:
    """Group adjacent segments whose total size before the cleaning fits into one segment."""
    groups: list[list[Segment]] = []
    nexts = [segment.base_offset for segment in segments[1:]] + [first_uncleanable_offset]
    sizes = (0, 0, 0)
    for segment, next_base in zip(segments, nexts, strict=True):
        size = _read_file_sizes(segment)
        total_sizes = (sizes[0] + size[0], sizes[1] + size[1], sizes[2] + size[2])
        limits = (settings.segment_bytes, settings.index_bytes, settings.index_bytes)
        fits = all(total <= limit for total, limit in zip(total_sizes, limits, strict=True))
        if groups and fits and (not segment.size_bytes or next_base - 1 - groups[-1][0].base_offset <= MAX_INT32):
            groups[-1].append(segment)
            sizes = total_sizes
        else:
            groups.append([segment])
            sizes = size
    return groups


def _read_file_sizes(segment: Segment) -> tuple[int, int, int]:
    index, time_index = segment.index, segment.time_index
    return segment.size_bytes, index.size_bytes if index else 0, time_index.size_bytes if time_index else 0
