"""ShareGroupHeartbeat: joining, staying in and leaving a share group (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from kafkaframes.coordination.groups.consumer import LEAVE, NOTHING
from kafkaframes.coordination.groups.consumer_protocol import Beaten, Topics, hash_of_topics
from kafkaframes.coordination.groups.members import cancel, is_old_enough, joining
from kafkaframes.coordination.groups.ports import Clock, GroupSetting, GroupSettings, Record
from kafkaframes.coordination.groups.records import share_records as rows
from kafkaframes.coordination.groups.share import Initialized, ShareGroup, ShareMember, assign
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError


class ShareBeat(NamedTuple):
    """A ShareGroupHeartbeat request; None where nothing has changed since the last."""

    group_id: str
    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: Sequence[str] | None = None
    client_id: str = ""
    client_host: str = ""


def check(beat: ShareBeat) -> None:
    """Refuse a request that contradicts itself: INVALID_REQUEST."""
    wrong = (
        (not beat.member_id.strip(), "MemberId can't be empty."),
        (not beat.group_id.strip(), "GroupId can't be empty."),
        (beat.rack_id == "", "RackId can't be empty."),
        (beat.epoch == 0 and not beat.topics, "SubscribedTopicNames must be set in first request."),
        (beat.epoch < LEAVE, "MemberEpoch is invalid."),
    )
    for is_wrong, reason in wrong:
        if is_wrong:
            raise RefusedError(ErrorCode.INVALID_REQUEST, reason)


@dataclass(slots=True)
class ShareGroups:
    """The protocol on share groups.

    Attributes:
        begin: lets a group read a partition (group, its epoch, topic id, partition); the share coordinator's.
    """

    clock: Clock
    settings: GroupSettings
    write: Callable[[str, Sequence[Record]], None]
    topics: Topics
    setting: GroupSetting
    begin: Callable[[str, int, UUID, int], None] = lambda group_id, epoch, topic_id, index: None

    def heartbeat(self, group: ShareGroup, beat: ShareBeat) -> Beaten:
        """Answer a heartbeat that does not leave."""
        old = self._member_of(group, beat)
        member = _subscribed(old or ShareMember(beat.member_id), beat)
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
        now_ms, target_epoch, assigned_ms = self.clock.now_ms, group.assignment_epoch, group.assigned_ms
        interval_ms = self.setting(group.group_id, "share.assignment.interval.ms")
        if epoch > target_epoch and is_old_enough(assigned_ms, interval_ms, now_ms):
            targets, target_epoch, assigned_ms = self._assigned(group, members), epoch, now_ms
            changed = [key for key, target in targets.items() if group.targets.get(key) != target]
            records += [rows.target_record(group.group_id, key, targets[key]) for key in changed]
            records.append(rows.target_epoch_record(group.group_id, epoch, now_ms))
        moved = member
        if member.epoch != target_epoch:
            target = targets.get(member.member_id, NOTHING)
            moved = replace(member, epoch=target_epoch, previous_epoch=member.epoch, assigned=target)
            records.append(rows.current_record(group.group_id, moved))
        if records:
            self.write(group.group_id, records)
        group.members[moved.member_id] = moved
        group.epoch, group.metadata_hash, group.targets = epoch, metadata_hash, targets
        group.assignment_epoch, group.assigned_ms = target_epoch, assigned_ms
        self._watch(group, moved.member_id)
        self._begin(group, self._read_by(names))
        tells = beat.epoch == 0 or beat.topics is not None or old is None or moved.assigned != old.assigned
        interval_ms = self.setting(group.group_id, "share.heartbeat.interval.ms")
        return Beaten(moved.member_id, moved.epoch, interval_ms, moved.assigned if tells else None)

    def _member_of(self, group: ShareGroup, beat: ShareBeat) -> ShareMember | None:
        if beat.epoch == 0:
            return joining(group.members, beat.member_id, self.settings.share_max_size)
        member = group.member(beat.member_id)
        member.check_epoch(beat.epoch, NOTHING, group_type="share")
        return member

    def _assigned(self, group: ShareGroup, members: dict[str, ShareMember]) -> dict[str, frozenset[tuple[UUID, int]]]:
        """Assign the partitions that the group has begun to read before this heartbeat."""
        begun = {topic_id: sorted(indexes) for topic_id, (_, indexes) in group.initialized.items() if indexes}
        subscriptions = {
            key: frozenset(topic_id for topic_id in begun if group.initialized[topic_id][0] in member.topics)
            for key, member in members.items()
        }
        return assign(subscriptions, begun)

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

    def leave(self, group: ShareGroup, member_id: str) -> Beaten:
        """Let a member go."""
        group.member(member_id)
        written = rows.member_tombstones(group.group_id, member_id)
        self.write(group.group_id, [*written, rows.epoch_record(group.group_id, group.epoch + 1, group.metadata_hash)])
        group.remove(member_id)
        group.epoch += 1
        return Beaten(member_id, LEAVE)

    def _watch(self, group: ShareGroup, member_id: str) -> None:
        cancel(group.sessions, member_id)
        timeout_ms = self.setting(group.group_id, "share.session.timeout.ms")
        group.sessions[member_id] = self.clock.call_later(timeout_ms, lambda: self._expire(group, member_id))

    def _expire(self, group: ShareGroup, member_id: str) -> None:
        if member_id in group.members:
            with suppress(KafkaframesError):  # the log is not there; it is given up when it is heard of again
                self.leave(group, member_id)

    def revive(self, group: ShareGroup) -> None:
        """Expect the members of a group that was read from the log to be heard of."""
        for member_id in list(group.members):
            self._watch(group, member_id)


def _subscribed(member: ShareMember, beat: ShareBeat) -> ShareMember:
    changed = replace(member, client_id=beat.client_id, client_host=beat.client_host)
    if beat.rack_id is not None:
        changed = replace(changed, rack_id=beat.rack_id)
    return changed if beat.topics is None else replace(changed, topics=tuple(sorted(set(beat.topics))))
