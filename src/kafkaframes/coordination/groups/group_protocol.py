"""What the heartbeats of consumer, share and streams groups have in common (KIP-848, KIP-932, KIP-1071)."""

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
        """Another number whenever a topic has come, grown or gone."""

    def names(self) -> Iterable[str]:
        """Return all names."""

    def find(self, name: str) -> tuple[UUID, int] | None:
        """Return a topic's id and how many partitions it has."""


def hash_of_topics(topics: Topics, names: Iterable[str]) -> int:
    """Return a number that tells subscribed topics from others: their names, ids and sizes; 0 for none."""
    known = [(name, topics.find(name)) for name in sorted(names)]
    there = [(name, facts[0].hex, facts[1]) for name, facts in known if facts is not None]
    digest = hashlib.blake2b(repr(there).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True) if there else 0


def refuse_first(wrong: Iterable[tuple[object, str]]) -> None:
    """Refuse a request with INVALID_REQUEST and the reason of the first of these rows that is true."""
    for is_wrong, reason in wrong:
        if is_wrong:
            raise RefusedError(ErrorCode.INVALID_REQUEST, reason)


@dataclass
class GroupProtocol(Generic[GroupT, MemberT]):
    """The protocol on groups of one type, whose records are ``records``."""

    clock: Clock
    settings: GroupSettings
    write: Callable[[str, Sequence[Record]], None]
    topics: Topics
    setting: GroupSetting

    records: ClassVar[ModernRecords[Any, Any]]

    def number(self, group: GroupT, name: str) -> int:
        """Return a setting of a group, by its name behind the group's type."""
        return self.setting(group.group_id, f"{group.type}.{name}")

    @staticmethod
    def joining(group: GroupT, member_id: str, most: int) -> MemberT | None:
        """Return the member that joins again; None for a new one, if there is a place (GROUP_MAX_SIZE_REACHED)."""
        known: MemberT | None = group.members.get(member_id)
        if known is None and len(group.members) >= most:
            raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED)
        return known

    def is_due(self, group: GroupT, *, least_ms: int = 0) -> bool:
        """Whether a group may be assigned anew: it never was, or its assignment has stood for its interval."""
        interval_ms = max(self.number(group, "assignment.interval.ms"), least_ms)
        if group.assignment_time_ms is None or not interval_ms:
            return True
        return self.clock.monotonic_ms >= group.assignment_time_ms + interval_ms

    def fence(self, group: GroupT, *member_ids: str) -> None:
        """Remove members; the others get what they had with their next heartbeats."""
        written = [row for one in member_ids for row in self.records.member_tombstones(group.group_id, one)]
        written.append(self.records.epoch_record(group.group_id, group.epoch + 1, group.metadata_hash))
        self.write(group.group_id, written)
        for member_id in member_ids:
            group.remove(member_id)
        group.epoch += 1

    def watch(self, group: GroupT, member: MemberT, *, keeps_rebalance: bool = False) -> None:
        """Begin a member's session anew, and, unless it ``keeps_rebalance``, its time to give up what it must."""
        key, epoch, timeout_ms = member.member_id, member.epoch, member.session_timeout_ms
        timeout_ms = self.number(group, "session.timeout.ms") if timeout_ms is None else timeout_ms
        cancel_timer(group.sessions, key)
        group.sessions[key] = self.clock.call_later(timeout_ms, lambda: self.expire(group, key))
        if keeps_rebalance:
            return

        def expire_rebalance() -> None:
            now = group.members.get(key)
            if now is not None and now.epoch == epoch and now.state is MemberState.UNREVOKED_PARTITIONS:
                self.expire(group, key)

        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            cancel_timer(group.rebalances, key)
        elif key not in group.rebalances:
            group.rebalances[key] = self.clock.call_later(member.rebalance_timeout_ms, expire_rebalance)

    def expire(self, group: GroupT, member_id: str) -> None:
        """Give a member up that was not heard of in time."""
        if member_id in group.members:
            with suppress(KafkaframesError):  # the log is not there; the member is given up when it is heard of again
                self.fence(group, member_id)

    def revive(self, group: GroupT) -> None:
        """Expect the members of a group that was read from the log to be heard of."""
        for member in list(group.members.values()):
            self.watch(group, member)
