"""A Spark task of an exactly-once write: it builds batches, leases their partitions from the driver, and sends them.

A separate thread sends batches while the next ones are built. A task without rows sends no requests.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from itertools import chain
from typing import Any, Final, NamedTuple

import pyarrow as pa

from kafkaframes.client import Producer, TopicPartition
from kafkaframes.client.settings import ProducerSettings
from kafkaframes.client.shared_transaction import SequencedBatches, join_transaction, send_sequenced_batches
from kafkaframes.errors import KafkaframesError, LostTaskError
from kafkaframes.jobs.driver_process.address import TaskServerAddress
from kafkaframes.jobs.write_topic.leases import LeaseConnection
from kafkaframes.jobs.write_topic.packing import BatchFormat, PackedBatches, Packer
from kafkaframes.jobs.write_topic.producer import DEFAULT_BATCH_BYTES, open_producer
from kafkaframes.jobs.write_topic.sequences import explain_repetition
from kafkaframes.scan.topic.options import TopicWriteOptions
from kafkaframes.spark.runtime.worker import freeze_imports

RESULT_COLUMNS: Final = "topic string, partition int, records bigint, failure string, is_lost boolean"
_RESULT_SCHEMA: Final = pa.schema(
    {"topic": "string", "partition": "int32", "records": "int64", "failure": "string", "is_lost": "bool"}
)
Rows = Iterator[pa.RecordBatch]
Counts = dict[TopicPartition, int]


class TaskArguments(NamedTuple):
    """The arguments of an exactly-once write that each Spark task gets.

    Attributes:
        address: Address at which sequence numbers are leased.
        batch: Identity of the batch at this address.
        is_retry: Whether the batch is written again, because tasks were lost in an earlier attempt.
    """

    options: TopicWriteOptions
    address: TaskServerAddress
    batch: Mapping[str, Any]
    is_retry: bool = False


def create_task_function(work: TaskArguments) -> Callable[[Rows], Rows]:
    """Return the function of the tasks, which writes rows and returns the number of records in each partition.

    An error of this package is returned as a row with ``failure``, and the task succeeds. If the task failed, Spark
    would repeat it, and the repetition would be rejected.
    """

    def write_partition(rows: Rows) -> Rows:
        """Write the rows of one Spark task, and yield their counts or the failure."""
        from pyspark import TaskContext

        context = TaskContext.get()
        task = context.partitionId() if context else 0
        try:
            if context is not None and context.attemptNumber():
                if work.is_retry:  # rows that failed twice may be invalid; Spark then reports the error
                    deque(rows, maxlen=0)
                raise LostTaskError(explain_repetition(task))
            counts = write_rows(work, task, rows)
        except KafkaframesError as error:
            results = [{"failure": str(error), "is_lost": isinstance(error, LostTaskError)}]
        else:
            results = [
                {"topic": topic_partition.topic, "partition": topic_partition.partition, "records": count}
                for topic_partition, count in counts.items()
            ]
        freeze_imports()
        yield pa.RecordBatch.from_pylist(results, schema=_RESULT_SCHEMA)

    return write_partition


def write_rows(work: TaskArguments, task: int, rows: Rows) -> Counts:
    """Write rows in the transaction, and return the number of acknowledged records in each partition.

    Raises:
        KafkaframesError: The driver does not respond, or reports that the batch has failed.
        BrokerError, NetworkError: A broker rejected a batch, or no response arrived. The transaction must not be
            committed.
        EncodeError, OptionError: A row cannot be written.
    """
    counts: Counts = {}
    batches = (batch for batch in rows if batch.num_rows)
    first = next(batches, None)
    if first is None:
        return counts
    with ExitStack() as stack:
        pool = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="kafkaframes send"))
        leases = LeaseConnection(work.address, task, work.batch)
        stack.callback(leases.close)
        if leases.transaction is None:
            deque(batches, maxlen=0)  # Spark requires that all rows are consumed
            return counts
        producer = open_producer(work.options, transactional_id=leases.transaction.transactional_id)
        stack.callback(producer.close, flush=False)
        join_transaction(producer, leases.transaction.identity)
        under_way: Future[None] | None = None
        for parts in _create_packer(work.options, producer, task).pack_rows(chain([first], batches)):
            if under_way is not None:
                under_way.result()
            under_way = pool.submit(_send_batches, producer, leases, parts)
            for part in parts:
                counts[part.topic_partition] = counts.get(part.topic_partition, 0) + part.record_count
        if under_way is not None:
            under_way.result()
        leases.report_end()
    return counts


def _send_batches(producer: Producer, leases: LeaseConnection, parts: list[PackedBatches]) -> None:
    """Send finished batches to each partition as soon as this task has its lease."""
    waiting = {part.topic_partition: part for part in parts}
    write_counts: list[TopicPartition] = []
    while waiting:
        granted_leases = leases.take_leases(
            {partition: part.record_count for partition, part in waiting.items()}, write_counts
        )
        numbered_batches = [
            SequencedBatches(partition, first, waiting.pop(partition).batches)
            for partition, first in granted_leases.items()
        ]
        send_sequenced_batches(producer, numbered_batches)
        write_counts = list(granted_leases)
    leases.return_leases(write_counts)


def _create_packer(options: TopicWriteOptions, producer: Producer, task: int) -> Packer:
    """Return the object that assigns rows to partitions and encodes them as batches."""
    settings = ProducerSettings.from_options(options.client)
    batch_bytes = settings.batch_size if "batch.size" in options.client else DEFAULT_BATCH_BYTES
    form = BatchFormat(settings.compression_type, settings.compression_level, batch_bytes, settings.max_request_size)
    partition_counts: dict[str, int] = {}

    def get_partition_count(topic: str) -> int:
        """Return the number of partitions of a topic, cached for the task."""
        if topic not in partition_counts:
            partition_counts[topic] = len(producer.partitions_for(topic))  # this request may create the topic
        return partition_counts[topic]

    return Packer(options.topic, get_partition_count, form, now_ms=lambda: time.time_ns() // 1_000_000, turn=task)
