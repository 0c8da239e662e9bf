"""The records of classic, consumer and share groups in ``__consumer_offsets``, with the versions that Kafka writes.

A commit is version 3, or 1 where the client asked for a retention of its own (OffsetCommit 2 to 4); a classic group is
version 3 (Kafka 2.3 and later); those of consumer and share groups are as Kafka 4.1 and later write them. Values of
every older version are read.

The hash of subscribed topics is a hash of our own, where Kafka's is XXH3: a broker that finds another hash than its own
only makes the group assign anew.
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
    by_topic,
)
from kafkaframes.coordination.groups.members import EpochGroup, MemberState, MemberT
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.share import Initialized, ShareGroup, ShareMember
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
    """Return one record; a ``DecodeError`` for an unknown type or version, and for broken bytes."""
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


GroupT = TypeVar("GroupT", bound=EpochGroup[Any, Any])


class ModernRecords(ABC, Generic[GroupT, MemberT]):
    """The records of one type of group.

    Attributes:
        types: the numbers of its records: a member, the group's epoch, the targets' epoch, a target, what a member has,
            and what groups of this type have alone.
    """

    group_type: type[GroupT]
    member_type: type[MemberT]
    types: ClassVar[tuple[int, int, int, int, int, int]]
    _prefix: ClassVar[str]

    def is_end(self, record: CoordinatorRecord) -> bool:
        """Whether a record ends its group."""
        return record.type == self.types[1] and record.value is None

    def epoch_record(self, group_id: str, epoch: int | None, metadata_hash: int = 0) -> Record:
        """Return the record of a group's epoch; None for its tombstone."""
        value = None if epoch is None else {"epoch": epoch, "metadata_hash": metadata_hash}
        return self._record("Metadata", value, group_id=group_id)

    def target_epoch_record(self, group_id: str, epoch: int | None, now_ms: int | None = None) -> Record:
        """Return the record of the epoch that the targets were made for; None for its tombstone."""
        timestamp = {} if now_ms is None else {"assignment_timestamp": now_ms}
        value = None if epoch is None else {"assignment_epoch": epoch, **timestamp}
        return self._record("TargetAssignmentMetadata", value, group_id=group_id)

    def target_record(self, group_id: str, member_id: str, target: Assignment) -> Record:
        """Return the record of what a member is to have."""
        made: Any = message(f"{self._prefix}TargetAssignmentMemberValue")
        rows = [made.TopicPartition(topic_id=topic, partitions=indexes) for topic, indexes in by_topic(target).items()]
        value = {"topic_partitions": rows}
        return self._record("TargetAssignmentMember", value, group_id=group_id, member_id=member_id)

    def member_tombstones(self, group_id: str, member_id: str) -> list[Record]:
        """Return the records that end a member."""
        names = "CurrentMemberAssignment", "TargetAssignmentMember", "MemberMetadata"
        return [self._record(name, None, group_id=group_id, member_id=member_id) for name in names]

    def group_tombstones(self, group: GroupT) -> list[Record]:
        """Return the records that end a group."""
        rows: list[Record] = []
        for member_id in group.members:
            rows += self.member_tombstones(group.group_id, member_id)
        ends: tuple[Record, Record] = (
            self.target_epoch_record(group.group_id, None),
            self.epoch_record(group.group_id, None),
        )
        return [*rows, *self._own_tombstones(group), *ends]

    def replay(self, group: GroupT, record: CoordinatorRecord) -> None:
        """Take a record over into the group."""
        _, epoch, target_epoch, target, _, own = self.types
        key, value = record.key, record.value
        if record.type == epoch:
            group.epoch, group.metadata_hash = value.epoch, value.metadata_hash
        elif record.type == target_epoch:
            group.assignment_epoch = 0 if value is None else value.assignment_epoch
            group.assignment_time_ms = (
                value and value.assignment_timestamp
            ) or None  # wall time until the load is complete
        elif record.type == target:
            group.targets.pop(key.member_id, None)
            if value is not None:
                group.targets[key.member_id] = self._target_of(value)
        elif record.type == own:
            self._replay_own(group, key, value)
        else:
            self._replay_member(group, key.member_id, value, is_subscription=record.type == self.types[0])

    def _replay_member(self, group: GroupT, member_id: str, value: Any, *, is_subscription: bool) -> None:
        member = group.members.get(member_id) or self.member_type(member_id)
        if is_subscription and value is None:
            group.remove(member_id)
        elif is_subscription:
            facts = {"rack_id": value.rack_id, "client_id": value.client_id, "client_host": value.client_host}
            group.put(self._subscribed(replace(member, **facts), value))
        elif value is not None:
            epochs = {"epoch": value.member_epoch, "previous_epoch": value.previous_member_epoch}
            assigned, revoking = self._held(value)
            group.put(replace(member, **epochs, state=state_of(value), assigned=assigned, revoking=revoking))
        elif member_id in group.members:  # its subscription is all that is left
            nothing = self.member_type(member_id)
            group.put(replace(member, **{name: getattr(nothing, name) for name in _ASSIGNMENT}))

    def _record(self, name: str, value: dict[str, Any] | None, **key: str) -> Record:
        made = message(f"{self._prefix}{name}Key")(**key)
        if value is None:
            return encode_coordinator_record(made, None, None)
        return encode_coordinator_record(made, message(f"{self._prefix}{name}Value")(**value), 0)

    def _member_record(self, group_id: str, member: MemberT, **own: Any) -> Record:
        facts = {"rack_id": member.rack_id, "client_id": member.client_id, "client_host": member.client_host}
        return self._record("MemberMetadata", {**facts, **own}, group_id=group_id, member_id=member.member_id)

    def _current_record(self, group_id: str, member: MemberT, rows: dict[str, Any]) -> Record:
        epochs = {"member_epoch": member.epoch, "previous_member_epoch": member.previous_epoch}
        value = {**epochs, "state": int(member.state), **rows}
        return self._record("CurrentMemberAssignment", value, group_id=group_id, member_id=member.member_id)

    def _own_tombstones(self, group: GroupT) -> list[Record]:
        """Return the records that end what ends before the group itself."""
        return []

    def _target_of(self, value: Any) -> Any:
        return _assigned(value.topic_partitions)

    @abstractmethod
    def _replay_own(self, group: GroupT, key: Any, value: Any) -> None: ...

    @abstractmethod
    def _subscribed(self, member: MemberT, value: Any) -> MemberT:
        """Return the member with what a record of its subscription says beyond where it is from."""

    @abstractmethod
    def _held(self, value: Any) -> tuple[frozenset[Any], frozenset[Any]]:
        """Return what a member has, and what it is to give up."""


class ConsumerRecords(ModernRecords[ConsumerGroup, ConsumerMember]):
    """The records of consumer groups; of their own they have what patterns stand for."""

    group_type, member_type = ConsumerGroup, ConsumerMember
    types = (5, 3, 6, 7, 8, 16)
    _prefix = "ConsumerGroup"

    def member_record(self, group_id: str, member: ConsumerMember) -> Record:
        """Return the record of a member's subscription."""
        return self._member_record(
            group_id,
            member,
            instance_id=member.instance_id,
            subscribed_topic_names=list(member.topics),
            subscribed_topic_regex=member.regex or "",
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.assignor,
            classic_member_metadata=_classic_struct(member.classic),
        )

    def current_record(self, group_id: str, member: ConsumerMember) -> Record:
        """Return the record of what a member has and is to give up.

        Since which epoch it has each partition is not kept: the member's own stands there, which Kafka 4.3 takes as
        well where there is none, but not without an error in its log.
        """
        made: Any = message("ConsumerGroupCurrentMemberAssignmentValue")

        def rows(partitions: Assignment) -> list[Any]:
            return [
                made.TopicPartitions(topic_id=topic, partitions=some, assignment_epochs=[member.epoch] * len(some))
                for topic, some in by_topic(partitions).items()
            ]

        held = {"assigned_partitions": rows(member.assigned), "partitions_pending_revocation": rows(member.revoking)}
        return self._current_record(group_id, member, held)

    def regex_record(self, group_id: str, regex: str, topics: Iterable[str] | None, now_ms: int = 0) -> Record:
        """Return the record of the topics that a pattern stands for; None for its tombstone."""
        value = None if topics is None else {"topics": sorted(topics), "version": 0, "timestamp": now_ms}
        return self._record("RegularExpression", value, group_id=group_id, regular_expression=regex)

    def group_records(self, group: ConsumerGroup, now_ms: int) -> list[Record]:
        """Return the records of a group as it stands, for one that was of another type before."""
        rows = [self.member_record(group.group_id, member) for member in group.members.values()]
        rows.append(self.epoch_record(group.group_id, group.epoch, group.metadata_hash))
        rows += [self.target_record(group.group_id, key, target) for key, target in group.targets.items()]
        rows.append(self.target_epoch_record(group.group_id, group.assignment_epoch, now_ms))
        return rows + [self.current_record(group.group_id, member) for member in group.members.values()]

    def _own_tombstones(self, group: ConsumerGroup) -> list[Record]:
        return [self.regex_record(group.group_id, regex, None) for regex in group.regexes]

    def _replay_own(self, group: ConsumerGroup, key: Any, value: Any) -> None:
        group.regexes.pop(key.regular_expression, None)
        if value is not None:
            group.regexes[key.regular_expression] = frozenset(value.topics)

    def _subscribed(self, member: ConsumerMember, value: Any) -> ConsumerMember:
        classic, facts = value.classic_member_metadata, None
        if classic is not None:
            protocols = tuple((protocol.name, protocol.metadata) for protocol in classic.supported_protocols)
            facts = ClassicProtocols(classic.session_timeout_ms, protocols)
        return replace(
            member,
            instance_id=value.instance_id,
            topics=tuple(sorted(value.subscribed_topic_names)),
            regex=value.subscribed_topic_regex or None,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            assignor=value.server_assignor,
            classic=facts,
        )

    def _held(self, value: Any) -> tuple[Assignment, Assignment]:
        return _assigned(value.assigned_partitions), _assigned(value.partitions_pending_revocation)


class ShareRecords(ModernRecords[ShareGroup, ShareMember]):
    """The records of share groups; of their own they have the partitions that they have begun to read."""

    group_type, member_type = ShareGroup, ShareMember
    types = (10, 11, 12, 13, 14, 15)
    _prefix = "ShareGroup"

    def member_record(self, group_id: str, member: ShareMember) -> Record:
        """Return the record of a member's subscription."""
        return self._member_record(group_id, member, subscribed_topic_names=list(member.topics))

    def current_record(self, group_id: str, member: ShareMember) -> Record:
        """Return the record of what a member has."""
        made: Any = message("ShareGroupCurrentMemberAssignmentValue")
        assigned = by_topic(member.assigned).items()
        rows = [made.TopicPartitions(topic_id=topic, partitions=some) for topic, some in assigned]
        return self._current_record(group_id, member, {"assigned_partitions": rows})

    def state_record(self, group_id: str, initialized: Initialized | None) -> Record:
        """Return the record of the partitions that the group has begun to read; None for its tombstone."""
        if initialized is None:
            return self._record("StatePartitionMetadata", None, group_id=group_id)
        made: Any = message("ShareGroupStatePartitionMetadataValue")
        rows = [
            made.TopicPartitionsInfo(topic_id=topic_id, topic_name=name, partitions=sorted(indexes))
            for topic_id, (name, indexes) in sorted(initialized.items())
        ]
        value = {"initializing_topics": [], "initialized_topics": rows, "deleting_topics": []}
        return self._record("StatePartitionMetadata", value, group_id=group_id)

    def group_tombstones(self, group: ShareGroup) -> list[Record]:
        """Return the records that end a group."""
        return [*super().group_tombstones(group), self.state_record(group.group_id, None)]

    def _replay_own(self, group: ShareGroup, key: Any, value: Any) -> None:
        rows = () if value is None else value.initialized_topics
        group.has_read = value is not None
        group.initialized = {row.topic_id: (row.topic_name, frozenset(row.partitions)) for row in rows}

    def _subscribed(self, member: ShareMember, value: Any) -> ShareMember:
        return replace(member, topics=tuple(sorted(value.subscribed_topic_names)))

    def _held(self, value: Any) -> tuple[Assignment, Assignment]:
        return _assigned(value.assigned_partitions), frozenset()


consumer_records: Final = ConsumerRecords()
share_records: Final = ShareRecords()
_ASSIGNMENT: Final = ("epoch", "previous_epoch", "state", "assigned", "revoking")


def _classic_struct(classic: ClassicProtocols | None) -> Any:
    if classic is None:
        return None
    made: Any = message("ConsumerGroupMemberMetadataValue")
    rows = [made.ClassicProtocol(name=name, metadata=data) for name, data in classic.protocols]
    return made.ClassicMemberMetadata(session_timeout_ms=classic.session_timeout_ms, supported_protocols=rows)


def _assigned(rows: Any) -> Assignment:
    return frozenset((row.topic_id, index) for row in rows for index in row.partitions)


def state_of(value: Any) -> MemberState:
    """Return the state that a record says; one that nobody knows is STABLE."""
    known = {int(state) for state in MemberState}
    return MemberState(value.state) if value.state in known else MemberState.STABLE
