"""A disk in memory that knows what would survive a crash, and can stop or fail at any effect.

A file's bytes last once it is flushed, a directory's entries once the directory is. Every effect is noted in
``journal`` before it happens; ``after(journal, count)`` is a disk to which so many of them have been done, and
``crashed`` is what a power cut (or only the end of the process) leaves of it.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.filesystem import FileInfo, ReadAt

MTIME_MS = 1_760_000_000_000
Effect = tuple[str, tuple[Any, ...]]  # name of a method of MemoryDisk, arguments


class CrashError(BaseException):
    """The process ends here: no handler of errors may hold it up."""


@dataclass
class File:
    """Bytes as the process sees them, bytes on the platter, and operations since the last flush."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[Any, ...]] = field(default_factory=list)

    def change(self, change: tuple[Any, ...]) -> None:
        apply_change(self.data, change)
        self.pending.append(change)

    def __deepcopy__(self, memo: dict[int, Any]) -> File:
        return File(self.data[:], self.durable[:], self.pending[:])


@dataclass
class Directory:
    """Entries as the process sees them, entries on the platter, and operations since the last flush."""

    entries: dict[str, File | Directory] = field(default_factory=dict)
    durable: dict[str, File | Directory] = field(default_factory=dict)
    pending: list[tuple[Any, ...]] = field(default_factory=list)

    def change(self, change: tuple[Any, ...]) -> None:
        apply_entry(self.entries, change)
        self.pending.append(change)

    def __deepcopy__(self, memo: dict[int, Any]) -> Directory:
        return Directory(*(deepcopy(part, memo) for part in (self.entries, self.durable, self.pending)))


def apply_change(data: bytearray, change: tuple[Any, ...]) -> None:
    if change[0] == "truncate":
        size = change[1]
        del data[size:]
        data.extend(bytes(size - len(data)))
    else:
        _, position, raw = change
        data.extend(bytes(max(position - len(data), 0)))
        data[position : position + len(raw)] = raw


def apply_entry(entries: dict[str, File | Directory], change: tuple[Any, ...]) -> None:
    if change[0] == "add":
        entries[change[1]] = change[2]
    elif change[0] == "remove":
        entries.pop(change[1], None)
    else:  # rename
        node = entries.pop(change[1], None)
        if node is not None:
            entries[change[2]] = node


def _steps(path: str) -> list[str]:
    return [step for step in path.split("/") if step]


class MemoryDisk:
    """See the module's docstring; a ``Disk``.

    Attributes:
        journal: every effect, in order.
        fail: asked with the number of the effect; an ``OSError`` or ``CrashError`` that it returns is raised.
        on_seen: called before each effect.
    """

    def __init__(self) -> None:
        self.root = Directory()
        self.journal: list[Effect] = []
        self.fail: Callable[[int], BaseException | None] = lambda number: None
        self.on_seen: Callable[[], None] = lambda: None
        self.locked_files: set[str] = set()

    def _effect(self, name: str, *arguments: Any) -> Any:
        self.on_seen()
        error = self.fail(len(self.journal))
        self.journal.append((name, arguments))
        if error is not None:
            if name == "do_write" and isinstance(error, OSError):  # a disk that is full takes a part
                path, position, raw = arguments
                self.do_write(path, position, raw[: len(raw) // 2])
            raise error
        return getattr(self, name)(*arguments)

    # ------------------------------------------------------------------------------------------ effects, done

    def do_create(self, path: str) -> None:
        directory, name = self._parent(path)
        directory.change(("add", name, File()))

    def do_write(self, path: str, position: int, raw: bytes) -> None:
        self._file(path).change(("write", position, raw))

    def do_truncate(self, path: str, size_bytes: int) -> None:
        self._file(path).change(("truncate", size_bytes))

    def do_fsync(self, path: str) -> None:
        file = self._file(path)
        file.durable, file.pending = bytearray(file.data), []

    def do_make_directory(self, path: str) -> None:
        at = self.root
        for name in _steps(path):
            if name not in at.entries:
                at.change(("add", name, Directory()))
            entry = at.entries[name]
            assert isinstance(entry, Directory)
            at = entry

    def do_rename(self, source: str, target: str) -> None:
        directory, name = self._parent(source)
        directory.change(("rename", name, _steps(target)[-1]))

    def do_delete(self, path: str) -> None:
        directory, name = self._parent(path)
        directory.change(("remove", name))

    def do_sync_directory(self, path: str) -> None:
        directory = self._node(path)
        assert isinstance(directory, Directory)
        directory.durable, directory.pending = dict(directory.entries), []

    # ------------------------------------------------------------------------------------------ effects, asked for

    def open_descriptor(self, path: str) -> int | None:
        return None

    def open_file(self, path: str, *, is_private: bool = False) -> MemoryFile:
        if self.stat(path) is None:
            self._effect("do_create", path)
        return MemoryFile(self, path, self._file(path))

    def truncate(self, path: str, size_bytes: int) -> None:
        if self.stat(path) is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        self._effect("do_truncate", path, size_bytes)

    def make_directory(self, path: str) -> None:
        if self.stat(path) is None:
            self._effect("do_make_directory", path)

    def rename(self, source: str, target: str) -> None:
        if self.stat(source) is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", source)
        self._effect("do_rename", source, target)

    def delete(self, path: str) -> None:
        if self.stat(path) is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        self._effect("do_delete", path)

    def sync_directory(self, path: str) -> None:
        self._effect("do_sync_directory", path)

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        for path in files:
            self.open_file(path).fsync()
        for path in directories:
            self.sync_directory(path)

    def set_modified(self, path: str, mtime_ms: int) -> None:
        pass  # no file here has a time

    def lock(self, path: str) -> Callable[[], None] | None:
        if path in self.locked_files:
            return None
        self.locked_files.add(path)
        return lambda: self.locked_files.discard(path)

    # ------------------------------------------------------------------------------------------ reading

    def _node(self, path: str) -> File | Directory | None:
        at: File | Directory | None = self.root
        for name in _steps(path):
            at = at.entries.get(name) if isinstance(at, Directory) else None
        return at

    def _parent(self, path: str) -> tuple[Directory, str]:
        above, _, name = path.rpartition("/")
        parent = self._node(above)
        if not isinstance(parent, Directory):
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        return parent, name

    def _file(self, path: str) -> File:
        node = self._node(path)
        if not isinstance(node, File):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return node

    def stat(self, path: str) -> FileInfo | None:
        node = self._node(path)
        if node is None:
            return None
        size = len(node.data) if isinstance(node, File) else 0
        return FileInfo(path, path.rpartition("/")[2], size, MTIME_MS, isinstance(node, Directory))

    def list_directory(self, path: str) -> list[FileInfo]:
        node = self._node(path)
        if not isinstance(node, Directory):
            raise LogDirError("cannot be read", file=path)
        file_stats = [self.stat(f"{path}/{name}") for name in sorted(node.entries)]
        return [stat for stat in file_stats if stat is not None]

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        node = self._node(path)
        if not isinstance(node, File):
            raise LogDirError("cannot be read", file=path)
        data = node.data
        yield lambda position, length: bytes(data[position:] if length < 0 else data[position : position + length])

    def glob(self, pattern: str) -> list[str]:
        return [pattern] if self.stat(pattern) else []

    # ------------------------------------------------------------------------------------------ crashes

    def copy(self) -> MemoryDisk:
        copied_disk = MemoryDisk()
        copied_disk.root = deepcopy(self.root)
        return copied_disk

    def crash(self, keep: Callable[[int], int] | None = None, *, torn: random.Random | None = None) -> MemoryDisk:
        """Return what is there after a crash.

        Args:
            keep: of so many changes since the last flush of a file or directory, how many last; None: all, for only the
                process has ended.
            torn: cuts the first write that is not kept somewhere.
        """
        disk = self.copy()
        if keep is not None:
            disk.root = _survivor(disk.root, keep, torn)
        return disk


class MemoryFile:
    """An open file."""

    def __init__(self, disk: MemoryDisk, path: str, file: File) -> None:
        self._disk, self._path, self._file = disk, path, file

    def read(self, position: int, length: int) -> bytes:
        return bytes(self._file.data[position : position + length])

    def write(self, position: int, data: bytes | bytearray) -> None:
        self._disk._effect("do_write", self._path, position, bytes(data))

    def truncate(self, size_bytes: int) -> None:
        self._disk._effect("do_truncate", self._path, size_bytes)

    def fsync(self) -> None:
        self._disk._effect("do_fsync", self._path)

    def close(self) -> None:
        pass


def _survivor(directory: Directory, keep: Callable[[int], int], torn: random.Random | None) -> Directory:
    entries = dict(directory.durable)
    for change in directory.pending[: keep(len(directory.pending))]:
        apply_entry(entries, change)
    surviving_entries = {
        name: _survivor(node, keep, torn) if isinstance(node, Directory) else _survivor_file(node, keep, torn)
        for name, node in entries.items()
    }
    return Directory(dict(surviving_entries), dict(surviving_entries))


def _survivor_file(file: File, keep: Callable[[int], int], torn: random.Random | None) -> File:
    data = bytearray(file.durable)
    count = keep(len(file.pending))
    for change in file.pending[:count]:
        apply_change(data, change)
    if torn is not None and count < len(file.pending) and file.pending[count][0] == "write":
        _, position, raw = file.pending[count]
        written_bytes = raw[: torn.randrange(len(raw) + 1)]
        zeros = (
            bytes(len(raw) - len(written_bytes)) if torn.random() < 0.3 else b""
        )  # the size lasted, the bytes did not
        apply_change(data, ("write", position, written_bytes + zeros))
    return File(data, bytearray(data))


def after(disk: MemoryDisk, effect: Effect, *, part: float = 1.0) -> MemoryDisk:
    """Return a copy with one more effect done; of a write perhaps a part."""
    copied_disk = disk.copy()
    name, arguments = effect
    if name == "do_write" and part < 1:
        path, position, raw = arguments
        arguments = path, position, raw[: int(len(raw) * part)]
    getattr(copied_disk, name)(*arguments)
    return copied_disk
