"""Fill a topic of a broker from a file: JSON lines, CSV, Parquet, Arrow, or segments of a real log."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.json_lines import from_json_bytes, from_json_record
from kafkaframes.records.strict_json import parse_json

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkaframes.broker import Broker

Row = Mapping[str, Any]
WHOLE_ROW_COLUMN = "*"
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def seed(
    broker: Broker,
    topic: str,
    source: str | PathLike[str] | Iterable[Row],
    *,
    partition: int = 0,
    value: str | None = None,
    key: str | None = None,
) -> int:
    """Append the records of a file to a partition and return their number. The topic is created if it does not exist.

    Without ``key`` and ``value``, each row is a record: its columns are ``key``, ``value``, ``headers``, ``timestamp``,
    or another column of a reader. JSON lines have the form of ``kafkaframes consume --format jsonl``.

    Args:
        broker: running broker to append to.
        topic, partition: target of the records.
        source: rows as mappings, or a path. The path's suffix decides the format: ``.jsonl``, ``.ndjson``, ``.csv``,
            ``.parquet``, ``.arrow``, ``.feather``, or ``.log`` for a segment, whose batches are decoded.
        value: name of the column with the record's value; ``*`` for all other columns of the row as one JSON object.
            The default is ``*`` if ``key`` is set and the file has no column ``value``. Values other than text and
            bytes are written as JSON.
        key: name of the column with the record's key.

    Raises:
        OptionError: the suffix or a named column is unknown, or the broker is not running.
        EncodeError: a column is unknown, or a value is neither text nor bytes; the error's ``path`` names the row and
            the column.
        AppendRefusedError: the topic does not accept a record. If this error is raised, no record is appended.
    """
    rows = _read_rows(Path(source)) if isinstance(source, str | PathLike) else list(source)
    records = [_to_record(row, index, key, value) for index, row in enumerate(rows)]
    if records:
        broker.append(topic, records, partition=partition)
    return len(records)


def _read_rows(path: Path) -> list[Row]:
    readers: dict[str, Callable[[Path], list[Row]]] = {
        ".jsonl": _read_json_lines,
        ".ndjson": _read_json_lines,
        ".csv": _read_csv,
        ".parquet": _read_parquet,
        ".arrow": _read_arrow,
        ".feather": _read_arrow,
        ".log": _read_segment,
    }
    if path.suffix not in readers:
        raise OptionError(f"unsupported file type *{path.suffix}; expected one of {', '.join(readers)}")
    return readers[path.suffix](path)


def _read_json_lines(path: Path) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(path.read_bytes().split(b"\n"), 1):
        if line.strip():
            try:
                rows.append(parse_json(line))
            except EncodeError as error:
                raise OptionError(f"{path}, line {number}: {error}") from None
    return rows


def _read_csv(path: Path) -> list[Row]:
    limit = csv.field_size_limit(sys.maxsize)  # the default limit is 128 KiB
    try:
        with path.open(newline="", encoding="utf-8") as file:
            reader = csv.DictReader(file)
            return [_convert_csv_row(row, f"{path}, line {reader.line_num}") for row in reader]
    except csv.Error as error:
        raise OptionError(f"{path}: {error}") from None
    finally:
        csv.field_size_limit(limit)


def _convert_csv_row(row: dict[str, Any], position: str) -> Row:
    """Return a CSV row with a parsed timestamp and headers, in the columns that ``kafkaframes export`` writes."""
    if None in row or None in row.values():
        raise OptionError(f"{position}: the number of fields differs from that of the first line")
    try:
        for name, convert in (("timestamp", _parse_timestamp_ms), ("headers", parse_json)):
            if name in row:
                row[name] = convert(row[name]) if row[name] else None
    except (EncodeError, ValueError) as error:
        raise OptionError(f"{position}: {error}") from None
    return row


def _parse_timestamp_ms(text: str) -> int:
    if text.removeprefix("-").isdecimal():
        return int(text)
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (moment - _UNIX_EPOCH) // timedelta(milliseconds=1)


def _read_parquet(path: Path) -> list[Row]:
    import pyarrow.parquet as pq

    return _read_table_rows(pq.read_table(path))


def _read_arrow(path: Path) -> list[Row]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        return _read_table_rows(pa.ipc.open_file(source).read_all())


def _read_segment(path: Path) -> list[Row]:
    from kafkaframes.scan.functions import read_records

    batches = read_records(path, columns=["timestamp", "key", "value", "headers"], control_records=False)
    return _read_table_rows(batches.read_all())


def _read_table_rows(table: pa.Table) -> list[Row]:
    """Return the rows of a table, with timestamps in milliseconds."""
    import pyarrow as pa

    index = table.schema.get_field_index("timestamp")
    if index >= 0 and pa.types.is_timestamp(table.schema.field(index).type):
        times = table.column(index).cast(pa.timestamp("ms", table.schema.field(index).type.tz), safe=False)
        table = table.set_column(index, "timestamp", times.cast(pa.int64()))
    rows: list[Row] = table.to_pylist()
    return rows


def _to_record(row: Row, index: int, key: str | None, value: str | None) -> dict[str, Any]:
    """Return a row as a record: key, value, timestamp and headers."""
    if key is None and value is None and isinstance(row, Mapping) and not {"key", "value"}.intersection(row):
        raise OptionError(
            f"row {index} has no column key or value among {', '.join(map(str, row))}; name them with key= and value=, "
            f"or pass value={WHOLE_ROW_COLUMN!r} to write each row as a JSON object"
        )
    try:
        return from_json_record(row if key is None and value is None else _map_row(row, key, value))
    except EncodeError as error:
        raise error.within(index) from None


def _map_row(row: Row, key: str | None, value: str | None) -> Row:
    """Return a row with the caller's columns as key and value. Other columns must have the names of reader columns."""
    if not isinstance(row, Mapping):
        raise EncodeError(f"a row must be a mapping of columns, not {type(row).__name__}")
    for name in (key, value):
        if name not in (None, WHOLE_ROW_COLUMN) and name not in row:
            raise OptionError(f"column {name!r} does not exist; expected one of {', '.join(row)}")
    key_column = key or "key"
    value_fields = {name: content for name, content in row.items() if name != key_column}
    if value == WHOLE_ROW_COLUMN or (value is None and "value" not in row):
        return {"key": _to_bytes(row.get(key_column)), "value": _to_bytes(value_fields)}
    value_column = value or "value"
    content = value_fields.pop(value_column, row[value_column])
    return {**value_fields, "key": _to_bytes(row.get(key_column)), "value": _to_bytes(content)}


def _to_bytes(value: Any) -> bytes | None:
    """Return a key or value as bytes. Values other than text and bytes are written as JSON."""
    if value is None or isinstance(value, bytes | str):
        return from_json_bytes(value)
    return from_json_bytes(json.dumps(value, default=str, ensure_ascii=False))
