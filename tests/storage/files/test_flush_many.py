"""Many files are flushed by one system call if that is as safe, else one by one; errors are raised."""

from __future__ import annotations

import ctypes
import errno
import os

import pytest

from kafkaframes.storage.files import local_disk
from kafkaframes.storage.files.local_disk import LocalDisk


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / f"{number}.log" for number in range(local_disk.MIN_SYNCFS_FILES)]
    for path in paths:
        path.write_bytes(b"1")
    return [str(path) for path in paths]


@pytest.fixture
def flush_count(monkeypatch):
    """Return a function that counts the ``os.fsync`` calls so far."""
    calls = []
    fsync = os.fsync
    monkeypatch.setattr(os, "fsync", lambda descriptor: calls.append(fsync(descriptor)))
    return calls


def test_few_files_are_flushed_one_by_one(files, tmp_path, flush_count):
    LocalDisk().flush_all(files[:3], [str(tmp_path)])
    assert len(flush_count) == 4


def test_many_files_are_flushed_by_one_call_if_that_is_safe(files, tmp_path, flush_count, monkeypatch):
    monkeypatch.setattr(local_disk, "_is_syncfs_safe", lambda device: True)
    if not hasattr(ctypes.CDLL(None), "syncfs"):
        pytest.skip("this system has no syncfs")
    LocalDisk().flush_all(files, [str(tmp_path)])
    assert not flush_count


@pytest.mark.parametrize("release", ["5.7.19-generic", "6.1.0", "rolling"])
@pytest.mark.parametrize("file_system", ["ext4", "overlay", ""])
def test_files_are_flushed_one_by_one_if_one_call_is_not_safe(
    files, tmp_path, flush_count, monkeypatch, release, file_system
):
    monkeypatch.setattr(local_disk.platform, "release", lambda: release)
    monkeypatch.setattr(local_disk, "_read_filesystem_type", lambda device: file_system)
    LocalDisk().flush_all(files, [str(tmp_path)])
    is_one_call = release == "6.1.0" and file_system == "ext4" and local_disk.platform.system() == "Linux"
    assert len(flush_count) == (0 if is_one_call else len(files) + 1)


def test_an_error_of_the_disk_is_raised(files, monkeypatch):
    class FailingLibrary:
        def __init__(self, *_, **options):
            ctypes.set_errno(errno.EIO)

        def syncfs(self, descriptor):
            return -1

    monkeypatch.setattr(local_disk, "_is_syncfs_safe", lambda device: True)
    monkeypatch.setattr(local_disk.ctypes, "CDLL", FailingLibrary)
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        LocalDisk().flush_all(files, [])


def test_a_device_is_known_by_its_mount():
    assert local_disk._read_filesystem_type(0xFFFF_FFFF) == ""
