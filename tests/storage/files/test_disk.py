"""The number of open files of a log directory is limited, without loss of data."""

from __future__ import annotations

import errno
import os
from contextlib import suppress

import pytest
from tests.storage.partition.builders import NOW_MS, build_batch, lead
from tests.storage.partition.memory_disk import MemoryDisk

from kafkaframes.errors import StorageError
from kafkaframes.storage.files.disk import OnlineDisk
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.local_disk import LocalDisk
from kafkaframes.storage.files.memory_disk import OverlayDisk
from kafkaframes.storage.partition import create_log, open_log
from kafkaframes.storage.partition.fetch import LOG_END


def count_open_descriptors(directory):
    """Return how many files below a directory this process has open."""
    descriptor_count = 0
    for number in os.listdir("/proc/self/fd"):
        with suppress(FileNotFoundError):  # the listing's own
            descriptor_count += os.readlink(f"/proc/self/fd/{number}").startswith(str(directory))
    return descriptor_count


def test_the_number_of_open_files_is_limited(tmp_path):
    disk = OnlineDisk(LocalDisk(), max_open_files=4)
    logs = [create_log(str(tmp_path / f"t-{number}"), now_ms=NOW_MS, disk=disk) for number in range(6)]
    for turn in range(3):
        for number, log in enumerate(logs):
            lead(log, build_batch(2, value=b"%d" % (number + turn) * 3000))
            assert (
                log.read(turn * 2, max_bytes=1 << 20, isolation=LOG_END).records.count(b"%d" % (number + turn)) >= 3000
            )
            assert disk.pooled_file_count <= 4
            assert count_open_descriptors(tmp_path) <= 4
    for log in logs:
        log.roll(now_ms=NOW_MS)
        assert log.read(3, max_bytes=10, isolation=LOG_END).records
        assert count_open_descriptors(tmp_path) <= 4
    for log in logs:
        log.close(now_ms=NOW_MS)
    assert count_open_descriptors(tmp_path) == disk.pooled_file_count == 0
    again = [open_log(log.directory, now_ms=NOW_MS, disk=disk) for log in logs]
    assert [log.log_end_offset for log in again] == [6] * 6


def test_a_deleted_file_is_not_created_again_when_it_is_reopened(tmp_path):
    disk = OnlineDisk(LocalDisk(), max_open_files=1)
    first, second = disk.open_file(str(tmp_path / "first")), disk.open_file(str(tmp_path / "second"))
    first.write(0, b"first")
    second.write(0, b"second")
    (tmp_path / "first").unlink()
    with pytest.raises(StorageError, match="the file was deleted"):
        first.write(5, b"more")
    assert not (tmp_path / "first").exists()
    assert disk.failure is not None


def test_a_closed_file_is_truncated(tmp_path):
    disk = OnlineDisk(LocalDisk(), max_open_files=1)
    first, second = disk.open_file(str(tmp_path / "first")), disk.open_file(str(tmp_path / "second"))
    second.write(0, b"second")
    for file, name in ((first, "first"), (second, "second")):
        file.truncate(3)
        assert (tmp_path / name).stat().st_size == 3
        assert count_open_descriptors(tmp_path) == 1
    (tmp_path / "first").unlink()
    with pytest.raises(StorageError):
        first.truncate(2)
    assert not (tmp_path / "first").exists()
    assert disk.failure is not None


def test_a_file_in_use_by_another_thread_stays_open(tmp_path):
    disk = OnlineDisk(LocalDisk(), max_open_files=1)
    apart = disk.open_unpooled(str(tmp_path / "apart"))
    for number in range(3):
        disk.open_file(str(tmp_path / str(number))).write(0, b"x")
    assert count_open_descriptors(tmp_path) == 2
    (tmp_path / "apart").unlink()
    apart.write(0, b"still")
    assert apart.read(0, 5) == b"still"
    apart.close()
    assert count_open_descriptors(tmp_path) == 1


def test_a_reader_opens_its_file_on_demand_and_reopens_it(tmp_path):
    disk = OnlineDisk(LocalDisk(), max_open_files=1)
    (tmp_path / "a").write_bytes(b"abc")
    (tmp_path / "b").write_bytes(b"def")
    a, b = disk.make_reader(str(tmp_path / "a")), disk.make_reader(str(tmp_path / "b"))
    assert count_open_descriptors(tmp_path) == 0
    assert (a(0, 2), b(1, 2), a(1, 9)) == (b"ab", b"ef", b"bc")
    assert count_open_descriptors(tmp_path) == 1
    a.close()
    b.close()
    assert count_open_descriptors(tmp_path) == disk.pooled_file_count == 0


def test_creating_a_log_equals_opening_an_empty_directory():
    created_disk, opened_disk = MemoryDisk(), MemoryDisk()
    for disk in (created_disk, opened_disk):
        disk.make_directory("/kafka")
        disk.sync_directory("/")
    new = create_log("/kafka/orders-3", now_ms=NOW_MS, disk=created_disk)
    opened_disk.make_directory("/kafka/orders-3")
    old = open_log("/kafka/orders-3", now_ms=NOW_MS, disk=opened_disk)
    assert new.topic_partition == old.topic_partition
    for log, disk in ((new, created_disk), (old, opened_disk)):
        disk.sync_directory("/kafka")
        assert lead(log, build_batch(2)).first_offset == 0
        log.close(now_ms=NOW_MS)
    files = [
        {one.name: disk.read(one.path) for one in disk.list_directory("/kafka/orders-3")}
        for disk in (created_disk, opened_disk)
    ]
    assert files[0] == files[1]
    survivor = created_disk.crash(lambda pending: 0)
    assert survivor.list_directory("/kafka/orders-3") == created_disk.list_directory("/kafka/orders-3")


def test_a_file_of_the_lower_disk_has_a_descriptor_until_it_is_written(tmp_path):
    path, deleted_path = str(tmp_path / "file"), str(tmp_path / "gone")
    for one in (path, deleted_path):
        (tmp_path / one).write_bytes(b"underneath")
    disk = OnlineDisk(OverlayDisk(LocalFileSystem()))
    open_file = disk.open_file(path)
    descriptor = disk.open_descriptor(path)
    assert os.pread(descriptor, 5, 0) == b"under"
    os.close(descriptor)
    open_file.write(0, b"above")
    assert disk.open_descriptor(path) is None
    disk.delete(deleted_path)
    assert disk.open_descriptor(deleted_path) is None
    assert OverlayDisk(MemoryDisk()).open_descriptor(path) is None
    with pytest.raises(StorageError, match="cannot be read"):
        OnlineDisk(LocalDisk()).open_descriptor(str(tmp_path / "no such file"))


def test_without_free_descriptors_reads_do_not_fail(monkeypatch):
    def refuse(self, path):
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(LocalDisk, "open_descriptor", refuse)
    disk = OnlineDisk(LocalDisk())
    assert disk.open_descriptor("anything") is None
    assert disk.failure is None
