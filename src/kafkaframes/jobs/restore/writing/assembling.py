"""The runs of one topic partition become its segments: offsets are assigned in place, nothing is compressed again.

KIP-31's point: of a batch of format 2, and of a message or a wrapper of format 1, only the first eight bytes (and the
leader epoch) change, which no CRC covers. A compressed set of format 0 holds its offsets inside, so that tasks leave it
uncompressed, and it is compressed here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.restore.writing.runs import Run
from kafkaframes.jobs.restore.writing.settings import WriteSettings
from kafkaframes.records.append.patch import set_leader_epoch, set_offsets
from kafkaframes.records.build import build_records
from kafkaframes.records.decode import index_records, open_sections
from kafkaframes.records.rebuild import rows_of_index
from kafkaframes.records.rows import Blobs
from kafkaframes.records.scan import as_array
from kafkaframes.storage.files.checkpoints import EpochStart
from kafkaframes.storage.files.filesystem import LocalFileSystem
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.files.scan import Window, scan_segment
from kafkaframes.storage.log.producer_state import ProducerStates
from kafkaframes.storage.log.segment_writer import PartitionWriter, WrittenPartition


@dataclass(frozen=True, slots=True)
class PartitionTask:
    """One partition to write; picklable.

    Attributes:
        directory: exists and is empty.
        runs: in the order of the log.
        start_offset: of the first new segment: the log's end, or 0.
        leader_epoch: of the new batches.
        epochs, producers: what the log has before.
    """

    partition: TopicPartition
    directory: str
    runs: tuple[Run, ...]
    settings: WriteSettings
    start_offset: int = 0
    topic_id: str | None = None
    leader_epoch: int = 0
    epochs: tuple[EpochStart, ...] = ()
    producers: ProducerStates | None = None


def write_partition(task: PartitionTask) -> WrittenPartition:
    """Write the segments, and what stands beside them.

    Raises:
        LogDirError: offsets that are to be kept overlap, or the disk fails.
    """
    end = task.start_offset
    with PartitionWriter(
        task.directory,
        start_offset=task.start_offset,
        settings=task.settings.segments,
        topic_id=task.topic_id,
        epochs=task.epochs,
        producers=task.producers,
    ) as writer:
        for run in _in_order(task.runs, keep_offsets=task.settings.keep_offsets):
            if task.settings.keep_offsets:
                _check_above(task.partition, run, end)
            shift = 0 if task.settings.keep_offsets else end
            for data in _assigned(run, shift, task):
                writer.append(data)
            end = shift + run.next_offset
        return writer.close()


def _in_order(runs: Sequence[Run], *, keep_offsets: bool) -> Sequence[Run]:
    return sorted(runs, key=lambda run: run.first_offset) if keep_offsets else runs


def _check_above(partition: TopicPartition, run: Run, end: int) -> None:
    if run.first_offset < end:
        raise LogDirError(
            f"{partition}: a task has offsets from {run.first_offset} on, but others, or the log, go up to {end - 1}; "
            "with offsets=keep each task must have a range of its own: repartitionByRange by partition and offset",
        )


def _assigned(run: Run, shift: int, task: PartitionTask) -> Iterator[bytes | bytearray | memoryview]:
    """Yield a run's batches, about a window at a time, with their place in the log."""
    with LocalFileSystem().open(run.path) as read_at:
        for window in scan_segment(read_at, size_bytes=run.size_bytes, whole=True, file=run.path):
            if not len(window.batches):
                continue
            if task.settings.compresses_late:
                yield _compressed(window, shift, task.settings)
            else:
                yield _patched(window, shift, task)


def _patched(window: Window, shift: int, task: PartitionTask) -> memoryview:
    out, batches = bytearray(window.data), window.in_data()
    set_offsets(out, batches, batches.column("last_offset") + shift)
    if task.settings.record_format == 2:
        set_leader_epoch(out, batches, task.leader_epoch)
    size = int((batches.column("position") + batches.column("size"))[-1])
    return memoryview(out)[:size]


def _compressed(window: Window, shift: int, settings: WriteSettings) -> bytes:
    data, batches = as_array(window.data), window.in_data()
    sections = open_sections(data, batches)
    rows = rows_of_index(sections, index_records(batches, sections), headers=False)
    keys, values = ([_blob(blobs, row) for row in range(rows.size)] for blobs in (rows.keys, rows.values))
    return build_records(
        {"offset": rows.offsets + np.int64(shift), "key": keys, "value": values},
        record_format=0,
        codec=settings.codec,
        level=settings.level,
        batch_bytes=settings.batch_bytes,
        batch_records=settings.batch_records,
    )


def _blob(blobs: Blobs, row: int) -> bytes | None:
    start, length = int(blobs.starts[row]), int(blobs.lengths[row])
    return None if length < 0 else blobs.data[start : start + length].tobytes()
