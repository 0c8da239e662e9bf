"""``write_topic``: rows into topics exactly once, one Kafka transaction for each micro-batch (``write_topic/sink.py``).

The driver holds the transaction, in ``foreachBatch``, and has Spark's tasks write in it. Tasks build batches of their
rows and send them with the transaction's producer id and epoch (``exactly_once_task.py``). Several may write to one
topic partition: sequences are leased by the driver, to one task at a time (``sequences.py``), which adds each partition
to the transaction before its first lease.

A second attempt of a task is refused, and so is one of a stage that Spark runs again: the rows of the first may be in
the transaction already. A task that is refused, or meets an error of ours, tells it in its result and succeeds: Spark
would repeat one that fails. What brokers have acknowledged must be what the tasks tell that Spark takes as successful.

A batch that fails for a task that was lost (its worker or executor is gone), before the commit was asked for, is
written anew, ``_TRIES`` times at most.
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
from kafkaframes.jobs.write_topic.markers import make_topic, marker_for, read_markers
from kafkaframes.jobs.write_topic.producer import open_producer
from kafkaframes.jobs.write_topic.sequences import LeaseServer, Ledger
from kafkaframes.jobs.write_topic.sink import Sent, Sink, now_ms, planned_batch, target_of, transactional_id_of
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.checkpoint_files import CheckpointFiles, HadoopFiles, asker, checkpoint_files, is_connect
from kafkaframes.spark.exactly_once_task import COLUMNS, Work, writing
from kafkaframes.spark.marker_skip import check_stateless, next_batch, skip_to
from kafkaframes.spark.schemas import types_of
from kafkaframes.spark.topic_options import SPECULATION, check_exactly_once, check_speculation, topic_write_options
from kafkaframes.spark.topic_writer import first_failure, written_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

log = logging.getLogger("kafkaframes.spark")
_ROWS_PER_BATCH: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_FEW_ROWS: Final = "64"
_HERE: Final = "127.0.0.1"
_TRIES: Final = 3
# In Spark's errors of jobs whose worker or executor is gone: PythonRunner, TaskEndReason and the sockets between them.
_LOST_PROCESS: Final = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "Connection reset",
    "Broken pipe",
)


def write(
    frame: DataFrame,
    options: Mapping[str, str],
    *,
    checkpoint: str | None,
    sink: str,
    trigger: Mapping[str, Any] | None,
    output_mode: str | None,
    query_name: str | None,
) -> StreamingQuery | None:
    """Write as ``kafkaframes.spark.write_topic`` says."""
    parsed = replace(topic_write_options({**options, "sink": sink}), delivery="exactly-once")
    check_exactly_once(parsed)
    frame = frame.select(*written_columns(types_of(frame.schema), parsed))
    check_speculation(frame.sparkSession.conf.get(SPECULATION, "false"))
    if not frame.isStreaming:
        write_frame(Sink(parsed, transactional_id_of(parsed, str(uuid.uuid4()))), frame, None)
        return None
    if checkpoint is None:
        raise OptionError("a stream needs checkpoint=")
    if parsed.on_foreign_marker == "skip":
        _skip(frame, parsed, checkpoint)
    name, id_of_query = asker(frame.sparkSession, query_name)
    write_batch = _writer_of(parsed, id_of_query, checkpoint)
    writer = frame.writeStream.foreachBatch(write_batch).option("checkpointLocation", checkpoint)
    if name is not None:
        writer = writer.queryName(name)
    if output_mode is not None:
        writer = writer.outputMode(output_mode)
    return (writer if trigger is None else writer.trigger(**trigger)).start()


def _skip(frame: DataFrame, options: TopicWriteOptions, checkpoint: str) -> None:
    """Have the checkpoint go on behind the newest marker, where it does not fit that."""
    if is_connect(frame.sparkSession):
        raise OptionError("onForeignMarker=skip writes the checkpoint: that takes a classic session, not Spark Connect")
    check_stateless(frame)
    files = HadoopFiles(frame.sparkSession, checkpoint)
    batch = next_batch(files, target_of(options))
    transactional_id = transactional_id_of(options, batch.query_id)
    with open_producer(options, transactional_id=transactional_id):  # ends what an earlier run has left open
        pass
    make_topic(options)
    marker = marker_for(read_markers(options), transactional_id, batch)
    if marker is not None:
        skip_to(files, marker.batch)


def _writer_of(
    options: TopicWriteOptions, id_of_query: Callable[[Any], str], checkpoint: str
) -> Callable[[DataFrame, int], None]:
    known: list[Query] = []  # made by the first batch: the function travels under Spark Connect

    def write_batch(batch: DataFrame, batch_id: int) -> None:
        spark = batch.sparkSession
        if not known:
            known.append(Query(options, id_of_query(spark), checkpoint_files(spark, checkpoint)))
        known[0].write(batch, batch_id)

    return write_batch


class Query:
    """The micro-batches of one run of a query, as its checkpoint has them."""

    def __init__(self, options: TopicWriteOptions, query_id: str, files: CheckpointFiles) -> None:
        self._sink = Sink(options, transactional_id_of(options, query_id))
        self._query_id = query_id
        self._files = files

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a micro-batch, unless it is there."""
        files = self._files
        batch = planned_batch(self._sink.options, self._query_id, batch_id, files.path, files.read)
        write_frame(self._sink, frame, batch)


def write_frame(sink: Sink, frame: DataFrame, batch: StreamBatch | None) -> None:
    """Write one batch in one transaction, anew where tasks were lost; ``batch`` is None where there is no marker.

    Raises:
        KafkaframesError: it does not fit the marker of the batch before it, or a task has met an error.
    """
    for tries in range(1, _TRIES):
        try:
            sink.write(batch, partial(send, frame, sink, is_written_anew=tries > 1))
        except LostTaskError as error:
            log.warning("%s is written anew: %s", sink.name_of(batch), error)
        else:
            return
    sink.write(batch, partial(send, frame, sink, is_written_anew=True))


def send(frame: DataFrame, sink: Sink, producer: Producer, *, is_written_anew: bool) -> Sent:
    """Have tasks send the rows in the transaction; return how many, when that is what Spark's tasks tell too.

    Raises:
        LostTaskError: a task was lost, or repeated.
        KafkaframesError: a task has met an error.
    """
    ledger = Ledger(now_ms)
    shared = sink.shared(producer, ledger)
    listen, host = _driver_address(frame.sparkSession)
    with (
        LeaseServer(lambda _: shared, listen=listen, host=host, port=sink.options.driver_port) as server,
        _arrow_batches_are_bounded(frame),
    ):
        work = Work(sink.options, server.address, {}, is_written_anew)
        try:
            results = frame.mapInArrow(writing(work), COLUMNS).collect()
        except Exception as error:  # of another class on each of Spark's sessions
            if any(text in str(error) for text in _LOST_PROCESS):
                ledger.check()
                raise LostTaskError(f"a worker or an executor was lost: {error}") from error
            raise
    if (failure := first_failure((row.is_lost, row.failure) for row in results)) is not None:
        if isinstance(failure, LostTaskError):
            ledger.check()
        raise failure
    reported: dict[TopicPartition, int] = {}
    for topic, partition, records, _, _ in results:
        name = TopicPartition(topic, partition)
        reported[name] = reported.get(name, 0) + records
    return Sent.of(ledger, reported)


def _driver_address(spark: Any) -> tuple[str, str]:
    """Return the address at which the driver listens to its tasks, and the name by which they find it.

    As Spark's own: ``spark.driver.bindAddress`` and ``spark.driver.host``. With ``local`` tasks it is this machine's.
    """
    master = spark.conf.get("spark.master", "")
    if master == "local" or master.startswith("local["):
        return _HERE, _HERE
    host = spark.conf.get("spark.driver.host", _HERE).strip("[]")
    return spark.conf.get("spark.driver.bindAddress", host).strip("[]"), host


@contextmanager
def _arrow_batches_are_bounded(frame: DataFrame) -> Iterator[None]:
    """Check that Spark gives a task few large rows at once: by bytes, or before Spark 4.1 by their number."""
    conf = frame.sparkSession.conf
    try:
        conf.get("spark.sql.execution.arrow.maxBytesPerBatch")
    except Exception:  # of another class in each Spark that does not know the setting
        pass
    else:
        yield
        return
    before = conf.get(_ROWS_PER_BATCH)
    conf.set(_ROWS_PER_BATCH, _FEW_ROWS)
    try:
        yield
    finally:
        conf.set(_ROWS_PER_BATCH, before or "10000")
