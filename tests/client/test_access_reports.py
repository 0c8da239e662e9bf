"""Situations from public reports about ACLs: a forbidden topic is reported, and read once it is allowed."""

import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import AclBinding, AclFilter, Admin, Consumer, NewTopic, Producer, ShareConsumer
from kafkaframes.errors import AuthorizationError, BrokerError

POLL_MS = 20_000


def login(user):
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_username": user,
        "sasl_password": "pw",
    }


@pytest.fixture
def broker():
    security = Security(users={"admin": "pw", "bob": "pw"}, authorizer=True)
    with Broker(security=security, config={"super.users": "User:admin"}) as broker:
        yield broker


@pytest.fixture
def admin(broker):
    with Admin(broker.bootstrap_servers, **login("admin")) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=1) for name in ("open", "closed")])
        admin.create_acls(
            [AclBinding("topic", "open", "User:bob", "read"), AclBinding("group", "g", "User:bob", "read")]
        )
        yield admin


@pytest.fixture(params=["classic", "consumer"])
def consumer(request, broker, admin):
    settings = {"group_protocol": request.param, "auto_offset_reset": "earliest"}
    with Consumer(broker.bootstrap_servers, group_id="g", **settings, **login("bob")) as consumer:
        yield consumer


def send(broker, **values):
    with Producer(broker.bootstrap_servers, **login("admin")) as producer:
        for topic, value in values.items():
            producer.send(topic, value)


def poll_through_errors(consumer, count):
    """Poll like an application that logs authorization errors and continues. Return the consumed values by topic."""
    values, deadline = {}, time.monotonic() + POLL_MS / 1000
    while sum(map(len, values.values())) < count and time.monotonic() < deadline:
        try:
            for record in consumer.poll(timeout_ms=500):
                values.setdefault(record.topic, []).append(record.value)
        except AuthorizationError:
            continue
    return values


def test_each_poll_reports_a_topic_that_the_user_may_not_read(consumer):
    """confluent-kafka-python #1461 and #704, KAFKA-18813: polls returned nothing, without an error."""
    consumer.subscribe(["closed"])
    for _ in range(3):
        with pytest.raises(AuthorizationError, match="TOPIC_AUTHORIZATION_FAILED"):
            consumer.poll(timeout_ms=POLL_MS)


def test_iterations_and_tables_also_report_a_forbidden_topic(consumer):
    consumer.subscribe(["closed"])
    with pytest.raises(AuthorizationError):
        next(iter(consumer))
    with pytest.raises(AuthorizationError):
        consumer.fetch_arrow(timeout_ms=POLL_MS)


def test_a_topic_is_read_once_access_is_allowed(broker, admin, consumer):
    """librdkafka #3072, redpanda #26281: clients read it only after ``metadata_max_age_ms``, five minutes by
    default.
    """
    send(broker, open=b"o", closed=b"c")
    consumer.subscribe(["open", "closed"])
    with pytest.raises(AuthorizationError, match="TOPIC_AUTHORIZATION_FAILED"):
        consumer.poll(timeout_ms=POLL_MS)
    admin.create_acls([AclBinding("topic", "closed", "User:bob", "read")])
    assert poll_through_errors(consumer, 2) == {"open": [b"o"], "closed": [b"c"]}
    admin.delete_acls([AclFilter(resource_type="topic", resource_name="closed")])
    with pytest.raises(AuthorizationError):
        consumer.poll(timeout_ms=POLL_MS)
    send(broker, open=b"o2", closed=b"c2")
    assert poll_through_errors(consumer, 1) == {"open": [b"o2"]}
    admin.create_acls([AclBinding("topic", "closed", "User:bob", "read")])
    # A classic group revokes the topic in the meantime, and the commit of its offset is rejected, so b"c" may be read
    # again.
    while b"c2" not in (values := poll_through_errors(consumer, 1))["closed"]:
        assert values == {"closed": [b"c"]}


def test_other_topics_of_a_classic_group_are_read_in_the_meantime(broker, admin):
    """librdkafka #3072. With the consumer protocol, the coordinator rejects the whole subscription (KAFKA-18813)."""
    send(broker, open=b"o")
    with Consumer(broker.bootstrap_servers, group_id="g", auto_offset_reset="earliest", **login("bob")) as consumer:
        consumer.subscribe(["open", "closed"])
        assert poll_through_errors(consumer, 1) == {"open": [b"o"]}


@pytest.mark.parametrize("protocol", ["classic", "consumer", "share"])
def test_an_invalid_topic_name_is_reported(protocol):
    """Java's consumers raise InvalidTopicException, as apache/kafka#21239 mentions for share consumers."""
    cls, options = (ShareConsumer, {}) if protocol == "share" else (Consumer, {"group_protocol": protocol})
    with Broker() as broker, cls(broker.bootstrap_servers, group_id="g", **options) as consumer:
        consumer.subscribe(["no topic!"])
        with pytest.raises(BrokerError, match=r"no topic!.*INVALID_TOPIC_EXCEPTION"):
            consumer.poll(timeout_ms=POLL_MS)
