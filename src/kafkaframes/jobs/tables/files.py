"""Write one data file of a table: neighbouring parts of one topic partition, as Parquet. The work of a worker.

The file has its final name from the beginning: until a commit names it, no reader of the table looks at it. Each
attempt writes a file of its own: Spark may start a task a second time while the first is still running somewhere.

A part is one of a segment, or a stretch of a live topic partition, which our own client fetches.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.client.stretch import Stretch
from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.jobs.export.tally import SOURCE_COLUMNS, Counts
from kafkaframes.jobs.export.task import ExportTask, SegmentResult, Settings, check_rows, copy_segment, writing
from kafkaframes.jobs.export.writers import Output, row_batch
from kafkaframes.jobs.tables.content import FAR_TIMES_COLUMN, RAW, Content
from kafkaframes.records.memory import Recycler, lent_memory
from kafkaframes.records.scan import Batches
from kafkaframes.scan.arrow import FAR_TIMES, split_instants
from kafkaframes.scan.values.columns import REASON
from kafkaframes.storage.files.filesystem import join, split
from kafkaframes.storage.log.transactions import TransactionState

ABORTED = "records of aborted transactions"
MEASURED = ("offset", "timestamp")


@dataclass(frozen=True, slots=True)
class DeadDirectory:
    """Where records that make no row are written.

    Attributes:
        directory: of the file, on a disk or by URL.
        first_offset: those below are there already.
        names_inside: whether topic and partition are columns of the file too.
    """

    directory: str
    first_offset: int
    names_inside: bool


@dataclass(frozen=True, slots=True)
class FileJob:
    """What to write.

    Attributes:
        directory: of the file, on a disk or by URL.
        run: which export writes it; its name ends with that.
        tasks: of one topic partition, by offset.
        names_inside: whether topic and partition are columns of the file too.
        dead: where those go that make no row; without it they are an error.
    """

    directory: str
    run: str
    tasks: tuple[ExportTask, ...]
    settings: Settings
    names_inside: bool = False
    content: Content = RAW
    dead: DeadDirectory | None = None

    @property
    def size_bytes(self) -> int:
        """How many bytes of log are read."""
        return sum(task.bytes_to_read for task in self.tasks)

    @property
    def topic_partition(self) -> tuple[str, int]:
        """Whose records these are."""
        return self.tasks[0].topic, self.tasks[0].partition

    def new_path(self, directory: str) -> str:
        """Return where an attempt writes: by the first offset that can be in it, and like no other."""
        first = max(self.tasks[0].base_offset, self.tasks[0].first_offset or 0)
        return join(directory, f"{first:020}-{uuid.uuid4().hex[:8]}-{self.run}.parquet")


@dataclass(slots=True)
class DataFile:
    """What was written.

    Attributes:
        path: of the file; empty if no record was selected and no file was written.
        results: one for each segment that was looked at; one that failed is the last.
        end_offset: after the last batch that was looked at; None where there was none.
        size_bytes, records: of the file.
        bounds: least and greatest value of a column of ``MEASURED`` (timestamps in microseconds) and its nulls.
        dead: the file of records that made no row; None where there is none.
        has_far_times: whether it has the column ``FAR_TIMES``.
    """

    job: FileJob
    results: list[SegmentResult]
    path: str = ""
    end_offset: int | None = None
    size_bytes: int = 0
    records: int = 0
    bounds: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    dead: DataFile | None = None
    has_far_times: bool = False

    @property
    def failed(self) -> bool:
        """Whether a segment could not be read: the rest of its partition has to wait."""
        return bool(self.results) and self.results[-1].failed is not None


class _Watch:
    """Sees the batches of one segment before they are read: how far they reach, and which were aborted."""

    def __init__(self, result: SegmentResult) -> None:
        self.end_offset: int | None = None
        self._result = result
        self._state = TransactionState(result.task.aborted)

    def __call__(self, batches: Batches) -> npt.NDArray[np.bool_]:
        reached = int(batches.column("last_offset").max(initial=-1)) + 1
        self.end_offset = max(reached, self.end_offset or 0)
        if not self._result.task.aborted:
            return np.zeros(len(batches), np.bool_)
        aborted = self._state.aborted_batches(batches)
        if first := self._result.task.first_offset:  # what lies below was counted when it was left out
            aborted &= batches.column("last_offset") >= first
        if aborted.any():
            records, size = (int(batches.column(name).sum(where=aborted)) for name in ("count", "size"))
            self._result.tally.drop(ABORTED, Counts(int(aborted.sum()), records, size))
        return aborted


def write_data_file(job: FileJob) -> DataFile:
    """Write one file. A segment that cannot be read ends it: what lies before is written, what follows is left.

    Raises:
        OptionError: the destination cannot be written.
    """
    with writing(job.settings.to):
        failed: list[SegmentResult] = []
        tasks = job.tasks
        while tasks:
            written = _attempt(job, tasks)
            if not written.failed:
                written.results += failed
                return written
            failed = written.results[-1:]
            tasks = tasks[: len(written.results) - 1]
        return DataFile(job, failed)


class _Sinks:
    """The files of one attempt: good rows go to one, bad ones to another."""

    def __init__(self, job: FileJob) -> None:
        self.path = job.new_path(job.directory)
        self.dead_path = "" if job.dead is None else job.new_path(job.dead.directory)
        metadata = {"topic": job.tasks[0].topic}
        plain = job.names_inside  # pyiceberg warns of each dictionary of Arrow's that it meets
        self.good = Output(self.path, "parquet", base64=False, metadata=metadata, plain_types=plain)
        self.dead = Output(self.dead_path, "parquet", base64=False, metadata=metadata, plain_types=plain)
        self.bad_rows = 0
        self._job = job

    def write(self, batch: pa.RecordBatch) -> None:
        """Write what was read of the log."""
        job = self._job
        good, bad = job.content.split(table_batch(batch, headers=job.settings.headers))
        self.good.write(_placed(good, job.topic_partition) if job.names_inside else good)
        if bad is None:
            return
        self.bad_rows += bad.num_rows
        if job.dead is None:
            raise OptionError(f"{job.topic_partition[0]}: a record makes no row: {bad.column(REASON)[0]}")
        new = bad.filter(pc.greater_equal(bad.column("offset"), job.dead.first_offset))
        if new.num_rows and not self.dead.is_begun:
            _make_directory(job.dead.directory)
        self.dead.write(_placed(new, job.topic_partition) if job.dead.names_inside else new)

    def remove(self) -> None:
        """Remove both files."""
        remove(self.path)
        if self.dead_path:
            remove(self.dead_path)


def _attempt(job: FileJob, tasks: tuple[ExportTask, ...]) -> DataFile:
    """Write these segments; without a file where one fails."""
    made, sinks = DataFile(job, []), _Sinks(job)
    _make_directory(job.directory)
    try:
        with sinks.good, sinks.dead, lent_memory() as memory:
            for task in tasks:
                made.results.append(SegmentResult(task))
                _copy(made, job, sinks.write, memory)
        check_rows(sinks.good.rows + sinks.bad_rows, made.results, where=tasks[0].path)
    except (LogDirError, CorruptRecordError) as error:
        sinks.remove()
        made.results[-1] = SegmentResult(tasks[len(made.results) - 1], failed=str(error))
        return made
    except BaseException:
        sinks.remove()
        raise
    _describe(made, sinks.good, sinks.path)
    if sinks.dead.footer is not None:
        made.dead = DataFile(job, [])
        _describe(made.dead, sinks.dead, sinks.dead_path)
    return made


def _describe(made: DataFile, output: Output, path: str) -> None:
    """Say of a closed file what a commit has to."""
    if (footer := output.footer) is not None:
        made.path, made.size_bytes, made.records, made.bounds = path, _size(path), footer.num_rows, _bounds(footer)
        made.has_far_times = FAR_TIMES in footer.schema.names


def _copy(made: DataFile, job: FileJob, write: Callable[[pa.RecordBatch], None], memory: Recycler) -> None:
    result = made.results[-1]
    if isinstance(result.task, TopicTask):
        copy_topic(result, result.task, job.settings, write, memory=memory)
        made.end_offset = result.task.end_offset
        return
    watch = _Watch(result)
    copy_segment(result, job.settings, write, memory=memory, look=watch)
    if watch.end_offset is not None:
        limit = result.task.end_offset
        reached = watch.end_offset if limit is None else min(watch.end_offset, limit)
        made.end_offset = max(reached, made.end_offset or 0)


def table_batch(batch: pa.RecordBatch, *, headers: bool) -> pa.RecordBatch:
    """Return records as a table has them: instants in microseconds."""
    rows = row_batch(batch, headers=headers)
    names = ("offset", "timestamp", "timestampType", "key", "value", "headers")
    columns: dict[str, Any] = {name: rows.column(name) for name in names if name in rows.schema.names}
    columns["timestamp"], far_times = split_instants(columns["timestamp"])
    if far_times is not None:
        columns[FAR_TIMES] = far_times
    return pa.RecordBatch.from_pydict(columns)


def _placed(rows: pa.RecordBatch, name: tuple[str, int]) -> pa.RecordBatch:
    """Return rows with topic and partition as columns."""
    # A third of what Iceberg costs beside Delta went into looking one name up for each row.
    same = pa.array(np.zeros(rows.num_rows, np.int32))
    columns: dict[str, Any] = {
        "topic": pa.DictionaryArray.from_arrays(same, pa.array([name[0]], pa.string())),
        "partition": pa.repeat(pa.scalar(name[1], pa.int32()), rows.num_rows),
    }
    return pa.RecordBatch.from_pydict(columns | {one: rows.column(one) for one in rows.schema.names})


def _bounds(footer: Any) -> dict[str, tuple[int, int, int]]:
    """Return what a reader needs to skip the file: from the statistics of its row groups."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    indexes = {groups[0].column(index).path_in_schema: index for index in range(footer.num_columns)}
    result = {}
    for name in MEASURED:
        parts = [group.column(indexes[name]).statistics for group in groups]
        known = [part for part in parts if part is not None and part.has_min_max]
        nulls = sum(part.null_count for part in parts if part is not None)
        if known and len(parts) == sum(part is not None for part in parts):
            result[name] = min(part.min_raw for part in known), max(part.max_raw for part in known), nulls
    return result


def columns_with_far_times(columns: pa.Schema, files: Iterable[DataFile]) -> pa.Schema:
    """Return the columns of a commit: with ``FAR_TIMES`` only if one of its files has it."""
    return columns.append(FAR_TIMES_COLUMN) if any(file.has_far_times for file in files) else columns


def _make_directory(path: str) -> None:
    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)


def _size(path: str) -> int:
    if "://" not in path:
        return os.path.getsize(path)
    return int(_store(path).info(path)["size"])


def discard(paths: Iterable[str], *, keep: Iterable[str]) -> None:
    """Delete data files but some, wherever these lie by now: a commit may have moved them, and names are unique."""
    kept = {split(path)[1] for path in keep}
    for path in sorted(paths):
        if split(path)[1] not in kept:
            remove(path)


def remove(path: str) -> None:
    """Delete a file that no commit names; a missing file is not an error."""
    if "://" not in path:
        Path(path).unlink(missing_ok=True)
        return
    store = _store(path)
    if store.exists(path):
        store.rm_file(path)


def _store(path: str) -> Any:
    import fsspec

    store, _ = fsspec.core.url_to_fs(path)
    store.invalidate_cache()
    return store


# -------------------------------------------------------------------------------------------------------- live topics


SILENCE_MS: Final = 120_000
_READER: Final[Mapping[str, Any]] = {
    "auto_offset_reset": "none",
    "enable_auto_commit": False,
    "fetch_max_bytes": 16 << 20,
    "max_partition_fetch_bytes": 8 << 20,
    "fetch_max_wait_ms": 100,
}


@dataclass(frozen=True, slots=True)
class TopicTask(ExportTask):
    """A stretch of a live topic partition, from ``first_offset`` up to ``end_offset`` (exclusive).

    Attributes:
        path: what messages call it.
        size_bytes: about what is fetched.
        client: settings of a consumer.
    """

    client: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)


def copy_topic(
    result: SegmentResult,
    task: TopicTask,
    settings: Settings,
    write: Callable[[pa.RecordBatch], None],
    *,
    memory: Recycler,
) -> None:
    """Read a stretch and hand it over, batch by batch; count it in ``result``. Arguments as of ``copy_segment``.

    Raises:
        OptionError: the topic has lost offsets of the stretch meanwhile, or ends before it does.
        CorruptRecordError: a batch is damaged.
        BrokerError, NetworkError: the partition cannot be read, or nothing came for ``SILENCE_MS``.
    """
    with Consumer(**{**_READER, **task.client}) as consumer:
        for fetched in iter(_stretch(consumer, task).next, None):
            result.tally.begin_source()
            for batch in fetched.read(SOURCE_COLUMNS, end_offset=task.end_offset, memory=memory):
                write(result.tally.take(batch, settings.keep))


def _stretch(consumer: Consumer, task: TopicTask) -> Stretch:
    def lost(problem: str) -> None:
        raise OptionError(f"{task.path} {problem}: run again")

    first, end = task.first_offset or 0, task.end_offset or 0
    return Stretch(consumer, task.topic_partition, first, end, lost=lost, silence_ms=SILENCE_MS)
