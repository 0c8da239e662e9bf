"""The fast path and the recovery plan open a log with equal results, for any directory and checkpoints."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.storage.partition.builders import NOW_MS, build_batch, build_marker, idempotent, lead, transactional
from tests.storage.partition.memory_disk import MemoryDisk

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import names
from kafkaframes.storage.log.discover import CheckpointedState
from kafkaframes.storage.partition import LogSettings, PartitionLog, create_log, loading, open_log

PATH = "/kafka/orders-0"
SETTINGS = LogSettings(segment_bytes=600, index_interval_bytes=100, segment_index_bytes=400)
TOPIC_ID = "IU6NTFbUTQiJMTtf1e--4g"


def plain(log: PartitionLog) -> None:
    lead(log, build_batch(2))


def append_and_roll(log: PartitionLog) -> None:
    for number in range(12):
        lead(log, idempotent(7, 2 * number, 2), epoch=number // 5)


def append_and_delete_records(log: PartitionLog) -> None:
    append_and_roll(log)
    log.update_high_watermark(log.log_end_offset)
    log.delete_records(15)
    log.delete_old_segments(now_ms=NOW_MS)


def open_transaction(log: PartitionLog) -> None:
    lead(log, transactional(5, 0, 3))
    lead(log, build_batch(1))


def append_and_abort(log: PartitionLog) -> None:
    lead(log, transactional(5, 0, 3))
    lead(log, build_marker(5, commit=False), origin="COORDINATOR")


def append_and_empty(log: PartitionLog) -> None:
    lead(log, build_batch(2))
    log.truncate_fully_and_start_at(9, now_ms=NOW_MS)


WORKLOADS: list[Callable[[PartitionLog], None]] = [
    plain,
    append_and_roll,
    append_and_delete_records,
    open_transaction,
    append_and_abort,
    append_and_empty,
]


def stop_cleanly(live: Callable[[PartitionLog], None]) -> tuple[MemoryDisk, dict[str, int]]:
    """Return the disk after a clean stop, and the contents of its checkpoints."""
    disk = MemoryDisk()
    disk.make_directory("/kafka")
    log = create_log(PATH, settings=SETTINGS, now_ms=NOW_MS, disk=disk, topic_id=TOPIC_ID)
    live(log)
    log.update_high_watermark(log.log_end_offset)
    start, first = log.log_start_offset, log.segment_bases[0]
    log.close(now_ms=NOW_MS)
    offsets = {names.RECOVERY_POINT_CHECKPOINT: log.log_end_offset, names.HIGH_WATERMARK_CHECKPOINT: log.high_watermark}
    return disk, offsets | ({names.LOG_START_CHECKPOINT: start} if start > first else {})


def kill_after(live: Callable[[PartitionLog], None]) -> tuple[MemoryDisk, dict[str, int]]:
    """Return the disk of a killed process, which had stopped cleanly before and then continued."""
    disk, offsets = stop_cleanly(live)
    log = open_log(
        PATH, settings=SETTINGS, now_ms=NOW_MS, disk=disk, checkpointed_offsets=CheckpointedState(True, offsets)
    )
    lead(log, idempotent(9, 0, 2), epoch=9)
    lead(log, build_batch(1), epoch=9)
    log.abandon()
    return disk, offsets


def files_of(disk: MemoryDisk) -> dict[str, bytes]:
    return {one.name: disk.read(one.path) for one in disk.list_directory(PATH)}


def open_and_describe(disk: MemoryDisk, checkpoint_state: CheckpointedState, settings: LogSettings = SETTINGS) -> Any:
    """Open a log, and return its state in memory and its files on the disk."""
    disk = disk.copy()
    try:
        log = open_log(PATH, settings=settings, now_ms=NOW_MS, disk=disk, checkpointed_offsets=checkpoint_state)
    except LogDirError as error:
        return str(error)
    state = log
    facts = {
        name: getattr(state, name)
        for name in (
            "log_start_offset",
            "log_end_offset",
            "recovery_point",
            "high_watermark",
            "topic_id",
            "deleted_files",
        )
    }
    facts |= {name: getattr(state, name) for name in ("bytes_lost", "whole_until", "has_files", "last_stable_offset")}
    facts["segments"] = [
        (segment.base_offset, segment.size_bytes, segment.max_timestamp_and_offset) for segment in state.segments
    ]
    facts["producers"] = list(state.producers.entries()), state.producers.open
    facts["snapshots"] = state.snapshots.offsets, state.snapshots.last, state.snapshots.unflushed_files, state.is_linked
    facts["epochs"] = state.epochs.entries
    return facts, files_of(disk)


def compare_paths(monkeypatch: pytest.MonkeyPatch, disk: MemoryDisk, *arguments: Any) -> bool:
    """Assert that both paths give equal results. Return whether the fast path handled the log."""
    answers = []
    fast = loading.open_ordinary

    def note_answer(*positional: Any, **options: Any) -> Any:
        answers.append(fast(*positional, **options))
        return answers[-1]

    with monkeypatch.context() as patch:
        patch.setattr(loading, "open_ordinary", note_answer)
        by_fast = open_and_describe(disk, *arguments)
        patch.setattr(loading, "open_ordinary", lambda *_, **options: None)
        assert by_fast == open_and_describe(disk, *arguments)
    return answers[0] is not None


def yield_damaged_disks(disk: MemoryDisk) -> Iterator[tuple[str, MemoryDisk]]:
    """Yield (description, disk) with one kind of damage each."""
    for name, raw in files_of(disk).items():
        path, middle = f"{PATH}/{name}", len(raw) // 2
        for what in ("gone", "longer", "shorter", "flipped", "deleted", "later"):
            damaged_disk = disk.copy()
            if what == "gone":
                damaged_disk.do_delete(path)
            elif what == "longer":
                damaged_disk.do_write(path, len(raw), b"\x01" * 5)
            elif what == "shorter":
                damaged_disk.do_truncate(path, middle)
            elif what == "flipped" and raw:
                damaged_disk.do_write(path, middle, bytes([raw[middle] ^ 0x41]))
            elif what == "deleted":
                damaged_disk.do_rename(path, f"{path}.deleted")
            elif what == "later" and name[0] == "0":
                damaged_disk.do_rename(path, f"{PATH}/{int(name[:20]) + 7:020d}{name[20:]}")
            yield f"{name} {what}", damaged_disk
    for name in ("00000000000000000003.snapshot", "00000000000000000000.txnindex", "notes.txt"):
        damaged_disk = disk.copy()
        damaged_disk.do_create(f"{PATH}/{name}")
        yield f"{name} more", damaged_disk


@pytest.mark.parametrize("live", WORKLOADS)
def test_both_paths_open_a_clean_log_equally(live, monkeypatch):
    disk, offsets = stop_cleanly(live)
    is_fast = compare_paths(monkeypatch, disk, CheckpointedState(True, offsets))
    assert is_fast == (live in (plain, append_and_roll, open_transaction))  # the other workloads leave more files
    for name in offsets:
        for offset in (0, 1, offsets[name] - 1, offsets[name] + 1, 2**63 - 1):
            if offset >= 0:
                compare_paths(monkeypatch, disk, CheckpointedState(True, offsets | {name: offset}))
    compare_paths(monkeypatch, disk, CheckpointedState(True, {}))
    assert not compare_paths(monkeypatch, disk, CheckpointedState(True, offsets), LogSettings(record_format=1))


@pytest.mark.parametrize("live", [append_and_roll, open_transaction])
def test_both_paths_open_a_damaged_log_equally(live, monkeypatch):
    disk, offsets = stop_cleanly(live)
    for what, damaged_disk in yield_damaged_disks(disk):
        try:
            compare_paths(monkeypatch, damaged_disk, CheckpointedState(True, offsets))
        except BaseException as error:
            error.add_note(what)
            raise


@pytest.mark.parametrize("live", WORKLOADS)
def test_both_paths_open_the_log_of_a_killed_process_equally(live, monkeypatch):
    disk, offsets = kill_after(live)
    is_fast = compare_paths(monkeypatch, disk, CheckpointedState(False, offsets))
    assert is_fast == (live is not append_and_abort)  # it has a marker and a transaction index
    for name in offsets:
        for offset in (0, 1, offsets[name] - 1, offsets[name] + 1, 2**63 - 1):
            if offset >= 0:
                compare_paths(monkeypatch, disk, CheckpointedState(False, offsets | {name: offset}))
    compare_paths(monkeypatch, disk, CheckpointedState(False, {}))
    compare_paths(monkeypatch, stop_cleanly(live)[0], CheckpointedState(False, offsets))
    log = create_log(PATH, settings=SETTINGS, now_ms=NOW_MS, disk=(new := MemoryDisk()), topic_id=TOPIC_ID)
    live(log)
    compare_paths(monkeypatch, new, CheckpointedState(False, {}))


@pytest.mark.parametrize("live", [plain, append_and_roll])
def test_both_paths_open_a_damaged_log_of_a_killed_process_equally(live, monkeypatch):
    disk, offsets = kill_after(live)
    for what, damaged_disk in yield_damaged_disks(disk):
        try:
            compare_paths(monkeypatch, damaged_disk, CheckpointedState(False, offsets))
        except BaseException as error:
            error.add_note(what)
            raise
