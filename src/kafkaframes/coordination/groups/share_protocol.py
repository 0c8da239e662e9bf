"""ShareGroupHeartbeat: joining, staying in and leaving a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from kafkaframes.coordination.groups.consumer import LEAVE, NOTHING
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatResult
from kafkaframes.coordination.groups.group_protocol import GroupProtocol, hash_of_topics, refuse_invalid
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.records import share_records as rows
from kafkaframes.coordination.groups.share import Initialized, ShareGroup, ShareMember, assign


class ShareHeartbeatRequest(NamedTuple):
    """A ShareGroupHeartbeat request; None where nothing has changed since the last."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


def check(request: ShareHeartbeatRequest) -> None:
    """Refuse a request that contradicts itself: INVALID_REQUEST."""
    wrong = (
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (request.epoch == 0 and not request.topics, "SubscribedTopicNames must be set in first request."),
        (request.epoch < LEAVE, "MemberEpoch is invalid."),
    )
    refuse_invalid(wrong)


@dataclass
class ShareGroups(GroupProtocol[ShareGroup, ShareMember]):
    """The protocol on share groups.

    Attributes:
        begin: lets a group read a partition (group, its epoch, topic id, partition); the share coordinator's.
    """

    records = rows
    begin: Callable[[str, int, UUID, int], None] = lambda group_id, epoch, topic_id, index: None

    def heartbeat(self, group: ShareGroup, request: ShareHeartbeatRequest) -> HeartbeatResult:
        """Answer a heartbeat that does not leave."""
        old = self._find_sender(group, request)
        member = _subscribed(old or ShareMember(request.member_id), request)
        records: list[Record] = []
        if old is None or not member.same_subscription(old):
            records.append(rows.member_record(group.group_id, member))
        members = {**group.members, member.member_id: member}
        names = {name for one in members.values() for name in one.topics}
        metadata_hash = hash_of_topics(self.topics, names)
        epoch, targets = group.epoch, group.targets
        is_changed = old is None or old.topics != member.topics or metadata_hash != group.metadata_hash
        if is_changed or (group.assignment_epoch >= group.epoch and group.has_unassigned):
            epoch = group.epoch + 1
            records.append(rows.epoch_record(group.group_id, epoch, metadata_hash))
        target_epoch, assignment_time_ms = group.assignment_epoch, group.assignment_time_ms
        if epoch > target_epoch and self.may_assign(group):
            targets, target_epoch, assignment_time_ms = self._assigned(group, members), epoch, self.clock.monotonic_ms
            changed = [key for key, target in targets.items() if group.targets.get(key) != target]
            records += [rows.target_record(group.group_id, key, targets[key]) for key in changed]
            records.append(rows.target_epoch_record(group.group_id, epoch, self.clock.now_ms))
        moved = member
        if member.epoch != target_epoch or epoch > group.epoch:
            target = self._subscribed_part(member, targets.get(member.member_id, NOTHING))
            previous_epoch = member.previous_epoch if member.epoch == target_epoch else member.epoch
            moved = replace(member, epoch=target_epoch, previous_epoch=previous_epoch, assigned=target)
            if moved != member:
                records.append(rows.current_record(group.group_id, moved))
        if records:
            self.write(group.group_id, records)
        group.put(moved)
        group.epoch, group.metadata_hash, group.targets = epoch, metadata_hash, targets
        group.assignment_epoch, group.assignment_time_ms = target_epoch, assignment_time_ms
        self.restart_timers(group, moved)
        self._begin(group, self._read_by(names))
        tells = request.epoch == 0 or request.topics is not None or old is None or moved.assigned != old.assigned
        interval_ms = self.group_setting(group, "heartbeat.interval.ms")
        return HeartbeatResult(moved.member_id, moved.epoch, interval_ms, moved.assigned if tells else None)

    def _find_sender(self, group: ShareGroup, request: ShareHeartbeatRequest) -> ShareMember | None:
        if request.epoch == 0:
            return self.find_member(group, request.member_id, self.settings.share_max_size)
        member = group.member(request.member_id)
        member.check_epoch(request.epoch, NOTHING, group_type="share")
        return member

    def _assigned(self, group: ShareGroup, members: dict[str, ShareMember]) -> dict[str, frozenset[tuple[UUID, int]]]:
        """Assign the partitions that the group has begun to read before this heartbeat."""
        begun = {topic_id: sorted(indexes) for topic_id, (_, indexes) in group.initialized.items() if indexes}
        subscriptions = {
            key: frozenset(topic_id for topic_id in begun if group.initialized[topic_id][0] in member.topics)
            for key, member in members.items()
        }
        return assign(subscriptions, begun)

    def _subscribed_part(self, member: ShareMember, target: frozenset[tuple[UUID, int]]) -> frozenset[tuple[UUID, int]]:
        """Return a target without topics that are gone or not subscribed to: it may be older than the subscription."""
        topics = (self.topics.find(name) for name in member.topics)
        topic_ids = {topic[0] for topic in topics if topic is not None}
        return frozenset(partition for partition in target if partition[0] in topic_ids)

    def _read_by(self, names: set[str]) -> Initialized:
        topics = ((name, self.topics.find(name)) for name in names)
        return {topic[0]: (name, frozenset(range(topic[1]))) for name, topic in topics if topic is not None}

    def _begin(self, group: ShareGroup, topics: Initialized) -> None:
        """Let the group read partitions that it does not read yet; they are assigned with the next heartbeat."""
        for topic_id, (_, indexes) in topics.items():
            for index in sorted(indexes):
                self.begin(group.group_id, group.epoch, topic_id, index)
        self.put_initialized(group, {**group.initialized, **topics})

    def put_initialized(self, group: ShareGroup, topics: Initialized) -> None:
        """Take note of the partitions that a group reads."""
        if topics != group.initialized:
            self.write(group.group_id, [rows.state_record(group.group_id, topics)])
            group.initialized, group.has_read = topics, True

    def leave(self, group: ShareGroup, member_id: str) -> HeartbeatResult:
        """Let a member go."""
        group.member(member_id)
        self.fence(group, member_id)
        return HeartbeatResult(member_id, LEAVE)


def _subscribed(member: ShareMember, request: ShareHeartbeatRequest) -> ShareMember:
    changed = replace(member, client_id=request.client_id, client_host=request.client_host)
    if request.rack_id is not None:
        changed = replace(changed, rack_id=request.rack_id)
    return changed if request.topics is None else replace(changed, topics=tuple(sorted(set(request.topics))))
