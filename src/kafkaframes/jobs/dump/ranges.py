"""Select the files that may have records in a range of offsets or times, and the selection for each file.

Only file names are read, unless times or the last records of a partition are requested.

If several copies of a partition are dumped, ``merge_file_copies`` selects the parts of their files that make one log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.dump.chunks import NO_FILTER, LimitedSelection, RecordFilter, RecordSelection, SegmentSource
from kafkaframes.jobs.dump.files import DumpFile
from kafkaframes.records import scan
from kafkaframes.scan.ranges import NO_END
from kafkaframes.scan.rows import find_offset_at_time
from kafkaframes.storage.copies.decisions import Decision, sort_by_severity
from kafkaframes.storage.copies.one_log import check_same_log, merge_copies, select_copies
from kafkaframes.storage.copies.reading import group_by_partition
from kafkaframes.storage.files.filesystem import plain_path, split_path
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import FileName
from kafkaframes.storage.log.discover import discover

_MAX_HEADER_READ_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class RequestedFile:
    """A file, and the selection of its records."""

    file: DumpFile
    keep: RecordSelection


def select_files_in_range(
    files: list[DumpFile], conditions: Callable[[DumpFile], RecordFilter], *, limit: int | None = None
) -> Iterator[RequestedFile]:
    """Yield the files that may have selected records.

    A negative ``from_offset`` counts back from the end of each partition. A time
    selects the same offset as a ListOffsets request for it.

    Args:
        files: the files to select from, inside partitions or not.
        conditions: function that returns the conditions on the records of a file's partition.
        limit: maximum number of records over all files.
    """
    budget = LimitedSelection(NO_FILTER, limit) if limit is not None else None
    for group_files in _group_by_directory(files).values():
        resolved_conditions = _resolve_conditions(group_files, conditions(group_files[0]))
        for file, next_base in _pair_with_next_base(group_files):
            if budget is not None and budget.remaining_records == 0:
                return
            if _may_have_records(file, next_base, resolved_conditions):
                is_inside = _limit_to_merged_range(file, resolved_conditions)
                is_selected: RecordSelection = is_inside
                if budget is not None:
                    budget.selection = is_inside
                    is_selected = budget
                yield RequestedFile(file, is_selected)


def _group_by_directory(files: list[DumpFile]) -> dict[str, list[DumpFile]]:
    """Return the files by directory, or by merged log."""
    groups: dict[str, list[DumpFile]] = {}
    for file in files:
        groups.setdefault(file.merge_note or split_path(file.path)[0], []).append(file)
    return groups


def _limit_to_merged_range(file: DumpFile, conditions: RecordFilter) -> RecordFilter:
    """Return the conditions for a file that contains a part of a merged log's offsets."""
    if file.offsets is None:
        return conditions
    first, end = file.offsets
    first_offset, limit = conditions.from_offset, conditions.until_offset
    return replace(
        conditions,
        from_offset=first if first_offset is None else max(first, first_offset),
        until_offset=end if limit is None else min(end, limit),
    )


def _pair_with_next_base(group: list[DumpFile]) -> Iterator[tuple[DumpFile, int | None]]:
    """Yield each file with the base offset of the next plain segment in its group, or None."""
    bases = sorted(name.offset for name in map(_file_name_of, group) if name is not None and _is_plain(name))
    for file in group:
        name = _file_name_of(file)
        later = [base for base in bases if name is not None and base > name.offset]
        yield file, later[0] if later and name is not None and _is_plain(name) else None


def _may_have_records(file: DumpFile, next_base: int | None, conditions: RecordFilter) -> bool:
    """Return whether a segment may have selected records, by its own base offset and that of the next segment."""
    name = _file_name_of(file)
    if name is None or not _is_plain(name):
        return True
    first_offset, limit = conditions.from_offset, conditions.until_offset
    if file.offsets is not None:
        first, end = file.offsets
        return (first_offset is None or end > first_offset) and (limit is None or first < limit)
    return not (first_offset is not None and next_base is not None and next_base <= first_offset) and not (
        limit is not None and name.offset >= limit
    )


def _resolve_conditions(group: list[DumpFile], conditions: RecordFilter) -> RecordFilter:
    """Return the conditions with offsets instead of times, and without offsets relative to the end."""
    first_offset, limit = conditions.from_offset, conditions.until_offset
    segments = [file for file in group if file.kind == "log"]
    if first_offset is not None and first_offset < 0:
        end = _find_end_offset(segments[-1]) if segments else 0
        first_offset = max(end + first_offset, 0)
    if conditions.from_timestamp is not None:
        first = _find_first_offset_at_time(segments, conditions.from_timestamp)
        first_offset = max(first_offset or 0, NO_END if first is None else first)
    if conditions.until_timestamp is not None:
        first = _find_first_offset_at_time(segments, conditions.until_timestamp)
        limit = limit if first is None else min(first, NO_END if limit is None else limit)
    return replace(conditions, from_offset=first_offset, until_offset=limit, from_timestamp=None, until_timestamp=None)


def _find_first_offset_at_time(segments: Sequence[DumpFile], time_ms: int) -> int | None:
    """Return the first offset whose record has at least this timestamp, as ListOffsets does; None if no record has."""
    offsets = (
        find_offset_at_time(SegmentSource(file), time_ms, rules=scan.FILE, end=file.size_bytes) for file in segments
    )
    return next((offset for offset in offsets if offset is not None), None)


def _find_end_offset(file: DumpFile) -> int:
    """Return the offset after a file's last record."""
    return find_log_end_offset(file) if file.offsets is None else file.offsets[1]


def find_log_end_offset(file: DumpFile) -> int:
    """Return the offset after the last whole batch of a segment, or the base offset of a segment without batches."""
    name = _file_name_of(file)
    end, position = name.offset if name else 0, 0
    while position < file.size_bytes:
        raw = file.filesystem.read(file.path, position=position, length=_MAX_HEADER_READ_BYTES)
        result = scan.scan_batches(raw, end=file.size_bytes - position, rules=scan.FILE, includes_data=False)
        if len(result) == 0:
            break
        end = int(result.column("last_offset")[-1]) + 1
        position += result.end.position
        if not result.end.can_continue:
            break
    return end


def _file_name_of(file: DumpFile) -> FileName | None:
    return FileName.parse(split_path(file.path)[1])


def _is_plain(name: FileName) -> bool:
    """Return whether a file is a segment without a temporary suffix."""
    return name.kind == "log" and not name.temporary


def merge_file_copies(
    files: Sequence[DumpFile], paths: Sequence[str], *, options: Mapping[str, Any] | None = None
) -> tuple[list[DumpFile], list[str]]:
    """In partitions with several copies, replace the segments with the parts that make one log.

    Temporary files, indexes, snapshots and files that were passed themselves are not replaced. Directories that are not
    copies of the same log are not merged. Returns the files, and messages for the user.
    """
    plain_paths = {plain_path(path) for path in paths}
    examined_partitions = [path for path in paths if FileName.parse(split_path(plain_path(path))[1]) is None]
    try:
        files_by_partition = (
            group_by_partition(
                select_copies(discover(examined_partitions, options=options, omit_unreadable=True), plain_paths)
            )
            if examined_partitions
            else {}
        )
    except LogDirError:  # a dump also accepts files that are not part of a log, such as an index without its segment
        files_by_partition = {}
    parts_by_path: dict[str, list[DumpFile]] = {}
    decisions: list[Decision] = []
    messages: list[str] = []
    for copies in (result for result in files_by_partition.values() if len(result) > 1):
        try:
            check_same_log(copies)
        except LogDirError as reason:
            messages.append(f"not merged: {reason}")
            continue
        merged_log = merge_copies(copies, check=True, scan=True)
        decisions += merged_log.decisions
        parts = [
            DumpFile(
                copies[part.segment_range.copy].filesystem,
                merged_log.segment(part.segment_range).path,
                "log",
                merged_log.segment(part.segment_range).size_bytes,
                str(merged_log.topic_partition),
                (max(part.first_offset, merged_log.start_offset), part.end_offset),
            )
            for part in merged_log.spans
        ]
        parts_by_path |= {segment.path: parts for copy in copies for segment in copy.partition.segments}
    warnings = [copy for copy in sort_by_severity(decisions) if copy.severity > Severity.NOTE]
    return _replace_files(files, parts_by_path, plain_paths), [*messages, *map(str, warnings)]


def _replace_files(
    files: Sequence[DumpFile], parts_by_path: Mapping[str, list[DumpFile]], plain_paths: set[str]
) -> list[DumpFile]:
    """Replace the segments of copies: the parts of the merged log take the place of their first segment."""
    result: list[DumpFile] = []
    replaced_parts: list[list[DumpFile]] = []
    for file in files:
        parts = parts_by_path.get(file.path)
        if parts is None or file.path in plain_paths:
            result.append(file)
        elif not any(parts is other_parts for other_parts in replaced_parts):
            replaced_parts.append(parts)
            result += parts
    return result
