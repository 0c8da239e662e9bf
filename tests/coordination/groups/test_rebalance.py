"""Classic groups: joining, syncing, heartbeats, leaving, static members, timeouts."""

import pytest
from tests.coordination.groups.support import SUBSCRIPTION, GroupBench, drain

from kafkaframes.coordination.groups.classic import VALID_PREVIOUS_STATES, ClassicGroup, GroupState, JoinResult
from kafkaframes.coordination.groups.ports import GroupSettings
from kafkaframes.coordination.groups.rebalance import LeavingMember
from kafkaframes.errors import ErrorCode


@pytest.fixture
def bench():
    return GroupBench()


def test_a_new_dynamic_member_gets_an_id_before_it_joins(bench):
    id_answer = drain(bench.join())
    assert (id_answer.error, id_answer.member_id) == (ErrorCode.MEMBER_ID_REQUIRED, "c-uuid0")
    answers = bench.join(id_answer.member_id)
    assert not answers  # the initial delay is 0, but the rebalance still ends by a timer, as in Kafka
    bench.clock.run_due()
    join_answer = drain(answers)
    assert join_answer.generation == 1
    assert (join_answer.leader, join_answer.protocol_name, join_answer.protocol_type) == (
        "c-uuid0",
        "range",
        "consumer",
    )
    assert [(member.member_id, member.metadata) for member in join_answer.members] == [("c-uuid0", SUBSCRIPTION)]
    sync_answer = drain(bench.sync(join_answer, {"c-uuid0": b"everything"}))
    assert (sync_answer.error, sync_answer.assignment, sync_answer.protocol_name) == (0, b"everything", "range")
    assert bench.group().state is GroupState.STABLE


def test_versions_before_member_id_required_join_at_once(bench):
    answers = bench.join(needs_member_id=False)
    bench.clock.run_due()
    assert drain(answers).member_id == "c-uuid0"


def test_a_foreign_member_id_is_unknown(bench):
    assert drain(bench.join("made-up")) == JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, "made-up")
    bench.new_id()  # the group exists now
    assert drain(bench.join("made-up")).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_an_unused_member_id_expires_after_the_session_timeout(bench):
    member_id = bench.new_id()
    bench.clock.advance(10.001)
    assert drain(bench.join(member_id)).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_second_member_triggers_a_rebalance_and_only_the_leader_gets_the_members(bench):
    first = bench.member()
    second_id = bench.new_id()
    second = bench.join(second_id)
    assert bench.coordinator.heartbeat("g", first.member_id, None, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    again = bench.join(first.member_id)
    leader, follower = drain(again), drain(second)
    assert leader.generation == follower.generation == 2
    assert leader.leader == follower.leader == first.member_id
    assert {member.member_id for member in leader.members} == {first.member_id, second_id}
    assert follower.members == ()
    waiting = bench.sync(follower)
    assert not waiting
    bench.sync(leader, {second_id: b"half"})
    assert drain(waiting).assignment == b"half"
    assert bench.group().members[first.member_id].assignment == b""


def test_a_member_that_does_not_rejoin_in_time_is_removed(bench):
    bench.member()
    first = next(iter(bench.group().members))
    late = bench.join(bench.new_id(), session_timeout_ms=100_000)
    for _ in range(8):  # the first member sends heartbeats, but does not rejoin
        bench.clock.advance(7)
        assert bench.coordinator.heartbeat("g", first, None, 1) == ErrorCode.REBALANCE_IN_PROGRESS
    assert not late
    bench.clock.advance(5)  # 61 s have passed, and the rebalance timeout is 60 s
    join_answer = drain(late)
    assert join_answer.generation == 2
    assert join_answer.leader == join_answer.member_id
    assert first not in bench.group().members


def test_a_member_without_heartbeats_is_removed_and_the_empty_group_is_stored(bench):
    join_answer = bench.member()
    bench.clock.advance(9)
    assert bench.coordinator.heartbeat("g", join_answer.member_id, None, 1) == ErrorCode.NONE
    bench.clock.advance(9)
    assert bench.group().state is GroupState.STABLE
    bench.clock.advance(2)
    assert bench.group().state is GroupState.EMPTY
    assert bench.group().generation == 2
    bench.restart()
    assert bench.group().state is GroupState.EMPTY
    assert bench.group().generation == 2


def test_a_joining_member_stays_until_the_rebalance_timeout_of_the_others(bench):
    bench.member(session_timeout_ms=120_000)
    late = bench.join(bench.new_id())
    # longer than its session timeout of 10 s: a member that waits for its JoinGroup response cannot send heartbeats
    bench.clock.advance(59)
    assert not late
    bench.clock.advance(1)
    assert drain(late).generation == 2


def test_a_member_that_joins_without_a_sync_is_removed_after_the_rebalance_timeout(bench):
    answers = bench.join(bench.new_id(session_timeout_ms=1_800_000), session_timeout_ms=1_800_000)
    bench.clock.run_due()
    assert drain(answers).generation == 1
    bench.clock.advance(60)
    assert bench.group().state is GroupState.EMPTY


def test_a_join_during_the_sync_phase_starts_another_rebalance(bench):
    first = bench.member()
    second = bench.join(bench.new_id())
    drain(bench.join(first.member_id))
    waiting = bench.sync(drain(second))
    bench.join(bench.new_id())
    assert drain(waiting).error == ErrorCode.REBALANCE_IN_PROGRESS
    assert drain(bench.sync(drain(second))).error == ErrorCode.REBALANCE_IN_PROGRESS


def test_a_follower_that_rejoins_unchanged_gets_the_current_generation(bench):
    bench.member()
    follower = bench.member()
    again = drain(bench.join(follower.member_id))
    assert (again.generation, again.members) == (follower.generation, ())
    assert bench.group().state is GroupState.STABLE


def test_a_changed_subscription_triggers_a_rebalance(bench):
    leader = bench.member()
    follower = bench.member()
    answers = bench.join(follower.member_id, protocols=(("range", SUBSCRIPTION[:-4] + b"\0\0\0\0"),))
    assert not answers
    assert bench.group().state is GroupState.PREPARING_REBALANCE
    bench.join(leader.member_id)
    assert drain(answers).generation == follower.generation + 1


def test_a_rejoin_of_the_leader_triggers_a_rebalance(bench):
    leader = bench.member()
    assert drain(bench.join(leader.member_id)).generation == 2


def test_requests_of_another_generation_or_member_are_rejected(bench):
    join_answer = bench.member()
    assert drain(bench.sync(join_answer, generation=7)).error == ErrorCode.ILLEGAL_GENERATION
    assert drain(bench.sync(join_answer, member_id="x")).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert drain(bench.sync(join_answer, group_id="h")).error == ErrorCode.UNKNOWN_MEMBER_ID
    assert drain(bench.sync(join_answer, group_id="")).error == ErrorCode.INVALID_GROUP_ID
    assert drain(bench.sync(join_answer, protocol_name="roundrobin")).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert drain(bench.sync(join_answer, protocol_type="connect")).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    heartbeat = bench.coordinator.heartbeat
    assert heartbeat("g", join_answer.member_id, None, 7) == ErrorCode.ILLEGAL_GENERATION
    assert heartbeat("g", "x", None, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat("h", join_answer.member_id, None, 1) == ErrorCode.UNKNOWN_MEMBER_ID
    assert heartbeat("", join_answer.member_id, None, 1) == ErrorCode.INVALID_GROUP_ID


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"group_id": ""}, ErrorCode.INVALID_GROUP_ID),
        ({"session_timeout_ms": 5_999}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"session_timeout_ms": 1_800_001}, ErrorCode.INVALID_SESSION_TIMEOUT),
        ({"protocol_type": ""}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
        ({"protocols": ()}, ErrorCode.INCONSISTENT_GROUP_PROTOCOL),
    ],
)
def test_invalid_joins_are_rejected(bench, changes, error):
    assert drain(bench.join(**changes)).error == error


def test_a_member_without_a_common_protocol_is_rejected(bench):
    bench.member()
    assert drain(bench.join(protocols=(("sticky", b""),))).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert drain(bench.join(protocol_type="connect")).error == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_the_common_protocol_with_most_votes_is_used(bench):
    def join_members(*names):
        return bench.member(protocols=tuple((name, SUBSCRIPTION) for name in names))

    join_members("sticky", "range", "roundrobin")
    group = bench.group()
    member_ids = list(group.members)
    ids = [bench.new_id(protocols=(("range", SUBSCRIPTION),)) for _ in range(2)]
    answers = [
        bench.join(ids[0], protocols=(("range", SUBSCRIPTION), ("roundrobin", SUBSCRIPTION))),
        bench.join(ids[1], protocols=(("range", SUBSCRIPTION), ("sticky", SUBSCRIPTION))),
    ]
    bench.join(member_ids[0], protocols=tuple((name, SUBSCRIPTION) for name in ("sticky", "range", "roundrobin")))
    assert {drain(answer).protocol_name for answer in answers} == {"range"}


def test_a_full_group_rejects_further_members():
    bench = GroupBench(GroupSettings(max_size=1))
    join_answer = bench.member()
    assert drain(bench.join()).error == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert drain(bench.join(join_answer.member_id)).error == ErrorCode.NONE  # existing members stay


def test_a_leaving_member_triggers_a_rebalance(bench):
    first = bench.member()
    second = bench.member()
    assert bench.coordinator.leave("g", [LeavingMember(second.member_id), LeavingMember("x")]) == [
        0,
        ErrorCode.UNKNOWN_MEMBER_ID,
    ]
    assert bench.group().state is GroupState.PREPARING_REBALANCE
    assert drain(bench.join(first.member_id)).generation == 3
    assert bench.coordinator.leave("h", [LeavingMember("x")]) == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_an_assigned_member_id_can_leave_before_it_joins(bench):
    bench.member()
    member_id = bench.new_id()
    assert bench.coordinator.leave("g", [LeavingMember(member_id)]) == [ErrorCode.NONE]
    assert drain(bench.join(member_id)).error == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_static_member_returns_without_a_rebalance(bench):
    first = bench.member(instance_id="a")
    second = bench.member(instance_id="b")
    assert first.member_id.startswith("a-")
    assert bench.group().generation == 2
    rejoin_answer = drain(bench.join(instance_id="b"))
    assert (rejoin_answer.error, rejoin_answer.generation, rejoin_answer.skip_assignment) == (0, 2, False)
    assert rejoin_answer.member_id != second.member_id
    assert bench.group().state is GroupState.STABLE
    assert drain(bench.sync(rejoin_answer, instance_id="b")).assignment == second.member_id.encode()
    fenced_code = bench.coordinator.heartbeat("g", second.member_id, "b", 2)
    assert fenced_code == ErrorCode.FENCED_INSTANCE_ID
    assert bench.coordinator.heartbeat("g", rejoin_answer.member_id, "b", 2) == ErrorCode.NONE
    bench.restart()
    assert bench.group().static_members["b"] == rejoin_answer.member_id


@pytest.mark.parametrize("skips", [True, False])
def test_a_static_leader_that_returns_computes_no_assignment(bench, skips):
    first = bench.member(instance_id="a")
    rejoin_answer = drain(bench.join(instance_id="a", may_skip_assignment=skips))
    assert rejoin_answer.skip_assignment is skips
    if skips:
        assert (rejoin_answer.leader, [member.instance_id for member in rejoin_answer.members]) == (
            rejoin_answer.member_id,
            ["a"],
        )
    else:  # an older client must not believe that it is the leader
        assert (rejoin_answer.leader, rejoin_answer.members) == (first.member_id, ())


def test_a_static_member_with_another_protocol_triggers_a_rebalance(bench):
    bench.member(instance_id="a")
    answers = bench.join(instance_id="a", protocols=(("sticky", SUBSCRIPTION), ("range", SUBSCRIPTION)))
    assert drain(answers).generation == 2


def test_a_static_member_is_removed_only_by_its_session_timeout(bench):
    first = bench.member(instance_id="a")
    second = bench.join(bench.new_id())
    bench.clock.advance(8)
    bench.coordinator.heartbeat("g", first.member_id, "a", 1)
    bench.clock.advance(8)
    assert not second
    assert bench.group().members[first.member_id].instance_id == "a"
    bench.clock.advance(3)
    assert drain(second).generation == 2
    assert first.member_id not in bench.group().members


def test_an_administrator_removes_a_static_member_by_its_instance_id(bench):
    bench.member(instance_id="a")
    leave = bench.coordinator.leave
    assert leave("g", [LeavingMember("", "zz"), LeavingMember("x", "a")]) == [
        ErrorCode.UNKNOWN_MEMBER_ID,
        ErrorCode.FENCED_INSTANCE_ID,
    ]
    assert leave("g", [LeavingMember("", "a")]) == [ErrorCode.NONE]
    assert bench.group().state is GroupState.EMPTY


def test_the_initial_delay_is_extended_while_members_join():
    bench = GroupBench(GroupSettings(initial_rebalance_delay_ms=3_000))
    first = bench.join(bench.new_id())
    second_id = bench.new_id()
    bench.clock.advance(2)
    second = bench.join(second_id)
    bench.clock.advance(2)
    assert not first
    bench.clock.advance(2)
    assert drain(first).generation == drain(second).generation == 1


def test_a_failed_append_ends_the_generation_but_not_the_group(bench):
    answers = bench.join(bench.new_id())
    bench.clock.run_due()
    join_answer = drain(answers)
    bench.log.is_broken = True
    assert drain(bench.sync(join_answer, {})).error == ErrorCode.COORDINATOR_NOT_AVAILABLE
    bench.log.is_broken = False
    again = drain(bench.join(join_answer.member_id))
    assert again.generation == 2
    assert drain(bench.sync(again, {again.member_id: b"x"})).assignment == b"x"


def test_a_group_survives_a_restart_with_its_members(bench):
    first = bench.member(instance_id="a")
    second = bench.member()
    bench.restart()
    group = bench.group()
    assert (group.state, group.generation, group.leader, group.protocol_name) == (
        GroupState.STABLE,
        2,
        first.member_id,
        "range",
    )
    assert bench.coordinator.heartbeat("g", second.member_id, None, 2) == ErrorCode.NONE
    assert drain(bench.sync(second)).assignment == second.member_id.encode()
    bench.clock.advance(11)
    assert not bench.group().members


def test_every_group_state_has_its_valid_predecessors():
    assert set(VALID_PREVIOUS_STATES) == set(GroupState)
    with pytest.raises(AssertionError):
        ClassicGroup("g").transition_to(GroupState.STABLE, 0)


def test_a_group_without_members_completes_its_rebalance_with_any_protocol_of_its_type():
    """As in ClassicGroup.supportsProtocols, when all members have left before the rebalance is complete."""
    group = ClassicGroup("g")
    group.state, group.protocol_type = GroupState.PREPARING_REBALANCE, "consumer"
    assert group.supports_protocols("consumer", (("range", b""),))
    assert not group.supports_protocols("consumer", ())
    assert not group.supports_protocols("connect", (("range", b""),))
