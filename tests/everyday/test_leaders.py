"""The effects of killing the node that leads a partition or coordinates a group or a transaction.

Each test kills one node of three and starts it again: the other nodes elect leaders, and clients find the leaders.
"""

import contextlib

import pytest
from tests.everyday.behaviours import peers_with

from kafkaframes.client import Admin, Consumer, Producer, TopicPartition

PATIENCE_S = 120
SETTINGS = {"retry_backoff_ms": 20, "reconnect_backoff_ms": 20, "reconnect_backoff_max_ms": 200}


@pytest.fixture
def partition(replicated_topic):
    """The only partition of the topic, with a replica on each of the three nodes."""
    return TopicPartition(replicated_topic, 0)


@contextlib.contextmanager
def node_killed(nodes, number):
    """Kill a node; start it again at the end of the block."""
    nodes.kill(node=number)
    try:
        yield
    finally:
        nodes.start_node(number)


def read(nodes, consumer, count):
    """Poll until ``count`` records are returned; return them."""
    records = []
    nodes.wait_for(lambda: records.extend(consumer.poll(100)) or len(records) >= count, timeout=PATIENCE_S)
    return records


@peers_with(java="testBrokerFailure", aiokafka="test_producer_leader_change_preserves_order")
def test_a_producer_continues_with_the_new_leader_in_order_and_once(nodes, partition):
    with Producer(nodes.bootstrap_servers, batch_size=200, **SETTINGS) as producer:
        futures = [producer.send(partition.topic, b"%03d" % number) for number in range(100)]
        futures[0].result(PATIENCE_S)
        with node_killed(nodes, nodes.leader_of(partition.topic)):
            futures += [producer.send(partition.topic, b"%03d" % number) for number in range(100, 200)]
            assert [future.result(PATIENCE_S).offset for future in futures] == list(range(200))
    values = [record.value for record in nodes.records(partition.topic)]
    assert values == [b"%03d" % number for number in range(200)]


@peers_with(java="testConsumptionWithBrokerFailures")
def test_a_consumer_continues_with_the_new_leader(nodes, partition):
    nodes.append(partition.topic, [{"value": b"%d" % number} for number in range(10)])
    with Consumer(nodes.bootstrap_servers, auto_offset_reset="earliest", **SETTINGS) as consumer:
        consumer.assign([partition])
        records = read(nodes, consumer, 10)
        with node_killed(nodes, nodes.leader_of(partition.topic)):
            nodes.append(partition.topic, [{"value": b"%d" % number} for number in range(10, 20)])
            records += read(nodes, consumer, 10)
    assert [record.value for record in records] == [b"%d" % number for number in range(20)]


@peers_with(java="testSeekAndCommitWithBrokerFailures")
def test_a_new_leader_does_not_change_the_position(nodes, partition):
    nodes.append(partition.topic, [{"value": b"%d" % number} for number in range(10)])
    with Consumer(nodes.bootstrap_servers, auto_offset_reset="earliest", **SETTINGS) as consumer:
        consumer.assign([partition])
        read(nodes, consumer, 10)
        with node_killed(nodes, nodes.leader_of(partition.topic)):
            consumer.seek(partition, 5)
            assert consumer.position(partition) == 5
            assert [record.offset for record in read(nodes, consumer, 5)] == [5, 6, 7, 8, 9]
            assert consumer.end_offsets([partition]) == {partition: 10}


@peers_with(java="testClose")
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_continues_with_a_new_coordinator(nodes, partition, protocol):
    settings = {"group_id": partition.topic, "group_protocol": protocol, "auto_offset_reset": "earliest"}
    with Consumer(nodes.bootstrap_servers, enable_auto_commit=False, **settings, **SETTINGS) as member:
        member.subscribe([partition.topic])
        nodes.append(partition.topic, [{"value": b"%d" % number} for number in range(10)])
        records = read(nodes, member, 10)
        member.commit()
        with node_killed(nodes, nodes.coordinator_of(partition.topic)):
            nodes.append(partition.topic, [{"value": b"%d" % number} for number in range(10, 20)])
            records += read(nodes, member, 10)
            member.commit()
            assert member.committed([partition])[partition].offset == 20
    assert [record.value for record in records] == [b"%d" % number for number in range(20)]


@peers_with(java="testClose", confluent="test_close_does_not_hang_on_unreachable_broker")
def test_commit_reaches_the_new_coordinator(nodes, partition):
    with Consumer(nodes.bootstrap_servers, group_id=partition.topic, **SETTINGS) as consumer:
        consumer.assign([partition])
        consumer.commit({partition: 3})
        with node_killed(nodes, nodes.coordinator_of(partition.topic)):
            assert consumer.committed([partition])[partition].offset == 3
            consumer.commit({partition: 4})
            assert consumer.committed([partition])[partition].offset == 4


@peers_with(java="testWithGroupId")
def test_a_transaction_is_committed_by_a_new_coordinator(nodes, partition):
    transactional_id = partition.topic
    with Producer(nodes.bootstrap_servers, transactional_id=transactional_id, **SETTINGS) as producer:
        producer.begin_transaction()
        producer.send(partition.topic, b"1").result(PATIENCE_S)
        with node_killed(nodes, nodes.coordinator_of(transactional_id, kind="transaction")):
            producer.send(partition.topic, b"2").result(PATIENCE_S)
            producer.commit_transaction()
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(nodes.bootstrap_servers, **settings, **SETTINGS) as consumer:
        consumer.assign([partition])
        assert [record.value for record in read(nodes, consumer, 2)] == [b"1", b"2"]


@peers_with(java="testWithGroupMetadata")
def test_a_transaction_survives_a_new_leader_of_its_partition(nodes, partition):
    with Producer(nodes.bootstrap_servers, transactional_id=partition.topic, **SETTINGS) as producer:
        producer.begin_transaction()
        producer.send(partition.topic, b"aborted").result(PATIENCE_S)
        with node_killed(nodes, nodes.leader_of(partition.topic)):
            producer.abort_transaction()
            producer.begin_transaction()
            producer.send(partition.topic, b"committed")
            producer.commit_transaction()
    settings = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    with Consumer(nodes.bootstrap_servers, **settings, **SETTINGS) as consumer:
        consumer.assign([partition])
        assert [record.value for record in read(nodes, consumer, 1)] == [b"committed"]


@peers_with(java="testCreateTopicsHandleNotControllerException", kafka_python="test_not_controller_retries")
def test_topics_are_created_while_a_node_is_down(nodes, replicated_topic):
    with Admin(nodes.bootstrap_servers, **SETTINGS) as admin, node_killed(nodes, admin.describe_cluster().controller):
        admin.create_topics([f"{replicated_topic}-new"])
        nodes.wait_for(lambda: f"{replicated_topic}-new" in admin.list_topics(), timeout=PATIENCE_S)


@peers_with(java="testNotEnoughReplicasAfterBrokerShutdown")
def test_a_record_waits_until_enough_replicas_are_back(nodes, replicated_topic):
    nodes.configure_topic(replicated_topic, **{"min.insync.replicas": 3})
    with Producer(nodes.bootstrap_servers, **SETTINGS) as producer:
        producer.send(replicated_topic, b"1").result(PATIENCE_S)
        with node_killed(nodes, 1 + nodes.leader_of(replicated_topic) % 3):
            future = producer.send(replicated_topic, b"2")
        assert future.result(PATIENCE_S).offset == 1
    assert [record.value for record in nodes.records(replicated_topic)] == [b"1", b"2"]


@peers_with(java="testElectPreferredLeaders")
def test_the_preferred_leader_is_elected_again(nodes, partition):
    with Admin(nodes.bootstrap_servers, **SETTINGS) as admin:
        preferred_leader = admin.describe_topics([partition.topic])[partition.topic].partitions[0].replicas[0]
        with node_killed(nodes, preferred_leader):
            nodes.wait_for(lambda: nodes.leader_of(partition.topic) != preferred_leader, timeout=PATIENCE_S)
        admin.elect_leaders([partition])
        nodes.wait_for(lambda: nodes.leader_of(partition.topic) == preferred_leader, timeout=PATIENCE_S)
