"""What a broker's log directory holds, as frozen values: log directories, partitions, segments and their companions.

The values hold names, sizes and times of files, not their content, and do no I/O. ``storage/log/discover.py`` makes
them of the paths that users name, what is below reads the listing of one partition. Nothing is sorted out:
renamed directories (``-delete``, ``-future``, ``-stray``) and temporary files are set apart by ``state`` and
``temporary``, so that the caller chooses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.checkpoints import CleanShutdown, EpochStart, MetaProperties, PartitionMetadata
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, split
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import DirectoryName, FileName, TopicPartition


@dataclass(frozen=True, slots=True)
class LogFile:
    """One file that belongs to an offset, as the directory lists it."""

    name: FileName
    path: str
    size_bytes: int
    mtime_ms: int | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A ``.log`` (or what a KRaft snapshot holds, or a temporary of either) and the files beside it.

    Attributes:
        index, time_index, txn_index, snapshot: its companions under the same offset; None where there is none.
        end_offset: of its last record, inclusive, where it is known without a look into the file (a tiered segment).
    """

    log: LogFile
    index: LogFile | None = None
    time_index: LogFile | None = None
    txn_index: LogFile | None = None
    snapshot: LogFile | None = None
    end_offset: int | None = None

    @classmethod
    def of(cls, base_offset: int, path: str, size_bytes: int) -> Segment:
        """Return a segment of which the ``.log`` alone is known, without its time."""
        return cls(LogFile(FileName(base_offset, "log"), path, size_bytes, None))

    @property
    def base_offset(self) -> int:
        """The offset in the name. A compacted segment's first batch may lie above it."""
        return self.log.name.offset

    @property
    def path(self) -> str:
        """The path of the ``.log``."""
        return self.log.path

    @property
    def size_bytes(self) -> int:
        """Bytes of the ``.log``, a preallocated tail included."""
        return self.log.size_bytes


@dataclass(frozen=True, slots=True)
class Partition:
    """One copy of one topic partition: one directory.

    Attributes:
        topic_partition: from the directory's name; for a directory that is not named so, its name and partition 0.
        log_directory: the path of the directory above it, the broker's ``log.dirs`` entry.
        state: empty for a live one; ``delete``, ``future`` or ``stray`` when the broker renamed the directory.
        segments: by base offset. ``.cleaned`` and ``.deleted`` ones are in ``temporary`` only, as unfinished ``.swap``
            ones are; a finished ``.swap`` is here, too, under its final name (``storage/log/swaps.py``).
        kraft_snapshots: ``<offset>-<epoch>.checkpoint`` files, record batches too.
        producer_snapshots: every ``.snapshot``; those beside a segment's base offset are in the segment too.
        temporary: files with a second suffix.
        replaced: segments that finished swap files replace at a broker's start; those are among ``segments`` then.
        orphans: indexes without their ``.log``.
        leader_epochs: None where the file is missing or corrupt.
        checkpointed: what the broker's checkpoints say, by file name.
        problems: small files that could not be read; for a tiered partition also missing objects.
        notes: uploads in a tiered store that are not part of the log (unfinished ones, lost histories), as text.
    """

    topic_partition: TopicPartition
    directory: str
    log_directory: str = ""
    state: str = ""
    segments: tuple[Segment, ...] = ()
    kraft_snapshots: tuple[Segment, ...] = ()
    producer_snapshots: tuple[LogFile, ...] = ()
    temporary: tuple[LogFile, ...] = ()
    replaced: tuple[Segment, ...] = ()
    orphans: tuple[LogFile, ...] = ()
    leader_epochs: tuple[EpochStart, ...] | None = None
    metadata: PartitionMetadata | None = None
    checkpointed: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[LogDirError, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self.topic_partition.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self.topic_partition.partition

    @property
    def is_live(self) -> bool:
        """Whether the broker would serve it, which it does not once it has renamed the directory."""
        return not self.state

    @property
    def log_start_offset(self) -> int:
        """The first offset that a broker would serve: the checkpoint's (DeleteRecords) or the first segment's."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.checkpointed.get(names.LOG_START_CHECKPOINT, first))

    @property
    def high_watermark(self) -> int | None:
        """The last checkpointed one; it may lie far below the log's end."""
        return self.checkpointed.get(names.HIGH_WATERMARK_CHECKPOINT)

    @property
    def recovery_point(self) -> int:
        """Everything below was flushed; 0 where the checkpoint says nothing."""
        return self.checkpointed.get(names.RECOVERY_POINT_CHECKPOINT, 0)

    @property
    def size_bytes(self) -> int:
        """Bytes of the segments' ``.log`` files."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """One directory of a broker, or the place that holds a partition or segment that was named alone.

    Attributes:
        partitions: by topic, partition and state.
        meta: ``meta.properties``; None where it is missing or corrupt.
        clean_shutdown: the marker; None after an unclean stop (or where only part of a directory was named).
        offset_checkpoints: the four ``*-offset-checkpoint`` files that are there, by file name.
        bootstrap: KRaft's ``bootstrap.checkpoint``, record batches too; None where there is none.
        problems: the small files that could not be read, those of the partitions included.
    """

    path: str
    filesystem: FileSystem
    partitions: tuple[Partition, ...] = ()
    meta: MetaProperties | None = None
    clean_shutdown: CleanShutdown | None = None
    offset_checkpoints: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    bootstrap: FileInfo | None = None
    problems: tuple[LogDirError, ...] = ()


def partitions_of(
    directories: Iterable[LogDirectory], *, live: bool = True
) -> Iterator[tuple[LogDirectory, Partition]]:
    """Yield each partition with the directory that holds it; ``live=False`` yields the renamed ones too."""
    for directory in directories:
        for partition in directory.partitions:
            if partition.is_live or not live:
                yield directory, partition


# ---------------------------------------------------------------------------------------------------------------------
# From the listing of a partition's directory to a ``Partition``: its files by offset and kind, its small files read.
#
# The listing need not be a directory's: a view of objects in a store, or of several copies, is listed in the same way.
# A small text file that is corrupt does not hide the segments: it stands in ``problems``.

_Parsed = TypeVar("_Parsed")
SMALL_FILE_BYTES = 64 << 20  # more than any checkpoint of any broker


def read_small(
    filesystem: FileSystem, entry: FileInfo | None, parse: Callable[..., _Parsed], problems: list[LogDirError]
) -> _Parsed | None:
    """Read a small listed file. A malformed one is added to ``problems``; a disk or store that fails raises."""
    if entry is None:
        return None
    try:
        raw = filesystem.read(entry.path, length=SMALL_FILE_BYTES)
    except LogDirError:
        if filesystem.stat(entry.path) is None:  # a broker replaces these files while it runs
            return None
        raise
    try:
        return parse(raw, file=entry.path)
    except LogDirError as error:
        problems.append(error)
        return None


def partition_of_entries(
    filesystem: FileSystem,
    path: str,
    entries: Iterable[FileInfo],
    log_directory: str,
    offsets: Mapping[str, Mapping[TopicPartition, int]],
) -> Partition:
    """Return the partition whose directory holds ``entries``; its name is the path's last step."""
    name = DirectoryName.parse(split(path)[1]) or DirectoryName(TopicPartition(split(path)[1], 0))
    files = {entry.name: entry for entry in entries if not entry.is_directory}
    parsed = [
        LogFile(file_name, entry.path, entry.size_bytes, entry.mtime_ms)
        for entry in files.values()
        if (file_name := FileName.parse(entry.name)) is not None
    ]
    final = {(file.name.offset, file.name.kind): file for file in parsed if not file.name.temporary}
    bases = sorted(offset for offset, kind in final if kind == "log")
    problems: list[LogDirError] = []
    epochs = files.get(names.LEADER_EPOCH_CHECKPOINT)
    return Partition(
        topic_partition=name.topic_partition,
        directory=path,
        log_directory=log_directory,
        state=name.state,
        segments=tuple(_segment(final, base) for base in bases),
        kraft_snapshots=tuple(Segment(file) for file in parsed if _is_final(file, "checkpoint")),
        producer_snapshots=tuple(file for file in parsed if _is_final(file, "snapshot")),
        temporary=tuple(file for file in parsed if file.name.temporary),
        orphans=tuple(
            file
            for (offset, kind), file in final.items()
            if kind in names.SEGMENT_KINDS and (offset, "log") not in final
        ),
        leader_epochs=read_small(filesystem, epochs, checkpoints.read_leader_epochs, problems),
        metadata=read_small(
            filesystem, files.get(names.PARTITION_METADATA), checkpoints.read_partition_metadata, problems
        ),
        checkpointed={
            file: values[name.topic_partition]
            for file, values in offsets.items()
            if not name.state and name.topic_partition in values
        },
        problems=tuple(problems),
    )


def _is_final(file: LogFile, kind: str) -> bool:
    return file.name.kind == kind and not file.name.temporary


def _segment(files: Mapping[tuple[int, str], LogFile], base: int) -> Segment:
    return Segment(
        files[base, "log"],
        index=files.get((base, "index")),
        time_index=files.get((base, "timeindex")),
        txn_index=files.get((base, "txnindex")),
        snapshot=files.get((base, "snapshot")),
    )


class Remark(NamedTuple):
    """A line for people about what is served; one of severity ``ERROR`` tells of records that are not."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class Served:
    """A log directory to be opened over a disk that keeps what is written in memory.

    Attributes:
        was_clean: of logs that are known to end with a whole batch, or not, whatever marker the directory has.
        remarks: what was decided where copies differ, and what a store lacks: the gravest first.
    """

    path: str
    filesystem: FileSystem
    was_clean: Mapping[TopicPartition, bool] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
