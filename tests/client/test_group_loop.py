"""A consumer between polls, in both group protocols: heartbeats, failed rebalances, pauses, new topics."""

import asyncio
import threading
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, AsyncConsumer, Consumer, TopicPartition
from kafkaframes.errors import BrokerError

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)
PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
SHORT_SESSIONS = {
    "group.min.session.timeout.ms": 100,
    "group.consumer.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 100,
    "group.consumer.heartbeat.interval.ms": 50,
    "group.consumer.min.heartbeat.interval.ms": 20,
}
QUICK_SETTINGS = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 50,
    "session_timeout_ms": 1_000,
    "metadata_max_age_ms": 200,
    "retry_backoff_ms": 10,
}


@pytest.fixture
def broker():
    with Broker(config=SHORT_SESSIONS) as broker:
        broker.create_topic("t", 2)
        fill(broker, 0, 10)
        yield broker


def fill(broker, partition, count, topic="t"):
    """Append records in batches of ten."""
    for first in range(0, count, 10):
        numbers = range(first, min(first + 10, count))
        broker.append(topic, [{"value": b"%d" % number} for number in numbers], partition=partition)


def consumer_of(broker, protocol="classic", **settings):
    return Consumer(broker.bootstrap_servers, group_id="g", group_protocol=protocol, **QUICK_SETTINGS | settings)


def read(broker, consumer, count):
    """Poll until ``count`` records are returned; return their offsets."""
    records = []
    broker.wait_for(lambda: records.extend(consumer.poll(100)) or len(records) >= count)
    return [record.offset for record in records]


# ------------------------------------------------------------------------------------------------- heartbeats


@PROTOCOLS
def test_a_handler_slower_than_the_session_keeps_its_partitions(protocol, broker):
    revoked_partitions = []
    with consumer_of(broker, protocol) as consumer:
        consumer.subscribe("t", on_revoke=revoked_partitions.extend)
        assert read(broker, consumer, 10) == list(range(10))
        member = consumer.group_metadata()
        time.sleep(2)  # the application handles the records for longer than several sessions
        assert consumer.group_metadata().member_id == member.member_id
        consumer.commit()
        assert consumer.poll(100) == []
        assert revoked_partitions == []
        assert consumer.committed([ONE])[ONE].offset == 10


@PROTOCOLS
@pytest.mark.parametrize("instance", [None, "one"])
def test_a_member_that_polls_too_late_loses_its_partitions_and_rejoins(instance, protocol, broker):
    events = []
    settings = {"max_poll_interval_ms": 300, "enable_auto_commit": False, "group_instance_id": instance}
    with consumer_of(broker, protocol, **settings) as consumer:
        consumer.subscribe("t", on_assign=lambda _: events.append("assign"), on_revoke=lambda _: events.append("lost"))
        assert read(broker, consumer, 10) == list(range(10))
        broker.wait_for(lambda: not consumer._twin._machine.member.is_member)
        # KIP-345: a static member is removed only when its session expires
        if protocol == "classic" and instance is not None:
            assert not broker.journal.requests("LeaveGroup")
            beats = len(broker.journal.requests("Heartbeat"))
            time.sleep(0.3)
            assert len(broker.journal.requests("Heartbeat")) == beats
        if protocol == "consumer":
            epoch = -1 if instance is None else -2
            broker.wait_for(lambda: broker.journal.requests("ConsumerGroupHeartbeat")[-1].body.member_epoch == epoch)
        with pytest.raises(BrokerError, match="UNKNOWN_MEMBER_ID"):
            consumer.commit()
        assert events == ["assign"]  # callbacks run inside the caller's polls
        assert read(broker, consumer, 10) == list(range(10))  # nothing was committed
        assert events == ["assign", "lost", "assign"]


def test_each_next_of_an_iteration_is_a_poll(broker):
    with consumer_of(broker, max_poll_interval_ms=1_500) as consumer:
        consumer.subscribe("t")
        members = set()
        for record in consumer:
            members.add(consumer.group_metadata().member_id)
            time.sleep(0.4)
            if record.offset == 5:
                break
        assert len(members) == 1


def test_an_iteration_can_revoke_partitions_between_two_records(broker):
    """Another member joins while the first has hundreds of decoded records left."""
    fill(broker, 1, 500)
    is_revoked = threading.Event()
    with consumer_of(broker) as consumer, consumer_of(broker) as other:
        consumer.subscribe("t", on_revoke=lambda _: is_revoked.set())
        joiner = None
        count = 0
        for _ in consumer:
            count += 1
            if joiner is None:
                other.subscribe("t")
                joiner = threading.Thread(target=lambda: read(broker, other, 1))
                joiner.start()
            if is_revoked.is_set():
                break
            time.sleep(0.01)
        assert count < 500
        consumer.poll(0)
        stop = time.monotonic() + 60
        while joiner.is_alive() and time.monotonic() < stop:
            consumer.poll(50)
        joiner.join()


# --------------------------------------------------------------------------------------- take-overs that fail


@PROTOCOLS
@pytest.mark.parametrize("api", ["ListOffsets", "OffsetFetch"])
@pytest.mark.parametrize("code", ["TOPIC_AUTHORIZATION_FAILED", "GROUP_AUTHORIZATION_FAILED", "NOT_COORDINATOR"])
def test_a_lookup_that_is_rejected_once_is_retried(code, api, protocol, broker):
    errors, records = [], []
    with consumer_of(broker, protocol) as consumer, broker.on(api).error(code).once() as rule:
        consumer.subscribe("t")

        def has_read():
            try:
                records.extend(consumer.poll(100))
            except BrokerError as error:
                errors.append(error.code.name)
            return len(records) == 10

        broker.wait_for(has_read)
        assert rule.count
    if code != "NOT_COORDINATOR":
        assert set(errors) == {code}


@PROTOCOLS
def test_on_assign_that_raises_is_called_again(protocol, broker):
    calls = []

    def on_assign(partitions):
        calls.append(sorted(partitions))
        if len(calls) == 1:
            raise ZeroDivisionError

    with consumer_of(broker, protocol) as consumer:
        consumer.subscribe("t", on_assign=on_assign)
        with pytest.raises(ZeroDivisionError):
            broker.wait_for(lambda: consumer.poll(100))
        assert read(broker, consumer, 10) == list(range(10))
        assert calls == [[ONE, TWO], [ONE, TWO]]


@PROTOCOLS
def test_without_committed_offsets_and_reset_policy_each_poll_raises_until_a_seek(protocol, broker):
    with consumer_of(broker, protocol, auto_offset_reset="none") as consumer:
        consumer.subscribe("t")
        for _ in range(3):
            with pytest.raises(BrokerError, match=r"no committed offset for t-\d, and auto_offset_reset is none"):
                broker.wait_for(lambda: consumer.poll(100))
        assert sorted(consumer.assignment()) == [ONE, TWO]
        with pytest.raises(BrokerError, match="no committed offset"):
            consumer.position(ONE)
        consumer.seek(ONE, 4)
        consumer.seek(TWO, 0)
        assert read(broker, consumer, 6) == list(range(4, 10))


@PROTOCOLS
def test_on_assign_may_seek(protocol, broker):
    async def run():
        settings = QUICK_SETTINGS | {"group_id": "g", "group_protocol": protocol}
        async with AsyncConsumer(broker.bootstrap_servers, **settings) as consumer:

            async def on_assign(partitions):
                for entry in partitions:
                    assert consumer.position(entry) == 0
                    consumer.seek(entry, 7)

            await consumer.subscribe("t", on_assign=on_assign)
            while not (records := await consumer.poll(100)):
                pass
            return [record.offset for record in records]

    fill(broker, 1, 8)
    assert asyncio.run(run())[0] == 7


@PROTOCOLS
def test_close_and_unsubscribe_call_on_revoke(protocol, broker):
    revoked_partitions = []
    for end in (Consumer.unsubscribe, Consumer.close):
        with consumer_of(broker, protocol) as consumer:
            consumer.subscribe("t", on_revoke=lambda partitions: revoked_partitions.append(sorted(partitions)))
            broker.wait_for(lambda: consumer.poll(50) is not None and len(consumer.assignment()) == 2)
            end(consumer)
            assert revoked_partitions.pop() == [ONE, TWO]
        assert revoked_partitions == []


@PROTOCOLS
def test_on_revoke_that_raises_is_not_repeated_and_the_rebalance_continues(protocol, broker):
    def fail(partitions):
        raise ZeroDivisionError

    with consumer_of(broker, protocol) as consumer, consumer_of(broker, protocol) as other:
        consumer.subscribe("t", on_revoke=fail)
        read(broker, consumer, 10)
        other.subscribe("t")
        joiner = threading.Thread(
            target=lambda: broker.wait_for(lambda: other.poll(50) is not None and len(other.assignment()) == 1)
        )
        joiner.start()
        with pytest.raises(ZeroDivisionError):
            broker.wait_for(lambda: consumer.poll(50))
        broker.wait_for(lambda: consumer.poll(50) is not None and not joiner.is_alive())
        broker.wait_for(lambda: consumer.poll(50) is not None and len(consumer.assignment()) == 1)
        with pytest.raises(ZeroDivisionError):
            consumer.unsubscribe()


# ------------------------------------------------------------------------------------------- one shared buffer

READ_METHODS = {
    "poll": lambda consumer: len(consumer.poll(200)),
    "fetch": lambda consumer: 0 if consumer.fetch(200) is None else 1,
    "fetch_arrow": lambda consumer: consumer.fetch_arrow(200).num_rows,
}


@pytest.mark.parametrize("way", READ_METHODS)
def test_paused_partitions_return_no_records_and_are_not_fetched_again(way, broker):
    fill(broker, 1, 3)
    with consumer_of(broker, max_poll_records=4) as consumer:
        consumer.assign({ONE: 0})
        assert [record.offset for record in consumer.poll(60_000)] == [0, 1, 2, 3]
        consumer.pause(ONE)
        before = len(find_fetched_offsets(broker))
        assert sum(READ_METHODS[way](consumer) for _ in range(3)) == 0
        consumer.resume(ONE)
        rest = consumer.fetch_arrow(60_000)["offset"].to_pylist()
        assert rest == list(range(4, 10))
        assert all(offset == 10 for offset in find_fetched_offsets(broker)[before:])
        assert consumer.position(ONE) == 10


def find_fetched_offsets(broker):
    calls = broker.journal.requests("Fetch")
    return [row.fetch_offset for call in calls for topic in call.body.topics for row in topic.partitions]


def test_a_pause_in_a_loop_takes_effect_at_the_next_record(broker):
    fill(broker, 1, 3)
    with consumer_of(broker) as consumer:
        consumer.assign({ONE: 0})
        positions = []
        for record in consumer:
            positions.append((record.partition, record.offset))
            if len(positions) == 2:
                consumer.assign({ONE: 2, TWO: 0})
                consumer.pause(ONE)
            if positions[-1] == (1, 2):
                consumer.resume(ONE)
            if record.offset == 9:
                break
    assert positions == [
        (0, 0),
        (0, 1),
        *((1, offset) for offset in range(3)),
        *((0, offset) for offset in range(2, 10)),
    ]


def test_poll_fetch_arrow_fetch_and_iteration_share_one_position(broker):
    with consumer_of(broker, max_poll_records=2) as consumer:
        consumer.assign([ONE])
        assert [record.offset for record in consumer.poll(60_000)] == [0, 1]
        iteration = iter(consumer)
        assert next(iteration).offset == 2
        assert consumer.position(ONE) == 3
        assert consumer.fetch_arrow(60_000)["offset"].to_pylist() == list(range(3, 10))
        consumer.seek(ONE, 0)
        assert next(iteration).offset == 0
        fetched_batches = consumer.fetch(60_000)
        assert (fetched_batches.fetch_offset, fetched_batches.next_offset) == (1, 10)
        assert [row for part in fetched_batches.read(["offset"]) for row in part.column(0).to_pylist()] == list(
            range(1, 10)
        )
        assert consumer.poll(50) == []


# --------------------------------------------------------------------------------------------- changed metadata


@PROTOCOLS
def test_a_matching_topic_created_later_is_read(protocol, broker):
    with consumer_of(broker, protocol) as consumer:
        consumer.subscribe(pattern="t|logs-.*")
        read(broker, consumer, 10)
        broker.create_topic("logs-a")
        broker.create_topic("my-logs")  # only whole names match
        fill(broker, 0, 1, "logs-a")
        assert read(broker, consumer, 1) == [0]
        assert {entry.topic for entry in consumer.assignment()} == {"t", "logs-a"}


@PROTOCOLS
def test_added_partitions_are_read(protocol, broker):
    with consumer_of(broker, protocol) as consumer, Admin(broker.bootstrap_servers) as admin:
        consumer.subscribe("t")
        read(broker, consumer, 10)
        admin.create_partitions({"t": 4})
        fill(broker, 3, 1)
        assert read(broker, consumer, 1) == [0]


@PROTOCOLS
def test_a_subscribed_topic_created_later_is_read(protocol, broker):
    with consumer_of(broker, protocol) as consumer:
        consumer.subscribe(["t", "later"])
        read(broker, consumer, 10)
        broker.create_topic("later")
        fill(broker, 0, 1, "later")
        assert read(broker, consumer, 1) == [0]


@PROTOCOLS
def test_a_deleted_topic_is_revoked_and_other_topics_continue(protocol, broker):
    broker.create_topic("gone")
    revoked_partitions = []
    with consumer_of(broker, protocol) as consumer, Admin(broker.bootstrap_servers) as admin:
        consumer.subscribe(["t", "gone"], on_revoke=revoked_partitions.extend)
        read(broker, consumer, 10)
        admin.delete_topics(["gone"])
        broker.wait_for(lambda: consumer.poll(50) is not None and sorted(consumer.assignment()) == [ONE, TWO])
        assert TopicPartition("gone", 0) in revoked_partitions
        fill(broker, 1, 1)
        assert read(broker, consumer, 1) == [0]


# ------------------------------------------------------------------------------------------- truncated logs


@PROTOCOLS
@pytest.mark.parametrize("way", ["assign", "subscribe", "committed"])
def test_a_truncated_and_regrown_log_is_read_from_its_divergence_point(way, protocol):
    """KIP-320; this includes positions that were committed before the truncation."""
    with Broker(cluster=2) as broker:
        broker.create_topic("t", 1)
        fill(broker, 0, 100)
        with consumer_of(broker, protocol) as consumer:
            consumer.assign([ONE]) if way == "assign" else consumer.subscribe("t")
            assert read(broker, consumer, 100) == list(range(100))
            if way != "committed":
                truncate(broker)
                assert read(broker, consumer, 100)[0] == 50
                consumer.commit()
                assert consumer.committed([ONE])[ONE][:2] == (150, 1)
        if way == "committed":
            truncate(broker)
            with consumer_of(broker, protocol) as consumer:
                consumer.subscribe("t")
                assert read(broker, consumer, 100)[0] == 50


def truncate(broker):
    broker.truncate("t", 0, 50)
    fill(broker, 0, 100)


def test_without_a_reset_policy_a_truncation_is_an_error_with_both_offsets():
    with Broker(cluster=2) as broker:
        broker.create_topic("t", 1)
        fill(broker, 0, 100)
        with consumer_of(broker, auto_offset_reset="none") as consumer:
            consumer.assign({ONE: 0})
            read(broker, consumer, 100)
            truncate(broker)
            for _ in range(2):
                with pytest.raises(BrokerError, match="the position is 100, but the log diverges at 50"):
                    broker.wait_for(lambda: consumer.poll(100))
            consumer.seek(ONE, 50)
            assert read(broker, consumer, 100)[0] == 50


def test_records_fetched_before_a_truncation_are_fetched_again():
    with Broker(cluster=2) as broker:
        broker.create_topic("t", 1)
        fill(broker, 0, 100)
        with consumer_of(broker, max_poll_records=10) as consumer:
            consumer.assign({ONE: 0})
            assert [record.offset for record in consumer.poll(60_000)] == list(range(10))
            truncate(broker)
            broker.wait_for(lambda: broker.journal.requests("OffsetForLeaderEpoch"))
            values = {}

            def has_read_all():
                values.update((record.offset, record.value) for record in consumer.poll(100))
                return len(values) == 140

            broker.wait_for(has_read_all)
            assert values[50] == b"0"  # the first record after the truncation


@pytest.mark.parametrize("answer", ["no epoch", "old broker"])
def test_positions_are_kept_or_reset_if_the_leader_does_not_know_the_epoch(answer):
    """If the response has no epoch or end offset, the reset policy applies.

    Before version 3, positions are not validated.
    """
    release = "2.1" if answer == "old broker" else None
    with Broker(cluster=2, broker_release=release) as broker:
        broker.create_topic("t", 1)
        fill(broker, 0, 100)

        def respond_with_unknown_epoch(request):
            rows = request.response
            partition = rows.EpochEndOffset(partition=0, leader_epoch=-1, end_offset=-1)
            return request.response(topics=[rows.OffsetForLeaderTopicResult(topic="t", partitions=[partition])])

        with consumer_of(broker) as consumer:
            consumer.assign({ONE: 0})
            read(broker, consumer, 100)
            if answer == "no epoch":
                broker.on("OffsetForLeaderEpoch").answer(respond_with_unknown_epoch)
            truncate(broker)
            first = read(broker, consumer, 1)[0]
            if answer == "no epoch":
                assert first == 0
            else:
                assert not broker.journal.requests("OffsetForLeaderEpoch")
