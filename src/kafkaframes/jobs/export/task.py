"""Export segments to a file, one segment or several small ones. The file gets its final name only when it is complete.

Workers run this code. A worker writes a file under a temporary name in ``_kafkaframes/tmp``, closes it, renames it, and
records it in the journal. If the worker is killed, it leaves a temporary file, or a complete file that the next run
replaces or removes.
"""

from __future__ import annotations

import json
import logging
import os
import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, LogDirError, OptionError
from kafkaframes.jobs.dump.chunks import RecordFilter
from kafkaframes.jobs.export.tally import SOURCE_COLUMNS, RecordCounts, SegmentTally
from kafkaframes.jobs.export.writers import OutputFile, to_output_rows
from kafkaframes.jobs.job import parse_json_object
from kafkaframes.jobs.row_counts import check_row_counts
from kafkaframes.records.columns import ReadError, ReadOptions, RecordReader
from kafkaframes.records.layout import BATCH_V2
from kafkaframes.records.memory import Recycler, borrow_memory
from kafkaframes.records.reasons import SPARK_MODES
from kafkaframes.records.scan import CHUNK_BYTES, FILE, BatchHeaders, ScanEnd
from kafkaframes.scan.fingerprints import Fingerprint, create_collector
from kafkaframes.storage.copies.reading import AlternateRange, BatchHealer
from kafkaframes.storage.files.filesystem import split_path
from kafkaframes.storage.files.names import escape_unprintable
from kafkaframes.storage.files.producer_files import AbortedTransaction
from kafkaframes.storage.log.open_segment import DamagedRange, OpenSegment, open_planned_segment
from kafkaframes.storage.log.transactions import TransactionState


@dataclass(frozen=True)
class ExportTask:
    """The export of one segment, or of an offset range of a live topic partition (``topic_task.TopicTask``).

    Attributes:
        path: local path or URL of the ``.log`` file.
        size_bytes: size of the file when it was listed. Data that a broker appends later is exported by the next run.
        first_offset, end_offset: offset range to export (end exclusive); None means unbounded.
        start: position of the first batch to read.
        aborted: aborted transactions, whose batches are omitted.
        label: name of the output if the segment is only a part of a log merged from copies; empty otherwise.
        source: log directory of the segment if several copies are exported.
        alternates: other copies of the same offsets, used in place of damaged batches.
        topic_id: topic id from the log directory; empty if it has none.
        head: digest of the segment's first batch header, including its CRC; empty if not read (tiered segments).
    """

    path: str
    size_bytes: int
    base_offset: int
    topic: str
    partition: int
    first_offset: int | None = None
    end_offset: int | None = None
    start: int = 0
    aborted: tuple[AbortedTransaction, ...] = ()
    label: str = ""
    source: str = ""
    alternates: tuple[AlternateRange, ...] = ()
    topic_id: str = ""
    head: str = ""

    @property
    def bytes_to_read(self) -> int:
        """The number of bytes of the segment to read."""
        return self.size_bytes - self.start

    @cached_property
    def name(self) -> str:
        """The path of the output relative to the destination, without suffix."""
        copy = f"/source={quote(self.source, safe='')}" if self.source else ""
        label = self.label or split_path(self.path)[1].removesuffix(".swap").replace(".log", "")
        return f"topic={self.topic}/partition={self.partition}{copy}/{label}"

    def copy_records(
        self,
        result: SegmentResult,
        settings: ExportTaskSettings,
        write: Write,
        *,
        memory: Recycler,
        observe_batches: Look | None = None,
    ) -> None:
        """Read the selected records, pass them to ``write`` batch by batch, and count them in ``result``.

        Args:
            result: object to which the counts and faults of this task are added. Initially its counts must be zero.
            settings: settings that select the records, and the output format.
            write: function that receives batches with ``tally.SOURCE_COLUMNS``.
            memory: buffers that all segments of a worker share. Allocating them for each small segment took twice the
                time of reading it.
            observe_batches: function that receives the batches of the log before they are decoded.

        Raises:
            LogDirError: the segment cannot be read.
            CorruptRecordError: the segment is damaged, and ``on_damage`` is "fail".
        """
        with open_planned_segment(self.path, self.size_bytes, options=settings.storage) as segment:
            _copy_segment(segment, result, settings, write, observe_batches, memory)


NO_CONTROL_RECORDS = RecordFilter(control=False)  # selects all records except control records
READ_UNCOMMITTED = "read_uncommitted"
_JSON_LINES_VERSION = 2  # version of the JSON output; version 1 replaced bytes that are not UTF-8


@dataclass(frozen=True, slots=True)
class ExportTaskSettings:
    """Settings that are common to all segments of an export.

    Attributes:
        to: the destination, a directory that every worker can write.
        form: output format: parquet, arrow, csv or json.
        keep: conditions that exported records meet. The offsets of ``keep`` are ignored, because each task has its own
            offsets.
        on_damage, verify_crc: as in ``scan_log``.
        headers: whether the output has the column ``headers``.
        base64: for CSV: whether keys, values and header values are written in base64, which preserves every byte.
        isolation: isolation level, which is the same in every run into a destination.
        storage: options of the source's store, and the key files of encrypted tiered segments.
    """

    to: str
    form: str = "parquet"
    keep: RecordFilter = NO_CONTROL_RECORDS
    on_damage: str = "keep"
    verify_crc: bool = True
    headers: bool = True
    base64: bool = False
    isolation: str = READ_UNCOMMITTED
    storage: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def stored_fingerprint(self) -> dict[str, Any]:
        """Return the settings that must be the same in every run into a destination, as JSON values."""
        values = asdict(self)
        del values["to"], values["storage"]
        values["mode"] = SPARK_MODES[values.pop("on_damage")]
        if values["isolation"] == READ_UNCOMMITTED:  # destinations of older releases have no stored isolation level
            del values["isolation"]
        if self.form == "json":
            values["json_lines"] = _JSON_LINES_VERSION
        return dict(json.loads(json.dumps(values, default=_to_json_value, sort_keys=True)))


def _to_json_value(value: Any) -> Any:
    if isinstance(value, re.Pattern):
        return value.pattern.decode("latin-1")
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return sorted(map(_to_json_value, value))


OWN_DIRECTORY = "_kafkaframes"  # directory for the files of kafkaframes inside a destination
TEMPORARY_DIRECTORY = f"{OWN_DIRECTORY}/tmp"
JOURNAL_DIRECTORY = f"{OWN_DIRECTORY}/journal"
SUCCESS_FILE = "_SUCCESS"
FileTasks = tuple[ExportTask, ...]
Look = Callable[[BatchHeaders], None]
Write = Callable[[pa.RecordBatch], None]
ABORTED_RECORDS_REASON = "records of aborted transactions"
Flags = npt.NDArray[np.bool_]
log = logging.getLogger("kafkaframes.jobs")
MAX_LISTED_FAULTS = 20  # number of faults that a segment's result lists
# A reader allocates memory for its chunks, which the system zeroes in pages of 2 MiB. For a small segment this took
# longer than reading it, so the reader allocates only the typical uncompressed size of such a segment.
ASSUMED_COMPRESSION_RATIO = 8


@dataclass(slots=True)
class SegmentResult:
    """The result of exporting one segment.

    Attributes:
        output: path of the file relative to the destination, possibly shared with other segments; None if no record was
            selected or the segment failed.
        output_bytes: size of the file, in bytes.
        faults: messages about damage, with file and position; at most ``MAX_LISTED_FAULTS`` of ``fault_count``.
        failed: reason why the segment was not exported; None if it was exported.
    """

    task: ExportTask
    tally: SegmentTally = field(default_factory=SegmentTally)
    output: str | None = None
    output_bytes: int = 0
    faults: list[str] = field(default_factory=list)
    fault_count: int = 0
    failed: str | None = None

    def as_json(self) -> dict[str, Any]:
        """Return the result as a JSON object for the journal.

        The JSON object has no client settings and no transactions.
        """
        values = asdict(replace(self, task=replace(self.task, aborted=())))
        task = {entry.name: values["task"][entry.name] for entry in fields(ExportTask)}
        return values | {"task": task, "tally": self.tally.as_json()}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> SegmentResult:
        """Create a result from the values that ``as_json`` returned.

        Raises:
            KeyError, TypeError, AttributeError: the values do not describe a result.
        """
        parsed = {"task": ExportTask(**values["task"]), "tally": SegmentTally.from_json(values["tally"])}
        return cls(**(values | parsed))


class ExportJob(NamedTuple):
    """The files to write in one task of a worker process."""

    settings: ExportTaskSettings
    files: tuple[FileTasks, ...]

    @property
    def size_bytes(self) -> int:
        """The number of bytes of log segments to read."""
        return sum(task.bytes_to_read for tasks in self.files for task in tasks)


def export_job_files(job: ExportJob) -> list[SegmentResult]:
    """Export the files of a job, and record each in the journal.

    Raises:
        OptionError: the destination cannot be written.
    """
    settings, files = job
    results: list[SegmentResult] = []
    with raise_destination_errors(settings.to), open_journal(settings.to) as record, borrow_memory() as memory:
        for tasks in files:
            results_by_file = export_file(tasks, settings, memory=memory)
            for line in build_journal_lines(results_by_file):
                record(line)
            results += results_by_file
    return results


def build_journal_lines(results: Iterable[SegmentResult]) -> Iterator[dict[str, Any]]:
    """Yield one journal line for each file.

    The line has all segments of the file, so that they are recorded atomically.

    Failed segments are not recorded, so that the next run exports them again.
    """
    recorded_outputs = [result for result in results if result.failed is None]
    for output, members in groupby(recorded_outputs, key=lambda result: result.output):
        if output is None:
            yield from (result.as_json() for result in members)
        else:
            yield {"segments": [result.as_json() for result in members]}


def parse_journal_line(values: dict[str, Any]) -> list[SegmentResult]:
    """Parse a journal line.

    Raises:
        KeyError, TypeError, AttributeError: the values do not describe results.
    """
    return [SegmentResult.from_json(entry) for entry in values.get("segments", [values])]


@contextmanager
def open_journal(to: str) -> Iterator[Callable[[dict[str, Any]], None]]:
    """Yield a function that appends a line to a new journal file, which is created with the first line.

    An appended line survives if the process is killed.
    """
    path, descriptors = Path(to, JOURNAL_DIRECTORY, f"{uuid.uuid4().hex}.jsonl"), list[int]()

    def record(values: dict[str, Any]) -> None:
        if not descriptors:
            descriptors.append(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644))
        os.write(descriptors[0], (json.dumps(values) + "\n").encode())

    try:
        yield record
    finally:
        for descriptor in descriptors:
            os.close(descriptor)


def read_journal(to: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in the journal, oldest file first. Truncated lines and other JSON values are skipped."""
    for path in sorted(
        Path(to, JOURNAL_DIRECTORY).glob("*.jsonl"), key=lambda path: (path.stat().st_mtime_ns, path.name)
    ):
        yield from filter(None, map(parse_json_object, path.read_bytes().splitlines()))


def export_file(
    tasks: FileTasks, settings: ExportTaskSettings, *, memory: Recycler | None = None
) -> list[SegmentResult]:
    """Export segments of one topic partition into one file, which is renamed into place when it is complete.

    If a segment cannot be read, or is damaged with on_damage=fail, its result states the reason in ``failed``, and the
    file is not written. The other segments of a shared file then get files of their own.

    Raises:
        OptionError: the destination cannot be written.
    """
    first_task = tasks[0]
    final_path = Path(settings.to, f"{first_task.name}.{settings.form}")
    temporary = Path(settings.to, TEMPORARY_DIRECTORY, f"{uuid.uuid4().hex}.{settings.form}")
    results = [SegmentResult(task) for task in tasks]
    memory = memory or Recycler()
    with raise_destination_errors(settings.to):
        try:
            output = OutputFile(str(temporary), settings.form, base64=settings.base64, metadata=_build_metadata(tasks))
            with output:
                for result in results:
                    result.task.copy_records(
                        result,
                        settings,
                        lambda batch: output.write_rows(to_output_rows(batch, headers=settings.headers)),
                        memory=memory,
                    )
            check_file_rows(output.rows, results, where=first_task.path)
        except (LogDirError, CorruptRecordError) as error:
            temporary.unlink(missing_ok=True)
            if len(tasks) == 1:
                return [SegmentResult(first_task, failed=str(error))]
            final_path.unlink(missing_ok=True)  # file of an earlier run, with the records of all segments
            return [result for task in tasks for result in export_file((task,), settings, memory=memory)]
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if output.is_created:
            final_path.parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, final_path)
            size_bytes = final_path.stat().st_size
            for result in results:
                result.output, result.output_bytes = str(final_path.relative_to(settings.to)), size_bytes
        else:
            final_path.unlink(missing_ok=True)  # file of an earlier run with other segments
    return results


def check_file_rows(written: int, results: Iterable[SegmentResult], *, where: str) -> None:
    """Check that a file has as many rows as records were read for it.

    Raises:
        LogDirError: the numbers differ. The caller must remove the file.
    """
    omitted_counts: Counter[str] = Counter()
    read_count = 0
    for result in results:
        read_count += result.tally.records_read
        omitted_counts.update(result.tally.records_left_out)
    check_row_counts(read_count, written, omitted_counts, where=where)


def _build_metadata(tasks: FileTasks) -> dict[str, str]:
    """Return metadata about the source, for file formats that can store it."""
    first = tasks[0]
    paths = [escape_unprintable(task.path) for task in tasks]
    metadata = {"topic": first.topic, "partition": str(first.partition), "segment": paths[0]}
    return metadata if len(tasks) == 1 else metadata | {"segments": json.dumps(paths)}


def read_fingerprints(
    task: ExportTask, expected_offsets: Sequence[Fingerprint], *, storage: Mapping[str, Any]
) -> dict[int, Fingerprint]:
    """Return the fingerprints of a segment's records at ``expected_offsets``, which must be sorted.

    Damaged records, and all records of a segment that cannot be read, are missing.
    """
    result: dict[int, Fingerprint] = {}
    part = replace(task, first_offset=expected_offsets[0].offset, end_offset=expected_offsets[-1].offset + 1)
    settings = ExportTaskSettings("", on_damage="drop", storage=storage)
    try:
        with borrow_memory() as memory:
            part.copy_records(SegmentResult(part), settings, create_collector(expected_offsets, result), memory=memory)
    except LogDirError:  # the export reports the segment
        pass
    return result


def _copy_segment(
    segment: OpenSegment,
    result: SegmentResult,
    settings: ExportTaskSettings,
    write: Write,
    observe_batches: Look | None,
    memory: Recycler,
) -> None:
    """Read the selected records of a segment, and pass them to ``write`` batch by batch."""
    task = result.task
    alternates = [AlternateRange(*alternate) for alternate in task.alternates]
    healer = BatchHealer(task.path, alternates, settings.storage) if alternates else None
    options = _make_read_options(task, settings)._replace(
        unwanted=_make_aborted_batch_mask(result, observe_batches), heal=healer
    )
    end: ScanEnd | None = None
    gaps: list[DamagedRange] = []
    for run in segment.read_runs(
        start=task.start, end=task.size_bytes, on_damage=settings.on_damage, on_gap=gaps.append
    ):
        reader = RecordReader(segment.source, options, start=run.start, end=task.size_bytes, memory=memory)
        for batch in reader:
            write(result.tally.count_and_filter_rows(batch, settings.keep))
        end = run.end = reader.end
        for error in reader.errors:
            header = bytes(segment.source.read(error.position, BATCH_V2.size))
            add_fault(result, error, header, end=task.size_bytes)
    _count_unread_bytes(result, end, gaps)
    for text in [] if healer is None else healer.healed_ranges:
        log.warning("%s", text)


def _make_aborted_batch_mask(
    result: SegmentResult, observe_batches: Look | None
) -> Callable[[BatchHeaders], Flags] | None:
    """Return a function that masks and counts the batches of aborted transactions; None if neither is needed."""
    task = result.task
    if observe_batches is None and not task.aborted:
        return None
    state = TransactionState(task.aborted)

    def mask_batches(batches: BatchHeaders) -> Flags:
        if observe_batches is not None:
            observe_batches(batches)
        if not task.aborted:
            return np.zeros(len(batches), np.bool_)
        is_aborted = state.mask_aborted_batches(batches)
        counted: Flags = is_aborted
        if task.first_offset:  # an earlier run counted the aborted batches below the first offset
            counted = counted & (batches.column("last_offset") >= task.first_offset)
        if task.end_offset is not None:
            counted = counted & (batches.column("base_offset") < task.end_offset)
        if counted.any():
            records, size = (int(batches.column(name).sum(where=counted)) for name in ("count", "size"))
            result.tally.count_dropped(ABORTED_RECORDS_REASON, RecordCounts(int(counted.sum()), records, size))
        return is_aborted

    return mask_batches


def _count_unread_bytes(result: SegmentResult, end: ScanEnd | None, gaps: list[DamagedRange]) -> None:
    """Count the bytes outside the batches that were read: damaged chunks, and data after the last batch."""
    size_bytes = result.task.size_bytes
    for gap in gaps:
        result.fault_count += 1
        first, last = gap.damage.lost
        result.faults.append(f"{gap.damage}; bytes {first} to {last} of {result.task.path} are lost")
        lost_bytes = (size_bytes if gap.end is None else gap.end) - gap.start
        result.tally.count_dropped("a chunk of a tiered segment cannot be read", RecordCounts(1, None, lost_bytes))
    is_cut_off = bool(gaps) and gaps[-1].end is None
    if end is not None and end.position < size_bytes and not end.is_corrupt and not is_cut_off:
        result.tally.count_dropped(end.reason, RecordCounts(1, None, size_bytes - end.position))


def _make_read_options(task: ExportTask, settings: ExportTaskSettings) -> ReadOptions:
    """Return the options for reading a task's segment."""
    return ReadOptions(
        columns=SOURCE_COLUMNS,
        on_damage=settings.on_damage,
        verify_crc=settings.verify_crc,
        rules=FILE,
        first_offset=task.first_offset,
        end_offset=task.end_offset,
        chunk_bytes=min(CHUNK_BYTES, max(ASSUMED_COMPRESSION_RATIO * task.bytes_to_read, 64 << 10)),
    )


def add_fault(result: SegmentResult, error: ReadError, header: bytes, *, end: int) -> None:
    """Add a damaged batch to a result.

    Args:
        result: object to which the fault and the numbers of lost records are added.
        error: the damage.
        header: bytes at the damaged position, at least a whole batch header if the source is long enough.
        end: end position of the source.
    """
    result.fault_count += 1
    if len(result.faults) < MAX_LISTED_FAULTS:
        result.faults.append(f"{error.as_exception()}; {error.records} of the batch's records are exported")
    result.tally.count_damaged(error, header, end=end)


@contextmanager
def raise_destination_errors(to: str) -> Iterator[None]:
    """Raise OptionError for errors at the destination.

    Errors at the destination end the export, unlike errors in a segment.
    """
    try:
        yield
    except OSError as error:  # pyarrow's file errors are OSErrors too
        raise OptionError(f"`to` {to}: cannot be written: {error.strerror or error}") from error
