"""Streams groups (KIP-1071) at the broker: internal topics are made, a crash loses nothing, users see members."""

from __future__ import annotations

from typing import Any

import pytest
from tests.interop.coordinator_script import Player
from tests.interop.streams_script import SETTINGS, Streams, owned

from kafkaframes.broker import Broker
from kafkaframes.storage.files.names import TopicPartition


@pytest.fixture
def broker(tmp_path):
    with Broker(data_dir=tmp_path, config=SETTINGS) as made:
        yield made


def asking(broker: Broker) -> Streams:
    return Streams(Player("127.0.0.1", broker.port))


def tasks_of(answer: Any) -> dict[str, list[int]]:
    return {row.subtopology_id: row.partitions for row in answer.active_tasks}


def test_internal_topics_are_made_and_a_crash_loses_nothing(broker):
    broker.create_topic("in", 2)
    streams = asking(broker)
    joined = streams.join("join", "g")
    assert [status.status_code for status in joined.status] == [3]
    assert {name: topic.partitions for name, topic in broker.topics.items()} | {"__consumer_offsets": 1} == {
        "__consumer_offsets": 1,
        "g-log": 2,
        "g-rep": 2,
        "in": 2,
    }
    ready = streams.beat("ready", "g", "m", joined.member_epoch)
    assert tasks_of(ready) == {"0": [0, 1], "1": [0, 1]}
    (member,) = broker.groups["g"].members
    read = [TopicPartition(name, index) for name in ("g-rep", "in") for index in range(2)]
    assert list(member.assignment) == read
    streams.player.close()
    broker.kill()
    broker.start()
    streams = asking(broker)
    again = streams.beat("after", "g", "m", ready.member_epoch, **owned({"0": [0, 1], "1": [0, 1]}))
    assert (again.error_code, again.member_epoch, again.active_tasks) == (0, ready.member_epoch, None)
    streams.player.close()
