"""A task of ``kafka-topic``, which reads an offset range as Arrow batches in Spark's types. No pyspark.

The worker process keeps idle consumers. The next task with the same settings reuses an idle consumer, so that a
micro-batch does not begin with a handshake.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from kafkaframes.client import Consumer
from kafkaframes.client.fetched_batches import FetchedBatches
from kafkaframes.client.range_reader import RangeReader
from kafkaframes.records.columns import ReadError
from kafkaframes.records.memory import Recycler
from kafkaframes.scan.arrow import SparkConversion, rebatch
from kafkaframes.scan.columns import Column
from kafkaframes.scan.ranges import report_loss
from kafkaframes.scan.rows import RowOrigin, choose_columns_to_read, select_rows
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import open_consumer
from kafkaframes.scan.topic.shares import PartitionRange

_Made = TypeVar("_Made")
_MAX_IDLE_CONSUMERS: Final = 8
_POLL_TIMEOUT_OPTION: Final = "kafkaConsumer.pollTimeoutMs"  # setting for the longest wait without records
# Holds the decompressed records of a fetch response, unless compression saved more than half of their size.
_MAX_BATCH_BYTES: Final = 4 << 20
# Larger responses cost memory and save no CPU time: responses of 16 MB took 48 MB more per task, those of 8 MB 15 MB
# more (2026-11-23).
_FETCH_SETTINGS: Final = {"fetch_max_bytes": 4 << 20, "max_partition_fetch_bytes": 2 << 20, "fetch_max_wait_ms": 100}


class _ConsumerPool:
    """The idle consumers of this process, with their settings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[tuple[str, str], ...], Consumer]] = []

    def take_consumer(self, options: TopicOptions) -> Consumer:
        """Return an idle consumer with these settings, or a new one."""
        key = _settings_of(options)
        with self._lock:
            for index, (idle_key, consumer) in enumerate(self._idle):
                if idle_key == key:
                    del self._idle[index]
                    return consumer
        fetch_settings = {
            name: value for name, value in _FETCH_SETTINGS.items() if name.replace("_", ".") not in options.client
        }
        return open_consumer(options, **fetch_settings)

    def return_consumer(self, options: TopicOptions, consumer: Consumer) -> None:
        """Keep an idle consumer for the next task with the same settings.

        If there are too many idle consumers, close the oldest one.
        """
        with self._lock:
            self._idle.append((_settings_of(options), consumer))
            surplus = self._idle[:-_MAX_IDLE_CONSUMERS]
            self._idle = self._idle[-_MAX_IDLE_CONSUMERS:]
        for _, old in surplus:
            old.close()

    def close_consumers(self, options: TopicOptions) -> None:
        """Close the idle consumers with these settings."""
        key = _settings_of(options)
        with self._lock:
            closing = [consumer for idle_key, consumer in self._idle if idle_key == key]
            self._idle = [entry for entry in self._idle if entry[0] != key]
        for consumer in closing:
            consumer.close()


def _settings_of(options: TopicOptions) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in options.client.items()))


_pool = _ConsumerPool()


def read_range(work: PartitionRange, columns: Sequence[Column], options: TopicOptions) -> Iterator[pa.RecordBatch]:
    """Yield a range as Arrow batches of about 1 MB with Spark's types. Raises the same exceptions as ``read_rows``."""
    conversion = SparkConversion(columns, timestamp_errors=options.timestamp_errors)
    origin = RowOrigin(work.topic, work.partition)
    batches = _read_batches(work, conversion.sources, options)
    yield from rebatch(conversion.convert_batch(batch, origin) for batch in batches)


def read_rows(
    work: PartitionRange, columns: Sequence[str], options: TopicOptions, errors: list[ReadError]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan, in order. Damage is appended to ``errors`` unless ``on_damage`` is ``fail``.

    Raises:
        OptionError: Offsets are lost, and ``fail_on_data_loss`` is set.
        BrokerError, NetworkError: The partition cannot be read, or no records arrived for ``poll_timeout_ms``.
        CorruptRecordError: A batch is damaged, and ``on_damage`` is ``fail``.
    """
    row_filter = options.row_filter
    sources, origin = choose_columns_to_read(columns, row_filter), RowOrigin(work.topic, work.partition)
    for batch in _read_batches(work, sources, options, errors):
        rows = select_rows(batch, origin, columns, row_filter)
        if rows is not None:
            yield rows


def _read_batches(
    work: PartitionRange, sources: Sequence[str], options: TopicOptions, errors: list[ReadError] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield columns of the records in a range. All rows of a fetch response are decoded before the first is yielded."""

    def decode_fetched(fetched_batches: FetchedBatches, memory: Recycler) -> Iterator[pa.RecordBatch]:
        """Yield the records of a fetch response as Arrow batches."""
        record_batches: list[pa.RecordBatch] = []
        size = 0
        batches = fetched_batches.read(
            sources,
            end_offset=work.end,
            memory=memory,
            on_damage=options.on_damage,
            control_records=options.include_control,
            errors=errors,
        )
        for batch in batches:
            record_batches.append(batch)
            size += batch.nbytes
            if size >= _MAX_BATCH_BYTES:
                yield from record_batches
                record_batches, size = [], 0
        yield from record_batches

    return read_fetched(work, options, decode_fetched)


def read_fetched(
    work: PartitionRange, options: TopicOptions, read: Callable[[FetchedBatches, Recycler], Iterable[_Made]]
) -> Iterator[_Made]:
    """Yield the results of ``read`` for each fetch response for a range.

    Raises the same exceptions as ``read_rows``.
    """
    target, at_most = work.topic_partition, options.poll_timeout_ms

    def report_lost_records(problem: str) -> None:
        report_loss(f"topic partition {target} {problem}", fail=options.fail_on_data_loss)

    consumer, memory = _pool.take_consumer(options), Recycler()  # in an idle consumer, this memory would occupy 25 MB
    try:
        range_reader = RangeReader(
            consumer,
            target,
            work.first,
            work.end,
            on_loss=report_lost_records,
            silence_ms=at_most,
            silence_setting=_POLL_TIMEOUT_OPTION,
        )
        while range_reader.next_offset < work.end and (fetched_batches := range_reader.read_next()) is not None:
            yield from read(fetched_batches, memory)
    except GeneratorExit:  # the query's LIMIT was reached
        consumer.assign({})
        _pool.return_consumer(options, consumer)
        raise
    except BaseException:
        consumer.close()
        raise
    _pool.return_consumer(options, consumer)


def close_idle_consumers(options: TopicOptions) -> None:
    """Close the idle consumers with these settings."""
    _pool.close_consumers(options)
