"""Share sessions: the partitions that a member of a share group fetches, kept between its requests (KIP-932)."""

from __future__ import annotations

from typing import Any, Final
from uuid import UUID

from kafkaframes.broker.access import denied
from kafkaframes.broker.apis._groups import GROUP, elsewhere
from kafkaframes.broker.find import led_here
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Partition
from kafkaframes.coordination.groups.share_partition import SharePartition
from kafkaframes.coordination.groups.share_state import ShareKey, ShareSession
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode, KafkaframesError

INITIAL, FINAL = 0, -1
Place = tuple[UUID, int]
_MOST_SESSIONS: Final = 2_000
_LONGEST_MEMBER_ID: Final = 36
_LARGEST_EPOCH: Final = 2**31 - 1
_LATEST, _EARLIEST = "latest", "earliest"


def without_members(request: Request, broker: BrokerState) -> tuple[ErrorCode, str | None]:
    """Return why an administrator may not move a group's offsets: an error code and words; 0 if it may."""
    code = elsewhere(request, broker, GROUP, request.body.group_id)
    if code == ErrorCode.NONE:
        try:
            broker.groups.share_group(request.body.group_id).check_delete()
        except RefusedError as error:
            return error.code, error.reason
    return code, None


def is_member_id(text: str | None) -> bool:
    """Return whether a member's id is there, and no longer than a UUID's text."""
    return bool(text) and len(text or "") <= _LONGEST_MEMBER_ID


def enter(request: Request, broker: BrokerState, *, may_begin: bool) -> tuple[ErrorCode, ShareSession | None]:
    """Find or begin the session of a request; return an error code, and the session.

    Args:
        may_begin: ShareFetch begins sessions, ShareAcknowledge does not.
    """
    body = request.body
    who, sessions = (body.group_id or "", body.member_id or ""), broker.share_groups.sessions
    if body.share_session_epoch == INITIAL:
        if not may_begin:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH, None
        if who not in sessions and len(sessions) >= _MOST_SESSIONS:
            return ErrorCode.SHARE_SESSION_LIMIT_REACHED, None
        sessions[who] = ShareSession()
        return ErrorCode.NONE, sessions[who]
    session = sessions.get(who)
    if session is None:
        return ErrorCode.SHARE_SESSION_NOT_FOUND, None
    if body.share_session_epoch == FINAL:
        return ErrorCode.NONE, session
    if body.share_session_epoch != session.epoch:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH, None
    session.epoch = 1 if session.epoch == _LARGEST_EPOCH else session.epoch + 1
    return ErrorCode.NONE, session


def end(request: Request, broker: BrokerState) -> None:
    """End the session, and take back what its member has not acknowledged."""
    who = request.body.group_id or "", request.body.member_id or ""
    broker.share_groups.sessions.pop(who, None)
    broker.share_groups.states.release(*who)


def find(request: Request, broker: BrokerState, place: Place) -> tuple[Partition | None, int]:
    """Return the partition of a place, or why it is not served here."""
    topic = broker.topics_by_id.get(place[0])
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_ID
    code = denied(request, broker.access, "TOPIC", topic.name)
    return (None, code) if code else led_here(request, topic, place[1])


def state_of(broker: BrokerState, group_id: str, place: Place, partition: Partition) -> SharePartition:
    """Return where a group stands in a partition; a new group begins as ``share.auto.offset.reset`` says.

    Raises:
        KafkaframesError: the log did not take it.
    """
    log = partition.log
    given = broker.metadata.entities.get("group_configs", {}).get(group_id, {})

    def begin() -> int:
        reset = given.get("share.auto.offset.reset", _LATEST)
        return log.log_start_offset if reset == _EARLIEST else log.high_watermark

    lock_ms = int(given.get("share.record.lock.duration.ms") or broker.share_groups.lock_ms)
    state = broker.share_groups.states.open(ShareKey(group_id, *place), begin, lock_ms=lock_ms)
    state.move_start(log.log_start_offset)
    return state


def acknowledge(request: Request, broker: BrokerState, place: Place, batches: Any) -> int:
    """Take a member's word for records of a partition; return an error code."""
    partition, code = find(request, broker, place)
    if partition is None:
        return code
    member_id, group_id = request.body.member_id or "", request.body.group_id or ""
    try:
        state = state_of(broker, group_id, place, partition)
        for batch in batches:
            state.acknowledge(member_id, batch.first_offset, batch.last_offset, batch.acknowledge_types)
    except RefusedError as error:
        return error.code
    except KafkaframesError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE
