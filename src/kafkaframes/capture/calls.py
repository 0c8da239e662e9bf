"""Build the table of calls from a capture, one window at a time: each row is a request with its response.

Columns are computed only if the caller selected them. Without JSON, error and record columns only the headers are
decoded, and ``_error`` then reports only bytes and messages that are missing from the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.capture import layout
from kafkaframes.capture.bodies import APIS_WITH_RECORDS, DecodedMessages, MessageKind, decode_to_json
from kafkaframes.capture.client_values import ClientValues, PendingLogins, find_software_events
from kafkaframes.capture.columns import TIMESTAMP_TYPE, CaptureColumn
from kafkaframes.capture.layout import FILE_NUMBER_MASK, FILE_NUMBER_SHIFT
from kafkaframes.capture.packets import Ints
from kafkaframes.capture.streams import CallFilter, WindowResult
from kafkaframes.capture.tables import BodyConverter, EndpointCache, build_error_column, build_summary_column
from kafkaframes.capture.typed import ApiTypes
from kafkaframes.errors.sensitive import REQUEST, RESPONSE, has_secrets
from kafkaframes.protocol.api_keys import API_VERSIONS
from kafkaframes.protocol.messages.registry import CATALOG, ApiRegistry
from kafkaframes.wire.primitives import decode_java_text

_CLIENT_ID_POSITION: Final = 10  # position of the client id in a request header
_DIRECTION_BY_JSON_COLUMN: Final = {
    f"{direction}{part}": direction for direction in (REQUEST, RESPONSE) for part in ("Header", "", "Named")
}


class CallTableBuilder:
    """Builds the table of calls for one capture window after the other.

    The builder remembers the client software and the user of each connection.
    """

    def __init__(
        self,
        columns: Sequence[CaptureColumn],
        files: Sequence[str],
        *,
        secrets: bool = False,
        types: ApiTypes | None = None,
        span: CallFilter | None = None,
        apis: ApiRegistry = CATALOG,
        names_of: str | None = None,
    ) -> None:
        self.columns = tuple(columns)
        self.apis = apis
        self.named_bodies = None if names_of is None else BodyConverter(names_of, apis)
        self.types = types
        self.span = span
        self.schema = pa.schema([(column.name, column.type) for column in columns])
        self.files = list(files)
        self.secrets = secrets
        self.names = EndpointCache()
        self.software = ClientValues()
        self.principals = ClientValues()
        self.logins = PendingLogins()
        self._last_traffic: WindowResult | None = None

    def renumber_connections(self, traffic: WindowResult) -> None:
        """Replace the remembered connections' numbers with those that a capture window has assigned.

        A repeated call for the same window has no effect.
        """
        if traffic.new_numbers is not None and traffic is not self._last_traffic:
            for entry in (self.names, self.software, self.principals, self.logins):
                entry.renumber(traffic.new_numbers)
        self._last_traffic = traffic

    def build_batch(self, traffic: WindowResult) -> pa.RecordBatch:
        """Return the calls in a capture window as a record batch, sorted by request time."""
        calls = CallColumns(self, traffic)
        arrays = [_COLUMN_FUNCTIONS[column.name](calls) for column in self.columns]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)


class CallColumns:
    """The calls of one window of the capture, as columns. Values that several columns need are computed once."""

    def __init__(self, builder: CallTableBuilder, traffic: WindowResult) -> None:
        builder.renumber_connections(traffic)
        self.builder, self.traffic = builder, traffic
        self.column_names = {column.name for column in builder.columns}
        frames, calls = traffic.frames, traffic.calls
        if builder.types is not None and len(calls):
            keys = np.where(calls[:, layout.CALL_REQUEST] >= 0, frames[calls[:, layout.CALL_REQUEST], layout.F_API], -1)
            calls = calls[keys == builder.types.api_key]
        if builder.span is not None and len(calls):
            calls = calls[builder.span.select_calls_in_span(traffic, calls)]
        calls = calls[np.argsort(_get_request_times(frames, calls), kind="stable")]
        self.request, self.response = calls[:, layout.CALL_REQUEST].copy(), calls[:, layout.CALL_RESPONSE].copy()
        self.connection = calls[:, layout.CALL_CONNECTION].copy()
        self.count = len(calls)
        self._frame_columns = {
            REQUEST: traffic.copy_frame_columns(self.request),
            RESPONSE: traffic.copy_frame_columns(self.response),
        }
        self.errors: dict[int, str] = {}
        self._record_missing_bytes()

    def get_frame_rows(self, direction: str) -> Ints:
        """Return the frame rows of the calls' requests or responses, -1 if a call lacks one."""
        return self.request if direction == REQUEST else self.response

    def get_frame_values(self, direction: str, column: int) -> Ints:
        """Return a frame column for each request or response.

        If the frame is missing, the value is -1 (0 for flags and missing bytes).
        """
        result: Ints = self._frame_columns[direction][column]
        return result

    def get_numbers(self, direction: str, column: int, kind: pa.DataType, *, min_value: int | None = None) -> pa.Array:
        """Return a frame column as an Arrow array, with null for missing frames and for values below ``min_value``."""
        values = self.get_frame_values(direction, column)
        mask = self.get_frame_rows(direction) < 0
        if min_value is not None:
            mask |= values < min_value
        return pa.array(values, pa.int64(), mask=mask).cast(kind)

    # ------------------------------------------------------------------------------------------------ state

    @cached_property
    def known_api_mask(self) -> Any:
        """A mask of calls that have a request whose API is known."""
        return (self.request >= 0) & (self.get_frame_values(REQUEST, layout.F_API) >= 0)

    def get_states(self, direction: str) -> list[str]:
        """Return the state of each request or response: whole, damaged, missing or none (acks=0)."""
        rows = self.get_frame_rows(direction)
        is_damaged = (self.get_frame_values(direction, layout.F_FLAGS) & layout.BROKEN) != 0
        result = np.where(rows < 0, "missing", np.where(is_damaged, "damaged", "whole"))
        if direction == RESPONSE:
            silent = (rows < 0) & ((self.get_frame_values(REQUEST, layout.F_FLAGS) & layout.NO_REPLY) != 0)
            result = np.where(silent, "none", result)
        return list(map(str, result))

    def _record_missing_bytes(self) -> None:
        """Add an error to each call with bytes that are missing from the capture."""
        for direction in (REQUEST, RESPONSE):
            is_damaged = (self.get_frame_values(direction, layout.F_FLAGS) & layout.BROKEN) != 0
            missing_bytes, size = (
                self.get_frame_values(direction, layout.F_MISSING),
                self.get_frame_values(direction, layout.F_SIZE),
            )
            for row in np.flatnonzero(is_damaged).tolist():
                self.add_error(
                    row, f"{direction}: {missing_bytes[row]} of its {size[row]} bytes are not in the capture"
                )
        for row in np.flatnonzero(self.request < 0).tolist():
            self.add_error(row, "request: not in the capture")
        silent = (self.response < 0) & ((self.get_frame_values(REQUEST, layout.F_FLAGS) & layout.NO_REPLY) == 0)
        for row in np.flatnonzero(silent).tolist():
            self.add_error(row, "response: not in the capture")

    def add_error(self, row: int, text: str) -> None:
        """Append a text to a call's ``_error``."""
        old_text = self.errors.get(row)
        self.errors[row] = text if old_text is None else f"{old_text}; {text}"

    # ----------------------------------------------------------------------------------------------- bodies

    @cached_property
    def kind_numbers(self) -> Ints:
        """The API key and version of each call, combined into one number; -1 if the API is unknown."""
        return np.where(
            self.known_api_mask,
            (self.get_frame_values(REQUEST, layout.F_API) << 16) | self.get_frame_values(REQUEST, layout.F_VERSION),
            -1,
        )

    @cached_property
    def rows_by_kind(self) -> tuple[Ints, list[tuple[int, Ints]]]:
        """The distinct combinations of API and version (``kind_numbers``), and for each the rows of its calls."""
        order = np.argsort(self.kind_numbers, kind="stable")
        sorted_kinds = self.kind_numbers[order]
        edges = np.flatnonzero(np.diff(sorted_kinds, prepend=-2, append=-2)).tolist()
        result = [(int(sorted_kinds[start]), order[start:end]) for start, end in pairwise(edges)]
        return np.array([kind for kind, _ in result], np.int64), result

    def build_column_by_kind(self, values: Callable[[int], Any], type_: pa.DataType) -> pa.Array:
        """Return a column of values that depend only on API and version."""
        kinds, result = self.rows_by_kind
        kind_index = np.empty(self.count, np.int64)
        for index, (_, rows) in enumerate(result):
            kind_index[rows] = index
        return pa.array([values(kind) for kind in kinds.tolist()], type_).take(pa.array(kind_index))

    def group_by_kind(
        self, direction: str, *, kind_filter: Callable[[int], bool] | None = None
    ) -> Iterator[tuple[MessageKind, Ints]]:
        """Yield (kind, rows of calls) for whole requests or responses whose API is known."""
        is_whole = (self.get_frame_rows(direction) >= 0) & (
            (self.get_frame_values(direction, layout.F_FLAGS) & layout.BROKEN) == 0
        )
        for number, calls in self.rows_by_kind[1]:
            kind = MessageKind(number >> 16, number & 0xFFFF, direction, self.builder.apis)
            if number >= 0 and (kind_filter is None or kind_filter(kind.api_key)):
                rows = calls[is_whole[calls]]
                if len(rows):
                    yield kind, rows

    def get_frame_bytes(self, direction: str, rows: Ints) -> tuple[Any, Ints]:
        """Return the bytes of the requests or responses for the calls in ``rows``, and their start positions."""
        return self.traffic.copy_frame_bytes(self.get_frame_rows(direction)[rows])

    @cached_property
    def json_columns(self) -> dict[str, pa.Array]:
        """The columns of headers and bodies as JSON, by column name."""
        out = {name: pa.nulls(self.count, pa.string()) for name in _DIRECTION_BY_JSON_COLUMN}
        for direction in (REQUEST, RESPONSE):
            if not any(_DIRECTION_BY_JSON_COLUMN.get(name) == direction for name in self.column_names):
                continue
            headers, bodies, named_texts, indexes = [], [], [], []
            for kind, rows in self.group_by_kind(direction):
                result = decode_to_json(*self.get_frame_bytes(direction, rows), kind, secrets=self.builder.secrets)
                headers.append(result.headers)
                bodies.append(result.bodies)
                indexes.append(rows)
                if self.builder.named_bodies is not None:
                    named_texts.append(self.builder.named_bodies.convert_bodies(result.bodies, kind.api_key, direction))
                for index, error in result.errors.items():
                    self.add_error(int(rows[index]), error)
            out[f"{direction}Header"] = self.scatter_values(headers, indexes, pa.string())
            out[direction] = self.scatter_values(bodies, indexes, pa.string())
            if named_texts:
                out[f"{direction}Named"] = self.scatter_values(named_texts, indexes, pa.string())
        return out

    def scatter_values(self, parts: Sequence[pa.Array], indexes: Sequence[Ints], kind: pa.DataType) -> pa.Array:
        """Return a column with the values of ``parts`` at the rows in ``indexes``, and null in all other rows."""
        if not parts:
            return pa.nulls(self.count, kind)
        value_indexes = np.full(self.count, -1, np.int64)
        rows = np.concatenate(indexes)
        value_indexes[rows] = np.arange(len(rows))
        return pa.concat_arrays(parts).take(pa.array(value_indexes, pa.int64(), mask=value_indexes < 0))

    def decode_bodies(self, direction: str, types: ApiTypes) -> pa.Array:
        """Return the bodies as structs, with null for bodies that are incomplete or cannot be decoded."""
        parts, indexes = [], []
        for kind, rows in self.group_by_kind(direction):
            if kind.is_known:
                bodies = DecodedMessages(*self.get_frame_bytes(direction, rows), kind)
                parts.append(types.align_bodies(bodies.body, bodies.errors, direction))
                indexes.append(rows)
                for index in bodies.undecodable_rows.tolist():
                    self.add_error(int(rows[index]), f"{direction}: {bodies.errors[index].as_py()}")
        return self.scatter_values(parts, indexes, types.get_type(direction))

    @cached_property
    def decoded_messages(self) -> list[tuple[MessageKind, Ints, DecodedMessages]]:
        """The decoded bodies from which the columns of errors and records are derived."""
        result = []
        for direction in (REQUEST, RESPONSE):
            kind_filter = None if direction == RESPONSE and "errors" in self.column_names else _has_records(direction)
            if direction == REQUEST and "records" not in self.column_names:
                continue
            for kind, rows in self.group_by_kind(direction, kind_filter=kind_filter):
                # A broker answers an unsupported ApiVersions version with a response of version 0.
                if kind.api_key == API_VERSIONS and not kind.is_known:
                    kind = kind._replace(api_version=kind.apis.apis_by_key[API_VERSIONS].versions.highest)
                if kind.is_known:
                    result.append((kind, rows, DecodedMessages(*self.get_frame_bytes(direction, rows), kind)))
        return result

    @cached_property
    def error_codes(self) -> pa.Array:
        """The column of error codes, null if a response cannot be decoded."""
        is_read_by_json = "response" in self.column_names or "responseHeader" in self.column_names
        valid = np.zeros(self.count, bool)
        result = []
        for kind, rows, bodies in self.decoded_messages:
            if kind.direction != RESPONSE:
                continue
            bad = rows[bodies.undecodable_rows]
            valid[rows] = True
            valid[bad] = False
            result += [codes._replace(rows=rows[codes.rows]) for codes in bodies.iterate_error_codes()]
            if not is_read_by_json:
                for row, index in zip(bad.tolist(), bodies.undecodable_rows.tolist(), strict=True):
                    self.add_error(row, f"response: {bodies.errors[index].as_py()}")
        return build_error_column(result, valid)

    @cached_property
    def summaries(self) -> pa.Array:
        """The column of record summaries, null if a call carries no records."""
        counts, cuts, valid = [], np.zeros(self.count, np.int64), np.zeros(self.count, bool)
        indexes = []
        for kind, rows, bodies in self.decoded_messages:
            if kind.has_records:
                sums, truncations = bodies.summarize_records()
                good = bodies.errors.is_null().to_numpy(zero_copy_only=False)
                cuts[rows], valid[rows] = truncations, good
                counts.append(sums[good])
                indexes.append(rows[good])
        return build_summary_column(self.count, indexes, counts, cuts, valid)

    # ------------------------------------------------------------------------------------------ connections

    @cached_property
    def endpoints(self) -> tuple[list[Any], Ints]:
        """The endpoints of the connections in this capture window, and the connection index of each call."""
        indexes = np.full(self.traffic.connection_count, -1, np.int64)
        indexes[self.connection] = 0
        unique = np.flatnonzero(indexes == 0)
        indexes[unique] = np.arange(len(unique))
        return self.builder.names.resolve(self.traffic.connections, unique.tolist()), indexes[self.connection]

    def get_endpoint_column(self, field: str, kind: pa.DataType) -> pa.Array:
        """Return a field of the connection's endpoints (such as ``client_port``) as a column."""
        endpoints, endpoint_indexes = self.endpoints
        values = pa.array([getattr(endpoint, field) for endpoint in endpoints], kind)
        return values.take(pa.array(endpoint_indexes, pa.int64()))

    @cached_property
    def software(self) -> tuple[pa.Array, pa.Array]:
        """The name and version of each call's client software, from the connection's ApiVersions requests."""
        client_values = self.builder.software
        events = find_software_events(self.traffic, client_values, self.builder.apis)
        return client_values.to_name_and_version_columns(
            client_values.find_values(
                events, self.connection, self.get_frame_values(REQUEST, layout.F_OFFSET), is_after=False
            )
        )

    @cached_property
    def principals(self) -> pa.Array:
        """The authenticated principal of each call's connection."""
        client_values = self.builder.principals
        events = self.builder.logins.find_events(self.traffic, client_values, self.builder.apis)
        return client_values.get_text_column(
            client_values.find_values(
                events, self.connection, self.get_frame_values(REQUEST, layout.F_OFFSET), is_after=True
            )
        )

    # ------------------------------------------------------------------------------------------ plain columns

    def get_times(self, direction: str) -> pa.Array:
        """Return the times at which requests or responses were complete."""
        values = self.get_frame_values(direction, layout.F_END_TIME) // 1000
        return pa.array(values, pa.int64(), mask=self.get_frame_rows(direction) < 0).cast(TIMESTAMP_TYPE)

    def get_latencies(self) -> pa.Array:
        """Return the time between each request and its response, in milliseconds."""
        milliseconds = (
            self.get_frame_values(RESPONSE, layout.F_END_TIME) - self.get_frame_values(REQUEST, layout.F_END_TIME)
        ) / 1e6
        return pa.array(milliseconds, pa.float64(), mask=(self.request < 0) | (self.response < 0))

    def get_client_ids(self) -> pa.Array:
        """Return the client ids, null if the header has none."""
        lengths = self.get_frame_values(REQUEST, layout.F_ID_LENGTH)
        rows = np.flatnonzero((self.request >= 0) & (lengths >= 0))
        raw, starts = self.traffic.copy_frame_bytes(self.request[rows], lead=_CLIENT_ID_POSITION, sizes=lengths[rows])
        offsets = np.zeros(self.count + 1, np.int64)
        offsets[rows + 1] = np.diff(starts)
        np.cumsum(offsets, out=offsets)
        valid = np.zeros(self.count, bool)
        valid[rows] = True
        buffers = [np.packbits(valid, bitorder="little"), offsets.astype(np.int32), raw]
        return _to_text(pa.Array.from_buffers(pa.binary(), self.count, [pa.py_buffer(buffer) for buffer in buffers]))

    def get_api_names(self) -> pa.Array:
        """Return the API name of each call, null if the API is unknown."""
        return self.build_column_by_kind(
            lambda kind: self.builder.apis.name_of(kind >> 16) if kind >= 0 else None, pa.string()
        )

    def get_flexible_flags(self) -> pa.Array:
        """Return whether each call's version is flexible, null if the API or version is unknown."""
        return self.build_column_by_kind(lambda kind: _is_flexible(self.builder.apis, kind), pa.bool_())

    def get_correlation_ids(self) -> pa.Array:
        """Return the correlation id of each request, or of the response if the request is missing."""
        request_ids = self.get_frame_values(REQUEST, layout.F_CORRELATION)
        values = np.where(self.request >= 0, request_ids, self.get_frame_values(RESPONSE, layout.F_CORRELATION))
        has_id = self.known_api_mask | ((self.request < 0) & (self.get_frame_values(RESPONSE, layout.F_HAVE) >= 4))
        return pa.array(values, pa.int64(), mask=~has_id).cast(pa.int32())

    def get_file_names(self) -> pa.Array:
        """Return the capture file of each request, or of the response if the request is missing."""
        number = np.where(
            self.request >= 0,
            self.get_frame_values(REQUEST, layout.F_NUMBER),
            self.get_frame_values(RESPONSE, layout.F_NUMBER),
        )
        return pa.array(self.builder.files, pa.string()).take(pa.array(number >> FILE_NUMBER_SHIFT, pa.int64()))

    def get_packet_numbers(self, direction: str) -> pa.Array:
        """Return the number of the packet in which each request or response starts."""
        values = self.get_frame_values(direction, layout.F_NUMBER) & FILE_NUMBER_MASK
        return pa.array(values, pa.int64(), mask=self.get_frame_rows(direction) < 0)

    def get_raw_bytes(self, direction: str) -> pa.Array:
        """Return the captured bytes of requests or responses, null for APIs with secrets unless secrets are allowed."""
        rows = np.flatnonzero(self.get_frame_rows(direction) >= 0)
        raw, starts = self.get_frame_bytes(direction, rows)
        values: list[bytes | None] = [None] * self.count
        keys = self.get_frame_values(REQUEST, layout.F_API).tolist()
        for index, row in enumerate(rows.tolist()):
            if has_secrets(keys[row]) and not self.builder.secrets:
                continue
            values[row] = raw[starts[index] : starts[index + 1]].tobytes()
        return pa.array(values, pa.binary())

    def get_error_texts(self) -> pa.Array:
        """Return the ``_error`` column, including the errors found while the other columns are computed."""
        if self.column_names & _DIRECTION_BY_JSON_COLUMN.keys() and self.builder.types is None:
            _ = self.json_columns
        if "errors" in self.column_names:
            _ = self.error_codes
        for kind, rows in self.rows_by_kind[1]:
            if kind >= 0 and self.builder.apis.name_of(kind >> 16) is None:
                for row in rows.tolist():
                    self.add_error(row, f"request: unknown API key {kind >> 16}")
        if not self.errors:
            return pa.nulls(self.count, pa.string())
        return pa.array([self.errors.get(row) for row in range(self.count)], pa.string())


def _get_request_times(frames: Ints, calls: Ints) -> Ints:
    """Return the time at which each call's request was complete, or its response if the request is missing."""
    if not len(calls):
        return np.zeros(0, np.int64)
    frame = np.where(calls[:, layout.CALL_REQUEST] >= 0, calls[:, layout.CALL_REQUEST], calls[:, layout.CALL_RESPONSE])
    times: Ints = frames[frame, layout.F_END_TIME]
    return times


def _has_records(direction: str) -> Callable[[int], bool]:
    return lambda key: (key, direction) in APIS_WITH_RECORDS


def _is_flexible(apis: ApiRegistry, kind: int) -> bool | None:
    """Return whether the API version in ``kind`` is flexible; None if the API is unknown."""
    api = apis.apis_by_key.get(kind >> 16) if kind >= 0 else None
    return None if api is None else api.is_flexible(kind & 0xFFFF)


def _to_text(array: pa.Array) -> pa.Array:
    """Return a column of bytes as text. Invalid UTF-8 is replaced as Java replaces it."""
    try:
        return array.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if value is None else decode_java_text(value) for value in array.to_pylist()]
        return pa.array(texts, pa.string())


def _create_text_column_function(name: str) -> Callable[[CallColumns], pa.Array]:
    """Return a function that builds a column of bodies: as structs if one API is selected, else as JSON."""

    def build_column(calls: CallColumns) -> pa.Array:
        types = calls.builder.types
        if types is not None and name in (REQUEST, RESPONSE):
            return calls.decode_bodies(name, types)
        return calls.json_columns[name]

    return build_column


_COLUMN_FUNCTIONS: Final[dict[str, Callable[[CallColumns], pa.Array]]] = {
    "requestTime": lambda calls: calls.get_times(REQUEST),
    "responseTime": lambda calls: calls.get_times(RESPONSE),
    "latencyMs": lambda calls: calls.get_latencies(),
    "clientAddress": lambda calls: calls.get_endpoint_column("client", pa.string()),
    "clientPort": lambda calls: calls.get_endpoint_column("client_port", pa.int32()),
    "serverAddress": lambda calls: calls.get_endpoint_column("server", pa.string()),
    "serverPort": lambda calls: calls.get_endpoint_column("server_port", pa.int32()),
    "clientId": lambda calls: calls.get_client_ids(),
    "softwareName": lambda calls: calls.software[0],
    "softwareVersion": lambda calls: calls.software[1],
    "principal": lambda calls: calls.principals,
    "apiKey": lambda calls: calls.get_numbers(REQUEST, layout.F_API, pa.int32(), min_value=0),
    "apiName": lambda calls: calls.get_api_names(),
    "apiVersion": lambda calls: calls.get_numbers(REQUEST, layout.F_VERSION, pa.int32(), min_value=0),
    "flexible": lambda calls: calls.get_flexible_flags(),
    "correlationId": lambda calls: calls.get_correlation_ids(),
    "requestSizeBytes": lambda calls: calls.get_numbers(REQUEST, layout.F_SIZE, pa.int64()),
    "responseSizeBytes": lambda calls: calls.get_numbers(RESPONSE, layout.F_SIZE, pa.int64()),
    **{name: _create_text_column_function(name) for name in _DIRECTION_BY_JSON_COLUMN},
    "errors": lambda calls: calls.error_codes,
    "records": lambda calls: calls.summaries,
    "file": lambda calls: calls.get_file_names(),
    "connection": lambda calls: calls.get_endpoint_column("label", pa.string()),
    "_error": lambda calls: calls.get_error_texts(),
    "requestState": lambda calls: pa.array(calls.get_states(REQUEST), pa.string()),
    "responseState": lambda calls: pa.array(calls.get_states(RESPONSE), pa.string()),
    "requestOffset": lambda calls: calls.get_numbers(REQUEST, layout.F_OFFSET, pa.int64()),
    "responseOffset": lambda calls: calls.get_numbers(RESPONSE, layout.F_OFFSET, pa.int64()),
    "requestPacket": lambda calls: calls.get_packet_numbers(REQUEST),
    "responsePacket": lambda calls: calls.get_packet_numbers(RESPONSE),
    "requestBytes": lambda calls: calls.get_raw_bytes(REQUEST),
    "responseBytes": lambda calls: calls.get_raw_bytes(RESPONSE),
}
