"""ShareGroupHeartbeat: members join, stay in and leave a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.coordination.groups.consumer import LEAVE, NO_PARTITIONS
from kafkaframes.coordination.groups.consumer_protocol import HeartbeatResult
from kafkaframes.coordination.groups.group_protocol import (
    GroupProtocol,
    find_topic_ids,
    hash_topics,
    reject_invalid_request,
)
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.records import share_records as rows
from kafkaframes.coordination.groups.share import InitializedTopics, ShareGroup, ShareMember, assign_share_partitions


class ShareHeartbeatRequest(NamedTuple):
    """A ShareGroupHeartbeat request. A field is None if it has not changed since the last heartbeat."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


def check_request(request: ShareHeartbeatRequest) -> None:
    """Reject a request with contradictory fields (INVALID_REQUEST)."""
    checks = (
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (request.epoch == 0 and not request.topics, "SubscribedTopicNames must be set in first request."),
        (request.epoch < LEAVE, "MemberEpoch is invalid."),
    )
    reject_invalid_request(checks)


@dataclass
class ShareGroupProtocol(GroupProtocol[ShareGroup, ShareMember]):
    """The heartbeat protocol of share groups.

    Attributes:
        start_reading: function that starts to read a partition for a group (group id, group epoch, topic id,
            partition).
    """

    records = rows
    start_reading: Callable[[str, int, UUID, int], None] = lambda group_id, epoch, topic_id, index: None

    def heartbeat(self, group: ShareGroup, request: ShareHeartbeatRequest) -> HeartbeatResult:
        """Handle a heartbeat from a member that joins the group or remains in it."""
        old = self._find_sender(group, request)
        member = _apply_request(old or ShareMember(request.member_id), request)
        records: list[Record] = []
        if old is None or not member.has_same_subscription(old):
            records.append(rows.build_member_record(group.group_id, member))
        members = {**group.members, member.member_id: member}
        names = {name for subscriber in members.values() for name in subscriber.topics}
        metadata_hash = hash_topics(self.topics, names)
        epoch, targets = group.epoch, group.targets
        is_changed = old is None or old.topics != member.topics or metadata_hash != group.metadata_hash
        if is_changed or (group.assignment_epoch >= group.epoch and group.has_unassigned_partitions):
            epoch = group.epoch + 1
            records.append(rows.build_epoch_record(group.group_id, epoch, metadata_hash))
        target_epoch, assignment_time_ms = group.assignment_epoch, group.assignment_time_ms
        if epoch > target_epoch and self.may_assign(group):
            targets, target_epoch, assignment_time_ms = (
                self._compute_targets(group, members),
                epoch,
                self.clock.monotonic_ms,
            )
            changed_ids = [key for key, target in targets.items() if group.targets.get(key) != target]
            records += [rows.build_target_record(group.group_id, key, targets[key]) for key in changed_ids]
            records.append(rows.build_target_epoch_record(group.group_id, epoch, self.clock.now_ms))
        new_member = member
        if member.epoch != target_epoch or epoch > group.epoch:
            target = self._drop_unsubscribed(member, targets.get(member.member_id, NO_PARTITIONS))
            previous_epoch = member.previous_epoch if member.epoch == target_epoch else member.epoch
            new_member = replace(member, epoch=target_epoch, previous_epoch=previous_epoch, assignment=target)
            if new_member != member:
                records.append(rows.build_current_record(group.group_id, new_member))
        if records:
            self.write(group.group_id, records)
        group.update_member(new_member)
        group.epoch, group.metadata_hash, group.targets = epoch, metadata_hash, targets
        group.assignment_epoch, group.assignment_time_ms = target_epoch, assignment_time_ms
        self.restart_timers(group, new_member)
        self._start_reading(group, self._count_partitions(names))
        sends_assignment = (
            request.epoch == 0 or request.topics is not None or old is None or new_member.assignment != old.assignment
        )
        interval_ms = self.get_group_setting(group, "heartbeat.interval.ms")
        return HeartbeatResult(
            new_member.member_id, new_member.epoch, interval_ms, new_member.assignment if sends_assignment else None
        )

    def _find_sender(self, group: ShareGroup, request: ShareHeartbeatRequest) -> ShareMember | None:
        if request.epoch == 0:
            return self.find_member(group, request.member_id, self.settings.share_max_size)
        member = group.find_member(request.member_id)
        member.check_epoch(request.epoch, NO_PARTITIONS, group_type="share")
        return member

    def _compute_targets(
        self, group: ShareGroup, members: dict[str, ShareMember]
    ) -> dict[str, frozenset[tuple[UUID, int]]]:
        """Assign the partitions that the group already reads.

        Partitions that this heartbeat adds are assigned by the next one.
        """
        partitions = {
            topic_id: sorted(indexes) for topic_id, (_, indexes) in group.initialized_topics.items() if indexes
        }
        subscriptions = {
            key: frozenset(
                topic_id for topic_id in partitions if group.initialized_topics[topic_id][0] in member.topics
            )
            for key, member in members.items()
        }
        return assign_share_partitions(subscriptions, partitions)

    def _drop_unsubscribed(
        self, member: ShareMember, target: frozenset[tuple[UUID, int]]
    ) -> frozenset[tuple[UUID, int]]:
        """Return a target without deleted and unsubscribed topics. A target may be older than the subscription."""
        topic_ids = find_topic_ids(self.topics, member.topics)
        return frozenset(partition for partition in target if partition[0] in topic_ids)

    def _count_partitions(self, names: set[str]) -> InitializedTopics:
        topics = ((name, self.topics.find(name)) for name in names)
        return {topic[0]: (name, frozenset(range(topic[1]))) for name, topic in topics if topic is not None}

    def _start_reading(self, group: ShareGroup, topics: InitializedTopics) -> None:
        """Start reading further partitions, which the next heartbeat assigns."""
        for topic_id, (_, indexes) in topics.items():
            for index in sorted(indexes):
                self.start_reading(group.group_id, group.epoch, topic_id, index)
        self.store_partitions(group, {**group.initialized_topics, **topics})

    def store_partitions(self, group: ShareGroup, topics: InitializedTopics) -> None:
        """Store the partitions from which a group reads."""
        if topics != group.initialized_topics:
            self.write(group.group_id, [rows.build_state_record(group.group_id, topics)])
            group.initialized_topics, group.has_read = topics, True

    def leave(self, group: ShareGroup, member_id: str) -> HeartbeatResult:
        """Remove a member."""
        group.find_member(member_id)
        self.fence_members(group, member_id)
        return HeartbeatResult(member_id, LEAVE)


def _apply_request(member: ShareMember, request: ShareHeartbeatRequest) -> ShareMember:
    changes: dict[str, Any] = {"client_id": request.client_id, "client_host": request.client_host}
    if request.rack_id is not None:
        changes["rack_id"] = request.rack_id
    if request.topics is not None:
        changes["topics"] = tuple(sorted(set(request.topics)))
    return replace(member, **changes)
