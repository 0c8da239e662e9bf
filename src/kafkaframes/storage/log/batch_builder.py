"""Build record batches from the rows of one partition.

A batch ends before it would exceed ``batch_bytes``, and at each change of the timestamp type. With LogAppendTime, a
batch also ends at each change of the timestamp. The builder keeps the last batch until more rows arrive or until
``finish``. Batch boundaries therefore do not depend on the number of rows in each call of ``add``.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import EncodeError, OptionError
from kafkaframes.records.build import DEFAULT_BATCH_BYTES, build_records
from kafkaframes.records.codecs import codec_of
from kafkaframes.records.scan import scan_all

MAX_BUFFERED_BYTES = 8 << 20
COLUMNS = ("offset", "timestamp", "key", "value", "headers")
_TIMESTAMP_TYPE_COLUMNS = ("timestampType", "timestamp_type")
_TIMESTAMP_TYPES = {"NoTimestampType": 0, "CreateTime": 0, "LogAppendTime": 1}
_CREATE_TIME = 0


class BatchBuilder:
    """A builder of the batches of one partition.

    Attributes:
        next_offset: offset after the last row that was added.

    Args:
        base_offset: offset of the first row, if the rows have no offsets or ``reassign`` is true.
        reassign: whether the offsets of the rows are ignored.
        record_format, codec, level, batch_bytes, leader_epoch: as for ``build_records``.
    """

    def __init__(
        self,
        *,
        base_offset: int = 0,
        reassign: bool = False,
        record_format: int = 2,
        codec: str = "none",
        level: int | None = None,
        batch_bytes: int = DEFAULT_BATCH_BYTES,
        leader_epoch: int = -1,
    ) -> None:
        if record_format not in (0, 1, 2):
            raise OptionError(f"record_format is {record_format!r}; expected 0, 1 or 2")
        codec_of(codec)
        self.next_offset = base_offset
        self._reassign = reassign
        self._options: dict[str, Any] = {
            "record_format": record_format,
            "codec": codec,
            "level": level,
            "batch_bytes": batch_bytes,
        }
        self._options["leader_epoch"] = leader_epoch
        self._waiting: list[pa.Table] = []
        self._bytes = 0
        self._type = _CREATE_TIME

    def add(self, rows: pa.Table | pa.RecordBatch) -> Iterator[bytes]:
        """Add rows in offset order, and yield the batches that are complete.

        Raises:
            EncodeError: a value cannot be encoded; ``path`` contains the column and the index of the row, counted from
                the first row that is not in a batch yet.
        """
        table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
        types = _read_timestamp_types(table)
        plain = self._add_offsets(table)
        edges = [0, *(np.flatnonzero(types[1:] != types[:-1]) + 1).tolist(), len(types)]
        for start, stop in pairwise(edges):
            if start == stop:
                continue
            if self._type != types[start]:
                yield from self.finish()
                self._type = int(types[start])
            self._waiting.append(plain.slice(start, stop - start))
            self._bytes += self._waiting[-1].nbytes
            if self._bytes >= MAX_BUFFERED_BYTES:
                yield from self._build_batches(hold_back=True)

    def finish(self) -> Iterator[bytes]:
        """Yield the batches of the remaining rows."""
        yield from self._build_batches(hold_back=False)

    def _add_offsets(self, table: pa.Table) -> pa.Table:
        """Return the columns of a record, with offsets."""
        names = [name for name in COLUMNS if name in table.column_names]
        if "offset" in names and not self._reassign:
            self.next_offset = _next_offset(table.column("offset"), self.next_offset)
        else:
            names = [name for name in names if name != "offset"]
            offsets = pa.array(np.arange(self.next_offset, self.next_offset + table.num_rows))
            table = table.select(names).append_column("offset", offsets)
            self.next_offset += table.num_rows
            names.append("offset")
        plain = table.select(names)
        if self._options["record_format"] < 2 and "headers" in names and not _has_headers(plain.column("headers")):
            plain = plain.drop_columns(["headers"])
        return _replace_null_timestamps(plain)

    def _build_batches(self, *, hold_back: bool) -> Iterator[bytes]:
        if not self._waiting:
            return
        rows = pa.concat_tables(self._waiting, promote_options="permissive").combine_chunks()
        self._waiting, self._bytes = [], 0
        options = self._options
        if options["record_format"] == 0:
            rows = rows.drop_columns([name for name in ("timestamp",) if name in rows.column_names])
        kind = self._type if options["record_format"] else _CREATE_TIME
        data = build_records(rows, timestamp_type=kind, negative_timestamps=True, **options)
        if not hold_back:
            yield data
            return
        batches = scan_all(data)
        if len(batches) > 1:
            last = int(batches.column("position")[-1])
            previous_last_offset = int(batches.column("last_offset")[-2])
            yield data[:last]
            rows = rows.filter(pc.greater(rows.column("offset"), previous_last_offset))
        self._waiting = [rows]
        # Wait until the last batch has grown considerably: building it again for each row would be slow.
        self._bytes = 0 if len(batches) > 1 else rows.nbytes // 2


def _next_offset(offsets: pa.ChunkedArray, default: int) -> int:
    """Return the offset after the last row; ``default`` if there are no rows."""
    if len(offsets) == 0:
        return default
    last = offsets[len(offsets) - 1].as_py()
    if not isinstance(last, int):
        raise EncodeError(f"{last!r} is not a valid offset").within(len(offsets) - 1).within("offset")
    return last + 1


def _has_headers(column: pa.ChunkedArray) -> bool:
    return bool(pc.any(pc.greater(pc.fill_null(pc.list_value_length(column), 0), 0)).as_py())


def _replace_null_timestamps(table: pa.Table) -> pa.Table:
    """Replace null timestamps with -1, Kafka's value for a missing timestamp."""
    if "timestamp" not in table.column_names or table.column("timestamp").null_count == 0:
        return table
    column = table.column("timestamp")
    if pa.types.is_null(column.type):
        column = column.cast(pa.int64())
    if pa.types.is_timestamp(column.type):
        column = column.cast(pa.timestamp("ms"), safe=False).cast(pa.int64())
    index = table.column_names.index("timestamp")
    return table.set_column(index, "timestamp", pc.fill_null(column, -1))


def _read_timestamp_types(table: pa.Table) -> Any:
    """Return the timestamp type of each row: 0 for CreateTime (the default), 1 for LogAppendTime."""
    name = next((name for name in _TIMESTAMP_TYPE_COLUMNS if name in table.column_names), None)
    if name is None:
        return np.zeros(table.num_rows, np.int64)
    column = table.column(name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        return np.array([_TIMESTAMP_TYPES.get(timestamp_type, 0) for timestamp_type in column.to_pylist()], np.int64)
    types = pc.fill_null(column, _CREATE_TIME).to_numpy()
    return (types == 1).astype(np.int64)
