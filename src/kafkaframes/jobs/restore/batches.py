"""Select the records of a partition to restore, and assign their offsets, batch by batch.

With kept offsets, batches are copied byte for byte. Only the batch that contains the end of the range is truncated. The
batch that contains the start of the range stays whole, and the log start offset hides its first records, as after
DeleteRecords.

With reassigned offsets, a batch without gaps gets its new offset in the header (KIP-31), even if it is compressed. A
batch is rebuilt if it has gaps or is truncated, or if it is a compressed set of format 0, whose inner offsets are
absolute.

After a restore, a committed offset points to the same record, or to the next record that was restored.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.convert.segment import OUTSIDE_RANGE_REASON
from kafkaframes.jobs.convert.trim import build_batch_from_rows
from kafkaframes.jobs.restore.settings import Limits, RestoreSettings
from kafkaframes.records.append.headers import set_leader_epoch, set_offsets
from kafkaframes.records.decode import count_records, decode_batches, decode_steps
from kafkaframes.records.decoded import DecodedBatches, RecordIndex
from kafkaframes.records.layout import COLUMN_INDEX
from kafkaframes.records.makers import make_rows_from_index
from kafkaframes.records.reasons import DROP
from kafkaframes.records.rows import Rows
from kafkaframes.records.scan import BatchHeaders, Bytes


class OffsetTranslator:
    """Translates a partition's committed offsets to the restored log, from its records in offset order.

    >>> moved = OffsetTranslator([3, 10, 12, 99])
    >>> moved.add_runs(np.array([0, 11]), np.array([4, 13]), np.array([0, 5]))  # 0 to 4 stay, 11 to 13 become 5 to 7
    >>> moved.finish(8)
    {3: 3, 10: 5, 12: 6, 99: 8}

    Args:
        committed_offsets: committed offsets of the groups in the source.
    """

    def __init__(self, committed_offsets: Iterable[int]) -> None:
        self._waiting: Ints = np.unique(np.array(sorted(committed_offsets), np.int64))
        self._new_offsets: dict[int, int] = {}

    @property
    def is_pending(self) -> bool:
        """Whether any committed offset is not translated yet."""
        return len(self._waiting) > 0

    def add_runs(self, old_firsts: Ints, old_lasts: Ints, new_firsts: Ints) -> None:
        """Add runs of consecutive records: their offset ranges in the source, and first offsets in the new log."""
        if not len(old_lasts) or not self.is_pending:
            return
        count = int(np.searchsorted(self._waiting, old_lasts[-1], side="right"))
        passed_offsets, self._waiting = self._waiting[:count], self._waiting[count:]
        runs = np.searchsorted(old_lasts, passed_offsets, side="left")
        new_offsets = new_firsts[runs] + np.maximum(passed_offsets - old_firsts[runs], 0)
        self._new_offsets.update(zip(passed_offsets.tolist(), new_offsets.tolist(), strict=True))

    def finish(self, end_offset: int) -> dict[int, int]:
        """Return a dict from each old committed offset to the new one.

        Offsets after the last record become the log end offset.
        """
        return self._new_offsets | dict.fromkeys(self._waiting.tolist(), end_offset)


Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
MAX_END_OFFSET = 2**63 - 1  # end of a range that has no end
UNDECODABLE_BATCH_REASON = "in batches that cannot be decoded"  # reason for omitting records


class DecodedRows(NamedTuple):
    """The selected records of a decoded batch.

    Attributes:
        rows: decoded records of several batches.
        offsets: source offsets of the records.
        start, stop: range of the batch's records in ``rows``.
        is_whole: whether all records of the batch are selected.
    """

    rows: Rows
    offsets: Ints
    start: int
    stop: int
    is_whole: bool


class BatchRewriter:
    """Converts a partition's source batches, in offset order, to the bytes of the new log.

    Attributes:
        next_offset: new offset of the next record, if offsets are reassigned.
        first_offset: first selected source offset; unknown until a record has reached the first selected time.
        end_offset: end of the selected source offsets (exclusive).
        is_done: whether the end of the selected range has been reached.
        seen_end: source offset after the last batch that was passed to ``rewrite_batches``.
        dropped: amounts of omitted data, by kind.
        left_out: number of omitted records, by reason.
    """

    def __init__(
        self, settings: RestoreSettings, limits: Limits, *, log_start_offset: int, translation: OffsetTranslator
    ) -> None:
        self.next_offset = settings.start_offset
        self.first_offset = max(log_start_offset, limits.first_offset or 0)
        self.end_offset = MAX_END_OFFSET if limits.end_offset is None else limits.end_offset
        self.is_done = False
        self.seen_end = 0
        self.dropped: Counter[str] = Counter()
        self.left_out: Counter[str] = Counter()
        self._settings = settings
        self._translation = translation
        self._from_time, self._to_time = limits.start_time, limits.end_time

    @property
    def is_waiting_for_time(self) -> bool:
        """Whether no record has reached the first selected time yet."""
        return self._from_time is not None

    def rewrite_batches(self, data: Bytes, batches: BatchHeaders) -> Iterator[bytes]:
        """Yield the bytes to write for a run of batches.

        Raises:
            LogDirError: a batch that must be rebuilt cannot be decoded. The position in the error is relative to
                ``data``.
        """
        self._resolve_times(data, batches)
        self.seen_end = int(batches.column("last_offset")[-1]) + 1
        selected_batches = self._select_batches(batches)
        if len(selected_batches) < len(batches):
            self.left_out[OUTSIDE_RANGE_REASON] += count_records(data, batches) - count_records(data, selected_batches)
        if len(selected_batches):
            yield from (
                self._rewrite_with_new_offsets(data, selected_batches)
                if self._settings.moves_offsets
                else self._rewrite_with_same_offsets(data, selected_batches)
            )

    def _select_batches(self, batches: BatchHeaders) -> BatchHeaders:
        """Return the batches with selected offsets. Only the last batch may also have offsets after the range."""
        first, last = batches.column("base_offset"), batches.column("last_offset")
        is_selected = np.full(len(batches), not self.is_waiting_for_time and not self.is_done)
        is_selected &= last >= self.first_offset
        batches_after_range = np.flatnonzero(last >= self.end_offset)
        if len(batches_after_range):
            index = int(batches_after_range[0])
            self.is_done = True
            is_wrapper = batches.is_wrapper[index]
            is_selected[index if first[index] >= self.end_offset and not is_wrapper else index + 1 :] = False
        empty = is_selected & batches.is_v2 & (batches.column("count") == 0)
        if self._settings.moves_offsets and empty.any():
            self.dropped["batches without records"] += int(empty.sum())
            is_selected &= ~empty
        return batches.select(is_selected)

    # ------------------------------------------------------------------------------------------------- kept offsets

    def _rewrite_with_same_offsets(self, data: Bytes, batches: BatchHeaders) -> Iterator[bytes]:
        """Yield the bytes of batches that keep their offsets."""
        for start, stop, opened_batch in self._iterate_runs(
            data, batches, batches.column("last_offset") >= self.end_offset
        ):
            if opened_batch is None:
                yield self._copy_batches(data, _slice_batches(batches, start, stop), None)
            elif opened_batch.stop > opened_batch.start:
                yield self._build_batch(
                    batches, start, opened_batch, base_offset=int(batches.column("base_offset")[start])
                )

    # ------------------------------------------------------------------------------------------- reassigned offsets

    def _rewrite_with_new_offsets(self, data: Bytes, batches: BatchHeaders) -> Iterator[bytes]:
        """Yield the bytes of batches with consecutive new offsets."""
        for start, stop, opened_batch in self._iterate_runs(data, batches, self._find_batches_to_decode(batches)):
            if opened_batch is None:
                yield self._renumber_run(data, _slice_batches(batches, start, stop))
            elif opened_batch.stop > opened_batch.start:
                yield self._renumber_batch(data, batches, start, opened_batch)

    def _find_batches_to_decode(self, batches: BatchHeaders) -> Flags:
        """Return a flag for each batch: whether its records must be decoded."""
        first, last = batches.column("base_offset"), batches.column("last_offset")
        is_v2 = batches.is_v2
        has_holes = is_v2 & (batches.column("count") != last - first + 1)
        crosses_limit = is_v2 & ((first < self.first_offset) | (last >= self.end_offset))
        decodes: Flags = has_holes | crosses_limit | batches.is_wrapper
        return decodes

    def _renumber_run(self, data: Bytes, batches: BatchHeaders) -> bytes:
        """Return the bytes of neighboring batches with new offsets, without decoding them."""
        counts = np.where(batches.is_v2, batches.column("count"), 1)
        last_offsets = self.next_offset + np.cumsum(counts) - 1
        self._translation.add_runs(
            batches.column("base_offset"), batches.column("last_offset"), last_offsets - counts + 1
        )
        self.next_offset = int(last_offsets[-1]) + 1
        return self._copy_batches(data, batches, last_offsets)

    def _renumber_batch(self, data: Bytes, batches: BatchHeaders, row: int, opened_batch: DecodedRows) -> bytes:
        """Return the bytes of a decoded batch with new offsets."""
        old_offsets = opened_batch.offsets
        new_offsets = self.next_offset + np.arange(len(old_offsets))
        self._translation.add_runs(old_offsets, old_offsets, new_offsets)
        self.next_offset += len(old_offsets)
        is_wrapper = int(batches.column("magic")[row]) == 1
        if (
            is_wrapper and opened_batch.is_whole and int(old_offsets[-1] - old_offsets[0]) == len(old_offsets) - 1
        ):  # inner offsets are relative
            return self._copy_batches(data, _slice_batches(batches, row, row + 1), new_offsets[-1:])
        opened_batch.rows.offsets[opened_batch.start : opened_batch.stop] = new_offsets
        return self._build_batch(batches, row, opened_batch)

    # --------------------------------------------------------------------------------------------------- the bytes

    def _copy_batches(self, data: Bytes, batches: BatchHeaders, last_offsets: Ints | None) -> bytes:
        """Return the bytes of neighboring batches after their offsets and leader epochs are replaced in place."""
        start = int(batches.column("position")[0])
        end = int(batches.column("position")[-1] + batches.column("size")[-1])
        leader_epoch = self._settings.leader_epoch
        if last_offsets is None and leader_epoch is None:
            return data[start:end].tobytes()
        output, table = bytearray(data[start:end]), batches.table.copy()
        table[COLUMN_INDEX["position"]] -= start
        relative_offsets = BatchHeaders(table, batches.end)
        if last_offsets is not None:
            set_offsets(output, relative_offsets, last_offsets)
        if leader_epoch is not None:
            set_leader_epoch(output, relative_offsets.select(relative_offsets.is_v2), leader_epoch)
        return bytes(output)

    def _build_batch(
        self, batches: BatchHeaders, row: int, opened_batch: DecodedRows, *, base_offset: int | None = None
    ) -> bytes:
        """Build a batch of the selected records. If offsets are kept, ``base_offset`` is that of the source batch."""
        return build_batch_from_rows(
            batches,
            row,
            opened_batch.rows,
            start=opened_batch.start,
            stop=opened_batch.stop,
            first_offset=int(opened_batch.offsets[0]),
            base_offset=base_offset,
            leader_epoch=self._settings.leader_epoch,
        )

    # ---------------------------------------------------------------------------------------------------- decoding

    def _iterate_runs(
        self, data: Bytes, batches: BatchHeaders, decodes: Flags
    ) -> Iterator[tuple[int, int, DecodedRows | None]]:
        """Yield runs of batches that are not decoded, and each decoded batch with its records, in order.

        If damage is skipped, batches that cannot be decoded are omitted.
        """
        opened_batches = self._decode_batches(data, batches, decodes)
        for start, stop in _split_into_runs(batches, set(np.flatnonzero(decodes).tolist())):
            if not decodes[start]:
                yield start, stop, None
                continue
            opened_batch = next(opened_batches)
            if opened_batch is not None:
                yield start, stop, opened_batch

    def _decode_batches(self, data: Bytes, batches: BatchHeaders, decodes: Flags) -> Iterator[DecodedRows | None]:
        """Decode batches in order, within the memory budget. ``None`` is yielded for a batch that cannot be decoded."""
        for content in decode_steps(data, batches.select(decodes)):
            damage_reasons = self._find_undecodable_batches(content)
            offsets = content.index.offsets
            in_range = offsets < self.end_offset
            if self._settings.moves_offsets:
                in_range &= offsets >= self.first_offset
            self._count_omitted_records(data, content.batches, damage_reasons)
            index = content.index.take(in_range, content.owners)
            self.left_out[OUTSIDE_RANGE_REASON] -= sum(
                int(count) for first_row, count in enumerate(index.rows) if first_row not in damage_reasons
            )
            yield from _iterate_decoded_batches(content, index, damage_reasons)

    def _find_undecodable_batches(self, content: DecodedBatches) -> set[int]:
        """Return the batches that cannot be decoded.

        Raises:
            LogDirError: a batch cannot be decoded, and damage is not skipped.
        """
        damage_reasons = {index: problem.reason for index, problem in content.problems.items()}
        if damage_reasons and self._settings.on_damage != DROP:
            index = min(damage_reasons)
            raise LogDirError(
                f"{damage_reasons[index]}: nothing was restored",
                position=int(content.batches.column("position")[index]),
            )
        if damage_reasons:
            self.dropped["batches that cannot be decoded"] += len(damage_reasons)
        return set(damage_reasons)

    def _count_omitted_records(self, data: Bytes, batches: BatchHeaders, damage_reasons: set[int]) -> None:
        """Count all records of the decoded batches as omitted. The selected records are subtracted later."""
        flags = np.zeros(len(batches), np.bool_)
        flags[list(damage_reasons)] = True
        for reason, is_omitted in ((UNDECODABLE_BATCH_REASON, flags), (OUTSIDE_RANGE_REASON, ~flags)):
            if is_omitted.any():
                self.left_out[reason] += count_records(data, batches.select(is_omitted))

    def _resolve_times(self, data: Bytes, batches: BatchHeaders) -> None:
        """Replace each requested time with an offset as soon as a record reaches it."""
        if self._from_time is not None:
            offset = _find_first_offset_at_time(data, batches, self._from_time, self.first_offset)
            if offset is not None:
                self.first_offset, self._from_time = max(self.first_offset, offset), None
        if self._to_time is not None:
            offset = _find_first_offset_at_time(data, batches, self._to_time, 0)
            if offset is not None:
                self.end_offset, self._to_time = min(self.end_offset, offset), None


def _iterate_decoded_batches(
    content: DecodedBatches, index: RecordIndex, damage_reasons: Collection[int]
) -> Iterator[DecodedRows | None]:
    """Yield the selected records of each batch. ``index`` contains only selected records."""
    rows = make_rows_from_index(content.sections, index, offsets=index.offsets.copy())
    for first_row, (end, count) in enumerate(zip(np.cumsum(index.rows).tolist(), index.rows.tolist(), strict=True)):
        is_whole = count == int(content.index.rows[first_row])
        yield (
            None
            if first_row in damage_reasons
            else DecodedRows(rows, index.offsets[end - count : end], end - count, end, is_whole)
        )


def _slice_batches(batches: BatchHeaders, start: int, stop: int) -> BatchHeaders:
    """Return the batches from ``start`` to ``stop`` (exclusive)."""
    return BatchHeaders(np.ascontiguousarray(batches.table[:, start:stop]), batches.end)


def _split_into_runs(batches: BatchHeaders, decoded_rows: Collection[int]) -> Iterator[tuple[int, int]]:
    """Yield runs of consecutive batches. Each decoded batch is a run of its own."""
    positions, sizes = batches.column("position"), batches.column("size")
    is_separate = np.flatnonzero(positions[1:] != positions[:-1] + sizes[:-1]) + 1
    edges = sorted({0, len(batches), *is_separate.tolist(), *decoded_rows, *(row + 1 for row in decoded_rows)})
    yield from pairwise(edges)


def _find_first_offset_at_time(data: Bytes, batches: BatchHeaders, timestamp_ms: int, min_offset: int) -> int | None:
    """Return the first offset, from ``min_offset`` on, whose record is as late as ``timestamp_ms`` or later."""
    for row in np.flatnonzero(batches.column("max_timestamp") >= timestamp_ms).tolist():
        if int(batches.column("last_offset")[row]) < min_offset:
            continue
        index = decode_batches(data, _slice_batches(batches, row, row + 1)).index
        reaching_rows = np.flatnonzero((index.timestamps >= timestamp_ms) & (index.offsets >= min_offset))
        if len(reaching_rows):
            return int(index.offsets[reaching_rows[0]])
    return None
