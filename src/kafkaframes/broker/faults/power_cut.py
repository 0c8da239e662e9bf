"""Simulate a power cut: files lose the content that was not flushed.

A flushed file stays in its directory, as on ext4, XFS and Btrfs. All unflushed content is lost. After a real power cut,
some of this content may survive or be replaced by zeros.
"""

from __future__ import annotations

import threading

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.disk import Disk

_NEVER_FLUSHED = -1  # flushed size of a file that was never flushed


class UnflushedFiles:
    """The files of a disk that have unflushed content, with their flushed sizes. Thread-safe."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._flushed_sizes: dict[str, int] = {}
        self._lock = threading.Lock()

    def before_open(self, path: str) -> None:
        """Record that a file is about to be created."""
        if path not in self._flushed_sizes and self._disk.stat(path) is None:
            with self._lock:
                self._flushed_sizes[path] = _NEVER_FLUSHED

    def before_change(self, path: str, end: int | None = None) -> None:
        """Record that content is about to be written, or that the file is about to be truncated at ``end``."""
        size = self._flushed_sizes.get(path)
        if size is None:
            size = self.read_size(path)
        elif end is None:
            return
        with self._lock:
            self._flushed_sizes[path] = size if end is None else min(size, end)

    def read_size(self, path: str) -> int:
        """Return the current size of a file; -1 if it does not exist."""
        info = self._disk.stat(path)
        return _NEVER_FLUSHED if info is None else info.size_bytes

    def after_flush(self, path: str, size: int) -> None:
        """Record that a file was flushed.

        Bytes after its first ``size`` bytes, which were appended during the flush, may be lost.
        """
        has_grown = self.read_size(path) > size
        with self._lock:
            if has_grown:
                self._flushed_sizes[path] = size
            else:
                self._flushed_sizes.pop(path, None)

    def after_rename(self, source: str, target: str) -> None:
        """Record that a file or a directory was renamed."""
        with self._lock:
            for path in list(self._flushed_sizes):
                if path == source or path.startswith(f"{source}/"):
                    self._flushed_sizes[target + path[len(source) :]] = self._flushed_sizes.pop(path)

    def discard(self) -> None:
        """Remove all unflushed content."""
        with self._lock:
            flushed_sizes, self._flushed_sizes = self._flushed_sizes, {}
        for path, size in flushed_sizes.items():
            info = self._disk.stat(path)
            if info is None or info.is_directory:
                continue
            try:
                if size == _NEVER_FLUSHED:
                    self._disk.delete(path)
                elif size < info.size_bytes:
                    self._disk.truncate(path, size)
            except (OSError, LogDirError) as error:
                raise LogDirError(f"the power cut cannot be simulated: {error}", file=path) from None
