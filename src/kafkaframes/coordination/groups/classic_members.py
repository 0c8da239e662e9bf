"""Members of a consumer group that use the classic protocol (KIP-848), for example during an online migration.

Each member is handled individually, as in Kafka's GroupMetadataManager.classicGroupJoinToConsumerGroup. A member's
JoinGroup request is handled like a heartbeat that reports the member's owned partitions. The member's generation is its
member epoch, the group has no leader, and SyncGroup returns the coordinator's assignment. Heartbeats return
REBALANCE_IN_PROGRESS until the member has rejoined.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from uuid import UUID

from kafkaframes.coordination.groups.classic import (
    CONSUMER_PROTOCOL_TYPE,
    ClassicGroup,
    ClassicMember,
    GroupState,
    JoinResult,
    SyncResult,
)
from kafkaframes.coordination.groups.consumer import (
    NO_PARTITIONS,
    Assignment,
    ClassicProtocols,
    ConsumerGroup,
    ConsumerMember,
)
from kafkaframes.coordination.groups.consumer_protocol import ConsumerGroupProtocol, HeartbeatRequest
from kafkaframes.coordination.groups.group_protocol import Topics
from kafkaframes.coordination.groups.members import MemberState, cancel_timer
from kafkaframes.coordination.groups.ports import MIGRATION_DISABLED
from kafkaframes.coordination.groups.rebalance import JoinRequest, LeavingMember, SyncRequest
from kafkaframes.coordination.groups.subscriptions import (
    Subscription,
    has_user_data,
    read_assignment,
    read_subscription,
    write_assignment,
)
from kafkaframes.errors import DecodeError, ErrorCode, RefusedError
from kafkaframes.storage.files.names import TopicPartition

# Conversion between classic and consumer groups that have members (KIP-848, "Online migration").  Upgrade: the first
# heartbeat of the consumer protocol converts the group; the other members use the classic protocol until they are
# restarted. Downgrade: the last member of the consumer protocol leaves. Members keep their partitions in both cases.
# The conversions follow Kafka's ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup.


def to_consumer_group(group: ClassicGroup, topics: Topics) -> ConsumerGroup:
    """Convert a classic group with members to a consumer group. The classic group does not change.

    Raises:
        DecodeError: a member's subscription or assignment does not have the format of consumers.
        RefusedError: the user data of a custom assignor would be lost (GROUP_ID_NOT_FOUND).
    """
    consumer_group = ConsumerGroup(group.group_id, epoch=group.generation, assignment_epoch=group.generation)
    for member in group.members.values():
        subscription = read_subscription(member.get_metadata(group.protocol_name or member.protocols[0][0]))
        if has_user_data(member.assignment):
            reason = (
                f"Cannot upgrade classic group {group.group_id} to consumer group because an unsupported custom"
                " assignor is in use. Please refer to the documentation or switch to a default assignor before"
                " re-attempting the upgrade."
            )
            raise RefusedError(ErrorCode.GROUP_ID_NOT_FOUND, reason)
        partitions = to_topic_ids(read_assignment(member.assignment), topics)
        consumer_group.targets[member.member_id] = partitions
        consumer_group.update_member(
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
                assignment=partitions,
                classic=ClassicProtocols(member.session_timeout_ms, member.protocols),
            )
        )
    return consumer_group


def to_classic_group(group: ConsumerGroup, leaving: frozenset[str], topics: Topics, now_ms: int) -> ClassicGroup:
    """Convert a consumer group without its leaving members to a classic group, in the state Stable."""
    classic_group = ClassicGroup(group.group_id, state=GroupState.STABLE, since_ms=now_ms, generation=group.epoch)
    names = map_names_by_id(topics)
    for member in group.members.values():
        if member.member_id in leaving or member.classic is None:
            continue
        classic_group.add_member(
            ClassicMember(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.rebalance_timeout_ms,
                member.classic.session_timeout_ms,
                CONSUMER_PROTOCOL_TYPE,
                member.classic.protocols,
                assignment=encode_assignment(member, group.targets.get(member.member_id, member.assignment), names),
            )
        )
    classic_group.protocol_name = classic_group.select_protocol()
    classic_group.subscribed_topics = classic_group.compute_subscribed_topics()
    return classic_group


def encode_assignment(member: ConsumerMember, partitions: Assignment, names: Mapping[UUID, str]) -> bytes:
    """Return an assignment as bytes in the classic protocol's format, in the version of the member's subscription."""
    assert member.classic is not None
    version = read_subscription(member.classic.protocols[0][1]).version
    known_partitions = (TopicPartition(names[topic_id], index) for topic_id, index in partitions if topic_id in names)
    return write_assignment(known_partitions, version)


def to_topic_ids(partitions: Iterable[TopicPartition], topics: Topics) -> Assignment:
    """Return partitions by topic id. Partitions of deleted topics are dropped."""
    return frozenset(
        (topic[0], partition.partition)
        for partition in partitions
        if (topic := topics.find(partition.topic)) is not None
    )


def map_names_by_id(topics: Topics) -> dict[UUID, str]:
    """Return topic names by topic id."""
    return {topic[0]: name for name in topics.names() if (topic := topics.find(name)) is not None}


@dataclass(slots=True)
class ClassicMemberProtocol:
    """Handlers of the classic protocol's requests for members of consumer groups.

    Attributes:
        groups: handler of the consumer protocol's heartbeats.
        new_id: function that returns a random member id, a UUID in Kafka's text form. Unlike in classic groups, the
            member id has no client id as prefix.
    """

    groups: ConsumerGroupProtocol
    new_id: Callable[[], str]

    def join(self, group: ConsumerGroup, request: JoinRequest) -> JoinResult:
        """Handle a JoinGroup request. The response is returned at once."""
        try:
            return self._join_member(group, request)
        except RefusedError as error:
            return JoinResult(error.code)

    def _join_member(self, group: ConsumerGroup, request: JoinRequest) -> JoinResult:
        if self.groups.settings.consumer_migration_policy == MIGRATION_DISABLED:
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        names = frozenset(name for name, _ in request.protocols)
        if not group.supports_protocols(request.protocol_type, names):
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        member_id = request.member_id or self.new_id()
        if not request.member_id and request.instance_id is None and request.needs_member_id:
            return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        if request.member_id and request.instance_id is not None:
            group.find_member(request.member_id, request.instance_id)
        try:
            subscription = read_subscription(request.protocols[0][1])
        except DecodeError as error:
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, str(error)) from None
        member = group.members.get(member_id)
        request_as_heartbeat = self._to_heartbeat(request, member_id, member, subscription)
        answer = self.groups.heartbeat(group, request_as_heartbeat)
        self._expect_request(group, group.members[member_id])
        return JoinResult(
            member_id=member_id,
            generation=answer.epoch,
            protocol_type=CONSUMER_PROTOCOL_TYPE,
            protocol_name=request.protocols[0][0],
        )

    def _to_heartbeat(
        self, request: JoinRequest, member_id: str, member: ConsumerMember | None, subscription: Subscription
    ) -> HeartbeatRequest:
        """Return the consumer protocol's heartbeat that is equivalent to a JoinGroup request."""
        is_new = member is None or member.classic is None
        return HeartbeatRequest(
            request.group_id,
            member_id,
            0 if is_new or member is None else member.epoch,
            instance_id=request.instance_id,
            rack_id=subscription.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=subscription.topics,
            owned_partitions=NO_PARTITIONS
            if is_new
            else to_topic_ids(subscription.owned_partitions, self.groups.topics),
            client_id=request.client_id,
            client_host=request.client_host,
            classic=ClassicProtocols(request.session_timeout_ms, request.protocols),
        )

    def sync(self, group: ConsumerGroup, request: SyncRequest) -> SyncResult:
        """Handle a SyncGroup request: return the member's current assignment."""
        try:
            member = self._find_member(group, request.member_id, request.instance_id, request.generation)
            name = member.classic.protocols[0][0] if member.classic is not None else ""
            if request.protocol_type not in (None, CONSUMER_PROTOCOL_TYPE) or request.protocol_name not in (None, name):
                raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if group.assignment_epoch > member.epoch and member.state is not MemberState.UNREVOKED_PARTITIONS:
                self._expect_request(group, member)
                raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
        except RefusedError as error:
            return SyncResult(error.code)
        self.groups.restart_timers(group, member)
        assignment = encode_assignment(member, member.assignment, map_names_by_id(self.groups.topics))
        return SyncResult(ErrorCode.NONE, assignment, CONSUMER_PROTOCOL_TYPE, name)

    @staticmethod
    def _find_member(group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ConsumerMember:
        member = group.find_member(member_id, instance_id)
        if member.classic is None:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if generation != member.epoch:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        return member

    def heartbeat(self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Extend the member's session. Return REBALANCE_IN_PROGRESS if the member has to rejoin."""
        member = self._find_member(group, member_id, instance_id, generation)
        joining = group.rebalances.get(member_id)
        self.groups.restart_timers(group, member, keeps_rebalance=True)
        # Kafka computes an assignment only in heartbeats of the consumer protocol, which classic members do not send.
        may_assign = group.epoch > group.assignment_epoch and self.groups.may_assign(group)
        has_old_epoch = member.epoch < group.assignment_epoch or member.state is MemberState.UNREVOKED_PARTITIONS
        if not has_old_epoch and not may_assign and not self._are_targets_released(group, member):
            return ErrorCode.NONE
        if joining is None:
            self._expect_request(group, member)
        return ErrorCode.REBALANCE_IN_PROGRESS

    @staticmethod
    def _are_targets_released(group: ConsumerGroup, member: ConsumerMember) -> bool:
        """Return whether other members have released all partitions that a member waits for."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        missing = group.targets.get(member.member_id, NO_PARTITIONS) - member.assignment
        return not any(map(group.create_ownership_check(member.member_id), missing))

    def leave(self, group: ConsumerGroup, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        """Remove members of either protocol, all at once. Return an error code for each member."""
        codes: list[ErrorCode] = []
        leaving_ids: set[str] = set()
        for request in leaving:
            try:
                member_id = request.member_id or group.static_members.get(request.instance_id or "", "")
                leaving_ids.add(group.find_member(member_id, request.instance_id).member_id)
                codes.append(ErrorCode.NONE)
            except RefusedError as error:
                codes.append(error.code)
        if leaving_ids:
            self.groups.fence_members(group, *sorted(leaving_ids))
        return codes

    def keep_alive(self, group: ConsumerGroup, member_id: str) -> None:
        """Extend the session of a member that has committed."""
        member = group.members.get(member_id)
        if member is not None and member.classic is not None:
            self.groups.restart_timers(group, member, keeps_rebalance=True)

    def _expect_request(self, group: ConsumerGroup, member: ConsumerMember) -> None:
        """Remove a member that does not send its next JoinGroup or SyncGroup within its rebalance timeout."""
        cancel_timer(group.rebalances, member.member_id)

        def expire_member() -> None:
            with suppress(RefusedError):
                self.groups.expire(group, member.member_id)

        group.rebalances[member.member_id] = self.groups.clock.call_later(member.rebalance_timeout_ms, expire_member)
