"""Committed offsets are returned only when no open transaction can still change them (KIP-447)."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Consumer, Producer, TopicPartition
from kafkaframes.errors import BrokerError

T_0 = TopicPartition("t", 0)


@pytest.fixture
def servers():
    with Broker() as broker:
        broker.create_topic("t")
        yield broker.bootstrap_servers


@pytest.mark.parametrize("commits", [True, False])
def test_committed_waits_for_the_end_of_a_transaction(servers, commits):
    settings = {"group_id": "g", "enable_auto_commit": False, "default_api_timeout_ms": 200, "retry_backoff_ms": 10}
    with Producer(servers, transactional_id="p") as producer, Consumer(servers, **settings) as consumer:
        consumer.assign([T_0])
        consumer.commit({T_0: 3})
        producer.begin_transaction()
        producer.send_offsets_to_transaction({T_0: 7}, "g")
        with pytest.raises(BrokerError, match="UNSTABLE_OFFSET_COMMIT"):
            consumer.committed([T_0])
        if commits:
            producer.commit_transaction()
        else:
            producer.abort_transaction()
    with Consumer(servers, group_id="g") as consumer:
        assert consumer.committed([T_0])[T_0].offset == (7 if commits else 3)
