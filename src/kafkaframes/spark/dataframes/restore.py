"""Restore a DataFrame of records to a log directory that a real broker can open.

Spark groups the rows by topic partition and sorts them by offset, and spills to disk if necessary. A Python worker then
writes the segments of each partition to a directory of its task attempt. The driver moves the directories of
successful attempts to their final paths, so that results of lost or speculative attempts are never visible. The driver
and the workers must be able to access the directory under the same path.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from fnmatch import translate
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kafkaframes.errors import OptionError
from kafkaframes.spark.runtime import _compat
from kafkaframes.wire.integers import MAX_INT32

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

    from kafkaframes.jobs.restore.partition import RestoredPartition, RestoreReport
    from kafkaframes.jobs.restore.settings import RestoreSettings
    from kafkaframes.storage.files.names import TopicPartition

_ORDER_COLUMN = "_kafkaframes_order"
_READ_COLUMNS = ("topic", "partition", "offset", "timestamp", "timestampType", "key", "value", "headers")


def restore_log(df: DataFrame, to: str, **settings: Any) -> RestoreReport:
    """Write the records of ``df`` to a new log directory that a broker can open.

    >>> restore_log(spark.read.parquet("/backup/orders"), "/var/lib/kafka/restored", codec="lz4")  # doctest: +SKIP

    Args:
        df: DataFrame with the columns ``topic``, ``partition`` and ``value``, and optionally ``key``, ``headers``,
            ``offset``, ``timestamp`` and ``timestampType``. If rows have offsets, these are kept, including gaps.
            Rows without offsets get consecutive offsets in the order of the frame. A partition is written by one task.
            Transactions are not recreated.
        to: Directory that does not exist yet. The driver and the workers must be able to access the directory under
            the same path.
        settings: Fields of ``kafkaframes.jobs.restore.settings.RestoreSettings``: ``topics``, ``topic_map``,
            ``offsets``, ``codec``, ``batch_bytes``, ``segment_bytes``, ``record_format``, ``bootstrap``, ...

    Raises:
        OptionError: A column is missing, or a setting is invalid.
        LogDirError: The directory exists, or the disk fails. No files are left.
        KafkaframesError: A row cannot be written.
    """
    from kafkaframes.jobs.job import run_once, settings_as_json
    from kafkaframes.jobs.restore.job import make_random_id
    from kafkaframes.jobs.restore.parquet import check_columns, complete_directory
    from kafkaframes.jobs.restore.partition import RestoreReport
    from kafkaframes.jobs.restore.settings import RestoreSettings
    from kafkaframes.jobs.settings import create_settings

    restore_settings = create_settings(RestoreSettings, settings)
    check_columns(_select_arrow_schema(df), restore_settings)
    target = Path(to).absolute()
    report = RestoreReport(["DataFrame"], str(target), settings_as_json(restore_settings), str(df.semanticHash()))

    def write_directory(directory: Path) -> None:
        """Write the partitions and the topic ids to a new log directory."""
        report.partitions += _write_rows(_group_by_partition(df, restore_settings), directory, restore_settings)
        if not report.partitions:
            raise OptionError("nothing to restore: the DataFrame contains no selected rows")
        ids = dict(restore_settings.topic_ids)
        for topic in sorted({partition_report.topic for partition_report in report.partitions}):
            report.topic_ids[topic] = ids.get(topic) or make_random_id()
        _write_topic_ids(directory, report)
        complete_directory(
            directory, report, restore_settings, now_ms=time.time_ns() // 1_000_000, new_id=make_random_id
        )

    return run_once(report, write_directory)


def _select_arrow_schema(df: DataFrame) -> pa.Schema:
    """Return the Arrow schema of the frame's columns that a restore reads."""
    import pyarrow as pa
    from pyspark.sql.pandas.types import to_arrow_type

    names = {name.lower(): name for name in _READ_COLUMNS}
    read = [(names[field.name.lower()], field.dataType) for field in df.schema.fields if field.name.lower() in names]
    return pa.schema([(name, to_arrow_type(kind, timezone="UTC")) for name, kind in read])


def _group_by_partition(df: DataFrame, settings: RestoreSettings) -> DataFrame:
    """Group the rows by partition, and sort them."""
    from pyspark.sql import functions as F  # noqa: N812

    have = {name.lower(): name for name in df.columns}
    rows = df.select(*(F.col(have[name.lower()]).alias(name) for name in _READ_COLUMNS if name.lower() in have))
    rows = rows.where(_build_row_condition(settings)).withColumn("topic", F.col("topic").cast("string"))
    rows = rows.withColumn("partition", F.col("partition").cast("bigint"))
    if "offset" in rows.columns:
        rows = rows.withColumn("offset", F.col("offset").cast("bigint"))
    else:
        rows = rows.withColumn(_ORDER_COLUMN, F.monotonically_increasing_id())
    order = "offset" if "offset" in rows.columns else _ORDER_COLUMN
    return rows.repartition("topic", "partition").sortWithinPartitions("topic", "partition", order)


def _build_row_condition(settings: RestoreSettings) -> Column:
    """Return the condition that selects the rows of the settings' topics and partitions."""
    from pyspark.sql import functions as F  # noqa: N812

    topic = F.col("topic")
    result = ~topic.startswith("__") | topic.isNull()
    if settings.topic_names:
        result = topic.rlike("|".join(translate(pattern) for pattern in settings.topic_names))
    if settings.partition_numbers:
        result &= F.col("partition").isin(sorted(settings.partition_numbers))
    return result


def _write_rows(rows: DataFrame, directory: Path, settings: RestoreSettings) -> list[RestoredPartition]:
    """Write the partitions in Spark tasks, and move the results of the successful attempts to the log directory."""
    from kafkaframes.jobs.attempts import move_attempt
    from kafkaframes.jobs.restore.partition import RestoredPartition

    with _compat.restore_package_errors():
        attempts = rows.mapInArrow(_WriteTask(str(directory), settings), "attempt string, report string").collect()
    reports = []
    for row in attempts:
        report = RestoredPartition.from_json(json.loads(row["report"]))
        move_attempt(row["attempt"], directory / f"{report.topic}-{report.partition}")
        reports.append(report)
    return reports


@dataclass(frozen=True)
class _WriteTask:
    """The function that each Spark task of a restore runs.

    The function writes its partitions one by one, in offset order.
    """

    directory: str
    settings: RestoreSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        from kafkaframes.jobs.attempts import begin_attempt
        from kafkaframes.jobs.restore.plan import check_topic_name
        from kafkaframes.jobs.restore.rows_writer import RowsWriter
        from kafkaframes.storage.files.names import TopicPartition

        current: TopicPartition | None = None
        writer: RowsWriter | None = None
        directory = Path()

        def finish_partition(rows_writer: RowsWriter) -> pa.RecordBatch:
            """Close the writer, and return a row with the attempt's directory and the report."""
            report = json.dumps(rows_writer.close().as_json())
            return pa.RecordBatch.from_pydict({"attempt": [str(directory)], "report": [report]})

        with ExitStack() as attempts:
            try:
                for source, rows in _split_at_partition_changes(batches):
                    if source != current:
                        if writer is not None:
                            yield finish_partition(writer)
                            attempts.close()
                        target = TopicPartition(self.settings.rename_topic(source.topic), source.partition)
                        check_topic_name(target.topic)
                        directory = attempts.enter_context(begin_attempt(self.directory, str(target)))
                        writer, current = RowsWriter(directory, target, self.settings, source=source), source
                    if writer is not None:
                        writer.add_rows(rows)
                if writer is not None:
                    yield finish_partition(writer)
                    writer = None
            finally:
                if writer is not None:
                    writer.discard_unfinished_file()


def _split_at_partition_changes(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[TopicPartition, pa.RecordBatch]]:
    """Split batches where the topic or the partition changes."""
    import numpy as np
    import pyarrow.compute as pc

    from kafkaframes.storage.files.names import TopicPartition

    for batch in batches:
        if batch.num_rows == 0:
            continue
        topics, numbers = batch.column("topic"), batch.column("partition")
        if topics.null_count or numbers.null_count:
            raise OptionError("a row has no topic or no partition")
        for number in (pc.min(numbers).as_py(), pc.max(numbers).as_py()):
            if not 0 <= number <= MAX_INT32:
                raise OptionError(f"a row has partition {number}; partitions are numbered 0 to 2^31 - 1")
        changes = pc.or_(pc.not_equal(topics[1:], topics[:-1]), pc.not_equal(numbers[1:], numbers[:-1]))
        edges = [0, *(np.flatnonzero(changes.to_numpy(zero_copy_only=False)) + 1).tolist(), batch.num_rows]
        for start, stop in pairwise(edges):
            yield TopicPartition(topics[start].as_py(), numbers[start].as_py()), batch.slice(start, stop - start)


def _write_topic_ids(directory: Path, report: RestoreReport) -> None:
    """Write ``partition.metadata`` with the topic id to each partition directory."""
    from kafkaframes.jobs.restore.cluster import write_files
    from kafkaframes.storage.files import names
    from kafkaframes.storage.files.checkpoints import PartitionMetadata, write_partition_metadata

    for entry in report.partitions:
        raw = write_partition_metadata(PartitionMetadata(report.topic_ids[entry.topic]))
        write_files(directory / f"{entry.topic}-{entry.partition}", iter([(names.PARTITION_METADATA, raw)]))
