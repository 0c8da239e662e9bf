"""Operations with kafka-python in a separate process, so that its leaked sockets are closed when the process ends."""

from __future__ import annotations

import time
from collections.abc import Sequence

import kafka
from kafka.admin import KafkaAdminClient, NewTopic

Bootstrap = Sequence[str]


def create(bootstrap: Bootstrap, topics: dict[str, list[int]]) -> None:
    """Create topics with one partition on the given nodes, of which the first is the leader."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    admin.create_topics(
        [
            NewTopic(name, num_partitions=-1, replication_factor=-1, replica_assignments={0: to})
            for name, to in topics.items()
        ]
    )
    admin.close()


def send(bootstrap: Bootstrap, topic: str, text: str, count: int) -> None:
    """Send records in batches of one, and wait for the leader's acknowledgement of each."""
    producer = kafka.KafkaProducer(bootstrap_servers=bootstrap, acks=1, retries=20, linger_ms=0)
    for number in range(count):
        producer.send(topic, f"{text}-{number}".encode() + b"." * 80, partition=0).get(timeout=60)
    producer.close()


def read(bootstrap: Bootstrap, topic: str) -> list[tuple[int, int, bytes]]:
    """Read a topic to its end with a consumer; return (offset, timestamp, value) of each record."""
    partition = kafka.TopicPartition(topic, 0)
    consumer = kafka.KafkaConsumer(bootstrap_servers=bootstrap, enable_auto_commit=False)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    rows: list[tuple[int, int, bytes]] = []
    deadline = time.monotonic() + 60
    while consumer.position(partition) < end and time.monotonic() < deadline:
        for records in consumer.poll(500).values():
            rows += [(record.offset, record.timestamp, record.value) for record in records]
    consumer.close()
    return rows


def wait_for_leader(bootstrap: Bootstrap, topic: str, leader: int) -> bool:
    """Wait until a node leads a topic; return False after a timeout."""
    admin = KafkaAdminClient(bootstrap_servers=bootstrap)
    deadline = time.monotonic() + 120
    leader_now = None
    while leader_now != leader and time.monotonic() < deadline:
        try:
            (description,) = admin.describe_topics([topic])
            leader_now = description["partitions"][0].get("leader_id", description["partitions"][0].get("leader"))
        except (
            kafka.errors.KafkaError,
            IndexError,
        ):  # the client asked the stopped broker, or one that does not know the topic yet
            leader_now = None
        time.sleep(0.5)
    admin.close()
    return bool(leader_now == leader)
