"""A draft of a partition's files during the planning of a recovery: the planned actions and the resulting files.

``recovery.plan`` decides. Each decision changes the draft and is recorded as an action. Nothing on a disk changes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from kafkaframes.errors import OptionError
from kafkaframes.records.scan import BatchHeaders
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogFile
from kafkaframes.storage.files.filesystem import FileSystem, join, split_path
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.log.overflow import SplitPart
from kafkaframes.storage.log.producer_state import BEFORE_HORIZONS, BROKER_RELEASES, KEEPS_FORMATS, REWRITES_OLD
from kafkaframes.storage.log.swaps import read_next_offset, resolve_swaps
from kafkaframes.wire.integers import MAX_INT32

MAX_HEADERS = 1 << 19  # batch headers kept in a plan (112 bytes each), so that they are not read a second time


class FileActionKind(StrEnum):
    """The kinds of changes that a recovery makes to a partition's files."""

    DELETE = "delete"
    RENAME = "rename"
    TRUNCATE = "truncate"
    REBUILD = "rebuild"
    CREATE = "create"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class FileAction:
    """One change to a file. The actions of a plan have the order in which a broker executes them.

    Attributes:
        path: path of the file before the action; for a rebuild, the ``.log`` whose indexes are rebuilt.
        source: current path of the bytes if an earlier action renames them; otherwise None, which means ``path``.
        parts: parts into which a file is split. Each part becomes a ``.swap`` file, which a later action renames.
    """

    kind: FileActionKind
    path: str
    reason: str
    to: str | None = None
    source: str | None = None
    size_bytes: int | None = None
    parts: tuple[SplitPart, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptSegment:
    """A segment that the log contains after its recovery.

    Attributes:
        path: current path of the segment's bytes, possibly a ``.swap`` file.
        name: final name of the ``.log``.
        size_bytes: size after the recovery.
        next_offset: offset after the segment's last record; -1 if the offset was not needed.
        is_recovered: whether the segment's batches were checked and its indexes will be rebuilt.
        headers: headers of the segment's batches; None if they were not read or exceed ``MAX_HEADERS``.
    """

    base_offset: int
    path: str
    name: str
    size_bytes: int
    next_offset: int
    is_recovered: bool
    headers: tuple[BatchHeaders, ...] | None = field(default=None, compare=False, repr=False)


class SegmentRebuild(NamedTuple):
    """The recovery of one segment. A segment may be recovered twice: at its opening, and because it was not flushed.

    Attributes:
        visible: base offset and path of the segments that Kafka has opened at this time.
        is_unflushed: whether the segment is recovered because it was not flushed. If False, an index was missing or
            wrong, or the segment is a swap file.
    """

    base_offset: int
    path: str
    visible: tuple[tuple[int, str], ...]
    is_unflushed: bool = False

    @classmethod
    def from_segment(
        cls, segment: KeptSegment, visible: Iterable[KeptSegment], *, is_unflushed: bool = False
    ) -> SegmentRebuild:
        """Return the recovery of a segment. ``visible``: the segments that Kafka has opened at this time."""
        visible_segments = tuple((visible_segment.base_offset, visible_segment.path) for visible_segment in visible)
        return cls(segment.base_offset, segment.path, visible_segments, is_unflushed)


@dataclass(slots=True)
class RecoveryDraft:
    """The files of a partition after the actions planned so far."""

    files: dict[FileName, LogFile]
    actions: list[FileAction] = field(default_factory=list)
    bytes_lost: int = 0
    rebuilds: list[SegmentRebuild] = field(default_factory=list)
    headers_left: int = field(default_factory=lambda: MAX_HEADERS)
    splits: dict[str, tuple[SplitPart, ...]] = field(default_factory=dict)
    part_bases: set[int] = field(default_factory=set)

    def delete_files(self, files: Iterable[LogFile], reason: str) -> None:
        """Plan the deletion of files."""
        for file in sorted(files, key=lambda removed_file: removed_file.path):
            if self.files.pop(file.name, None) is not None:
                self.actions.append(FileAction(FileActionKind.DELETE, file.path, reason))

    def set_aside(self, files: Iterable[LogFile], reason: str) -> int:
        """Plan to rename files to ``.deleted``, which running brokers delete later; return the logs' size in bytes."""
        size_bytes = 0
        for file in sorted(files, key=lambda removed_file: removed_file.path):
            del self.files[file.name]
            path = join(split_path(file.path)[0], str(file.name))  # a swap already has its final name
            self.actions.append(FileAction(FileActionKind.RENAME, path, reason, to=f"{path}.deleted", source=file.path))
            size_bytes += file.size_bytes if file.name.kind == "log" else 0
        return size_bytes

    def split_segment(self, file: LogFile, parts: tuple[SplitPart, ...]) -> None:
        """Plan to replace a segment with its parts.

        As in Kafka, the parts are ``.swap`` files first, so that a crash loses no part.
        """
        directory = split_path(file.path)[0]
        reason = f"its offsets are more than {MAX_INT32} above its base offset"
        segment_path = join(directory, str(file.name))
        self.actions.append(FileAction(FileActionKind.SPLIT, segment_path, reason, source=file.path, parts=parts))
        bases = {file.name.offset, *(part.base_offset for part in parts)}
        old = [
            replaced_file for name, replaced_file in self.files.items() if name.offset in bases and not name.temporary
        ]
        self.set_aside(
            (replaced_file for replaced_file in old if replaced_file.name.kind in names.SEGMENT_KINDS),
            "it was split",
        )
        for part in parts:
            final = join(directory, str(part.file.name))
            self.actions.append(
                FileAction(FileActionKind.RENAME, f"{final}.swap", "a part of the split segment replaces it", to=final)
            )
            self.files[part.file.name] = replace(part.file, mtime_ms=file.mtime_ms)
        self.splits[file.path] = parts
        self.part_bases |= {part.base_offset for part in parts}

    def list_bases(self) -> list[int]:
        """Return the base offsets of the segments, ascending."""
        return sorted(name.offset for name in self.files if name.kind == "log" and not name.temporary)

    def find_segment_files(self, base: int, kinds: Collection[str] = names.SEGMENT_KINDS) -> list[LogFile]:
        """Return the files of one segment."""
        files = (self.files.get(FileName(base, kind)) for kind in kinds)
        return [file for file in files if file is not None]

    def rename_temporary(self, file: LogFile, reason: str) -> None:
        """Plan to rename a temporary file to its final name."""
        del self.files[file.name]
        final = replace(file.name, temporary="")
        to = file.path.removesuffix(f".{file.name.temporary}")
        self.actions.append(FileAction(FileActionKind.RENAME, file.path, reason, to=to))
        self.files[final] = replace(file, name=final)  # the bytes stay at the old path until the plan is executed

    def find_files_with_suffix(self, suffix: str) -> list[LogFile]:
        """Return the files with a name that ends with ``suffix``."""
        return [file for file in self.files.values() if file.name.temporary == suffix]


# ---------------------------------------------------------------------------------------------------------------------
# How a recovery resolves the cleaner's unfinished work: ``.deleted``, ``.cleaned`` and ``.swap`` files.
#
# There are two sets of rules. Later brokers (LogLoader) rename a finished swap before they load any segment, and delete
# the segments that it replaces. 2.8 (Log) loads the old segments first. It then recovers each swap under its own name,
# sets aside the segments that it covers, and renames it. ``SWAP_RULES`` has the rules by broker generation. A
# rule only changes a draft.

INDEX_KINDS = ("index", "timeindex", "txnindex")
_OVERWRITTEN_KINDS = ("log", "index", "timeindex")  # a recovered swap always has files of these kinds
Recover = Callable[[KeptSegment], KeptSegment]


@dataclass(slots=True)
class OpenedSegments:
    """The segments that a recovery has opened, and what became of them.

    Attributes:
        kept_segments: segments that stay in the log, by base offset.
        replaced_segments: segments that were set aside for a swap.
        overwritten: segments with files that a swap has overwritten. These segments were not set aside, because they or
            the swap file contain no offsets.
    """

    kept_segments: list[KeptSegment]
    replaced_segments: tuple[KeptSegment, ...] = ()
    overwritten: tuple[KeptSegment, ...] = ()


@dataclass(frozen=True, slots=True)
class SwapRules:
    """The rules by which a generation of brokers completes an interrupted replacement of segments."""

    settle: Callable[[FileSystem, RecoveryDraft], None]
    complete: Callable[[FileSystem, RecoveryDraft, OpenedSegments, Recover], None]


def _clean_up_before_loading(filesystem: FileSystem, draft: RecoveryDraft) -> None:
    """Delete unfinished files and files marked for deletion; rename finished swaps to their final names."""
    draft.delete_files(draft.find_files_with_suffix("deleted"), "was marked for deletion")
    resolution = resolve_swaps(filesystem, draft.files)
    draft.delete_files(resolution.unfinished_swaps, "belongs to an unfinished split")
    draft.delete_files(draft.find_files_with_suffix("cleaned"), "the cleaner did not complete it")
    first, end = resolution.first_offset, resolution.end_offset
    draft.delete_files(resolution.halves, f"its split was almost complete: the parts from offset {first} on exist")
    draft.delete_files(resolution.replaced_files, f"a complete swap file has the offsets {first} to {end - 1}")
    for file in resolution.finished_swaps:
        draft.rename_temporary(file, "a complete swap file replaces the segment")
    logs = [file for file in resolution.finished_swaps if file.name.kind == "log"]
    for file in logs:  # Kafka opens these segments to find their end, which creates missing indexes
        index = FileName(file.name.offset, "index")
        if index not in draft.files:
            path = join(split_path(file.path)[0], str(index))
            draft.actions.append(FileAction(FileActionKind.CREATE, path, "the complete swap file has no index"))
            draft.files[index] = LogFile(index, path, 0, None)


def _skip_renamed_swaps(
    _filesystem: FileSystem, _draft: RecoveryDraft, _opened: OpenedSegments, _recover: Recover
) -> None:
    """Do nothing: the swaps were renamed before the log was loaded."""


def _clean_up_except_swaps(_filesystem: FileSystem, draft: RecoveryDraft) -> None:
    """Delete unfinished files and files marked for deletion. If there is a swap, also delete the old indexes.

    The indexes are deleted even if the swap file is deleted as well. The index of a swap file without a ``.log`` is
    never deleted.
    """
    draft.delete_files(draft.find_files_with_suffix("deleted"), "was marked for deletion")
    swaps = [file for file in draft.find_files_with_suffix("swap") if file.name.kind in names.SEGMENT_KINDS]
    for base in sorted({file.name.offset for file in swaps}):
        draft.delete_files(draft.find_segment_files(base, INDEX_KINDS), "a swap file replaces its segment")
    cleaned_files = draft.find_files_with_suffix("cleaned")
    lowest = min((file.name.offset for file in cleaned_files), default=math.inf)
    invalid = {swap.name.offset for swap in swaps if swap.name.kind == "log" and swap.name.offset >= lowest}
    draft.delete_files((swap for swap in swaps if swap.name.offset in invalid), "belongs to an unfinished split")
    draft.delete_files(cleaned_files, "the cleaner did not complete it")


def _complete_after_loading(
    filesystem: FileSystem, draft: RecoveryDraft, segments: OpenedSegments, recover: Recover
) -> None:
    """In the order of base offsets, recover each swap, set aside the segments that it covers, and rename it.

    A broker uses the order of the paths' hash codes, which makes a difference only for producer snapshots.
    """
    logs = [file for file in draft.find_files_with_suffix("swap") if file.name.kind == "log"]
    for file in sorted(logs, key=lambda segment: segment.name.offset):
        base = file.name.offset
        swap = recover(KeptSegment(base, file.path, str(file.name), file.size_bytes, -1, False))
        draft.rebuilds.append(SegmentRebuild.from_segment(swap, segments.kept_segments))
        old = _find_covered_segments(filesystem, draft, segments.kept_segments, swap)
        reason = f"a complete swap file has the offsets {base} to {swap.next_offset - 1}"
        for segment in old:
            draft.set_aside(draft.find_segment_files(segment.base_offset), reason)
        draft.delete_files(
            draft.find_segment_files(base, _OVERWRITTEN_KINDS), "a complete swap file is renamed to this name"
        )
        for part in [segment for segment in draft.find_files_with_suffix("swap") if segment.name.offset == base]:
            draft.rename_temporary(part, "a complete swap file replaces the segment")
        others = [segment for segment in segments.kept_segments if segment not in old]
        segments.overwritten += tuple(segment for segment in others if segment.base_offset == base)
        segments.replaced_segments += tuple(old)
        swap = replace(swap, name=names.name_segment_file(base, "log"))
        other_segments = [segment for segment in others if segment.base_offset != base]
        segments.kept_segments = sorted([*other_segments, swap], key=lambda segment: segment.base_offset)


def _find_covered_segments(
    filesystem: FileSystem, draft: RecoveryDraft, kept_segments: Sequence[KeptSegment], swap: KeptSegment
) -> list[KeptSegment]:
    """Return the segments that start before the swap's end and contain offsets at or above the swap's first offset."""
    if swap.next_offset == swap.base_offset:
        return []
    first = max(
        (kept_segment.base_offset for kept_segment in kept_segments if kept_segment.base_offset <= swap.base_offset),
        default=0,
    )
    near = [kept_segment for kept_segment in kept_segments if first <= kept_segment.base_offset < swap.next_offset]
    return [
        kept_segment for kept_segment in near if _find_end_offset(filesystem, draft, kept_segment) > swap.base_offset
    ]


def _find_end_offset(filesystem: FileSystem, draft: RecoveryDraft, segment: KeptSegment) -> int:
    if segment.is_recovered:
        return segment.next_offset
    return read_next_offset(filesystem, draft.files[FileName(segment.base_offset, "log")])


_RULES_BEFORE_LOADING = SwapRules(_clean_up_before_loading, _skip_renamed_swaps)
_RULES_AFTER_LOADING = SwapRules(_clean_up_except_swaps, _complete_after_loading)
SWAP_RULES = {
    BEFORE_HORIZONS: _RULES_AFTER_LOADING,
    KEEPS_FORMATS: _RULES_BEFORE_LOADING,
    REWRITES_OLD: _RULES_BEFORE_LOADING,
}


def find_swap_rules(broker_release: str) -> SwapRules:
    """Return the swap rules of a broker release.

    Raises:
        OptionError: the release is unknown.
    """
    if broker_release not in SWAP_RULES:
        raise OptionError(f"broker_release must be one of {', '.join(BROKER_RELEASES)}, not {broker_release!r}")
    return SWAP_RULES[broker_release]
