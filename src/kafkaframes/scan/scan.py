"""A scan: what to read of a log, of live topics or of captures, as an immutable value. Nothing is read until it is run.

``select``, ``where``, ``limit`` and ``decode`` return new scans; ``plan`` cuts one into slices; everything else runs
it, each time anew. Rows come in the order of topic, partition and offset, whatever the number of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kafkaframes.errors import OptionError
from kafkaframes.scan import frames
from kafkaframes.scan.decoded import ERROR, Schema, SchemaChoice, ValueDecoding
from kafkaframes.scan.rows import RecordBatches
from kafkaframes.scan.slices import Running, ScanPlan, ScanSlice, Source, SourcePlan, run, scan_html, warn, watched
from kafkaframes.scan.where import EVERYTHING, OffsetRange, TimeRange, Where, where_of

if TYPE_CHECKING:
    import dask.dataframe as dd
    import duckdb
    import pandas as pd
    import polars as pl
    import ray.data

_SAMPLED_VALUES: Final = 1_000  # of which columns are made where there is no schema


@dataclass(frozen=True, slots=True, repr=False)
class Scan:
    """What to read; made by ``scan_log``, ``scan_topic`` and ``scan_capture``.

    Attributes:
        source: the log, topics or captures.
        chosen: columns; None: those that the source has by default.
        kept: conditions on rows.
        most: the largest number of rows; None: all.
        decoding: how values are decoded; None: they are bytes.
    """

    source: Source
    chosen: tuple[str, ...] | None = None
    kept: Where = EVERYTHING
    most: int | None = None
    decoding: ValueDecoding | None = None

    # ---------------------------------------------------------------------------------------------- what to read

    def select(self, *columns: str) -> Scan:
        """Return a scan of these columns, in this order. A column that is not chosen is not decoded.

        Raises:
            OptionError: a name does not exist, or is there twice.
        """
        self.source.checked([name for name in columns if not self._is_reason(name)], self.kept)
        return replace(self, chosen=columns)

    def where(
        self,
        *,
        offset: OffsetRange | None = None,
        timestamp: TimeRange | None = None,
        partition: int | Iterable[int] | None = None,
        topic: str | Iterable[str] | None = None,
    ) -> Scan:
        """Return a scan of the rows that fulfil all conditions, those of earlier calls included.

        What lies outside is not decompressed, and not read where the plan can tell: damage there is not reported.

        Args:
            offset: one, or a range ``(from, to)``: from is in it, to is not, None is no bound.
            timestamp: a range of times: datetimes, dates, text as ISO 8601 has it, or milliseconds since 1970. What has
                no zone is UTC.
            partition: a number, or several.
            topic: a name, or several.

        Raises:
            OptionError: a range is none, or a time cannot be read.
        """
        return self.narrowed(where_of(offset=offset, timestamp=timestamp, partition=partition, topic=topic))

    def narrowed(self, where: Where) -> Scan:
        """Return a scan of the rows that fulfil these conditions, too: ``where`` for values that are made already."""
        kept = self.kept & where
        self.source.checked((), kept)
        return replace(self, kept=kept)

    def limit(self, rows: int) -> Scan:
        """Return a scan of the first rows that are kept, by topic, partition and offset, whatever is chained after it.

        Raises:
            OptionError: it is below 0.
        """
        if rows < 0:
            raise OptionError(f"`limit` is a number of rows, not {rows}")
        return replace(self, most=rows if self.most is None else min(rows, self.most))

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
        """Return a scan whose column ``value`` is a struct, and that has a column ``_error``: why a value is none.

        Args:
            value: ``json``, ``avro`` or ``protobuf``.
            schema: JSON Schema or an Avro schema, as text or as JSON values; a FileDescriptorSet (``protoc
                --descriptor_set_out``) as bytes; or the path of a file with it. JSON without one: columns are made of
                the first 1,000 values.
            registry: the URL of a schema registry; values begin with its prefix then.
            subject: whose newest schema the columns have; ``TOPIC-value`` where one topic is read.
            message: Protobuf: the message's full name; the first by default.
            errors: ``null``: a value that cannot be decoded is null, with its reason in ``_error``; ``raise``: it is an
                error.
            other_fields: JSON: fields that the schema does not know are text in the field ``other_fields``; else they
                are left out, which is faster where values have such.

        Raises:
            OptionError: no schema can be had, or it does not fit.
            MissingExtraError: the format's library is absent.
            NetworkError: the registry does not answer.
        """
        if errors not in ("null", "raise"):
            raise OptionError(f"`errors` is null or raise, not {errors!r}")
        if "value" not in self.source.default_columns:
            raise OptionError(f"{self.source.label}: there is no column value")
        choice = SchemaChoice(schema, registry, subject, message, other_fields)
        known = choice.decoding(value, topics=self.kept.topics or self.source.topics, sample=self._first_values)
        decoding = ValueDecoding(known, raises=errors == "raise")
        has_reasons = not decoding.raises and self.chosen is not None
        return replace(self, decoding=decoding, chosen=(*self.columns, ERROR) if has_reasons else self.chosen)

    def _first_values(self) -> list[bytes | None]:
        first = replace(self, chosen=("value",), decoding=None).limit(_SAMPLED_VALUES)
        return [value for batch in first.to_batches() for value in batch.column(0).to_pylist()]

    # ---------------------------------------------------------------------------------------------- what it is

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        if self.chosen is not None:
            return self.chosen
        columns = self.source.default_columns
        return columns if self.decoding is None or self.decoding.raises else (*columns, ERROR)

    @property
    def schema(self) -> pa.Schema:
        """The Arrow schema of the rows."""
        plain = self.source.schema(self._plain_columns)
        return plain if self.decoding is None else self.decoding.schema(plain, self.columns)

    @property
    def _plain_columns(self) -> tuple[str, ...]:
        """The columns that the source reads: with ``value``, where ``_error`` is about it."""
        if self.decoding is None:
            return self.columns
        names = list(dict.fromkeys("value" if self._is_reason(name) else name for name in self.columns))
        more = self.decoding.sources if "value" in names else ()
        return (*names, *(name for name in more if name not in names))

    def _is_reason(self, name: str) -> bool:
        return self.decoding is not None and name == ERROR

    def __repr__(self) -> str:
        steps = [f"scan of {self.source.label}"]
        if self.kept != EVERYTHING:
            steps.append(f"where {self.kept}")
        steps.append(f"columns {', '.join(self.columns)}")
        if self.decoding is not None:
            steps.append(f"values as {self.decoding.mode}")
        if self.most is not None:
            steps.append(f"at most {self.most} rows")
        return "; ".join(steps)

    def _repr_html_(self) -> str:
        return scan_html(self)

    # ---------------------------------------------------------------------------------------------- running it

    def plan(self, *, parts: int = 1) -> ScanPlan:
        """Look at what is there, and cut the read into slices, each of which can be pickled and read anywhere.

        Args:
            parts: how many will be read at once: large sources are cut into more slices then.

        Raises:
            OptionError: what is named is not there, or is lost.
            LogDirError: a path cannot be read.
            NetworkError, BrokerError: the cluster cannot be asked.
        """
        is_limited = self.most is not None
        planned = SourcePlan() if self.most == 0 else self.source.plan(self.kept, parts=1 if is_limited else parts)
        plain = self._plain_columns
        slices = [ScanSlice(self.source, work, plain, self.kept, self.columns, self.decoding) for work in planned.works]
        return ScanPlan(tuple(slices), self.schema, self.most, planned.notes)

    def to_batches(self, *, workers: int = 1) -> RecordBatches:
        """Return an iterator over Arrow record batches: bounded memory, however much is read.

        Args:
            workers: how many slices are read at once: by threads, since the reading itself is compiled; by processes
                where values are decoded.

        Returns:
            An iterator with ``schema``, with ``errors`` (what was damaged so far), and with ``notes`` (records that an
            open transaction hides, transaction indexes and swap files that were judged).

        Raises:
            OptionError, LogDirError, NetworkError, BrokerError: (while iterating) as ``plan``.
            CorruptRecordError: (while iterating) damage, with on_damage=fail, or of a live topic.
        """
        return self._started(workers)[0]

    def _started(self, workers: int) -> tuple[RecordBatches, Running]:
        running = Running([])
        return RecordBatches(run(self, running, workers), self.schema, running.errors, running.notes), running

    def to_arrow(self, *, workers: int = 1) -> pa.Table:
        """Return all rows as a table; raises as ``to_batches``.

        Damage and notes are warnings of the logger ``kafkaframes.scan``.
        """
        batches, running = self._started(workers)
        table = pa.Table.from_batches(list(watched(batches, running, self.source.label)), schema=batches.schema)
        warn([*batches.errors, *batches.notes])
        return table

    def count(self) -> int:
        """Return how many rows there are: from the headers of batches where these say it exactly, else by reading.

        Raises:
            OptionError, LogDirError, NetworkError, BrokerError, CorruptRecordError: as ``to_batches``.
        """
        total = 0
        try:
            plan = self.plan()
            warn(plan.notes)
            for part in plan.slices:
                if self.most is not None and total >= self.most:
                    break
                total += part.count()
        finally:
            self.source.close()
        return total if self.most is None else min(total, self.most)

    def to_pandas(self, *, workers: int = 1, **options: Any) -> pd.DataFrame:
        """Return all rows as a pandas DataFrame.

        Args:
            workers: as of ``to_batches``.
            options: of ``pyarrow.Table.to_pandas``.

        Raises:
            MissingExtraError: pandas is absent.
        """
        return frames.to_pandas(self.to_arrow(workers=workers), **options)

    def to_polars(self, *, workers: int = 1) -> pl.DataFrame:
        """Return all rows as a Polars DataFrame.

        Raises:
            MissingExtraError: Polars is absent.
        """
        return frames.to_polars(self.to_arrow(workers=workers))

    def lazy(self) -> pl.LazyFrame:
        """Return a Polars LazyFrame: columns, limits and conditions on offset, timestamp, partition and topic narrow
        what is read, and Polars filters again.

        Raises:
            MissingExtraError: Polars is absent.
        """
        return frames.lazy(self)

    def to_duckdb(self, connection: duckdb.DuckDBPyConnection, name: str) -> duckdb.DuckDBPyConnection:
        """Make the scan a view of a DuckDB connection, read anew by each query, of the columns that it names.

        Args:
            connection: of ``duckdb.connect()``.
            name: of the view.

        Raises:
            MissingExtraError: DuckDB is absent.
        """
        return frames.to_duckdb(self, connection, name)

    def to_dask(self, *, parts: int = 8) -> dd.DataFrame:
        """Return a Dask DataFrame whose partitions are the slices of a plan made now, with Arrow's types in pandas.

        Args:
            parts: as of ``plan``.

        Raises:
            MissingExtraError: Dask is absent.
        """
        return frames.to_dask(self.plan(parts=parts))

    def to_ray(self, *, parts: int = 8) -> ray.data.Dataset:
        """Return a Ray dataset whose blocks are read from the slices of a plan made now.

        Args:
            parts: as of ``plan``.

        Raises:
            MissingExtraError: Ray is absent.
        """
        return frames.to_ray(self.plan(parts=parts))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Export all rows as an Arrow stream (the Arrow PyCapsule interface): Polars, DuckDB, pandas, pyarrow."""
        return self.to_batches().__arrow_c_stream__(requested_schema)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Iterate over Arrow batches."""
        return iter(self.to_batches())
