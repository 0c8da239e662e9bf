"""Single cases of the consumer's state machine, each for one rule that random schedules rarely reach.

``tests/client/test_consumer_machine.py`` runs them, and ``consumer_mutants.py`` shows that each detects a broken rule.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from tests.soak.consumer_schedules import FetchedRecords, member_settings

from kafkaframes.client.assignors import MemberSubscription
from kafkaframes.client.consumer_machine import CallbackKind, ConsumerMachine
from kafkaframes.client.group_offsets import CommittedOffset
from kafkaframes.client.group_requests import (
    ConsumerHeartbeat,
    ConsumerHeartbeatResponse,
    FetchCommittedOffsets,
    FetchEpochEnds,
    FetchMetadata,
    FetchRecords,
    Heartbeat,
    JoinGroup,
    JoinGroupResponse,
    LeaveGroup,
    ListOffsets,
    SyncGroup,
)
from kafkaframes.client.metadata import Cluster, Node, PartitionMetadata, TopicMetadata, TopicPartition
from kafkaframes.client.offsets import OffsetAndTimestamp
from kafkaframes.client.positions import Ownership, PartitionFetchResponse, PartitionStep
from kafkaframes.errors import AuthorizationError, ErrorCode, NetworkError, to_broker_error

ONE, TWO = TopicPartition("t", 0), TopicPartition("t", 1)


def add_topic(cluster: Cluster, size: int, *, topic_id: int = 7, epoch: int = 0) -> None:
    partitions = {number: PartitionMetadata(number, 1, epoch, (), (), ErrorCode.NONE) for number in range(size)}
    cluster.topics["t"] = TopicMetadata("t", UUID(int=topic_id), False, partitions, ErrorCode.NONE)


def create_machine(kind: str, instance: str | None = None, reset: str = "earliest") -> ConsumerMachine:
    cluster = Cluster(brokers={1: Node(1, "a", 1)})
    add_topic(cluster, 2)
    machine = ConsumerMachine(
        member_settings(kind, reset, instance), cluster, backoff_s=lambda _: 0.1, new_id=lambda: "me", now_ms=lambda: 0
    )
    machine.subscribe(["t"], None, 0.0)
    machine.process_poll(0.0)
    return machine


def answer_request(machine: ConsumerMachine, kind: type, value: object, now: float = 0.0) -> object:
    """Answer the pending request of a kind, and a simultaneous lookup of the subscribed topics. Return the request."""
    requests = machine.next_requests(now)
    (request,) = [one for one in requests if isinstance(one, kind)]
    for lookup in requests:
        if isinstance(lookup, FetchMetadata) and lookup is not request:
            machine.process_response(lookup, None, now)
    machine.process_response(request, value, now)
    return request


def join(machine: ConsumerMachine, partitions: list[TopicPartition], now: float = 0.0) -> None:
    answer_request(machine, JoinGroup, JoinGroupResponse("me", 1, "cooperative-sticky"), now)
    answer_request(machine, SyncGroup, partitions, now)


def deliver_assignment(machine: ConsumerMachine, now: float = 0.0) -> None:
    for state in machine.positions.states.values():
        if not state.has_offset:
            state.move_position(PartitionStep.FETCH, 0)
    callback = machine.next_callback()
    assert callback is not None
    assert callback.kind is CallbackKind.ASSIGN
    machine.begin_callback(callback)
    machine.end_callback(callback, now)


def requests_of_kind(machine: ConsumerMachine, kind: type, now: float) -> list[Any]:
    """Return the pending requests of a kind."""
    return [request for request in machine.next_requests(now) if isinstance(request, kind)]


def begin_callback(machine: ConsumerMachine, kind: CallbackKind) -> Any:
    callback = machine.next_callback()
    assert callback is not None
    assert callback.kind is kind
    machine.begin_callback(callback)
    return callback


def create_owner(kind: str) -> ConsumerMachine:
    """Return a machine that owns both partitions and has a position in each."""
    machine = create_machine(kind)
    if kind == "consumer":
        assignment = ((UUID(int=7), (0, 1)),)
        answer_request(machine, ConsumerHeartbeat, ConsumerHeartbeatResponse("me", 1, 1.0, assignment))
    else:
        join(machine, [ONE, TWO])
    deliver_assignment(machine)
    return machine


def fetch(machine: ConsumerMachine, now: float) -> Any:
    """Send the pending Fetch."""
    (request,) = requests_of_kind(machine, FetchRecords, now)
    return request


def check_that_a_revocation_during_a_join_triggers_another_join() -> None:
    """The JoinGroup has claimed the partition, so the leader does not assign it to another member."""
    machine = create_machine("cooperative")
    join(machine, [ONE, TWO])
    deliver_assignment(machine)
    machine.set_target({ONE: UUID(int=0)})
    machine.member.process_subscription_change(1.0)
    claim = next(request for request in machine.next_requests(1.0) if isinstance(request, JoinGroup))
    assert claim.owned_partitions == (ONE, TWO)
    callback = machine.next_callback()
    assert callback == (CallbackKind.REVOKE, (TWO,))
    machine.begin_callback(callback)
    machine.end_callback(callback, 1.0)
    machine.process_response(claim, JoinGroupResponse("me", 2, "cooperative-sticky"), 1.0)
    again = next(request for request in machine.next_requests(1.0) if isinstance(request, JoinGroup))
    assert again.owned_partitions == (ONE,)


def check_that_partitions_outside_a_join_are_not_taken_over() -> None:
    """The leader may assign them to another member immediately."""
    machine = create_machine("cooperative")
    join(machine, [ONE, TWO])
    for state in machine.positions.states.values():
        state.move_position(PartitionStep.FETCH, 0)
    machine.member.process_subscription_change(1.0)
    assert [request.owned_partitions for request in machine.next_requests(1.0) if isinstance(request, JoinGroup)] == [
        ()
    ]
    assert machine.next_callback() is None


def check_that_partitions_outside_a_heartbeat_are_not_taken_over() -> None:
    """The coordinator may assign them to another member immediately.

    If the response to the heartbeat is lost, a later response is required.
    """
    machine = create_machine("consumer")
    topic_id = UUID(int=7)
    first = ConsumerHeartbeatResponse("me", 1, 1.0, ((topic_id, (0, 1)),))
    answer_request(machine, ConsumerHeartbeat, first)
    for state in machine.positions.states.values():
        state.move_position(PartitionStep.FETCH, 0)
    (lost_heartbeat,) = [request for request in machine.next_requests(1.0) if isinstance(request, ConsumerHeartbeat)]
    machine.process_failure(lost_heartbeat, NetworkError("lost"), 1.0)
    (report,) = [request for request in machine.next_requests(2.0) if isinstance(request, ConsumerHeartbeat)]
    assert report.owned_partitions == ()
    assert machine.next_callback() is None
    machine.process_failure(report, NetworkError("lost"), 2.0)
    assert machine.next_callback() is None
    answer_request(machine, ConsumerHeartbeat, ConsumerHeartbeatResponse("me", 2, 1.0, ((topic_id, (0,)),)), 3.0)
    assert machine.next_callback() is None
    machine.positions.states[ONE].move_position(PartitionStep.FETCH, 0)
    assert machine.next_callback() == (CallbackKind.ASSIGN, (ONE,))


def check_that_an_eager_member_joins_only_when_on_revoke_has_returned() -> None:
    machine = create_machine("range")
    join(machine, [ONE, TWO])
    deliver_assignment(machine)
    machine.member.process_subscription_change(1.0)
    assert not [request for request in machine.next_requests(1.0) if isinstance(request, JoinGroup)]
    callback = machine.next_callback()
    machine.begin_callback(callback)
    assert not [request for request in machine.next_requests(1.0) if isinstance(request, JoinGroup)]
    machine.end_callback(callback, 1.0)
    assert [request.owned_partitions for request in machine.next_requests(1.0) if isinstance(request, JoinGroup)] == [
        ()
    ]


def check_that_a_returning_static_leader_watches_topics_without_assigning() -> None:
    """KIP-814: the coordinator keeps the assignment; a topic that grows makes the leader join again."""
    machine = create_machine("range", "a")
    members = {"me": MemberSubscription(frozenset({"t"}))}
    request = next(one for one in machine.next_requests(0.0) if isinstance(one, JoinGroup))
    machine.process_response(request, JoinGroupResponse("me", 1, "range", members, skips_assignment=True), 0.0)
    answer_request(machine, FetchMetadata, None)
    assert answer_request(machine, SyncGroup, [ONE, TWO]).assignment == {}
    deliver_assignment(machine)
    add_topic(machine.cluster, 3)
    machine.process_metadata(1.0)
    assert machine.next_callback() == (CallbackKind.REVOKE, (ONE, TWO))


def check_that_a_recreated_topic_is_read_from_its_start() -> None:
    """The old offset may also exist in the new log. The new leader's epoch is lower than the old one's."""
    machine = create_machine("range")
    add_topic(machine.cluster, 2, epoch=5)
    join(machine, [ONE])
    deliver_assignment(machine)
    machine.positions.seek(ONE, 40)
    assert [request for request in machine.next_requests(1.0) if isinstance(request, FetchRecords)]
    add_topic(machine.cluster, 2, topic_id=8, epoch=0)
    answer_request(machine, ListOffsets, {ONE: OffsetAndTimestamp(0, -1, 0)}, 2.0)
    assert machine.positions.states[ONE].position == 0
    assert machine.positions.states[ONE].ownership is Ownership.OWNED


def check_that_a_classic_member_joins_after_on_lost() -> None:
    """Until on_lost has returned, the caller may commit positions of lost partitions and overwrite those of the new
    owners.
    """
    for kind in ("range", "cooperative"):
        machine = create_owner(kind)
        (heartbeat,) = requests_of_kind(machine, Heartbeat, 2.0)
        machine.process_failure(heartbeat, to_broker_error(ErrorCode.UNKNOWN_MEMBER_ID, "heartbeat"), 2.0)
        assert not requests_of_kind(machine, JoinGroup, 5.0)
        machine.end_callback(begin_callback(machine, CallbackKind.LOSE), 5.0)
        assert requests_of_kind(machine, JoinGroup, 5.0)


def check_that_a_consumer_protocol_member_joins_after_on_lost() -> None:
    """The rule for classic members also applies to members of the consumer protocol."""
    machine = create_owner("consumer")
    (heartbeat,) = requests_of_kind(machine, ConsumerHeartbeat, 2.0)
    machine.process_failure(heartbeat, to_broker_error(ErrorCode.UNKNOWN_MEMBER_ID, "heartbeat"), 2.0)
    assert not requests_of_kind(machine, ConsumerHeartbeat, 5.0)
    machine.end_callback(begin_callback(machine, CallbackKind.LOSE), 5.0)
    assert [heartbeat.epoch for heartbeat in requests_of_kind(machine, ConsumerHeartbeat, 5.0)] == [0]


def check_that_a_removed_member_has_no_generation() -> None:
    """Such a member must not commit, and must not claim partitions from a generation that other members have ended."""
    machine = create_owner("cooperative")
    (heartbeat,) = requests_of_kind(machine, Heartbeat, 2.0)
    machine.process_failure(heartbeat, to_broker_error(ErrorCode.UNKNOWN_MEMBER_ID, "heartbeat"), 2.0)
    assert not machine.member.is_member
    machine.end_callback(begin_callback(machine, CallbackKind.LOSE), 5.0)
    assert [
        (request.member_id, request.generation, request.owned_partitions)
        for request in requests_of_kind(machine, JoinGroup, 5.0)
    ] == [("", -1, ())]


def check_that_committed_offsets_outside_a_join_are_fetched_again() -> None:
    """Another member may own the partitions in a generation whose assignment this member does not receive."""
    for kind in ("range", "cooperative"):
        machine = create_machine(kind)
        join(machine, [ONE])
        (lookup,) = requests_of_kind(machine, FetchCommittedOffsets, 0.0)
        machine.process_response(lookup, {ONE: CommittedOffset(1)}, 0.0)
        machine.member.process_commit_error(to_broker_error(ErrorCode.REBALANCE_IN_PROGRESS, "commit"), 1.0)
        join(machine, [ONE], 2.0)
        (lookup,) = requests_of_kind(machine, FetchCommittedOffsets, 2.0)
        machine.process_response(lookup, {ONE: CommittedOffset(9)}, 2.0)
        deliver_assignment(machine, 2.0)
        assert machine.positions.states[ONE].position == 9


def check_that_committed_offsets_are_fetched_again_after_a_lost_heartbeat() -> None:
    """In the consumer protocol, the full heartbeat after a lost one does not report the new partitions."""
    machine = create_machine("consumer")
    first = ConsumerHeartbeatResponse("me", 1, 1.0, ((UUID(int=7), (0,)),))
    answer_request(machine, ConsumerHeartbeat, first)
    answer_request(machine, FetchCommittedOffsets, {ONE: CommittedOffset(1)})
    (lost_heartbeat,) = requests_of_kind(machine, ConsumerHeartbeat, 2.0)
    machine.process_failure(lost_heartbeat, NetworkError("lost"), 2.0)
    for now, assignment in ((9.0, ((UUID(int=7), (0,)),)), (15.0, None)):
        machine.member._topics = None
        answer_request(machine, ConsumerHeartbeat, ConsumerHeartbeatResponse("me", 3, 1.0, assignment), now)
        answer_request(machine, FetchCommittedOffsets, {ONE: CommittedOffset(9)}, now)
    deliver_assignment(machine, 15.0)
    assert machine.positions.states[ONE].position == 9


def check_that_a_changed_subscription_during_a_join_triggers_another_join() -> None:
    """The JoinGroup in flight has the old topics."""
    machine = create_machine("cooperative")
    (old,) = requests_of_kind(machine, JoinGroup, 0.0)
    machine.topics = ("t", "u")
    machine.member.process_subscription_change(0.0)
    machine.process_response(old, JoinGroupResponse("me", 1, "cooperative-sticky"), 0.0)
    assert [request.topics for request in requests_of_kind(machine, JoinGroup, 1.0)] == [("t", "u")]


def check_that_a_member_without_polls_stays_outside_the_group() -> None:
    """The member has left the group, and joins again at the next poll."""
    machine = create_owner("range")
    assert requests_of_kind(machine, LeaveGroup, 30.0)
    machine.end_callback(begin_callback(machine, CallbackKind.LOSE), 30.0)
    machine.member.process_failure(machine.member._in_flight, NetworkError("lost"), 30.0)
    assert not requests_of_kind(machine, JoinGroup, 40.0)
    machine.process_poll(50.0)
    assert requests_of_kind(machine, JoinGroup, 50.0)


def check_that_a_partition_is_owned_until_on_revoke_has_returned() -> None:
    """If a heartbeat does not report the partition, the coordinator may assign it to another member."""
    machine = create_owner("consumer")
    machine.set_target({ONE: UUID(int=7)})
    callback = begin_callback(machine, CallbackKind.REVOKE)
    assert machine.owned_partitions == [ONE, TWO]
    machine.end_callback(callback, 1.0)
    assert machine.owned_partitions == [ONE]


def check_that_a_recreated_topic_is_a_new_topic_in_the_consumer_protocol() -> None:
    """The group assigns the new topic id, and the partitions of the old id are revoked."""
    machine = create_owner("consumer")
    machine.set_target({ONE: UUID(int=8), TWO: UUID(int=7)})
    assert machine.next_callback() == (CallbackKind.REVOKE, (ONE,))


def check_that_stale_topics_are_refreshed_before_metadata_max_age() -> None:
    """A leader that has moved is looked up after a backoff."""
    machine = create_owner("range")
    assert not requests_of_kind(machine, FetchMetadata, 1.0)
    machine.positions.stale_topics.add("t")
    assert [request.topics for request in requests_of_kind(machine, FetchMetadata, 1.5)] == [frozenset({"t"})]


def check_that_a_rejected_topic_raises_after_each_lookup_until_access_is_allowed() -> None:
    """confluent-kafka-python #1461: only the first poll had an error. Lookups continue, with a backoff."""
    machine = create_machine("consumer")
    (request,) = requests_of_kind(machine, FetchMetadata, 0.0)
    assert request.topics == frozenset({"t"})
    for now in (0.0, 1.0, 2.0):
        machine.cluster.topics["t"] = TopicMetadata("t", UUID(int=0), False, {}, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        machine.process_response(request, None, now)
        error = machine.take_error()
        assert isinstance(error, AuthorizationError)
        assert machine.take_error() is None
        machine.process_metadata(now)  # metadata of another request
        assert machine.take_error() is None
        assert not requests_of_kind(machine, FetchMetadata, now)
        next_time = machine.next_time(now)
        assert next_time is not None
        assert next_time <= now + 1.0
        (request,) = requests_of_kind(machine, FetchMetadata, now + 1.0)
        assert request.topics == frozenset({"t"})
    add_topic(machine.cluster, 2)
    machine.process_response(request, None, 3.0)
    assert machine.take_error() is None
    assert not requests_of_kind(machine, FetchMetadata, 5.0)


def check_that_no_buffer_is_returned_outside_ownership() -> None:
    """The caller gets records only of partitions that it owns and whose on_revoke has not begun."""
    machine = create_owner("range")
    request = fetch(machine, 1.0)
    batches = FetchedRecords(UUID(int=7), 0, [0, 0])
    machine.process_response(request, {ONE: PartitionFetchResponse(None, batches)}, 1.0)
    state = machine.positions.states[ONE]
    for ownership in Ownership:
        state.ownership = Ownership[ownership.name]
        assert (machine.positions.next_buffer() is not None) is (ownership.name == "OWNED")


def check_that_partitions_are_fetched_only_while_they_are_owned() -> None:
    """Records of a pending partition would be fetched in vain if the group assigns it to another member."""
    machine = create_owner("range")
    state = machine.positions.states[ONE]
    machine.positions.states[TWO].is_paused = True
    for ownership in Ownership:
        state.ownership = Ownership[ownership.name]
        assert state.should_fetch is (ownership.name == "OWNED")


def check_that_a_partition_without_an_offset_raises_at_every_poll_until_a_seek() -> None:
    """The consumer has auto_offset_reset=none and no committed offset."""
    machine = create_machine("range", reset="none")
    join(machine, [ONE, TWO])
    assert machine.take_error() is None
    answer_request(machine, FetchCommittedOffsets, {TWO: CommittedOffset(5, 0)}, 1.0)
    assert machine.take_error() is None  # the partition belongs to the caller after on_assign
    machine.end_callback(begin_callback(machine, CallbackKind.ASSIGN), 1.0)
    for _ in range(3):
        assert "auto_offset_reset is none" in str(machine.take_error())
    machine.positions.seek(ONE, 0)
    assert machine.take_error() is None
    machine.positions.seek(TWO, 9)
    request = fetch(machine, 2.0)
    error = to_broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, "fetch")
    machine.process_response(request, {TWO: PartitionFetchResponse(error)}, 2.0)
    for _ in range(3):
        assert "has no offset 9" in str(machine.take_error())


def check_that_metadata_of_a_lagging_broker_do_not_change_the_leader() -> None:
    """Metadata with a lower leader epoch are stale."""
    machine = create_machine("range")
    add_topic(machine.cluster, 2, epoch=5)
    join(machine, [ONE, TWO])
    deliver_assignment(machine)
    machine.next_requests(1.0)
    add_topic(machine.cluster, 2, epoch=4)
    machine.next_requests(2.0)
    assert machine.positions.states[ONE].leader == (1, 5)
    add_topic(machine.cluster, 2, epoch=6)
    machine.next_requests(3.0)
    assert machine.positions.states[ONE].leader == (1, 6)


def check_that_records_of_an_earlier_leader_are_fetched_again_after_a_seek() -> None:
    """The position has no epoch until a record is returned, so it cannot be validated. The log may have been truncated.

    Otherwise the caller would get the truncated records and skip the new leader's records at these offsets.
    """
    for is_in_flight in (False, True):
        machine = create_owner("range")
        machine.positions.states[TWO].is_paused = True
        machine.positions.seek(ONE, 1)
        request, batches = fetch(machine, 1.0), FetchedRecords(UUID(int=7), 1, [0, 0, 0, 0])
        if not is_in_flight:
            machine.process_response(request, {ONE: PartitionFetchResponse(None, batches)}, 1.0)
        add_topic(machine.cluster, 2, epoch=1)
        again = [one for one in machine.next_requests(2.0) if isinstance(one, (FetchRecords, FetchEpochEnds))]
        if is_in_flight:
            assert not again  # one Fetch per node
            machine.process_response(request, {ONE: PartitionFetchResponse(None, batches)}, 2.0)
            again = requests_of_kind(machine, FetchRecords, 2.0)
        assert machine.positions.next_buffer() is None
        (request,) = again
        assert isinstance(request, FetchRecords)
        assert machine.positions.states[ONE].position_and_epoch == (1, -1)
        machine.process_response(request, {ONE: PartitionFetchResponse(None, FetchedRecords(UUID(int=7), 1, [1]))}, 3.0)
        buffer = machine.positions.next_buffer()
        assert buffer is not None
        assert buffer[1].take() == (1, 1)  # type: ignore[attr-defined]


def check_that_an_offset_out_of_range_leaves_buffered_records() -> None:
    """The caller gets the buffered records first. The position is reset only when these records were returned."""
    machine = create_owner("range")
    batches = FetchedRecords(UUID(int=7), 0, [0, 0])
    machine.process_response(fetch(machine, 1.0), {ONE: PartitionFetchResponse(None, batches)}, 1.0)
    assert batches.take() == (0, 0)
    error = to_broker_error(ErrorCode.OFFSET_OUT_OF_RANGE, "fetch")
    machine.process_response(fetch(machine, 2.0), {ONE: PartitionFetchResponse(error)}, 2.0)
    state = machine.positions.states[ONE]
    assert (state.step.name, state.position) == ("FETCH", 1)
    assert batches.take() == (1, 0)
    machine.process_response(fetch(machine, 3.0), {ONE: PartitionFetchResponse(error)}, 3.0)
    assert [list(request.timestamps) for request in requests_of_kind(machine, ListOffsets, 4.0)] == [[ONE]]


def check_that_a_failed_request_refreshes_its_topics() -> None:
    """The leader may have moved, or its node may be down."""
    for kind in (FetchRecords, FetchEpochEnds):
        machine = create_owner("range")
        if kind is FetchEpochEnds:
            state = machine.positions.states[ONE]
            state.move_position(PartitionStep.FETCH, 0, 0)
        (request,) = requests_of_kind(machine, kind, 1.0)
        machine.process_failure(request, NetworkError("lost"), 1.0)
        assert machine.positions.stale_topics == {"t"}


def check_that_a_seek_stops_an_iteration_of_buffered_records() -> None:
    """An iteration in another thread would return records before the new position."""
    machine = create_owner("range")
    batches = FetchedRecords(UUID(int=7), 0, [0, 0])
    machine.process_response(fetch(machine, 1.0), {ONE: PartitionFetchResponse(None, batches)}, 1.0)
    assert not batches.is_empty
    machine.positions.seek(ONE, 1)
    assert batches.is_empty


def check_that_a_leader_is_not_fetched_from_while_a_buffer_is_unread() -> None:
    """There is at most one buffer besides the one that the caller reads, so a slow caller limits the memory."""
    machine = create_owner("range")
    state = machine.positions.states[ONE]
    state.is_paused, machine.positions.states[TWO].is_paused = False, True
    first, second = FetchedRecords(UUID(int=7), 0, [0, 0]), FetchedRecords(UUID(int=7), 2, [0, 0])
    machine.process_response(fetch(machine, 1.0), {ONE: PartitionFetchResponse(None, first)}, 1.0)
    assert not requests_of_kind(machine, FetchRecords, 2.0)
    first.take()
    machine.process_response(fetch(machine, 2.0), {ONE: PartitionFetchResponse(None, second)}, 2.0)
    assert not requests_of_kind(machine, FetchRecords, 3.0)


CASES: dict[str, Callable[[], None]] = {
    case.__name__: case
    for case in (
        check_that_a_revocation_during_a_join_triggers_another_join,
        check_that_partitions_outside_a_join_are_not_taken_over,
        check_that_partitions_outside_a_heartbeat_are_not_taken_over,
        check_that_an_eager_member_joins_only_when_on_revoke_has_returned,
        check_that_a_returning_static_leader_watches_topics_without_assigning,
        check_that_a_recreated_topic_is_read_from_its_start,
        check_that_a_classic_member_joins_after_on_lost,
        check_that_a_consumer_protocol_member_joins_after_on_lost,
        check_that_a_removed_member_has_no_generation,
        check_that_committed_offsets_outside_a_join_are_fetched_again,
        check_that_committed_offsets_are_fetched_again_after_a_lost_heartbeat,
        check_that_a_changed_subscription_during_a_join_triggers_another_join,
        check_that_a_member_without_polls_stays_outside_the_group,
        check_that_a_partition_is_owned_until_on_revoke_has_returned,
        check_that_a_recreated_topic_is_a_new_topic_in_the_consumer_protocol,
        check_that_stale_topics_are_refreshed_before_metadata_max_age,
        check_that_a_rejected_topic_raises_after_each_lookup_until_access_is_allowed,
        check_that_no_buffer_is_returned_outside_ownership,
        check_that_partitions_are_fetched_only_while_they_are_owned,
        check_that_a_partition_without_an_offset_raises_at_every_poll_until_a_seek,
        check_that_metadata_of_a_lagging_broker_do_not_change_the_leader,
        check_that_records_of_an_earlier_leader_are_fetched_again_after_a_seek,
        check_that_an_offset_out_of_range_leaves_buffered_records,
        check_that_a_failed_request_refreshes_its_topics,
        check_that_a_seek_stops_an_iteration_of_buffered_records,
        check_that_a_leader_is_not_fetched_from_while_a_buffer_is_unread,
    )
}
