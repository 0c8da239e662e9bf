"""Share sessions (KIP-932): the partitions that a member of a share group fetches, stored between its requests.

A session belongs to the node and the connection on which it started. A group's coordinator initializes the group's
state in each partition (ShareGroupHeartbeat, AlterShareGroupOffsets). The state does not depend on which node leads the
partition.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes.broker.requests.request import Request
from kafkaframes.broker.security.access import check_denied
from kafkaframes.broker.settings.config_values import parse_duration_ms
from kafkaframes.broker.state.configs import get_group_setting
from kafkaframes.broker.state.partitions import build_endpoint_rows, describe_leader, find_led_partition
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Partition
from kafkaframes.coordination.groups.share_partition import RENEW, AcknowledgedRun, ShareLimits, SharePartition
from kafkaframes.coordination.groups.share_state import SessionPartition, ShareKey, ShareSession
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError
from kafkaframes.wire.integers import MAX_INT32

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
PartitionKey = tuple[UUID, int]
_FIRST_VERSION_WITH_RENEWALS: Final = 2
_MAX_MEMBER_ID_LENGTH: Final = 36
_LATEST, _EARLIEST = "latest", "earliest"


def is_member_id(text: str | None) -> bool:
    """Return whether a member id is present, and not longer than the text of a UUID."""
    return bool(text) and len(text or "") <= _MAX_MEMBER_ID_LENGTH


# ---------------------------------------------------------------------------------------------------- sessions


def begin_session(request: Request, broker: BrokerState) -> tuple[ErrorCode, ShareSession | None]:
    """Start a session. Records that the member has acquired in an earlier session stay acquired."""
    key, sessions = _build_session_key(request), broker.share_groups.sessions
    sessions.pop(key, None)
    if len(sessions) >= broker.settings.get_number("group.share.max.share.sessions"):
        return ErrorCode.SHARE_SESSION_LIMIT_REACHED, None
    session = sessions[key] = ShareSession()
    request.session.when_closed["share session"] = lambda: _end_lost_session(broker, key, session)
    return ErrorCode.NONE, session


def continue_session(request: Request, broker: BrokerState) -> tuple[ErrorCode, ShareSession | None]:
    """Check the epoch of a request that continues a session; return an error code and, if it is 0, the session."""
    session, epoch = broker.share_groups.sessions.get(_build_session_key(request)), request.body.share_session_epoch
    if session is None:
        return ErrorCode.SHARE_SESSION_NOT_FOUND, None
    if epoch == FINAL_EPOCH:
        return ErrorCode.NONE, session
    if epoch != session.epoch:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH, None
    session.epoch = 1 if session.epoch == MAX_INT32 else session.epoch + 1
    return ErrorCode.NONE, session


def update_session(request: Request, broker: BrokerState, session: ShareSession) -> None:
    """Add the partitions of a ShareFetch to the session. Unless the session is new, remove the forgotten partitions."""
    is_first = request.body.share_session_epoch == INITIAL_EPOCH
    for topic in request.body.topics:
        is_known = topic.topic_id in broker.topics_by_id
        for row in topic.partitions:
            session_partition = SessionPartition(is_known, is_answered=not is_first)
            session.partitions.setdefault((topic.topic_id, row.partition_index), session_partition)
    for forgotten_topic in [] if is_first else request.body.forgotten_topics_data:
        for index in forgotten_topic.partitions:
            session.partitions.pop((forgotten_topic.topic_id, index), None)


def end_session(request: Request, broker: BrokerState) -> None:
    """End the session, and release the records that its member has not acknowledged."""
    _release_session(broker, _build_session_key(request))


def _release_session(broker: BrokerState, key: tuple[int, str, str]) -> None:
    """Remove a share session, and release the records that its member has acquired."""
    session = broker.share_groups.sessions.pop(key, None)
    if session is not None:
        node_id, group_id, member_id = key
        partitions = [entry for entry in session.partitions if _is_led_by(broker, entry, node_id)]
        broker.share_groups.release_records(group_id, member_id, partitions)


def _is_led_by(broker: BrokerState, key: PartitionKey, node_id: int) -> bool:
    """Return whether a node leads a partition. After a move, the new leader has a session of its own for the member."""
    topic = broker.topics_by_id.get(key[0])
    partition = None if topic is None else topic.partition(key[1])
    return partition is not None and partition.leader_id == node_id


def _end_lost_session(broker: BrokerState, key: tuple[int, str, str], session: ShareSession) -> None:
    """End the session of a closed connection. After a group's last session, drop the state in memory."""
    share = broker.share_groups
    if share.sessions.get(key) is session:
        _release_session(broker, key)
    if not any(group_id == key[1] for _, group_id, _ in share.sessions):
        share.close_group(key[1])


def _build_session_key(request: Request) -> tuple[int, str, str]:
    return request.session.node_id, request.body.group_id or "", request.body.member_id or ""


# ---------------------------------------------------------------------------------------------------- partitions


def find_partition(request: Request, broker: BrokerState, key: PartitionKey) -> tuple[Partition | None, int]:
    """Return a partition by topic id and index, or None and the error code if this node does not serve it."""
    topic = broker.topics_by_id.get(key[0])
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = check_denied(request, broker.access, "TOPIC", topic.name)
    return (None, code) if code else find_led_partition(request, topic, key[1])


def get_share_state(broker: BrokerState, group_id: str, key: PartitionKey, partition: Partition) -> SharePartition:
    """Return a group's state in a partition. A new state starts at ``share.auto.offset.reset``."""
    log = partition.log

    def find_first_offset() -> int:
        """Return the offset that ``share.auto.offset.reset`` selects for a new group."""
        reset = get_group_setting(broker, group_id, "share.auto.offset.reset")
        if reset in (_EARLIEST, _LATEST):
            return log.log_start_offset if reset == _EARLIEST else log.high_watermark
        offset_at_time = log.find_offset_for_timestamp(broker.clock.now_ms - parse_duration_ms(reset))
        if offset_at_time is None or offset_at_time.offset < 0:
            raise RefusedError(ErrorCode.OFFSET_NOT_AVAILABLE, f"No record has a timestamp of {reset} or later.")
        return offset_at_time.offset

    state = broker.share_groups.open_partition(
        ShareKey(group_id, *key), find_first_offset, get_group_limits(broker, group_id)
    )
    state.move_start(log.log_start_offset)
    return state


def get_group_limits(broker: BrokerState, group_id: str) -> ShareLimits:
    """Return the limits of a group: the group's settings, or else the broker's settings."""
    return ShareLimits(
        lock_ms=int(get_group_setting(broker, group_id, "share.record.lock.duration.ms")),
        max_deliveries=int(get_group_setting(broker, group_id, "share.delivery.count.limit")),
        max_in_flight=int(get_group_setting(broker, group_id, "share.partition.max.record.locks")),
        may_renew=get_group_setting(broker, group_id, "share.renew.acknowledge.enable") == "true",
    )


# ---------------------------------------------------------------------------------------------------- acknowledgements


class Acknowledgements(NamedTuple):
    """A member's acknowledgements in one partition; ``code`` is the error code that rejects all of them, else 0."""

    key: PartitionKey
    batches: Sequence[AcknowledgedRun]
    code: int


def read_acknowledgements(request: Request, broker: BrokerState) -> list[Acknowledgements]:
    """Return a request's acknowledgements by partition.

    A partition without batches is included if another partition has valid batches.
    """
    acknowledgements = []
    for topic in request.body.topics:
        for row in topic.partitions:
            batches = [
                AcknowledgedRun(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in row.acknowledgement_batches
            ]
            key = topic.topic_id, row.partition_index
            acknowledgements.append(Acknowledgements(key, batches, _check_batches(request, broker, key, batches)))
    has_batches = any(acknowledgement.batches and not acknowledgement.code for acknowledgement in acknowledgements)
    return [
        acknowledgement
        for acknowledgement in acknowledgements
        if acknowledgement.code or acknowledgement.batches or has_batches
    ]


def _check_batches(request: Request, broker: BrokerState, key: PartitionKey, batches: Sequence[AcknowledgedRun]) -> int:
    """Return the error code of a partition's acknowledgement batches; 0 if they are valid."""
    if key[0] not in broker.topics_by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not _are_valid_batches(
        batches, request.version, renews=request.version >= _FIRST_VERSION_WITH_RENEWALS and request.body.is_renew_ack
    ):
        return ErrorCode.INVALID_REQUEST
    return find_partition(request, broker, key)[1]


def _are_valid_batches(batches: Sequence[AcknowledgedRun], version: int, *, renews: bool) -> bool:
    """Return whether the batches are ordered and have valid acknowledgement types."""
    max_type, last_end = RENEW if version >= _FIRST_VERSION_WITH_RENEWALS else RENEW - 1, -1
    for first, last, types in batches:
        if first > last or first < last_end or len(types) not in (1, last - first + 1):
            return False
        if any(not 0 <= ack_type <= max_type or (ack_type == RENEW and not renews) for ack_type in types):
            return False
        last_end = last
    return True


def acknowledge_partition(request: Request, broker: BrokerState, acknowledgements: Acknowledgements) -> int:
    """Apply a member's acknowledgements in one partition; return an error code."""
    state = broker.share_groups.partitions.get(ShareKey(request.body.group_id or "", *acknowledgements.key))
    if acknowledgements.code or not acknowledgements.batches:
        return acknowledgements.code
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        state.acknowledge_records(request.body.member_id or "", acknowledgements.batches)
    except RefusedError as error:
        return error.code
    except KafkaframesError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def find_request_error(request: Request) -> int:
    """Return the error code if a member's whole request is rejected, else 0."""
    is_invalid = request.body.group_id is None or not is_member_id(request.body.member_id)
    return ErrorCode.INVALID_REQUEST if is_invalid else ErrorCode.NONE


def get_lock_ms(request: Request, broker: BrokerState) -> int:
    """Return how long the group's acquired records stay locked, in milliseconds."""
    return get_group_limits(broker, request.body.group_id or "").lock_ms


def set_current_leaders(request: Request, broker: BrokerState, rows: Any) -> list[Any]:
    """Set the current leader in rows of partitions that other nodes lead (KIP-951); return these nodes' addresses."""
    nodes = set()
    for topic_id, partitions in rows:
        topic = broker.topics_by_id.get(topic_id)
        for row in partitions:
            partition = None if topic is None else topic.partition(row.partition_index)
            if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None:
                row.current_leader = describe_leader(request, partition)
                nodes.add(partition.leader_id)
    return build_endpoint_rows(request, broker, nodes)
