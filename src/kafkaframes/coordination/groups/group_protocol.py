"""Heartbeat handling that consumer, share and streams groups have in common (KIP-848, KIP-932, KIP-1071)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Protocol, TypeVar
from uuid import UUID

from kafkaframes.coordination.groups.members import EpochGroup, MemberState, MemberT, cancel_timer
from kafkaframes.coordination.groups.ports import Clock, GroupSetting, GroupSettings, Record
from kafkaframes.coordination.groups.records import ModernRecords
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

GroupT = TypeVar("GroupT", bound=EpochGroup[Any, Any])


class Topics(Protocol):
    """The topics of the broker."""

    @property
    def version(self) -> int:
        """A number that changes when a topic is created or deleted, or gets new partitions."""

    def names(self) -> Iterable[str]:
        """Return all names."""

    def find(self, name: str) -> tuple[UUID, int] | None:
        """Return a topic's id and its number of partitions; None if it does not exist."""


def hash_topics(topics: Topics, names: Iterable[str]) -> int:
    """Return a hash of the names, ids and partition counts of subscribed topics; 0 if no subscribed topic exists."""
    topics_by_name = [(name, topics.find(name)) for name in sorted(names)]
    rows = [(name, topic[0].hex, topic[1]) for name, topic in topics_by_name if topic is not None]
    digest = hashlib.blake2b(repr(rows).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) if rows else 0


def find_topic_ids(topics: Topics, names: Iterable[str]) -> frozenset[UUID]:
    """Return the ids of the topics that exist."""
    return frozenset(topic[0] for name in names if (topic := topics.find(name)) is not None)


def reject_invalid_request(checks: Iterable[tuple[object, str]]) -> None:
    """Reject a request with INVALID_REQUEST and the reason of the first check whose condition is true."""
    for is_invalid, reason in checks:
        if is_invalid:
            raise RefusedError(ErrorCode.INVALID_REQUEST, reason)


@dataclass
class GroupProtocol(Generic[GroupT, MemberT]):
    """The heartbeat protocol of groups of one type. ``records`` creates the groups' records."""

    clock: Clock
    settings: GroupSettings
    write: Callable[[str, Sequence[Record]], None]
    topics: Topics
    setting: GroupSetting

    records: ClassVar[ModernRecords[Any, Any]]

    def get_group_setting(self, group: GroupT, name: str) -> int:
        """Return a setting of a group; ``name`` is the part of the setting's name after the group type."""
        return self.setting(group.group_id, f"{group.type}.{name}")

    @staticmethod
    def find_member(group: GroupT, member_id: str, max_size: int) -> MemberT | None:
        """Return the member that joins again; None for a new member.

        Raise GROUP_MAX_SIZE_REACHED if the group is full.
        """
        member: MemberT | None = group.members.get(member_id)
        if member is None and len(group.members) >= max_size:
            raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        return member

    def may_assign(self, group: GroupT, *, min_interval_ms: int = 0) -> bool:
        """Return whether a group may get a new assignment: it has no assignment yet, or the interval has passed."""
        interval_ms = max(self.get_group_setting(group, "assignment.interval.ms"), min_interval_ms)
        if group.assignment_time_ms is None or not interval_ms:
            return True
        return self.clock.monotonic_ms >= group.assignment_time_ms + interval_ms

    def fence_members(self, group: GroupT, *member_ids: str) -> None:
        """Remove members. The next heartbeats of the other members distribute the partitions of the removed members."""
        tombstones = [
            row for member_id in member_ids for row in self.records.build_member_tombstones(group.group_id, member_id)
        ]
        epoch_record = self.records.build_epoch_record(group.group_id, group.epoch + 1, group.metadata_hash)
        self.write(group.group_id, [*tombstones, epoch_record])
        for member_id in member_ids:
            group.remove_member(member_id)
        group.epoch += 1

    def restart_timers(self, group: GroupT, member: MemberT, *, keeps_rebalance: bool = False) -> None:
        """Restart a member's session timer and, unless ``keeps_rebalance``, its rebalance timer."""
        key, epoch, timeout_ms = member.member_id, member.epoch, member.session_timeout_ms
        timeout_ms = self.get_group_setting(group, "session.timeout.ms") if timeout_ms is None else timeout_ms
        cancel_timer(group.sessions, key)
        group.sessions[key] = self.clock.call_later(timeout_ms, lambda: self.expire(group, key))
        if keeps_rebalance:
            return

        def expire_rebalance_timeout() -> None:
            current_member = group.members.get(key)
            if current_member is None or current_member.epoch != epoch:
                return
            if current_member.state is MemberState.UNREVOKED_PARTITIONS:
                self.expire(group, key)

        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            cancel_timer(group.rebalances, key)
        elif key not in group.rebalances:
            group.rebalances[key] = self.clock.call_later(member.rebalance_timeout_ms, expire_rebalance_timeout)

    def expire(self, group: GroupT, member_id: str) -> None:
        """Remove a member after its session or rebalance timeout."""
        if member_id in group.members:
            with suppress(KafkaframesError):  # the log is offline; the member is removed after its next heartbeat
                self.fence_members(group, member_id)

    def start_member_timers(self, group: GroupT) -> None:
        """Start the timers of the members of a group that was loaded from the log."""
        for member in list(group.members.values()):
            self.restart_timers(group, member)
