"""A task of ``kafkaframes.spark.read(scan)``: it reads its slices, in the types that Spark has. No pyspark."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from kafkaframes.records.arrays import INSTANT, instants_of
from kafkaframes.records.makers import TIMESTAMP
from kafkaframes.scan.arrow import rebatch
from kafkaframes.scan.slices import ScanSlice
from kafkaframes.spark.worker import settle

log = logging.getLogger("kafkaframes.spark")


def spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with types that Spark has: instants in microseconds, no dictionaries."""
    return pa.schema([pa.field(field.name, _spark_type(field.type)) for field in schema])


def _spark_type(kind: pa.DataType) -> pa.DataType:
    if kind == TIMESTAMP:
        return INSTANT
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def reader_of(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return what a task runs: rows of the column ``slice`` in, the rows of these slices out."""

    def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for raw in batch.column("slice").to_pylist():
                slices, limit = pickle.loads(raw)
                yield from rebatch(_read(slices, limit, schema))
        settle()

    return rows_of


def _read(slices: Iterable[ScanSlice], limit: int | None, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for part in slices:
        errors: list[object] = []
        for batch in part.read(errors):
            rows = batch if limit is None else batch.slice(0, limit)
            limit = None if limit is None else limit - rows.num_rows
            yield converted(rows, schema)
            if limit == 0:
                break
        for error in errors:
            log.warning("%s", error)
        part.source.close()
        if limit == 0:
            return


def converted(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of ``schema``."""
    arrays = [
        instants_of(column)
        if column.type == TIMESTAMP
        else column
        if column.type == field.type
        else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
