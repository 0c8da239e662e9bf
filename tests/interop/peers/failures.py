"""Performances with a broker that fails, rejects requests or does not answer."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

from tests.interop.peers.behaviours import next_to_peers
from tests.interop.peers.interface import Client, Record, attempt, fails, wait_for

if TYPE_CHECKING:
    from tests.interop.peers.stage import Stage

EARLIEST = {"auto_offset_reset": "earliest"}


@next_to_peers(sees=[0, ["v"]])
def a_retriable_error_is_retried(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    stage.fault("Produce", "error", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=2)
    with client.producer() as producer:
        offset = producer.send(topic, b"v", partition=0).result().offset
    return offset, stage.values(topic)


@next_to_peers(sees=[str(number) for number in range(30)])
def retries_keep_the_order_of_records(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer(batch_size=100, enable_idempotence=True) as producer:
        producer.send(topic, b"0", partition=0).result()
        stage.fault("Produce", "error", "NOT_LEADER_OR_FOLLOWER", topic=topic, times=3)
        for number in range(1, 30):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
    return stage.values(topic)


@next_to_peers(sees=["POLICY_VIOLATION", 1])
def a_fatal_error_is_not_retried(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    fault = stage.fault("Produce", "error", "POLICY_VIOLATION", topic=topic)
    with client.producer() as producer:
        return attempt(client, lambda: producer.send(topic, b"v", partition=0).result()), stage.fault_count(fault)


@next_to_peers(sees="timed out", aio="no such setting")
def a_record_that_is_always_rejected_fails_after_the_delivery_timeout(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    stage.fault("Produce", "error", "NOT_ENOUGH_REPLICAS", topic=topic)
    settings = {"delivery_timeout_ms": 1_500, "linger_ms": 0, "request_timeout_ms": 1_000}
    with client.producer(**settings) as producer:
        return attempt(client, lambda: producer.send(topic, b"v", partition=0).result())


@next_to_peers(sees="timed out", aio="no such setting")
def a_record_without_a_response_may_have_been_written(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    fault = stage.fault("Produce", "drop_reply", topic=topic)
    settings = {"delivery_timeout_ms": 1_500, "linger_ms": 0, "request_timeout_ms": 1_000}
    with client.producer(**settings) as producer:
        kind = attempt(client, lambda: producer.send(topic, b"v", partition=0).result())
        stage.remove_fault(fault)
        return kind


@next_to_peers(sees=[0, 1])
def a_lost_connection_is_opened_again_by_the_producer(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    with client.producer() as producer:
        first = producer.send(topic, b"0", partition=0).result().offset
        stage.fault("Produce", "close", topic=topic, times=1)
        return first, producer.send(topic, b"1", partition=0).result().offset


@next_to_peers(sees=list(range(10)))
def a_lost_connection_is_opened_again_by_the_consumer(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    stage.fault("Fetch", "close", topic=topic, times=2)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        return [record.offset for record in consumer.read(10)]


@next_to_peers(sees=[list(range(10))] * 3)
def a_retriable_error_of_a_fetch_skips_nothing(stage: Stage, client: Client) -> Any:
    answers = []
    for code in ("NOT_LEADER_OR_FOLLOWER", "FENCED_LEADER_EPOCH", "KAFKA_STORAGE_ERROR"):
        topic = stage.topic(records=10)
        stage.fault("Fetch", "error", code, topic=topic, times=2)
        with client.consumer(**EARLIEST) as consumer:
            consumer.assign([(topic, 0)])
            answers.append([record.offset for record in consumer.read(10)])
    return answers


@next_to_peers(sees=["TOPIC_AUTHORIZATION_FAILED", list(range(10))], kafka_python="`poll` returns nothing")
def poll_raises_the_error_of_a_fetch(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    fault = stage.fault("Fetch", "error", "TOPIC_AUTHORIZATION_FAILED", topic=topic)
    with client.consumer(**EARLIEST) as consumer:
        consumer.assign([(topic, 0)])
        kind = attempt(client, lambda: consumer.read(1, patience_s=5))
        stage.remove_fault(fault)
        records: list[Record] = []
        wait_for(lambda: fails(client, lambda: records.extend(consumer.poll(0.1))) or len(records) >= 10)
        wait_for(lambda: not fails(client, lambda: records.extend(consumer.poll(0.1))) and len(records) >= 10)
        return kind, [record.offset for record in records]


@next_to_peers(sees=["GROUP_AUTHORIZATION_FAILED", 2])
def commit_raises_the_error_of_the_coordinator(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(group_id=topic, enable_auto_commit=False) as consumer:
        consumer.assign([(topic, 0)])
        fault = stage.fault("OffsetCommit", "error", "GROUP_AUTHORIZATION_FAILED")
        kind = attempt(client, lambda: consumer.commit({(topic, 0): 1}))
        stage.remove_fault(fault)
        consumer.commit({(topic, 0): 2})
        return kind, (consumer.committed_offset((topic, 0)) or (None,))[0]


@next_to_peers(sees=[3, 3, 3])
def a_commit_is_repeated_while_the_coordinator_moves(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    offsets = []
    for code in ("COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"):
        with client.consumer(group_id=stage.name(), enable_auto_commit=False) as consumer:
            consumer.assign([(topic, 0)])
            stage.fault("OffsetCommit", "error", code, times=2)
            consumer.commit({(topic, 0): 3})
            offsets.append((consumer.committed_offset((topic, 0)) or (None,))[0])
    return offsets


@next_to_peers(sees=None)
def the_committed_offsets_request_is_retried_while_the_coordinator_loads(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(group_id=topic, enable_auto_commit=False) as consumer:
        stage.fault("OffsetFetch", "error", "COORDINATOR_LOAD_IN_PROGRESS", times=2)
        return consumer.committed_offset((topic, 0))


@next_to_peers(sees="GROUP_AUTHORIZATION_FAILED")
def poll_raises_the_error_of_a_rejected_membership(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer(group_id=topic, **EARLIEST) as consumer:
        fault = stage.fault("JoinGroup", "error", "GROUP_AUTHORIZATION_FAILED")
        consumer.subscribe([topic])
        kind = attempt(client, lambda: consumer.read(1, patience_s=5))
        stage.remove_fault(fault)
        return kind


@next_to_peers(sees=[list(range(10))] * 4)
def a_member_joins_again_after_a_transient_error(stage: Stage, client: Client) -> Any:
    answers = []
    for api, code in (
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("JoinGroup", "COORDINATOR_NOT_AVAILABLE"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("SyncGroup", "ILLEGAL_GENERATION"),
    ):
        topic = stage.topic(records=10)
        stage.fault(api, "error", code, times=1)
        with client.consumer(group_id=topic, **EARLIEST) as consumer:
            consumer.subscribe([topic])
            answers.append([record.offset for record in consumer.read(10)])
    return answers


@next_to_peers(sees=["no error", True], confluent="NOT_CONTROLLER", aio="NotControllerError")
def topics_are_created_although_the_controller_has_moved(stage: Stage, client: Client) -> Any:
    topic = stage.name()
    with client.admin() as admin:
        stage.fault("CreateTopics", "error", "NOT_CONTROLLER", times=1)
        kind = attempt(client, lambda: admin.create_topic(topic))
    return kind, topic in stage.topics()


@next_to_peers(sees=10, confluent="NOT_LEADER_FOR_PARTITION")
def the_end_offsets_request_is_retried_while_the_leader_moves(stage: Stage, client: Client) -> Any:
    topic = stage.topic(records=10)
    with client.consumer() as consumer:
        stage.fault("ListOffsets", "error", "NOT_LEADER_OR_FOLLOWER", times=2)
        return consumer.end_offset((topic, 0))


@next_to_peers(sees=["no error", "no error", "no error"])
def a_transactional_producer_waits_for_a_busy_coordinator(stage: Stage, client: Client) -> Any:
    kinds = []
    for code in ("CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"):
        stage.fault("InitProducerId", "error", code, times=2)
        kinds.append(attempt(client, lambda: client.producer(transactional_id=stage.name()).close()))
    return kinds


@next_to_peers(sees="TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
def starting_a_producer_with_a_rejected_transactional_id_fails(stage: Stage, client: Client) -> Any:
    fault = stage.fault("InitProducerId", "error", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    kind = attempt(client, lambda: client.producer(transactional_id=stage.name()))
    stage.remove_fault(fault)
    return kind


@next_to_peers(sees=list(range(20)))
def a_throttled_producer_still_sends_everything(stage: Stage, client: Client) -> Any:
    topic = stage.topic()
    stage.fault("Produce", "throttle", 20, topic=topic, times=1)
    with client.producer() as producer:
        deliveries = [producer.send(topic, b"v", partition=0) for _ in range(20)]
        return [delivery.result().offset for delivery in deliveries]


@next_to_peers(sees=1)
def a_second_bootstrap_server_is_used_if_the_first_is_unreachable(stage: Stage, client: Client) -> Any:
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        both = type(client)(f"127.0.0.1:{free_socket.getsockname()[1]},{client.servers}")
        with both.admin() as admin:
            return admin.broker_count()


@next_to_peers(sees="no broker", kafka_python="KafkaTimeoutError")
def every_admin_call_fails_without_a_reachable_broker(stage: Stage, client: Client) -> Any:
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        alone = type(client)(f"127.0.0.1:{free_socket.getsockname()[1]}")

        def list_topics() -> None:
            with alone.admin() as admin:
                admin.list_topics()

        return attempt(client, list_topics)
