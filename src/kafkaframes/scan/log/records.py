"""Records and batches of bytes in memory, of segments, or of log directories with their topics and partitions."""

from __future__ import annotations

import difflib
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from kafkaframes.errors import DamagedChunkError, OptionError
from kafkaframes.records.arrays import repeated
from kafkaframes.records.chunks import Memory
from kafkaframes.records.columns import DEFAULT_COLUMNS, ReadError, ReadOptions, RecordReader
from kafkaframes.records.makers import COLUMNS
from kafkaframes.records.scan import FILE, MEMORY, as_array
from kafkaframes.records.table import batches_table
from kafkaframes.storage.files.filesystem import FOLLOW_LINKS, KEY_FILES, VIEW_MARK, has_magic, plain_path, split
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import INTERNAL_TOPICS, DirectoryName, TopicPartition, printable
from kafkaframes.storage.log.open_segment import Gap, OpenSegment, open_planned
from kafkaframes.storage.log.where import filesystem_for, object_view, view_object

if TYPE_CHECKING:
    from kafkaframes.storage.copies.reading import CopySource

log = logging.getLogger("kafkaframes.storage.log")
_LEVELS = {Severity.NOTE: logging.INFO, Severity.WARNING: logging.WARNING, Severity.ERROR: logging.WARNING}
_IN_MEMORY = (bytes, bytearray, memoryview)
_TOPIC_FIELDS = {
    "topic": pa.field("topic", pa.string()),
    "partition": pa.field("partition", pa.int32()),
}
TOPIC_COLUMNS = tuple(_TOPIC_FIELDS)  # of what is read from files: whose records they are
_Piece = tuple[TopicPartition | None, pa.RecordBatch]


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

    def read_all(self) -> pa.Table:
        """Return what is left as one table: all of it in memory."""
        return pa.Table.from_batches(list(self), schema=self.schema)

    def to_pandas(self, **options: Any) -> Any:
        """Return what is left as a pandas DataFrame.

        Args:
            options: of ``pyarrow.Table.to_pandas``.
        """
        return self.read_all().to_pandas(**options)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export the remaining batches as an Arrow stream (the Arrow PyCapsule interface): polars, DuckDB, pandas."""
        reader = pa.RecordBatchReader.from_batches(self.schema, self)
        return reader.__arrow_c_stream__(requested_schema)


def read_records(
    source: Any,
    *,
    columns: Sequence[str] | None,
    mode: str,
    verify_crc: bool,
    control_records: bool,
    offsets: tuple[int | None, int | None],
    limit_bytes: int | None,
    budget_bytes: int | None = None,
    key_files: Sequence[str] = (),
    replicas: str = "merge",
    topics: Sequence[str] = (),
    follow_links: bool = False,
) -> RecordBatches:
    """Read as ``kafkaframes.read_records`` says."""
    storage: dict[str, Any] = {KEY_FILES: tuple(key_files)} | ({FOLLOW_LINKS: True} if follow_links else {})
    named = [] if isinstance(source, _IN_MEMORY) else _named(source)
    is_log = bool(topics) or any(_is_directory(path, storage) for path in named)
    default = (*TOPIC_COLUMNS, *DEFAULT_COLUMNS) if is_log else DEFAULT_COLUMNS
    wanted = _known(default if columns is None else columns, have_topics=bool(named))
    options = ReadOptions(
        columns=tuple(name for name in wanted if name not in TOPIC_COLUMNS) or DEFAULT_COLUMNS[:1],  # to count rows by
        mode=mode,
        verify_crc=verify_crc,
        rules=MEMORY if isinstance(source, _IN_MEMORY) else FILE,
        control_records=control_records,
        first_offset=offsets[0],
        end_offset=offsets[1],
    )
    if limit_bytes is not None:
        options = options._replace(limit_bytes=limit_bytes)
    if budget_bytes is not None:
        options = options._replace(budget_bytes=budget_bytes)
    errors: list[ReadError] = []
    batches = _in_memory(source, options.checked(), errors)
    if replicas not in ("merge", "all"):
        raise OptionError(f"replicas is merge or all, not {replicas!r}")
    if options.rules == MEMORY:
        return RecordBatches(batches, options.schema, errors)
    paths = named if is_log else _paths(source, storage)
    if is_log or (replicas == "merge" and _are_copies(paths)):
        pieces = _in_log(paths, options, errors, storage, topics=topics, merge=replicas == "merge")
    else:
        pieces = _in_files(paths, options, errors, storage)
    schema = pa.schema([_TOPIC_FIELDS.get(name) or options.schema.field(name) for name in wanted])
    return RecordBatches((with_topic(batch, of, schema.names) for of, batch in pieces), schema, errors)


def _named(source: Any) -> list[str]:
    return [os.fspath(path) for path in ([source] if isinstance(source, str | os.PathLike) else source)]


def _is_directory(path: str, storage: Mapping[str, Any]) -> bool:
    """Say whether a path is read as a log: a directory, or a pattern, which may match some."""
    plain = plain_path(path)
    found = None if VIEW_MARK in plain else filesystem_for(plain, options=storage).stat(plain)
    return has_magic(plain) if found is None else found.is_directory


def _known(columns: Sequence[str], *, have_topics: bool) -> tuple[str, ...]:
    """Return the columns.

    Raises:
        OptionError: one does not exist; the nearest is named.
    """
    known = (*COLUMNS, *TOPIC_COLUMNS) if have_topics else tuple(COLUMNS)
    for name in columns:
        if name not in known:
            near = difflib.get_close_matches(str(name), known, n=1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            raise OptionError(f"no column {name!r}: {hint}there are {', '.join(known)}")
    return tuple(columns)


def with_topic(batch: pa.RecordBatch, of: TopicPartition | None, columns: Sequence[str]) -> pa.RecordBatch:
    """Return the wanted columns of a batch, with ``topic`` and ``partition`` if they are among them."""
    if not any(name in TOPIC_COLUMNS for name in columns):
        return batch
    topic, partition = (None, None) if of is None else (of.topic, of.partition)
    made = {
        "topic": repeated(topic, pa.string(), batch.num_rows),
        "partition": repeated(partition, pa.int32(), batch.num_rows),
    }
    chosen = {name: made[name] if name in made else batch.column(name) for name in columns}
    fields = [_TOPIC_FIELDS.get(name) or batch.schema.field(name) for name in columns]
    return pa.RecordBatch.from_arrays(list(chosen.values()), schema=pa.schema(fields))


def _in_memory(source: Any, options: ReadOptions, errors: list[ReadError]) -> Iterator[pa.RecordBatch]:
    yield from RecordReader(Memory(as_array(source)), options, errors=errors)


def _in_files(
    paths: list[str], options: ReadOptions, errors: list[ReadError], storage: Mapping[str, Any]
) -> Iterator[_Piece]:
    for path in paths:
        name = DirectoryName.parse(split(split(path)[0])[1])
        of = None if name is None else name.topic_partition
        with open_planned(path, options=storage) as segment:
            yield from ((of, batch) for batch in _in_segment(segment, options, errors))


def _in_segment(
    segment: OpenSegment,
    options: ReadOptions,
    errors: list[ReadError],
    *,
    start: int = 0,
    end: int | None = None,
) -> Iterator[pa.RecordBatch]:
    def lose(gap: Gap) -> None:
        errors.append(_error_of(segment.path, gap.damage))

    for run in segment.runs(start=start, end=end, mode=options.mode, on_gap=lose):
        reader = RecordReader(segment.source, options, errors=errors, start=run.start, end=end)
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


def _in_log(
    paths: list[str],
    options: ReadOptions,
    errors: list[ReadError],
    storage: Mapping[str, Any],
    *,
    topics: Sequence[str],
    merge: bool,
) -> Iterator[_Piece]:
    """Read log directories, or segments of several copies, partition by partition; copies as one log, or each."""
    from kafkaframes.storage.copies.one_log import copies_of
    from kafkaframes.storage.copies.reading import group
    from kafkaframes.storage.log.discover import discover
    from kafkaframes.storage.log.selection import selected

    directories = selected(discover([view_object(path) for path in paths], options=storage), topics)
    named = {plain_path(path).rstrip("/") for path in paths}
    named |= {split(path)[0] for path in named if path.endswith(".log")}
    whole = [
        one
        for one in copies_of(directories, named)
        if topics or one.partition.topic not in INTERNAL_TOPICS or one.partition.directory in named
    ]
    groups = group(whole).values() if merge else [[one] for one in whole]
    for copies in groups:
        of = copies[0].partition.topic_partition
        yield from ((of, batch) for batch in _in_partition(copies, options, errors, storage))


def _in_partition(
    copies: Sequence[CopySource], options: ReadOptions, errors: list[ReadError], storage: Mapping[str, Any]
) -> Iterator[pa.RecordBatch]:
    """Read the one copy of a partition, or several as one log; nothing below the log's start."""
    from kafkaframes.storage.copies.one_log import merge_copies

    if len(copies) == 1:
        partition = copies[0].partition
        bounded = _from_offset(options, partition.log_start_offset)
        for path in (segment.path for segment in partition.segments):
            with open_planned(path, options=storage) as segment:
                yield from _in_segment(segment, bounded, errors)
        return
    merged = merge_copies(copies, check=True, scan=True)
    for decision in merged.decisions:
        log.log(_LEVELS[decision.severity], "%s", decision)
    for path, damage in merged.lost_chunks():
        if options.mode == "FAILFAST":
            raise damage
        errors.append(_error_of(path, damage))
    least = max(merged.start_offset, options.first_offset or 0)
    for piece in merged.spans:
        bounded = options._replace(first_offset=least) if piece.first_offset < least else options
        path, at = merged.segment(piece.at).path, piece.at
        with open_planned(path, at.end, options=storage) as segment:
            yield from _in_segment(segment, bounded, errors, start=at.start, end=at.end)


def _from_offset(options: ReadOptions, start_offset: int) -> ReadOptions:
    """Return options that leave out what lies below the log's start."""
    least = max(start_offset, options.first_offset or 0)
    return options._replace(first_offset=least) if least else options


def _paths(source: Any, storage: Mapping[str, Any]) -> list[str]:
    return [object_view(path, options=storage) for path in _named(source)]


def read_batches(source: Any, *, key_files: Sequence[str] = ()) -> pa.Table:
    """Read as ``kafkaframes.read_batches`` says."""
    if isinstance(source, _IN_MEMORY):
        return batches_table(Memory(as_array(source)), rules=MEMORY)
    tables, storage = [], {KEY_FILES: tuple(key_files)}
    for path in _paths(source, storage):
        with open_planned(path, options=storage) as segment:
            table = batches_table(segment.source, rules=FILE)
            damage = segment.take_damage()
        if damage is not None:
            raise damage
        tables.append(table.add_column(0, "file", pa.array([printable(path)] * table.num_rows, pa.string())))
    if len(tables) == 1:
        return tables[0]
    return pa.concat_tables(table.replace_schema_metadata(None) for table in tables)
