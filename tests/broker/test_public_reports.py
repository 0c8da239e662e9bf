"""Bugs that users of other test brokers reported. Each test names its report and reproduces the situation here."""

from __future__ import annotations

import asyncio
import threading

import pytest
from tests.broker.test_handle import ask

from kafkaframes.broker import Broker
from kafkaframes.broker.network.server import Server
from kafkaframes.client import Consumer, Producer
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records

BROKER, TOPIC = 4, 2


@pytest.fixture(scope="module")
def broker():
    with Broker(cluster=3) as broker:
        broker.create_topic("orders", partitions=3)
        broker.create_topic("a", partitions=2)
        yield broker


def describe(broker, kind, name, keys=None):
    types = message("DescribeConfigsRequest")
    resource = types.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    return {
        row.name: row.value for row in ask(broker.port, "DescribeConfigs", 4, resources=[resource]).results[0].configs
    }


def coordinator_port(broker, group):
    return ask(broker.port, "FindCoordinator", 4, key_type=0, coordinator_keys=[group]).coordinators[0].port


def test_offset_answers_have_every_partition_in_the_order_of_the_request(broker):
    """redpanda-data/redpanda#3403."""
    requested_partitions = [("orders", [2, 0, 1]), ("missing", [4, 3]), ("a", [1, 0])]
    port = coordinator_port(broker, "g")
    types = message("OffsetCommitRequest")
    topics = [
        types.OffsetCommitRequestTopic(
            name=name,
            partitions=[
                types.OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in indexes
            ],
        )
        for name, indexes in requested_partitions
    ]
    answer = ask(port, "OffsetCommit", 8, group_id="g", generation_id_or_member_epoch=-1, topics=topics)
    answered_partitions = [
        (row.name, [partition.partition_index for partition in row.partitions]) for row in answer.topics
    ]
    assert answered_partitions == [
        requested_partitions[1],
        requested_partitions[0],
        requested_partitions[2],
    ]  # unknown topics first, as in Kafka
    types = message("OffsetFetchRequest")
    topics = [
        types.OffsetFetchRequestTopics(name=name, partition_indexes=indexes) for name, indexes in requested_partitions
    ]
    groups = [types.OffsetFetchRequestGroup(group_id="g", topics=topics)]
    (group,) = ask(port, "OffsetFetch", 8, groups=groups).groups
    assert [
        (row.name, [partition.partition_index for partition in row.partitions]) for row in group.topics
    ] == requested_partitions


def test_a_new_topic_is_answered_with_all_its_settings(broker):
    """redpanda-data/redpanda#16578 and #591: CreateTopics listed four settings, DescribeConfigs no cleanup.policy."""
    row = message("CreateTopicsRequest").CreatableTopic(name="settings", num_partitions=-1, replication_factor=-1)
    (topic,) = ask(broker.port, "CreateTopics", 7, topics=[row], timeout_ms=30_000).topics
    described_settings = describe(broker, TOPIC, "settings")
    assert {config.name: config.value for config in topic.configs} == described_settings
    assert described_settings["cleanup.policy"] == "delete"


def test_only_the_requested_settings_are_described(broker):
    """redpanda-data/redpanda#1108."""
    assert describe(broker, TOPIC, "orders", ["cleanup.policy"]) == {"cleanup.policy": "delete"}
    assert describe(broker, TOPIC, "orders", ["unknown"]) == {}


def test_a_topic_with_default_counts_is_created_and_the_defaults_are_described(broker):
    """redpanda-data/redpanda#292, MaterializeInc/materialize#6078."""
    row = message("CreateTopicsRequest").CreatableTopic(name="defaults", num_partitions=-1, replication_factor=-1)
    (topic,) = ask(broker.port, "CreateTopics", 5, topics=[row], timeout_ms=30_000).topics
    settings = describe(broker, BROKER, "1")
    assert (topic.error_code, topic.num_partitions) == (0, int(settings["num.partitions"]))
    assert topic.replication_factor == int(settings["default.replication.factor"])


def test_a_fetch_answer_has_the_log_start_offset(broker):
    """MaterializeInc/materialize#6078: Redpanda omitted the log start offset."""
    types = message("FetchRequest")
    metadata = ask(broker.port, "Metadata", 9, topics=[message("MetadataRequest").MetadataRequestTopic(name="orders")])
    ports = {node.node_id: node.port for node in metadata.brokers}
    for partition in metadata.topics[0].partitions:
        row = types.FetchPartition(partition=partition.partition_index, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [types.FetchTopic(topic="orders", partitions=[row])]
        answer = ask(ports[partition.leader_id], "Fetch", 11, max_wait_ms=0, max_bytes=1 << 20, topics=topics)
        (fetched_partition,) = answer.responses[0].partitions
        assert (fetched_partition.error_code, fetched_partition.log_start_offset) == (ErrorCode.NONE, 0)


def test_the_first_group_of_a_new_broker_receives_records_immediately():
    """nomisRev/kotlin-kafka#191, orlangure/gnomock#1037: the first consumer of a new broker received nothing."""
    with Broker() as broker:
        broker.create_topic("orders")
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("orders", value=b"x").result(60)
        with Consumer(broker.bootstrap_servers, group_id="first", auto_offset_reset="earliest") as consumer:
            consumer.subscribe(["orders"])
            assert next(iter(consumer)).value == b"x"


def test_a_group_coordinator_is_found_by_find_coordinator_version_0(broker):
    """IBM/sarama#917: the mock broker ignored ConsumerMetadata, version 0 of FindCoordinator."""
    answer = ask(broker.port, "FindCoordinator", 0, key="g")
    ports = {node.node_id: node.port for node in ask(broker.port, "Metadata", 9, topics=None).brokers}
    assert (answer.error_code, answer.port) == (0, ports[answer.node_id])


def test_records_of_format_2_are_fetched_as_they_were_produced():
    """IBM/sarama#938: the mock broker answered with formats 0 and 1 only."""
    with Broker() as single:
        single.create_topic("orders")
        records = build_records({"value": [b"x"], "headers": [[("h", b"1")]]})
        types = message("ProduceRequest")
        topics = [
            types.TopicProduceData(name="orders", partition_data=[types.PartitionProduceData(index=0, records=records)])
        ]
        ask(single.port, "Produce", 3, acks=1, timeout_ms=1000, topic_data=topics)
        types = message("FetchRequest")
        row = types.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        topics = [types.FetchTopic(topic="orders", partitions=[row])]
        answer = ask(single.port, "Fetch", 4, max_wait_ms=0, max_bytes=1 << 20, topics=topics)
        fetched_bytes = bytes(answer.responses[0].partitions[0].records)
        assert fetched_bytes[16] == 2
        assert (
            fetched_bytes[21:] == bytes(records)[21:]
        )  # the bytes after the fields that the broker sets: base offset, length, leader epoch, checksum


def test_metadata_lists_every_node_once_one_accepts_connections(monkeypatch):
    """twmb/franz-go#864: a client that connected while the cluster started saw fewer nodes."""
    nodes, threads = [], []
    listen = Server.listen

    def request_metadata(port):
        nodes.extend(f"{node.host}:{node.port}" for node in ask(port, "Metadata", 9, topics=None).brokers)

    async def listen_slowly(server, listener):
        port = await listen(server, listener)
        if not threads:
            threads.append(threading.Thread(target=request_metadata, args=(port,)))
            threads[0].start()
            await asyncio.sleep(0.3)  # a broker that accepts connections too early would answer now
        return port

    monkeypatch.setattr(Server, "listen", listen_slowly)
    with Broker(cluster=3) as broker:
        threads[0].join(60)
        assert ",".join(nodes) == broker.bootstrap_servers


def test_a_topic_auto_created_by_metadata_accepts_records_immediately():
    """quarkusio/quarkus#27617, apache/camel#9013: NOT_LEADER_OR_FOLLOWER after the creation of a topic."""
    with Broker(cluster=3) as broker:
        types = message("MetadataRequest")
        answer = ask(
            broker.port, "Metadata", 9, topics=[types.MetadataRequestTopic(name="new")], allow_auto_topic_creation=True
        )
        (topic,) = answer.topics
        ports = {node.node_id: node.port for node in answer.brokers}
        types = message("ProduceRequest")
        for row in topic.partitions:
            data = types.PartitionProduceData(index=row.partition_index, records=build_records({"value": [b"x"]}))
            rows = [types.TopicProduceData(name="new", partition_data=[data])]
            produce_answer = ask(ports[row.leader_id], "Produce", 9, acks=-1, timeout_ms=1000, topic_data=rows)
            assert produce_answer.responses[0].partition_responses[0].error_code == ErrorCode.NONE
