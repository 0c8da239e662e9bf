"""``write_topic``: exactly-once writes, with a Kafka transaction for each micro-batch (``write_topic/sink.py``).

The driver owns the transaction, in ``foreachBatch``. Spark's tasks build record batches and send them with the
transaction's producer id and epoch (``exactly_once_task.py``). Several tasks may write to one topic partition: the
driver leases its sequence numbers to one task at a time (``sequences.py``), and adds each partition to the transaction
before its first lease.

Second attempts of a task, and tasks of a repeated stage, are rejected, because rows of the first attempt may already be
in the transaction. Spark would retry a failed task, so a task that is rejected or fails with an error of this package
succeeds and reports the error in its result. The number of records that brokers have acknowledged must equal the
number that the successful tasks report.

If a task is lost (its worker or executor ended) before the commit was requested, the batch is written again, up to
``_MAX_WRITE_ATTEMPTS`` times.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import LostTaskError, OptionError
from kafkaframes.jobs.micro_batch import StreamBatch
from kafkaframes.jobs.write_topic.leases import LeaseServer
from kafkaframes.jobs.write_topic.markers import create_marker_topic, find_marker, read_markers
from kafkaframes.jobs.write_topic.producer import open_producer
from kafkaframes.jobs.write_topic.sequences import LeaseLedger
from kafkaframes.jobs.write_topic.sink import (
    TopicSink,
    TransactionRecords,
    current_time_ms,
    describe_target,
    make_transactional_id,
    plan_batch,
)
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.exactly_once.exactly_once_task import RESULT_COLUMNS, TaskArguments, create_task_function
from kafkaframes.spark.exactly_once.marker_skip import check_stateless, find_next_batch, skip_to_marker
from kafkaframes.spark.exactly_once.speculation import SPECULATION_SETTING, check_speculation
from kafkaframes.spark.options import check_exactly_once, parse_topic_write_options
from kafkaframes.spark.progress.checkpoint_files import (
    CheckpointFiles,
    HadoopFiles,
    create_query_id_lookup,
    get_checkpoint_files,
    is_connect,
)
from kafkaframes.spark.sinks.columns import map_column_types
from kafkaframes.spark.sinks.topic_writer import find_first_failure, select_columns_to_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("kafkaframes.spark")
_ROWS_PER_BATCH_SETTING: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_SMALL_BATCH_ROWS: Final = "64"
_LOOPBACK: Final = "127.0.0.1"
_MAX_WRITE_ATTEMPTS: Final = 3
# Texts in Spark's errors for lost workers or executors: from PythonRunner, TaskEndReason and their sockets.
_LOST_PROCESS_TEXTS: Final = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "Connection reset",
    "Broken pipe",
)


def write_frame_exactly_once(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    checkpoint: str | None,
    sink: str,
    trigger: Mapping[str, Any] | None,
    output_mode: str | None,
    query_name: str | None,
) -> StreamingQuery | None:
    """Write a DataFrame as ``kafkaframes.spark.write_topic`` does."""
    write_options = replace(parse_topic_write_options({**options, "sink": sink}), delivery="exactly-once")
    check_exactly_once(write_options)
    frame = frame.select(*select_columns_to_write(map_column_types(frame.schema), write_options))
    check_speculation(frame.sparkSession.conf.get(SPECULATION_SETTING, "false"))
    if not frame.isStreaming:
        write_in_transaction(
            TopicSink(write_options, make_transactional_id(write_options, str(uuid.uuid4()))), frame, None
        )
        return None
    if checkpoint is None:
        raise OptionError("a stream requires the argument checkpoint")
    if write_options.on_foreign_marker == "skip":
        _skip_to_marker(frame, write_options, checkpoint)
    name, id_of_query = create_query_id_lookup(frame.sparkSession, query_name)
    write_batch = _create_batch_writer(write_options, id_of_query, checkpoint)
    writer = frame.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    if output_mode is not None:
        writer = writer.outputMode(output_mode)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _skip_to_marker(frame: DataFrame, options: TopicWriteOptions, checkpoint: str) -> None:
    """If the checkpoint does not match the newest marker, move the checkpoint to the end of the marker's batch."""
    if is_connect(frame.sparkSession):
        raise OptionError(
            "onForeignMarker=skip changes the checkpoint, which requires a classic session instead of Spark Connect"
        )
    check_stateless(frame)
    files = HadoopFiles(frame.sparkSession, checkpoint)
    batch = find_next_batch(files, describe_target(options))
    transactional_id = make_transactional_id(options, batch.query_id)
    with open_producer(options, transactional_id=transactional_id):  # aborts an open transaction of an earlier run
        pass
    create_marker_topic(options)
    marker = find_marker(read_markers(options), transactional_id, batch)
    if marker is not None:
        skip_to_marker(files, marker.batch)


def _create_batch_writer(
    options: TopicWriteOptions, id_of_query: Callable[[Any], str], checkpoint: str
) -> Callable[[DataFrame, int], None]:
    """Return the function for ``foreachBatch``, which writes each micro-batch exactly once."""
    writers: list[MicroBatchWriter] = []  # created by the first batch, because Spark Connect pickles the function

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        """Write one micro-batch."""
        spark = batch.sparkSession
        if not writers:
            writers.append(MicroBatchWriter(options, id_of_query(spark), get_checkpoint_files(spark, checkpoint)))
        writers[0].write(batch, batch_id)

    return write_batch


class MicroBatchWriter:
    """A writer of micro-batches, for one run of a query. Each micro-batch is written exactly once."""

    def __init__(self, options: TopicWriteOptions, query_id: str, files: CheckpointFiles) -> None:
        self._sink = TopicSink(options, make_transactional_id(options, query_id))
        self._query_id = query_id
        self._files = files

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch unless it was committed before."""
        files = self._files
        batch = plan_batch(self._sink.options, self._query_id, batch_id, files.path, files.read_text)
        write_in_transaction(self._sink, frame, batch)


def write_in_transaction(sink: TopicSink, frame: DataFrame, batch: StreamBatch | None) -> None:
    """Write a batch in one transaction, and repeat it after lost tasks. ``batch`` is None for a write without a marker.

    Raises:
        KafkaframesError: The batch does not match the marker of the previous batch, or a task failed.
    """
    for attempts in range(1, _MAX_WRITE_ATTEMPTS):
        try:
            sink.write_batch(batch, partial(send_rows, frame, sink, is_retry=attempts > 1))
        except LostTaskError as error:
            log.warning("%s is written again: %s", sink.format_batch_name(batch), error)
        else:
            return
    sink.write_batch(batch, partial(send_rows, frame, sink, is_retry=True))


def send_rows(frame: DataFrame, sink: TopicSink, producer: Producer, *, is_retry: bool) -> TransactionRecords:
    """Let Spark's tasks send the rows in the transaction, and return the record counts if the tasks confirm them.

    Raises:
        LostTaskError: A task was lost, or repeated.
        KafkaframesError: A task failed.
    """
    ledger = LeaseLedger(current_time_ms)
    shared_producer = sink.share_transaction(producer, ledger)
    listen, host = _find_driver_address(frame.sparkSession)
    with (
        LeaseServer(lambda _: shared_producer, listen=listen, host=host, port=sink.options.driver_port) as server,
        _limit_arrow_batches(frame),
    ):
        work = TaskArguments(sink.options, server.address, {}, is_retry)
        try:
            results = frame.mapInArrow(create_task_function(work), RESULT_COLUMNS).collect()
        except Exception as error:  # the exception's class depends on the type of the session
            if any(text in str(error) for text in _LOST_PROCESS_TEXTS):
                ledger.raise_if_failed()
                raise LostTaskError(f"a worker or an executor was lost: {error}") from error
            raise
    if (failure := find_first_failure((row.is_lost, row.failure) for row in results)) is not None:
        if isinstance(failure, LostTaskError):
            ledger.raise_if_failed()
        raise failure
    reported_counts: dict[TopicPartition, int] = {}
    for topic, partition, records, _, _ in results:
        name = TopicPartition(topic, partition)
        reported_counts[name] = reported_counts.get(name, 0) + records
    return TransactionRecords.from_reports(ledger, reported_counts)


def _find_driver_address(spark: Any) -> tuple[str, str]:
    """Return the listen address of the driver, and the host name under which tasks reach it.

    The settings are ``spark.driver.bindAddress`` and ``spark.driver.host``; with ``local`` tasks, this machine's
    address is used for both.
    """
    master = spark.conf.get("spark.master", "")
    if master == "local" or master.startswith("local["):
        return _LOOPBACK, _LOOPBACK
    host = spark.conf.get("spark.driver.host", _LOOPBACK).strip("[]")
    return spark.conf.get("spark.driver.bindAddress", host).strip("[]"), host


@contextmanager
def _limit_arrow_batches(frame: DataFrame) -> Iterator[None]:
    """Keep Arrow batches for tasks small: Spark before 4.1 can only limit the number of rows of a batch."""
    conf = frame.sparkSession.conf
    try:
        conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
    except Exception:  # the exception's class for an unknown setting depends on the version of Spark
        pass
    else:
        yield
        return
    old_value = conf.get(_ROWS_PER_BATCH_SETTING)
    conf.set(_ROWS_PER_BATCH_SETTING, _SMALL_BATCH_ROWS)
    try:
        yield
    finally:
        conf.set(_ROWS_PER_BATCH_SETTING, old_value or "10000")
