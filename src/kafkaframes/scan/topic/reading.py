"""A task of ``kafka-topic``: from an offset to an end, as Arrow batches in Spark's types. No pyspark.

Consumers are kept in the worker process and taken again by the next task with the same settings, so that a micro-batch
does not begin with a handshake.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

import pyarrow as pa

from kafkaframes.client import Consumer
from kafkaframes.client.fetched import Fetched
from kafkaframes.client.stretch import Stretch
from kafkaframes.records.columns import ReadError
from kafkaframes.records.memory import Recycler
from kafkaframes.scan.arrow import Conversion, rebatch
from kafkaframes.scan.columns import Column
from kafkaframes.scan.ranges import report_loss
from kafkaframes.scan.rows import RowOrigin, rows_of, sources_of
from kafkaframes.scan.topic.options import TopicOptions
from kafkaframes.scan.topic.planning import open_consumer
from kafkaframes.scan.topic.shares import Range

_Made = TypeVar("_Made")
_MOST_IDLE: Final = 8
_AT_MOST: Final = "kafkaConsumer.pollTimeoutMs"  # how long nothing may come
_AT_ONCE_BYTES: Final = 4 << 20  # of records: those of an answer, unless they were compressed to less than half
# Larger answers cost memory and save nothing: 16 MB took 48 MB more a task for the same CPU time, 8 MB 15 (2026-11-23)
_FETCH: Final = {"fetch_max_bytes": 4 << 20, "max_partition_fetch_bytes": 2 << 20, "fetch_max_wait_ms": 100}


class _Pool:
    """Idle consumers of this process by their settings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[tuple[tuple[str, str], ...], Consumer]] = []

    def take(self, options: TopicOptions) -> Consumer:
        """Return an idle consumer of these settings, or a new one."""
        key = _settings_of(options)
        with self._lock:
            for index, (known, consumer) in enumerate(self._idle):
                if known == key:
                    del self._idle[index]
                    return consumer
        requested = {name: value for name, value in _FETCH.items() if name.replace("_", ".") not in options.client}
        return open_consumer(options, **requested)

    def give_back(self, options: TopicOptions, consumer: Consumer) -> None:
        """Keep a consumer for the next task; of too many, the oldest is closed."""
        with self._lock:
            self._idle.append((_settings_of(options), consumer))
            surplus = self._idle[:-_MOST_IDLE]
            self._idle = self._idle[-_MOST_IDLE:]
        for _, old in surplus:
            old.close()

    def close(self, options: TopicOptions) -> None:
        """Close the idle consumers of these settings."""
        key = _settings_of(options)
        with self._lock:
            closing = [consumer for known, consumer in self._idle if known == key]
            self._idle = [entry for entry in self._idle if entry[0] != key]
        for consumer in closing:
            consumer.close()


def _settings_of(options: TopicOptions) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, str(value)) for name, value in options.client.items()))


_pool = _Pool()


def read_range(work: Range, columns: Sequence[Column], options: TopicOptions) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range as Arrow batches of about 1 MB with Spark's types; raises as ``read_rows``."""
    conversion = Conversion(columns, timestamp_errors=options.timestamp_errors)
    origin = RowOrigin(work.topic, work.partition)
    batches = _batches(work, conversion.sources, options)
    yield from rebatch(conversion.batch(batch, origin) for batch in batches)


def read_rows(
    work: Range, columns: Sequence[str], options: TopicOptions, errors: list[ReadError]
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a scan, in order. Damage is appended to ``errors`` unless ``on_damage`` is ``fail``.

    Raises:
        OptionError: offsets are lost (with ``fail_on_data_loss``).
        BrokerError, NetworkError: the partition cannot be read, or nothing came for ``poll_timeout_ms``.
        CorruptRecordError: a batch is damaged, and ``on_damage`` is ``fail``.
    """
    where = options.where
    sources, origin = sources_of(columns, where), RowOrigin(work.topic, work.partition)
    for batch in _batches(work, sources, options, errors):
        rows = rows_of(batch, origin, columns, where)
        if rows is not None:
            yield rows


def _batches(
    work: Range, sources: Sequence[str], options: TopicOptions, errors: list[ReadError] | None = None
) -> Iterator[pa.RecordBatch]:
    """Yield columns of the records of a range; of an answer all are made before its first rows are handed on."""

    def read(fetched: Fetched, memory: Recycler) -> Iterator[pa.RecordBatch]:
        made: list[pa.RecordBatch] = []
        size = 0
        batches = fetched.read(
            sources,
            end_offset=work.end,
            memory=memory,
            on_damage=options.on_damage,
            control_records=options.include_control,
            errors=errors,
        )
        for batch in batches:
            made.append(batch)
            size += batch.nbytes
            if size >= _AT_ONCE_BYTES:
                yield from made
                made, size = [], 0
        yield from made

    return read_fetched(work, options, read)


def read_fetched(
    work: Range, options: TopicOptions, read: Callable[[Fetched, Recycler], Iterable[_Made]]
) -> Iterator[_Made]:
    """Yield what ``read`` makes of each answer that holds records of a range, in order; raises as ``read_rows``."""
    target, at_most = work.topic_partition, options.poll_timeout_ms

    def lost(problem: str) -> None:
        report_loss(f"topic partition {target} {problem}", fail=options.fail_on_data_loss)

    consumer, memory = _pool.take(options), Recycler()  # memory that a consumer kept would be 25 MB of an idle process
    try:
        stretch = Stretch(
            consumer, target, work.first, work.end, lost=lost, silence_ms=at_most, silence_setting=_AT_MOST
        )
        while stretch.reached < work.end and (fetched := stretch.next()) is not None:
            yield from read(fetched, memory)
    except GeneratorExit:  # a LIMIT was met
        consumer.assign({})
        _pool.give_back(options, consumer)
        raise
    except BaseException:
        consumer.close()
        raise
    _pool.give_back(options, consumer)


def close_idle(options: TopicOptions) -> None:
    """Close the idle consumers of these settings."""
    _pool.close(options)
