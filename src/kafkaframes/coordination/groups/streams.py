"""A streams group (KIP-1071): its topology, tasks, members and target assignment.

A subtopology has one task for each partition of its source topics. Repartition and changelog topics are internal topics
of the group. The partition counts of internal topics are derived from the source topics (InternalTopicManager.java).
This module reads no clock and decodes no requests.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import ClassVar, Final, NamedTuple

from kafkaframes.coordination.groups.members import EpochGroup, GroupMember
from kafkaframes.errors import ErrorCode, OptionError, RefusedError
from kafkaframes.storage.files.names import check_topic_name

CountOf = Callable[[str], int | None]  # topic name -> number of partitions; None if the topic does not exist
_MAX_LISTED_TOPICS = 3  # largest number of missing topics in a status text


class StatusCode(IntEnum):
    """Conditions of the group that a heartbeat response reports besides its error code."""

    STALE_TOPOLOGY = 0
    MISSING_SOURCE_TOPICS = 1
    INCORRECTLY_PARTITIONED_TOPICS = 2
    MISSING_INTERNAL_TOPICS = 3
    SHUTDOWN_APPLICATION = 4
    ASSIGNMENT_DELAYED = 5


class TopologyStatus(NamedTuple):
    """A status code with its text."""

    code: StatusCode
    detail: str


class InternalTopic(NamedTuple):
    """A repartition or changelog topic; 0 partitions or replicas if the topology does not specify them."""

    name: str
    partitions: int = 0
    replication_factor: int = 0
    configs: tuple[tuple[str, str], ...] = ()


class Subtopology(NamedTuple):
    """A part of a topology that is connected to the other parts by topics only.

    The topic names of a subtopology are sorted.

    Attributes:
        sinks: repartition topics that the subtopology writes.
        repartition_topics: repartition topics that the subtopology reads.
        copartition_groups: for each group, the source topics and the repartition topics with equal partition counts.
    """

    subtopology_id: str
    source_topics: tuple[str, ...] = ()
    sinks: tuple[str, ...] = ()
    repartition_topics: tuple[InternalTopic, ...] = ()
    changelog_topics: tuple[InternalTopic, ...] = ()
    copartition_groups: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()

    @property
    def inputs(self) -> tuple[str, ...]:
        """Every topic that the subtopology reads."""
        return (*self.source_topics, *(topic.name for topic in self.repartition_topics))


class Topology(NamedTuple):
    """The topology that a group's members run, with its subtopologies sorted by id."""

    epoch: int
    subtopologies: tuple[Subtopology, ...] = ()

    @property
    def inputs(self) -> frozenset[str]:
        """Every topic that the topology reads."""
        return frozenset(name for subtopology in self.subtopologies for name in subtopology.inputs)

    @property
    def topics(self) -> frozenset[str]:
        """Every topic that must exist, internal topics included."""
        return self.inputs.union(
            topic.name for subtopology in self.subtopologies for topic in subtopology.changelog_topics
        )

    @property
    def stateful_ids(self) -> frozenset[str]:
        """The ids of the subtopologies that have changelogs."""
        return frozenset(
            subtopology.subtopology_id for subtopology in self.subtopologies if subtopology.changelog_topics
        )


@dataclass(frozen=True, slots=True)
class ConfiguredTopology:
    """A topology after a comparison with the broker's topics.

    Attributes:
        tasks: number of tasks of each subtopology; empty while the topology is not ready.
        counts: number of partitions of each internal topic, existing or to be created.
        missing: internal topics to create.
        status: reason why the topology is not ready; None if it is ready.
    """

    tasks: Mapping[str, int] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    missing: tuple[InternalTopic, ...] = ()
    status: TopologyStatus | None = None


class _TopicsNotReadyError(Exception):
    """Raised if topics of a topology are missing, or their partition counts differ."""

    def __init__(self, code: StatusCode, detail: str) -> None:
        super().__init__(detail)
        self.status = TopologyStatus(code, detail)


def check_topics(names: Collection[str], is_internal: Callable[[str], bool]) -> None:
    """Reject invalid topic names and Kafka's own internal topics in a topology, before any other check of a heartbeat.

    Raises:
        RefusedError: STREAMS_INVALID_TOPOLOGY.
    """
    internal = [name for name in sorted(names) if is_internal(name)]
    if internal:
        reason = f"Use of Kafka internal topics {','.join(internal)} in a Kafka Streams topology is prohibited."
        raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)
    invalid = [name for name in sorted(names) if not _is_topic_name(name)]
    if invalid:
        reason = f"Topic names {','.join(invalid)} are not valid topic names."
        raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)


def check_topology(topology: Topology) -> None:
    """Reject an invalid topology.

    Raises:
        RefusedError: STREAMS_INVALID_TOPOLOGY, or UNKNOWN_SERVER_ERROR where Kafka returns this error.
    """
    for topic in (topic for subtopology in topology.subtopologies for topic in subtopology.changelog_topics):
        if topic.partitions != 0:
            reason = f"Changelog topic {topic.name} must have an undefined partition count, but it is set to"
            reason += f" {topic.partitions}."
            raise RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)
    ids = [subtopology.subtopology_id for subtopology in topology.subtopologies]
    if topology.epoch < 0 or len(set(ids)) < len(ids):
        raise RefusedError(ErrorCode.UNKNOWN_SERVER_ERROR)


def _is_topic_name(name: str) -> bool:
    try:
        check_topic_name(name)
    except OptionError:
        return False
    return True


def configure_topology(topology: Topology, count_partitions: CountOf) -> ConfiguredTopology:
    """Return the tasks of a topology, or why it is not ready.

    Raise STREAMS_INVALID_TOPOLOGY if the topology is invalid.
    """
    missing = sorted(
        name
        for subtopology in topology.subtopologies
        for name in subtopology.source_topics
        if count_partitions(name) is None
    )
    if missing:
        detail = f"Source topics {', '.join(dict.fromkeys(missing))} are missing."
        return ConfiguredTopology(status=TopologyStatus(StatusCode.MISSING_SOURCE_TOPICS, detail))
    counts = {
        name: count_partitions(name) or 0
        for subtopology in topology.subtopologies
        for name in subtopology.source_topics
    }
    try:
        counts = _compute_repartition_counts(topology, counts)
        for subtopology in topology.subtopologies:
            for sources, repartition in subtopology.copartition_groups:
                _assign_copartition_counts(subtopology, counts, sources, repartition)
    except _TopicsNotReadyError as error:
        return ConfiguredTopology(status=error.status)
    tasks = {
        subtopology.subtopology_id: max((counts[name] for name in subtopology.inputs), default=0)
        for subtopology in topology.subtopologies
    }
    internal = [
        topic._replace(partitions=counts[topic.name])
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_topics
    ]
    internal += [
        topic._replace(partitions=tasks[subtopology.subtopology_id])
        for subtopology in topology.subtopologies
        for topic in subtopology.changelog_topics
    ]
    return _compare_topics(internal, tasks, count_partitions)


def _compare_topics(
    internal: list[InternalTopic], tasks: Mapping[str, int], count_partitions: CountOf
) -> ConfiguredTopology:
    """Compare the internal topics with the topics that exist."""
    missing_names = []
    for topic in internal:
        count = count_partitions(topic.name)
        if count is None:
            missing_names.append(topic)
        elif count != topic.partitions:
            detail = f"Existing topic {topic.name} has different number of partitions: expected {topic.partitions}"
            detail += f", found {count}"
            return ConfiguredTopology(status=TopologyStatus(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail))
    counts = {topic.name: topic.partitions for topic in internal}
    if not missing_names:
        return ConfiguredTopology(tasks, counts)
    names = ", ".join(topic.name for topic in missing_names[:_MAX_LISTED_TOPICS])
    further_count = (
        f" and {len(missing_names) - _MAX_LISTED_TOPICS} additional topics"
        if len(missing_names) > _MAX_LISTED_TOPICS
        else ""
    )
    status = TopologyStatus(StatusCode.MISSING_INTERNAL_TOPICS, f"Internal topics are missing: {names}{further_count}")
    return ConfiguredTopology(counts=counts, missing=tuple(missing_names), status=status)


def _compute_repartition_counts(topology: Topology, sources: Mapping[str, int]) -> dict[str, int]:
    """Return the number of partitions of each repartition topic.

    A topic has its declared number of partitions, or as many partitions as the largest input of the subtopologies that
    write to the topic. As in Kafka, the partition counts are computed in the order of the topics. A repartition topic
    that is computed later does not count as an input.
    """
    declared_counts = {
        topic.name: topic.partitions
        for subtopology in topology.subtopologies
        for topic in subtopology.repartition_topics
    }
    partition_counts = {**sources, **{name: count for name, count in declared_counts.items() if count > 0}}
    writers = {
        name: [subtopology for subtopology in topology.subtopologies if name in subtopology.sinks]
        for name in declared_counts
        if name not in partition_counts
    }
    if not all(writers.values()):
        raise _create_repartition_error(", because a repartition source topic is never used as a sink topic.")
    while writers:
        previous_counts = len(writers)
        for name in list(writers):
            inputs = [
                partition_counts[read_counts]
                for subtopology in writers[name]
                for read_counts in subtopology.inputs
                if read_counts in partition_counts
            ]
            if inputs:
                partition_counts[name] = max(inputs)
                del writers[name]
        if len(writers) == previous_counts:
            raise _create_repartition_error(". There may be loops in the topology that cannot be resolved.")
    return partition_counts


def _create_repartition_error(reason_suffix: str) -> RefusedError:
    reason = f"Failed to compute number of partitions for all repartition topics{reason_suffix}"
    return RefusedError(ErrorCode.STREAMS_INVALID_TOPOLOGY, reason)


def _assign_copartition_counts(
    subtopology: Subtopology, counts: dict[str, int], sources: tuple[str, ...], repartition: tuple[str, ...]
) -> None:
    """Give the repartition topics of each copartition group as many partitions as the group's other topics have."""
    declared_counts = {topic.name: topic.partitions for topic in subtopology.repartition_topics if topic.partitions > 0}
    fixed_counts = {name: count for name, count in declared_counts.items() if name in repartition}
    if sources:
        count = _require_same_count({name: counts[name] for name in sources})
        if any(fixed_count != count for fixed_count in fixed_counts.values()):
            names = ", ".join(sorted(name for name, fixed_count in fixed_counts.items() if fixed_count != count))
            wrong = ", ".join(str(fixed_counts[name]) for name in sorted(fixed_counts) if fixed_counts[name] != count)
            detail = (
                f"Number of partitions [{wrong}] of repartition topic [{names}] doesn't match number of partitions"
                f" [{count}] of the source topic."
            )
            raise _TopicsNotReadyError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    else:
        count = (
            _require_same_count(fixed_counts)
            if fixed_counts
            else max((counts[name] for name in repartition), default=0)
        )
    counts.update(dict.fromkeys(repartition, count))


def _require_same_count(counts: Mapping[str, int]) -> int:
    """Return the number of partitions that all topics have.

    If the topics have different partition counts, the topology is not ready.
    """
    if len(set(counts.values())) > 1:
        text = ", ".join(f"{name}={counts[name]}" for name in sorted(counts))
        detail = f"Following topics do not have the same number of partitions: [{{{text}}}]"
        raise _TopicsNotReadyError(StatusCode.INCORRECTLY_PARTITIONED_TOPICS, detail)
    return next(iter(counts.values()))


class TaskRole(IntEnum):
    """The role in which a member runs a task."""

    ACTIVE = 0
    STANDBY = 1
    WARMUP = 2


Task = tuple[TaskRole, str, int]  # role, subtopology, partition
Tasks = frozenset[Task]
NO_TASKS: Final[Tasks] = frozenset()


@dataclass(frozen=True, slots=True)
class StreamsMember(GroupMember[Task]):
    """A member of a streams group.

    Attributes:
        topology_epoch: epoch of the topology that the member runs.
        process_id: id of the member's process. Members of one process share their state on disk.
        user_endpoint: host and port for interactive queries; None if the member has no endpoint.
    """

    topology_epoch: int = 0
    process_id: str = ""
    user_endpoint: tuple[str, int] | None = None
    client_tags: tuple[tuple[str, str], ...] = ()

    def has_same_needs(self, other: StreamsMember) -> bool:
        """Return whether two versions of a member differ only in fields that do not affect the assignment."""
        is_unchanged = replace(other, client_id=self.client_id, client_host=self.client_host)
        return self.has_same_subscription(replace(is_unchanged, rebalance_timeout_ms=self.rebalance_timeout_ms))


@dataclass(eq=False)
class StreamsGroup(EpochGroup[StreamsMember, Task]):
    """A streams group.

    Attributes:
        topology: the group's topology; None before the first member joins.
        configured_topology: the topology after a comparison with the broker's topics, at ``topics_version``.
        assignment_configs: assignment settings of the current epoch.
        delayed_until_ms: earliest monotonic time of the first assignment; None if there is no delay.
        endpoint_epoch: epoch of the endpoints, which grows each time tasks are sent to a member with an endpoint, and
            restarts with the broker.
        shutdown_by: id of the member that requested a shutdown of the application.
    """

    topology: Topology | None = None
    configured_topology: ConfiguredTopology | None = None
    topics_version: int = 0
    assignment_configs: tuple[tuple[str, str], ...] | None = None
    delayed_until_ms: int | None = None
    endpoint_epoch: int = 0
    shutdown_by: str = ""

    type: ClassVar[str] = "streams"
    assignor: ClassVar[str] = "sticky"

    @property
    def topics(self) -> frozenset[str]:
        """Every topic of the topology."""
        return frozenset() if self.topology is None else self.topology.topics

    @property
    def is_ready(self) -> bool:
        """Whether every topic of the topology exists with the right number of partitions."""
        return self.configured_topology is not None and self.configured_topology.status is None

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether the topology reads the topic."""
        return bool(self.members) and self.topology is not None and topic in self.topology.inputs

    def list_task_partitions(self, member: StreamsMember, role: TaskRole) -> Iterator[tuple[str, int]]:
        """Yield (topic, partition) for the inputs of a member's tasks in a role. Some topics may not exist."""
        inputs = (
            {subtopology_row.subtopology_id: subtopology_row.inputs for subtopology_row in self.topology.subtopologies}
            if self.topology
            else {}
        )
        for task_role, subtopology, index in sorted(member.assignment):
            for name in inputs.get(subtopology, ()) if task_role is role else ():
                yield name, index

    def create_blocked_check(self, process_id: str) -> Callable[[Task], bool]:
        """Return a function that checks whether a process cannot start a task yet.

        A process cannot start a task while another member has the task as an active task, or while the same process
        runs the task in another role. A process keeps the state of a task in one directory.
        """
        member_tasks = [
            (member.process_id, task)
            for member in self.members.values()
            for task in member.assignment | member.revoking
        ]
        active = {task[1:] for _, task in member_tasks if task[0] is TaskRole.ACTIVE}
        process_tasks = {task[1:] for owner, task in member_tasks if owner == process_id}
        inactive_process_tasks = {
            task[1:] for owner, task in member_tasks if owner == process_id and task[0] is not TaskRole.ACTIVE
        }
        return lambda task: (
            task[1:] in (active | inactive_process_tasks if task[0] is TaskRole.ACTIVE else process_tasks)
        )

    def remove_member(self, member_id: str) -> None:
        """Remove a member. The last member's departure also ends a requested shutdown."""
        super().remove_member(member_id)
        if not self.members:
            self.shutdown_by = ""


def group_by_subtopology(tasks: Iterable[Task], role: TaskRole) -> dict[str, list[int]]:
    """Return the partitions of tasks in a role by subtopology, sorted."""
    partitions: dict[str, list[int]] = {}
    for _, subtopology, partition in sorted(task for task in tasks if task[0] is role):
        partitions.setdefault(subtopology, []).append(partition)
    return partitions
