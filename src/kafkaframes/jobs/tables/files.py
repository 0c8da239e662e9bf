"""Write one Parquet data file of a table from neighboring parts of a topic partition. Workers run this code.

A part is a slice of a segment, or an offset range of a live topic partition, which the kafkaframes client fetches. The
file has its final name from the start, because readers ignore it until a commit refers to it. Each attempt writes its
own file, because Spark may start a task again while an earlier attempt is still running.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.jobs.export.task import (
    ExportTask,
    ExportTaskSettings,
    SegmentResult,
    check_file_rows,
    raise_destination_errors,
)
from kafkaframes.jobs.export.topic_task import TopicTask
from kafkaframes.jobs.export.writers import OutputFile, to_output_rows
from kafkaframes.jobs.tables.content import OUT_OF_RANGE_TIMESTAMPS_FIELD, RAW_CONTENT, TableContent
from kafkaframes.records.memory import Recycler, borrow_memory
from kafkaframes.records.scan import BatchHeaders
from kafkaframes.scan.arrow import OUT_OF_RANGE_TIMESTAMPS_COLUMN, separate_instants
from kafkaframes.scan.values.columns import REASON_COLUMN
from kafkaframes.storage.files.filesystem import join, split_path

BOUNDED_COLUMNS = ("offset", "timestamp")  # columns whose smallest and largest values a commit needs


@dataclass(frozen=True, slots=True)
class DeadLetterDirectory:
    """The directory for records that cannot be converted to rows.

    Attributes:
        directory: local path or URL of the directory.
        first_offset: first offset that the dead-letter table does not have yet.
        names_inside: whether the file has columns for topic and partition.
    """

    directory: str
    first_offset: int
    names_inside: bool


@dataclass(frozen=True, slots=True)
class DataFileJob:
    """A data file to write.

    Attributes:
        directory: local path or URL of the file's directory.
        run: name of the run that writes the file. The file's name ends with it.
        tasks: tasks of one topic partition, in offset order.
        settings: settings that select the records to export.
        names_inside: whether the file has columns for topic and partition.
        content: kind of rows to write.
        dead: directory for records that cannot be converted to rows; None makes them an error.
    """

    directory: str
    run: str
    tasks: tuple[ExportTask, ...]
    settings: ExportTaskSettings
    names_inside: bool = False
    content: TableContent = RAW_CONTENT
    dead: DeadLetterDirectory | None = None

    @property
    def size_bytes(self) -> int:
        """The number of log bytes to read."""
        return sum(task.bytes_to_read for task in self.tasks)

    @property
    def topic_partition(self) -> tuple[str, int]:
        """The topic partition of the records."""
        return self.tasks[0].topic, self.tasks[0].partition

    def make_path(self, directory: str) -> str:
        """Return a unique path for the file of one task attempt.

        The file name starts with the first offset that the file may have.
        """
        first = max(self.tasks[0].base_offset, self.tasks[0].first_offset or 0)
        return join(directory, f"{first:020}-{uuid.uuid4().hex[:8]}-{self.run}.parquet")


@dataclass(slots=True)
class DataFile:
    """The result of writing a data file.

    Attributes:
        path: path of the file; empty if no record was selected and no file was written.
        results: one result for each segment that was read. Only the last result can be a failure.
        end_offset: offset after the last batch that was read; None if no batch was read.
        size_bytes, records: size of the file and number of its records.
        bounds: (minimum, maximum, null count) of each column in ``BOUNDED_COLUMNS``, with timestamps in microseconds.
        dead: file of records that could not be converted to rows; None if there are none.
        has_out_of_range_timestamps: whether the file has the column ``OUT_OF_RANGE_TIMESTAMPS_COLUMN``.
    """

    job: DataFileJob
    results: list[SegmentResult]
    path: str = ""
    end_offset: int | None = None
    size_bytes: int = 0
    records: int = 0
    bounds: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    dead: DataFile | None = None
    has_out_of_range_timestamps: bool = False

    @property
    def failed(self) -> bool:
        """Whether a segment could not be read. Later segments of the partition are then left to the next run."""
        return bool(self.results) and self.results[-1].failed is not None


class _EndOffsetObserver:
    """Observes a segment's batches before they are decoded, to find their end offset."""

    def __init__(self) -> None:
        self.end_offset: int | None = None

    def __call__(self, batches: BatchHeaders) -> None:
        end_offset = int(batches.column("last_offset").max(initial=-1)) + 1
        self.end_offset = max(end_offset, self.end_offset or 0)


def write_data_file(job: DataFileJob) -> DataFile:
    """Write one file. If a segment cannot be read, the file has the records before it, and later segments are omitted.

    Raises:
        OptionError: the destination cannot be written.
    """
    with raise_destination_errors(job.settings.to):
        failed_results: list[SegmentResult] = []
        tasks = job.tasks
        while tasks:
            written_files = _write_attempt(job, tasks)
            if not written_files.failed:
                written_files.results += failed_results
                return written_files
            failed_results = written_files.results[-1:]
            tasks = tasks[: len(written_files.results) - 1]
        return DataFile(job, failed_results)


class _OutputFiles:
    """The files of one attempt: one for rows, one for records that cannot be converted to rows."""

    def __init__(self, job: DataFileJob) -> None:
        self.path = job.make_path(job.directory)
        self.dead_path = "" if job.dead is None else job.make_path(job.dead.directory)
        metadata = {"topic": job.tasks[0].topic}
        plain = job.names_inside  # pyiceberg warns about each Arrow dictionary type
        self.good = OutputFile(self.path, "parquet", base64=False, metadata=metadata, plain_types=plain)
        self.dead = OutputFile(self.dead_path, "parquet", base64=False, metadata=metadata, plain_types=plain)
        self.bad_rows = 0
        self._job = job

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Write a batch of records."""
        job = self._job
        valid_rows, rejected_rows = job.content.split_by_validity(to_table_rows(batch, headers=job.settings.headers))
        self.good.write_rows(
            _add_partition_columns(valid_rows, job.topic_partition) if job.names_inside else valid_rows
        )
        if rejected_rows is None:
            return
        self.bad_rows += rejected_rows.num_rows
        if job.dead is None:
            raise OptionError(
                f"{job.topic_partition[0]}: a record cannot be converted to a row: "
                f"{rejected_rows.column(REASON_COLUMN)[0]}"
            )
        new_rows = rejected_rows.filter(pc.greater_equal(rejected_rows.column("offset"), job.dead.first_offset))
        if new_rows.num_rows and not self.dead.is_created:
            _make_directory(job.dead.directory)
        self.dead.write_rows(
            _add_partition_columns(new_rows, job.topic_partition) if job.dead.names_inside else new_rows
        )

    def remove_files(self) -> None:
        """Remove both files."""
        remove_file(self.path)
        if self.dead_path:
            remove_file(self.dead_path)


def _write_attempt(job: DataFileJob, tasks: tuple[ExportTask, ...]) -> DataFile:
    """Write the segments of these tasks. If one task fails, all files are removed."""
    data_file, sinks = DataFile(job, []), _OutputFiles(job)
    _make_directory(job.directory)
    try:
        with sinks.good, sinks.dead, borrow_memory() as memory:
            for task in tasks:
                data_file.results.append(SegmentResult(task))
                _copy_records(data_file, job, sinks.write_batch, memory)
        check_file_rows(sinks.good.rows + sinks.bad_rows, data_file.results, where=tasks[0].path)
    except (LogDirError, CorruptRecordError) as error:
        sinks.remove_files()
        data_file.results[-1] = SegmentResult(tasks[len(data_file.results) - 1], failed=str(error))
        return data_file
    except BaseException:
        sinks.remove_files()
        raise
    _set_file_facts(data_file, sinks.good, sinks.path)
    if sinks.dead.footer is not None:
        data_file.dead = DataFile(job, [])
        _set_file_facts(data_file.dead, sinks.dead, sinks.dead_path)
    return data_file


def _set_file_facts(data_file: DataFile, output: OutputFile, path: str) -> None:
    """Set the properties of a closed file that a commit needs: size, records and bounds."""
    if (footer := output.footer) is not None:
        data_file.path, data_file.size_bytes, data_file.records, data_file.bounds = (
            path,
            _read_file_size(path),
            footer.num_rows,
            _read_bounds(footer),
        )
        data_file.has_out_of_range_timestamps = OUT_OF_RANGE_TIMESTAMPS_COLUMN in footer.schema.names


def _copy_records(
    data_file: DataFile, job: DataFileJob, write: Callable[[pa.RecordBatch], None], memory: Recycler
) -> None:
    """Copy the records of the job's last task to ``write``, and set the file's end offset."""
    result = data_file.results[-1]
    observer, limit = _EndOffsetObserver(), result.task.end_offset
    result.task.copy_records(result, job.settings, write, memory=memory, observe_batches=observer)
    if isinstance(result.task, TopicTask):  # offsets without records, such as those of markers, are part of the range
        data_file.end_offset = limit
    elif observer.end_offset is not None:
        end_offset = observer.end_offset if limit is None else min(observer.end_offset, limit)
        data_file.end_offset = max(end_offset, data_file.end_offset or 0)


def to_table_rows(batch: pa.RecordBatch, *, headers: bool) -> pa.RecordBatch:
    """Return records with the table's columns. Timestamps are converted to microseconds."""
    rows = to_output_rows(batch, headers=headers)
    names = ("offset", "timestamp", "timestampType", "key", "value", "headers")
    columns: dict[str, Any] = {name: rows.column(name) for name in names if name in rows.schema.names}
    columns["timestamp"], far_times = separate_instants(columns["timestamp"])
    if far_times is not None:
        columns[OUT_OF_RANGE_TIMESTAMPS_COLUMN] = far_times
    return pa.RecordBatch.from_pydict(columns)


def _add_partition_columns(rows: pa.RecordBatch, name: tuple[str, int]) -> pa.RecordBatch:
    """Return rows with columns for topic and partition."""
    # Looking up a name for each row took a third of the extra cost of Iceberg compared to Delta.
    is_present = pa.array(np.zeros(rows.num_rows, np.int32))
    columns: dict[str, Any] = {
        "topic": pa.DictionaryArray.from_arrays(is_present, pa.array([name[0]], pa.string())),
        "partition": pa.repeat(pa.scalar(name[1], pa.int32()), rows.num_rows),
    }
    return pa.RecordBatch.from_pydict(
        columns | {column_name: rows.column(column_name) for column_name in rows.schema.names}
    )


def _read_bounds(footer: Any) -> dict[str, tuple[int, int, int]]:
    """Return the bounds of columns from the statistics of all row groups. Readers use them to skip files."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    indexes = {groups[0].column(index).path_in_schema: index for index in range(footer.num_columns)}
    result = {}
    for name in BOUNDED_COLUMNS:
        parts = [group.column(indexes[name]).statistics for group in groups]
        bounds_by_group = [part for part in parts if part is not None and part.has_min_max]
        null_count = sum(part.null_count for part in parts if part is not None)
        if bounds_by_group and len(parts) == sum(part is not None for part in parts):
            result[name] = (
                min(part.min_raw for part in bounds_by_group),
                max(part.max_raw for part in bounds_by_group),
                null_count,
            )
    return result


def add_out_of_range_column(columns: pa.Schema, files: Iterable[DataFile]) -> pa.Schema:
    """Return the columns of a commit, with ``OUT_OF_RANGE_TIMESTAMPS_COLUMN`` if one of the files has it."""
    return (
        columns.append(OUT_OF_RANGE_TIMESTAMPS_FIELD)
        if any(file.has_out_of_range_timestamps for file in files)
        else columns
    )


def _make_directory(path: str) -> None:
    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)


def _read_file_size(path: str) -> int:
    """Return the size of a local or remote file, in bytes."""
    if "://" not in path:
        return os.path.getsize(path)
    return int(_open_store(path).info(path)["size"])


def discard_files(paths: Iterable[str], *, keep: Iterable[str]) -> None:
    """Delete data files except those in ``keep``, even if a commit has already moved them. File names are unique."""
    kept_names = {split_path(path)[1] for path in keep}
    for path in sorted(paths):
        if split_path(path)[1] not in kept_names:
            remove_file(path)


def remove_file(path: str) -> None:
    """Delete a file that is not part of a commit. A missing file is not an error."""
    if "://" not in path:
        Path(path).unlink(missing_ok=True)
        return
    store = _open_store(path)
    if store.exists(path):
        store.rm_file(path)


def _open_store(path: str) -> Any:
    """Return the fsspec file system of a URL, without cached listings."""

    import fsspec

    store, _ = fsspec.core.url_to_fs(path)
    store.invalidate_cache()
    return store
