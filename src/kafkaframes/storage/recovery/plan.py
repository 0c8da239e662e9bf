"""Plan what a broker will do with a partition at its next startup, without changing anything (Kafka's LogLoader).

``plan_recovery`` reads the partition as the broker's last shutdown left it. The plan lists the files that would be
deleted, renamed, truncated or rebuilt, and the remaining segments with their sizes. The order is significant, and is
the same as Kafka's:

1. ``.deleted`` files are deleted. If there are ``.cleaned`` files, a split was not finished: they are deleted together
   with the swap files at or above the lowest of them. The other swap files replace the segments with offsets that they
   cover. A 2.8 broker replaces segments with swap files after step 2 (``draft.SWAP_RULES``).
2. Indexes without a ``.log`` are deleted. A segment without ``.index``, or with a ``.txnindex`` that has entries below
   its base offset, is always recovered, regardless of the recovery point.
3. After an unclean shutdown every segment from the one that contains the recovery point is recovered. Batches are
   walked with their CRC, and the file is truncated at the first invalid one. If a segment was truncated, all later
   segments are deleted. If an offset is too far above its segment's base offset, the recovery starts again with this
   segment split (``overflow``).
4. A log that ends before its log start offset is emptied.

Damage below the recovery point, such as a flipped bit, is therefore not detected, and the damaged records stay.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.records import scan
from kafkaframes.records.scan import BatchHeaders
from kafkaframes.storage.files import names, producer_files
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt, join, split_path
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.overflow import SplitFileSystem, SplitPart, find_parts, has_overflow, make_split_view
from kafkaframes.storage.log.producer_state import REWRITES_OLD
from kafkaframes.storage.log.swaps import list_offset_files, read_next_offset
from kafkaframes.storage.recovery.draft import (
    SWAP_RULES,
    FileAction,
    FileActionKind,
    KeptSegment,
    OpenedSegments,
    RecoveryDraft,
    SegmentRebuild,
    SwapRules,
    find_swap_rules,
)
from kafkaframes.wire.integers import MAX_INT32


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """The changes that a broker will make to one partition's directory at startup.

    Attributes:
        segments: remaining segments, by base offset.
        set_aside: segments that were opened, possibly recovered, and then set aside as ``.deleted`` files.
        overwritten: segments that were opened, possibly recovered, and then replaced by a swap of the same name.
        is_emptied: whether all segments were set aside, because the log ended before its start offset.
        bytes_lost: size of the truncated or deleted parts of ``.log`` files, without segments replaced by swaps.
        rebuilds: recoveries of segments, in order; producer snapshots and leader epochs depend on the order.
        is_clean: whether the broker would skip the recovery of unflushed segments.
        view: reader of segments that are parts of other files; None if the directory's file system reads all segments.
    """

    partition: Partition
    actions: tuple[FileAction, ...] = ()
    segments: tuple[KeptSegment, ...] = ()
    set_aside: tuple[KeptSegment, ...] = ()
    overwritten: tuple[KeptSegment, ...] = ()
    is_emptied: bool = False
    log_start_offset: int = 0
    log_end_offset: int = 0
    bytes_lost: int = 0
    rebuilds: tuple[SegmentRebuild, ...] = ()
    is_clean: bool = False
    view: SplitFileSystem | None = field(default=None, compare=False, repr=False)


def plan_recovery(directory: LogDirectory, partition: Partition, *, broker_release: str = REWRITES_OLD) -> RecoveryPlan:
    """Plan the recovery of ``partition`` at a broker's startup.

    Args:
        directory: log directory. If the directory has no clean shutdown marker, segments are recovered.
        broker_release: ``2.8``, ``3.9`` or ``4.x``, which determines the rules for unfinished swaps.

    Raises:
        LogDirError: a file cannot be read, or is a swap file with which a 2.8 broker would not start.
        OptionError: the release is unknown.
    """
    splits: dict[int, tuple[SplitPart, ...]] = {}
    while True:
        try:
            return _plan_recovery(directory, partition, splits, find_swap_rules(broker_release))
        except _SegmentOverflowError as overflow:
            splits[overflow.base_offset] = overflow.parts


class _SegmentOverflowError(Exception):
    """A recovery has reached a segment that must be split."""

    def __init__(self, base_offset: int, parts: tuple[SplitPart, ...]) -> None:
        super().__init__(base_offset)
        self.base_offset = base_offset
        self.parts = parts


def _plan_layout(
    filesystem: FileSystem,
    partition: Partition,
    splits: Mapping[int, tuple[SplitPart, ...]],
    rules: SwapRules = SWAP_RULES[REWRITES_OLD],
) -> RecoveryDraft:
    """Decide which segments are opened, and what happens to the other files."""
    draft = RecoveryDraft({file.name: file for file in list_offset_files(partition)})
    rules.settle(filesystem, draft)
    _drop_orphans(draft)
    for base, parts in splits.items():
        draft.split_segment(draft.files[FileName(base, "log")], parts)
    return draft


def _plan_recovery(
    directory: LogDirectory, partition: Partition, splits: Mapping[int, tuple[SplitPart, ...]], rules: SwapRules
) -> RecoveryPlan:
    draft = _plan_layout(directory.filesystem, partition, splits, rules)
    view = make_split_view(directory.filesystem, draft.splits) if splits else None
    filesystem = view or directory.filesystem
    # KafkaMetadataLog always loads with recovery point 0, as after an unclean shutdown.
    is_metadata = partition.topic == names.CLUSTER_METADATA_TOPIC
    is_clean = directory.clean_shutdown is not None and not is_metadata
    recovery_point = 0 if is_metadata else partition.recovery_point
    recovers = not (is_clean or partition.state == "delete")
    opened_segments = OpenedSegments(_load_segments(filesystem, draft, recovery_point if recovers else None))
    rules.complete(filesystem, draft, opened_segments, partial(_recover_swap, filesystem, draft))
    kept_segments = opened_segments.kept_segments
    removed_segments: list[KeptSegment] = []
    if recovers:
        first_unflushed = _find_first_unflushed_base(
            [kept_segment.base_offset for kept_segment in kept_segments], recovery_point
        )
        kept_segments, removed_segments = _recover_from(
            filesystem, draft, kept_segments, first_unflushed, recovery_point
        )
    if kept_segments and not kept_segments[-1].is_recovered:
        last = draft.files[FileName(kept_segments[-1].base_offset, "log")]
        kept_segments[-1] = replace(kept_segments[-1], next_offset=read_next_offset(filesystem, last))
    plan = _complete_plan(draft, partition, kept_segments, [*opened_segments.replaced_segments, *removed_segments])
    return replace(plan, overwritten=opened_segments.overwritten, is_clean=is_clean, view=view)


def _load_segments(filesystem: FileSystem, draft: RecoveryDraft, recovery_point: int | None) -> list[KeptSegment]:
    """Open the segments. Parts of split segments above the recovery point are recovered later."""
    kept_segments: list[KeptSegment] = []
    bases = draft.list_bases()
    first_unflushed = None if recovery_point is None else _find_first_unflushed_base(bases, recovery_point)
    for base in bases:
        is_later = first_unflushed is not None and base in draft.part_bases and base >= first_unflushed
        kept_segment = _make_kept_segment(draft, base) if is_later else _load_segment(filesystem, draft, base)
        if kept_segment.is_recovered:
            draft.rebuilds.append(SegmentRebuild.from_segment(kept_segment, kept_segments))
        kept_segments.append(kept_segment)
    return kept_segments


def plan_layout(directory: LogDirectory, partition: Partition) -> RecoveryPlan:
    """Decide which files belong to ``partition``, as ``plan_recovery`` does, but truncate nothing.

    Temporary files are resolved, indexes without a segment are removed, and segments with offsets that do not fit an
    index are split. Every segment keeps all its bytes and is not read.

    Raises:
        LogDirError: a file cannot be read.
    """
    filesystem = directory.filesystem
    draft = _plan_layout(filesystem, partition, {})
    to_split = _find_segments_to_split(filesystem, partition, draft)
    if to_split:
        draft = _plan_layout(filesystem, partition, to_split)
    kept_segments = [_make_kept_segment(draft, base) for base in draft.list_bases()]
    view = make_split_view(filesystem, draft.splits) if to_split else None
    return RecoveryPlan(
        partition, tuple(draft.actions), tuple(kept_segments), log_start_offset=partition.log_start_offset, view=view
    )


def _find_segments_to_split(
    filesystem: FileSystem, partition: Partition, draft: RecoveryDraft
) -> dict[int, tuple[SplitPart, ...]]:
    segments_by_path = {segment.path: segment for segment in partition.segments}
    bases = draft.list_bases()
    splits: dict[int, tuple[SplitPart, ...]] = {}
    for base, next_base in zip(bases, [*bases, None][1:], strict=True):
        file = draft.files[FileName(base, "log")]
        if has_overflow(filesystem, segments_by_path.get(file.path, Segment(file)), next_base):
            splits[base] = find_parts(filesystem, file)
    return {base: parts for base, parts in splits.items() if parts}


class RecoverablePart(NamedTuple):
    """The valid batches at the start of a segment, which Kafka's recovery retains.

    Attributes:
        end: end position of the batches with a valid CRC and offsets that fit the segment.
        next_offset: offset after the last of these batches.
        headers: headers of these batches; None if there are too many.
        overflows: whether the next batch is valid except that its offset does not fit the index.
    """

    end: int
    next_offset: int
    headers: tuple[BatchHeaders, ...] | None
    overflows: bool


def walk_segment(read_at: ReadAt, segment: KeptSegment | Segment, max_headers: int) -> RecoverablePart:
    """Walk a segment as Kafka's recovery does, and keep the headers of at most ``max_headers`` valid batches.

    Raises:
        LogDirError: the file cannot be read.
    """
    base_offset = segment.base_offset
    end, next_offset, is_far = 0, base_offset, False
    headers: list[BatchHeaders] = []
    for window in scan_segment(read_at, size_bytes=segment.size_bytes, includes_data=True, file=segment.path):
        distances = window.batches.column("last_offset") - base_offset
        right = scan.check_crcs(window.data, window.batches_in_data()) != 0
        invalid_rows = np.flatnonzero(~right | (distances < 0) | (distances > MAX_INT32))
        is_valid = int(invalid_rows[0]) if len(invalid_rows) else len(distances)
        if is_valid:
            end = int(window.batches.column("position")[is_valid - 1] + window.batches.column("size")[is_valid - 1])
            next_offset = base_offset + int(distances[is_valid - 1]) + 1
        max_headers -= is_valid
        if max_headers >= 0:
            headers.append(BatchHeaders(window.batches.table[:, :is_valid], window.batches.end))
        if len(invalid_rows):
            is_far = bool(right[invalid_rows[0]])
            break
    return RecoverablePart(end, next_offset, tuple(headers) if max_headers >= 0 else None, is_far)


def _drop_orphans(draft: RecoveryDraft) -> None:
    orphans = [
        file
        for file in draft.files.values()
        if file.name.temporary == ""
        and file.name.kind in names.SEGMENT_KINDS
        and FileName(file.name.offset, "log") not in draft.files
    ]
    draft.delete_files(orphans, "an index without its segment")


def _find_first_unflushed_base(bases: Sequence[int], recovery_point: int) -> int:
    """Return the base offset of the segment that contains the recovery point, or else of the first segment."""
    return max((base for base in bases if base <= recovery_point), default=min(bases, default=0))


def _make_kept_segment(draft: RecoveryDraft, base: int) -> KeptSegment:
    file = draft.files[FileName(base, "log")]
    return KeptSegment(base, file.path, str(file.name), file.size_bytes, -1, False)


def _load_segment(filesystem: FileSystem, draft: RecoveryDraft, base: int) -> KeptSegment:
    """Open a segment. Recover the segment immediately if an index that Kafka checks is missing or wrong.

    A part of a flushed segment that was split is also recovered. Kafka rebuilds the part's indexes, except the
    transaction index.
    """
    segment = _make_kept_segment(draft, base)
    if FileName(base, "index") not in draft.files:
        return _recover_segment(filesystem, draft, segment, "its offset index is missing")
    if _is_txn_index_corrupt(filesystem, draft, base):
        return _recover_segment(filesystem, draft, segment, "its transaction index is corrupt")
    return segment


def _is_txn_index_corrupt(filesystem: FileSystem, draft: RecoveryDraft, base: int) -> bool:
    file = draft.files.get(FileName(base, "txnindex"))
    return file is not None and not producer_files.passes_sanity_check(filesystem.read(file.path), base_offset=base)


def _recover_segment(filesystem: FileSystem, draft: RecoveryDraft, segment: KeptSegment, reason: str) -> KeptSegment:
    segment_walk = _walk_segment(filesystem, draft, segment)
    parts = find_parts(filesystem, draft.files[FileName(segment.base_offset, "log")]) if segment_walk.overflows else ()
    if parts:
        raise _SegmentOverflowError(segment.base_offset, parts)
    return _truncate_segment(draft, segment, segment_walk, reason)


def _recover_swap(filesystem: FileSystem, draft: RecoveryDraft, swap: KeptSegment) -> KeptSegment:
    segment_walk = _walk_segment(filesystem, draft, swap)
    if segment_walk.overflows:
        raise LogDirError(
            f"the offsets of a swap file are more than {MAX_INT32} above its base offset; a 2.8 broker does not start",
            file=swap.path,
        )
    return _truncate_segment(draft, swap, segment_walk, "a complete swap file is checked before it replaces segments")


def _walk_segment(filesystem: FileSystem, draft: RecoveryDraft, segment: KeptSegment) -> RecoverablePart:
    with filesystem.open(segment.path) as read_at:
        return walk_segment(read_at, segment, draft.headers_left)


def _truncate_segment(
    draft: RecoveryDraft, segment: KeptSegment, segment_walk: RecoverablePart, reason: str
) -> KeptSegment:
    end, headers = segment_walk.end, segment_walk.headers
    draft.headers_left -= sum(map(len, headers or ()))
    final = join(split_path(segment.path)[0], segment.name)
    draft.actions.append(FileAction(FileActionKind.REBUILD, final, reason))
    if end < segment.size_bytes:
        lost_bytes = segment.size_bytes - end
        draft.actions.append(
            FileAction(
                FileActionKind.TRUNCATE,
                final,
                f"{count_text(lost_bytes, 'byte')} {verb_text(lost_bytes)} not whole batches",
                size_bytes=end,
            )
        )
        draft.bytes_lost += lost_bytes
    return replace(segment, size_bytes=end, next_offset=segment_walk.next_offset, is_recovered=True, headers=headers)


def _recover_from(
    filesystem: FileSystem, draft: RecoveryDraft, segments: list[KeptSegment], first_unflushed: int, recovery_point: int
) -> tuple[list[KeptSegment], list[KeptSegment]]:
    """Recover from the segment that contains the recovery point, and truncate the log at the first damage.

    Returns:
        The remaining segments, and the segments after the damage.
    """
    flushed_segments = [segment for segment in segments if segment.base_offset < first_unflushed]
    first = len(flushed_segments)
    for index in range(first, len(segments)):
        old_size_bytes = segments[index].size_bytes
        reason = f"not flushed: the recovery point is {recovery_point}"
        segment = (
            segments[index]
            if segments[index].is_recovered
            else _recover_segment(filesystem, draft, segments[index], reason)
        )
        flushed_segments.append(segment)
        draft.rebuilds.append(SegmentRebuild.from_segment(segment, segments, is_unflushed=True))
        if segment.size_bytes < old_size_bytes:
            _delete_segments(draft, segments[index + 1 :], f"the log was truncated in segment {segment.base_offset}")
            return flushed_segments, segments[index + 1 :]
    return flushed_segments, []


def _delete_segments(draft: RecoveryDraft, segments: list[KeptSegment], reason: str) -> None:
    bases = {segment.base_offset for segment in segments}
    files = [file for name, file in draft.files.items() if name.offset in bases and not name.temporary]
    draft.bytes_lost += draft.set_aside((file for file in files if file.name.kind in names.SEGMENT_KINDS), reason)
    draft.delete_files((file for file in files if file.name.kind == "snapshot"), reason)


def _complete_plan(
    draft: RecoveryDraft, partition: Partition, kept_segments: list[KeptSegment], removed_segments: list[KeptSegment]
) -> RecoveryPlan:
    """Complete the plan. A log has at least one segment, and does not end before its start offset."""
    start = partition.checkpointed_offsets.get(names.LOG_START_CHECKPOINT, 0)
    end = kept_segments[-1].next_offset if kept_segments else start
    is_emptied = bool(kept_segments) and end < start
    if is_emptied:
        _delete_segments(draft, kept_segments, f"the log ends at offset {end}, below its start offset {start}")
        kept_segments, removed_segments = (
            [],
            removed_segments + kept_segments,
        )  # the order matters, because a swap gets the name of a segment that it replaces
    if not kept_segments:
        name = names.name_segment_file(start, "log")
        path = f"{partition.directory}/{name}"
        draft.actions.append(FileAction(FileActionKind.CREATE, path, "a log has at least one segment"))
        kept_segments, end = [KeptSegment(start, path, name, 0, start, True)], start
    return RecoveryPlan(
        partition=partition,
        actions=tuple(draft.actions),
        segments=tuple(kept_segments),
        set_aside=tuple(removed_segments),
        is_emptied=is_emptied,
        log_start_offset=max(start, kept_segments[0].base_offset),
        log_end_offset=end,
        bytes_lost=draft.bytes_lost,
        rebuilds=tuple(draft.rebuilds),
    )
