"""The group coordinator's records in ``__consumer_offsets``, with the versions that Kafka writes.

A commit is version 3, or 1 where the client asked for a retention of its own (OffsetCommit 2 to 4); a group is
version 3 (Kafka 2.3 and later). Values of every older version are read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from kafkaframes.coordination.groups.classic import ClassicGroup, ClassicMember, GroupState
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import (
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from kafkaframes.storage.files.names import TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"
COMMIT_TYPES: Final = frozenset({0, 1})
GROUP_TYPE: Final = 2
_VERSION, _EXPIRING_VERSION, _GROUP_VERSION = 3, 1, 3
_NONE = -1


class Commit(NamedTuple):
    """A committed offset.

    Attributes:
        offset: the next to be read.
        leader_epoch: -1 where none was said.
        expire_ms: when it expires; None where the broker's retention decides.
        order: which was written later, of two commits of one partition; not part of the record.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    order: int = 0


def decode(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """Return one record.

    Raises:
        DecodeError: an unknown type or version, or broken bytes.
    """
    return decode_coordinator_record(OFFSETS_TOPIC, key, value)


def commit_record(group_id: str, where: TopicPartition, commit: Commit | None) -> Record:
    """Return the record of a committed offset; without one, its tombstone."""
    key = message("OffsetCommitKey")(group=group_id, topic=where.topic, partition=where.partition)
    if commit is None:
        return encode_coordinator_record(key, None, None)
    value = message("OffsetCommitValue")(
        offset=commit.offset,
        leader_epoch=commit.leader_epoch,
        metadata=commit.metadata,
        commit_timestamp=commit.commit_ms,
    )
    if commit.expire_ms is None:
        return encode_coordinator_record(key, value, _VERSION)
    value.expire_timestamp = commit.expire_ms  # type: ignore[attr-defined]
    return encode_coordinator_record(key, value, _EXPIRING_VERSION)


def commit_of(value: Any) -> Commit:
    """Return the committed offset that a value says."""
    expires = getattr(value, "expire_timestamp", _NONE)
    return Commit(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if expires == _NONE else expires,
    )


def group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Record:
    """Return the record of a classic group with its members."""
    made = message("GroupMetadataValue")
    struct: Any = made
    value = made(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=_NONE if group.since_ms is None else group.since_ms,
        members=[
            struct.MemberMetadata(
                member_id=one.member_id,
                group_instance_id=one.instance_id,
                client_id=one.client_id,
                client_host=one.client_host,
                rebalance_timeout=one.rebalance_timeout_ms,
                session_timeout=one.session_timeout_ms,
                subscription=one.metadata(group.protocol_name),
                assignment=assignments.get(one.member_id, b""),
            )
            for one in group.members.values()
        ],
    )
    return encode_coordinator_record(_group_key(group.group_id), value, _GROUP_VERSION)


def empty_group_record(group: ClassicGroup) -> Record:
    """Return the record that makes a group known before its first generation."""
    value = message("GroupMetadataValue")(
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=_NONE if group.since_ms is None else group.since_ms,
        members=[],
    )
    return encode_coordinator_record(_group_key(group.group_id), value, _GROUP_VERSION)


def group_tombstone(group_id: str) -> Record:
    """Return the record that ends a classic group."""
    return encode_coordinator_record(_group_key(group_id), None, None)


def _group_key(group_id: str) -> Any:
    return message("GroupMetadataKey")(group=group_id)


def group_of(group_id: str, value: Any) -> ClassicGroup:
    """Return the group that a value says: Stable with its members, else Empty."""
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        since_ms=None if value.current_state_timestamp == _NONE else value.current_state_timestamp,
        generation=value.generation,
        protocol_name=value.protocol,
        leader=value.leader,
    )
    for member in value.members:
        timeout = member.session_timeout if member.rebalance_timeout == _NONE else member.rebalance_timeout
        group.add(
            ClassicMember(
                member_id=member.member_id,
                instance_id=member.group_instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout_ms=timeout,
                session_timeout_ms=member.session_timeout,
                protocol_type=value.protocol_type,
                protocols=((value.protocol or "", member.subscription),),
                assignment=member.assignment,
            )
        )
    group.protocol_type = value.protocol_type or None
    group.subscribed_topics = group.compute_subscribed_topics()
    return group
