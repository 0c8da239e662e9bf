"""Situations from public reports about other clients: commits during rebalances, lost partitions and positions."""

import threading
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, Producer, TopicPartition
from kafkaframes.errors import BrokerError

ONE, TWO = TopicPartition("numbers", 0), TopicPartition("numbers", 1)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
SHORT_SESSIONS = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": 1_000,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 20,
}
SETTINGS = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 50,
    "session_timeout_ms": 6_000,
    "retry_backoff_ms": 10,
}


@pytest.fixture
def broker():
    with Broker(config=SHORT_SESSIONS) as broker:
        broker.create_topic("numbers", partitions=2)
        for partition in (0, 1):
            broker.append("numbers", [{"value": b"%d" % number} for number in range(100)], partition=partition)
        yield broker


def create_consumer(broker, protocol="classic", **settings):
    options = SETTINGS | {"group_id": "g", "group_protocol": protocol} | settings
    if protocol == "consumer":
        options.pop("session_timeout_ms"), options.pop("heartbeat_interval_ms")
    return Consumer(broker.bootstrap_servers, **options)


def read(broker, consumer, count, **options):
    """Poll until ``count`` records were returned."""
    records = []
    broker.wait_for(lambda: records.extend(consumer.poll(100, **options)) or len(records) >= count)
    return records


def read_committed_offsets(broker):
    with Admin(broker.bootstrap_servers) as admin:
        return {entry: value.offset for entry, value in admin.group_offsets("g").items()}


COOPERATIVE = {"partition_assignment_strategy": "cooperative-sticky"}


@pytest.mark.parametrize("assignor", [{}, COOPERATIVE], ids=["eager", "cooperative"])
def test_partitions_lost_during_a_rebalance_are_not_committed(broker, assignor):
    """librdkafka#5604: another member joined, max.poll.interval.ms expired, and automatic commits continued."""
    revoked_partitions = []
    settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 600_000, "max_poll_interval_ms": 1_000}
    other = create_consumer(broker, enable_auto_commit=False, **assignor)
    with create_consumer(broker, **settings, **assignor) as consumer, other:
        consumer.subscribe("numbers", on_revoke=revoked_partitions.extend)
        read(broker, consumer, 10, max_records=10)
        other.subscribe("numbers")
        records = read(broker, other, 200)  # the first member does not poll and is removed
        assert sorted(record.offset for record in records) == sorted([*range(100), *range(100)])
        other.commit()
        before = broker.journal.count("OffsetCommit")
        assert read_committed_offsets(broker) == {ONE: 100, TWO: 100}
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
            consumer.commit()
        is_done = threading.Event()
        thread = threading.Thread(target=lambda: [other.poll(20) for _ in iter(is_done.is_set, True)])
        thread.start()
        try:
            broker.wait_for(lambda: list(consumer.poll(50)) == [] and consumer.assignment())
        finally:
            is_done.set()
            thread.join()
        assert sorted(revoked_partitions) == [ONE, TWO]
        assert broker.journal.count("OffsetCommit") == before
        assert read_committed_offsets(broker) == {ONE: 100, TWO: 100}


def test_a_static_member_that_lost_its_session_commits_nothing_and_is_not_fenced(broker):
    """librdkafka#5585: a static member committed its lost partitions and was fenced permanently."""
    settings = {"group_instance_id": "i", "enable_auto_commit": True, "auto_commit_interval_ms": 600_000, **COOPERATIVE}
    with create_consumer(broker, session_timeout_ms=500, request_timeout_ms=1_000, **settings) as consumer:
        consumer.subscribe("numbers")
        read(broker, consumer, 10, max_records=10)
        with broker.on("Heartbeat").ignore() as heartbeats:
            broker.wait_for(lambda: describe_members(broker) == [])
            assert heartbeats.count
        before = broker.journal.count("OffsetCommit")
        offsets = set()  # the first ten records of a partition are read again only after the member has rejoined
        broker.wait_for(
            lambda: (
                offsets.update((record.partition, record.offset) for record in consumer.poll(50)) or len(offsets) == 200
            )
        )
        assert broker.journal.count("OffsetCommit") == before  # the auto-commit interval has not passed
        consumer.commit()
        assert read_committed_offsets(broker) == {entry: consumer.position(entry) for entry in (ONE, TWO)}


def describe_members(broker):
    with Admin(broker.bootstrap_servers) as admin:
        return [member.group_instance_id for member in admin.describe_group("g").members]


@PROTOCOLS
def test_a_commit_right_after_an_assignment_does_not_decrease_offsets(broker, protocol):
    """librdkafka#2782: a commit before the offsets were fetched wrote those of an earlier assignment."""
    with create_consumer(broker, protocol) as consumer:
        consumer.subscribe("numbers", on_assign=lambda _: consumer.commit())
        read(broker, consumer, 200)
        consumer.commit()
        consumer.unsubscribe()
        with Admin(broker.bootstrap_servers) as admin:  # another member has read less
            admin.alter_group_offsets("g", {ONE: 50, TWO: 70})
        with broker.on("OffsetFetch").delay(0.3):
            consumer.subscribe("numbers", on_assign=lambda _: consumer.commit())
            consumer.poll(0)
            records = read(broker, consumer, 80)
        assert {(record.partition, record.offset) for record in records} == {
            *((0, offset) for offset in range(50, 100)),
            *((1, offset) for offset in range(70, 100)),
        }


@PROTOCOLS
@pytest.mark.parametrize("code", ["UNKNOWN_MEMBER_ID", "ILLEGAL_GENERATION"])
def test_a_commit_rejected_for_a_lost_membership_triggers_a_rejoin_immediately(broker, protocol, code):
    """franz-go#1326: only the next heartbeat detected the lost membership; until then, every commit failed."""
    if protocol == "consumer" and code == "ILLEGAL_GENERATION":
        pytest.skip("an error of the classic protocol")
    with create_consumer(broker, protocol, heartbeat_interval_ms=3_000) as consumer:
        consumer.subscribe("numbers")
        read(broker, consumer, 200)
        joins = broker.journal.count("JoinGroup")
        with broker.on("OffsetCommit").error(code).once(), pytest.raises(BrokerError, match=code):
            consumer.commit()
        consumer.poll(0)
        if protocol == "classic":
            broker.wait_for(lambda: consumer.poll(20) is not None and broker.journal.count("JoinGroup") > joins)
        broker.wait_for(lambda: consumer.poll(20) is not None and len(consumer.assignment()) == 2)
        broker.append("numbers", [{"value": b"new"}], partition=1)
        broker.wait_for(lambda: any(record.value == b"new" for record in consumer.poll(100)))
        consumer.commit()
    assert read_committed_offsets(broker) == {ONE: 100, TWO: 101}


@PROTOCOLS
def test_a_failed_commit_in_on_revoke_does_not_stop_reading(broker, protocol):
    """librdkafka#2933, librdkafka#1605: after a failed commit in a rebalance, the consumer stopped fetching."""
    errors = []

    def commit(_):
        try:
            consumer.commit()
        except BrokerError as error:
            errors.append(error.code.name)

    with create_consumer(broker, protocol) as consumer, create_consumer(broker, protocol) as other:
        consumer.subscribe("numbers", on_revoke=commit)
        read(broker, consumer, 200)
        with broker.on("OffsetCommit").error(
            "REBALANCE_IN_PROGRESS" if protocol == "classic" else "GROUP_AUTHORIZATION_FAILED"
        ):
            other.subscribe("numbers")
            broker.wait_for(
                lambda: consumer.poll(20) is not None and other.poll(20) is not None and len(other.assignment()) == 1
            )
        broker.append("numbers", [{"value": b"a"}], partition=0)
        broker.append("numbers", [{"value": b"b"}], partition=1)
        values = set()
        broker.wait_for(
            lambda: (
                values.update(record.value for open_consumer in (consumer, other) for record in open_consumer.poll(50))
                or values >= {b"a", b"b"}
            )
        )


def test_an_assigned_offset_is_kept_when_a_partition_is_paused_before_its_first_fetch(broker):
    """librdkafka#2105, librdkafka#2190: after assign, pause and resume, reading began at the reset position."""
    with Consumer(broker.bootstrap_servers, auto_offset_reset="latest") as consumer:
        consumer.assign({ONE: 42})
        consumer.pause(ONE)
        assert list(consumer.poll(50)) == []
        consumer.resume(ONE)
        assert read(broker, consumer, 1)[0].offset == 42


@PROTOCOLS
def test_a_group_whose_offset_was_deleted_continues_at_the_log_start(broker, protocol):
    """aiokafka#261, aiokafka#718, kafkajs#334: the consumer logged "out of range" and read nothing more."""
    with Admin(broker.bootstrap_servers) as admin:
        admin.alter_group_offsets("g", {ONE: 10, TWO: 10})
        admin.delete_records({ONE: 60})
    with create_consumer(broker, protocol) as consumer:
        consumer.subscribe("numbers")
        records = read(broker, consumer, 130)
        assert [record.offset for record in records if record.partition == 0] == list(range(60, 100))
        assert [record.offset for record in records if record.partition == 1] == list(range(10, 100))


def test_assigned_partitions_have_no_poll_interval(broker):
    """confluent-kafka-dotnet#1220: a consumer with ``assign`` failed after max.poll.interval.ms."""
    with create_consumer(broker, max_poll_interval_ms=300) as consumer:
        consumer.assign({ONE: 0})
        assert read(broker, consumer, 10, max_records=10)[0].offset == 0
        time.sleep(0.5)
        assert read(broker, consumer, 1, max_records=1)[0].offset == 10
        consumer.commit()
    assert read_committed_offsets(broker) == {ONE: 11}


def test_the_committed_offset_is_the_one_after_the_last_record(broker):
    """brod#241: every partition of an idle group had a lag of one record."""
    with create_consumer(broker) as consumer:
        consumer.subscribe("numbers")
        read(broker, consumer, 200)
        consumer.commit()
        assert read_committed_offsets(broker) == consumer.end_offsets([ONE, TWO])


# ---------------------------------------------------------------------------------------------------- producing


def values_of(broker, partition=0):
    return [record.value for record in broker.records("numbers", partition=partition)][100:]


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_records_keep_their_order_when_the_first_request_is_rejected(broker, is_idempotent):
    """KAFKA-15591, sarama#3644: while the first request was retried, the broker appended the second one."""
    settings = {} if is_idempotent else {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    rule = broker.on("Produce").error("NOT_LEADER_OR_FOLLOWER").once()
    with Producer(broker.bootstrap_servers, linger_ms=0, retry_backoff_ms=50, **settings) as producer:
        producer.send("numbers", b"0", partition=0)
        broker.wait_for(lambda: rule.count == 1)
        for future in [producer.send("numbers", b"%d" % number, partition=0) for number in range(1, 20)]:
            future.result(60)
    assert values_of(broker) == [b"%d" % number for number in range(20)]


@pytest.mark.parametrize("is_idempotent", [True, False])
def test_a_batch_whose_response_was_lost_is_retried_to_the_same_partition(broker, is_idempotent):
    """ruby-kafka#956: the retry of a record without a key chose another partition, and the record was in both."""
    settings = {} if is_idempotent else {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    broker.on("Produce").drop_reply().once()
    with Producer(broker.bootstrap_servers, linger_ms=0, retry_backoff_ms=20, **settings) as producer:
        metadata = producer.send("numbers", b"once").result(60)
    copies = {partition: values_of(broker, partition) for partition in (0, 1)}
    assert set(copies[metadata.partition]) == {b"once"}
    assert copies[1 - metadata.partition] == []
    if is_idempotent:
        assert copies[metadata.partition] == [b"once"]


def test_after_a_new_epoch_all_partitions_start_with_sequence_zero(broker):
    """KAFKA-12152: a partition without requests in flight kept its sequence, and its next request was rejected."""
    with Producer(broker.bootstrap_servers, linger_ms=0, retry_backoff_ms=20, delivery_timeout_ms=60_000) as producer:
        for partition in (0, 1):
            producer.send("numbers", b"first", partition=partition).result(60)
        with broker.on("Produce").error("UNKNOWN_PRODUCER_ID").once() as rule:
            producer.send("numbers", b"second", partition=0).result(60)
            assert rule.count
        for partition in (0, 1):
            producer.send("numbers", b"third", partition=partition).result(60)
    assert values_of(broker, 0) == [b"first", b"second", b"third"]
    assert values_of(broker, 1) == [b"first", b"third"]
