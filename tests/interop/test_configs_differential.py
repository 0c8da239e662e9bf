"""Settings of topics, brokers and groups are accepted, rejected and described as by Kafka 4.3.1, value by value."""

from __future__ import annotations

import time

import pytest
from tests.interop.broker_script import FrameClient
from tests.interop.config_script import collect_answers, differences

from kafkaframes.broker import Broker
from kafkaframes.broker.settings.config_values import CONFIG_TYPES
from kafkaframes.protocol.messages import message

MIN_CASES = 1_500


def create_topic(client: FrameClient) -> dict:
    types = message("CreateTopicsRequest")
    topic = types.CreatableTopic(name="orders", num_partitions=1, replication_factor=1)
    assert client.ask("CreateTopics", 7, types(topics=[topic], timeout_ms=30_000)).topics[0].error_code == 0
    time.sleep(1)  # brokers of a cluster see the topic with a delay
    try:
        return collect_answers(client, CONFIG_TYPES.__getitem__)
    finally:
        client.close()


@pytest.mark.parametrize("kafka", ["4.3.1"], indirect=True)
def test_settings_equal_kafkas(kafka, tmp_path):
    with Broker() as broker:
        ours = create_topic(FrameClient(broker.port))
    with kafka(tmp_path, {}) as node:
        theirs = create_topic(FrameClient(int(node.bootstrap.rpartition(":")[2])))
    assert len(ours) > MIN_CASES
    unnamed_differences = differences(ours, theirs)
    assert not unnamed_differences, f"{len(unnamed_differences)} of {len(ours)} cases:\n" + "\n".join(
        unnamed_differences[:60]
    )
