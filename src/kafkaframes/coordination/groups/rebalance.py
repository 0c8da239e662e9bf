"""The classic rebalance protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and timeouts of members.

A join phase collects JoinGroup requests until all members have sent one, or until the rebalance timeout. All requests
are then answered with the new generation. The leader's SyncGroup request contains the assignment for all members, and
the coordinator then answers the SyncGroup requests of all members. A response that has to wait is sent by a callback,
which is called once.

Sources: KIP-62 (rebalance timeout), KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member id required),
KIP-814 (skip assignment), GroupMetadataManager.java.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from kafkaframes.coordination.groups import records
from kafkaframes.coordination.groups.classic import (
    ClassicGroup,
    ClassicMember,
    GroupState,
    JoinResult,
    Protocols,
    SyncResult,
)
from kafkaframes.coordination.groups.ports import Clock, GroupSettings, Record, Timer
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError

_GENERATION_STATES = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class JoinRequest(NamedTuple):
    """A JoinGroup request.

    Attributes:
        needs_member_id: whether a new dynamic member first gets a member id and then joins with it (version 4 and
            later).
        may_skip_assignment: whether a returning static leader can be asked to skip the assignment (version 9 and
            later).
    """

    group_id: str
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocol_type: str
    protocols: Protocols
    needs_member_id: bool = True
    may_skip_assignment: bool = True


class SyncRequest(NamedTuple):
    """A SyncGroup request. Protocol type and name are sent since version 5."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    assignments: Mapping[str, bytes]
    protocol_type: str | None = None
    protocol_name: str | None = None


class LeavingMember(NamedTuple):
    """A member of a LeaveGroup request. If the member id is empty, the instance id identifies a static member."""

    member_id: str
    instance_id: str | None = None


@dataclass(slots=True)
class RebalanceProtocol:
    """Handlers of the classic rebalance protocol's requests and timeouts."""

    clock: Clock
    settings: GroupSettings
    write: Callable[[str, Sequence[Record]], None]
    new_id: Callable[[], str]

    def join(self, group: ClassicGroup, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        """Handle a JoinGroup. ``reply`` is called when the generation starts, or at once with an error."""
        try:
            if not group.has_space_for(request.member_id, self.settings.max_size):
                group.remove_member(request.member_id)
                raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED)
            if not group.supports_protocols(request.protocol_type, request.protocols):
                raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if not request.member_id:
                self._join_new_member(group, request, reply)
            elif request.member_id not in group.pending_joins:
                self._rejoin(group, request, reply)
            elif request.instance_id is not None:  # Kafka fails with an internal error (-1) and returns no member id
                reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            else:
                self._add_and_rebalance(group, request, request.member_id, reply)
        except RefusedError as error:
            member_id = "" if error.code == ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
            reply(JoinResult(error.code, member_id))

    def _join_new_member(self, group: ClassicGroup, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self.new_id()}"
        if request.instance_id is not None:
            current_id = group.static_members.get(request.instance_id)
            if current_id is not None:
                self._replace_static_member(group, request, current_id, member_id, reply)
                return
        elif request.needs_member_id:
            timer = self.clock.call_later(request.session_timeout_ms, lambda: self._expire_pending_id(group, member_id))
            group.pending_joins[member_id] = timer
            reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        self._add_and_rebalance(group, request, member_id, reply)

    def _rejoin(self, group: ClassicGroup, request: JoinRequest, reply: Callable[[JoinResult], None]) -> None:
        """Handle a member's JoinGroup request.

        If the member only missed the response with the current generation, the response is sent again; otherwise the
        group rebalances.
        """
        member = group.find_sender(request.member_id, request.instance_id)
        is_leader = group.leader == member.member_id
        is_unchanged = member.protocols == request.protocols
        if group.state is GroupState.EMPTY:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is GroupState.COMPLETING_REBALANCE and is_unchanged:
            reply(self._build_join_result(group, member.member_id, with_members=is_leader))
        elif group.state is GroupState.STABLE and is_unchanged and not is_leader:
            reply(self._build_join_result(group, member.member_id, with_members=False))
        else:
            self._update_member(group, member, request, reply)
            self._rebalance_or_complete(group)

    def _add_and_rebalance(
        self, group: ClassicGroup, request: JoinRequest, member_id: str, reply: Callable[[JoinResult], None]
    ) -> None:
        member = ClassicMember(
            member_id=member_id,
            instance_id=request.instance_id,
            client_id=request.client_id,
            client_host=request.client_host,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            session_timeout_ms=request.session_timeout_ms,
            protocol_type=request.protocol_type,
            protocols=request.protocols,
            is_new=True,
            joining=reply,
        )
        if group.state is GroupState.PREPARING_REBALANCE and group.previous_state is GroupState.EMPTY:
            group.new_member_added = True
        group.add_member(member)
        self._restart_deadline(group, member, self.settings.new_member_join_timeout_ms)
        self._rebalance_or_complete(group)

    def _replace_static_member(
        self, group: ClassicGroup, request: JoinRequest, old_id: str, new_id: str, reply: Callable[[JoinResult], None]
    ) -> None:
        """Replace a returning static member, without a rebalance if nothing changes for the other members (KIP-345)."""
        assert request.instance_id is not None
        old_leader = group.leader
        member = group.replace_static_member(request.instance_id, old_id, new_id)
        self.keep_alive(group, member)
        self._update_member(group, member, request, reply)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._prepare_rebalance(group)
        elif group.state is not GroupState.STABLE:
            self._maybe_complete_join(group)
        elif group.select_protocol() != group.protocol_name:
            self._rebalance_or_complete(group)
        else:
            self.write(group.group_id, [records.build_group_record(group, group.assignments)])
            skips_assignment = request.may_skip_assignment and group.leader == new_id
            answer = self._build_join_result(group, new_id, with_members=skips_assignment)
            leader = group.leader if request.may_skip_assignment else old_leader
            member.answer_join(answer._replace(leader=leader or "", skip_assignment=skips_assignment))

    @staticmethod
    def _update_member(
        group: ClassicGroup, member: ClassicMember, request: JoinRequest, reply: Callable[[JoinResult], None]
    ) -> None:
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.joining = reply

    @staticmethod
    def _build_join_result(group: ClassicGroup, member_id: str, *, with_members: bool) -> JoinResult:
        return JoinResult(
            member_id=member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader or "",
            members=group.list_members_for_leader() if with_members else (),
        )

    def _rebalance_or_complete(self, group: ClassicGroup) -> None:
        if group.can_rebalance:
            self._prepare_rebalance(group)
        else:
            self._maybe_complete_join(group)

    def _prepare_rebalance(self, group: ClassicGroup) -> None:
        """Start a join phase. If the group was empty, wait for more members first."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        _cancel_timer(group.sync_timer)
        is_initial = group.state is GroupState.EMPTY
        if is_initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._extend_initial_delay(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.transition_to(GroupState.PREPARING_REBALANCE, self.clock.now_ms)
        if is_initial:
            return
        if group.has_all_joined:
            self._complete_join(group)
        else:
            self._wait_for_joins(group)

    def _extend_initial_delay(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Wait ``delay_ms`` for more members of a new group.

        New members extend the wait up to ``remaining_ms`` (KIP-134).
        """

        def end_initial_delay() -> None:
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                next_delay_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
                self._extend_initial_delay(group, next_delay_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete_join(group)

        _cancel_timer(group.join_timer)
        group.join_timer = self.clock.call_later(delay_ms, end_initial_delay)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        _cancel_timer(group.join_timer)
        group.join_timer = self.clock.call_later(group.rebalance_timeout_ms, lambda: self._complete_join(group))

    def _maybe_complete_join(self, group: ClassicGroup) -> None:
        """End the join phase if all members have joined. An initial delay is never shortened."""
        is_preparing = group.state is GroupState.PREPARING_REBALANCE
        if is_preparing and group.previous_state is not GroupState.EMPTY and group.has_all_joined:
            self._complete_join(group)

    def _complete_join(self, group: ClassicGroup) -> None:
        """End the join phase.

        Dynamic members that did not rejoin are removed; the other members get the next generation.
        """
        _cancel_timer(group.join_timer)
        for member in [
            member for member in group.members.values() if member.joining is None and member.instance_id is None
        ]:
            group.remove_member(member.member_id)
        if not group.elect_joined_leader() and group.members:
            self._wait_for_joins(group)  # only static members without a JoinGroup are left: wait for their sessions
            return
        group.start_generation(self.clock.now_ms)
        if group.is_empty:
            with suppress(KafkaframesError):  # a restart would load the old generation, and its members would time out
                self.write(group.group_id, [records.build_group_record(group, {})])
            return
        for member in list(group.members.values()):
            is_leader = group.leader == member.member_id
            group.pending_syncs.add(member.member_id)
            self.keep_alive(group, member)
            member.is_new = False
            member.answer_join(self._build_join_result(group, member.member_id, with_members=is_leader))
        generation = group.generation
        group.sync_timer = self.clock.call_later(
            group.rebalance_timeout_ms, lambda: self._expire_syncs(group, generation)
        )

    def sync(self, group: ClassicGroup, request: SyncRequest, reply: Callable[[SyncResult], None]) -> None:
        """Handle a SyncGroup: reply with the member's assignment when the leader has sent the assignments."""
        try:
            member = self._validate_sync(group, request)
        except RefusedError as error:
            reply(SyncResult(error.code))
            return
        self._finish_sync(group, member.member_id)
        if group.state is GroupState.STABLE:
            reply(_sync_result(group, member))
            return
        member.syncing = reply
        if group.leader == member.member_id:
            self._store_assignment(group, request.assignments)

    @staticmethod
    def _validate_sync(group: ClassicGroup, request: SyncRequest) -> ClassicMember:
        if group.is_empty:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.find_sender(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        sent_and_expected = (
            (request.protocol_type, group.protocol_type),
            (request.protocol_name, group.protocol_name),
        )
        if any(
            None not in sent_and_stored and sent_and_stored[0] != sent_and_stored[1]
            for sent_and_stored in sent_and_expected
        ):
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def _store_assignment(self, group: ClassicGroup, assignment_by_member: Mapping[str, bytes]) -> None:
        """Store the leader's assignment, and answer all waiting SyncGroup requests."""
        assignments = {member_id: assignment_by_member.get(member_id, b"") for member_id in group.members}
        try:
            self.write(group.group_id, [records.build_group_record(group, assignments)])
        except KafkaframesError:
            self._answer_syncs(group, ErrorCode.COORDINATOR_NOT_AVAILABLE)
            self._rebalance_or_complete(group)
            return
        for member_id, assignment in assignments.items():
            group.members[member_id].assignment = assignment
        group.transition_to(GroupState.STABLE, self.clock.now_ms)
        self._answer_syncs(group, ErrorCode.NONE)

    def _answer_syncs(self, group: ClassicGroup, error: ErrorCode) -> None:
        for member in list(group.members.values()):
            if error != ErrorCode.NONE:
                member.assignment = b""
            result = _sync_result(group, member) if error == ErrorCode.NONE else SyncResult(error)
            if member.answer_sync(result):
                self.keep_alive(group, member)

    def _finish_sync(self, group: ClassicGroup, member_id: str) -> None:
        """Record that a member has sent its SyncGroup. The last SyncGroup cancels the timer of the group."""
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            _cancel_timer(group.sync_timer)

    def _expire_syncs(self, group: ClassicGroup, generation: int) -> None:
        """After the rebalance timeout, remove members that joined and sent no SyncGroup."""
        if group.generation != generation or group.state not in _GENERATION_STATES or not group.pending_syncs:
            return
        for member_id in sorted(group.pending_syncs):
            group.remove_member(member_id)
        self._prepare_rebalance(group)

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Extend the session of a member of this generation. Return the error code of the response."""
        member = group.find_sender(member_id, instance_id)
        if generation != group.generation:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        if group.is_empty:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.keep_alive(group, member)
        is_rejoining = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_rejoining else ErrorCode.NONE

    def keep_alive(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Restart a member's session timeout."""
        self._restart_deadline(group, member, member.session_timeout_ms)

    def _restart_deadline(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int) -> None:
        member.stop_timer()
        member.deadline = self.clock.call_later(timeout_ms, lambda: self._expire_member(group, member))

    def _expire_member(self, group: ClassicGroup, member: ClassicMember) -> None:
        if group.members.get(member.member_id) is not member or member.satisfies_heartbeat:
            return
        self._remove_member(group, member)
        if group.state in _GENERATION_STATES:
            self._rebalance_or_complete(group)
        elif group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
            self._complete_join(group)

    def _expire_pending_id(self, group: ClassicGroup, member_id: str) -> None:
        if group.drop_pending_id(member_id) and group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
            self._complete_join(group)

    @staticmethod
    def _remove_member(group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member. A waiting JoinGroup is answered with UNKNOWN_MEMBER_ID, so that the client joins again."""
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        group.remove_member(member.member_id)

    def leave(self, group: ClassicGroup, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        """Remove members. Return an error code for each member."""
        codes = [self._remove_leaving_member(group, request) for request in leaving]
        if ErrorCode.NONE in codes:
            if group.state in _GENERATION_STATES:
                self._rebalance_or_complete(group)
            elif group.state is GroupState.PREPARING_REBALANCE:
                self._maybe_complete_join(group)
        return codes

    def _remove_leaving_member(self, group: ClassicGroup, request: LeavingMember) -> ErrorCode:
        if not request.member_id:
            member_id = group.static_members.get(request.instance_id) if request.instance_id is not None else None
            if member_id is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._remove_member(group, group.members[member_id])
        elif not group.drop_pending_id(request.member_id):
            try:
                self._remove_member(group, group.find_sender(request.member_id, request.instance_id))
            except RefusedError as error:
                return error.code
        return ErrorCode.NONE

    def start_converted_group(self, group: ClassicGroup) -> None:
        """Start a rebalance of a group that was converted from a consumer group."""
        self.start_member_timers(group)
        self._prepare_rebalance(group)

    def make_members_rejoin(self, group: ClassicGroup) -> None:
        """Make members with waiting requests rejoin, since the group is converted to a consumer group."""
        for member in list(group.members.values()):
            member.answer_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def start_member_timers(self, group: ClassicGroup) -> None:
        """Start the sessions of the members of a group that was loaded from the log."""
        for member in group.members.values():
            self.keep_alive(group, member)


def _sync_result(group: ClassicGroup, member: ClassicMember) -> SyncResult:
    return SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name)


def _cancel_timer(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
