"""A group coordinator without a broker, with a manually advanced clock and a log in memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Any, NamedTuple
from uuid import UUID

from kafkaframes.broker.state.clock import Clock
from kafkaframes.coordination.groups.classic import JoinResult, SyncResult
from kafkaframes.coordination.groups.coordinator import GroupCoordinator
from kafkaframes.coordination.groups.ports import GroupSettings
from kafkaframes.coordination.groups.rebalance import JoinRequest, SyncRequest
from kafkaframes.errors import StorageError

SUBSCRIPTION = bytes.fromhex("0000 00000001 0006") + b"orders" + bytes.fromhex("ffffffff")


class Loaded(NamedTuple):
    """One record of the log."""

    partition: int
    key: bytes | None
    value: bytes | None
    producer_id: int = -1
    is_transactional: bool = False
    is_marker: bool = False
    is_commit: bool = False


@dataclass
class ListLog:
    """A log in memory. While ``is_broken`` is set, appends fail."""

    partitions: int = 50
    rows: list[Loaded] = field(default_factory=list)
    is_broken: bool = False

    def append(
        self,
        partition: int,
        records: Sequence[tuple[bytes, bytes | None]],
        *,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> None:
        if self.is_broken:
            raise StorageError("the disk is full")
        self.rows += [Loaded(partition, key, value, producer_id, producer_id >= 0) for key, value in records]


# Settings that a group can override; the assignment intervals are Kafka's 1000 ms.
GROUP_SETTINGS = {
    "consumer.assignment.interval.ms": 0,
    "consumer.heartbeat.interval.ms": 5_000,
    "consumer.session.timeout.ms": 45_000,
    "share.assignment.interval.ms": 0,
    "share.heartbeat.interval.ms": 5_000,
    "share.session.timeout.ms": 45_000,
    "streams.assignment.interval.ms": 1_000,
    "streams.heartbeat.interval.ms": 5_000,
    "streams.initial.rebalance.delay.ms": 0,
    "streams.num.standby.replicas": 0,
    "streams.session.timeout.ms": 45_000,
}


@dataclass
class NamedTopics:
    """Topics by name, each with its id and number of partitions."""

    topics_by_name: dict[str, tuple[UUID, int]] = field(default_factory=dict)

    def add(self, name: str, count: int) -> UUID:
        self.topics_by_name[name] = (
            self.topics_by_name[name][0] if name in self.topics_by_name else UUID(int=len(self.topics_by_name) + 1),
            count,
        )
        return self.topics_by_name[name][0]

    @property
    def version(self) -> int:
        return hash(tuple(self.topics_by_name.items()))

    def names(self) -> list[str]:
        return list(self.topics_by_name)

    def find(self, name: str) -> tuple[UUID, int] | None:
        return self.topics_by_name.get(name)


def frozen_clock() -> Clock:
    return Clock(source=lambda: 1_000_000, is_frozen=True)


@dataclass
class GroupBench:
    """A coordinator, and methods that send requests to it."""

    settings: GroupSettings = field(default_factory=GroupSettings)
    clock: Clock = field(default_factory=frozen_clock)
    log: ListLog = field(default_factory=ListLog)
    topics: NamedTopics = field(default_factory=NamedTopics)
    coordinator: GroupCoordinator = field(init=False)
    ids: Any = field(default_factory=count)
    resolves_at_once: bool = True  # patterns are resolved within the heartbeat, unlike in Kafka

    def __post_init__(self) -> None:
        self.coordinator = self.new_coordinator()

    def new_coordinator(self) -> GroupCoordinator:
        def new_id() -> str:
            return f"uuid{next(self.ids)}"

        coordinator = GroupCoordinator(
            self.clock, self.log, self.settings, new_id, self.topics, new_id, lambda _, name: GROUP_SETTINGS[name]
        )
        if self.resolves_at_once:
            coordinator.consumer.patterns.run_in_thread = lambda work, finish: (work(), finish())
        return coordinator

    def restart(self) -> None:
        """Load the coordinator from the log again."""
        self.coordinator = self.new_coordinator()
        self.coordinator.load(list(self.log.rows))

    def group(self, name: str = "g") -> Any:
        return self.coordinator.groups[name]

    def join(self, member_id: str = "", **changes: Any) -> list[JoinResult]:
        """Send a JoinGroup; return a list to which its answer will be appended."""
        answers: list[JoinResult] = []
        request = JoinRequest(
            group_id="g",
            member_id=member_id,
            instance_id=None,
            client_id="c",
            client_host="/127.0.0.1",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=60_000,
            protocol_type="consumer",
            protocols=(("range", SUBSCRIPTION),),
        )
        self.coordinator.join(request._replace(**changes), answers.append)
        return answers

    def sync(
        self, join_answer: JoinResult, assignments: dict[str, bytes] | None = None, **changes: Any
    ) -> list[SyncResult]:
        """Send a SyncGroup; return a list to which its answer will be appended."""
        answers: list[SyncResult] = []
        request = SyncRequest("g", join_answer.generation, join_answer.member_id, None, assignments or {})
        self.coordinator.sync(request._replace(**changes), answers.append)
        return answers

    def new_id(self, **changes: Any) -> str:
        """Return the member id that a new dynamic member receives."""
        return self.join(**changes)[0].member_id

    def member(self, **changes: Any) -> JoinResult:
        """Add a member, and let all members sync. Return the new member's JoinGroup response."""
        current_members = list(self.coordinator.groups["g"].members.values()) if "g" in self.coordinator.groups else []
        member_id = "" if changes.get("instance_id") else self.new_id(**changes)
        join_answers = self.join(member_id, **changes)
        again = [
            self.join(member.member_id, instance_id=member.instance_id, protocols=member.protocols)
            for member in current_members
        ]
        self.clock.run_due()
        assignments = {member: member.encode() for member in self.group().members}
        for result in (*(drain(answers) for answers in again), drain(join_answers)):
            self.sync(result, assignments if result.leader == result.member_id else None)
        return drain(join_answers)


def drain(results: Sequence[Any]) -> Any:
    """Return the only response in a list, and clear the list."""
    (result,) = results
    return result


Reply = Callable[[Any], None]
