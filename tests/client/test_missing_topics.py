"""A consumer reports a subscribed or assigned topic that does not exist, for example because of a typo.

Java's consumer logs UNKNOWN_TOPIC_OR_PARTITION, and confluent-kafka-python returns it from poll (#1461).
"""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, ShareConsumer
from kafkaframes.errors import UnknownTopicError


@pytest.fixture
def servers():
    with Broker(config={"auto.create.topics.enable": "false"}) as broker:
        yield broker.bootstrap_servers


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if "does not exist" in record.getMessage()]


@pytest.mark.parametrize(
    ("create", "settings"),
    [(Consumer, {"group_protocol": "classic"}), (Consumer, {"group_protocol": "consumer"}), (ShareConsumer, {})],
    ids=["classic", "consumer", "share"],
)
def test_a_subscribed_topic_that_does_not_exist_is_logged_once(servers, create, settings, caplog):
    message = "client 'kafkaframes': the subscribed topic {} does not exist; it is read once it is created"
    with create(servers, group_id="g", metadata_max_age_ms=200, **settings) as consumer:
        consumer.subscribe(["mising"])
        consumer.poll(timeout_ms=1_000)
        assert warnings_of(caplog) == [message.format("mising")]
        with Admin(servers) as admin:
            admin.create_topics([NewTopic(name="orders", num_partitions=1)])
        consumer.subscribe(["orders", "other"])
        consumer.poll(timeout_ms=1_000)
        assert warnings_of(caplog) == [message.format("mising"), message.format("other")]


def test_an_assigned_topic_that_does_not_exist_is_named(servers):
    """Previously the error was a NetworkError about a position that was not found."""
    with Consumer(servers, default_api_timeout_ms=1_000) as consumer, pytest.raises(UnknownTopicError, match="mising"):
        consumer.assign([("mising", 0)])
