"""Disks in memory: one for logs that need not outlive their process, one that reads from another file system.

``MemoryDisk`` records no effect, and none fails. Zeros at the end of a file (an index that is allocated at its full
size) take no memory.

``OverlayDisk`` writes into memory what it reads from another file system, which is never changed. With it any log
directory can be opened, recovered and served as a broker does it: a backup, the directory of a running broker, an
object store, a view of several copies.
"""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from fnmatch import fnmatchcase
from typing import Protocol, runtime_checkable

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.disk import DiskFile
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, LocalFileSystem, ReadAt, join, split


class MemoryFile:
    """The bytes of one file, shared by its name and by everything that has it open: they are the open file."""

    __slots__ = ("data", "size_bytes")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size_bytes = 0

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; all of them where it is negative."""
        end = self.size_bytes if length < 0 else min(position + length, self.size_bytes)
        return bytes(memoryview(self.data)[position:end]).ljust(end - position, b"\0")

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data`` at ``position``."""
        if position > len(self.data):
            self.data += bytes(position - len(self.data))
        self.data[position : position + len(data)] = data
        self.size_bytes = max(self.size_bytes, position + len(data))

    def truncate(self, size_bytes: int) -> None:
        """Cut, or lengthen with zeros."""
        del self.data[size_bytes:]
        self.size_bytes = size_bytes

    def fsync(self) -> None:
        """Do nothing: memory is always up to date."""

    def close(self) -> None:
        """Do nothing: it can be read and written on."""


class _InMemory:
    """What memory needs no effect for."""

    def sync_directory(self, path: str) -> None:
        """Do nothing: memory is always up to date."""

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Do nothing: memory is always up to date."""

    def set_modified(self, path: str, mtime_ms: int) -> None:
        """Nothing: no such time is kept."""


class MemoryDisk(_InMemory):
    """Files and directories in memory; paths are text with ``/`` between their steps."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}
        self._directories: dict[str, set[str]] = {"/": set(), ".": set()}  # to the names of what is in it
        self._locked: set[str] = set()

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        if path not in self._directories:
            raise LogDirError("cannot be read: no such directory", file=path)
        paths = (self.stat(join(path, name)) for name in sorted(self._directories[path]))
        return [info for info in paths if info is not None]

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""
        if path in self._files:
            return FileInfo(path, split(path)[1], self._files[path].size_bytes)
        return FileInfo(path, split(path)[1], is_directory=True) if path in self._directories else None

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        return self._content(path).read(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads; it can be read on when it is renamed or deleted meanwhile."""
        yield self._content(path).read

    def _content(self, path: str) -> MemoryFile:
        if path not in self._files:
            raise LogDirError("cannot be read: no such file", file=path)
        return self._files[path]

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        return sorted(path for path in (*self._files, *self._directories) if fnmatchcase(path, pattern))

    def open_descriptor(self, path: str) -> int | None:
        """Return None: files in memory have no descriptors."""
        return None

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; an empty one is made where there is none."""
        if path not in self._files:
            directory, name = split(path)
            if directory not in self._directories:
                raise FileNotFoundError(2, "no such directory", directory)
            self._directories[directory].add(name)
            self._files[path] = MemoryFile()
        return self._files[path]

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file that is there, or lengthen it with zeros."""
        if path not in self._files:
            raise FileNotFoundError(2, "no such file", path)
        self._files[path].truncate(size_bytes)

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""
        if path in self._directories:
            return
        above, name = split(path)
        self.make_directory(above)
        self._directories[above].add(name)
        self._directories[path] = set()

    def rename(self, source: str, target: str) -> None:
        """Rename a file or a directory, over ``target`` if that is a file."""
        if source in self._files:
            self._files[target] = self._files.pop(source)
        elif source in self._directories:
            self._move_directory(source, target)
        else:
            raise FileNotFoundError(2, "no such file or directory", source)
        (old, name), (new, new_name) = split(source), split(target)
        self._directories[old].discard(name)
        self._directories[new].add(new_name)

    def _move_directory(self, source: str, target: str) -> None:
        names = self._directories.pop(source)
        self._directories[target] = names
        for name in names:
            path = join(source, name)
            if path in self._files:
                self._files[join(target, name)] = self._files.pop(path)
            else:
                self._move_directory(path, join(target, name))

    def delete(self, path: str) -> None:
        """Delete a file, or a directory that is empty."""
        if path in self._files:
            del self._files[path]
        elif path not in self._directories:
            raise FileNotFoundError(2, "no such file or directory", path)
        elif self._directories[path]:
            raise OSError(39, "directory not empty", path)
        else:
            del self._directories[path]
        directory, name = split(path)
        self._directories[directory].discard(name)

    def lock(self, path: str) -> Callable[[], None] | None:
        """Take a lock file; None if it is held already."""
        if path in self._locked:
            return None
        self.open_file(path)
        self._locked.add(path)
        return lambda: self._locked.discard(path)


MOST_KEPT = 16  # files underneath stay open


@runtime_checkable
class HasDescriptors(Protocol):
    """A file system, some of whose files are this machine's (a view of several copies)."""

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading, for the caller to close; None: it is no file of this machine."""


class _Readers:
    """The files underneath that were read last, open: a chunk that a store was asked for serves many reads."""

    def __init__(self, base: FileSystem) -> None:
        self._base = base
        self._open: OrderedDict[str, tuple[AbstractContextManager[ReadAt], ReadAt]] = OrderedDict()

    def read(self, path: str, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        if path not in self._open:
            opening = self._base.open(path)
            self._open[path] = opening, opening.__enter__()
            if len(self._open) > MOST_KEPT:
                self._open.popitem(last=False)[1][0].__exit__(None, None, None)
        self._open.move_to_end(path)
        return self._open[path][1](position, length)


class _Backed(MemoryFile):
    """A file of the other file system, until something is written to it."""

    __slots__ = ("_base", "_path")

    def __init__(self, base: _Readers, info: FileInfo) -> None:
        super().__init__()
        self._base: _Readers | None = base
        self._path = info.path
        self.size_bytes = info.size_bytes

    @property
    def is_untouched(self) -> bool:
        """Whether its bytes are still those of the other file system."""
        return self._base is not None

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; all of them where it is negative."""
        if self._base is None:
            return super().read(position, length)
        most = max(self.size_bytes - position, 0)
        return self._base.read(self._path, position, most if length < 0 else min(length, most))

    def _take_over(self) -> None:
        if self._base is not None:
            self.data[:] = self._base.read(self._path, 0, self.size_bytes)
            self._base = None

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data`` at ``position``, into memory."""
        self._take_over()
        super().write(position, data)

    def truncate(self, size_bytes: int) -> None:
        """Cut, or lengthen with zeros, in memory."""
        if size_bytes > self.size_bytes:
            self._take_over()
        super().truncate(size_bytes)


class OverlayDisk(_InMemory):
    """Changes in memory over a file system that is only read."""

    def __init__(self, base: FileSystem) -> None:
        self._base = base
        self._readers = _Readers(base)
        self._files: dict[str, MemoryFile] = {}
        self._directories: set[str] = set()
        self._gone: set[str] = set()

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        paths: dict[str, FileInfo] = {}
        if path not in self._directories:
            paths = {info.name: info for info in self._base.list_directory(path) if info.path not in self._gone}
        for child in (*self._files, *self._directories):
            directory, name = split(child)
            info = self.stat(child) if directory == path else None
            if info is not None:
                paths[name] = info
        return [paths[name] for name in sorted(paths)]

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""
        if path in self._files:
            return FileInfo(path, split(path)[1], self._files[path].size_bytes)
        if path in self._directories:
            return FileInfo(path, split(path)[1], is_directory=True)
        return None if path in self._gone else self._base.stat(path)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        if path in self._files:
            return self._files[path].read(position, -1 if length is None else length)
        if path in self._gone:
            raise LogDirError("cannot be read: no such file", file=path)
        return self._base.read(path, position=position, length=length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads."""
        if path in self._files:
            yield self._files[path].read
        elif path in self._gone:
            raise LogDirError("cannot be read: no such file", file=path)
        else:
            with self._base.open(path) as read_at:
                yield read_at

    def glob(self, pattern: str) -> list[str]:
        """Return the paths of the other file system that match ``pattern``, sorted."""
        return [path for path in self._base.glob(pattern) if path not in self._gone]

    def _content(self, path: str) -> MemoryFile:
        """Return the content of a file, which later writes change; empty for a new file."""
        if path not in self._files:
            info = None if path in self._gone else self._base.stat(path)
            self._files[path] = MemoryFile() if info is None else _Backed(self._readers, info)
            self._gone.discard(path)
        return self._files[path]

    def open_descriptor(self, path: str) -> int | None:
        """Open a file of this machine for reading, as long as nothing was written to it; None for all others."""
        content = self._files.get(path)
        is_underneath = content is None or (isinstance(content, _Backed) and content.is_untouched)
        if path in self._gone or not is_underneath:
            return None
        if isinstance(self._base, LocalFileSystem):
            return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        return self._base.open_descriptor(path) if isinstance(self._base, HasDescriptors) else None

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; an empty one is made where there is none."""
        return self._content(path)

    def truncate(self, path: str, size_bytes: int) -> None:
        """Cut a file that is there, or lengthen it with zeros."""
        if self.stat(path) is None:
            raise FileNotFoundError(2, "no such file", path)
        self._content(path).truncate(size_bytes)

    def make_directory(self, path: str) -> None:
        """Make a directory, and those above it."""
        while self.stat(path) is None:
            self._directories.add(path)
            self._gone.discard(path)
            path = split(path)[0]

    def rename(self, source: str, target: str) -> None:
        """Rename a file, over ``target`` if there is one; directories stay where they are."""
        info = self.stat(source)
        if info is None:
            raise FileNotFoundError(2, "no such file", source)
        if info.is_directory:
            for entry in self.list_directory(source):
                self.rename(entry.path, join(target, entry.name))
            self.make_directory(target)
            self.delete(source)
            return
        content = self._content(source)
        self.delete(source)
        self._files[target] = content
        self._gone.discard(target)

    def delete(self, path: str) -> None:
        """Remove a file or a directory from the view."""
        if self.stat(path) is None:
            raise FileNotFoundError(2, "no such file or directory", path)
        self._files.pop(path, None)
        self._directories.discard(path)
        self._gone.add(path)

    def lock(self, path: str) -> Callable[[], None] | None:
        """Return a lock that always succeeds, because the other file system is not changed."""
        return lambda: None
