"""The records of consumer groups in ``__consumer_offsets`` (types 3, 5 to 8, 16), as Kafka 4.1 and later write them.

The hash of subscribed topics is a hash of our own, where Kafka's is XXH3: a broker that finds another hash than its own
only makes the group assign anew.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

from kafkaframes.coordination.groups.consumer import (
    Assigned,
    ClassicFacts,
    ConsumerGroup,
    ConsumerMember,
    MemberState,
    by_topic,
)
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import CoordinatorRecord, encode_coordinator_record

EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 5, 6, 7, 8, 16
TYPES: Final = frozenset({EPOCH, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX})


def _record(name: str, key: dict[str, str], value: dict[str, Any] | None) -> Record:
    made = message(f"ConsumerGroup{name}Key")(**key)
    if value is None:
        return encode_coordinator_record(made, None, None)
    return encode_coordinator_record(made, message(f"ConsumerGroup{name}Value")(**value), 0)


def epoch_record(group_id: str, epoch: int | None, metadata_hash: int = 0) -> Record:
    """Return the record of a group's epoch; None for its tombstone."""
    value = None if epoch is None else {"epoch": epoch, "metadata_hash": metadata_hash}
    return _record("Metadata", {"group_id": group_id}, value)


def member_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of a member's subscription."""
    return _record(
        "MemberMetadata",
        {"group_id": group_id, "member_id": member.member_id},
        {
            "instance_id": member.instance_id,
            "rack_id": member.rack_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "subscribed_topic_names": list(member.topics),
            "subscribed_topic_regex": member.regex or "",
            "rebalance_timeout_ms": member.rebalance_timeout_ms,
            "server_assignor": member.assignor,
            "classic_member_metadata": _classic_struct(member.classic),
        },
    )


def _classic_struct(classic: ClassicFacts | None) -> Any:
    if classic is None:
        return None
    made: Any = message("ConsumerGroupMemberMetadataValue")
    rows = [made.ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols]
    return made.ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=rows)


def target_epoch_record(group_id: str, epoch: int | None, now_ms: int = 0) -> Record:
    """Return the record of the epoch that the targets were made for; None for its tombstone."""
    value = None if epoch is None else {"assignment_epoch": epoch, "assignment_timestamp": now_ms}
    return _record("TargetAssignmentMetadata", {"group_id": group_id}, value)


def target_record(group_id: str, member_id: str, target: Assigned) -> Record:
    """Return the record of what a member is to have."""
    made: Any = message("ConsumerGroupTargetAssignmentMemberValue")
    rows = [made.TopicPartition(topic_id=topic, partitions=indexes) for topic, indexes in by_topic(target).items()]
    key = {"group_id": group_id, "member_id": member_id}
    return _record("TargetAssignmentMember", key, {"topic_partitions": rows})


def current_record(group_id: str, member: ConsumerMember) -> Record:
    """Return the record of what a member has and is to give up.

    Since which epoch it has each partition is not kept: the member's own stands there, which Kafka 4.3 takes as well
    where there is none, but not without an error in its log.
    """
    made: Any = message("ConsumerGroupCurrentMemberAssignmentValue")

    def rows(partitions: Assigned) -> list[Any]:
        return [
            made.TopicPartitions(topic_id=topic, partitions=some, assignment_epochs=[member.epoch] * len(some))
            for topic, some in by_topic(partitions).items()
        ]

    return _record(
        "CurrentMemberAssignment",
        {"group_id": group_id, "member_id": member.member_id},
        {
            "member_epoch": member.epoch,
            "previous_member_epoch": member.previous_epoch,
            "state": int(member.state),
            "assigned_partitions": rows(member.assigned),
            "partitions_pending_revocation": rows(member.revoking),
        },
    )


def regex_record(group_id: str, regex: str, topics: Iterable[str] | None, now_ms: int = 0) -> Record:
    """Return the record of the topics that a pattern stands for; None for its tombstone."""
    key = {"group_id": group_id, "regular_expression": regex}
    value = None if topics is None else {"topics": sorted(topics), "version": 0, "timestamp": now_ms}
    return _record("RegularExpression", key, value)


def member_tombstones(group_id: str, member_id: str) -> list[Record]:
    """Return the records that end a member."""
    key = {"group_id": group_id, "member_id": member_id}
    return [
        _record(name, key, None) for name in ("CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata")
    ]


def group_records(group: ConsumerGroup, now_ms: int) -> list[Record]:
    """Return the records of a group as it stands, for one that was of another kind before."""
    rows = [member_record(group.group_id, one) for one in group.members.values()]
    rows.append(epoch_record(group.group_id, group.epoch, group.metadata_hash))
    rows += [target_record(group.group_id, member_id, target) for member_id, target in group.targets.items()]
    rows.append(target_epoch_record(group.group_id, group.assignment_epoch, now_ms))
    return rows + [current_record(group.group_id, one) for one in group.members.values()]


def group_tombstones(group: ConsumerGroup) -> list[Record]:
    """Return the records that end a group."""
    rows = [row for member_id in group.members for row in member_tombstones(group.group_id, member_id)]
    rows += [regex_record(group.group_id, regex, None) for regex in group.regexes]
    return [*rows, target_epoch_record(group.group_id, None), epoch_record(group.group_id, None)]


def replay(group: ConsumerGroup, record: CoordinatorRecord) -> None:
    """Take a record over into the group."""
    key, value = record.key, record.value
    if record.type == EPOCH:
        group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
    elif record.type == TARGET_EPOCH:
        group.assignment_epoch = 0 if value is None else value.assignment_epoch
    elif record.type == REGEX:
        group.regexes.pop(key.regular_expression, None)
        if value is not None:
            group.regexes[key.regular_expression] = frozenset(value.topics)
    else:
        _replay_member(group, record.type, key.member_id, value)


def _replay_member(group: ConsumerGroup, kind: int, member_id: str, value: Any) -> None:
    if kind == TARGET:
        group.targets.pop(member_id, None)
        if value is not None:
            group.targets[member_id] = _assigned(value.topic_partitions)
        return
    member = group.members.get(member_id) or ConsumerMember(member_id)
    if kind == MEMBER and value is None:
        group.remove(member_id)
    elif kind == MEMBER:
        group.put(_subscribed(member, value))
    elif value is not None:
        group.put(_current(member, value))
    elif member_id in group.members:
        group.put(ConsumerMember(**{name: getattr(member, name) for name in _SUBSCRIPTION}))


_SUBSCRIPTION: Final = (
    "member_id",
    "instance_id",
    "rack_id",
    "client_id",
    "client_host",
    "topics",
    "regex",
    "rebalance_timeout_ms",
    "assignor",
    "classic",
)


def _subscribed(member: ConsumerMember, value: Any) -> ConsumerMember:
    return replace(
        member,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        topics=tuple(sorted(value.subscribed_topic_names)),
        regex=value.subscribed_topic_regex or None,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        assignor=value.server_assignor,
        classic=_classic_facts(value.classic_member_metadata),
    )


def _classic_facts(struct: Any) -> ClassicFacts | None:
    if struct is None:
        return None
    return ClassicFacts(
        struct.session_timeout_ms, tuple((one.name, one.metadata) for one in struct.supported_protocols)
    )


def _current(member: ConsumerMember, value: Any) -> ConsumerMember:
    known = {int(one) for one in MemberState}
    return replace(
        member,
        epoch=value.member_epoch,
        previous_epoch=value.previous_member_epoch,
        state=MemberState(value.state) if value.state in known else MemberState.STABLE,
        assigned=_assigned(value.assigned_partitions),
        revoking=_assigned(value.partitions_pending_revocation),
    )


def _assigned(rows: Any) -> Assigned:
    found: set[tuple[UUID, int]] = {(row.topic_id, index) for row in rows for index in row.partitions}
    return frozenset(found)
