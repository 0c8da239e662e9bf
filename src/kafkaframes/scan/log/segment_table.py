"""The table ``segments`` of ``kafka-log``: a row for each segment file. No pyspark.

Read are the first batch's header, and those behind the last entries of the indexes; with ``deepIteration`` all headers.
No record is read. A segment that cannot be read is a row with its ``error``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from kafkaframes.errors import LogDirError
from kafkaframes.records.layout import CODECS
from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.arrow import arrow_schema
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Slice
from kafkaframes.storage.files.directory import Segment as StoredFiles
from kafkaframes.storage.files.filesystem import split
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.storage.log.where import filesystem_for

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ROWS = 1000


def read_segment_work(
    work: Iterable[Slice], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each segment of the slices."""
    schema = arrow_schema(columns)
    rows: list[dict[str, Any]] = []
    for piece in work:
        rows.append(_row(piece, options))
        if len(rows) == _ROWS:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _row(piece: Slice, options: ReadOptions) -> dict[str, Any]:
    segment = piece.segment
    row: dict[str, Any] = {
        "topic": segment.topic,
        "partition": segment.partition,
        "file": segment.path,
        "baseOffset": segment.base_offset,
        "sizeBytes": segment.size_bytes,
        "source": segment.source,
    }
    if segment.stored is None:
        return row
    row |= {"modified": _instant(segment.stored.log.mtime_ms), "beside": _beside(segment.stored)}
    try:
        with open_segment(filesystem_for(segment.path, options=options.storage), segment.stored) as reader:
            return row | _read(reader, deep=options.deep)
    except LogDirError as error:
        return row | {"error": str(error)}


def _beside(stored: StoredFiles) -> list[str]:
    files = (stored.index, stored.time_index, stored.txn_index, stored.snapshot)
    return [split(file.path)[1] for file in files if file is not None]


def _read(reader: SegmentReader, *, deep: bool) -> dict[str, Any]:
    first = next(iter(reader.headers()), None)
    facts: dict[str, Any] = {"nextOffset": reader.next_offset}
    if first is not None:
        time = first.base_timestamp if first.base_timestamp >= 0 else None
        facts |= {"firstTimestamp": _instant(time), "maxTimestamp": _instant(reader.largest_timestamp)}
        facts |= {"magic": _tinyint(first.magic), "codec": _codec(first)}
    return facts | (_walked(reader) if deep else {})


def _walked(reader: SegmentReader) -> dict[str, Any]:
    walk = reader.headers()
    batches, records, magic, codecs, counted = 0, 0, -1, set(), True
    for header in walk:
        batches += 1
        records += max(header.record_count, 0)
        magic = max(magic, header.magic)
        codecs.add(_codec(header))
        counted &= header.magic >= 2
    return {
        "batches": batches,
        "records": records if counted else None,
        "magic": _tinyint(magic) if batches else None,
        "codec": ",".join(sorted(codecs)) if batches else None,
        "error": f"{walk.reason} at byte {walk.position}" if walk.is_corrupt else None,
    }


def _codec(header: BatchHeader) -> str:
    return CODECS[header.codec] if header.codec < len(CODECS) else "unknown"


def _tinyint(magic: int) -> int:
    return max(min(magic, 127), -128)


def _instant(milliseconds: int | None) -> datetime | None:
    """Return a time; None for what Python's calendar does not reach."""
    if milliseconds is None or milliseconds < 0:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None
