"""Dump log files as a stream of bytes: the text of kafka-dump-log, JSON lines, CSV, Arrow, or a kcat format.

``kafkaframes.dump_log`` creates a ``LogDump``. The files are found and checked when the dump is created, and are read
while it is iterated.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import RawIOBase
from typing import TYPE_CHECKING, Any, Final, Literal

import pyarrow as pa

from kafkaframes.errors import KafkaframesError, LogDirError, OptionError
from kafkaframes.jobs.dump import arrow_tables, files, kcat
from kafkaframes.jobs.dump.chunks import (
    ChunkReader,
    RecordFilter,
    SegmentOrigin,
    compile_key_pattern,
    map_errors_by_batch,
)
from kafkaframes.jobs.dump.csv_file import CsvFile
from kafkaframes.jobs.dump.decoders import DECODERS
from kafkaframes.jobs.dump.jsonl import JsonLinesDump, JsonLinesOptions
from kafkaframes.jobs.dump.names import FILE_KINDS, INDEX_FILES, MAX_PRINTED_VALUE_BYTES, RECORD_FILES
from kafkaframes.jobs.dump.ranges import RequestedFile, merge_file_copies, select_files_in_range
from kafkaframes.jobs.dump.styles import TextOptions, find_style
from kafkaframes.jobs.dump.text import dump_text
from kafkaframes.jobs.settings import PartitionSettings
from kafkaframes.records.decoded import DecodedBatches
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    NO_END,
    Bound,
    Limit,
    Name,
    TimeBound,
    expand_bound,
    to_log_bound,
)
from kafkaframes.scan.selection import check_choice
from kafkaframes.storage.files.directory import UnreadablePartition
from kafkaframes.storage.files.filesystem import split_path
from kafkaframes.storage.files.names import DirectoryName
from kafkaframes.storage.log.discover import describe_file

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

FORMATS: Final = ("text", "jsonl", "csv", "arrow", "envelopes")
DumpFormat = Literal["text", "jsonl", "csv", "arrow", "envelopes"]
DecoderName = Literal[
    "offsets", "transaction-log", "cluster-metadata", "remote-log-metadata", "share-group-state"
]  # a test compares these names with DECODERS
FileKind = Literal["log", "checkpoint", "index", "timeindex", "snapshot", "txnindex"]
Part = bytes | memoryview
Parts = Generator[Part, None, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class DumpSettings(PartitionSettings):
    """Settings of ``dump_log``, whose docstring describes them."""

    start: Limit = None
    end: Limit = None
    format: DumpFormat = "text"
    pattern: str | None = None
    offsets: Sequence[str] = ()
    count: int | None = None
    keys: Sequence[bytes] = ()
    key_regex: str | None = None
    kinds: Sequence[str] = ()
    text: TextOptions = field(default_factory=TextOptions)
    full_values: bool = False
    base64: bool = False
    replicas: Literal["merge", "all"] = "merge"
    store: Mapping[str, Any] | None = None

    def _reject_conflicts(self) -> None:
        PartitionSettings._reject_conflicts(self)  # slots=True creates the class again, so super() would fail
        for kind in self.kinds:
            check_choice("kinds", kind, FILE_KINDS)
        if self.pattern is not None and self.format != "text":
            raise OptionError(f"`pattern` is a format of its own, and cannot be combined with `format`={self.format}")
        if self.offsets and (self.start is not None or self.end is not None):
            raise OptionError("`offsets` cannot be combined with `start` and `end`, which it replaces")
        if self.text.decoder and self.text.decoder not in DECODERS:
            raise OptionError(f"`decoder` must be one of {', '.join(DECODERS)}, not {self.text.decoder!r}")
        for name, number, minimum in (
            ("count", self.count, 0),
            ("max_bytes", self.text.max_bytes, 0),
            ("max_message_size", self.text.max_message_size, 1),
        ):
            if number is not None and number < minimum:
                raise OptionError(f"`{name}` must be at least {minimum}, not {number}")
        find_style(self.text.style)
        if self.pattern is not None:
            kcat.plan_format(self.pattern, SegmentOrigin.parse_path(""))

    @property
    def storage(self) -> dict[str, Any]:
        """The settings as storage options."""
        from kafkaframes.storage.files.filesystem import storage_options

        return storage_options(self.key_files, follow_links=self.follow_links, store=self.store)

    @property
    def bounds(self) -> tuple[Bound, Bound]:
        """Start and end of the range."""
        return to_log_bound("start", self.start, unset=EARLIEST), to_log_bound("end", self.end, unset=LATEST)

    @property
    def has_control_records(self) -> bool:
        """Whether control records are printed: only by formats that show a log's structure."""
        return self.pattern is None and self.format in ("text", "jsonl")

    @property
    def file_kinds(self) -> tuple[str, ...]:
        """The kinds of a directory's files to print."""
        if not self.kinds and (self.text.index_sanity_check or self.text.verify_index_only):
            return INDEX_FILES
        return tuple(self.kinds) or RECORD_FILES

    def make_filter_lookup(self, partitions: Iterable[Name]) -> Callable[[Name | None], RecordFilter]:
        """Return a function that returns the conditions on the records of a topic partition, None for other files.

        Raises:
            OptionError: a bound contains a topic partition that is not in ``partitions``, or a setting is invalid.
        """
        offset_range = kcat.parse_offsets(tuple(self.offsets))
        start, end = self.bounds
        base = RecordFilter(
            from_offset=offset_range.start_offset,
            from_timestamp=offset_range.start_timestamp,
            until_timestamp=offset_range.end_timestamp,
            keys=frozenset(self.keys) or None,
            key_pattern=compile_key_pattern(self.key_regex) if self.key_regex else None,
            control=self.has_control_records,
        )
        names = set(partitions)
        starts, ends = (
            _make_bound_lookup(setting, bound, names) for setting, bound in (("start", start), ("end", end))
        )

        def filter_of(name: Name | None) -> RecordFilter:
            result = _limit_start(base, starts(name), is_time=isinstance(start, TimeBound))
            return _limit_end(result, ends(name), is_time=isinstance(end, TimeBound))

        return filter_of


def _make_bound_lookup(setting: str, bound: Bound, names: set[Name]) -> Callable[[Name | None], int]:
    """Return a function that returns the start or end of a topic partition. ``names``: all topic partitions."""
    value = bound.times if isinstance(bound, TimeBound) else bound
    if isinstance(value, int):
        return lambda name: value
    values = expand_bound(setting, bound, names)
    return lambda name: values[name] if name is not None else EARLIEST if setting == "start" else LATEST


def _limit_start(base: RecordFilter, value: int, *, is_time: bool) -> RecordFilter:
    """Return the conditions with a start, which is an offset or a timestamp."""
    if is_time:
        return replace(base, from_timestamp=value)
    if value == EARLIEST:
        return base
    return replace(base, from_offset=NO_END if value == LATEST else value)


def _limit_end(base: RecordFilter, value: int, *, is_time: bool) -> RecordFilter:
    """Return the conditions with an end (exclusive), which is an offset or a timestamp."""
    if is_time:
        return replace(base, until_timestamp=value)
    if value == LATEST:
        return base
    return replace(base, until_offset=0 if value == EARLIEST else value)


class LogDump(Iterator[bytes | memoryview]):
    """The output of a dump, in parts.

    Attributes:
        errors: damage found so far, with file and position. Each error occurs once.
        notes: lines about the files read so far that kafka-dump-log writes to standard error.
        decisions: decisions about the copies of partitions, one line each.
    """

    def __init__(self, paths: Sequence[str], settings: DumpSettings) -> None:
        self.errors: list[KafkaframesError] = []
        self.notes: list[str] = []
        self.decisions: list[str] = []
        self._error_texts: set[str] = set()
        self._settings = settings
        self._requests = self._plan_requests(paths)
        self._parts = _DUMP_METHOD_BY_FORMAT["pattern" if settings.pattern is not None else settings.format](self)

    def __next__(self) -> bytes | memoryview:
        return next(self._parts)

    def __repr__(self) -> str:
        name = "pattern" if self._settings.pattern is not None else self._settings.format
        return f"dump in the format {name}: an iterator over bytes; read_all() returns all of them"

    def read_all(self) -> bytes:
        """Return the remaining bytes."""
        return b"".join(self)

    def write_to(self, out: Any) -> None:
        """Write the remaining bytes to a binary file."""
        for part in self:
            out.write(part)

    def close(self) -> None:
        """End the dump, and close the file that is being read."""
        self._parts.close()

    def _plan_requests(self, paths: Sequence[str]) -> Iterator[RequestedFile]:
        """Yield the files to dump, each with the filter for its records."""
        settings, options = self._settings, self._settings.storage
        is_json = settings.format == "jsonl"
        unreadable: list[UnreadablePartition] = []
        result = files.list_files_to_dump(
            paths, kinds=settings.file_kinds, temporary=is_json, options=options, unreadable=unreadable
        )
        result, unreadable = files.select_files(result, unreadable, settings.topic_names, settings.partition_numbers)
        for partition in unreadable:
            self._add_error(partition.as_error())
        if settings.replicas == "merge":
            result, self.decisions = merge_file_copies(result, paths, options=options)
        for entry in result:
            if not entry.kind:
                content = describe_file(entry.filesystem, entry.path)
                raise LogDirError(f"is not a segment, an index or a snapshot, but {content}", file=entry.path)
        names = {name for name in map(_parse_partition, result) if name is not None}
        filter_of = settings.make_filter_lookup(names)
        return select_files_in_range(result, lambda file: filter_of(_parse_partition(file)), limit=settings.count)

    def _add_error(self, error: KafkaframesError) -> None:
        """Add an error unless it has been added before. The dump of an index can report the same error again."""
        if str(error) not in self._error_texts:
            self._error_texts.add(str(error))
            self.errors.append(error)

    def _dump_as_text(self) -> Parts:
        """Yield the output in kafka-dump-log's text."""
        for request in self._requests:
            dump = dump_text(request.file, replace(self._settings.text, keep=request.keep))
            yield from dump
            self.notes += dump.format_error_lines()
            for fault in dump.findings.faults:
                self._add_error(fault)

    def _dump_as_json_lines(self) -> Parts:
        """Yield the output as JSON lines."""
        limit = None if self._settings.full_values else MAX_PRINTED_VALUE_BYTES
        for request in self._requests:
            dump = JsonLinesDump(request.file, JsonLinesOptions(limit, self._settings.text.max_bytes, request.keep))
            yield from dump
            for fault in dump.faults:
                self._add_error(fault)

    def _iterate_chunks(self) -> Iterator[tuple[DecodedBatches, SegmentOrigin]]:
        """Yield the requested records of each segment in chunks, each with the segment's origin."""
        for request in self._requests:
            reader = ChunkReader(request.file, self._settings.text.max_bytes)
            origin = SegmentOrigin.parse_path(request.file.path)
            for chunk in reader:
                for fault in map_errors_by_batch(chunk).values():
                    self._add_error(fault)
                yield request.keep.select_records(chunk), origin
                if request.keep.is_exhausted(chunk):
                    break
            if reader.fault is not None:
                self._add_error(reader.fault)

    def _render_chunks(
        self, plan: Callable[[SegmentOrigin], Any], write: Callable[[DecodedBatches, Any], Part]
    ) -> Parts:
        """Yield the lines of each chunk. ``plan`` compiles the line of a segment, and ``write`` renders it."""
        origin_and_plan: tuple[SegmentOrigin, Any] | None = None
        for chunk, origin in self._iterate_chunks():
            if origin_and_plan is None or origin_and_plan[0] is not origin:
                origin_and_plan = origin, plan(origin)
            yield write(chunk, origin_and_plan[1])

    def _dump_by_pattern(self) -> Parts:
        """Yield the records in kcat's format ``pattern``."""
        pattern = self._settings.pattern
        assert pattern is not None
        return self._render_chunks(lambda origin: kcat.plan_format(pattern, origin), kcat.render_records)

    def _dump_as_envelopes(self) -> Parts:
        """Yield the records in kcat's JSON envelopes."""
        return self._render_chunks(kcat.plan_envelope, kcat.render_envelopes)

    def _dump_as_csv(self) -> Parts:
        """Yield the records as CSV."""
        out = _PartBuffer()
        writer = CsvFile(out, arrow_tables.CSV_SCHEMA)
        yield out.take()
        for chunk, origin in self._iterate_chunks():
            _write_rows(writer, arrow_tables.make_csv_tables(chunk, origin, base64=self._settings.base64))
            yield out.take()

    def _dump_as_arrow(self) -> Parts:
        """Yield the records as an Arrow IPC stream."""
        out = _PartBuffer()
        with pa.ipc.new_stream(out, arrow_tables.RECORD_SCHEMA) as writer:
            for chunk, origin in self._iterate_chunks():
                _write_rows(writer, arrow_tables.make_tables(chunk, origin))
                yield out.take()
        yield out.take()


def _parse_partition(file: files.DumpFile) -> Name | None:
    """Return a file's topic and partition, from the name of its directory."""
    directory = DirectoryName.parse(split_path(split_path(file.path)[0])[1])
    return None if directory is None else (directory.topic_partition.topic, directory.topic_partition.partition)


def _write_rows(writer: Any, tables: Iterable[pa.RecordBatch]) -> None:
    """Write the batches that have rows."""
    for batch in tables:
        if batch.num_rows:
            writer.write_batch(batch)


class _PartBuffer(RawIOBase):
    """A file that collects the bytes of a writer until ``take``."""

    def __init__(self) -> None:
        super().__init__()
        self._parts: list[bytes] = []
        self._size = 0

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: ReadableBuffer) -> int:
        part = bytes(data)
        self._parts.append(part)
        self._size += len(part)
        return len(part)

    def take(self) -> bytes:
        """Return the bytes since the last call."""
        result = b"".join(self._parts)
        self._parts.clear()
        return result


_DUMP_METHOD_BY_FORMAT: dict[str, Callable[[LogDump], Parts]] = {
    "text": LogDump._dump_as_text,
    "jsonl": LogDump._dump_as_json_lines,
    "csv": LogDump._dump_as_csv,
    "arrow": LogDump._dump_as_arrow,
    "envelopes": LogDump._dump_as_envelopes,
    "pattern": LogDump._dump_by_pattern,
}
