"""Export everything into one Parquet file, topic and partition in it: a backup that is easy to carry.

The file is written beside its place and renamed when it is whole. Unlike an export into a directory it cannot go on
where it was stopped. ``kafkaframes restore`` takes it as it is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.jobs.export.run import Outcome, summed_up
from kafkaframes.jobs.export.settings import ExportTask, Settings
from kafkaframes.jobs.export.task import SegmentResult, check_rows, copy_segment, writing
from kafkaframes.jobs.export.writers import Output, row_batch
from kafkaframes.records.memory import lent_memory
from kafkaframes.storage.files.atomic import PART


def export_single(
    tasks: Sequence[ExportTask],
    settings: Settings,
    *,
    overwrite: bool = False,
    internal_topics: tuple[str, ...] = (),
) -> Outcome:
    """Write the records of segments into the one Parquet file ``settings.to``.

    Args:
        tasks: the segments, partition by partition, by offset.
        settings: what holds for all; the format is Parquet.
        overwrite: replace a file that is there.
        internal_topics: named in the summary.

    Raises:
        OptionError: the file exists, or cannot be written.
        LogDirError, CorruptRecordError: a segment cannot be read, or (FAILFAST) is damaged; no file is left.
    """
    started = time.monotonic()
    final = Path(settings.to)
    if final.exists() and not (final.is_file() and overwrite):
        reason = (
            "is a directory"
            if final.is_dir()
            else "exists; `overwrite` replaces it"
            if final.is_file()
            else "is no file"
        )
        raise OptionError(f"`to` {final}: {reason}")
    temporary = final.with_name(f"{final.name}{PART}")
    results: list[SegmentResult] = []
    with writing(settings.to):
        final.parent.mkdir(parents=True, exist_ok=True)
        try:
            output = Output(str(temporary), "parquet", base64=False, metadata={"source": "kafkaframes export"})
            with output, lent_memory() as memory:
                for task in tasks:
                    results.append(SegmentResult(task))
                    write = _Rows(output, task, headers=settings.headers)
                    copy_segment(results[-1], settings, write, memory=memory)
            check_rows(output.rows, results, place=str(final))
            if not output.is_begun:
                raise OptionError(f"nothing to export: no record of {len(tasks):,} segments is selected")
            temporary.replace(final)
        finally:
            temporary.unlink(missing_ok=True)
    size_bytes = final.stat().st_size
    for result in results:
        result.output, result.output_bytes = final.name, size_bytes
    summary = summed_up(results, internal_topics, settings.to, time.monotonic() - started)
    return Outcome(summary, len(results), 0, size_bytes, tuple(results))


class _Rows:
    """Hands a segment's rows to the file, with whose they are."""

    def __init__(self, output: Output, task: ExportTask, *, headers: bool) -> None:
        self._output, self._task, self._headers = output, task, headers

    def __call__(self, batch: pa.RecordBatch) -> None:
        rows = row_batch(batch, headers=self._headers)
        topic = pa.repeat(pa.scalar(self._task.topic, pa.string()), rows.num_rows)
        partition = pa.repeat(pa.scalar(self._task.partition, pa.int32()), rows.num_rows)
        names = ["topic", "partition", *rows.schema.names]
        self._output.write(pa.RecordBatch.from_arrays([topic, partition, *rows.columns], names))
