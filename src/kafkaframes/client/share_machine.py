"""The state machine of a share consumer: its group, its share sessions, its records.

The module uses no socket, clock or task. Each event is a method call with the current time: a poll, an acknowledgement,
a response, the failure of a request. ``next_requests`` returns the requests to send, and ``next_time`` the time to call
it again. ``share_task`` runs the machine, and ``tests/soak/share_schedules.py`` explores its states. Rules:

1. A ShareFetch is sent only while the caller waits for records and none are buffered: locks expire while the caller
   handles records, and each expired lock counts as a delivery.
2. The requests of a session are numbered, so each node has at most one request in flight. Acknowledgements that a poll
   or a commit has to send wait for its response, and are sent with the next ShareFetch, or alone if no ShareFetch is
   due.
3. Each acknowledgement has one result: an error, or none if the response has a row for the partition.
4. A record is acknowledged in the session that acquired it. If the session is lost, its buffered records are dropped.
   Acknowledgements of the session's records fail, because other members may have acquired the records.
5. When the subscription ends, each node gets the pending acknowledgements with the request that ends its session. The
   node then releases the other records of the member. The member leaves the group last.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from kafkaframes.client.cluster import is_retriable
from kafkaframes.client.group_requests import FetchMetadata
from kafkaframes.client.metadata import Cluster, Node, TopicPartition
from kafkaframes.client.response_rows import create_missing_row_error, require_success
from kafkaframes.client.settings import ShareConsumerSettings
from kafkaframes.client.share_member import ShareMember
from kafkaframes.client.share_requests import (
    Acknowledgements,
    NodeRequest,
    ShareAcknowledge,
    ShareAcknowledgeResponse,
    ShareFetch,
    ShareFetchResponse,
    ShareFetchRow,
    ShareHeartbeat,
    ShareHeartbeatResponse,
    ShareRequest,
)
from kafkaframes.client.share_session import (
    ACCEPT,
    FINAL_EPOCH,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    SESSION_LOST_ERRORS,
    PartitionId,
    ShareSession,
)
from kafkaframes.errors import (
    LEADER_MOVED_CODES,
    BrokerError,
    CorruptRecordError,
    ErrorCode,
    NetworkError,
    OptionError,
    to_broker_error,
)
from kafkaframes.protocol.addresses import format_address

RecordKey = tuple[str, int, int]  # topic, partition, offset
AcknowledgementError = BrokerError | NetworkError


class AcquiredBatch(NamedTuple):
    """Records that a node has delivered to this member.

    Attributes:
        offsets: offsets of the records, in order.
        deliveries: delivery counts, by offset.
        session_number: number of the session that acquired the records.
        expires_at: time after which the locks may have expired; None if the lock duration is unknown.
        batch: the records.
    """

    partition: TopicPartition
    partition_id: PartitionId
    node_id: int
    session_number: int
    offsets: Sequence[int]
    deliveries: Mapping[int, int]
    expires_at: float | None
    batch: Any


class AcknowledgementResult(NamedTuple):
    """The result of acknowledgements: their offsets, and the error if they failed."""

    offsets: dict[TopicPartition, list[int]]
    error: AcknowledgementError | None


class _RecordLock(NamedTuple):
    """The session and the partition of a locked record."""

    node_id: int
    session_number: int
    partition_id: PartitionId


@dataclass(eq=False, slots=True)
class PendingResults:
    """The results of a commit or a renewal, as responses arrive.

    Attributes:
        node_ids: nodes that have not responded yet.
        results: errors by partition; None for a partition without an error.
        error: error that prevented a request from being sent.
    """

    node_ids: set[int] = field(default_factory=set)
    results: dict[TopicPartition, AcknowledgementError | None] = field(default_factory=dict)
    error: Exception | None = None

    @property
    def is_done(self) -> bool:
        """Whether all nodes have responded."""
        return not self.node_ids

    def add(self, partition: TopicPartition, error: AcknowledgementError | None) -> None:
        """Add the result of a partition. The first error for a partition is kept."""
        self.results[partition] = self.results.get(partition) or error

    def require_success(self) -> None:
        """Raise the error in the results, if any.

        Raises:
            BrokerError: a broker rejected acknowledgements. The error is a ``PartialFailureError`` if several
                partitions are affected.
            NetworkError: no broker rejected acknowledgements, and at least one did not respond.
        """
        if self.error is not None:
            raise self.error
        require_success(self.results)
        for error in self.results.values():
            if error is not None:
                raise error


class _LockRenewal(NamedTuple):
    """Records of one node whose locks are to be extended, and the object that collects the results."""

    kinds: Acknowledgements
    completion: PendingResults


@dataclass(eq=False, slots=True)
class _ShareNode:
    """A node with which the member has a share session.

    Attributes:
        request: request in flight; None if no request is in flight.
        sent_at: time at which the request in flight was sent.
        not_before: time before which no request is sent, after a failure.
        failures: number of consecutive failures.
        must_send: whether pending acknowledgements are sent even without a ShareFetch.
        renewals: renewals to send, one request each.
        renewal: lock renewal that the request in flight sends; None if it sends none.
        commits: commits that wait for acknowledgements of this node.
        may_have_session: whether the node may have a session of this member.
        fetched_at: time of the last ShareFetch.
    """

    node: Node
    session: ShareSession = field(default_factory=ShareSession)
    request: NodeRequest | None = None
    sent_at: float = 0.0
    not_before: float = 0.0
    failures: int = 0
    must_send: bool = False
    renewals: deque[_LockRenewal] = field(default_factory=deque)
    renewal: _LockRenewal | None = None
    commits: list[PendingResults] = field(default_factory=list)
    may_have_session: bool = False
    fetched_at: float = -1.0

    def send_pending_acknowledgements(self) -> None:
        """Send the pending acknowledgements, even if no ShareFetch is due."""
        self.must_send = self.must_send or bool(self.session.pending)

    @property
    def has_unanswered_acknowledgements(self) -> bool:
        """Whether acknowledgements are in flight or must be sent. Gaps alone are sent with the next ShareFetch."""
        is_in_flight = self.request is not None and self.renewal is None and bool(self.request.acknowledgements)
        return is_in_flight or (self.must_send and bool(self.session.pending))


class ShareConsumerMachine:
    """The protocol state of one share consumer: its membership, fetch sessions, record locks and acknowledgements.

    Attributes:
        member: membership in the group.
        assignment: assigned partitions with known topic names.
        lock_s: lock duration of a record as brokers last reported it, in seconds; None before the first fetch.
    """

    def __init__(self, settings: ShareConsumerSettings, cluster: Cluster, *, backoff_s: Callable[[int], float]) -> None:
        """Create a machine without a subscription.

        Args:
            settings: settings of the share consumer, such as the acknowledgement mode.
            cluster: cluster metadata.
            backoff_s: function that returns the backoff after a number of failures, in seconds.
        """
        self._settings = settings
        self._cluster = cluster
        self._backoff_s = backoff_s
        self.member = ShareMember(backoff_s=backoff_s, max_poll_s=settings.max_poll_interval_ms / 1000)
        self.assignment: dict[PartitionId, TopicPartition] = {}
        self.lock_s: float | None = None
        self._partitions: dict[PartitionId, TopicPartition] = {}  # includes partitions that are no longer assigned
        self._nodes: dict[int, _ShareNode] = {}
        self._buffer: list[AcquiredBatch] = []
        self._locks: dict[RecordKey, _RecordLock] = {}  # locks of records that the caller has not acknowledged
        self._results: list[AcknowledgementResult] = []
        self._errors: deque[Exception] = deque()
        # errors of acknowledgements since the last poll
        self._unsent_errors: dict[TopicPartition, AcknowledgementError] = {}
        self._is_ending = False
        self._metadata_request: FetchMetadata | None = None
        self._metadata_not_before = 0.0
        self._metadata_failures = 0

    # -------------------------------------------------------------------------------------------- what the caller does

    def subscribe(self, topics: tuple[str, ...], now: float) -> None:
        """Set the subscription. Buffered records of other topics are released."""
        self._is_ending = False
        self.member.subscribe(topics, now)
        self._release_batches([entry for entry in self._buffer if entry.partition.topic not in topics])
        self._buffer = [entry for entry in self._buffer if entry.partition.topic in topics]

    @property
    def topics(self) -> tuple[str, ...]:
        """The subscribed topics, sorted."""
        return self.member.topics

    def begin_poll(self, now: float) -> None:
        """Start to wait for records. If acknowledgements are implicit, accept the records of the previous poll.

        Raises:
            OptionError: the consumer has no subscription, or acknowledgements are explicit and a record of the previous
                poll is not acknowledged.
        """
        if not self.topics or self._is_ending:
            raise OptionError("the consumer has no subscription; call subscribe first")
        if self._locks and self._settings.is_explicit:
            topic, partition, offset = next(iter(self._locks))
            raise OptionError(
                f"{len(self._locks)} records from the last poll have no acknowledgement, such as offset {offset} of "
                f"{topic}-{partition}; with share_acknowledgement_mode=explicit each needs one"
            )
        self._accept_delivered()
        self._unsent_errors.clear()
        self._send_pending_acknowledgements()
        self.member.process_poll(now)
        self.member.is_waiting = True

    def end_poll(self, now: float) -> None:
        """Stop waiting for records."""
        self.member.is_waiting = False
        self.member.process_poll(now)

    def take_error(self) -> Exception | None:
        """Return the error that this poll raises, and remove it."""
        return self._errors.popleft() if self._errors else None

    def take_records(self) -> list[AcquiredBatch]:
        """Return the buffered records. The caller has to acknowledge these records."""
        acquired_batches, self._buffer = self._buffer, []
        for entry in acquired_batches:
            lock = _RecordLock(entry.node_id, entry.session_number, entry.partition_id)
            topic, partition = entry.partition.topic, entry.partition.partition
            for offset in entry.offsets:
                self._locks[topic, partition, offset] = lock
        return acquired_batches

    @property
    def has_records(self) -> bool:
        """Whether records are buffered."""
        return bool(self._buffer)

    def acknowledge(self, keys: Sequence[RecordKey], kind: int) -> None:
        """Acknowledge records. The next poll, commit or renewal sends the acknowledgements.

        Raises:
            OptionError: a record was not in the last poll or is already acknowledged. If this error is raised, no
                record is acknowledged.
        """
        locks = self._group_by_lock(keys)
        for key in keys:
            del self._locks[key]
        for lock, offsets in locks.items():
            state = self._nodes[lock.node_id]
            if lock.session_number == state.session.number:
                state.session.acknowledge(lock.partition_id, offsets, kind)
            else:
                self._record_unsent_acknowledgements(state, {lock.partition_id: dict.fromkeys(offsets, kind)})

    def _group_by_lock(self, keys: Sequence[RecordKey]) -> dict[_RecordLock, list[int]]:
        """Group the offsets of delivered records by their lock."""
        result: dict[_RecordLock, list[int]] = {}
        for key in keys:
            lock = self._locks.get(key)
            if lock is None:
                topic, partition, offset = key
                raise OptionError(
                    f"offset {offset} of {topic}-{partition} was not in the last poll, or is acknowledged already"
                )
            result.setdefault(lock, []).append(key[2])
        if len(set(keys)) < len(keys):
            raise OptionError("a record is acknowledged twice in one call")
        return result

    def _accept_delivered(self) -> None:
        """Accept the delivered records that the caller has not acknowledged, unless acknowledgements are explicit."""
        if self._locks and not self._settings.is_explicit:
            self.acknowledge(list(self._locks), ACCEPT)

    def _send_pending_acknowledgements(self) -> None:
        for state in self._nodes.values():
            state.send_pending_acknowledgements()

    def commit(self) -> PendingResults:
        """Send all acknowledgements. In implicit mode, accept the other records from the last poll first."""
        self._accept_delivered()
        completion = PendingResults()
        completion.results.update(self._unsent_errors)
        self._unsent_errors.clear()
        self._send_pending_acknowledgements()
        for node_id, state in self._nodes.items():
            if state.has_unanswered_acknowledgements:
                state.commits.append(completion)
                completion.node_ids.add(node_id)
        return completion

    def renew(self, keys: Sequence[RecordKey]) -> PendingResults:
        """Extend the locks of delivered records. Pending acknowledgements to the nodes of these records are sent first.

        The locks of buffered records are extended as well, because the caller needs more time than their duration.

        Raises:
            OptionError: a record was not in the last poll or is already acknowledged.
        """
        completion = PendingResults()
        by_node: dict[int, dict[PartitionId, dict[int, int]]] = {}
        for lock, offsets in self._group_by_lock(keys).items():
            state = self._nodes[lock.node_id]
            if lock.session_number == state.session.number:
                by_node.setdefault(lock.node_id, {})[lock.partition_id] = dict.fromkeys(offsets, RENEW)
            else:
                completion.add(self._partitions[lock.partition_id], _create_session_error(state.node))
        for node_id, kinds in by_node.items():
            state = self._nodes[node_id]
            state.send_pending_acknowledgements()
            state.renewals.append(_LockRenewal(kinds, completion))
            completion.node_ids.add(node_id)
        for entry in self._buffer:
            renewed_offsets = {entry.partition_id: dict.fromkeys(entry.offsets, RENEW)}
            self._nodes[entry.node_id].renewals.append(_LockRenewal(renewed_offsets, PendingResults()))
        return completion

    def take_results(self) -> list[AcknowledgementResult]:
        """Return the results of acknowledgements since the last call."""
        results, self._results = self._results, []
        return results

    # ------------------------------------------------------------------------------------------------------- the end

    def end_subscription(self) -> None:
        """End the subscription: ``next_requests`` returns the last requests, until ``has_ended``."""
        self._is_ending = True
        self.member.is_waiting = False
        self._buffer.clear()  # the end of the session releases the buffered records
        self._locks.clear()
        for state in self._nodes.values():
            self._fail_renewals(state, NetworkError("the subscription ended before the locks were renewed"))

    @property
    def has_ended(self) -> bool:
        """Whether every node has answered its final request."""
        return self._is_ending and not self.member.is_busy and not self._nodes and not self.member.topics

    def abandon_waiting(self, now: float) -> None:
        """Stop waiting for the responses to requests in flight, and send the last requests."""
        error = NetworkError("the subscription ended before the broker responded")
        for state in list(self._nodes.values()):
            if isinstance(state.request, ShareFetch):
                self._process_node_failure(state, state.request, error, now)
                state.may_have_session = True
        self.member.abandon_heartbeat()

    def abandon(self) -> None:
        """End the subscription without waiting. The results of requests in flight are unknown."""
        error = NetworkError("the call was cancelled before the broker responded")
        for state in self._nodes.values():
            if state.request is not None and state.renewal is None:
                self._record_result(state.request.acknowledgements, error, state)
            self._record_result(state.session.take_pending(), error, state)
        self._nodes.clear()
        self._buffer.clear()
        self._locks.clear()
        self._unsent_errors.clear()
        self._leave_group()
        self.member.abandon_heartbeat()

    def _leave_group(self) -> None:
        self.member.leave()
        self.member.topics, self.assignment, self._partitions = (), {}, {}

    def _next_end_requests(self, now: float) -> Iterator[ShareRequest]:
        """Yield the requests that end the sessions, then the one that leaves the group."""
        for node_id, state in list(self._nodes.items()):
            if state.request is not None:
                continue
            if not state.may_have_session:
                del self._nodes[node_id]
                continue
            kinds = state.session.take_pending()
            state.may_have_session = False
            yield self._send_request(state, ShareAcknowledge(state.node, FINAL_EPOCH, kinds), now)
        if not self._nodes and not self.member.is_busy and self.member.topics:
            self._leave_group()
        if not self.member.topics:
            yield from self.member.next_requests(now)

    # ----------------------------------------------------------------------------------------------------- requests

    def next_requests(self, now: float) -> list[ShareRequest]:
        """Return the requests to send now."""
        if self._is_ending:
            return list(self._next_end_requests(now))
        self._buffer = [entry for entry in self._buffer if entry.expires_at is None or now < entry.expires_at]
        result: list[ShareRequest] = [*self.member.next_requests(now)]
        if self.assignment and not self.member.partition_ids:  # the member has left the group
            self._resolve_topics()
        partitions_by_node = self._assign_to_nodes() if self._must_fetch else {}
        result += self._next_metadata_requests(now)
        for state in sorted(self._nodes.values(), key=lambda state: state.fetched_at):
            if state.request is None and now >= state.not_before:
                request = self._next_node_request(state, partitions_by_node.get(state.node.node_id), now)
                if request is not None:
                    result.append(self._send_request(state, request, now))
        return result

    @property
    def _must_fetch(self) -> bool:
        return self.member.is_waiting and not self._buffer and not self._errors

    def _send_request(self, state: _ShareNode, request: NodeRequest, now: float) -> NodeRequest:
        state.request, state.sent_at = request, now
        state.must_send = False
        return request

    def _next_node_request(
        self, state: _ShareNode, assigned_partitions: Sequence[PartitionId] | None, now: float
    ) -> NodeRequest | None:
        """Return the next request to a node."""
        session = state.session
        if state.must_send and state.renewals:
            return ShareAcknowledge(state.node, session.epoch, session.take_pending())
        if state.renewals:
            state.renewal = state.renewals.popleft()
            return ShareAcknowledge(state.node, session.epoch, state.renewal.kinds, is_renewal=True)
        if assigned_partitions is not None and self._may_fetch(state, assigned_partitions):
            added_partitions, removed_partitions = session.plan_changes(assigned_partitions)
            state.fetched_at, state.may_have_session = now, True
            return ShareFetch(state.node, session.epoch, added_partitions, removed_partitions, session.take_pending())
        if state.must_send and session.pending:
            return ShareAcknowledge(state.node, session.epoch, session.take_pending())
        if assigned_partitions is not None and not assigned_partitions and self._is_unused(state):
            return ShareAcknowledge(state.node, FINAL_EPOCH, {})
        return None

    def _is_unused(self, state: _ShareNode) -> bool:
        """Return whether a session has no partitions, no acknowledgements to send, and no records of the caller."""
        session, node_id = state.session, state.node.node_id
        if not session.is_open or session.partitions or session.pending:
            return False
        return not any(lock.node_id == node_id for lock in self._locks.values())

    def _may_fetch(self, state: _ShareNode, assigned_partitions: Sequence[PartitionId]) -> bool:
        """Return whether to send a ShareFetch.

        A ShareFetch is also needed to remove the last partitions from a session.
        """
        if not assigned_partitions and not state.session.partitions:
            return False
        if self._settings.share_acquire_mode != "record_limit":
            return True
        return not any(isinstance(node.request, ShareFetch) for node in self._nodes.values())

    def _assign_to_nodes(self) -> dict[int, list[PartitionId]]:
        """Return the assigned partitions by leader; an empty list for nodes that lead none.

        Create the state of new leaders, and update the addresses of the other leaders.
        """
        result: dict[int, list[PartitionId]] = {node_id: [] for node_id in self._nodes}
        for partition_id, partition in self.assignment.items():
            leader = self._cluster.leader(partition)
            if leader is None:
                continue
            state = self._nodes.get(leader.node_id)
            if state is None:
                self._nodes[leader.node_id] = _ShareNode(leader)
            elif state.node != leader and state.request is None:
                state.node = leader
            result.setdefault(leader.node_id, []).append(partition_id)
        return result

    def _next_metadata_requests(self, now: float) -> list[ShareRequest]:
        if self._metadata_request is not None or now < self._metadata_not_before or not self._stale_topics:
            return []
        self._metadata_request = FetchMetadata(self._stale_topics)
        return [self._metadata_request]

    @property
    def _stale_topics(self) -> frozenset[str]:
        """The topics with metadata to refresh: those of partitions without a known leader or topic name."""
        if len(self.assignment) < len(self.member.partition_ids):
            return frozenset(self.topics)
        if not self._must_fetch:
            return frozenset()
        return frozenset(
            partition.topic for partition in self.assignment.values() if self._cluster.leader(partition) is None
        )

    def next_time(self, now: float) -> float | None:
        """Return the time of the next request without an event, in seconds of the monotonic clock; None if unknown."""
        if self._is_ending:
            return None
        times = [self.member.next_time(now)]
        if self._metadata_request is None and self._stale_topics:
            times.append(self._metadata_not_before)
        for state in self._nodes.values():
            has_work = self._must_fetch or state.must_send or state.renewals
            if state.request is None and has_work and state.not_before > now:
                times.append(state.not_before)
        return min((time for time in times if time is not None), default=None)

    # ---------------------------------------------------------------------------------------------------- responses

    def process_response(self, request: ShareRequest, answer: object, now: float) -> None:
        """Process the response to a request."""
        if isinstance(request, FetchMetadata):
            self._process_metadata_response(request, now)
        elif isinstance(request, ShareHeartbeat):
            assert isinstance(answer, ShareHeartbeatResponse)
            if self.member.process_response(request, answer, now):
                self._resolve_topics()
        else:
            state = self._find_waiting_node(request)
            if state is None:
                return
            state.request, state.failures, state.not_before = None, 0, now
            if isinstance(request, ShareFetch):
                assert isinstance(answer, ShareFetchResponse)
                self._process_fetch_response(state, request, answer)
            else:
                assert isinstance(answer, ShareAcknowledgeResponse)
                self._process_acknowledge_response(state, request, answer)
            self._finish_commits(state)

    def process_failure(self, request: ShareRequest, error: Exception, now: float) -> None:
        """Process the failure of a whole request."""
        if isinstance(request, FetchMetadata):
            if request is self._metadata_request:
                self._metadata_request = None
                self._metadata_not_before = now + self._backoff_s(self._metadata_failures)
                self._metadata_failures += 1
                if not is_retriable(error):
                    self.queue_error(error)
        elif isinstance(request, ShareHeartbeat):
            member_error = self.member.process_failure(request, error, now)
            if member_error is not None:
                self.queue_error(member_error)
            if not self.member.partition_ids:
                self._resolve_topics()
        else:
            state = self._find_waiting_node(request)
            if state is not None:
                self._process_node_failure(state, request, error, now)

    def queue_error(self, error: Exception) -> None:
        """Queue an error for the next poll to raise. An error that is already queued is not added again."""
        if not any(str(entry) == str(error) for entry in self._errors):
            self._errors.append(error)

    def _find_waiting_node(self, request: NodeRequest) -> _ShareNode | None:
        """Return the state of the node that has this request in flight; None if its response is not awaited."""
        state = self._nodes.get(request.node.node_id)
        return state if state is not None and state.request is request else None

    # ---------------------------------------------------------------------------------------- assignment and metadata

    def _process_metadata_response(self, request: FetchMetadata, now: float) -> None:
        if request is not self._metadata_request:
            return
        self._metadata_request = None
        for name in request.topics or ():
            topic = self._cluster.topics.get(name)
            if topic is not None and topic.error and not topic.error.is_retriable:
                self.queue_error(to_broker_error(topic.error, f"topic {name}"))
        self._resolve_topics()
        self._metadata_not_before = now + self._backoff_s(self._metadata_failures)
        self._metadata_failures = self._metadata_failures + 1 if self._stale_topics else 0
        if self._stale_topics:  # a deleted topic is no longer assigned, and one that was created again has another id
            self.member.send_heartbeat_soon(now)

    def _resolve_topics(self) -> None:
        """Look up the names of the assigned topics.

        Topics without metadata are omitted until the metadata is refreshed.
        """
        names = {topic.topic_id: topic.name for topic in self._cluster.topics.values()}
        self.assignment = {
            entry: TopicPartition(names[entry.topic_id], entry.partition)
            for entry in self.member.partition_ids
            if entry.topic_id in names
        }
        used_partitions = {lock.partition_id for lock in self._locks.values()}
        for state in self._nodes.values():
            used_partitions.update(state.session.partitions, state.session.pending)
            used_partitions.update(() if state.request is None else state.request.acknowledgements)
            used_partitions.update(state.request.added_partitions if isinstance(state.request, ShareFetch) else ())
            used_partitions.update(
                *(renewal.kinds for renewal in (*state.renewals, state.renewal) if renewal is not None)
            )
        self._partitions = {
            entry: partition for entry, partition in self._partitions.items() if entry in used_partitions
        } | self.assignment

    def get_partition(self, partition_id: PartitionId) -> TopicPartition | None:
        """Return the name and number of a partition that is or was assigned; None if the id is unknown."""
        return self._partitions.get(partition_id)

    # ----------------------------------------------------------------------------------------------- share sessions

    def _process_fetch_response(self, state: _ShareNode, request: ShareFetch, answer: ShareFetchResponse) -> None:
        session = state.session
        session.partitions.update(request.added_partitions)
        session.partitions.difference_update(request.removed_partitions)
        session.advance()
        if answer.lock_s:
            self.lock_s = answer.lock_s
        for partition_id, row in answer.rows.items():
            if row.error is not None:
                self._process_fetch_error(partition_id, row.error)
            elif row.deliveries:
                self._buffer_acquired_records(state, partition_id, row)
        rows = {partition_id: row.acknowledge_error for partition_id, row in answer.rows.items()}
        self._record_row_results(state, request.acknowledgements, rows)

    def _process_fetch_error(self, partition_id: PartitionId, error: BrokerError) -> None:
        """Look up the leader again after a retriable error. The next poll raises other errors."""
        if error.code not in LEADER_MOVED_CODES and not is_retriable(error):
            self.queue_error(error)
            return
        partition = self.get_partition(partition_id)
        if partition is not None:
            self._cluster.expire(partition.topic)

    def _buffer_acquired_records(self, state: _ShareNode, partition_id: PartitionId, row: ShareFetchRow) -> None:
        """Buffer acquired records. Acknowledge acquired offsets without a record as gaps."""
        partition, session = self.get_partition(partition_id), state.session
        if self._is_ending:  # the end of the session releases the buffered records
            return
        if partition is None or partition.topic not in self.topics:
            session.acknowledge(partition_id, row.deliveries, RELEASE)
            state.must_send = True
            return
        missing = dict.fromkeys(row.deliveries)
        expires_at = None if self.lock_s is None else state.sent_at + self.lock_s
        for offsets, batch in row.batches:
            self._buffer.append(
                AcquiredBatch(
                    partition,
                    partition_id,
                    state.node.node_id,
                    session.number,
                    offsets,
                    row.deliveries,
                    expires_at,
                    batch,
                )
            )
            for offset in offsets:
                missing.pop(offset, None)
        kind = GAP
        if row.damage is not None:  # another member may be able to decode these records
            kind = REJECT if isinstance(row.damage, CorruptRecordError) else RELEASE
            self.queue_error(row.damage)
        if missing:
            session.acknowledge(partition_id, missing, kind)

    def _release_batches(self, batches: Iterable[AcquiredBatch]) -> None:
        for entry in batches:
            session = self._nodes[entry.node_id].session
            if session.number == entry.session_number:
                session.acknowledge(entry.partition_id, entry.offsets, RELEASE)
        self._send_pending_acknowledgements()

    def _process_acknowledge_response(
        self, state: _ShareNode, request: ShareAcknowledge, answer: ShareAcknowledgeResponse
    ) -> None:
        if request.epoch == FINAL_EPOCH:
            self._close_session(state)
        else:
            state.session.advance()
        renewal, state.renewal = state.renewal, None
        if renewal is not None:
            for partition_id in renewal.kinds:
                error = _get_row_error(partition_id, answer.rows, state.node)
                renewal.completion.add(self._partitions[partition_id], error)
                if error is None:
                    self._extend_locks(state, partition_id, renewal.kinds[partition_id])
            renewal.completion.node_ids.discard(state.node.node_id)
        else:
            self._record_row_results(state, request.acknowledgements, answer.rows)

    def _extend_locks(self, state: _ShareNode, partition_id: PartitionId, offsets: Iterable[int]) -> None:
        """Store when the renewed locks of buffered records expire."""
        if self.lock_s is not None:
            expires_at, renewed_offsets = state.sent_at + self.lock_s, set(offsets)
            self._buffer = [
                entry._replace(expires_at=expires_at)
                if entry.partition_id == partition_id and renewed_offsets.issuperset(entry.offsets)
                else entry
                for entry in self._buffer
            ]

    def _close_session(self, state: _ShareNode) -> None:
        state.session.reset()
        self._nodes.pop(state.node.node_id, None)

    def _record_row_results(
        self, state: _ShareNode, kinds: Acknowledgements, rows: Mapping[PartitionId, BrokerError | None]
    ) -> None:
        """Record the result of each partition. A partition without a row in the response counts as failed."""
        for partition_id, offsets in kinds.items():
            self._record_result({partition_id: offsets}, _get_row_error(partition_id, rows, state.node), state)

    def _record_result(
        self, kinds: Acknowledgements, error: AcknowledgementError | None, state: _ShareNode | None = None
    ) -> None:
        """Record the result of acknowledgements, for the caller and for the commits that wait for the node."""
        result: dict[TopicPartition, list[int]] = {}
        for partition_id, entries in kinds.items():
            partition = self._partitions.get(partition_id)
            offsets = sorted(offset for offset, kind in entries.items() if kind != GAP)
            if partition is None or not offsets:
                continue
            result[partition] = offsets
            for completion in () if state is None else state.commits:
                completion.add(partition, error)
        if result:
            self._results.append(AcknowledgementResult(result, error))

    def _finish_commits(self, state: _ShareNode) -> None:
        """Complete the commits that wait for a node, if no acknowledgement is left."""
        if not state.has_unanswered_acknowledgements:
            for completion in state.commits:
                completion.node_ids.discard(state.node.node_id)
            state.commits.clear()

    def _process_node_failure(self, state: _ShareNode, request: NodeRequest, error: Exception, now: float) -> None:
        """Process a request without a result. It is unknown whether the node has processed the request."""
        state.request = None
        renewal, state.renewal = state.renewal, None
        # The renewal was not sent: the broker does not support renewals.
        if renewal is not None and isinstance(error, OptionError):
            renewal.completion.error = error
            renewal.completion.node_ids.discard(state.node.node_id)
            return
        code = error.code if isinstance(error, BrokerError) else None
        reason = error if isinstance(error, (BrokerError, NetworkError)) else NetworkError(f"no response: {error!r}")
        is_known = reason is error
        if renewal is None:
            self._record_result(request.acknowledgements, reason, state)
        else:
            self._fail_renewal(state, renewal, reason)
        self._lose_session(state)
        state.may_have_session = state.may_have_session and not isinstance(error, NetworkError)
        is_first_loss = code in SESSION_LOST_ERRORS and state.failures == 0
        state.not_before = now if is_first_loss else now + self._backoff_s(state.failures)
        state.failures += 1
        if isinstance(error, NetworkError):
            self._cluster.mark_unreachable(state.node.node_id)
        elif not is_known or (isinstance(request, ShareFetch) and not is_retriable(error)):
            self.queue_error(error)
        if self._is_ending and isinstance(request, ShareAcknowledge) and request.epoch == FINAL_EPOCH:
            self._close_session(state)
        self._finish_commits(state)

    def _lose_session(self, state: _ShareNode) -> None:
        """Start over with a new session. Acknowledgements and renewals of the lost session fail."""
        pending_acknowledgements, is_awaited = state.session.take_pending(), state.must_send and bool(state.commits)
        state.session.reset()
        state.must_send = False
        self._record_unsent_acknowledgements(state, pending_acknowledgements, is_awaited=is_awaited)
        self._fail_renewals(state, _create_session_error(state.node))
        self._buffer = [entry for entry in self._buffer if entry.node_id != state.node.node_id]

    def _record_unsent_acknowledgements(
        self, state: _ShareNode, kinds: Acknowledgements, *, is_awaited: bool = False
    ) -> None:
        """Record the failure of acknowledgements of a lost session, for the commit that awaits them or for the next."""
        error = _create_session_error(state.node)
        if not is_awaited:
            self._unsent_errors |= {
                self._partitions[partition_id]: error
                for partition_id, entries in kinds.items()
                if partition_id in self._partitions and any(kind != GAP for kind in entries.values())
            }
        self._record_result(kinds, error, state if is_awaited else None)

    def _fail_renewals(self, state: _ShareNode, error: AcknowledgementError) -> None:
        while state.renewals:
            self._fail_renewal(state, state.renewals.popleft(), error)

    def _fail_renewal(self, state: _ShareNode, renewal: _LockRenewal, error: AcknowledgementError) -> None:
        for partition_id in renewal.kinds:
            renewal.completion.add(self._partitions[partition_id], error)
        renewal.completion.node_ids.discard(state.node.node_id)


def _get_row_error(
    partition_id: PartitionId, rows: Mapping[PartitionId, BrokerError | None], node: Node
) -> BrokerError | None:
    """Return the error for a partition in a response. A partition without a row has no result, which is an error."""
    if partition_id in rows:
        return rows[partition_id]
    return create_missing_row_error([partition_id], f"acknowledgement at {describe_node(node)}")


def _create_session_error(node: Node) -> BrokerError:
    return to_broker_error(ErrorCode.SHARE_SESSION_NOT_FOUND, f"acknowledgement at {describe_node(node)}")


def describe_node(node: Node) -> str:
    """Return the id and the address of a node, for error messages."""
    return f"broker {node.node_id} at {format_address(node.host, node.port)}"
