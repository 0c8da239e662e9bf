"""Members of a consumer group that speak the classic protocol (KIP-848): during an online migration, or for good.

Each is answered for itself: JoinGroup is a heartbeat that says what it has, its generation is the member's epoch, no
member leads, and SyncGroup tells what the coordinator has assigned. Heartbeats say REBALANCE_IN_PROGRESS until it
has joined again. Facts: GroupMetadataManager.classicGroupJoinToConsumerGroup and its siblings.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from kafkaframes.coordination.groups.classic import (
    CONSUMER,
    ClassicGroup,
    ClassicMember,
    GroupState,
    JoinResult,
    SyncResult,
)
from kafkaframes.coordination.groups.consumer import NOTHING, Assigned, ClassicFacts, ConsumerGroup, ConsumerMember
from kafkaframes.coordination.groups.consumer_protocol import Beat, ConsumerGroups
from kafkaframes.coordination.groups.group_protocol import Topics
from kafkaframes.coordination.groups.members import MemberState, cancel
from kafkaframes.coordination.groups.ports import MIGRATION_DISABLED
from kafkaframes.coordination.groups.rebalance import Join, Leaving, Sync
from kafkaframes.coordination.groups.subscriptions import (
    Subscription,
    has_user_data,
    read_assignment,
    read_subscription,
    write_assignment,
)
from kafkaframes.errors import DecodeError, ErrorCode, RefusedError
from kafkaframes.storage.files.names import TopicPartition

# A classic group with members becomes a consumer group, and the other way round (KIP-848, "Online migration").
#
# Upgrade: the first heartbeat of a member that speaks the consumer protocol converts the group; its other members keep
# speaking the classic one until they are restarted. Downgrade: the last of those that speak the consumer protocol
# leaves. Nobody loses what it has by either. Facts: ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup.


def consumer_group_of(group: ClassicGroup, topics: Topics) -> ConsumerGroup:
    """Return the consumer group that a classic group with members becomes; the classic group stays as it is.

    Raises:
        DecodeError: a member's subscription or assignment is none of a consumer.
        RefusedError: GROUP_ID_NOT_FOUND: a custom assignor's data would be lost.
    """
    made = ConsumerGroup(group.group_id, epoch=group.generation, assignment_epoch=group.generation)
    for member in group.members.values():
        subscription = read_subscription(member.metadata(group.protocol_name or member.protocols[0][0]))
        if has_user_data(member.assignment):
            reason = (
                f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom"
                " assignor is in use. Please refer to the documentation or switch to a default assignor before"
                " re-attempting the upgrade."
            )
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, reason)
        assigned = with_ids(read_assignment(member.assignment), topics)
        made.targets[member.member_id] = assigned
        made.put(
            ConsumerMember(
                member.member_id,
                member.instance_id,
                subscription.rack_id,
                member.client_id,
                member.client_host,
                topics=tuple(sorted(set(subscription.topics))),
                rebalance_timeout_ms=member.rebalance_timeout_ms,
                epoch=group.generation,
                previous_epoch=group.generation,
                assigned=assigned,
                classic=ClassicFacts(member.session_timeout_ms, member.protocols),
            )
        )
    return made


def classic_group_of(group: ConsumerGroup, leaving: frozenset[str], topics: Topics, now_ms: int) -> ClassicGroup:
    """Return the classic group that a consumer group becomes without some members; it is Stable."""
    made = ClassicGroup(group.group_id, state=GroupState.STABLE, since_ms=now_ms, generation=group.epoch)
    names = names_by_id(topics)
    for member in group.members.values():
        if member.member_id in leaving or member.classic is None:
            continue
        made.add(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                CONSUMER,
                member.classic.protocols,
                assignment=assignment_of(member, group.targets.get(member.member_id, member.assigned), names),
            )
        )
    made.protocol_name = made.select_protocol()
    made.subscribed_topics = made.compute_subscribed_topics()
    return made


def assignment_of(member: ConsumerMember, assigned: Assigned, names: Mapping[UUID, str]) -> bytes:
    """Return an assignment in the words of the classic protocol that a member speaks."""
    assert member.classic is not None
    version = read_subscription(member.classic.protocols[0][1]).version
    return write_assignment((TopicPartition(names[one], index) for one, index in assigned if one in names), version)


def with_ids(partitions: Iterable[TopicPartition], topics: Topics) -> Assigned:
    """Return partitions with the ids of their topics; those of topics that are gone are left out."""
    return frozenset(
        (known[0], partition.partition)
        for partition in partitions
        if (known := topics.find(partition.topic)) is not None
    )


def names_by_id(topics: Topics) -> dict[UUID, str]:
    """Return the name of each topic."""
    return {known[0]: name for name in topics.names() if (known := topics.find(name)) is not None}


@dataclass(slots=True)
class ClassicMembers:
    """The classic protocol on consumer groups.

    Attributes:
        groups: what the members have in common with those of the consumer protocol.
        new_id: a random UUID in Kafka's text; other than in a classic group, the client's id is not in front of it.
    """

    groups: ConsumerGroups
    new_id: Callable[[], str]

    def join(self, group: ConsumerGroup, request: Join) -> JoinResult:
        """Answer a JoinGroup, at once."""
        try:
            return self._joined(group, request)
        except RefusedError as refused:
            return JoinResult(refused.code)

    def _joined(self, group: ConsumerGroup, request: Join) -> JoinResult:
        if self.groups.settings.consumer_migration_policy == MIGRATION_DISABLED:
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        names = frozenset(name for name, _ in request.protocols)
        if not group.supports(request.protocol_type, names):
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self.new_id()
        if not request.member_id and request.instance_id is None and request.needs_member_id:
            return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        if request.member_id and request.instance_id is not None:
            group.member(request.member_id, request.instance_id)
        try:
            subscription = read_subscription(request.protocols[0][1])
        except DecodeError as error:
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
        known = group.members.get(member_id)
        beat = self._beat(request, member_id, known, subscription)
        answer = self.groups.heartbeat(group, beat)
        member = group.members[member_id]
        self._expect_next(group, member)
        return JoinResult(
            member_id=member_id,
            generation=answer.epoch,
            protocol_type=CONSUMER,
            protocol_name=request.protocols[0][0],
        )

    def _beat(self, request: Join, member_id: str, known: ConsumerMember | None, said: Subscription) -> Beat:
        """Return the heartbeat that a JoinGroup stands for."""
        is_new = known is None or known.classic is None
        return Beat(
            request.group_id,
            member_id,
            0 if is_new or known is None else known.epoch,
            instance_id=request.instance_id,
            rack_id=said.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=said.topics,
            owned=NOTHING if is_new else with_ids(said.owned, self.groups.topics),
            client_id=request.client_id,
            client_host=request.client_host,
            classic=ClassicFacts(request.session_timeout_ms, request.protocols),
        )

    def sync(self, group: ConsumerGroup, request: Sync) -> SyncResult:
        """Answer a SyncGroup with what the member has."""
        try:
            member = self._member(group, request.member_id, request.instance_id, request.generation)
            name = member.classic.protocols[0][0] if member.classic is not None else ""
            if request.protocol_type not in (None, CONSUMER) or request.protocol_name not in (None, name):
                raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._expect_next(group, member)
                raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
        except RefusedError as refused:
            return SyncResult(refused.code)
        self.groups.watch(group, member)
        assigned = assignment_of(member, member.assigned, names_by_id(self.groups.topics))
        return SyncResult(ErrorCode.NONE, assigned, CONSUMER, name)

    @staticmethod
    def _member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        member = group.member(member_id, instance_id)
        if member.classic is None:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation != member.epoch:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Keep a member of this generation alive; return REBALANCE_IN_PROGRESS where it has to join again."""
        member = self._member(group, member_id, instance_id, generation)
        joining = group.rebalances.get(member_id)
        self.groups.watch(group, member, keeps_rebalance=True)
        # Kafka waits for a heartbeat of the consumer protocol to assign anew; a group of classic members has none.
        may_assign = group.epoch > group.assignment_epoch and self.groups.is_due(group)
        is_behind = member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS
        if not is_behind and not may_assign and not self._is_freed(group, member):
            return ErrorCode.NONE
        if joining is None:
            self._expect_next(group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    @staticmethod
    def _is_freed(group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Whether everything that a member waits for is free by now."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        awaited = group.targets.get(member.member_id, NOTHING) - member.assigned
        return not any(map(group.is_taken_from(member.member_id), awaited))

    def leave(self, group: ConsumerGroup, leaving: Sequence[Leaving]) -> list[ErrorCode]:
        """Let members of either protocol go, all at once; return an error code for each."""
        codes: list[ErrorCode] = []
        gone: set[str] = set()
        for request in leaving:
            try:
                member_id = request.member_id or group.static_members.get(request.instance_id or "", "")
                gone.add(group.member(member_id, request.instance_id).member_id)
                codes.append(ErrorCode.NONE)
            except RefusedError as refused:
                codes.append(refused.code)
        if gone:
            self.groups.fence(group, *sorted(gone))
        return codes

    def keep_alive(self, group: ConsumerGroup, member_id: str) -> None:
        """Begin the session of a member anew: it has committed."""
        member = group.members.get(member_id)
        if member is not None and member.classic is not None:
            self.groups.watch(group, member, keeps_rebalance=True)

    def _expect_next(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Give a member up that does not send its next JoinGroup or SyncGroup within its rebalance timeout."""
        cancel(group.rebalances, member.member_id)

        def give_up() -> None:
            with suppress(RefusedError):
                self.groups.expire(group, member.member_id)

        group.rebalances[member.member_id] = self.groups.clock.call_later(member.rebalance_timeout_ms, give_up)
