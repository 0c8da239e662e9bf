"""The content of a broker's log directory as frozen values: log directories, partitions, segments and companion files.

The values have the names, sizes and times of files, not their content, and do no I/O. ``storage/log/discover.py``
creates these values from the user's paths. ``build_partition`` creates a partition from a directory listing. All files
of a directory are included. ``state`` marks renamed directories (``-delete``, ``-future``, ``-stray``), and
``temporary`` has the temporary files, so that the caller can select.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from kafkaframes.errors import LogDirError
from kafkaframes.storage.files import checkpoints, names
from kafkaframes.storage.files.checkpoints import CleanShutdown, EpochStart, MetaProperties, PartitionMetadata
from kafkaframes.storage.files.filesystem import FileInfo, FileSystem, split_path
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.names import DirectoryName, FileName, TopicPartition


@dataclass(frozen=True, slots=True)
class LogFile:
    """A listed file with an offset in its name."""

    name: FileName
    path: str
    size_bytes: int
    mtime_ms: int | None


@dataclass(frozen=True, slots=True)
class Segment:
    """A ``.log`` file with its companion files; also a KRaft snapshot, or a temporary file of either kind.

    Attributes:
        index, time_index, txn_index, snapshot: companion files with the same offset; None if missing.
        end_offset: offset of the last record, if it is known without reading the file (a tiered segment).
    """

    log: LogFile
    index: LogFile | None = None
    time_index: LogFile | None = None
    txn_index: LogFile | None = None
    snapshot: LogFile | None = None
    end_offset: int | None = None

    @classmethod
    def from_log_file(cls, base_offset: int, path: str, size_bytes: int) -> Segment:
        """Return a segment with only a ``.log`` file, without a modification time."""
        return cls(LogFile(FileName(base_offset, "log"), path, size_bytes, None))

    @property
    def base_offset(self) -> int:
        """The offset in the file name. In a compacted segment, the first batch may have a higher offset."""
        return self.log.name.offset

    @property
    def path(self) -> str:
        """The path of the ``.log`` file."""
        return self.log.path

    @property
    def size_bytes(self) -> int:
        """The size of the ``.log`` file in bytes, including a preallocated tail."""
        return self.log.size_bytes


@dataclass(frozen=True, slots=True)
class Partition:
    """The directory of one copy of a topic partition.

    Attributes:
        topic_partition: topic and partition from the directory's name; for another name, that name and partition 0.
        directory: path of the partition's directory.
        log_directory: path of the parent directory, an entry of the broker's ``log.dirs``.
        state: empty for a live partition; ``delete``, ``future`` or ``stray`` if the broker renamed the directory.
        segments: segments by base offset, including finished ``.swap`` files under their final names
            (``storage/log/swaps.py``). ``.cleaned``, ``.deleted`` and unfinished ``.swap`` files are only in
            ``temporary``.
        kraft_snapshots: ``<offset>-<epoch>.checkpoint`` files, which also contain record batches.
        producer_snapshots: all ``.snapshot`` files, including those that are companions of a segment.
        temporary: files with a second suffix.
        replaced_segments: segments that a broker replaces with finished swap files when it starts; ``segments`` omits
            them.
        orphans: indexes without a ``.log`` file.
        leader_epochs: content of ``leader-epoch-checkpoint``; None if it is missing or corrupt.
        metadata: content of ``partition.metadata``; None if it is missing or corrupt.
        checkpointed_offsets: the partition's offsets in the broker's checkpoints, by file name.
        problems: errors of unreadable small files; for a tiered partition also of missing objects.
        notes: uploads in a tiered store that are not part of the log (unfinished, or of a lost history), as text.
    """

    topic_partition: TopicPartition
    directory: str
    log_directory: str = ""
    state: str = ""
    segments: tuple[Segment, ...] = ()
    kraft_snapshots: tuple[Segment, ...] = ()
    producer_snapshots: tuple[LogFile, ...] = ()
    temporary: tuple[LogFile, ...] = ()
    replaced_segments: tuple[Segment, ...] = ()
    orphans: tuple[LogFile, ...] = ()
    leader_epochs: tuple[EpochStart, ...] | None = None
    metadata: PartitionMetadata | None = None
    checkpointed_offsets: Mapping[str, int] = field(default_factory=dict)
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
        """Whether a broker would serve the partition: it does not serve renamed directories."""
        return not self.state

    @property
    def log_start_offset(self) -> int:
        """The log start offset: from the checkpoint (DeleteRecords) or the first segment, whichever is higher."""
        first = self.segments[0].base_offset if self.segments else 0
        return max(first, self.checkpointed_offsets.get(names.LOG_START_CHECKPOINT, first))

    @property
    def high_watermark(self) -> int | None:
        """The checkpointed high watermark, which may be far below the log end offset; None if missing."""
        return self.checkpointed_offsets.get(names.HIGH_WATERMARK_CHECKPOINT)

    @property
    def recovery_point(self) -> int:
        """The offset below which all records were flushed; 0 without a checkpoint."""
        return self.checkpointed_offsets.get(names.RECOVERY_POINT_CHECKPOINT, 0)

    @property
    def size_bytes(self) -> int:
        """Total size of the ``.log`` files, in bytes."""
        return sum(segment.size_bytes for segment in self.segments)


@dataclass(frozen=True, slots=True)
class UnreadablePartition:
    """The directory of a topic partition that cannot be listed, or that has a small file that cannot be read.

    Attributes:
        state: as for ``Partition``.
        error: reason why the directory cannot be read, with the path of the directory or of the file.
    """

    topic_partition: TopicPartition
    directory: str
    state: str
    error: LogDirError

    def as_finding(self) -> Finding:
        """Return the error as a finding about the directory."""
        return Finding(Severity.ERROR, "unreadable", self._describe_error(), self.directory)

    def as_error(self) -> LogDirError:
        """Return the error as an exception, for jobs that need all selected partitions."""
        remedy = "make the directory readable, or select other topics or partitions"
        return LogDirError(f"{self._describe_error()}; {remedy}", file=self.directory)

    def _describe_error(self) -> str:
        reason = self.error.reason if self.error.file == self.directory else str(self.error)
        return f"{self.topic_partition}: {reason}"


@dataclass(frozen=True, slots=True)
class LogDirectory:
    """A log directory of a broker, or the parent directory of a single partition or segment.

    Attributes:
        partitions: partitions, sorted by topic, partition and state.
        meta: content of ``meta.properties``; None if it is missing or corrupt.
        clean_shutdown: clean shutdown marker; None after an unclean shutdown, or if only a part of the directory was
            selected.
        offset_checkpoints: content of the existing ``*-offset-checkpoint`` files, by file name.
        bootstrap: KRaft's ``bootstrap.checkpoint``, which contains record batches; None if missing.
        problems: errors of unreadable small files, including those of the partitions.
        unreadable_partitions: partitions that ``partitions`` lacks because they cannot be read.
    """

    path: str
    filesystem: FileSystem
    partitions: tuple[Partition, ...] = ()
    meta: MetaProperties | None = None
    clean_shutdown: CleanShutdown | None = None
    offset_checkpoints: Mapping[str, Mapping[TopicPartition, int]] = field(default_factory=dict)
    bootstrap: FileInfo | None = None
    problems: tuple[LogDirError, ...] = ()
    unreadable_partitions: tuple[UnreadablePartition, ...] = ()


def partitions_of(
    directories: Iterable[LogDirectory], *, live: bool = True
) -> Iterator[tuple[LogDirectory, Partition]]:
    """Yield (log directory, partition) of each partition; ``live=False`` includes renamed directories."""
    for directory in directories:
        for partition in directory.partitions:
            if partition.is_live or not live:
                yield directory, partition


# ---------------------------------------------------------------------------------------------------------------------
# Build a ``Partition`` from a directory listing: sort its files by offset and kind, and read its small files.
#
# The listing may also come from a view of objects in a store, or of several copies. If a small text file is corrupt,
# ``problems`` reports it and the segments are still listed.

_ParsedFile = TypeVar("_ParsedFile")
MAX_SMALL_FILE_BYTES = 64 << 20  # larger than any checkpoint


def read_small_file(
    filesystem: FileSystem, entry: FileInfo | None, parse: Callable[..., _ParsedFile], problems: list[LogDirError]
) -> _ParsedFile | None:
    """Read a small listed file; None if it is missing or malformed.

    If the file is malformed, its error is added to ``problems``.
    """
    if entry is None:
        return None
    try:
        raw = filesystem.read(entry.path, length=MAX_SMALL_FILE_BYTES)
    except LogDirError:
        if filesystem.stat(entry.path) is None:  # a running broker replaces these files
            return None
        raise
    try:
        return parse(raw, file=entry.path)
    except LogDirError as error:
        problems.append(error)
        return None


def build_partition(
    filesystem: FileSystem,
    path: str,
    entries: Iterable[FileInfo],
    log_directory: str,
    offsets: Mapping[str, Mapping[TopicPartition, int]],
) -> Partition:
    """Return the partition in a directory with ``entries``.

    The directory's name contains the topic and the partition number.
    """
    name = DirectoryName.parse(split_path(path)[1]) or DirectoryName(TopicPartition(split_path(path)[1], 0))
    files = {entry.name: entry for entry in entries if not entry.is_directory}
    parsed_files = [
        LogFile(file_name, entry.path, entry.size_bytes, entry.mtime_ms)
        for entry in files.values()
        if (file_name := FileName.parse(entry.name)) is not None
    ]
    final = {(file.name.offset, file.name.kind): file for file in parsed_files if not file.name.temporary}
    bases = sorted(offset for offset, kind in final if kind == "log")
    problems: list[LogDirError] = []
    epochs = files.get(names.LEADER_EPOCH_CHECKPOINT)
    return Partition(
        topic_partition=name.topic_partition,
        directory=path,
        log_directory=log_directory,
        state=name.state,
        segments=tuple(_make_segment(final, base) for base in bases),
        kraft_snapshots=tuple(Segment(file) for file in parsed_files if _is_final(file, "checkpoint")),
        producer_snapshots=tuple(file for file in parsed_files if _is_final(file, "snapshot")),
        temporary=tuple(file for file in parsed_files if file.name.temporary),
        orphans=tuple(
            file
            for (offset, kind), file in final.items()
            if kind in names.SEGMENT_KINDS and (offset, "log") not in final
        ),
        leader_epochs=read_small_file(filesystem, epochs, checkpoints.read_leader_epochs, problems),
        metadata=read_small_file(
            filesystem, files.get(names.PARTITION_METADATA), checkpoints.read_partition_metadata, problems
        ),
        checkpointed_offsets={
            file: values[name.topic_partition]
            for file, values in offsets.items()
            if not name.state and name.topic_partition in values
        },
        problems=tuple(problems),
    )


def _is_final(file: LogFile, kind: str) -> bool:
    return file.name.kind == kind and not file.name.temporary


def _make_segment(files: Mapping[tuple[int, str], LogFile], base: int) -> Segment:
    return Segment(
        files[base, "log"],
        index=files.get((base, "index")),
        time_index=files.get((base, "timeindex")),
        txn_index=files.get((base, "txnindex")),
        snapshot=files.get((base, "snapshot")),
    )


class Remark(NamedTuple):
    """A message for users about a served log; severity ``ERROR`` means that some records are not served."""

    severity: Severity
    text: str


@dataclass(frozen=True, slots=True)
class ServedDirectory:
    """A log directory that a broker serves without changing it. The broker keeps its changes in memory.

    Attributes:
        was_clean: whether each log ends with a whole batch, if this is known; the value is used in place of the
            directory's shutdown marker.
        remarks: decisions between different copies, and missing parts of a store; most severe first.
    """

    path: str
    filesystem: FileSystem
    was_clean: Mapping[TopicPartition, bool] = field(default_factory=dict)
    remarks: tuple[Remark, ...] = ()
