"""A broker with custom message specs (KIP-636's rewrite). Clients with the same specs use them."""

from __future__ import annotations

import pytest
from tests.broker.polling import poll_with_kafka_python
from tests.capture.own_specs import write_specs

from kafkaframes.broker import Broker
from kafkaframes.broker.dispatch.table import serve_specs
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import BrokerError, OptionError
from kafkaframes.protocol.messages import class_of
from kafkaframes.protocol.messages.registry import add_catalog_specs
from kafkaframes.protocol.spec import catalog
from kafkaframes.protocol.spec.emit import to_text
from kafkaframes.protocol.spec.kip_636 import rewrite_errors

kafka_python = pytest.importorskip("kafka")

# OffsetFetch is missing here: our client requests topics by name, which is possible only up to version 9.
REWRITTEN_APIS = (
    "Metadata",
    "Produce",
    "Fetch",
    "FindCoordinator",
    "JoinGroup",
    "SyncGroup",
    "OffsetCommit",
    "CreateTopics",
)


@pytest.fixture(scope="module")
def specs(tmp_path_factory):
    """Return a folder with KIP-636's rewrite of some APIs; the other APIs are in the catalog."""
    folder = tmp_path_factory.mktemp("kip-636")
    names = [catalog.find_api(name) for name in (*REWRITTEN_APIS, "OffsetDelete")]
    before = {half: catalog.load_spec(half) for api in names for half in (api.request, api.response)}
    for name, spec in rewrite_errors(before).specs.items():
        (folder / f"{name}.json").write_text(to_text(spec))
    return folder


@pytest.fixture
def broker(specs):
    with Broker(specs=specs) as running:
        yield running


def latest_version(name: str) -> int:
    api = catalog.find_api(name)
    return api.versions.highest - api.is_latest_unstable


def used_versions(broker: Broker, client_id: str) -> dict[str, int]:
    return {entry.api: entry.version for entry in broker.journal if entry.client_id == client_id}


def use_all_apis(servers: str, **settings) -> list[bytes]:
    """Create a topic, produce to it, consume it in a group, and commit."""
    settings |= {"client_id": "ours"}
    with Admin(servers, **settings) as admin:
        admin.create_topics([NewTopic(name="t", num_partitions=1)])
    with Producer(servers, **settings) as producer:
        for n in range(5):
            producer.send("t", b"%d" % n)
    with Consumer(servers, group_id="g", auto_offset_reset="earliest", **settings) as consumer:
        consumer.subscribe(["t"])
        values: list[bytes] = []
        while len(values) < 5:
            values += [record.value for record in consumer.poll(5_000)]
        consumer.commit()
    return values


def test_a_client_with_the_same_specs_uses_the_new_versions(broker, specs):
    assert use_all_apis(broker.bootstrap_servers, specs=specs) == [b"0", b"1", b"2", b"3", b"4"]
    versions = used_versions(broker, "ours")
    assert {name: versions[name] for name in REWRITTEN_APIS} == {
        name: latest_version(name) + 1 for name in REWRITTEN_APIS
    }
    assert versions["LeaveGroup"] == latest_version("LeaveGroup")  # not rewritten, so the catalog's version applies


def test_other_clients_use_the_versions_that_they_know(broker, specs):
    use_all_apis(broker.bootstrap_servers, specs=specs)
    settings = {"auto_offset_reset": "earliest", "client_id": "theirs"}
    servers = broker.bootstrap_servers
    consumer, records = poll_with_kafka_python(
        lambda: kafka_python.KafkaConsumer("t", bootstrap_servers=servers, **settings), 5
    )
    consumer.close()
    assert [record.value for record in records] == [b"0", b"1", b"2", b"3", b"4"]
    versions = used_versions(broker, "theirs")
    assert all(version <= latest_version(name) for name, version in versions.items())
    assert {"Metadata", "Fetch"} <= set(versions)


def test_librdkafka_uses_its_own_versions_with_custom_specs(broker):
    from confluent_kafka.admin import AdminClient

    broker.create_topic("t")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers, "client.id": "librdkafka"})
    assert "t" in admin.list_topics(timeout=60).topics
    assert used_versions(broker, "librdkafka")["Metadata"] <= latest_version("Metadata")


def test_a_client_with_custom_specs_uses_the_old_versions_with_a_plain_broker(specs):
    with Broker() as plain:
        assert len(use_all_apis(plain.bootstrap_servers, specs=specs)) == 5
        assert used_versions(plain, "ours")["Produce"] == latest_version("Produce")


def test_errors_are_sent_as_tagged_fields(broker, specs):
    with Admin(broker.bootstrap_servers, specs=specs, retries=0) as admin:
        admin.create_topics([NewTopic(name="again", num_partitions=1)])
        with pytest.raises(BrokerError, match="TOPIC_ALREADY_EXISTS"):
            admin.create_topics([NewTopic(name="again", num_partitions=1)])


def test_a_version_made_flexible_has_a_flexible_header(broker, specs):
    use_all_apis(broker.bootstrap_servers, specs=specs)
    with Admin(broker.bootstrap_servers, specs=specs, client_id="deleting") as admin:
        admin.delete_group_offsets("g", [TopicPartition("t", 0)])
    assert used_versions(broker, "deleting")["OffsetDelete"] == latest_version("OffsetDelete") + 1


def test_a_release_and_custom_specs_are_mutually_exclusive(specs):
    with pytest.raises(OptionError, match="broker_release"):
        Broker(broker_release="2.4", specs=specs)


def test_specs_with_only_a_new_version_keep_the_old_ones(tmp_path):
    folder = write_specs(tmp_path / "specs")  # adds Heartbeat 5 to the catalog's versions 0 to 4
    assert serve_specs(folder).advertised[12] == (0, 5)
    own_catalog = add_catalog_specs(folder)
    heartbeat = catalog.load_spec("HeartbeatRequest")
    for version in heartbeat.valid_versions:
        ours, theirs = class_of(own_catalog["HeartbeatRequest"]), class_of(heartbeat)
        body = ours(group_id="g").encode(version)
        assert body == theirs(group_id="g").encode(version)
        assert ours.decode(body, version).to_json(version) == theirs.decode(body, version).to_json(version)
    assert class_of(own_catalog["HeartbeatRequest"])(group_id="g").encode(5) != body
