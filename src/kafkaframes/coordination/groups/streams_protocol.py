"""StreamsGroupHeartbeat (KIP-1071): members join, stay in and leave a streams group, as in Kafka 4.3.

Parts of the KIP that Kafka 4.3 does not implement are not implemented here either: static members, patterns for source
topics, warm-up tasks, and a change to a group's topology. A response lists missing internal topics, and the caller
creates them.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from kafkaframes.coordination.groups.consumer import LEAVE, LEAVE_STATIC
from kafkaframes.coordination.groups.group_protocol import GroupProtocol, hash_topics, reject_invalid_request
from kafkaframes.coordination.groups.members import MemberState
from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.streams import (
    NO_TASKS,
    ConfiguredTopology,
    InternalTopic,
    StatusCode,
    StreamsGroup,
    StreamsMember,
    Tasks,
    Topology,
    TopologyStatus,
    configure_topology,
)
from kafkaframes.coordination.groups.streams_assignor import assign_sticky
from kafkaframes.coordination.groups.streams_records import streams_records as rows
from kafkaframes.errors import ErrorCode, RefusedError

_NO_VALUE = -1  # Kafka's number for a field that is not set
_STANDBY_SETTING: Final = "num.standby.replicas"


class StreamsHeartbeatRequest(NamedTuple):
    """A StreamsGroupHeartbeat request. A field is None if it has not changed since the last heartbeat.

    Attributes:
        epoch: the member's epoch; 0 to join, -1 to leave.
        endpoint_epoch: epoch of the endpoints that the member has received.
        owned_tasks: active, standby and warm-up tasks of the member; None for each list that the request omits.
        has_regex: whether a source topic is a pattern.
    """

    group_id: str
    member_id: str
    epoch: int
    endpoint_epoch: int = 0
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = _NO_VALUE
    topology: Topology | None = None
    has_regex: bool = False
    owned_tasks: tuple[Tasks | None, Tasks | None, Tasks | None] = (None, None, None)
    process_id: str | None = None
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] | None = None
    shuts_down: bool = False
    client_id: str = ""
    client_host: str = ""

    @property
    def all_owned_tasks(self) -> Tasks | None:
        """Every task of the member; None if the request omits them."""
        active, standby, warmup = self.owned_tasks
        if active is None or standby is None or warmup is None:
            return None
        return active | standby | warmup


class StreamsHeartbeatResult(NamedTuple):
    """The result of a heartbeat.

    Attributes:
        tasks: the member's tasks; None if they have not changed.
        endpoint_epoch: current endpoint epoch of the group, which the member repeats in its next heartbeats.
        sends_endpoints: whether the response contains endpoints, because the member's endpoint epoch is out of date.
        missing: internal topics to create.
    """

    member_id: str
    epoch: int
    interval_ms: int = 0
    tasks: Tasks | None = None
    statuses: tuple[TopologyStatus, ...] = ()
    endpoint_epoch: int = 0
    sends_endpoints: bool = False
    missing: tuple[InternalTopic, ...] = ()


def check_request(request: StreamsHeartbeatRequest) -> None:
    """Reject a request with contradictory fields with INVALID_REQUEST, before its topology is checked."""
    is_joining = request.epoch == 0
    active, standby, warmup = request.owned_tasks
    checks = (
        (not request.member_id.strip(), "MemberId can't be empty."),
        (not request.group_id.strip(), "GroupId can't be empty."),
        (request.instance_id is not None, "Static membership is not yet supported."),
        (request.rack_id == "", "RackId can't be empty."),
        (request.epoch == LEAVE_STATIC, "InstanceId can't be null."),
        (request.epoch < LEAVE_STATIC, f"MemberEpoch is {request.epoch}, but must be greater than or equal to -2."),
        (bool(warmup), "WarmupTasks are not supported yet."),
        (
            is_joining and request.rebalance_timeout_ms == _NO_VALUE,
            "RebalanceTimeoutMs must be provided in first request.",
        ),
        (is_joining and request.topology is None, "Topology must be non-null when (re-)joining."),
        (is_joining and (active is None or bool(active)), "ActiveTasks must be empty when (re-)joining."),
        (is_joining and (standby is None or bool(standby)), "StandbyTasks must be empty when (re-)joining."),
        (is_joining and warmup is None, "WarmupTasks must be empty when (re-)joining."),
        (not is_joining and request.topology is not None, "Topology can only be provided when (re-)joining."),
        (request.has_regex, "Regular expressions for source topics are not supported yet."),
    )
    reject_invalid_request(checks)


@dataclass(slots=True)
class _StreamsChanges:
    """The changes that a heartbeat makes, before they are applied."""

    member: StreamsMember
    old: StreamsMember | None
    topology: Topology
    configured_topology: ConfiguredTopology
    records: list[Record]
    epoch: int
    metadata_hash: int
    configs: tuple[tuple[str, str], ...]
    targets: dict[str, Tasks]
    is_assigned: bool = False
    delay: TopologyStatus | None = None


@dataclass
class StreamsGroupProtocol(GroupProtocol[StreamsGroup, StreamsMember]):
    """The heartbeat protocol of streams groups."""

    records = rows

    def heartbeat(self, group: StreamsGroup, request: StreamsHeartbeatRequest) -> StreamsHeartbeatResult:
        """Handle a heartbeat from a member that joins the group or remains in it.

        Args:
            group: the group. The caller registers a new group after this method returns.
        """
        plan = self._make_plan(group, request)
        self._plan_targets(group, plan)
        reconciled_member = self._reconcile(group, plan, request)
        if reconciled_member is not plan.member or plan.old is None:
            plan.records.append(rows.build_current_record(group.group_id, reconciled_member))
        if plan.records:
            self.write(group.group_id, plan.records)
        self._apply_plan(group, plan, reconciled_member, request)
        sends_tasks = request.epoch == 0 or plan.old is None or reconciled_member.assignment != plan.old.assignment
        if sends_tasks and reconciled_member.user_endpoint is not None:
            group.endpoint_epoch += 1
        return StreamsHeartbeatResult(
            reconciled_member.member_id,
            reconciled_member.epoch,
            self.get_group_setting(group, "heartbeat.interval.ms"),
            reconciled_member.assignment if sends_tasks else None,
            self._list_statuses(group, plan),
            group.endpoint_epoch,
            request.endpoint_epoch != group.endpoint_epoch,
            plan.configured_topology.missing,
        )

    def _make_plan(self, group: StreamsGroup, request: StreamsHeartbeatRequest) -> _StreamsChanges:
        """Plan the changes to the member, the topology and the group epoch."""
        old_member = self._find_sender(group, request)
        topology = _choose_topology(group, request)
        member = _apply_request(old_member or StreamsMember(request.member_id), request, topology)
        records: list[Record] = []
        if old_member is None or not member.has_same_subscription(old_member):
            records.append(rows.build_member_record(group.group_id, member))
        if group.topology is None:
            records.append(rows.build_topology_record(group.group_id, topology))
        configured_topology, metadata_hash = self._configure_topology(group, topology)
        configs = ((_STANDBY_SETTING, str(self.get_group_setting(group, _STANDBY_SETTING))),)
        is_changed = old_member is None or not member.has_same_needs(old_member) or metadata_hash != group.metadata_hash
        is_changed |= group.assignment_configs is not None and configs != group.assignment_configs
        epoch = group.epoch + is_changed
        if is_changed:
            validated_epoch = topology.epoch if configured_topology.status is None else _NO_VALUE
            epoch_record = rows.build_streams_epoch_record(
                group.group_id, epoch, metadata_hash, validated_epoch, configs
            )
            records.append(epoch_record)
        return _StreamsChanges(
            member, old_member, topology, configured_topology, records, epoch, metadata_hash, configs, group.targets
        )

    def _find_sender(self, group: StreamsGroup, request: StreamsHeartbeatRequest) -> StreamsMember | None:
        """Return the member that sent a heartbeat; None for a new member."""
        if request.epoch == 0:
            return self.find_member(group, request.member_id, self.settings.streams_max_size)
        member = group.find_member(request.member_id)
        member.check_epoch(request.epoch, request.all_owned_tasks, group_type="streams")
        return member

    def _configure_topology(self, group: StreamsGroup, topology: Topology) -> tuple[ConfiguredTopology, int]:
        """Compare a topology with the broker's topics.

        Return the result and its hash, both cached until a topic changes.
        """
        if group.configured_topology is not None and group.topics_version == self.topics.version:
            return group.configured_topology, group.metadata_hash

        def count_partitions(name: str) -> int | None:
            topic = self.topics.find(name)
            return None if topic is None else topic[1]

        return configure_topology(topology, count_partitions), hash_topics(self.topics, topology.topics)

    def _plan_targets(self, group: StreamsGroup, plan: _StreamsChanges) -> None:
        """Compute a new assignment if the epoch has grown, unless the initial delay or the interval has not passed."""
        if plan.epoch <= group.assignment_epoch:
            return
        monotonic_ms, group_id = self.clock.monotonic_ms, group.group_id
        if not group.members and group.assignment_time_ms is None:
            group.delayed_until_ms = monotonic_ms + self.get_group_setting(group, "initial.rebalance.delay.ms")
        if group.delayed_until_ms is not None and monotonic_ms < group.delayed_until_ms:
            plan.delay = _delay("initial rebalance delay")
            return
        if not self.may_assign(group):
            plan.delay = _delay("assignment interval")
            return
        members = {**group.members, plan.member.member_id: plan.member}
        plan.is_assigned = True
        plan.targets = assign_sticky(
            {key: member.process_id for key, member in members.items()},
            group.targets,
            plan.configured_topology.tasks,
            stateful=plan.topology.stateful_ids,
            standby_count=int(plan.configs[0][1]),
        )
        changed_ids = [key for key, target in plan.targets.items() if group.targets.get(key) != target]
        plan.records += [rows.build_target_record(group_id, key, plan.targets[key]) for key in changed_ids]
        plan.records.append(rows.build_target_epoch_record(group_id, plan.epoch, self.clock.now_ms))

    @staticmethod
    def _reconcile(group: StreamsGroup, plan: _StreamsChanges, request: StreamsHeartbeatRequest) -> StreamsMember:
        """Move the member one step towards its target assignment."""
        target_epoch = plan.epoch if plan.is_assigned else group.assignment_epoch
        member = plan.member
        if member.state is MemberState.STABLE and member.epoch == target_epoch:
            return member
        target = plan.targets.get(member.member_id, NO_TASKS)
        return member.reconcile(
            target, target_epoch, request.all_owned_tasks, group.create_blocked_check(member.process_id)
        )

    def _apply_plan(
        self, group: StreamsGroup, plan: _StreamsChanges, member: StreamsMember, request: StreamsHeartbeatRequest
    ) -> None:
        group.update_member(member)
        group.topology, group.configured_topology, group.topics_version = (
            plan.topology,
            plan.configured_topology,
            self.topics.version,
        )
        group.epoch, group.metadata_hash, group.assignment_configs = plan.epoch, plan.metadata_hash, plan.configs
        if plan.is_assigned:
            group.targets, group.assignment_epoch = plan.targets, plan.epoch
            group.assignment_time_ms = self.clock.monotonic_ms
        if request.shuts_down:
            group.shutdown_by = member.member_id
        self.restart_timers(group, member)

    @staticmethod
    def _list_statuses(group: StreamsGroup, plan: _StreamsChanges) -> tuple[TopologyStatus, ...]:
        shutdown = None
        if group.shutdown_by:
            detail = (
                f"Streams group member {group.shutdown_by} encountered a fatal error and requested a shutdown for the"
                " entire application."
            )
            shutdown = TopologyStatus(StatusCode.SHUTDOWN_APPLICATION, detail)
        return tuple(status for status in (plan.delay, plan.configured_topology.status, shutdown) if status is not None)

    def leave(self, group: StreamsGroup, member_id: str) -> StreamsHeartbeatResult:
        """Remove a member that leaves."""
        group.find_member(member_id)
        self.fence_members(group, member_id)
        return StreamsHeartbeatResult(member_id, LEAVE)

    def start_member_timers(self, group: StreamsGroup) -> None:
        """Start the session timeouts of a group that was loaded from the log."""
        if group.topology is not None:
            with suppress(RefusedError):  # the topics have changed: each heartbeat reports the error
                group.configured_topology, _ = self._configure_topology(group, group.topology)
                group.topics_version = self.topics.version
        super().start_member_timers(group)


def _choose_topology(group: StreamsGroup, request: StreamsHeartbeatRequest) -> Topology:
    if request.topology is not None and group.topology not in (None, request.topology):
        raise RefusedError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")
    topology = group.topology or request.topology
    if topology is None:  # the log has no record of the topology
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR)
    return topology


def _delay(why: str) -> TopologyStatus:
    return TopologyStatus(StatusCode.ASSIGNMENT_DELAYED, f"Assignment delayed due to the configured {why}.")


def _apply_request(member: StreamsMember, request: StreamsHeartbeatRequest, topology: Topology) -> StreamsMember:
    """Return a copy of the member with the changes of a heartbeat."""
    changes: dict[str, Any] = {
        "rack_id": request.rack_id,
        "rebalance_timeout_ms": None if request.rebalance_timeout_ms == _NO_VALUE else request.rebalance_timeout_ms,
        "process_id": request.process_id,
        "user_endpoint": request.user_endpoint,
        "client_tags": request.client_tags,
        "client_id": request.client_id,
        "client_host": request.client_host,
        "topology_epoch": None if request.topology is None else topology.epoch,
    }
    return replace(member, **{name: value for name, value in changes.items() if value is not None})
