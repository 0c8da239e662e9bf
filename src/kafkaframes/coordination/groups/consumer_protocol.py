"""ConsumerGroupHeartbeat: the one request of the protocol of KIP-848, and what time does to its members.

A heartbeat is planned on values, written as one batch of records, and taken over then. Facts: KIP-848, KIP-1082,
GroupMetadataManager.java. Patterns are resolved after the heartbeat that brings them is answered, as in Kafka; until
then a member has the topics that its pattern stood for before.
A heartbeat that changes nothing looks at its own member only, a join at what it changes; tests/coordination/groups/
test_large_groups.py compares both with looking at everything, and counts.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.coordination.groups.assignors import ASSIGNORS
from kafkaframes.coordination.groups.consumer import (
    LEAVE,
    LEAVE_STATIC,
    NOTHING,
    Assigned,
    ClassicFacts,
    ConsumerGroup,
    ConsumerMember,
    Expressions,
    Viewer,
    visible_names,
)
from kafkaframes.coordination.groups.group_protocol import GroupProtocol, hash_of_topics, refuse_first
from kafkaframes.coordination.groups.members import MemberState
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.records import consumer_records as rows
from kafkaframes.coordination.groups.subscriptions import check_expression
from kafkaframes.coordination.groups.topic_patterns import TopicPatterns
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

_NONE = -1
_NO_TOPICS: frozenset[str] = frozenset()
# A group of so many members is not assigned anew with every one that joins, whatever its interval.
_UNRESOLVED_INTERVAL_MS = 200  # of heartbeats, where no assignment interval makes members wait
_LARGE_GROUP, _LARGE_GROUPS_INTERVAL_MS = 100, 1_000


class HeartbeatRequest(NamedTuple):
    """A ConsumerGroupHeartbeat request; None where nothing has changed since the last.

    Attributes:
        epoch: 0 to join, -1 to leave, -2 of a static member that will come back.
        owned: the partitions that it has.
        owns_rows: the request has rows of topics that it owns, be they without partitions.
        classic: it was a JoinGroup: the member speaks the classic protocol.
        viewer: who sends it; None: somebody who sees every topic.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = _NONE
    topics: Sequence[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: Assigned | None = None
    client_id: str = ""
    client_host: str = ""
    classic: ClassicFacts | None = None
    viewer: Viewer | None = None
    owns_rows: bool = False


class Beaten(NamedTuple):
    """What a heartbeat is answered with; no assignment where it has not changed."""

    member_id: str
    epoch: int
    interval_ms: int = 0
    assignment: Assigned | None = None


@dataclass(slots=True)
class _Plan:
    """What a heartbeat is going to change.

    Attributes:
        member, old: the member that it comes from, and as it is now; None for a new one.
        replaced: the static member whose place it takes.
        regexes: patterns that stand for other topics than before; None: they are not used any more.
        visible: what members see of their patterns, where it has changed.
        targets: those that have changed; ``is_assigned``: all of them were made anew.
    """

    member: ConsumerMember
    old: ConsumerMember | None
    replaced: ConsumerMember | None
    expressions: Expressions
    records: list[Record]
    epoch: int = 0
    metadata_hash: int = 0
    regexes: dict[str, frozenset[str] | None] = field(default_factory=dict)
    visible: dict[str, frozenset[str] | None] = field(default_factory=dict)
    targets: dict[str, Assigned] = field(default_factory=dict)
    is_assigned: bool = False

    @property
    def before(self) -> ConsumerMember | None:
        """Whose subscription the member's takes the place of."""
        return self.old or self.replaced

    def members(self, group: ConsumerGroup) -> dict[str, ConsumerMember]:
        """Return the members of the group as they will be."""
        others = {key: one for key, one in group.members.items() if one is not self.replaced}
        return {**others, self.member.member_id: self.member}

    def regexes_of(self, group: ConsumerGroup) -> Mapping[str, frozenset[str]]:
        """Return what the group's patterns will stand for."""
        return _changed(group.regexes, self.regexes) if self.regexes else group.regexes


@dataclass
class ConsumerGroups(GroupProtocol[ConsumerGroup, ConsumerMember]):
    """The protocol on consumer groups; before members are removed ``on_leave`` tells whether it has done so itself."""

    records = rows
    on_leave: Callable[[ConsumerGroup, frozenset[str]], bool] | None = None
    patterns: TopicPatterns = field(init=False)

    def __post_init__(self) -> None:
        self.patterns = TopicPatterns(self.topics, self._run_later)

    def _run_later(self, work: Callable[[], None], finish: Callable[[], None]) -> None:
        """Do work after the request is answered, where there is no thread for it."""

        def run() -> None:
            work()
            finish()

        self.clock.call_later(0, run)

    def heartbeat(self, group: ConsumerGroup, beat: HeartbeatRequest, before: Sequence[Record] = ()) -> Beaten:
        """Answer a heartbeat that does not leave.

        Args:
            group: the group; a new one is put to use by the caller once this returns.
            before: records to be written with it, of another group of this name that it replaces.
        """
        old = self._member_of(group, beat)
        replaced = self._replaced(group, beat)
        if beat.regex:
            check_expression(beat.regex)
        start = old or (replace(replaced, member_id=beat.member_id) if replaced else ConsumerMember(beat.member_id))
        member = _subscribed(start, beat)
        plan = _Plan(member, old, replaced, self._expressions(group, beat.viewer), records=list(before))
        if replaced is not None:
            plan.records += rows.member_tombstones(group.group_id, replaced.member_id)
        if old is None or not member.same_subscription(old):
            plan.records.append(rows.member_record(group.group_id, member))
        self._plan_epoch(group, plan, beat.viewer)
        is_large = len(group.members) >= _LARGE_GROUP and beat.classic is None
        is_due = self.is_due(group, least_ms=_LARGE_GROUPS_INTERVAL_MS if is_large else 0)
        self._plan_targets(group, plan, is_due=is_due)
        moved = self._moved(group, plan, beat)
        if moved is not member or old is None:
            plan.records.append(rows.current_record(group.group_id, moved))
        if plan.records:
            self.write(group.group_id, plan.records)
        self._apply(group, plan, moved)
        group.viewers[moved.member_id] = beat.viewer
        self.watch(group, moved)
        is_full = beat.rebalance_timeout_ms != _NONE and beat.owned is not None
        is_full = is_full and (beat.topics is not None or beat.regex is not None)
        tells = beat.epoch == 0 or is_full or old is None or moved.assigned != old.assigned
        interval_ms = self.number(group, "heartbeat.interval.ms")
        if not self.number(group, "assignment.interval.ms") and self._is_unresolved(plan, beat.viewer):
            interval_ms = min(interval_ms, _UNRESOLVED_INTERVAL_MS)
        return Beaten(moved.member_id, moved.epoch, interval_ms, moved.assigned if tells else None)

    @staticmethod
    def _is_unresolved(plan: _Plan, viewer: Viewer | None) -> bool:
        regex = plan.member.regex
        return regex is not None and plan.expressions.names(regex, viewer) is None

    def _member_of(self, group: ConsumerGroup, beat: HeartbeatRequest) -> ConsumerMember | None:
        """Return the member that a heartbeat comes from; None for a new one."""
        if beat.epoch == 0:
            return self.joining(group, beat.member_id, self.settings.consumer_max_size)
        member = group.member(beat.member_id, beat.instance_id)
        member.check_epoch(beat.epoch, beat.owned, group_type="consumer")
        return member

    @staticmethod
    def _replaced(group: ConsumerGroup, beat: HeartbeatRequest) -> ConsumerMember | None:
        """Return the static member whose place a joining one takes; it must have left before."""
        known = group.static_members.get(beat.instance_id) if beat.instance_id is not None else None
        if beat.epoch != 0 or known is None or known == beat.member_id:
            return None
        member = group.members[known]
        if member.epoch != LEAVE_STATIC and member.classic is None and beat.classic is None:
            reason = (
                f"Static member {beat.member_id} with instance id {beat.instance_id} cannot join the group because the"
                f" instance id is owned by {known} member."
            )
            raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, reason)
        return member

    def _expressions(self, group: ConsumerGroup, viewer: Viewer | None) -> Expressions:
        """Return the group's expressions, or new ones where topics or rights have changed since."""
        known = group.expressions
        rights = viewer.version if viewer is not None else 0 if known is None else known.version[1]
        version = self.topics.version, rights
        if known is not None and known.version == version:
            return known
        return Expressions(version, lambda regex: self.patterns.find(regex, lambda: self._take_resolution(group)))

    def _take_resolution(self, group: ConsumerGroup) -> None:
        """Write what a pattern stands for now; the members get their partitions with their next heartbeats."""
        group.expressions = None
        member = next(iter(group.members.values()), None)
        if member is None:
            return
        viewer = group.viewers.get(member.member_id)
        plan = _Plan(member, member, None, self._expressions(group, viewer), records=[])
        self._plan_epoch(group, plan, viewer)
        with suppress(KafkaframesError):  # the log is not there; the next heartbeat writes it
            if plan.records:
                self.write(group.group_id, plan.records)
            self._apply(group, plan, member)

    def _plan_epoch(self, group: ConsumerGroup, plan: _Plan, viewer: Viewer | None) -> None:
        """Bump the group's epoch where somebody subscribes to something else, or topics have changed."""
        is_alone = plan.expressions is group.expressions and self._resolve_own(group, plan, viewer)
        if not is_alone:
            self._resolve_all(group, plan, viewer)
        for regex, names in plan.regexes.items():
            plan.records.append(rows.regex_record(group.group_id, regex, names, self.clock.now_ms))
        plan.epoch, plan.metadata_hash = group.epoch, group.metadata_hash
        if not is_alone or plan.regexes or not group.has_same_names(plan.before, plan.member):
            plan.metadata_hash = self._hash(group, plan)
        has_changed = self._asks_for_others(group, plan, viewer) or any(
            (names or _NO_TOPICS) != group.regexes.get(regex, _NO_TOPICS) for regex, names in plan.regexes.items()
        )
        has_changed |= plan.metadata_hash != group.metadata_hash
        has_changed |= any(
            (plan.visible[key] or _NO_TOPICS) != group.by_pattern(member)
            for key in plan.visible
            if (member := group.members.get(key)) is not None and member is not plan.replaced
        )
        if has_changed:
            plan.epoch = group.epoch + 1
            plan.records.append(rows.epoch_record(group.group_id, plan.epoch, plan.metadata_hash))

    @staticmethod
    def _asks_for_others(group: ConsumerGroup, plan: _Plan, viewer: Viewer | None) -> bool:
        """Return whether the group has to be assigned again for what the member subscribes to.

        A pattern that is not resolved changes nothing yet, but for the first member of a group.
        """
        old, new = plan.before, plan.member
        topics, regex = (old.topics, old.regex) if old is not None else ((), None)
        if topics != new.topics or not group.epoch:
            return True
        return regex != new.regex and (not new.regex or plan.expressions.names(new.regex, viewer) is not None)

    def _hash(self, group: ConsumerGroup, plan: _Plan) -> int:
        by_name = group.names_without(plan.before).union(plan.member.topics)
        if plan.old is not None and plan.replaced is not None:
            by_name = frozenset(name for one in plan.members(group).values() for name in one.topics)
        return hash_of_topics(self.topics, by_name.union(*plan.regexes_of(group).values()))

    @staticmethod
    def _resolve_own(group: ConsumerGroup, plan: _Plan, viewer: Viewer | None) -> bool:
        """Plan what the member's pattern stands for; return False where the others' have to be looked at, too."""
        member, before = plan.member, plan.before
        names = plan.expressions.names(member.regex, viewer) if member.regex else _NO_TOPICS
        is_resolved = names is not None
        if names is None:
            names = visible_names(group.regexes.get(member.regex or "", _NO_TOPICS), viewer)
        if plan.old is not None and plan.replaced is not None:
            return False
        if before is not None and before.regex not in (None, member.regex):
            return False
        if before is not None and before.regex and not names >= group.by_pattern(before):
            return False
        if member.regex:
            known = group.regexes.get(member.regex)
            plan.visible[member.member_id] = names
            if is_resolved and (known is None or not names <= known):
                plan.regexes[member.regex] = names | (known or _NO_TOPICS)
        return True

    @staticmethod
    def _resolve_all(group: ConsumerGroup, plan: _Plan, viewer: Viewer | None) -> None:
        """Plan what every pattern stands for, and what each member sees of its own.

        A member that has not been heard of since the start sees what its pattern stood for before.
        """
        meanings: dict[str, frozenset[str]] = {}
        unresolved: set[str] = set()
        viewers = {**group.viewers, plan.member.member_id: viewer}
        for key, member in plan.members(group).items():
            plan.visible[key] = None
            if member.regex:
                names = plan.expressions.names(member.regex, viewers.get(key))
                if names is None:
                    unresolved.add(member.regex)
                    names = visible_names(group.regexes.get(member.regex, _NO_TOPICS), viewers.get(key))
                names = names if key in viewers else names & group.by_pattern(member)
                plan.visible[key] = names
                meanings[member.regex] = meanings.get(member.regex, _NO_TOPICS) | names
        changes = {regex: names for regex, names in meanings.items() if regex not in unresolved}
        plan.regexes.update((regex, names) for regex, names in changes.items() if group.regexes.get(regex) != names)
        plan.regexes.update(dict.fromkeys(group.regexes.keys() - meanings.keys()))

    def _plan_targets(self, group: ConsumerGroup, plan: _Plan, *, is_due: bool) -> None:
        """Assign anew where the epoch has grown; a static member that comes back has the target that it had."""
        member_id, replaced = plan.member.member_id, plan.replaced
        plan.is_assigned = is_due and plan.epoch > group.assignment_epoch
        if plan.is_assigned:
            current = group.targets
            if replaced is not None:
                current = {**current, member_id: current.get(replaced.member_id, NOTHING)}
            targets = self._assigned(group, plan, current)
        elif replaced is not None:
            targets = {member_id: group.targets.get(replaced.member_id, NOTHING)}
        else:
            return
        plan.targets = {key: target for key, target in targets.items() if group.targets.get(key) != target}
        plan.records += [rows.target_record(group.group_id, key, target) for key, target in plan.targets.items()]
        if plan.is_assigned:
            plan.records.append(rows.target_epoch_record(group.group_id, plan.epoch, self.clock.now_ms))

    def _assigned(self, group: ConsumerGroup, plan: _Plan, current: Mapping[str, Assigned]) -> dict[str, Assigned]:
        members = plan.members(group)
        counts: dict[UUID, int] = {}
        ids: dict[frozenset[str], frozenset[UUID]] = {}  # of topics: most members subscribe to the same
        subscriptions: dict[str, frozenset[UUID]] = {}
        for key, member in members.items():
            names = plan.visible[key] if key in plan.visible else group.by_pattern(member)
            names = frozenset(member.topics).union(names or ())
            if names not in ids:
                known = [known_topic for name in names if (known_topic := self.topics.find(name)) is not None]
                counts.update(known)
                ids[names] = frozenset(topic_id for topic_id, _ in known)
            subscriptions[key] = ids[names]
        return ASSIGNORS[group.assignor_of(members.values())](subscriptions, current, counts)

    def _moved(self, group: ConsumerGroup, plan: _Plan, beat: HeartbeatRequest) -> ConsumerMember:
        """Bring the member a step nearer to its target."""
        member, replaced = plan.member, plan.replaced
        if beat.epoch == 0:  # it has nothing, whatever it had
            member = replace(member, assigned=NOTHING if replaced is None else member.assigned, revoking=NOTHING)
            member = replace(member, epoch=0, state=MemberState.STABLE)
        is_held = group.is_owned_by_others(member.member_id)
        left = NOTHING if replaced is None else replaced.assigned
        owned = NOTHING if beat.epoch == 0 else beat.owned
        target = plan.targets.get(member.member_id, group.targets.get(member.member_id, NOTHING))
        target_epoch = plan.epoch if plan.is_assigned else group.assignment_epoch
        is_reconciled = member.state is MemberState.STABLE and member.epoch == target_epoch
        if is_reconciled and plan.epoch == group.epoch:
            return member
        topic_ids = self._subscribed_ids(group, plan)
        moved = member.reconcile(
            frozenset(partition for partition in target if partition[0] in topic_ids),
            target_epoch,
            owned,
            lambda partition: partition not in left and is_held(partition),
        )
        if moved is not member or plan.epoch == group.epoch:
            return moved
        subscribed = frozenset(partition for partition in member.assigned if partition[0] in topic_ids)
        return member.without_unsubscribed(subscribed, owned)

    def _subscribed_ids(self, group: ConsumerGroup, plan: _Plan) -> frozenset[UUID]:
        """Return the topics of the member's subscription that there are: its target may be older than both."""
        member = plan.member
        by_pattern = plan.visible[member.member_id] if member.member_id in plan.visible else group.by_pattern(member)
        topics = (self.topics.find(name) for name in {*member.topics, *(by_pattern or ())})
        return frozenset(topic[0] for topic in topics if topic is not None)

    def _apply(self, group: ConsumerGroup, plan: _Plan, member: ConsumerMember) -> None:
        group.put(member)
        if plan.replaced is not None:
            group.remove(plan.replaced.member_id)
        _change(group.regexes, plan.regexes)
        _change(group.visible, plan.visible)
        group.targets.update(plan.targets)
        group.expressions, group.metadata_hash, group.epoch = plan.expressions, plan.metadata_hash, plan.epoch
        if plan.is_assigned:
            group.assignment_epoch, group.assignment_time_ms = plan.epoch, self.clock.monotonic_ms

    def leave(self, group: ConsumerGroup, beat: HeartbeatRequest) -> Beaten:
        """Let a member go; a static one with epoch -2 keeps its place until its session times out."""
        member = group.member(beat.member_id, beat.instance_id)
        if beat.epoch == LEAVE_STATIC and member.instance_id is not None:
            away = replace(member, epoch=LEAVE_STATIC, revoking=NOTHING)
            self.write(group.group_id, [rows.current_record(group.group_id, away)])
            group.put(away)
            return Beaten(member.member_id, LEAVE_STATIC)
        self.fence(group, member.member_id)
        return Beaten(member.member_id, LEAVE)

    def fence(self, group: ConsumerGroup, *member_ids: str) -> None:
        """Remove members; the others get what they had with their next heartbeats."""
        if self.on_leave is not None and self.on_leave(group, frozenset(member_ids)):
            return
        gone, metadata_hash = [group.members[one] for one in member_ids], group.metadata_hash
        unused = group.unused_without(*gone)
        known = group.expressions
        is_current = known is not None and known.version[0] == self.topics.version
        if unused or not is_current or len(gone) > 1 or not group.has_same_names(gone[0], None):
            by_pattern = (names for regex, names in group.regexes.items() if regex not in unused)
            metadata_hash = hash_of_topics(self.topics, group.names_without(*gone).union(*by_pattern))
        written = [row for one in member_ids for row in rows.member_tombstones(group.group_id, one)]
        written += [rows.regex_record(group.group_id, regex, None) for regex in unused]
        written.append(rows.epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        self.write(group.group_id, written)
        for member_id in member_ids:
            group.remove(member_id)
        group.epoch, group.metadata_hash = group.epoch + 1, metadata_hash


def check(beat: HeartbeatRequest, *, may_lack_id: bool) -> None:
    """Refuse a request that contradicts itself; a joining member of version 0 ``may_lack_id``."""
    joins = beat.epoch == 0
    wrong = (
        (not beat.member_id and not (may_lack_id and joins), "MemberId can't be empty."),
        (not beat.group_id.strip(), "GroupId can't be empty."),
        (beat.instance_id == "", "InstanceId can't be empty."),
        (beat.rack_id == "", "RackId can't be empty."),
        (beat.epoch == LEAVE_STATIC and beat.instance_id is None, "InstanceId can't be null."),
        (beat.epoch < LEAVE_STATIC, "MemberEpoch is invalid."),
        (joins and beat.rebalance_timeout_ms == _NONE, "RebalanceTimeoutMs must be provided in first request."),
        (
            joins and (beat.owned is None or beat.owned or beat.owns_rows),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            joins and beat.topics is None and beat.regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
    )
    refuse_first(wrong)
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        known = ", ".join(ASSIGNORS)
        reason = f"ServerAssignor {beat.assignor} is not supported. Supported assignors: {known}."
        raise RefusedError(ErrorCode.UNSUPPORTED_ASSIGNOR, reason)


def _subscribed(member: ConsumerMember, beat: HeartbeatRequest) -> ConsumerMember:
    """Return the member with what a heartbeat changes."""
    changes: dict[str, Any] = {
        "instance_id": beat.instance_id,
        "rack_id": beat.rack_id,
        "topics": None if beat.topics is None else tuple(sorted(set(beat.topics))),
        "assignor": beat.assignor,
        "rebalance_timeout_ms": None if beat.rebalance_timeout_ms == _NONE else beat.rebalance_timeout_ms,
        "client_id": beat.client_id,
        "client_host": beat.client_host,
    }
    known = {name: value for name, value in changes.items() if value is not None}
    if beat.regex is not None:
        known["regex"] = beat.regex or None
    return replace(member, classic=beat.classic, **known)


def _change(kept: dict[str, frozenset[str]], changes: Mapping[str, frozenset[str] | None]) -> None:
    for key, names in changes.items():
        if names is None:
            kept.pop(key, None)
        else:
            kept[key] = names


def _changed(
    kept: Mapping[str, frozenset[str]], changes: Mapping[str, frozenset[str] | None]
) -> dict[str, frozenset[str]]:
    changed = dict(kept)
    _change(changed, changes)
    return changed
