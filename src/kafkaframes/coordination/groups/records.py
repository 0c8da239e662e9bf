"""Records of classic, consumer and share groups in ``__consumer_offsets``, in the versions that Kafka writes.

A commit has version 3, or version 1 if the client requests a retention (OffsetCommit 2 to 4). A classic group has
version 3 (Kafka 2.3 and later). Records of consumer and share groups have the format of Kafka 4.1 and later. Values of
all older versions can be read.

The hash of subscribed topics differs from Kafka's, which is XXH3. A broker that reads a different hash computes a new
assignment, which has no further effect.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, ClassVar, Final, Generic, NamedTuple, TypeVar

from kafkaframes.coordination.groups.classic import ClassicGroup, ClassicMember, GroupState
from kafkaframes.coordination.groups.consumer import (
    Assignment,
    ClassicProtocols,
    ConsumerGroup,
    ConsumerMember,
    group_by_topic,
)
from kafkaframes.coordination.groups.members import EpochGroup, MemberState, MemberT
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.share import InitializedTopics, ShareGroup, ShareMember
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import (
    CoordinatorRecord,
    decode_coordinator_record,
    encode_coordinator_record,
)
from kafkaframes.storage.files.names import TopicPartition

OFFSETS_TOPIC: Final = "__consumer_offsets"
COMMIT_RECORD_TYPES: Final = frozenset({0, 1})
GROUP_RECORD_TYPE: Final = 2
_VERSION, _EXPIRING_VERSION, _GROUP_VERSION = 3, 1, 3
_NO_VALUE = -1  # Kafka's number for a field that is not set


class OffsetCommit(NamedTuple):
    """A committed offset.

    Attributes:
        offset: next offset to read.
        leader_epoch: leader epoch of the last consumed record; -1 if unknown.
        expire_ms: expiry time in milliseconds since 1970; None if the broker's retention applies.
        order: sequence number of the write, which decides between two commits; not part of the record.
    """

    offset: int
    leader_epoch: int
    metadata: str
    commit_ms: int
    expire_ms: int | None = None
    order: int = 0


def decode(key: bytes, value: bytes | None) -> CoordinatorRecord:
    """Decode one record. Raise ``DecodeError`` for an unknown type or version and for damaged bytes."""
    return decode_coordinator_record(OFFSETS_TOPIC, key, value)


def build_commit_record(group_id: str, partition: TopicPartition, commit: OffsetCommit | None) -> Record:
    """Return the record of a committed offset, or its tombstone if ``commit`` is None."""
    key = message("OffsetCommitKey")(group=group_id, topic=partition.topic, partition=partition.partition)
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


def read_commit(value: Any) -> OffsetCommit:
    """Return the committed offset of a record's value."""
    expires = getattr(value, "expire_timestamp", _NO_VALUE)
    return OffsetCommit(
        value.offset,
        value.leader_epoch,
        value.metadata,
        value.commit_timestamp,
        None if expires == _NO_VALUE else expires,
    )


def build_group_record(group: ClassicGroup, assignments: Mapping[str, bytes]) -> Record:
    """Return the record of a classic group with its members."""
    value_class: Any = message("GroupMetadataValue")
    value = value_class(
        protocol_type=group.protocol_type or "",
        generation=group.generation,
        protocol=group.protocol_name,
        leader=group.leader,
        current_state_timestamp=_NO_VALUE if group.since_ms is None else group.since_ms,
        members=[
            value_class.MemberMetadata(
                member_id=member.member_id,
                group_instance_id=member.instance_id,
                client_id=member.client_id,
                client_host=member.client_host,
                rebalance_timeout=member.rebalance_timeout_ms,
                session_timeout=member.session_timeout_ms,
                subscription=member.get_metadata(group.protocol_name),
                assignment=assignments.get(member.member_id, b""),
            )
            for member in group.members.values()
        ],
    )
    return encode_coordinator_record(_group_key(group.group_id), value, _GROUP_VERSION)


def build_group_tombstone(group_id: str) -> Record:
    """Return the tombstone of a classic group."""
    return encode_coordinator_record(_group_key(group_id), None, None)


def _group_key(group_id: str) -> Any:
    return message("GroupMetadataKey")(group=group_id)


def read_group(group_id: str, value: Any) -> ClassicGroup:
    """Return the classic group of a record's value. The state is Stable if the group has members, else Empty."""
    group = ClassicGroup(
        group_id,
        state=GroupState.STABLE if value.members else GroupState.EMPTY,
        since_ms=None if value.current_state_timestamp == _NO_VALUE else value.current_state_timestamp,
        generation=value.generation,
        protocol_name=value.protocol,
        leader=value.leader,
    )
    for member in value.members:
        timeout = member.session_timeout if member.rebalance_timeout == _NO_VALUE else member.rebalance_timeout
        group.add_member(
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


GroupT = TypeVar("GroupT", bound=EpochGroup[Any, Any])


class ModernRecords(ABC, Generic[GroupT, MemberT]):
    """Encodes and decodes the stored records of one type of group with epochs (consumer, share or streams).

    Attributes:
        types: record types of a member, the group epoch, the target epoch, a target assignment, a current assignment,
            and the record that only this group type has.
    """

    group_type: type[GroupT]
    member_type: type[MemberT]
    types: ClassVar[tuple[int, int, int, int, int, int]]
    _prefix: ClassVar[str]

    def deletes_group(self, record: CoordinatorRecord) -> bool:
        """Return whether a record deletes its group."""
        return record.type == self.types[1] and record.value is None

    def build_epoch_record(self, group_id: str, epoch: int | None, metadata_hash: int = 0) -> Record:
        """Return the record of the group epoch; its tombstone if the epoch is None."""
        value = None if epoch is None else {"epoch": epoch, "metadata_hash": metadata_hash}
        return self._build_record("Metadata", value, group_id=group_id)

    def build_target_epoch_record(self, group_id: str, epoch: int | None, now_ms: int | None = None) -> Record:
        """Return the record of the target assignments' epoch; its tombstone if the epoch is None."""
        timestamp = {} if now_ms is None else {"assignment_timestamp": now_ms}
        value = None if epoch is None else {"assignment_epoch": epoch, **timestamp}
        return self._build_record("TargetAssignmentMetadata", value, group_id=group_id)

    def build_target_record(self, group_id: str, member_id: str, target: Assignment) -> Record:
        """Return the record of a member's target assignment."""
        value_class: Any = message(f"{self._prefix}TargetAssignmentMemberValue")
        rows = [
            value_class.TopicPartition(topic_id=topic, partitions=indexes)
            for topic, indexes in group_by_topic(target).items()
        ]
        value = {"topic_partitions": rows}
        return self._build_record("TargetAssignmentMember", value, group_id=group_id, member_id=member_id)

    def build_member_tombstones(self, group_id: str, member_id: str) -> list[Record]:
        """Return the tombstones of a member."""
        names = "CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata"
        return [self._build_record(name, None, group_id=group_id, member_id=member_id) for name in names]

    def build_group_tombstones(self, group: GroupT) -> list[Record]:
        """Return the tombstones of a group."""
        rows: list[Record] = []
        for member_id in group.members:
            rows += self.build_member_tombstones(group.group_id, member_id)
        epoch_tombstones: tuple[Record, Record] = (
            self.build_target_epoch_record(group.group_id, None),
            self.build_epoch_record(group.group_id, None),
        )
        return [*rows, *self._build_type_specific_tombstones(group), *epoch_tombstones]

    def replay(self, group: GroupT, record: CoordinatorRecord) -> None:
        """Apply a record to the group."""
        _, epoch, target_epoch, target, _, specific_type = self.types
        key, value = record.key, record.value
        if record.type == epoch:
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif record.type == target_epoch:
            group.assignment_epoch = 0 if value is None else value.assignment_epoch
            # The stored time is a wall clock time. ``load`` converts it to monotonic time.
            group.assignment_time_ms = (value and value.assignment_timestamp) or None
        elif record.type == target:
            group.targets.pop(key.member_id, None)
            if value is not None:
                group.targets[key.member_id] = self._read_target_assignment(value)
        elif record.type == specific_type:
            self._replay_type_specific_record(group, key, value)
        else:
            self._replay_member(group, key.member_id, value, is_subscription=record.type == self.types[0])

    def _replay_member(self, group: GroupT, member_id: str, value: Any, *, is_subscription: bool) -> None:
        member = group.members.get(member_id) or self.member_type(member_id)
        if is_subscription and value is None:
            group.remove_member(member_id)
        elif is_subscription:
            client_fields = {"rack_id": value.rack_id, "client_id": value.client_id, "client_host": value.client_host}
            group.update_member(self._set_subscription(replace(member, **client_fields), value))
        elif value is not None:
            epochs = {"epoch": value.member_epoch, "previous_epoch": value.previous_member_epoch}
            assignment, revoking = self._read_assignments(value)
            group.update_member(
                replace(member, **epochs, state=read_state(value), assignment=assignment, revoking=revoking)
            )
        elif member_id in group.members:  # keep only the subscription
            empty_member = self.member_type(member_id)
            group.update_member(replace(member, **{name: getattr(empty_member, name) for name in _ASSIGNMENT_FIELDS}))

    def _build_record(self, name: str, value: dict[str, Any] | None, **key: str) -> Record:
        """Return a record of this group type with the fields of its key; its tombstone if the value is None."""
        key_message = message(f"{self._prefix}{name}Key")(**key)
        if value is None:
            return encode_coordinator_record(key_message, None, None)
        return encode_coordinator_record(key_message, message(f"{self._prefix}{name}Value")(**value), 0)

    def _build_member_record(self, group_id: str, member: MemberT, **specific_fields: Any) -> Record:
        client_fields = {"rack_id": member.rack_id, "client_id": member.client_id, "client_host": member.client_host}
        return self._build_record(
            "MemberMetadata", {**client_fields, **specific_fields}, group_id=group_id, member_id=member.member_id
        )

    def _build_current_assignment_record(self, group_id: str, member: MemberT, rows: dict[str, Any]) -> Record:
        """Return a member's ``CurrentMemberAssignment`` record. ``rows`` are the fields of its partitions or tasks."""
        epochs = {"member_epoch": member.epoch, "previous_member_epoch": member.previous_epoch}
        value = {**epochs, "state": int(member.state), **rows}
        return self._build_record("CurrentMemberAssignment", value, group_id=group_id, member_id=member.member_id)

    def _build_type_specific_tombstones(self, group: GroupT) -> list[Record]:
        """Return the tombstones of records that only this group type has.

        Tombstones of these records precede the tombstones of records that all group types have.
        """
        return []

    def _read_target_assignment(self, value: Any) -> Any:
        return _read_partitions(value.topic_partitions)

    @abstractmethod
    def _replay_type_specific_record(self, group: GroupT, key: Any, value: Any) -> None: ...

    @abstractmethod
    def _set_subscription(self, member: MemberT, value: Any) -> MemberT:
        """Return the member with the subscription of a record's value."""

    @abstractmethod
    def _read_assignments(self, value: Any) -> tuple[frozenset[Any], frozenset[Any]]:
        """Return the partitions that a member owns, and the partitions that it has to revoke."""


class ConsumerRecords(ModernRecords[ConsumerGroup, ConsumerMember]):
    """The records of consumer groups, which also include records of patterns and their matches."""

    group_type, member_type = ConsumerGroup, ConsumerMember
    types = (5, 3, 6, 7, 8, 16)
    _prefix = "ConsumerGroup"

    def build_member_record(self, group_id: str, member: ConsumerMember) -> Record:
        """Return the record of a member's subscription."""
        return self._build_member_record(
            group_id,
            member,
            instance_id=member.instance_id,
            subscribed_topic_names=list(member.topics),
            subscribed_topic_regex=member.regex or "",
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=_build_classic_struct(member.classic),
        )

    def build_current_record(self, group_id: str, member: ConsumerMember) -> Record:
        """Return the record of a member's current assignment and pending revocation.

        The epoch in which each partition was assigned is not stored. Instead, the record has the member's epoch for
        each partition, because Kafka 4.3 logs an error if the epoch is missing.
        """
        value_class: Any = message("ConsumerGroupCurrentMemberAssignmentValue")

        def build_rows(partitions: Assignment) -> list[Any]:
            """Return partitions as rows of the record."""
            return [
                value_class.TopicPartitions(
                    topic_id=topic, partitions=indexes, assignment_epochs=[member.epoch] * len(indexes)
                )
                for topic, indexes in group_by_topic(partitions).items()
            ]

        value = {
            "assigned_partitions": build_rows(member.assignment),
            "partitions_pending_revocation": build_rows(member.revoking),
        }
        return self._build_current_assignment_record(group_id, member, value)

    def build_regex_record(self, group_id: str, regex: str, topics: Iterable[str] | None, now_ms: int = 0) -> Record:
        """Return the record of the topics that match a pattern; its tombstone if ``topics`` is None."""
        value = None if topics is None else {"topics": sorted(topics), "version": 0, "timestamp": now_ms}
        return self._build_record("RegularExpression", value, group_id=group_id, regular_expression=regex)

    def build_group_records(self, group: ConsumerGroup, now_ms: int) -> list[Record]:
        """Return all records of a group that was converted from another type."""
        rows = [self.build_member_record(group.group_id, member) for member in group.members.values()]
        rows.append(self.build_epoch_record(group.group_id, group.epoch, group.metadata_hash))
        rows += [self.build_target_record(group.group_id, key, target) for key, target in group.targets.items()]
        rows.append(self.build_target_epoch_record(group.group_id, group.assignment_epoch, now_ms))
        return rows + [self.build_current_record(group.group_id, member) for member in group.members.values()]

    def _build_type_specific_tombstones(self, group: ConsumerGroup) -> list[Record]:
        return [self.build_regex_record(group.group_id, regex, None) for regex in group.regexes]

    def _replay_type_specific_record(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        group.regexes.pop(key.regular_expression, None)
        if value is not None:
            group.regexes[key.regular_expression] = frozenset(value.topics)

    def _set_subscription(self, member: ConsumerMember, value: Any) -> ConsumerMember:
        classic, classic_protocols = value.classic_member_metadata, None
        if classic is not None:
            protocols = tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols)
            classic_protocols = ClassicProtocols(classic.session_timeout_ms, protocols)
        return replace(
            member,
            instance_id=value.instance_id,
            topics=tuple(sorted(value.subscribed_topic_names)),
            regex=value.subscribed_topic_regex or None,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=classic_protocols,
        )

    def _read_assignments(self, value: Any) -> tuple[Assignment, Assignment]:
        return _read_partitions(value.assigned_partitions), _read_partitions(value.partitions_pending_revocation)


class ShareRecords(ModernRecords[ShareGroup, ShareMember]):
    """The records of share groups, which also include a record of the partitions from which the group reads."""

    group_type, member_type = ShareGroup, ShareMember
    types = (10, 11, 12, 13, 14, 15)
    _prefix = "ShareGroup"

    def build_member_record(self, group_id: str, member: ShareMember) -> Record:
        """Return the record of a member's subscription."""
        return self._build_member_record(group_id, member, subscribed_topic_names=list(member.topics))

    def build_current_record(self, group_id: str, member: ShareMember) -> Record:
        """Return the record of a member's current assignment."""
        value_class: Any = message("ShareGroupCurrentMemberAssignmentValue")
        topics = group_by_topic(member.assignment).items()
        rows = [value_class.TopicPartitions(topic_id=topic, partitions=indexes) for topic, indexes in topics]
        return self._build_current_assignment_record(group_id, member, {"assigned_partitions": rows})

    def build_state_record(self, group_id: str, topics: InitializedTopics | None) -> Record:
        """Return the record of the partitions from which the group reads; its tombstone if ``topics`` is None."""
        if topics is None:
            return self._build_record("StatePartitionMetadata", None, group_id=group_id)
        value_class: Any = message("ShareGroupStatePartitionMetadataValue")
        rows = [
            value_class.TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
            for topic_id, (name, indexes) in sorted(topics.items())
        ]
        value = {"initializing_topics": [], "initialized_topics": rows, "deleting_topics": []}
        return self._build_record("StatePartitionMetadata", value, group_id=group_id)

    def build_group_tombstones(self, group: ShareGroup) -> list[Record]:
        """Return the tombstones of a group."""
        return [*super().build_group_tombstones(group), self.build_state_record(group.group_id, None)]

    def _replay_type_specific_record(self, group: ShareGroup, key: Any, value: Any) -> None:
        rows = () if value is None else value.initialized_topics
        group.has_read = value is not None
        group.initialized_topics = {row.topic_id: (row.topic_name, frozenset(row.partitions)) for row in rows}

    def _set_subscription(self, member: ShareMember, value: Any) -> ShareMember:
        return replace(member, topics=tuple(sorted(value.subscribed_topic_names)))

    def _read_assignments(self, value: Any) -> tuple[Assignment, Assignment]:
        return _read_partitions(value.assigned_partitions), frozenset()


consumer_records: Final = ConsumerRecords()
share_records: Final = ShareRecords()
_ASSIGNMENT_FIELDS: Final = ("epoch", "previous_epoch", "state", "assignment", "revoking")


def _build_classic_struct(classic: ClassicProtocols | None) -> Any:
    if classic is None:
        return None
    value_class: Any = message("ConsumerGroupMemberMetadataValue")
    rows = [value_class.ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols]
    return value_class.ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=rows)


def _read_partitions(rows: Any) -> Assignment:
    return frozenset((row.topic_id, index) for row in rows for index in row.partitions)


def read_state(value: Any) -> MemberState:
    """Return the member state in the value of a current assignment record. An unknown state is read as STABLE."""
    states = {int(state) for state in MemberState}
    return MemberState(value.state) if value.state in states else MemberState.STABLE
