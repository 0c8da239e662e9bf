"""The lag of a stream, from Spark's progress after each micro-batch. No pyspark.

The lag in offsets is exact, because it is the difference between ``latestOffset`` and ``endOffset`` in Spark's
    progress. A number of
offsets is not a number of records (compacted and transactional topics have gaps), bytes or seconds. The lag in records,
bytes and seconds is estimated from the batches at the query's next offsets. The names of these fields contain
``estimated``.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.client.range_reader import PartitionSample, fetch_sample
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.micro_batch import parse_offsets
from kafkaframes.scan.ranges import flatten_topics

SAMPLE_FETCH_BYTES = 1 << 16
_SAMPLE_WAIT_MS = 3_000


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """The lag of a query's source in a partition.

    Attributes:
        topic, partition: Topic and partition number.
        next_offset: First offset that has not been read.
        latest_offset: End of the partition when the micro-batch was planned.
        source: Number of the source in the query, which may read a topic several times.
    """

    topic: str
    partition: int
    next_offset: int
    latest_offset: int
    source: int = 0

    @property
    def topic_partition(self) -> TopicPartition:
        """The partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def offsets(self) -> int:
        """The lag in offsets."""
        return max(self.latest_offset - self.next_offset, 0)


@dataclass(frozen=True, slots=True)
class TopicProgress:
    """The progress of a query after a micro-batch.

    Attributes:
        query_id, run_id, name: Ids and name of the query in Spark.
        batch_id: Number of the completed micro-batch.
        rows: Number of rows in the micro-batch.
        partitions: Lag of each partition.
        estimated_records, estimated_bytes: Approximate backlog in records, and in bytes on the brokers (compressed).
        estimated_seconds: Approximate age of the oldest unread record. None means that no record is unread, the record
            has no timestamp, or the backlog was not sampled.
    """

    query_id: str
    run_id: str
    name: str | None
    batch_id: int
    rows: int
    partitions: tuple[PartitionLag, ...]
    estimated_records: int | None = None
    estimated_bytes: int | None = None
    estimated_seconds: float | None = None

    @property
    def offsets_behind(self) -> int:
        """The exact lag: the number of unread offsets in all partitions and sources."""
        return sum(partition.offsets for partition in self.partitions)

    @property
    def next_offsets(self) -> dict[TopicPartition, int]:
        """The offsets at which the query continues, in the form in which a consumer group would commit them.

        If several sources read a partition, this is the lowest offset, from which none of them misses records.
        """
        result: dict[TopicPartition, int] = {}
        for lag in self.partitions:
            result[lag.topic_partition] = min(lag.next_offset, result.get(lag.topic_partition, lag.next_offset))
        return result


def parse_progress(text: str) -> TopicProgress | None:
    """Parse Spark's progress. Return None if none of the query's sources has offsets of topics.

    >>> source = {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 7}}, "numInputRows": 5}
    >>> said = {"id": "q", "runId": "r", "name": None, "batchId": 3, "numInputRows": 5, "sources": [source]}
    >>> parse_progress(json.dumps(said)).offsets_behind
    2
    """
    offsets_json = json.loads(text)
    lags = [lag for number, source in enumerate(offsets_json.get("sources", ())) for lag in _parse_lags(number, source)]
    if not lags:
        return None
    rows = sum(source.get("numInputRows", 0) for source in offsets_json["sources"])
    return TopicProgress(
        offsets_json["id"], offsets_json["runId"], offsets_json.get("name"), offsets_json["batchId"], rows, tuple(lags)
    )


def _parse_lags(number: int, source: Mapping[str, Any]) -> Iterable[PartitionLag]:
    """Yield the lag of each partition of one source."""
    ends, latest = (_parse_offsets(source.get(name)) for name in ("endOffset", "latestOffset"))
    for (topic, partition), offset in sorted(ends.items()):
        yield PartitionLag(topic, partition, offset, latest.get((topic, partition), offset), number)


def _parse_offsets(values: Any) -> dict[tuple[str, int], int]:
    """Return offsets of topics; an empty dict if a source's offsets have another form."""
    return flatten_topics(parse_offsets(values if isinstance(values, str) else json.dumps(values)) or {})


def estimate_lags(
    progress: TopicProgress, consumer: Consumer, *, now: Callable[[], float] = time.time
) -> dict[str, int | float | None]:
    """Estimate the backlog of a query from a few batches of each partition with lag.

    Args:
        progress: Progress of the query.
        consumer: Consumer without a group. The estimation replaces the consumer's assignment.
        now: Clock, in seconds since 1970.

    Returns:
        Values for the fields ``estimated_...`` of ``TopicProgress``.

    Raises:
        NetworkError: No broker responds.
    """
    records = size = 0.0
    oldest: int | None = None
    for lag in progress.partitions:
        if not lag.offsets:
            continue
        result = _fetch_sample(consumer, lag)
        if result is None:
            continue
        records += result.records / result.offsets * lag.offsets
        size += result.bytes_per_offset * lag.offsets
        if result.first_timestamp >= 0 and (oldest is None or result.first_timestamp < oldest):
            oldest = result.first_timestamp
    age = None if oldest is None else max(now() - oldest / 1000, 0.0)
    return {"estimated_records": round(records), "estimated_bytes": round(size), "estimated_seconds": age}


def _fetch_sample(consumer: Consumer, lag: PartitionLag) -> PartitionSample | None:
    """Return a sample of the batches at the query's next offset; None if they cannot be fetched."""
    try:
        return fetch_sample(consumer, lag.topic_partition, lag.next_offset, wait_ms=_SAMPLE_WAIT_MS)
    except KafkaframesError:
        return None
