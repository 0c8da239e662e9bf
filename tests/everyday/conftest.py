"""One broker for the tests of a module, and a topic for each test."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin

GROUPS_WITHOUT_DELAY = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.min.heartbeat.interval.ms": 20,
    "group.consumer.heartbeat.interval.ms": 50,
    "delegation.token.secret.key": "secret",
}


@pytest.fixture(scope="module")
def broker():
    with Broker(config=GROUPS_WITHOUT_DELAY) as broker:
        yield broker


@pytest.fixture(scope="module")
def servers(broker):
    return broker.bootstrap_servers


@pytest.fixture(scope="module")
def admin(servers):
    with Admin(servers) as admin:
        yield admin


@pytest.fixture
def topic(broker, request):
    """Name of a topic with three partitions."""
    name = request.node.name.translate(str.maketrans("[]", "--"))[:200]
    broker.create_topic(name, 3)
    return name
