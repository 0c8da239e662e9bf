"""Run an export: plan what is left, have it done, sum up, write ``_SUCCESS``. The caller chooses where the work runs.

What is done stands in the destination, so that the next run does the rest:

    DIR/topic=orders/partition=0/00000000000000000000.parquet
    DIR/_kafkaframes/export.json      what was asked for; another run has to ask for the same
    DIR/_kafkaframes/journal/*.jsonl  a line for each segment that is done; one file a worker's task
    DIR/_kafkaframes/tmp/             files that are being written
    DIR/_kafkaframes/summary.json     of the last run that ended
    DIR/_SUCCESS                      everything is done

Readers of Parquet (Spark, Arrow, DuckDB) leave alone names that begin with an underscore.

Or export everything into one Parquet file, topic and partition in it: a backup that is easy to carry. It is written
beside its place and renamed when it is whole; it cannot go on where it was stopped. ``kafkaframes restore`` takes it.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import time
import uuid
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.planning import done_before, files_of, part_bytes, remove_unrecorded
from kafkaframes.jobs.export.tally import CodecSummary, Counts, Dropped, Summary, TopicSummary
from kafkaframes.jobs.export.task import (
    JOURNAL,
    OWN,
    SUCCESS,
    TEMPORARY,
    ExportTask,
    FileTasks,
    Job,
    SegmentResult,
    Settings,
    check_rows,
    copy_segment,
    export_group,
    writing,
)
from kafkaframes.jobs.export.writers import Output, row_batch
from kafkaframes.jobs.job import Runner, json_object, run_here, shares
from kafkaframes.records.memory import lent_memory
from kafkaframes.storage.files.atomic import PART
from kafkaframes.storage.files.local_disk import flush_path
from kafkaframes.storage.log.notes import NO_NOTES, LogNotes

GROUP_BYTES = 32 << 20  # small files go to a worker together
_REQUESTED = f"{OWN}/export.json"
OPEN_COST = 64 << 10  # bytes that are exported in the time it takes to open a segment and its output


@dataclass(frozen=True, slots=True)
class Outcome:
    """What an export did, in this run and in those before.

    Attributes:
        summary: of everything that the destination holds of the segments asked for.
        exported, resumed: how many segments this run wrote, and how many it found done.
        output_bytes: size of the files.
        results: one a segment, in the order of the plan.
        table: if the destination is a table, facts about it for the user, as JSON values.
        notes: swap files and transaction indexes that were judged, and records that an open transaction hides.
    """

    summary: Summary
    exported: int
    resumed: int
    output_bytes: int
    results: tuple[SegmentResult, ...]
    table: Mapping[str, Any] | None = None
    notes: LogNotes = NO_NOTES

    @property
    def is_complete(self) -> bool:
        """Whether the destination holds every record of the source that was selected."""
        return not self.failed and not self.fault_count and not self.notes.hidden

    @property
    def failed(self) -> list[SegmentResult]:
        """The segments that were not exported."""
        return [result for result in self.results if result.failed is not None]

    @property
    def records_read(self) -> int:
        """How many records were read from the exported segments, including those that were not selected."""
        return sum(result.tally.records_read for result in self.results)

    @property
    def fault_count(self) -> int:
        """How many damaged places were met."""
        return sum(result.fault_count for result in self.results)

    def as_json(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        summary = asdict(self.summary)
        for codec, values in zip(self.summary.codecs, summary["codecs"], strict=True):
            values["ratio"] = round(codec.ratio, 4)
        return {
            "complete": not self.failed,
            "records": self.summary.records,
            "segments": len(self.results),
            "exported": self.exported,
            "resumed": self.resumed,
            "output_bytes": self.output_bytes,
            **summary,
            "records_read": self.records_read,
            "faults": [fault for result in self.results for fault in result.faults],
            "failed": [result.failed for result in self.failed],
            **({} if self.table is None else {"table": dict(self.table)}),
            **self.notes.as_json(),
        }


def export(
    tasks: Sequence[ExportTask],
    settings: Settings,
    *,
    run: Runner = run_here,
    overwrite: bool = False,
    internal_topics: tuple[str, ...] = (),
    notes: LogNotes = NO_NOTES,
) -> Outcome:
    """Export segments into ``settings.to``, except those that an earlier run exported.

    Args:
        tasks: partition by partition, by offset.
        overwrite: remove an earlier export first.
        internal_topics: named in the summary.
        notes: reported with the outcome.

    Raises:
        OptionError: the destination cannot be written or does not fit; or see ``run``.
    """
    started = time.monotonic()
    with open_destination(settings.to, settings.fingerprint(), overwrite=overwrite):
        done = done_before(settings, tasks)
        files = files_of(tasks, done)
        success = Path(settings.to, SUCCESS)
        if files:
            success.unlink(missing_ok=True)
        remove_unrecorded(settings, done, files)
        fresh = {
            result.task.name: result for results in run(export_group, groups(files, settings)) for result in results
        }
        results = tuple(fresh[task.name] if task.name in fresh else done.results[task.name] for task in tasks)
        summary = summed_up(results, internal_topics, settings.to, time.monotonic() - started)
        size_bytes = sum({result.output: result.output_bytes for result in results}.values())
        outcome = Outcome(summary, len(fresh), len(done.results), size_bytes, results, notes=notes)
        write_whole(Path(settings.to, OWN, "summary.json"), json.dumps(outcome.as_json()))
        if not outcome.failed:
            outputs = {result.output for result in fresh.values() if result.output is not None}
            flush(Path(settings.to, output) for output in sorted(outputs))
            write_whole(success, "")
    return outcome


@contextmanager
def open_destination(to: str, requested: dict[str, Any], *, overwrite: bool = False) -> Iterator[None]:
    """Make the destination ready and keep other exports out of it meanwhile.

    Args:
        to: a directory that is new, empty, or an earlier export.
        requested: what has to be the same in every run (``Settings.fingerprint``).
        overwrite: remove an earlier export first.

    Raises:
        OptionError: it cannot be written, is something else, was asked for differently, or is being written.
    """
    root = Path(to)
    try:
        if root.is_dir() and not (root / OWN).is_dir() and any(root.iterdir()):
            raise OptionError(f"`to` {root}: holds other files, but no earlier export")
        root.mkdir(parents=True, exist_ok=True)
        (root / OWN).mkdir(exist_ok=True)
        with open(root / OWN / "lock", "w") as lock:
            _lock(lock.fileno(), to)
            if overwrite:
                for path in (*root.glob("topic=*"), root / JOURNAL):
                    shutil.rmtree(path, ignore_errors=True)
                for name in (SUCCESS, _REQUESTED):
                    (root / name).unlink(missing_ok=True)
            _prepare(root, requested)
            yield
            shutil.rmtree(root / TEMPORARY, ignore_errors=True)
    except OSError as error:
        raise OptionError(f"`to` {to}: cannot be written: {error.strerror or error}") from error


def _lock(descriptor: int, to: str) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise OptionError(f"`to` {to}: another export is writing there") from None


def _prepare(root: Path, requested: dict[str, Any]) -> None:
    known = root / _REQUESTED
    if known.exists():
        if (before := json_object(known.read_bytes())) != requested:
            differs = ", ".join(sorted(name for name in requested if before.get(name) != requested[name]))
            raise OptionError(f"`to` {root}: an earlier run had other settings ({differs}); `overwrite` replaces it")
    else:
        write_whole(known, json.dumps(requested))
    shutil.rmtree(root / TEMPORARY, ignore_errors=True)  # of a run that was killed
    (root / TEMPORARY).mkdir()
    (root / JOURNAL).mkdir(exist_ok=True)


def flush(paths: Iterable[Path]) -> None:
    """Have files and their directories on the disk, as far as a power failure goes.

    Once at the end, not for each file as it appears: that took a third of the time of an export of small segments. A
    file that a power failure cut is noticed by its size and exported again.
    """
    listed = list(paths)
    for path in (*listed, *sorted({path.parent for path in listed})):
        flush_path(path)


def write_whole(path: Path, text: str) -> None:
    """Write a small file that is there as a whole or not at all."""
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    temporary.write_text(text)
    os.replace(temporary, path)


def groups(files: Iterable[FileTasks], settings: Settings) -> list[Job]:
    """Put neighbouring small files together, so that the cost of a task is paid once for many."""
    costs = {tasks: sum(task.size_bytes for task in tasks) + OPEN_COST for tasks in files}
    limit = part_bytes(sum(costs.values()), GROUP_BYTES)
    return [Job(settings, tuple(share)) for share in shares(costs, limit, costs.__getitem__)]


def summed_up(results: Sequence[SegmentResult], internal: tuple[str, ...], output: str, seconds: float) -> Summary:
    """Add up what was counted segment by segment."""
    of_topic: dict[str, list[SegmentResult]] = defaultdict(list)
    codecs: dict[str, Counts] = defaultdict(Counts)
    dropped: dict[str, Counts] = defaultdict(Counts)
    for result in results:
        of_topic[result.task.topic].append(result)
        for name, counts in result.tally.codecs.items():
            codecs[name].add(counts)
        for name, counts in result.tally.dropped.items():
            dropped[name].add(counts)
    return Summary(
        topics=tuple(_topic(name, own) for name, own in sorted(of_topic.items())),
        codecs=tuple(
            CodecSummary(name, one.batches, one.records or 0, one.log_bytes, one.payload_bytes)
            for name, one in sorted(codecs.items())
        ),
        dropped=tuple(Dropped(name, one.batches, one.records, one.log_bytes) for name, one in sorted(dropped.items())),
        internal_topics=internal,
        output=output,
        seconds=seconds,
    )


def _topic(topic: str, results: Sequence[SegmentResult]) -> TopicSummary:
    tallies = [result.tally for result in results]
    firsts = [tally.first_timestamp_ms for tally in tallies if tally.first_timestamp_ms is not None]
    lasts = [tally.last_timestamp_ms for tally in tallies if tally.last_timestamp_ms is not None]
    return TopicSummary(
        topic=topic,
        partitions=len({result.task.partition for result in results}),
        records=sum(tally.records for tally in tallies),
        payload_bytes=sum(tally.payload_bytes for tally in tallies),
        first_timestamp_ms=min(firsts, default=None),
        last_timestamp_ms=max(lasts, default=None),
    )


def export_single(
    tasks: Sequence[ExportTask],
    settings: Settings,
    *,
    overwrite: bool = False,
    internal_topics: tuple[str, ...] = (),
    notes: LogNotes = NO_NOTES,
) -> Outcome:
    """Write the records of segments into the one Parquet file ``settings.to``.

    Args:
        tasks: partition by partition, by offset.
        settings: their format is Parquet.
        overwrite: replace a file that is there.
        internal_topics: named in the summary.
        notes: reported with the outcome.

    Raises:
        OptionError: the file exists, or cannot be written.
        LogDirError, CorruptRecordError: a segment cannot be read, or is damaged with on_damage=fail; no file is left.
    """
    started = time.monotonic()
    final = Path(settings.to)
    if final.exists() and not (final.is_file() and overwrite):
        other = "is a directory" if final.is_dir() else "is no file"
        raise OptionError(f"`to` {final}: {'exists; `overwrite` replaces it' if final.is_file() else other}")
    temporary = final.with_name(f"{final.name}{PART}")
    results: list[SegmentResult] = []
    with writing(settings.to):
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            output = Output(str(temporary), "parquet", base64=False, metadata={"source": "kafkaframes export"})
            with output, lent_memory() as memory:
                for task in tasks:
                    results.append(SegmentResult(task))
                    write = partial(_write_rows, output, task, settings.headers)
                    copy_segment(results[-1], settings, write, memory=memory)
            check_rows(output.rows, results, where=str(final))
            if not output.is_begun:
                raise OptionError(f"nothing to export: no record of {len(tasks):,} segments is selected")
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)
    size_bytes = final.stat().st_size
    for result in results:
        result.output, result.output_bytes = final.name, size_bytes
    summary = summed_up(results, internal_topics, settings.to, time.monotonic() - started)
    return Outcome(summary, len(results), 0, size_bytes, tuple(results), notes=notes)


def _write_rows(output: Output, task: ExportTask, headers: bool, batch: pa.RecordBatch) -> None:
    """Hand a segment's rows to the file, with whose they are."""
    rows = row_batch(batch, headers=headers)
    topic = pa.repeat(pa.scalar(task.topic, pa.string()), rows.num_rows)
    partition = pa.repeat(pa.scalar(task.partition, pa.int32()), rows.num_rows)
    names = ["topic", "partition", *rows.schema.names]
    output.write(pa.RecordBatch.from_arrays([topic, partition, *rows.columns], names))
