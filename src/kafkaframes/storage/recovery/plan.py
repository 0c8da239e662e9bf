"""Plan what a broker will do with a partition at its next start, without changing anything (Kafka's LogLoader).

``plan_recovery`` reads the partition as the broker's last stop left it and says which files would be deleted,
renamed, truncated or rebuilt, and which segments are left, each up to which byte.
The order is Kafka's, because it matters:

1. ``.deleted`` files go. Of the swap files those at or above the lowest ``.cleaned`` one go with the ``.cleaned``
   files (a split that did not finish); the others take the place of the segments whose offsets they cover. 2.8 lets
   them do so after 2 (``recovery_swaps``).
2. Indexes without a ``.log`` go. A segment without ``.index``, or with a ``.txnindex`` that lies below it, is
   recovered, wherever it stands.
3. After an unclean stop each segment from the one that holds the recovery point on is recovered: batches are walked
   with their CRC, the file ends where the first bad one begins, and if anything was cut off all later segments go.
   If a recovery meets an offset that is too far above its segment's base, it starts again with that segment split
   (``overflow``).
4. A log that ends before its log start offset is emptied.

A flipped bit below the recovery point is therefore not seen, and its records stay.
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
from kafkaframes.records.scan import Batches
from kafkaframes.storage.files import names, producer_files
from kafkaframes.storage.files.directory import LogDirectory, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem, ReadAt, join, split
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.files.scan import scan_segment
from kafkaframes.storage.log.overflow import FilePart, SplitView, overflows, parts_of, view_of
from kafkaframes.storage.log.producer_state import REWRITES_OLD
from kafkaframes.storage.log.swaps import listed_files, next_offset_of
from kafkaframes.storage.recovery.draft import (
    SWAP_RULES,
    Action,
    Draft,
    KeptSegment,
    Kind,
    Opened,
    Rebuild,
    SwapRules,
    rules_of,
)
from kafkaframes.wire.integers import MAX_INT32


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What a broker will do with one partition's directory when it starts.

    Attributes:
        segments: what is left, by base offset.
        set_aside: segments that were opened, perhaps recovered, and then set aside as ``.deleted`` files.
        overwritten: segments that were opened, perhaps recovered, and then replaced by a swap of the same name.
        is_emptied: whether all segments were set aside, because the log ended before its start offset.
        bytes_lost: bytes of ``.log`` files that are cut off or deleted, swapped-out segments aside.
        rebuilds: the segments recovered, in order: producer snapshots and leader epochs depend on it.
        is_clean: whether the broker would skip the recovery of segments that were not flushed.
        view: reads the paths of segments where some are parts of others; None: the directory's file system does.
    """

    partition: Partition
    actions: tuple[Action, ...] = ()
    segments: tuple[KeptSegment, ...] = ()
    set_aside: tuple[KeptSegment, ...] = ()
    overwritten: tuple[KeptSegment, ...] = ()
    is_emptied: bool = False
    log_start_offset: int = 0
    log_end_offset: int = 0
    bytes_lost: int = 0
    rebuilds: tuple[Rebuild, ...] = ()
    is_clean: bool = False
    view: SplitView | None = field(default=None, compare=False, repr=False)


def plan_recovery(directory: LogDirectory, partition: Partition, *, broker_release: str = REWRITES_OLD) -> RecoveryPlan:
    """Work out what a broker will make of ``partition`` when it starts.

    Args:
        directory: holds the clean-shutdown marker, without which segments are recovered.
        broker_release: ``2.8``, ``3.9`` or ``4.x``: whose rules for unfinished swaps.

    Raises:
        LogDirError: a file cannot be read, or is a swap with which a broker of 2.8 would not start.
        OptionError: there are no such release.
    """
    splits: dict[int, tuple[FilePart, ...]] = {}
    while True:
        try:
            return _planned(directory, partition, splits, rules_of(broker_release))
        except _OverflowError as overflow:
            splits[overflow.base_offset] = overflow.parts


class _OverflowError(Exception):
    """A recovery has met a segment that must be split."""

    def __init__(self, base_offset: int, parts: tuple[FilePart, ...]) -> None:
        super().__init__(base_offset)
        self.base_offset = base_offset
        self.parts = parts


def _laid_out(
    filesystem: FileSystem,
    partition: Partition,
    splits: Mapping[int, tuple[FilePart, ...]],
    rules: SwapRules = SWAP_RULES[REWRITES_OLD],
) -> Draft:
    """Decide which segments are opened, and what happens to all other files."""
    draft = Draft({file.name: file for file in listed_files(partition)})
    rules.settle(filesystem, draft)
    _drop_orphans(draft)
    for base, parts in splits.items():
        draft.take_apart(draft.files[FileName(base, "log")], parts)
    return draft


def _planned(
    directory: LogDirectory, partition: Partition, splits: Mapping[int, tuple[FilePart, ...]], rules: SwapRules
) -> RecoveryPlan:
    draft = _laid_out(directory.filesystem, partition, splits, rules)
    view = view_of(directory.filesystem, draft.splits) if splits else None
    filesystem = view or directory.filesystem
    # KafkaMetadataLog always loads with recovery point 0 and as if not stopped cleanly.
    is_metadata = partition.topic == names.CLUSTER_METADATA_TOPIC
    is_clean = directory.clean_shutdown is not None and not is_metadata
    recovery_point = 0 if is_metadata else partition.recovery_point
    recovers = not (is_clean or partition.state == "delete")
    opened = Opened(_all_loaded(filesystem, draft, recovery_point if recovers else None))
    rules.complete(filesystem, draft, opened, partial(_recovered_swap, filesystem, draft))
    kept = opened.kept
    removed: list[KeptSegment] = []
    if recovers:
        unflushed = _unflushed([one.base_offset for one in kept], recovery_point)
        kept, removed = _recover_from(filesystem, draft, kept, unflushed, recovery_point)
    if kept and not kept[-1].is_recovered:
        last = draft.files[FileName(kept[-1].base_offset, "log")]
        kept[-1] = replace(kept[-1], next_offset=next_offset_of(filesystem, last))
    plan = _settled(draft, partition, kept, [*opened.replaced, *removed])
    return replace(plan, overwritten=opened.overwritten, is_clean=is_clean, view=view)


def _all_loaded(filesystem: FileSystem, draft: Draft, recovery_point: int | None) -> list[KeptSegment]:
    """Open the segments. Parts above the recovery point are not recovered here, because they will be later."""
    kept: list[KeptSegment] = []
    bases = draft.bases()
    unflushed = None if recovery_point is None else _unflushed(bases, recovery_point)
    for base in bases:
        is_later = unflushed is not None and base in draft.part_bases and base >= unflushed
        kept_segment = _segment(draft, base) if is_later else _loaded(filesystem, draft, base)
        if kept_segment.is_recovered:
            draft.rebuilds.append(Rebuild.of(kept_segment, kept))
        kept.append(kept_segment)
    return kept


def plan_layout(directory: LogDirectory, partition: Partition) -> RecoveryPlan:
    """Decide which files belong to ``partition``, as ``plan_recovery`` does, and truncate nothing.

    Temporary files are resolved, indexes without a segment dropped, and segments split whose offsets do not fit an
    index. Every segment is kept whole and is not read.

    Raises:
        LogDirError: a file cannot be read.
    """
    filesystem = directory.filesystem
    draft = _laid_out(filesystem, partition, {})
    to_split = _to_split(filesystem, partition, draft)
    if to_split:
        draft = _laid_out(filesystem, partition, to_split)
    kept = [_segment(draft, base) for base in draft.bases()]
    view = view_of(filesystem, draft.splits) if to_split else None
    return RecoveryPlan(
        partition, tuple(draft.actions), tuple(kept), log_start_offset=partition.log_start_offset, view=view
    )


def _to_split(filesystem: FileSystem, partition: Partition, draft: Draft) -> dict[int, tuple[FilePart, ...]]:
    known = {one.path: one for one in partition.segments}
    bases = draft.bases()
    splits: dict[int, tuple[FilePart, ...]] = {}
    for base, next_base in zip(bases, [*bases, None][1:], strict=True):
        file = draft.files[FileName(base, "log")]
        if overflows(filesystem, known.get(file.path, Segment(file)), next_base):
            splits[base] = parts_of(filesystem, file)
    return {base: parts for base, parts in splits.items() if parts}


class Walked(NamedTuple):
    """What Kafka's recovery keeps of a segment.

    Attributes:
        end: how many bytes hold batches whose CRC is right and whose offsets fit.
        next_offset: the offset after the last of them.
        headers: theirs, unless there are too many to be kept.
        overflows: the batch after them is valid, except that its offset does not fit the index.
    """

    end: int
    next_offset: int
    headers: tuple[Batches, ...] | None
    overflows: bool


def walk(read_at: ReadAt, segment: KeptSegment | Segment, most_headers: int) -> Walked:
    """Walk a segment as Kafka's recovery does, and keep the headers of at most ``most_headers`` valid batches.

    Raises:
        LogDirError: the file cannot be read.
    """
    base_offset = segment.base_offset
    end, next_offset, is_far = 0, base_offset, False
    headers: list[Batches] = []
    for window in scan_segment(read_at, size_bytes=segment.size_bytes, whole=True, file=segment.path):
        distances = window.batches.column("last_offset") - base_offset
        right = scan.check_crcs(window.data, window.in_data()) != 0
        wrong = np.flatnonzero(~right | (distances < 0) | (distances > MAX_INT32))
        good = int(wrong[0]) if len(wrong) else len(distances)
        if good:
            end = int(window.batches.column("position")[good - 1] + window.batches.column("size")[good - 1])
            next_offset = base_offset + int(distances[good - 1]) + 1
        most_headers -= good
        if most_headers >= 0:
            headers.append(Batches(window.batches.table[:, :good], window.batches.end))
        if len(wrong):
            is_far = bool(right[wrong[0]])
            break
    return Walked(end, next_offset, tuple(headers) if most_headers >= 0 else None, is_far)


def _drop_orphans(draft: Draft) -> None:
    orphans = [
        file
        for file in draft.files.values()
        if file.name.temporary == ""
        and file.name.kind in names.SEGMENT_KINDS
        and FileName(file.name.offset, "log") not in draft.files
    ]
    draft.delete(orphans, "an index without its segment")


def _unflushed(bases: Sequence[int], recovery_point: int) -> int:
    """Return the base offset of the segment that holds the recovery point, else of the first one."""
    return max((base for base in bases if base <= recovery_point), default=min(bases, default=0))


def _segment(draft: Draft, base: int) -> KeptSegment:
    file = draft.files[FileName(base, "log")]
    return KeptSegment(base, file.path, str(file.name), file.size_bytes, -1, False)


def _loaded(filesystem: FileSystem, draft: Draft, base: int) -> KeptSegment:
    """Open a segment; it is recovered at once if an index that Kafka checks is missing or wrong.

    So is a part of a flushed segment that was split: Kafka gives it new indexes, but no transaction index.
    """
    segment = _segment(draft, base)
    if FileName(base, "index") not in draft.files:
        return _recovered(filesystem, draft, segment, "its offset index is missing")
    if _is_txn_index_corrupt(filesystem, draft, base):
        return _recovered(filesystem, draft, segment, "its transaction index is corrupt")
    return segment


def _is_txn_index_corrupt(filesystem: FileSystem, draft: Draft, base: int) -> bool:
    file = draft.files.get(FileName(base, "txnindex"))
    return file is not None and not producer_files.passes_sanity_check(filesystem.read(file.path), base_offset=base)


def _recovered(filesystem: FileSystem, draft: Draft, segment: KeptSegment, reason: str) -> KeptSegment:
    walked = _walked(filesystem, draft, segment)
    parts = parts_of(filesystem, draft.files[FileName(segment.base_offset, "log")]) if walked.overflows else ()
    if parts:
        raise _OverflowError(segment.base_offset, parts)
    return _cut_off(draft, segment, walked, reason)


def _recovered_swap(filesystem: FileSystem, draft: Draft, swap: KeptSegment) -> KeptSegment:
    walked = _walked(filesystem, draft, swap)
    if walked.overflows:
        raise LogDirError(f"a swap reaches more than {MAX_INT32} above its base: 2.8 does not start", file=swap.path)
    return _cut_off(draft, swap, walked, "a finished swap is checked before it takes its place")


def _walked(filesystem: FileSystem, draft: Draft, segment: KeptSegment) -> Walked:
    with filesystem.open(segment.path) as read_at:
        return walk(read_at, segment, draft.headers_left)


def _cut_off(draft: Draft, segment: KeptSegment, walked: Walked, reason: str) -> KeptSegment:
    end, headers = walked.end, walked.headers
    draft.headers_left -= sum(map(len, headers or ()))
    final = join(split(segment.path)[0], segment.name)
    draft.actions.append(Action(Kind.REBUILD, final, reason))
    if end < segment.size_bytes:
        lost = segment.size_bytes - end
        draft.actions.append(
            Action(
                Kind.TRUNCATE, final, f"{count_text(lost, 'byte')} {verb_text(lost)} not whole batches", size_bytes=end
            )
        )
        draft.bytes_lost += lost
    return replace(segment, size_bytes=end, next_offset=walked.next_offset, is_recovered=True, headers=headers)


def _recover_from(
    filesystem: FileSystem, draft: Draft, loaded: list[KeptSegment], unflushed: int, recovery_point: int
) -> tuple[list[KeptSegment], list[KeptSegment]]:
    """Recover from the segment that holds the recovery point on; cut the log at the first damage.

    Returns:
        The segments that are left, and those behind the damage.
    """
    kept = [segment for segment in loaded if segment.base_offset < unflushed]
    first = len(kept)
    for index in range(first, len(loaded)):
        before = loaded[index].size_bytes
        reason = f"not flushed: the recovery point is {recovery_point}"
        segment = loaded[index] if loaded[index].is_recovered else _recovered(filesystem, draft, loaded[index], reason)
        kept.append(segment)
        draft.rebuilds.append(Rebuild.of(segment, loaded, is_unflushed=True))
        if segment.size_bytes < before:
            _delete_segments(draft, loaded[index + 1 :], f"the log was cut off in segment {segment.base_offset}")
            return kept, loaded[index + 1 :]
    return kept, []


def _delete_segments(draft: Draft, removed: list[KeptSegment], reason: str) -> None:
    bases = {segment.base_offset for segment in removed}
    files = [file for name, file in draft.files.items() if name.offset in bases and not name.temporary]
    draft.bytes_lost += draft.set_aside((file for file in files if file.name.kind in names.SEGMENT_KINDS), reason)
    draft.delete((file for file in files if file.name.kind == "snapshot"), reason)


def _settled(draft: Draft, partition: Partition, kept: list[KeptSegment], removed: list[KeptSegment]) -> RecoveryPlan:
    """Complete the plan: a log has at least one segment, and does not end before its start offset."""
    start = partition.checkpointed.get(names.LOG_START_CHECKPOINT, 0)
    end = kept[-1].next_offset if kept else start
    is_emptied = bool(kept) and end < start
    if is_emptied:
        _delete_segments(draft, kept, f"the log ends at {end}, before its start {start}")
        kept, removed = [], removed + kept  # in this order: a swap is renamed over what it replaced
    if not kept:
        name = names.segment_file_name(start, "log")
        path = f"{partition.directory}/{name}"
        draft.actions.append(Action(Kind.CREATE, path, "a log has at least one segment"))
        kept, end = [KeptSegment(start, path, name, 0, start, True)], start
    return RecoveryPlan(
        partition=partition,
        actions=tuple(draft.actions),
        segments=tuple(kept),
        set_aside=tuple(removed),
        is_emptied=is_emptied,
        log_start_offset=max(start, kept[0].base_offset),
        log_end_offset=end,
        bytes_lost=draft.bytes_lost,
        rebuilds=tuple(draft.rebuilds),
    )
