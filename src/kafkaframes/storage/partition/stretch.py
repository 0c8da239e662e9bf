"""A range of a segment file that is sent to a socket by the system, without being read into memory."""

from __future__ import annotations

import os

from kafkaframes.errors import StorageError
from kafkaframes.wire.primitives import Part


class Stretch(Part):
    """A range of a file with a descriptor of its own, so that it stays readable if the file is renamed or deleted.

    Attributes:
        descriptor: of the file, open for reading; -1 once closed.
        position: where the stretch begins, in bytes.
        size: how many bytes it has.
    """

    __slots__ = ("descriptor", "position", "size")

    def __init__(self, descriptor: int, position: int, size: int) -> None:
        self.descriptor = descriptor
        self.position = position
        self.size = size

    def __len__(self) -> int:
        return self.size

    def __bytes__(self) -> bytes:
        """Read all of it.

        Raises:
            StorageError: the file was cut.
        """
        data = self.read(self.size)
        if len(data) < self.size:
            raise StorageError(f"{self.size} bytes from byte {self.position} on are missing: the file was truncated")
        return data

    def read(self, size: int) -> bytes:
        """Return up to ``size`` bytes from its beginning; fewer where it ends, or the file was cut.

        Raises:
            OSError: the file cannot be read.
        """
        return os.pread(self.descriptor, min(size, self.size), self.position)

    def skip(self, size: int) -> None:
        """Remove ``size`` bytes from the beginning of the range."""
        self.position += size
        self.size -= size

    def close(self) -> None:
        """Close the file."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def __del__(self) -> None:
        self.close()
