"""A chunk of a segment as text, in the form of kafka-dump-log: a line for each batch and under it one for each record.

Lines are written for all batches and all records of a chunk at once and then put into each other. What is rare is done
in Python and enters as a bytes column: the words of control records, the CRCs of messages inside compressed ones.
"""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError
from kafkaframes.jobs.dump.chunks import keys_of, values_of
from kafkaframes.jobs.dump.columns import batch_columns, header_keys, record_columns, rows_of
from kafkaframes.jobs.dump.decoders import control_json
from kafkaframes.jobs.dump.lines import Lines
from kafkaframes.jobs.dump.styles import Style
from kafkaframes.records import control
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.scan import Ints

_CRC_BYTES = 4

# What a decoder makes of a chunk's keys and values: two bytes columns (see ``decoders.py``).
Decoder = Callable[[Decoded], tuple[Any, Any]]


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """What of the records is printed: kafka-dump-log's flags.

    Attributes:
        style: the words.
        deep: print records at all.
        contents: print keys and payloads.
        metadata: print what comes before them.
        decode: makes text of keys and payloads; as they are by default.
        only_with_records: leave out batches without a record (after a filter).
    """

    style: Style
    deep: bool = True
    contents: bool = True
    metadata: bool = True
    decode: Decoder | None = None
    only_with_records: bool = False


def chunk_text(chunk: Decoded, options: RecordOptions) -> bytes:
    """Return the lines of a chunk's batches and records, in file order; bytes that are no UTF-8 stay what they are."""
    batches = batch_columns(chunk)
    records = _record_columns(chunk, options, batches) if options.deep else {}
    chunks: list[memoryview] = []
    row = 0
    for first, stop, modern in _runs(chunk.batches.is_v2):
        last_row = row + int(chunk.index.rows[first:stop].sum())
        style = options.style
        batch_line = style.batch if modern else style.message
        batch_lines = batch_line.render(rows_of(batches, first, stop), stop - first)
        record_lines = None
        if options.deep:
            line = (style.record if modern else style.message_record) if options.metadata else style.bare
            record_lines = line.render(rows_of(records, row, last_row), last_row - row)
        _interleave(
            chunks, batch_lines, record_lines, chunk.index.rows[first:stop], skip_empty=options.only_with_records
        )
        row = last_row
    return b"".join(chunks)


def _runs(flags: npt.NDArray[np.bool_]) -> Iterator[tuple[int, int, bool]]:
    """Yield (first, stop, value) for each run of equal flags."""
    edges = np.flatnonzero(np.diff(flags)) + 1
    bounds = [0, *edges.tolist(), len(flags)]
    for first, stop in itertools.pairwise(bounds):
        if stop > first:
            yield first, stop, bool(flags[first])


def _interleave(
    chunks: list[memoryview], batches: Lines, records: Lines | None, rows: Ints, *, skip_empty: bool
) -> None:
    """Append each batch's line and then those of its records."""
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


def _record_columns(chunk: Decoded, options: RecordOptions, batches: dict[str, Any]) -> dict[str, Any]:
    columns = record_columns(chunk)
    of_control = chunk.batches.is_control[chunk.owners]
    keys, values = options.decode(chunk) if options.decode else (columns["key"], columns["value"])
    shown = ~of_control & options.contents
    columns |= {
        "key_text": keys.where(shown),
        "value_text": values.where(shown),
        "header_keys": header_keys(chunk),
        "control_text": _control_texts(chunk, of_control, options.style),
    }
    if not chunk.batches.is_v2.all():
        columns |= _message_columns(chunk) | _stored_sizes(chunk, columns)
    for name in options.style.batch_fields:
        columns[name] = batches[name][chunk.owners]
    return columns


def _stored_sizes(chunk: Decoded, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes of keys and values, in formats 0 and 1 as they are stored: any below 0 is null there."""
    is_v2 = chunk.batches.is_v2[chunk.owners]
    index = chunk.index
    return {
        "key_size": np.where(is_v2, columns["key_size"], index.key_size),
        "value_size": np.where(is_v2, columns["value_size"], index.value_size),
    }


def _message_columns(chunk: Decoded) -> dict[str, Any]:
    """Return the CRC of each message of format 0 or 1, and whether it is right: inside a wrapper, its own."""
    crcs = chunk.batches.column("crc")[chunk.owners]
    valid = chunk.crc_ok[chunk.owners]
    data = chunk.sections.buf
    for row in np.flatnonzero(chunk.batches.is_wrapper[chunk.owners]).tolist():
        at = int(chunk.index.headers_at[row])
        size = int.from_bytes(data[at - 4 : at], "big")
        crcs[row] = int.from_bytes(data[at : at + _CRC_BYTES], "big")
        valid[row] = zlib.crc32(data[at + _CRC_BYTES : at + size].data) == crcs[row]
    return {"record_crc": crcs, "record_valid": valid}


def _control_texts(chunk: Decoded, of_control: npt.NDArray[np.bool_], style: Style) -> pa.Array:
    """Return what each control record says, null for all others."""
    if not of_control.any():
        return pa.nulls(len(of_control), pa.binary())
    texts: list[bytes | None] = [None] * len(of_control)
    for row in np.flatnonzero(of_control).tolist():
        texts[row] = control_text(keys_of(chunk).at(row), values_of(chunk).at(row), style).encode("utf-8", "replace")
    return pa.array(texts, pa.binary())


def control_text(key: bytes | None, value: bytes | None, style: Style) -> str:
    """Return a control record in words; what cannot be read is said, not raised."""
    try:
        kind = control.control_type(key)
        if kind in control.END_OF_TRANSACTION:
            return f"endTxnMarker: {kind} coordinatorEpoch: {control.coordinator_epoch(value)}"
    except CorruptRecordError as error:
        return f"controlType: unreadable ({error.reason})"
    if kind in style.control_json and (result := control_json(kind, value)) is not None:
        return result
    number = int.from_bytes((key or b"")[2:4], "big", signed=True)
    return f"controlType: {kind}({number})"


def not_consecutive(chunk: Decoded, last_offset: int, *, from_zero: bool) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs of neighbours that are not consecutive offsets, and the chunk's last offset.

    Args:
        last_offset: the record before the chunk's first; -1 at the beginning.
        from_zero: whether -1 counts as the offset before 0 (4.x), or as none.
    """
    offsets = chunk.index.offsets
    if len(offsets) == 0:
        return [], last_offset
    before = np.concatenate([np.array([last_offset]), offsets[:-1]])
    apart = offsets != before + 1
    if not from_zero:
        apart &= before != -1
    at = np.flatnonzero(apart)
    return list(zip(before[at].tolist(), offsets[at].tolist(), strict=True)), int(offsets[-1])
