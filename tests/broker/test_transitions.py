"""Kafka 4.3.1's answers during state changes, and with rarely used settings."""

from __future__ import annotations

import socket
import threading

import pytest
from tests.broker.direct import START_MS, DirectBroker
from tests.broker.test_durability import ask

from kafkaframes.broker import Broker
from kafkaframes.broker.dispatch.login_states import ALLOWED_APIS, LoginState
from kafkaframes.broker.lifecycle.maintenance import Maintenance
from kafkaframes.broker.network import server
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.security.options import Credentials
from kafkaframes.broker.state.topics import Node, Nodes
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records


@pytest.fixture
def sasl_broker():
    broker = DirectBroker()
    broker.state.credentials = Credentials({"alice": "secret"})
    broker.session = Session(peer="127.0.0.1:5000", is_authenticated=False)
    return broker


def test_only_a_token_is_allowed_after_a_handshake(sasl_broker):
    assert sasl_broker.send("ApiVersions", 0).error_code == ErrorCode.NONE
    assert sasl_broker.send("SaslHandshake", 1, mechanism="PLAIN").error_code == ErrorCode.NONE
    assert sasl_broker.send("ApiVersions", 0).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert sasl_broker.session.closes_after_response


def test_a_second_handshake_is_rejected_and_closes_the_connection(sasl_broker):
    sasl_broker.send("SaslHandshake", 1, mechanism="PLAIN")
    assert sasl_broker.send("SaslHandshake", 1, mechanism="PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert sasl_broker.session.closes_after_response


def test_all_requests_are_allowed_after_authentication(sasl_broker):
    sasl_broker.send("SaslHandshake", 1, mechanism="PLAIN")
    assert sasl_broker.send("SaslAuthenticate", 1, auth_bytes=b"\0alice\0secret").error_code == ErrorCode.NONE
    assert sasl_broker.send("ApiVersions", 0).error_code == ErrorCode.NONE
    assert sasl_broker.send("Metadata", 9, topics=None).topics == []


def test_every_login_state_has_its_row():
    assert ALLOWED_APIS.keys() == set(LoginState)


def test_a_partition_is_described_until_its_member_has_revoked_it():
    broker = DirectBroker()
    topic = broker.state.create_topic("t", 3)
    joins = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}

    def heartbeat(member, epoch, **fields):
        return broker.send("ConsumerGroupHeartbeat", 1, group_id="g", member_id=member, member_epoch=epoch, **fields)

    def describe():
        group = broker.send("ConsumerGroupDescribe", 1, group_ids=["g"]).groups[0]
        member = next(member for member in group.members if member.member_id == "a")
        return [index for row in member.assignment.topic_partitions for index in row.partitions]

    epoch = heartbeat("a", 0, **joins).member_epoch
    heartbeat("b", 0, **joins)
    partitions = heartbeat("a", epoch).assignment.topic_partitions[0].partitions
    assert (len(partitions), describe()) == (2, [0, 1, 2])
    rows = [message("ConsumerGroupHeartbeatRequest").TopicPartitions(topic_id=topic.topic_id, partitions=partitions)]
    heartbeat("a", epoch, topic_partitions=rows)
    assert describe() == list(partitions)


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({}, ErrorCode.NONE),
        ({"kafka_defaults": True}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"broker_release": "4.3"}, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ({"broker_release": "2.8"}, ErrorCode.LEADER_NOT_AVAILABLE),
    ],
)
def test_metadata_first_answers_an_auto_created_topic_with_an_error(options, code):
    with Broker(**options) as broker:
        body = message("MetadataRequest")(topics=[message("MetadataRequest").MetadataRequestTopic(name="new")])
        first, second = (ask(broker.port, body, 9).topics[0] for _ in range(2))
        assert (first.error_code, len(first.partitions)) == (code, 0 if code else 1)
        assert (second.error_code, len(second.partitions)) == (ErrorCode.NONE, 1)


def test_idle_producers_are_removed_at_the_configured_interval():
    broker = DirectBroker(producer_id_expiration_ms=5_000, producer_id_expiration_check_interval_ms=1_000)
    broker.state.create_topic("t", 1)
    Maintenance(broker.state)
    log = broker.state.topics["t"].partitions[0].log
    records = {"value": [b"v"], "timestamp": [START_MS]}
    data = build_records(records, producer_id=7, producer_epoch=0, base_sequence=0)
    log.append_as_leader(data, leader_epoch=0, now_ms=START_MS)

    def producers():
        topic = message("DescribeProducersRequest").TopicRequest(name="t", partition_indexes=[0])
        return len(broker.send("DescribeProducers", 0, topics=[topic]).topics[0].partitions[0].active_producers)

    broker.clock.advance(4)
    assert producers() == 1
    broker.clock.advance(3)
    assert producers() == 0


def test_a_follower_describes_producers():
    with Broker(cluster=2) as broker:
        broker.create_topic("t", 2)
        body = message("DescribeProducersRequest")
        body = body(topics=[body.TopicRequest(name="t", partition_indexes=[0, 1, 2])])
        rows = ask(broker.port, body, 0).topics[0].partitions
        assert [row.error_code for row in rows] == [0, 0, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def test_a_node_without_a_replica_does_not_describe_producers():
    """DescribeProducersWithBrokerIdTest.testDescribeProducersWithInvalidBrokerId."""
    body = message("DescribeProducersRequest")
    body = body(topics=[body.TopicRequest(name="t", partition_indexes=[0])])
    with Broker(cluster=2, kafka_defaults=True) as broker:
        broker.create_topic("t", 1)
        ports = [int(address.rpartition(":")[2]) for address in broker.bootstrap_servers.split(",")]
        codes = sorted(ask(port, body, 0).topics[0].partitions[0].error_code for port in ports)
        assert codes == [ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER]


def read_finalized_levels(broker):
    answer = broker.send("ApiVersions", 4, client_software_name="x", client_software_version="1")
    return {row.name: row.max_version_level for row in answer.finalized_features}


def update_feature(broker, name, level, upgrade_type=1, version=1, **fields):
    types = message("UpdateFeaturesRequest")
    row = types.FeatureUpdateKey(feature=name, max_version_level=level, upgrade_type=upgrade_type)
    return broker.send("UpdateFeatures", version, feature_updates=[row], **fields)


def test_a_new_cluster_has_the_features_of_the_latest_release():
    broker = DirectBroker()
    assert read_finalized_levels(broker) == {
        "metadata.version": 30,
        "kraft.version": 1,
        "group.version": 1,
        "transaction.version": 2,
        "share.version": 1,
        "streams.version": 1,
        "eligible.leader.replicas.version": 1,
    }


@pytest.mark.parametrize(
    ("name", "level", "upgrade_type", "reason"),
    [  # answers of Apache Kafka 4.3.1
        ("nope", 1, 1, "Invalid update version 1 for feature nope. Local controller 1 does not support this feature."),
        ("nope", 0, 2, "Invalid update version 0 for feature nope. Feature nope not found."),
        (
            "group.version",
            1,
            0,
            "version 1 for feature group.version. The controller does not support the given upgrade",
        ),
        ("group.version", 2, 1, "group.version. Local controller 1 only supports versions 0-1"),
        ("group.version", -1, 1, "A feature version cannot be less than 0."),
        ("group.version", 0, 1, "without setting the upgrade type to either safe or unsafe downgrade."),
        ("group.version", 0, 2, None),
        ("metadata.version", 31, 1, "metadata.version. Local controller 1 only supports versions 7-30"),
        ("metadata.version", 29, 1, "without setting the upgrade type to either safe or unsafe downgrade."),
        ("metadata.version", 29, 2, "downgrade from 30 to 29. Refusing to perform the requested downgrade"),
        ("metadata.version", 29, 3, "Unsafe metadata downgrade is not supported in this version."),
        ("metadata.version", 30, 1, None),
        ("kraft.version", 0, 2, "Can't downgrade the version of this feature."),
    ],
)
def test_feature_levels_are_changed_as_in_kafka(name, level, upgrade_type, reason):
    broker = DirectBroker()
    answer = update_feature(broker, name, level, upgrade_type)
    if reason is None:
        assert (answer.error_code, answer.error_message) == (0, None)
        assert read_finalized_levels(broker).get(name, 0) == level
    else:
        assert answer.error_code == ErrorCode.INVALID_UPDATE_VERSION
        assert answer.error_message.startswith("The update failed for all features since the following feature had")
        assert reason in answer.error_message


def test_a_feature_level_survives_a_restart_and_is_not_changed_by_validate_only(tmp_path):
    broker = DirectBroker(str(tmp_path / "d"))
    assert update_feature(broker, "share.version", 0, 2, validate_only=True).error_code == 0
    assert read_finalized_levels(broker)["share.version"] == 1
    assert update_feature(broker, "share.version", 0, 2).error_code == 0
    broker.kill()
    assert "share.version" not in read_finalized_levels(broker)


@pytest.mark.parametrize(
    ("feature", "api", "version", "fields"),
    [
        ("group.version", "ConsumerGroupHeartbeat", 1, {"group_id": "g", "member_id": "m"}),
        ("group.version", "ConsumerGroupDescribe", 1, {"group_ids": ["g"]}),
        ("share.version", "ShareGroupHeartbeat", 1, {"group_id": "g", "member_id": "m"}),
        ("share.version", "ShareGroupDescribe", 1, {"group_ids": ["g"]}),
        ("share.version", "ShareFetch", 1, {"group_id": "g", "member_id": "m"}),
        ("share.version", "ShareAcknowledge", 1, {"group_id": "g", "member_id": "m"}),
        ("share.version", "AlterShareGroupOffsets", 0, {"group_id": "g"}),
        ("share.version", "DeleteShareGroupOffsets", 0, {"group_id": "g"}),
        ("streams.version", "StreamsGroupHeartbeat", 0, {"group_id": "g", "member_id": "m"}),
        ("streams.version", "StreamsGroupDescribe", 0, {"group_ids": ["g"]}),
    ],
)
def test_requests_of_a_disabled_feature_get_unsupported_version(feature, api, version, fields):
    broker = DirectBroker()
    update_feature(broker, feature, 0, 2)
    answer = broker.send(api, version, **fields)
    rows = answer.groups if api.endswith("Describe") else [answer]
    assert [row.error_code for row in rows] == [ErrorCode.UNSUPPORTED_VERSION]


@pytest.mark.parametrize(
    ("release", "levels"),
    [  # 3.9.1 as a KRaft broker; ZooKeeper-based brokers have no features
        ("2.8.2", {}),
        ("3.9.1", {"metadata.version": 21}),
        ("4.0", {"metadata.version": 25, "kraft.version": 1, "group.version": 1, "transaction.version": 2}),
    ],
)
def test_an_emulated_release_has_its_features(release, levels):
    body = message("ApiVersionsRequest")(client_software_name="x", client_software_version="1")
    with Broker(broker_release=release) as broker:
        answer = ask(broker.port, body, 3)
    assert {row.name: row.max_version_level for row in answer.finalized_features} == levels


@pytest.mark.parametrize("name", ["group.initial.rebalance.delay.ms", "log.message.timestamp.after.max.ms"])
def test_kafkas_defaults_are_described_as_defaults(name):
    types = message("DescribeConfigsRequest")
    resource = types.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
    body = types(resources=[resource], include_synonyms=True)
    with Broker(kafka_defaults=True, config={"num.partitions": 3}) as broker:
        rows = {row.name: row for row in ask(broker.port, body, 4).results[0].configs}
    assert rows[name].value in ("3000", "3600000")
    assert (rows[name].config_source, [synonym.source for synonym in rows[name].synonyms]) == (5, [5])
    assert rows["num.partitions"].config_source == 4


def test_a_topic_accepts_internal_segment_bytes():
    broker = DirectBroker()
    types = message("CreateTopicsRequest")
    config = types.CreatableTopicConfig(name="internal.segment.bytes", value="300")
    topic = types.CreatableTopic(name="t", num_partitions=1, replication_factor=1, configs=[config])
    assert broker.send("CreateTopics", 5, topics=[topic], timeout_ms=1000).topics[0].error_code == ErrorCode.NONE
    assert broker.state.topics["t"].partitions[0].log.settings.segment_bytes == 300
    resource = message("DescribeConfigsRequest").DescribeConfigsResource(
        resource_type=2, resource_name="t", configuration_keys=None
    )
    rows = broker.send("DescribeConfigs", 4, resources=[resource]).results[0].configs
    names = {row.name for row in rows}
    assert "segment.bytes" in names
    assert "internal.segment.bytes" not in names


@pytest.mark.parametrize(
    ("api", "version", "fields"),
    [
        ("ConsumerGroupHeartbeat", 1, {}),
        ("ShareGroupHeartbeat", 1, {}),
        ("StreamsGroupHeartbeat", 0, {}),
    ],
)
def test_disabled_group_protocols_are_rejected(api, version, fields):
    broker = DirectBroker(group_coordinator_rebalance_protocols="classic")
    answer = broker.send(api, version, group_id="g", member_id="m", member_epoch=0, **fields)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_session_with_many_unknown_partitions_is_answered_in_steps_and_encoded_in_a_thread(monkeypatch):
    """Eight sessions with 100,000 partitions blocked other clients for 11 s: a short request can have a long answer."""
    encode, threads = server.encode_answer, []

    def record_encode(answer, version):
        threads.append(threading.get_ident())
        return encode(answer, version)

    monkeypatch.setattr(server, "encode_answer", record_encode)
    types = message("FetchRequest")
    partitions = [types.FetchPartition(partition=index, partition_max_bytes=1) for index in range(5_000)]
    topics = [types.FetchTopic(topic="unknown", partitions=partitions)]
    with Broker(journal=False) as broker, socket.create_connection(("127.0.0.1", broker.port), 60) as peer:
        connection = ClientConnection()

        def fetch(**fields):
            connection.send_request(types(max_wait_ms=500, min_bytes=1, max_bytes=1 << 20, **fields), 11)
            peer.sendall(connection.data_to_send())
            while (frame := connection.next_response()) is None:
                connection.receive_data(peer.recv(1 << 16))
            return frame.body

        first = fetch(session_epoch=0, topics=topics)
        loop_thread = broker.call(lambda _: threading.get_ident())
        threads.clear()
        second = fetch(session_id=first.session_id, session_epoch=1)
        assert len(second.responses[0].partitions) == 5_000
        assert threads
        assert loop_thread not in threads


@pytest.mark.parametrize("racks", [("a", "b", "b", "a", "c", "c"), ("a", "a", "a", "a", "b", "c")])
def test_replicas_of_a_partition_are_in_different_racks(racks):
    """Kafka's TopicCommandTest.testCreateAlterTopicWithRackAware expects the same of StripedReplicaPlacer."""
    nodes = Nodes({number: Node(number, rack=rack) for number, rack in enumerate(racks)})
    assignment = [nodes.choose_replicas("t", index, 3) for index in range(18)]
    assert all(len({racks[number] for number in replicas}) == 3 for replicas in assignment)
    assert {sum(replicas[0] == node for replicas in assignment) for node in range(6)} == {3}


def test_replicas_share_a_rack_if_there_are_more_replicas_than_racks():
    nodes = Nodes({number: Node(number, rack=rack) for number, rack in enumerate("aabb")})
    assert all(sorted(nodes.choose_replicas("t", index, 4)) == [0, 1, 2, 3] for index in range(4))


def test_a_changed_broker_setting_is_a_synonym_of_the_group_setting():
    """DynamicGroupConfigIntegrationTest.testDescribeGroupConfigSynonymsWithBrokerSynonym."""
    broker = DirectBroker()
    types = message("IncrementalAlterConfigsRequest")
    change = types.AlterableConfig(name="group.consumer.assignment.interval.ms", config_operation=0, value="2000")
    resource = types.AlterConfigsResource(resource_type=4, resource_name="1", configs=[change])
    answer = broker.send("IncrementalAlterConfigs", 1, resources=[resource])
    assert answer.responses[0].error_code == ErrorCode.NONE
    described_resource = message("DescribeConfigsRequest").DescribeConfigsResource(
        resource_type=32, resource_name="g", configuration_keys=["consumer.assignment.interval.ms"]
    )
    answer = broker.send("DescribeConfigs", 4, resources=[described_resource], include_synonyms=True)
    (row,) = answer.results[0].configs
    assert (row.value, row.config_source) == ("2000", 2)
    assert [synonym.source for synonym in row.synonyms] == [2, 5]


def test_share_sessions_are_limited():
    """ShareFetchAcknowledgeRequestTest.testShareSessionEvictedOnConnectionDrop."""
    broker = DirectBroker(group_share_max_share_sessions=1)
    fields = {"group_id": "g", "share_session_epoch": 0, "max_wait_ms": 0, "max_bytes": 1000}
    first = [broker.send("ShareFetch", 1, member_id=name, **fields).error_code for name in "ab"]
    assert first == [ErrorCode.NONE, ErrorCode.SHARE_SESSION_LIMIT_REACHED]
    broker.close()
    assert broker.send("ShareFetch", 1, member_id="b", **fields).error_code == ErrorCode.NONE


@pytest.mark.parametrize(
    ("entity", "text"),
    [
        ({"user": "a", "ip": "1.2.3.4"}, "Invalid quota entity combination"),
        ({"ip": "not a valid host because it has spaces"}, "is not a valid IP"),
    ],
)
def test_quotas_of_invalid_entities_are_rejected_with_kafkas_message(entity, text):
    """The cases are those of Apache Kafka 4.3.1's ClientQuotasRequestTest."""
    types = message("AlterClientQuotasRequest")
    parts = [types.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()]
    entry = types.EntryData(entity=parts, ops=[types.OpData(key="connection_creation_rate", value=1.0)])
    row = DirectBroker().send("AlterClientQuotas", 1, entries=[entry]).entries[0]
    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert text in row.error_message
