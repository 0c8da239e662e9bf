"""Old clients join: a measurement of what KIP-31 saves brokers.

Before Kafka 0.10, the records inside a compressed message set had absolute offsets. Brokers assign offsets, so they had
to decompress and recompress every set. KIP-31 made the inner offsets relative: since then, a broker only writes the
offset of the outer message. The same flights are sent twice, by an old and a newer client.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkaframes.client import Admin, Consumer, NewTopic, Producer

# A topic's message format, and the record format and release of the client that writes to it.
CLIENT_STEPS = {"before": ("0.9.0", 0, "0.9"), "after": ("0.10.0", 1, "0.10")}


@dataclass(frozen=True)
class Costs:
    """Bytes that the broker recompressed, by client generation. ``read``: the number of records that an old
    consumer read.
    """

    before: int
    after: int
    read: int


def play(
    servers: str, topic: str, rows: Sequence[tuple[bytes, bytes, bytes]], count_recompressed: Callable[[], int]
) -> Costs:
    """Send rows with an old and a newer client, and read them with the old one.

    Args:
        count_recompressed: returns how many bytes the broker has recompressed so far.
    """
    costs = {}
    with Admin(servers) as admin:
        for name, (topic_format, record_format, release) in CLIENT_STEPS.items():
            own = f"{topic}-{name}"
            configs = {"message.format.version": topic_format, "compression.type": "producer"}
            admin.create_topics([NewTopic(name=own, num_partitions=1, replication_factor=1, configs=configs)])
            start_bytes = count_recompressed()
            with Producer(
                servers,
                client_id=f"client-of-{release}",
                api_version=release,
                record_format=record_format,
                compression_type="gzip",
                enable_idempotence=False,
                batch_size=100_000,
                linger_ms=20,
            ) as producer:
                for carrier, _, text in rows:
                    producer.send(own, text, key=carrier)
                producer.flush()
            costs[name] = count_recompressed() - start_bytes
    return Costs(costs["before"], costs["after"], _read_format_0(servers, f"{topic}-before", len(rows)))


def _read_format_0(servers: str, topic: str, wanted_count: int) -> int:
    """Read with a client that supports record format 0 only."""
    count = 0
    with Consumer(
        servers,
        client_id="client-of-0.9",
        api_version="0.9",
        formats=(0,),
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    ) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        while count < wanted_count:
            fetched_rows = consumer.fetch_arrow(10_000)
            if fetched_rows is None or not fetched_rows.num_rows:
                break
            count += fetched_rows.num_rows
    return count
