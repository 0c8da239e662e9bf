"""Groups of every type: removal of members, share groups (KIP-932), streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkaframes.client.administration.base import AdminRequests, error_of, require_success
from kafkaframes.client.metadata import TopicPartition, by_topic
from kafkaframes.errors import BrokerError

_WITH_MEMBERS: Final = 3  # LeaveGroup's first version that names several members (KIP-345)


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """A member of a share group: its subscription and the partitions that it may acquire records of."""

    member_id: str
    rack: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group: state as Kafka names it, epochs, assignor, members."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ShareGroupMember, ...]


class TaskId(NamedTuple):
    """A task of a streams group: subtopology and partition."""

    subtopology_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class StreamsGroupMember:
    """A member of a streams group: process and tasks."""

    member_id: str
    instance_id: str | None
    rack: str | None
    member_epoch: int
    topology_epoch: int
    client_id: str
    client_host: str
    process_id: str
    client_tags: Mapping[str, str]
    active_tasks: tuple[TaskId, ...]
    standby_tasks: tuple[TaskId, ...]
    warmup_tasks: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A subtopology of a Kafka Streams application: the topics that it reads, writes and keeps state in."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group: state as Kafka names it, epochs, topology, members."""

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsGroupMember, ...]


class ShareGroupOffset(NamedTuple):
    """The share-partition start offset of a share group.

    Attributes:
        start_offset: first offset that is not fully processed; None if the group has not read the partition.
        leader_epoch: None if unknown.
        lag: records that are not processed yet; None before Kafka 4.2 and where it is unknown.
    """

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


class GroupMethods(AdminRequests):
    """Methods on share groups, streams groups and members."""

    async def remove_group_members(
        self, group_id: str, instance_ids: Iterable[str] | None = None, *, reason: str = "removed by an administrator"
    ) -> None:
        """Remove members from a group that uses the classic protocol.

        Args:
            group_id: the group.
            instance_ids: static members to remove; None removes all members.
            reason: text for the coordinator's log (KIP-800).

        Raises:
            BrokerError: the group has no such member, or the principal may not read the group.
        """
        what = f"group {group_id}"
        cls = self.settings.message("LeaveGroupRequest")
        if instance_ids is None:
            describe = self.settings.message("DescribeGroupsRequest")(groups=[group_id])
            answer = await self._ask_coordinator(
                group_id, describe, what, lambda entry: int(entry.groups[0].error_code)
            )
            if (error := error_of(answer.groups[0], what)) is not None:
                raise error
            members = [
                cls.MemberIdentity(member_id=entry.member_id, group_instance_id=entry.group_instance_id, reason=reason)
                for entry in answer.groups[0].members
            ]
        else:
            members = [
                cls.MemberIdentity(group_instance_id=entry, reason=reason) for entry in dict.fromkeys(instance_ids)
            ]
        if not members:
            return
        body = cls(group_id=group_id, members=members)
        answer = await self._ask_coordinator(group_id, body, what, lambda entry: int(entry.error_code))
        if (error := error_of(answer, what)) is not None:
            raise error
        require_success(
            {
                row.group_instance_id or row.member_id: error_of(
                    row, f"member {row.group_instance_id or row.member_id} of {what}"
                )
                for row in answer.members
            }
        )

    async def describe_share_group(self, group_id: str) -> ShareGroupDescription:
        """Return state and members of a share group.

        Raises:
            BrokerError: no share group has this id (GROUP_ID_NOT_FOUND), or the principal may not describe it.
        """
        row = await self._describe("ShareGroupDescribeRequest", group_id)
        members = tuple(
            ShareGroupMember(
                entry.member_id,
                entry.rack_id,
                entry.member_epoch,
                entry.client_id,
                entry.client_host,
                tuple(entry.subscribed_topic_names),
                tuple(
                    TopicPartition(topic.topic_name, number)
                    for topic in entry.assignment.topic_partitions
                    for number in topic.partitions
                ),
            )
            for entry in row.members
        )
        return ShareGroupDescription(
            group_id, row.group_state, row.group_epoch, row.assignment_epoch, row.assignor_name, members
        )

    async def describe_streams_group(self, group_id: str) -> StreamsGroupDescription:
        """Return state, topology and members of a streams group.

        Raises:
            BrokerError: no streams group has this id (GROUP_ID_NOT_FOUND), or the principal may not describe it.
        """
        row = await self._describe("StreamsGroupDescribeRequest", group_id)
        subtopologies = () if row.topology is None else tuple(map(_subtopology, row.topology.subtopologies or ()))
        epoch = -1 if row.topology is None else row.topology.epoch
        members = tuple(map(_streams_member, row.members))
        return StreamsGroupDescription(
            group_id, row.group_state, row.group_epoch, row.assignment_epoch, epoch, subtopologies, members
        )

    async def _describe(self, request: str, group_id: str) -> Any:
        body = self.settings.message(request)(group_ids=[group_id])
        answer = await self._ask_coordinator(
            group_id, body, f"group {group_id}", lambda entry: int(entry.groups[0].error_code)
        )
        (row,) = answer.groups
        if (error := error_of(row, f"group {group_id}")) is not None:
            raise error
        return row

    async def share_group_offsets(
        self, group_id: str, partitions: Iterable[TopicPartition] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return where a share group's partitions start (KIP-1018).

        Args:
            group_id: the share group.
            partitions: None is every partition that the group has read.

        Raises:
            BrokerError: the group does not exist, or the principal may not describe it or a topic.
        """
        cls = self.settings.message("DescribeShareGroupOffsetsRequest")
        topics = None
        if partitions is not None:
            topics = [
                cls.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
                for name, numbers in by_topic(partitions, lambda entry: entry.partition).items()
            ]
        body = cls(groups=[cls.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)])
        what = f"group {group_id}"
        answer = await self._ask_coordinator(group_id, body, what, lambda entry: int(entry.groups[0].error_code))
        (group,) = answer.groups
        if (error := error_of(group, what)) is not None:
            raise error
        results: dict[TopicPartition, ShareGroupOffset | BrokerError] = {}
        for topic in group.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic_name, row.partition_index)
                numbers = (None if number < 0 else number for number in (row.start_offset, row.leader_epoch, row.lag))
                results[partition] = error_of(row, f"offset of {partition}") or ShareGroupOffset(*numbers)
        return require_success(results)

    async def alter_share_group_offsets(self, group_id: str, offsets: Mapping[TopicPartition, int]) -> None:
        """Set where a share group without members starts in partitions.

        Raises:
            BrokerError: the group has members (NON_EMPTY_GROUP), a partition does not exist, or the principal may not
                read the group.
        """
        cls = self.settings.message("AlterShareGroupOffsetsRequest")
        rows = by_topic(
            offsets,
            lambda entry: cls.AlterShareGroupOffsetsRequestPartition(
                partition_index=entry.partition, start_offset=offsets[entry]
            ),
        )
        topics = [
            cls.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=all_) for name, all_ in rows.items()
        ]
        answer = await self._ask_group(cls(group_id=group_id, topics=topics), group_id)
        require_success(
            {
                partition: error_of(row, f"offset of {partition}")
                for topic in answer.responses
                for row in topic.partitions
                for partition in [TopicPartition(topic.topic_name, row.partition_index)]
            }
        )

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Delete the offsets of topics from a share group without members.

        Raises:
            BrokerError: the group has members (NON_EMPTY_GROUP) or no offsets of a topic.
        """
        cls = self.settings.message("DeleteShareGroupOffsetsRequest")
        rows = [cls.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in dict.fromkeys(topics)]
        answer = await self._ask_group(cls(group_id=group_id, topics=rows), group_id)
        require_success(
            {row.topic_name: error_of(row, f"offsets of topic {row.topic_name}") for row in answer.responses}
        )

    async def _ask_group(self, body: Any, group_id: str) -> Any:
        """Return a coordinator's answer that has an error code at its top level."""
        what = f"group {group_id}"
        answer = await self._ask_coordinator(group_id, body, what, lambda entry: int(entry.error_code))
        if (error := error_of(answer, what)) is not None:
            raise error
        return answer


def _subtopology(row: Any) -> Subtopology:
    return Subtopology(
        row.subtopology_id,
        tuple(row.source_topics),
        tuple(row.repartition_sink_topics),
        tuple(entry.name for entry in row.repartition_source_topics),
        tuple(entry.name for entry in row.state_changelog_topics),
    )


def _streams_member(row: Any) -> StreamsGroupMember:
    active, standby, warmup = (
        tuple(TaskId(entry.subtopology_id, number) for entry in tasks for number in entry.partitions)
        for tasks in (row.assignment.active_tasks, row.assignment.standby_tasks, row.assignment.warmup_tasks)
    )
    return StreamsGroupMember(
        row.member_id,
        row.instance_id,
        row.rack_id,
        row.member_epoch,
        row.topology_epoch,
        row.client_id,
        row.client_host,
        row.process_id,
        {tag.key: tag.value for tag in row.client_tags},
        active,
        standby,
        warmup,
    )
