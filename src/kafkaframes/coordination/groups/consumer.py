"""A consumer group (KIP-848): members, epochs, target and current assignments, without a clock or requests."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Final, NamedTuple, Protocol, TypeVar
from uuid import UUID

from kafkaframes.coordination.groups.members import EpochGroup, GroupMember
from kafkaframes.errors import ErrorCode, RefusedError

Partition = tuple[UUID, int]
Assignment = frozenset[Partition]
NO_PARTITIONS: Final[Assignment] = frozenset()
LEAVE, LEAVE_STATIC = -1, -2  # member epochs of requests and records
_Key = TypeVar("_Key")


class MemberIdentity(Protocol):
    """A member's principal and host. Members with equal identities may see the same topics. Identities are hashable."""

    @property
    def version(self) -> int:
        """A number that changes whenever access rights may have changed."""

    def may_see(self, topic: str) -> bool:
        """Return whether the member is allowed to describe the topic."""


class ClassicProtocols(NamedTuple):
    """Session timeout and protocols of a member that uses the classic protocol, in the member's order."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, bytes], ...]

    @property
    def protocol_names(self) -> frozenset[str]:
        """Names of the protocols."""
        return frozenset(name for name, _ in self.protocols)


@dataclass(frozen=True, slots=True)
class ConsumerMember(GroupMember[Partition]):
    """A member of a consumer group.

    Attributes:
        topics: names of subscribed topics, sorted.
        regex: pattern of subscribed topics; None without a pattern.
        assignor: assignor that the member prefers; None to use the group's default.
        classic: session timeout and protocols of a member that uses the classic protocol; None for other members.
    """

    topics: tuple[str, ...] = ()
    regex: str | None = None
    assignor: str | None = None
    classic: ClassicProtocols | None = None

    @property
    def uses_classic_protocol(self) -> bool:
        """Whether the member uses the classic protocol."""
        return self.classic is not None

    @property
    def session_timeout_ms(self) -> int | None:
        """The session timeout of a member that uses the classic protocol, in milliseconds; None for other members."""
        return None if self.classic is None else self.classic.session_timeout_ms


@dataclass(frozen=True, slots=True)
class PatternTopics:
    """The topics that patterns match. The object is valid as long as neither topics nor access rights change.

    Attributes:
        version: pair of the topics' version and the access rights' version.
        resolve: function that returns the topics that a pattern matches; None while the pattern is still being matched.
        cache: matches by pattern and viewer.
    """

    version: tuple[int, int]
    resolve: Callable[[str], frozenset[str] | None]
    cache: dict[tuple[str, MemberIdentity | None], frozenset[str]] = field(default_factory=dict)

    def match_names(self, regex: str, viewer: MemberIdentity | None) -> frozenset[str] | None:
        """Return the topics that a pattern matches and the viewer may see; None if they are not known yet.

        Args:
            viewer: principal and host whose access rights apply; None if all topics are visible.
        """
        if (regex, viewer) not in self.cache:
            names = self.resolve(regex) if viewer is None else self.match_names(regex, None)
            if names is None:
                return None
            self.cache[regex, viewer] = select_visible_names(names, viewer)
        return self.cache[regex, viewer]


def select_visible_names(names: frozenset[str], viewer: MemberIdentity | None) -> frozenset[str]:
    """Return the topics that a viewer may see; if the viewer is None, return all topics."""
    return names if viewer is None else frozenset(filter(viewer.may_see, names))


@dataclass(eq=False)
class ConsumerGroup(EpochGroup[ConsumerMember, Partition]):
    """One consumer group.

    Attributes:
        regexes: matching topics by pattern, for the viewer with the most rights.
        viewers: principal and host of each member, by member id; unknown after a restart until the member's first
            heartbeat.
        visible: topics that match a member's pattern and that the member may see, by member id.
        default_assignor: assignor that is used if no member prefers one.
        pattern_topics: current matches of the patterns; None if all patterns have to be matched again.
        subscriber_counts: number of members that subscribe to a topic by name. ``_owner_counts`` has the number of
            members that own a partition or are revoking it, and ``_pattern_counts`` the number of members with a
            pattern.
    """

    assignment_epoch: int = 0
    static_members: dict[str, str] = field(default_factory=dict)
    regexes: dict[str, frozenset[str]] = field(default_factory=dict)
    viewers: dict[str, MemberIdentity | None] = field(default_factory=dict)
    visible: dict[str, frozenset[str]] = field(default_factory=dict)
    default_assignor: str = "uniform"
    pattern_topics: PatternTopics | None = None
    subscriber_counts: Counter[str] = field(default_factory=Counter)
    _owner_counts: Counter[Partition] = field(default_factory=Counter)
    _pattern_counts: Counter[str] = field(default_factory=Counter)

    type: ClassVar[str] = "consumer"

    @property
    def assignor(self) -> str:
        """The assignor that most members prefer, or the default."""
        return self.select_assignor(self.members.values())

    def select_assignor(self, members: Iterable[ConsumerMember]) -> str:
        """Return the assignor that most of these members prefer, or the default."""
        votes = Counter(member.assignor for member in members if member.assignor is not None)
        return votes.most_common(1)[0][0] if votes else self.default_assignor

    def find_pattern_topics(self, member: ConsumerMember) -> frozenset[str]:
        """Return the topics of a member's pattern that the member may see."""
        if not member.regex:
            return frozenset()
        return self.visible.get(member.member_id, self.regexes.get(member.regex, frozenset()))

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member subscribes to the topic."""
        if topic in self.subscriber_counts:
            return True
        is_matched = any(topic in names for names in self.regexes.values())
        return is_matched and any(topic in self.find_pattern_topics(member) for member in self.members.values())

    def supports_protocols(self, protocol_type: str, names: frozenset[str]) -> bool:
        """Return whether a member with these classic protocols can join: all classic members must share a protocol."""
        names_of_others = [
            member.classic.protocol_names for member in self.members.values() if member.classic is not None
        ]
        return protocol_type == "consumer" and bool(names.intersection(*names_of_others))

    def create_ownership_check(self, member_id: str) -> Callable[[Partition], bool]:
        """Return a function that checks whether another member owns a partition, or has not finished revoking it."""
        member = self.members.get(member_id)
        own_partitions = NO_PARTITIONS if member is None else member.assignment | member.revoking
        return lambda partition: self._owner_counts[partition] > (partition in own_partitions)

    def find_topics_of_other_members(self, *members: ConsumerMember | None) -> frozenset[str]:
        """Return the topics to which the other members subscribe by name."""
        counts_of_members = Counter(name for member in members if member is not None for name in member.topics)
        return frozenset(name for name, count in self.subscriber_counts.items() if count > counts_of_members[name])

    def keeps_subscribed_topics(self, old: ConsumerMember | None, new: ConsumerMember | None) -> bool:
        """Return whether the group's topics stay the same if ``new`` replaces ``old``.

        ``old`` is None for an added member, ``new`` is None for a removed member.
        """
        old_names, new_names = (() if member is None else member.topics for member in (old, new))
        loses_topic = any(self.subscriber_counts[name] == 1 and name not in new_names for name in old_names)
        return not loses_topic and all(name in self.subscriber_counts for name in new_names)

    def find_exclusive_patterns(self, *members: ConsumerMember) -> list[str]:
        """Return the patterns to which only these members subscribe."""
        counts_of_members = Counter(member.regex for member in members if member.regex)
        return [regex for regex, count in counts_of_members.items() if self._pattern_counts[regex] == count]

    def find_member(self, member_id: str, instance_id: str | None = None) -> ConsumerMember:
        """Return a request's sender; raise FENCED_INSTANCE_ID if another member now has the sender's instance id."""
        if instance_id is not None:
            current_id = self.static_members.get(instance_id)
            if current_id is None:
                raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID, f"Instance id {instance_id} is unknown.")
            if current_id != member_id:
                reason = f"Static member {member_id} with instance id {instance_id} was fenced by member {current_id}."
                raise RefusedError(ErrorCode.FENCED_INSTANCE_ID, reason)
        return super().find_member(member_id)

    def update_member(self, member: ConsumerMember) -> None:
        """Add or replace a member."""
        old_member = self.members.get(member.member_id)
        if old_member == member:
            return
        if old_member is not None:
            self._count_member(old_member, -1)
            if old_member.instance_id != member.instance_id:
                self._release_instance_id(old_member)
        self._count_member(member, 1)
        super().update_member(member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member."""
        member = self.members.get(member_id)
        super().remove_member(member_id)
        if member is not None:
            self._count_member(member, -1)
            self._release_instance_id(member)
            if member.regex:
                self.pattern_topics = None  # the remaining members may have fewer rights
                if not self._pattern_counts[member.regex]:
                    self.regexes.pop(member.regex, None)
        self.viewers.pop(member_id, None)
        self.visible.pop(member_id, None)

    def _release_instance_id(self, member: ConsumerMember) -> None:
        if member.instance_id is not None and self.static_members.get(member.instance_id) == member.member_id:
            del self.static_members[member.instance_id]

    def _count_member(self, member: ConsumerMember, increment: int) -> None:
        """Add ``increment`` to the counts of members for each of the member's partitions, topics and patterns."""
        _add_count(self._owner_counts, member.assignment | member.revoking, increment)
        _add_count(self.subscriber_counts, member.topics, increment)
        _add_count(self._pattern_counts, () if member.regex is None else (member.regex,), increment)


def _add_count(counts: Counter[_Key], keys: Iterable[_Key], increment: int) -> None:
    """Add ``increment`` to the count of each key. A count of 0 is removed."""
    for key in keys:
        counts[key] += increment
        if not counts[key]:
            del counts[key]


def group_by_topic(partitions: Iterable[Partition]) -> Mapping[UUID, list[int]]:
    """Return sorted partition indexes by topic id."""
    indexes: dict[UUID, list[int]] = {}
    for topic_id, index in sorted(partitions):
        indexes.setdefault(topic_id, []).append(index)
    return indexes
