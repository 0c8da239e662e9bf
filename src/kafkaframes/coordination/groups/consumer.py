"""A consumer group (KIP-848): members, epochs, target and current assignments. No clock, no requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from kafkaframes.coordination.groups.members import EpochGroup, GroupMember
from kafkaframes.errors import ErrorCode, RefusedError

Partition = tuple[UUID, int]
Assigned = frozenset[Partition]
NOTHING: Final[Assigned] = frozenset()
LEAVE, LEAVE_STATIC = -1, -2  # member epochs of requests and records
_Key = TypeVar("_Key")


class Viewer(Protocol):
    """Who a member is, hashable: members that are the same see the same topics."""

    @property
    def version(self) -> int:
        """Another number whenever rights may have changed."""

    def may_see(self, topic: str) -> bool:
        """Return whether the topic may be described to it."""


class ClassicFacts(NamedTuple):
    """What is known of a member that speaks the classic protocol; ``protocols`` in the member's order."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def names(self) -> frozenset[str]:
        """The names of its protocols."""
        return frozenset(name for name, _ in self.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMember(GroupMember[Partition]):
    """One member.

    Attributes:
        topics: what it subscribes to by name, sorted.
        regex: and by a pattern; None without.
        assignor: the one that it asks for; None for the group's.
        classic: of a member that speaks the classic protocol; None of one that speaks the group's.
    """

    topics: tuple[str, ...] = ()
    regex: str | None = None
    assignor: str | None = None
    classic: ClassicFacts | None = None

    @property
    def speaks_classic(self) -> bool:
        """Whether it speaks the classic protocol."""
        return self.classic is not None

    @property
    def session_timeout_ms(self) -> int | None:
        """What a member that speaks the classic protocol has said."""
        return None if self.classic is None else self.classic.session_timeout_ms


@dataclass(frozen=True, slots=True)
class Expressions:
    """What expressions stand for, as long as neither topics nor rights change.

    Attributes:
        version: of the topics and of the rights.
        resolve: returns the topics that an expression stands for; None while it is being resolved.
        known: those of expressions, and those that a viewer sees of them.
    """

    version: tuple[int, int]
    resolve: Callable[[str], frozenset[str] | None]
    known: dict[tuple[str, Viewer | None], frozenset[str]] = field(default_factory=dict)

    def names(self, regex: str, viewer: Viewer | None) -> frozenset[str] | None:
        """Return the topics of an expression that a viewer may see; None while it is being resolved.

        Args:
            viewer: None sees all topics.
        """
        if (regex, viewer) not in self.known:
            names = self.resolve(regex) if viewer is None else self.names(regex, None)
            if names is None:
                return None
            self.known[regex, viewer] = visible_names(names, viewer)
        return self.known[regex, viewer]


def visible_names(names: frozenset[str], viewer: Viewer | None) -> frozenset[str]:
    """Return those of some topics that a viewer may see; None sees all."""
    return names if viewer is None else frozenset(filter(viewer.may_see, names))


@dataclass(eq=False)
class ConsumerGroup(EpochGroup[ConsumerMember, Partition]):
    """One consumer group.

    Attributes:
        regexes: patterns, and the topics that they stand for, for whoever may see most.
        viewers: who a member is, for what its pattern shows it; unknown until its first heartbeat after a start.
        visible: the topics that members see of their patterns.
        default_assignor: of members that ask for none.
        expressions: what the patterns stand for now; None where all of them are to be resolved anew.
        readers: how many members subscribe to a topic by name; ``_held`` have a partition, or are to give it up;
            ``_patterns`` have a pattern.
    """

    assignment_epoch: int = 0
    static_members: dict[str, str] = field(default_factory=dict)
    regexes: dict[str, frozenset[str]] = field(default_factory=dict)
    viewers: dict[str, Viewer | None] = field(default_factory=dict)
    visible: dict[str, frozenset[str]] = field(default_factory=dict)
    default_assignor: str = "uniform"
    expressions: Expressions | None = None
    readers: Counter[str] = field(default_factory=Counter)
    _held: Counter[Partition] = field(default_factory=Counter)
    _patterns: Counter[str] = field(default_factory=Counter)

    type: ClassVar[str] = "consumer"

    @property
    def assignor(self) -> str:
        """The assignor that most members ask for, or the default."""
        return self.assignor_of(self.members.values())

    def assignor_of(self, members: Iterable[ConsumerMember]) -> str:
        """Return the assignor that most of some members ask for, or the default."""
        votes = Counter(one.assignor for one in members if one.assignor is not None)
        return votes.most_common(1)[0][0] if votes else self.default_assignor

    def by_pattern(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics that a member subscribes to by its pattern; none that it may not see."""
        if not member.regex:
            return frozenset()
        return self.visible.get(member.member_id, self.regexes.get(member.regex, frozenset()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""
        if topic in self.readers:
            return True
        is_meant = any(topic in names for names in self.regexes.values())
        return is_meant and any(topic in self.by_pattern(one) for one in self.members.values())

    def supports(self, protocol_type: str, names: frozenset[str]) -> bool:
        """Whether somebody may join who speaks these classic protocols: all such members have one in common."""
        others = [one.classic.names for one in self.members.values() if one.classic is not None]
        return protocol_type == "consumer" and bool(names.intersection(*others))

    def is_owned_by_others(self, member_id: str) -> Callable[[Partition], bool]:
        """Return what says whether another member has a partition, or is still to give it up."""
        own = self.members.get(member_id)
        mine = NOTHING if own is None else own.assigned | own.revoking
        return lambda partition: self._held[partition] > (partition in mine)

    def names_without(self, *members: ConsumerMember | None) -> frozenset[str]:
        """Return the topics that the other members subscribe to by name."""
        own = Counter(name for one in members if one is not None for name in one.topics)
        return frozenset(name for name, count in self.readers.items() if count > own[name])

    def has_same_names(self, old: ConsumerMember | None, new: ConsumerMember | None) -> bool:
        """Return whether the group subscribes to the same topics by name when a member changes, comes or goes."""
        before, after = (() if one is None else one.topics for one in (old, new))
        goes = any(self.readers[name] == 1 and name not in after for name in before)
        return not goes and all(name in self.readers for name in after)

    def unused_without(self, *members: ConsumerMember) -> list[str]:
        """Return the patterns that no other member has."""
        own = Counter(one.regex for one in members if one.regex)
        return [regex for regex, count in own.items() if self._patterns[regex] == count]

    def member(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        """Return the member that a request names; FENCED_INSTANCE_ID where another has taken its instance id."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
            if known != member_id:
                reason = f"Static member {member_id} with instance id {instance_id} was fenced by member {known}."
                raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, reason)
        return super().member(member_id)

    def put(self, member: ConsumerMember) -> None:
        """Take a member in, or its new value."""
        old = self.members.get(member.member_id)
        if old == member:
            return
        if old is not None:
            self._count(old, -1)
            if old.instance_id != member.instance_id:
                self._release(old)
        self._count(member, 1)
        super().put(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove(self, member_id: str) -> None:
        """Let a member go."""
        member = self.members.get(member_id)
        super().remove(member_id)
        if member is not None:
            self._count(member, -1)
            self._release(member)
            if member.regex:
                self.expressions = None  # the others may see less of it
                if not self._patterns[member.regex]:
                    self.regexes.pop(member.regex, None)
        self.viewers.pop(member_id, None)
        self.visible.pop(member_id, None)

    def _release(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _count(self, member: ConsumerMember, by: int) -> None:
        _add(self._held, member.assigned | member.revoking, by)
        _add(self.readers, member.topics, by)
        _add(self._patterns, () if member.regex is None else (member.regex,), by)


def _add(counts: Counter[_Key], keys: Iterable[_Key], by: int) -> None:
    for key in keys:
        counts[key] += by
        if not counts[key]:
            del counts[key]


def by_topic(partitions: Iterable[Partition]) -> Mapping[UUID, list[int]]:
    """Return partitions by topic, sorted."""
    by_id: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        by_id.setdefault(topic_id, []).append(index)
    return by_id
