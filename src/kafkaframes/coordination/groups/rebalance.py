"""The classic rebalance protocol: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what time does to a group.

A join phase collects JoinGroups until every member is there or the rebalance timeout is over; then all are answered
with the new generation, and the leader's SyncGroup brings the assignment to everybody. Answers that must wait are
callables, called once.

Facts: KIP-62 (rebalance timeout), KIP-134 (initial delay), KIP-345 (static members), KIP-394 (member id required),
KIP-814 (skip assignment); GroupMetadataManager.java.
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

_REBALANCED = (GroupState.STABLE, GroupState.COMPLETING_REBALANCE)


class Join(NamedTuple):
    """A JoinGroup request.

    Attributes:
        needs_member_id: version 4 and later: a new dynamic member gets an id first, and joins with it.
        may_skip_assignment: version 9 and later: a returning static leader is told to assign nothing.
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


class Sync(NamedTuple):
    """A SyncGroup request; protocol type and name since version 5."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    assignments: Mapping[str, bytes]
    protocol_type: str | None = None
    protocol_name: str | None = None


class Leaving(NamedTuple):
    """A member that leaves; without a member id, the static member of that name is removed."""

    member_id: str
    instance_id: str | None = None


@dataclass(slots=True)
class Rebalances:
    """The rebalance protocol on classic groups."""

    clock: Clock
    settings: GroupSettings
    write: Callable[[str, Sequence[Record]], None]
    new_id: Callable[[], str]

    def join(self, group: ClassicGroup, request: Join, reply: Callable[[JoinResult], None]) -> None:
        """Let a member join, or join again; ``reply`` is called when its generation begins, or at once if refused."""
        try:
            if not group.accepts(request.member_id, self.settings.max_size):
                group.remove(request.member_id)
                raise RefusedError(ErrorCode.GROUP_MAX_SIZE_REACHED)
            if not group.supports_protocols(request.protocol_type, request.protocols):
                raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
            if not request.member_id:
                self._join_new(group, request, reply)
            elif request.member_id not in group.pending_joins:
                self._join_again(group, request, reply)
            elif request.instance_id is not None:  # Kafka fails inside (-1), and does not tell the member's id
                reply(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
            else:
                self._add_and_rebalance(group, request, request.member_id, reply)
        except RefusedError as refused:
            member_id = "" if refused.code == ErrorCode.GROUP_MAX_SIZE_REACHED else request.member_id
            reply(JoinResult(refused.code, member_id))

    def _join_new(self, group: ClassicGroup, request: Join, reply: Callable[[JoinResult], None]) -> None:
        member_id = f"{request.instance_id or request.client_id}-{self.new_id()}"
        if request.instance_id is not None:
            known = group.static_members.get(request.instance_id)
            if known is not None:
                self._replace_static(group, request, known, member_id, reply)
                return
        elif request.needs_member_id:
            timer = self.clock.call_later(request.session_timeout_ms, lambda: self._expire_pending(group, member_id))
            group.pending_joins[member_id] = timer
            reply(JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id))
            return
        self._add_and_rebalance(group, request, member_id, reply)

    def _join_again(self, group: ClassicGroup, request: Join, reply: Callable[[JoinResult], None]) -> None:
        """Answer a known member: with the generation that it may have missed, or by a rebalance."""
        member = group.check_member(request.member_id, request.instance_id)
        is_leader = group.leader == member.member_id
        unchanged = member.protocols == request.protocols
        if group.state is GroupState.EMPTY:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        if group.state is GroupState.COMPLETING_REBALANCE and unchanged:
            reply(self._generation(group, member.member_id, with_members=is_leader))
        elif group.state is GroupState.STABLE and unchanged and not is_leader:
            reply(self._generation(group, member.member_id, with_members=False))
        else:
            self._update(group, member, request, reply)
            self._rebalance_or_complete(group)

    def _add_and_rebalance(
        self, group: ClassicGroup, request: Join, member_id: str, reply: Callable[[JoinResult], None]
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
        group.add(member)
        self._expect(group, member, self.settings.new_member_join_timeout_ms)
        self._rebalance_or_complete(group)

    def _replace_static(
        self, group: ClassicGroup, request: Join, old_id: str, new_id: str, reply: Callable[[JoinResult], None]
    ) -> None:
        """Let a static member come back; without a rebalance where nothing changes for the others (KIP-345)."""
        assert request.instance_id is not None
        old_leader = group.leader
        member = group.replace_static(request.instance_id, old_id, new_id)
        self.keep_alive(group, member)
        self._update(group, member, request, reply)
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._prepare(group)
        elif group.state is not GroupState.STABLE:
            self._maybe_complete(group)
        elif group.select_protocol() != group.protocol_name:
            self._rebalance_or_complete(group)
        else:
            assignments = {one.member_id: one.assignment for one in group.members.values()}
            self.write(group.group_id, [records.group_record(group, assignments)])
            skips = request.may_skip_assignment and group.leader == new_id
            answer = self._generation(group, new_id, with_members=skips)
            leader = group.leader if request.may_skip_assignment else old_leader
            member.answer_join(answer._replace(leader=leader or "", skip_assignment=skips))

    @staticmethod
    def _update(group: ClassicGroup, member: ClassicMember, request: Join, reply: Callable[[JoinResult], None]) -> None:
        member.protocols = request.protocols
        member.rebalance_timeout_ms = request.rebalance_timeout_ms
        member.session_timeout_ms = request.session_timeout_ms
        member.joining = reply

    @staticmethod
    def _generation(group: ClassicGroup, member_id: str, *, with_members: bool) -> JoinResult:
        return JoinResult(
            member_id=member_id,
            generation=group.generation,
            protocol_type=group.protocol_type,
            protocol_name=group.protocol_name,
            leader=group.leader or "",
            members=group.described() if with_members else (),
        )

    def _rebalance_or_complete(self, group: ClassicGroup) -> None:
        if group.can_rebalance:
            self._prepare(group)
        else:
            self._maybe_complete(group)

    def _prepare(self, group: ClassicGroup) -> None:
        """Begin a join phase; a group that was empty waits for more members first."""
        if group.state is GroupState.COMPLETING_REBALANCE:
            self._answer_syncs(group, ErrorCode.REBALANCE_IN_PROGRESS)
        group.pending_syncs.clear()
        _cancel(group.sync_timer)
        is_initial = group.state is GroupState.EMPTY
        if is_initial:
            delay_ms = self.settings.initial_rebalance_delay_ms
            self._wait_for_more(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0))
        group.transition_to(GroupState.PREPARING_REBALANCE, self.clock.now_ms)
        if is_initial:
            return
        if group.has_all_joined:
            self._complete(group)
        else:
            self._wait_for_joins(group)

    def _wait_for_more(self, group: ClassicGroup, delay_ms: int, remaining_ms: int) -> None:
        """Wait ``delay_ms`` for members of a new group; again while some come, within ``remaining_ms`` (KIP-134)."""

        def over() -> None:
            if group.new_member_added and remaining_ms:
                group.new_member_added = False
                again_ms = min(self.settings.initial_rebalance_delay_ms, remaining_ms)
                self._wait_for_more(group, again_ms, max(remaining_ms - delay_ms, 0))
            else:
                self._complete(group)

        _cancel(group.join_timer)
        group.join_timer = self.clock.call_later(delay_ms, over)

    def _wait_for_joins(self, group: ClassicGroup) -> None:
        _cancel(group.join_timer)
        group.join_timer = self.clock.call_later(group.rebalance_timeout_ms, lambda: self._complete(group))

    def _maybe_complete(self, group: ClassicGroup) -> None:
        """End the join phase if everybody is there; an initial delay is waited for."""
        preparing = group.state is GroupState.PREPARING_REBALANCE
        if preparing and group.previous_state is not GroupState.EMPTY and group.has_all_joined:
            self._complete(group)

    def _complete(self, group: ClassicGroup) -> None:
        """End the join phase: who did not join is out, unless static; the others get the next generation."""
        _cancel(group.join_timer)
        for member in [
            member for member in group.members.values() if member.joining is None and member.instance_id is None
        ]:
            group.remove(member.member_id)
        if not group.elect_joined_leader() and group.members:
            self._wait_for_joins(group)  # only silent static members are left: their sessions decide
            return
        group.next_generation(self.clock.now_ms)
        if group.is_empty:
            with suppress(KafkaframesError):  # the old generation would come back after a restart, and time out
                self.write(group.group_id, [records.group_record(group, {})])
            return
        for member in list(group.members.values()):
            leads = group.leader == member.member_id
            group.pending_syncs.add(member.member_id)
            self.keep_alive(group, member)
            member.is_new = False
            member.answer_join(self._generation(group, member.member_id, with_members=leads))
        generation = group.generation
        group.sync_timer = self.clock.call_later(
            group.rebalance_timeout_ms, lambda: self._expire_syncs(group, generation)
        )

    def sync(self, group: ClassicGroup, request: Sync, reply: Callable[[SyncResult], None]) -> None:
        """Answer with the member's assignment, once the leader's SyncGroup has brought it."""
        try:
            member = self._checked_sync(group, request)
        except RefusedError as refused:
            reply(SyncResult(refused.code))
            return
        self._synced(group, member.member_id)
        if group.state is GroupState.STABLE:
            reply(_assigned(group, member))
            return
        member.syncing = reply
        if group.leader == member.member_id:
            self._assign(group, request.assignments)

    @staticmethod
    def _checked_sync(group: ClassicGroup, request: Sync) -> ClassicMember:
        if group.is_empty:
            raise RefusedError(ErrorCode.UNKNOWN_MEMBER_ID)
        member = group.check_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        said = (request.protocol_type, group.protocol_type), (request.protocol_name, group.protocol_name)
        if any(requested is not None and known is not None and requested != known for requested, known in said):
            raise RefusedError(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
        if group.state is GroupState.PREPARING_REBALANCE:
            raise RefusedError(ErrorCode.REBALANCE_IN_PROGRESS)
        return member

    def _assign(self, group: ClassicGroup, assigned: Mapping[str, bytes]) -> None:
        """Store what the leader assigned, and answer everybody who waits for it."""
        assignments = {member_id: assigned.get(member_id, b"") for member_id in group.members}
        try:
            self.write(group.group_id, [records.group_record(group, assignments)])
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
            result = _assigned(group, member) if error == ErrorCode.NONE else SyncResult(error)
            if member.answer_sync(result):
                self.keep_alive(group, member)

    def _synced(self, group: ClassicGroup, member_id: str) -> None:
        group.pending_syncs.discard(member_id)
        if not group.pending_syncs:
            _cancel(group.sync_timer)

    def _expire_syncs(self, group: ClassicGroup, generation: int) -> None:
        """Remove who joined and never synced: the rebalance timeout is over."""
        if group.generation != generation or group.state not in _REBALANCED or not group.pending_syncs:
            return
        for member_id in sorted(group.pending_syncs):
            group.remove(member_id)
        self._prepare(group)

    def heartbeat(self, group: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Keep a member of this generation alive; return the error code that it gets."""
        member = group.check_member(member_id, instance_id)
        if generation != group.generation:
            raise RefusedError(ErrorCode.ILLEGAL_GENERATION)
        if group.is_empty:
            return ErrorCode.UNKNOWN_MEMBER_ID
        self.keep_alive(group, member)
        is_rejoining = group.state is GroupState.PREPARING_REBALANCE
        return ErrorCode.REBALANCE_IN_PROGRESS if is_rejoining else ErrorCode.NONE

    def keep_alive(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Begin a member's session timeout anew."""
        self._expect(group, member, member.session_timeout_ms)

    def _expect(self, group: ClassicGroup, member: ClassicMember, timeout_ms: int) -> None:
        member.stop_timer()
        member.deadline = self.clock.call_later(timeout_ms, lambda: self._expire_member(group, member))

    def _expire_member(self, group: ClassicGroup, member: ClassicMember) -> None:
        if group.members.get(member.member_id) is not member or member.satisfies_heartbeat:
            return
        self._remove_member(group, member)
        if group.state in _REBALANCED:
            self._rebalance_or_complete(group)
        elif group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
            self._complete(group)

    def _expire_pending(self, group: ClassicGroup, member_id: str) -> None:
        if group.drop_pending(member_id) and group.state is GroupState.PREPARING_REBALANCE and group.has_all_joined:
            self._complete(group)

    @staticmethod
    def _remove_member(group: ClassicGroup, member: ClassicMember) -> None:
        """Remove a member; a JoinGroup of it that waits for its answer is answered UNKNOWN_MEMBER_ID: join anew."""
        member.answer_join(JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, ""))
        group.remove(member.member_id)

    def leave(self, group: ClassicGroup, leaving: Sequence[Leaving]) -> list[ErrorCode]:
        """Remove members; return an error code for each."""
        codes = [self._leave_one(group, one) for one in leaving]
        if ErrorCode.NONE in codes:
            if group.state in _REBALANCED:
                self._rebalance_or_complete(group)
            elif group.state is GroupState.PREPARING_REBALANCE:
                self._maybe_complete(group)
        return codes

    def _leave_one(self, group: ClassicGroup, request: Leaving) -> ErrorCode:
        if not request.member_id:
            known = group.static_members.get(request.instance_id) if request.instance_id is not None else None
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            self._remove_member(group, group.members[known])
        elif not group.drop_pending(request.member_id):
            try:
                self._remove_member(group, group.check_member(request.member_id, request.instance_id))
            except RefusedError as refused:
                return refused.code
        return ErrorCode.NONE

    def take_over(self, group: ClassicGroup) -> None:
        """Begin a rebalance of a group that was a consumer group until now."""
        self.revive(group)
        self._prepare(group)

    def give_up(self, group: ClassicGroup) -> None:
        """Tell who waits for an answer to join again: the group becomes a consumer group."""
        for member in list(group.members.values()):
            member.answer_join(JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
            member.answer_sync(SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))

    def revive(self, group: ClassicGroup) -> None:
        """Expect the members of a group that was read from the log to be heard of."""
        for member in group.members.values():
            self.keep_alive(group, member)


def _assigned(group: ClassicGroup, member: ClassicMember) -> SyncResult:
    return SyncResult(ErrorCode.NONE, member.assignment, group.protocol_type, group.protocol_name)


def _cancel(timer: Timer | None) -> None:
    if timer is not None:
        timer.cancel()
