"""Resolve the swap files of an interrupted log cleaning or split, as a broker does when it starts (LogLoader).

The cleaner writes ``.cleaned`` files, renames them to ``.swap``, renames the segments that they replace to
``.deleted``, and removes the suffix ``.swap``. After a crash between these steps, a swap file exists next to the old
segments or is the only copy. When a broker starts, it deletes ``.deleted`` and ``.cleaned`` files. The broker also
deletes swap files at or above the lowest ``.cleaned`` file, because they belong to an unfinished split. Each other swap
file replaces the segments with offsets that it covers. Recovery and readers both use ``resolve_swaps``.
``replace_by_swaps`` returns a partition with the resulting segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kafkaframes.errors.words import count_text, verb_text
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogFile, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.names import FileName

Files = Mapping[FileName, LogFile]


@dataclass(frozen=True, slots=True)
class SwapResolution:
    """The actions of a broker on a partition's temporary files before it opens the log.

    Attributes:
        unfinished_swaps: swap files of an unfinished split, which are deleted.
        finished_swaps: swap files that are renamed to their final names.
        first_offset: first offset of the finished swap files; 0 if none exists.
        end_offset: offset after the finished swap files; 0 if none exists.
        halves: files of a lower segment whose split was almost finished, which are deleted.
        replaced_files: files of the segments that the swap files cover, which are deleted.
    """

    unfinished_swaps: tuple[LogFile, ...] = ()
    finished_swaps: tuple[LogFile, ...] = ()
    first_offset: int = 0
    end_offset: int = 0
    halves: tuple[LogFile, ...] = ()
    replaced_files: tuple[LogFile, ...] = ()


def resolve_swaps(filesystem: FileSystem, files: Files) -> SwapResolution:
    """Decide which swap files to rename, and which files to delete.

    Args:
        filesystem: file system of the partition.
        files: files of the partition with an offset in the name, by name.

    Raises:
        LogDirError: a swap file, or the segment before it, cannot be read.
    """
    lowest_cleaned = min((name.offset for name in files if name.temporary == "cleaned"), default=None)
    swaps = [file for name, file in files.items() if name.temporary == "swap"]
    unfinished_swaps = tuple(
        file for file in swaps if lowest_cleaned is not None and file.name.offset >= lowest_cleaned
    )
    finished_swaps = tuple(file for file in swaps if file not in unfinished_swaps)
    logs = [file for file in finished_swaps if file.name.kind == "log"]
    if not logs:
        return SwapResolution(unfinished_swaps, finished_swaps)
    first = min(file.name.offset for file in logs)
    end = max(read_next_offset(filesystem, file) for file in logs)
    halves = _find_split_files(filesystem, files, first)
    replaced_files = tuple(
        file
        for name, file in files.items()
        if name.temporary == "" and name.kind != "checkpoint" and first <= name.offset < end
    )
    return SwapResolution(unfinished_swaps, finished_swaps, first, end, halves, replaced_files)


def _find_split_files(filesystem: FileSystem, files: Files, first: int) -> tuple[LogFile, ...]:
    """Return the files of a segment that a split did not delete.

    The first part of the split may have a higher base offset than the segment. Kafka would keep the segment and its
    parts, and the records would exist twice.
    """
    below = [name.offset for name in files if name.kind == "log" and not name.temporary and name.offset < first]
    if not below or read_next_offset(filesystem, files[FileName(max(below), "log")]) <= first:
        return ()
    halves = (files.get(FileName(max(below), kind)) for kind in names.SEGMENT_KINDS)
    return tuple(file for file in halves if file is not None)


def read_next_offset(filesystem: FileSystem, file: LogFile) -> int:
    """Return the offset after the last batch, or the base offset of an empty segment (LogSegment.readNextOffset).

    Raises:
        LogDirError: the file cannot be read.
    """
    from kafkaframes.storage.files.segment_reader import open_segment  # imports numpy, which listings do not need

    with open_segment(filesystem, Segment(file), use_indexes=False) as reader:
        return reader.next_offset


def replace_by_swaps(filesystem: FileSystem, partition: Partition) -> Partition:
    """Return a partition with finished swap files in place of the segments that they cover.

    The segment of a swap file has its final name and the path of the swap file. ``replaced_segments`` contains the
    segments that the swap files cover.

    Raises:
        LogDirError: a swap file, or the segment before it, cannot be read.
    """
    if partition.state == "delete" or not any(_is_swap_log(file) for file in partition.temporary):
        return partition
    files = {file.name: file for file in list_offset_files(partition)}
    resolution = resolve_swaps(filesystem, files)
    removed_paths = {file.path for file in (*resolution.replaced_files, *resolution.halves)}
    swaps = {replace(file.name, temporary=""): file for file in resolution.finished_swaps}
    logs = [file for name, file in swaps.items() if name.kind == "log"]
    if not logs:
        return partition
    bases = {file.name.offset for file in logs}
    remaining_segments = [segment for segment in partition.segments if segment.path not in removed_paths]
    swap_segments = [_to_segment(file, swaps) for file in logs]
    return replace(
        partition,
        segments=tuple(sorted([*remaining_segments, *swap_segments], key=lambda segment: segment.base_offset)),
        replaced_segments=tuple(segment for segment in partition.segments if segment.path in removed_paths),
        producer_snapshots=tuple(file for file in partition.producer_snapshots if file.path not in removed_paths),
        orphans=tuple(file for file in partition.orphans if file.name.offset not in bases),
    )


def _is_swap_log(file: LogFile) -> bool:
    return file.name.kind == "log" and file.name.temporary == "swap"


def _to_segment(log: LogFile, swaps: Files) -> Segment:
    """Return the segment of a swap file, with the indexes that are swap files too."""
    base = log.name.offset
    index, time_index, txn_index = (
        _with_final_name(swaps.get(FileName(base, kind))) for kind in names.SEGMENT_KINDS[1:]
    )
    final = replace(log, name=replace(log.name, temporary=""))
    return Segment(final, index=index, time_index=time_index, txn_index=txn_index)


def _with_final_name(file: LogFile | None) -> LogFile | None:
    return None if file is None else replace(file, name=replace(file.name, temporary=""))


def list_offset_files(partition: Partition) -> Iterator[LogFile]:
    """Yield the files of a partition with an offset in the name."""
    temporary = {file.path for file in partition.temporary}
    for segment in (*partition.segments, *partition.replaced_segments):
        for file in list_segment_files(segment):
            if file.path not in temporary:
                yield file
    yield from partition.producer_snapshots
    yield from partition.temporary
    yield from partition.orphans


def list_segment_files(segment: Segment) -> Iterator[LogFile]:
    """Yield the log file and the indexes of a segment."""
    files = (segment.log, segment.index, segment.time_index, segment.txn_index)
    yield from (file for file in files if file is not None)


def swap_findings(partition: Partition) -> Iterator[Finding]:
    """Yield a finding for each swap file that is read as a segment."""
    temporary = {file.path for file in partition.temporary}
    swap_segments = [segment for segment in partition.segments if segment.path in temporary]
    if not swap_segments:
        return
    count = len(partition.replaced_segments)
    others = f"; it replaces {count_text(count, 'segment')} that {verb_text(count)} not read"
    for segment in swap_segments:
        message = (
            "an interrupted cleaning left this complete swap file; it is read, because a broker would use it at startup"
        )
        yield Finding(Severity.WARNING, "swap", message + (others if count else ""), segment.path)
        others = ""
