"""Print one file of a log as kafka-dump-log does. ``dump_text`` accepts all kinds of files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kafkaframes.errors import KafkaframesError, LogDirError
from kafkaframes.jobs.dump import index_text
from kafkaframes.jobs.dump.chunks import NO_FILTER, ChunkReader, errors_in, split_for_lines
from kafkaframes.jobs.dump.decoders import decoder_for
from kafkaframes.jobs.dump.files import DumpFile, kind_of
from kafkaframes.jobs.dump.segment_text import chunk_text, not_consecutive
from kafkaframes.jobs.dump.styles import Findings, Style, TextOptions, finding_lines, style_for
from kafkaframes.storage.files.filesystem import FileSystem, split_path
from kafkaframes.storage.files.names import FileName, escape_unprintable
from kafkaframes.storage.files.producer_files import ProducerEntry, read_producer_snapshot, read_txn_index
from kafkaframes.storage.log.discover import filesystem_for
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import decode_java_text


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
            text = chunk_text(options, dump.style, part, decode)
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
