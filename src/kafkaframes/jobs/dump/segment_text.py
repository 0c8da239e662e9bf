"""Print a chunk of a segment as kafka-dump-log does: a line for each batch, followed by lines of its records.

The lines of all batches and of all records of a chunk are rendered at once and then interleaved. Rare parts are
computed in Python and passed as bytes columns: the text of control records, and the CRCs of messages in compressed
messages.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError
from kafkaframes.jobs.dump.chunks import NO_FILTER, get_keys, get_values
from kafkaframes.jobs.dump.columns import build_batch_columns, build_record_columns, render_header_keys, slice_rows
from kafkaframes.jobs.dump.decoders import format_control_record
from kafkaframes.jobs.dump.lines import RenderedLines
from kafkaframes.jobs.dump.styles import OutputStyle, TextOptions
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.records.fields import END_MARKER_TYPES, parse_control_type, parse_coordinator_epoch
from kafkaframes.records.scan import Ints

_CRC_BYTES = 4  # size of the CRC at the start of a message of format 0 or 1

# Decodes a chunk's keys and values to two bytes columns (``decoders.py``).
Decoder = Callable[[DecodedBatches], tuple[Any, Any]]


def render_chunk_text(options: TextOptions, style: OutputStyle, chunk: DecodedBatches, decode: Decoder | None) -> bytes:
    """Return the lines of a chunk's batches and records in file order. Invalid UTF-8 is not changed."""
    batches = build_batch_columns(chunk)
    records = _build_text_columns(options, style, chunk, decode, batches) if options.has_records else {}
    chunks: list[memoryview] = []
    row = 0
    for first, stop, modern in _iterate_runs(chunk.batches.is_v2):
        last_row = row + int(chunk.index.rows[first:stop].sum())
        batch_line = style.batch if modern else style.message
        batch_lines = batch_line.render_lines(slice_rows(batches, first, stop), stop - first)
        record_lines = None
        if options.has_records:
            line = style.bare if options.skip_record_metadata else style.record if modern else style.message_record
            record_lines = line.render_lines(slice_rows(records, row, last_row), last_row - row)
        rows = chunk.index.rows[first:stop]
        _interleave(chunks, batch_lines, record_lines, rows, skip_empty=options.keep != NO_FILTER)
        row = last_row
    return b"".join(chunks)


def _iterate_runs(flags: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int, bool]]:
    """Yield (first, stop, value) for each run of equal flags."""
    edges = np.flatnonzero(np.diff(flags)) + 1
    bounds = [0, *edges.tolist(), len(flags)]
    for first, stop in itertools.pairwise(bounds):
        if stop > first:
            yield first, stop, bool(flags[first])


def _interleave(
    chunks: list[memoryview], batches: RenderedLines, records: RenderedLines | None, rows: Ints, *, skip_empty: bool
) -> None:
    """Append the line of each batch, followed by the lines of its records."""
    if records is None:
        chunks.append(batches.data.data)
        return
    start = first = 0
    last = 0
    record_ends = [0, *records.ends.tolist()]
    for end, count in zip(batches.ends.tolist(), rows.tolist(), strict=True):
        last += count
        if count or not skip_empty:
            chunks.append(batches.data.data[start:end])
            chunks.append(records.data.data[record_ends[first] : record_ends[last]])
        start, first = end, last


def _build_text_columns(
    options: TextOptions, style: OutputStyle, chunk: DecodedBatches, decode: Decoder | None, batches: dict[str, Any]
) -> dict[str, Any]:
    """Return the columns of the record lines, and those of their batches."""
    columns = build_record_columns(chunk)
    is_control = chunk.batches.is_control[chunk.owners]
    keys, values = decode(chunk) if decode else (columns["key"], columns["value"])
    has_text = ~is_control & options.has_contents
    columns |= {
        "key_text": keys.null_unless(has_text),
        "value_text": values.null_unless(has_text),
        "header_keys": render_header_keys(chunk),
        "control_text": _format_control_records(chunk, is_control, style),
    }
    if not chunk.batches.is_v2.all():
        columns |= _read_message_crcs(chunk) | _read_sizes(chunk, columns)
    for name in style.batch_fields:
        columns[name] = batches[name][chunk.owners]
    return columns


def _read_sizes(chunk: DecodedBatches, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes of keys and values. In formats 0 and 1, these are the stored sizes, which may be below -1."""
    is_v2 = chunk.batches.is_v2[chunk.owners]
    index = chunk.index
    return {
        "key_size": np.where(is_v2, columns["key_size"], index.key_size),
        "value_size": np.where(is_v2, columns["value_size"], index.value_size),
    }


def _read_message_crcs(chunk: DecodedBatches) -> dict[str, Any]:
    """Return the CRC of each record, and whether it is valid.

    Only records inside compressed messages have their own CRC; for others it is the CRC of the batch.
    """
    crcs = chunk.batches.column("crc")[chunk.owners]
    valid = chunk.crc_ok[chunk.owners]
    data = chunk.sections.buf
    for row in np.flatnonzero(chunk.batches.is_wrapper[chunk.owners]).tolist():
        start = int(chunk.index.headers_at[row])
        size = int.from_bytes(data[start - 4 : start], "big")
        crcs[row] = int.from_bytes(data[start : start + _CRC_BYTES], "big")
        valid[row] = zlib.crc32(data[start + _CRC_BYTES : start + size].data) == crcs[row]
    return {"record_crc": crcs, "record_valid": valid}


def _format_control_records(chunk: DecodedBatches, is_control: npt.NDArray[np.bool_], style: OutputStyle) -> pa.Array:
    """Return the text of each control record, and null for other records."""
    if not is_control.any():
        return pa.nulls(len(is_control), pa.binary())
    texts: list[bytes | None] = [None] * len(is_control)
    for row in np.flatnonzero(is_control).tolist():
        texts[row] = format_control_text(get_keys(chunk).value_at(row), get_values(chunk).value_at(row), style).encode(
            "utf-8", "replace"
        )
    return pa.array(texts, pa.binary())


def format_control_text(key: bytes | None, value: bytes | None, style: OutputStyle) -> str:
    """Return the text of a control record. If the record is unreadable, the text contains the reason."""
    try:
        kind = parse_control_type(key)
        if kind in END_MARKER_TYPES:
            return f"endTxnMarker: {kind} coordinatorEpoch: {parse_coordinator_epoch(value)}"
    except CorruptRecordError as error:
        return f"controlType: unreadable ({error.reason})"
    if kind in style.control_json and (result := format_control_record(kind, value)) is not None:
        return result
    number = int.from_bytes((key or b"")[2:4], "big", signed=True)
    return f"controlType: {kind}({number})"


def find_nonconsecutive_offsets(
    chunk: DecodedBatches, last_offset: int, *, from_zero: bool
) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs of adjacent offsets that are not consecutive, and the chunk's last offset.

    A ``last_offset`` of -1 means that no record precedes, or, if ``from_zero``, that offset 0 is expected next (4.x).
    """
    offsets = chunk.index.offsets
    if len(offsets) == 0:
        return [], last_offset
    previous_offsets = np.concatenate([np.array([last_offset]), offsets[:-1]])
    is_gap = offsets != previous_offsets + 1
    if not from_zero:
        is_gap &= previous_offsets != -1
    batches = np.flatnonzero(is_gap)
    return list(zip(previous_offsets[batches].tolist(), offsets[batches].tolist(), strict=True)), int(offsets[-1])
