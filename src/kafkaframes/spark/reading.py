"""What one task does: slices of segments in, Arrow batches with Spark's columns out. No pyspark.

``records`` does the reading: batches that nobody wants are skipped unread (their offsets lie outside, or they hold
control records), the others are decompressed and indexed a megabyte at a time, damage is dealt with by the mode, and
the columns asked for are gathered; no other is touched.

Modes

* ``PERMISSIVE``: what Kafka's own reader would hand out: a batch's records up to its damage, then the next batch; also
  the records of a batch whose checksum is wrong but which can be read. Where the framing breaks, the slice ends.
* ``DROPMALFORMED``: no record of a damaged batch, or of one whose checksum is wrong.
* ``FAILFAST``: the first damage is an error.

In the first two each damage is a warning of the logger ``kafkaframes.spark`` (Spark prints it, and keeps it for
``spark.tvf.python_worker_logs()`` where that is enabled), and so is a torn tail in all three: every crash leaves one,
and to Kafka it is no error. A file that cannot be read, or has lost bytes since the read was planned, is an error in
every mode: that is no malformed data but missing data.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa

from kafkaframes.log.segment_source import Meter
from kafkaframes.records.columns import ReadError, RecordReader
from kafkaframes.records.columns import ReadOptions as RecordOptions
from kafkaframes.records.scan import FILE, End
from kafkaframes.spark.arrow import arrow_schema, source_columns, to_spark
from kafkaframes.spark.columns import Column
from kafkaframes.spark.options import ReadOptions
from kafkaframes.spark.planning import NO_END, NO_START, Slice
from kafkaframes.spark.rebatch import TARGET_BYTES, rebatch
from kafkaframes.spark.source import open_slice, slice_runs, unwanted_batches

log = logging.getLogger("kafkaframes.spark")


def read_work(
    work: Iterable[Slice], columns: Sequence[Column], options: ReadOptions, *, meter: Meter | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the records of the slices, in order, as Arrow batches of about 1 MB.

    Args:
        work, columns, options: of the task.
        meter: counts the bytes of log that are read.

    Raises:
        CorruptRecordError: damage, in mode FAILFAST; it names file, position and offset.
        LogDirError: a segment cannot be read.
    """
    return rebatch(batch for piece in work for batch in _read_slice(piece, columns, options, meter))


def _read_slice(
    piece: Slice, columns: Sequence[Column], options: ReadOptions, meter: Meter | None
) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(columns)
    with open_slice(piece, options, meter=meter) as opened:
        if opened is None:
            return
        piece = opened.piece
        wanted = record_options(piece, columns, options)._replace(heal=opened.healer)
        end: End | None = None
        for run in slice_runs(opened, options.mode):
            reader = RecordReader(opened.source, wanted, start=run.start, end=piece.end)
            told = 0
            for batch in reader:
                told = _tell(reader.errors, told)
                yield to_spark(batch, columns, schema, piece.segment)
            _tell(reader.errors, told)
            end = run.end = reader.end
        if end is not None and end.position < piece.end:
            _tell_rest(end, piece)


def record_options(piece: Slice, columns: Sequence[Column], options: ReadOptions) -> RecordOptions:
    """Say in the words of ``records`` what is wanted of a slice."""
    return RecordOptions(
        columns=source_columns(columns),
        mode=options.mode,
        verify_crc=options.verify_crc,
        budget_bytes=options.budget_bytes,
        rules=FILE,
        control_records=options.include_control,
        first_offset=None if piece.first_offset == NO_START else piece.first_offset,
        end_offset=None if piece.end_offset == NO_END else piece.end_offset,
        chunk_bytes=TARGET_BYTES,
        unwanted=unwanted_batches(piece),
    )


def _tell(errors: list[ReadError], told: int) -> int:
    for error in errors[told:]:
        log.warning("%s; %d of the batch's records are read", error.as_exception(), error.records)
    return len(errors)


def _tell_rest(end: End, piece: Slice) -> None:
    """Say how much lies behind the last batch; why it is none was told already where Kafka calls it an error."""
    rest = piece.end - end.position
    log.warning("%s: %s; %d bytes from byte %d on are not read", piece.segment.path, end.reason, rest, end.position)
