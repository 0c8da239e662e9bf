"""A task of ``kafka-topic``: from an offset to an end, as Arrow batches in Spark's types. No pyspark.

Consumers are kept in the worker process and taken again by the next task with the same settings, so that a micro-batch
does not begin with a handshake.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from kafkaframes.client import Consumer
from kafkaframes.client.stretch import Rules, fetches
from kafkaframes.records.memory import Recycler
from kafkaframes.scan.columns import Column
from kafkaframes.scan.log.arrow import Conversion
from kafkaframes.scan.ranges import report_loss
from kafkaframes.scan.rebatch import rebatch
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import Range, open_consumer

_MOST_IDLE: Final = 8
_FETCH: Final = {"fetch_max_bytes": 16 << 20, "max_partition_fetch_bytes": 8 << 20, "fetch_max_wait_ms": 100}


class _Pool:
    """Idle consumers of this process by their settings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[tuple[str, str], ...], Consumer]] = []

    def take(self, options: TopicOptions) -> Consumer:
        """Return an idle consumer of these settings, or a new one."""
        key = _settings_of(options)
        with self._lock:
            for place, (known, consumer) in enumerate(self._idle):
                if known == key:
                    del self._idle[place]
                    return consumer
        asked = {name: value for name, value in _FETCH.items() if name.replace("_", ".") not in options.client}
        return open_consumer(options, **asked)

    def give_back(self, options: TopicOptions, consumer: Consumer) -> None:
        """Keep a consumer for the next task; of too many, the oldest is closed."""
        with self._lock:
            self._idle.append((_settings_of(options), consumer))
            surplus = self._idle[:-_MOST_IDLE]
            self._idle = self._idle[-_MOST_IDLE:]
        for _, old in surplus:
            old.close()


def _settings_of(options: TopicOptions) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in options.client.items()))


_pool = _Pool()


def read_range(work: Range, columns: Sequence[Column], options: TopicOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range in order, as Arrow batches of about 1 MB.

    Raises:
        OptionError: offsets are lost (with ``failOnDataLoss``).
        BrokerError, NetworkError: the partition cannot be read, or nothing came for ``kafkaConsumer.pollTimeoutMs``.
        CorruptRecordError: a batch is damaged.
    """
    consumer = _pool.take(options)
    try:
        yield from rebatch(_batches(consumer, work, columns, options))
    except GeneratorExit:  # a LIMIT was met
        _return_to_pool(consumer, options)
        raise
    except BaseException:
        consumer.close()
        raise
    _return_to_pool(consumer, options)


def _return_to_pool(consumer: Consumer, options: TopicOptions) -> None:
    consumer.assign({})
    _pool.give_back(options, consumer)


def _batches(
    consumer: Consumer, work: Range, columns: Sequence[Column], options: TopicOptions
) -> Iterator[pa.RecordBatch]:
    conversion = Conversion(columns)
    origin = _Partition(work.topic, work.partition)
    memory = Recycler()
    for fetched in fetches(consumer, work.place, _rules(work, options), first=work.first, end=work.end):
        for batch in fetched.read(conversion.sources, end_offset=work.end, memory=memory):
            yield conversion.batch(batch, origin)


def _rules(work: Range, options: TopicOptions) -> Rules:
    """Return what the options say of lost offsets, and of silence."""

    def lost(problem: str) -> None:
        report_loss(f"topic partition {work.place} {problem}", fail=options.fail_on_data_loss)

    return Rules(lost, silence_ms=options.poll_timeout_ms, silence_setting="kafkaConsumer.pollTimeoutMs")


class _Partition(NamedTuple):
    """A live topic partition as an ``Origin``; the columns of files are not offered."""

    topic: str
    partition: int
    path: str = ""
    source: str = ""
