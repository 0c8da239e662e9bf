"""Groups whose members change protocol (KIP-848): classic members in a consumer group, upgrades and downgrades."""

from __future__ import annotations

import pytest
from tests.coordination.groups.support import GROUP_SETTINGS, GroupBench

from kafkaframes.coordination.groups.classic import ClassicGroup
from kafkaframes.coordination.groups.commits import OffsetToCommit
from kafkaframes.coordination.groups.consumer import NO_PARTITIONS, ConsumerGroup
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatRequest
from kafkaframes.coordination.groups.ports import GroupSettings, OffsetClient
from kafkaframes.coordination.groups.rebalance import LeavingMember, SyncRequest
from kafkaframes.coordination.groups.subscriptions import read_assignment, read_subscription, write_assignment
from kafkaframes.errors import DecodeError, ErrorCode, OptionError, RefusedError
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.names import TopicPartition

ALL_PARTITIONS = [TopicPartition("orders", index) for index in range(4)]


def subscription(owned_partitions=(), version=1):
    subscription_type = message("ConsumerProtocolSubscription")
    rows = (
        [
            subscription_type.TopicPartition(
                topic="orders", partitions=[partition.partition for partition in owned_partitions]
            )
        ]
        if owned_partitions
        else []
    )
    fields = {"owned_partitions": rows} if version else {}
    data = subscription_type(topics=["orders"], user_data=None, **fields).encode(version)
    return version.to_bytes(2, "big") + data


@pytest.fixture
def bench():
    bench = GroupBench()
    bench.topics.add("orders", 4)
    return bench


def classic_member(bench, name="c", owned_partitions=(), member_id="", version=1, **changes):
    """Add a member that joins and syncs as a consumer of the classic protocol does. Return both responses."""
    protocols = (("cooperative-sticky", subscription(owned_partitions, version)),)
    join_answer = join(bench, member_id, client_id=name, protocols=protocols, **changes)
    if join_answer.error == ErrorCode.MEMBER_ID_REQUIRED:
        join_answer = join(bench, join_answer.member_id, client_id=name, protocols=protocols, **changes)
    return join_answer


def join(bench, member_id="", **changes):
    """Send a JoinGroup, and advance the clock until the rebalance delay has passed."""
    answers = bench.join(member_id, **changes)
    bench.clock.run_due()
    return answers[0]


def sync(bench, join_answer, assignments=None):
    answers = []
    request = SyncRequest(
        "g",
        join_answer.generation,
        join_answer.member_id,
        None,
        assignments or {},
        "consumer",
        join_answer.protocol_name,
    )
    bench.coordinator.sync(request, answers.append)
    return answers[0]


def group_of_one_member(bench):
    """Create a classic group with one member that owns all partitions; return its JoinGroup answer."""
    join_answer = classic_member(bench)
    assert sync(bench, join_answer, {join_answer.member_id: write_assignment(ALL_PARTITIONS, 1)}).error == 0
    return join_answer


def send_heartbeat(bench, member_id="m", epoch=0, **changes):
    fields = {}
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "topics": ["orders"], "owned_partitions": NO_PARTITIONS}
    return bench.coordinator.handle_consumer_heartbeat(HeartbeatRequest("g", member_id, epoch, **fields | changes))


def send_classic_heartbeat(bench, join_answer):
    try:
        return bench.coordinator.heartbeat("g", join_answer.member_id, None, join_answer.generation)
    except RefusedError as error:
        return error.code


def upgrade_group(bench):
    """Create a group whose classic member has revoked half of its partitions for a new consumer protocol member."""
    old = group_of_one_member(bench)
    young = send_heartbeat(bench)
    assert send_classic_heartbeat(bench, old) == ErrorCode.REBALANCE_IN_PROGRESS
    again = classic_member(bench, member_id=old.member_id, owned_partitions=ALL_PARTITIONS)
    kept_partitions = read_assignment(sync(bench, again).assignment)
    assert (again.generation, len(kept_partitions)) == (old.generation, 2)
    again = classic_member(bench, member_id=old.member_id, owned_partitions=kept_partitions)
    assert read_assignment(sync(bench, again).assignment) == kept_partitions
    last_heartbeat = send_heartbeat(bench, epoch=young.epoch, owned_partitions=NO_PARTITIONS)
    return again, kept_partitions, last_heartbeat


def test_after_an_upgrade_the_old_member_owns_its_partitions_until_it_revokes_them(bench):
    old = group_of_one_member(bench)
    young = send_heartbeat(bench)
    assert isinstance(bench.group(), ConsumerGroup)
    assert (young.epoch, young.assignment) == (old.generation + 1, NO_PARTITIONS)
    assert bench.group().members[old.member_id].classic.session_timeout_ms == 10_000
    assert {group.type for group in bench.coordinator.list_groups()} == {"consumer"}


def test_members_of_both_protocols_share_the_partitions(bench):
    again, kept_partitions, last_heartbeat = upgrade_group(bench)
    assert len(last_heartbeat.assignment) == 2
    assert {index for _, index in last_heartbeat.assignment} == {0, 1, 2, 3} - {
        partition.partition for partition in kept_partitions
    }
    assert send_classic_heartbeat(bench, again) == 0
    assert bench.group().state_name == "Stable"


def test_the_group_is_downgraded_when_its_last_consumer_protocol_member_leaves(bench):
    again, kept_partitions, _ = upgrade_group(bench)
    send_heartbeat(bench, epoch=-1)
    group = bench.group()
    assert (type(group), group.state_name, list(group.members)) == (
        ClassicGroup, "PreparingRebalance", [again.member_id]
    )  # fmt: skip
    assert read_assignment(group.members[again.member_id].assignment) == kept_partitions
    assert send_classic_heartbeat(bench, again) == ErrorCode.REBALANCE_IN_PROGRESS
    join_answer = classic_member(bench, member_id=again.member_id, owned_partitions=kept_partitions)
    assert join_answer.leader == join_answer.member_id
    assert sync(bench, join_answer, {join_answer.member_id: write_assignment(ALL_PARTITIONS, 1)}).error == 0
    assert send_classic_heartbeat(bench, join_answer) == 0


def test_a_session_timeout_also_downgrades_the_group(bench):
    again, _, _ = upgrade_group(bench)
    for _ in range(10):
        bench.clock.advance(9)
        if send_classic_heartbeat(bench, again) == ErrorCode.REBALANCE_IN_PROGRESS:
            break
    assert isinstance(bench.group(), ClassicGroup)


@pytest.mark.parametrize("policy", ["disabled", "downgrade"])
def test_a_migration_policy_forbids_upgrades(policy):
    bench = GroupBench(settings=GroupSettings(consumer_migration_policy=policy))
    bench.topics.add("orders", 4)
    group_of_one_member(bench)
    with pytest.raises(RefusedError) as caught:
        send_heartbeat(bench)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_migration_policy_forbids_downgrades():
    bench = GroupBench(settings=GroupSettings(consumer_migration_policy="upgrade"))
    bench.topics.add("orders", 4)
    again, _, _ = upgrade_group(bench)
    send_heartbeat(bench, epoch=-1)
    assert isinstance(bench.group(), ConsumerGroup)
    assert send_classic_heartbeat(bench, again) == ErrorCode.REBALANCE_IN_PROGRESS
    join_answer = classic_member(bench, member_id=again.member_id)
    assert len(read_assignment(sync(bench, join_answer).assignment)) == 4


@pytest.mark.parametrize("instance_id", [None, "i", "another"])
def test_no_classic_member_joins_a_consumer_group_while_migration_is_disabled(instance_id):
    """As in Kafka 4.3.1's testClassicMemberJoinToConsumerGroupWithDisabledMigrationPolicy, the first response is not
    MEMBER_ID_REQUIRED.
    """
    bench = GroupBench(settings=GroupSettings(consumer_migration_policy="disabled"))
    bench.topics.add("orders", 4)
    send_heartbeat(bench, instance_id="i")
    refusal = join(bench, protocols=(("range", subscription()),), instance_id=instance_id)
    assert (refusal.error, refusal.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert list(bench.group().members) == ["m"]


def test_a_classic_member_waits_for_the_assignment_interval(bench, monkeypatch):
    """As in Kafka 4.3.1's ConsumerProtocolMigrationTest.testDowngradeMigrationPolicy, the member is in generation 2
    without partitions, not in generation 3.
    """
    monkeypatch.setitem(GROUP_SETTINGS, "consumer.assignment.interval.ms", 1_000)
    first = send_heartbeat(bench)
    join_answer = classic_member(bench)
    assert join_answer.generation == first.epoch
    answer = sync(bench, join_answer)
    assert (answer.error, read_assignment(answer.assignment)) == (0, frozenset())
    assert send_classic_heartbeat(bench, join_answer) == 0
    bench.clock.advance(1)
    first_answer = send_heartbeat(bench, epoch=first.epoch)  # the member must revoke half of its partitions
    assert (len(first_answer.assignment), send_classic_heartbeat(bench, join_answer)) == (
        2,
        ErrorCode.REBALANCE_IN_PROGRESS,
    )
    assert sync(bench, join_answer).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert classic_member(bench, member_id=join_answer.member_id).generation == join_answer.generation + 1


def test_classic_members_are_assigned_once_after_the_assignment_interval(monkeypatch):
    """Kafka computes the assignment at the next heartbeat of a consumer protocol member, which may never arrive."""
    monkeypatch.setitem(GROUP_SETTINGS, "consumer.assignment.interval.ms", 1_000)
    bench = GroupBench(settings=GroupSettings(consumer_migration_policy="upgrade"))
    bench.topics.add("orders", 4)
    send_heartbeat(bench)
    join_answer = classic_member(bench)
    send_heartbeat(bench, epoch=-1)
    assert (sync(bench, join_answer).error, send_classic_heartbeat(bench, join_answer)) == (0, 0)
    bench.clock.advance(1)
    assert send_classic_heartbeat(bench, join_answer) == ErrorCode.REBALANCE_IN_PROGRESS
    again = classic_member(bench, member_id=join_answer.member_id)
    assert sorted(read_assignment(sync(bench, again).assignment)) == ALL_PARTITIONS
    assert send_classic_heartbeat(bench, again) == 0


def test_a_group_with_a_custom_assignor_is_not_upgraded(bench):
    """As in Kafka 4.3.1's testOnlineMigrationWithNonEmptyUserDataInAssignment: user data would be lost."""
    assignment_type = message("ConsumerProtocolAssignment")
    rows = [assignment_type.TopicPartition(topic="orders", partitions=[0, 1, 2, 3])]
    assignment = b"\0\1" + assignment_type(assigned_partitions=rows, user_data=b"\0").encode(1)
    join_answer = classic_member(bench)
    assert sync(bench, join_answer, {join_answer.member_id: assignment}).error == 0
    with pytest.raises(RefusedError, match=r"Cannot upgrade classic group g .* custom assignor is in use") as caught:
        send_heartbeat(bench)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND
    assert (bench.group().type, bench.group().state_name, send_classic_heartbeat(bench, join_answer)) == (
        "classic",
        "Stable",
        0,
    )
    bench.coordinator.leave("g", [LeavingMember(join_answer.member_id)])
    assert send_heartbeat(bench).epoch > 0
    assert isinstance(bench.group(), ConsumerGroup)


def test_only_groups_of_consumers_are_upgraded(bench):
    join_answer = join(bench, protocol_type="connect", protocols=(("v1", b"anything"),))
    join_answer = join(bench, join_answer.member_id, protocol_type="connect", protocols=(("v1", b"anything"),))
    assert join_answer.error == 0
    with pytest.raises(RefusedError) as caught:
        send_heartbeat(bench)
    assert caught.value.code == ErrorCode.GROUP_ID_NOT_FOUND


def test_a_classic_member_joins_a_consumer_group(bench):
    first = send_heartbeat(bench)
    join_answer = classic_member(bench)
    assert (join_answer.error, join_answer.leader, join_answer.members) == (0, "", ())
    assert sync(bench, join_answer).error == 0
    answer = send_heartbeat(bench, epoch=first.epoch, owned_partitions=first.assignment)
    send_heartbeat(bench, epoch=answer.epoch, owned_partitions=answer.assignment)
    # the partition that the member waits for is free
    assert send_classic_heartbeat(bench, join_answer) == ErrorCode.REBALANCE_IN_PROGRESS
    again = classic_member(bench, member_id=join_answer.member_id)
    assert len(read_assignment(sync(bench, again).assignment)) == 2
    assert send_classic_heartbeat(bench, again) == 0


def test_a_join_without_a_common_protocol_is_rejected(bench):
    send_heartbeat(bench)
    assert join(bench, protocol_type="connect").error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    wrong = join(bench, protocols=(("range", b"\xff"),), needs_member_id=False)
    assert (wrong.error, wrong.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    classic_member(bench)
    assert join(bench, protocols=(("roundrobin", subscription()),)).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_unknown_generations_and_members_are_rejected(bench):
    again, _, last_heartbeat = upgrade_group(bench)
    assert send_classic_heartbeat(bench, again._replace(generation=99)) == ErrorCode.ILLEGAL_GENERATION
    assert send_classic_heartbeat(bench, again._replace(member_id="nobody")) == ErrorCode.UNKNOWN_MEMBER_ID
    assert (
        send_classic_heartbeat(bench, again._replace(member_id="m", generation=last_heartbeat.epoch))
        == ErrorCode.UNKNOWN_MEMBER_ID
    )
    assert sync(bench, again._replace(generation=99)).error == ErrorCode.ILLEGAL_GENERATION
    assert sync(bench, again._replace(protocol_name="range")).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    offsets = {ALL_PARTITIONS[0]: OffsetToCommit(5)}
    client = OffsetClient("g", again.member_id, None, again.generation, supports_epoch_errors=False)
    assert bench.coordinator.commit(client, offsets) == {ALL_PARTITIONS[0]: 0}
    with pytest.raises(RefusedError) as caught:
        bench.coordinator.commit(client._replace(generation=99), offsets)
    assert caught.value.code == ErrorCode.ILLEGAL_GENERATION


def test_classic_members_leave_and_time_out(bench):
    again, _, _ = upgrade_group(bench)
    leavers = [LeavingMember(again.member_id), LeavingMember("nobody")]
    epoch = bench.group().epoch
    assert bench.coordinator.leave("g", leavers) == [0, ErrorCode.UNKNOWN_MEMBER_ID]
    assert bench.group().epoch == epoch + 1
    other = classic_member(bench, "other")
    assert other.error == 0
    bench.clock.advance(11)  # the session timeout of the classic protocol
    assert list(bench.group().members) == ["m"]


def test_one_request_removes_members_of_both_protocols(bench):
    again, _, _ = upgrade_group(bench)
    epoch = bench.group().epoch
    assert bench.coordinator.leave("g", [LeavingMember("m"), LeavingMember(again.member_id), LeavingMember("m")]) == [
        0,
        0,
        0,
    ]
    assert (bench.group().is_empty, bench.group().epoch) == (True, epoch + 1)


def test_a_member_that_does_not_rejoin_is_removed(bench):
    old = group_of_one_member(bench)
    young = send_heartbeat(bench)
    for _ in range(8):
        bench.clock.advance(9)
        assert send_classic_heartbeat(bench, old) in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.UNKNOWN_MEMBER_ID)
        young = send_heartbeat(bench, epoch=young.epoch, owned_partitions=young.assignment)
    assert list(bench.group().members) == ["m"]
    assert len(bench.group().members["m"].assignment) == 4


def test_a_static_member_returns_with_the_other_protocol(bench):
    protocols = (("cooperative-sticky", subscription()),)
    join_answer = join(bench, instance_id="i", protocols=protocols)
    request = SyncRequest(
        "g",
        join_answer.generation,
        join_answer.member_id,
        "i",
        {join_answer.member_id: write_assignment(ALL_PARTITIONS, 1)},
    )
    bench.coordinator.sync(request, [].append)
    young = send_heartbeat(bench, instance_id="i")
    assert (isinstance(bench.group(), ConsumerGroup), list(bench.group().members)) == (True, ["m"])
    assert len(young.assignment) == 4
    rejoin_answer = join(bench, instance_id="i", protocols=protocols)
    assert rejoin_answer.error == 0
    assert isinstance(bench.group(), ClassicGroup)
    assert list(bench.group().static_members) == ["i"]


def test_members_keep_their_protocol_after_a_restart(bench):
    again, _, _ = upgrade_group(bench)
    before = bench.group()
    bench.restart()
    after = bench.group()
    assert (after.members, after.targets, after.epoch) == (before.members, before.targets, before.epoch)
    assert send_classic_heartbeat(bench, again) == 0
    send_heartbeat(bench, epoch=-1)
    bench.restart()
    assert (type(bench.group()), list(bench.group().members)) == (ClassicGroup, [again.member_id])


def test_a_failed_append_changes_nothing(bench):
    old = group_of_one_member(bench)
    bench.log.is_broken = True
    with pytest.raises(Exception, match="disk is full"):
        send_heartbeat(bench)
    bench.log.is_broken = False
    assert isinstance(bench.group(), ClassicGroup)
    assert send_classic_heartbeat(bench, old) == 0


def test_eager_members_report_no_owned_partitions(bench):
    old = group_of_one_member(bench)
    send_heartbeat(bench)
    again = classic_member(bench, member_id=old.member_id, version=0)
    assert len(read_assignment(sync(bench, again).assignment)) == 2
    assert send_heartbeat(bench, epoch=2, owned_partitions=NO_PARTITIONS).assignment is not None


def test_consumer_metadata_is_decoded_and_encoded():
    subscription_read = read_subscription(subscription(ALL_PARTITIONS[:2]))
    assert (subscription_read.version, subscription_read.topics, subscription_read.owned_partitions) == (
        1,
        ("orders",),
        frozenset(ALL_PARTITIONS[:2]),
    )
    for version in range(4):
        assert read_assignment(write_assignment(ALL_PARTITIONS, version)) == frozenset(ALL_PARTITIONS)
    newer = b"\x00\x63" + message("ConsumerProtocolSubscription")(topics=["a"], user_data=None).encode(3)
    assert read_subscription(newer).version == 3
    for wrong in (b"", b"\x00", b"\xff\xff\x00", b"\x00\x01\x00\x00\x00\x09"):
        with pytest.raises(DecodeError):
            read_subscription(wrong)


def test_a_migration_policy_has_four_values():
    text = {"group.consumer.migration.policy": "UPGRADE"}
    assert GroupSettings.from_config(lambda key: text.get(key, "")).consumer_migration_policy == "upgrade"
    with pytest.raises(OptionError):
        GroupSettings.from_config(lambda key: "sometimes" if key == "group.consumer.migration.policy" else "")
