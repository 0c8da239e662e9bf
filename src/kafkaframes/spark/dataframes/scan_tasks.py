"""A task of ``kafkaframes.spark.read(scan)``, which reads its slices in Spark's types. No pyspark."""

from __future__ import annotations

import logging
import pickle
from collections.abc import Callable, Iterable, Iterator

import pyarrow as pa

from kafkaframes.records.makers import TIMESTAMP_ARROW_TYPE
from kafkaframes.scan.arrow import INSTANT_TYPE, check_instants, rebatch, to_instant_array
from kafkaframes.scan.rows import TIMESTAMP_COLUMN
from kafkaframes.scan.slices import ScanPlan, ScanProgress
from kafkaframes.spark.runtime.worker import freeze_imports

log = logging.getLogger("kafkaframes.spark")


def to_spark_schema(schema: pa.Schema) -> pa.Schema:
    """Return the schema with Spark's types: instants in microseconds, and no dictionaries."""
    return pa.schema([pa.field(field.name, _to_spark_type(field.type)) for field in schema])


def _to_spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type that Spark supports for a type of the scan."""
    if kind == TIMESTAMP_ARROW_TYPE:
        return INSTANT_TYPE
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def create_slice_reader(schema: pa.Schema) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return the function of each task, which converts rows with the column ``slice`` to the rows of the slices."""

    def read_slices(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the slices in the column ``slice``."""
        for batch in batches:
            for raw in batch.column("slice").to_pylist():
                yield from rebatch(_read_slice(pickle.loads(raw), schema))
        freeze_imports()

    return read_slices


def _read_slice(plan: ScanPlan, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a plan in Spark's types, and log the damage."""
    running = ScanProgress([])
    for batch in plan.read_rows(running):
        yield convert_batch(batch, schema)
    for error in running.errors:
        log.warning("%s", error)
    for part in plan.slices[:1]:
        part.source.close()


def convert_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch with the types of ``schema``.

    Raises:
        OptionError: A timestamp is out of the range of Spark's microseconds.
    """
    if TIMESTAMP_COLUMN in batch.schema.names and batch.schema.field(TIMESTAMP_COLUMN).type == TIMESTAMP_ARROW_TYPE:
        check_instants(batch, remedy="Select the other columns of the scan")
    arrays = [
        to_instant_array(column)
        if column.type == TIMESTAMP_ARROW_TYPE
        else column
        if column.type == field.type
        else column.cast(field.type)
        for column, field in zip(batch.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
