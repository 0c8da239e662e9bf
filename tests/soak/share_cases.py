"""Single cases of the share consumer's state machine, which random schedules reach rarely or not at all.

``tests/client/test_share_machine.py`` runs them, and ``share_mutants.py`` runs them with a broken machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafkaframes.broker.state.internal import build_batch
from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_requests import FetchMetadata
from kafkaframes.client.metadata import Cluster, Node, TopicPartition
from kafkaframes.client.settings import ShareConsumerSettings
from kafkaframes.client.share_machine import ShareConsumerMachine
from kafkaframes.client.share_messages import ShareMessages
from kafkaframes.client.share_requests import (
    AcquiredRecords,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    ShareFetch,
    ShareFetchResponse,
    ShareFetchRow,
    ShareHeartbeat,
    ShareHeartbeatResponse,
)
from kafkaframes.client.share_session import ACCEPT, GAP, REJECT, RELEASE, RENEW, PartitionId
from kafkaframes.errors import (
    BrokerError,
    CorruptRecordError,
    ErrorCode,
    NetworkError,
    OptionError,
    UnsupportedFormatError,
    to_broker_error,
)
from kafkaframes.protocol.messages import message

TOPIC_ID = UUID(int=7)
ONE, TWO = PartitionId(TOPIC_ID, 0), PartitionId(TOPIC_ID, 1)
LOCK_S = 30.0


def create_machine(**options: Any) -> ShareConsumerMachine:
    """Return a machine whose topic ``t`` has two partitions, led by the nodes 1 and 2."""
    settings = ShareConsumerSettings.from_options({"bootstrap_servers": "a:1", "group_id": "g", **options})
    cluster = Cluster()
    add_topic(cluster)
    machine = ShareConsumerMachine(settings, cluster, backoff_s=lambda attempt: 0.1)
    machine.subscribe(("t",), 0.0)
    return machine


def add_topic(cluster: Cluster, *, error: int = 0) -> None:
    """Add the topic ``t`` to the metadata."""
    rows = [
        SimpleNamespace(
            partition_index=number, leader_id=number + 1, leader_epoch=0, replica_nodes=(), isr_nodes=(), error_code=0
        )
        for number in range(2)
    ]
    topic = SimpleNamespace(name="t", topic_id=TOPIC_ID, is_internal=False, error_code=error, partitions=rows)
    brokers = [SimpleNamespace(node_id=node, host="a", port=node, rack=None) for node in (1, 2)]
    response = SimpleNamespace(brokers=brokers, topics=[topic], cluster_id="c", controller_id=1)
    cluster.update(response, now=0.0, has_all_topics=True)


def requests_of_kind(machine: ShareConsumerMachine, kind: type, now: float) -> list[Any]:
    """Return the requests of a class that the machine sends now."""
    return [request for request in machine.next_requests(now) if isinstance(request, kind)]


def join(machine: ShareConsumerMachine, partitions: Iterable[PartitionId], now: float = 0.0) -> None:
    """Let the coordinator assign partitions."""
    (request,) = requests_of_kind(machine, ShareHeartbeat, now)
    numbers = tuple(entry.partition for entry in partitions)
    machine.process_response(request, ShareHeartbeatResponse(1, 1000.0, ((TOPIC_ID, numbers),)), now)


def build_row(offsets: Iterable[int], *, gaps: Iterable[int] = (), damage: Exception | None = None) -> ShareFetchRow:
    """Return a row with acquired records."""
    records = list(offsets)
    deliveries = dict.fromkeys([*records, *gaps], 1)
    return ShareFetchRow(deliveries=deliveries, batches=[AcquiredRecords(records, None)], damage=damage)


def fetch(machine: ShareConsumerMachine, rows: Mapping[PartitionId, ShareFetchRow], now: float) -> None:
    """Poll, and answer the only ShareFetch with rows."""
    machine.begin_poll(now)
    (request,) = requests_of_kind(machine, ShareFetch, now)
    machine.process_response(request, ShareFetchResponse(rows, LOCK_S), now)


def deliver(machine: ShareConsumerMachine, rows: Mapping[PartitionId, ShareFetchRow], now: float) -> None:
    """Let a poll return rows."""
    fetch(machine, rows, now)
    assert machine.take_records()
    machine.end_poll(now)


def create_reader(partitions: Iterable[PartitionId] = (ONE,), **options: Any) -> ShareConsumerMachine:
    """Return a machine with an assignment."""
    machine = create_machine(**options)
    join(machine, partitions)
    return machine


def answer_acknowledge(machine: ShareConsumerMachine, error: BrokerError | None, now: float) -> Any:
    """Answer the only ShareAcknowledge with an error for each of its partitions, or None."""
    (request,) = requests_of_kind(machine, ShareAcknowledge, now)
    machine.process_response(request, ShareAcknowledgeResponse(dict.fromkeys(request.acknowledgements, error)), now)
    return request


def check_that_a_commit_does_not_wait_for_gaps() -> None:
    """A gap of a response that arrives after the commit has begun is sent with the next fetch only."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0])}, 1.0)
    machine.begin_poll(2.0)
    (request,) = requests_of_kind(machine, ShareFetch, 2.0)
    assert request.acknowledgements == {ONE: {0: ACCEPT}}
    machine.end_poll(2.0)
    commit = machine.commit()
    assert not commit.is_done
    machine.process_response(request, ShareFetchResponse({ONE: build_row([], gaps=[1])}, LOCK_S), 3.0)
    assert commit.is_done
    commit.require_success()


def check_that_a_commit_raises_errors_of_a_fetch_in_flight() -> None:
    """The fetch of an earlier poll contains acknowledgements of this consumer."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0])}, 1.0)
    machine.begin_poll(2.0)
    (request,) = requests_of_kind(machine, ShareFetch, 2.0)
    machine.end_poll(2.0)
    commit = machine.commit()
    machine.process_failure(request, NetworkError("lost"), 3.0)
    assert commit.is_done
    assert error_class_of(commit.require_success) is NetworkError


def error_class_of(call: Callable[[], object]) -> type | None:
    """Return the class of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return type(error)
    return None


def check_that_a_response_without_a_row_is_an_error() -> None:
    """For both requests, the result of acknowledgements without a row is unknown."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0])}, 1.0)
    fetch(machine, {}, 2.0)
    (result,) = machine.take_results()
    assert result.offsets == {TopicPartition("t", 0): [0]}
    assert isinstance(result.error, BrokerError)
    assert "the response has no result" in str(result.error)
    machine.end_poll(2.0)
    deliver(machine, {ONE: build_row([1])}, 3.0)
    commit = machine.commit()
    (request,) = requests_of_kind(machine, ShareAcknowledge, 4.0)
    machine.process_response(request, ShareAcknowledgeResponse({}), 4.0)
    assert error_class_of(commit.require_success) is BrokerError


def check_that_a_commit_raises_errors_of_acknowledgements_that_were_not_sent() -> None:
    """The session of the records was lost before the caller acknowledged them."""
    machine = create_reader(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: build_row([0, 1])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    renewal = machine.renew([("t", 0, 1)])
    (request,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    machine.process_failure(request, NetworkError("lost"), 2.0)
    assert renewal.is_done
    assert error_class_of(renewal.require_success) is BrokerError
    machine.acknowledge([("t", 0, 1)], ACCEPT)
    assert [type(result.error) for result in machine.take_results()] == [NetworkError, BrokerError]
    assert error_class_of(machine.commit().require_success) is BrokerError
    assert error_class_of(machine.commit().require_success) is None


def check_that_an_error_of_a_partition_is_not_hidden_by_a_later_success() -> None:
    """A commit waits for two requests with acknowledgements of one partition, and the first one fails."""
    machine = create_reader(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: build_row([0, 1])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    first = machine.commit()
    (request,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    machine.acknowledge([("t", 0, 1)], ACCEPT)
    second = machine.commit()
    error = to_broker_error(ErrorCode.INVALID_RECORD_STATE, "acknowledgement")
    machine.process_response(request, ShareAcknowledgeResponse({ONE: error}), 3.0)
    answer_acknowledge(machine, None, 3.0)
    for commit in (first, second):
        assert error_class_of(commit.require_success) is BrokerError


def check_that_records_are_fetched_only_while_the_caller_waits() -> None:
    """The lock of a record that was fetched ahead may expire while the caller handles others."""
    machine = create_reader()
    assert not requests_of_kind(machine, ShareFetch, 1.0)
    fetch(machine, {ONE: build_row([0])}, 1.0)
    assert not requests_of_kind(machine, ShareFetch, 1.0)  # records are buffered
    machine.take_records()
    machine.end_poll(1.0)
    assert not requests_of_kind(machine, ShareFetch, 2.0)


def check_that_record_limit_asks_one_node_at_a_time() -> None:
    """Two nodes would return twice the limit."""
    machine = create_reader((ONE, TWO), share_acquire_mode="record_limit")
    machine.begin_poll(1.0)
    (first,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_response(first, ShareFetchResponse({}, LOCK_S), 1.5)
    (second,) = requests_of_kind(machine, ShareFetch, 1.5)
    assert {first.node.node_id, second.node.node_id} == {1, 2}
    assert len(requests_of_kind(create_polling_reader((ONE, TWO)), ShareFetch, 1.0)) == 2


def create_polling_reader(partitions: Iterable[PartitionId]) -> ShareConsumerMachine:
    machine = create_reader(partitions)
    machine.begin_poll(1.0)
    return machine


def check_that_a_renewal_extends_the_locks_of_buffered_records() -> None:
    """Node 2 responds after the poll has returned records of node 1.

    The caller renews the locks of those records and polls late.
    """
    machine = create_reader((ONE, TWO))
    machine.begin_poll(1.0)
    first, second = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_response(first, ShareFetchResponse({ONE: build_row([0])}, LOCK_S), 1.0)
    assert len(machine.take_records()) == 1
    machine.end_poll(1.0)
    machine.process_response(second, ShareFetchResponse({TWO: build_row([5])}, LOCK_S), 1.1)
    machine.renew([("t", 0, 0)])
    renewals = requests_of_kind(machine, ShareAcknowledge, 20.0)
    assert [request.acknowledgements for request in renewals] == [{ONE: {0: RENEW}}, {TWO: {5: RENEW}}]
    for request in renewals:
        machine.process_response(request, ShareAcknowledgeResponse(dict.fromkeys(request.acknowledgements)), 20.0)
    machine.begin_poll(45.0)
    machine.next_requests(45.0)
    assert [list(entry.offsets) for entry in machine.take_records()] == [[5]]


def check_that_buffered_records_whose_locks_have_expired_are_dropped() -> None:
    """Other members may have acquired them."""
    machine = create_reader()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.end_poll(1.0)
    machine.process_response(request, ShareFetchResponse({ONE: build_row([0])}, LOCK_S), 2.0)
    machine.begin_poll(1.0 + LOCK_S)
    assert requests_of_kind(machine, ShareFetch, 1.0 + LOCK_S)
    assert not machine.take_records()


def check_that_buffered_records_of_a_lost_session_are_dropped() -> None:
    """The broker has released these records. Acknowledgements of these records would fail."""
    machine = create_reader((ONE, TWO), share_acknowledgement_mode="explicit")
    machine.begin_poll(1.0)
    first, second = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_response(first, ShareFetchResponse({ONE: build_row([0])}, LOCK_S), 1.0)
    machine.take_records()
    machine.end_poll(1.0)
    machine.process_response(second, ShareFetchResponse({TWO: build_row([5], gaps=[6])}, LOCK_S), 2.0)
    assert machine.has_records
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    machine.commit()
    for request in requests_of_kind(machine, ShareAcknowledge, 3.0):
        machine.process_failure(request, NetworkError("lost"), 3.0)
    assert not machine.has_records


def check_that_undecodable_records_are_rejected_or_released() -> None:
    """Damaged records are rejected. Unsupported ones are released, since another member may support them."""
    damages = ((CorruptRecordError("CRC"), REJECT), (UnsupportedFormatError("t-0", 1, 9, (2,)), RELEASE))
    for damage, kind in damages:
        machine = create_reader()
        fetch(machine, {ONE: build_row([0], gaps=[1, 2], damage=damage)}, 1.0)
        assert machine.take_error() is damage
        assert len(machine.take_records()) == 1
        machine.end_poll(1.0)
        machine.begin_poll(2.0)
        (request,) = requests_of_kind(machine, ShareFetch, 2.0)
        assert request.acknowledgements == {ONE: {0: ACCEPT, 1: kind, 2: kind}}


def check_that_gaps_are_acknowledged_as_gaps() -> None:
    """The listener gets no results for gaps."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0], gaps=[1])}, 1.0)
    machine.commit()
    assert answer_acknowledge(machine, None, 2.0).acknowledgements == {ONE: {0: ACCEPT, 1: GAP}}
    assert [result.offsets for result in machine.take_results()] == [{TopicPartition("t", 0): [0]}]


def check_that_a_member_without_polls_leaves_the_group() -> None:
    """The coordinator assigns its partitions to other members. The member joins again at the next poll."""
    machine = create_reader(max_poll_interval_ms=60_000)
    machine.begin_poll(50.0)
    machine.end_poll(50.0)
    assert machine.next_time(60.0) == 110.0
    assert not requests_of_kind(machine, ShareHeartbeat, 109.0)
    (leave,) = requests_of_kind(machine, ShareHeartbeat, 110.0)
    assert (leave.epoch, machine.assignment) == (-1, {})
    machine.process_response(leave, ShareHeartbeatResponse(-1, 0.0), 110.0)
    assert not requests_of_kind(machine, ShareHeartbeat, 500.0)
    machine.begin_poll(500.0)
    (again,) = requests_of_kind(machine, ShareHeartbeat, 500.0)
    assert (again.epoch, again.topics) == (0, ("t",))


def check_that_a_caller_that_waits_stays_in_the_group() -> None:
    """A long poll counts as polling."""
    machine = create_reader(max_poll_interval_ms=60_000)
    machine.begin_poll(1.0)
    assert not requests_of_kind(machine, ShareHeartbeat, 300.0)
    assert machine.member.partition_ids == [ONE]


def check_that_a_member_leaves_although_its_join_has_no_response() -> None:
    """The coordinator may have added the member. The wait for the response to the join is limited."""
    machine = create_machine()
    assert [request.epoch for request in requests_of_kind(machine, ShareHeartbeat, 0.0)] == [0]
    machine.end_subscription()
    assert not machine.next_requests(1.0)
    machine.abandon_waiting(3.0)
    assert [request.epoch for request in requests_of_kind(machine, ShareHeartbeat, 3.0)] == [-1]


def check_that_a_leave_is_repeated_if_the_coordinator_has_moved() -> None:
    """Otherwise the group waits for the session timeout."""
    machine = create_reader()
    machine.end_subscription()
    for _ in range(3):
        (leave,) = requests_of_kind(machine, ShareHeartbeat, 1.0)
        assert leave.epoch == -1
        assert not machine.has_ended
        machine.process_failure(leave, to_broker_error(ErrorCode.NOT_COORDINATOR, "heartbeat"), 1.0)
    assert machine.has_ended


def check_that_a_fetch_that_is_given_up_ends_its_session() -> None:
    """The broker may still process the fetch, and keep its records until their locks expire."""
    machine = create_reader()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.end_poll(1.0)
    machine.end_subscription()
    machine.abandon_waiting(4.0)
    (final,) = requests_of_kind(machine, ShareAcknowledge, 4.0)
    assert final.epoch == -1
    machine.process_response(request, ShareFetchResponse({ONE: build_row([0])}, LOCK_S), 4.5)
    assert not machine.has_records
    machine.process_response(final, ShareAcknowledgeResponse({}), 5.0)
    assert [leave.epoch for leave in requests_of_kind(machine, ShareHeartbeat, 5.0)] == [-1]


def check_that_a_session_without_partitions_is_closed() -> None:
    """The session is closed when the caller has acknowledged all of its records. If closing fails, the end of the
    subscription retries it.
    """
    machine = create_reader(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: build_row([0])}, 1.0)
    machine.member.send_heartbeat_soon(1.0)
    join(machine, [TWO], 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    machine.begin_poll(2.0)
    forgets = next(request for request in requests_of_kind(machine, ShareFetch, 2.0) if request.node.node_id == 1)
    assert (forgets.removed_partitions, forgets.acknowledgements) == ([ONE], {ONE: {0: ACCEPT}})
    machine.process_response(forgets, ShareFetchResponse({ONE: ShareFetchRow()}, LOCK_S), 2.0)
    (final,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    assert (final.node.node_id, final.epoch) == (1, -1)
    machine.process_failure(final, to_broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, "acknowledgement"), 2.0)
    machine.end_poll(2.0)
    machine.end_subscription()
    assert 1 in {request.node.node_id for request in requests_of_kind(machine, ShareAcknowledge, 3.0)}


def check_that_records_of_a_response_during_the_end_are_not_buffered() -> None:
    """The request that ends the session releases them."""
    machine = create_reader()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.end_poll(1.0)
    machine.end_subscription()
    machine.process_response(request, ShareFetchResponse({ONE: build_row([0])}, LOCK_S), 2.0)
    assert not machine.has_records
    (final,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    assert (final.epoch, final.acknowledgements) == (-1, {})


def check_that_errors_of_topics_are_raised() -> None:
    """A topic that the client may not describe has no leaders, and would never be read."""
    machine = create_machine()
    machine._cluster.topics.clear()
    join(machine, [ONE])
    (request,) = requests_of_kind(machine, FetchMetadata, 1.0)
    add_topic(machine._cluster, error=ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    machine.process_response(request, None, 1.0)
    error = machine.take_error()
    assert isinstance(error, BrokerError)
    assert error.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert not is_retriable(error)


def check_that_an_error_is_queued_once() -> None:
    """Otherwise a caller that polls rarely would have to handle the same error many times."""
    machine = create_reader()
    for now in (1.0, 2.0, 3.0):
        machine.begin_poll(now)
        for request in requests_of_kind(machine, ShareFetch, now):
            machine.process_failure(request, to_broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "fetch"), now)
        machine.end_poll(now)
    assert isinstance(machine.take_error(), BrokerError)
    assert machine.take_error() is None


def check_that_a_partition_of_a_fetch_in_flight_keeps_its_name() -> None:
    """The group assigns it to another member before the response arrives. The records of the partition are returned."""
    machine = create_reader()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.member.send_heartbeat_soon(1.0)
    join(machine, [TWO], 1.0)
    machine.process_response(request, ShareFetchResponse({ONE: build_row([0])}, LOCK_S), 2.0)
    assert [entry.partition for entry in machine.take_records()] == [TopicPartition("t", 0)]


def check_that_a_late_response_changes_nothing() -> None:
    """The request has failed, so its session is lost and the broker has released the records."""
    machine = create_reader()
    machine.begin_poll(1.0)
    (lost_fetch,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_failure(lost_fetch, to_broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, "fetch"), 1.0)
    (next_fetch,) = requests_of_kind(machine, ShareFetch, 1.0)
    assert next_fetch.epoch == 0
    machine.process_response(lost_fetch, ShareFetchResponse({ONE: build_row([0])}, LOCK_S), 2.0)
    machine.process_failure(lost_fetch, NetworkError("lost"), 2.0)
    assert not machine.has_records
    assert not machine.next_requests(2.0)  # a node has at most one request in flight
    machine.process_response(next_fetch, ShareFetchResponse({ONE: build_row([1])}, LOCK_S), 3.0)
    assert [list(entry.offsets) for entry in machine.take_records()] == [[1]]


def check_that_acknowledgements_of_a_lost_session_fail_and_are_not_sent() -> None:
    """The broker has released the records, so the next session must not acknowledge them."""
    machine = create_reader(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: build_row([0, 1, 2])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    machine.commit()
    (request,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    assert (request.epoch, request.acknowledgements) == (1, {ONE: {0: ACCEPT}})
    machine.acknowledge([("t", 0, 1)], ACCEPT)
    machine.process_failure(request, to_broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, "acknowledgement"), 2.0)
    machine.acknowledge([("t", 0, 2)], ACCEPT)
    results = machine.take_results()
    assert [result.offsets for result in results] == [{TopicPartition("t", 0): [number]} for number in range(3)]
    assert all(isinstance(result.error, BrokerError) for result in results)
    assert error_class_of(machine.commit().require_success) is BrokerError
    machine.begin_poll(3.0)
    (first,) = requests_of_kind(machine, ShareFetch, 3.0)
    assert (first.epoch, first.added_partitions, first.acknowledgements) == (0, [ONE], {})


def check_that_each_request_of_a_session_has_the_next_epoch() -> None:
    """The broker rejects a request with another epoch."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0])}, 1.0)
    machine.commit()
    assert answer_acknowledge(machine, None, 2.0).epoch == 1
    machine.begin_poll(3.0)
    (request,) = requests_of_kind(machine, ShareFetch, 3.0)
    assert (request.epoch, request.added_partitions) == (2, [])


def check_that_the_end_sends_pending_acknowledgements() -> None:
    """Otherwise records that the caller has accepted are delivered again."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0, 1])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    machine.end_subscription()
    (final,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    assert (final.epoch, final.acknowledgements) == (-1, {ONE: {0: ACCEPT}})
    machine.process_response(final, ShareAcknowledgeResponse({ONE: None}), 2.0)
    assert [result.error for result in machine.take_results()] == [None]


def check_that_records_of_other_topics_are_released() -> None:
    """The subscription changes while a fetch is in flight, or while records are buffered."""
    for is_buffered in (False, True):
        machine = create_reader()
        machine.begin_poll(1.0)
        (request,) = requests_of_kind(machine, ShareFetch, 1.0)
        machine.end_poll(1.0)
        response = ShareFetchResponse({ONE: build_row([0])}, LOCK_S)
        if is_buffered:
            machine.process_response(request, response, 1.0)
            machine.subscribe(("u",), 1.0)
        else:
            machine.subscribe(("u",), 1.0)
            machine.process_response(request, response, 1.0)
        assert not machine.has_records
        (release,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
        assert release.acknowledgements == {ONE: {0: RELEASE}}


def check_that_a_leader_that_has_moved_is_looked_up() -> None:
    """The error of a partition is an answer of a former leader."""
    machine = create_reader()
    error = to_broker_error(ErrorCode.NOT_LEADER_OR_FOLLOWER, "fetch")
    fetch(machine, {ONE: ShareFetchRow(error=error)}, 1.0)
    (request,) = requests_of_kind(machine, FetchMetadata, 1.0)
    assert request.topics == {"t"}
    assert machine.take_error() is None


def check_that_a_failed_metadata_request_is_repeated() -> None:
    """Without a leader, no records can be fetched."""
    machine = create_machine()
    machine._cluster.topics.clear()
    join(machine, [ONE])
    (request,) = requests_of_kind(machine, FetchMetadata, 1.0)
    machine.process_failure(request, NetworkError("lost"), 1.0)
    assert not machine.next_requests(1.0)
    assert machine.next_time(1.0) == 1.1
    assert requests_of_kind(machine, FetchMetadata, 1.1)


def check_that_polls_raise_errors_that_retries_cannot_mend() -> None:
    """The error may be that of a partition in a response, or that of a heartbeat."""
    machine = create_reader()
    error = to_broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "fetch")
    fetch(machine, {ONE: ShareFetchRow(error=error)}, 1.0)
    assert machine.take_error() is error
    machine = create_machine()
    (request,) = requests_of_kind(machine, ShareHeartbeat, 0.0)
    error = to_broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "heartbeat")
    machine.process_failure(request, error, 0.0)
    assert machine.take_error() is error


def check_that_acknowledgements_of_a_partition_that_has_moved_have_results() -> None:
    """The group assigns the partition to another member before the acknowledgements are sent."""
    machine = create_reader()
    deliver(machine, {ONE: build_row([0])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    machine.member.send_heartbeat_soon(1.0)
    join(machine, [TWO], 1.0)
    commit = machine.commit()
    answer_acknowledge(machine, None, 2.0)
    assert [result.offsets for result in machine.take_results()] == [{TopicPartition("t", 0): [0]}]
    assert commit.results == {TopicPartition("t", 0): None}


def check_that_a_poll_needs_a_subscription_and_acknowledgements() -> None:
    """Without a subscription no member would join. In explicit mode, the caller acknowledges the last records first."""
    machine = create_reader(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: build_row([0])}, 1.0)
    assert error_class_of(lambda: machine.begin_poll(2.0)) is OptionError
    machine.end_subscription()
    assert error_class_of(lambda: machine.begin_poll(2.0)) is OptionError


def check_that_a_member_that_is_removed_joins_again() -> None:
    """The coordinator does not know the member's epoch."""
    machine = create_reader()
    machine.member.send_heartbeat_soon(1.0)
    (request,) = requests_of_kind(machine, ShareHeartbeat, 1.0)
    assert (request.epoch, request.topics) == (1, None)
    machine.process_failure(request, to_broker_error(ErrorCode.UNKNOWN_MEMBER_ID, "heartbeat"), 1.0)
    assert machine.take_error() is None
    (again,) = requests_of_kind(machine, ShareHeartbeat, 1.1)
    assert (again.epoch, again.topics, machine.assignment) == (0, ("t",), {})


def check_that_a_new_subscription_is_sent() -> None:
    """Until the subscription is sent, the coordinator assigns partitions of the former topics."""
    machine = create_reader()
    machine.subscribe(("t", "u"), 1.0)
    (request,) = requests_of_kind(machine, ShareHeartbeat, 1.0)
    assert (request.epoch, request.topics) == (1, ("t", "u"))


def check_that_requests_name_removed_partitions_and_each_acknowledgement() -> None:
    """The node acquires records of a partition until a request names it as forgotten."""
    settings = create_machine()._settings
    messages = ShareMessages(settings, "m", lambda partition_id: TopicPartition("t", partition_id.partition))
    kinds = {0: ACCEPT, 1: REJECT, 2: REJECT, 4: RELEASE, 5: RELEASE}
    body = messages.to_fetch_body(ShareFetch(Node(1, "a", 1), 3, [], [TWO], {ONE: kinds}), 2)
    assert [(topic.topic_id, topic.partitions) for topic in body.forgotten_topics_data] == [(TOPIC_ID, [1])]
    (row,) = body.topics[0].partitions
    batches = [
        (entry.first_offset, entry.last_offset, entry.acknowledge_types) for entry in row.acknowledgement_batches
    ]
    assert batches == [(0, 2, [ACCEPT, REJECT, REJECT]), (4, 5, [RELEASE])]


def check_that_a_response_is_read_with_its_errors_and_without_records_of_others() -> None:
    """A batch has five records, of which this member has acquired two."""
    messages = ShareMessages(create_machine()._settings, "m", lambda partition_id: TopicPartition("t", 0))
    cls = message("ShareFetchResponse")
    row = cls.PartitionData(
        partition_index=0,
        acknowledge_error_code=ErrorCode.INVALID_RECORD_STATE,
        records=bytes(build_batch([(None, b"v%d" % number) for number in range(5)], timestamp_ms=1)),
        acquired_records=[cls.AcquiredRecords(first_offset=1, last_offset=2, delivery_count=3)],
    )
    response = cls(responses=[cls.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=[row])])
    result = messages.read_fetch(ShareFetch(Node(1, "a", 1), 3, [], [], {ONE: {0: ACCEPT}}), response).rows[ONE]
    assert isinstance(result.acknowledge_error, BrokerError)
    assert result.acknowledge_error.code is ErrorCode.INVALID_RECORD_STATE
    assert result.deliveries == {1: 3, 2: 3}
    (records,) = result.batches
    assert records.offsets == [1, 2]
    assert records.batch.column("value").to_pylist() == [b"v1", b"v2"]


CASES: dict[str, Callable[[], None]] = {
    name: case for name, case in list(globals().items()) if name.startswith("check_")
}
