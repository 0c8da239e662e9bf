"""``kafkaframes dump-log``: what is in the files of a log, as Kafka prints it or as data. Flags are kafka-dump-log's.

Everything that is printed is made in ``kafkaframes.dump``; here flags become options and pieces go to a stream.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import click
import pyarrow as pa
import pyarrow.csv

from kafkaframes.cli.options import (
    MERGE,
    key_options,
    range_options,
    reads,
    replicas_option,
    selection_options,
    times_of,
    with_options,
)
from kafkaframes.cli.text import say
from kafkaframes.dump import files, kcat, table
from kafkaframes.dump.chunks import Chunk, ChunkReader, Place
from kafkaframes.dump.copies import merge_files
from kafkaframes.dump.decoders import DECODERS
from kafkaframes.dump.filters import Filter, key_pattern
from kafkaframes.dump.index_text import MAX_MESSAGE_SIZE
from kafkaframes.dump.jsonl import VALUE_LIMIT, JsonDump, JsonOptions
from kafkaframes.dump.ranges import Wanted, wanted_files
from kafkaframes.dump.styles import LATEST, STYLES
from kafkaframes.dump.text import TextOptions, dump_text
from kafkaframes.errors import KafkaframesError, LogDirError, OptionError
from kafkaframes.files.atomic import refuse_inside

FORMATS = ("text", "jsonl", "csv", "arrow")
EXIT_FAULT = 1
Piece = bytes | memoryview


@dataclass
class Report:
    """What went to standard error, and whether anything was damaged."""

    faults: int = 0
    seen: set[str] = field(default_factory=set)

    def fault(self, error: KafkaframesError) -> None:
        """Print a fault once; the same place is met again by the dump of an index."""
        self.faults += 1
        if str(error) not in self.seen:
            self.seen.add(str(error))
            say(f"kafkaframes: {error}", err=True)


@click.command("dump-log", context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.argument("paths", nargs=-1)
@click.option("--files", "named", multiple=True, metavar="FILE[,FILE]", help="The same as PATHS, as Kafka names it.")
@click.option("--deep-iteration", is_flag=True, help="Text: print the records under each batch.")
@click.option("--print-data-log", is_flag=True, help="Text: print keys and payloads (and the records).")
@click.option("--skip-record-metadata", is_flag=True, help="Text: print nothing of a record but key and payload.")
@click.option("--index-sanity-check", is_flag=True, help="Indexes: only what a broker checks when it starts.")
@click.option("--verify-index-only", is_flag=True, help="Indexes: compare with the segment, print no entries.")
@click.option(
    "--max-bytes", type=click.IntRange(0), help="Read only batches that lie in the first N bytes of a segment."
)
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    default=MAX_MESSAGE_SIZE,
    show_default=True,
    help="Indexes: bytes of the segment that are looked at behind an entry.",
)
@click.option("--offsets-decoder", is_flag=True, help="Text: keys and payloads of __consumer_offsets in words.")
@click.option("--transaction-log-decoder", is_flag=True, help="Text: those of __transaction_state.")
@click.option("--cluster-metadata-decoder", is_flag=True, help="Text: those of __cluster_metadata.")
@click.option("--remote-log-metadata-decoder", is_flag=True, help="Text: those of __remote_log_metadata.")
@click.option("--share-group-state-decoder", is_flag=True, help="Text: those of __share_group_state.")
@click.option(
    "--style", default=LATEST, show_default=True, help=f"Text: in whose form: {', '.join(STYLES)}, or any version."
)
@click.option("--format", "form", type=click.Choice(FORMATS), default="text", show_default=True, help="See above.")
@click.option("-f", "pattern", metavar="FORMAT", help=r"kcat's format string: %t %p %o %T %k %K %s %S %h, \n, \xHH.")
@click.option("-J", "envelopes", is_flag=True, help="kcat's JSON envelope, one a line.")
@click.option("-o", "offsets", multiple=True, metavar="OFFSET", help="kcat's: beginning, end, N, -N, s@MS, e@MS.")
@click.option("-c", "count", type=click.IntRange(0), help="So many records at most.")
@with_options(*selection_options, *range_options, *key_options)
@click.option(
    "--kind",
    "kinds",
    type=click.Choice((*files.KINDS, "all")),
    multiple=True,
    help="Which files of a directory; default: segments and KRaft snapshots, with an index flag the indexes.",
)
@click.option("--full-values", is_flag=True, help=f"JSON lines: no digests for values above {VALUE_LIMIT} bytes.")
@click.option("--base64", is_flag=True, help="CSV: keys, values and header values in base64, so that no byte is lost.")
@replicas_option
@click.option("--output", type=click.Path(dir_okay=False), help="Write to a file, not to standard output.")
@reads("paths", "named")
def command(**given: Any) -> None:
    """Print the files of Kafka logs: segments, indexes, snapshots; without a broker and without Java.

    PATHS are files, partition directories, log directories, patterns, or URLs such as s3://bucket/logs.

    \b
    --format text    what kafka-dump-log prints, line for line
    --format jsonl   every batch, record, error and end as a JSON object; keys
                     and values in base64, values above 200 bytes as their
                     SHA-256 unless --full-values is given; a directory's
                     .deleted, .swap and .cleaned segments too
    --format csv     the records: key, value, topic, partition, offset,
                     timestamp, timestampType, headers
    --format arrow   the same as an Arrow IPC stream, the bytes as they are

    Where directories hold a partition more than once (brokers, disks), its segments are printed as one log, each offset
    once, with what was decided on standard error; files that are named themselves are printed as they are.

    Damaged batches are reported on standard error with file and position, what can be read is printed, and the
    exit status is 1. Control records are left out of csv, arrow, -f and -J.

    \b
    kafkaframes dump-log --print-data-log /logs/orders-0
    kafkaframes dump-log /logs -f '%t/%p@%o %T %k: %s\\n' -o s@1760000000000 -c 20
    kafkaframes dump-log /logs/orders-0 --format jsonl --key order-17
    kafkaframes dump-log /logs/__consumer_offsets-* --offsets-decoder
    """
    options = _Options(given)
    report = Report()
    with _stream(given["output"]) as out:
        _PRINTERS[options.printer](options, out, report)
        out.flush()
    if report.faults:
        sys.exit(EXIT_FAULT)


class _Options:
    """The flags, checked and put in order."""

    def __init__(self, given: dict[str, Any]) -> None:
        self.given = given
        self.paths = [*given["paths"], *(path for text in given["named"] for path in text.split(",") if path)]
        if not self.paths:
            raise OptionError("no files are named: give PATHS or --files")
        chosen = [name for name in ("pattern", "envelopes") if given[name]]
        if len(chosen) + (given["form"] != "text") > 1:
            raise OptionError("one of --format, -f and -J can be given")
        self.printer = chosen[0] if chosen else given["form"]
        if given["output"] is not None:
            refuse_inside(Path(given["output"]), self.paths)
        self.conditions = _conditions(given)
        names = TextOptions.__slots__
        self.text = TextOptions(**{name: given[name] for name in names if name in given}, decoder=_decoder(given))

    def wanted(self, *, control: bool = True, temporary: bool = False) -> Iterator[Wanted]:
        """Yield the files to print, and what is wanted of each."""
        options = self.given["storage"]
        found = files.files_to_dump(self.paths, kinds=self.kinds(), temporary=temporary, options=options)
        found = files.selected(found, self.given["topics"], self.given["partitions"])
        if self.given["replicas"] == MERGE:
            found, decisions = merge_files(found, self.paths, options=options)
            for line in decisions:
                say(f"kafkaframes: {line}", err=True)
        for one in found:
            if not one.kind:
                raise LogDirError("no file of a log: neither a segment, an index nor a snapshot", file=one.path)
        conditions = self.conditions if control else _without_control(self.conditions)
        return wanted_files(found, conditions, limit=self.given["count"])

    def kinds(self) -> tuple[str, ...]:
        """Return which files of a directory are wanted."""
        kinds = self.given["kinds"]
        if "all" in kinds:
            return files.KINDS
        if not kinds and (self.given["index_sanity_check"] or self.given["verify_index_only"]):
            return files.INDEXES
        return tuple(kinds) or files.RECORDS


def _decoder(given: dict[str, Any]) -> str:
    chosen = [name for name in DECODERS if given[f"{name.replace('-', '_')}_decoder"]]
    if len(chosen) > 1:
        raise OptionError(f"one decoder can be given, not --{'-decoder and --'.join(chosen)}-decoder")
    return chosen[0] if chosen else ""


def _conditions(given: dict[str, Any]) -> Filter:
    asked = kcat.parse_offsets(given["offsets"])
    from_offset, times = given["from_offset"], times_of(given)
    return Filter(
        from_offset=asked.start_offset if from_offset is None else from_offset,
        until_offset=given["until_offset"],
        from_timestamp=asked.start_timestamp if times["from_time"] is None else times["from_time"],
        until_timestamp=asked.end_timestamp if times["until_time"] is None else times["until_time"],
        keys=frozenset(key.encode() for key in given["keys"]) or None,
        key_pattern=key_pattern(given["key_regex"]) if given["key_regex"] else None,
    )


def _without_control(conditions: Filter) -> Filter:
    return replace(conditions, control=False)


@contextmanager
def _stream(path: str | None) -> Iterator[BinaryIO]:
    if path is None:
        sys.stdout.flush()
        yield sys.stdout.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "wb"))
        except OSError as error:
            raise OptionError(f"cannot write {path}: {error.strerror}") from None
        yield file


def _print_text(options: _Options, out: BinaryIO, report: Report) -> None:
    for wanted in options.wanted():
        dump = dump_text(wanted.file, replace(options.text, keep=wanted.keep))
        for piece in dump:
            out.write(piece)
        out.flush()
        for line in dump.error_lines():
            say(line, err=True)
        for fault in dump.findings.faults:
            report.fault(fault)


def _print_jsonl(options: _Options, out: BinaryIO, report: Report) -> None:
    limit = None if options.given["full_values"] else VALUE_LIMIT
    for wanted in options.wanted(temporary=True):
        dump = JsonDump(wanted.file, JsonOptions(limit, options.given["max_bytes"], wanted.keep))
        for piece in dump:
            out.write(piece)
        for fault in dump.faults:
            report.fault(fault)


def _chunks(options: _Options, report: Report) -> Iterator[tuple[Chunk, Place]]:
    """Yield what is wanted of every segment, without control records."""
    for wanted in options.wanted(control=False):
        reader = ChunkReader(wanted.file, options.given["max_bytes"])
        place = Place.of(wanted.file.path)
        for chunk in reader:
            for fault in chunk.problems.values():
                report.fault(fault)
            yield wanted.keep.apply(chunk), place
            if wanted.keep.is_done(chunk):
                break
        if reader.fault is not None:
            report.fault(reader.fault)


def _print_lines(
    options: _Options, out: BinaryIO, report: Report, plan: Callable[[Place], Any], write: Callable[[Chunk, Any], Piece]
) -> None:
    planned: tuple[Place, Any] | None = None
    for chunk, place in _chunks(options, report):
        if planned is None or planned[0] is not place:
            planned = place, plan(place)
        out.write(write(chunk, planned[1]))


def _print_pattern(options: _Options, out: BinaryIO, report: Report) -> None:
    pattern = options.given["pattern"]
    kcat.plan_format(pattern, Place.of(""))  # a wrong one is said before any file is read
    _print_lines(options, out, report, lambda place: kcat.plan_format(pattern, place), kcat.formatted)


def _print_envelopes(options: _Options, out: BinaryIO, report: Report) -> None:
    _print_lines(options, out, report, kcat.plan_envelope, kcat.enveloped)


def _print_csv(options: _Options, out: BinaryIO, report: Report) -> None:
    base64 = options.given["base64"]
    with pa.csv.CSVWriter(out, table.CSV_SCHEMA) as writer:
        for chunk, place in _chunks(options, report):
            _write_all(writer, table.csv_tables(chunk, place, base64=base64))


def _print_arrow(options: _Options, out: BinaryIO, report: Report) -> None:
    if out is sys.stdout.buffer and out.isatty():
        raise OptionError("an Arrow stream is no text for a terminal: give --output, or pipe it")
    with pa.ipc.new_stream(out, table.SCHEMA) as writer:
        for chunk, place in _chunks(options, report):
            _write_all(writer, table.chunk_tables(chunk, place))


def _write_all(writer: Any, tables: Iterable[pa.RecordBatch]) -> None:
    for one in tables:
        if one.num_rows:
            writer.write_batch(one)


_PRINTERS: dict[str, Callable[[_Options, BinaryIO, Report], None]] = {
    "text": _print_text,
    "jsonl": _print_jsonl,
    "csv": _print_csv,
    "arrow": _print_arrow,
    "pattern": _print_pattern,
    "envelopes": _print_envelopes,
}
