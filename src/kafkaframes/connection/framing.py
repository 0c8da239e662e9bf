"""Size-prefixed frames out of a stream of bytes, fed in pieces of any size. No I/O."""

from __future__ import annotations

import struct
from typing import Final

from kafkaframes.errors import DecodeError, EncodeError

MAX_REQUEST_BYTES: Final = 104_857_600  # the broker's default of socket.request.max.bytes
_SIZE: Final = struct.Struct(">i")


class FrameReader:
    """Collects bytes and gives whole frames. What waits is never more than one frame and what was fed last."""

    def __init__(self, max_bytes: int = MAX_REQUEST_BYTES) -> None:
        self.max_bytes = max_bytes
        self._buffer = bytearray()
        self._start = 0  # bytes before it were given out

    def receive_data(self, data: bytes) -> None:
        """Take bytes as they came."""
        if self._start:
            del self._buffer[: self._start]
            self._start = 0
        self._buffer += data

    @property
    def waiting_bytes(self) -> int:
        """How many bytes of unfinished frames are held."""
        return len(self._buffer) - self._start

    def next_frame(self) -> bytes | None:
        """Return the next whole frame without its size, or None: feed more bytes.

        Raises:
            DecodeError: the size is negative or above ``max_bytes``.
        """
        if self.waiting_bytes < _SIZE.size:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, self._start)
        if not 0 <= size <= self.max_bytes:
            raise DecodeError(f"frame of {size} bytes, the most is {self.max_bytes}", position=0)
        first = self._start + _SIZE.size
        if len(self._buffer) - first < size:
            return None
        self._start = first + size
        return bytes(self._buffer[first : self._start])


def size_prefix(payload: bytes) -> bytes:
    """Return what stands before ``payload`` in a frame: its size.

    Raises:
        EncodeError: it has 2 GiB or more.
    """
    if len(payload) > 0x7FFFFFFF:
        raise EncodeError(f"frame of {len(payload)} bytes, the most is 2147483647")
    return _SIZE.pack(len(payload))


def frame(payload: bytes) -> bytes:
    """Return ``payload`` with its size before it.

    Raises:
        EncodeError: it has 2 GiB or more.
    """
    return size_prefix(payload) + payload
