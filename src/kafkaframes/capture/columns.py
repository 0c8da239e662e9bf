"""Columns of the tables of a capture, with their Arrow and Spark types."""

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
    return tuple(
        CaptureColumn(row[0], row[1], _ARROW_TYPES[row[1]], row[3] if len(row) == 4 else True, row[2]) for row in rows
    )


CALLS_TABLE_COLUMNS: Final = _create_columns(
    ("requestTime", "timestamp", "when the request was whole (its last packet)"),
    ("responseTime", "timestamp", "when the response was whole"),
    ("latencyMs", "double", "the time between the two"),
    ("clientAddress", "string", "who asks"),
    ("clientPort", "int", "its port"),
    ("serverAddress", "string", "the broker"),
    ("serverPort", "int", "its port"),
    ("clientId", "string", "client.id, as the request's header has it"),
    ("softwareName", "string", "from the ApiVersions request of the connection, version 3 and later (KIP-511)"),
    ("softwareVersion", "string", "likewise"),
    ("principal", "string", "who logged in by SASL PLAIN or SCRAM; from a request log: as the broker says"),
    ("apiKey", "int", "the number of the API"),
    ("apiName", "string", "its name; null for a number that Kafka does not have"),
    ("apiVersion", "int", "the version of the request"),
    ("flexible", "boolean", "whether that version is flexible (KIP-482)"),
    ("correlationId", "int", "what pairs request and response"),
    ("requestSizeBytes", "bigint", "bytes on the wire after the size prefix"),
    ("responseSizeBytes", "bigint", "likewise; null where none was seen"),
    ("requestHeader", "string", "JSON"),
    ("request", "string", "the body as JSON, records by their size"),
    ("responseHeader", "string", "JSON"),
    ("response", "string", "the body as JSON, records by their size"),
    ("errors", "array<struct<path: string, code: int>>", "every error code of the response that is not 0"),
    ("records", _RECORDS_DDL, "Produce, Fetch, ShareFetch: what was sent, by format and codec"),
    ("file", "string", "where the request (or else the response) was found"),
    ("connection", "string", "client-server-number of its first packet"),
    ("_error", "string", "what is missing or cannot be read"),
    (
        "requestNamed",
        "string",
        "the request with the names that fields had in the release of names_of; else null",
        False,
    ),
    ("responseNamed", "string", "likewise", False),
    ("requestState", "string", "whole, damaged or missing", False),
    ("responseState", "string", "whole, damaged, missing, or none: a request that is not answered", False),
    ("requestOffset", "bigint", "of the size prefix in the stream of the client", False),
    ("responseOffset", "bigint", "of the size prefix in the stream of the broker", False),
    ("requestPacket", "bigint", "number of the packet in which it starts, from 1", False),
    ("responsePacket", "bigint", "likewise", False),
    ("requestBytes", "binary", "header and body as they were on the wire, with whatever secrets are in them", False),
    ("responseBytes", "binary", "likewise", False),
)
CONNECTIONS_TABLE_COLUMNS: Final = _create_columns(
    ("connection", "string", "client-server-number of its first packet"),
    ("protocol", "string", "kafka, tls, other, or unknown: nothing in it tells"),
    ("clientAddress", "string", "the side that asks; where that is not known, the one with the lower address"),
    ("clientPort", "int", "its port"),
    ("serverAddress", "string", "the other side"),
    ("serverPort", "int", "its port"),
    ("firstTime", "timestamp", "of its first packet"),
    ("lastTime", "timestamp", "of its last packet"),
    ("clientPackets", "bigint", "packets of TCP"),
    ("serverPackets", "bigint", "likewise"),
    ("clientBytes", "bigint", "payload on the wire, repeated segments included"),
    ("serverBytes", "bigint", "likewise"),
    ("requests", "bigint", "frames of the client"),
    ("responses", "bigint", "frames of the server"),
    ("gaps", "bigint", "gaps on both sides"),
    ("beginsInCapture", "boolean", "whether a SYN was seen"),
    ("closed", "string", "fin, rst, or null: neither was seen"),
    ("softwareName", "string", "the last that the client gave"),
    ("softwareVersion", "string", "likewise"),
    ("principal", "string", "who logged in"),
    ("file", "string", "where its first packet is"),
)
GAPS_TABLE_COLUMNS: Final = _create_columns(
    ("file", "string", "the file"),
    ("connection", "string", "null for packets and for damage of a file"),
    ("side", "string", "client or server, which sent the bytes; null if connection is null"),
    ("offset", "bigint", "in that side's stream; for damage of a file, in the file"),
    ("sizeBytes", "bigint", "number of bytes; -1: all that follow"),
    ("kind", "string", "damaged, lost, cut, unsupported, encrypted or unknown; boundary and other are harmless"),
    ("reason", "string", "what was not read, and why"),
    ("packets", "bigint", "number of packets; null for bytes of a stream or a file"),
    ("connections", "bigint", "number of connections; null where connection is given"),
    ("time", "timestamp", "of the next packet after a gap; of the first packet that was not read"),
    ("packet", "bigint", "its number"),
)
PACKETS_TABLE_COLUMNS: Final = _create_columns(
    ("time", "timestamp", "when it was recorded"),
    ("file", "string", "the file"),
    ("packet", "bigint", "its number, from 1"),
    ("connection", "string", "client-server-number of its first packet"),
    ("sourceAddress", "string", "who sent it"),
    ("sourcePort", "int", "its port"),
    ("targetAddress", "string", "to whom"),
    ("targetPort", "int", "its port"),
    ("flags", "string", "of TCP"),
    ("streamOffset", "bigint", "of its payload in that side's stream"),
    ("sizeBytes", "bigint", "payload on the wire"),
    ("capturedBytes", "bigint", "payload in the file"),
)
RECORDS_TABLE_COLUMNS: Final = _create_columns(
    ("time", "timestamp", "when the request or response that holds it was whole"),
    ("apiName", "string", "Produce, Fetch or ShareFetch"),
    ("clientId", "string", "of the client"),
    ("topic", "string", "null where only its id is known"),
    ("topicId", "string", "of newer versions"),
    ("partition", "int", "the partition"),
    ("offset", "bigint", "as on the wire: a producer counts from 0 in each batch"),
    ("timestamp", "timestamp", "the record's"),
    ("timestampMs", "bigint", "the record's, if microseconds cannot represent it: milliseconds"),
    ("timestampType", "int", "0 CreateTime, 1 LogAppendTime, -1 none"),
    ("key", "binary", "the key"),
    ("value", "binary", "the value"),
    ("headers", "array<struct<key: string, value: binary>>", "the headers"),
    ("magic", "int", "format of its batch"),
    ("codec", "string", "codec of its batch"),
    ("connection", "string", "the connection"),
    ("correlationId", "int", "of the call"),
    ("_error", "string", "damage in its set of records, on the first row of it"),
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
        raise OptionError(f"no table {table!r}; there are {', '.join(TABLE_COLUMNS)}")
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
