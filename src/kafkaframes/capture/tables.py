"""Build the tables of connections, gaps and packets, the endpoints of connections, and list columns of calls."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from kafkaframes.capture import layout
from kafkaframes.capture.bodies import ErrorCodeColumns
from kafkaframes.capture.columns import ERRORS_TYPE, RECORD_SET_TYPE, RECORDS_TYPE, CaptureColumn, schema_of
from kafkaframes.capture.coverage import UnreadData
from kafkaframes.capture.layout import (
    A_HIGH,
    A_LOW,
    B_HIGH,
    B_LOW,
    CLIENT,
    FILE_NUMBER_MASK,
    FILE_NUMBER_SHIFT,
    FIRST_NUMBER,
    PORTS,
)
from kafkaframes.capture.packets import Ints
from kafkaframes.capture.unread import ENTRY_KIND_BY_GAP_REASON
from kafkaframes.protocol.messages.registry import ApiRegistry
from kafkaframes.protocol.spec.catalog.ledgers import release_names
from kafkaframes.records.layout import CODECS

_IPV4_MAPPED_PREFIX: Final = 0xFFFF00000000
_SCRAM_USER_PATTERN: Final = re.compile(rb"^(?:n|y|p=[^,]*),(?:a=[^,]*)?,n=([^,]*),r=")


class Endpoints(NamedTuple):
    """The two endpoints of a connection, and its label."""

    client: str
    client_port: int
    server: str
    server_port: int
    label: str


def format_address(high: int, low: int) -> str:
    """Return an address as text. IPv4 addresses are stored as IPv4-mapped IPv6.

    >>> format_address(0, 0xFFFF7F000001)
    '127.0.0.1'
    """
    if high == 0 and low >> 32 == _IPV4_MAPPED_PREFIX >> 32:
        return str(ipaddress.IPv4Address(low & 0xFFFFFFFF))
    return str(ipaddress.IPv6Address((high & (1 << 64) - 1) << 64 | low & (1 << 64) - 1))


def get_endpoints(row: Ints) -> Endpoints:
    """Return the endpoints of a connection from the connection's table row.

    If the client is unknown, side A is reported as the client.
    """
    first_endpoint = format_address(int(row[A_HIGH]), int(row[A_LOW])), int(row[PORTS]) >> 16
    second_endpoint = format_address(int(row[B_HIGH]), int(row[B_LOW])), int(row[PORTS]) & 0xFFFF
    client, server = (second_endpoint, first_endpoint) if row[CLIENT] == 1 else (first_endpoint, second_endpoint)
    number = int(row[FIRST_NUMBER])
    file = number >> FILE_NUMBER_SHIFT
    packet_text = f"{file}.{number & FILE_NUMBER_MASK}" if file else str(number & FILE_NUMBER_MASK)
    return Endpoints(*client, *server, f"{_join_address(*client)}-{_join_address(*server)}-{packet_text}")


def _join_address(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class BodyConverter:
    """Converts call bodies to the field names of a Kafka release."""

    def __init__(self, release: str, apis: ApiRegistry) -> None:
        """Look up the field names of a release.

        Raises:
            OptionError: the release is unknown or has no field names.
        """
        self._names = release_names(release)
        self._apis = apis

    def convert_body(self, body: str | None, api_key: int, direction: str) -> str | None:
        """Return the JSON of a request or response with the release's field names."""
        api = self._apis.apis_by_key.get(api_key)
        if api is None:
            return body
        return self._names.rename_fields(api.half(direction), body)

    def convert_bodies(self, bodies: pa.Array, api_key: int, direction: str) -> pa.Array:
        """Return the JSON of several requests or responses of one API with the release's field names."""
        return pa.array([self.convert_body(body, api_key, direction) for body in bodies.to_pylist()], pa.string())


class EndpointCache:
    """A cache of the endpoints of connections."""

    def __init__(self) -> None:
        self._ends: dict[int, Endpoints] = {}

    def renumber(self, numbers: Ints) -> None:
        """Replace each connection's number with ``numbers[number]``; -1 means that the connection is forgotten."""
        count = len(numbers)
        self._ends = {int(numbers[row]): ends for row, ends in self._ends.items() if row < count and numbers[row] >= 0}

    def resolve(self, connections: Ints, rows: Iterable[int]) -> list[Endpoints]:
        """Return the endpoints of the connections in ``rows``."""
        result = []
        for row in rows:
            ends = self._ends.get(row)
            if ends is None:
                ends = self._ends[row] = get_endpoints(connections[row])
            result.append(ends)
        return result


def parse_sasl_user(token: bytes) -> str | None:
    """Return the user name in the first token of SASL PLAIN (RFC 4616) or SCRAM (RFC 5802), else None.

    >>> parse_sasl_user(b"\\0alice\\0alice-secret"), parse_sasl_user(b"n,,n=bob,r=abc")
    ('alice', 'bob')
    >>> parse_sasl_user(b"c=biws,r=abc") is None
    True
    """
    match = _SCRAM_USER_PATTERN.match(token)
    if match is not None:
        return match.group(1).decode("utf-8", "replace").replace("=2C", ",").replace("=3D", "=")
    parts = token.split(b"\0")
    if len(parts) == 3 and parts[1]:
        return parts[1].decode("utf-8", "replace")
    return None


_TCP_FLAG_NAMES: Final = ((0x02, "SYN"), (0x10, "ACK"), (0x08, "PSH"), (0x01, "FIN"), (0x04, "RST"), (0x20, "URG"))
Row = dict[str, Any]
ClientValuesLookup = Callable[[int], tuple[str | None, str | None, str | None]]


def build_batch(
    rows: Sequence[Row], columns: Sequence[CaptureColumn], typed_arrays: Mapping[str, pa.Array] = MappingProxyType({})
) -> pa.RecordBatch:
    """Return rows as an Arrow batch with the given columns. ``typed_arrays`` has columns that are already computed."""
    schema = schema_of(columns)
    arrays = [
        typed_arrays[name] if name in typed_arrays else pa.array([row[name] for row in rows], field.type)
        for name, field in zip(schema.names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _to_microseconds(nanoseconds: int) -> int | None:
    return nanoseconds // 1000 if nanoseconds >= 0 else None


def build_connection_rows(
    table: Ints, numbers: Ints, files: Sequence[str], get_client_values: ClientValuesLookup
) -> Iterable[Row]:
    """Yield a row for each connection. ``get_client_values`` returns software name, software version and principal."""
    for number, row in zip(numbers.tolist(), table, strict=True):
        endpoints = get_endpoints(row)
        client = 1 if row[layout.CLIENT] == 1 else 0
        sides = [
            layout.FIRST_SIDE_COLUMN + client * layout.SIDE_COLUMN_COUNT,
            layout.FIRST_SIDE_COLUMN + (1 - client) * layout.SIDE_COLUMN_COUNT,
        ]
        request_side, response_side = (
            {column: int(row[base + column]) for column in range(layout.SIDE_COLUMN_COUNT)} for base in sides
        )
        name, version, principal = get_client_values(number)
        yield {
            "connection": endpoints.label,
            "protocol": layout.PROTOCOL_NAMES[int(row[layout.PROTOCOL])],
            "clientAddress": endpoints.client,
            "clientPort": endpoints.client_port,
            "serverAddress": endpoints.server,
            "serverPort": endpoints.server_port,
            "firstTime": _to_microseconds(int(row[layout.FIRST_TIME])),
            "lastTime": _to_microseconds(int(row[layout.LAST_TIME])),
            "clientPackets": request_side[layout.SIDE_PACKETS],
            "serverPackets": response_side[layout.SIDE_PACKETS],
            "clientBytes": request_side[layout.SIDE_BYTES],
            "serverBytes": response_side[layout.SIDE_BYTES],
            "requests": request_side[layout.FRAMES],
            "responses": response_side[layout.FRAMES],
            "gaps": request_side[layout.GAPS] + response_side[layout.GAPS],
            "beginsInCapture": request_side[layout.INITIAL] >= 0 or response_side[layout.INITIAL] >= 0,
            "closed": "rst"
            if row[layout.RESET]
            else "fin"
            if request_side[layout.ENDED] or response_side[layout.ENDED]
            else None,
            "softwareName": name,
            "softwareVersion": version,
            "principal": principal,
            "file": files[int(row[layout.FIRST_NUMBER]) >> FILE_NUMBER_SHIFT],
        }


def build_gap_rows(
    gaps: Ints, connections: Ints, names: EndpointCache, files: Sequence[str], file: int
) -> Iterable[Row]:
    """Yield a row for each gap in a stream."""
    for gap in gaps.tolist():
        (end,) = names.resolve(connections, [gap[layout.G_DIRECTION] >> 1])
        number = gap[layout.G_NUMBER]
        yield {
            "file": files[number >> FILE_NUMBER_SHIFT] if number >= 0 else files[file],
            "connection": end.label,
            "side": "server" if gap[layout.G_RESPONSE] else "client",
            "offset": gap[layout.G_OFFSET],
            "sizeBytes": gap[layout.G_SIZE],
            "kind": ENTRY_KIND_BY_GAP_REASON[gap[layout.G_REASON]],
            "reason": layout.GAP_REASONS[gap[layout.G_REASON]],
            "packets": None,
            "connections": None,
            "time": _to_microseconds(gap[layout.G_TIME]),
            "packet": number & FILE_NUMBER_MASK if number >= 0 else None,
        }


def build_unread_rows(entries: Iterable[UnreadData]) -> Iterable[Row]:
    """Yield a row for each entry of unread data other than gaps in streams."""
    for entry in entries:
        yield {
            "file": entry.file,
            "connection": None,
            "side": None,
            "offset": entry.position,
            "sizeBytes": entry.size_bytes,
            "kind": entry.kind,
            "reason": entry.reason,
            "packets": entry.packets,
            "connections": entry.connections or None,
            "time": None if entry.time_ns is None else _to_microseconds(entry.time_ns),
            "packet": entry.number,
        }


def build_packet_batch(
    rows: Ints, connections: Ints, names: EndpointCache, files: Sequence[str], columns: Sequence[CaptureColumn]
) -> pa.RecordBatch:
    """Return a row for each TCP packet."""
    order = np.argsort(rows[:, layout.NUMBER], kind="stable")
    rows = rows[order]
    owners = rows[:, layout.DIRECTION] >> 1
    unique, inverse = np.unique(owners, return_inverse=True)
    ends = names.resolve(connections, unique.tolist())
    side = rows[:, layout.DIRECTION] & 1
    by_client = side == np.where(connections[owners, layout.CLIENT] == 1, 1, 0)
    start = connections[owners, layout.FIRST_SIDE_COLUMN + side * layout.SIDE_COLUMN_COUNT + layout.START]
    array_builders: dict[str, Callable[[], pa.Array]] = {
        "time": lambda: pa.array(rows[:, layout.TIME] // 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "file": lambda: pa.array(files, pa.string()).take(
            pa.array(rows[:, layout.NUMBER] >> FILE_NUMBER_SHIFT, pa.int64())
        ),
        "packet": lambda: pa.array(rows[:, layout.NUMBER] & FILE_NUMBER_MASK, pa.int64()),
        "connection": lambda: _take_values([endpoint.label for endpoint in ends], inverse, pa.string()),
        "sourceAddress": lambda: _select_endpoint_field(ends, inverse, by_client, "client", "server", pa.string()),
        "sourcePort": lambda: _select_endpoint_field(
            ends, inverse, by_client, "client_port", "server_port", pa.int32()
        ),
        "targetAddress": lambda: _select_endpoint_field(ends, inverse, ~by_client, "client", "server", pa.string()),
        "targetPort": lambda: _select_endpoint_field(
            ends, inverse, ~by_client, "client_port", "server_port", pa.int32()
        ),
        "flags": lambda: _format_flags(rows[:, layout.FLAGS]),
        "streamOffset": lambda: pa.array(rows[:, layout.OFFSET] - start, pa.int64()),
        "sizeBytes": lambda: pa.array(rows[:, layout.LENGTH], pa.int64()),
        "capturedBytes": lambda: pa.array(rows[:, layout.CAPTURED], pa.int64()),
    }
    return pa.RecordBatch.from_arrays([array_builders[column.name]() for column in columns], schema=schema_of(columns))


def _take_values(values: list[Any], indexes: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind).take(pa.array(indexes, pa.int64()))


def _select_endpoint_field(
    ends: list[Endpoints], inverse: Any, first: Any, entry: str, other_entry: str, kind: pa.DataType
) -> pa.Array:
    values = [getattr(end, entry) for end in ends] + [getattr(end, other_entry) for end in ends]
    return _take_values(values, np.where(first, inverse, inverse + len(ends)), kind)


def _format_flags(flags: Ints) -> pa.Array:
    """Return TCP flags as text, such as ``SYN,ACK``."""
    texts = [",".join(name for bit, name in _TCP_FLAG_NAMES if number & bit) for number in range(256)]
    return _take_values(texts, flags, pa.string())


def build_error_column(result: Sequence[ErrorCodeColumns], valid: Any) -> pa.Array:
    """Return the column of errors. The errors of each call keep their order."""
    rows = np.concatenate([np.zeros(0, np.int64), *(error.rows for error in result)])
    order = np.argsort(rows, kind="stable")
    paths = pa.concat_arrays([pa.nulls(0, pa.string()), *(error.paths for error in result)])
    codes = np.concatenate([np.zeros(0, np.int32), *(error.codes for error in result)])
    structs = pa.StructArray.from_arrays(
        [paths.take(pa.array(order)), pa.array(codes[order], pa.int32())], fields=list(ERRORS_TYPE.value_type)
    )
    offsets = np.zeros(len(valid) + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=len(valid)), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), structs, type=ERRORS_TYPE, mask=pa.array(~valid, pa.bool_()))


def build_summary_column(count: int, indexes: list[Ints], counts: list[Ints], cuts: Ints, valid: Any) -> pa.Array:
    """Return the column of record summaries."""
    owners = np.concatenate([np.zeros(0, np.int64), *indexes])
    table = np.concatenate([np.zeros((0, 72), np.int64), *counts]).reshape(-1, 24, 3)
    order = np.argsort(owners, kind="stable")
    owners, table = owners[order], table[order]
    owner_rows, kinds = np.nonzero(table[:, :, 0])
    sets = pa.StructArray.from_arrays(
        [
            pa.array(kinds // 8, pa.int32()),
            pa.array([*CODECS, *(f"unknown {number}" for number in (5, 6, 7))], pa.string()).take(
                pa.array(kinds % 8, pa.int64())
            ),
            *(pa.array(np.ascontiguousarray(table[owner_rows, kinds, index]), pa.int64()) for index in range(3)),
        ],
        fields=list(RECORD_SET_TYPE),
    )
    offsets = np.zeros(count + 1, np.int64)
    np.add.at(offsets, owners[owner_rows] + 1, 1)
    lists = pa.ListArray.from_arrays(
        pa.array(np.cumsum(offsets), pa.int32()), sets, type=RECORDS_TYPE.field("sets").type
    )
    return pa.StructArray.from_arrays(
        [lists, pa.array(cuts, pa.int32())], fields=list(RECORDS_TYPE), mask=pa.array(~valid, pa.bool_())
    )
