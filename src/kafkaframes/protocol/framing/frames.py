"""Frames: payloads with their size before them. ``buffer.py`` cuts them out of a stream of bytes. No I/O."""

from __future__ import annotations

import struct
from typing import Final

from kafkaframes.errors import EncodeError

MAX_REQUEST_BYTES: Final = 104_857_600  # the broker's default of socket.request.max.bytes
_SIZE: Final = struct.Struct(">i")


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
