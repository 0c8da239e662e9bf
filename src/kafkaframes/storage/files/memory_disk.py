"""Disks in memory: ``MemoryDisk`` for temporary logs, and ``OverlayDisk`` for changes over another file system.

The operations of ``MemoryDisk`` never fail for lack of space. Zeros at the end of a file, for example in a preallocated
index, use no memory.

``OverlayDisk`` reads from another file system and keeps changes in memory; it never changes the other file system. It
lets a broker open, recover and serve any log directory: a backup, the directory of a running broker, an object store,
or a view of several copies.
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
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, LocalFileSystem, ReadAt, join, split_path


class MemoryFile:
    """The content of one file, which is also its open file: all users of the file share it."""

    __slots__ = ("data", "size_bytes")

    def __init__(self) -> None:
        self.data = bytearray()
        self.size_bytes = 0

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; all of them if ``length`` is negative."""
        end = self.size_bytes if length < 0 else min(position + length, self.size_bytes)
        return bytes(memoryview(self.data)[position:end]).ljust(end - position, b"\0")

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data`` at ``position``."""
        if position > len(self.data):
            self.data += bytes(position - len(self.data))
        self.data[position : position + len(data)] = data
        self.size_bytes = max(self.size_bytes, position + len(data))

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file, or extend it with zeros."""
        del self.data[size_bytes:]
        self.size_bytes = size_bytes

    def fsync(self) -> None:
        """Do nothing: memory is always up to date."""

    def close(self) -> None:
        """Do nothing: the file stays usable."""


class _DurabilityNoOps:
    """The disk operations (flushing, modification times) that have no effect on files in memory."""

    def sync_directory(self, path: str) -> None:
        """Do nothing: memory is always up to date."""

    def flush_all(self, files: Sequence[str], directories: Sequence[str]) -> None:
        """Do nothing: memory is always up to date."""

    def set_modified(self, path: str, mtime_ms: int) -> None:
        """Do nothing: files in memory have no modification time."""


class MemoryDisk(_DurabilityNoOps):
    """Files and directories in memory; paths are text with ``/`` as separator."""

    def __init__(self) -> None:
        self._files: dict[str, MemoryFile] = {}
        self._directories: dict[str, set[str]] = {"/": set(), ".": set()}  # names of the entries, by directory
        self._locks: set[str] = set()

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        if path not in self._directories:
            raise LogDirError("cannot be read: no such directory", file=path)
        paths = (self.stat(join(path, name)) for name in sorted(self._directories[path]))
        return [info for info in paths if info is not None]

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""
        if path in self._files:
            return FileInfo(path, split_path(path)[1], self._files[path].size_bytes)
        return FileInfo(path, split_path(path)[1], is_directory=True) if path in self._directories else None

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        return self._find_existing_file(path).read(position, -1 if length is None else length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads, which also work after the file is renamed or deleted."""
        yield self._find_existing_file(path).read

    def _find_existing_file(self, path: str) -> MemoryFile:
        if path not in self._files:
            raise LogDirError("cannot be read: no such file", file=path)
        return self._files[path]

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        return sorted(path for path in (*self._files, *self._directories) if fnmatchcase(path, pattern))

    def open_descriptor(self, path: str) -> int | None:
        """Return None, because files in memory have no descriptors."""
        return None

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; create it if it does not exist."""
        if path not in self._files:
            directory, name = split_path(path)
            if directory not in self._directories:
                raise FileNotFoundError(2, "no such directory", directory)
            self._directories[directory].add(name)
            self._files[path] = MemoryFile()
        return self._files[path]

    def truncate(self, path: str, size_bytes: int) -> None:
        """Truncate an existing file, or extend it with zeros."""
        if path not in self._files:
            raise FileNotFoundError(2, "no such file", path)
        self._files[path].truncate(size_bytes)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        if path in self._directories:
            return
        parent, name = split_path(path)
        self.make_directory(parent)
        self._directories[parent].add(name)
        self._directories[path] = set()

    def rename(self, source: str, target: str) -> None:
        """Rename a file or directory; an existing target file is replaced."""
        if source in self._files:
            self._files[target] = self._files.pop(source)
        elif source in self._directories:
            self._move_directory(source, target)
        else:
            raise FileNotFoundError(2, "no such file or directory", source)
        (old, name), (new, new_name) = split_path(source), split_path(target)
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
        """Delete a file or an empty directory."""
        if path in self._files:
            del self._files[path]
        elif path not in self._directories:
            raise FileNotFoundError(2, "no such file or directory", path)
        elif self._directories[path]:
            raise OSError(39, "directory not empty", path)
        else:
            del self._directories[path]
        directory, name = split_path(path)
        self._directories[directory].discard(name)

    def lock(self, path: str) -> Callable[[], None] | None:
        """Lock a file; return the function that releases the lock, or None if it is already held."""
        if path in self._locks:
            return None
        self.open_file(path)
        self._locks.add(path)
        return lambda: self._locks.discard(path)


MAX_OPEN_FILES = 16  # largest number of open files of the other file system


@runtime_checkable
class DescriptorFileSystem(Protocol):
    """A file system whose ``open_descriptor`` returns a descriptor for a local file, and None for any other file."""

    def open_descriptor(self, path: str) -> int | None:
        """Open a file for reading and return its descriptor, which the caller closes; None if it is not local."""


class _ReaderCache:
    """A cache of open files of the base file system, so that each chunk from a store serves many reads."""

    def __init__(self, base: FileSystem) -> None:
        self._base = base
        self._open: OrderedDict[str, tuple[AbstractContextManager[ReadAt], ReadAt]] = OrderedDict()

    def read(self, path: str, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        if path not in self._open:
            opening = self._base.open(path)
            self._open[path] = opening, opening.__enter__()
            if len(self._open) > MAX_OPEN_FILES:
                self._open.popitem(last=False)[1][0].__exit__(None, None, None)
        self._open.move_to_end(path)
        return self._open[path][1](position, length)


class _BackedFile(MemoryFile):
    """A file whose content is in the base file system until the file is first written to."""

    __slots__ = ("_base", "_path")

    def __init__(self, base: _ReaderCache, info: FileInfo) -> None:
        super().__init__()
        self._base: _ReaderCache | None = base
        self._path = info.path
        self.size_bytes = info.size_bytes

    @property
    def is_untouched(self) -> bool:
        """Whether the content is still that of the base file system."""
        return self._base is not None

    def read(self, position: int, length: int) -> bytes:
        """Return up to ``length`` bytes from ``position`` on; all of them if ``length`` is negative."""
        if self._base is None:
            return super().read(position, length)
        max_bytes = max(self.size_bytes - position, 0)
        return self._base.read(self._path, position, max_bytes if length < 0 else min(length, max_bytes))

    def _copy_into_memory(self) -> None:
        if self._base is not None:
            self.data[:] = self._base.read(self._path, 0, self.size_bytes)
            self._base = None

    def write(self, position: int, data: bytes | bytearray) -> None:
        """Write all of ``data`` at ``position`` in memory."""
        self._copy_into_memory()
        super().write(position, data)

    def truncate(self, size_bytes: int) -> None:
        """Truncate the file in memory, or extend it with zeros."""
        if size_bytes > self.size_bytes:
            self._copy_into_memory()
        super().truncate(size_bytes)


class OverlayDisk(_DurabilityNoOps):
    """A writable view of a read-only file system, with all changes in memory."""

    def __init__(self, base: FileSystem) -> None:
        self._base = base
        self._readers = _ReaderCache(base)
        self._files: dict[str, MemoryFile] = {}
        self._directories: set[str] = set()
        self._deleted_paths: set[str] = set()

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        paths: dict[str, FileInfo] = {}
        if path not in self._directories:
            paths = {
                info.name: info for info in self._base.list_directory(path) if info.path not in self._deleted_paths
            }
        for child in (*self._files, *self._directories):
            directory, name = split_path(child)
            info = self.stat(child) if directory == path else None
            if info is not None:
                paths[name] = info
        return [paths[name] for name in sorted(paths)]

    def stat(self, path: str) -> FileInfo | None:
        """Return the entry of a path; None if it does not exist."""
        if path in self._files:
            return FileInfo(path, split_path(path)[1], self._files[path].size_bytes)
        if path in self._directories:
            return FileInfo(path, split_path(path)[1], is_directory=True)
        return None if path in self._deleted_paths else self._base.stat(path)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        if path in self._files:
            return self._files[path].read(position, -1 if length is None else length)
        if path in self._deleted_paths:
            raise LogDirError("cannot be read: no such file", file=path)
        return self._base.read(path, position=position, length=length)

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        """Open a file for many reads."""
        if path in self._files:
            yield self._files[path].read
        elif path in self._deleted_paths:
            raise LogDirError("cannot be read: no such file", file=path)
        else:
            with self._base.open(path) as read_at:
                yield read_at

    def glob(self, pattern: str) -> list[str]:
        """Return the paths of the base file system that match ``pattern``, sorted."""
        return [path for path in self._base.glob(pattern) if path not in self._deleted_paths]

    def _writable_file(self, path: str) -> MemoryFile:
        """Return the content of a file for changes; a new file is empty."""
        if path not in self._files:
            info = None if path in self._deleted_paths else self._base.stat(path)
            self._files[path] = MemoryFile() if info is None else _BackedFile(self._readers, info)
            self._deleted_paths.discard(path)
        return self._files[path]

    def open_descriptor(self, path: str) -> int | None:
        """Open a local file that is unchanged, and return its descriptor; None for all other files."""
        content = self._files.get(path)
        is_in_base = content is None or (isinstance(content, _BackedFile) and content.is_untouched)
        if path in self._deleted_paths or not is_in_base:
            return None
        if isinstance(self._base, LocalFileSystem):
            return os.open(path, os.O_RDONLY | getattr(os, "O_CLOEXEC", 0))
        return self._base.open_descriptor(path) if isinstance(self._base, DescriptorFileSystem) else None

    def open_file(self, path: str, *, is_private: bool = False) -> DiskFile:
        """Open a file for reading and writing; create it if it does not exist."""
        return self._writable_file(path)

    def truncate(self, path: str, size_bytes: int) -> None:
        """Truncate an existing file, or extend it with zeros."""
        if self.stat(path) is None:
            raise FileNotFoundError(2, "no such file", path)
        self._writable_file(path).truncate(size_bytes)

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""
        while self.stat(path) is None:
            self._directories.add(path)
            self._deleted_paths.discard(path)
            path = split_path(path)[0]

    def rename(self, source: str, target: str) -> None:
        """Rename a file, or all files of a directory; an existing target file is replaced."""
        info = self.stat(source)
        if info is None:
            raise FileNotFoundError(2, "no such file", source)
        if info.is_directory:
            for entry in self.list_directory(source):
                self.rename(entry.path, join(target, entry.name))
            self.make_directory(target)
            self.delete(source)
            return
        content = self._writable_file(source)
        self.delete(source)
        self._files[target] = content
        self._deleted_paths.discard(target)

    def delete(self, path: str) -> None:
        """Remove a file or a directory from the view."""
        if self.stat(path) is None:
            raise FileNotFoundError(2, "no such file or directory", path)
        self._files.pop(path, None)
        self._directories.discard(path)
        self._deleted_paths.add(path)

    def lock(self, path: str) -> Callable[[], None] | None:
        """Return a lock that always succeeds, because the base file system is not changed."""
        return lambda: None
