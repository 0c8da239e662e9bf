"""The records of share groups in ``__consumer_offsets`` (types 10 to 15), as Kafka 4.1 and later write them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from kafkaframes.coordination.groups.consumer import Assigned, by_topic
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.share import Initialized, ShareGroup, ShareMember
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import CoordinatorRecord, encode_coordinator_record

MEMBER, EPOCH, TARGET_EPOCH, TARGET, CURRENT, STATE = range(10, 16)
TYPES: Final = frozenset(range(10, 16))


def _record(name: str, key: dict[str, str], value: dict[str, Any] | None) -> Record:
    made = message(f"ShareGroup{name}Key")(**key)
    if value is None:
        return encode_coordinator_record(made, None, None)
    return encode_coordinator_record(made, message(f"ShareGroup{name}Value")(**value), 0)


def epoch_record(group_id: str, epoch: int | None, metadata_hash: int = 0) -> Record:
    """Return the record of a group's epoch; None for its tombstone."""
    value = None if epoch is None else {"epoch": epoch, "metadata_hash": metadata_hash}
    return _record("Metadata", {"group_id": group_id}, value)


def target_epoch_record(group_id: str, epoch: int | None) -> Record:
    """Return the record of the epoch that the targets were made for; None for its tombstone."""
    value = None if epoch is None else {"assignment_epoch": epoch}
    return _record("TargetAssignmentMetadata", {"group_id": group_id}, value)


def member_record(group_id: str, member: ShareMember) -> Record:
    """Return the record of a member's subscription."""
    value = {
        "rack_id": member.rack_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": list(member.topics),
    }
    return _record("MemberMetadata", {"group_id": group_id, "member_id": member.member_id}, value)


def target_record(group_id: str, member_id: str, target: Assigned) -> Record:
    """Return the record of what a member is to have."""
    made: Any = message("ShareGroupTargetAssignmentMemberValue")
    rows = [made.TopicPartition(topic_id=topic, partitions=indexes) for topic, indexes in by_topic(target).items()]
    return _record("TargetAssignmentMember", {"group_id": group_id, "member_id": member_id}, {"topic_partitions": rows})


def current_record(group_id: str, member: ShareMember) -> Record:
    """Return the record of what a member has."""
    made: Any = message("ShareGroupCurrentMemberAssignmentValue")
    assigned = by_topic(member.assigned).items()
    value = {
        "member_epoch": member.epoch,
        "previous_member_epoch": member.previous_epoch,
        "state": 0,
        "assigned_partitions": [made.TopicPartitions(topic_id=topic, partitions=some) for topic, some in assigned],
    }
    return _record("CurrentMemberAssignment", {"group_id": group_id, "member_id": member.member_id}, value)


def state_record(group: ShareGroup, initialized: Initialized | None) -> Record:
    """Return the record of the partitions that the group has begun to read; None for its tombstone."""
    if initialized is None:
        return _record("StatePartitionMetadata", {"group_id": group.group_id}, None)
    made: Any = message("ShareGroupStatePartitionMetadataValue")
    rows = [
        made.TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
        for topic_id, (name, indexes) in sorted(initialized.items())
    ]
    value = {"initializing_topics": [], "initialized_topics": rows, "deleting_topics": []}
    return _record("StatePartitionMetadata", {"group_id": group.group_id}, value)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the records that end a member."""
    key = {"group_id": group_id, "member_id": member_id}
    return [
        _record(name, key, None) for name in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
    ]


def group_tombstones(group: ShareGroup) -> list[Record]:
    """Return the records that end a group."""
    rows = [row for member_id in group.members for row in member_tombstones(group.group_id, member_id)]
    ends = target_epoch_record(group.group_id, None), epoch_record(group.group_id, None), state_record(group, None)
    return [*rows, *ends]


def replay(group: ShareGroup, record: CoordinatorRecord) -> None:
    """Take a record over into the group."""
    value = record.value
    if record.type == EPOCH:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif record.type == TARGET_EPOCH:
        group.assignment_epoch = 0 if value is None else value.assignment_epoch
    elif record.type == STATE:
        rows = () if value is None else value.initialized_topics
        group.has_read = value is not None
        group.initialized = {row.topic_id: (row.topic_name, frozenset(row.partitions)) for row in rows}
    else:
        _replay_member(group, record.type, record.key.member_id, value)


def _replay_member(group: ShareGroup, kind: int, member_id: str, value: Any) -> None:
    if kind == MEMBER and value is None:
        group.remove(member_id)
    elif kind == TARGET:
        group.targets.pop(member_id, None)
        if value is not None:
            group.targets[member_id] = _assigned(value.topic_partitions)
    elif value is not None:
        member = group.members.get(member_id) or ShareMember(member_id)
        group.members[member_id] = _subscribed(member, value) if kind == MEMBER else _current(member, value)


def _subscribed(member: ShareMember, value: Any) -> ShareMember:
    return replace(
        member,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(value.subscribed_topic_names)),
    )


def _current(member: ShareMember, value: Any) -> ShareMember:
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        assigned=_assigned(value.assigned_partitions),
    )


def _assigned(rows: Any) -> Assigned:
    return frozenset((row.topic_id, index) for row in rows for index in row.partitions)
