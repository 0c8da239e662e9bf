"""Single cases of the share consumer's state machine, which random schedules reach rarely or not at all.

``tests/client/test_share_machine.py`` runs them, and ``share_mutants.py`` runs them with a broken machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import SimpleNamespace
from typing import Any
from uuid import UUID

from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_requests import FetchMetadata
from kafkaframes.client.metadata import Cluster, TopicPartition
from kafkaframes.client.settings import ShareConsumerSettings
from kafkaframes.client.share_machine import ShareMachine
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
    UnsupportedFormatError,
    broker_error,
)

TOPIC_ID = UUID(int=7)
ONE, TWO = PartitionId(TOPIC_ID, 0), PartitionId(TOPIC_ID, 1)
LOCK_S = 30.0


def machine_of(**options: Any) -> ShareMachine:
    """Return a machine whose topic ``t`` has two partitions, led by the nodes 1 and 2."""
    settings = ShareConsumerSettings.from_options({"bootstrap_servers": "a:1", "group_id": "g", **options})
    cluster = Cluster()
    add_topic(cluster)
    machine = ShareMachine(settings, cluster, backoff_s=lambda attempt: 0.1)
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


def requests_of_kind(machine: ShareMachine, kind: type, now: float) -> list[Any]:
    """Return the requests of a class that the machine sends now."""
    return [request for request in machine.next_requests(now) if isinstance(request, kind)]


def join(machine: ShareMachine, partitions: Iterable[PartitionId], now: float = 0.0) -> None:
    """Let the coordinator assign partitions."""
    (request,) = requests_of_kind(machine, ShareHeartbeat, now)
    numbers = tuple(entry.partition for entry in partitions)
    machine.process_response(request, ShareHeartbeatResponse(1, 1000.0, ((TOPIC_ID, numbers),)), now)


def row_of(offsets: Iterable[int], *, gaps: Iterable[int] = (), damage: Exception | None = None) -> ShareFetchRow:
    """Return a row with acquired records."""
    records = list(offsets)
    deliveries = dict.fromkeys([*records, *gaps], 1)
    return ShareFetchRow(deliveries=deliveries, batches=[AcquiredRecords(records, None)], damage=damage)


def fetch(machine: ShareMachine, rows: Mapping[PartitionId, ShareFetchRow], now: float) -> None:
    """Poll, and answer the only ShareFetch with rows."""
    machine.begin_poll(now)
    (request,) = requests_of_kind(machine, ShareFetch, now)
    machine.process_response(request, ShareFetchResponse(rows, LOCK_S), now)


def deliver(machine: ShareMachine, rows: Mapping[PartitionId, ShareFetchRow], now: float) -> None:
    """Let a poll return rows."""
    fetch(machine, rows, now)
    assert machine.take_records()
    machine.end_poll(now)


def reader_of(partitions: Iterable[PartitionId] = (ONE,), **options: Any) -> ShareMachine:
    """Return a machine with an assignment."""
    machine = machine_of(**options)
    join(machine, partitions)
    return machine


def answer_acknowledge(machine: ShareMachine, error: BrokerError | None, now: float) -> Any:
    """Answer the only ShareAcknowledge with an error for each of its partitions, or None."""
    (request,) = requests_of_kind(machine, ShareAcknowledge, now)
    machine.process_response(request, ShareAcknowledgeResponse(dict.fromkeys(request.acknowledgements, error)), now)
    return request


def check_that_a_commit_does_not_wait_for_gaps() -> None:
    """A gap of a response that arrives after the commit has begun is sent with the next fetch only."""
    machine = reader_of()
    deliver(machine, {ONE: row_of([0])}, 1.0)
    machine.begin_poll(2.0)
    (request,) = requests_of_kind(machine, ShareFetch, 2.0)
    assert request.acknowledgements == {ONE: {0: ACCEPT}}
    machine.end_poll(2.0)
    commit = machine.commit()
    assert not commit.is_done
    machine.process_response(request, ShareFetchResponse({ONE: row_of([], gaps=[1])}, LOCK_S), 3.0)
    assert commit.is_done
    commit.require_success()


def check_that_a_commit_raises_errors_of_a_fetch_in_flight() -> None:
    """The fetch of an earlier poll carries acknowledgements of this consumer."""
    machine = reader_of()
    deliver(machine, {ONE: row_of([0])}, 1.0)
    machine.begin_poll(2.0)
    (request,) = requests_of_kind(machine, ShareFetch, 2.0)
    machine.end_poll(2.0)
    commit = machine.commit()
    machine.process_failure(request, NetworkError("lost"), 3.0)
    assert commit.is_done
    assert error_of(commit.require_success) is NetworkError


def error_of(call: Callable[[], object]) -> type | None:
    """Return the class of the error that a call raises."""
    try:
        call()
    except Exception as error:
        return type(error)
    return None


def check_that_a_response_without_a_row_is_an_error() -> None:
    """Both requests: the result of acknowledgements without a row is unknown."""
    machine = reader_of()
    deliver(machine, {ONE: row_of([0])}, 1.0)
    fetch(machine, {}, 2.0)
    (result,) = machine.take_results()
    assert result.offsets == {TopicPartition("t", 0): [0]}
    assert isinstance(result.error, BrokerError)
    assert "the response has no result" in str(result.error)
    machine.end_poll(2.0)
    deliver(machine, {ONE: row_of([1])}, 3.0)
    commit = machine.commit()
    (request,) = requests_of_kind(machine, ShareAcknowledge, 4.0)
    machine.process_response(request, ShareAcknowledgeResponse({}), 4.0)
    assert error_of(commit.require_success) is BrokerError


def check_that_a_commit_raises_errors_of_acknowledgements_that_were_not_sent() -> None:
    """The session of the records was lost before the caller acknowledged them."""
    machine = reader_of(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: row_of([0, 1])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    renewal = machine.renew([("t", 0, 1)])
    (request,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    machine.process_failure(request, NetworkError("lost"), 2.0)
    assert renewal.is_done
    assert error_of(renewal.require_success) is BrokerError
    machine.acknowledge([("t", 0, 1)], ACCEPT)
    assert [type(result.error) for result in machine.take_results()] == [NetworkError, BrokerError]
    assert error_of(machine.commit().require_success) is BrokerError
    assert error_of(machine.commit().require_success) is None


def check_that_an_error_of_a_partition_is_not_hidden_by_a_later_success() -> None:
    """A commit waits for two requests with acknowledgements of one partition, and the first one fails."""
    machine = reader_of(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: row_of([0, 1])}, 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    first = machine.commit()
    (request,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    machine.acknowledge([("t", 0, 1)], ACCEPT)
    second = machine.commit()
    error = broker_error(ErrorCode.INVALID_RECORD_STATE, "acknowledgement")
    machine.process_response(request, ShareAcknowledgeResponse({ONE: error}), 3.0)
    answer_acknowledge(machine, None, 3.0)
    for commit in (first, second):
        assert error_of(commit.require_success) is BrokerError


def check_that_records_are_fetched_only_while_the_caller_waits() -> None:
    """The lock of a record that was fetched ahead may expire while the caller handles others."""
    machine = reader_of()
    assert not requests_of_kind(machine, ShareFetch, 1.0)
    fetch(machine, {ONE: row_of([0])}, 1.0)
    assert not requests_of_kind(machine, ShareFetch, 1.0)  # records are buffered
    machine.take_records()
    machine.end_poll(1.0)
    assert not requests_of_kind(machine, ShareFetch, 2.0)


def check_that_record_limit_asks_one_node_at_a_time() -> None:
    """Two nodes would return twice the limit."""
    machine = reader_of((ONE, TWO), share_acquire_mode="record_limit")
    machine.begin_poll(1.0)
    (first,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_response(first, ShareFetchResponse({}, LOCK_S), 1.5)
    (second,) = requests_of_kind(machine, ShareFetch, 1.5)
    assert {first.node.node_id, second.node.node_id} == {1, 2}
    assert len(requests_of_kind(reader_with_poll((ONE, TWO)), ShareFetch, 1.0)) == 2


def reader_with_poll(partitions: Iterable[PartitionId]) -> ShareMachine:
    machine = reader_of(partitions)
    machine.begin_poll(1.0)
    return machine


def check_that_a_renewal_extends_the_locks_of_buffered_records() -> None:
    """Node 2 responds after the poll has returned records of node 1. The caller renews those, and polls late."""
    machine = reader_of((ONE, TWO))
    machine.begin_poll(1.0)
    first, second = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_response(first, ShareFetchResponse({ONE: row_of([0])}, LOCK_S), 1.0)
    assert len(machine.take_records()) == 1
    machine.end_poll(1.0)
    machine.process_response(second, ShareFetchResponse({TWO: row_of([5])}, LOCK_S), 1.1)
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
    machine = reader_of()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.end_poll(1.0)
    machine.process_response(request, ShareFetchResponse({ONE: row_of([0])}, LOCK_S), 2.0)
    machine.begin_poll(1.0 + LOCK_S)
    assert requests_of_kind(machine, ShareFetch, 1.0 + LOCK_S)
    assert not machine.take_records()


def check_that_buffered_records_of_a_lost_session_are_dropped() -> None:
    """The broker has released them. Acknowledging them would fail."""
    machine = reader_of((ONE, TWO), share_acknowledgement_mode="explicit")
    machine.begin_poll(1.0)
    first, second = requests_of_kind(machine, ShareFetch, 1.0)
    machine.process_response(first, ShareFetchResponse({ONE: row_of([0])}, LOCK_S), 1.0)
    machine.take_records()
    machine.end_poll(1.0)
    machine.process_response(second, ShareFetchResponse({TWO: row_of([5], gaps=[6])}, LOCK_S), 2.0)
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
        machine = reader_of()
        fetch(machine, {ONE: row_of([0], gaps=[1, 2], damage=damage)}, 1.0)
        assert machine.take_error() is damage
        assert len(machine.take_records()) == 1
        machine.end_poll(1.0)
        machine.begin_poll(2.0)
        (request,) = requests_of_kind(machine, ShareFetch, 2.0)
        assert request.acknowledgements == {ONE: {0: ACCEPT, 1: kind, 2: kind}}


def check_that_gaps_are_acknowledged_as_gaps() -> None:
    """The listener gets no results for them."""
    machine = reader_of()
    deliver(machine, {ONE: row_of([0], gaps=[1])}, 1.0)
    machine.commit()
    assert answer_acknowledge(machine, None, 2.0).acknowledgements == {ONE: {0: ACCEPT, 1: GAP}}
    assert [result.offsets for result in machine.take_results()] == [{TopicPartition("t", 0): [0]}]


def check_that_a_member_without_polls_leaves_the_group() -> None:
    """The coordinator assigns its partitions to other members. It joins at the next poll."""
    machine = reader_of(max_poll_interval_ms=60_000)
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
    machine = reader_of(max_poll_interval_ms=60_000)
    machine.begin_poll(1.0)
    assert not requests_of_kind(machine, ShareHeartbeat, 300.0)
    assert machine.member.partition_ids == [ONE]


def check_that_a_member_leaves_although_its_join_has_no_response() -> None:
    """The coordinator may have the member. The wait for the response to the join is limited."""
    machine = machine_of()
    assert [request.epoch for request in requests_of_kind(machine, ShareHeartbeat, 0.0)] == [0]
    machine.begin_end()
    assert not machine.next_requests(1.0)
    machine.abandon_waiting(3.0)
    assert [request.epoch for request in requests_of_kind(machine, ShareHeartbeat, 3.0)] == [-1]


def check_that_a_leave_is_repeated_if_the_coordinator_has_moved() -> None:
    """Otherwise the group waits for the session timeout."""
    machine = reader_of()
    machine.begin_end()
    for _ in range(3):
        (leave,) = requests_of_kind(machine, ShareHeartbeat, 1.0)
        assert leave.epoch == -1
        assert not machine.has_ended
        machine.process_failure(leave, broker_error(ErrorCode.NOT_COORDINATOR, "heartbeat"), 1.0)
    assert machine.has_ended


def check_that_a_fetch_that_is_given_up_ends_its_session() -> None:
    """The broker may still process it, and hold records until their locks expire."""
    machine = reader_of()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.end_poll(1.0)
    machine.begin_end()
    machine.abandon_waiting(4.0)
    (final,) = requests_of_kind(machine, ShareAcknowledge, 4.0)
    assert final.epoch == -1
    machine.process_response(request, ShareFetchResponse({ONE: row_of([0])}, LOCK_S), 4.5)
    assert not machine.has_records
    machine.process_response(final, ShareAcknowledgeResponse({}), 5.0)
    assert [leave.epoch for leave in requests_of_kind(machine, ShareHeartbeat, 5.0)] == [-1]


def check_that_a_session_without_partitions_is_closed() -> None:
    """It is closed when the caller has no record of it left to acknowledge. If that fails, the end of the
    subscription retries it.
    """
    machine = reader_of(share_acknowledgement_mode="explicit")
    deliver(machine, {ONE: row_of([0])}, 1.0)
    machine.member.send_heartbeat_soon(1.0)
    join(machine, [TWO], 1.0)
    machine.acknowledge([("t", 0, 0)], ACCEPT)
    machine.begin_poll(2.0)
    forgets = next(request for request in requests_of_kind(machine, ShareFetch, 2.0) if request.node.node_id == 1)
    assert (forgets.removed_partitions, forgets.acknowledgements) == ([ONE], {ONE: {0: ACCEPT}})
    machine.process_response(forgets, ShareFetchResponse({ONE: ShareFetchRow()}, LOCK_S), 2.0)
    (final,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    assert (final.node.node_id, final.epoch) == (1, -1)
    machine.process_failure(final, broker_error(ErrorCode.UNKNOWN_SERVER_ERROR, "acknowledgement"), 2.0)
    machine.end_poll(2.0)
    machine.begin_end()
    assert 1 in {request.node.node_id for request in requests_of_kind(machine, ShareAcknowledge, 3.0)}


def check_that_records_of_a_response_during_the_end_are_not_buffered() -> None:
    """The request that ends the session releases them."""
    machine = reader_of()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.end_poll(1.0)
    machine.begin_end()
    machine.process_response(request, ShareFetchResponse({ONE: row_of([0])}, LOCK_S), 2.0)
    assert not machine.has_records
    (final,) = requests_of_kind(machine, ShareAcknowledge, 2.0)
    assert (final.epoch, final.acknowledgements) == (-1, {})


def check_that_errors_of_topics_are_raised() -> None:
    """A topic that the client may not describe has no leaders, and would never be read."""
    machine = machine_of()
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
    machine = reader_of()
    for now in (1.0, 2.0, 3.0):
        machine.begin_poll(now)
        for request in requests_of_kind(machine, ShareFetch, now):
            machine.process_failure(request, broker_error(ErrorCode.GROUP_AUTHORIZATION_FAILED, "fetch"), now)
        machine.end_poll(now)
    assert isinstance(machine.take_error(), BrokerError)
    assert machine.take_error() is None


def check_that_a_partition_of_a_fetch_in_flight_keeps_its_name() -> None:
    """The group assigns it to another member before the response arrives. Its records are returned."""
    machine = reader_of()
    machine.begin_poll(1.0)
    (request,) = requests_of_kind(machine, ShareFetch, 1.0)
    machine.member.send_heartbeat_soon(1.0)
    join(machine, [TWO], 1.0)
    machine.process_response(request, ShareFetchResponse({ONE: row_of([0])}, LOCK_S), 2.0)
    assert [entry.partition for entry in machine.take_records()] == [TopicPartition("t", 0)]


CASES: dict[str, Callable[[], None]] = {
    name: case for name, case in list(globals().items()) if name.startswith("check_")
}
