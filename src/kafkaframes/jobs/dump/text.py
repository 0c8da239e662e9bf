"""Print one file of a log as kafka-dump-log does. ``dump_text`` accepts all kinds of files."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkaframes.errors import CorruptRecordError, KafkaframesError, LogDirError
from kafkaframes.jobs.dump import index_text
from kafkaframes.jobs.dump.chunks import NO_FILTER, ChunkReader, errors_in, keys_of, split_for_lines, values_of
from kafkaframes.jobs.dump.columns import batch_columns, header_keys, record_columns, rows_of
from kafkaframes.jobs.dump.decoders import control_json, decoder_for
from kafkaframes.jobs.dump.files import DumpFile, kind_of
from kafkaframes.jobs.dump.lines import Lines
from kafkaframes.jobs.dump.styles import Findings, Style, TextOptions, finding_lines, style_for
from kafkaframes.records.decoded import Decoded
from kafkaframes.records.fields import END_MARKER_TYPES, control_type, coordinator_epoch
from kafkaframes.records.scan import Ints
from kafkaframes.storage.files.filesystem import FileSystem, split_path
from kafkaframes.storage.files.names import FileName, escape_unprintable
from kafkaframes.storage.files.producer_files import ProducerEntry, read_producer_snapshot, read_txn_index
from kafkaframes.storage.log.discover import filesystem_for
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import decode_java_text

# ---------------------------------------------------------------------------------------------------------------------
# A chunk of a segment in the text of kafka-dump-log: a line for each batch, followed by a line for each of its records.
#
# The lines of all batches and of all records of a chunk are rendered at once and then interleaved. Rare parts are
# computed in Python and passed as bytes columns: the text of control records, and the CRCs of messages in compressed
# messages.

_CRC_BYTES = 4

# Decodes a chunk's keys and values to two bytes columns (``decoders.py``).
Decoder = Callable[[Decoded], tuple[Any, Any]]


def _chunk_text(dump: TextDump, chunk: Decoded, decode: Decoder | None) -> bytes:
    """Return the lines of a chunk's batches and records in file order. Invalid UTF-8 is not changed."""
    options, style = dump.options, dump.style
    batches = batch_columns(chunk)
    records = _record_columns(dump, chunk, decode, batches) if options.has_records else {}
    chunks: list[memoryview] = []
    row = 0
    for first, stop, modern in _runs(chunk.batches.is_v2):
        last_row = row + int(chunk.index.rows[first:stop].sum())
        batch_line = style.batch if modern else style.message
        batch_lines = batch_line.render(rows_of(batches, first, stop), stop - first)
        record_lines = None
        if options.has_records:
            line = style.bare if options.skip_record_metadata else style.record if modern else style.message_record
            record_lines = line.render(rows_of(records, row, last_row), last_row - row)
        rows = chunk.index.rows[first:stop]
        _interleave(chunks, batch_lines, record_lines, rows, skip_empty=options.keep != NO_FILTER)
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
    """Append the line of each batch, followed by those of its records."""
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


def _record_columns(dump: TextDump, chunk: Decoded, decode: Decoder | None, batches: dict[str, Any]) -> dict[str, Any]:
    columns = record_columns(chunk)
    of_control = chunk.batches.is_control[chunk.owners]
    keys, values = decode(chunk) if decode else (columns["key"], columns["value"])
    has_text = ~of_control & dump.options.has_contents
    columns |= {
        "key_text": keys.where(has_text),
        "value_text": values.where(has_text),
        "header_keys": header_keys(chunk),
        "control_text": _control_texts(chunk, of_control, dump.style),
    }
    if not chunk.batches.is_v2.all():
        columns |= _message_columns(chunk) | _read_sizes(chunk, columns)
    for name in dump.style.batch_fields:
        columns[name] = batches[name][chunk.owners]
    return columns


def _read_sizes(chunk: Decoded, columns: dict[str, Any]) -> dict[str, Any]:
    """Return the sizes of keys and values. In formats 0 and 1 they are the stored ones, which may be below -1."""
    is_v2 = chunk.batches.is_v2[chunk.owners]
    index = chunk.index
    return {
        "key_size": np.where(is_v2, columns["key_size"], index.key_size),
        "value_size": np.where(is_v2, columns["value_size"], index.value_size),
    }


def _message_columns(chunk: Decoded) -> dict[str, Any]:
    """Return the CRC of each message of format 0 or 1, and whether it is valid. Inner messages have their own CRC."""
    crcs = chunk.batches.column("crc")[chunk.owners]
    valid = chunk.crc_ok[chunk.owners]
    data = chunk.sections.buf
    for row in np.flatnonzero(chunk.batches.is_wrapper[chunk.owners]).tolist():
        start = int(chunk.index.headers_at[row])
        size = int.from_bytes(data[start - 4 : start], "big")
        crcs[row] = int.from_bytes(data[start : start + _CRC_BYTES], "big")
        valid[row] = zlib.crc32(data[start + _CRC_BYTES : start + size].data) == crcs[row]
    return {"record_crc": crcs, "record_valid": valid}


def _control_texts(chunk: Decoded, of_control: npt.NDArray[np.bool_], style: Style) -> pa.Array:
    """Return the text of each control record, and null for other records."""
    if not of_control.any():
        return pa.nulls(len(of_control), pa.binary())
    texts: list[bytes | None] = [None] * len(of_control)
    for row in np.flatnonzero(of_control).tolist():
        texts[row] = control_text(keys_of(chunk).at(row), values_of(chunk).at(row), style).encode("utf-8", "replace")
    return pa.array(texts, pa.binary())


def control_text(key: bytes | None, value: bytes | None, style: Style) -> str:
    """Return the text of a control record. If it is unreadable, the text has the reason."""
    try:
        kind = control_type(key)
        if kind in END_MARKER_TYPES:
            return f"endTxnMarker: {kind} coordinatorEpoch: {coordinator_epoch(value)}"
    except CorruptRecordError as error:
        return f"controlType: unreadable ({error.reason})"
    if kind in style.control_json and (result := control_json(kind, value)) is not None:
        return result
    number = int.from_bytes((key or b"")[2:4], "big", signed=True)
    return f"controlType: {kind}({number})"


def not_consecutive(chunk: Decoded, last_offset: int, *, from_zero: bool) -> tuple[list[tuple[int, int]], int]:
    """Return the pairs of adjacent offsets that are not consecutive, and the chunk's last offset.

    A ``last_offset`` of -1 means that no record precedes, or, if ``from_zero``, that offset 0 is expected next (4.x).
    """
    offsets = chunk.index.offsets
    if len(offsets) == 0:
        return [], last_offset
    previous_offsets = np.concatenate([np.array([last_offset]), offsets[:-1]])
    apart = offsets != previous_offsets + 1
    if not from_zero:
        apart &= previous_offsets != -1
    batches = np.flatnonzero(apart)
    return list(zip(previous_offsets[batches].tolist(), offsets[batches].tolist(), strict=True)), int(offsets[-1])


# ---------------------------------------------------------------------------------------------------------------------


@dataclass
class TextDump:
    """The text of one file, in parts. ``findings`` is complete after the iteration."""

    file: DumpFile
    options: TextOptions
    findings: Findings
    style: Style = field(init=False)

    def __post_init__(self) -> None:
        self.style = style_for(self.options.style)

    def __iter__(self) -> Iterator[bytes]:
        yield f"Dumping {self.findings.file}\n".encode()
        printer = _PRINTERS.get(self.file.kind, _unknown)
        try:
            yield from printer(self)
        except KafkaframesError as error:
            self.findings.faults.append(error)

    def error_lines(self) -> Iterator[str]:
        """Yield the lines that kafka-dump-log writes to standard error about the file. Faults are not included."""
        return finding_lines(self.findings, self.style)


def dump_text(path: str | DumpFile, options: TextOptions, *, shown_path: str | None = None) -> TextDump:
    """Return the text of one file. ``shown_path`` is the file's name in the text, by default its path."""
    file = path if isinstance(path, DumpFile) else _file(filesystem_for(path), path)
    return TextDump(file, options, Findings(escape_unprintable(shown_path or file.path)))


def _file(filesystem: FileSystem, path: str) -> DumpFile:
    result = filesystem.stat(path)
    return DumpFile(filesystem, path, kind_of(split_path(path)[1]), result.size_bytes if result else 0)


def _unknown(dump: TextDump) -> Iterator[bytes]:
    yield f"Ignoring unknown file {dump.findings.file}\n".encode()


def _records(dump: TextDump) -> Iterator[bytes]:
    yield from (f"{line}\n".encode() for line in _start_lines(dump))
    options, findings = dump.options, dump.findings
    decode = decoder_for(options.decoder, dump.style) if options.decoder else None
    reader = ChunkReader(dump.file, options.max_bytes)
    last_offset = -1
    for chunk in reader:
        findings.faults += errors_in(chunk).values() if options.has_records else ()
        if options.has_records and options.keep == NO_FILTER:
            pairs, last_offset = not_consecutive(chunk, last_offset, from_zero=dump.style.counts_from_zero)
            findings.not_consecutive += pairs
        for part, has_begun in split_for_lines(options.keep.apply(chunk)):
            text = _chunk_text(dump, part, decode)
            yield java_bytes(text[text.index(b"\n") + 1 :] if has_begun else text)  # the batch's line was printed
        if options.keep.is_done(chunk):
            return
    if reader.fault is not None:
        findings.faults.append(reader.fault)
    elif reader.bytes_read < reader.file.size_bytes and options.max_bytes is None:
        name = escape_unprintable(split_path(dump.file.path)[1])
        yield f"Found {reader.file.size_bytes - reader.bytes_read} invalid bytes at the end of {name}\n".encode()


def _start_lines(dump: TextDump) -> Iterator[str]:
    file_name = escape_unprintable(split_path(dump.file.path)[1])
    name = FileName.parse(file_name)
    if file_name == "bootstrap.checkpoint":
        yield "KRaft bootstrap snapshot"
    elif name is not None and name.kind == "checkpoint":
        yield f"Snapshot end offset: {name.offset}, epoch: {name.leader_epoch}"
    elif name is not None:
        yield f"{dump.style.start}{name.offset}"


def java_bytes(raw: bytes) -> bytes:
    """Return text as Java prints it in UTF-8. It can be converted at once, because ASCII characters surround values."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return decode_java_text(raw).encode()
    return raw


def _index(dump: TextDump, lines: Callable[..., Iterator[str]]) -> Iterator[bytes]:
    index = index_text.open_index(dump.file.filesystem, dump.file.path, partial(_max_timestamp, dump.file.filesystem))
    yield from (f"{line}\n".encode() for line in lines(index, dump.options, dump.findings))


def _max_timestamp(filesystem: FileSystem, path: str) -> Callable[[int, int], int]:
    """Return a function that returns the largest record timestamp of a batch in ``path``."""

    def largest(position: int, size: int) -> int:
        chunk = next(iter(ChunkReader(DumpFile(filesystem, path, "log", position + size), bytes_read=position)))
        error = chunk.error(0)
        if error is not None:
            raise error
        return int(np.max(chunk.index.timestamps, initial=index_text.NO_TIMESTAMP))

    return largest


def _small_file(dump: TextDump, lines: Callable[[bytes, Style, Findings], Iterator[str]]) -> Iterator[bytes]:
    raw = dump.file.filesystem.read(dump.file.path)
    yield from (f"{line}\n".encode() for line in lines(raw, dump.style, dump.findings))


NO_OFFSET = -1


def producer_lines(raw: bytes, style: Style, findings: Findings) -> Iterator[str]:
    """Yield a line for each producer of a snapshot. A corrupt snapshot adds a note and yields no lines."""
    try:
        producers = read_producer_snapshot(raw, file=findings.file)
    except LogDirError as error:
        findings.notes.append(f"Snapshot is corrupt: {error}")
        return
    for producer in producers:
        yield _producer_line(producer, style)


def _producer_line(producer: ProducerEntry, style: Style) -> str:
    first = producer.current_txn_first_offset
    transaction = style.absent if first == NO_OFFSET else style.present.format(first)
    line = (
        f"producerId: {producer.producer_id} producerEpoch: {producer.producer_epoch} "
        f"coordinatorEpoch: {producer.coordinator_epoch} currentTxnFirstOffset: {transaction}"
    )
    if style.producer_timestamp:
        line += f" lastTimestamp: {producer.timestamp}"
    if producer.last_offset == NO_OFFSET:  # the producer has no data batch
        return line + (" " if style.trailing_space else "")
    return line + (
        f" firstSequence: {_first_sequence(producer)} lastSequence: {producer.last_sequence} "
        f"lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp}"
    )


def _first_sequence(producer: ProducerEntry) -> int:
    """Return the first sequence of the last batch: sequences wrap from 2^31-1 to 0."""
    first = producer.last_sequence - producer.offset_delta
    return first if first >= 0 else first + MAX_INT32 + 1


def transaction_lines(raw: bytes, _: Style, findings: Findings) -> Iterator[str]:
    """Yield a line for each aborted transaction. If an entry has an unknown version, add a fault instead."""
    try:
        transactions = read_txn_index(raw, file=findings.file, strict=False)
    except LogDirError as error:
        findings.faults.append(error)
        return
    for entry in transactions:
        yield (
            f"version: 0 producerId: {entry.producer_id} firstOffset: {entry.first_offset} "
            f"lastOffset: {entry.last_offset} lastStableOffset: {entry.last_stable_offset}"
        )


_PRINTERS: dict[str, Callable[[TextDump], Iterator[bytes]]] = {
    "log": _records,
    "checkpoint": _records,
    "index": partial(_index, lines=index_text.offset_index_lines),
    "timeindex": partial(_index, lines=index_text.time_index_lines),
    "snapshot": partial(_small_file, lines=producer_lines),
    "txnindex": partial(_small_file, lines=transaction_lines),
}
