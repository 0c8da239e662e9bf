"""A draft of a partition's files while a recovery is planned: the planned actions, and the files after them.

``recovery_plan`` decides; here a decision changes the draft and is noted as an action. Nothing on a disk changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from kafkaframes.records.scan import Batches
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogFile
from kafkaframes.storage.files.filesystem import join, split
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.log.overflow import MOST_OFFSETS, FilePart

MOST_HEADERS = 1 << 19  # headers kept with a plan, 112 bytes each, so that they need not be read a second time


class Kind(StrEnum):
    """The kinds of change that a recovery makes to a file."""

    DELETE = "delete"
    RENAME = "rename"
    TRUNCATE = "truncate"
    REBUILD = "rebuild"
    CREATE = "create"
    SPLIT = "split"


@dataclass(frozen=True, slots=True)
class Action:
    """One change, in the order in which a broker would make it.

    Attributes:
        kind: what is done.
        path: the file, under its name at that moment; for a rebuild the ``.log`` whose indexes are made again.
        reason: why, in words.
        to: the new path of a rename.
        source: where the bytes are now, if an earlier action renames them; else ``path``.
        size_bytes: what is left after a truncation.
        parts: what a file is split into; each becomes a ``.swap`` file, which a later action renames.
    """

    kind: Kind
    path: str
    reason: str
    to: str | None = None
    source: str | None = None
    size_bytes: int | None = None
    parts: tuple[FilePart, ...] = ()


@dataclass(frozen=True, slots=True)
class KeptSegment:
    """A segment that the log has after its recovery.

    Attributes:
        base_offset: of its name.
        path: where its bytes are now; perhaps a ``.swap`` file.
        name: what the ``.log`` will be called.
        size_bytes: up to which byte it is kept.
        next_offset: the offset after its last record; -1 where it was not needed.
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
    """The recovery of one segment; it may happen twice: when the segment is opened, and because it was not flushed.

    Attributes:
        base_offset: whose batches are walked.
        path: where they are now.
        visible: base offset and path of the segments that Kafka has opened by then.
        is_unflushed: whether it is recovered because it was not flushed; otherwise an index was missing or wrong,
            or it is a swap.
    """

    base_offset: int
    path: str
    visible: tuple[tuple[int, str], ...]
    is_unflushed: bool = False

    @classmethod
    def of(cls, segment: KeptSegment, visible: Iterable[KeptSegment], *, is_unflushed: bool = False) -> Rebuild:
        """Return the recovery of a segment while these others are open."""
        seen = tuple((one.base_offset, one.path) for one in visible)
        return cls(segment.base_offset, segment.path, seen, is_unflushed)


@dataclass(slots=True)
class Draft:
    """The files of a partition after the actions that are planned so far."""

    files: dict[FileName, LogFile]
    actions: list[Action] = field(default_factory=list)
    bytes_lost: int = 0
    rebuilds: list[Rebuild] = field(default_factory=list)
    headers_left: int = field(default_factory=lambda: MOST_HEADERS)
    splits: dict[str, tuple[FilePart, ...]] = field(default_factory=dict)
    part_bases: set[int] = field(default_factory=set)

    def delete(self, removed: Iterable[LogFile], reason: str) -> None:
        """Plan the deletion of files."""
        for file in sorted(removed, key=lambda removed_file: removed_file.path):
            if self.files.pop(file.name, None) is not None:
                self.actions.append(Action(Kind.DELETE, file.path, reason))

    def set_aside(self, removed: Iterable[LogFile], reason: str) -> int:
        """Plan to rename files to ``.deleted`` (running brokers remove those later); return the bytes of logs."""
        size_bytes = 0
        for file in sorted(removed, key=lambda removed_file: removed_file.path):
            del self.files[file.name]
            path = join(split(file.path)[0], str(file.name))  # a swap has its final name by then
            self.actions.append(Action(Kind.RENAME, path, reason, to=f"{path}.deleted", source=file.path))
            size_bytes += file.size_bytes if file.name.kind == "log" else 0
        return size_bytes

    def take_apart(self, file: LogFile, parts: tuple[FilePart, ...]) -> None:
        """Plan to replace a segment by parts: as ``.swap`` files first, as Kafka does, so that a crash loses none."""
        directory = split(file.path)[0]
        reason = f"its offsets reach more than {MOST_OFFSETS} above its base"
        whole = join(directory, str(file.name))
        self.actions.append(Action(Kind.SPLIT, whole, reason, source=file.path, parts=parts))
        bases = {file.name.offset, *(part.base_offset for part in parts)}
        old = [one for name, one in self.files.items() if name.offset in bases and not name.temporary]
        self.set_aside((one for one in old if one.name.kind in names.SEGMENT_KINDS), "it has been split")
        for part in parts:
            final = join(directory, str(part.file.name))
            self.actions.append(Action(Kind.RENAME, f"{final}.swap", "a piece takes its place", to=final))
            self.files[part.file.name] = replace(part.file, mtime_ms=file.mtime_ms)
        self.splits[file.path] = parts
        self.part_bases |= {part.base_offset for part in parts}

    def bases(self) -> list[int]:
        """Return the base offsets of the segments, ascending."""
        return sorted(name.offset for name in self.files if name.kind == "log" and not name.temporary)

    def of_segment(self, base: int, kinds: Collection[str] = names.SEGMENT_KINDS) -> list[LogFile]:
        """Return the files of one segment."""
        files = (self.files.get(FileName(base, kind)) for kind in kinds)
        return [file for file in files if file is not None]

    def rename(self, file: LogFile, reason: str) -> None:
        """Plan to rename a temporary file to its final name."""
        del self.files[file.name]
        final = replace(file.name, temporary="")
        to = file.path.removesuffix(f".{file.name.temporary}")
        self.actions.append(Action(Kind.RENAME, file.path, reason, to=to))
        self.files[final] = replace(file, name=final)  # until the plan is carried out the bytes are at the old path

    def with_temporary(self, suffix: str) -> list[LogFile]:
        """Return the files with a suffix behind their kind."""
        return [file for file in self.files.values() if file.name.temporary == suffix]
