"""A log directory on a real disk: lock, identity, shutdown marker, checkpoints, deletion of topics, disk errors."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.storage.partition.builders import NOW_MS, build_batch, idempotent, lead

from kafkaframes.errors import LogDirError, OptionError, StorageError
from kafkaframes.jobs.verify.verify import verify
from kafkaframes.storage.files.checkpoints import MetaProperties, read_offset_checkpoint
from kafkaframes.storage.files.local_disk import LocalDisk
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.partition import LogSettings, ManagerSettings, open_log_directory

KAFKA_LOGS = Path(__file__).parents[2] / "data" / "logs"
META_PROPERTIES = MetaProperties({"version": "1", "node.id": "1", "cluster.id": "cluster", "directory.id": "directory"})
ORDERS, VIEWS = TopicPartition("orders", 0), TopicPartition("page-views", 12)
UNIQUE_ID = "3a400b54ac4a47ee86e55390ecea333b"


@pytest.fixture
def open_again(tmp_path):
    managers = []

    def open_again(now_ms=NOW_MS, **options):
        options = {"meta": META_PROPERTIES} | options
        managers.append(open_log_directory(str(tmp_path / "kafka"), now_ms=now_ms, **options))
        return managers[-1]

    yield open_again
    for manager in managers:
        if not manager.is_closed:
            manager.abandon()


def offsets_in(manager, name):
    path = Path(manager.path) / name
    return read_offset_checkpoint(path.read_bytes())


def test_a_clean_stop_leaves_marker_and_checkpoints(open_again):
    manager = open_again()
    log = manager.create(ORDERS, topic_id="IU6NTFbUTQiJMTtf1e--4g", now_ms=NOW_MS)
    manager.create(VIEWS, now_ms=NOW_MS)
    lead(log, build_batch(5))
    lead(log, build_batch(2))
    log.update_high_watermark(6)
    log.delete_records(3)
    assert not (Path(manager.path) / ".kafka_cleanshutdown").exists()
    manager.close(now_ms=NOW_MS, broker_epoch=21)
    assert (Path(manager.path) / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":21}'
    assert offsets_in(manager, "recovery-point-offset-checkpoint") == {ORDERS: 7}
    assert offsets_in(manager, "replication-offset-checkpoint") == {ORDERS: 6}
    assert offsets_in(manager, "log-start-offset-checkpoint") == {ORDERS: 3}
    assert offsets_in(manager, "cleaner-offset-checkpoint") == {}
    again = open_again()
    assert again.was_clean
    assert again.logs.keys() == {ORDERS}  # the other log has no records
    log = again.logs[ORDERS]
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset, log.recovery_point) == (3, 6, 7, 7)
    assert log.topic_id == "IU6NTFbUTQiJMTtf1e--4g"


def test_a_directory_is_locked_while_it_is_open(open_again, tmp_path):
    open_again()
    with pytest.raises(LogDirError, match=r"this process already has this directory open \(\.lock\)"):
        open_again()
    code = f"""
import sys
from kafkaframes.storage.partition import open_log_directory
try:
    open_log_directory({str(tmp_path / "kafka")!r}, now_ms=0)
except Exception as error:
    sys.exit(str(error))
"""
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "another process has this directory open (.lock)" in other.stderr


def test_a_directory_of_another_broker_is_rejected(open_again):
    open_again().close(now_ms=NOW_MS)
    with pytest.raises(LogDirError, match=r"node\.id is 1; expected 2"):
        open_again(meta=MetaProperties({**META_PROPERTIES.values, "node.id": "2"}))
    assert open_again(meta=None).was_clean


def test_a_directory_without_identity_requires_one(tmp_path):
    with pytest.raises(LogDirError, match=r"meta\.properties"):
        open_log_directory(str(tmp_path), now_ms=NOW_MS)


def test_a_deleted_log_is_renamed_and_removed_later(open_again):
    manager = open_again(settings_of=LogSettings(file_delete_delay_ms=1000))
    lead(manager.create(VIEWS, now_ms=NOW_MS), build_batch(1))
    manager.delete(VIEWS, unique_id=UNIQUE_ID, now_ms=NOW_MS)
    renamed_dir = Path(manager.path) / f"page-views-12.{UNIQUE_ID}-delete"
    assert renamed_dir.is_dir()
    manager.tick(NOW_MS + 999)
    assert renamed_dir.is_dir()
    manager.tick(NOW_MS + 1000)
    assert not renamed_dir.exists()
    with pytest.raises(OptionError):
        manager.delete(VIEWS, unique_id=UNIQUE_ID, now_ms=NOW_MS)


def test_a_deletion_interrupted_by_a_stop_continues(open_again):
    manager = open_again(settings_of=LogSettings(file_delete_delay_ms=1000))
    lead(manager.create(VIEWS, now_ms=NOW_MS), build_batch(1))
    manager.delete(VIEWS, unique_id=UNIQUE_ID, now_ms=NOW_MS)
    manager.close(now_ms=NOW_MS)
    again = open_again(settings_of=LogSettings(file_delete_delay_ms=1000))
    again.tick(NOW_MS + 1000)
    assert not (Path(manager.path) / f"page-views-12.{UNIQUE_ID}-delete").exists()


def test_periodic_work_is_done_when_it_is_due(open_again):
    settings = LogSettings(segment_bytes=100, retention_ms=1000, flush_ms=700, file_delete_delay_ms=500)
    manager = open_again(settings_of=settings, settings=ManagerSettings(log_retention_check_interval_ms=3000))
    log = manager.create(ORDERS, now_ms=NOW_MS)
    lead(log, build_batch(1))
    lead(log, build_batch(1))
    log.update_high_watermark(2)
    manager.tick(NOW_MS + 699)
    assert log.recovery_point == 1
    manager.tick(NOW_MS + 700)
    assert log.recovery_point == 2
    manager.tick(NOW_MS + 2999)
    assert log.log_start_offset == 0
    manager.tick(NOW_MS + 3000)
    assert log.log_start_offset == 2
    manager.tick(NOW_MS + 5000)
    assert offsets_in(manager, "replication-offset-checkpoint") == {ORDERS: 2}
    assert not [name for name in os.listdir(log.directory) if name.endswith(".deleted")]


def test_a_corrupt_checkpoint_counts_as_empty(open_again):
    manager = open_again()
    lead(manager.create(ORDERS, now_ms=NOW_MS), build_batch(3))
    manager.close(now_ms=NOW_MS)
    (Path(manager.path) / "recovery-point-offset-checkpoint").write_bytes(b"0\n7\n")
    again = open_again()
    assert [problem.file for problem in again.problems] == [f"{manager.path}/recovery-point-offset-checkpoint"]
    assert again.logs[ORDERS].log_end_offset == 3


@pytest.mark.skipif(os.geteuid() == 0, reason="root can write every file")
def test_a_directory_without_permission_is_reported(open_again):
    manager = open_again()
    manager.create(ORDERS, now_ms=NOW_MS)
    os.chmod(manager.logs[ORDERS].directory, 0o500)
    with pytest.raises(StorageError, match="denied"):
        manager.logs[ORDERS].roll(5, now_ms=NOW_MS)


@pytest.mark.parametrize("case", ["unclean-flipped-bit-active", "preallocated-torn-tail", "kraft-4x-transactions"])
def test_a_directory_of_a_real_broker_is_opened_and_appended(case, tmp_path):
    source = KAFKA_LOGS / case
    source = source / "before" if (source / "before").is_dir() else source
    shutil.copytree(source, tmp_path / "kafka")
    for path in (tmp_path / "kafka").rglob("*"):
        path.chmod(0o755 if path.is_dir() else 0o644)
    (tmp_path / "kafka").chmod(0o755)
    settings = LogSettings(segment_index_bytes=65536, index_interval_bytes=1024)
    manager = open_log_directory(str(tmp_path / "kafka"), now_ms=NOW_MS, settings_of=settings)
    for log in manager.logs.values():
        for sequence in range(3):
            lead(log, idempotent(777, sequence), epoch=50)
        log.update_high_watermark(log.log_end_offset)
    ends = {key: log.log_end_offset for key, log in manager.logs.items()}
    manager.close(now_ms=NOW_MS, broker_epoch=40)
    assert verify(discover(str(tmp_path / "kafka"))).is_sound
    again = open_log_directory(str(tmp_path / "kafka"), now_ms=NOW_MS, settings_of=settings)
    assert {key: log.log_end_offset for key, log in again.logs.items()} == ends
    again.abandon()


@pytest.mark.parametrize("topic", ["", ".", "..", "../elsewhere", "a/b", "a b", "é", "x" * 250])
def test_topic_names_that_kafka_rejects_are_rejected(topic, tmp_path):
    manager = open_log_directory(str(tmp_path / "kafka"), now_ms=NOW_MS, meta=META_PROPERTIES)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(OptionError, match="is not a valid topic name"):
        manager.create(TopicPartition(topic, 0), now_ms=NOW_MS)
    assert sorted(tmp_path.rglob("*")) == before
    manager.close(now_ms=NOW_MS)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"compression_type": "brotli"}, "unknown codec 'brotli'"),
        ({"message_timestamp_type": "now"}, "timestamp_type is .now.; expected one of"),
    ],
    ids=str,
)
def test_invalid_settings_are_rejected_before_an_append(settings, message):
    with pytest.raises(OptionError, match=message):
        LogSettings(**settings)


def test_unchanged_checkpoints_are_not_written_again(open_again, monkeypatch):
    """A start and a stop of a broker take eight sequential flushes, not sixteen."""
    manager = open_again()
    effects = []
    flush_all, sync_directory = LocalDisk.flush_all, LocalDisk.sync_directory

    def note_files(disk, files, directories):
        effects.append(len(files))
        flush_all(disk, files, directories)

    def note_directory(disk, path):
        effects.append(path)
        sync_directory(disk, path)

    monkeypatch.setattr(LocalDisk, "flush_all", note_files)
    monkeypatch.setattr(LocalDisk, "sync_directory", note_directory)
    manager.checkpoint_all()
    assert effects == [4, manager.path]
    manager.checkpoint_all()
    assert len(effects) == 2
    manager.checkpoint_cleaned_offset(TopicPartition("t", 0), 5)
    assert effects[2:] == [1, manager.path]
    manager.checkpoint_all()
    assert len(effects) == 4
