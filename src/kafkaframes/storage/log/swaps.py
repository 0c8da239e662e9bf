"""Read a partition as a broker's start would leave it where a cleaning or a split was interrupted (LogLoader).

The cleaner writes ``.cleaned`` files, renames them to ``.swap``, renames the segments that they replace to
``.deleted``, and drops the suffix ``.swap``. A crash between these steps leaves a swap file next to the old segments,
or as the only copy. At its next start a broker deletes ``.deleted`` and ``.cleaned`` files, and with them the swap
files at or above the lowest ``.cleaned`` one, which belong to a split that did not finish. Each other swap file takes
the place of the segments whose offsets it covers. ``resolve_swaps`` decides that for recovery and for readers alike;
``show_swaps`` gives readers the segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogFile, Partition, Segment
from kafkaframes.storage.files.filesystem import FileSystem
from kafkaframes.storage.files.findings import Finding, Severity
from kafkaframes.storage.files.names import FileName

Files = Mapping[FileName, LogFile]


@dataclass(frozen=True, slots=True)
class SwapResolution:
    """What a broker does with a partition's temporary files before it opens the log.

    Attributes:
        unfinished: swap files of a split that did not finish; they are deleted.
        finished: swap files that get their final names.
        first_offset, end_offset: the offsets that finished swaps cover; both 0 without any.
        halves: files of a segment below them whose split was nearly finished; they are deleted.
        replaced: files of the segments that the swaps cover; they are deleted.
    """

    unfinished: tuple[LogFile, ...] = ()
    finished: tuple[LogFile, ...] = ()
    first_offset: int = 0
    end_offset: int = 0
    halves: tuple[LogFile, ...] = ()
    replaced: tuple[LogFile, ...] = ()


def resolve_swaps(filesystem: FileSystem, files: Files) -> SwapResolution:
    """Decide what becomes of swap files.

    Args:
        files: the partition's files that belong to an offset, by name.

    Raises:
        LogDirError: a swap, or the segment before it, cannot be read.
    """
    cleaned = min((name.offset for name in files if name.temporary == "cleaned"), default=None)
    swaps = [file for name, file in files.items() if name.temporary == "swap"]
    unfinished = tuple(file for file in swaps if cleaned is not None and file.name.offset >= cleaned)
    finished = tuple(file for file in swaps if file not in unfinished)
    logs = [file for file in finished if file.name.kind == "log"]
    if not logs:
        return SwapResolution(unfinished, finished)
    first = min(file.name.offset for file in logs)
    end = max(next_offset_of(filesystem, file) for file in logs)
    halves = _find_halves(filesystem, files, first)
    replaced = tuple(
        file
        for name, file in files.items()
        if name.temporary == "" and name.kind != "checkpoint" and first <= name.offset < end
    )
    return SwapResolution(unfinished, finished, first, end, halves, replaced)


def _find_halves(filesystem: FileSystem, files: Files, first: int) -> tuple[LogFile, ...]:
    """Return the files of a segment that a split has left next to its parts.

    The first part may be named higher than the segment. Kafka would keep both, so that its records would exist twice.
    """
    below = [name.offset for name in files if name.kind == "log" and not name.temporary and name.offset < first]
    if not below or next_offset_of(filesystem, files[FileName(max(below), "log")]) <= first:
        return ()
    halves = (files.get(FileName(max(below), kind)) for kind in names.SEGMENT_KINDS)
    return tuple(file for file in halves if file is not None)


def next_offset_of(filesystem: FileSystem, file: LogFile) -> int:
    """Return the offset after the last batch; the base offset of an empty segment (LogSegment.readNextOffset).

    Raises:
        LogDirError: the file cannot be read.
    """
    from kafkaframes.storage.files.segment_reader import open_segment  # numpy: a listing must not wait for it

    with open_segment(filesystem, Segment(file), use_indexes=False) as reader:
        return reader.next_offset


def show_swaps(filesystem: FileSystem, partition: Partition) -> Partition:
    """Return a partition with its finished swap files as segments, in place of those that they cover.

    A swap's segment has its final name and the path of the swap file. ``replaced`` holds the covered segments.

    Raises:
        LogDirError: a swap, or the segment before it, cannot be read.
    """
    if partition.state == "delete" or not any(_is_swapped_log(file) for file in partition.temporary):
        return partition
    files = {file.name: file for file in listed_files(partition)}
    resolution = resolve_swaps(filesystem, files)
    gone = {file.path for file in (*resolution.replaced, *resolution.halves)}
    swaps = {replace(file.name, temporary=""): file for file in resolution.finished}
    logs = [file for name, file in swaps.items() if name.kind == "log"]
    if not logs:
        return partition
    bases = {file.name.offset for file in logs}
    kept = [segment for segment in partition.segments if segment.path not in gone]
    shown = [_swapped_segment(file, swaps) for file in logs]
    return replace(
        partition,
        segments=tuple(sorted([*kept, *shown], key=lambda segment: segment.base_offset)),
        replaced=tuple(segment for segment in partition.segments if segment.path in gone),
        producer_snapshots=tuple(file for file in partition.producer_snapshots if file.path not in gone),
        orphans=tuple(file for file in partition.orphans if file.name.offset not in bases),
    )


def _is_swapped_log(file: LogFile) -> bool:
    return file.name.kind == "log" and file.name.temporary == "swap"


def _swapped_segment(log: LogFile, swaps: Files) -> Segment:
    """Return the segment of a swap file, with those indexes that are swap files too."""
    base = log.name.offset
    index, time_index, txn_index = (_final(swaps.get(FileName(base, kind))) for kind in names.SEGMENT_KINDS[1:])
    final = replace(log, name=replace(log.name, temporary=""))
    return Segment(final, index=index, time_index=time_index, txn_index=txn_index)


def _final(file: LogFile | None) -> LogFile | None:
    return None if file is None else replace(file, name=replace(file.name, temporary=""))


def listed_files(partition: Partition) -> Iterator[LogFile]:
    """Yield the files of a partition that belong to an offset, as its directory lists them."""
    temporary = {file.path for file in partition.temporary}
    for segment in (*partition.segments, *partition.replaced):
        for file in files_of(segment):
            if file.path not in temporary:
                yield file
    yield from partition.producer_snapshots
    yield from partition.temporary
    yield from partition.orphans


def files_of(segment: Segment) -> Iterator[LogFile]:
    """Yield the ``.log`` of a segment and its indexes."""
    files = (segment.log, segment.index, segment.time_index, segment.txn_index)
    yield from (file for file in files if file is not None)


def swap_findings(partition: Partition) -> Iterator[Finding]:
    """Yield a finding for each swap file that is read as a segment."""
    temporary = {file.path for file in partition.temporary}
    swapped = [segment for segment in partition.segments if segment.path in temporary]
    if not swapped:
        return
    count = len(partition.replaced)
    others = f"; it replaces {count} segment{'s' * (count != 1)} that {'is' if count == 1 else 'are'} not read"
    for segment in swapped:
        message = "an interrupted cleaning left this finished swap file, which is read as a broker's start would do"
        yield Finding(Severity.WARNING, "swap", message + (others if count else ""), segment.path)
        others = ""
