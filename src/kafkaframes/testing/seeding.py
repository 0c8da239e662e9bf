"""Fill a topic of a broker from a file: JSON lines, CSV, Parquet, Arrow, or segments of a real log."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.broker import Broker

Row = Mapping[str, Any]
_ROWS_AT_ONCE = 1_000


def seed(
    broker: Broker,
    topic: str,
    source: str | PathLike[str] | Iterable[Row],
    *,
    partition: int = 0,
    value: str | None = None,
    key: str | None = None,
) -> int:
    """Append what a file holds to a partition, which is made if it is not there; return how many records.

    Args:
        broker: a running one.
        topic, partition: where to.
        source: a path, its ending decides: ``.jsonl``, ``.ndjson``, ``.csv``, ``.parquet``, ``.arrow``, ``.feather``;
            ``.log`` is a segment, whose batches are decoded; or rows as dicts.
        value: the column that is the record's value; by default ``value`` where there is such a column, else the
            whole row as JSON.
        key: the column that is the record's key; by default ``key`` where there is one.

    Raises:
        OptionError: the file's ending or a column is not known, or the broker does not run.
        AppendRefusedError: the topic does not take the records.
    """
    rows = _rows_of(Path(source)) if isinstance(source, str | PathLike) else list(source)
    records = [_record(row, key, value) for row in rows]
    if records:
        broker.append(topic, records, partition=partition, batch_records=_ROWS_AT_ONCE)
    return len(records)


def _rows_of(path: Path) -> list[Row]:
    readers: dict[str, Callable[[Path], list[Row]]] = {
        ".jsonl": _json_lines,
        ".ndjson": _json_lines,
        ".csv": _csv,
        ".parquet": _parquet,
        ".arrow": _arrow,
        ".feather": _arrow,
        ".log": _segment,
    }
    if path.suffix not in readers:
        raise OptionError(f"nothing is known of files named *{path.suffix}; there are {', '.join(readers)}")
    return readers[path.suffix](path)


def _json_lines(path: Path) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                row = json.loads(line)
                json.dumps(row, ensure_ascii=False).encode()  # halves of surrogate pairs are no text
            except ValueError as error:
                raise OptionError(f"{path}, line {number}: no JSON: {error}") from None
            rows.append(row if isinstance(row, dict) else {"value": row})
    return rows


def _csv(path: Path) -> list[Row]:
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _parquet(path: Path) -> list[Row]:
    import pyarrow.parquet as pq

    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


def _arrow(path: Path) -> list[Row]:
    import pyarrow as pa

    with pa.memory_map(str(path)) as source:
        rows: list[Row] = pa.ipc.open_file(source).read_all().to_pylist()
    return rows


def _segment(path: Path) -> list[Row]:
    from kafkaframes.scan.functions import read_records

    batches = read_records(path, columns=["timestamp", "key", "value", "headers"], control_records=False)
    return [row for batch in batches for row in batch.to_pylist()]


def _record(row: Row, key: str | None, value: str | None) -> dict[str, Any]:
    """Return a row as a record: key, value, timestamp and headers."""
    for name in (key, value):
        if name is not None and name not in row:
            raise OptionError(f"no column {name!r} among {', '.join(row)}")
    key_column, value_column = key or "key", value or "value"
    content = row[value_column] if value_column in row else {name: row[name] for name in row if name != key_column}
    timestamp = row.get("timestamp")
    return {
        "key": _bytes(row.get(key_column)),
        "value": _bytes(content),
        "timestamp": timestamp if isinstance(timestamp, int) else None,
        "headers": row.get("headers") or [],
    }


def _bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    return json.dumps(value, default=str).encode()
