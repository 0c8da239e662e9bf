"""Compaction of logs that are being written to and read (LogCleaner), by the broker's clock.

Every ``log.cleaner.backoff.ms`` each log with ``cleanup.policy=compact`` is looked at, the filthiest first. Its closed
segments are cleaned into new files, which takes its time and no lock: they do not change. Then they take their places
between two requests. A log whose segments went away meanwhile (retention, truncation, deletion) is cleaned again later.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Partition
from kafkaframes.cleaner.filter import Filter
from kafkaframes.cleaner.latest import walk_dirty_part
from kafkaframes.cleaner.output import reaches_too_far
from kafkaframes.cleaner.plan import RoundPlan, group_segments
from kafkaframes.cleaner.round import kept_of, sources_of
from kafkaframes.cleaner.settings import CleanerSettings
from kafkaframes.cleaner.transactions import CleanedTransactions
from kafkaframes.errors import KafkaframesError, LogDirError
from kafkaframes.files import directory
from kafkaframes.files.disk import OnlineDisk
from kafkaframes.files.names import FileName, TopicPartition
from kafkaframes.files.offset_index import write_offset_index
from kafkaframes.files.scan import scan_segment
from kafkaframes.files.semantics import KEEPS_FORMATS, REWRITES_OLD
from kafkaframes.files.time_index import write_time_index
from kafkaframes.files.txn_index import AbortedTransaction, write_txn_index
from kafkaframes.log.producer_state import ProducerStates
from kafkaframes.log.rebuild import INDEXED, build_indexes
from kafkaframes.partition import PartitionLog
from kafkaframes.partition.segment import LogSegment
from kafkaframes.partition.swapping import path_of

_PIECE_BYTES = 1 << 20
_NEWEST_FORMAT = 2
_LOG = logging.getLogger(__name__)


class StoppedError(Exception):
    """The broker stops: the round is given up."""


@dataclass(frozen=True, slots=True)
class Round:
    """One log's range that is to be cleaned, as it stood when the round began.

    Attributes:
        segments: those of ``plan`` by base offset, as the log has them.
        ratio: how much of what may be compacted is new.
    """

    key: TopicPartition
    log: PartitionLog
    plan: RoundPlan
    settings: CleanerSettings
    segments: dict[int, LogSegment]
    ratio: float


@dataclass(slots=True)
class Cleaning:
    """The cleaner of one broker.

    Attributes:
        run_apart: runs work in a thread, and then, on the broker's own, what is to be done with its outcome; without,
            and while the clock stands still, all is done at once.
        uncleanable: logs that could not be read, and why; they are left alone until the next start.
    """

    broker: BrokerState
    run_apart: Callable[[Callable[[], None], Callable[[], None]], None] | None = None
    uncleanable: dict[TopicPartition, str] = field(default_factory=dict)
    is_stopped: bool = False
    is_busy: bool = False

    def __post_init__(self) -> None:
        self._schedule()

    def _schedule(self) -> None:
        settings = self.broker.settings
        if not self.broker.is_read_only and settings.flag("log.cleaner.enable"):
            self.broker.clock.call_later(max(settings.number("log.cleaner.backoff.ms"), 1), self._look)

    def _look(self) -> None:
        if self.is_stopped or self.broker.logs.is_closed:
            return
        if not self.is_busy:
            self._next(set())
        self._schedule()

    def _next(self, done: set[TopicPartition]) -> None:
        """Clean the filthiest log that was not cleaned since the last look."""
        rounds = [one for one in self._due() if one.key not in done]
        if self.is_stopped or not rounds:
            return
        self._clean(max(rounds, key=lambda one: one.ratio), done)

    def _clean(self, one: Round, done: set[TopicPartition]) -> None:
        outcome: list[dict[int, tuple[int, ...]]] = []
        self.is_busy = True

        def work() -> None:
            try:
                outcome.append(clean(one, lambda: self.is_stopped))
            except StoppedError:
                pass
            except KafkaframesError as error:
                _LOG.warning("%s is not compacted: %s", one.key, error)
                self.uncleanable[one.key] = str(error)

        def finish() -> None:
            self.is_busy = False
            done.add(one.key)
            if self.is_stopped or self.broker.logs.is_closed:
                return
            if outcome:
                self._put_in_place(one, outcome[0])
            self._next(done)

        if self.run_apart is None or self.broker.clock.is_frozen:
            work()
            finish()
        else:
            self.run_apart(work, finish)

    def _put_in_place(self, one: Round, groups: dict[int, tuple[int, ...]]) -> None:
        log, now_ms = one.log, self.broker.clock.now_ms
        try:
            for bases in groups.values():
                if not log.replace_segments([one.segments[base] for base in bases], now_ms=now_ms):
                    return
            self.broker.logs.note_cleaned(one.key, one.plan.first_uncleanable_offset)
        except KafkaframesError:
            _LOG.exception("%s: the cleaned segments could not take their places", one.key)

    # ---------------------------------------------------------------------------------------------- what is due

    def _due(self) -> Iterable[Round]:
        for partition in self.broker.partitions():
            log = partition.log
            if not log.settings.is_compacted or log.is_closed or partition.topic_partition in self.uncleanable:
                continue
            found = self._round_of(partition)
            if found is not None:
                yield found

    def _round_of(self, partition: Partition) -> Round | None:
        """Return what there is to do in a log; None: nothing, or not enough yet."""
        broker, log, key = self.broker, partition.log, partition.topic_partition
        topic = broker.topics.get(key.topic)
        if topic is None:
            return None
        text = {name: broker.settings.of_topic(name, topic.configs) for name in _TOPIC_SETTINGS}
        dirty = _first_dirty(log, broker.logs.cleaner_offsets.get(key))
        now_ms = broker.clock.now_ms
        end = _first_uncleanable(log, dirty, now_ms=now_ms, lag_ms=int(text["min.compaction.lag.ms"]))
        sizes = {one.base_offset: one.size_bytes for one in log.state.segments if one.base_offset < end}
        cleanable = sum(size for base, size in sizes.items() if base >= dirty)
        is_late = _is_late(log, dirty, end, now_ms - int(text["max.compaction.lag.ms"]))
        ratio = cleanable / sum(sizes.values()) if cleanable else 0.0
        if not cleanable or not (is_late or ratio > float(text["min.cleanable.dirty.ratio"])):
            return None
        settings = CleanerSettings(
            now_ms=now_ms,
            semantics=REWRITES_OLD if log.settings.record_format >= _NEWEST_FORMAT else KEEPS_FORMATS,
            delete_retention_ms=int(text["delete.retention.ms"]),
            segment_bytes=log.settings.segment_bytes,
            index_bytes=log.settings.segment_index_bytes,
            index_interval_bytes=log.settings.index_interval_bytes,
            first_dirty_offset=dirty,
            high_watermark=log.high_watermark,
        )
        segments = {one.base_offset: one for one in log.state.segments}
        return Round(key, log, _plan(log, dirty, end), settings, segments, ratio)


_TOPIC_SETTINGS = (
    "delete.retention.ms",
    "max.compaction.lag.ms",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
)


def _first_dirty(log: PartitionLog, checkpointed: int | None) -> int:
    """Return where the last round ended; a checkpoint outside the log counts for nothing (LogCleanerManager)."""
    start = log.log_start_offset
    return start if checkpointed is None or not start <= checkpointed <= log.log_end_offset else checkpointed


def _first_uncleanable(log: PartitionLog, dirty: int, *, now_ms: int, lag_ms: int) -> int:
    """Return the base offset from which on nothing is touched: active, unstable, not replicated, or too young."""
    segments = list(log.state.segments)
    limits = [log.state.segments.active.base_offset, log.last_stable_offset, log.high_watermark]
    for segment, after in pairwise(segments) if lag_ms > 0 else ():
        if after.base_offset > dirty and segment.largest_timestamp > now_ms - lag_ms:
            limits.append(segment.base_offset)
            break
    end = min(limits)
    return max((one.base_offset for one in segments if one.base_offset <= end), default=end)


def _is_late(log: PartitionLog, dirty: int, end: int, oldest_ms: int) -> bool:
    """Say whether a dirty record is older than ``max.compaction.lag.ms`` allows (KIP-354)."""
    segments = (one for one in log.state.segments if dirty <= one.base_offset < end)
    return any(0 <= one.first_timestamp < oldest_ms for one in segments)


def _plan(log: PartitionLog, dirty: int, end: int) -> RoundPlan:
    """Return the round's plan from what the open log knows; no file is read."""
    state = log.state
    segments = tuple(_as_listed(one) for one in state.segments)
    return RoundPlan(
        directory.Partition(state.topic_partition, state.directory, segments=segments),
        dirty,
        end,
        "",
        log.log_end_offset,
        log.high_watermark,
        tuple(aborted for one in state.segments for aborted in one.txn_index.aborted),
        ProducerStates(state.producers.entries()),
    )


def _as_listed(segment: LogSegment) -> directory.Segment:
    base = segment.base_offset

    def file(kind: str, path: str, size_bytes: int) -> directory.LogFile:
        return directory.LogFile(FileName(base, kind), path, size_bytes, segment.modified_ms())

    return directory.Segment(
        file("log", segment.path, segment.size_bytes),
        file("index", segment.index.path, segment.index.size_bytes),
        file("timeindex", segment.time_index.path, segment.time_index.size_bytes),
    )


# ---------------------------------------------------------------------------------------------- the work, apart


def clean(one: Round, is_stopped: Callable[[], bool]) -> dict[int, tuple[int, ...]]:
    """Write the cleaned segments of a round beside the old ones; nothing of the log itself is touched.

    Returns:
        The base offsets of the segments that each new one stands for, by its own.

    Raises:
        LogDirError: something is damaged, or reaches further than an index can say.
        StorageError: the disk fails.
        StoppedError: it was asked to stop.
    """
    plan, disk = one.plan, one.log.state.disk
    known = walk_dirty_part(disk, plan)
    transactions = CleanedTransactions()
    filter_ = Filter(plan.producers, one.settings, known, transactions, end_offset=plan.first_uncleanable_offset)
    groups: dict[int, tuple[int, ...]] = {}
    segments = plan.segments_between(0, plan.first_uncleanable_offset)
    for group in group_segments(segments, one.settings, plan.first_uncleanable_offset):
        transactions.kept = []
        base = group[0].base_offset
        pieces = kept_of(disk, sources_of(plan, group, one.settings), filter_, transactions)
        _write(disk, path_of(plan.partition.directory, base, "log"), pieces, is_stopped)
        _write_indexes(disk, plan.partition.directory, base, one.settings, transactions.kept)
        groups[base] = tuple(segment.base_offset for segment in group)
    return groups


def _write(
    disk: OnlineDisk, path: str, pieces: Iterable[bytes | memoryview], is_stopped: Callable[[], bool] = lambda: False
) -> None:
    """Write a file of pieces, and flush it."""
    file = disk.open_apart(path)
    try:
        file.truncate(0)
        position, waiting = 0, bytearray()
        for piece in pieces:
            if is_stopped():
                raise StoppedError
            waiting += piece
            if len(waiting) >= _PIECE_BYTES:
                file.write(position, bytes(waiting))
                position, waiting = position + len(waiting), bytearray()
        file.write(position, bytes(waiting))
        file.fsync()
    finally:
        file.close()


def _write_indexes(
    disk: OnlineDisk, place: str, base: int, settings: CleanerSettings, kept: list[AbortedTransaction]
) -> None:
    path = path_of(place, base, "log")
    found = disk.stat(path)
    size_bytes = 0 if found is None else found.size_bytes
    tables = [np.empty((len(INDEXED), 0), np.int64)]
    with disk.open(path) as read_at:
        for window in scan_segment(read_at, size_bytes=size_bytes, position=0, whole=True, file=path):
            tables.append(np.stack([window.batches.column(name) for name in INDEXED]))
    columns = np.concatenate(tables, axis=1)
    if reaches_too_far(base, columns):
        raise LogDirError("offsets reach too far above the segment's base; a restart splits it", file=path)
    offset_index, time_index = build_indexes(base, *columns, interval_bytes=settings.index_interval_bytes)
    made = {"index": write_offset_index(offset_index), "timeindex": write_time_index(time_index)}
    if kept:
        made["txnindex"] = write_txn_index(kept)
    for kind, content in made.items():
        _write(disk, path_of(place, base, kind), [content])
