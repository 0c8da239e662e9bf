"""Everything that a partition's log does to a disk: its effects behind one protocol, so that each can be made to fail.

A ``Disk`` is a ``FileSystem`` that can also be written to. Its effects raise ``OSError`` as the system does;
``OnlineDisk`` stands between it and the logs of one log directory: the first failure takes the directory offline, as
in Kafka (LogDirFailureChannel): every later write is refused with a ``StorageError`` that names the cause, and what
was written before stays readable. An operation that can be undone as a whole, such as an append, brings it back
(``back_online``) if all that was missing is space, or a file descriptor; Kafka waits for a restart.

A process that has no file descriptor left closes files of the pool first, and tries again.
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
from kafkaframes.storage.files.descriptors import NO_DESCRIPTORS, descriptor_limit, reserved_descriptors
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, FileSystemOver, ReadAt, join, split
from kafkaframes.storage.files.local_disk import LocalDisk

_Answer = TypeVar("_Answer")
TEMPORARY = ".tmp"
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
MIN_OPEN_FILES, MAX_OPEN_FILES = 8, 512  # of the pool; it takes at most a third of what the process may have open


class DiskFile(Protocol):
    """One file, open for reading and writing at positions in bytes."""

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer where the file ends."""

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data`` at ``position``."""

    def truncate(self, size_bytes: int) -> None:
        """Cut the file, or lengthen it with zeros."""

    def fsync(self) -> None:
        """Return when everything written is on the disk."""

    def close(self) -> None:
        """Close the file."""


class Disk(FileSystem, Protocol):
    """A file system that can be written to. A rename or a new file lasts once its directory has been flushed."""

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading and return the system's descriptor, for the caller to close; None: it has none."""

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; an empty one is made where there is none.

        Args:
            is_private: only the user of this process may read it, on a disk whose files have a mode.
        """

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file that is there, or lengthen it with zeros."""

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it; one that is there is left as it is."""

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory, over ``target`` if that is a file."""

    def delete(self, path: str) -> None:
        """Delete a file, or a directory that is empty."""

    def sync_directory(self, path: str) -> None:
        """Return when the entries of a directory are on the disk."""

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Return when everything written to files, by whichever descriptor, and then directories are on the disk."""

    def set_modified(self, path: str, mtime_ms: int) -> None:
        """Set the time of a file's last change, in milliseconds since 1970; no effect on a disk without such times."""

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take a lock file as a broker does; return the function that releases it; None if another process holds it."""


class _OnlineFile:
    """A file of an ``OnlineDisk``; the disk may close the underlying file, and opens it again when it is used."""

    __slots__ = ("_disk", "_file", "_is_pooled", "_path")

    def __init__(self, disk: OnlineDisk, path: str, file: DiskFile, *, is_pooled: bool) -> None:
        self._disk = disk
        self._path = path
        self._file: DiskFile | None = file
        self._is_pooled = is_pooled

    def _opened(self) -> DiskFile:
        if self._is_pooled:
            self._disk.touch(self)
        if self._file is None:
            self._file = self._disk.reopen(self._path)
        return self._file

    def read(self, position: int, length: int) -> bytes:
        try:
            return self._disk.with_descriptors(lambda: self._opened().read(position, length))
        except OSError as error:  # a failed read does not take the directory offline: writes may still succeed
            raise StorageError(f"cannot be read: {error.strerror or error}", file=self._path) from error

    def write(self, position: int, data: bytes | bytearray) -> None:
        disk = self._disk
        disk.refuse_if_offline(self._path)  # what ``effect`` does, written out because this is the most frequent effect
        try:
            self._opened().write(position, data)
        except OSError as error:
            if error.errno not in NO_DESCRIPTORS:
                disk.fail(self._path, error)
            disk.effect(self._path, lambda: self._opened().write(position, data))

    def truncate(self, size_bytes: int) -> None:
        if self._file is None:  # not opened again: a broker that stops truncates three files of each partition
            self._disk.truncate(self._path, size_bytes)
        else:
            self._disk.effect(self._path, lambda: self._opened().truncate(size_bytes))

    def fsync(self) -> None:
        self._disk.effect(self._path, lambda: self._opened().fsync(), loses_data=True)

    def rest(self) -> None:
        """Close the underlying file until it is used again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        if self._is_pooled:
            self._disk.forget(self)
        self.rest()


class _OnlineReader:
    """A file of an ``OnlineDisk`` that is only read, and stays open as long as not too many are."""

    __slots__ = ("_disk", "_open", "_path", "_read_at")

    def __init__(self, disk: OnlineDisk, path: str) -> None:
        self._disk = disk
        self._path = path
        self._open: AbstractContextManager[ReadAt] | None = None
        self._read_at: ReadAt | None = None

    def __call__(self, position: int, length: int) -> bytes:
        self._disk.touch(self)
        if self._read_at is None:
            self._open, self._read_at = self._disk.with_descriptors(self._enter)
        return self._read_at(position, length)

    def _enter(self) -> tuple[AbstractContextManager[ReadAt], ReadAt]:
        file = self._disk.open(self._path)
        return file, file.__enter__()

    def rest(self) -> None:
        """Close the file, until it is read again."""
        if self._open is not None:
            self._open.__exit__(None, None, None)
            self._open = self._read_at = None

    def close(self) -> None:
        """Close the file."""
        self._disk.forget(self)
        self.rest()


class OnlineDisk(FileSystemOver):
    """A disk up to its first failure, shared by the logs of one log directory, all of one thread.

    Args:
        max_open_files: how many files stay open at once; the one that was not used for longest is closed, and opened
            again when it is used. Files of ``open_apart`` are not counted.

    Attributes:
        failure: the error that took the directory offline; None before the first.
    """

    inner: Disk

    def __init__(self, disk: Disk, *, max_open_files: int | None = None) -> None:
        self.inner = disk
        limit = min(max(descriptor_limit() // 3, MIN_OPEN_FILES), MAX_OPEN_FILES)
        self._pool_limit = self._max_open_files = limit if max_open_files is None else max_open_files
        self._max_descriptor = descriptor_limit() - reserved_descriptors() // 2
        self._owner = threading.get_ident()
        self._open: OrderedDict[_OnlineFile | _OnlineReader, None] = OrderedDict()
        self.failure: StorageError | None = None
        self._lacks_space = False

    @property
    def open_files(self) -> int:
        """How many files are open, or may be."""
        return len(self._open)

    def touch(self, file: _OnlineFile | _OnlineReader) -> None:
        """Mark a file as used; if too many are open, the least recently used one is closed."""
        if file in self._open:
            self._open.move_to_end(file)
            return
        self._open[file] = None
        self._owner = threading.get_ident()
        if len(self._open) > self._max_open_files:
            self._open.popitem(last=False)[0].rest()

    def shrink_pool(self) -> bool:
        """Close half of the pool's files and keep fewer open from now on; return False if few are open."""
        least = min(MIN_OPEN_FILES, self._pool_limit)
        self._max_open_files = max(min(self._max_open_files, len(self._open)) // 2, least)
        if len(self._open) <= self._max_open_files:
            return False
        while len(self._open) > self._max_open_files:
            self._open.popitem(last=False)[0].rest()
        return True

    def grow_pool(self) -> None:
        """Keep twice as many files open as now, up to the pool's limit: enough descriptors are free."""
        self._max_open_files = min(self._max_open_files * 2, self._pool_limit)

    def with_descriptors(self, act: Callable[[], _Answer]) -> _Answer:
        """Do something; as long as it fails for lack of a descriptor, close a file of the pool and do it again.

        Other threads close none: the disk's own thread may be using them.

        Raises:
            OSError, LogDirError: it fails for another reason, or no file is open.
        """
        while True:
            try:
                return act()
            except (OSError, LogDirError) as error:
                cause = error if isinstance(error, OSError) else error.__cause__
                lacks_descriptor = isinstance(cause, OSError) and cause.errno in NO_DESCRIPTORS
                if not lacks_descriptor or not self._open or threading.get_ident() != self._owner:
                    raise
                self._open.popitem(last=False)[0].rest()

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        return self.with_descriptors(lambda: self.inner.list_directory(path))

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; fewer where the file ends."""
        return self.with_descriptors(lambda: self.inner.read(path, position=position, length=length))

    def forget(self, file: _OnlineFile | _OnlineReader) -> None:
        """Remove a closed file from the list of open ones."""
        self._open.pop(file, None)

    def reopen(self, path: str) -> DiskFile:
        """Open a file again that was open before. A deleted file is not created again: it would begin with a hole."""
        if self.inner.stat(path) is None:
            raise FileNotFoundError(errno.ENOENT, "the file is gone", path)
        return self.inner.open_file(path)

    def effect(self, path: str, act: Callable[[], _Answer], *, loses_data: bool = False) -> _Answer:
        """Run one effect on the disk, unless an earlier one has failed.

        Args:
            loses_data: where it fails, what was written before may be gone: flushing, also for lack of space.

        Raises:
            StorageError: it failed, or an earlier effect did.
        """
        self.refuse_if_offline(path)
        try:
            return self.with_descriptors(act)
        except OSError as error:
            self.fail(path, error, loses_data=loses_data)

    def refuse_if_offline(self, path: str) -> None:
        """Raise if an earlier effect has failed.

        Raises:
            StorageError: an earlier effect has failed; the error names it.
        """
        if self.failure is not None:
            reason = f"not written: the log directory is offline since {self.failure}"
            raise StorageError(reason, file=path)

    def fail(self, path: str, error: OSError, *, loses_data: bool = False) -> NoReturn:
        """Take the directory offline.

        Raises:
            StorageError: always; later effects name the same one.
        """
        self.failure = StorageError(f"cannot be written: {error.strerror or error}", file=path)
        self._lacks_space = error.errno in NO_DESCRIPTORS or (error.errno in _NO_SPACE and not loses_data)
        raise self.failure from error

    def back_online(self, undo: Callable[[], None] = lambda: None) -> bool:
        """Take the directory online again if it lacked only space or a descriptor; return whether it is online.

        Args:
            undo: removes what the failed operation has half done, on the disk and in memory. Only an operation that can
                be undone as a whole may call this; if the undoing fails, too, the directory stays offline.
        """
        if self.failure is not None and self._lacks_space:
            failure, self.failure = self.failure, None
            try:
                undo()
            except LogDirError:
                self.failure, self._lacks_space = self.failure or failure, False
        return self.failure is None

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; an empty one is made where there is none."""
        file = self.effect(path, lambda: self.inner.open_file(path, is_private=is_private))
        opened = _OnlineFile(self, path, file, is_pooled=True)
        self.touch(opened)
        return opened

    def open_apart(self, path: str) -> DiskFile:
        """Open a file for another thread: it is not closed for others."""
        return _OnlineFile(self, path, self.effect(path, lambda: self.inner.open_file(path)), is_pooled=False)

    def flush_file(self, path: str) -> None:
        """Return when everything written to a file that is there is on the disk; callable from any thread.

        Raises:
            StorageError: the disk fails.
        """
        file = self.open_apart(path)
        try:
            file.fsync()
        finally:
            file.close()

    def reader(self, path: str) -> _OnlineReader:
        """Return a reader that opens its file at the first read; the caller closes it."""
        return _OnlineReader(self, path)

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading and return the system's descriptor, for the caller to close.

        None where files have no descriptors, or too many files are open; the caller reads it then.

        Raises:
            StorageError: it cannot be opened.
        """
        try:
            descriptor = self.inner.open_descriptor(path)
        except OSError as error:
            if error.errno in NO_DESCRIPTORS:
                return None
            raise StorageError(f"cannot be read: {error.strerror or error}", file=path) from error
        if descriptor is not None and descriptor >= self._max_descriptor:  # the lowest free number: few are left
            os.close(descriptor)
            return None
        return descriptor

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file that is there, or lengthen it with zeros."""
        self.effect(path, lambda: self.inner.truncate(path, size_bytes))

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""
        self.effect(path, lambda: self.inner.make_directory(path))

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory."""
        self.effect(source, lambda: self.inner.rename(source, target))

    def delete(self, path: str) -> None:
        """Delete a file, or a directory that is empty."""
        self.effect(path, lambda: self.inner.delete(path))

    def sync_directory(self, path: str) -> None:
        """Return when the entries of a directory are on the disk."""
        self.effect(path, lambda: self.inner.sync_directory(path), loses_data=True)

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Return when files and directories are on the disk; nothing without any."""
        if paths := [*files, *directories]:
            self.effect(paths[0], lambda: self.inner.flush_all(files, directories), loses_data=True)

    def set_modified(self, path: str, mtime_ms: int) -> None:
        """Say when a file was modified last."""
        self.effect(path, lambda: self.inner.set_modified(path, mtime_ms))

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take a lock file as a broker does; None where another one holds it."""
        return self.effect(path, lambda: self.inner.lock(path))


def replace_file(disk: Disk, path: str, data: bytes, *, is_private: bool = False) -> None:
    """Write a small file so that a crash leaves the old one or the new one (Kafka's CheckpointFile).

    Raises:
        StorageError: the disk fails.
    """
    write_whole(disk, path, data, is_private=is_private)
    disk.sync_directory(split(path)[0])


def keep_file(disk: OnlineDisk, path: str, data: bytes, *, is_private: bool = False) -> None:
    """Replace a small file that is written again and again: where there is no space, the disk stays online.

    Raises:
        StorageError: the disk fails; the old file is still there.
    """

    def undo() -> None:
        if disk.stat(path + TEMPORARY) is not None:
            disk.delete(path + TEMPORARY)

    try:
        replace_file(disk, path, data, is_private=is_private)
    except StorageError:
        disk.back_online(undo)
        raise


def keep_files(disk: OnlineDisk, directory: str, contents: Mapping[str, bytes]) -> None:
    """Replace some small files of a directory as ``keep_file`` does: flushed together, and the directory once.

    Raises:
        StorageError: the disk fails; each file is the old one or the new one.
    """
    paths = {join(directory, name): data for name, data in contents.items()}

    def undo() -> None:
        for path in paths:
            if disk.stat(path + TEMPORARY) is not None:
                disk.delete(path + TEMPORARY)

    try:
        for path, data in paths.items():
            _write_temporary(disk, path + TEMPORARY, data)
        disk.flush_all([path + TEMPORARY for path in paths], ())
        for path in paths:
            disk.rename(path + TEMPORARY, path)
        disk.sync_directory(directory)
    except StorageError:
        disk.back_online(undo)
        raise


def overwrite(disk: Disk, path: str, data: bytes) -> None:
    """Write a file in place, without flushing it: one of which a crash may leave any part.

    It is not emptied first: ext4 would begin to write it to the disk at once when it is closed.

    Raises:
        StorageError: the disk fails.
    """
    file = disk.open_file(path)
    try:
        file.write(0, data)
        file.truncate(len(data))
    finally:
        file.close()


def write_whole(
    disk: Disk,
    path: str,
    data: bytes,
    *,
    temporary: str = TEMPORARY,
    is_private: bool = False,
    is_flushed: bool = True,
) -> None:
    """Write a file under another name, flush it, and rename it. Flush its directory to make the rename durable.

    Raises:
        StorageError: the disk fails.
    """
    unfinished = path + temporary
    _write_temporary(disk, unfinished, data, is_private=is_private, is_flushed=is_flushed)
    disk.rename(unfinished, path)


def _write_temporary(disk: Disk, path: str, data: bytes, *, is_private: bool = False, is_flushed: bool = False) -> None:
    file = disk.open_file(path, is_private=is_private)
    try:
        file.truncate(0)
        file.write(0, data)
        if is_flushed:
            file.fsync()
    finally:
        file.close()


def online(disk: Disk | None) -> OnlineDisk:
    """Return a disk that goes offline at its first failure; this machine's by default.

    >>> online(None).failure is None
    True
    """
    return disk if isinstance(disk, OnlineDisk) else OnlineDisk(LocalDisk() if disk is None else disk)
