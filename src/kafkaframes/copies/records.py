"""Records and batches of bytes in memory, of a segment, or of several segments."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from kafkaframes.errors import DamagedChunkError, OptionError
from kafkaframes.files.filesystem import KEY_FILES, VIEW_MARK, plain_path, split
from kafkaframes.files.findings import Severity
from kafkaframes.files.names import printable
from kafkaframes.log.segment_runs import Gap, runs
from kafkaframes.log.segment_source import damage_of, open_planned
from kafkaframes.log.where import filesystem_for, object_view, view_object
from kafkaframes.records.chunks import Memory, Source
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadError, ReadOptions, RecordReader
from kafkaframes.records.scan import FILE, MEMORY, as_array
from kafkaframes.records.table import batches_table

log = logging.getLogger("kafkaframes.log")
_LEVELS = {Severity.NOTE: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.WARNING}
_IN_MEMORY = (bytes, bytearray, memoryview)


class RecordBatches(Iterator[pa.RecordBatch]):
    """An iterator over Arrow record batches.

    Attributes:
        schema: of every Arrow batch.
        errors: what was damaged so far.
    """

    def __init__(self, batches: Iterator[pa.RecordBatch], schema: pa.Schema, errors: list[ReadError]) -> None:
        self._batches = batches
        self.schema = schema
        self.errors = errors

    def __next__(self) -> pa.RecordBatch:
        return next(self._batches)


def read_records(
    source: Any,
    *,
    columns: Sequence[str] | None,
    mode: str,
    verify_crc: bool,
    control_records: bool,
    offsets: tuple[int | None, int | None],
    limit_bytes: int | None,
    key_files: Sequence[str] = (),
    replicas: str = "merge",
) -> RecordBatches:
    """Read as ``kafkaframes.read_records`` says."""
    storage = {KEY_FILES: tuple(key_files)}
    options = ReadOptions(
        columns=DEFAULT_COLUMNS if columns is None else tuple(columns),
        mode=mode,
        verify_crc=verify_crc,
        rules=MEMORY if isinstance(source, _IN_MEMORY) else FILE,
        control_records=control_records,
        first_offset=offsets[0],
        end_offset=offsets[1],
    )
    if limit_bytes is not None:
        options = options._replace(limit_bytes=limit_bytes)
    errors: list[ReadError] = []
    batches = _in_memory(source, options.checked(), errors)
    if replicas not in ("merge", "all"):
        raise OptionError(f"no replicas {replicas!r}; there are merge, all")
    if options.rules == FILE:
        paths = _paths(source, storage)
        read = _in_copies if replicas == "merge" and _are_copies(paths) else _in_files
        batches = read(paths, options, errors, storage)
    return RecordBatches(batches, options.schema, errors)


def _in_memory(source: Any, options: ReadOptions, errors: list[ReadError]) -> Iterator[pa.RecordBatch]:
    yield from RecordReader(Memory(as_array(source)), options, errors=errors)


def _in_files(
    paths: list[str], options: ReadOptions, errors: list[ReadError], storage: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    for path in paths:
        with open_planned(path, options=storage) as segment:
            yield from _in_segment(path, segment, options, errors, storage)


def _in_segment(
    path: str,
    segment: Source,
    options: ReadOptions,
    errors: list[ReadError],
    storage: Mapping[str, Any],
    *,
    start: int = 0,
    end: int | None = None,
) -> Iterator[pa.RecordBatch]:
    def lose(gap: Gap) -> None:
        errors.append(_error_of(path, gap.damage))

    filesystem = filesystem_for(path, options=storage)
    for run in runs(filesystem, path, segment, start=start, end=end, mode=options.mode, on_gap=lose):
        reader = RecordReader(segment, options, errors=errors, start=run.start, end=end)
        yield from reader
        run.end = reader.end


def _error_of(path: str, damage: DamagedChunkError) -> ReadError:
    return ReadError(path, damage.lost[0], None, None, str(damage), 0)


def _are_copies(paths: list[str]) -> bool:
    """Say whether segments of one partition are named in two directories."""
    directories: dict[str, str] = {}
    for path in (path for path in paths if VIEW_MARK not in path):
        directory = split(plain_path(path))[0]
        if directories.setdefault(split(directory)[1], directory) != directory:
            return True
    return False


def _in_copies(
    paths: list[str], options: ReadOptions, errors: list[ReadError], storage: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Read segments of several copies as one log, partition by partition."""
    from kafkaframes.copies.one_log import copies_of, merge_found
    from kafkaframes.copies.reading import group
    from kafkaframes.log.discover import discover

    directories = discover([view_object(path) for path in paths], options=storage)
    named = {one.directory for found in directories for one in found.partitions}
    for copies in group(copies_of(directories, named)).values():
        if len(copies) == 1:
            segments = [segment.path for segment in copies[0].partition.segments]
            yield from _in_files(segments, options, errors, storage)
            continue
        merged = merge_found(copies, check=True, scan=True)
        for decision in merged.decisions:
            log.log(_LEVELS[decision.severity], "%s", decision)
        for path, damage in merged.lost_chunks():
            if options.mode == "FAILFAST":
                raise damage
            errors.append(_error_of(path, damage))
        least = max(merged.start_offset, options.first_offset or 0)
        for piece in merged.pieces:
            bounded = options._replace(first_offset=least) if piece.first_offset < least else options
            path, at = merged.segment(piece.at).path, piece.at
            with open_planned(path, at.end, options=storage) as segment:
                yield from _in_segment(path, segment, bounded, errors, storage, start=at.start, end=at.end)


def _paths(source: Any, storage: Mapping[str, Any]) -> list[str]:
    one = isinstance(source, str | os.PathLike)
    return [object_view(os.fspath(path), options=storage) for path in ([source] if one else source)]


def read_batches(source: Any, *, key_files: Sequence[str] = ()) -> pa.Table:
    """Read as ``kafkaframes.read_batches`` says."""
    if isinstance(source, _IN_MEMORY):
        return batches_table(Memory(as_array(source)), rules=MEMORY)
    tables, storage = [], {KEY_FILES: tuple(key_files)}
    for path in _paths(source, storage):
        with open_planned(path, options=storage) as segment:
            table = batches_table(segment, rules=FILE)
            damage = damage_of(segment)
        if damage is not None:
            raise damage
        tables.append(table.add_column(0, "file", pa.array([printable(path)] * table.num_rows, pa.string())))
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(table.replace_schema_metadata(None) for table in tables)
