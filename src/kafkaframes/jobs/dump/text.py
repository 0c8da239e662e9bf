"""Print one file of a log as kafka-dump-log does. ``dump_text`` accepts all kinds of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kafkaframes.errors import KafkaframesError, LogDirError
from kafkaframes.jobs.dump import index_text
from kafkaframes.jobs.dump.chunks import NO_FILTER, ChunkReader, map_errors_by_batch, split_to_fit_memory
from kafkaframes.jobs.dump.decoders import find_decoder
from kafkaframes.jobs.dump.files import DumpFile, find_file_kind
from kafkaframes.jobs.dump.segment_text import find_nonconsecutive_offsets, render_chunk_text
from kafkaframes.jobs.dump.styles import FileFindings, OutputStyle, TextOptions, find_style, format_findings
from kafkaframes.storage.files.filesystem import FileSystem, split_path
from kafkaframes.storage.files.names import FileName, escape_unprintable
from kafkaframes.storage.files.producer_files import ProducerEntry, read_producer_snapshot, read_txn_index
from kafkaframes.storage.log.discover import find_filesystem
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import decode_java_text


@dataclass
class TextDump:
    """The text of one file, in parts. ``findings`` is complete after the iteration."""

    file: DumpFile
    options: TextOptions
    findings: FileFindings
    style: OutputStyle = field(init=False)

    def __post_init__(self) -> None:
        self.style = find_style(self.options.style)

    def __iter__(self) -> Iterator[bytes]:
        yield f"Dumping {self.findings.file}\n".encode()
        printer = _PRINTERS_BY_KIND.get(self.file.kind, _report_unknown_file)
        try:
            yield from printer(self)
        except KafkaframesError as error:
            self.findings.faults.append(error)

    def format_error_lines(self) -> Iterator[str]:
        """Yield the lines that kafka-dump-log writes to standard error about the file. Faults are not included."""
        return format_findings(self.findings, self.style)


def dump_text(path: str | DumpFile, options: TextOptions, *, shown_path: str | None = None) -> TextDump:
    """Return the text of one file. ``shown_path`` is the file's name in the text, by default its path."""
    file = path if isinstance(path, DumpFile) else _open_file(find_filesystem(path), path)
    return TextDump(file, options, FileFindings(escape_unprintable(shown_path or file.path)))


def _open_file(filesystem: FileSystem, path: str) -> DumpFile:
    result = filesystem.stat(path)
    return DumpFile(filesystem, path, find_file_kind(split_path(path)[1]), result.size_bytes if result else 0)


def _report_unknown_file(dump: TextDump) -> Iterator[bytes]:
    """Yield kafka-dump-log's line about a file of unknown kind."""
    yield f"Ignoring unknown file {dump.findings.file}\n".encode()


def _render_records(dump: TextDump) -> Iterator[bytes]:
    """Yield the text of a segment or KRaft snapshot."""
    yield from (f"{line}\n".encode() for line in _format_file_header(dump))
    options, findings = dump.options, dump.findings
    decode = find_decoder(options.decoder, dump.style) if options.decoder else None
    reader = ChunkReader(dump.file, options.max_bytes)
    last_offset = -1
    for chunk in reader:
        findings.faults += map_errors_by_batch(chunk).values() if options.has_records else ()
        if options.has_records and options.keep == NO_FILTER:
            pairs, last_offset = find_nonconsecutive_offsets(chunk, last_offset, from_zero=dump.style.counts_from_zero)
            findings.not_consecutive += pairs
        for part, has_begun in split_to_fit_memory(options.keep.select_records(chunk)):
            text = render_chunk_text(options, dump.style, part, decode)
            yield encode_like_java(
                text[text.index(b"\n") + 1 :] if has_begun else text
            )  # the batch's line is only printed once
        if options.keep.is_exhausted(chunk):
            return
    if reader.fault is not None:
        findings.faults.append(reader.fault)
    elif reader.bytes_read < reader.file.size_bytes and options.max_bytes is None:
        name = escape_unprintable(split_path(dump.file.path)[1])
        yield f"Found {reader.file.size_bytes - reader.bytes_read} invalid bytes at the end of {name}\n".encode()


def _format_file_header(dump: TextDump) -> Iterator[str]:
    """Yield the lines before the first batch, such as the start offset."""
    file_name = escape_unprintable(split_path(dump.file.path)[1])
    name = FileName.parse(file_name)
    if file_name == "bootstrap.checkpoint":
        yield "KRaft bootstrap snapshot"
    elif name is not None and name.kind == "checkpoint":
        yield f"Snapshot end offset: {name.offset}, epoch: {name.leader_epoch}"
    elif name is not None:
        yield f"{dump.style.start}{name.offset}"


def encode_like_java(raw: bytes) -> bytes:
    """Return text as Java prints it in UTF-8.

    All values can be converted together, because ASCII characters surround them.
    """
    try:
        raw.decode()
    except UnicodeDecodeError:
        return decode_java_text(raw).encode()
    return raw


def _render_index(dump: TextDump, lines: Callable[..., Iterator[str]]) -> Iterator[bytes]:
    """Yield the text of an index file."""
    index = index_text.open_index(
        dump.file.filesystem, dump.file.path, partial(_make_timestamp_reader, dump.file.filesystem)
    )
    yield from (f"{line}\n".encode() for line in lines(index, dump.options, dump.findings))


def _make_timestamp_reader(filesystem: FileSystem, path: str) -> Callable[[int, int], int]:
    """Return a function that returns the largest record timestamp of a batch in ``path``."""

    def find_largest_timestamp(position: int, size: int) -> int:
        chunk = next(iter(ChunkReader(DumpFile(filesystem, path, "log", position + size), bytes_read=position)))
        error = chunk.to_error(0)
        if error is not None:
            raise error
        return int(np.max(chunk.index.timestamps, initial=index_text.NO_TIMESTAMP))

    return find_largest_timestamp


def _render_small_file(
    dump: TextDump, lines: Callable[[bytes, OutputStyle, FileFindings], Iterator[str]]
) -> Iterator[bytes]:
    """Yield the text of a producer snapshot or transaction index."""
    raw = dump.file.filesystem.read(dump.file.path)
    yield from (f"{line}\n".encode() for line in lines(raw, dump.style, dump.findings))


NO_OFFSET = -1


def format_producers(raw: bytes, style: OutputStyle, findings: FileFindings) -> Iterator[str]:
    """Yield a line for each producer of a snapshot. A corrupt snapshot adds a note and yields no lines."""
    try:
        producers = read_producer_snapshot(raw, file=findings.file)
    except LogDirError as error:
        findings.notes.append(f"Snapshot is corrupt: {error}")
        return
    for producer in producers:
        yield _format_producer(producer, style)


def _format_producer(producer: ProducerEntry, style: OutputStyle) -> str:
    """Return the line of a producer in a snapshot."""
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
        f" firstSequence: {_compute_first_sequence(producer)} lastSequence: {producer.last_sequence} "
        f"lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp}"
    )


def _compute_first_sequence(producer: ProducerEntry) -> int:
    """Return the first sequence of the last batch: sequences wrap from 2^31-1 to 0."""
    first = producer.last_sequence - producer.offset_delta
    return first if first >= 0 else first + MAX_INT32 + 1


def format_transactions(raw: bytes, _: OutputStyle, findings: FileFindings) -> Iterator[str]:
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


_PRINTERS_BY_KIND: dict[str, Callable[[TextDump], Iterator[bytes]]] = {
    "log": _render_records,
    "checkpoint": _render_records,
    "index": partial(_render_index, lines=index_text.format_offset_index),
    "timeindex": partial(_render_index, lines=index_text.format_time_index),
    "snapshot": partial(_render_small_file, lines=format_producers),
    "txnindex": partial(_render_small_file, lines=format_transactions),
}
