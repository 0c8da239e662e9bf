"""The Spark data source ``kafka-topic``, which reads live topics and writes to them, without a jar.

This module only connects Spark to the modules ``topic_*.py`` for options, planning, reading and writing.
``kafka_log.py`` describes when Spark calls which method. Spark requests the tasks of a DataFrame once, and runs them
for each action. Each task looks up its offsets when it runs (``execution_offsets.py``), so that every action reads the
current records.

The client is imported by the functions that need it. Spark also imports this module to find ``kafka-log``, and the
client took half of the time of a new session's first ``load()``.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, MutableMapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
)

from kafkaframes.errors import OptionError
from kafkaframes.scan.columns import Column, choose_columns
from kafkaframes.spark.options import (
    get_checkpoint_location,
    parse_topic_options,
    parse_topic_write_options,
    split_decoding,
)
from kafkaframes.spark.runtime.worker import freeze_imports, freeze_objects, hide_tracebacks
from kafkaframes.spark.sinks.columns import map_column_types
from kafkaframes.spark.sources.catalog_tables import (
    format_table_comment,
    remove_catalog_additions,
    resolve_read_options,
)
from kafkaframes.spark.sources.rejected_stream import defer_errors
from kafkaframes.spark.sources.schemas import RowDecoding, build_plain_schema, check_schema, format_schema_ddl
from kafkaframes.spark.sources.tasks import TaskReader, read_topic

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkaframes.scan.topic.options import TopicOptions
    from kafkaframes.storage.log.notes import HiddenRecords

log = logging.getLogger("kafkaframes.spark")

_FILE_COLUMNS: Final = frozenset({"file", "source", "position", "control"})  # columns that topics do not have


@hide_tracebacks
class KafkaTopicDataSource(DataSource):
    """The data source ``kafka-topic``."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        self._options = dict(options)

    @classmethod
    def name(cls) -> str:
        """Return the name for ``format()``."""
        return "kafka-topic"

    def schema(self) -> str:
        """Return the schema of Spark's Kafka source, or of the selected columns."""
        decoding, source_options = split_decoding(remove_catalog_additions(self._options))
        columns = _select_columns(source_options)
        freeze_imports()
        return format_schema_ddl(columns, decoding, format_table_comment(self.name(), self._options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of a batch."""
        return KafkaTopicReader(*self._create_reader_arguments(schema, is_stream=False))

    @defer_errors
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        """Return the reader of a stream."""
        freeze_objects()
        try:
            from kafkaframes.spark.sources.topic_stream import KafkaTopicStreamReader
        except ImportError as error:  # pyspark.sql.streaming.datasource requires Spark 4.2
            raise OptionError(f"kafka-topic as a stream needs Spark 4.2 or later ({error})") from error
        return KafkaTopicStreamReader(*self._create_reader_arguments(schema, is_stream=True))

    def _create_reader_arguments(
        self, schema: StructType, *, is_stream: bool
    ) -> tuple[TopicOptions, tuple[Column, ...], RowDecoding | None]:
        """Return the arguments of a reader."""

        decoding, source_options = split_decoding(resolve_read_options(self.name(), self._options, schema))
        plain, values = build_plain_schema(schema, decoding)
        return parse_topic_options(source_options, is_stream=is_stream), _check_columns(check_schema(plain)), values

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return the writer of a DataFrame.

        Raises:
            OptionError: The mode is overwrite. Topics only support append.
        """
        from kafkaframes.spark.sinks.topic_writer import KafkaTopicWriter

        if overwrite:
            raise OptionError('kafka-topic appends: df.write.format("kafka-topic").mode("append")')
        if not self._options.keys() - {"path"}:
            raise OptionError(
                "tables are read-only, because Spark does not pass the options of a table to a Python writer; "
                'write with df.write.format("kafka-topic").mode("append") and the options'
            )
        options = parse_topic_write_options(remove_catalog_additions(self._options))
        return KafkaTopicWriter(options, map_column_types(schema))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 (Spark's name)
        """Return the writer of a stream: at-least-once, or exactly-once with ``delivery=exactly-once``."""
        try:
            from kafkaframes.spark.exactly_once.topic_stream_writer import (
                ExactlyOnceStreamWriter,
                KafkaTopicStreamWriter,
            )
        except ImportError as error:  # DataSourceStreamArrowWriter requires a later Spark
            raise OptionError(f"kafka-topic as a stream's sink needs Spark 4.2 or later ({error})") from error

        options = parse_topic_write_options(remove_catalog_additions(self._options))
        if options.delivery == "exactly-once":
            return ExactlyOnceStreamWriter(options, map_column_types(schema), get_checkpoint_location(self._options))
        return KafkaTopicStreamWriter(options, map_column_types(schema))


@hide_tracebacks
class KafkaTopicReader(TaskReader["TopicOptions"], DataSourceReader):
    """A Spark batch reader for topics. The reader plans in the planner process and reads in the workers."""

    read_work = staticmethod(read_topic)

    def partitions(self) -> list[InputPartition]:
        """Divide topic partitions among tasks. Tasks look up their offsets when they run, unless options fix them."""
        from kafkaframes.scan.topic.planning import plan_shares, plan_topic
        from kafkaframes.spark.sources.execution_offsets import defer_offsets

        if self.options.has_fixed_offsets:
            tasks: Sequence[object] = plan_topic(self.options, report=_warn)
        else:
            tasks = defer_offsets(self.options, plan_shares(self.options, cores=os.cpu_count() or 1, report=_warn))
        freeze_imports()
        return [InputPartition(task) for task in tasks] or [InputPartition(None)]


def _warn(hidden: HiddenRecords) -> None:
    log.warning("%s", hidden)


def _select_columns(options: Mapping[str, str]) -> tuple[Column, ...]:
    """Return the columns that the options select."""

    read_options = parse_topic_options(options, is_stream=_may_be_stream(options), warns=False)
    return _check_columns(choose_columns(read_options.columns, include_headers=read_options.include_headers))


def _may_be_stream(options: Mapping[str, str]) -> bool:
    """Return whether a stream could have these options. Spark calls ``schema`` before it requests a reader."""
    return not any(name.lower().startswith("ending") for name in options)


def _check_columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Return the columns, after a check that topics have them.

    Raises:
        OptionError: A column, such as ``file``, does not exist for topics.
    """
    file_columns = [column.name for column in columns if column.name in _FILE_COLUMNS]
    if file_columns:
        raise OptionError(f"columns: {', '.join(file_columns)} exists only in files, not in topics")
    return columns
