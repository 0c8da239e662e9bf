"""Replicas on virtual nodes: in-sync replicas, leaders when nodes stop and return, and the stored metadata."""

from __future__ import annotations

import threading
from functools import partial
from itertools import cycle

import pytest
from tests.broker.test_handle import ask, produce

from kafkaframes.broker import Broker
from kafkaframes.client import Producer
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message

PREFERRED, UNCLEAN = 0, 1


def create(broker, name, *, version=7, **settings):
    types = message("CreateTopicsRequest")
    configs = [types.CreatableTopicConfig(name=key, value=value) for key, value in settings.pop("configs", {}).items()]
    rows = [types.CreatableReplicaAssignment(**partition_state) for partition_state in settings.pop("assignments", [])]
    topic = types.CreatableTopic(name=name, configs=configs, assignments=rows, **settings)
    return ask(first_port(broker), "CreateTopics", version, topics=[topic], timeout_ms=10_000).topics[0]


def first_port(broker):
    """Return the port of a running node."""
    return broker.call(lambda state: next(iter(state.nodes.by_id[state.nodes.ids[0]].endpoints.values())).port)


def partition_state(broker, topic="orders", index=0):
    """Return leader, leader epoch, replicas, ISR and offline replicas; both requests return the same."""
    port, types = first_port(broker), message("DescribeTopicPartitionsRequest")
    (topic_row,) = ask(port, "DescribeTopicPartitions", 0, topics=[types.TopicRequest(name=topic)]).topics
    (other_topic_row,) = (one for one in ask(port, "Metadata", 9, topics=None).topics if one.name == topic)
    rows = [
        (one.leader_id, one.leader_epoch, one.replica_nodes, one.isr_nodes, one.offline_replicas)
        for one in (topic_row.partitions[index], other_topic_row.partitions[index])
    ]
    assert rows[0] == rows[1]
    return rows[0]


def elect(broker, kind, topic="orders", index=0):
    types = message("ElectLeadersRequest")
    topic_row = [types.TopicPartitions(topic=topic, partitions=[index])]
    answer = ask(first_port(broker), "ElectLeaders", 2, election_type=kind, topic_partitions=topic_row)
    return answer.replica_election_results[0].partition_result[0].error_code


def on(*nodes):
    return {"assignments": [{"partition_index": 0, "broker_ids": list(nodes)}], "num_partitions": -1} | {
        "replication_factor": -1
    }


def test_leaders_move_between_three_replicas_and_return_to_the_preferred_one():
    with Broker(cluster=3) as broker:
        answer = create(broker, "orders", num_partitions=3, replication_factor=3)
        assert (answer.error_code, answer.num_partitions, answer.replication_factor) == (0, 3, 3)
        before = [partition_state(broker, index=index) for index in range(3)]
        assert {one[0] for one in before} == {1, 2, 3}
        for leader, epoch, replicas, in_sync, offline in before:
            assert (epoch, replicas[0], sorted(replicas), in_sync, offline) == (0, leader, [1, 2, 3], replicas, [])
        broker.kill(node=2)
        for index, (leader, _, replicas, _, _) in enumerate(before):
            remaining_replicas = [number for number in replicas if number != 2]
            has_moved = leader == 2
            assert partition_state(broker, index=index) == (
                remaining_replicas[0],
                int(has_moved),
                replicas,
                remaining_replicas,
                [2],
            )
        led_by_2 = next(index for index, one in enumerate(before) if one[0] == 2)
        assert elect(broker, PREFERRED, index=led_by_2) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
        broker.start_node(2)
        assert partition_state(broker, index=led_by_2)[3:] == (before[led_by_2][2], [])
        assert partition_state(broker, index=led_by_2)[0] != 2
        assert elect(broker, PREFERRED, index=led_by_2) == ErrorCode.NONE
        assert partition_state(broker, index=led_by_2)[:2] == (2, 2)
        assert elect(broker, PREFERRED, index=led_by_2) == ErrorCode.ELECTION_NOT_NEEDED


@pytest.mark.parametrize("is_automatic", [True, False])
def test_preferred_leaders_are_elected_automatically_only_if_enabled(is_automatic):
    with Broker(cluster=3, config={"auto.leader.rebalance.enable": str(is_automatic).lower()}) as broker:
        create(broker, "orders", **on(2, 3, 1))
        create(broker, "alone", **on(1))
        broker.kill(node=2)
        broker.clock.advance(301)  # no node is running
        assert partition_state(broker)[:2] == (3, 1)
        broker.start_node(2)
        broker.clock.advance(200)
        assert partition_state(broker)[:2] == (3, 1)
        broker.clock.advance(200)
        assert partition_state(broker)[:2] == ((2, 2) if is_automatic else (3, 1))
        assert partition_state(broker, "alone")[:2] == (1, 0)


def test_a_partition_with_one_replica_has_no_leader_while_its_node_is_down():
    with Broker(cluster=2) as broker:
        assert create(broker, "orders", **on(2)).error_code == 0
        broker.kill(node=2)
        assert partition_state(broker) == (-1, 0, [2], [2], [2])
        assert elect(broker, UNCLEAN) == ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
        broker.start_node(2)
        assert partition_state(broker) == (2, 0, [2], [2], [])


def test_topics_with_the_default_replication_factor_stay_available_without_any_one_node():
    with Broker(cluster=3) as broker:
        broker.create_topic("orders", 2)
        assert len(partition_state(broker)[2]) == 3
        assert create(broker, "other", num_partitions=1, replication_factor=-1).replication_factor == 3
    with Broker(cluster=3, kafka_defaults=True) as broker:
        broker.create_topic("orders")
        assert len(partition_state(broker)[2]) == 1


@pytest.mark.parametrize("is_unclean", [False, True])
def test_a_replica_outside_the_isr_leads_only_with_unclean_leader_election(is_unclean):
    with Broker(cluster=3) as broker:
        configs = {"unclean.leader.election.enable": str(is_unclean).lower()}
        assert create(broker, "orders", configs=configs, **on(2, 3)).error_code == 0
        broker.kill(node=2)
        assert partition_state(broker) == (3, 1, [2, 3], [3], [2])
        broker.kill(node=3)
        assert partition_state(broker) == (-1, 1, [2, 3], [3], [2, 3])
        broker.start_node(2)
        if is_unclean:
            assert partition_state(broker) == (2, 2, [2, 3], [2], [3])
        else:
            assert partition_state(broker) == (-1, 1, [2, 3], [3], [3])
            assert elect(broker, PREFERRED) == ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
            assert elect(broker, UNCLEAN) == ErrorCode.NONE
            assert partition_state(broker) == (2, 2, [2, 3], [2], [3])
        broker.start_node(3)
        assert partition_state(broker) == (2, 2, [2, 3], [2, 3], [])


def test_the_last_leader_leads_again_when_it_returns_alone():
    with Broker(cluster=3) as broker:
        create(broker, "orders", **on(2, 3))
        broker.kill(node=2)
        broker.kill(node=3)
        broker.start_node(3)
        assert partition_state(broker) == (3, 1, [2, 3], [3], [2])
        broker.start_node(2)
        assert partition_state(broker) == (3, 1, [2, 3], [2, 3], [])


@pytest.mark.parametrize("journal", [False, True])
def test_acks_all_requires_min_insync_replicas_up_to_the_replication_factor(journal):
    with Broker(cluster=3, config={"min.insync.replicas": 2}, journal=journal) as broker:
        create(broker, "orders", **on(1, 2, 3))
        create(broker, "alone", **on(1))
        assert produce(broker.port, b"three in sync").error_code == 0
        broker.kill(node=3)
        assert produce(broker.port, b"two").error_code == 0
        broker.kill(node=2)
        assert produce(broker.port, b"one").error_code == ErrorCode.NOT_ENOUGH_REPLICAS
        assert produce(broker.port, b"all that there are", topic="alone").error_code == 0
        broker.start_node(2)
        assert produce(broker.port, b"two again").error_code == 0


def test_replica_assignments_survive_a_restart(tmp_path):
    types = message("AlterPartitionReassignmentsRequest")
    with Broker(cluster=3, data_dir=tmp_path) as broker:
        create(broker, "orders", **on(3, 1))
        create(broker, "moved", **on(3))
        topic_row = types.ReassignableTopic(
            name="moved", partitions=[types.ReassignablePartition(partition_index=0, replicas=[2, 1])]
        )
        answer = ask(broker.port, "AlterPartitionReassignments", 0, topics=[topic_row], timeout_ms=1000)
        assert answer.responses[0].partitions[0].error_code == 0
        assert partition_state(broker, "moved") == (2, 1, [2, 1], [2, 1], [])
    with Broker(cluster=3, data_dir=tmp_path) as broker:
        assert partition_state(broker)[2:] == ([3, 1], [3, 1], [])
        assert partition_state(broker, "moved")[2:] == ([2, 1], [2, 1], [])
    with Broker(cluster=1, data_dir=tmp_path) as broker:
        assert partition_state(broker)[2:] == ([1], [1], [])


def test_new_partitions_have_as_many_replicas_as_the_first():
    with Broker(cluster=3) as broker:
        create(broker, "orders", **on(3, 1))
        types = message("CreatePartitionsRequest")

        def add(count, *assignments):
            rows = [types.CreatePartitionsAssignment(broker_ids=list(ids)) for ids in assignments]
            topic_row = types.CreatePartitionsTopic(name="orders", count=count, assignments=rows or None)
            answer = ask(broker.port, "CreatePartitions", 3, topics=[topic_row], timeout_ms=1000, validate_only=False)
            return answer.results[0].error_code

        assert add(2, [2]) == add(2, [2, 2]) == add(2, [2, 9]) == ErrorCode.INVALID_REPLICA_ASSIGNMENT
        assert add(2, [2, 3]) == 0
        assert partition_state(broker, index=1) == (2, 0, [2, 3], [2, 3], [])
        assert add(3) == 0
        assert len(partition_state(broker, index=2)[2]) == 2


def test_each_node_reports_the_log_directories_of_its_replicas():
    with Broker(cluster=2) as broker:
        create(broker, "orders", **on(2))
        ports = broker.call(
            lambda state: [next(iter(node.endpoints.values())).port for node in state.nodes.by_id.values()]
        )
        topics_by_node = [ask(port, "DescribeLogDirs", 1, topics=None).results[0].topics for port in ports]
        assert [[topic.name for topic in topics] for topics in topics_by_node] == [[], ["orders"]]


def test_groups_of_other_nodes_keep_their_coordinator():
    with Broker(cluster=3) as broker:
        port = broker.port  # of node 1

        def coordinator(key):
            return ask(port, "FindCoordinator", 2, key=key, key_type=0).node_id

        before = {f"g{number}": coordinator(f"g{number}") for number in range(30)}
        broker.kill(node=2)
        after = {key: coordinator(key) for key in before}
        assert {key for key, node in before.items() if node != after[key]} == {
            k for k, node in before.items() if node == 2
        }
        broker.start_node(2)
        assert {key: coordinator(key) for key in before} == before


def test_a_producer_loses_no_record_while_nodes_are_killed_in_turn():
    with Broker(cluster=3) as broker:
        create(broker, "orders", num_partitions=6, replication_factor=3)
        sent_values, is_over = [], threading.Event()

        def send():
            with Producer(broker.bootstrap_servers, enable_idempotence=True, linger_ms=1) as producer:
                while not is_over.is_set() or len(sent_values) < 500:
                    number = len(sent_values)
                    producer.send("orders", b"%d" % number, partition=number % 6)
                    sent_values.append(number)
                    is_over.wait(0.001)

        sending = threading.Thread(target=send)
        sending.start()
        for node, _ in zip(cycle([1, 2, 3]), range(6), strict=False):
            broker.kill(node=node)
            target_count = len(sent_values) + 20
            broker.wait_for(partial(lambda target_count: len(sent_values) > target_count, target_count))
            broker.start_node(node)
        is_over.set()
        sending.join(120)
        read_values = [[int(record.value) for record in broker.records("orders", index)] for index in range(6)]
        assert read_values == [[number for number in sent_values if number % 6 == index] for index in range(6)]
