"""Broker failures, rejections and missing responses as a user sees them."""

import socket

import pytest
from tests.everyday.behaviours import peers_with

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, Producer, TopicPartition
from kafkaframes.errors import (
    AuthorizationError,
    BrokerError,
    KafkaframesError,
    MaybeWrittenError,
    NetworkError,
    OptionError,
)

QUICK_SETTINGS = {"retry_backoff_ms": 10, "reconnect_backoff_ms": 10}


@pytest.fixture
def partition(topic):
    """The first partition of the topic."""
    return TopicPartition(topic, 0)


@pytest.fixture
def filled_partition(broker, partition):
    """The first partition of the topic, with ten records."""
    broker.append(partition.topic, [{"value": b"%d" % number} for number in range(10)], partition=0)
    return partition


@pytest.fixture
def free_port():
    """A port on which no broker listens."""
    with socket.socket() as free_socket:
        free_socket.bind(("127.0.0.1", 0))
        yield free_socket.getsockname()[1]


def read(consumer, count):
    """Poll until ``count`` records are returned; return their offsets."""
    offsets = []
    while len(offsets) < count:
        polled_records = consumer.poll(20_000)
        assert polled_records, f"received {len(offsets)} of {count} records"
        offsets += [record.offset for record in polled_records]
    return offsets


@peers_with(java="testWrongBrokerList", aiokafka="test_failed_bootstrap")
def test_an_unreachable_broker_is_an_error_with_its_address(free_port):
    producer = Producer(f"127.0.0.1:{free_port}", max_block_ms=100, default_api_timeout_ms=100, **QUICK_SETTINGS)
    with pytest.raises(NetworkError, match=str(free_port)):
        producer.send("t", b"v")
    producer.close()


@peers_with(java="testPartitionsForAuthenticationFailure", aiokafka="test_failed_bootstrap")
def test_every_admin_call_fails_without_a_reachable_broker(free_port):
    with (
        Admin(f"127.0.0.1:{free_port}", default_api_timeout_ms=100, **QUICK_SETTINGS) as admin,
        pytest.raises(NetworkError, match=str(free_port)),
    ):
        admin.list_topics()


@pytest.mark.embedded
@peers_with(java="testBeginningOffsetsTimeout", aiokafka="test_failed_bootstrap_timeout")
def test_a_broker_that_never_answers_is_a_timeout(broker, servers):
    with broker.on("Metadata", client_id="ignored").ignore():
        settings = {"client_id": "ignored", "request_timeout_ms": 100, "default_api_timeout_ms": 200}
        with Admin(servers, **settings, **QUICK_SETTINGS) as admin, pytest.raises(NetworkError):
            admin.list_topics()


@peers_with(java="testAdminClientHandlingBadIPWithoutTimeout")
def test_a_second_bootstrap_server_is_used_if_the_first_is_unreachable(servers, free_port):
    with Admin(f"127.0.0.1:{free_port},{servers}", **QUICK_SETTINGS) as admin:
        assert admin.describe_cluster().brokers


@peers_with(java="testInvalidPort", confluent="test_basic_api")
@pytest.mark.parametrize("address", ["host:port", "host:99999", ":9092", ""])
def test_a_malformed_address_is_rejected_by_the_constructor(address):
    with pytest.raises(OptionError):
        Producer(address)


@pytest.mark.embedded
@peers_with(aiokafka="test_producer_send_leader_notfound", java="testMetadataTimeoutWithMissingTopic")
@pytest.mark.parametrize("code", ["LEADER_NOT_AVAILABLE", "NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS"])
def test_a_retriable_error_is_retried(broker, servers, topic, code):
    with Producer(servers, **QUICK_SETTINGS) as producer, broker.on("Produce", topic=topic).times(2).error(code):
        assert producer.send(topic, b"v", partition=0).result().offset == 0
    assert len(broker.records(topic)) == 1


@pytest.mark.embedded
@peers_with(
    aiokafka="test_producer_leader_change_preserves_order",
    kafka_python="test_retry_does_not_reorder_against_later_batches",
)
def test_retries_keep_the_order_of_records(broker, servers, topic):
    with (
        Producer(servers, batch_size=1, **QUICK_SETTINGS) as producer,
        broker.on("Produce", topic=topic).times(3).error("NOT_LEADER_OR_FOLLOWER"),
    ):
        for number in range(30):
            producer.send(topic, b"%d" % number, partition=0)
        producer.flush()
    assert [record.value for record in broker.records(topic)] == [b"%d" % number for number in range(30)]


@pytest.mark.embedded
@peers_with(
    aiokafka="test_producer_send_error", kafka_python="test_complete_batch_error", java="testTooLargeRecordWithAckZero"
)
@pytest.mark.parametrize("code", ["INVALID_RECORD", "POLICY_VIOLATION", "INVALID_REQUIRED_ACKS"])
def test_a_fatal_error_is_not_retried(broker, servers, topic, code):
    with Producer(servers, **QUICK_SETTINGS) as producer, broker.on("Produce", topic=topic).error(code) as rule:
        with pytest.raises(BrokerError, match=code):
            producer.send(topic, b"v", partition=0).result()
        assert rule.count == 1


@pytest.mark.embedded
@peers_with(
    kafka_python="test_expired_batch_single",
    aiokafka="test_producer_send_timeout",
    java="testMetadataTimeoutWithMissingTopic",
)
def test_a_record_that_is_always_rejected_fails_after_the_delivery_timeout(broker, servers, topic):
    settings = {"delivery_timeout_ms": 200, "linger_ms": 0, "request_timeout_ms": 100}
    with (
        Producer(servers, **settings, **QUICK_SETTINGS) as producer,
        broker.on("Produce", topic=topic).error("NOT_ENOUGH_REPLICAS"),
    ):
        future = producer.send(topic, b"v", partition=0)
        with pytest.raises(KafkaframesError, match="NOT_ENOUGH_REPLICAS"):
            future.result(30)


@pytest.mark.embedded
@peers_with(
    kafka_python="test_complete_batch_retry",
    confluent="test_dr_msg_errstr",
    ours="an error of its own says that the record may be written",
)
def test_a_record_without_a_response_may_have_been_written(broker, servers, topic):
    settings = {"delivery_timeout_ms": 200, "linger_ms": 0, "request_timeout_ms": 100}
    with Producer(servers, **settings, **QUICK_SETTINGS) as producer, broker.on("Produce", topic=topic).ignore():
        future = producer.send(topic, b"v", partition=0)
        with pytest.raises(MaybeWrittenError):
            future.result(30)


@pytest.mark.embedded
@peers_with(aiokafka="test_metadata_updated_on_socket_disconnect", java="testCloseWhenWaitingForMetadataUpdate")
def test_a_lost_connection_is_opened_again_by_the_producer(broker, servers, topic):
    with Producer(servers, **QUICK_SETTINGS) as producer:
        producer.send(topic, b"0", partition=0).result()
        with broker.on("Produce", topic=topic).once().close():
            assert producer.send(topic, b"1", partition=0).result().offset == 1


@pytest.mark.embedded
@peers_with(java="testConsumptionWithBrokerFailures", aiokafka="test_metadata_updated_on_socket_disconnect")
def test_a_lost_connection_is_opened_again_by_the_consumer(broker, servers, filled_partition):
    with (
        broker.on("Fetch", topic=filled_partition.topic).times(2).close(),
        Consumer(servers, auto_offset_reset="earliest", **QUICK_SETTINGS) as consumer,
    ):
        consumer.assign([filled_partition])
        assert read(consumer, 10) == list(range(10))


@pytest.mark.embedded
@peers_with(
    kafka_python="test__parse_fetched_data__not_leader",
    aiokafka="test_fetch_result_and_error",
    java="testConsumptionWithBrokerFailures",
)
@pytest.mark.parametrize(
    "code", ["NOT_LEADER_OR_FOLLOWER", "UNKNOWN_LEADER_EPOCH", "FENCED_LEADER_EPOCH", "KAFKA_STORAGE_ERROR"]
)
def test_a_retriable_error_of_a_fetch_skips_nothing(broker, servers, filled_partition, code):
    with (
        broker.on("Fetch", topic=filled_partition.topic).times(2).error(code),
        Consumer(servers, auto_offset_reset="earliest", **QUICK_SETTINGS) as consumer,
    ):
        consumer.assign([filled_partition])
        assert read(consumer, 10) == list(range(10))


@pytest.mark.embedded
@peers_with(aiokafka="test_next_record_error_after_data", confluent="test_consume_error")
def test_poll_raises_the_error_of_a_fetch(broker, servers, filled_partition):
    with Consumer(servers, auto_offset_reset="earliest", **QUICK_SETTINGS) as consumer:
        with broker.on("Fetch", topic=filled_partition.topic).error("TOPIC_AUTHORIZATION_FAILED"):
            consumer.assign([filled_partition])
            with pytest.raises(AuthorizationError):
                consumer.poll(20_000)
        assert read(consumer, 10) == list(range(10))


@pytest.mark.embedded
@peers_with(
    java="testCommitSyncAuthenticationFailure",
    aiokafka="test_commit_failed_scenarios",
    confluent="test_consume_error_commit",
)
def test_commit_raises_the_error_of_the_coordinator(broker, servers, filled_partition):
    with Consumer(servers, group_id=filled_partition.topic, **QUICK_SETTINGS) as consumer:
        consumer.assign([filled_partition])
        with broker.on("OffsetCommit").once().error("GROUP_AUTHORIZATION_FAILED"), pytest.raises(AuthorizationError):
            consumer.commit({filled_partition: 1})
        consumer.commit({filled_partition: 2})
        assert consumer.committed([filled_partition])[filled_partition].offset == 2


@pytest.mark.embedded
@peers_with(
    java="testOffsetCommitRetryBackoff",
    aiokafka="test_commit_failed_scenarios",
    kafka_python="test_commit_offsets_sync",
)
@pytest.mark.parametrize("code", ["COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"])
def test_a_commit_is_repeated_while_the_coordinator_moves(broker, servers, filled_partition, code):
    with Consumer(servers, group_id=filled_partition.topic, **QUICK_SETTINGS) as consumer:
        consumer.assign([filled_partition])
        with broker.on("OffsetCommit").times(2).error(code):
            consumer.commit({filled_partition: 3})
        assert consumer.committed([filled_partition])[filled_partition].offset == 3


@pytest.mark.embedded
@peers_with(aiokafka="test_fetchoffsets_failed_scenarios", java="testListConsumerGroupOffsetsRetriableErrors")
def test_the_committed_offsets_request_is_retried_while_the_coordinator_loads(broker, servers, filled_partition):
    with (
        Consumer(servers, group_id=filled_partition.topic, **QUICK_SETTINGS) as consumer,
        broker.on("OffsetFetch").times(2).error("COORDINATOR_LOAD_IN_PROGRESS"),
    ):
        assert consumer.committed([filled_partition]) == {}


@pytest.mark.embedded
@peers_with(aiokafka="test_consumer_propagates_coordinator_errors", java="testPollAuthenticationFailure")
@pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup"])
def test_poll_raises_the_error_of_a_rejected_membership(broker, servers, topic, api):
    with (
        Consumer(servers, group_id=topic, **QUICK_SETTINGS) as consumer,
        broker.on(api).error("GROUP_AUTHORIZATION_FAILED"),
    ):
        consumer.subscribe([topic])
        with pytest.raises(AuthorizationError):
            consumer.poll(20_000)


@pytest.mark.embedded
@peers_with(aiokafka="test_failed_group_join", java="testShouldAttemptToRejoinGroupAfterSyncGroupFailed")
@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("JoinGroup", "UNKNOWN_MEMBER_ID"),
        ("JoinGroup", "COORDINATOR_NOT_AVAILABLE"),
        ("SyncGroup", "REBALANCE_IN_PROGRESS"),
        ("SyncGroup", "ILLEGAL_GENERATION"),
        ("FindCoordinator", "COORDINATOR_NOT_AVAILABLE"),
    ],
)
def test_a_member_joins_again_after_a_transient_error(broker, servers, filled_partition, api, code):
    settings = {"group_id": filled_partition.topic, "auto_offset_reset": "earliest"}
    with broker.on(api).once().error(code), Consumer(servers, **settings, **QUICK_SETTINGS) as consumer:
        consumer.subscribe([filled_partition.topic])
        assert read(consumer, 10) == list(range(10))


@pytest.mark.embedded
@peers_with(java="testCreateTopicsHandleNotControllerException", kafka_python="test_not_controller_retries")
def test_topics_are_created_although_the_controller_has_moved(broker, servers, topic):
    with Admin(servers, **QUICK_SETTINGS) as admin, broker.on("CreateTopics").once().error("NOT_CONTROLLER"):
        admin.create_topics([f"{topic}-new"])
        assert f"{topic}-new" in admin.list_topics()


@pytest.mark.embedded
@peers_with(java="testListOffsetsRetriableErrors", kafka_python="test_retries_on_not_leader_then_succeeds")
def test_the_end_offsets_request_is_retried_while_the_leader_moves(broker, servers, filled_partition):
    with (
        Consumer(servers, **QUICK_SETTINGS) as consumer,
        broker.on("ListOffsets").times(2).error("NOT_LEADER_OR_FOLLOWER"),
    ):
        assert consumer.end_offsets([filled_partition]) == {filled_partition: 10}


@pytest.mark.embedded
@peers_with(java="testInitTransactionWhileThrottled", kafka_python="test_retriable_error_reenqueues")
@pytest.mark.parametrize("code", ["CONCURRENT_TRANSACTIONS", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"])
def test_a_transactional_producer_waits_for_a_busy_coordinator(broker, servers, topic, code):
    with (
        broker.on("InitProducerId").times(2).error(code),
        Producer(servers, transactional_id=topic, **QUICK_SETTINGS) as producer,
    ):
        assert producer.identity.producer_id >= 0


@pytest.mark.embedded
@peers_with(java="testClusterAuthorizationFailure", kafka_python="test_transactional_id_authz_failed_is_fatal")
def test_starting_a_producer_with_a_rejected_transactional_id_fails(broker, servers, topic):
    with broker.on("InitProducerId").error("TRANSACTIONAL_ID_AUTHORIZATION_FAILED"), pytest.raises(AuthorizationError):
        Producer(servers, transactional_id=topic, **QUICK_SETTINGS).__enter__()


@pytest.mark.embedded
@peers_with(java="testConsumptionWithBrokerFailures", confluent="test_error_cb")
def test_clients_continue_after_a_broker_has_restarted():
    with Broker() as broker:
        partition = TopicPartition("t", 0)
        broker.create_topic("t")
        servers = broker.bootstrap_servers
        with (
            Producer(servers, **QUICK_SETTINGS) as producer,
            Consumer(servers, auto_offset_reset="earliest", **QUICK_SETTINGS) as consumer,
        ):
            consumer.assign([partition])
            producer.send("t", b"0").result()
            assert read(consumer, 1) == [0]
            broker.kill()
            broker.restart()
            assert producer.send("t", b"1").result().offset == 1
            assert read(consumer, 1) == [1]


@pytest.mark.embedded
@peers_with(java="testCloseTimeout", confluent="test_close_does_not_hang_on_unreachable_broker")
def test_close_returns_although_the_broker_is_unreachable():
    with Broker() as broker:
        broker.create_topic("t")
        consumer = Consumer(broker.bootstrap_servers, group_id="g", **QUICK_SETTINGS)
        consumer.assign([TopicPartition("t", 0)])
        producer = Producer(broker.bootstrap_servers, linger_ms=60_000, **QUICK_SETTINGS)
        future = producer.send("t", b"v")
        broker.kill()
        consumer.close(timeout_ms=50)
        producer.close(timeout_ms=50)
        with pytest.raises(KafkaframesError):
            future.result()


@pytest.mark.embedded
@peers_with(confluent="test_throttle_cb_fires_under_quota")
def test_a_throttled_producer_still_sends_everything(broker, servers, topic):
    with Producer(servers, **QUICK_SETTINGS) as producer, broker.on("Produce", topic=topic).once().throttle(20):
        futures = [producer.send(topic, b"%d" % number, partition=0) for number in range(20)]
        assert [future.result().offset for future in futures] == list(range(20))
