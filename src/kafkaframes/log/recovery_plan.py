"""What a broker will do with a partition at its next start, worked out without changing a byte (Kafka's LogLoader).

``plan_recovery`` reads the partition as the broker's last stop left it and says which files would be deleted,
renamed, truncated or rebuilt, and which segments are left, each up to which byte. It decides and changes nothing.
Kafka's order is kept, because it matters:

1. ``.deleted`` files go. Of the swap files those at or above the lowest ``.cleaned`` one go with the ``.cleaned``
   files (a split that did not finish); the others take the place of the segments whose offsets they cover.
2. Indexes without a ``.log`` go. A segment without ``.index``, or with a ``.txnindex`` that lies below it, is
   recovered, wherever it stands.
3. After an unclean stop each segment from the one that holds the recovery point on is recovered: batches are walked
   with their CRC, the file ends where the first bad one begins, and if anything was cut off all later segments go.
4. A log that ends before its log start offset is emptied.

A flipped bit below the recovery point is therefore not seen, and its records stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.log import names, txn_index
from kafkaframes.log.directory import LogDirectory, LogFile, Partition
from kafkaframes.log.filesystem import FileSystem, ReadAt, join, split
from kafkaframes.log.headers import HeaderWalk
from kafkaframes.log.names import FileName
from kafkaframes.log.scan import scan_segment
from kafkaframes.records import scan
from kafkaframes.records.scan import Batches

MOST_OFFSETS = 2**31 - 1  # in one segment: an index has 31 bits
MOST_HEADERS = 1 << 19  # kept with a plan, 112 bytes each: what follows from them need not be read again


class Kind(StrEnum):
    """What is done to a file."""

    DELETE = "delete"
    RENAME = "rename"
    TRUNCATE = "truncate"
    REBUILD = "rebuild"
    CREATE = "create"


@dataclass(frozen=True, slots=True)
class Action:
    """One change, in the order in which a broker would make it.

    Attributes:
        kind: what is done.
        path: to which file, as it is called by then; for a rebuild the ``.log`` whose indexes are made again.
        reason: why, in words.
        to: the new path of a rename.
        source: where the bytes are now, if an earlier action renames them; else ``path``.
        size_bytes: what is left after a truncation.
    """

    kind: Kind
    path: str
    reason: str
    to: str | None = None
    source: str | None = None
    size_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class KeptSegment:
    """A segment that is left.

    Attributes:
        base_offset: of its name.
        path: where its bytes are now; perhaps a ``.swap`` file.
        name: what the ``.log`` will be called.
        size_bytes: up to which byte it is kept.
        next_offset: the offset after its last record; -1 where nobody had to know.
        is_recovered: whether its batches were checked and its indexes will be rebuilt.
        headers: of its batches, if they were read and are few enough to be kept.
    """

    base_offset: int
    path: str
    name: str
    size_bytes: int
    next_offset: int
    is_recovered: bool
    headers: tuple[Batches, ...] | None = field(default=None, compare=False, repr=False)


class Rebuild(NamedTuple):
    """One segment recovered; a segment may be, twice: when it is opened, and because it was not flushed.

    Attributes:
        base_offset: whose batches are walked.
        visible: the base offsets of the segments that Kafka has opened by then, this one included only if it has.
    """

    base_offset: int
    visible: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RecoveryPlan:
    """What will become of one partition.

    Attributes:
        partition: as it was found.
        actions: every change, in order.
        segments: what is left, by base offset.
        log_start_offset, log_end_offset: of the log afterwards.
        bytes_lost: bytes of ``.log`` files that are cut off or deleted, swapped-out segments aside.
        rebuilds: the segments recovered, in order: producer snapshots and leader epochs depend on it.
        is_clean: whether the broker would skip the recovery of segments that were not flushed.
    """

    partition: Partition
    actions: tuple[Action, ...] = ()
    segments: tuple[KeptSegment, ...] = ()
    log_start_offset: int = 0
    log_end_offset: int = 0
    bytes_lost: int = 0
    rebuilds: tuple[Rebuild, ...] = ()
    is_clean: bool = False


@dataclass(slots=True)
class _Draft:
    """The files of a partition while the plan changes them on paper."""

    files: dict[FileName, LogFile]
    actions: list[Action] = field(default_factory=list)
    bytes_lost: int = 0
    rebuilds: list[Rebuild] = field(default_factory=list)
    headers_left: int = field(default_factory=lambda: MOST_HEADERS)

    def delete(self, doomed: Iterable[LogFile], reason: str) -> None:
        for file in sorted(doomed, key=lambda one: one.path):
            if self.files.pop(file.name, None) is not None:
                self.actions.append(Action(Kind.DELETE, file.path, reason))

    def set_aside(self, doomed: Iterable[LogFile], reason: str) -> None:
        """Rename files to ``.deleted``: a running broker removes them a minute later."""
        for file in sorted(doomed, key=lambda one: one.path):
            del self.files[file.name]
            path = join(split(file.path)[0], str(file.name))  # a swap has its final name by then
            self.actions.append(Action(Kind.RENAME, path, reason, to=f"{path}.deleted", source=file.path))
            self.bytes_lost += file.size_bytes if file.name.kind == "log" else 0

    def rename(self, file: LogFile, reason: str) -> None:
        del self.files[file.name]
        final = replace(file.name, temporary="")
        to = file.path.removesuffix(f".{file.name.temporary}")
        self.actions.append(Action(Kind.RENAME, file.path, reason, to=to))
        self.files[final] = replace(file, name=final)  # the bytes still lie under the old path

    def with_temporary(self, suffix: str) -> list[LogFile]:
        return [file for file in self.files.values() if file.name.temporary == suffix]


def plan_recovery(directory: LogDirectory, partition: Partition) -> RecoveryPlan:
    """Work out what a broker will make of ``partition`` when it starts.

    Args:
        directory: holds the clean-shutdown marker, without which segments are recovered.
        partition: one of its partitions.

    Raises:
        LogDirError: a file cannot be read.
    """
    filesystem = directory.filesystem
    draft = _Draft({file.name: file for file in _all_files(partition)})
    _settle_temporary(filesystem, draft)
    _drop_orphans(draft)
    # KafkaMetadataLog always loads with recovery point 0 and as if not stopped cleanly.
    is_metadata = partition.topic == names.CLUSTER_METADATA_TOPIC
    is_clean = directory.clean_shutdown is not None and not is_metadata
    recovery_point = 0 if is_metadata else partition.recovery_point
    kept: list[KeptSegment] = []
    for base in _bases(draft):
        kept.append(_loaded(filesystem, draft, base))
        if kept[-1].is_recovered:
            draft.rebuilds.append(Rebuild(base, tuple(one.base_offset for one in kept[:-1])))
    if not is_clean and partition.state != "delete":
        kept = _recover_from(filesystem, draft, kept, recovery_point)
    if kept and not kept[-1].is_recovered:
        last = draft.files[FileName(kept[-1].base_offset, "log")]
        kept[-1] = replace(kept[-1], next_offset=_next_offset(filesystem, last))
    return replace(_settled(draft, partition, kept), is_clean=is_clean)


def plan_layout(directory: LogDirectory, partition: Partition) -> RecoveryPlan:
    """Work out which files of ``partition`` count, as ``plan_recovery`` does, and cut nothing.

    Temporary files are settled and indexes without a segment dropped; every segment is kept whole, unread.

    Raises:
        LogDirError: a file cannot be read.
    """
    draft = _Draft({file.name: file for file in _all_files(partition)})
    _settle_temporary(directory.filesystem, draft)
    _drop_orphans(draft)
    logs = [draft.files[FileName(base, "log")] for base in _bases(draft)]
    kept = [KeptSegment(one.name.offset, one.path, str(one.name), one.size_bytes, -1, False) for one in logs]
    return RecoveryPlan(partition, tuple(draft.actions), tuple(kept), partition.log_start_offset)


def valid_prefix(read_at: ReadAt, *, base_offset: int, size_bytes: int) -> tuple[int, int]:
    """Walk a segment as Kafka's recovery does.

    Returns:
        How many bytes hold batches whose CRC is right and whose offsets fit, and the offset after the last of them. A
        batch whose offset does not fit ends it, too: Kafka splits such a segment, but no known broker writes one.

    Raises:
        LogDirError: the file cannot be read.
    """
    walked = _walk(read_at, base_offset, size_bytes, 0)
    return walked.end, walked.next_offset


class _Walked(NamedTuple):
    end: int
    next_offset: int
    headers: tuple[Batches, ...] | None


def _walk(read_at: ReadAt, base_offset: int, size_bytes: int, most_headers: int) -> _Walked:
    """Do as ``valid_prefix`` says, and keep the headers of the good batches if there are not more than so many."""
    end, next_offset = 0, base_offset
    headers: list[Batches] = []
    for window in scan_segment(read_at, size_bytes=size_bytes, whole=True):
        distances = window.batches.column("last_offset") - base_offset
        right = scan.check_crcs(window.data, window.in_data()) != 0
        wrong = np.flatnonzero(~right | (distances < 0) | (distances > MOST_OFFSETS))
        good = int(wrong[0]) if len(wrong) else len(distances)
        if good:
            end = int(window.batches.column("position")[good - 1] + window.batches.column("size")[good - 1])
            next_offset = base_offset + int(distances[good - 1]) + 1
        most_headers -= good
        if most_headers >= 0:
            headers.append(Batches(window.batches.table[:, :good], window.batches.end))
        if len(wrong):
            break
    return _Walked(end, next_offset, tuple(headers) if most_headers >= 0 else None)


def _all_files(partition: Partition) -> Iterable[LogFile]:
    for segment in partition.segments:
        parts = (segment.log, segment.index, segment.time_index, segment.txn_index)
        yield from (part for part in parts if part is not None)
    yield from partition.producer_snapshots
    yield from partition.temporary
    yield from partition.orphans


def _settle_temporary(filesystem: FileSystem, draft: _Draft) -> None:
    """Delete what was to be deleted and what was not finished; let finished swaps take their place."""
    draft.delete(draft.with_temporary("deleted"), "was waiting for its deletion")
    cleaned = draft.with_temporary("cleaned")
    lowest = min((file.name.offset for file in cleaned), default=None)
    if lowest is not None:
        unfinished = [file for file in draft.with_temporary("swap") if file.name.offset >= lowest]
        draft.delete(unfinished, "belongs to a split that did not finish")
    draft.delete(cleaned, "the cleaner did not finish it")
    swaps = draft.with_temporary("swap")
    logs = [file for file in swaps if file.name.kind == "log"]
    if logs:
        first = min(file.name.offset for file in logs)
        after = max(_next_offset(filesystem, file) for file in logs)
        replaced = [
            file
            for file in draft.files.values()
            if file.name.temporary == "" and file.name.kind != "checkpoint" and first <= file.name.offset < after
        ]
        draft.delete(replaced, f"a finished swap covers the offsets {first} to {after - 1}")
    for file in swaps:
        draft.rename(file, "a finished swap takes its place")


def _next_offset(filesystem: FileSystem, file: LogFile) -> int:
    """Return the offset after the last batch; the base offset of an empty segment (LogSegment.readNextOffset)."""
    next_offset = file.name.offset
    with filesystem.open(file.path) as read_at:
        for header in HeaderWalk(read_at, size_bytes=file.size_bytes):
            next_offset = header.last_offset + 1
    return next_offset


def _drop_orphans(draft: _Draft) -> None:
    orphans = [
        file
        for file in draft.files.values()
        if file.name.temporary == ""
        and file.name.kind in names.SEGMENT_KINDS
        and FileName(file.name.offset, "log") not in draft.files
    ]
    draft.delete(orphans, "an index without its segment")


def _bases(draft: _Draft) -> list[int]:
    return sorted(name.offset for name in draft.files if name.kind == "log" and not name.temporary)


def _loaded(filesystem: FileSystem, draft: _Draft, base: int) -> KeptSegment:
    """Open a segment; it is recovered at once where an index that Kafka checks is missing or wrong."""
    file = draft.files[FileName(base, "log")]
    segment = KeptSegment(base, file.path, str(file.name), file.size_bytes, -1, False)
    if FileName(base, "index") not in draft.files:
        return _recovered(filesystem, draft, segment, "its offset index is missing")
    if _is_txn_index_corrupt(filesystem, draft, base):
        return _recovered(filesystem, draft, segment, "its transaction index is corrupt")
    return segment


def _is_txn_index_corrupt(filesystem: FileSystem, draft: _Draft, base: int) -> bool:
    """Repeat TransactionIndex.sanityCheck: no marker below the segment, no unknown version."""
    file = draft.files.get(FileName(base, "txnindex"))
    if file is None:
        return False
    try:
        entries = txn_index.read_txn_index(filesystem.read(file.path), file=file.path, strict=False)
    except LogDirError:
        return True
    return any(entry.last_offset < base for entry in entries)


def _recovered(filesystem: FileSystem, draft: _Draft, segment: KeptSegment, reason: str) -> KeptSegment:
    with filesystem.open(segment.path) as read_at:
        end, next_offset, headers = _walk(read_at, segment.base_offset, segment.size_bytes, draft.headers_left)
    draft.headers_left -= sum(map(len, headers or ()))
    final = join(split(segment.path)[0], segment.name)
    draft.actions.append(Action(Kind.REBUILD, final, reason))
    if end < segment.size_bytes:
        lost = segment.size_bytes - end
        draft.actions.append(Action(Kind.TRUNCATE, final, f"{lost} bytes are no whole batches", size_bytes=end))
        draft.bytes_lost += lost
    return replace(segment, size_bytes=end, next_offset=next_offset, is_recovered=True, headers=headers)


def _recover_from(
    filesystem: FileSystem, draft: _Draft, loaded: list[KeptSegment], recovery_point: int
) -> list[KeptSegment]:
    """Recover from the segment that holds the recovery point on; cut the log at the first damage."""
    at_or_below = [index for index, segment in enumerate(loaded) if segment.base_offset <= recovery_point]
    first = at_or_below[-1] if at_or_below else 0
    kept = loaded[:first]
    for index in range(first, len(loaded)):
        before = loaded[index].size_bytes
        reason = f"not flushed: the recovery point is {recovery_point}"
        segment = loaded[index] if loaded[index].is_recovered else _recovered(filesystem, draft, loaded[index], reason)
        kept.append(segment)
        draft.rebuilds.append(Rebuild(segment.base_offset, tuple(one.base_offset for one in loaded)))
        if segment.size_bytes < before:
            _delete_segments(draft, loaded[index + 1 :], f"the log was cut off in segment {segment.base_offset}")
            break
    return kept


def _delete_segments(draft: _Draft, doomed: list[KeptSegment], reason: str) -> None:
    bases = {segment.base_offset for segment in doomed}
    files = [file for name, file in draft.files.items() if name.offset in bases and not name.temporary]
    draft.set_aside((file for file in files if file.name.kind in names.SEGMENT_KINDS), reason)
    draft.delete((file for file in files if file.name.kind == "snapshot"), reason)


def _settled(draft: _Draft, partition: Partition, kept: list[KeptSegment]) -> RecoveryPlan:
    """Make the log hold at least one segment, and its ends agree."""
    start = partition.checkpointed.get(names.LOG_START_CHECKPOINT, 0)
    end = kept[-1].next_offset if kept else start
    if kept and end < start:
        _delete_segments(draft, kept, f"the log ends at {end}, before its start {start}")
        kept = []
    if not kept:
        name = names.segment_file_name(start, "log")
        path = f"{partition.directory}/{name}"
        draft.actions.append(Action(Kind.CREATE, path, "a log has at least one segment"))
        kept, end = [KeptSegment(start, path, name, 0, start, True)], start
    return RecoveryPlan(
        partition=partition,
        actions=tuple(draft.actions),
        segments=tuple(kept),
        log_start_offset=max(start, kept[0].base_offset),
        log_end_offset=end,
        bytes_lost=draft.bytes_lost,
        rebuilds=tuple(draft.rebuilds),
    )
