"""Find every valid batch of a damaged segment, including those after a wrong CRC, an incomplete batch or foreign bytes.

A batch is valid if its CRC is right and its offsets are in the segment's range. If a valid batch follows at the
position where the damaged header says the damaged batch ends, only the damaged one is omitted. If no valid batch
follows at this position, the search continues at the next position at which a valid batch begins. If offsets of valid
batches decrease (the CRC of format 2 does not cover the base offset), as few batches as possible are omitted. No I/O.
The search has a limit, because crafted bytes could make it slow. Bytes that were not examined are reported as lost.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.records.layout import BATCH_V2, OVERHEAD_BYTES
from kafkaframes.records.scan import FILE, BatchHeaders, Bytes, Ints, as_array, check_crcs, scan_batches
from kafkaframes.storage.files.scan import SegmentWindow

_MAGIC_POSITION = 16  # position of the magic byte in all batch formats
_MIN_BATCH_BYTES = {
    0: 14,
    1: 22,
    2: BATCH_V2.size - OVERHEAD_BYTES,
}  # minimum number of bytes after the size field, by magic
_SEARCH_CHUNK_BYTES = 1 << 20  # bytes that are searched at once for a valid batch
_MAX_CRC_BYTES_PER_BYTE = 32  # largest number of bytes that CRC computations read, per byte of the segment


class ValidRange(NamedTuple):
    """The byte range and offset range of a valid batch. The end position and the end offset are exclusive."""

    start: int
    end: int
    base_offset: int
    next_offset: int


class OmittedRange(NamedTuple):
    """A byte range that is omitted, and the reason."""

    start: int
    end: int
    reason: str


@dataclass(frozen=True, slots=True)
class SalvageResult:
    """The valid batches of a segment in order, and the omitted bytes."""

    good_ranges: tuple[ValidRange, ...]
    losses: tuple[OmittedRange, ...]

    def merge_valid_ranges(self) -> tuple[tuple[int, int], ...]:
        """Return the byte ranges to keep. Adjacent ranges are merged."""
        ranges: list[tuple[int, int]] = []
        for batch in self.good_ranges:
            if ranges and ranges[-1][1] == batch.start:
                ranges[-1] = (ranges[-1][0], batch.end)
            else:
                ranges.append((batch.start, batch.end))
        return tuple(ranges)


def is_sound(windows: Iterable[SegmentWindow], *, base_offset: int, end_offset: int, size_bytes: int) -> bool:
    """Return whether a segment has only valid batches with increasing offsets.

    Args:
        windows: whole batches, from ``scan_segment``.
        base_offset, end_offset: as in ``find_valid_batches``.
        size_bytes: size of the segment.
    """
    position, next_offset = 0, base_offset
    for window in windows:
        batches = window.batches
        first, last = batches.column("base_offset"), batches.column("last_offset")
        is_valid = check_batches(as_array(window.data), window.batches_in_data(), base_offset, end_offset).all()
        if not is_valid or (first < np.concatenate(([next_offset], last[:-1] + 1))[: len(first)]).any():
            return False
        next_offset = int(last[-1]) + 1 if len(last) else next_offset
        position = batches.end.position
    return position == size_bytes


def find_valid_batches(data: bytes | Bytes, *, base_offset: int, end_offset: int) -> SalvageResult:
    """Return the valid batches of a segment.

    Args:
        data: bytes of the whole segment.
        base_offset: base offset in the segment's name.
        end_offset: end of the segment's offset range (exclusive).
    """
    array = as_array(data)
    valid_batches_in_order = list(_iterate_valid_batches(array, base_offset, end_offset))
    chain = _find_longest_ascending_chain(valid_batches_in_order)
    good_batches = [valid_batches_in_order[index] for index in chain]
    backwards = {valid_batches_in_order[index].start for index in set(range(len(valid_batches_in_order))) - set(chain)}
    return SalvageResult(tuple(good_batches), tuple(_find_losses(array, good_batches, backwards)))


def _iterate_valid_batches(data: Bytes, base_offset: int, end_offset: int) -> Iterator[ValidRange]:
    """Yield the valid batches of a segment in file order. The offsets of these batches may decrease."""
    position, budget = 0, _MAX_CRC_BYTES_PER_BYTE * data.size
    while 0 <= position < data.size and budget > 0:
        batches = scan_batches(data, position=position, rules=FILE)
        is_valid = check_batches(data, batches, base_offset, end_offset)
        budget -= batches.end.position - position
        trusted_count = _count_trusted_batches(
            is_valid, ends_well=batches.end.can_continue or batches.end.position == data.size
        )
        yield from _iterate_batch_ranges(batches, np.flatnonzero(is_valid[:trusted_count]))
        if trusted_count == len(batches) and (batches.end.can_continue or batches.end.position == data.size):
            position = batches.end.position
            continue
        broken_position = (
            int(batches.column("position")[trusted_count]) if trusted_count < len(batches) else batches.end.position
        )
        position = _find_valid_batch(data, broken_position + 1, base_offset, end_offset)


def check_batches(data: Bytes, batches: BatchHeaders, base_offset: int, end_offset: int) -> npt.NDArray[np.bool_]:
    """Return a flag for each batch: whether its CRC is right and its offsets are between the base and end offsets."""
    magic, first_offset, last_offset = (batches.column(name) for name in ("magic", "base_offset", "last_offset"))
    is_valid: npt.NDArray[np.bool_] = (
        (check_crcs(data, batches) != 0)
        & (magic >= 0)
        & (magic <= 2)
        & (first_offset >= base_offset)
        & (last_offset >= first_offset)
        & (last_offset < end_offset)
    )
    return is_valid


def _count_trusted_batches(is_valid: npt.NDArray[np.bool_], *, ends_well: bool) -> int:
    """Return the number of batches before the first invalid one that no valid batch follows.

    The size in the header of that batch may be wrong.
    """
    is_followed = np.append(is_valid[1:], ends_well)
    is_doubtful = np.flatnonzero(~is_valid & ~is_followed)
    return int(is_doubtful[0]) if len(is_doubtful) else len(is_valid)


def _iterate_batch_ranges(batches: BatchHeaders, rows: Ints) -> Iterator[ValidRange]:
    """Yield the byte and offset ranges of some batches."""
    columns = [batches.column(name)[rows].tolist() for name in ("position", "size", "base_offset", "last_offset")]
    for position, size, first, last in zip(*columns, strict=True):
        yield ValidRange(position, position + size, first, last + 1)


def _find_valid_batch(data: Bytes, position: int, base_offset: int, end_offset: int) -> int:
    """Return the next position of a valid batch; -1 if no batch is valid, or if the search exceeds its limit."""
    budget = _MAX_CRC_BYTES_PER_BYTE * data.size
    for candidate, size in _find_candidates(data, position, base_offset, end_offset):
        batches = scan_batches(data[candidate : candidate + size], rules=FILE)
        if len(batches) == 1 and check_batches(data[candidate : candidate + size], batches, base_offset, end_offset)[0]:
            return candidate
        budget -= size
        if budget < 0:
            break
    return -1


def _find_candidates(data: Bytes, position: int, base_offset: int, end_offset: int) -> Iterator[tuple[int, int]]:
    """Yield position and batch size of each possible header: its magic, offset and size are plausible."""
    last_position = data.size - OVERHEAD_BYTES - min(_MIN_BATCH_BYTES.values())
    while position <= last_position:
        search_end = min(position + _SEARCH_CHUNK_BYTES, last_position + 1)
        magics = data[position + _MAGIC_POSITION : search_end + _MAGIC_POSITION]
        positions = position + np.flatnonzero(
            (magics <= max(_MIN_BATCH_BYTES)) & (data[position:search_end][: len(magics)] < 0x80)
        )
        offsets, lengths = _read_big_endian(data, positions, 8), _read_big_endian(data, positions + 8, 4)
        min_size = np.array([_MIN_BATCH_BYTES[magic] for magic in sorted(_MIN_BATCH_BYTES)])[
            data[positions + _MAGIC_POSITION]
        ]
        fits = (offsets >= base_offset) & (offsets < end_offset)
        fits &= (lengths >= min_size) & (positions + OVERHEAD_BYTES + lengths <= data.size)
        for candidate, length in zip(positions[fits].tolist(), lengths[fits].tolist(), strict=True):
            yield candidate, OVERHEAD_BYTES + length
        position = search_end


def _read_big_endian(data: Bytes, positions: Ints, width: int) -> Ints:
    """Return the unsigned number of ``width`` bytes at each position."""
    value = np.zeros(len(positions), np.int64)
    for index in range(width):
        value = (value << 8) | data[positions + index]
    return value


def _find_longest_ascending_chain(batches: list[ValidRange]) -> list[int]:
    """Return the longest subsequence of batches in which each begins at or after the end of the previous one."""
    ends: list[int] = []
    tails: list[int] = []
    predecessors = [-1] * len(batches)
    for index, batch in enumerate(batches):
        length = bisect_left(ends, batch.base_offset + 1)
        predecessors[index] = tails[length - 1] if length else -1
        if length == len(ends):
            ends.append(batch.next_offset)
            tails.append(index)
        elif batch.next_offset < ends[length]:
            ends[length], tails[length] = batch.next_offset, index
    chain, index = [], tails[-1] if tails else -1
    while index >= 0:
        chain.append(index)
        index = predecessors[index]
    return chain[::-1]


def _find_losses(data: Bytes, good_batches: list[ValidRange], backwards: set[int]) -> Iterator[OmittedRange]:
    """Yield the byte ranges between the batches to keep, with the reason for each."""
    position = 0
    for start, end in (*((valid_range.start, valid_range.end) for valid_range in good_batches), (data.size, data.size)):
        if start > position:
            yield OmittedRange(position, start, _explain_loss(data[position:start], position in backwards))
        position = end


def _explain_loss(lost_bytes: Bytes, is_backwards: bool) -> str:
    """Return why bytes are omitted. ``is_backwards``: the bytes contain valid batches that are out of order."""
    if is_backwards:
        return "batches whose offsets are not in ascending order"
    return "zeros that were never overwritten with data" if not lost_bytes.any() else "no batch with a valid CRC"
