"""The work of ``dump-log``: converts flags to options, and writes the parts of ``kafkaframes.jobs.dump``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa

from kafkaframes.cli.options import MERGE
from kafkaframes.cli.text import records_out, say
from kafkaframes.errors import KafkaframesError, LogDirError, OptionError
from kafkaframes.jobs.dump import columns, files, kcat
from kafkaframes.jobs.dump.chunks import ChunkReader, Filter, Origin, errors_in, key_pattern
from kafkaframes.jobs.dump.decoders import DECODERS
from kafkaframes.jobs.dump.jsonl import JsonDump, JsonOptions
from kafkaframes.jobs.dump.names import FILE_KINDS, INDEX_FILES, RECORD_FILES, VALUE_LIMIT
from kafkaframes.jobs.dump.ranges import Requested, merge_files, select_files_in_range
from kafkaframes.jobs.dump.styles import TextOptions
from kafkaframes.jobs.dump.text import dump_text
from kafkaframes.jobs.export.csv_file import CsvFile
from kafkaframes.records.decoded import Decoded
from kafkaframes.scan.ranges import EARLIEST, LATEST, NO_END, offset_of_bound, time_of_bound, to_log_bound
from kafkaframes.storage.files.atomic import open_output, reject_nested_destination
from kafkaframes.storage.log.discover import describe_file

EXIT_FAULT = 1
Part = bytes | memoryview


@dataclass
class Report:
    """The messages printed on standard error, and whether the log is damaged."""

    faults: int = 0
    seen: set[str] = field(default_factory=set)

    def fault(self, error: KafkaframesError) -> None:
        """Print an error once. The dump of an index can report the same error again."""
        self.faults += 1
        if str(error) not in self.seen:
            self.seen.add(str(error))
            say(f"kafkaframes: {error}", err=True)


def run(flags: dict[str, Any]) -> None:
    """Print the requested files. The exit status is 1 if one is damaged."""
    options = _Options(flags)
    report = Report()
    with _stream(flags["output"], is_text=options.printer != "arrow") as out:
        _PRINTERS[options.printer](options, out, report)
        out.flush()
    if report.faults:
        sys.exit(EXIT_FAULT)


class _Options:
    """The validated flags."""

    def __init__(self, flags: dict[str, Any]) -> None:
        self.flags = flags
        self.paths = [*flags["paths"], *(path for text in flags["named"] for path in text.split(",") if path)]
        if not self.paths:
            raise OptionError("no files are named: give PATHS or --files")
        printers = [name for name in ("pattern", "envelopes") if flags[name]]
        if len(printers) + (flags["form"] != "text") > 1:
            raise OptionError("one of --format, -f and -J can be given")
        self.printer = printers[0] if printers else flags["form"]
        if flags["output"] is not None:
            reject_nested_destination(Path(flags["output"]), self.paths)
        self.conditions = _conditions(flags)
        names = TextOptions.__slots__
        self.text = TextOptions(**{name: flags[name] for name in names if name in flags}, decoder=_decoder(flags))

    def files_in_range(self, *, control: bool = True, temporary: bool = False) -> Iterator[Requested]:
        """Yield the files to print, each with its requested part."""
        options = self.flags["storage"]
        result = files.files_to_dump(self.paths, kinds=self.kinds(), temporary=temporary, options=options)
        result = files.select_files(result, self.flags["topics"], self.flags["partitions"])
        if self.flags["replicas"] == MERGE:
            result, decisions = merge_files(result, self.paths, options=options)
            for line in decisions:
                say(f"kafkaframes: {line}", err=True)
        for entry in result:
            if not entry.kind:
                content = describe_file(entry.filesystem, entry.path)
                raise LogDirError(f"neither a segment, an index nor a snapshot, but {content}", file=entry.path)
        conditions = self.conditions if control else replace(self.conditions, control=False)
        return select_files_in_range(result, conditions, limit=self.flags["count"])

    def kinds(self) -> tuple[str, ...]:
        """Return the kinds of a directory's files to print."""
        kinds = self.flags["kinds"]
        if "all" in kinds:
            return FILE_KINDS
        if not kinds and (self.flags["index_sanity_check"] or self.flags["verify_index_only"]):
            return INDEX_FILES
        return tuple(kinds) or RECORD_FILES


def _decoder(flags: dict[str, Any]) -> str:
    decoders = [name for name in DECODERS if flags[f"{name.replace('-', '_')}_decoder"]]
    if len(decoders) > 1:
        raise OptionError(f"one decoder can be given, not --{'-decoder and --'.join(decoders)}-decoder")
    return decoders[0] if decoders else ""


def _conditions(flags: dict[str, Any]) -> Filter:
    offset_range = kcat.parse_offsets(flags["offsets"])
    start = to_log_bound("start", flags["start"], unset=EARLIEST)
    end = to_log_bound("end", flags["end"], unset=LATEST)
    if flags["offsets"] and (flags["start"] is not None or flags["end"] is not None):
        raise OptionError("--offset cannot be combined with --start and --end, which it replaces")
    return Filter(
        from_offset=NO_END if start == LATEST else offset_of_bound(start, unset=offset_range.start_offset),
        until_offset=0 if end == EARLIEST else offset_of_bound(end),
        from_timestamp=time_of_bound(start, unset=offset_range.start_timestamp),
        until_timestamp=time_of_bound(end, unset=offset_range.end_timestamp),
        keys=frozenset(key.encode() for key in flags["keys"]) or None,
        key_pattern=key_pattern(flags["key_regex"]) if flags["key_regex"] else None,
    )


@contextmanager
def _stream(path: str | None, *, is_text: bool) -> Iterator[BinaryIO]:
    if path is None:
        yield records_out(is_text=is_text)
        return
    with open_output(path) as file:
        yield file


def _print_text(options: _Options, out: BinaryIO, report: Report) -> None:
    for request in options.files_in_range():
        dump = dump_text(request.file, replace(options.text, keep=request.keep))
        for chunk in dump:
            out.write(chunk)
        out.flush()
        for line in dump.error_lines():
            say(line, err=True)
        for fault in dump.findings.faults:
            report.fault(fault)


def _print_jsonl(options: _Options, out: BinaryIO, report: Report) -> None:
    limit = None if options.flags["full_values"] else VALUE_LIMIT
    for request in options.files_in_range(temporary=True):
        dump = JsonDump(request.file, JsonOptions(limit, options.flags["max_bytes"], request.keep))
        for chunk in dump:
            out.write(chunk)
        for fault in dump.faults:
            report.fault(fault)


def _chunks(options: _Options, report: Report) -> Iterator[tuple[Decoded, Origin]]:
    """Yield the requested part of every segment, without control records."""
    for request in options.files_in_range(control=False):
        reader = ChunkReader(request.file, options.flags["max_bytes"])
        origin = Origin.of(request.file.path)
        for chunk in reader:
            for fault in errors_in(chunk).values():
                report.fault(fault)
            yield request.keep.apply(chunk), origin
            if request.keep.is_done(chunk):
                break
        if reader.fault is not None:
            report.fault(reader.fault)


def _print_lines(
    options: _Options,
    out: BinaryIO,
    report: Report,
    plan: Callable[[Origin], Any],
    write: Callable[[Decoded, Any], Part],
) -> None:
    origin_and_plan: tuple[Origin, Any] | None = None
    for chunk, origin in _chunks(options, report):
        if origin_and_plan is None or origin_and_plan[0] is not origin:
            origin_and_plan = origin, plan(origin)
        out.write(write(chunk, origin_and_plan[1]))


def _print_pattern(options: _Options, out: BinaryIO, report: Report) -> None:
    pattern = options.flags["pattern"]
    kcat.plan_format(pattern, Origin.of(""))  # reports an invalid format before any file is read
    _print_lines(options, out, report, lambda origin: kcat.plan_format(pattern, origin), kcat.format_records)


def _print_envelopes(options: _Options, out: BinaryIO, report: Report) -> None:
    _print_lines(options, out, report, kcat.plan_envelope, kcat.format_envelopes)


def _print_csv(options: _Options, out: BinaryIO, report: Report) -> None:
    base64 = options.flags["base64"]
    writer = CsvFile(out, columns.CSV_SCHEMA)
    for chunk, origin in _chunks(options, report):
        _write_all(writer, columns.csv_tables(chunk, origin, base64=base64))


def _print_arrow(options: _Options, out: BinaryIO, report: Report) -> None:
    with pa.ipc.new_stream(out, columns.SCHEMA) as writer:
        for chunk, origin in _chunks(options, report):
            _write_all(writer, columns.chunk_tables(chunk, origin))


def _write_all(writer: Any, tables: Iterable[pa.RecordBatch]) -> None:
    for batch in tables:
        if batch.num_rows:
            writer.write_batch(batch)


_PRINTERS: dict[str, Callable[[_Options, BinaryIO, Report], None]] = {
    "text": _print_text,
    "jsonl": _print_jsonl,
    "csv": _print_csv,
    "arrow": _print_arrow,
    "pattern": _print_pattern,
    "envelopes": _print_envelopes,
}
