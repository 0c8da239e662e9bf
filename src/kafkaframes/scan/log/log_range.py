"""Resolve a selection to an offset range for each partition of log directories, for jobs that read logs.

The same rules apply as in ``scan_log``: a time is looked up in the same way as by a broker for ListOffsets, a range
    for each partition must name every selected partition, and an offset that the log does not have is an error.

Modules that look up offsets are imported only if a range is given, so other commands start 15 ms sooner.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from kafkaframes.errors import OptionError
from kafkaframes.scan.log.narrowing import ALL_OFFSETS, OffsetRange
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    NO_END,
    NO_START,
    Bound,
    Name,
    TimeBound,
    describe_offset_below_start,
    describe_offset_beyond_end,
    expand_bound,
    format_partition,
    resolve_bound,
    restrict_bound,
)
from kafkaframes.scan.selection import Selection
from kafkaframes.storage.files.directory import LogDirectory, Partition

if TYPE_CHECKING:
    from kafkaframes.scan.log.discovery import Log


def resolve_ranges(
    selection: Selection, directories: Iterable[LogDirectory], paths: Iterable[str]
) -> Mapping[str, OffsetRange]:
    """Return the offset range of each partition, by its directory.

    The range is resolved for each copy of a partition, but an offset is only lost if no copy has it.

    Args:
        selection: Start and end of the range.
        directories: Log directories with the selected partitions.
        paths: Paths of the directories. If a path names a file, offsets that its partition lacks are not an error.

    Raises:
        OptionError: No copy has an offset of the range, or the range does not name every partition.
        LogDirError: A segment cannot be read.
    """
    start, end = selection.log_range
    if (start, end) == (EARLIEST, LATEST):
        return {part.directory: ALL_OFFSETS for directory in directories for part in directory.partitions}
    from kafkaframes.scan.log.discovery import is_file_path

    logs = _list_logs(directories)
    _check_names(logs, start, end)
    result = {log.partition.directory: _resolve_range(log, start, end) for log in logs}
    if not any(map(is_file_path, paths)):
        _check_offsets_of_replicas(logs, start, end)
    return result


def check_offsets(selection: Selection, directories: Iterable[LogDirectory]) -> None:
    """Check that every partition has the offsets of a range, and that a range for each partition names every partition.

    Raises:
        OptionError: No copy of a partition has an offset, or the range does not name every partition.
        LogDirError: The last segment of a partition cannot be read.
    """
    logs, (start, end) = _list_logs(directories), selection.log_range
    _check_names(logs, start, end)
    _check_offsets_of_replicas(logs, start, end)


def _list_logs(directories: Iterable[LogDirectory]) -> list[Log]:
    from kafkaframes.scan.log.discovery import Log

    return [Log(directory.filesystem, partition) for directory in directories for partition in directory.partitions]


def _check_names(logs: Iterable[Log], start: Bound, end: Bound) -> None:
    """Check that a start or end for each partition names exactly the existing partitions."""
    names = {_name(log.partition) for log in logs}
    for setting, limit in (("start", start), ("end", end)):
        expand_bound(setting, limit, names)


def _check_offsets_of_replicas(logs: Iterable[Log], start: Bound, end: Bound) -> None:
    """Check for each partition that its replicas have the offsets of the range."""
    copies: dict[Name, list[Log]] = {}
    for log in logs:
        copies.setdefault(_name(log.partition), []).append(log)
    for name, copies_of_name in sorted(copies.items()):
        _reject_missing_offsets(name, copies_of_name, start, end)


def _name(partition: Partition) -> Name:
    return partition.topic, partition.partition


def _resolve_range(log: Log, start: Bound, end: Bound) -> OffsetRange:
    """Return the offset range of a log between a start and an end, which may be offsets or times."""
    from kafkaframes.scan.log.resolve import find_log_end_offset, find_times

    name = _name(log.partition)
    find = partial(find_times, {name: log})
    first = resolve_bound("start", restrict_bound(start, {name}), [name], find=find)[name]
    end_offset = resolve_bound("end", restrict_bound(end, {name}), [name], find=find)[name]
    if first == LATEST:
        first = find_log_end_offset(log)
    return OffsetRange(NO_START if first == EARLIEST else first, NO_END if end_offset == LATEST else end_offset)


def _reject_missing_offsets(name: Name, copies: list[Log], start: Bound, end: Bound) -> None:
    """Reject a start or end offset that is outside of the log. A start or end time is always accepted.

    Raises:
        OptionError: An offset is below the start or beyond the end of every copy.
    """
    from kafkaframes.scan.log.resolve import find_log_end_offset

    first = min(log.partition.log_start_offset for log in copies)
    starts, ends = (_get_limit_offset(limit, name) for limit in (start, end))
    if max(starts, ends) <= first and starts < 0:
        return
    log_end = max(map(find_log_end_offset, copies))
    if first == log_end and not isinstance(start, Mapping) and not isinstance(end, Mapping):
        return  # one offset applies to all partitions, and this one is empty: it has lost no records
    if 0 <= starts < first:
        problem = describe_offset_below_start(format_partition(name), starts, first)
        raise OptionError(f"`start`: {problem}; specify a later offset or a time")
    if max(starts, ends) > log_end:
        setting = "start" if starts > log_end else "end"
        problem = describe_offset_beyond_end(format_partition(name), max(starts, ends), log_end)
        raise OptionError(f"`{setting}`: {problem}; specify a lower offset or a time")


def _get_limit_offset(limit: Bound, name: Name) -> int:
    """Return the offset of a limit in a partition; a negative number for a time, earliest or latest."""
    if isinstance(limit, TimeBound):
        return LATEST
    return limit if isinstance(limit, int) else limit[name]
