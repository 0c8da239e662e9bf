"""Read captures and request logs as Arrow batches of one table, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import pyarrow as pa

from kafkaframes.capture.calls import CallTableBuilder
from kafkaframes.capture.client_values import split_software
from kafkaframes.capture.columns import CaptureColumn, choose_columns, schema_of
from kafkaframes.capture.coverage import Coverage
from kafkaframes.capture.files import find_files, has_log_name, read_head
from kafkaframes.capture.packets import WINDOW_BYTES, Ints, PacketReader
from kafkaframes.capture.records import RecordTableBuilder, collect_topic_names
from kafkaframes.capture.request_log import COMPLETED_REQUEST_TEXT, LogReader
from kafkaframes.capture.streams import CallFilter, Streams, WindowResult, iterate_windows_with_coverage
from kafkaframes.capture.tables import (
    ClientValuesLookup,
    build_batch,
    build_connection_rows,
    build_gap_rows,
    build_packet_batch,
    build_unread_rows,
)
from kafkaframes.capture.typed import ApiTypes, build_typed_columns
from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.protocol.spec.catalog.ledgers import release_names
from kafkaframes.records.reasons import FAIL, KEEP

Paths = str | Iterable[str]
ON_DAMAGE_VALUES = (KEEP, FAIL)


@dataclass(frozen=True, slots=True)
class CaptureOptions:
    """Options for reading captures.

    Attributes:
        table: calls, connections, gaps, packets or records.
        columns: column names, in output order; None for the table's default columns.
        ports: TCP ports of brokers. By default, Kafka connections are recognised by their traffic.
        secrets: whether credentials are included.
        api: name or number of an API. Only the calls of this API are returned, with ``request`` and ``response`` as
            structs (:class:`ApiTypes`).
        share, shares: index of this reader, from 0, and number of readers, each of which reads a part of the
            connections.
        lead_files: number of files at the start that a stream has already read. Only the calls after these files are
            returned.
        wait_files: number of further files that a stream reads before it returns an incomplete or unanswered call.
        window_bytes: size of a capture window, in bytes.
        apis: message specs for decoding requests and responses. Default: the catalog.
        names_of: release whose field names ``requestNamed`` and ``responseNamed`` use.
        on_damage: ``keep`` skips unreadable data; ``fail`` raises an error at the first data that may hide a call.
    """

    table: str = "calls"
    columns: tuple[str, ...] | None = None
    ports: tuple[int, ...] = ()
    secrets: bool = False
    api: str | None = None
    share: int = 0
    shares: int = 1
    lead_files: int | None = None
    wait_files: int = 1
    window_bytes: int = WINDOW_BYTES
    apis: ApiRegistry = CATALOG
    names_of: str | None = None
    on_damage: str = KEEP

    def get_body_types(self) -> ApiTypes | None:
        """Return the types of the bodies of ``api``, or None if ``api`` is not set.

        Raises:
            OptionError: the API does not exist.
        """
        return None if self.api is None else ApiTypes(self.api, secrets=self.secrets, apis=self.apis)

    def select_columns(self) -> tuple[CaptureColumn, ...]:
        """Return the selected columns.

        Raises:
            OptionError: the table or a column does not exist.
        """
        columns = choose_columns(self.table, self.columns)
        if self.names_of is not None:
            release_names(self.names_of)
            if self.columns is None and self.table == "calls":
                columns = choose_columns(
                    self.table, [name for column in columns for name in _add_named_column(column.name)]
                )
        types = self.get_body_types()
        if types is None:
            return columns
        if self.table != "calls":
            raise OptionError(f"api={self.api} requires table=calls, not {self.table}")
        kinds = {"request": types.request_type, "response": types.response_type}
        return tuple(
            column_name._replace(type=kinds.get(column_name.name, column_name.type)) for column_name in columns
        )


_NAMED_COLUMN_SUFFIX = "Named"


def _add_named_column(column: str) -> list[str]:
    return [column, f"{column}{_NAMED_COLUMN_SUFFIX}"] if column in (REQUEST, RESPONSE) else [column]


class CaptureBatches:
    """An iterator over the rows of a table, as Arrow batches. ``coverage`` is filled while files are read.

    Args:
        files: paths of the files of one capture, in order.
        options: table, columns, filters and limits of the read.
        is_alone: whether to raise if a file is not a capture. If False, a file that is not a capture becomes an entry
            of ``coverage``, and the other files are read. By default, true for a single file.
        coverage: report to which unread data are added. By default, a new report.
    """

    def __init__(
        self,
        files: Sequence[str],
        options: CaptureOptions,
        *,
        is_alone: bool | None = None,
        coverage: Coverage | None = None,
    ) -> None:
        self.files = list(files)
        self.options = options
        self.columns = options.select_columns()
        self.schema = schema_of(self.columns)
        self.coverage = Coverage() if coverage is None else coverage
        self._packets = PacketReader(
            self.files,
            share=options.share,
            shares=options.shares,
            every=options.table == "packets",
            window_bytes=options.window_bytes,
            is_alone=is_alone,
        )
        self._rows = _TABLE_FUNCTIONS[options.table](self)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self

    def __next__(self) -> pa.RecordBatch:
        return next(self._rows)

    def read_all(self) -> pa.Table:
        """Return all remaining rows as one table."""
        return pa.Table.from_batches(list(self), self.schema)

    def _iterate_windows(self) -> Iterator[WindowResult]:
        return iterate_windows_with_coverage(
            Streams(self._packets, ports=self.options.ports, apis=self.options.apis), self.coverage
        )

    def _select_span(self) -> CallFilter | None:
        """Return the filter for the calls of this read; None unless a stream reads the files."""
        lead = self.options.lead_files
        return None if lead is None else CallFilter(lead, len(self.files) - 1, self.options.wait_files)

    def iterate_calls(self) -> Iterator[pa.RecordBatch]:
        """Yield the table of calls."""
        options = self.options
        builder = CallTableBuilder(
            self.columns,
            self.files,
            secrets=options.secrets,
            types=options.get_body_types(),
            span=self._select_span(),
            apis=options.apis,
            names_of=options.names_of,
        )
        for traffic in self._iterate_windows():
            rows = builder.build_batch(traffic)  # also for a window without calls, whose frames may identify clients
            if rows.num_rows:
                yield rows

    def iterate_records(self) -> Iterator[pa.RecordBatch]:
        """Yield the table of records."""
        secrets, apis = self.options.secrets, self.options.apis
        # Metadata responses of all connections, even if this reader has only some of them, contain topic names.
        names = collect_topic_names(self.files, ports=self.options.ports, apis=apis)
        builder = RecordTableBuilder(
            self.columns, self.files, names, self.coverage, secrets=secrets, span=self._select_span(), apis=apis
        )
        for traffic in self._iterate_windows():
            if len(traffic.calls):
                yield from builder.iterate_batches(traffic)

    def iterate_connections(self) -> Iterator[pa.RecordBatch]:
        """Yield the table of connections.

        Ended connections are yielded when they are forgotten, all others at the end.
        """
        columns = choose_columns("calls", ("softwareName", "principal"))
        builder = CallTableBuilder(columns, self.files, apis=self.options.apis)

        def get_client_values(number: int) -> tuple[str | None, str | None, str | None]:
            software = builder.software.get_last_value(number)
            name, version = (None, None) if software is None else split_software(software)
            return name, version, builder.principals.get_last_value(number)

        for traffic in self._iterate_windows():
            yield from self._build_connection_rows(*traffic.forgotten_connections, get_client_values)
            builder.build_batch(traffic)
        known_connections = self._packets.connections
        yield from self._build_connection_rows(
            known_connections.table[: known_connections.count], np.arange(known_connections.count), get_client_values
        )

    def _build_connection_rows(
        self, table: Ints, numbers: Ints, get_client_values: ClientValuesLookup
    ) -> Iterator[pa.RecordBatch]:
        rows = list(build_connection_rows(table, numbers, self.files, get_client_values))
        rows.sort(key=lambda row: (row["firstTime"] or 0, row["connection"]))
        for start in range(0, len(rows), 8192):
            yield build_batch(rows[start : start + 8192], self.columns)

    def iterate_gaps(self) -> Iterator[pa.RecordBatch]:
        """Yield the table of gaps: first gaps in streams, then other unread data by file and reason."""
        builder = CallTableBuilder((), self.files)
        for traffic in self._iterate_windows():
            builder.renumber_connections(traffic)
            if len(traffic.gaps):
                rows = list(build_gap_rows(traffic.gaps, traffic.connections, builder.names, self.files, traffic.file))
                yield build_batch(rows, self.columns)
        unread_rows = list(build_unread_rows(self.coverage.entries_without_gaps))
        if unread_rows:
            yield build_batch(unread_rows, self.columns)

    def iterate_packets(self) -> Iterator[pa.RecordBatch]:
        """Yield the table of packets."""
        builder = CallTableBuilder((), self.files)
        for window in self._packets:
            self.coverage.update(self._packets.take_unread())
            if len(window.rows):
                known_connections = self._packets.connections
                yield build_packet_batch(window.rows, known_connections.table, builder.names, self.files, self.columns)


_TABLE_FUNCTIONS = {
    "calls": CaptureBatches.iterate_calls,
    "connections": CaptureBatches.iterate_connections,
    "gaps": CaptureBatches.iterate_gaps,
    "packets": CaptureBatches.iterate_packets,
    "records": CaptureBatches.iterate_records,
}


def read_capture(paths: Paths, options: CaptureOptions | None = None) -> CaptureBatches:
    """Return the rows of the captures in files, directories or patterns.

    Raises:
        OptionError: a path, the table or a column does not exist.
        DecodeError: (while iterating) the only file is not a capture.
    """
    path_list = [paths] if isinstance(paths, str) else list(paths)
    return CaptureBatches(find_files(path_list), options or CaptureOptions())


_LOG_ROWS_PER_BATCH = 4096
_PEEK_BYTES = 1 << 16  # leading bytes of a file, by which its format is recognized


def is_request_log(path: str) -> bool:
    """Return whether a file is a broker's request log. The first bytes decide; if they are blank, the name decides.

    Raises:
        OptionError: the file cannot be opened.
    """
    head = read_head(path, _PEEK_BYTES)
    return COMPLETED_REQUEST_TEXT.encode() in head or (not head.strip() and has_log_name(path)) or _is_text(head)


def _is_text(head: bytes) -> bool:
    return head[:1] in (b"[", b"{") or head[:4].isdigit()


def split_traffic(files: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split files into captures and request logs.

    Raises:
        OptionError: a file cannot be opened.
    """
    logs = [path for path in files if is_request_log(path)]
    log_set = set(logs)
    return [path for path in files if path not in log_set], logs


def read_traffic(
    files: Sequence[str], options: CaptureOptions, coverage: Coverage | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of captures, then those of request logs.

    Args:
        files: paths of captures and request logs.
        options: table, columns, filters and limits of the read.
        coverage: report to which unread data are added.

    Raises:
        OptionError: the table is not available for request logs.
        DecodeError: the only file is neither a capture nor a request log, or some data cannot be read and
            ``on_damage`` is ``fail``.
    """
    account = Coverage() if coverage is None else coverage
    batches = _create_capture_batches(files, options, account)
    if options.on_damage != FAIL:
        yield from batches
        return
    for batch in batches:
        _raise_first_error(account)
        yield batch
    _raise_first_error(account)


def _raise_first_error(coverage: Coverage) -> None:
    """Raise an error for the first entry whose data may hide Kafka calls, if any."""
    if coverage.unread:
        raise coverage.unread[0].as_exception()


def _create_capture_batches(
    files: Sequence[str], options: CaptureOptions, coverage: Coverage
) -> Iterator[pa.RecordBatch]:
    captures, logs = split_traffic(files)
    is_alone = len(files) == 1
    if captures:
        yield from CaptureBatches(captures, options, is_alone=is_alone, coverage=coverage)
    if logs and options.table != "calls":
        if captures:
            return
        raise OptionError(f"{logs[0]}: table={options.table} requires captures; a request log only has calls")
    new_files = set(files[options.lead_files or 0 :])  # each line of a request log is a complete call
    for path in [path for path in logs if path in new_files][options.share :: options.shares]:
        yield from _read_log_batches(LogReader(path, coverage, is_alone=is_alone), options)


def _read_log_batches(log: LogReader, options: CaptureOptions) -> Iterator[pa.RecordBatch]:
    types = options.get_body_types()
    if types is not None:
        yield from _build_typed_batches(log, options, types)
        return
    rows = log.iterate_rows(secrets=options.secrets, apis=options.apis, names_of=options.names_of)
    while rows_of_batch := list(islice(rows, _LOG_ROWS_PER_BATCH)):
        yield build_batch(rows_of_batch, options.select_columns())


def _build_typed_batches(log: LogReader, options: CaptureOptions, types: ApiTypes) -> Iterator[pa.RecordBatch]:
    """Yield the calls of one API with their bodies as structs, built from the log's JSON."""
    logged_values = log.iterate_rows(secrets=True, apis=options.apis, names_of=options.names_of)
    rows = (row for row in logged_values if row["apiKey"] == types.api_key)
    while rows_of_batch := list(islice(rows, _LOG_ROWS_PER_BATCH)):
        typed_arrays = build_typed_columns(rows_of_batch, types)
        yield build_batch(rows_of_batch, options.select_columns(), typed_arrays)
