"""A disk in memory that models which data survives a crash, and that can crash or fail at any effect.

The bytes of a file survive if the file was flushed, and the entries of a directory if the directory was flushed.
``journal`` lists every effect before it happens. ``apply_effect`` repeats an effect on a copy of a disk, and
``MemoryDisk.crash`` returns the disk after a power failure or after the end of the process.
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
    """The simulated end of the process. As a BaseException, it is not caught by error handlers."""


@dataclass
class FileState:
    """The bytes that the process sees, the flushed bytes, and the operations since the last flush."""

    data: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[Any, ...]] = field(default_factory=list)

    def change(self, change: tuple[Any, ...]) -> None:
        apply_change(self.data, change)
        self.pending.append(change)

    def __deepcopy__(self, memo: dict[int, Any]) -> FileState:
        return FileState(self.data[:], self.durable[:], self.pending[:])


@dataclass
class DirectoryState:
    """The entries that the process sees, the flushed entries, and the operations since the last flush."""

    entries: dict[str, FileState | DirectoryState] = field(default_factory=dict)
    durable: dict[str, FileState | DirectoryState] = field(default_factory=dict)
    pending: list[tuple[Any, ...]] = field(default_factory=list)

    def change(self, change: tuple[Any, ...]) -> None:
        apply_entry(self.entries, change)
        self.pending.append(change)

    def __deepcopy__(self, memo: dict[int, Any]) -> DirectoryState:
        return DirectoryState(*(deepcopy(part, memo) for part in (self.entries, self.durable, self.pending)))


def apply_change(data: bytearray, change: tuple[Any, ...]) -> None:
    if change[0] == "truncate":
        size = change[1]
        del data[size:]
        data.extend(bytes(size - len(data)))
    else:
        _, position, raw = change
        data.extend(bytes(max(position - len(data), 0)))
        data[position : position + len(raw)] = raw


def apply_entry(entries: dict[str, FileState | DirectoryState], change: tuple[Any, ...]) -> None:
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
    """A ``Disk`` in memory that can crash or fail at any effect.

    Attributes:
        journal: every effect, in order.
        fail: called with the number of each effect. If it returns an ``OSError`` or ``CrashError``, that is raised.
        on_seen: called before each effect.
    """

    def __init__(self) -> None:
        self.root = DirectoryState()
        self.journal: list[Effect] = []
        self.fail: Callable[[int], BaseException | None] = lambda number: None
        self.on_seen: Callable[[], None] = lambda: None
        self.locked_files: set[str] = set()

    def _effect(self, name: str, *arguments: Any) -> Any:
        self.on_seen()
        error = self.fail(len(self.journal))
        self.journal.append((name, arguments))
        if error is not None:
            if name == "do_write" and isinstance(error, OSError):  # a full disk writes a part of the bytes
                path, position, raw = arguments
                self.do_write(path, position, raw[: len(raw) // 2])
            raise error
        return getattr(self, name)(*arguments)

    # ------------------------------------------------------------------------------------------ effects, done

    def do_create(self, path: str) -> None:
        directory, name = self._find_parent(path)
        directory.change(("add", name, FileState()))

    def do_write(self, path: str, position: int, raw: bytes) -> None:
        self._find_file(path).change(("write", position, raw))

    def do_truncate(self, path: str, size_bytes: int) -> None:
        self._find_file(path).change(("truncate", size_bytes))

    def do_fsync(self, path: str) -> None:
        file = self._find_file(path)
        file.durable, file.pending = bytearray(file.data), []

    def do_make_directory(self, path: str) -> None:
        at = self.root
        for name in _steps(path):
            if name not in at.entries:
                at.change(("add", name, DirectoryState()))
            entry = at.entries[name]
            assert isinstance(entry, DirectoryState)
            at = entry

    def do_rename(self, source: str, target: str) -> None:
        directory, name = self._find_parent(source)
        directory.change(("rename", name, _steps(target)[-1]))

    def do_delete(self, path: str) -> None:
        directory, name = self._find_parent(path)
        directory.change(("remove", name))

    def do_sync_directory(self, path: str) -> None:
        directory = self._find_node(path)
        assert isinstance(directory, DirectoryState)
        directory.durable, directory.pending = dict(directory.entries), []

    # ------------------------------------------------------------------------------------------ effects, asked for

    def open_descriptor(self, path: str) -> int | None:
        return None

    def open_file(self, path: str, *, is_private: bool = False) -> MemoryFile:
        if self.stat(path) is None:
            self._effect("do_create", path)
        return MemoryFile(self, path, self._find_file(path))

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
        pass  # files of a MemoryDisk have no modification time

    def lock(self, path: str) -> Callable[[], None] | None:
        if path in self.locked_files:
            return None
        self.locked_files.add(path)
        return lambda: self.locked_files.discard(path)

    # ------------------------------------------------------------------------------------------ reading

    def _find_node(self, path: str) -> FileState | DirectoryState | None:
        at: FileState | DirectoryState | None = self.root
        for name in _steps(path):
            at = at.entries.get(name) if isinstance(at, DirectoryState) else None
        return at

    def _find_parent(self, path: str) -> tuple[DirectoryState, str]:
        above, _, name = path.rpartition("/")
        parent = self._find_node(above)
        if not isinstance(parent, DirectoryState):
            raise FileNotFoundError(errno.ENOENT, "No such directory", path)
        return parent, name

    def _find_file(self, path: str) -> FileState:
        node = self._find_node(path)
        if not isinstance(node, FileState):
            raise FileNotFoundError(errno.ENOENT, "No such file", path)
        return node

    def stat(self, path: str) -> FileInfo | None:
        node = self._find_node(path)
        if node is None:
            return None
        size = len(node.data) if isinstance(node, FileState) else 0
        return FileInfo(path, path.rpartition("/")[2], size, MTIME_MS, isinstance(node, DirectoryState))

    def list_directory(self, path: str) -> list[FileInfo]:
        node = self._find_node(path)
        if not isinstance(node, DirectoryState):
            raise LogDirError("cannot be read", file=path)
        file_stats = [self.stat(f"{path}/{name}") for name in sorted(node.entries)]
        return [stat for stat in file_stats if stat is not None]

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        with self.open(path) as read_at:
            return read_at(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        node = self._find_node(path)
        if not isinstance(node, FileState):
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
        """Return the disk after a crash.

        Args:
            keep: maps the number of changes since the last flush of a file or directory to the number of those that
                survive. By default, all survive, because only the process ends.
            torn: truncates the first lost write at a random position.
        """
        disk = self.copy()
        if keep is not None:
            disk.root = _build_surviving_directory(disk.root, keep, torn)
        return disk


class MemoryFile:
    """An open file."""

    def __init__(self, disk: MemoryDisk, path: str, file: FileState) -> None:
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


def _build_surviving_directory(
    directory: DirectoryState, keep: Callable[[int], int], torn: random.Random | None
) -> DirectoryState:
    entries = dict(directory.durable)
    for change in directory.pending[: keep(len(directory.pending))]:
        apply_entry(entries, change)
    surviving_entries = {
        name: _build_surviving_directory(node, keep, torn)
        if isinstance(node, DirectoryState)
        else _build_surviving_file(node, keep, torn)
        for name, node in entries.items()
    }
    return DirectoryState(dict(surviving_entries), dict(surviving_entries))


def _build_surviving_file(file: FileState, keep: Callable[[int], int], torn: random.Random | None) -> FileState:
    data = bytearray(file.durable)
    count = keep(len(file.pending))
    for change in file.pending[:count]:
        apply_change(data, change)
    if torn is not None and count < len(file.pending) and file.pending[count][0] == "write":
        _, position, raw = file.pending[count]
        written_bytes = raw[: torn.randrange(len(raw) + 1)]
        zeros = (
            bytes(len(raw) - len(written_bytes)) if torn.random() < 0.3 else b""
        )  # the new size is on the disk, but the bytes are not
        apply_change(data, ("write", position, written_bytes + zeros))
    return FileState(data, bytearray(data))


def apply_effect(disk: MemoryDisk, effect: Effect, *, part: float = 1.0) -> MemoryDisk:
    """Return a copy of the disk after one more effect, which may be a part of a write."""
    copied_disk = disk.copy()
    name, arguments = effect
    if name == "do_write" and part < 1:
        path, position, raw = arguments
        arguments = path, position, raw[: int(len(raw) * part)]
    getattr(copied_disk, name)(*arguments)
    return copied_disk
