"""The protocol of disk operations, and the handling of disk failures, for the logs of a log directory.

A ``Disk`` is a writable ``FileSystem``. The operations of a disk raise ``OSError``. ``OnlineDisk`` wraps the disk of
one log directory. The first failed write takes the directory offline, as in Kafka (LogDirFailureChannel). After the
first failed write, all writes raise a ``StorageError`` with the cause, and existing data stays readable. If only space
or a file descriptor was missing, an operation that can be undone completely, for example an append, can take the
directory online again (``bring_online``). Kafka must be restarted to bring a directory online.

If the process has no free file descriptor, the disk closes pooled files and tries again.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn, Protocol, TypeVar

from kafkaframes.errors import LogDirError, StorageError
from kafkaframes.storage.files.descriptors import (
    TOO_MANY_FILES_ERRORS,
    count_reserved_descriptors,
    get_descriptor_limit,
)
from kafkaframes.storage.files.filesystem import DelegatingFileSystem, FileInfo, FileSystem, ReadAt, join, split_path
from kafkaframes.storage.files.local_disk import LocalDisk

_Answer = TypeVar("_Answer")
TEMPORARY_SUFFIX = ".tmp"
_NO_SPACE_ERRORS = (errno.ENOSPC, errno.EDQUOT)
# Smallest and largest pool of open files, which uses at most a third of the process's descriptors.
MIN_OPEN_FILES, MAX_OPEN_FILES = 8, 512


class DiskFile(Protocol):
    """A file, open for reading and writing at byte positions."""

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer at the end of the file."""

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data`` at ``position``."""

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file, or extend it with zeros."""

    def fsync(self) -> None:
        """Flush the written data to the disk."""

    def close(self) -> None:
        """Close the file."""


class Disk(FileSystem, Protocol):
    """A writable file system. A rename or a new file is durable after its directory has been flushed."""

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading and return its descriptor, which the caller closes; None if files have none."""

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; create it if it does not exist.

        Args:
            is_private: whether only the user of this process may read the file, if the disk supports file modes.
        """

    def truncate(self, path: str, size_bytes: int) -> None:
        """Truncate an existing file, or extend it with zeros."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents, unless they exist."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; an existing target file is replaced."""

    def delete(self, path: str) -> None:
        """Delete a file or an empty directory."""

    def sync_directory(self, path: str) -> None:
        """Flush the entries of a directory to the disk."""

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Flush files, whichever descriptor wrote them, and then directories to the disk."""

    def set_modified(self, path: str, mtime_ms: int) -> None:
        """Set a file's modification time, milliseconds since 1970; without effect if the disk has none."""

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file as a broker does; return the function that releases the lock, or None if it is already held."""


class _OnlineFile:
    """A file of an ``OnlineDisk``. The disk may close the underlying file between uses, and then reopens it."""

    __slots__ = ("_disk", "_file", "_is_pooled", "_path")

    def __init__(self, disk: OnlineDisk, path: str, file: DiskFile, *, is_pooled: bool) -> None:
        self._disk = disk
        self._path = path
        self._file: DiskFile | None = file
        self._is_pooled = is_pooled

    def _open_file(self) -> DiskFile:
        if self._is_pooled:
            self._disk.mark_used(self)
        if self._file is None:
            self._file = self._disk.reopen(self._path)
        return self._file

    def read(self, position: int, length: int) -> bytes:
        try:
            return self._disk.run_with_descriptors(lambda: self._open_file().read(position, length))
        except OSError as error:  # a failed read does not take the directory offline: writes may still succeed
            raise StorageError(f"cannot be read: {error.strerror or error}", file=self._path) from error

    def write(self, position: int, data: bytes | bytearray) -> None:
        disk = self._disk
        disk.check_online(self._path)  # same as ``run_write``, but inlined, because writes are frequent
        try:
            self._open_file().write(position, data)
        except OSError as error:
            if error.errno not in TOO_MANY_FILES_ERRORS:
                disk.take_offline(self._path, error)
            disk.run_write(self._path, lambda: self._open_file().write(position, data))

    def truncate(self, size_bytes: int) -> None:
        if self._file is None:  # the file is not reopened: a stopping broker truncates three files of each partition
            self._disk.truncate(self._path, size_bytes)
        else:
            self._disk.run_write(self._path, lambda: self._open_file().truncate(size_bytes))

    def fsync(self) -> None:
        self._disk.run_write(self._path, lambda: self._open_file().fsync(), loses_data=True)

    def suspend(self) -> None:
        """Close the underlying file until the next use."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        if self._is_pooled:
            self._disk.forget(self)
        self.suspend()


class _OnlineReader:
    """A read-only file of an ``OnlineDisk``, which stays open unless the pool is full."""

    __slots__ = ("_disk", "_open", "_path", "_read_at")

    def __init__(self, disk: OnlineDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._open: AbstractContextManager[ReadAt] | None = None
        self._read_at: ReadAt | None = None

    def __call__(self, position: int, length: int) -> bytes:
        self._disk.mark_used(self)
        if self._read_at is None:
            self._open, self._read_at = self._disk.run_with_descriptors(self._open_file)
        return self._read_at(position, length)

    def _open_file(self) -> tuple[AbstractContextManager[ReadAt], ReadAt]:
        file = self._disk.open(self._path)
        return file, file.__enter__()

    def suspend(self) -> None:
        """Close the file until the next read."""
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = self._read_at = None

    def close(self) -> None:
        """Close the file."""
        self._disk.forget(self)
        self.suspend()


class OnlineDisk(DelegatingFileSystem):
    """A disk that goes offline after its first failed write.

    All logs of a log directory share one ``OnlineDisk``, in one thread.

    Args:
        max_open_files: size of the pool of open files. If the pool is full, the least recently used file is closed, and
            reopened at its next use. Files of ``open_unpooled`` do not count.

    Attributes:
        failure: error that took the directory offline; None while the directory is online.
    """

    inner: Disk

    def __init__(self, disk: Disk, *, max_open_files: int | None = None) -> None:
        self.inner = disk
        limit = min(max(get_descriptor_limit() // 3, MIN_OPEN_FILES), MAX_OPEN_FILES)
        self._pool_limit = self._max_open_files = limit if max_open_files is None else max_open_files
        self._max_descriptor = get_descriptor_limit() - count_reserved_descriptors() // 2
        self._owner = threading.get_ident()
        self._open: OrderedDict[_OnlineFile | _OnlineReader, None] = OrderedDict()
        self.failure: StorageError | None = None
        self._lacks_space = False

    @property
    def pooled_file_count(self) -> int:
        """Number of files in the pool. Some of these files may be closed."""
        return len(self._open)

    def mark_used(self, file: _OnlineFile | _OnlineReader) -> None:
        """Mark a file as used; if the pool is full, close the least recently used file."""
        if file in self._open:
            self._open.move_to_end(file)
            return
        self._open[file] = None
        self._owner = threading.get_ident()
        if len(self._open) > self._max_open_files:
            self._open.popitem(last=False)[0].suspend()

    def shrink_pool(self) -> bool:
        """Close half of the pooled files and reduce the pool; return False if the pool is already at its minimum."""
        min_files = min(MIN_OPEN_FILES, self._pool_limit)
        self._max_open_files = max(min(self._max_open_files, len(self._open)) // 2, min_files)
        if len(self._open) <= self._max_open_files:
            return False
        while len(self._open) > self._max_open_files:
            self._open.popitem(last=False)[0].suspend()
        return True

    def grow_pool(self) -> None:
        """Double the pool up to its limit, because enough descriptors are free."""
        self._max_open_files = min(self._max_open_files * 2, self._pool_limit)

    def run_with_descriptors(self, operation: Callable[[], _Answer]) -> _Answer:
        """Run an operation; while it fails for lack of a descriptor, close a pooled file and repeat it.

        Only the disk's own thread closes files, because it may be using them while other threads call this method.

        Raises:
            OSError, LogDirError: the operation fails for another reason, or no pooled file is open.
        """
        while True:
            try:
                return operation()
            except (OSError, LogDirError) as error:
                cause = error if isinstance(error, OSError) else error.__cause__
                lacks_descriptor = isinstance(cause, OSError) and cause.errno in TOO_MANY_FILES_ERRORS
                if not lacks_descriptor or not self._open or threading.get_ident() != self._owner:
                    raise
                self._open.popitem(last=False)[0].suspend()

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        return self.run_with_descriptors(lambda: self.inner.list_directory(path))

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer at the end of the file."""
        return self.run_with_descriptors(lambda: self.inner.read(path, position=position, length=length))

    def forget(self, file: _OnlineFile | _OnlineReader) -> None:
        """Remove a closed file from the pool."""
        self._open.pop(file, None)

    def reopen(self, path: str) -> DiskFile:
        """Reopen a file. A deleted file is not created again, because it would start with a hole."""
        if self.inner.stat(path) is None:
            raise FileNotFoundError(errno.ENOENT, "the file was deleted", path)
        return self.inner.open_file(path)

    def run_write(self, path: str, operation: Callable[[], _Answer], *, loses_data: bool = False) -> _Answer:
        """Run a write operation on the disk, unless an earlier one has failed.

        Args:
            loses_data: whether a failure of this operation can lose data that was written earlier. A failed flush can
                lose data even if it fails for lack of space.

        Raises:
            StorageError: this operation or an earlier one failed.
        """
        self.check_online(path)
        try:
            return self.run_with_descriptors(operation)
        except OSError as error:
            self.take_offline(path, error, loses_data=loses_data)

    def check_online(self, path: str) -> None:
        """Raise an error if an earlier operation has failed.

        Raises:
            StorageError: an earlier operation has failed; the message contains that operation's error.
        """
        if self.failure is not None:
            reason = f"not written: the log directory went offline: {self.failure}"
            raise StorageError(reason, file=path)

    def take_offline(self, path: str, error: OSError, *, loses_data: bool = False) -> NoReturn:
        """Take the directory offline.

        Raises:
            StorageError: always. Later write operations fail with an error that names this cause.
        """
        self.failure = StorageError(f"cannot be written: {error.strerror or error}", file=path)
        self._lacks_space = error.errno in TOO_MANY_FILES_ERRORS or (error.errno in _NO_SPACE_ERRORS and not loses_data)
        raise self.failure from error

    def bring_online(self, undo: Callable[[], None] = lambda: None) -> bool:
        """Take the directory online again if only space or a descriptor was missing; return whether it is online.

        Args:
            undo: function that removes the partial results of the failed operation, on the disk and in memory. Only an
                operation that can be undone completely may call this method. If ``undo`` fails, the directory stays
                offline.
        """
        if self.failure is not None and self._lacks_space:
            failure, self.failure = self.failure, None
            try:
                undo()
            except LogDirError:
                self.failure, self._lacks_space = self.failure or failure, False
        return self.failure is None

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; create it if it does not exist."""
        file = self.run_write(path, lambda: self.inner.open_file(path, is_private=is_private))
        online_file = _OnlineFile(self, path, file, is_pooled=True)
        self.mark_used(online_file)
        return online_file

    def open_unpooled(self, path: str) -> DiskFile:
        """Open a file outside the pool, for use by another thread."""
        return _OnlineFile(self, path, self.run_write(path, lambda: self.inner.open_file(path)), is_pooled=False)

    def flush_file(self, path: str) -> None:
        """Flush an existing file to the disk; callable from any thread.

        Raises:
            StorageError: the disk fails.
        """
        file = self.open_unpooled(path)
        try:
            file.fsync()
        finally:
            file.close()

    def make_reader(self, path: str) -> _OnlineReader:
        """Return a reader that opens its file at the first read. The caller closes it."""
        return _OnlineReader(self, path)

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading and return its descriptor, which the caller closes.

        Returns:
            The descriptor, or None if files have no descriptors or too many files are open.

        Raises:
            StorageError: the file cannot be opened.
        """
        try:
            descriptor = self.inner.open_descriptor(path)
        except OSError as error:
            if error.errno in TOO_MANY_FILES_ERRORS:
                return None
            raise StorageError(f"cannot be read: {error.strerror or error}", file=path) from error
        if (
            descriptor is not None and descriptor >= self._max_descriptor
        ):  # descriptors are assigned in ascending order, so only a few are free
            os.close(descriptor)
            return None
        return descriptor

    def truncate(self, path: str, size_bytes: int) -> None:
        """Truncate an existing file, or extend it with zeros."""
        self.run_write(path, lambda: self.inner.truncate(path, size_bytes))

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self.run_write(path, lambda: self.inner.make_directory(path))

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory."""
        self.run_write(source, lambda: self.inner.rename(source, target))

    def delete(self, path: str) -> None:
        """Delete a file or an empty directory."""
        self.run_write(path, lambda: self.inner.delete(path))

    def sync_directory(self, path: str) -> None:
        """Flush the entries of a directory to the disk."""
        self.run_write(path, lambda: self.inner.sync_directory(path), loses_data=True)

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Flush files and directories to the disk, if there are any."""
        if paths := [*files, *directories]:
            self.run_write(paths[0], lambda: self.inner.flush_all(files, directories), loses_data=True)

    def set_modified(self, path: str, mtime_ms: int) -> None:
        """Set a file's modification time."""
        self.run_write(path, lambda: self.inner.set_modified(path, mtime_ms))

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file as a broker does; return the function that releases the lock, or None if it is already held."""
        return self.run_write(path, lambda: self.inner.lock(path))


def replace_file(disk: Disk, path: str, data: bytes, *, is_private: bool = False) -> None:
    """Replace a small file so that after a crash it has the old or the new content (Kafka's CheckpointFile).

    Raises:
        StorageError: the disk fails.
    """
    write_whole_file(disk, path, data, is_private=is_private)
    disk.sync_directory(split_path(path)[0])


def rewrite_file(disk: OnlineDisk, path: str, data: bytes, *, is_private: bool = False) -> None:
    """Replace a small file that is written repeatedly; if only space is missing, the disk stays online.

    Raises:
        StorageError: the disk fails; the old file still exists.
    """

    def delete_temporary_file() -> None:
        if disk.stat(path + TEMPORARY_SUFFIX) is not None:
            disk.delete(path + TEMPORARY_SUFFIX)

    try:
        replace_file(disk, path, data, is_private=is_private)
    except StorageError:
        disk.bring_online(delete_temporary_file)
        raise


def rewrite_files(disk: OnlineDisk, directory: str, contents: Mapping[str, bytes]) -> None:
    """Replace small files of a directory like ``rewrite_file``, with one flush for all files and one for the directory.

    Raises:
        StorageError: the disk fails; each file has its old or its new content.
    """
    paths = {join(directory, name): data for name, data in contents.items()}

    def delete_temporary_files() -> None:
        for path in paths:
            if disk.stat(path + TEMPORARY_SUFFIX) is not None:
                disk.delete(path + TEMPORARY_SUFFIX)

    try:
        for path, data in paths.items():
            _write_temporary(disk, path + TEMPORARY_SUFFIX, data)
        disk.flush_all([path + TEMPORARY_SUFFIX for path in paths], ())
        for path in paths:
            disk.rename(path + TEMPORARY_SUFFIX, path)
        disk.sync_directory(directory)
    except StorageError:
        disk.bring_online(delete_temporary_files)
        raise


def overwrite(disk: Disk, path: str, data: bytes) -> None:
    """Write a file in place, without flushing it. After a crash, any part of the content may be missing.

    The file is not truncated first, because ext4 would then flush it when it is closed.

    Raises:
        StorageError: the disk fails.
    """
    file = disk.open_file(path)
    try:
        file.write(0, data)
        file.truncate(len(data))
    finally:
        file.close()


def write_whole_file(
    disk: Disk,
    path: str,
    data: bytes,
    *,
    temporary: str = TEMPORARY_SUFFIX,
    is_private: bool = False,
    is_flushed: bool = True,
) -> None:
    """Write a file under a temporary name, flush it, and rename it.

    The caller flushes the directory to make the rename durable.

    Raises:
        StorageError: the disk fails.
    """
    temporary_path = path + temporary
    _write_temporary(disk, temporary_path, data, is_private=is_private, is_flushed=is_flushed)
    disk.rename(temporary_path, path)


def _write_temporary(disk: Disk, path: str, data: bytes, *, is_private: bool = False, is_flushed: bool = False) -> None:
    file = disk.open_file(path, is_private=is_private)
    try:
        file.truncate(0)
        file.write(0, data)
        if is_flushed:
            file.fsync()
    finally:
        file.close()


def to_online_disk(disk: Disk | None) -> OnlineDisk:
    """Return a disk that goes offline after its first failed write; by default the local disk.

    >>> to_online_disk(None).failure is None
    True
    """
    return disk if isinstance(disk, OnlineDisk) else OnlineDisk(LocalDisk() if disk is None else disk)
