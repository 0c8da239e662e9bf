"""Fingerprints of a log's last records before an offset, and of its records at given offsets.

Each function finds a few batches by the offset index and does not read the whole segment.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from kafkaframes.errors import LogDirError
from kafkaframes.records.columns import ReadOptions, RecordReader
from kafkaframes.records.scan import FILE
from kafkaframes.scan.fingerprints import (
    FINGERPRINT_COLUMNS,
    MAX_FINGERPRINTS,
    Fingerprint,
    create_collector,
    fingerprint_last_rows,
)
from kafkaframes.scan.log.discovery import Log
from kafkaframes.storage.files.directory import Segment
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.segment_reader import open_segment
from kafkaframes.storage.log.open_segment import open_planned_segment_on


def find_last_fingerprints(entry: Log, end: int) -> tuple[Fingerprint, ...]:
    """Return fingerprints of the last records before an offset, in offset order.

    The result has at most ``MAX_FINGERPRINTS``, and fewer or none if the batches before the offset have no more
    records, or are damaged or unreadable.
    """
    result: tuple[Fingerprint, ...] = ()
    for segment in reversed(
        [earlier_segment for earlier_segment in entry.partition.segments if earlier_segment.base_offset < end]
    ):
        try:
            headers = _read_last_headers(entry, segment, end)
            options = ReadOptions(
                FINGERPRINT_COLUMNS, on_damage="drop", rules=FILE, control_records=False, end_offset=end
            )
            rows: tuple[Fingerprint, ...] = ()
            for batch in _read_batches(entry, segment, headers, options):
                rows = (*rows, *fingerprint_last_rows(batch, np.ones(batch.num_rows, np.bool_)))[-MAX_FINGERPRINTS:]
        except LogDirError:  # the read of the micro-batch will report that the segment is unreadable
            break
        result = (*rows, *result)[-MAX_FINGERPRINTS:]
        if result:
            break
    return result


def find_fingerprints(entry: Log, expected_fingerprints: Sequence[Fingerprint]) -> Mapping[int, Fingerprint]:
    """Return the fingerprints of a log's records at the offsets of ``expected_fingerprints``.

    Records that do not exist any more, and damaged or unreadable ones, are missing.
    """
    result: dict[int, Fingerprint] = {}
    collect = create_collector(expected_fingerprints, result)
    for row in expected_fingerprints:
        segments = [segment for segment in entry.partition.segments if segment.base_offset <= row.offset]
        if not segments or row.offset in result:
            continue
        try:
            with open_segment(entry.filesystem, segments[-1]) as reader:
                header = reader.find_batch(row.offset)
            options = ReadOptions(FINGERPRINT_COLUMNS, on_damage="drop", rules=FILE)
            for batch in _read_batches(entry, segments[-1], [] if header is None else [header], options):
                collect(batch)
        except LogDirError:  # the read of the micro-batch will report that the segment is unreadable
            continue
    return result


def _read_last_headers(entry: Log, segment: Segment, end: int) -> list[BatchHeader]:
    """Return the headers of the last batches of a segment before an offset."""
    headers: deque[BatchHeader] = deque(maxlen=MAX_FINGERPRINTS)
    with open_segment(entry.filesystem, segment) as reader:
        for header in reader.walk_headers(reader.find_start_before(max(end - MAX_FINGERPRINTS, segment.base_offset))):
            if not header.is_control:
                headers.append(header)
            if header.last_offset >= end - 1:
                break
    return list(headers)


def _read_batches(
    entry: Log, segment: Segment, headers: Sequence[BatchHeader], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    if not headers:
        return
    start, end = headers[0].position, headers[-1].end
    with open_planned_segment_on(entry.filesystem, segment.path, end) as opened:
        yield from RecordReader(opened.source, options, start=start, end=end)
