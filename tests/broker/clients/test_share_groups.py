"""Share groups of KIP-932 with librdkafka's own client: members of one group share the records of one partition."""

from __future__ import annotations

import time
from typing import Any

import confluent_kafka as confluent
import pytest

from kafkaframes.broker import Broker

SECONDS = 60.0
pytestmark = pytest.mark.skipif(
    not hasattr(confluent, "ShareConsumer"), reason="this version of confluent-kafka does not have a share consumer"
)


@pytest.fixture(params=[1, 3], ids=["one node", "three nodes"])
def broker(request):
    settings = {"group.share.heartbeat.interval.ms": "100"}
    with Broker(cluster=request.param, config=settings) as running:

        def begin(state: Any) -> None:
            state.metadata.entities["group_configs"] = {"g": {"share.auto.offset.reset": "earliest"}}

        running.call(begin)
        running.create_topic("orders", 3)
        yield running


def produce(broker: Broker, first: int, last: int) -> None:
    producer = confluent.Producer({"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0})
    for number in range(first, last):
        producer.produce("orders", str(number).encode())
    assert producer.flush(SECONDS) == 0


def member(broker: Broker) -> Any:
    consumer = confluent.ShareConsumer(
        {"bootstrap.servers": f"{broker.host}:{broker.port}", "group.id": "g", "log_level": 0}
    )
    consumer.subscribe(["orders"])
    return consumer


def read(values: list[int], count: int, *members: Any) -> None:
    """Poll until ``count`` records were received."""
    start = time.monotonic()
    while len(values) < count:
        assert time.monotonic() - start < SECONDS
        for member in members:
            values += [int(record.value()) for record in member.poll(0.05) or () if record.error() is None]


def test_each_record_is_delivered_to_one_of_two_members(broker):
    produce(broker, 0, 50)
    members = [member(broker), member(broker)]
    values: list[int] = []
    read(values, 50, *members)
    produce(broker, 50, 100)
    read(values, 100, *members)
    assert sorted(values) == list(range(100))

    def is_accepted() -> bool:
        for member in members:
            member.poll(0.05)  # the next poll accepts the records of the previous one
        return sum(share_start_offsets(broker)) == 100

    broker.wait_for(is_accepted)
    for one in members:
        one.close()
    broker.wait_for(lambda: broker.call(lambda state: state.groups.groups["g"].state_name == "Empty"))


def share_start_offsets(broker: Broker) -> list[int]:
    """Return the share-partition start offset of each partition: its first record that is not acknowledged."""
    return broker.call(lambda state: [partition.start for partition in state.share_groups.partitions.values()])
