"""The Spark data source ``kafka-log``, which reads segments of logs and writes them, without a broker or a jar.

This module only connects Spark to the modules for options, planning and reading. Spark calls it as follows:

* ``__init__`` and ``schema`` run in a planner process on the driver's machine, once for each ``load()``.
* ``partitions`` runs there too, at the first action, **once for each DataFrame** (since Spark 4.1). A DataFrame is
  therefore a snapshot. Later segments are only in the next ``load()``.
* ``read`` runs in a worker for each task. A LIMIT in the query closes the generator early.

``pushFilters`` is not implemented. With Spark 4.3, a DataFrame that is used twice with different filters would return
wrong rows, because Spark keeps the filters of the last use for all uses (``tests/spark/test_push_filters.py``). Options
select offsets and columns instead. ``WHERE topic = 'orders'`` reads every topic and drops most rows, which the query
plan does not show. For a large read without options for topics or offsets, a log message therefore names these
options.
"""

from __future__ import annotations

import logging
import os
from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.scan.columns import Column, choose_columns
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.ranges import EARLIEST, LATEST
from kafkaframes.spark.options import (
    LOG_DECODERS,
    get_checkpoint_location,
    parse_log_options,
    parse_log_write_options,
    reject_stream_end,
    split_decoding,
)
from kafkaframes.spark.runtime.worker import freeze_objects, hide_tracebacks
from kafkaframes.spark.sources.catalog_tables import (
    format_table_comment,
    remove_catalog_additions,
    resolve_read_options,
)
from kafkaframes.spark.sources.rejected_stream import defer_errors
from kafkaframes.spark.sources.schemas import RowDecoding, build_plain_schema, check_schema, format_schema_ddl
from kafkaframes.spark.sources.tasks import TaskReader, read_table

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkaframes.scan.log.resolve import ReadPlan


log = logging.getLogger("kafkaframes.spark")


@hide_tracebacks
class KafkaLogDataSource(DataSource):
    """The data source ``kafka-log``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "kafka-log"

    def schema(self) -> str:
        """Return the schema of Spark's Kafka source, or of the selected columns."""
        decoding, source_options = split_decoding(remove_catalog_additions(self._options), other_modes=LOG_DECODERS)
        options = parse_log_options(source_options)
        every_copy = options.replicas == "all"
        columns = choose_columns(
            options.columns, include_headers=options.include_headers, table=options.layout, source=every_copy
        )
        return format_schema_ddl(columns, decoding, format_table_comment(self.name(), self._options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the columns in ``schema``, which may come from ``spark.read.schema(...)``."""
        return KafkaLogReader(*self._create_reader_arguments(schema, is_stream=False))

    def _create_reader_arguments(
        self, schema: StructType, *, is_stream: bool
    ) -> tuple[ReadOptions, tuple[Column, ...], RowDecoding | None]:
        """Return the arguments of a reader."""
        decoding, source_options = split_decoding(
            resolve_read_options(self.name(), self._options, schema), other_modes=LOG_DECODERS
        )
        plain, values = build_plain_schema(schema, decoding)
        if is_stream:
            reject_stream_end(source_options)
        options = parse_log_options(source_options, **({"start": LATEST} if is_stream else {}))
        return options, check_schema(plain, table=options.layout), values

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame. ``overwrite`` is set for mode overwrite; otherwise rows are appended."""
        from kafkaframes.spark.sinks.log_writer import KafkaLogWriter

        path, values = parse_log_write_options(remove_catalog_additions(self._options))
        return KafkaLogWriter(path, values, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        """Return the exactly-once writer of a stream. ``overwrite`` is set for output mode complete."""
        try:
            from kafkaframes.spark.sinks.log_stream_writer import KafkaLogStreamWriter
        except ImportError as error:  # DataSourceStreamArrowWriter requires a later Spark
            raise OptionError(f"kafka-log as a stream's sink needs Spark 4.2 or later ({error})") from error

        path, values = parse_log_write_options(remove_catalog_additions(self._options), is_stream=True)
        checkpoint = get_checkpoint_location(self._options)
        return KafkaLogStreamWriter(path, values, schema, overwrite=overwrite, checkpoint=checkpoint)

    @defer_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of a stream. By default it starts at latest, as Spark's Kafka source does."""
        freeze_objects()
        try:
            from kafkaframes.spark.sources.log_stream import KafkaLogStreamReader
        except ImportError as error:  # pyspark.sql.streaming.datasource requires Spark 4.2
            raise OptionError(f"kafka-log as a stream needs Spark 4.2 or later ({error})") from error
        return KafkaLogStreamReader(*self._create_reader_arguments(schema, is_stream=True))


@hide_tracebacks
class KafkaLogReader(TaskReader[ReadOptions], DataSourceReader):
    """A Spark batch reader for logs. The reader plans in the planner process and reads in the workers."""

    read_work = staticmethod(read_table)

    def partitions(self) -> list[InputPartition]:
        """List the segments and divide them among tasks."""
        from kafkaframes.scan.log.resolve import plan_log

        plan = plan_log(self.options, cores=os.cpu_count() or 1)
        if (hint := describe_large_read(self.options, plan)) is not None:
            log.warning("%s", hint)
        for note in plan.notes:
            log.warning("%s", note)
        return [InputPartition(work) for work in plan.works or [()]]


MIN_LARGE_READ_BYTES = 1 << 30  # smaller reads finish before a user has read the message
_BYTES_PER_GIB = 1 << 30


def describe_large_read(options: ReadOptions, plan: ReadPlan, *, large_bytes: int = MIN_LARGE_READ_BYTES) -> str | None:
    """Return the message for a large read that no option limits; None for other reads.

    Args:
        options: Options of the read.
        plan: Plan of the read.
        large_bytes: Smallest size of a large read, in bytes of log.
    """
    if plan.bytes_to_read < large_bytes:
        return None
    topics = {part.segment.topic for work in plan.works for part in work}
    names = [*_list_topic_options(options, len(topics)), *_list_offset_options(options)]
    if not names:
        return None
    return (
        f"kafka-log reads {count_text(len(topics), 'topic')}, {plan.bytes_to_read / _BYTES_PER_GIB:.1f} "
        "GiB: Spark applies a WHERE on topic, "
        f"partition, offset or timestamp afterwards; options that limit the read: {', '.join(names)}"
    )


def _list_topic_options(options: ReadOptions, topics: int) -> list[str]:
    """Return the options that would limit the topics of a read; an empty list if one of them is set."""
    is_chosen = options.subscribe is not None or options.subscribe_pattern is not None or options.assign is not None
    return [] if is_chosen or topics < 2 else ["subscribe", "assign"]


def _list_offset_options(options: ReadOptions) -> list[str]:
    """Return the options that would limit the offsets of a read; an empty list if one of them is set."""
    is_narrowed = options.start != EARLIEST or options.end != LATEST
    return [] if is_narrowed else ["startingOffsets", "endingOffsets", "startingTimestamp", "endingTimestamp"]
