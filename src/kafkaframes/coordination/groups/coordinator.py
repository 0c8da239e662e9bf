"""The group coordinator: all groups of this broker, their committed offsets, and their records.

A request is a method call with plain values. The response is the return value, or the argument of a callable that is
called later (``join``, ``sync``). State that must survive a restart is appended to ``__consumer_offsets`` before the
response; ``replay_records`` reads this state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from kafkaframes.coordination.groups import records
from kafkaframes.coordination.groups.classic import ClassicGroup, GroupState, JoinResult, SyncResult
from kafkaframes.coordination.groups.classic_members import ClassicMemberProtocol, to_classic_group, to_consumer_group
from kafkaframes.coordination.groups.commits import OffsetHandlers, OffsetStore, OffsetToCommit
from kafkaframes.coordination.groups.consumer import ConsumerGroup
from kafkaframes.coordination.groups.consumer_protocol import (
    ConsumerGroupProtocol,
    HeartbeatRequest,
    HeartbeatResult,
    check_request,
)
from kafkaframes.coordination.groups.group_protocol import Topics
from kafkaframes.coordination.groups.members import EpochGroup
from kafkaframes.coordination.groups.ports import (
    DOWNGRADE_POLICIES,
    UPGRADE_POLICIES,
    Clock,
    CoordinatorLog,
    Group,
    GroupSetting,
    GroupSettings,
    LoadedRecord,
    OffsetClient,
    ProducerIdentity,
    Record,
)
from kafkaframes.coordination.groups.rebalance import JoinRequest, LeavingMember, RebalanceProtocol, SyncRequest
from kafkaframes.coordination.groups.records import ModernRecords, consumer_records, share_records
from kafkaframes.coordination.groups.share import InitializedTopics, ShareGroup
from kafkaframes.coordination.groups.share_protocol import ShareGroupProtocol, ShareHeartbeatRequest
from kafkaframes.coordination.groups.share_protocol import check_request as check_share
from kafkaframes.coordination.groups.streams import StreamsGroup
from kafkaframes.coordination.groups.streams_protocol import (
    StreamsGroupProtocol,
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
)
from kafkaframes.coordination.groups.streams_records import streams_records
from kafkaframes.errors import DecodeError, ErrorCode, KafkaframesError, RefusedError
from kafkaframes.protocol.messages.envelopes import CoordinatorRecord
from kafkaframes.storage.files.names import TopicPartition, coordinator_partition

_MODERN_RECORDS: Final[tuple[ModernRecords[Any, Any], ...]] = (consumer_records, share_records, streams_records)
_Kind = TypeVar("_Kind", ClassicGroup, ConsumerGroup, ShareGroup, StreamsGroup)


@dataclass(slots=True)
class GroupCoordinator:
    """All groups of a broker.

    Attributes:
        log: the topic ``__consumer_offsets``.
        new_id: function that returns a random UUID, for members of classic groups.
        new_uuid: function that returns a random UUID in Kafka's text form, for members of consumer groups.
        setting: function that returns a setting of a group: its own value, or else the broker's value.
        undecodable_count: number of records that could not be decoded.
    """

    clock: Clock
    log: CoordinatorLog
    settings: GroupSettings
    new_id: Callable[[], str]
    topics: Topics
    new_uuid: Callable[[], str]
    setting: GroupSetting
    groups: dict[str, Group] = field(default_factory=dict)
    undecodable_count: int = 0
    commits: OffsetHandlers = field(init=False)
    classic: RebalanceProtocol = field(init=False)
    consumer: ConsumerGroupProtocol = field(init=False)
    share: ShareGroupProtocol = field(init=False)
    streams: StreamsGroupProtocol = field(init=False)
    classic_members: ClassicMemberProtocol = field(init=False)

    def __post_init__(self) -> None:
        self.commits = OffsetHandlers(self.clock, self.settings, self.groups, self.write, lambda: self.log.partitions)
        self.classic = RebalanceProtocol(self.clock, self.settings, self.write, self.new_id)
        common = self.clock, self.settings, self.write, self.topics, self.setting
        self.consumer = ConsumerGroupProtocol(*common, self._downgrade_group)
        self.classic_members = ClassicMemberProtocol(self.consumer, self.new_uuid)
        self.share = ShareGroupProtocol(*common)
        self.streams = StreamsGroupProtocol(*common)
        self._expire_later()

    def write(self, group_id: str, rows: Sequence[Record], producer: ProducerIdentity | None = None) -> None:
        """Append records of a group to the log, as one batch."""
        partition = coordinator_partition(group_id, self.log.partitions)
        if producer is None:
            self.log.append(partition, rows)
        else:
            self.log.append(partition, rows, producer_id=producer.producer_id, producer_epoch=producer.producer_epoch)

    # ---------------------------------------------------------------------------------------------- classic groups

    def join(self, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        """Handle a JoinGroup. The response is sent at once, or when the generation starts."""
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
        # As in Kafka, the group is deleted even if the request fails.
        if isinstance(group, ConsumerGroup) and group.is_empty:
            self.write(request.group_id, self._group_tombstones(group))
            self._remove_group(group)
            group = None
        if group is None:
            if request.member_id:
                reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, request.member_id))
                return
            group = ClassicGroup(request.group_id, since_ms=self.clock.now_ms)
            self.write(request.group_id, [records.build_group_record(group, {})])
            self._replace_group(group)
        if isinstance(group, ConsumerGroup):
            reply(self.classic_members.join(group, request))
            self._downgrade_group(
                group
            )  # the last member of the consumer protocol may have rejoined with the classic one
            return
        if not isinstance(group, ClassicGroup):
            reply(JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, ""))
            return
        self.classic.join(group, request, reply)

    def sync(self, request: SyncRequest, reply: Callable[[SyncResult], None]) -> None:
        """Handle a SyncGroup. The response is sent at once, or when the leader has sent the assignment."""
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
        """Extend a member's session. Return the error code of the response."""
        if not group_id:
            return ErrorCode.INVALID_GROUP_ID
        group = self.groups.get(group_id)
        try:
            if isinstance(group, ConsumerGroup):
                return self.classic_members.heartbeat(group, member_id, instance_id, generation)
            if not isinstance(group, ClassicGroup):
                return ErrorCode.UNKNOWN_MEMBER_ID
            return self.classic.heartbeat(group, member_id, instance_id, generation)
        except RefusedError as error:
            return error.code

    def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        """Remove members. Return an error code for each member. An empty group id is rejected with INVALID_GROUP_ID."""
        if not group_id:
            raise RefusedError(ErrorCode.INVALID_GROUP_ID)
        group = self.groups.get(group_id)
        if isinstance(group, ConsumerGroup):
            return self.classic_members.leave(group, leaving)
        if not isinstance(group, ClassicGroup):
            return [ErrorCode.UNKNOWN_MEMBER_ID] * len(leaving)
        return self.classic.leave(group, leaving)

    # ---------------------------------------------------------------------------------------------- consumer groups

    def handle_consumer_heartbeat(
        self, request: HeartbeatRequest, *, may_omit_member_id: bool = False
    ) -> HeartbeatResult:
        """Handle a ConsumerGroupHeartbeat.

        Args:
            may_omit_member_id: whether a joining member may lack a member id, as in version 0. The coordinator then
                assigns a member id.
        """
        check_request(request, may_omit_member_id=may_omit_member_id)
        if not request.member_id:
            request = request._replace(member_id=self.new_uuid())
        group = self.groups.get(request.group_id)
        preceding_records: list[Record] = []
        if request.epoch == 0 and (group is None or isinstance(group, ClassicGroup)):
            group, preceding_records = self._find_consumer_group(request.group_id, group)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Consumer group {request.group_id} not found.")
        if not isinstance(group, ConsumerGroup):
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {request.group_id} is not a consumer group.")
        if request.epoch < 0:
            return self.consumer.leave(group, request)
        answer = self.consumer.heartbeat(group, request, preceding_records)
        if self.groups.get(request.group_id) is not group:
            self._replace_group(group)
        return answer

    def _find_consumer_group(self, group_id: str, old_group: ClassicGroup | None) -> tuple[Group | None, list[Record]]:
        """Return the group that a member of the consumer protocol joins, and the records that create it.

        A classic group with members is converted if the policy allows it and its members are consumers.
        """
        if old_group is None:
            return ConsumerGroup(group_id), []
        preceding_records = self._group_tombstones(old_group)
        if old_group.is_empty:
            return ConsumerGroup(group_id), preceding_records
        can_convert = len(old_group.members) <= self.settings.consumer_max_size and old_group.uses_consumer_protocol
        if self.settings.consumer_migration_policy not in UPGRADE_POLICIES or not can_convert or not old_group.members:
            return old_group, []
        try:
            group = to_consumer_group(old_group, self.topics)
        except DecodeError:
            return old_group, []
        return group, preceding_records + consumer_records.build_group_records(group, self.clock.now_ms)

    def _downgrade_group(self, group: ConsumerGroup, leaving: frozenset[str] = frozenset()) -> bool:
        """Convert a consumer group to a classic group when its last members with the consumer protocol leave.

        Return whether the group was converted.
        """
        remaining_members = [member for member in group.members.values() if member.member_id not in leaving]
        leaving_ids = [member for member in group.members.values() if member.member_id in leaving]
        if not remaining_members or any(member.classic is None for member in remaining_members):
            return False
        if any(member.classic is not None for member in leaving_ids):
            return False
        if (
            self.settings.consumer_migration_policy not in DOWNGRADE_POLICIES
            or len(remaining_members) > self.settings.max_size
        ):
            return False
        classic_group = to_classic_group(group, leaving, self.topics, self.clock.now_ms)
        rows = [
            *consumer_records.build_group_tombstones(group),
            records.build_group_record(classic_group, classic_group.assignments),
        ]
        self.write(group.group_id, rows)
        self._replace_group(classic_group)
        self.classic.start_converted_group(classic_group)
        return True

    # ---------------------------------------------------------------------------------------------- share groups

    def handle_share_heartbeat(self, request: ShareHeartbeatRequest) -> HeartbeatResult:
        """Handle a ShareGroupHeartbeat."""
        check_share(request)
        group = self.groups.get(request.group_id)
        if group is None and request.epoch == 0:
            group = ShareGroup(request.group_id)
        if not isinstance(group, ShareGroup):
            raise _create_not_found_error(request.group_id, group, ShareGroup)
        if request.epoch < 0:
            return self.share.leave(group, request.member_id)
        answer = self.share.heartbeat(group, request)
        self.groups[request.group_id] = group
        return answer

    def find_share_group_for_offsets(self, group_id: str, *, may_create: bool = False) -> ShareGroup:
        """Return a share group whose offsets may be changed; raise NON_EMPTY_GROUP if the group has members."""
        if may_create and group_id not in self.groups:
            return ShareGroup(group_id)
        group = self.find_group(group_id, ShareGroup)
        group.check_delete()
        return group

    def store_share_partitions(self, group: ShareGroup, topics: InitializedTopics) -> None:
        """Store the partitions from which a share group reads."""
        if group.group_id not in self.groups:
            self.write(group.group_id, [share_records.build_state_record(group.group_id, {})])
            self.groups[group.group_id], group.has_read = group, True
        self.share.store_partitions(group, topics)

    def delete_share_topic(self, topic_id: UUID) -> None:
        """Remove a deleted topic from all share groups."""
        for group in self.groups.values():
            if isinstance(group, ShareGroup) and topic_id in group.initialized_topics:
                remaining_partitions = {
                    key: partitions for key, partitions in group.initialized_topics.items() if key != topic_id
                }
                self.share.store_partitions(group, remaining_partitions)

    # ---------------------------------------------------------------------------------------------- streams groups

    def handle_streams_heartbeat(self, request: StreamsHeartbeatRequest) -> StreamsHeartbeatResult:
        """Handle a StreamsGroupHeartbeat with consistent fields."""
        group = self.groups.get(request.group_id)
        if request.epoch == 0 and (group is None or (isinstance(group, ClassicGroup) and group.is_empty)):
            if group is not None:
                self.write(request.group_id, self._group_tombstones(group))
            group = StreamsGroup(request.group_id)
        if not isinstance(group, StreamsGroup):
            if group is None and request.epoch > 0:
                raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Streams group {request.group_id} not found.")
            raise _create_not_found_error(request.group_id, group, StreamsGroup)
        if request.epoch < 0:
            return self.streams.leave(group, request.member_id)
        answer = self.streams.heartbeat(group, request)
        if self.groups.get(request.group_id) is not group:
            self._replace_group(group)
        return answer

    def _replace_group(self, group: Group) -> None:
        """Add a group, which replaces an existing group of the same name."""
        old_group = self.groups.get(group.group_id)
        if old_group is not None:
            old_group.stop_timers()
        self.groups[group.group_id] = group
        if isinstance(old_group, ClassicGroup) and isinstance(group, ConsumerGroup):
            self.classic.make_members_rejoin(old_group)
            self.consumer.start_member_timers(group)

    # ---------------------------------------------------------------------------------------------- offsets

    def commit(
        self, committer: OffsetClient, offsets: dict[TopicPartition, OffsetToCommit], *, retention_ms: int = -1
    ) -> dict[TopicPartition, int]:
        """Commit offsets. Return an error code for each offset. A commit extends the session of a classic member."""
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
        """Commit or drop the pending offsets of a transaction whose marker is in this partition of the log."""
        self.commits.store.end_transaction((partition, producer_id), commit=commit)

    # ---------------------------------------------------------------------------------------------- administration

    def find_group(self, group_id: str, kind: type[_Kind]) -> _Kind:
        """Return a group; raise GROUP_ID_NOT_FOUND if it does not exist or is not of type ``kind``."""
        group = self.groups.get(group_id)
        if not isinstance(group, kind):
            raise _create_not_found_error(group_id, group, kind)
        return group

    def list_groups(self, *, states: Iterable[str] = (), types: Iterable[str] = ()) -> list[Group]:
        """Return the groups in any of these states and of any of these types; case is ignored."""
        lowercase_states, lowercase_types = ({text.lower() for text in texts} for texts in (states, types))
        return [
            group
            for group in self.groups.values()
            if (not lowercase_states or group.state_name.lower() in lowercase_states)
            and (not lowercase_types or group.type in lowercase_types)
        ]

    def delete_group(self, group_id: str) -> None:
        """Delete a group and its offsets; raise NON_EMPTY_GROUP if the group has members."""
        group = self.groups.get(group_id)
        if group is None:
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} not found.")
        group.check_delete()
        self.write(group_id, [*self.commits.build_tombstones(group_id), *self._group_tombstones(group)])
        self.commits.store.remove_group(group_id)
        self._remove_group(group)

    @staticmethod
    def _group_tombstones(group: Group) -> list[Record]:
        """Return the tombstones of all records of a group."""
        for rows in _MODERN_RECORDS:
            if isinstance(group, rows.group_type):
                return rows.build_group_tombstones(group)
        return [records.build_group_tombstone(group.group_id)]

    def _remove_group(self, group: Group) -> None:
        group.stop_timers()
        self.groups.pop(group.group_id, None)

    def _expire_later(self) -> None:
        self.clock.call_later(self.settings.offsets_retention_check_interval_ms, self._expire_offsets)

    def _expire_offsets(self) -> None:
        """Delete expired offsets, and empty groups without offsets."""
        self._expire_later()
        for group in list(self.groups.values()):
            with suppress(KafkaframesError):  # the log is offline; the next round tries again
                if self.commits.expire(group) and group.is_empty:
                    self.write(group.group_id, self._group_tombstones(group))
                    self._remove_group(group)

    # ---------------------------------------------------------------------------------------------- loading

    def load(self, loaded_records: Iterable[LoadedRecord]) -> None:
        """Load all groups after a restart. Members have one session timeout to send a heartbeat."""
        self.undecodable_count += replay_records(self.groups, self.commits.store, loaded_records)
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
            protocols[group.type].start_member_timers(group)


def _create_not_found_error(group_id: str, group: Group | None, kind: type[Group]) -> RefusedError:
    problem = "not found" if group is None else f"is not a {kind.type} group"
    return RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {problem}.")


def replay_records(groups: dict[str, Group], offsets: OffsetStore, loaded_records: Iterable[LoadedRecord]) -> int:
    """Replay records into groups and offsets. Return the number of records that could not be decoded."""
    unread_count = 0
    for record in loaded_records:
        if record.is_marker:
            offsets.end_transaction((record.partition, record.producer_id), commit=record.is_commit)
        elif record.key is not None:
            try:
                _replay_record(groups, offsets, record, records.decode(record.key, record.value))
            except DecodeError:
                unread_count += 1
    return unread_count


def _replay_record(
    groups: dict[str, Group], offsets: OffsetStore, record: LoadedRecord, decoded_record: CoordinatorRecord
) -> None:
    if decoded_record.type in records.COMMIT_RECORD_TYPES:
        transaction = (record.partition, record.producer_id) if record.is_transactional else None
        _replay_commit(groups, offsets, decoded_record, transaction)
    elif decoded_record.type == records.GROUP_RECORD_TYPE:
        if decoded_record.value is not None:
            groups[decoded_record.key.group] = records.read_group(decoded_record.key.group, decoded_record.value)
        elif isinstance(groups.get(decoded_record.key.group), ClassicGroup):
            del groups[decoded_record.key.group]
    else:
        for rows in _MODERN_RECORDS:
            if decoded_record.type in rows.types:
                _replay_modern_record(groups, decoded_record, rows)


def _replay_modern_record(
    groups: dict[str, Group], decoded_record: CoordinatorRecord, rows: ModernRecords[Any, Any]
) -> None:
    """Replay a record of a consumer, share or streams group. The tombstone of the epoch record deletes the group."""
    group_id = decoded_record.key.group_id
    group = groups.get(group_id)
    exists = isinstance(group, rows.group_type)
    if exists and rows.deletes_group(decoded_record):
        del groups[group_id]
    elif exists or decoded_record.value is not None:
        group = groups[group_id] = group if exists and group is not None else rows.group_type(group_id)
        rows.replay(group, decoded_record)


def _replay_commit(
    groups: dict[str, Group],
    offsets: OffsetStore,
    decoded_record: CoordinatorRecord,
    transaction: tuple[int, int] | None,
) -> None:
    partition = TopicPartition(decoded_record.key.topic, decoded_record.key.partition)
    if decoded_record.value is None:
        offsets.remove(decoded_record.key.group, partition)
        return
    groups.setdefault(decoded_record.key.group, ClassicGroup(decoded_record.key.group))
    offsets.add_offset(
        decoded_record.key.group, partition, records.read_commit(decoded_record.value), transaction=transaction
    )
