"""Records of streams groups in ``__consumer_offsets``, as Kafka 4.3 writes them, and their topologies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from kafkaframes.coordination.groups.ports import Record
from kafkaframes.coordination.groups.records import ModernRecords
from kafkaframes.coordination.groups.streams import (
    InternalTopic,
    StreamsGroup,
    StreamsMember,
    Subtopology,
    TaskRole,
    Tasks,
    Topology,
    group_by_subtopology,
)
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import CoordinatorRecord

TASK_FIELDS_BY_ROLE: Final = {
    TaskRole.ACTIVE: "active_tasks",
    TaskRole.STANDBY: "standby_tasks",
    TaskRole.WARMUP: "warmup_tasks",
}


class StreamsRecords(ModernRecords[StreamsGroup, StreamsMember]):
    """Encodes and replays the records of streams groups, including their topology records."""

    group_type, member_type = StreamsGroup, StreamsMember
    types = (19, 17, 20, 21, 22, 23)
    _prefix = "StreamsGroup"

    def build_streams_epoch_record(
        self,
        group_id: str,
        epoch: int,
        metadata_hash: int,
        validated_topology_epoch: int,
        configs: Iterable[tuple[str, str]],
    ) -> Record:
        """Return the record of a group's epoch, with the assignment settings of the epoch."""
        value_class: Any = message("StreamsGroupMetadataValue")
        value = {
            "epoch": epoch,
            "metadata_hash": metadata_hash,
            "validated_topology_epoch": validated_topology_epoch,
            "last_assignment_configs": [value_class.LastAssignmentConfig(key=key, value=text) for key, text in configs],
        }
        return self._build_record("Metadata", value, group_id=group_id)

    def build_member_record(self, group_id: str, member: StreamsMember) -> Record:
        """Return the record of a member's metadata."""
        value_class: Any = message("StreamsGroupMemberMetadataValue")
        endpoint = member.user_endpoint
        return self._build_member_record(
            group_id,
            member,
            instance_id=None,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            topology_epoch=member.topology_epoch,
            process_id=member.process_id,
            user_endpoint=None if endpoint is None else value_class.Endpoint(host=endpoint[0], port=endpoint[1]),
            client_tags=[value_class.KeyValue(key=key, value=text) for key, text in member.client_tags],
        )

    def build_target_record(self, group_id: str, member_id: str, target: Tasks) -> Record:  # type: ignore[override]
        """Return the record of a member's target assignment."""
        value_class = message("StreamsGroupTargetAssignmentMemberValue")
        value = {name: build_task_rows(value_class, target, role) for role, name in TASK_FIELDS_BY_ROLE.items()}
        return self._build_record("TargetAssignmentMember", value, group_id=group_id, member_id=member_id)

    def build_current_record(self, group_id: str, member: StreamsMember) -> Record:
        """Return the record of a member's current tasks and pending revocations.

        The record contains the member's epoch as the epoch of all tasks.
        """
        value_class = message("StreamsGroupCurrentMemberAssignmentValue")
        rows: dict[str, Any] = {}
        for role, name in TASK_FIELDS_BY_ROLE.items():
            epoch = member.epoch if role is TaskRole.ACTIVE else None
            rows[name] = build_task_rows(value_class, member.assignment, role, epoch)
            rows[f"{name}_pending_revocation"] = build_task_rows(value_class, member.revoking, role, epoch)
        return self._build_current_assignment_record(group_id, member, rows)

    def build_topology_record(self, group_id: str, topology: Topology | None) -> Record:
        """Return the record of a topology, or its tombstone if ``topology`` is None."""
        if topology is None:
            return self._build_record("Topology", None, group_id=group_id)
        subtopologies = build_topology_rows(message("StreamsGroupTopologyValue"), topology)
        value = {"epoch": topology.epoch, "subtopologies": subtopologies}
        return self._build_record("Topology", value, group_id=group_id)

    def _build_type_specific_tombstones(self, group: StreamsGroup) -> list[Record]:
        return [self.build_topology_record(group.group_id, None)]

    def replay(self, group: StreamsGroup, record: CoordinatorRecord) -> None:
        """Apply a record to the group."""
        super().replay(group, record)
        if record.type == self.types[1]:
            rows = record.value.last_assignment_configs
            group.assignment_configs = None if rows is None else tuple((row.key, row.value) for row in rows)

    def _read_target_assignment(self, value: Any) -> Tasks:
        return read_tasks(value)

    def _replay_type_specific_record(self, group: StreamsGroup, key: Any, value: Any) -> None:
        group.topology = None if value is None else read_topology(value)

    def _set_subscription(self, member: StreamsMember, value: Any) -> StreamsMember:
        endpoint = value.user_endpoint
        return replace(
            member,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            topology_epoch=value.topology_epoch,
            process_id=value.process_id,
            user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
            client_tags=tuple((row.key, row.value) for row in value.client_tags),
        )

    def _read_assignments(self, value: Any) -> tuple[Tasks, Tasks]:
        return read_tasks(value), read_tasks(value, "_pending_revocation")


streams_records: Final = StreamsRecords()


def build_task_rows(value_class: Any, tasks: Tasks, role: TaskRole, epoch: int | None = None) -> list[Any]:
    """Return the tasks in a role as rows of a message."""
    return [
        value_class.TaskIds(subtopology_id=subtopology, partitions=indexes)
        if epoch is None
        else value_class.TaskIds(
            subtopology_id=subtopology, partitions=indexes, assignment_epochs=[epoch] * len(indexes)
        )
        for subtopology, indexes in group_by_subtopology(tasks, role).items()
    ]


def read_tasks(value: Any, suffix: str = "") -> Tasks:
    """Return the tasks of a record."""
    return frozenset(
        (role, row.subtopology_id, index)
        for role, name in TASK_FIELDS_BY_ROLE.items()
        for row in getattr(value, f"{name}{suffix}")
        for index in row.partitions
    )


def read_topology(value: Any) -> Topology:
    """Return the topology of a request or a record, sorted. Raise a ``DecodeError`` if the topology is inconsistent."""
    rows = sorted(value.subtopologies, key=lambda row: row.subtopology_id)
    return Topology(value.epoch, tuple(_read_subtopology(row) for row in rows))


def _read_subtopology(row: Any) -> Subtopology:
    repartition = [topic.name for topic in row.repartition_source_topics]
    return Subtopology(
        row.subtopology_id,
        tuple(sorted(row.source_topics)),
        tuple(sorted(row.repartition_sink_topics)),
        _read_internal_topics(row.repartition_source_topics),
        _read_internal_topics(row.state_changelog_topics),
        tuple(
            (
                _select_names(row.source_topics, group.source_topics),
                _select_names(repartition, group.repartition_source_topics),
            )
            for group in row.copartition_groups
        ),
    )


def _read_internal_topics(rows: Iterable[Any]) -> tuple[InternalTopic, ...]:
    topics = (
        InternalTopic(
            row.name,
            row.partitions,
            row.replication_factor,
            tuple(sorted((config.key, config.value) for config in row.topic_configs)),
        )
        for row in rows
    )
    return tuple(sorted(topics))


def _select_names(names: Sequence[str], indexes: Iterable[int]) -> tuple[str, ...]:
    """Return the names at these indexes, sorted."""
    positions = list(indexes)
    if any(not 0 <= index < len(names) for index in positions):
        raise DecodeError("a copartition group refers to topics that the subtopology does not have")
    return tuple(sorted(names[index] for index in positions))


def build_topology_rows(value_class: Any, topology: Topology) -> list[Any]:
    """Return a topology's subtopologies as rows of its record."""
    rows = []
    for subtopology in topology.subtopologies:
        repartition = [topic.name for topic in subtopology.repartition_topics]
        groups = [
            value_class.CopartitionGroup(
                source_topics=[subtopology.source_topics.index(name) for name in sources],
                source_topic_regex=[],
                repartition_source_topics=[repartition.index(name) for name in names],
            )
            for sources, names in subtopology.copartition_groups
        ]
        fields = build_subtopology_fields(value_class.TopicInfo, value_class.TopicConfig, subtopology)
        rows.append(value_class.Subtopology(**fields, source_topic_regex=[], copartition_groups=groups))
    return rows


def build_subtopology_fields(
    topic_type: Any, config_type: Any, subtopology: Subtopology, counts: Mapping[str, int] | None = None
) -> dict[str, Any]:
    """Return the fields of a subtopology that its record and a description share.

    Args:
        counts: number of partitions of each internal topic; None to use the numbers that the topology declares.
    """

    def build_topics(internal_topics: Iterable[InternalTopic]) -> list[Any]:
        return [
            topic_type(
                name=topic.name,
                partitions=(counts or {}).get(topic.name, topic.partitions),
                replication_factor=topic.replication_factor,
                topic_configs=[config_type(key=key, value=text) for key, text in topic.configs],
            )
            for topic in internal_topics
        ]

    return {
        "subtopology_id": subtopology.subtopology_id,
        "source_topics": list(subtopology.source_topics),
        "repartition_sink_topics": list(subtopology.sinks),
        "repartition_source_topics": build_topics(subtopology.repartition_topics),
        "state_changelog_topics": build_topics(subtopology.changelog_topics),
    }
