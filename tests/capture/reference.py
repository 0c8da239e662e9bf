"""A simple reference of reassembly: the available bytes of a stream, and the frames that a reader must return.

The reference has a set of byte numbers instead of segments, extents and windows. It knows the sent bytes, and therefore
the frame boundaries, which a reader must find itself. A frame is certain if no frame before it has lost its size or its
header. After such a loss a reader searches for a frame that is certainly one, which it may find later or not at all.
"""

from __future__ import annotations

from typing import NamedTuple

REQUEST_HEAD, RESPONSE_HEAD = 4 + 10, 8  # without the client id


class Frame(NamedTuple):
    """A frame of a side: the position of its size, and the number of available bytes after the size."""

    side: int
    offset: int
    size: int
    have: int


class Side:
    """One direction of a connection."""

    def __init__(self, side: int, stream: bytes) -> None:
        self.side, self.stream = side, stream
        self.there: set[int] = set()

    def add(self, start: int, end: int) -> None:
        """Add the bytes of a segment."""
        self.there.update(range(start, end))

    def frames(self) -> list[Frame]:
        """Return all sent frames."""
        frames, at = [], 0
        while at < len(self.stream):
            size = int.from_bytes(self.stream[at : at + 4], "big")
            missing = (byte for byte in range(at, at + 4 + size) if byte not in self.there)
            frames.append(Frame(self.side, at, size, next(missing, at + 4 + size) - at - 4))
            at += 4 + size
        return frames

    def head(self, frame: Frame) -> int:
        """Return how many bytes after the size a reader needs to recognise the frame."""
        if self.side == 1:
            return RESPONSE_HEAD - 4
        length = int.from_bytes(self.stream[frame.offset + 12 : frame.offset + 14], "big", signed=True)
        return REQUEST_HEAD - 4 + max(length, 0)

    def certain(self, requests: set[int] | None = None) -> list[Frame]:
        """Return the frames that a reader must return. After damage, a response is certain only if its request is.

        The last frame's end must be available: a reader may still wait for one that ends in a hole at the end of the
        capture.
        """
        certain_frames: list[Frame] = []
        for frame in self.frames():
            end = frame.offset + 4 + frame.size
            if frame.have < self.head(frame) or not self.there.issuperset(range(end - 1, end)):
                break
            number = int.from_bytes(self.stream[frame.offset + 4 : frame.offset + 8], "big")
            is_damaged = any(before.have < before.size for before in certain_frames)
            if requests is not None and is_damaged and number not in requests:
                break
            certain_frames.append(frame)
        return certain_frames

    def numbers(self) -> set[int]:
        """Return the correlation ids of the certain requests."""
        starts = [frame.offset for frame in self.certain()]
        return {int.from_bytes(self.stream[at + 8 : at + 12], "big") for at in starts}
