"""After a crash at any effect of a log directory, it recovers without loss of flushed data."""

from __future__ import annotations

import errno
import os
import random

import pytest
from tests.storage.partition.builders import NOW_MS, build_batch, lead
from tests.storage.partition.memory_disk import MemoryDisk, apply_effect
from tests.storage.partition.workload import (
    RecordedWorkload,
    check_after_crash,
    open_log_manager,
    read_all,
    run_workload,
    yield_steps,
)

from kafkaframes.errors import OptionError, StorageError
from kafkaframes.storage.partition import LogSettings, create_log, open_log

MODES = ["process", "power", "mixed"]
IS_DEEP = os.environ.get("KAFKAFRAMES_PROFILE") == "deep"
CRASH_STEP = 1 if IS_DEEP else 2 * len(MODES)  # in the quick profile, a crash at every second effect, in one mode
# A failing disk takes a whole workload, a second or two of CPU each, while a crash takes one recovery (0.07 s). So
# these tests do not combine every effect with every error: all effects took 1.6 hours of CPU.
FAILURE_STEP = 6
ERROR_NUMBERS = [errno.ENOSPC, errno.EACCES, errno.EIO]


@pytest.fixture(scope="module")
def life():
    return run_workload(MemoryDisk())


def yield_disks(life):
    """Yield (number, disk before the effect) for each effect of the workload."""
    disk = MemoryDisk()
    for number, (name, arguments) in enumerate(life.disk.journal):
        yield number, disk
        getattr(disk, name)(*arguments)
    yield len(life.disk.journal), disk


def states(life):
    return [*life.states, life.states[-1]]


def crash_disk(life, number, disk, mode):
    """Return the disk after a crash of the process, in the middle of a write, or after a power failure."""
    choose = random.Random(number)
    if mode == "process":
        disk_after = (
            apply_effect(disk, life.disk.journal[number], part=0.5) if number < len(life.disk.journal) else disk
        )
        return disk_after.crash()
    if mode == "power":
        return disk.crash(lambda pending: 0)
    return disk.crash(lambda pending: choose.randrange(pending + 1), torn=choose)


def test_the_script_contains_every_kind_of_effect(life):
    kinds = {name for name, _ in life.disk.journal}
    assert kinds >= {"do_write", "do_truncate", "do_fsync", "do_rename", "do_delete", "do_sync_directory"}
    assert len(life.disk.journal) > 400
    assert sum(len(batches) for batches in life.batches.values()) > 60


@pytest.mark.parametrize("mode", MODES)
def test_a_crash_at_any_effect_loses_no_flushed_data(life, mode):
    for number, disk in yield_disks(life):
        if (number - 2 * MODES.index(mode)) % CRASH_STEP:
            continue
        left_disk = crash_disk(life, number, disk, mode)
        try:
            check_after_crash(left_disk, states(life)[number], life.results, lost_nothing=mode == "process")
        except BaseException as error:
            error.add_note(f"crash ({mode}) before effect {number}: {life.disk.journal[number : number + 1]}")
            raise


@pytest.mark.parametrize("share", [0.2, 0.45, 0.7, 0.95])
def test_a_crash_at_any_effect_of_a_recovery_does_not_change_its_result(life, share):
    number = int(len(life.disk.journal) * share)
    disk = next(disk for at, disk in yield_disks(life) if at == number)
    left_disk = crash_disk(life, number, disk, "mixed")
    recovering = left_disk.copy()
    with open_log_manager(recovering):
        pass
    for again in range(0, len(recovering.journal), 1 if IS_DEEP else 5):
        partly = left_disk.copy()
        for name, arguments in recovering.journal[:again]:
            getattr(partly, name)(*arguments)
        for mode in ("process", "power"):
            keep = (lambda pending: 0) if mode == "power" else None
            check_after_crash(partly.crash(keep), states(life)[number], life.results, lost_nothing=False)


def test_a_crash_during_the_recovery_of_a_damaged_log_leaves_no_offset_gap():
    disk = MemoryDisk()
    disk.make_directory("/kafka")
    disk.sync_directory("/")
    log = create_log("/kafka/orders-0", settings=LogSettings(segment_bytes=400), now_ms=NOW_MS, disk=disk)
    for _ in range(25):
        log.append_as_leader(build_batch(1), leader_epoch=0, now_ms=NOW_MS)
    assert len(log.segment_bases) > 4
    log.flush(now_ms=NOW_MS)
    victim = log.segments.list_segments_from(log.segment_bases[1])[0].path
    disk.do_write(victim, 100, b"\xff")
    disk.do_fsync(victim)
    damaged_disk = disk.crash()
    recovering = damaged_disk.copy()
    whole = read_all(open_log("/kafka/orders-0", now_ms=NOW_MS, disk=recovering))
    assert 4 < len(whole) < 10
    for count in range(len(recovering.journal)):
        partly = damaged_disk.copy()
        for name, arguments in recovering.journal[:count]:
            getattr(partly, name)(*arguments)
        for left_disk in (partly.crash(), partly.crash(lambda pending: pending // 2)):
            assert read_all(open_log("/kafka/orders-0", now_ms=NOW_MS, disk=left_disk)) == whole, count


@pytest.mark.parametrize("code", ERROR_NUMBERS, ids=errno.errorcode.get)
def test_a_failing_disk_takes_the_directory_offline_and_records_stay_readable(life, code):
    for number in range(5 + 2 * ERROR_NUMBERS.index(code), len(life.disk.journal), FAILURE_STEP if IS_DEEP else 41):
        disk = MemoryDisk()
        broken_life = RecordedWorkload(disk)
        disk.fail = lambda at, number=number: OSError(code, os.strerror(code)) if at >= number else None
        with pytest.raises(StorageError, match=os.strerror(code)) as caught:
            broken_life.live()
        assert caught.value.file is not None
        if broken_life.manager is None or not broken_life.manager.is_offline:  # the directory was never open
            continue
        for key, log in broken_life.manager.logs.items():
            before = broken_life.batches.get(key, ())
            batches_found = [one for one in read_all(log) if not before or one[1] <= before[-1][1]]
            expected_batches = [one for one in before if one[0] >= log.segment_bases[0]]
            assert batches_found == (
                expected_batches[: len(batches_found)] if key == broken_life.cutting else expected_batches
            )
            with pytest.raises((StorageError, OptionError)):
                log.append_as_leader(build_batch(1), leader_epoch=20, now_ms=broken_life.now_ms)
        disk.fail = lambda at: None
        if not broken_life.manager.is_closed:
            with pytest.raises(StorageError, match="offline"):
                broken_life.manager.close(now_ms=broken_life.now_ms)
        check_after_crash(disk.crash(), broken_life.states[-1], life.results, lost_nothing=False)


EFFECTS_THAT_NEED_SPACE = ("do_write", "do_create", "do_make_directory")


def flush_like_a_group_commit(log):
    flush = log.begin_flush()
    flush.run()
    log.finish_flush(flush.offset, now_ms=NOW_MS)


def count_records_after_power_failure(log, disk):
    """Return the number of records after a power failure that loses all unflushed data."""
    left_disk = disk.crash(lambda pending: 0)
    return open_log(log.directory, settings=log.settings, now_ms=NOW_MS, disk=left_disk).log_end_offset


@pytest.mark.parametrize("starts_anew", [False, True], ids=["one life", "opened again"])
def test_records_flushed_by_a_group_commit_survive_rolls(starts_anew):
    """The name of a new segment is flushed with its first records. Previously, the whole segment could be lost."""
    disk = MemoryDisk()
    disk.make_directory("/kafka")
    disk.sync_directory("/")
    log = create_log("/kafka/t-0", settings=LogSettings(segment_bytes=200), now_ms=NOW_MS, disk=disk)
    for number in range(6):
        lead(log, build_batch(1, value=b"%d" % number * 100))
        flush_like_a_group_commit(log)
        assert count_records_after_power_failure(log, disk) == number + 1
        if starts_anew and number == 3:  # after the end of a process, names exist that a power failure would lose
            lead(log, build_batch(1, value=b"unflushed" * 12))
            log = open_log("/kafka/t-0", settings=log.settings, now_ms=NOW_MS, disk=disk)
            log.truncate_to(number + 1, now_ms=NOW_MS)
    assert len(log.segment_bases) > 3


def test_the_name_of_a_segment_after_a_truncation_is_flushed():
    disk = MemoryDisk()
    disk.make_directory("/kafka")
    disk.sync_directory("/")
    log = create_log("/kafka/t-0", settings=LogSettings(segment_bytes=200), now_ms=NOW_MS, disk=disk)
    for number in range(3):
        lead(log, build_batch(1, value=b"%d" % number * 100))
        flush_like_a_group_commit(log)
    log.truncate_to(1, now_ms=NOW_MS)
    for number in range(1, 4):
        lead(log, build_batch(1, value=b"%d" % number * 100))
        flush_like_a_group_commit(log)
        assert count_records_after_power_failure(log, disk) == number + 1


class RetryingWorkload(RecordedWorkload):
    """A workload on a temporarily full disk, which repeats rejected operations when there is space again."""

    rejected_count = 0

    def call_again(self, act):
        try:
            return act()
        except StorageError as error:
            self.note_full(error)
            return act()

    def note_full(self, error):
        if self.manager is None or self.manager.is_closed or self.cutting:
            raise error
        assert not self.manager.is_offline, error
        self.rejected_count += 1
        self.disk.fail = lambda at: None

    def create(self, key):
        self.call_again(lambda: super(RetryingWorkload, self).create(key))

    def append(self, key, records, **options):
        log, epoch = self.log(key), self.epoch
        before = read_all(log)

        def act():
            self.epoch = epoch
            assert read_all(log) == before
            super(RetryingWorkload, self).append(key, records, **options)

        self.call_again(act)

    def live(self):
        for step in yield_steps():
            try:
                step(self)
            except StorageError as error:  # periodic work, which is repeated
                self.note_full(error)


def fill_disk_at(disk, number, length):
    """Let effects that need space fail, from effect ``number`` on, for ``length`` effects."""
    effect, names = disk._effect, []

    def note_call(name, *arguments):
        names.append(name)
        return effect(name, *arguments)

    def fail(at):
        is_full = number <= at < number + length and names[-1] in EFFECTS_THAT_NEED_SPACE
        return OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) if is_full else None

    disk._effect, disk.fail = note_call, fail


@pytest.mark.parametrize("length", [1, 4])
def test_a_temporarily_full_disk_loses_no_acknowledged_records(life, length):
    """Appends and new logs are rejected without free space, also after a partial write, and continue later."""
    rejected_count = 0
    for number in range(5, len(life.disk.journal), FAILURE_STEP if IS_DEEP else 23):
        disk = MemoryDisk()
        broken_life = RetryingWorkload(disk)
        fill_disk_at(disk, number, length)
        try:
            broken_life.live()
        except StorageError as error:
            if (
                broken_life.manager is None or broken_life.manager.is_closed or broken_life.cutting
            ):  # during a start, stop or truncation
                continue
            error.add_note(f"no space from effect {number} on: {life.disk.journal[number]}")
            raise
        rejected_count += broken_life.rejected_count
        if broken_life.deleting is None and broken_life.cutting is None:
            check_after_crash(disk.crash(), broken_life.states[-1], broken_life.results, lost_nothing=False)
            assert broken_life.batches.keys() == life.batches.keys()
    assert rejected_count > 5
