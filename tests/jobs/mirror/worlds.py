"""Topics of every kind for mirrors, and the contents of a log, read by our own reader."""

from __future__ import annotations

import asyncio
from typing import Any

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.jobs.mirror.job import mirror_clusters
from kafkaframes.jobs.mirror.settings import MirrorReport, MirrorSettings
from kafkaframes.records.scan import FILE, scan_all
from kafkaframes.storage.log.discover import discover

TIMES = 1_760_000_000_000
WAIT_S = 60  # a safeguard against hanging


def run_mirror(source: str, target: str, **settings: Any) -> MirrorReport:
    """Mirror once."""
    settings_given = {"timeout_s": WAIT_S, **settings}
    return asyncio.run(mirror_clusters(str(source), str(target), MirrorSettings(**settings_given)))


def logs_of(path: Any) -> dict[TopicPartition, tuple[int, bytes]]:
    """Return log start offset and all whole batches of each partition of a log directory, without Kafka's internal
    topics.
    """
    map_logs_by_partition = {}
    for directory in discover(str(path)):
        for one in directory.partitions:
            if one.is_live and not one.topic.startswith("__"):
                parts = []
                for segment in one.segments:
                    with open(segment.path, "rb") as file:
                        raw = file.read()
                    batches = scan_all(raw, rules=FILE)
                    end = int((batches.column("position") + batches.column("size"))[-1]) if len(batches) else 0
                    parts.append(raw[:end])
                map_logs_by_partition[TopicPartition(one.topic, one.partition)] = (
                    one.log_start_offset,
                    b"".join(parts),
                )
    return map_logs_by_partition


def rows_of(servers: str, topic: str, *, offsets: bool = True) -> dict[int, list[tuple[Any, ...]]]:
    """Return the records of a read_committed consumer, by partition."""
    columns = ("offset", "timestamp", "key", "value", "headers", "partition")
    with Consumer(servers, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        places = consumer.partitions_for(topic)
        consumer.assign(places)
        ends = consumer.end_offsets(places)
        rows_by_partition: dict[int, list[tuple[Any, ...]]] = {place.partition: [] for place in places}
        while any(consumer.position(place) < ends[place] for place in places):
            for row in consumer.fetch_arrow(60_000, columns=columns).to_pylist():
                rows_by_partition[row.pop("partition")].append(
                    tuple(row[name] for name in columns[0 if offsets else 1 : -1])
                )
    return rows_by_partition


def fill(broker: Broker) -> None:
    """Create topics of every kind: plain, old formats, transactions (committed and aborted), holes, settings."""
    servers = broker.bootstrap_servers
    with Admin(servers) as admin:
        old = {"message.format.version": "0.9.0"}
        middle = {"message.format.version": "0.10.2", "segment.bytes": "20000"}
        admin.create_topics(
            [
                NewTopic(name="plain", num_partitions=3, configs={"retention.ms": "123456789012"}),
                NewTopic(name="format-0", num_partitions=1, configs=old),
                NewTopic(name="format-1", num_partitions=1, configs=middle),
                NewTopic(name="money", num_partitions=2),
                NewTopic(name="stamped", num_partitions=1, configs={"message.timestamp.type": "LogAppendTime"}),
                NewTopic(name="empty", num_partitions=2),
            ]
        )
    for topic, record_format, codec in (("format-0", 0, "gzip"), ("format-1", 1, "lz4"), ("format-1", 1, "none")):
        with Producer(servers, record_format=record_format, compression_type=codec, batch_size=500) as producer:
            producer.send_arrow(table(200), topic=topic)
    with Producer(servers, compression_type="zstd", batch_size=2_000) as producer:
        producer.send_arrow(table(500, headers=True), topic="plain")
        producer.send_arrow(table(50), topic="stamped")
    with Producer(servers, transactional_id="t", batch_size=500) as producer:
        for number in range(6):
            producer.begin_transaction()
            producer.send_arrow(table(30, start=30 * number), topic="money")
            (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)()


def table(count: int, *, start: int = 0, headers: bool = False) -> Any:
    """Return rows with keys, values, timestamps and, on request, headers."""
    import pyarrow as pa

    numbers = range(start, start + count)
    columns: dict[str, Any] = {
        "key": [b"k%d" % (number % 17) for number in numbers],
        "value": [None if number % 11 == 0 else b"value %d" % number for number in numbers],
        "timestamp": [TIMES + number for number in numbers],
    }
    if headers:
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        columns["headers"] = pa.array([[{"key": "n", "value": b"%d" % number}] for number in numbers], kind)
    return pa.table(columns)
