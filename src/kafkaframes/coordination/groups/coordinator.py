"""The group coordinator: every group of this broker, its offsets, and their records.

A request is a call with plain values, its answer a value, or a callable that is called later (``join``, ``sync``).
What must outlive the broker is in ``__consumer_offsets`` before anybody is answered; ``load`` reads it back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from kafkaframes.coordination.groups import records
from kafkaframes.coordination.groups.classic import ClassicGroup, GroupState, JoinResult, SyncResult
from kafkaframes.coordination.groups.classic_members import ClassicMembers, to_classic_group, to_consumer_group
from kafkaframes.coordination.groups.commits import Commits, Offset, OffsetStore
from kafkaframes.coordination.groups.consumer import ConsumerGroup
from kafkaframes.coordination.groups.consumer_protocol import ConsumerGroups, HeartbeatRequest, HeartbeatResult, check
from kafkaframes.coordination.groups.group_protocol import Topics
from kafkaframes.coordination.groups.members import EpochGroup
from kafkaframes.coordination.groups.ports import (
    DOWNGRADES,
    UPGRADES,
    Clock,
    Committer,
    CoordinatorLog,
    Group,
    GroupSetting,
    GroupSettings,
    LoadedRecord,
    ProducerIdentity,
    Record,
)
from kafkaframes.coordination.groups.rebalance import Join, Leaving, Rebalances, Sync
from kafkaframes.coordination.groups.records import ModernRecords, consumer_records, share_records
from kafkaframes.coordination.groups.share import Initialized, ShareGroup
from kafkaframes.coordination.groups.share_protocol import ShareGroups, ShareHeartbeatRequest
from kafkaframes.coordination.groups.share_protocol import check as check_share
from kafkaframes.coordination.groups.streams import StreamsGroup
from kafkaframes.coordination.groups.streams_protocol import StreamsBeaten, StreamsGroups, StreamsHeartbeatRequest
from kafkaframes.coordination.groups.streams_records import streams_records
from kafkaframes.errors import DecodeError, ErrorCode, KafkaframesError, RefusedError
from kafkaframes.protocol.messages.envelopes import CoordinatorRecord
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition

_MODERN: Final[tuple[ModernRecords[Any, Any], ...]] = (consumer_records, share_records, streams_records)
_Kind = TypeVar("_Kind", ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup)


@dataclass(slots=True)
class GroupCoordinator:
    """All groups.

    Attributes:
        log: ``__consumer_offsets``.
        new_id: a random UUID, for members of classic groups.
        new_uuid: one in Kafka's text, for those of consumer groups.
        setting: of a group, its own or the broker's.
        unread: records that could not be read back.
    """

    clock: Clock
    log: CoordinatorLog
    settings: GroupSettings
    new_id: Callable[[], str]
    topics: Topics
    new_uuid: Callable[[], str]
    setting: GroupSetting
    groups: dict[str, Group] = field(default_factory=dict)
    unread: int = 0
    commits: Commits = field(init=False)
    classic: Rebalances = field(init=False)
    consumer: ConsumerGroups = field(init=False)
    share: ShareGroups = field(init=False)
    streams: StreamsGroups = field(init=False)
    classic_members: ClassicMembers = field(init=False)

    def __post_init__(self) -> None:
        self.commits = Commits(self.clock, self.settings, self.groups, self.write, lambda: self.log.partitions)
        self.classic = Rebalances(self.clock, self.settings, self.write, self.new_id)
        common = self.clock, self.settings, self.write, self.topics, self.setting
        self.consumer = ConsumerGroups(*common, self._downgrade)
        self.classic_members = ClassicMembers(self.consumer, self.new_uuid)
        self.share = ShareGroups(*common)
        self.streams = StreamsGroups(*common)
        self._expire_later()

    def write(self, group_id: str, rows: Sequence[Record], producer: ProducerIdentity | None = None) -> None:
        """Put records of a group into the log, as one batch."""
        partition = coordinator_partition(group_id, self.log.partitions)
        if producer is None:
            self.log.append(partition, rows)
        else:
            self.log.append(partition, rows, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)

    # ---------------------------------------------------------------------------------------------- classic groups

    def join(self, request: Join, reply: Callable[[JoinResult], None]) -> None:
        """Answer a JoinGroup, at once or when the generation begins."""
        if not request.group_id:
            reply(JoinResult(ErrorCode.INVALID_GROUP_ID, request.member_id))
            return
        if (
            not self.settings.min_session_timeout_ms
            <= request.session_timeout_ms
            <= self.settings.max_session_timeout_ms
        ):
            reply(JoinResult(ErrorCode.INVALID_SESSION_TIMEOUT, request.member_id))
            return
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup) and group.is_empty:  # goes in any case, as in Kafka
            self.write(request.group_id, self._tombstones(group))
            self._drop(group)
            group = None
        if group is None:
            if request.member_id:
                reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = ClassicGroup(request.group_id, since_ms=self.clock.now_ms)
            self.write(request.group_id, [records.group_record(group, {})])
            self._replace(group)
        if isinstance(group, ConsumerGroup):
            reply(self.classic_members.join(group, request))
            self._downgrade(group)  # its last member of the consumer protocol may have come back with the classic one
            return
        if not isinstance(group, ClassicGroup):
            reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
            return
        self.classic.join(group, request, reply)

    def sync(self, request: Sync, reply: Callable[[SyncResult], None]) -> None:
        """Answer a SyncGroup, at once or when the assignment is there."""
        if not request.group_id:
            reply(SyncResult(ErrorCode.INVALID_GROUP_ID))
            return
        group = self.groups.get(request.group_id)
        if isinstance(group, ConsumerGroup):
            reply(self.classic_members.sync(group, request))
            return
        if not isinstance(group, ClassicGroup):
            reply(SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
            return
        self.classic.sync(group, request, reply)

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Keep a member alive; return the error code that it gets."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(group_id)
        try:
            if isinstance(group, ConsumerGroup):
                return self.classic_members.heartbeat(group, member_id, instance_id, generation)
            if not isinstance(group, ClassicGroup):
                return ErrorCode.UNKNOWN_MEMBER_ID
            return self.classic.heartbeat(group, member_id, instance_id, generation)
        except RefusedError as refused:
            return refused.code

    def leave(self, group_id: str, leaving: Sequence[Leaving]) -> list[ErrorCode]:
        """Let members go; return an error code for each. A group has an id."""
        if not group_id:
            raise RefusedError(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.classic_members.leave(group, leaving)
        if not isinstance(group, ClassicGroup):
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return self.classic.leave(group, leaving)

    # ---------------------------------------------------------------------------------------------- consumer groups

    def consumer_heartbeat(self, beat: HeartbeatRequest, *, may_lack_id: bool = False) -> HeartbeatResult:
        """Answer a ConsumerGroupHeartbeat; of version 0 the member ``may_lack_id``, and is given one."""
        check(beat, may_lack_id=may_lack_id)
        if not beat.member_id:
            beat = beat._replace(member_id=self.new_uuid())
        group = self.groups.get(beat.group_id)
        before: list[Record] = []
        if beat.epoch == 0 and (group is None or isinstance(group, ClassicGroup)):
            group, before = self._consumer_group_for(beat.group_id, group)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {beat.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {beat.group_id} is not a consumer group.")
        if beat.epoch < 0:
            return self.consumer.leave(group, beat)
        answer = self.consumer.heartbeat(group, beat, before)
        if self.groups.get(beat.group_id) is not group:
            self._replace(group)
        return answer

    def _consumer_group_for(self, group_id: str, old: ClassicGroup | None) -> tuple[Group | None, list[Record]]:
        """Return the group that a member joins by the consumer protocol, and the records that make it one.

        A classic group with members is converted where the policy allows it and its members are consumers.
        """
        if old is None:
            return ConsumerGroup(group_id), []
        before = self._tombstones(old)
        if old.is_empty:
            return ConsumerGroup(group_id), before
        fits = len(old.members) <= self.settings.consumer_max_size and old.uses_consumer_protocol
        if self.settings.consumer_migration_policy not in UPGRADES or not fits or not old.members:
            return old, []
        try:
            group = to_consumer_group(old, self.topics)
        except DecodeError:
            return old, []
        return group, before + consumer_records.group_records(group, self.clock.now_ms)

    def _downgrade(self, group: ConsumerGroup, leaving: frozenset[str] = frozenset()) -> bool:
        """Make a classic group of a consumer group if all speak the classic protocol, but for those who leave."""
        left = [one for one in group.members.values() if one.member_id not in leaving]
        gone = [one for one in group.members.values() if one.member_id in leaving]
        if not left or any(one.classic is None for one in left) or any(one.classic is not None for one in gone):
            return False
        if self.settings.consumer_migration_policy not in DOWNGRADES or len(left) > self.settings.max_size:
            return False
        made = to_classic_group(group, leaving, self.topics, self.clock.now_ms)
        assignments = {one.member_id: one.assignment for one in made.members.values()}
        rows = [*consumer_records.group_tombstones(group), records.group_record(made, assignments)]
        self.write(group.group_id, rows)
        self._replace(made)
        self.classic.take_over(made)
        return True

    # ---------------------------------------------------------------------------------------------- share groups

    def share_heartbeat(self, beat: ShareHeartbeatRequest) -> HeartbeatResult:
        """Answer a ShareGroupHeartbeat."""
        check_share(beat)
        group = self.groups.get(beat.group_id)
        if group is None and beat.epoch == 0:
            group = ShareGroup(beat.group_id)
        if not isinstance(group, ShareGroup):
            raise _not_found(beat.group_id, group, ShareGroup)
        if beat.epoch < 0:
            return self.share.leave(group, beat.member_id)
        answer = self.share.heartbeat(group, beat)
        self.groups[beat.group_id] = group
        return answer

    def change_share_group(self, group_id: str, *, may_make: bool = False) -> ShareGroup:
        """Return a share group without members (else NON_EMPTY_GROUP), whose offsets may be changed; or a new one."""
        if may_make and group_id not in self.groups:
            return ShareGroup(group_id)
        group = self.group(group_id, ShareGroup)
        group.check_delete()
        return group

    def read_share_topics(self, group: ShareGroup, topics: Initialized) -> None:
        """Take note of the partitions that a share group reads."""
        if group.group_id not in self.groups:
            self.write(group.group_id, [share_records.state_record(group.group_id, {})])
            self.groups[group.group_id], group.has_read = group, True
        self.share.put_initialized(group, topics)

    def forget_share_topic(self, topic_id: UUID) -> None:
        """Take a topic that is gone from what share groups read."""
        for group in self.groups.values():
            if isinstance(group, ShareGroup) and topic_id in group.initialized:
                left = {key: read for key, read in group.initialized.items() if key != topic_id}
                self.share.put_initialized(group, left)

    # ---------------------------------------------------------------------------------------------- streams groups

    def streams_heartbeat(self, beat: StreamsHeartbeatRequest) -> StreamsBeaten:
        """Answer a StreamsGroupHeartbeat that is right in itself."""
        group = self.groups.get(beat.group_id)
        if beat.epoch == 0 and (group is None or (isinstance(group, ClassicGroup) and group.is_empty)):
            if group is not None:
                self.write(beat.group_id, self._tombstones(group))
            group = StreamsGroup(beat.group_id)
        if not isinstance(group, StreamsGroup):
            if group is None and beat.epoch > 0:
                raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {beat.group_id} not found.")
            raise _not_found(beat.group_id, group, StreamsGroup)
        if beat.epoch < 0:
            return self.streams.leave(group, beat.member_id)
        answer = self.streams.heartbeat(group, beat)
        if self.groups.get(beat.group_id) is not group:
            self._replace(group)
        return answer

    def _replace(self, group: Group) -> None:
        """Put a group to use, in the place of another one of its name."""
        old = self.groups.get(group.group_id)
        if old is not None:
            old.stop_timers()
        self.groups[group.group_id] = group
        if isinstance(old, ClassicGroup) and isinstance(group, ConsumerGroup):
            self.classic.give_up(old)
            self.consumer.revive(group)

    # ---------------------------------------------------------------------------------------------- offsets

    def commit(
        self, committer: Committer, offsets: dict[TopicPartition, Offset], *, retention_ms: int = -1
    ) -> dict[TopicPartition, int]:
        """Commit offsets; return an error code for each. A commit keeps a classic member alive."""
        codes = self.commits.commit(committer, offsets, retention_ms=retention_ms)
        group = self.groups.get(committer.group_id)
        if isinstance(group, ClassicGroup) and group.state in (GroupState.STABLE, GroupState.PREPARING_REBALANCE):
            member = group.members.get(committer.member_id)
            if member is not None:
                self.classic.keep_alive(group, member)
        elif isinstance(group, ConsumerGroup):
            self.classic_members.keep_alive(group, committer.member_id)
        return codes

    def end_transaction(self, partition: int, producer_id: int, *, commit: bool) -> None:
        """Take over, or forget, what a transaction staged in a partition: its marker is in the log."""
        self.commits.store.end_transaction((partition, producer_id), commit=commit)

    # ---------------------------------------------------------------------------------------------- administration

    def group(self, group_id: str, kind: type[_Kind]) -> _Kind:
        """Return a group of a type, or refuse with GROUP_ID_NOT_FOUND."""
        group = self.groups.get(group_id)
        if not isinstance(group, kind):
            raise _not_found(group_id, group, kind)
        return group

    def listed(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[Group]:
        """Return the groups in any of these states and of any of these types; letter case does not matter."""
        in_states, of_types = ({text.lower() for text in texts} for texts in (states, types))
        return [
            one
            for one in self.groups.values()
            if (not in_states or one.state_name.lower() in in_states) and (not of_types or one.type in of_types)
        ]

    def delete_group(self, group_id: str) -> None:
        """Delete a group without members (else NON_EMPTY_GROUP), and its offsets."""
        group = self.groups.get(group_id)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        group.check_delete()
        self.write(group_id, [*self.commits.tombstones(group_id), *self._tombstones(group)])
        self.commits.store.remove_group(group_id)
        self._drop(group)

    @staticmethod
    def _tombstones(group: Group) -> list[Record]:
        for rows in _MODERN:
            if isinstance(group, rows.group_type):
                return rows.group_tombstones(group)
        return [records.group_tombstone(group.group_id)]

    def _drop(self, group: Group) -> None:
        group.stop_timers()
        self.groups.pop(group.group_id, None)

    def _expire_later(self) -> None:
        self.clock.call_later(self.settings.offsets_retention_check_interval_ms, self._expire_all)

    def _expire_all(self) -> None:
        """Delete offsets whose retention is over, and groups of which nothing is left."""
        self._expire_later()
        for group in list(self.groups.values()):
            with suppress(KafkaframesError):  # the log is not there now; the next round finds them again
                if self.commits.expire(group) and group.is_empty:
                    self.write(group.group_id, self._tombstones(group))
                    self._drop(group)

    # ---------------------------------------------------------------------------------------------- loading

    def load(self, loaded: Iterable[LoadedRecord]) -> None:
        """Read everything back after a restart; members have a session timeout to be heard of."""
        self.unread += load(self.groups, self.commits.store, loaded)
        protocols: dict[str, Any] = {
            ClassicGroup.type: self.classic,
            ConsumerGroup.type: self.consumer,
            ShareGroup.type: self.share,
            StreamsGroup.type: self.streams,
        }
        for group in self.groups.values():
            if isinstance(group, EpochGroup) and group.assignment_time_ms is not None:
                age_ms = max(self.clock.now_ms - group.assignment_time_ms, 0)
                group.assignment_time_ms = self.clock.monotonic_ms - age_ms
            protocols[group.type].revive(group)


def _not_found(group_id: str, group: Group | None, kind: type[Group]) -> RefusedError:
    what = "not found" if group is None else f"is not a {kind.type} group"
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")


def load(groups: dict[str, Group], offsets: OffsetStore, loaded: Iterable[LoadedRecord]) -> int:
    """Take records over into groups and offsets; return how many could not be read."""
    unread = 0
    for record in loaded:
        if record.is_marker:
            offsets.end_transaction((record.partition, record.producer_id), commit=record.is_commit)
        elif record.key is not None:
            try:
                _replay(groups, offsets, record, records.decode(record.key, record.value))
            except DecodeError:
                unread += 1
    return unread


def _replay(groups: dict[str, Group], offsets: OffsetStore, record: LoadedRecord, read: CoordinatorRecord) -> None:
    if read.type in records.COMMIT_TYPES:
        transaction = (record.partition, record.producer_id) if record.is_transactional else None
        _replay_commit(groups, offsets, read, transaction)
    elif read.type == records.GROUP_TYPE:
        if read.value is not None:
            groups[read.key.group] = records.group_of(read.key.group, read.value)
        elif isinstance(groups.get(read.key.group), ClassicGroup):
            del groups[read.key.group]
    else:
        for rows in _MODERN:
            if read.type in rows.types:
                _replay_modern(groups, read, rows)


def _replay_modern(groups: dict[str, Group], read: CoordinatorRecord, rows: ModernRecords[Any, Any]) -> None:
    """Replay a record of a consumer, share or streams group, which the record of its epoch ends."""
    group_id = read.key.group_id
    group = groups.get(group_id)
    is_there = isinstance(group, rows.group_type)
    if is_there and rows.is_end(read):
        del groups[group_id]
    elif is_there or read.value is not None:
        group = groups[group_id] = group if is_there and group is not None else rows.group_type(group_id)
        rows.replay(group, read)


def _replay_commit(
    groups: dict[str, Group], offsets: OffsetStore, read: CoordinatorRecord, transaction: tuple[int, int] | None
) -> None:
    where = TopicPartition(read.key.topic, read.key.partition)
    if read.value is None:
        offsets.remove(read.key.group, where)
        return
    groups.setdefault(read.key.group, ClassicGroup(read.key.group))
    offsets.put(read.key.group, where, records.commit_of(read.value), transaction=transaction)
