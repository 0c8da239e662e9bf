"""Executed recoveries of artificial logs and on failing disks. The agreement tests compare files of real brokers."""

import errno
import itertools
import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tests.agreement.kinds import unclean

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import atomic, checkpoints
from kafkaframes.storage.files.checkpoints import EpochStart
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.recovery import draft as recovery_draft
from kafkaframes.storage.recovery.plan import plan_recovery
from kafkaframes.storage.recovery.recover import RecoveredPartition, RecoverySettings, compute_files, recover_to

LOGS = Path(__file__).parents[2] / "data" / "logs"
LOG_BEFORE_RECOVERY = LOGS / "unclean-flipped-bit-active" / "before"
NOW_MS = 1_795_255_143_423


def recover_log(path: Path, name: str = "idem-0") -> RecoveredPartition:
    (directory,) = discover(str(path))
    (partition,) = (partition for partition in directory.partitions if str(partition.topic_partition) == name)
    return compute_files(
        directory, plan_recovery(directory, partition), RecoverySettings(NOW_MS, index_interval_bytes=1024)
    )


@pytest.mark.parametrize("change", ["flip", "missing", "surplus"])
def test_wrong_expected_files_are_detected(tmp_path, change):
    shutil.copytree(LOGS / "unclean-flipped-bit-active", tmp_path / "case")
    unclean.recover_all(
        tmp_path / "case" / "before",
        tmp_path / "found",
        json.loads((LOGS / "unclean-flipped-bit-active.json").read_text()),
    )
    after = tmp_path / "case" / "after"
    assert [*unclean._compare_files(after, tmp_path / "found")] == []
    victim = next((after / "txn-0").glob("*.snapshot"))
    if change == "flip":
        victim.write_bytes(victim.read_bytes()[:-1] + b"\x01")
    elif change == "missing":
        victim.unlink()
    else:
        (after / "txn-0" / "surplus").write_bytes(b"")
    assert len([*unclean._compare_files(after, tmp_path / "found")]) == 1


def recover_into(source: Path, target: Path) -> RecoveredPartition:
    (directory,) = discover(str(source))
    (partition,) = (partition for partition in directory.partitions if partition.topic == "idem")
    settings = RecoverySettings(NOW_MS, index_interval_bytes=1024)
    return recover_to(directory, plan_recovery(directory, partition), settings, target)


def test_a_second_recovery_changes_nothing(tmp_path):
    recover_into(LOG_BEFORE_RECOVERY, tmp_path / "idem-0")
    recover_into(tmp_path, tmp_path / "second" / "idem-0")
    for path in (tmp_path / "idem-0").iterdir():
        assert (tmp_path / "second" / "idem-0" / path.name).read_bytes() == path.read_bytes()


def test_existing_directories_are_not_overwritten(tmp_path):
    (tmp_path / "idem-0").mkdir()
    with pytest.raises(LogDirError, match="already exists"):
        recover_into(LOG_BEFORE_RECOVERY, tmp_path / "idem-0")


def recover_or_get_error(target: Path) -> str:
    try:
        recover_into(LOG_BEFORE_RECOVERY, target)
    except LogDirError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("operation", ["fsync", "rename", "replace", "open"])
def test_a_failing_disk_leaves_no_incomplete_output(tmp_path, monkeypatch, operation):
    owner = {"fsync": os, "rename": Path, "replace": Path, "open": atomic}[operation]
    name = "open_new" if operation == "open" else operation
    real, target = getattr(owner, name), tmp_path / "idem-0"
    source = {path.name: path.read_bytes() for path in (LOG_BEFORE_RECOVERY / "idem-0").iterdir()}
    files = set(recover_log(LOG_BEFORE_RECOVERY).files)
    for failing in range(100):
        calls = itertools.count()

        def fail_at_call(*arguments, calls=calls, failing=failing):
            if next(calls) == failing:
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(*arguments)

        monkeypatch.setattr(owner, name, fail_at_call)
        failure = recover_or_get_error(target)
        if not failure:
            break
        assert "No space left" in failure
        remaining_names = {path.name for path in target.iterdir()} if target.exists() else set()
        assert remaining_names in (set(), files)
        shutil.rmtree(target, ignore_errors=True)
    assert failing >= (1 if operation == "rename" else len(files))
    assert {path.name: path.read_bytes() for path in (LOG_BEFORE_RECOVERY / "idem-0").iterdir()} == source


def epochs(*pairs):
    return tuple(EpochStart(*pair) for pair in pairs)


@pytest.mark.parametrize(
    ("start", "end", "remaining_epochs"),
    [(0, 100, ((0, 0), (2, 40))), (0, 40, ((0, 0),)), (50, 100, ((2, 50),)), (40, 100, ((2, 40),)), (0, 0, ())],
)
def test_epochs_are_truncated_at_both_ends(start, end, remaining_epochs):
    assert checkpoints.truncate_epochs(epochs((0, 0), (2, 40)), start_offset=start, end_offset=end) == epochs(
        *remaining_epochs
    )


def test_an_epoch_without_records_is_replaced():
    assert checkpoints.assign_epoch(epochs((0, 0)), EpochStart(2, 0)) == epochs((2, 0))
    assert checkpoints.assign_epoch(epochs((0, 0)), EpochStart(0, 5)) == epochs((0, 0))
    assert checkpoints.assign_epoch(epochs((0, 0)), EpochStart(-1, 5)) == epochs((0, 0))
    assert checkpoints.add_recovered_epochs(epochs((3, 0)), epochs((2, 5), (4, 9))) == epochs((3, 0), (4, 9))


@pytest.mark.parametrize("most", [0, 30, 10**9])
def test_headers_kept_with_a_plan_only_avoid_a_second_read(monkeypatch, most):
    (directory,) = discover(str(LOG_BEFORE_RECOVERY))
    monkeypatch.setattr(recovery_draft, "MAX_HEADERS", most)
    for partition in directory.partitions:
        plan = plan_recovery(directory, partition)
        unread = replace(plan, segments=tuple(replace(segment, headers=None) for segment in plan.segments))
        assert sum(len(batches) for segment in plan.segments for batches in segment.headers or ()) <= most
        settings = RecoverySettings(1_760_000_000_000, index_interval_bytes=1024)
        assert compute_files(directory, plan, settings).files == compute_files(directory, unread, settings).files
