"""``N.index``: where in the segment a batch begins, for some offsets (Kafka's OffsetIndex).

An entry is 8 bytes: the offset, int32 from the base offset in the name, and the position, int32. The offset is the last
one of a batch; the position is that of a batch at or before it (before KAFKA-806 one append of many batches made one
entry: the last offset of all, the position of the first). Entries increase strictly in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files._entries import Int64s, check_increasing, padded, relative_offsets, split_entries

ENTRY = np.dtype([("relative_offset", ">i4"), ("position", ">i4")])


class OffsetPosition(NamedTuple):
    """One entry: an absolute offset and a byte position in the ``.log``."""

    offset: int
    position: int


@dataclass(frozen=True, slots=True, eq=False)
class OffsetIndex:
    """The entries of one index.

    Attributes:
        base_offset: the segment's.
        offsets: absolute offsets, int64.
        positions: byte positions in the ``.log``, int64.
    """

    base_offset: int
    offsets: Int64s
    positions: Int64s

    def __len__(self) -> int:
        return len(self.offsets)

    def __getitem__(self, index: int) -> OffsetPosition:
        return OffsetPosition(int(self.offsets[index]), int(self.positions[index]))

    def lookup(self, target: int) -> OffsetPosition:
        """Return the last entry at or before ``target``; the segment's start where there is none.

        >>> read_offset_index(bytes.fromhex("0000000a00001000 0000001900002000"), base_offset=100).lookup(124)
        OffsetPosition(offset=110, position=4096)
        """
        at = int(np.searchsorted(self.offsets, target, side="right")) - 1
        return self[at] if at >= 0 else OffsetPosition(self.base_offset, 0)


def read_offset_index(raw: bytes, *, base_offset: int, file: str | None = None, strict: bool = True) -> OffsetIndex:
    """Read an index file; its zero tail is left out.

    Args:
        raw: the file's bytes.
        base_offset: from the file's name.
        file: named in errors.
        strict: refuse what Kafka's own check would refuse or a lookup could not bear: a size that is not whole entries,
            entries that do not increase. Otherwise the entries come as they are.

    Raises:
        LogDirError: strict, and the bytes are no such index; ``position`` is where the bad entry begins.
    """
    entries = split_entries(raw, ENTRY, file=file, strict=strict)
    relative = entries["relative_offset"].astype(np.int64)
    positions = entries["position"].astype(np.int64)
    if strict:
        check_increasing(relative, "relative offset", ENTRY.itemsize, file=file, least=0)
        check_increasing(positions, "position", ENTRY.itemsize, file=file, least=0)
    return OffsetIndex(base_offset, relative + base_offset, positions)


def write_offset_index(index: OffsetIndex, *, size_bytes: int | None = None) -> bytes:
    """Write an index file, with a zero tail up to ``size_bytes`` if that is given.

    Raises:
        LogDirError: an offset or a position does not fit into int32.
    """
    if len(index) and (index.positions.min() < 0 or index.positions.max() > np.iinfo(np.int32).max):
        raise LogDirError("a position does not fit into the 31 bits of an index")
    entries = np.empty(len(index), ENTRY)
    entries["relative_offset"] = relative_offsets(index.offsets, index.base_offset)
    entries["position"] = index.positions
    return padded(entries.tobytes(), size_bytes)
