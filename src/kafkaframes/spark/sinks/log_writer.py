"""``df.write.format("kafka-log")``, which writes rows to a log directory that a broker can open (``restore/writing``).

Spark calls ``writer`` once, in a planner process on the driver's machine. Spark calls ``write`` in a worker for each
task, possibly more than once. Finally, Spark calls ``commit`` with the results of all tasks, or ``abort``, on the
driver's machine. A task writes to its own directory inside a staging directory next to the log. The staging directory
is always removed at the end, unless the driver itself is killed.
"""

from __future__ import annotations

import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.restore.writing import RunCommitter, RunWriter, TargetState, WriteSettings, WrittenRun
from kafkaframes.spark.runtime.worker import hide_tracebacks
from kafkaframes.spark.sinks.columns import COLUMN_TYPES, check_columns, map_column_types
from kafkaframes.storage.files import atomic
from kafkaframes.wire.primitives import uuid_to_text

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

STAGING_DIRECTORY = ".kafkaframes-staging"


@dataclass
class TaskRunResult(WriterCommitMessage):
    """The result of a write task; for a stream, also the id of its query."""

    task: int
    runs: list[WrittenRun]
    query_id: str = ""


@hide_tracebacks
class KafkaLogWriter(DataSourceArrowWriter):
    """A Spark batch writer for log directories. Spark pickles it for each task and for the commit."""

    def __init__(self, path: str, values: Mapping[str, Any], schema: StructType, *, overwrite: bool) -> None:
        self.target, self.settings = inspect_target(path, values, schema, overwrite=overwrite)
        self.overwrite = overwrite
        top = Path(self.target.path)
        self.staging = str(top.with_name(f"{top.name}{STAGING_DIRECTORY}-{uuid.uuid4().hex}"))
        with atomic.name_path_in_errors(Path(self.staging)):
            Path(self.staging).mkdir(parents=True)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task as runs, which are files of consecutive batches of one partition."""
        context = TaskContext.get()
        number = context.partitionId() if context else 0
        directory = Path(self.staging) / f"task-{number:06}-{uuid.uuid4().hex}"
        with atomic.name_path_in_errors(directory):
            directory.mkdir()
        return TaskRunResult(number, write_runs(iterator, directory, self.settings, task=number))

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Append all runs to the log. The runs of a partition are in task order."""
        runs = [run for entry in sort_by_task(messages) for run in entry.runs]
        try:
            check_files_visible(runs)
            RunCommitter(self.target, self.settings, self.overwrite, create_topic_id, run_in_threads).commit(runs)
        finally:
            shutil.rmtree(self.staging, ignore_errors=True)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Remove the files of the tasks."""
        shutil.rmtree(self.staging, ignore_errors=True)


def inspect_target(
    path: str, values: Mapping[str, Any], schema: StructType, *, overwrite: bool
) -> tuple[TargetState, WriteSettings]:
    """Inspect the target log, and check the columns against the settings."""
    target = TargetState.inspect_target(path)
    counts = {} if overwrite else dict(target.counts)
    settings = WriteSettings(now_ms=time.time_ns() // 1_000_000, partitions=counts, **values)
    check_columns(map_column_types(schema), settings)
    return target, settings


def sort_by_task(messages: Sequence[WriterCommitMessage | None]) -> list[TaskRunResult]:
    """Return the results of the tasks in task order."""
    return sorted((entry for entry in messages if isinstance(entry, TaskRunResult)), key=lambda entry: entry.task)


def write_runs(
    rows: Iterable[pa.RecordBatch], directory: Path, settings: WriteSettings, *, task: int
) -> list[WrittenRun]:
    """Write the rows of a task to a separate directory, which is removed if the write fails."""
    try:
        writer = RunWriter(directory, settings, task=task)
        for batch in rows:
            writer.add_rows(_select_record_columns(batch))
        return writer.finish()
    except BaseException:
        shutil.rmtree(directory, ignore_errors=True)
        raise


def _select_record_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns to write. Columns with only nulls are dropped."""
    names = [field.name for field in rows.schema if field.name in COLUMN_TYPES and not pa.types.is_null(field.type)]
    return rows.select(names)


def check_files_visible(runs: Iterable[WrittenRun]) -> None:
    """Check that the files of the tasks are visible on this machine.

    Raises:
        LogDirError: Workers and driver do not share the directory.
    """
    for run in runs:
        path = Path(run.path)
        if not path.exists() or path.stat().st_size != run.size_bytes:
            reason = (
                "differs from the file that a task wrote; workers and driver must see the same files at the output path"
            )
            raise LogDirError(reason, file=run.path)


def run_in_threads(function: Callable[[Any], Any], tasks: Sequence[Any]) -> list[Any]:
    """Run the tasks of a commit in parallel threads. The tasks release the GIL to copy files, and wait for the disk."""
    if len(tasks) < 2:
        return [function(task) for task in tasks]
    with ThreadPoolExecutor(min(len(tasks), 4 * (os.cpu_count() or 1))) as pool:
        return list(pool.map(function, tasks))


def create_topic_id() -> str:
    """Return a random topic id: 22 characters of URL-safe base64."""
    return uuid_to_text(uuid.uuid4())
