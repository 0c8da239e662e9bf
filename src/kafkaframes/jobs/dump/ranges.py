"""Which files a range of offsets needs, and what is wanted of each.

Nothing is read but names and, for the last records of a partition, the headers of its last segment.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from kafkaframes.jobs.dump.files import DumpFile
from kafkaframes.jobs.dump.filters import NO_FILTER, Filter, Limited, Selection
from kafkaframes.records import scan
from kafkaframes.storage.files.filesystem import split
from kafkaframes.storage.files.names import FileName

_HEADERS_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file and what is wanted of it."""

    file: DumpFile
    keep: Selection


def wanted_files(files: list[DumpFile], conditions: Filter, *, limit: int | None = None) -> Iterator[Wanted]:
    """Yield the files that may hold a wanted record.

    Args:
        files: as ``files_to_dump`` found them.
        conditions: a negative ``from_offset`` counts from the end of each partition.
        limit: the largest number of records, over all files.
    """
    budget = Limited(NO_FILTER, limit) if limit is not None else None
    for group in _by_directory(files).values():
        resolved = _resolved(group, conditions)
        for file, after in _with_next_base(group):
            if budget is not None and budget.left == 0:
                return
            if _may_hold(file, after, resolved):
                within = _within(file, resolved)
                keep: Selection = within
                if budget is not None:
                    budget.selection = within
                    keep = budget
                yield Wanted(file, keep)


def _by_directory(files: list[DumpFile]) -> dict[str, list[DumpFile]]:
    groups: dict[str, list[DumpFile]] = {}
    for file in files:
        groups.setdefault(file.merged or split(file.path)[0], []).append(file)
    return groups


def _within(file: DumpFile, conditions: Filter) -> Filter:
    """Return the conditions for a file that gives some of a merged log's offsets only."""
    if file.offsets is None:
        return conditions
    first, end = file.offsets
    least, limit = conditions.from_offset, conditions.until_offset
    return replace(
        conditions,
        from_offset=first if least is None else max(first, least),
        until_offset=end if limit is None else min(end, limit),
    )


def _with_next_base(group: list[DumpFile]) -> Iterator[tuple[DumpFile, int | None]]:
    """Yield each file with the base offset of the next plain segment beside it, where there is one."""
    bases = sorted(name.offset for name in map(_name, group) if name is not None and _is_plain(name))
    for file in group:
        name = _name(file)
        later = [base for base in bases if name is not None and base > name.offset]
        yield file, later[0] if later and name is not None and _is_plain(name) else None


def _may_hold(file: DumpFile, after: int | None, conditions: Filter) -> bool:
    name = _name(file)
    if name is None or not _is_plain(name):
        return True
    least, limit = conditions.from_offset, conditions.until_offset
    if file.offsets is not None:
        first, end = file.offsets
        return (least is None or end > least) and (limit is None or first < limit)
    return not (least is not None and after is not None and after <= least) and not (
        limit is not None and name.offset >= limit
    )


def _resolved(group: list[DumpFile], conditions: Filter) -> Filter:
    least = conditions.from_offset
    if least is None or least >= 0:
        return conditions
    segments = [file for file in group if file.kind == "log"]
    end = _end(segments[-1]) if segments else 0
    return replace(conditions, from_offset=max(end + least, 0))


def _end(file: DumpFile) -> int:
    return log_end_offset(file) if file.offsets is None else file.offsets[1]


def log_end_offset(file: DumpFile) -> int:
    """Return the offset after the last whole batch of a segment; its base offset where there is none."""
    name = _name(file)
    end, position = name.offset if name else 0, 0
    while position < file.size_bytes:
        raw = file.filesystem.read(file.path, position=position, length=_HEADERS_BYTES)
        found = scan.scan(raw, end=file.size_bytes - position, rules=scan.FILE, whole=False)
        if len(found) == 0:
            break
        end = int(found.column("last_offset")[-1]) + 1
        position += found.end.position
        if not found.end.goes_on:
            break
    return end


def _name(file: DumpFile) -> FileName | None:
    return FileName.parse(split(file.path)[1])


def _is_plain(name: FileName) -> bool:
    return name.kind == "log" and not name.temporary
