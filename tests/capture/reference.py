"""Reassembly as plainly as it can be said: which bytes of a stream are there, which frames of it a reader must give.

A set of byte numbers in place of segments, extents and windows. It knows what was sent, and so where frames are; a
reader must find them from what is there. A frame is certain as long as no frame before it lost its size or its header:
behind that a reader looks for a frame that proves itself, and may find it later or not at all.
"""

from __future__ import annotations

from typing import NamedTuple

REQUEST_HEAD, RESPONSE_HEAD = 4 + 10, 8  # without the client id


class Frame(NamedTuple):
    """A frame of a side: where its size stands, and how many bytes behind it are there up to the first that is not."""

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
        """Take the bytes of a segment."""
        self.there.update(range(start, end))

    def frames(self) -> list[Frame]:
        """Return all that was sent."""
        frames, at = [], 0
        while at < len(self.stream):
            size = int.from_bytes(self.stream[at : at + 4], "big")
            missing = (byte for byte in range(at, at + 4 + size) if byte not in self.there)
            frames.append(Frame(self.side, at, size, next(missing, at + 4 + size) - at - 4))
            at += 4 + size
        return frames

    def head(self, frame: Frame) -> int:
        """Return how many bytes behind the size a reader needs to know the frame."""
        if self.side == 1:
            return RESPONSE_HEAD - 4
        length = int.from_bytes(self.stream[frame.offset + 12 : frame.offset + 14], "big", signed=True)
        return REQUEST_HEAD - 4 + max(length, 0)

    def certain(self, requests: set[int] | None = None) -> list[Frame]:
        """Return what must be given; after damage a response only if its request, by its number, is.

        The last frame's end must be there: what ends in a hole at the end of the capture may be waited for.
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
        """Return the correlation ids of the requests that are certain."""
        starts = [frame.offset for frame in self.certain()]
        return {int.from_bytes(self.stream[at + 8 : at + 12], "big") for at in starts}
