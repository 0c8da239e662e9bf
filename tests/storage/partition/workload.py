"""A scripted workload on a log directory, and checks after a crash at any of its effects."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any

from tests.storage.partition.builders import NOW_MS, build_batch, build_marker, idempotent, transactional
from tests.storage.partition.memory_disk import MemoryDisk

from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.files.checkpoints import MetaProperties
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.headers import BatchHeader, parse_headers
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.producers import Producers
from kafkaframes.storage.log.transactions import iterate_producer_batches, parse_markers
from kafkaframes.storage.partition import LogManager, LogSettings, PartitionLog, open_log_directory
from kafkaframes.storage.partition.fetch import LOG_END

PATH = "/kafka"
META_PROPERTIES = MetaProperties({"version": "1", "node.id": "1", "cluster.id": "c", "directory.id": "d"})
ORDERS, PAYMENTS = TopicPartition("orders", 0), TopicPartition("payments", 3)
SHORT_LIVED = TopicPartition("short-lived", 1)
SETTINGS = {
    ORDERS: LogSettings(segment_bytes=900, index_interval_bytes=150, segment_index_bytes=400, retention_bytes=2500),
    SHORT_LIVED: LogSettings(file_delete_delay_ms=500_000),
    PAYMENTS: LogSettings(segment_bytes=700, index_interval_bytes=100, segment_index_bytes=400, preallocate=True),
}
Batch = tuple[int, int, bytes]  # first offset, last offset, appended bytes


def open_manager(disk: Any, now_ms: int = NOW_MS) -> LogManager:
    return open_log_directory(
        PATH, now_ms=now_ms, settings_of=lambda key: SETTINGS[key], meta=META_PROPERTIES, disk=disk
    )


@dataclass(frozen=True)
class ExpectedState:
    """The state that is expected after a crash just before an effect.

    Attributes:
        batches: acknowledged batches, by log.
        arriving: number of the append in progress.
        flushed, start: recovery points and log start offsets, by log.
        deleting: the log that is being deleted.
    """

    batches: dict[TopicPartition, tuple[Batch, ...]]
    arriving: tuple[TopicPartition, int] | None
    flushed_ends: dict[TopicPartition, int]
    start: dict[TopicPartition, int]
    deleting: TopicPartition | None


@dataclass
class RecordedWorkload:
    """Runs the workload with a log manager, and records acknowledged batches and expected states."""

    disk: MemoryDisk
    manager: LogManager | None = None
    batches: dict[TopicPartition, tuple[Batch, ...]] = field(default_factory=dict)
    arriving: tuple[TopicPartition, int] | None = None
    results: list[Batch] = field(default_factory=list)
    states: list[ExpectedState] = field(default_factory=list)
    now_ms: int = NOW_MS
    epoch: int = 0
    cutting: TopicPartition | None = None
    deleting: TopicPartition | None = None

    def __post_init__(self) -> None:
        self.disk.on_seen = self._record_state

    def _record_state(self) -> None:
        logs = self.manager.logs if self.manager else {}
        flushed_ends = {key: log.recovery_point for key, log in logs.items() if key in self.batches}
        start = {key: log.log_start_offset for key, log in logs.items()}
        self.states.append(ExpectedState(dict(self.batches), self.arriving, flushed_ends, start, self.deleting))

    def log(self, key: TopicPartition) -> PartitionLog:
        assert self.manager is not None
        return self.manager.logs[key]

    def open(self) -> None:
        self.manager = open_manager(self.disk, self.now_ms)

    def create(self, key: TopicPartition) -> None:
        assert self.manager is not None
        self.manager.create(key, topic_id="IU6NTFbUTQiJMTtf1e--4g", now_ms=self.now_ms)
        self.batches[key] = ()

    def append(self, key: TopicPartition, records: bytes, *, origin: str = "CLIENT", new_epoch: bool = False) -> None:
        log = self.log(key)
        self.epoch += new_epoch
        self.arriving = key, len(self.results)
        info = log.append_as_leader(records, leader_epoch=self.epoch, now_ms=self.now_ms, origin=origin)
        raw = log.read(info.first_offset, max_bytes=1, isolation=LOG_END).records
        self.results.append((info.first_offset, info.last_offset, raw))
        self.batches[key] = (*self.batches[key], self.results[-1])
        self.arriving = None
        log.update_high_watermark(log.log_end_offset)

    def delete(self, key: TopicPartition) -> None:
        assert self.manager is not None
        self.deleting = key
        self.manager.delete(key, unique_id="3a400b54ac4a47ee86e55390ecea333b", now_ms=self.now_ms)
        del self.batches[key]
        self.deleting = None

    def truncate(self, key: TopicPartition, offset: int) -> None:
        self.cutting = key
        assert self.manager is not None
        assert self.manager.truncate_to(key, offset, now_ms=self.now_ms)
        self.cutting = None
        self.batches[key] = tuple(one for one in self.batches[key] if one[1] < offset)

    def live(self) -> None:
        for step in yield_steps():
            step(self)

    def close(self) -> None:
        assert self.manager is not None
        self.manager.close(now_ms=self.now_ms, broker_epoch=13)


def yield_steps() -> Iterator[Callable[[RecordedWorkload], None]]:
    """Yield the steps: producers, transactions, rolls, retention, truncation, checkpoints, restarts."""
    sequence = {1: 0, 2: 0, 5: 0, 6: 0}
    choose = random.Random(11)

    def append_batch(
        life: RecordedWorkload, key: TopicPartition, producer: int, count: int, build: Any = idempotent
    ) -> None:
        start = sequence[producer]
        life.append(key, build(producer, start, count, timestamp=life.now_ms))
        sequence[producer] = start + count

    def end(life: RecordedWorkload, producer: int, commit: bool) -> None:
        life.append(PAYMENTS, build_marker(producer, commit=commit), origin="COORDINATOR")

    yield RecordedWorkload.open
    yield lambda life: life.create(ORDERS)
    yield lambda life: life.create(PAYMENTS)
    yield lambda life: life.create(SHORT_LIVED)
    yield lambda life: life.append(SHORT_LIVED, build_batch(3))
    yield lambda life: life.delete(SHORT_LIVED)
    for turn in range(5):
        for _ in range(4):
            yield lambda life: append_batch(life, ORDERS, choose.choice([1, 2]), choose.randrange(1, 5))
            yield lambda life: append_batch(life, PAYMENTS, 5, 2, transactional)
            yield lambda life: append_batch(life, PAYMENTS, 6, 1, transactional)
            yield lambda life: end(life, 5, choose.random() < 0.5)
        yield lambda life: end(life, 6, choose.random() < 0.3)
        yield lambda life: life.append(ORDERS, build_batch(2, timestamp=life.now_ms), new_epoch=True)
        yield lambda life: _advance_clock(life, 400_000)
        if turn == 1:
            yield lambda life: life.log(ORDERS).delete_records(life.log(ORDERS).log_end_offset - 3)
            yield lambda life: life.manager.checkpoint_all()
        if turn == 2:
            yield lambda life: life.truncate(ORDERS, life.batches[ORDERS][-4][0])
            yield lambda life: sequence.update({one: _next_sequence(life, one) for one in (1, 2)})
        if turn == 3:
            yield RecordedWorkload.close
            yield RecordedWorkload.open
            yield lambda life: life.log(PAYMENTS).delete_old_segments(now_ms=life.now_ms)
    yield lambda life: life.log(PAYMENTS).flush(now_ms=life.now_ms)
    yield lambda life: append_batch(life, PAYMENTS, 5, 2, transactional)
    yield RecordedWorkload.close


def _next_sequence(life: RecordedWorkload, producer: int) -> int:
    producer_state = life.log(ORDERS).producers.states.get(producer)
    return 0 if producer_state is None else producer_state.last_sequence + 1


def _advance_clock(life: RecordedWorkload, step_ms: int) -> None:
    life.now_ms += step_ms
    assert life.manager is not None
    life.manager.tick(life.now_ms)


def run_workload(disk: MemoryDisk) -> RecordedWorkload:
    """Live the whole script."""
    life = RecordedWorkload(disk)
    life.live()
    return life


# ------------------------------------------------------------------------------------------------- afterwards


@contextmanager
def open_log_manager(disk: MemoryDisk) -> Iterator[LogManager]:
    manager = open_manager(disk, NOW_MS + 10_000_000)
    try:
        yield manager
    finally:
        manager.abandon()


def check_after_crash(disk: MemoryDisk, state: ExpectedState, results: list[Batch], *, lost_nothing: bool) -> None:
    """Open the directory after a crash and check its logs. Then append more, stop, and run ``verify``."""
    with open_log_manager(disk) as manager:
        for key, batches in state.batches.items():
            is_new = not state.flushed_ends.get(key) and not (lost_nothing and batches)
            if key not in manager.logs and (key == state.deleting or is_new):  # a new log has no directory
                continue
            assert key in manager.logs, f"{key} is gone"
            check_log(manager.logs[key], key, batches, state, results, lost_nothing)
        for log in manager.logs.values():
            end = log.log_end_offset
            info = log.append_as_leader(build_batch(2), leader_epoch=9, now_ms=NOW_MS)
            assert (info.first_offset, log.log_end_offset) == (end, end + 2)
        manager.close(now_ms=NOW_MS, broker_epoch=14)
    report = verify(discover(PATH, filesystem=disk))
    findings = [finding for finding in report.findings if "-delete/" not in finding.file]  # deleted files are not read
    # After a crash, transactions stay open that their producers would otherwise end.
    bad = [
        str(finding)
        for finding in findings
        if finding.severity >= Severity.WARNING and finding.check != "open-transaction"
    ]
    assert not bad, bad
    with open_log_manager(disk) as manager:
        assert manager.was_clean


def check_log(
    log: PartitionLog,
    key: TopicPartition,
    batches: tuple[Batch, ...],
    state: ExpectedState,
    results: list[Batch],
    lost_nothing: bool,
) -> None:
    if state.arriving is not None and state.arriving[0] == key and state.arriving[1] < len(results):
        batches = (*batches, results[state.arriving[1]])
        acknowledged_batches = batches[:-1]
    else:
        acknowledged_batches = batches
    assert log.log_end_offset >= state.flushed_ends.get(key, 0), "flushed records are lost"
    if lost_nothing and acknowledged_batches and key in state.flushed_ends:
        assert log.log_end_offset >= acknowledged_batches[-1][1] + 1 or _is_truncation_pending(log, state, key)
    assert log.log_start_offset <= max(state.start.get(key, 0), 0)
    read_batches = read_all(log)
    expected_batches = [batch for batch in batches if log.segment_bases[0] <= batch[0] < log.log_end_offset]
    assert read_batches == expected_batches, (read_batches, expected_batches)
    check_state(log, batches, read_batches, start=state.start.get(key, 0))


def _is_truncation_pending(log: PartitionLog, state: ExpectedState, key: TopicPartition) -> bool:
    """Return whether a truncation was in progress. The first step of a truncation lowers the recovery point."""
    return log.log_end_offset >= state.flushed_ends[key]


def read_all(log: PartitionLog) -> list[Batch]:
    """Return all batches of the segments, and check that their offsets increase."""
    read_batches: list[Batch] = []
    for segment in log.segments:
        raw = segment.read_at(0, segment.size_bytes) if segment.size_bytes else b""
        for header in parse_headers(raw) if raw else []:
            assert not read_batches or header.base_offset == read_batches[-1][1] + 1, "a hole"
            read_batches.append((header.base_offset, header.last_offset, raw[header.position : header.end]))
    return read_batches


def check_state(log: PartitionLog, batches: tuple[Batch, ...], read_batches: list[Batch], *, start: int) -> None:
    """Check that producers and epochs equal those of a replay of all batches."""
    end = log.log_end_offset
    whole = _replay(tuple(raw for first, _, raw in batches if first < end))
    in_log = {header.producer_id for _, _, raw in read_batches for header in parse_headers(raw) if header.has_producer}
    for producer_id in in_log:
        assert log.producers.states[producer_id].entry() == whole.states[producer_id].entry()
    assert log.producers.states.keys() <= whole.states.keys()
    assert log.producers.open == whole.open
    for entry in log.epochs.entries:
        assert entry.start_offset <= end
    known_epochs = {header.leader_epoch for header in _headers(read_batches) if header.base_offset >= start}
    assert known_epochs <= {entry.leader_epoch for entry in log.epochs.entries}, log.epochs.entries


def _headers(read_batches: list[Batch]) -> list[BatchHeader]:
    return [header for _, _, raw in read_batches for header in parse_headers(raw)]


@cache
def _replay(pieces: tuple[bytes, ...]) -> Producers:
    producers = Producers()
    for raw in pieces:
        for header, markers in iterate_producer_batches(parse_headers(raw), partial(parse_markers, raw)):
            producers.process_batch(header, markers)
    return producers
