"""A broker that is stopped leaves what is under way as it is."""

from __future__ import annotations

from tests.soak.broker_bounds import connect, frame

from kafkaframes import Broker
from kafkaframes.protocol.messages import message


def test_a_stop_does_not_wait_for_topics_that_are_being_made(tmp_path):
    types = message("CreateTopicsRequest")
    topics = [
        types.CreatableTopic(name=f"c-{number}", num_partitions=1, replication_factor=1) for number in range(2000)
    ]
    with Broker(data_dir=tmp_path, journal=False) as broker, connect(broker.port) as peer:
        peer.sendall(frame("CreateTopics", 6, topics=topics, timeout_ms=60_000))
        while not broker.call(lambda state: state.logs.logs):
            pass
        broker.stop()
        assert peer.recv(1) == b""
    with Broker(data_dir=tmp_path) as again:
        assert not again.topics
        again.create_topic("after")
