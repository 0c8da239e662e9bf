"""What the three index files share: fixed-width entries, perhaps with a preallocated tail of zeros."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError

Int64s = npt.NDArray[np.int64]


def split_entries(raw: bytes, entry: np.dtype[Any], *, file: str | None, strict: bool) -> npt.NDArray[Any]:
    """Return the entries before the zero tail, as a view of ``raw``.

    Brokers map an index at its full size and trim it when the segment rolls or the log closes: an unclean stop leaves
    the zeros. One entry of zeros alone is an entry (a timestamp of 0 is one); more of them are a tail.

    Raises:
        LogDirError: ``strict``, and the size is not a multiple of the entry's.
    """
    rest = len(raw) % entry.itemsize
    if rest and strict:
        reason = f"{len(raw)} bytes are not whole entries of {entry.itemsize}"
        raise LogDirError(reason, position=len(raw) - rest, file=file)
    count = len(raw) // entry.itemsize
    entries = np.frombuffer(raw, entry, count)
    bytes_used = count * entry.itemsize
    if count <= 1 or raw[bytes_used - 1] or entries[-1].tobytes().strip(b"\0"):
        return entries
    last = np.frombuffer(raw, np.uint8, bytes_used).nonzero()[0]
    return entries[: int(last[-1]) // entry.itemsize + 1 if len(last) else 0]


def check_increasing(values: Int64s, what: str, width: int, *, file: str | None, least: int) -> None:
    """Refuse an index whose entries do not increase strictly, from ``least`` on.

    Raises:
        LogDirError: ``position`` is where the first such entry begins.
    """
    if len(values) == 0:
        return
    if values[0] < least:
        raise LogDirError(f"{what} {int(values[0])} is below {least}", position=0, file=file)
    falling = np.flatnonzero(values[1:] <= values[:-1])
    if len(falling):
        at = int(falling[0]) + 1
        reason = f"{what} {int(values[at])} follows {int(values[at - 1])}, entries must increase"
        raise LogDirError(reason, position=at * width, file=file)


def relative_offsets(offsets: Int64s, base_offset: int) -> npt.NDArray[np.int32]:
    """Return the offsets as an index stores them: int32, counted from the segment's base.

    Raises:
        LogDirError: one of them is below the base or more than an int32 above it.
    """
    relative = offsets - base_offset
    if len(relative) and (relative.min() < 0 or relative.max() > np.iinfo(np.int32).max):
        raise LogDirError(f"an offset is too far from the segment's base offset {base_offset} for an index")
    return relative.astype(np.int32)


def padded(raw: bytes, size_bytes: int | None) -> bytes:
    """Return ``raw``, filled up with zeros to ``size_bytes`` if that is given."""
    return raw if size_bytes is None else raw.ljust(size_bytes, b"\0")
