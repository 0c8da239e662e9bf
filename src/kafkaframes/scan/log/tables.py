"""The tables ``batches`` and ``segments`` of ``kafka-log``, and records with ``decode=internal``. No pyspark.

``batches`` has a row for each batch. Batches are decompressed only if ``deepIteration`` is set, to count readable
records and report errors. Damage is reported in a column, regardless of ``on_damage``. Bytes that are not a batch
(broken framing, a torn tail) are one row, with their ``sizeBytes``.

``segments`` has a row for each segment. To fill this row, the first batch header and the headers after the last index
entries are read. With ``deepIteration``, all headers are read. A segment that cannot be read is a row with an
``error``.

With ``decode=internal``, records of Kafka's internal topics are read as usual. The columns for type, version, key and
value are then decoded in Python, one record at a time, because these topics are small compared with user data. If a
record cannot be decoded, ``on_damage=keep`` returns a row with ``error``, ``drop`` omits the record, and ``fail``
raises an error.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, LogDirError
from kafkaframes.records import decode
from kafkaframes.records.fields import NO_TIMESTAMP
from kafkaframes.records.layout import CODECS, CONTROL, TRANSACTIONAL
from kafkaframes.records.makers import make_codec_array
from kafkaframes.records.reasons import CRC_MISMATCH
from kafkaframes.records.scan import (
    FILE,
    BatchHeaders,
    Chunk,
    Chunks,
    Ints,
    ScanEnd,
    check_crcs,
    get_timestamp_types,
    split_chunk,
)
from kafkaframes.scan.arrow import (
    ARROW_TYPES,
    MAX_INSTANT_MS,
    TARGET_BATCH_BYTES,
    build_arrow_schema,
    check_milliseconds,
    repeat_origin,
    to_instants,
)
from kafkaframes.scan.columns import DECODED_COLUMNS, Column, choose_columns
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import Segment, SegmentSlice
from kafkaframes.scan.log.reading import OpenSlice, open_slice, read_work
from kafkaframes.storage.files.directory import Segment as StoredFiles
from kafkaframes.storage.files.filesystem import split_path
from kafkaframes.storage.files.headers import BatchHeader
from kafkaframes.storage.files.segment_reader import SegmentReader, open_segment
from kafkaframes.storage.log.discover import find_filesystem
from kafkaframes.storage.log.internal_topics import InternalRecord, decode_control_record, decode_record

_ASSUMED_COMPRESSION_RATIO = (
    4.0  # assumed compression ratio, for the number of batches that are decompressed at the same time
)


class CheckedChunk:
    """The checked batches of a chunk. ``selected_rows`` contains the indexes of the batches in the offset range."""

    def __init__(self, chunk: Chunk, slice_reader: OpenSlice, options: ReadOptions) -> None:
        self.base = chunk.base
        self.segment, self._has_strict_times = slice_reader.slice.segment, options.timestamp_errors == "raise"
        healer, part = slice_reader.healer, slice_reader.slice
        bad = None if healer is None or not options.verify_crc else check_crcs(chunk.data, chunk.batches) == 0
        if healer is not None and bad is not None and bad.any():
            chunk = healer(chunk, bad) or chunk
        self.batches: BatchHeaders = chunk.batches
        self.valid = check_crcs(chunk.data, chunk.batches).astype(bool) if options.verify_crc else None
        self.readable: Ints | None = None
        self.problems = {} if self.valid is None else dict.fromkeys(np.flatnonzero(~self.valid).tolist(), CRC_MISMATCH)
        self._budget = options.budget_bytes
        if options.deep:
            self._decode_chunk(chunk)
        outside = self.batches.column("last_offset") < part.first_offset
        outside |= self.batches.is_v2 & (self.batches.column("base_offset") >= part.end_offset)
        if slice_reader.skipped_batches is not None:
            outside |= slice_reader.skipped_batches(self.batches)
        self.selected_rows: Ints = np.flatnonzero(~outside)

    def _decode_chunk(self, chunk: Chunk) -> None:
        """Decode the records of all batches. Store which batches are readable, and the problems with the others."""
        rows: list[Ints] = [np.empty(0, np.int64)]
        for part in decode.decode_steps(chunk.data, chunk.batches, budget_bytes=self._budget):
            rows.append(part.index.rows)
            self.problems |= {part.first + row: problem.reason for row, problem in part.problems.items()}
        self.readable = np.concatenate(rows)

    def column(self, name: str) -> Ints:
        """Return a header field of the batches in ``selected_rows``."""
        return self.batches.column(name)[self.selected_rows]

    def max_timestamps(self) -> pa.Array:
        """Return the largest timestamp of each batch in ``selected_rows``.

        Raises:
            OptionError: A timestamp is out of range and ``timestamp_errors`` is ``raise``.
        """
        times = self.column("max_timestamp")
        if self._has_strict_times:
            offsets = self.column("base_offset")
            check_milliseconds(times, lambda row: _describe_timestamp(f"batch at offset {offsets[row]}", self.segment))
        return to_instants(times)


def read_batch_work(
    work: Iterable[SegmentSlice], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table ``batches`` for the slices, in order.

    Raises:
        LogDirError: A segment cannot be read.
    """
    schema = build_arrow_schema(columns)
    for part in work:
        yield from _read_slice(part, columns, schema, options)


def _read_slice(
    planned_slice: SegmentSlice, columns: Sequence[Column], schema: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of the table ``batches`` for one slice."""
    needs_data = options.verify_crc or options.deep
    with open_slice(planned_slice, options) as slice_reader:
        if slice_reader is None:
            return
        planned_slice = slice_reader.slice
        segment_end: ScanEnd | None = None
        for run in slice_reader.iterate_runs(options.on_damage):
            if segment_end is not None:
                yield _create_unread_row(segment_end, planned_slice, schema, end_position=run.start)
            source = slice_reader.segment.source
            chunks = Chunks(
                source,
                rules=FILE,
                start=run.start,
                end=planned_slice.end,
                chunk_bytes=TARGET_BATCH_BYTES,
                includes_data=needs_data,
            )
            for chunk in chunks:
                for part in split_chunk(chunk, _ASSUMED_COMPRESSION_RATIO if options.deep else 1.0, TARGET_BATCH_BYTES):
                    checked_chunk = CheckedChunk(part, slice_reader, options)
                    arrays = [_to_array(column, checked_chunk, planned_slice) for column in columns]
                    yield pa.RecordBatch.from_arrays(arrays, schema=schema)
            segment_end = run.end = chunks.end
        if segment_end is not None and segment_end.position < planned_slice.end:
            yield _create_unread_row(segment_end, planned_slice, schema, end_position=planned_slice.end)


def _to_array(column: Column, checked_chunk: CheckedChunk, part: SegmentSlice) -> pa.Array:
    """Return a column of the table ``batches`` for the selected batches of a chunk."""
    if column.name in _GETTER_BY_COLUMN:
        return _GETTER_BY_COLUMN[column.name](checked_chunk)
    return repeat_origin(part.segment, column, checked_chunk.selected_rows.size)


def _create_unread_row(end: ScanEnd, part: SegmentSlice, schema: pa.Schema, *, end_position: int) -> pa.RecordBatch:
    """Return a row for the bytes after the last valid batch, with the reason why they were not read."""
    end_values = {
        "topic": part.segment.topic,
        "partition": part.segment.partition,
        "file": part.segment.path,
        "position": end.position,
        "sizeBytes": end_position - end.position,
        "error": end.reason,
        "source": part.segment.source,
    }
    return pa.RecordBatch.from_pylist([end_values], schema=schema)


def _header_field_getter(name: str, dtype: Any = np.int64) -> Callable[[CheckedChunk], pa.Array]:
    return lambda checked_chunk: pa.array(checked_chunk.column(name).astype(dtype))


def _header_flag_getter(bit: int) -> Callable[[CheckedChunk], pa.Array]:
    return lambda checked_chunk: pa.array(checked_chunk.batches.mask_flag(bit)[checked_chunk.selected_rows])


def _count_records(checked_chunk: CheckedChunk) -> pa.Array:
    """Return the number of records of each batch; null before format 2, whose headers have no count."""
    counts = checked_chunk.column("count")
    return pa.array(counts.astype(np.int32), mask=checked_chunk.column("magic") < 2)


def _build_nullable_array(values: npt.NDArray[Any] | None, kind: pa.DataType, checked_chunk: CheckedChunk) -> pa.Array:
    """Return the values of the selected batches as an array; only nulls if ``values`` is None."""
    return (
        pa.nulls(checked_chunk.selected_rows.size, kind)
        if values is None
        else pa.array(values[checked_chunk.selected_rows], kind)
    )


_GETTER_BY_COLUMN: dict[str, Callable[[CheckedChunk], pa.Array]] = {
    "position": lambda checked_chunk: pa.array(checked_chunk.column("position") + checked_chunk.base),
    "sizeBytes": _header_field_getter("size"),
    "magic": _header_field_getter("magic", np.int8),
    "codec": lambda scanned: make_codec_array(scanned.column("attributes")).cast(pa.string()),
    "baseOffset": _header_field_getter("base_offset"),
    "lastOffset": _header_field_getter("last_offset"),
    "recordCount": _count_records,
    "readableRecords": lambda scanned: _build_nullable_array(scanned.readable, pa.int32(), scanned),
    "maxTimestamp": CheckedChunk.max_timestamps,
    "timestampType": lambda scanned: pa.array(
        get_timestamp_types(scanned.column("magic"), scanned.column("attributes"))
    ),
    "producerId": _header_field_getter("producer_id"),
    "producerEpoch": _header_field_getter("producer_epoch", np.int16),
    "baseSequence": _header_field_getter("base_sequence", np.int32),
    "leaderEpoch": _header_field_getter("leader_epoch", np.int32),
    "transactional": _header_flag_getter(TRANSACTIONAL),
    "control": _header_flag_getter(CONTROL),
    "crcOk": lambda scanned: _build_nullable_array(scanned.valid, pa.bool_(), scanned),
    "error": lambda scanned: pa.array(
        [scanned.problems.get(row) for row in scanned.selected_rows.tolist()], pa.string()
    ),
}


_SEGMENT_ROWS_PER_BATCH = 1000


def read_segment_work(
    work: Iterable[SegmentSlice], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield a row for each segment of the slices."""
    schema = build_arrow_schema(columns)
    rows: list[dict[str, Any]] = []
    for part in work:
        rows.append(_to_segment_row(part, options))
        if len(rows) == _SEGMENT_ROWS_PER_BATCH:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows = []
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _to_segment_row(part: SegmentSlice, options: ReadOptions) -> dict[str, Any]:
    """Return the row of the table ``segments`` for a segment."""
    segment = part.segment
    row: dict[str, Any] = {
        "topic": segment.topic,
        "partition": segment.partition,
        "file": segment.path,
        "baseOffset": segment.base_offset,
        "sizeBytes": segment.size_bytes,
        "source": segment.source,
    }
    if segment.stored_files is None:
        return row
    modified_ms = segment.stored_files.log.mtime_ms
    row |= {
        "modified": None if modified_ms is None else modified_ms * 1000,
        "beside": _list_index_file_names(segment.stored_files),
    }
    try:
        with open_segment(find_filesystem(segment.path, options=options.storage), segment.stored_files) as reader:
            return row | _read_segment_fields(reader, segment, options)
    except LogDirError as error:
        return row | {"error": str(error)}


def _list_index_file_names(stored_files: StoredFiles) -> list[str]:
    files = (stored_files.index, stored_files.time_index, stored_files.txn_index, stored_files.snapshot)
    return [split_path(file.path)[1] for file in files if file is not None]


def _read_segment_fields(reader: SegmentReader, segment: Segment, options: ReadOptions) -> dict[str, Any]:
    """Return the fields of a segment's row that are in its batch headers."""
    first = next(iter(reader.walk_headers()), None)
    fields_by_name: dict[str, Any] = {"nextOffset": reader.next_offset}
    if first is not None:
        times = {"firstTimestamp": first.base_timestamp, "maxTimestamp": reader.largest_timestamp}
        fields_by_name |= {name: _to_microseconds(time_ms, segment, options) for name, time_ms in times.items()}
        fields_by_name |= {"magic": _tinyint(first.magic), "codec": _codec(first)}
    return fields_by_name | (_walk_segment(reader) if options.deep else {})


def _walk_segment(reader: SegmentReader) -> dict[str, Any]:
    """Return the fields of a segment's row that require all batch headers, such as the number of batches."""
    walk = reader.walk_headers()
    batches, records, magic, codecs, has_counts = 0, 0, -1, set(), True
    for header in walk:
        batches += 1
        records += max(header.record_count, 0)
        magic = max(magic, header.magic)
        codecs.add(_codec(header))
        has_counts &= header.magic >= 2
    return {
        "batches": batches,
        "records": records if has_counts else None,
        "magic": _tinyint(magic) if batches else None,
        "codec": ",".join(sorted(codecs)) if batches else None,
        "error": f"{walk.reason} at byte {walk.position}" if walk.is_corrupt else None,
    }


def _codec(header: BatchHeader) -> str:
    return CODECS[header.codec] if header.codec < len(CODECS) else "unknown"


def _tinyint(magic: int) -> int:
    return max(min(magic, 127), -128)


def _describe_timestamp(subject: str, segment: Segment) -> str:
    return f"the {subject} of topic partition {segment.topic}-{segment.partition} has the timestamp"


def _to_microseconds(milliseconds: int, segment: Segment, options: ReadOptions) -> int | None:
    """Return microseconds since 1970, or None for -1 (no timestamp) and for a time that microseconds cannot represent.

    Raises:
        OptionError: The time is out of range and ``timestamp_errors`` is ``raise``.
    """
    if milliseconds == NO_TIMESTAMP:
        return None
    times = np.array([milliseconds], np.int64)
    if options.timestamp_errors == "raise":
        check_milliseconds(times, lambda _: _describe_timestamp(f"segment {segment.base_offset:020}", segment))
    return milliseconds * 1000 if abs(milliseconds) <= MAX_INSTANT_MS else None


_COLUMNS_FOR_DECODING = ("topic", "partition", "offset", "control", "key", "value")


def read_internal_work(
    work: Iterable[SegmentSlice], columns: Sequence[Column], options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """Yield the decoded records of the slices, in order.

    Raises:
        CorruptRecordError: ``on_damage`` is ``fail``, and the log is damaged or a record cannot be decoded.
        LogDirError: A segment cannot be read.
    """
    plain = [column.name for column in columns if column.name not in (*DECODED_COLUMNS, *_COLUMNS_FOR_DECODING)]
    for batch in read_work(work, choose_columns((*plain, *_COLUMNS_FOR_DECODING)), options):
        yield _decode_internal(batch, columns, options.on_damage)


def _decode_internal(batch: pa.RecordBatch, columns: Sequence[Column], on_damage: str) -> pa.RecordBatch:
    """Return a batch of records of internal topics, with decoded keys and values."""
    internal_records = [
        _decode_internal_record(*row)
        for row in zip(*(batch.column(name).to_pylist() for name in _COLUMNS_FOR_DECODING), strict=True)
    ]
    if on_damage == "fail":
        _raise_decode_error(batch, internal_records)
    if on_damage == "drop":
        is_valid = [internal_record.error is None for internal_record in internal_records]
        batch = batch.filter(pa.array(is_valid, pa.bool_()))
        internal_records = [internal_record for internal_record in internal_records if internal_record.error is None]
    columns_by_name = (
        dict(zip(DECODED_COLUMNS, zip(*internal_records, strict=True), strict=True))
        if internal_records
        else dict.fromkeys(DECODED_COLUMNS, ())
    )
    arrays = [
        pa.array(columns_by_name[column.name], ARROW_TYPES[column.type])
        if column.name in columns_by_name
        else batch.column(column.name)
        for column in columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=build_arrow_schema(columns))


def _decode_internal_record(
    topic: str, _partition: int, _offset: int, control: bool, key: bytes | None, value: bytes | None
) -> InternalRecord:
    return decode_control_record(key, value) if control else decode_record(topic, key, value)


def _raise_decode_error(batch: pa.RecordBatch, internal_records: Sequence[InternalRecord]) -> None:
    """Raise CorruptRecordError for the first record that could not be decoded."""
    for row, entry in enumerate(internal_records):
        if entry.error is not None:
            topic, partition, offset = (batch.column(name)[row].as_py() for name in ("topic", "partition", "offset"))
            raise CorruptRecordError(f"{topic}-{partition}, offset {offset}: {entry.error}")
