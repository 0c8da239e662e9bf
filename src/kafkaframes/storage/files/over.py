"""A file system over another one: what most of them have in common that count, refuse or fail on the way."""

from __future__ import annotations

from contextlib import AbstractContextManager

from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, ReadAt


class FileSystemOver:
    """Hands every question on to ``inner``; a class on top of it writes only what it answers otherwise.

    Attributes:
        inner: who is asked.
    """

    __slots__ = ()
    inner: FileSystem

    def list_directory(self, path: str) -> list[FileInfo]:
        """Return the entries of a directory, sorted by name."""
        return self.inner.list_directory(path)

    def stat(self, path: str) -> FileInfo | None:
        """Return one entry; None when nothing is there."""
        return self.inner.stat(path)

    def read(self, path: str, *, position: int = 0, length: int | None = None) -> bytes:
        """Return up to ``length`` bytes from ``position`` on."""
        return self.inner.read(path, position=position, length=length)

    def open(self, path: str) -> AbstractContextManager[ReadAt]:
        """Open a file for many reads."""
        return self.inner.open(path)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match ``pattern``, sorted."""
        return self.inner.glob(pattern)
