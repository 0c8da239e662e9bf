"""A buffer that a socket fills and that gives whole frames: ``get_buffer`` / ``buffer_updated``, without I/O.

The shape is that of ``asyncio.BufferedProtocol``: bytes go from the socket to their place without a copy between. The
buffer grows as bytes come, by doubling, and never because a size prefix says so.

A client, which knows what it asked for, can have each frame that is larger than the buffer in memory of its own
(``allocate``): received in its place, and handed out without a copy, for as long as somebody holds it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final

from kafkaframes.errors import DecodeError, EncodeError

MAX_REQUEST_BYTES: Final = 104_857_600  # the broker's default of socket.request.max.bytes


def size_prefix(size_bytes: int) -> bytes:
    """Return what stands before a payload of ``size_bytes`` bytes in a frame.

    Raises:
        EncodeError: it has 2 GiB or more.
    """
    if size_bytes > 0x7FFFFFFF:
        raise EncodeError(f"frame of {size_bytes} bytes, the most is 2147483647")
    return _SIZE.pack(size_bytes)


def frame(payload: bytes) -> bytes:
    """Return ``payload`` with its size before it.

    Raises:
        EncodeError: it has 2 GiB or more.
    """
    return size_prefix(len(payload)) + payload


FIRST_BYTES: Final = 64 << 10
_LEAST_FREE: Final = 16 << 10
_SIZE: Final = struct.Struct(">i")


class FrameBuffer:
    """What came from a peer and was not taken yet.

    Args:
        max_bytes: the largest frame (the broker property ``socket.request.max.bytes``).
        allocate: gives writable memory of a size, for each frame of more than ``FIRST_BYTES``, whose size a peer says
            before it has sent that much: only for peers that were asked, and memory that costs nothing before it is
            written to.
    """

    __slots__ = ("_allocate", "_buffer", "_end", "_filled", "_large", "_start", "_view", "max_bytes")

    def __init__(
        self, max_bytes: int = MAX_REQUEST_BYTES, *, allocate: Callable[[int], memoryview] | None = None
    ) -> None:
        self.max_bytes = max_bytes
        self._allocate = allocate
        self._large: memoryview | None = None  # where the frame goes that is under way, and how much of it is there
        self._filled = 0
        self._buffer = bytearray(4096)  # most connections only ever say hello
        self._view = memoryview(self._buffer)
        self._start = 0  # what lies before was taken
        self._end = 0  # what lies before was filled

    @property
    def waiting_bytes(self) -> int:
        """How many bytes were filled and not taken."""
        return self._end - self._start + (0 if self._large is None else self._filled)

    def get_buffer(self, size_hint: int = -1) -> memoryview:
        """Return where the next bytes go; its size is at least 1."""
        if self._large is not None and self._filled < len(self._large):
            return self._large[self._filled :]
        if self._start == self._end:
            self._start = self._end = 0
        if len(self._buffer) - self._end < min(_LEAST_FREE, len(self._buffer) >> 1):
            self._make_space()
        return self._view[self._end :]

    def _make_space(self) -> None:
        """Move what waits to the front, into a larger buffer if it fills more than half of this one."""
        waiting = self._view[self._start : self._end]
        size = len(self._buffer)
        if len(waiting) > size >> 1 or size < FIRST_BYTES:
            size = max(size * 2, FIRST_BYTES)
        elif len(waiting) < size >> 3:
            size = max(size >> 1, FIRST_BYTES)
        self._end = len(waiting)
        self._start = 0
        if size == len(self._buffer):  # a new one of a megabyte costs as much as all else about its bytes
            self._view[: len(waiting)] = waiting
            return
        buffer = bytearray(size)
        buffer[: len(waiting)] = waiting
        self._buffer, self._view = buffer, memoryview(buffer)

    def rest(self) -> None:
        """Give back memory that was needed for large frames, if nothing waits."""
        if self._start == self._end and len(self._buffer) > FIRST_BYTES:
            self._buffer = bytearray(FIRST_BYTES)
            self._view = memoryview(self._buffer)
            self._start = self._end = 0

    def buffer_updated(self, count: int) -> None:
        """Say that ``count`` bytes were filled in."""
        if self._large is not None and self._filled < len(self._large):
            self._filled += count
        else:
            self._end += count

    def receive_data(self, data: bytes) -> None:
        """Take bytes that came in some other way."""
        position = 0
        while position < len(data):
            free = self.get_buffer()
            count = min(len(free), len(data) - position)
            free[:count] = data[position : position + count]
            self.buffer_updated(count)
            position += count

    def next_frame(self) -> bytes | None:
        """Return the next whole frame without its size, or None: fill in more.

        Raises:
            DecodeError: the size is negative or above ``max_bytes``.
        """
        frame = self.next_kept()
        return frame if frame is None or isinstance(frame, bytes) else frame.tobytes()

    def next_kept(self) -> bytes | memoryview | None:
        """Do as :meth:`next_frame` does; what lies in memory of its own is a read-only view of that.

        Raises:
            DecodeError: as :meth:`next_frame`.
        """
        if self._large is None:
            view = self.next_view()
            if view is not None:
                return view.tobytes()
        return self._next_large()

    def _next_large(self) -> memoryview | None:
        """Return the frame that has memory of its own, if it is whole; give that to one which does not fit."""
        large = self._large
        if large is None:
            if self._allocate is None or self._end - self._start < _SIZE.size:
                return None
            (size,) = _SIZE.unpack_from(self._buffer, self._start)
            if size <= FIRST_BYTES:
                return None
            here = self._view[self._start + _SIZE.size : self._end]
            large, self._filled = self._allocate(size), len(here)
            large[: len(here)] = here
            self._start = self._end
            self._large = large
        if self._filled < len(large):
            return None
        self._large = None
        return large.toreadonly()

    def next_view(self) -> memoryview | None:
        """Do as :meth:`next_frame` does, without a copy: the view is good until the next ``get_buffer``.

        Raises:
            DecodeError: as :meth:`next_frame`.
        """
        start = self._start
        first = start + 4
        if first > self._end:
            return None
        (size,) = _SIZE.unpack_from(self._buffer, start)
        if not 0 <= size <= self.max_bytes:
            raise DecodeError(f"frame of {size} bytes, the most is {self.max_bytes}", position=0)
        end = first + size
        if end > self._end:
            return None
        self._start = end
        return self._view[first:end]
