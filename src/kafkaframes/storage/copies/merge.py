"""Decide which copy of a topic partition supplies each offset. The result is an ordered list of offset ranges (spans).

The merge does no I/O itself. Headers are passed as columns, and the ``BlockInspector`` reads bytes only if headers
differ. ``docs/many-copies.md`` explains the rules. In short:

1. Copies with different topic ids belong to different topics and are rejected.
2. The copy with the latest leader epoch (among equal epochs, the longest copy) is the *authority*, whose history is
   taken as the correct one. Other copies are usable up to their truncation point as followers
   (``blocks.find_truncation_offset``).
3. The authority's blocks are used first, and the blocks of other copies fill missing offsets.
4. If blocks differ, their checksums decide, and then their records. If both blocks are valid and differ, neither is
   used.
5. All offsets below the largest end of a compacted part are taken from a single copy. Offsets that are missing in a
   compacted part are not damage, and a record that compaction removed must not return from another copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.errors.words import count_text
from kafkaframes.storage.copies.blocks import UNKNOWN_CRC, BlockTable, PartitionCopy, find_truncation_offset
from kafkaframes.storage.copies.cover import (
    CLIPPED,
    FIRST,
    LAST,
    NO_COPY,
    NO_END_OFFSET,
    OWNER,
    ROW,
    BlockInspector,
    ChosenBlocks,
    Conflict,
    find_compacted_end,
    is_compacted,
    make_block_columns,
    make_unassigned_column,
    measure_coverage,
)
from kafkaframes.storage.copies.decisions import Decision, Location, format_offset_range
from kafkaframes.storage.copies.doubts import remove_doubtful_blocks
from kafkaframes.storage.copies.spans import MergedLog, SegmentRange, Span
from kafkaframes.storage.files.checkpoints import NO_EPOCH, Epochs, EpochStart, get_latest_epoch, truncate_epochs
from kafkaframes.storage.files.names import TopicPartition


def merge(
    topic_partition: TopicPartition, copies: Sequence[PartitionCopy], inspector: BlockInspector, *, check: bool = False
) -> MergedLog:
    """Merge copies of one topic partition.

    Args:
        copies: two or more copies; the inspector identifies them by index.
        check: whether to verify the checksum of every chosen block, and replace damaged blocks with those of other
            copies; otherwise the reader does both (``Span.alternates``).

    Raises:
        LogDirError: the copies have different topic ids.
    """
    check_topic_ids(topic_partition, ((copy.directory, copy.topic_id) for copy in copies))
    return _Merger(topic_partition, remove_doubtful_blocks(copies, inspector), inspector, check).merge_copies()


def check_topic_ids(topic_partition: TopicPartition, ids: Iterable[tuple[str, str | None]]) -> None:
    """Reject copies of different topics.

    Args:
        ids: directory and topic id of each copy; None if ``partition.metadata`` is missing, as before 2.8.

    Raises:
        LogDirError: the copies have different topic ids.
    """
    directories_by_id = group_directories_by_id(ids)
    if len(directories_by_id) > 1:
        descriptions = ", ".join(f"{directory} has {topic_id}" for topic_id, directory in directories_by_id.items())
        raise LogDirError(
            f"{topic_partition} belongs to two topics with the same name: {descriptions}; load only one of them"
        )


def group_directories_by_id(ids: Iterable[tuple[str, str | None]]) -> dict[str, str]:
    """Return the first directory with each id, by id."""
    directories_by_id: dict[str, str] = {}
    for directory, identity in ids:
        if identity is not None:
            directories_by_id.setdefault(identity, directory)
    return directories_by_id


@dataclass
class _Merger:
    """The state of a merge; ``merge_copies`` executes its steps."""

    name: TopicPartition
    copies: tuple[PartitionCopy, ...]
    inspector: BlockInspector
    check: bool
    decisions: list[Decision] = field(default_factory=list)
    limit: int = NO_END_OFFSET

    def merge_copies(self) -> MergedLog:
        self.order = self._rank_copies()
        self.authority = self.order[0]
        self.usable = [copy.blocks for copy in self.copies]
        for index, copy in enumerate(self.copies):
            self._report_doubts(index, copy)
            self._truncate_copy(index, self._find_common_end(index))
        self.choice = ChosenBlocks(self.usable, [0] * len(self.copies))
        clean = self._find_clean_offset()
        if clean:
            self._take_compacted(clean)
        self._fill_from_copies()
        if self.check:
            self._verify_checksums(clean)
        start = self._find_log_start()
        end = max(self.choice.end_offset, start)
        if self.limit == NO_END_OFFSET:  # the merged log ends at or after the authority's end
            end = max(end, self.copies[self.authority].end)
        self._report_ends(start, end, clean)
        self._report_gaps(start, clean)
        return MergedLog(
            self.name,
            self.copies,
            self.authority,
            tuple(self._make_spans(clean)),
            start,
            end,
            self._merge_lineages(start, end),
            self._find_high_watermark(end),
            clean or None,
            tuple(self.decisions),
        )

    # ------------------------------------------------------------------------------------------- whose history counts

    def _rank_copies(self) -> list[int]:
        """Return the indexes of the copies: the authority first, then by the length of the common history with it."""

        def rank(index: int) -> tuple[int, int, int, int]:
            """Return a copy's sort key: latest epoch, committed end, log end, and the order of the arguments."""
            copy = self.copies[index]
            epoch = get_latest_epoch(copy.lineage)
            committed_end = copy.high_watermark if epoch == NO_EPOCH and copy.high_watermark is not None else -1
            return epoch, committed_end, copy.end, -index

        return sorted(range(len(self.copies)), key=rank, reverse=True)

    def _find_common_end(self, index: int) -> int:
        """Return the end of a copy's common history with the authority, according to the leader epochs."""
        copy, leader = self.copies[index], self.copies[self.authority]
        if index == self.authority:
            return copy.end
        offset = find_truncation_offset(copy.lineage, copy.end, leader.lineage, leader.end)
        return copy.end if offset is None else offset

    def _truncate_copy(self, index: int, offset: int, how: str = "") -> None:
        """Use a copy only below ``offset``, and report the truncated part."""
        copy, blocks = self.copies[index], self.usable[index]
        is_past_end = blocks.last >= offset
        if not is_past_end.any():
            return
        first = int(np.flatnonzero(is_past_end)[0])
        self.usable[index] = self._truncate_blocks(blocks, offset)
        truncation_point = (
            max(int(blocks.first[first]), offset) if blocks.crc[first] == UNKNOWN_CRC else int(blocks.first[first])
        )
        leader = self.copies[self.authority]
        epochs = f"leader epoch {get_latest_epoch(copy.lineage)} is older than {get_latest_epoch(leader.lineage)}"
        loses_committed = copy.high_watermark is not None and copy.high_watermark > truncation_point
        remark = f"; those below {copy.high_watermark} were committed there: an unclean election lost them"
        text = (
            f"{format_offset_range(truncation_point, copy.end)} of {copy.directory} diverge from {leader.directory} "
            f"({how or epochs}) and are truncated{remark if loses_committed else ''}"
        )
        self._add_decision(
            "divergent-tail", truncation_point, copy.end, text, index, [self._location(index, blocks, first)]
        )

    @staticmethod
    def _truncate_blocks(blocks: BlockTable, offset: int) -> BlockTable:
        """Remove the blocks that end at or after ``offset``; a whole-segment block is shortened instead."""
        kept_blocks = blocks.take((blocks.last < offset) | ((blocks.crc == UNKNOWN_CRC) & (blocks.first < offset)))
        if len(kept_blocks) and bool((kept_blocks.last >= offset).any()):
            table = kept_blocks.table.copy()
            kept_blocks = BlockTable(table)
            np.minimum(kept_blocks.last, offset - 1, out=kept_blocks.last)
        return kept_blocks

    # ---------------------------------------------------------------------------------------------------- compaction

    def _find_clean_offset(self) -> int:
        """Return the largest end offset of the copies' compacted parts; 0 if no copy is compacted."""
        if not is_compacted(self.name, self.copies, self.usable, self.inspector):
            return 0
        return max(find_compacted_end(self.copies[index], self.usable[index]) for index in self.order)

    def _take_compacted(self, clean: int) -> None:
        """Choose a single copy for all offsets below ``clean``, and use its blocks."""

        def rank(index: int) -> tuple[bool, bool, int, int, int]:
            """Return a copy's sort key: how well it covers the compacted part, and that part's end."""
            covers = measure_coverage(self.copies[index], self.usable[index], clean)
            return *covers, find_compacted_end(self.copies[index], self.usable[index]), -self.order.index(index)

        best_copy = max(self.order, key=rank)
        blocks = self.usable[best_copy]
        rows = np.flatnonzero(blocks.first < clean)
        self.choice.table = make_block_columns(best_copy, blocks, rows)
        end = self.choice.end_offset
        for index in self.order:
            if index != best_copy:
                self._skip_compacted_part(index, best_copy, end)
        self.choice.floors[best_copy] = int(rows.size)

    def _skip_compacted_part(self, index: int, best_copy: int, end: int) -> None:
        """Ignore a copy below ``end``, where compaction made it different from the best copy, and report this."""
        blocks, best_blocks = self.usable[index], self.usable[best_copy]
        low = blocks.take(blocks.last < end)
        low_blocks = best_blocks.take(best_blocks.last < end)
        self.choice.floors[index] = int(np.searchsorted(blocks.first, end))
        is_identical = low.table.shape == low_blocks.table.shape and all(
            np.array_equal(getattr(low, name), getattr(low_blocks, name)) for name in ("last", "crc", "size")
        )
        if not is_identical and len(low):
            text = (
                f"{self.copies[index].directory} was compacted up to another offset; offsets below {end} are "
                f"read from {self.copies[best_copy].directory} only "
                f"({count_text(len(low_blocks), 'batch', 'batches')} "
                f"there, {len(low)} here)"
            )
            self._add_decision("compacted-differently", int(low.first[0]), end, text, index)

    # ------------------------------------------------------------------------------------------------------ the cover

    def _fill_from_copies(self) -> None:
        """Process the copies in order: compare each with the blocks chosen so far, and fill missing offsets from it."""
        merged_copies: list[int] = []
        for index in sorted(self.order, key=lambda copy: not self.copies[copy].is_scanned):
            if self.limit != NO_END_OFFSET:
                self.usable[index] = self._truncate_blocks(self.usable[index], self.limit)
            if merged_copies:
                self._compare_copy(index, merged_copies)
            end_offset = self.choice.end_offset
            for first, end in self.choice.fill_gaps(index):
                if merged_copies and first < end_offset:
                    self._report_filled_gap(first, end, index, merged_copies)
            merged_copies.append(index)

    def _compare_copy(self, index: int, merged_copies: list[int]) -> None:
        """Find the conflicts between a copy and the chosen blocks, and resolve them."""
        self.choice.read_first_offsets(index, self.inspector)
        conflicts = self.choice.find_conflicts(index, self.inspector)
        undecided = [conflict for conflict in conflicts if conflict.verdict == "undecided"]
        has_epochs = self.copies[index].lineage and self.copies[merged_copies[0]].lineage
        if undecided and not has_epochs and self._is_tail(index, undecided[0].first):
            self._decide_tail(undecided[0], index, merged_copies)
            conflicts = [conflict for conflict in conflicts if conflict.end <= undecided[0].first]
        for conflict in reversed(conflicts):
            self._apply_verdict(conflict)

    def _is_tail(self, index: int, offset: int) -> bool:
        """Return whether a copy and the chosen blocks have no common block from ``offset`` on."""
        blocks = self.usable[index]
        return not self.choice.mask_identical(blocks.take(blocks.first >= offset)).any()

    def _decide_tail(self, conflict: Conflict, index: int, merged_copies: list[int]) -> None:
        """Decide between different ends of two copies without leader epochs.

        The high watermark shows which end was committed. Without a high watermark, neither end is used. Before KIP-101,
        a follower truncated to its high watermark and fetched the rest from the leader.
        """
        first_offset = conflict.first
        leader = self.copies[self.authority]
        has_epochs = bool(leader.lineage)
        chosen_watermark = max(
            (self.copies[copy_index].high_watermark or -1 for copy_index in merged_copies), default=-1
        )
        other_watermark = self.copies[index].high_watermark or -1
        if has_epochs or (chosen_watermark > first_offset >= other_watermark):
            how = (
                "its bytes differ, and it has no leader epochs" if has_epochs else f"high watermark {chosen_watermark}"
            )
            self._truncate_copy(index, first_offset, how)
            return
        locations = self._locate_conflict(conflict)
        names = ", ".join(self.copies[other].directory for other in merged_copies)
        text = (
            f"{names} and {self.copies[index].directory} differ from offset {first_offset} on; leader epochs "
            "and high watermarks do not decide between them, so both are truncated there"
        )
        end = max(self.choice.end_offset, self.copies[index].end)
        self._add_decision("undecided", first_offset, end, text, None, locations)
        self.limit = first_offset
        self.choice.truncate(first_offset)
        self.usable[index] = self._truncate_blocks(self.usable[index], first_offset)

    def _locate_conflict(self, conflict: Conflict) -> list[Location]:
        owner, row = (int(self.choice.table[line, conflict.columns.start]) for line in (OWNER, ROW))
        copy_location = self._location(conflict.copy, self.usable[conflict.copy], int(conflict.rows[0]))
        return [self._location(owner, self.usable[owner], row), copy_location]

    def _apply_verdict(self, conflict: Conflict) -> None:
        """Apply a conflict's verdict: keep, drop or replace batches."""
        owner = int(self.choice.table[OWNER, conflict.columns.start])
        locations = self._locate_conflict(conflict)
        other_directory, chosen_directory = self.copies[conflict.copy].directory, self.copies[owner].directory
        offsets = format_offset_range(conflict.first, conflict.end)
        if conflict.verdict == "copy":
            blocks = self.usable[conflict.copy]
            self.choice.replace(conflict.columns, make_block_columns(conflict.copy, blocks, conflict.rows))
            text = f"{offsets}: damaged in {chosen_directory}, taken from {other_directory}"
            self._add_decision("taken-from-copy", conflict.first, conflict.end, text, owner, locations)
        elif conflict.verdict == "undecided":
            epoch = int(self.choice.column("epoch", conflict.columns)[0])
            text = (
                f"{offsets} (leader epoch {epoch}) differ between {chosen_directory} and {other_directory}, "
                "both with a valid checksum: neither is read"
            )
            self.choice.replace(conflict.columns, make_unassigned_column(conflict.first, conflict.end))
            self._add_decision("undecided", conflict.first, conflict.end, text, None, locations)

    def _report_filled_gap(self, first: int, end: int, index: int, merged_copies: list[int]) -> None:
        incomplete = [self.copies[copy_index] for copy_index in merged_copies if self._covers_offset(copy_index, first)]
        for copy in incomplete:
            text = (
                f"{format_offset_range(first, end)} are missing in {copy.directory}, "
                f"taken from {self.copies[index].directory}"
            )
            self._add_decision("taken-from-copy", first, end, text, self.copies.index(copy))

    def _covers_offset(self, index: int, offset: int) -> bool:
        """Return whether a copy has blocks on both sides of an offset, so that a missing offset is a gap."""
        copy = self.copies[index]
        return copy.start <= offset < copy.end

    # ------------------------------------------------------------------------------------------------------- checksums

    def _verify_checksums(self, clean: int) -> None:
        """Verify the checksums of the chosen blocks; replace damaged ones with valid blocks of other copies."""
        for owner in self.order:
            columns = np.flatnonzero((self.choice.table[OWNER] == owner) & (self.choice.table[CLIPPED] == 0))
            rows = self.choice.table[ROW, columns]
            bad = columns[~self.inspector.mask_valid(owner, self.usable[owner].take(rows))] if rows.size else columns
            for column in bad.tolist()[::-1]:
                self._replace_damaged_block(column, owner, clean)

    def _replace_damaged_block(self, column: int, owner: int, clean: int) -> None:
        first, last = int(self.choice.first_offsets[column]), int(self.choice.last_offsets[column])
        row = int(self.choice.table[ROW, column])
        damaged_copy = self.copies[owner]
        damaged_location = self._location(owner, self.usable[owner], row)
        offsets = format_offset_range(first, last + 1)
        for index in self.order:
            same_row = None if index == owner else self._find_same_block(index, owner, row, identical=last < clean)
            blocks = self.usable[index]
            if same_row is not None and bool(
                self.inspector.mask_valid(index, blocks.take(slice(same_row, same_row + 1))).all()
            ):
                self.choice.replace(slice(column, column + 1), make_block_columns(index, blocks, np.array([same_row])))
                text = f"{offsets}: damaged in {damaged_copy.directory}, taken from {self.copies[index].directory}"
                locations = [damaged_location, self._location(index, blocks, same_row)]
                self._add_decision("taken-from-copy", first, last + 1, text, owner, locations)
                return
        text = f"{offsets}: damaged in {damaged_copy.directory}, and not intact in any other copy"
        self._add_decision("damaged", first, last + 1, text, owner, [damaged_location])

    def _find_same_block(self, index: int, owner: int, row: int, *, identical: bool) -> int | None:
        """Return another copy's block for the same offsets; with ``identical``, its checksum is the same as well."""
        blocks, owner_blocks = self.usable[index], self.usable[owner]
        same_row = int(np.searchsorted(blocks.last, owner_blocks.last[row]))
        if (
            same_row >= len(blocks)
            or blocks.last[same_row] != owner_blocks.last[row]
            or blocks.first[same_row] != owner_blocks.first[row]
        ):
            return None
        is_identical = blocks.crc[same_row] == owner_blocks.crc[row] and blocks.size[same_row] == owner_blocks.size[row]
        return same_row if is_identical or not identical else None

    # ------------------------------------------------------------------------------------------------------ the result

    def _find_log_start(self) -> int:
        """Return the log start offset: the largest one in a checkpoint, or else the first existing offset."""
        start_offsets = [copy.start_offset for copy in self.copies if copy.start_offset is not None]
        first = [int(self.choice.first_offsets[0])] if len(self.choice) else []
        if first and int(self.choice.table[OWNER, 0]) != NO_COPY:
            first = [int(self.choice.column("reach", slice(0, 1))[0])]
        start = max([*start_offsets, *first], default=max((copy.end for copy in self.copies), default=0))
        self.choice.table = self.choice.table[:, self.choice.last_offsets >= start]
        return start

    def _merge_lineages(self, start: int, end: int) -> Epochs:
        """Return the leader epochs of the merged log.

        The result has the epochs of the authoritative copy, and older epochs from other copies.
        """
        start_offsets: dict[int, int] = {}
        copy_lineage = self.copies[self.authority].lineage
        for index in self.order:
            for entry in self.copies[index].lineage:
                is_older = not copy_lineage or entry.leader_epoch <= copy_lineage[0].leader_epoch
                if index == self.authority or is_older:
                    start_offsets[entry.leader_epoch] = min(
                        start_offsets.get(entry.leader_epoch, NO_END_OFFSET), entry.start_offset
                    )
        entries = tuple(EpochStart(epoch, offset) for epoch, offset in sorted(start_offsets.items()))
        return truncate_epochs(entries, start_offset=start, end_offset=max(end, start) + 1)

    def _find_high_watermark(self, end: int) -> int | None:
        """Return the highest checkpointed high watermark, at most the end of the log."""
        high_watermarks = [min(copy.high_watermark, end) for copy in self.copies if copy.high_watermark is not None]
        return max(high_watermarks, default=None)

    def _make_spans(self, clean: int) -> Iterator[Span]:
        table = self.choice.table
        columns = [self.choice.column(name) for name in ("segment", "position", "size")]
        segment, position, size = columns
        ends = position + size
        starts_anew = np.ones(table.shape[1], np.bool_)
        starts_anew[1:] = (
            (table[OWNER, 1:] != table[OWNER, :-1])
            | (segment[1:] != segment[:-1])
            | (position[1:] != ends[:-1])
            | (table[CLIPPED, 1:] | table[CLIPPED, :-1]).astype(np.bool_)
        )
        bounds = [*np.flatnonzero(starts_anew).tolist(), table.shape[1]]
        for low, high in pairwise(bounds):
            owner = int(table[OWNER, low])
            if owner == NO_COPY:
                continue
            segment_range = SegmentRange(owner, int(segment[low]), int(position[low]), int(ends[high - 1]))
            first, end = int(table[FIRST, low]), int(table[LAST, high - 1]) + 1
            is_clipped = bool(table[CLIPPED, low]) or self._is_truncated_block(owner, int(table[ROW, low]), end)
            yield Span(segment_range, first, end, is_clipped, tuple(self._find_alternates(owner, first, end)))

    def _is_truncated_block(self, owner: int, row: int, end: int) -> bool:
        """Return whether the merged log was truncated inside a block, so that it uses only some of its offsets."""
        return bool(self.usable[owner].crc[row] == UNKNOWN_CRC) and self.copies[owner].end > end

    def _find_alternates(self, owner: int, first: int, end: int) -> Iterator[SegmentRange]:
        """Yield the ranges of other copies that contain offsets of a span.

        In compacted parts, the batches of the copies may differ.
        """
        for index in self.order:
            if index == owner:
                continue
            blocks = self.usable[index]
            rows = np.flatnonzero((blocks.last >= first) & (blocks.first < end))
            for segment in np.unique(blocks.segment[rows]).tolist():
                segment_rows = rows[blocks.segment[rows] == segment]
                yield SegmentRange(
                    index, segment, int(blocks.position[segment_rows[0]]), int(blocks.ends[segment_rows].max())
                )

    # -------------------------------------------------------------------------------------------------- decisions

    def _add_decision(
        self,
        check: str,
        first: int,
        end: int,
        text: str,
        copy: int | None = None,
        locations: Sequence[Location] = (),
    ) -> None:
        directory = "" if copy is None else self.copies[copy].directory
        self.decisions.append(Decision(check, self.name, first, end, text, directory, tuple(locations)))

    def _location(self, index: int, blocks: BlockTable, row: int) -> Location:
        return Location(self.copies[index].segments[int(blocks.segment[row])].path, int(blocks.position[row]))

    def _report_doubts(self, index: int, copy: PartitionCopy) -> None:
        """Report a copy's doubtful epochs and misplaced blocks."""
        if not copy.checkpoint_fits:
            text = f"the leader epoch checkpoint of {copy.directory} contradicts its batches; the batches are used"
            self._add_decision("epochs-doubtful", copy.start, copy.end, text, index)
        for row in range(len(copy.misplaced_blocks)):
            first, last = int(copy.misplaced_blocks.first[row]), int(copy.misplaced_blocks.last[row])
            path = copy.segments[int(copy.misplaced_blocks.segment[row])].path
            position = int(copy.misplaced_blocks.position[row])
            text = (
                f"the batch at byte {position} of {path} (offsets {first} to {last}, leader epoch "
                f"{int(copy.misplaced_blocks.epoch[row])}) does not fit between its neighbours"
            )
            self._add_decision("misplaced", first, last + 1, text, index, [Location(path, position)])

    def _report_ends(self, start: int, end: int, clean: int) -> None:
        """Report the copies that end before the merged log ends, or start after it starts."""
        for index in self.order:
            copy, blocks = self.copies[index], self.usable[index]
            if copy.end < end and not self._was_truncated(index):
                text = f"{copy.directory} ends at {copy.end}, the log at {end}{self._explain_missing_end(copy)}"
                self._add_decision("copy-lags", copy.end, end, text, index)
            if len(copy.blocks) and copy.start > start and not (clean and not len(blocks)):
                text = f"{copy.directory} starts at offset {copy.start}; earlier records are read from other copies"
                self._add_decision("copy-starts-later", start, copy.start, text, index)

    @staticmethod
    def _explain_missing_end(copy: PartitionCopy) -> str:
        last = (
            copy.broken_segments[-1]
            if copy.broken_segments and copy.broken_segments[-1].segment == len(copy.segments) - 1
            else None
        )
        location = "" if last is None else f"{copy.segments[last.segment].path}, byte {last.position}"
        return "" if last is None or last.is_tail else f" ({last.reason}: {location})"

    def _was_truncated(self, index: int) -> bool:
        """Return whether a part of a copy was truncated because it diverges."""
        directory = self.copies[index].directory
        return any(decision.check == "divergent-tail" and decision.copy == directory for decision in self.decisions)

    def _report_gaps(self, start: int, clean: int) -> None:
        """Report the offsets that no copy has."""
        for first, end in self.choice.find_gaps():
            if first >= clean and first >= start:
                text = f"no copy has {format_offset_range(first, end)}"
                self._add_decision("missing", first, end, text)
