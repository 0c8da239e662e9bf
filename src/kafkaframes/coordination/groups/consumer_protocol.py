"""Handle ConsumerGroupHeartbeat, the only request of KIP-848's protocol, and the timeouts of members.

A heartbeat is planned on immutable values, written as one batch of records, and only then applied. As in Kafka, the
patterns of a subscription are matched after the response; until then the member keeps the topics that its patterns
matched before. Sources: KIP-848, KIP-1082, GroupMetadataManager.java.

A heartbeat without changes reads only its sender's state, and a join reads only the members and topics that it changes.
tests/coordination/groups/test_large_groups.py compares both cases with a complete computation and counts the reads.
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
    NO_PARTITIONS,
    Assignment,
    ClassicProtocols,
    ConsumerGroup,
    ConsumerMember,
    MemberIdentity,
    PatternTopics,
    select_visible_names,
)
from kafkaframes.coordination.groups.group_protocol import (
    GroupProtocol,
    find_topic_ids,
    hash_topics,
    reject_invalid_request,
)
from kafkaframes.coordination.groups.members import MemberState
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.records import consumer_records as rows
from kafkaframes.coordination.groups.subscriptions import validate_pattern
from kafkaframes.coordination.groups.topic_patterns import TopicPatterns
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

_NO_VALUE = -1  # Kafka's number for a field that is not set
_NO_TOPICS: frozenset[str] = frozenset()
_PATTERN_RETRY_INTERVAL_MS = (
    200  # heartbeat interval while a pattern is being matched, if there is no assignment interval
)
# Groups with this many members get a new assignment at most once in this interval while members join.
_LARGE_GROUP, _LARGE_GROUPS_INTERVAL_MS = 100, 1_000


class HeartbeatRequest(NamedTuple):
    """A ConsumerGroupHeartbeat request. A field is None if it has not changed since the last heartbeat.

    Attributes:
        epoch: member epoch; 0 to join, -1 to leave, -2 for a static member that leaves temporarily.
        owned_partitions: partitions that the member owns.
        has_owned_rows: whether the request has rows of owned topics, even without partitions.
        classic: protocols of the JoinGroup request that was converted to this heartbeat; None if the client sent a
            heartbeat.
        viewer: principal and host of the sender; None if the sender may see every topic.
    """

    group_id: str
    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = _NO_VALUE
    topics: Sequence[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned_partitions: Assignment | None = None
    client_id: str = ""
    client_host: str = ""
    classic: ClassicProtocols | None = None
    viewer: MemberIdentity | None = None
    has_owned_rows: bool = False


class HeartbeatResult(NamedTuple):
    """The content of a heartbeat response. The assignment is None if it has not changed."""

    member_id: str
    epoch: int
    interval_ms: int = 0
    assignment: Assignment | None = None


@dataclass(slots=True)
class _ConsumerChanges:
    """The changes that a heartbeat makes.

    Attributes:
        member, old: the member after and before the heartbeat; ``old`` is None for a new member.
        replaced_member: static member that the new member replaces.
        regexes: new matches of patterns that have changed; None removes an unused pattern.
        visible: changed topics of members' patterns that the members may see.
        targets: target assignments that have changed.
        is_assigned: whether all target assignments were computed again.
    """

    member: ConsumerMember
    old: ConsumerMember | None
    replaced_member: ConsumerMember | None
    pattern_topics: PatternTopics
    records: list[Record]
    epoch: int = 0
    metadata_hash: int = 0
    regexes: dict[str, frozenset[str] | None] = field(default_factory=dict)
    visible: dict[str, frozenset[str] | None] = field(default_factory=dict)
    targets: dict[str, Assignment] = field(default_factory=dict)
    is_assigned: bool = False

    @property
    def previous_member(self) -> ConsumerMember | None:
        """The member with the subscription that this heartbeat replaces; None for a new member."""
        return self.old or self.replaced_member

    def get_members_after(self, group: ConsumerGroup) -> dict[str, ConsumerMember]:
        """Return the members of the group after the heartbeat."""
        remaining_members = {key: member for key, member in group.members.items() if member is not self.replaced_member}
        return {**remaining_members, self.member.member_id: self.member}

    def get_patterns_after(self, group: ConsumerGroup) -> Mapping[str, frozenset[str]]:
        """Return the group's patterns and their matches after the heartbeat."""
        return _copy_with_changes(group.regexes, self.regexes) if self.regexes else group.regexes


@dataclass
class ConsumerGroupProtocol(GroupProtocol[ConsumerGroup, ConsumerMember]):
    """The heartbeat protocol of consumer groups.

    ``on_leave`` is called before members are removed. ``on_leave`` returns True if it has removed the members itself.
    """

    records = rows
    on_leave: Callable[[ConsumerGroup, frozenset[str]], bool] | None = None
    patterns: TopicPatterns = field(init=False)

    def __post_init__(self) -> None:
        self.patterns = TopicPatterns(self.topics, self._run_after_response)

    def _run_after_response(self, work: Callable[[], None], finish: Callable[[], None]) -> None:
        """Run work after the response, for callers without worker threads."""

        def run_work_and_finish() -> None:
            work()
            finish()

        self.clock.call_later(0, run_work_and_finish)

    def heartbeat(
        self, group: ConsumerGroup, request: HeartbeatRequest, preceding_records: Sequence[Record] = ()
    ) -> HeartbeatResult:
        """Handle a heartbeat from a member that joins the group or remains in it.

        Args:
            group: group of the member. The caller adds a new group after ``heartbeat`` returns.
            preceding_records: records to write in the same batch, which delete another group with this name.
        """
        old_member = self._find_sender(group, request)
        replaced_member = self._find_replaced_member(group, request)
        if request.regex:
            validate_pattern(request.regex)
        start = old_member or (
            replace(replaced_member, member_id=request.member_id)
            if replaced_member
            else ConsumerMember(request.member_id)
        )
        member = _apply_request(start, request)
        plan = _ConsumerChanges(
            member,
            old_member,
            replaced_member,
            self._get_current_pattern_topics(group, request.viewer),
            records=list(preceding_records),
        )
        if replaced_member is not None:
            plan.records += rows.build_member_tombstones(group.group_id, replaced_member.member_id)
        if old_member is None or not member.has_same_subscription(old_member):
            plan.records.append(rows.build_member_record(group.group_id, member))
        self._plan_epoch(group, plan, request.viewer)
        is_large = len(group.members) >= _LARGE_GROUP and request.classic is None
        is_due = self.may_assign(group, min_interval_ms=_LARGE_GROUPS_INTERVAL_MS if is_large else 0)
        self._plan_targets(group, plan, is_due=is_due)
        reconciled_member = self._reconcile(group, plan, request)
        if reconciled_member is not member or old_member is None:
            plan.records.append(rows.build_current_record(group.group_id, reconciled_member))
        if plan.records:
            self.write(group.group_id, plan.records)
        self._apply_plan(group, plan, reconciled_member)
        group.viewers[reconciled_member.member_id] = request.viewer
        self.restart_timers(group, reconciled_member)
        is_full = request.rebalance_timeout_ms != _NO_VALUE and request.owned_partitions is not None
        is_full = is_full and (request.topics is not None or request.regex is not None)
        sends_assignment = (
            request.epoch == 0 or is_full or old_member is None or reconciled_member.assignment != old_member.assignment
        )
        interval_ms = self.get_group_setting(group, "heartbeat.interval.ms")
        if not self.get_group_setting(group, "assignment.interval.ms") and self._is_unresolved(plan, request.viewer):
            interval_ms = min(interval_ms, _PATTERN_RETRY_INTERVAL_MS)
        return HeartbeatResult(
            reconciled_member.member_id,
            reconciled_member.epoch,
            interval_ms,
            reconciled_member.assignment if sends_assignment else None,
        )

    @staticmethod
    def _is_unresolved(plan: _ConsumerChanges, viewer: MemberIdentity | None) -> bool:
        """Return whether the member's pattern is still being matched."""
        regex = plan.member.regex
        return regex is not None and plan.pattern_topics.match_names(regex, viewer) is None

    def _find_sender(self, group: ConsumerGroup, request: HeartbeatRequest) -> ConsumerMember | None:
        """Return the member that sent a heartbeat; None if the member is new."""
        if request.epoch == 0:
            return self.find_member(group, request.member_id, self.settings.consumer_max_size)
        member = group.find_member(request.member_id, request.instance_id)
        member.check_epoch(request.epoch, request.owned_partitions, group_type="consumer")
        return member

    @staticmethod
    def _find_replaced_member(group: ConsumerGroup, request: HeartbeatRequest) -> ConsumerMember | None:
        """Return the static member that a joining member replaces. The static member must have left before."""
        current_id = group.static_members.get(request.instance_id) if request.instance_id is not None else None
        if request.epoch != 0 or current_id is None or current_id == request.member_id:
            return None
        member = group.members[current_id]
        if member.epoch != LEAVE_STATIC and member.classic is None and request.classic is None:
            reason = (
                f"Static member {request.member_id} with instance id {request.instance_id} cannot join the group"
                f" because the instance id is owned by {current_id} member."
            )
            raise RefusedError(ErrorCode.UNRELEASED_INSTANCE_ID, reason)
        return member

    def _get_current_pattern_topics(self, group: ConsumerGroup, viewer: MemberIdentity | None) -> PatternTopics:
        """Return the group's pattern matches, or new matches if topics or access rights have changed."""
        current = group.pattern_topics
        rights = viewer.version if viewer is not None else 0 if current is None else current.version[1]
        version = self.topics.version, rights
        if current is not None and current.version == version:
            return current
        return PatternTopics(
            version, lambda regex: self.patterns.find_names(regex, lambda: self._finish_matching(group))
        )

    def _finish_matching(self, group: ConsumerGroup) -> None:
        """Write the new matches of a pattern. The next heartbeats of the members assign their partitions."""
        group.pattern_topics = None
        member = next(iter(group.members.values()), None)
        if member is None:
            return
        viewer = group.viewers.get(member.member_id)
        plan = _ConsumerChanges(member, member, None, self._get_current_pattern_topics(group, viewer), records=[])
        self._plan_epoch(group, plan, viewer)
        with suppress(KafkaframesError):  # the log is offline; the next heartbeat writes the matches
            if plan.records:
                self.write(group.group_id, plan.records)
            self._apply_plan(group, plan, member)

    def _plan_epoch(self, group: ConsumerGroup, plan: _ConsumerChanges, viewer: MemberIdentity | None) -> None:
        """Increment the planned group epoch if a subscription or the subscribed topics have changed."""
        is_alone = plan.pattern_topics is group.pattern_topics and self._resolve_member_pattern(group, plan, viewer)
        if not is_alone:
            self._resolve_all_patterns(group, plan, viewer)
        for regex, names in plan.regexes.items():
            plan.records.append(rows.build_regex_record(group.group_id, regex, names, self.clock.now_ms))
        plan.epoch, plan.metadata_hash = group.epoch, group.metadata_hash
        if not is_alone or plan.regexes or not group.keeps_subscribed_topics(plan.previous_member, plan.member):
            plan.metadata_hash = self._hash_planned_topics(group, plan)
        has_changed = self._needs_assignment(group, plan, viewer) or any(
            (names or _NO_TOPICS) != group.regexes.get(regex, _NO_TOPICS) for regex, names in plan.regexes.items()
        )
        has_changed |= plan.metadata_hash != group.metadata_hash
        has_changed |= any(
            (plan.visible[key] or _NO_TOPICS) != group.find_pattern_topics(member)
            for key in plan.visible
            if (member := group.members.get(key)) is not None and member is not plan.replaced_member
        )
        if has_changed:
            plan.epoch = group.epoch + 1
            plan.records.append(rows.build_epoch_record(group.group_id, plan.epoch, plan.metadata_hash))

    @staticmethod
    def _needs_assignment(group: ConsumerGroup, plan: _ConsumerChanges, viewer: MemberIdentity | None) -> bool:
        """Return whether the member's new subscription requires a new assignment.

        A pattern that is still being matched requires no new assignment, except for the first member of a group.
        """
        old_topics, new_topics = plan.previous_member, plan.member
        topics, regex = (old_topics.topics, old_topics.regex) if old_topics is not None else ((), None)
        if topics != new_topics.topics or not group.epoch:
            return True
        return regex != new_topics.regex and (
            not new_topics.regex or plan.pattern_topics.match_names(new_topics.regex, viewer) is not None
        )

    def _hash_planned_topics(self, group: ConsumerGroup, plan: _ConsumerChanges) -> int:
        by_name = group.find_topics_of_other_members(plan.previous_member).union(plan.member.topics)
        if plan.old is not None and plan.replaced_member is not None:
            by_name = frozenset(name for member in plan.get_members_after(group).values() for name in member.topics)
        return hash_topics(self.topics, by_name.union(*plan.get_patterns_after(group).values()))

    @staticmethod
    def _resolve_member_pattern(group: ConsumerGroup, plan: _ConsumerChanges, viewer: MemberIdentity | None) -> bool:
        """Plan the matches of the member's pattern.

        Return False if the patterns of other members must be matched as well.
        """
        member, names_before = plan.member, plan.previous_member
        names = plan.pattern_topics.match_names(member.regex, viewer) if member.regex else _NO_TOPICS
        is_resolved = names is not None
        if names is None:
            names = select_visible_names(group.regexes.get(member.regex or "", _NO_TOPICS), viewer)
        if plan.old is not None and plan.replaced_member is not None:
            return False
        if names_before is not None and names_before.regex not in (None, member.regex):
            return False
        if names_before is not None and names_before.regex and not names >= group.find_pattern_topics(names_before):
            return False
        if member.regex:
            earlier_names = group.regexes.get(member.regex)
            plan.visible[member.member_id] = names
            if is_resolved and (earlier_names is None or not names <= earlier_names):
                plan.regexes[member.regex] = names | (earlier_names or _NO_TOPICS)
        return True

    @staticmethod
    def _resolve_all_patterns(group: ConsumerGroup, plan: _ConsumerChanges, viewer: MemberIdentity | None) -> None:
        """Plan the matches of all patterns, and the topics that each member sees.

        A member without a heartbeat since the restart sees only topics that its pattern matched before the restart.
        """
        matches: dict[str, frozenset[str]] = {}
        unresolved_patterns: set[str] = set()
        viewers = {**group.viewers, plan.member.member_id: viewer}
        for key, member in plan.get_members_after(group).items():
            plan.visible[key] = None
            if member.regex:
                names = plan.pattern_topics.match_names(member.regex, viewers.get(key))
                if names is None:
                    unresolved_patterns.add(member.regex)
                    names = select_visible_names(group.regexes.get(member.regex, _NO_TOPICS), viewers.get(key))
                names = names if key in viewers else names & group.find_pattern_topics(member)
                plan.visible[key] = names
                matches[member.regex] = matches.get(member.regex, _NO_TOPICS) | names
        changes = {regex: names for regex, names in matches.items() if regex not in unresolved_patterns}
        plan.regexes.update((regex, names) for regex, names in changes.items() if group.regexes.get(regex) != names)
        plan.regexes.update(dict.fromkeys(group.regexes.keys() - matches.keys()))

    def _plan_targets(self, group: ConsumerGroup, plan: _ConsumerChanges, *, is_due: bool) -> None:
        """Compute target assignments if the group epoch has grown. A returning static member keeps its target."""
        member_id, replaced_member = plan.member.member_id, plan.replaced_member
        plan.is_assigned = is_due and plan.epoch > group.assignment_epoch
        if plan.is_assigned:
            current = group.targets
            if replaced_member is not None:
                current = {**current, member_id: current.get(replaced_member.member_id, NO_PARTITIONS)}
            targets = self._compute_targets(group, plan, current)
        elif replaced_member is not None:
            targets = {member_id: group.targets.get(replaced_member.member_id, NO_PARTITIONS)}
        else:
            return
        plan.targets = {key: target for key, target in targets.items() if group.targets.get(key) != target}
        plan.records += [rows.build_target_record(group.group_id, key, target) for key, target in plan.targets.items()]
        if plan.is_assigned:
            plan.records.append(rows.build_target_epoch_record(group.group_id, plan.epoch, self.clock.now_ms))

    def _compute_targets(
        self, group: ConsumerGroup, plan: _ConsumerChanges, current: Mapping[str, Assignment]
    ) -> dict[str, Assignment]:
        members = plan.get_members_after(group)
        counts: dict[UUID, int] = {}
        # Cached by topic names, because most members have equal subscriptions.
        ids: dict[frozenset[str], frozenset[UUID]] = {}
        subscriptions: dict[str, frozenset[UUID]] = {}
        for key, member in members.items():
            names = plan.visible[key] if key in plan.visible else group.find_pattern_topics(member)
            names = frozenset(member.topics).union(names or ())
            if names not in ids:
                topics = [topic for name in names if (topic := self.topics.find(name)) is not None]
                counts.update(topics)
                ids[names] = frozenset(topic_id for topic_id, _ in topics)
            subscriptions[key] = ids[names]
        return ASSIGNORS[group.select_assignor(members.values())](subscriptions, current, counts)

    def _reconcile(self, group: ConsumerGroup, plan: _ConsumerChanges, request: HeartbeatRequest) -> ConsumerMember:
        """Return the member one step closer to its target assignment."""
        member, replaced_member = plan.member, plan.replaced_member
        if request.epoch == 0:  # a joining member owns nothing
            member = replace(
                member,
                assignment=NO_PARTITIONS if replaced_member is None else member.assignment,
                revoking=NO_PARTITIONS,
            )
            member = replace(member, epoch=0, state=MemberState.STABLE)
        is_held = group.create_ownership_check(member.member_id)
        released_partitions = NO_PARTITIONS if replaced_member is None else replaced_member.assignment
        owned_partitions = NO_PARTITIONS if request.epoch == 0 else request.owned_partitions
        target = plan.targets.get(member.member_id, group.targets.get(member.member_id, NO_PARTITIONS))
        target_epoch = plan.epoch if plan.is_assigned else group.assignment_epoch
        is_reconciled = member.state is MemberState.STABLE and member.epoch == target_epoch
        if is_reconciled and plan.epoch == group.epoch:
            return member
        topic_ids = self._find_subscribed_topic_ids(group, plan)
        reconciled_member = member.reconcile(
            frozenset(partition for partition in target if partition[0] in topic_ids),
            target_epoch,
            owned_partitions,
            lambda partition: partition not in released_partitions and is_held(partition),
        )
        if reconciled_member is not member or plan.epoch == group.epoch:
            return reconciled_member
        subscribed_partitions = frozenset(partition for partition in member.assignment if partition[0] in topic_ids)
        return member.remove_unsubscribed(subscribed_partitions, owned_partitions)

    def _find_subscribed_topic_ids(self, group: ConsumerGroup, plan: _ConsumerChanges) -> frozenset[UUID]:
        """Return the ids of the subscribed topics that exist. The member's target may still have other topics."""
        member = plan.member
        is_planned = member.member_id in plan.visible
        find_pattern_topics = plan.visible[member.member_id] if is_planned else group.find_pattern_topics(member)
        return find_topic_ids(self.topics, {*member.topics, *(find_pattern_topics or ())})

    def _apply_plan(self, group: ConsumerGroup, plan: _ConsumerChanges, member: ConsumerMember) -> None:
        """Apply the planned changes and the reconciled member to the group."""
        group.update_member(member)
        if plan.replaced_member is not None:
            group.remove_member(plan.replaced_member.member_id)
        _apply_changes(group.regexes, plan.regexes)
        _apply_changes(group.visible, plan.visible)
        group.targets.update(plan.targets)
        group.pattern_topics, group.metadata_hash, group.epoch = plan.pattern_topics, plan.metadata_hash, plan.epoch
        if plan.is_assigned:
            group.assignment_epoch, group.assignment_time_ms = plan.epoch, self.clock.monotonic_ms

    def leave(self, group: ConsumerGroup, request: HeartbeatRequest) -> HeartbeatResult:
        """Remove a member. A static member with epoch -2 keeps its assignment until its session times out."""
        member = group.find_member(request.member_id, request.instance_id)
        if request.epoch == LEAVE_STATIC and member.instance_id is not None:
            absent_member = replace(member, epoch=LEAVE_STATIC, revoking=NO_PARTITIONS)
            self.write(group.group_id, [rows.build_current_record(group.group_id, absent_member)])
            group.update_member(absent_member)
            return HeartbeatResult(member.member_id, LEAVE_STATIC)
        self.fence_members(group, member.member_id)
        return HeartbeatResult(member.member_id, LEAVE)

    def fence_members(self, group: ConsumerGroup, *member_ids: str) -> None:
        """Remove members. The next heartbeats of the other members distribute the partitions of the removed members."""
        if self.on_leave is not None and self.on_leave(group, frozenset(member_ids)):
            return
        removed_members, metadata_hash = [group.members[key] for key in member_ids], group.metadata_hash
        unused_patterns = group.find_exclusive_patterns(*removed_members)
        pattern_topics = group.pattern_topics
        is_current = pattern_topics is not None and pattern_topics.version[0] == self.topics.version
        if (
            unused_patterns
            or not is_current
            or len(removed_members) > 1
            or not group.keeps_subscribed_topics(removed_members[0], None)
        ):
            matched_topics = (names for regex, names in group.regexes.items() if regex not in unused_patterns)
            metadata_hash = hash_topics(
                self.topics, group.find_topics_of_other_members(*removed_members).union(*matched_topics)
            )
        batch = [row for key in member_ids for row in rows.build_member_tombstones(group.group_id, key)]
        batch += [rows.build_regex_record(group.group_id, regex, None) for regex in unused_patterns]
        batch.append(rows.build_epoch_record(group.group_id, group.epoch + 1, metadata_hash))
        self.write(group.group_id, batch)
        for member_id in member_ids:
            group.remove_member(member_id)
        group.epoch, group.metadata_hash = group.epoch + 1, metadata_hash


def check_request(request: HeartbeatRequest, *, may_omit_member_id: bool) -> None:
    """Reject a request with contradictory fields.

    Args:
        may_omit_member_id: whether a joining member may lack a member id, as in version 0.
    """
    is_joining = request.epoch == 0
    checks = (
        (not request.member_id and not (may_omit_member_id and is_joining), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.instance_id == "", "InstanceId can't be empty."),
        (request.rack_id == "", "RackId can't be empty."),
        (request.epoch == LEAVE_STATIC and request.instance_id is None, "InstanceId can't be null."),
        (request.epoch < LEAVE_STATIC, "MemberEpoch is invalid."),
        (
            is_joining and request.rebalance_timeout_ms == _NO_VALUE,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (
            is_joining and (request.owned_partitions is None or request.owned_partitions or request.has_owned_rows),
            "TopicPartitions must be empty when (re-)joining.",
        ),
        (
            is_joining and request.topics is None and request.regex is None,
            "Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.",
        ),
    )
    reject_invalid_request(checks)
    if request.assignor is not None and request.assignor not in ASSIGNORS:
        supported_names = ", ".join(ASSIGNORS)
        reason = f"ServerAssignor {request.assignor} is not supported. Supported assignors: {supported_names}."
        raise RefusedError(ErrorCode.UNSUPPORTED_ASSIGNOR, reason)


def _apply_request(member: ConsumerMember, request: HeartbeatRequest) -> ConsumerMember:
    """Return a copy of the member with the changes of a heartbeat."""
    changes: dict[str, Any] = {
        "instance_id": request.instance_id,
        "rack_id": request.rack_id,
        "topics": None if request.topics is None else tuple(sorted(set(request.topics))),
        "assignor": request.assignor,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == _NO_VALUE else request.rebalance_timeout_ms,
        "client_id": request.client_id,
        "client_host": request.client_host,
    }
    new_values = {name: value for name, value in changes.items() if value is not None}
    if request.regex is not None:
        new_values["regex"] = request.regex or None
    return replace(member, classic=request.classic, **new_values)


def _apply_changes(topics_by_key: dict[str, frozenset[str]], changes: Mapping[str, frozenset[str] | None]) -> None:
    """Update a mapping. A value of None removes the key."""
    for key, names in changes.items():
        if names is None:
            topics_by_key.pop(key, None)
        else:
            topics_by_key[key] = names


def _copy_with_changes(
    topics_by_key: Mapping[str, frozenset[str]], changes: Mapping[str, frozenset[str] | None]
) -> dict[str, frozenset[str]]:
    """Return an updated copy of a mapping. A value of None removes the key."""
    copy = dict(topics_by_key)
    _apply_changes(copy, changes)
    return copy
