"""Write Arrow batches to a file in one of the four output formats.

Parquet files are compressed with zstd. Offsets and timestamps are delta-encoded. Keys and values have no dictionaries,
because they rarely repeat and dictionaries cost more CPU than everything else. A row group ends at MAX_ROW_GROUP_ROWS
or MAX_ROW_GROUP_BYTES, which limits memory use.
"""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkaframes.errors import MissingExtraError
from kafkaframes.records.json_lines import JsonBytes, to_json_bytes, to_json_headers, to_json_line
from kafkaframes.scan.arrow import OUT_OF_RANGE_TIMESTAMPS_COLUMN, separate_instants
from kafkaframes.wire.primitives import decode_java_text

MAX_ROW_GROUP_ROWS = 400_000  # a row group ends at this number of rows
MAX_ROW_GROUP_BYTES = 64 << 20  # a row group ends at this size in memory
_DELTA_ENCODING = "DELTA_BINARY_PACKED"  # Parquet's encoding for numbers with small differences
_PAYLOAD_COLUMNS = ("key", "value")  # columns that have no dictionary
_RECORD_COLUMNS = frozenset(
    {"offset", "timestamp", "timestampType", "topic", "partition", "headers", *_PAYLOAD_COLUMNS}
)


class ParquetOutput:
    """A Parquet file. Batches are collected until a row group is full.

    Args:
        plain_types: omit the Arrow schema from the file, so that readers see no Arrow dictionary types.
    """

    def __init__(self, path: str, schema: pa.Schema, *, base64: bool, plain_types: bool = False) -> None:
        self._path, self._plain_types = path, plain_types
        self.metadata: list[Any] = []
        self._waiting: list[pa.RecordBatch] = []
        self._rows = self._bytes = 0
        self._open_writer(schema)

    def _open_writer(self, schema: pa.Schema) -> None:
        """Create the Parquet writer, with encodings that suit each column."""

        import pyarrow.parquet

        numbers = ["offset", "timestamp"]
        decoded_columns = [
            column.name
            for column in schema
            if column.name not in _RECORD_COLUMNS and not pa.types.is_nested(column.type)
        ]
        dictionary_columns = [
            "timestampType",
            "topic",
            "partition",
            *decoded_columns,
        ]  # only data files of Iceberg tables have topic and partition
        self._schema = schema
        self._file = _open_output(self._path)
        self._writer = pyarrow.parquet.ParquetWriter(
            self._file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=dictionary_columns,
            column_encoding=dict.fromkeys(numbers, _DELTA_ENCODING),
            write_statistics=[*numbers, *dictionary_columns],
            metadata_collector=self.metadata,
            store_schema=not self._plain_types,
        )

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows, and write row groups that are full."""
        batch = _separate_out_of_range_timestamps(batch)
        if (
            OUT_OF_RANGE_TIMESTAMPS_COLUMN in batch.schema.names
            and OUT_OF_RANGE_TIMESTAMPS_COLUMN not in self._schema.names
        ):
            self._add_out_of_range_column()
        self._waiting.append(_add_missing_columns(batch, self._schema))
        self._rows += batch.num_rows
        self._bytes += batch.nbytes
        if self._rows >= MAX_ROW_GROUP_ROWS or self._bytes >= MAX_ROW_GROUP_BYTES:
            self._write_row_group()

    def _add_out_of_range_column(self) -> None:
        """Restart the file with ``OUT_OF_RANGE_TIMESTAMPS_COLUMN``, and copy the row groups written so far."""
        import pyarrow.parquet

        with self._prevent_second_close():
            self._writer.close()
        self._file.close()
        rows = sum(row_group.num_rows for row_group in self.metadata)
        self.metadata.clear()
        old_schema = f"{self._path}.narrow"
        if rows:
            _move_file(self._path, old_schema)
        self._open_writer(self._schema.append(pa.field(OUT_OF_RANGE_TIMESTAMPS_COLUMN, pa.int64())))
        self._waiting = [_add_missing_columns(batch, self._schema) for batch in self._waiting]
        if rows:
            with _open_output(old_schema, "rb") as file:
                source = pyarrow.parquet.ParquetFile(file)
                for number in range(source.num_row_groups):
                    group = source.read_row_group(number)
                    table = group.append_column(
                        OUT_OF_RANGE_TIMESTAMPS_COLUMN, pa.nulls(group.num_rows, pa.int64())
                    ).cast(self._schema)
                    self._writer.write_table(table, row_group_size=max(group.num_rows, 1))
            _remove_file(old_schema)

    def _write_row_group(self) -> None:
        pending_batches, rows = self._waiting, self._rows
        self._waiting, self._rows, self._bytes = [], 0, 0
        if pending_batches:
            table = pa.Table.from_batches(pending_batches, schema=self._schema)
            with self._prevent_second_close():
                self._writer.write_table(table, row_group_size=max(rows, 1))

    def close(self) -> None:
        """Write the last row group and the footer."""
        self._write_row_group()
        with self._prevent_second_close():
            self._writer.close()
        self._file.close()

    @contextmanager
    def _prevent_second_close(self) -> Iterator[None]:
        """Prevent pyarrow from closing a failed file again on deletion, which would print a traceback."""
        try:
            yield
        except BaseException:
            self._writer.is_open = False
            raise


def _separate_out_of_range_timestamps(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with null timestamps where microseconds would overflow.

    ``OUT_OF_RANGE_TIMESTAMPS_COLUMN`` contains these timestamps as numbers.
    """
    times = batch.column("timestamp")
    if times.type.unit != "ms":
        return batch
    _, is_far = separate_instants(times)
    if is_far is None:
        return batch
    is_near = pc.if_else(is_far.is_null(), times, pa.scalar(None, times.type))
    batch = batch.set_column(batch.schema.get_field_index("timestamp"), "timestamp", is_near)
    return batch.append_column(OUT_OF_RANGE_TIMESTAMPS_COLUMN, is_far)


def _add_missing_columns(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return rows with all columns of a schema."""
    if OUT_OF_RANGE_TIMESTAMPS_COLUMN in schema.names and OUT_OF_RANGE_TIMESTAMPS_COLUMN not in batch.schema.names:
        batch = batch.append_column(OUT_OF_RANGE_TIMESTAMPS_COLUMN, pa.nulls(batch.num_rows, pa.int64()))
    return batch.select(schema.names)


def _move_file(path: str, to: str) -> None:
    if "://" not in path:
        os.replace(path, to)
        return
    import fsspec

    store, _ = fsspec.core.url_to_fs(path)
    store.mv(path, to)


def _remove_file(path: str) -> None:
    if "://" not in path:
        os.remove(path)
        return
    import fsspec

    store, _ = fsspec.core.url_to_fs(path)
    store.rm_file(path)


def _open_output(path: str, mode: str = "wb") -> Any:
    """Open a local file, or a file in a store by its URL.

    Raises:
        MissingExtraError: fsspec or its implementation for this store is not installed.
    """
    if "://" not in path:
        return pa.OSFile(path, mode)
    try:
        import fsspec

        return fsspec.open(path, mode).open()
    except ImportError as error:
        raise MissingExtraError(f"writing {path}", "remote") from error


class ArrowOutput:
    """An Arrow IPC file (Feather 2), compressed with zstd."""

    def __init__(self, path: str, schema: pa.Schema, *, base64: bool) -> None:
        options = pa.ipc.IpcWriteOptions(compression="zstd")
        self._writer = pa.ipc.new_file(path, schema, options=options)
        self.write_batch: Callable[[pa.RecordBatch], None] = self._writer.write_batch
        self.close: Callable[[], None] = self._writer.close


class CsvOutput:
    """A CSV file with a header line. Record headers are a JSON array of [key, value] pairs."""

    def __init__(self, path: str, schema: pa.Schema, *, base64: bool) -> None:
        from kafkaframes.jobs.dump.csv_file import CsvFile

        texts = (*_PAYLOAD_COLUMNS, "headers")
        fields = [pa.field(one.name, pa.string()) if one.name in texts else one for one in schema]
        self._schema = pa.schema(fields)
        self._format_bytes = _encode_base64 if base64 else decode_java_text
        file = pa.OSFile(path, "wb")
        self._writer = CsvFile(file, self._schema)
        self.close: Callable[[], None] = file.close

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        for name in _PAYLOAD_COLUMNS:
            columns[name] = _to_text_array(columns[name], self._format_bytes)
        if "headers" in columns:
            columns["headers"] = pa.array(self._format_header_pairs(columns["headers"]), pa.string())
        self._writer.write_batch(pa.RecordBatch.from_arrays(list(columns.values()), schema=self._schema))

    def _format_header_pairs(self, headers: pa.Array) -> list[str | None]:
        """Return each record's headers as JSON text; None for a record without headers."""
        if headers.null_count == len(headers):
            return [None] * len(headers)
        format_bytes = self._format_bytes
        return [
            None
            if pairs is None
            else json.dumps([[header["key"], _format_unless_null(format_bytes, header["value"])] for header in pairs])
            for pairs in headers.to_pylist()
        ]


class JsonOutput:
    """A file of JSON lines in the form of ``records/json_lines.py``. ``timestamp`` is in milliseconds."""

    def __init__(self, path: str, schema: pa.Schema, *, base64: bool) -> None:
        self._file = open(path, "wb")  # noqa: SIM115 (closed by close)
        self.close: Callable[[], None] = self._file.close

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["timestamp"] = columns["timestamp"].view(pa.int64())
        values = {name: column.to_pylist() for name, column in columns.items() if name not in _PAYLOAD_COLUMNS}
        values |= {name: _to_json_values(columns[name]) for name in _PAYLOAD_COLUMNS}
        for row in zip(*(values[name] for name in columns), strict=True):
            record = dict(zip(columns, row, strict=True))
            if record.get("headers"):
                record["headers"] = to_json_headers(record["headers"])
            self._file.write(to_json_line(record))


def _to_json_values(raw: pa.Array) -> list[JsonBytes]:
    """Return bytes as JSON values. Values are converted one by one only if some are not UTF-8."""
    try:
        texts: list[JsonBytes] = pc.cast(raw, pa.string()).to_pylist()
    except pa.ArrowInvalid:
        return [to_json_bytes(value) for value in raw.to_pylist()]
    return texts


Writer = ParquetOutput | ArrowOutput | CsvOutput | JsonOutput
WRITERS_BY_FORMAT: dict[str, Callable[..., Writer]] = {
    "parquet": ParquetOutput,
    "arrow": ArrowOutput,
    "csv": CsvOutput,
    "json": JsonOutput,
}


class OutputFile:
    """An output file that is created with its first row, because a segment may have no rows."""

    def __init__(
        self, path: str, form: str, *, base64: bool, metadata: dict[str, str], plain_types: bool = False
    ) -> None:
        self._path, self._metadata = path, metadata
        options = {"base64": base64, "plain_types": plain_types} if plain_types else {"base64": base64}
        self._open = partial(WRITERS_BY_FORMAT[form], **options)
        self._writer: Writer | None = None
        self._rows = 0

    @property
    def rows(self) -> int:
        """The number of rows, from the footer of a closed Parquet file or as counted while writing."""
        return self._rows if self.footer is None else int(self.footer.num_rows)

    @property
    def is_created(self) -> bool:
        """Whether the file has been created."""
        return self._writer is not None

    @property
    def footer(self) -> Any:
        """The metadata of the closed Parquet file; None for other formats, or if there is no file."""
        return next(iter(getattr(self._writer, "metadata", ())), None)

    def write_rows(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        if batch.num_rows == 0:
            return
        if self._writer is None:
            schema = batch.schema.with_metadata(self._metadata)
            self._writer = self._open(self._path, schema)
        self._writer.write_batch(batch)
        self._rows += batch.num_rows

    def __enter__(self) -> OutputFile:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._writer is not None:
            self._writer.close()


def _encode_base64(raw: bytes) -> str:
    return b64encode(raw).decode()


def _format_unless_null(format_bytes: Callable[[bytes], str], value: bytes | None) -> str | None:
    return None if value is None else format_bytes(value)


def _to_text_array(raw: pa.Array, format_bytes: Callable[[bytes], str]) -> pa.Array:
    """Return bytes as text. Values are converted one by one only for base64, or if some are not UTF-8."""
    if format_bytes is not _encode_base64:
        try:
            return pc.cast(raw, pa.string())
        except pa.ArrowInvalid:
            pass
    return pa.array([_format_unless_null(format_bytes, value) for value in raw.to_pylist()], pa.string())


def to_output_rows(batch: pa.RecordBatch, *, headers: bool) -> pa.RecordBatch:
    """Convert a batch of ``records`` to output rows: the columns of ``kafka-log`` without topic and partition."""
    columns: dict[str, Any] = {name: batch.column(name) for name in ("key", "value", "offset", "timestamp")}
    columns["timestampType"] = batch.column("timestamp_type")
    if headers:
        columns["headers"] = _replace_empty_by_null(batch.column("headers"))
    return pa.RecordBatch.from_pydict(columns)


def _replace_empty_by_null(array: pa.Array) -> pa.Array:
    """Replace empty header lists with null, as in ``kafka-log``."""
    is_empty = pc.equal(pc.list_value_length(array), 0)
    if array.offset:  # a filtered array may not start at the beginning of its buffers
        array = pa.concat_arrays([array])
    return pa.ListArray.from_arrays(array.offsets, array.values, type=array.type, mask=is_empty)
