"""Write one data file of a table: neighbouring segments of one topic partition, as Parquet. The work of a worker.

The file has its final name from the beginning: until a commit names it, no reader of the table looks at it. Each
attempt writes a file of its own: Spark may start a task a second time while the first is still running somewhere.
"""

from __future__ import annotations

import os
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.export.settings import ExportTask, Settings
from kafkaframes.export.tables.schema import TIMESTAMP
from kafkaframes.export.tally import Counts
from kafkaframes.export.task import SegmentResult, check_rows, copy_segment, writing
from kafkaframes.export.writers import Output, row_batch
from kafkaframes.files.filesystem import join
from kafkaframes.log.transactions import TransactionState
from kafkaframes.records.memory import Recycler, lent_memory
from kafkaframes.records.scan import Batches

ABORTED = "records of aborted transactions"
_MOST_MILLISECONDS = (2**63 - 1) // 1000
MEASURED = ("offset", "timestamp")


@dataclass(frozen=True, slots=True)
class FileJob:
    """What to write.

    Attributes:
        directory: of the file, on a disk or by URL.
        run: which export writes it; its name ends with that.
        tasks: of one topic partition, by offset.
        names_inside: whether topic and partition are columns of the file too.
    """

    directory: str
    run: str
    tasks: tuple[ExportTask, ...]
    settings: Settings
    names_inside: bool = False

    @property
    def topic_partition(self) -> tuple[str, int]:
        """Whose records these are."""
        return self.tasks[0].topic, self.tasks[0].partition

    def new_path(self) -> str:
        """Return where an attempt writes: by the first offset that can be in it, and like no other."""
        first = max(self.tasks[0].base_offset, self.tasks[0].first_offset or 0)
        return join(self.directory, f"{first:020}-{uuid.uuid4().hex[:8]}-{self.run}.parquet")

    @property
    def log_bytes(self) -> int:
        """How much is read."""
        return sum(task.size_bytes - task.start for task in self.tasks)


@dataclass(slots=True)
class DataFile:
    """What was written.

    Attributes:
        path: of the file; empty where no record was wanted, and so there is none.
        results: one for each segment that was looked at; one that failed is the last.
        end_offset: after the last batch that was looked at; None where there was none.
        size_bytes, records: of the file.
        bounds: least and greatest value of a column of ``MEASURED`` (timestamps in microseconds) and its nulls.
    """

    job: FileJob
    results: list[SegmentResult]
    path: str = ""
    end_offset: int | None = None
    size_bytes: int = 0
    records: int = 0
    bounds: dict[str, tuple[int, int, int]] = field(default_factory=dict)

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
        columns = (batches.column(name) for name in ("base_offset", "producer_id", "attributes"))
        aborted = self._state.aborted_batches(*columns) & (batches.column("magic") >= 2)
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


def _attempt(job: FileJob, tasks: tuple[ExportTask, ...]) -> DataFile:
    """Write these segments; without a file where one fails."""
    made, path = DataFile(job, []), job.new_path()
    _make_directory(job.directory)
    output = Output(path, "parquet", base64=False, metadata={"topic": tasks[0].topic})
    try:
        with output, lent_memory() as memory:
            for task in tasks:
                made.results.append(SegmentResult(task))
                _copy(made, job, output, memory)
        check_rows(output.rows, made.results, place=tasks[0].path)
    except (LogDirError, CorruptRecordError) as error:
        remove(path)
        made.results[-1] = SegmentResult(tasks[len(made.results) - 1], failed=str(error))
        return made
    except BaseException:
        remove(path)
        raise
    if (footer := output.footer) is not None:
        made.path, made.size_bytes, made.records, made.bounds = path, _size(path), footer.num_rows, _bounds(footer)
    return made


def _copy(made: DataFile, job: FileJob, output: Output, memory: Recycler) -> None:
    result = made.results[-1]
    watch = _Watch(result)
    copy_segment(result, job.settings, lambda batch: output.write(table_batch(batch, job)), memory=memory, look=watch)
    if watch.end_offset is not None:
        limit = result.task.end_offset
        reached = watch.end_offset if limit is None else min(watch.end_offset, limit)
        made.end_offset = max(reached, made.end_offset or 0)


def table_batch(batch: pa.RecordBatch, job: FileJob) -> pa.RecordBatch:
    """Return rows as the table has them: instants in microseconds, topic and partition where the format wants them."""
    rows = row_batch(batch, headers=job.settings.headers)
    columns: dict[str, Any] = {}
    if job.names_inside:
        topic, partition = job.topic_partition
        # A third of what Iceberg costs beside Delta went into looking one name up for each row.
        same = pa.array(np.zeros(rows.num_rows, np.int32))
        columns["topic"] = pa.DictionaryArray.from_arrays(same, pa.array([topic], pa.string()))
        columns["partition"] = pa.repeat(pa.scalar(partition, pa.int32()), rows.num_rows)
    for name in ("offset", "timestamp", "timestampType", "key", "value", "headers"):
        if name in rows.schema.names:
            columns[name] = rows.column(name)
    columns["timestamp"] = _microseconds(columns["timestamp"])
    return pa.RecordBatch.from_pydict(columns)


def _microseconds(times: pa.Array) -> pa.Array:
    """Return instants in microseconds; what they cannot say (from the year 294247 on) is null, as in ``kafka-log``."""
    milliseconds = times.view(pa.int64()).to_numpy()
    beyond = (milliseconds > _MOST_MILLISECONDS) | (milliseconds < -_MOST_MILLISECONDS)
    return pa.array(milliseconds * 1000, mask=beyond if beyond.any() else None).view(TIMESTAMP)


def _bounds(footer: Any) -> dict[str, tuple[int, int, int]]:
    """Return what a reader needs to skip the file: from the statistics of its row groups."""
    groups = [footer.row_group(number) for number in range(footer.num_row_groups)]
    places = {groups[0].column(place).path_in_schema: place for place in range(footer.num_columns)}
    found = {}
    for name in MEASURED:
        parts = [group.column(places[name]).statistics for group in groups]
        known = [part for part in parts if part is not None and part.has_min_max]
        nulls = sum(part.null_count for part in parts if part is not None)
        if known and len(parts) == sum(part is not None for part in parts):
            found[name] = min(part.min_raw for part in known), max(part.max_raw for part in known), nulls
    return found


def _make_directory(path: str) -> None:
    if "://" not in path:
        Path(path).mkdir(parents=True, exist_ok=True)


def _size(path: str) -> int:
    if "://" not in path:
        return os.path.getsize(path)
    return int(_store(path).info(path)["size"])


def remove(path: str) -> None:
    """Delete a file that no commit names; one that is not there is none."""
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
