"""The tables beside the calls: connections, gaps, packets."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa

from kafkaframes.capture.columns import Column, schema_of
from kafkaframes.capture.layout import (
    CAPTURED,
    CLIENT,
    DIRECTION,
    ENDED,
    FIRST_NUMBER,
    FIRST_TIME,
    FLAGS,
    FRAMES,
    G_DIRECTION,
    G_NUMBER,
    G_OFFSET,
    G_REASON,
    G_RESPONSE,
    G_SIZE,
    G_TIME,
    GAP_REASONS,
    GAPS,
    INITIAL,
    LAST_TIME,
    LENGTH,
    NUMBER,
    OFFSET,
    PROTOCOL,
    PROTOCOLS,
    RESET,
    SIDE,
    SIDE_BYTES,
    SIDE_COLUMNS,
    SIDE_PACKETS,
    START,
    TIME,
)
from kafkaframes.capture.names import Ends, Names, ends_of
from kafkaframes.capture.packets import FILE_MASK, FILE_SHIFT, FileProblem, Ints

_FLAG_NAMES: Final = ((0x02, "SYN"), (0x10, "ACK"), (0x08, "PSH"), (0x01, "FIN"), (0x04, "RST"), (0x20, "URG"))
Row = dict[str, Any]
FactsOf = Callable[[int], tuple[str | None, str | None, str | None]]


def batch_of(
    rows: Sequence[Row], columns: Sequence[Column], made: Mapping[str, pa.Array] = MappingProxyType({})
) -> pa.RecordBatch:
    """Return rows as an Arrow batch of the columns wanted; some may be made already."""
    schema = schema_of(columns)
    arrays = [
        made[name] if name in made else pa.array([row[name] for row in rows], field.type)
        for name, field in zip(schema.names, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _microseconds(nanoseconds: int) -> int | None:
    return nanoseconds // 1000 if nanoseconds >= 0 else None


def connection_rows(table: Ints, numbers: Ints, files: Sequence[str], facts_of: FactsOf) -> Iterable[Row]:
    """Yield a row for each connection of a table; ``facts_of`` gives its software's name and version, and principal."""
    for number, row in zip(numbers.tolist(), table, strict=True):
        end = ends_of(row)
        client = 1 if row[CLIENT] == 1 else 0
        sides = [SIDE + client * SIDE_COLUMNS, SIDE + (1 - client) * SIDE_COLUMNS]
        asks, answers = ({k: int(row[base + k]) for k in range(SIDE_COLUMNS)} for base in sides)
        name, version, principal = facts_of(number)
        yield {
            "connection": end.label,
            "protocol": PROTOCOLS[int(row[PROTOCOL])],
            "clientAddress": end.client,
            "clientPort": end.client_port,
            "serverAddress": end.server,
            "serverPort": end.server_port,
            "firstTime": _microseconds(int(row[FIRST_TIME])),
            "lastTime": _microseconds(int(row[LAST_TIME])),
            "clientPackets": asks[SIDE_PACKETS],
            "serverPackets": answers[SIDE_PACKETS],
            "clientBytes": asks[SIDE_BYTES],
            "serverBytes": answers[SIDE_BYTES],
            "requests": asks[FRAMES],
            "responses": answers[FRAMES],
            "gaps": asks[GAPS] + answers[GAPS],
            "beginsInCapture": asks[INITIAL] >= 0 or answers[INITIAL] >= 0,
            "closed": "rst" if row[RESET] else "fin" if asks[ENDED] or answers[ENDED] else None,
            "softwareName": name,
            "softwareVersion": version,
            "principal": principal,
            "file": files[int(row[FIRST_NUMBER]) >> FILE_SHIFT],
        }


def gap_rows(gaps: Ints, connections: Ints, names: Names, files: Sequence[str], file: int) -> Iterable[Row]:
    """Yield a row for each gap in a stream."""
    for gap in gaps.tolist():
        (end,) = names.of(connections, [gap[G_DIRECTION] >> 1])
        number = gap[G_NUMBER]
        yield {
            "file": files[number >> FILE_SHIFT] if number >= 0 else files[file],
            "connection": end.label,
            "side": "server" if gap[G_RESPONSE] else "client",
            "offset": gap[G_OFFSET],
            "sizeBytes": gap[G_SIZE],
            "reason": GAP_REASONS[gap[G_REASON]],
            "time": _microseconds(gap[G_TIME]),
            "packet": number & FILE_MASK if number >= 0 else None,
        }


def problem_rows(problems: Iterable[FileProblem], files: Sequence[str]) -> Iterable[Row]:
    """Yield a row for each problem of a file."""
    for problem in problems:
        yield {
            "file": files[problem.file],
            "connection": None,
            "side": None,
            "offset": problem.position,
            "sizeBytes": problem.size,
            "reason": problem.reason,
            "time": None,
            "packet": None,
        }


def packet_batch(
    rows: Ints, connections: Ints, names: Names, files: Sequence[str], columns: Sequence[Column]
) -> pa.RecordBatch:
    """Return a row for each packet of TCP."""
    order = np.argsort(rows[:, NUMBER], kind="stable")
    rows = rows[order]
    owners = rows[:, DIRECTION] >> 1
    unique, inverse = np.unique(owners, return_inverse=True)
    ends = names.of(connections, unique.tolist())
    side = rows[:, DIRECTION] & 1
    by_client = side == np.where(connections[owners, CLIENT] == 1, 1, 0)
    start = connections[owners, SIDE + side * SIDE_COLUMNS + START]
    made: dict[str, Callable[[], pa.Array]] = {
        "time": lambda: pa.array(rows[:, TIME] // 1000, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
        "file": lambda: pa.array(files, pa.string()).take(pa.array(rows[:, NUMBER] >> FILE_SHIFT, pa.int64())),
        "packet": lambda: pa.array(rows[:, NUMBER] & FILE_MASK, pa.int64()),
        "connection": lambda: _taken([one.label for one in ends], inverse, pa.string()),
        "sourceAddress": lambda: _either(ends, inverse, by_client, "client", "server", pa.string()),
        "sourcePort": lambda: _either(ends, inverse, by_client, "client_port", "server_port", pa.int32()),
        "targetAddress": lambda: _either(ends, inverse, ~by_client, "client", "server", pa.string()),
        "targetPort": lambda: _either(ends, inverse, ~by_client, "client_port", "server_port", pa.int32()),
        "flags": lambda: _flags(rows[:, FLAGS]),
        "streamOffset": lambda: pa.array(rows[:, OFFSET] - start, pa.int64()),
        "sizeBytes": lambda: pa.array(rows[:, LENGTH], pa.int64()),
        "capturedBytes": lambda: pa.array(rows[:, CAPTURED], pa.int64()),
    }
    return pa.RecordBatch.from_arrays([made[column.name]() for column in columns], schema=schema_of(columns))


def _taken(values: list[Any], places: Any, kind: pa.DataType) -> pa.Array:
    return pa.array(values, kind).take(pa.array(places, pa.int64()))


def _either(ends: list[Ends], inverse: Any, first: Any, one: str, other: str, kind: pa.DataType) -> pa.Array:
    values = [getattr(end, one) for end in ends] + [getattr(end, other) for end in ends]
    return _taken(values, np.where(first, inverse, inverse + len(ends)), kind)


def _flags(flags: Ints) -> pa.Array:
    texts = [",".join(name for bit, name in _FLAG_NAMES if number & bit) for number in range(256)]
    return _taken(texts, flags, pa.string())
