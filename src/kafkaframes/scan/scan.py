"""An immutable description of a read from a log, live topics or captures. Nothing is read until the scan is run.

``select``, ``where``, ``limit`` and ``decode`` return new scans. ``plan`` divides a scan into slices. Each of the
other methods runs the scan whenever it is called. Rows are in the order of topic, partition and offset, regardless
of the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final, Literal, NoReturn

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.errors.missing_names import reject_attributes
from kafkaframes.errors.words import count_text
from kafkaframes.scan import frames
from kafkaframes.scan.decoded import ERROR_COLUMN, Schema, SchemaArguments, ValueDecoding
from kafkaframes.scan.rows import RecordBatches
from kafkaframes.scan.slices import (
    ScanPlan,
    ScanProgress,
    ScanSlice,
    ScanSource,
    SourcePlan,
    log_damage,
    read_scan,
    render_scan_html,
    show_progress,
)
from kafkaframes.scan.where import NO_CONDITIONS, OffsetRange, RowFilter, TimeRange, create_row_filter
from kafkaframes.scan.writing import WriteResult, load_writer

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb
    import pandas as pd
    import polars as pl
    import ray.data

_SAMPLE_ROWS: Final = 1_000  # sample size for the inference of a schema


# Attributes of pandas, Polars, DuckDB and Spark DataFrames.
_HINTS: Final = {
    "head take first show": "limit(5).to_pandas() reads the first rows",
    "tail": "a scan reads from its start; set start=, or where(offset=(FROM, None))",
    "filter query loc iloc": "where(offset=, timestamp=, partition=, topic=) selects rows",
    "collect df pl to_df toPandas": "to_pandas(), to_polars() or to_arrow() reads the rows",
    "fetchall fetchone to_list tolist to_pylist to_dicts toLocalIterator": "to_arrow().to_pylist() returns the rows",
    "fetch_arrow_table arrow": "to_arrow() returns a table",
    "dtypes": "schema has the columns with their types",
    "shape": "count() returns the number of rows, and columns the names",
    "to_parquet to_csv to_json write_parquet write_csv sink_parquet write save": "export(DIR, format=) writes files",
    "iterrows itertuples rows": "iterate over the scan for Arrow batches",
}


@dataclass(frozen=True, slots=True, repr=False)
class Scan:
    """A read of a log, topics or captures, created by ``scan_log``, ``scan_topic`` and ``scan_capture``.

    Attributes:
        source: The log, topics or captures.
        selected_columns: Names of the selected columns. If None, the scan has the default columns of the source.
        conditions: Conditions on rows.
        row_limit: Largest number of rows; None means no limit.
        decoding: Decoding of the values. If None, values are bytes.
    """

    source: ScanSource
    selected_columns: tuple[str, ...] | None = None
    conditions: RowFilter = NO_CONDITIONS
    row_limit: int | None = None
    decoding: ValueDecoding | None = None

    # ------------------------------------------------------------------------------------------ describing the read

    def select(self, *columns: str) -> Scan:
        """Return a scan of these columns, in this order. A column that is not selected is not decoded.

        Raises:
            OptionError: A column does not exist, or is selected twice.
        """
        if columns and not isinstance(columns[0], str):
            raise OptionError(
                f"{columns[0]!r} is not a column name; expected names as arguments: select('key', 'value')"
            )
        self.source.check_columns([name for name in columns if not self._is_reason(name)], self.conditions)
        return replace(self, selected_columns=columns)

    def where(
        self,
        *,
        offset: OffsetRange | None = None,
        timestamp: TimeRange | None = None,
        partition: int | Iterable[int] | None = None,
        topic: str | Iterable[str] | None = None,
    ) -> Scan:
        """Return a scan of the rows that fulfil these conditions and those of earlier calls.

        Batches outside of the conditions are not decompressed, and not even read if the plan can exclude them. Damage
        in them is then not reported.

        Args:
            offset: An offset, or a range ``(from, to)``, ``to`` exclusive. None in a range means no bound.
            timestamp: A range of times, end exclusive: datetimes, dates, ISO 8601 text or milliseconds since 1970.
                Times without a zone are UTC.
            partition: A partition number, or several.
            topic: A topic name, or several.

        Raises:
            OptionError: A value is not a valid range, or a time cannot be parsed.
        """
        row_filter = create_row_filter(offset=offset, timestamp=timestamp, partition=partition, topic=topic)
        ranges = {"offset": (offset, row_filter.offsets), "timestamp": (timestamp, row_filter.timestamps_ms)}
        for setting, (value, (first, end)) in ranges.items():
            if first is not None and end is not None and first > end:
                raise OptionError(f"`{setting}` is {value!r}; expected a range that does not end before its start")
        return self.with_conditions(row_filter)

    def with_conditions(self, row_filter: RowFilter) -> Scan:
        """Return a scan of the rows that also fulfil these conditions, as ``where`` does for its arguments."""
        all_conditions = self.conditions & row_filter
        self.source.check_columns((), all_conditions)
        return replace(self, conditions=all_conditions)

    def limit(self, rows: int) -> Scan:
        """Return a scan of the first rows, in the order of topic, partition and offset.

        Conditions are applied before the limit, even if they are added after it.

        Raises:
            OptionError: ``rows`` is negative or not an integer.
        """
        if not isinstance(rows, int) or rows < 0:
            raise OptionError(f"`limit` is {rows!r}; expected a number of rows, at least 0")
        return replace(self, row_limit=rows if self.row_limit is None else min(rows, self.row_limit))

    def decode(
        self,
        *,
        value: str,
        schema: Schema = None,
        registry: str | None = None,
        subject: str | None = None,
        message: str | None = None,
        errors: str = "null",
        other_fields: bool = True,
    ) -> Scan:
        """Return a scan that decodes the column ``value`` to a struct and has a column ``_error`` with failure reasons.

        Args:
            value: ``json``, ``avro`` or ``protobuf``.
            schema: JSON Schema or an Avro schema, as text or as JSON values; a FileDescriptorSet (``protoc
                --descriptor_set_out``) as bytes; or the path of a file with one of these. If JSON has no schema, the
                columns are inferred from the first 1,000 values.
            registry: URL of a schema registry. Values then start with the registry's wire-format prefix.
            subject: Registry subject. The newest schema of the subject determines the columns. Default: ``TOPIC-value``
                if the scan reads one topic.
            message: Full name of the Protobuf message. Default: the first message in the schema.
            errors: With ``null``, a value that cannot be decoded is null, and ``_error`` contains the reason. With
                ``raise``, it raises a CorruptRecordError.
            other_fields: JSON only. Whether fields that are not in the schema are returned as text in the column
                ``other_fields``. Without them, decoding is faster if values have such fields.

        Raises:
            OptionError: The schema is missing, invalid or does not match ``value``.
            MissingExtraError: The library of the format is not installed.
            NetworkError: The registry does not respond.
        """
        if errors not in ("null", "raise"):
            raise OptionError(f"`errors` is {errors!r}; expected null or raise")
        if "value" not in self.source.default_columns:
            raise OptionError(f"{self.source.label}: the scan has no column named value")
        choice = SchemaArguments(schema, registry, subject, message, other_fields)
        value_decoding = choice.create_decoding(
            value, topics=self.conditions.topics or self.source.topics, sample=self._read_first_values
        )
        decoding = ValueDecoding(value_decoding, raises=errors == "raise")
        has_reasons = not decoding.raises and self.selected_columns is not None
        return replace(
            self,
            decoding=decoding,
            selected_columns=(*self.columns, ERROR_COLUMN) if has_reasons else self.selected_columns,
        )

    def _read_first_values(self) -> list[bytes | None]:
        """Return the first values, for the inference of a schema."""
        first = replace(self, selected_columns=("value",), decoding=None).limit(_SAMPLE_ROWS)
        return [value for batch in first.to_batches() for value in batch.column(0).to_pylist()]

    # ------------------------------------------------------------------------------------------ columns and text

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        if self.selected_columns is not None:
            return self.selected_columns
        columns = self.source.default_columns
        return columns if self.decoding is None or self.decoding.raises else (*columns, ERROR_COLUMN)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        plain = self.source.schema(self._plain_columns)
        return plain if self.decoding is None else self.decoding.schema(plain, self.columns)

    @property
    def _plain_columns(self) -> tuple[str, ...]:
        """The columns that the source reads, with ``value`` if ``_error`` is selected."""
        if self.decoding is None:
            return self.columns
        names = list(dict.fromkeys("value" if self._is_reason(name) else name for name in self.columns))
        more = self.decoding.source_columns if "value" in names else ()
        return (*names, *(name for name in more if name not in names))

    def _is_reason(self, name: str) -> bool:
        return self.decoding is not None and name == ERROR_COLUMN

    def __repr__(self) -> str:
        steps = [f"scan of {self.source.label}"]
        if self.conditions != NO_CONDITIONS:
            steps.append(f"where {self.conditions}")
        steps.append(f"columns {', '.join(self.columns)}")
        if self.decoding is not None:
            steps.append(f"values as {self.decoding.mode}")
        if self.row_limit is not None:
            steps.append(f"at most {count_text(self.row_limit, 'row')}")
        return "; ".join(steps)

    def _repr_html_(self) -> str:
        return render_scan_html(self)

    # ------------------------------------------------------------------------------------------ running the scan

    def plan(self, *, parts: int = 1) -> ScanPlan:
        """Return the scan divided into slices. Each slice can be pickled and read in any process.

        Args:
            parts: Number of slices that will be read at the same time. A larger number divides large sources into more
                slices.

        Raises:
            OptionError: A topic, partition or offset of the scan does not exist, or is lost.
            LogDirError: A path cannot be read.
            NetworkError, BrokerError: The cluster does not respond, or responds with an error.
        """
        is_limited = self.row_limit is not None
        source_plan = (
            SourcePlan()
            if self.row_limit == 0
            else self.source.plan_slices(self.conditions, parts=1 if is_limited else parts)
        )
        plain = self._plain_columns
        slices = [
            ScanSlice(self.source, work, plain, self.conditions, self.columns, self.decoding)
            for work in source_plan.works
        ]
        return ScanPlan(tuple(slices), self.schema, self.row_limit, source_plan.notes, source_plan.errors)

    def to_batches(self, *, workers: int | None = None) -> RecordBatches:
        """Return an iterator over Arrow record batches. Memory is bounded, regardless of the amount of data.

        Args:
            workers: Number of slices that are read at the same time. Threads read them, because the reader is compiled
                code, or processes if values are decoded. If None, it is 1. A scan with a row limit always reads one
                slice
                    after the other.

        Returns:
            An iterator with ``schema``, ``errors`` (the damage found so far) and ``notes`` (records that an open
            transaction hides, and decisions about transaction indexes and swap files).

        Raises:
            OptionError, LogDirError, NetworkError, BrokerError: While iterating, as for ``plan``.
            CorruptRecordError: While iterating: damage in a live topic, or in a log if ``on_damage`` is ``fail``.
        """
        return self._start_reading(workers, collects=False)[0]

    def _start_reading(self, workers: int | None, *, collects: bool) -> tuple[RecordBatches, ScanProgress]:
        """Return an iterator that reads the rows, and the progress of the read."""
        running = ScanProgress([])
        rows = read_scan(self, running, workers, collects=collects)
        return RecordBatches(rows, self.schema, running.errors, running.notes), running

    def to_arrow(self, *, workers: int | None = None) -> pa.Table:
        """Return all rows as a table. Raises the same exceptions as ``to_batches``.

        Damage and notes are logged as warnings of the logger ``kafkaframes.scan``.

        Args:
            workers: As for ``to_batches``. If None, it is the number of cores that the process may use for logs, and 1
                for live topics, captures and decoded values.
        """
        batches, running = self._start_reading(workers, collects=True)
        table = pa.Table.from_batches(list(show_progress(batches, running, self.source.label)), schema=batches.schema)
        log_damage([*batches.errors, *batches.notes])
        return table

    def count(self) -> int:
        """Return the number of rows. Batches are read if their headers do not determine their number of rows exactly.

        Raises:
            OptionError, LogDirError, NetworkError, BrokerError, CorruptRecordError: As for ``to_batches``.
        """
        total = 0
        try:
            plan = self.plan()
            log_damage([*plan.errors, *plan.notes])
            for part in plan.slices:
                if self.row_limit is not None and total >= self.row_limit:
                    break
                total += part.count()
        finally:
            self.source.close()
        return total if self.row_limit is None else min(total, self.row_limit)

    def to_pandas(self, *, workers: int | None = None, **options: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame.

        Args:
            workers: As for ``to_arrow``.
            options: Keyword arguments of ``pyarrow.Table.to_pandas``.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return frames.to_pandas(self.to_arrow(workers=workers), **options)

    def to_polars(self, *, workers: int | None = None) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame.

        Args:
            workers: As for ``to_arrow``.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        return frames.to_polars(self.to_arrow(workers=workers))

    def lazy(self) -> pl.LazyFrame:
        """Return a Polars LazyFrame.

        Columns, limits and conditions on offset, timestamp, partition and topic reduce the data that is read. Polars
        applies the whole predicate again.

        Raises:
            MissingExtraError: Polars is not installed.
        """
        return frames.to_lazy_frame(self)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyConnection:
        """Register the scan as a view of a DuckDB connection. Each query runs the scan, and reads only its own columns.

        Args:
            connection: A connection of ``duckdb.connect()``.
            name: Name of the view.

        Raises:
            MissingExtraError: DuckDB is not installed.
        """
        return frames.to_duckdb(self, connection, name)

    def to_dask(self, *, parts: int = 8) -> dd.DataFrame:
        """Return a Dask DataFrame with Arrow types.

        The partitions of the DataFrame are the slices of a plan that is created now.

        Args:
            parts: As for ``plan``.

        Raises:
            MissingExtraError: Dask is not installed.
        """
        return frames.to_dask(self.plan(parts=parts))

    def to_ray(self, *, parts: int = 8) -> ray.data.Dataset:
        """Return a Ray dataset. The blocks of the dataset are the slices of a plan that is created now.

        Args:
            parts: As for ``plan``.

        Raises:
            MissingExtraError: Ray is not installed.
        """
        return frames.to_ray(self.plan(parts=parts))

    def export(
        self,
        to: str | PathLike[str],
        *,
        format: Literal["parquet", "arrow", "csv", "json"] = "parquet",  # noqa: A002 (as the command's flag)
        base64: bool = False,
        single_file: bool = False,
        overwrite: bool = False,
    ) -> WriteResult:
        """Export the selected records to files, as ``export_log`` and ``export_topics`` do (docs/exporting.md).

        >>> scan_log("/backup").where(partition=0).export("out", format="csv")  # doctest: +SKIP
        80,000 records read, 80,000 written to out, in 12 segments

        An interrupted export continues if it is run again. ``select`` may only omit headers.

        Args:
            to: A local directory that is new, empty, or an earlier export.
            format: Format of the files.
            base64: For CSV only: write keys, values and header values in base64, which preserves every byte.
            single_file: Write one Parquet file ``to``, with topic and partition as columns. The export of a single file
                cannot be resumed.
            overwrite: Replace the output of an earlier export.

        Raises:
            OptionError: The scan decodes values, has a limit or other columns, or reads captures; or as for
                ``kafkaframes.export_log`` and ``export_topics``.
            LogDirError, NetworkError, BrokerError: As for ``kafkaframes.export_log`` and ``export_topics``.
        """
        options = {"format": format, "base64": base64, "single_file": single_file, "overwrite": overwrite}
        return load_writer().export(self, fspath(to), options)

    def write_table(
        self,
        to: str | PathLike[str],
        *,
        format: Literal["delta", "iceberg", "parquet"] = "parquet",  # noqa: A002 (as the command's word)
        latest: bool = False,
        dead_letters: str | None = None,
        catalog: str | None = None,
        table: str | None = None,
        commit_bytes: int = 512 << 20,
        overwrite: bool = False,
    ) -> WriteResult:
        """Add the selected records that a table does not have, as ``kafkaframes.table_log`` does (docs/tables.md).

        >>> orders = scan_log("/backup", topics="orders").decode(value="json")  # doctest: +SKIP
        >>> orders.write_table("lake/orders", format="delta")  # doctest: +SKIP
        80,000 records written to lake/orders; 1 commit

        With ``decode``, the table has a column for each field. ``select`` may only omit headers.

        Args:
            to: Directory of the table, which is created if it does not exist. With ``delta``, a URL is also accepted.
            format: Format of the table. Delta and Iceberg are extras.
            latest: Whether the table has one row for each key.
            dead_letters: Location of the table for records that cannot be decoded. Default: ``TO-dead-letters``.
            catalog: For Iceberg: name of a catalog in pyiceberg's configuration. Default: ``TO/catalog.db``.
            table: For Iceberg: NAMESPACE.NAME of the table. Default: ``kafka.records``.
            commit_bytes: Largest amount of log in a commit.
            overwrite: Replace the table's content in one commit.

        Raises:
            OptionError: The scan has a limit or other columns, raises on invalid values, or reads captures or single
                segments; or as for ``kafkaframes.table_log`` and ``table_topics``.
            MissingExtraError: The library of the format is not installed.
            LogDirError, NetworkError, BrokerError: As for ``kafkaframes.table_log`` and ``table_topics``.
        """
        options = {
            "format": format,
            "latest": latest,
            "dead_letters": dead_letters,
            "catalog": catalog,
            "table": table,
            "commit_bytes": commit_bytes,
            "overwrite": overwrite,
        }
        return load_writer().write_table(self, fspath(to), options)

    if not TYPE_CHECKING:  # type checkers would accept every attribute
        __getattr__ = reject_attributes(_HINTS)

    def __getitem__(self, item: object) -> NoReturn:
        """Raise an error with the methods that select columns and rows. A scan has no rows before it is read."""
        raise TypeError(
            f"'Scan' object is not subscriptable: {item!r}; select() selects columns, limit() and where() select rows, "
            "and to_pandas(), to_polars() or to_arrow() read them"
        )

    def __array__(self, *_: object, **__: object) -> NoReturn:
        """Raise an error with the methods that read the rows.

        Otherwise NumPy and pandas would return an array of Arrow batches.
        """
        raise TypeError("a scan is not an array; to_pandas(), to_polars() or to_arrow() read it")

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as an Arrow stream (Arrow PyCapsule interface) for Polars, DuckDB, pandas or pyarrow."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow batches."""
        return iter(self.to_batches())
