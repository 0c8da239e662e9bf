"""``df.writeStream.format("kafka-log")``, which writes each micro-batch to a log directory exactly once.

Spark creates this writer twice for each micro-batch, in two planner processes: for the tasks, and for ``commit`` or
``abort``. The creation of a writer therefore has no side effects. Shared state is computed from the arguments, or sent
in the messages of the tasks:

* The path, the checkpoint and the batch number determine the name of the staging directory. Each attempt of a task has
  a directory in it. The commit uses the directories of the attempts that Spark reports, and removes the directories of
  all attempts.
* The messages contain the query id. The commit stores this id in the log directory together with the rows, the batch
  number and the offsets of the sources, which are read from the checkpoint (``jobs/micro_batch.py``). The sink can
  therefore recognize a batch that is repeated after its commit, and reject a different batch with the same number.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage

from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.micro_batch import StreamBatch, read_batch_offsets
from kafkaframes.jobs.restore.writing import RunCommitter
from kafkaframes.spark.runtime.micro_batches import get_micro_batch_of_task
from kafkaframes.spark.runtime.worker import hide_tracebacks
from kafkaframes.spark.sinks.log_writer import (
    STAGING_DIRECTORY,
    TaskRunResult,
    check_files_visible,
    create_topic_id,
    inspect_target,
    run_in_threads,
    sort_by_task,
    write_runs,
)
from kafkaframes.storage.files import atomic
from kafkaframes.storage.files.filesystem import get_store, join

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_QUERY_DIGEST_LENGTH: Final = 16  # in hexadecimal digits


@hide_tracebacks
class KafkaLogStreamWriter(DataSourceStreamArrowWriter):
    """A writer with which Spark writes a stream to a log directory."""

    def __init__(
        self, path: str, values: Mapping[str, Any], schema: StructType, *, overwrite: bool, checkpoint: str
    ) -> None:
        """If ``overwrite`` is set, each micro-batch replaces the whole log (output mode complete)."""
        self.target, self.settings = inspect_target(path, values, schema, overwrite=overwrite)
        self.overwrite = overwrite
        self._checkpoint = checkpoint and _normalize_path(checkpoint)
        self._query = hashlib.sha256(f"{self.target.path}\0{checkpoint}".encode()).hexdigest()[:_QUERY_DIGEST_LENGTH]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task attempt as runs."""
        context, query_id, batch_id = get_micro_batch_of_task()
        number = context.partitionId()
        directory = self._build_staging_path(batch_id) / f"{query_id}-task-{number:06}-{uuid.uuid4().hex}"
        with atomic.name_path_in_errors(directory):
            directory.mkdir(parents=True)
        return TaskRunResult(number, write_runs(iterator, directory, self.settings, task=number), query_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Append all runs to the log unless they were appended before. The runs of a partition are in task order."""
        tasks = sort_by_task(messages)
        runs = [run for entry in tasks for run in entry.runs]
        if runs or (self.overwrite and tasks):
            check_files_visible(runs)
            batch = self._identify_batch(tasks[0].query_id, batchId)
            RunCommitter(self.target, self.settings, self.overwrite, create_topic_id, run_in_threads, batch).commit(
                runs
            )
        self._remove_task_files(tasks, batchId)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 (Spark's name)
        """Remove the files of the tasks."""
        self._remove_task_files(sort_by_task(messages), batchId)

    def _identify_batch(self, query_id: str, batch_id: int) -> StreamBatch:
        """Return the identity of a micro-batch, including offsets if this machine can read the checkpoint."""
        begins, ends = read_batch_offsets(self._read_checkpoint_file, batch_id) if self._checkpoint else (None, None)
        return StreamBatch(query_id, batch_id, self._checkpoint, begins=begins, ends=ends)

    def _read_checkpoint_file(self, name: str) -> str | None:
        """Return the text of a checkpoint file; None if this machine cannot read it."""
        try:
            return get_store(self._checkpoint).read(join(self._checkpoint, name)).decode()
        except (KafkaframesError, UnicodeDecodeError):
            return None

    def _build_staging_path(self, batch_id: int | str) -> Path:
        """Return the directory for the files of a micro-batch's tasks."""
        top = Path(self.target.path)
        return top.with_name(f"{top.name}{STAGING_DIRECTORY}-stream-{self._query}-{batch_id}")

    def _remove_task_files(self, tasks: Iterable[TaskRunResult], batch_id: int) -> None:
        """Remove the files of all attempts of this batch and of earlier batches, including those unknown to Spark.

        Without the option ``checkpointLocation``, two queries that write to one path share a staging directory. If a
        task has reported the query id, it distinguishes the files of these queries.
        """
        query_prefix = next((f"{task.query_id}-" for task in tasks), "")
        prefix = self._build_staging_path("").name
        parent = Path(self.target.path).parent
        for name in os.listdir(parent) if parent.is_dir() else ():
            number = name.removeprefix(prefix)
            if name == number or not number.isdigit() or int(number) > batch_id:
                continue
            for attempt in (parent / name).iterdir():
                if attempt.name.startswith(query_prefix):
                    shutil.rmtree(attempt, ignore_errors=True)
            with suppress(OSError):  # the directory still contains files of another query
                (parent / name).rmdir()


def _normalize_path(checkpoint: str) -> str:
    """Return the normalized path of a checkpoint."""
    path = checkpoint.removeprefix("file://").removeprefix("file:")
    return path if "://" in path else str(Path(path).resolve())
