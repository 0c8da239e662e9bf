"""One file of a log as kafka-dump-log prints it: ``dump_text`` takes any of the kinds and goes by the file's name."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from kafkaframes.errors import KafkaframesError, LogDirError
from kafkaframes.jobs.dump import index_text
from kafkaframes.jobs.dump.chunks import ChunkReader, cut_lines, errors_in
from kafkaframes.jobs.dump.decoders import decoder_for
from kafkaframes.jobs.dump.files import DumpFile, kind_of
from kafkaframes.jobs.dump.filters import NO_FILTER, Selection
from kafkaframes.jobs.dump.index_text import IndexOptions
from kafkaframes.jobs.dump.names import LATEST, MAX_MESSAGE_SIZE
from kafkaframes.jobs.dump.records_text import RecordOptions, chunk_text, not_consecutive
from kafkaframes.jobs.dump.styles import Findings, Style, finding_lines, style_for
from kafkaframes.storage.files.filesystem import FileSystem, split
from kafkaframes.storage.files.names import FileName, printable
from kafkaframes.storage.files.producer_snapshot import ProducerEntry, read_producer_snapshot
from kafkaframes.storage.files.txn_index import read_txn_index
from kafkaframes.storage.log.where import filesystem_for
from kafkaframes.wire.primitives import java_text


@dataclass(frozen=True, slots=True)
class TextOptions:
    """kafka-dump-log's flags, and the Kafka version in whose form to print."""

    style: str = LATEST
    deep_iteration: bool = False
    print_data_log: bool = False
    skip_record_metadata: bool = False
    index_sanity_check: bool = False
    verify_index_only: bool = False
    max_bytes: int | None = None
    max_message_size: int = MAX_MESSAGE_SIZE
    decoder: str = ""
    keep: Selection = NO_FILTER


@dataclass
class TextDump:
    """The text of one file, in pieces; what was noticed on the way is complete when the iteration is over."""

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
        """Yield what kafka-dump-log writes to standard error about the file; faults are in ``findings``."""
        return finding_lines(self.findings, self.style)


def dump_text(path: str | DumpFile, options: TextOptions, *, shown: str | None = None) -> TextDump:
    """Return the text of one file.

    Args:
        path: the file, or what ``files_to_dump`` found.
        options: what to print.
        shown: how the file is called in the text; its path by default.

    Raises:
        LogDirError: the file is not there.
        OptionError: there is no such style.
    """
    file = path if isinstance(path, DumpFile) else _file(filesystem_for(path), path)
    return TextDump(file, options, Findings(printable(shown or file.path)))


def _file(filesystem: FileSystem, path: str) -> DumpFile:
    result = filesystem.stat(path)
    return DumpFile(filesystem, path, kind_of(split(path)[1]), result.size_bytes if result else 0)


def _unknown(dump: TextDump) -> Iterator[bytes]:
    yield f"Ignoring unknown file {dump.findings.file}\n".encode()


def _records(dump: TextDump) -> Iterator[bytes]:
    yield from (f"{line}\n".encode() for line in _start_lines(dump))
    options, findings = dump.options, dump.findings
    printed = RecordOptions(
        dump.style,
        deep=options.deep_iteration or options.print_data_log or bool(options.decoder),
        contents=options.print_data_log or bool(options.decoder),
        metadata=not options.skip_record_metadata,
        decode=decoder_for(options.decoder, dump.style) if options.decoder else None,
        only_with_records=options.keep != NO_FILTER,
    )
    reader = ChunkReader(dump.file, options.max_bytes)
    last_offset = -1
    for chunk in reader:
        findings.faults += errors_in(chunk).values() if printed.deep else ()
        if printed.deep and not printed.only_with_records:
            pairs, last_offset = not_consecutive(chunk, last_offset, from_zero=dump.style.counts_from_zero)
            findings.not_consecutive += pairs
        for part, has_begun in cut_lines(options.keep.apply(chunk)):
            text = chunk_text(part, printed)
            yield java_bytes(text[text.index(b"\n") + 1 :] if has_begun else text)  # its batch's line is there already
        if options.keep.is_done(chunk):
            return
    if reader.fault is not None:
        findings.faults.append(reader.fault)
    elif reader.bytes_read < reader.file.size_bytes and options.max_bytes is None:
        name = printable(split(dump.file.path)[1])
        yield f"Found {reader.file.size_bytes - reader.bytes_read} invalid bytes at the end of {name}\n".encode()


def _start_lines(dump: TextDump) -> Iterator[str]:
    file_name = printable(split(dump.file.path)[1])
    name = FileName.parse(file_name)
    if file_name == "bootstrap.checkpoint":
        yield "KRaft bootstrap snapshot"
    elif name is not None and name.kind == "checkpoint":
        yield f"Snapshot end offset: {name.offset}, epoch: {name.leader_epoch}"
    elif name is not None:
        yield f"{dump.style.start}{name.offset}"


def java_bytes(raw: bytes) -> bytes:
    """Return text as Java would print it in UTF-8; values stand between ASCII characters, so all of it at once."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        return java_text(raw).encode()
    return raw


def _index(dump: TextDump, lines: Callable[..., Iterator[str]]) -> Iterator[bytes]:
    options = IndexOptions(
        sanity_only=dump.options.index_sanity_check,
        verify_only=dump.options.verify_index_only,
        max_message_size=dump.options.max_message_size,
        to_the_end=dump.style.walks_to_the_end,
    )
    index = index_text.open_index(dump.file.filesystem, dump.file.path, partial(_max_timestamp, dump.file.filesystem))
    yield from (f"{line}\n".encode() for line in lines(index, options, dump.findings))


def _max_timestamp(filesystem: FileSystem, path: str) -> Callable[[int, int], int]:
    """Return what finds the largest timestamp of the records in a batch of ``path``."""

    def largest(position: int, size: int) -> int:
        chunk = next(iter(ChunkReader(DumpFile(filesystem, path, "log", position + size), bytes_read=position)))
        error = chunk.error(0)
        if error is not None:
            raise error
        return int(np.max(chunk.index.timestamps, initial=index_text.NO_TIMESTAMP))

    return largest


def _producers(dump: TextDump) -> Iterator[bytes]:
    raw = dump.file.filesystem.read(dump.file.path)
    yield from (f"{line}\n".encode() for line in producer_lines(raw, dump.style, dump.findings))


def _transactions(dump: TextDump) -> Iterator[bytes]:
    raw = dump.file.filesystem.read(dump.file.path)
    yield from (f"{line}\n".encode() for line in transaction_lines(raw, dump.findings))


_PRINTERS: dict[str, Callable[[TextDump], Iterator[bytes]]] = {
    "log": _records,
    "checkpoint": _records,
    "index": partial(_index, lines=index_text.offset_index_lines),
    "timeindex": partial(_index, lines=index_text.time_index_lines),
    "snapshot": _producers,
    "txnindex": _transactions,
}


NO_SEQUENCE = -1
NO_OFFSET = -1
_MOST_SEQUENCE = 2**31 - 1


def producer_lines(raw: bytes, style: Style, findings: Findings) -> Iterator[str]:
    """Yield a line for each producer of a snapshot; a corrupt one is a note and no line."""
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
    if producer.last_offset == NO_OFFSET:  # it has no data batch
        return line + (" " if style.trailing_space else "")
    return line + (
        f" firstSequence: {_first_sequence(producer)} lastSequence: {producer.last_sequence} "
        f"lastOffset: {producer.last_offset} offsetDelta: {producer.offset_delta} timestamp: {producer.timestamp}"
    )


def _first_sequence(producer: ProducerEntry) -> int:
    """Return the first sequence of the last batch: sequences wrap from 2^31-1 to 0."""
    first = producer.last_sequence - producer.offset_delta
    return first if first >= 0 else first + _MOST_SEQUENCE + 1


def transaction_lines(raw: bytes, findings: Findings) -> Iterator[str]:
    """Yield a line for each aborted transaction; a damaged index is a fault after the entries that are whole."""
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
