"""Faults for disk operations: slow, full, failing, or torn in the middle of a write.

``broker.on_disk("write", path="*/orders-0/*.log")`` creates a rule, and the rule's methods define its fault. Rules are
tried in order of their creation; the first rule that matches decides. As in Kafka, the first failure takes the log
directory offline, and Produce requests fail with KAFKA_STORAGE_ERROR until the broker is restarted. If the disk is
full, Produce requests fail until there is free space.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Self

from kafkaframes.broker.faults.power_cut import UnflushedFiles
from kafkaframes.broker.faults.rules import RuleBase, RuleHistory, find_caller_line, format_call
from kafkaframes.errors import OptionError
from kafkaframes.storage.files.disk import Disk, DiskFile
from kafkaframes.storage.files.filesystem import DelegatingFileSystem
from kafkaframes.storage.files.local_disk import LocalDisk

DISK_OPERATIONS = ("open", "write", "truncate", "fsync", "rename", "delete", "make_directory", "sync_directory")
_Write = Callable[[int], None]  # function that writes the first N bytes


@dataclass(slots=True, eq=False, repr=False)
class DiskRule(RuleBase):
    """A rule for disk operations, created by ``DiskFaults.on``.

    Attributes:
        effect: one of ``DISK_OPERATIONS``; None matches every operation.
        path: shell pattern for the whole path; None matches every path.
    """

    effect: str | None
    path: str | None
    _count: int = 0
    _bytes_left: int | None = None
    _seconds: float = 0.0
    _errno: int = 0
    _keep: int | None = None

    def slow(self, seconds: float) -> Self:
        """Delay each operation by ``seconds`` of real time."""
        self._seconds = seconds
        return self._record_call("slow", seconds)

    def full(self, *, after_bytes: int = 0) -> Self:
        """Accept ``after_bytes`` more bytes, then fail with ENOSPC. The last write stores the part that still fits."""
        self._errno, self._bytes_left = errno.ENOSPC, after_bytes
        return self._record_call("full", *((after_bytes,) if after_bytes else ()))

    def error(self, name: str = "EIO") -> Self:
        """Fail with an operating system error, by name, without executing the operation.

        Raises:
            OptionError: the error does not exist.
        """
        if not hasattr(errno, name):
            raise OptionError(f"unknown operating system error {name!r}; expected a name such as EIO, ENOSPC or EROFS")
        self._errno = getattr(errno, name)
        return self._record_call("error", name)

    def torn(self, keep_bytes: int) -> Self:
        """Write only the first ``keep_bytes`` bytes of a write, then fail with EIO, as after a power cut."""
        self._errno, self._keep = errno.EIO, keep_bytes
        return self._record_call("torn", keep_bytes)

    @property
    def has_action(self) -> bool:
        """Whether the rule has a fault; otherwise it only counts operations."""
        return bool(self._seconds or self._errno)

    @property
    def count(self) -> int:
        """The number of matching operations."""
        return self._count

    def describe(self) -> str:
        """Return the calls that created the rule."""
        return self._chain(format_call("on_disk", self.effect, path=self.path, optional=self.is_optional))

    def matches(self, effect: str, path: str) -> bool:
        """Count a matching operation; return whether the fault applies to the operation."""
        if self.is_over or self.effect not in (None, effect):
            return False
        if self.path is not None and not fnmatchcase(path, self.path):
            return False
        self._count += 1
        if self.skip:
            self.skip -= 1
            return False
        if self.left is not None:
            self.left -= 1
        return True

    def apply(self, path: str, *, size_bytes: int = 0, write: _Write | None = None) -> None:
        """Delay the operation, or raise the rule's error. A failing write stores the bytes that the rule allows."""
        if self._seconds:
            self.occurrences += 1
            time.sleep(self._seconds)
        if not self._errno:
            return
        if self._bytes_left is not None and size_bytes <= self._bytes_left:
            self._bytes_left -= size_bytes
            return
        part = self._bytes_left if self._bytes_left is not None else self._keep
        if write is not None and part:
            write(min(part, size_bytes))
        if self._bytes_left is not None:
            self._bytes_left = 0
        self.occurrences += not self._seconds
        raise OSError(self._errno, os.strerror(self._errno), path)


class DiskFaults:
    """The disk rules of a broker, which stay in effect after a restart."""

    def __init__(self, history: RuleHistory | None = None) -> None:
        self.rules: list[DiskRule] = []
        self.unflushed: UnflushedFiles | None = None  # unflushed files of the most recently opened disk
        self.history = history or RuleHistory()

    def on(self, effect: str | None = None, *, path: str | None = None, optional: bool = False) -> DiskRule:
        """Create a rule for disk operations, as ``Broker.on_disk`` does."""
        if effect is not None and effect not in DISK_OPERATIONS:
            raise OptionError(f"unknown disk operation {effect!r}; expected one of {', '.join(DISK_OPERATIONS)}")
        rule = DiskRule(effect, path, is_optional=optional, origin=find_caller_line(), history=self.history)
        self.rules.append(rule)
        self.history.rules.append(rule)
        return rule

    def clear(self) -> None:
        """Remove all rules."""
        for rule in self.rules:
            rule.remove()
        self.rules = []

    def before(self, effect: str, path: str, *, size_bytes: int = 0, write: _Write | None = None) -> None:
        """Apply the first matching rule, which may raise an ``OSError``."""
        for rule in self.rules:
            if rule.matches(effect, path):
                rule.apply(path, size_bytes=size_bytes, write=write)
                return

    def wrap_disk(self, disk: Disk | None) -> FaultyDisk:
        """Return a disk (by default the local file system) with these faults."""
        return FaultyDisk(LocalDisk() if disk is None else disk, self)


@dataclass(frozen=True, slots=True)
class FaultyFile:
    """A file of a ``FaultyDisk``."""

    _file: DiskFile
    _path: str
    _faults: DiskFaults
    _unflushed_files: UnflushedFiles

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position``; fewer at the end of the file."""
        return self._file.read(position, length)

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data`` at ``position``."""

        def part(count: int) -> None:
            self._file.write(position, bytes(data[:count]))

        self._unflushed_files.before_change(self._path)
        self._faults.before("write", self._path, size_bytes=len(data), write=part)
        self._file.write(position, data)

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file, or extend it with zeros."""
        self._faults.before("truncate", self._path)
        self._unflushed_files.before_change(self._path, size_bytes)
        self._file.truncate(size_bytes)

    def fsync(self) -> None:
        """Flush all written data to disk."""
        self._faults.before("fsync", self._path)
        size = self._unflushed_files.read_size(self._path)
        self._file.fsync()
        self._unflushed_files.after_flush(self._path, size)

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class FaultyDisk(DelegatingFileSystem):
    """A disk that applies the rules before each changing operation. Reads are not affected."""

    inner: Disk

    def __init__(self, disk: Disk, faults: DiskFaults) -> None:
        self.inner = disk
        self._faults = faults
        self.unflushed = faults.unflushed = UnflushedFiles(disk)

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading, and return its file descriptor; None if this disk's files have no descriptors."""
        return self.inner.open_descriptor(path)

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; create it if it does not exist."""
        self._faults.before("open", path)
        self.unflushed.before_open(path)
        return FaultyFile(self.inner.open_file(path, is_private=is_private), path, self._faults, self.unflushed)

    def truncate(self, path: str, size_bytes: int) -> None:
        """Truncate an existing file, or extend it with zeros."""
        self._faults.before("truncate", path)
        self.unflushed.before_change(path, size_bytes)
        self.inner.truncate(path, size_bytes)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        self._faults.before("make_directory", path)
        self.inner.make_directory(path)

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory. Rules are matched against the new name."""
        self._faults.before("rename", target)
        self.inner.rename(source, target)
        self.unflushed.after_rename(source, target)

    def delete(self, path: str) -> None:
        """Delete a file or an empty directory."""
        self._faults.before("delete", path)
        self.inner.delete(path)

    def sync_directory(self, path: str) -> None:
        """Flush the entries of a directory to disk."""
        self._faults.before("sync_directory", path)
        self.inner.sync_directory(path)

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Flush files and directories to disk, and apply the rules to each file and directory."""
        for effect, paths in (("fsync", files), ("sync_directory", directories)):
            for path in paths:
                self._faults.before(effect, path)
        sizes = {path: self.unflushed.read_size(path) for path in files}
        self.inner.flush_all(files, directories)
        for path, size in sizes.items():
            self.unflushed.after_flush(path, size)

    def set_modified(self, path: str, mtime_ms: int) -> None:
        """Set the modification time of a file."""
        self.inner.set_modified(path, mtime_ms)

    def lock(self, path: str) -> Callable[[], None] | None:
        """Acquire a lock file, as a broker does. Return None if another process holds it."""
        return self.inner.lock(path)
