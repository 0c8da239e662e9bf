"""Jobs over TLS with properties under the names of other clients: each internal client uses the certificate."""

import pytest
from tests.broker import test_security
from tests.jobs.mirror.worlds import rows_of, run_mirror

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.tls import create_server_context
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition
from kafkaframes.errors import AuthenticationError
from kafkaframes.jobs.export.live_planning import make_topic_planner
from kafkaframes.scan.topic.open_transactions import find_open_transactions
from kafkaframes.scan.topic.options import TopicOptions

certificates = test_security.certificates


@pytest.fixture(scope="module")
def encrypted_broker(certificates):
    """A broker with TLS, and the properties of a client under librdkafka's names."""
    pem = str(certificates / "cert.pem")
    security = Security(tls=create_server_context(pem, str(certificates / "key.pem")))
    with Broker(security=security) as broker:
        properties = {"security.protocol": "SSL", "ssl.ca.location": pem, "fetch.max.bytes": "1000000"}
        client = {"metadata.broker.list": broker.bootstrap_servers, "security.protocol": "SSL", "ssl.ca.location": pem}
        with Admin(client) as admin, Producer({**client, "queue.buffering.max.ms": 1}) as producer:
            admin.create_topics([NewTopic("encrypted", 1)])
            producer.send("encrypted", b"1").result()
        yield broker, properties


def test_a_mirror_uses_the_certificate_of_each_end(encrypted_broker, tmp_path):
    broker, properties = encrypted_broker
    with Broker() as target:
        report = run_mirror(broker.bootstrap_servers, target.bootstrap_servers, source_properties=properties)
        assert report.created == ["encrypted"]
        assert len(rows_of(target.bootstrap_servers, "encrypted")[0]) == 1
    with Broker() as source:
        source.create_topic("plain")
        source.append("plain", [{"value": b"1"}])
        report = run_mirror(source.bootstrap_servers, broker.bootstrap_servers, target_properties=properties)
        assert report.created == ["plain"]
    assert len(broker.records("plain")) == 1


def test_plans_of_a_table_use_the_certificate(encrypted_broker):
    broker, properties = encrypted_broker
    client = {"bootstrap.servers": broker.bootstrap_servers, **properties, "isolation.level": "read_committed"}
    assert len(make_topic_planner(TopicOptions(client, subscribe=frozenset({"encrypted"})))(None).tasks) == 1
    (hidden_transaction,) = find_open_transactions(
        {TopicPartition("encrypted", 0): 0}, client
    )  # uses an admin client as well
    assert hidden_transaction.topic == "encrypted"


def test_without_the_certificate_no_client_connects(encrypted_broker):
    broker, _ = encrypted_broker
    options = {"security_protocol": "SSL", "default_api_timeout_ms": 300}
    with Admin(broker.bootstrap_servers, **options) as admin, pytest.raises(AuthenticationError, match="certificate"):
        admin.list_topics()
