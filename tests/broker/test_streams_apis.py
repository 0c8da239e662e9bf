"""Streams groups (KIP-1071) at the broker: internal topics, recovery after a crash, and request validation."""

from __future__ import annotations

from typing import Any

import pytest
from tests.broker.direct import DirectBroker
from tests.interop.coordinator_script import ScriptPlayer
from tests.interop.streams_script import SETTINGS, StreamsPlayer, owned_tasks

from kafkaframes.broker import Broker
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.names import TopicPartition


@pytest.fixture
def broker(tmp_path):
    with Broker(data_dir=tmp_path, config=SETTINGS) as broker:
        yield broker


def asking(broker: Broker) -> StreamsPlayer:
    return StreamsPlayer(ScriptPlayer("127.0.0.1", broker.port))


def tasks_of(answer: Any) -> dict[str, list[int]]:
    return {row.subtopology_id: row.partitions for row in answer.active_tasks}


def test_internal_topics_are_created_and_a_crash_loses_nothing(broker):
    broker.create_topic("in", 2)
    streams = asking(broker)
    heartbeat = streams.join("join", "g")
    assert [status.status_code for status in heartbeat.status] == [3]
    assert {name: topic.partitions for name, topic in broker.topics.items()} | {"__consumer_offsets": 1} == {
        "__consumer_offsets": 1,
        "g-log": 2,
        "g-rep": 2,
        "in": 2,
    }
    ready = streams.send_heartbeat("ready", "g", "m", heartbeat.member_epoch)
    assert tasks_of(ready) == {"0": [0, 1], "1": [0, 1]}
    (member,) = broker.groups["g"].members
    read = [TopicPartition(name, index) for name in ("g-rep", "in") for index in range(2)]
    assert list(member.assignment) == read
    streams.player.close()
    broker.kill()
    broker.start()
    streams = asking(broker)
    again = streams.send_heartbeat("after", "g", "m", ready.member_epoch, **owned_tasks({"0": [0, 1], "1": [0, 1]}))
    assert (again.error_code, again.member_epoch, again.active_tasks) == (0, ready.member_epoch, None)
    streams.player.close()


@pytest.mark.parametrize(
    ("group_id", "source", "sinks", "index", "error"),
    [  # the order of Kafka 4.3.1: KafkaApis checks names, then the coordinator checks the request, then the topology
        ("", "a b", [], -1, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ("", "in", ["__consumer_offsets"], -1, ErrorCode.STREAMS_INVALID_TOPOLOGY),
        ("", "in", [], -1, ErrorCode.INVALID_REQUEST),
        ("g", "in", [], -1, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_topic_names_are_checked_before_the_request_and_the_topology_last(group_id, source, sinks, index, error):
    types = message("StreamsGroupHeartbeatRequest")
    copartition = types.CopartitionGroup(source_topics=[index], source_topic_regex=[], repartition_source_topics=[])
    subtopology = types.Subtopology(
        subtopology_id="0", source_topics=[source], repartition_sink_topics=sinks, copartition_groups=[copartition]
    )
    answer = DirectBroker().send(
        "StreamsGroupHeartbeat",
        0,
        group_id=group_id,
        member_id="m",
        rebalance_timeout_ms=1000,
        topology=types.Topology(epoch=0, subtopologies=[subtopology]),
        active_tasks=[],
        standby_tasks=[],
        warmup_tasks=[],
    )
    assert answer.error_code == error
