"""Print segments as JSON lines: each batch, record, error and end of a segment, in file order.

A ``batch`` line has the header fields. The ``record`` lines of the batch follow. An ``error`` line states why a
batch's records (``"in": "records"``) or a segment (``"in": "batches"``) ended early. An ``end`` line ends a segment: a
``bytes_read`` below ``file_size`` shows a torn batch or a tail of zeros. Keys and header values are base64 or null.
Values are base64 or null too, but a value above a size limit is printed as SHA-256 and length. If Kafka could not read
a header field, the line has ``field_error`` with the reason, and omits that field and those after it.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, KafkaframesError
from kafkaframes.jobs.dump.chunks import (
    NO_FILTER,
    ChunkReader,
    RecordSelection,
    SegmentOrigin,
    get_keys,
    get_values,
    map_errors_by_batch,
    split_to_fit_memory,
)
from kafkaframes.jobs.dump.columns import (
    add_sequence_deltas,
    build_batch_columns,
    build_record_columns,
    render_header_json,
    slice_rows,
)
from kafkaframes.jobs.dump.files import DumpFile, list_files_to_dump
from kafkaframes.jobs.dump.lines import (
    Base64Part,
    BytesPart,
    CompiledLine,
    NullBranchPart,
    NumberPart,
    Part,
    TextPart,
    WordPart,
    plan_line,
)
from kafkaframes.jobs.dump.names import MAX_PRINTED_VALUE_BYTES, RECORD_FILES
from kafkaframes.jobs.dump.styles import CODECS, TIMESTAMP_TYPES
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.fields import END_MARKER_TYPES, parse_control_type, parse_coordinator_epoch
from kafkaframes.records.layout import BATCH_V2, CODEC_MASK, CONTROL, DELETE_HORIZON, LOG_APPEND_TIME, TRANSACTIONAL

_BOOLEAN_TEXTS = (b"false", b"true")  # the texts of 0 and 1
_TEXTS_BY_COLUMN = {"valid": _BOOLEAN_TEXTS, "transactional": _BOOLEAN_TEXTS, "control": _BOOLEAN_TEXTS}
_NAMES_BY_COLUMN = {"codec": CODECS, "ts_type": TIMESTAMP_TYPES}
_BATCH_FIELDS = (
    *("position", "size", "magic", "valid", "crc", "base_offset", "last_offset", "codec", "ts_type", "max_ts"),
    *("producer_id", "producer_epoch", "base_sequence", "last_sequence", "leader_epoch", "transactional", "control"),
    "delete_horizon",
)
# Last header field that a field of the line needs, for batches that end inside their header.
_LAST_HEADER_FIELD_BY_NAME = {
    "last_offset": "last_offset_delta",
    "max_ts": "max_timestamp",
    "producer_id": "producer_id",
    "producer_epoch": "producer_epoch",
    "base_sequence": "base_sequence",
}
MAX_KNOWN_MAGIC = 2  # batches of later formats can be split, but their fields are unknown
_V2_HEADER_STRUCT = struct.Struct(">" + "".join(item.format for item in BATCH_V2.fields))


@dataclass(frozen=True, slots=True)
class JsonLinesOptions:
    """Options of JSON lines.

    Attributes:
        value_limit: size up to which a value is printed, in bytes; None for no limit.
        max_bytes: upper bound of the position at which a batch ends; None for the end of the segment.
        keep: selection of records. Batches without selected records are omitted.
    """

    value_limit: int | None = MAX_PRINTED_VALUE_BYTES
    max_bytes: int | None = None
    keep: RecordSelection = NO_FILTER


def _make_labelled_parts(name: str) -> tuple[Part, ...]:
    """Return the parts of a line that print a field with its name."""
    label = f',"{name}":'.encode()
    if name in _TEXTS_BY_COLUMN:
        return TextPart(label), WordPart(name, _TEXTS_BY_COLUMN[name])
    if name in _NAMES_BY_COLUMN:
        return TextPart(label + b'"'), WordPart(name, _NAMES_BY_COLUMN[name]), TextPart(b'"')
    if name == "delete_horizon":
        return TextPart(label), NullBranchPart(name, (TextPart(b"null"),), (BytesPart(name),))
    return TextPart(label), NumberPart(name)


def _make_base64_part(name: str) -> Part:
    """Return the part of a line that prints a bytes column in base64, or null."""
    return NullBranchPart(name, (TextPart(b"null"),), (TextPart(b'"'), Base64Part(name), TextPart(b'"')))


_RECORD_LINE = plan_line(
    *(
        TextPart(b'{"type":"record"'),
        *_make_labelled_parts("offset"),
        *_make_labelled_parts("timestamp"),
        *_make_labelled_parts("ts_type"),
    ),
    *(TextPart(b',"key":'), _make_base64_part("key"), TextPart(b',"value":')),
    NullBranchPart("value_digest", (_make_base64_part("value"),), (BytesPart("value_digest"),)),
    *(TextPart(b',"headers":['), BytesPart("headers"), TextPart(b"]"), *_make_labelled_parts("sequence")),
    *(NullBranchPart("control_fields", (), (BytesPart("control_fields"),)), TextPart(b"}\n")),
)


@dataclass(frozen=True, slots=True)
class _SegmentLineTemplates:
    """The templates of a segment's batch lines and message lines, and the text that ends all lines except records."""

    text: bytes
    batch: CompiledLine
    message: CompiledLine

    @classmethod
    def for_path(cls, path: str) -> _SegmentLineTemplates:
        """Build the templates for the segment at a path."""
        origin = SegmentOrigin.parse_path(path)
        fields = {"topic": origin.topic, "partition": origin.partition}
        fields |= {"directory": origin.directory, "segment": origin.segment}
        text = b"," + _encode_json(fields)[1:-1] + b"}\n"
        line_start = [
            TextPart(b'{"type":"batch"'),
            *(part for name in _BATCH_FIELDS for part in _make_labelled_parts(name)),
        ]
        line_end = [*_make_labelled_parts("count"), TextPart(text)]
        return cls(
            text, plan_line(*line_start, *_make_labelled_parts("base_ts"), *line_end), plan_line(*line_start, *line_end)
        )

    def line(self, **fields: Any) -> bytes:
        return _encode_json(fields)[:-1] + self.text


def _encode_json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _describe_error(inside: str, error: KafkaframesError) -> dict[str, Any]:
    """Return the JSON object for an error inside a batch or record."""
    return {"type": "error", "in": inside, "class": type(error).__name__, "message": str(error)}


@dataclass
class JsonLinesDump:
    """The lines of one segment, in parts. ``faults`` is complete after the iteration."""

    file: DumpFile
    options: JsonLinesOptions
    faults: list[KafkaframesError] = field(default_factory=list)

    def __iter__(self) -> Iterator[bytes]:
        templates = _SegmentLineTemplates.for_path(self.file.path)
        reader = ChunkReader(self.file, self.options.max_bytes)
        for chunk in reader:
            self.faults += map_errors_by_batch(chunk).values()
            for part, has_begun in split_to_fit_memory(self.options.keep.select_records(chunk)):
                lines = _render_chunk(part, templates, self.options)
                yield lines[lines.index(b"\n") + 1 :] if has_begun else lines  # the batch's line is only printed once
            if self.options.keep.is_exhausted(chunk):
                return
        if reader.fault is not None:
            self.faults.append(reader.fault)
            yield templates.line(**_describe_error("batches", reader.fault))
        yield templates.line(type="end", bytes_read=reader.bytes_read, file_size=self.file.size_bytes)


def dump_json_lines(paths: Iterable[str], options: JsonLinesOptions | None = None) -> Iterator[bytes]:
    """Yield the lines of all segments and KRaft snapshots under ``paths``, thousands in each item.

    A directory's ``.deleted``, ``.swap`` and ``.cleaned`` segments are included.
    """
    for file in list_files_to_dump(paths, kinds=RECORD_FILES, temporary=True):
        yield from JsonLinesDump(file, options or JsonLinesOptions())


def _render_chunk(chunk: DecodedBatches, templates: _SegmentLineTemplates, options: JsonLinesOptions) -> bytes:
    """Return the lines of a chunk's batches and records, in file order."""
    columns = build_batch_columns(chunk)
    fields, unreadable_records = _build_control_fields(chunk)
    records = _RECORD_LINE.render_lines(_build_record_columns(chunk, options, fields), len(chunk.index.offsets))
    modern = chunk.batches.is_v2
    specials = _find_special_batches(chunk)
    lines = _render_batches(columns, modern, templates)
    ends = [0, *records.ends.tolist()]
    skip_empty = options.keep != NO_FILTER
    chunks: list[bytes | memoryview] = []
    first = 0
    for batch, count in enumerate(chunk.index.rows.tolist()):
        stop = first + count
        if count or not skip_empty:
            chunks.append(_render_special_batch(chunk, batch, templates) if batch in specials else lines[batch])
            problem: KafkaframesError | None = chunk.to_error(batch)
            last = stop
            if batch in unreadable_records:
                last, problem = unreadable_records[batch]
            chunks.append(records.data.data[ends[first] : ends[last]])
            if problem is not None:
                chunks.append(_encode_json(_describe_error("records", problem)) + b"\n")
        first = stop
    return b"".join(chunks)


def _render_batches(
    columns: dict[str, Any], is_v2: npt.NDArray[np.bool_], templates: _SegmentLineTemplates
) -> list[memoryview]:
    """Return the line of each batch. Lines of formats 0 and 1 have no base timestamp; most logs have one form only."""
    rendered_forms = [
        line.render_lines(slice_rows(columns, 0, len(is_v2)), len(is_v2)) if is_form.any() else None
        for line, is_form in ((templates.message, ~is_v2), (templates.batch, is_v2))
    ]
    lines = []
    for batch, is_modern in enumerate(is_v2.tolist()):
        line_form = rendered_forms[is_modern]
        assert line_form is not None
        lines.append(line_form.slice_lines(batch, batch + 1))
    return lines


def _build_record_columns(chunk: DecodedBatches, options: JsonLinesOptions, control_fields: pa.Array) -> dict[str, Any]:
    """Return the columns of the record lines."""
    columns = build_record_columns(chunk)
    is_large = columns["value_size"] > (2**31 if options.value_limit is None else options.value_limit)
    columns["value_digest"] = _digest_large_values(chunk, is_large)
    columns["headers"] = render_header_json(chunk)
    columns["control_fields"] = control_fields
    return columns


def _digest_large_values(chunk: DecodedBatches, is_large: npt.NDArray[np.bool_]) -> pa.Array:
    """Return SHA-256 and length of large values, and null for other values."""
    if not is_large.any():
        return pa.nulls(len(is_large), pa.binary())
    data, starts, sizes = chunk.sections.buf.data, chunk.index.value_at.tolist(), chunk.index.value_size.tolist()
    digests: list[bytes | None] = [None] * len(is_large)
    for row in np.flatnonzero(is_large).tolist():
        digest = hashlib.sha256(data[starts[row] : starts[row] + sizes[row]]).hexdigest()
        digests[row] = b'{"sha256":"%s","len":%d}' % (digest.encode(), sizes[row])
    return pa.array(digests, pa.binary())


def _build_control_fields(chunk: DecodedBatches) -> tuple[pa.Array, dict[int, tuple[int, CorruptRecordError]]]:
    """Return the additional fields of control records, and by batch the first unreadable record with its error."""
    is_control = chunk.batches.is_control[chunk.owners]
    if not is_control.any():
        return pa.nulls(len(is_control), pa.binary()), {}
    fields: list[bytes | None] = [None] * len(is_control)
    unreadable_records: dict[int, tuple[int, CorruptRecordError]] = {}
    keys, values = get_keys(chunk), get_values(chunk)
    for row in np.flatnonzero(is_control).tolist():
        try:
            kind = parse_control_type(keys.value_at(row))
            record_fields: dict[str, Any] = {"control_type": kind}
            if kind in END_MARKER_TYPES:
                record_fields["coordinator_epoch"] = parse_coordinator_epoch(values.value_at(row))
            fields[row] = b"," + _encode_json(record_fields)[1:-1]
        except CorruptRecordError as error:
            unreadable_records.setdefault(int(chunk.owners[row]), (row, error))
    return pa.array(fields, pa.binary()), unreadable_records


def _find_special_batches(chunk: DecodedBatches) -> set[int]:
    """Return the batches with a header field that cannot be printed."""
    batches = chunk.batches
    has_unknown_format = batches.codecs >= len(CODECS)
    is_truncated = batches.is_v2 & (batches.column("size") < BATCH_V2.size)
    is_later_format = batches.column("magic") > MAX_KNOWN_MAGIC
    is_unopened = batches.is_wrapper & (chunk.reached_counts == 0)
    return set(np.flatnonzero(has_unknown_format | is_truncated | is_later_format | is_unopened).tolist())


def _render_special_batch(chunk: DecodedBatches, batch: int, templates: _SegmentLineTemplates) -> bytes:
    """Return the line of a batch that has an unprintable header field."""
    fields: dict[str, Any] = {"type": "batch"}
    count = int(chunk.reached_counts[batch])
    try:
        for name, value in _iterate_readable_fields(chunk, batch):
            if name == "count":
                count = value
            else:
                fields[name] = value
    except CorruptRecordError as error:
        fields["field_error"] = error.reason
    return templates.line(**fields, count=count)


def _iterate_readable_fields(chunk: DecodedBatches, batch: int) -> Iterator[tuple[str, Any]]:
    """Yield a batch's fields in order.

    Kafka reads a header from as many bytes as the batch's size field declares. Therefore a batch of format 2 that is
    shorter than its header has only the fields within its size.

    Raises:
        CorruptRecordError: the next field cannot be read.
    """
    position, size, magic = (int(chunk.batches.column(name)[batch]) for name in ("position", "size", "magic"))
    yield from (
        ("position", position + chunk.base),
        ("size", size),
        ("magic", magic),
        ("valid", bool(chunk.crc_ok[batch])),
    )
    if magic < 2:
        yield "crc", int(chunk.batches.column("crc")[batch])
        raise CorruptRecordError("the first offset is unknown, because the compressed message cannot be decompressed")
    header = chunk.data[position : position + min(size, BATCH_V2.size)].tobytes()
    header_values = _V2_HEADER_STRUCT.unpack(header.ljust(BATCH_V2.size, b"\0"))
    values = dict(zip((item.name for item in BATCH_V2.fields), header_values, strict=True))
    if size >= BATCH_V2.end_of("count"):
        yield "count", values["count"]
    for name, value in _iterate_fields_of_later_format(values):
        last = _LAST_HEADER_FIELD_BY_NAME.get(name)
        if last is not None and size < BATCH_V2.end_of(last):
            raise CorruptRecordError(f"the batch ends before its {last.replace('_', ' ')}")
        yield name, value
    if magic > MAX_KNOWN_MAGIC:
        raise CorruptRecordError(f"the position of the base timestamp in format {magic} is unknown")
    yield "base_ts", values["base_timestamp"]


def _iterate_fields_of_later_format(values: dict[str, int]) -> Iterator[tuple[str, Any]]:
    """Yield the header fields of a batch whose format is newer than 2."""
    attributes, base_sequence, offset_delta = (
        values[name] for name in ("attributes", "base_sequence", "last_offset_delta")
    )
    yield from (
        ("crc", values["crc"]),
        ("base_offset", values["offset"]),
        ("last_offset", values["offset"] + offset_delta),
    )
    if attributes & CODEC_MASK >= len(CODECS):
        raise CorruptRecordError("the codec's number is unknown")
    yield "codec", CODECS[attributes & CODEC_MASK].decode()
    yield "ts_type", "LogAppendTime" if attributes & LOG_APPEND_TIME else "CreateTime"
    yield from (("max_ts", values["max_timestamp"]), ("producer_id", values["producer_id"]))
    yield from (("producer_epoch", values["producer_epoch"]), ("base_sequence", base_sequence))
    yield "last_sequence", int(add_sequence_deltas(np.array([base_sequence]), np.array([offset_delta]))[0])
    yield "leader_epoch", values["leader_epoch"]
    yield from (("transactional", bool(attributes & TRANSACTIONAL)), ("control", bool(attributes & CONTROL)))
    yield "delete_horizon", values["base_timestamp"] if attributes & DELETE_HORIZON else None
