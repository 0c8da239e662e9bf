"""A reference implementation of ``ConsumerGroupProtocol``, in which each heartbeat computes all state from all members.

``ConsumerGroupProtocol`` itself computes only changes. ``test_large_groups.py`` compares both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from kafkaframes.coordination.groups.assignors import ASSIGNORS
from kafkaframes.coordination.groups.consumer import (
    NO_PARTITIONS,
    Assignment,
    ConsumerGroup,
    ConsumerMember,
    MemberIdentity,
)
from kafkaframes.coordination.groups.consumer_protocol import (
    ConsumerGroupProtocol,
    HeartbeatRequest,
    HeartbeatResult,
    _apply_request,
)
from kafkaframes.coordination.groups.group_protocol import hash_topics
from kafkaframes.coordination.groups.members import MemberState
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.records import consumer_records as rows
from kafkaframes.coordination.groups.subscriptions import match_names

_NO_EPOCH = -1
_NO_TOPICS: frozenset[str] = frozenset()


@dataclass(slots=True)
class _HeartbeatPlan:
    """The changes that a heartbeat will apply."""

    records: list[Record] = field(default_factory=list)
    epoch: int = 0
    metadata_hash: int = 0
    regexes: dict[str, frozenset[str]] = field(default_factory=dict)
    visible: dict[str, frozenset[str]] = field(default_factory=dict)
    targets: dict[str, Assignment] | None = None


class ReferenceConsumerGroups(ConsumerGroupProtocol):
    """A ``ConsumerGroupProtocol`` that keeps no intermediate results between heartbeats."""

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, preceding_records: Sequence[Record] = ()
    ) -> HeartbeatResult:
        old = self._find_sender(group, request)
        replaced_member = self._find_replaced_member(group, request)
        start = old or (
            replace(replaced_member, member_id=request.member_id)
            if replaced_member
            else ConsumerMember(request.member_id)
        )
        member = _apply_request(start, request)
        plan = _HeartbeatPlan(records=list(preceding_records))
        if replaced_member is not None:
            plan.records += rows.build_member_tombstones(group.group_id, replaced_member.member_id)
        if old is None or not member.has_same_subscription(old):
            plan.records.append(rows.build_member_record(group.group_id, member))
        others = {
            key: one for key, one in group.members.items() if replaced_member is None or one is not replaced_member
        }
        members = {**others, member.member_id: member}
        viewers = {**group.viewers, member.member_id: request.viewer}
        plan.regexes, plan.visible = self._resolve_patterns(group, members, viewers)
        self._plan_epoch(group, plan, members, has_changed=_requires_assignment(old or replaced_member, member))
        self._plan_targets(group, plan, members, replaced_member, member.member_id)
        targets = group.targets if plan.targets is None else plan.targets
        target_epoch = group.assignment_epoch if plan.targets is None else plan.epoch
        moved_member = self._reconcile(group, plan, member, targets, target_epoch, request, replaced_member)
        if moved_member is not member or old is None:
            plan.records.append(rows.build_current_record(group.group_id, moved_member))
        if plan.records:
            self.write(group.group_id, plan.records)
        self._apply_plan(group, plan, moved_member, replaced_member)
        group.viewers[moved_member.member_id] = request.viewer
        self.restart_timers(group, moved_member)
        is_full = request.rebalance_timeout_ms != _NO_EPOCH and request.owned_partitions is not None
        is_full = is_full and (request.topics is not None or request.regex is not None)
        tells = request.epoch == 0 or is_full or old is None or moved_member.assignment != old.assignment
        interval_ms = self.setting(group.group_id, "consumer.heartbeat.interval.ms")
        return HeartbeatResult(
            moved_member.member_id, moved_member.epoch, interval_ms, moved_member.assignment if tells else None
        )

    def _plan_epoch(
        self, group: ConsumerGroup, plan: _HeartbeatPlan, members: Mapping[str, ConsumerMember], *, has_changed: bool
    ) -> None:
        """Bump the group epoch if a subscription or the subscribed topics have changed."""
        plan.epoch = group.epoch
        plan.records += self._regex_records(group, plan.regexes)
        plan.metadata_hash = hash_topics(self.topics, _all_topics(members.values(), plan.regexes))
        has_changed |= plan.metadata_hash != group.metadata_hash or plan.regexes != group.regexes
        names_by_member = (
            (key, _find_pattern_topics(group, one)) for key, one in group.members.items() if key in members
        )
        has_changed |= any(plan.visible.get(key, _NO_TOPICS) != names for key, names in names_by_member)
        if has_changed:
            plan.epoch = group.epoch + 1
            plan.records.append(rows.build_epoch_record(group.group_id, plan.epoch, plan.metadata_hash))

    def _resolve_patterns(
        self,
        group: ConsumerGroup,
        members: Mapping[str, ConsumerMember],
        viewers: Mapping[str, MemberIdentity | None],
    ) -> tuple[dict[str, frozenset[str]], dict[str, frozenset[str]]]:
        """Return the topics of every pattern, and the topics that each member may see.

        A member that has sent no heartbeat since the restart sees the topics that its pattern matched before.
        """
        names_by_pattern: dict[str, frozenset[str]] = {}
        names_by_viewer: dict[tuple[str, MemberIdentity | None], frozenset[str]] = {}
        select_visible_names: dict[str, frozenset[str]] = {}
        visible: dict[str, frozenset[str]] = {}
        for key, one in members.items():
            if not one.regex:
                continue
            if one.regex not in names_by_pattern:
                names_by_pattern[one.regex] = match_names(one.regex, self.topics.names())
            names, viewer = names_by_pattern[one.regex], viewers.get(key)
            if key not in viewers:
                names &= _find_pattern_topics(group, one)
            elif viewer is not None:
                if (one.regex, viewer) not in names_by_viewer:
                    names_by_viewer[one.regex, viewer] = frozenset(filter(viewer.may_see, names))
                names = names_by_viewer[one.regex, viewer]
            visible[key] = names
            select_visible_names[one.regex] = select_visible_names.get(one.regex, names) | names
        return select_visible_names, visible

    def _regex_records(self, group: ConsumerGroup, names_by_pattern: Mapping[str, frozenset[str]]) -> Iterator[Record]:
        """Yield records for patterns that are new, match other topics than before, or are no longer used."""
        for regex, names in names_by_pattern.items():
            if group.regexes.get(regex) != names:
                yield rows.build_regex_record(group.group_id, regex, names, self.clock.now_ms)
        for regex in group.regexes.keys() - names_by_pattern.keys():
            yield rows.build_regex_record(group.group_id, regex, None)

    def _plan_targets(
        self,
        group: ConsumerGroup,
        plan: _HeartbeatPlan,
        members: Mapping[str, ConsumerMember],
        replaced_member: ConsumerMember | None,
        member_id: str,
    ) -> None:
        """Compute a new target assignment if the epoch has grown. A static member that returns keeps its target."""
        current = dict(group.targets)
        if replaced_member is not None:
            current[member_id] = current.pop(replaced_member.member_id, NO_PARTITIONS)
        if plan.epoch > group.assignment_epoch:
            targets = self._compute_targets(members, plan, current, group.default_assignor)
        elif replaced_member is not None:
            targets = current
        else:
            return
        plan.targets = targets
        for key, target in targets.items():
            if group.targets.get(key) != target:
                plan.records.append(rows.build_target_record(group.group_id, key, target))
        if plan.epoch > group.assignment_epoch:
            plan.records.append(rows.build_target_epoch_record(group.group_id, plan.epoch, self.clock.now_ms))

    def _compute_targets(
        self,
        members: Mapping[str, ConsumerMember],
        plan: _HeartbeatPlan,
        current: Mapping[str, Assignment],
        default: str,
    ) -> dict[str, Assignment]:
        group = ConsumerGroup("", members=dict(members), visible=plan.visible, default_assignor=default)
        counts: dict[UUID, int] = {}
        subscriptions: dict[str, frozenset[UUID]] = {}
        for key, member in members.items():
            topic_counts = [
                one
                for name in _find_pattern_topics(group, member).union(member.topics)
                if (one := self.topics.find(name)) is not None
            ]
            counts |= dict(topic_counts)
            subscriptions[key] = frozenset(topic_id for topic_id, _ in topic_counts)
        return ASSIGNORS[group.assignor](subscriptions, current, counts)

    def _reconcile(
        self,
        group: ConsumerGroup,
        plan: _HeartbeatPlan,
        member: ConsumerMember,
        targets: Mapping[str, Assignment],
        target_epoch: int,
        request: HeartbeatRequest,
        replaced_member: ConsumerMember | None,
    ) -> ConsumerMember:
        """Move the member one step towards its target assignment."""
        if request.epoch == 0:  # the member now owns no partitions
            member = replace(
                member,
                assignment=NO_PARTITIONS if replaced_member is None else member.assignment,
                revoking=NO_PARTITIONS,
            )
            member = replace(member, epoch=0, state=MemberState.STABLE)
        partitions_of_others = _partitions_of_others(group, member.member_id)
        if replaced_member is not None:
            partitions_of_others -= replaced_member.assignment
        owned_partitions = NO_PARTITIONS if request.epoch == 0 else request.owned_partitions
        names = plan.visible.get(member.member_id, _NO_TOPICS).union(member.topics)
        topic_ids = {one[0] for name in names if (one := self.topics.find(name)) is not None}
        target = frozenset(one for one in targets.get(member.member_id, NO_PARTITIONS) if one[0] in topic_ids)
        moved_member = member.reconcile(target, target_epoch, owned_partitions, partitions_of_others.__contains__)
        if moved_member is not member or plan.epoch == group.epoch:
            return moved_member
        return member.remove_unsubscribed(
            frozenset(one for one in member.assignment if one[0] in topic_ids), owned_partitions
        )

    @staticmethod
    def _apply_plan(
        group: ConsumerGroup, plan: _HeartbeatPlan, member: ConsumerMember, replaced_member: ConsumerMember | None
    ) -> None:
        if replaced_member is not None:
            group.remove_member(replaced_member.member_id)
        group.update_member(member)
        group.regexes, group.visible, group.metadata_hash = plan.regexes, plan.visible, plan.metadata_hash
        if plan.targets is not None:
            group.targets = plan.targets
            group.assignment_epoch = max(plan.epoch, group.assignment_epoch)
        group.epoch = plan.epoch

    def fence_members(self, group: ConsumerGroup, *member_ids: str) -> None:
        if self.on_leave is not None and self.on_leave(group, frozenset(member_ids)):
            return
        remaining_members = {key: one for key, one in group.members.items() if key not in member_ids}
        unused_patterns = group.regexes.keys() - {member.regex for member in remaining_members.values()}
        names = _all_topics(remaining_members.values(), group.regexes)
        metadata_hash = hash_topics(self.topics, names)
        records = [row for one in member_ids for row in rows.build_member_tombstones(group.group_id, one)]
        records += [rows.build_regex_record(group.group_id, regex, None) for regex in sorted(unused_patterns)]
        records.append(rows.build_epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        self.write(group.group_id, records)
        for member_id in member_ids:
            group.remove_member(member_id)
        group.epoch, group.metadata_hash = group.epoch + 1, metadata_hash


def _requires_assignment(old: ConsumerMember | None, new: ConsumerMember) -> bool:
    """Return whether the member's request requires a new assignment."""
    before = (old.topics, old.regex) if old is not None else ((), None)
    return before != (new.topics, new.regex)


def _all_topics(members: Iterable[ConsumerMember], regexes: Mapping[str, frozenset[str]]) -> frozenset[str]:
    names: set[str] = set()
    for member in members:
        names.update(member.topics)
        if member.regex:
            names |= regexes.get(member.regex, frozenset())
    return frozenset(names)


def _partitions_of_others(group: ConsumerGroup, member_id: str) -> Assignment:
    partitions: set[tuple[UUID, int]] = set()
    for member in group.members.values():
        if member.member_id != member_id:
            partitions |= member.assignment | member.revoking
    return frozenset(partitions)


def _find_pattern_topics(group: ConsumerGroup, member: ConsumerMember) -> frozenset[str]:
    if not member.regex:
        return frozenset()
    return group.visible.get(member.member_id, group.regexes.get(member.regex, frozenset()))
