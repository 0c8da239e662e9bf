"""Columns of the capture tables, with their Arrow and Spark types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from kafkaframes.errors import OptionError

TIMESTAMP_TYPE: Final = pa.timestamp("us", tz="UTC")


class CaptureColumn(NamedTuple):
    """A column: name, Spark type, Arrow type, whether it is selected by default, and description."""

    name: str
    ddl: str
    type: pa.DataType
    default: bool
    about: str


def _list(element: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", element))


ERRORS_TYPE: Final = _list(pa.struct([("path", pa.string()), ("code", pa.int32())]))
RECORD_SET_TYPE: Final = pa.struct(
    [
        ("magic", pa.int32()),
        ("codec", pa.string()),
        ("batches", pa.int64()),
        ("records", pa.int64()),
        ("bytes", pa.int64()),
    ]
)
RECORDS_TYPE: Final = pa.struct([("sets", _list(RECORD_SET_TYPE)), ("cut", pa.int32())])
HEADERS_TYPE: Final = _list(pa.struct([("key", pa.string()), ("value", pa.binary())]))

_ARROW_TYPES: Final = {
    "timestamp": TIMESTAMP_TYPE,
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "array<struct<path: string, code: int>>": ERRORS_TYPE,
    "array<struct<key: string, value: binary>>": HEADERS_TYPE,
}
_RECORDS_DDL: Final = (
    "struct<sets: array<struct<magic: int, codec: string, batches: bigint, records: bigint, bytes: bigint>>, cut: int>"
)
_ARROW_TYPES[_RECORDS_DDL] = RECORDS_TYPE


def _create_columns(*rows: tuple[str, str, str] | tuple[str, str, str, bool]) -> tuple[CaptureColumn, ...]:
    """Return columns from rows of name, Spark type, description, and optionally whether they are default columns."""
    return tuple(
        CaptureColumn(row[0], row[1], _ARROW_TYPES[row[1]], row[3] if len(row) == 4 else True, row[2]) for row in rows
    )


CALLS_TABLE_COLUMNS: Final = _create_columns(
    ("requestTime", "timestamp", "time of the request's last packet"),
    ("responseTime", "timestamp", "time of the response's last packet"),
    ("latencyMs", "double", "time between requestTime and responseTime"),
    ("clientAddress", "string", "address of the client"),
    ("clientPort", "int", "port of the client"),
    ("serverAddress", "string", "address of the broker"),
    ("serverPort", "int", "port of the broker"),
    ("clientId", "string", "client.id in the request header"),
    ("softwareName", "string", "client software in the connection's ApiVersions request (v3+, KIP-511)"),
    ("softwareVersion", "string", "version of the client software"),
    ("principal", "string", "user of SASL PLAIN or SCRAM; in a request log, the broker's principal"),
    ("apiKey", "int", "API key"),
    ("apiName", "string", "name of the API; null for an unknown key"),
    ("apiVersion", "int", "version of the request"),
    ("flexible", "boolean", "whether the version is flexible (KIP-482)"),
    ("correlationId", "int", "correlation id of request and response"),
    ("requestSizeBytes", "bigint", "size of the request without its size prefix"),
    ("responseSizeBytes", "bigint", "size of the response without its size prefix; null without a response"),
    ("requestHeader", "string", "request header as JSON"),
    ("request", "string", "request body as JSON, with the size of records instead of their bytes"),
    ("responseHeader", "string", "response header as JSON"),
    ("response", "string", "response body as JSON, with the size of records instead of their bytes"),
    ("errors", "array<struct<path: string, code: int>>", "nonzero error codes in the response"),
    ("records", _RECORDS_DDL, "summary of the records in Produce, Fetch and ShareFetch, by format and codec"),
    ("file", "string", "file that contains the request; that of the response if the request is missing"),
    ("connection", "string", "connection label: client, server and number of the first packet"),
    ("_error", "string", "reason why parts are missing or cannot be read"),
    (
        "requestNamed",
        "string",
        "request body with the field names of a Kafka release, which the option names_of specifies",
        False,
    ),
    (
        "responseNamed",
        "string",
        "response body with the field names of the Kafka release in the option names_of",
        False,
    ),
    ("requestState", "string", "state of the request: whole, damaged or missing", False),
    (
        "responseState",
        "string",
        "state of the response: whole, damaged, missing, or none if the request is not answered",
        False,
    ),
    ("requestOffset", "bigint", "offset of the request's size prefix in the client's stream", False),
    ("responseOffset", "bigint", "offset of the response's size prefix in the broker's stream", False),
    ("requestPacket", "bigint", "number of the packet in which the request starts, from 1", False),
    ("responsePacket", "bigint", "number of the packet in which the response starts, from 1", False),
    ("requestBytes", "binary", "request header and body as sent, including secrets", False),
    ("responseBytes", "binary", "response header and body as sent, including secrets", False),
)
CONNECTIONS_TABLE_COLUMNS: Final = _create_columns(
    ("connection", "string", "connection label: client, server and number of the first packet"),
    ("protocol", "string", "protocol of the connection: kafka, tls, other or unknown"),
    ("clientAddress", "string", "address of the client; the lower address if the client is unknown"),
    ("clientPort", "int", "port of the client"),
    ("serverAddress", "string", "address of the server; the higher address if the client is unknown"),
    ("serverPort", "int", "port of the server"),
    ("firstTime", "timestamp", "time of the connection's first packet"),
    ("lastTime", "timestamp", "time of the connection's last packet"),
    ("clientPackets", "bigint", "TCP packets of the client"),
    ("serverPackets", "bigint", "TCP packets of the server"),
    ("clientBytes", "bigint", "payload bytes of the client, including retransmissions"),
    ("serverBytes", "bigint", "payload bytes of the server, including retransmissions"),
    ("requests", "bigint", "number of request frames"),
    ("responses", "bigint", "number of response frames"),
    ("gaps", "bigint", "number of gaps in both streams"),
    ("beginsInCapture", "boolean", "whether the capture contains a SYN of the connection"),
    ("closed", "string", "fin or rst; null if the capture contains neither"),
    ("softwareName", "string", "latest name of the client software"),
    ("softwareVersion", "string", "latest version of the client software"),
    ("principal", "string", "authenticated user"),
    ("file", "string", "file that contains the connection's first packet"),
)
GAPS_TABLE_COLUMNS: Final = _create_columns(
    ("file", "string", "capture file"),
    ("connection", "string", "connection label; null for packets outside of connections and for file damage"),
    ("side", "string", "sender of the bytes: client or server; null if connection is null"),
    ("offset", "bigint", "offset in the sender's stream; for file damage, in the file"),
    ("sizeBytes", "bigint", "number of bytes; -1 for all following bytes"),
    ("kind", "string", "damaged, lost, cut, unsupported, encrypted or unknown; harmless: boundary, other"),
    ("reason", "string", "description of the unread data"),
    ("packets", "bigint", "number of packets; null for bytes of a stream or file"),
    ("connections", "bigint", "number of connections; null if connection is not null"),
    ("time", "timestamp", "time of the packet after a gap, or of the first unread packet"),
    ("packet", "bigint", "number of the packet to which the time belongs"),
)
PACKETS_TABLE_COLUMNS: Final = _create_columns(
    ("time", "timestamp", "time of the packet"),
    ("file", "string", "capture file"),
    ("packet", "bigint", "number of the packet, from 1"),
    ("connection", "string", "connection label: client, server and number of the first packet"),
    ("sourceAddress", "string", "address of the sender"),
    ("sourcePort", "int", "port of the sender"),
    ("targetAddress", "string", "address of the receiver"),
    ("targetPort", "int", "port of the receiver"),
    ("flags", "string", "TCP flags"),
    ("streamOffset", "bigint", "offset of the payload in the sender's stream"),
    ("sizeBytes", "bigint", "payload size on the wire"),
    ("capturedBytes", "bigint", "payload size in the file"),
)
RECORDS_TABLE_COLUMNS: Final = _create_columns(
    ("time", "timestamp", "time of the last packet of the request or response"),
    ("apiName", "string", "Produce, Fetch or ShareFetch"),
    ("clientId", "string", "client.id in the request header"),
    ("topic", "string", "topic name; null if only the id is known"),
    ("topicId", "string", "topic id; null in versions with topic names"),
    ("partition", "int", "partition number"),
    ("offset", "bigint", "offset as sent; in a Produce request, each batch starts at 0"),
    ("timestamp", "timestamp", "timestamp of the record"),
    ("timestampMs", "bigint", "timestamp in milliseconds if microseconds cannot represent it"),
    ("timestampType", "int", "timestamp type: 0 CreateTime, 1 LogAppendTime, -1 none"),
    ("key", "binary", "key of the record"),
    ("value", "binary", "value of the record"),
    ("headers", "array<struct<key: string, value: binary>>", "headers of the record"),
    ("magic", "int", "record format of the batch"),
    ("codec", "string", "codec of the batch"),
    ("connection", "string", "connection label"),
    ("correlationId", "int", "correlation id of the call"),
    ("_error", "string", "damage in the record set, on the first row of the set"),
)
TABLE_COLUMNS: Final = {
    "calls": CALLS_TABLE_COLUMNS,
    "connections": CONNECTIONS_TABLE_COLUMNS,
    "gaps": GAPS_TABLE_COLUMNS,
    "packets": PACKETS_TABLE_COLUMNS,
    "records": RECORDS_TABLE_COLUMNS,
}


def choose_columns(table: str, names: Sequence[str] | None = None) -> tuple[CaptureColumn, ...]:
    """Return the named columns of a table, or its default columns.

    Raises:
        OptionError: the table or a column does not exist.
    """
    if table not in TABLE_COLUMNS:
        raise OptionError(f"unknown table {table!r}; expected one of {', '.join(TABLE_COLUMNS)}")
    columns_by_name = {column.name.lower(): column for column in TABLE_COLUMNS[table]}
    if names is None:
        return tuple(column for column in TABLE_COLUMNS[table] if column.default)
    unknown = [name for name in names if name.lower() not in columns_by_name]
    if unknown:
        raise OptionError(
            f"table {table} has no column {', '.join(map(repr, unknown))}; "
            f"it has {', '.join(column.name for column in TABLE_COLUMNS[table])}"
        )
    return tuple(columns_by_name[name.lower()] for name in names)


def schema_of(columns: Sequence[CaptureColumn]) -> pa.Schema:
    """Return the Arrow schema of columns."""
    return pa.schema([(column.name, column.type) for column in columns])
