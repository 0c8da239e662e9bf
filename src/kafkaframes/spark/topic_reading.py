"""A task of ``kafka-topic``: from an offset to an end, as Arrow batches in Spark's types. No pyspark.

Consumers are kept in the worker process and taken again by the next task with the same settings, so that a micro-batch
does not begin with a handshake.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from kafkaframes.client import Consumer
from kafkaframes.client.fetched import Fetched
from kafkaframes.errors import BrokerError, NetworkError, OptionError
from kafkaframes.records.memory import Recycler
from kafkaframes.spark.arrow import Conversion
from kafkaframes.spark.columns import Column
from kafkaframes.spark.rebatch import rebatch
from kafkaframes.spark.topic_options import TopicOptions
from kafkaframes.spark.topic_planning import Range, open_consumer

log = logging.getLogger("kafkaframes.spark")
_OUT_OF_RANGE: Final = 1
_MOST_IDLE: Final = 8
_STEP_MS: Final = 1_000
_AGAIN_SECONDS: Final = 0.1
_FETCH: Final = {"fetch_max_bytes": 16 << 20, "max_partition_fetch_bytes": 8 << 20, "fetch_max_wait_ms": 100}


class _Pool:
    """Idle consumers of this process by their settings."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[tuple[object, Consumer]] = []

    def take(self, options: TopicOptions) -> Consumer:
        """Return an idle consumer of these settings, or a new one."""
        key = tuple(sorted((name, str(value)) for name, value in options.client.items()))
        with self._lock:
            for place, (known, consumer) in enumerate(self._idle):
                if known == key:
                    del self._idle[place]
                    return consumer
        asked = {name: value for name, value in _FETCH.items() if name.replace("_", ".") not in options.client}
        return open_consumer(options, **asked)

    def give_back(self, options: TopicOptions, consumer: Consumer) -> None:
        """Keep a consumer for the next task; of too many, the oldest is closed."""
        key = tuple(sorted((name, str(value)) for name, value in options.client.items()))
        with self._lock:
            self._idle.append((key, consumer))
            surplus = self._idle[:-_MOST_IDLE]
            self._idle = self._idle[-_MOST_IDLE:]
        for _, old in surplus:
            old.close()


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
    place = _Place(work.topic, work.partition)
    memory = Recycler()
    consumer.assign({work.place: work.first}, ends={work.place: work.end})
    for fetched in _fetches(consumer, work, options):
        for batch in fetched.read(conversion.sources, end_offset=work.end, memory=memory):
            yield conversion.batch(batch, place)  # type: ignore[arg-type]


def _fetches(consumer: Consumer, work: Range, options: TopicOptions) -> Iterator[Fetched]:
    """Yield answers until the end of the range is reached; offsets without records (compacted ones) are passed over."""
    reached = work.first
    deadline = time.monotonic() + options.poll_timeout_ms / 1000
    while reached < work.end:
        try:
            fetched = consumer.fetch(_STEP_MS)
        except BrokerError as error:
            if error.code is None or error.code.number != _OUT_OF_RANGE:
                raise
            reached = _after_loss(consumer, work, reached, options)
            if time.monotonic() < deadline:
                continue
            raise
        if fetched is not None:
            deadline = time.monotonic() + options.poll_timeout_ms / 1000
            reached = fetched.next_offset
            yield fetched
        elif consumer.skip_gap(work.place, work.end):  # the log's last batches were compacted away
            return
        elif time.monotonic() > deadline:
            _after_silence(consumer, work, reached, options)
            return


def _after_silence(consumer: Consumer, work: Range, reached: int, options: TopicOptions) -> None:
    """Say why nothing comes any more; return where the log ends before the range, and that is accepted."""
    last = consumer.end_offsets([work.place])[work.place]
    silence = f"nothing came from offset {reached} on for {options.poll_timeout_ms} ms (kafkaConsumer.pollTimeoutMs)"
    if reached < last:
        raise NetworkError(f"{work.place}: {silence}")
    problem = f"topic partition {work.place} ends at {last}, and was to be read up to {work.end}: {silence}"
    if options.fail_on_data_loss:
        raise OptionError(f"{problem}; failOnDataLoss=false goes on without what is not there")
    log.warning("%s; the read goes on without it", problem)


def _after_loss(consumer: Consumer, work: Range, reached: int, options: TopicOptions) -> int:
    """Return where to go on after offsets that the log has lost: its start, or the range's end."""
    first = consumer.beginning_offsets([work.place])[work.place]
    last = consumer.end_offsets([work.place])[work.place]
    if first <= reached < last:  # there after all: the partition has a new leader, or was made anew
        time.sleep(_AGAIN_SECONDS)
        consumer.seek(work.place, reached)
        return reached
    problem = f"topic partition {work.place} has no offset {reached} (it has {first} to {last})"
    if options.fail_on_data_loss:
        raise OptionError(f"{problem}; failOnDataLoss=false goes on without what is lost")
    log.warning("%s; what is lost is left out", problem)
    if reached >= first:
        return work.end
    following = min(first, work.end)
    consumer.seek(work.place, following)
    return following


class _Place(NamedTuple):
    """What the columns ``topic`` and ``partition`` say; the columns of files are not offered."""

    topic: str
    partition: int
    path: str = ""
    source: str = ""
