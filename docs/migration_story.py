"""KIP-31's migration played through against the embedded broker: what each step compresses anew.

python docs/migration_story.py
"""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.protocol.framing import ClientConnection

RECORDS = [{"key": b"key-%d" % number, "value": b"value-%d" % number * 5} for number in range(100)]
PRODUCE_VERSION = {0: 1, 1: 2, 2: 9}
FETCH_VERSION = {0: 1, 1: 3, 2: 11}


class Step(NamedTuple):
    """One step: the topic's format, who sends and who reads, and what it cost the broker."""

    topic_format: str
    producer: int
    consumer: int
    recompressed_bytes: int
    down_converted_records: int


def ask(broker: Broker, request: Any, version: int) -> Any:
    """Send one request over a connection of its own."""
    connection = ClientConnection(client_id="story")
    connection.send_request(request, version)
    with socket.create_connection((broker.host, broker.port), 10) as peer:
        peer.sendall(connection.data_to_send())
        while (frame := connection.next_response()) is None:
            connection.receive_data(peer.recv(1 << 16))
    return frame.body


def produce(broker: Broker, record_format: int) -> int:
    """Send a compressed set as a client of a format does; return its first offset."""
    types = kafkaframes.message_class("ProduceRequest")
    records = kafkaframes.build_records(RECORDS, record_format=record_format, codec="gzip")
    row = types.PartitionProduceData(index=0, records=records)
    topic = types.TopicProduceData(name="story", partition_data=[row])
    answer = ask(broker, types(acks=-1, timeout_ms=1000, topic_data=[topic]), PRODUCE_VERSION[record_format])
    (partition,) = answer.responses[0].partition_responses
    assert partition.error_code == 0
    return partition.base_offset


def consume(broker: Broker, record_format: int, offset: int) -> list[bytes]:
    """Read from an offset on as a client of a format does; return the values."""
    types, version = kafkaframes.message_class("FetchRequest"), FETCH_VERSION[record_format]
    row = types.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    fields: dict[str, Any] = {"max_bytes": 1 << 20} if version >= 3 else {}
    if version >= 7:
        fields["session_epoch"] = -1
    topic = types.FetchTopic(topic="story", partitions=[row])
    records = ask(broker, types(topics=[topic], **fields), version).responses[0].partitions[0].records
    table = kafkaframes.read_records(records, columns=["offset", "value", "magic"])
    rows = [one for batch in table for one in batch.to_pylist() if one["offset"] >= offset]
    assert {one["magic"] for one in rows} <= set(range(record_format + 1))
    return [one["value"] for one in rows]


STEPS = (
    ("0.9.0", 0, 0),  # before: V0 everywhere
    ("0.9.0", 1, 0),  # new producers before the switch
    ("0.10.0", 1, 0),  # the switch, old consumers
    ("0.10.0", 0, 1),  # a producer that was left behind
    ("0.10.0", 1, 1),  # V1 everywhere
    ("3.0-IV1", 1, 1),  # the switch to format 2
    ("3.0-IV1", 2, 1),
    ("3.0-IV1", 2, 2),  # V2 everywhere
)


def play() -> list[Step]:
    """Play every step on one topic; return what each cost."""
    found = []
    with Broker() as broker:
        broker.create_topic("story")
        for topic_format, producer, consumer in STEPS:
            broker.configure_topic("story", message_format_version=topic_format)
            before = broker.counters()
            first = produce(broker, producer)
            assert consume(broker, consumer, first) == [record["value"] for record in RECORDS]
            after = broker.counters()
            counts = (after[name] - before[name] for name in ("recompressed_bytes", "down_converted_records"))
            found.append(Step(topic_format, producer, consumer, *counts))
    return found


def main() -> None:
    """Print the steps."""
    for step in play():
        print(*step, sep="\t")


if __name__ == "__main__":
    main()
