"""Share sessions: the partitions that a member of a share group fetches, kept between its requests (KIP-932).

A session belongs to the node and the connection that it began on. Where a group stands in a partition is known once
the group's coordinator has begun it (ShareGroupHeartbeat, AlterShareGroupOffsets), whichever node leads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes.broker.access import denied
from kafkaframes.broker.config_values import duration_ms
from kafkaframes.broker.configs import group_setting
from kafkaframes.broker.partitions import current_leader, endpoints_of, led_here
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Partition
from kafkaframes.coordination.groups.share_partition import RENEW, Acknowledged, Limits, SharePartition
from kafkaframes.coordination.groups.share_state import SessionPartition, ShareKey, ShareSession
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

INITIAL, FINAL = 0, -1
PartitionKey = tuple[UUID, int]
_RENEWS_FROM: Final = 2
_LONGEST_MEMBER_ID: Final = 36
_LARGEST_EPOCH: Final = 2**31 - 1
_LATEST, _EARLIEST = "latest", "earliest"


def is_member_id(text: str | None) -> bool:
    """Return whether a member's id is there, and no longer than a UUID's text."""
    return bool(text) and len(text or "") <= _LONGEST_MEMBER_ID


# ---------------------------------------------------------------------------------------------------- sessions


def begin(request: Request, broker: BrokerState) -> tuple[ErrorCode, ShareSession | None]:
    """Begin a session; one that the member has already is forgotten, and what it has acquired stays acquired."""
    key, sessions = _key(request), broker.share_groups.sessions
    sessions.pop(key, None)
    if len(sessions) >= broker.settings.number("group.share.max.share.sessions"):
        return ErrorCode.SHARE_SESSION_LIMIT_REACHED, None
    session = sessions[key] = ShareSession()
    request.session.when_closed["share session"] = lambda: _lost(broker, key, session)
    return ErrorCode.NONE, session


def enter(request: Request, broker: BrokerState) -> tuple[ErrorCode, ShareSession | None]:
    """Find the session that a request goes on with; return an error code, and the session."""
    session, epoch = broker.share_groups.sessions.get(_key(request)), request.body.share_session_epoch
    if session is None:
        return ErrorCode.SHARE_SESSION_NOT_FOUND, None
    if epoch == FINAL:
        return ErrorCode.NONE, session
    if epoch != session.epoch:
        return ErrorCode.INVALID_SHARE_SESSION_EPOCH, None
    session.epoch = 1 if session.epoch == _LARGEST_EPOCH else session.epoch + 1
    return ErrorCode.NONE, session


def update(request: Request, broker: BrokerState, session: ShareSession) -> None:
    """Add the partitions that a ShareFetch names, and take out those that it forgets: none where a session begins."""
    is_first = request.body.share_session_epoch == INITIAL
    for topic in request.body.topics:
        is_known = topic.topic_id in broker.topics_by_id
        for row in topic.partitions:
            kept = SessionPartition(is_known, is_answered=not is_first)
            session.partitions.setdefault((topic.topic_id, row.partition_index), kept)
    for forgotten in [] if is_first else request.body.forgotten_topics_data:
        for index in forgotten.partitions:
            session.partitions.pop((forgotten.topic_id, index), None)


def end(request: Request, broker: BrokerState) -> None:
    """End the session, and take back what its member has not acknowledged."""
    _end(broker, _key(request))


def _end(broker: BrokerState, key: tuple[int, str, str]) -> None:
    session = broker.share_groups.sessions.pop(key, None)
    if session is not None:
        _, group_id, member_id = key
        broker.share_groups.release(group_id, member_id, session.partitions)


def _lost(broker: BrokerState, key: tuple[int, str, str], session: ShareSession) -> None:
    """End a session whose connection is gone; without sessions a group's states are read anew from what is stored."""
    share = broker.share_groups
    if share.sessions.get(key) is session:
        _end(broker, key)
    if not any(group_id == key[1] for _, group_id, _ in share.sessions):
        share.close(key[1])


def _key(request: Request) -> tuple[int, str, str]:
    return request.session.node_id, request.body.group_id or "", request.body.member_id or ""


# ---------------------------------------------------------------------------------------------------- partitions


def find(request: Request, broker: BrokerState, key: PartitionKey) -> tuple[Partition | None, int]:
    """Return the partition of a topic's id and an index, or why it is not served here."""
    topic = broker.topics_by_id.get(key[0])
    if topic is None:
        return None, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = denied(request, broker.access, "TOPIC", topic.name)
    return (None, code) if code else led_here(request, topic, key[1])


def state_of(broker: BrokerState, group_id: str, key: PartitionKey, partition: Partition) -> SharePartition:
    """Return where a group stands in a partition; its first fetch begins as ``share.auto.offset.reset`` says."""
    log = partition.log

    def first_offset() -> int:
        reset = group_setting(broker, group_id, "share.auto.offset.reset")
        if reset in (_EARLIEST, _LATEST):
            return log.log_start_offset if reset == _EARLIEST else log.high_watermark
        timed = log.offset_for_timestamp(broker.clock.now_ms - duration_ms(reset))
        if timed is None or timed.offset < 0:
            raise RefusedError(ErrorCode.OFFSET_NOT_AVAILABLE, f"No record is as late as {reset}.")
        return timed.offset

    state = broker.share_groups.open(ShareKey(group_id, *key), first_offset, limits_of(broker, group_id))
    state.move_start(log.log_start_offset)
    return state


def limits_of(broker: BrokerState, group_id: str) -> Limits:
    """Return what a group may do: its own settings, or the broker's."""
    return Limits(
        lock_ms=int(group_setting(broker, group_id, "share.record.lock.duration.ms")),
        most_deliveries=int(group_setting(broker, group_id, "share.delivery.count.limit")),
        most_in_flight=int(group_setting(broker, group_id, "share.partition.max.record.locks")),
        may_renew=group_setting(broker, group_id, "share.renew.acknowledge.enable") == "true",
    )


# ---------------------------------------------------------------------------------------------------- acknowledgements


class Word(NamedTuple):
    """What a member says of records of one partition; ``code`` is why it is refused already, or 0."""

    key: PartitionKey
    batches: Sequence[Acknowledged]
    code: int


def words_of(request: Request, broker: BrokerState) -> list[Word]:
    """Return a request's acknowledgements by partition; those that say nothing are answered beside others only."""
    words = []
    for topic in request.body.topics:
        for row in topic.partitions:
            batches = [
                Acknowledged(batch.first_offset, batch.last_offset, batch.acknowledge_types)
                for batch in row.acknowledgement_batches
            ]
            key = topic.topic_id, row.partition_index
            words.append(Word(key, batches, _checked(request, broker, key, batches)))
    has_some = any(word.batches and not word.code for word in words)
    return [word for word in words if word.code or word.batches or has_some]


def _checked(request: Request, broker: BrokerState, key: PartitionKey, batches: Sequence[Acknowledged]) -> int:
    if key[0] not in broker.topics_by_id:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not _are_in_order(
        batches, request.version, renews=request.version >= _RENEWS_FROM and request.body.is_renew_ack
    ):
        return ErrorCode.INVALID_REQUEST
    return find(request, broker, key)[1]


def _are_in_order(batches: Sequence[Acknowledged], version: int, *, renews: bool) -> bool:
    most, before = RENEW if version >= _RENEWS_FROM else RENEW - 1, -1
    for first, last, types in batches:
        if first > last or first < before or len(types) not in (1, last - first + 1):
            return False
        if any(not 0 <= one <= most or (one == RENEW and not renews) for one in types):
            return False
        before = last
    return True


def acknowledge(request: Request, broker: BrokerState, word: Word) -> int:
    """Take a member's word for records of a partition; return an error code."""
    state = broker.share_groups.partitions.get(ShareKey(request.body.group_id or "", *word.key))
    if word.code or not word.batches:
        return word.code
    if state is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    try:
        state.acknowledge(request.body.member_id or "", word.batches)
    except RefusedError as error:
        return error.code
    except KafkaframesError:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    return ErrorCode.NONE


def refusal(request: Request) -> int:
    """Return why a request of a member is refused whole; 0 if it is not."""
    is_wrong = request.body.group_id is None or not is_member_id(request.body.member_id)
    return ErrorCode.INVALID_REQUEST if is_wrong else ErrorCode.NONE


def lock_ms(request: Request, broker: BrokerState) -> int:
    """Return for how long the group's records are acquired, as answers tell it."""
    return limits_of(broker, request.body.group_id or "").lock_ms


def leaders(request: Request, broker: BrokerState, rows: Any) -> list[Any]:
    """Tell in rows, by topic id, who leads what is not led here (KIP-951); return the addresses of these nodes."""
    nodes = set()
    for topic_id, partitions in rows:
        topic = broker.topics_by_id.get(topic_id)
        for row in partitions:
            partition = None if topic is None else topic.partition(row.partition_index)
            if row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER and partition is not None:
                row.current_leader = current_leader(request, partition)
                nodes.add(partition.leader_id)
    return endpoints_of(request, broker, nodes)
