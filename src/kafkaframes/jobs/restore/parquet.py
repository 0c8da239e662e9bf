"""Restore from Parquet files of ``kafkaframes export``, or from any files with topic, partition and value.

The rows of a partition are read file by file in offset order, in batches of some megabytes (``parquet_rows.py``). If
files or rows are in another order, the partition is sorted in memory, up to a limit
(``spark/dataframes/restore.py`` sorts larger partitions).
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafkaframes.errors import EncodeError, LogDirError, OptionError
from kafkaframes.jobs.attempts import AttemptResult, begin_attempt, move_attempt
from kafkaframes.jobs.job import Runner, run_here, run_once, settings_as_json
from kafkaframes.jobs.restore.completion import DirectoryCompleter
from kafkaframes.jobs.restore.groups import SourceGroups
from kafkaframes.jobs.restore.parquet_rows import read_column_names, read_rows
from kafkaframes.jobs.restore.partition import RestoredPartition, RestoreReport
from kafkaframes.jobs.restore.plan import NewId, check_topic_name
from kafkaframes.jobs.restore.rows_writer import RowsWriter
from kafkaframes.jobs.restore.settings import RestoreSettings
from kafkaframes.jobs.restore.source import SourceMetadata
from kafkaframes.jobs.row_counts import check_row_counts
from kafkaframes.records.limits import DEFAULT_BUDGET_BYTES, current_budget
from kafkaframes.scan.arrow import OUT_OF_RANGE_TIMESTAMPS_COLUMN, merge_out_of_range_timestamps
from kafkaframes.scan.ranges import expand_bound
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.batch_builder import COLUMNS
from kafkaframes.wire.integers import MAX_INT32

SORT_MEMORY_FACTOR = 8  # memory limit for sorting a partition, in multiples of the budget
MAX_SORTED_BYTES = MAX_INT32  # limit of an Arrow column
_HIVE_PARTITIONING = ds.partitioning(pa.schema([("topic", pa.string()), ("partition", pa.int32())]), flavor="hive")
_READ_COLUMNS = (*COLUMNS, "timestampType", "timestamp_type", OUT_OF_RANGE_TIMESTAMPS_COLUMN)


@dataclass(frozen=True, slots=True, kw_only=True)
class ParquetTask:
    """One partition to restore from Parquet. Tasks are picklable.

    Attributes:
        target, source: topic partition in the new log, and its topic partition in the files.
        files: files with rows of the partition, in order of their first offsets.
        is_hive: whether topic and partition are in the files' paths.
        rows: number of the partition's rows in the files, as counted during planning.
        budget_bytes: approximate memory limit for reading, in bytes.
    """

    target: TopicPartition
    source: TopicPartition
    files: tuple[str, ...]
    is_hive: bool
    directory: str
    topic_id: str
    settings: RestoreSettings
    size_bytes: int = 0
    rows: int = 0
    budget_bytes: int = DEFAULT_BUDGET_BYTES


def restore_parquet(
    source: str,
    destination: str | Path,
    settings: RestoreSettings,
    *,
    now_ms: int,
    new_id: NewId,
    run: Runner = run_here,
    dry_run: bool = False,
) -> RestoreReport:
    """Restore records from Parquet files into ``destination``, a directory that does not exist yet.

    Args:
        source: local path or URL of a file or directory. The required column is ``value`` (binary or string). ``key``,
            ``headers``, ``timestamp``, ``timestampType`` and ``offset`` are optional. ``topic`` and ``partition`` are
            columns, or are in the path (``topic=T/partition=P/``).
        destination: output directory.
        settings: settings that select the records to restore, and the form of the new log.
        now_ms, new_id, run, dry_run: as in ``job.restore_segments``.

    Raises:
        LogDirError: a file cannot be read or written, or the destination exists. Incomplete output is removed.
        EncodeError: a value is out of range, or an offset occurs twice.
        OptionError: a column is missing, or no row is selected.
    """
    table = _ParquetSource(source if "://" in source else str(Path(source).absolute()), settings)
    targets = {
        topic_partition: TopicPartition(settings.rename_topic(topic_partition.topic), topic_partition.partition)
        for topic_partition in sorted(table.by_partition)
        if settings.selects_topic(topic_partition.topic, is_internal=topic_partition.topic.startswith("__"))
        and (not settings.partition_numbers or topic_partition.partition in settings.partition_numbers)
    }
    if not targets:
        raise OptionError(f"nothing to restore: {source} has no selected rows")
    for setting, limit in zip(("start", "end"), settings.selection.log_range, strict=True):
        expand_bound(
            setting, limit, {(topic_partition.topic, topic_partition.partition) for topic_partition in targets}
        )
    report = RestoreReport([source], str(destination), settings_as_json(settings), table.fingerprint, dry_run=dry_run)
    topic_ids = dict(settings.topic_ids)
    for topic in sorted({target.topic for target in targets.values()}):
        check_topic_name(topic)
        report.topic_ids[topic] = topic_ids.get(topic) or new_id()
    if dry_run:
        report.partitions = [
            RestoredPartition(
                target.topic, target.partition, bytes_read=table.estimate_partition_bytes(topic_partition)
            )
            for topic_partition, target in targets.items()
        ]
        return report

    def write(directory: Path) -> None:
        tasks = [
            table.make_task(topic_partition, target, directory, report.topic_ids[target.topic])
            for topic_partition, target in targets.items()
        ]
        for task, attempt in zip(tasks, run(restore_task, tasks), strict=True):
            move_attempt(attempt.path, directory / str(task.target))
            report.partitions.append(attempt.result)
        complete_directory(directory, report, settings, now_ms=now_ms, new_id=new_id)

    return run_once(report, write)


def complete_directory(
    directory: Path, report: RestoreReport, settings: RestoreSettings, *, now_ms: int, new_id: NewId
) -> None:
    """Write all files outside the partition directories. The report lists the partitions."""
    report.partitions.sort(key=lambda partition: (partition.topic, partition.partition))
    DirectoryCompleter(settings, report, SourceMetadata(), now_ms=now_ms, new_id=new_id).write_files(
        directory, {}, SourceGroups()
    )


def restore_task(task: ParquetTask) -> AttemptResult[RestoredPartition]:
    """Write one partition's directory, as an attempt in ``task.directory``.

    Raises:
        LogDirError: a file cannot be read or written.
        EncodeError: a value is out of range. The message has the partition.
    """
    with begin_attempt(task.directory, str(task.target)) as directory:
        writer = RowsWriter(directory, task.target, task.settings, topic_id=task.topic_id, source=task.source)
        try:
            for rows in _read_in_order(task):
                writer.add_rows(rows)
            report = writer.close()
            check_row_counts(task.rows, report.records_read, {}, where=f"{task.source} in {task.files[0]}")
            return AttemptResult(str(directory), report)
        except EncodeError as error:
            error.file = f"{task.source} in {task.files[0]}"
            raise
        finally:
            writer.discard_unfinished_file()


# ------------------------------------------------------------------------------------------------------------- reading


class _ParquetSource:
    """The Parquet files of a source, and the topic partitions in each file."""

    def __init__(self, source: str, settings: RestoreSettings) -> None:
        self._settings = settings
        with name_path_in_errors(source):
            plain = ds.dataset(source, format="parquet")
            self.is_hive = any("/topic=" in path for path in plain.files)
            self._dataset = ds.dataset(
                source, format="parquet", partitioning=_HIVE_PARTITIONING if self.is_hive else None
            )
            check_columns(self._dataset.schema, settings)
            fragments = list(self._dataset.get_fragments())
            self._sizes = {fragment.path: _sum_row_group_bytes(fragment) for fragment in fragments}
            self._firsts = {fragment.path: _read_first_offset(fragment) for fragment in fragments}
            self.by_partition: dict[TopicPartition, list[str]] = {}
            self._rows: Counter[TopicPartition] = Counter()
            for fragment in fragments:
                for partition, rows in self._count_rows_by_partition(fragment).items():
                    self.by_partition.setdefault(partition, []).append(fragment.path)
                    self._rows[partition] += rows
        self._base = source

    @property
    def fingerprint(self) -> str:
        """A digest of the files' names and sizes, and of offsets if the files' footers have them."""
        file_facts = sorted((path, self._sizes[path], self._firsts[path]) for path in self._sizes)
        return hashlib.sha256(repr(file_facts).encode()).hexdigest()

    def estimate_partition_bytes(self, partition: TopicPartition) -> int:
        """Return the size of the files that contain rows of a partition."""
        return sum(self._sizes[path] for path in self.by_partition[partition])

    def make_task(self, source: TopicPartition, target: TopicPartition, directory: Path, topic_id: str) -> ParquetTask:
        """Return the task that restores a partition."""
        paths = sorted(self.by_partition[source], key=lambda path: (self._firsts[path], path))
        return ParquetTask(
            target=target,
            source=source,
            files=tuple(_make_full_path(self._base, path) for path in paths),
            is_hive=self.is_hive,
            directory=str(directory),
            topic_id=topic_id,
            settings=self._settings,
            size_bytes=self.estimate_partition_bytes(source),
            rows=self._rows[source],
            budget_bytes=current_budget(),
        )

    def _count_rows_by_partition(self, fragment: Any) -> dict[TopicPartition, int]:
        """Return the number of a file's rows by partition."""
        keys = ds.get_partition_keys(fragment.partition_expression) if self.is_hive else {}
        if {"topic", "partition"} <= keys.keys():
            return {_parse_topic_partition(keys["topic"], keys["partition"], fragment.path): fragment.count_rows()}
        counts: Counter[TopicPartition] = Counter()
        for batch in fragment.to_batches(columns=["topic", "partition"], schema=self._dataset.schema):
            names = pa.Table.from_arrays([_decode_dictionary(column) for column in batch.columns], batch.schema.names)
            row_counts = names.group_by(["topic", "partition"]).aggregate([([], "count_all")])
            for row in row_counts.to_pylist():
                counts[_parse_topic_partition(row["topic"], row["partition"], fragment.path)] += row["count_all"]
        return dict(sorted(counts.items()))


def check_columns(schema: pa.Schema, settings: RestoreSettings) -> None:
    """Check that a table has the columns of records, with the right types.

    The types of columns are checked instead of their values, because a number that is not an integer (1.5 in a column
    of doubles) would silently go to another partition, or be lost.

    Raises:
        OptionError: a column is missing or has the wrong type. The message names the column.
    """
    column_names = set(schema.names)
    missing_columns = [name for name in ("topic", "partition", "value") if name not in column_names]
    if settings.has_offset_range and "offset" not in column_names:
        missing_columns.append("offset")
    if settings.has_time_range and "timestamp" not in column_names:
        missing_columns.append("timestamp")
    if missing_columns:
        raise OptionError(f"no column {', '.join(missing_columns)}; the columns are {', '.join(sorted(column_names))}")
    for name, (fits, expected_types) in _COLUMN_TYPES.items():
        if name not in column_names:
            continue
        column_type = schema.field(name).type
        value_type = column_type.value_type if pa.types.is_dictionary(column_type) else column_type
        if not pa.types.is_null(value_type) and not any(type_fits(value_type) for type_fits in fits):
            raise OptionError(f"column {name} has type {column_type}, expected {expected_types}; cast it")


_INTEGER_TYPES = ((pa.types.is_integer,), "an integer")
_TEXT_TYPES = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_BYTES_TYPES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_binary_view, pa.types.is_fixed_size_binary)
_PAYLOAD_TYPES = ((*_TEXT_TYPES, *_BYTES_TYPES), "binary or string")
_COLUMN_TYPES: dict[str, tuple[tuple[Callable[[pa.DataType], bool], ...], str]] = {
    "topic": (_TEXT_TYPES, "string"),
    "partition": _INTEGER_TYPES,
    "offset": _INTEGER_TYPES,
    "timestamp": ((pa.types.is_integer, pa.types.is_timestamp), "a timestamp, or milliseconds"),
    "key": _PAYLOAD_TYPES,
    "value": _PAYLOAD_TYPES,
}


def _decode_dictionary(column: pa.Array) -> pa.Array:
    """Return a column without dictionary encoding."""
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _parse_topic_partition(topic: Any, partition: Any, path: str) -> TopicPartition:
    """Return the topic partition of the record in a row of a Parquet file."""
    if topic is None or partition is None:
        raise OptionError(
            f"{path} has rows without a topic or partition; give the topic and partition in the path or in columns"
        )
    if not 0 <= partition <= MAX_INT32:
        raise OptionError(f"{path} has rows for partition {partition}; partitions are numbered 0 to 2^31 - 1")
    return TopicPartition(str(topic), int(partition))


def _make_full_path(base: str, path: str) -> str:
    """Return a file's path with the URL scheme of its store, which ``ds.dataset`` omits from file names."""
    scheme, mark, _ = base.partition("://")
    return f"{scheme}://{path}" if mark else path


def _sum_row_group_bytes(fragment: Any) -> int:
    """Return the uncompressed size of a file's row groups, in bytes."""
    metadata = fragment.metadata
    return sum(metadata.row_group(number).total_byte_size for number in range(metadata.num_row_groups))


def _read_first_offset(fragment: Any) -> int:
    """Return the offset of a file's first row; 0 if the file has no offsets.

    The row is read instead of the statistics. If a footer's column types differ from its schema, reading raises an
    error, but asking for statistics kills the process, because Arrow's C++ throws an exception that Python cannot
    catch.
    """
    if "offset" not in fragment.physical_schema.names or not fragment.num_row_groups:
        return 0
    statistics = fragment.subset(row_group_ids=[0]).head(1, columns=["offset"], batch_size=1, use_threads=False)
    offset = statistics.column("offset")[0].as_py() if len(statistics) else 0
    return offset if isinstance(offset, int) else 0


def _read_in_order(task: ParquetTask) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield a partition's rows in offset order.

    Raises:
        OptionError: the rows are not in order, and sorting them would exceed the memory limit.
    """
    with name_path_in_errors(task.files[0]):
        if _is_ordered(task):
            yield from _read_batches(task, _READ_COLUMNS)
            return
        yield _sort_rows(task)


def _sort_rows(task: ParquetTask) -> pa.Table:
    """Return a partition's rows, sorted by offset in memory."""
    max_bytes = min(SORT_MEMORY_FACTOR * task.budget_bytes, MAX_SORTED_BYTES)
    batches, size_bytes = [], 0
    for batch in _read_batches(task, _READ_COLUMNS):
        batches.append(batch)
        size_bytes += batch.nbytes
        if size_bytes > max_bytes:
            raise OptionError(
                f"{task.source}: its rows are not sorted by offset, and sorting needs more than {max_bytes:,} "
                "bytes: increase `budget`, or use Spark (kafkaframes.spark.restore_log)"
            )
    return pa.Table.from_batches(batches).sort_by("offset")


def _is_ordered(task: ParquetTask) -> bool:
    """Return whether the offsets of a partition's rows strictly increase, or are to be assigned."""
    last = -1
    for batch in _read_batches(task, ("offset",)):
        if "offset" not in batch.schema.names:
            return True  # offsets are assigned in file order
        offsets = pc.fill_null(batch.column("offset").cast(pa.int64()), -1).to_numpy()
        if len(offsets) and (offsets[0] <= last or (np.diff(offsets) <= 0).any()):
            return False
        last = int(offsets[-1]) if len(offsets) else last
    return True


def _read_batches(task: ParquetTask, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """Yield a partition's rows, file by file."""
    has_out_of_range_timestamps = OUT_OF_RANGE_TIMESTAMPS_COLUMN in columns and any(
        OUT_OF_RANGE_TIMESTAMPS_COLUMN in read_column_names(path) for path in task.files
    )
    for path in task.files:
        topic_partition = None if task.is_hive else task.source
        batches = read_rows(path, columns, budget_bytes=task.budget_bytes, topic_partition=topic_partition)
        yield from map(merge_out_of_range_timestamps, batches) if has_out_of_range_timestamps else batches


@contextmanager
def name_path_in_errors(path: str) -> Iterator[None]:
    """Convert Arrow's errors about a file to an error that has its path."""
    try:
        yield
    except (OSError, pa.ArrowException, ValueError) as error:  # ValueError: names or statistics that are not UTF-8
        raise LogDirError(f"cannot be read as Parquet: {error}", file=path) from error
