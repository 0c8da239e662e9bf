"""Use of group members, in both group protocols."""

import pytest
from tests.everyday.behaviours import peers_with

from kafkaframes.client import Consumer, TopicPartition
from kafkaframes.errors import BrokerError, OptionError

PROTOCOLS = pytest.mark.parametrize("protocol", ["classic", "consumer"])
QUICK_SETTINGS = {
    "auto_offset_reset": "earliest",
    "heartbeat_interval_ms": 50,
    "metadata_max_age_ms": 200,
    "retry_backoff_ms": 10,
}


@pytest.fixture
def filled_topic(broker, topic):
    """The topic, with four records in each of its three partitions."""
    for partition in range(3):
        broker.append(topic, [{"value": b"%d" % number} for number in range(4)], partition=partition)
    return topic


def member_of(servers, group, protocol="classic", **settings):
    return Consumer(servers, group_id=group, group_protocol=protocol, **QUICK_SETTINGS | settings)


def partitions_of(topic):
    return [TopicPartition(topic, number) for number in range(3)]


def read(broker, consumer, count):
    """Poll until ``count`` records are returned; return them."""
    records = []
    broker.wait_for(lambda: records.extend(consumer.poll(100)) or len(records) >= count, timeout=30)
    return records


def poll_until(broker, condition, *members):
    """Poll members in turn until a condition holds; return the records that they have read."""
    records = []

    def poll():
        for member in members:
            records.extend(member.poll(10))
        return condition()

    broker.wait_for(poll, timeout=30)
    return records


@peers_with(
    java="testGroupConsumption", kafka_python="test_group", aiokafka="test_simple_consumer", confluent="test_basic_api"
)
@PROTOCOLS
def test_a_single_member_reads_every_partition(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe([filled_topic])
        records = read(broker, member, 12)
        assert sorted(member.assignment()) == partitions_of(filled_topic)
    assert sorted((record.partition, record.offset) for record in records) == [
        (p, n) for p in range(3) for n in range(4)
    ]


@peers_with(java="testMultiConsumerDefaultAssignorAndVerifyAssignment", kafka_python="test_group")
@PROTOCOLS
def test_two_members_share_the_partitions(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as first, member_of(servers, filled_topic, protocol) as second:
        first.subscribe([filled_topic])
        second.subscribe([filled_topic])
        poll_until(broker, lambda: {len(first.assignment()), len(second.assignment())} == {1, 2}, first, second)
        assert sorted([*first.assignment(), *second.assignment()]) == partitions_of(filled_topic)


@peers_with(
    java="testRebalanceAndRejoin", aiokafka="test_consumer_stops_getmany", confluent="test_cooperative_rebalance_1"
)
@PROTOCOLS
def test_the_partitions_of_a_member_that_leaves_go_to_the_others(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as one:
        one.subscribe([filled_topic])
        with member_of(servers, filled_topic, protocol) as two:
            two.subscribe([filled_topic])
            poll_until(broker, lambda: {len(one.assignment()), len(two.assignment())} == {1, 2}, one, two)
        poll_until(broker, lambda: sorted(one.assignment()) == partitions_of(filled_topic), one)


@peers_with(java="testAutoCommitOnRebalance", aiokafka="test_offset_behavior__resuming_behavior")
@PROTOCOLS
def test_records_that_were_read_are_not_read_again_after_a_rebalance(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as one, member_of(servers, filled_topic, protocol) as two:
        one.subscribe([filled_topic])
        records = read(broker, one, 12)
        two.subscribe([filled_topic])
        records += poll_until(broker, lambda: {len(one.assignment()), len(two.assignment())} == {1, 2}, one, two)
        for number in range(3):
            broker.append(filled_topic, [{"value": b"new"}], partition=number)
        records += poll_until(broker, lambda: len(records) >= 12, one, two)
        records += poll_until(broker, lambda: sum(map(sum_of_positions, (one, two))) == 15, one, two)
    assert len({(record.partition, record.offset) for record in records}) == len(records) == 15


def sum_of_positions(member):
    """Return the sum of a member's positions."""
    return sum(member.position(partition) for partition in member.assignment())


@peers_with(java="testAutoCommitOnClose", kafka_python="test_kafka_consumer__offset_commit_resume")
@PROTOCOLS
def test_close_commits_and_the_next_member_continues(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe([filled_topic])
        read(broker, member, 12)
    for number in range(3):
        broker.append(filled_topic, [{"value": b"new"}], partition=number)
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe([filled_topic])
        assert {record.value for record in read(broker, member, 3)} == {b"new"}


@peers_with(kafka_python="test_context_manager_suppresses_autocommit_on_exception")
@PROTOCOLS
def test_an_exception_in_the_with_block_commits_nothing(broker, servers, filled_topic, protocol):
    def read_and_fail():
        with member_of(servers, filled_topic, protocol) as member:
            member.subscribe([filled_topic])
            read(broker, member, 12)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        read_and_fail()
    with member_of(servers, filled_topic, protocol) as member:
        assert member.committed(partitions_of(filled_topic)) == {}


@peers_with(
    java="testSubscriptionChangesWithAutoCommitDisabled",
    kafka_python="test_on_join_prepare_async_skips_auto_commit_when_disabled",
)
@PROTOCOLS
def test_without_auto_commit_close_commits_nothing(broker, servers, filled_topic, protocol):
    for _ in range(2):
        with member_of(servers, filled_topic, protocol, enable_auto_commit=False) as member:
            member.subscribe([filled_topic])
            assert len(read(broker, member, 12)) == 12


@peers_with(java="testSubscribeAndCommitSync", aiokafka="test_consumer_commit", kafka_python="test_commit_offsets_sync")
@PROTOCOLS
def test_commit_without_offsets_commits_the_positions(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol, enable_auto_commit=False) as member:
        member.subscribe([filled_topic])
        read(broker, member, 12)
        member.commit()
        committed_offsets = member.committed(partitions_of(filled_topic))
    assert {offset.offset for offset in committed_offsets.values()} == {4}
    assert len(committed_offsets) == 3


@peers_with(
    java="testCommitSpecifiedOffsets",
    aiokafka="test_consumer_commit",
    confluent="test_consumer_topicpartition_metadata",
)
@PROTOCOLS
def test_committing_one_partition_does_not_change_others(broker, servers, filled_topic, protocol):
    first = TopicPartition(filled_topic, 0)
    with member_of(servers, filled_topic, protocol, enable_auto_commit=False) as member:
        member.subscribe([filled_topic])
        read(broker, member, 12)
        member.commit({first: 2})
        assert {key: one.offset for key, one in member.committed(partitions_of(filled_topic)).items()} == {first: 2}


@peers_with(java="testAutoCommitIntercept", aiokafka="test_coordinator__maybe_do_autocommit")
def test_offsets_are_committed_while_a_member_polls(broker, servers, filled_topic):
    with member_of(servers, filled_topic, auto_commit_interval_ms=20) as member:
        member.subscribe([filled_topic])
        read(broker, member, 12)
        poll_until(broker, lambda: len(member.committed(partitions_of(filled_topic))) == 3, member)


@peers_with(
    java="testPatternSubscription", aiokafka="test_manual_subscribe_pattern", kafka_python="test_pattern_subscription"
)
@PROTOCOLS
def test_a_pattern_subscribes_to_whole_names(broker, servers, filled_topic, protocol):
    broker.create_topic(f"x-{filled_topic}")
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe(pattern=filled_topic[:-3] + ".*")
        read(broker, member, 12)
        assert {partition.topic for partition in member.assignment()} == {filled_topic}


@peers_with(java="testSubsequentPatternSubscription", aiokafka="test_consumer_rebalance_on_new_topic")
@PROTOCOLS
def test_a_pattern_matches_topics_that_are_created_later(broker, servers, topic, protocol):
    with member_of(servers, topic, protocol) as member:
        member.subscribe(pattern=f"{topic}.*")
        poll_until(broker, lambda: len(member.assignment()) == 3, member)
        broker.append(f"{topic}-later", [{"value": b"new"}])
        assert [record.value for record in read(broker, member, 1)] == [b"new"]


@peers_with(aiokafka="test_consumer_wait_topic", confluent="test_subscribe_before_topic_exists")
@PROTOCOLS
def test_a_subscribed_topic_may_be_created_later(broker, servers, topic, protocol):
    with member_of(servers, topic, protocol) as member:
        member.subscribe([f"{topic}-later"])
        assert member.poll(10) == []
        broker.append(f"{topic}-later", [{"value": b"new"}])
        assert [record.value for record in read(broker, member, 1)] == [b"new"]


@peers_with(
    java="testStaticConsumerDetectsNewPartitionCreatedAfterRestart", confluent="test_partition_increase_during_consume"
)
@PROTOCOLS
def test_new_partitions_of_a_topic_are_read(broker, servers, admin, topic, protocol):
    with member_of(servers, topic, protocol) as member:
        member.subscribe([topic])
        poll_until(broker, lambda: len(member.assignment()) == 3, member)
        admin.create_partitions({topic: 4})
        poll_until(broker, lambda: len(member.assignment()) == 4, member)


@peers_with(java="testExpandingTopicSubscriptions", confluent="test_resubscribe_to_different_topic")
@PROTOCOLS
def test_a_second_subscribe_replaces_the_topics(broker, servers, filled_topic, protocol):
    broker.append(f"{filled_topic}-other", [{"value": b"other"}])
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe([filled_topic])
        read(broker, member, 12)
        member.subscribe([f"{filled_topic}-other"])
        assert [record.value for record in read(broker, member, 1)] == [b"other"]
        assert member.assignment() == [TopicPartition(f"{filled_topic}-other", 0)]


@peers_with(
    java="testUnsubscribeTopic", aiokafka="test_consumer_fast_unsubscribe", confluent="test_unsubscribe_stops_delivery"
)
@PROTOCOLS
def test_unsubscribe_releases_every_partition(broker, servers, admin, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe([filled_topic])
        read(broker, member, 12)
        member.unsubscribe()
        assert member.assignment() == []
        assert member.poll(10) == []
        broker.wait_for(lambda: not admin.describe_group(filled_topic).members, timeout=30)


@peers_with(confluent="test_unsubscribe_without_subscription_is_noop", java="testUnsubscribeWithoutGroupId")
def test_unsubscribe_without_a_subscription_does_nothing(servers, topic):
    with member_of(servers, topic) as member:
        member.unsubscribe()


@peers_with(java="testSubscriptionOnNullTopicCollection", aiokafka="test_subscribe_errors", confluent="test_basic_api")
def test_subscribe_needs_topics_or_a_pattern(servers, topic):
    with member_of(servers, topic) as member:
        with pytest.raises(OptionError, match="topics or a pattern"):
            member.subscribe()
        with pytest.raises(OptionError, match="topics or a pattern"):
            member.subscribe([topic], pattern="a.*")


@peers_with(
    java="testGroupIdNull", confluent="test_constructor_requires_group_id", ours="subscribe raises, not the constructor"
)
def test_subscribe_without_a_group_is_rejected(servers, topic):
    with Consumer(servers) as consumer, pytest.raises(OptionError, match="group_id"):
        consumer.subscribe([topic])


@peers_with(java="testOperationsBySubscribingConsumerWithDefaultGroupId", aiokafka="test_subscribe_manual")
def test_assign_after_subscribe_is_rejected(servers, topic):
    with member_of(servers, topic) as member:
        member.subscribe([topic])
        with pytest.raises(OptionError, match="unsubscribe"):
            member.assign([TopicPartition(topic, 0)])


@peers_with(
    java="testListenerCallbacksInvoke", aiokafka="test_rebalance_listener_with_coroutines", confluent="test_basic_api"
)
@PROTOCOLS
def test_rebalance_callbacks_receive_the_partitions(broker, servers, filled_topic, protocol):
    calls = []
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe(
            [filled_topic],
            on_assign=lambda partitions: calls.append(("assign", sorted(partitions))),
            on_revoke=lambda partitions: calls.append(("revoke", sorted(partitions))),
        )
        read(broker, member, 12)
    assert calls == [("assign", partitions_of(filled_topic)), ("revoke", partitions_of(filled_topic))]


@peers_with(
    java="testSeekPositionAndPauseNewlyAssignedPartitionOnPartitionsAssignedCallback",
    confluent="test_incremental_assign",
)
@PROTOCOLS
def test_the_assignment_callback_can_seek(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe(
            [filled_topic], on_assign=lambda partitions: [member.seek(partition, 3) for partition in partitions]
        )
        assert {record.offset for record in read(broker, member, 3)} == {3}


@peers_with(java="testCommitInRebalanceCallback", kafka_python="test_on_join_prepare_async_invokes_sync_listener")
@PROTOCOLS
def test_the_revocation_callback_can_commit(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol, enable_auto_commit=False) as member:
        member.subscribe([filled_topic], on_revoke=lambda partitions: member.commit(dict.fromkeys(partitions, 2)))
        read(broker, member, 12)
    with member_of(servers, filled_topic, protocol) as member:
        assert {one.offset for one in member.committed(partitions_of(filled_topic)).values()} == {2}


@peers_with(
    java="testRebalanceException",
    kafka_python="test_on_join_complete_async_listener_exception_propagates",
    ours="on_assign is called again",
)
@PROTOCOLS
def test_an_exception_in_the_assignment_callback_reaches_the_caller(broker, servers, filled_topic, protocol):
    calls = []

    def on_assign(partitions):
        calls.append(partitions)
        if len(calls) == 1:
            raise ZeroDivisionError

    with member_of(servers, filled_topic, protocol) as member:
        member.subscribe([filled_topic], on_assign=on_assign)
        with pytest.raises(ZeroDivisionError):
            read(broker, member, 12)
        assert len(read(broker, member, 12)) == 12
    assert calls[0] == calls[1]


@peers_with(java="testCommitAsyncWithFencedException", aiokafka="test_commit_failed_scenarios")
def test_commit_by_a_consumer_that_is_not_a_member_is_rejected(servers, topic):
    with member_of(servers, topic) as member:
        member.subscribe([topic])
        with pytest.raises(BrokerError, match="not a member"):
            member.commit({TopicPartition(topic, 0): 1})


@peers_with(
    java="testGroupMetadataUpdate", kafka_python="test_group_metadata_after_join", confluent="test_consumer_memberid"
)
@PROTOCOLS
def test_group_metadata_names_the_member(broker, servers, filled_topic, protocol):
    with member_of(servers, filled_topic, protocol) as member:
        assert member.group_metadata() == (filled_topic, -1, "", None)
        member.subscribe([filled_topic])
        read(broker, member, 12)
        metadata = member.group_metadata()
        assert metadata.group_id == filled_topic
        assert metadata.member_id
        assert metadata.generation_id >= 1


@peers_with(
    java="testMultiConsumerRoundRobinAssignor",
    aiokafka="test_assignor_roundrobin",
    kafka_python="test_assignor_roundrobin",
)
@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_each_assignor_gives_every_partition_to_one_member(broker, servers, filled_topic, assignor):
    settings = {"partition_assignment_strategy": assignor}
    with member_of(servers, filled_topic, **settings) as one, member_of(servers, filled_topic, **settings) as two:
        one.subscribe([filled_topic])
        two.subscribe([filled_topic])
        poll_until(broker, lambda: {len(one.assignment()), len(two.assignment())} == {1, 2}, one, two)
        assert sorted([*one.assignment(), *two.assignment()]) == partitions_of(filled_topic)


@peers_with(kafka_python="test_lookup_assignor", ours="by the constructor")
def test_an_unknown_assignor_is_rejected(servers):
    with pytest.raises(OptionError, match="partition_assignment_strategy"):
        Consumer(servers, group_id="g", partition_assignment_strategy="fair")


@pytest.mark.kafka_4
@peers_with(java="testRemoteAssignorInvalid")
def test_an_unknown_remote_assignor_is_rejected(servers, topic):
    with member_of(servers, topic, "consumer", group_remote_assignor="fair") as member:
        member.subscribe([topic])
        with pytest.raises(BrokerError, match="UNSUPPORTED_ASSIGNOR"):
            member.poll(20_000)


@pytest.mark.kafka_4
@peers_with(java="testRemoteAssignorRange")
@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_a_remote_assignor_assigns_every_partition(broker, servers, filled_topic, assignor):
    with member_of(servers, filled_topic, "consumer", group_remote_assignor=assignor) as member:
        member.subscribe([filled_topic])
        assert len(read(broker, member, 12)) == 12


@peers_with(aiokafka="test_kip_345_enabled", java="testStaticConsumerDetectsNewPartitionCreatedAfterRestart")
@PROTOCOLS
def test_a_static_member_returns_with_its_instance_id(broker, servers, admin, filled_topic, protocol):
    for _ in range(2):
        with member_of(servers, filled_topic, protocol, group_instance_id="i") as member:
            member.subscribe([filled_topic])
            poll_until(broker, lambda: len(member.assignment()) == 3, member)
            assert member.group_metadata().group_instance_id == "i"
    assert len(admin.describe_group(filled_topic).members) <= 1


@peers_with(java="testGroupConsumption", confluent="test_independent_share_groups")
@PROTOCOLS
def test_two_groups_read_the_same_records(broker, servers, filled_topic, protocol):
    for group in (f"{filled_topic}-1", f"{filled_topic}-2"):
        with member_of(servers, group, protocol) as member:
            member.subscribe([filled_topic])
            assert len(read(broker, member, 12)) == 12
