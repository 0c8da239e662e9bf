"""Admin methods for group members, share groups (KIP-932) and streams groups (KIP-1071)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kafkaframes.client.administration.base import AdminRequests, get_row_error, raise_response_error, to_list
from kafkaframes.client.group_offsets import check_offsets
from kafkaframes.client.metadata import (
    PartitionLike,
    PartitionMapping,
    TopicPartition,
    group_by_topic,
    to_partition_mapping,
    to_partitions,
)
from kafkaframes.client.response_rows import require_success
from kafkaframes.errors import COORDINATOR_MOVED_CODES, BrokerError, ErrorCode
from kafkaframes.protocol.api_keys import CONSUMER_GROUP_DESCRIBE

# Errors of ConsumerGroupDescribe after which the group is described as a classic group.
_NOT_A_CONSUMER_GROUP_ERRORS: Final = frozenset({ErrorCode.UNSUPPORTED_VERSION, ErrorCode.GROUP_ID_NOT_FOUND})
_RETRIABLE_OFFSET_CODES: Final = COORDINATOR_MOVED_CODES | {ErrorCode.REBALANCE_IN_PROGRESS}


@dataclass(frozen=True, slots=True)
class ShareGroupMember:
    """A member of a share group.

    Attributes:
        member_id: id of the member.
        rack: rack of the member; None if it has none.
        member_epoch: current epoch of the member.
        client_id: client id of the member.
        client_host: address of the member.
        topics: names of the topics that the member subscribes to.
        assignment: partitions from which the member acquires records.
    """

    member_id: str
    rack: str | None
    member_epoch: int
    client_id: str
    client_host: str
    topics: tuple[str, ...]
    assignment: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class ShareGroupDescription:
    """A share group.

    Attributes:
        group_id: id of the group.
        state: Kafka's name of the state, such as ``Stable`` or ``Empty``.
        group_epoch: current epoch of the group.
        assignment_epoch: epoch for which the assignment was computed.
        assignor: name of the assignor.
        members: current members of the group, with their assignments.
    """

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[ShareGroupMember, ...]


class TaskId(NamedTuple):
    """A task of a streams group.

    Attributes:
        subtopology_id: id of the subtopology.
        partition: number of the partition that the task reads from each source topic.
    """

    subtopology_id: str
    partition: int


@dataclass(frozen=True, slots=True)
class StreamsGroupMember:
    """A member of a streams group.

    Attributes:
        member_id: id of the member.
        instance_id: id of a static member; None for a dynamic member.
        rack: rack of the member; None if it has none.
        member_epoch: current epoch of the member.
        topology_epoch: epoch of the topology that the member runs.
        client_id: client id of the member.
        client_host: address of the member.
        process_id: id of the process, which several members may share.
        client_tags: tags of the client, by name, for the assignment of standby tasks.
        active_tasks: tasks that the member runs.
        standby_tasks: tasks of which the member keeps a copy of the state.
        warmup_tasks: tasks that are moved to the member once the member has restored the tasks' state.
    """

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
    """A subtopology of a Kafka Streams application.

    Attributes:
        subtopology_id: id of the subtopology, unique in the application.
        source_topics: topics that the subtopology reads.
        repartition_sink_topics: repartition topics that the subtopology writes.
        repartition_source_topics: repartition topics that the subtopology reads.
        state_changelog_topics: changelog topics of the subtopology's state stores.
    """

    subtopology_id: str
    source_topics: tuple[str, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[str, ...]
    state_changelog_topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StreamsGroupDescription:
    """A streams group.

    Attributes:
        group_id: id of the group.
        state: Kafka's name of the state, such as ``Stable`` or ``NotReady``.
        group_epoch: current epoch of the group.
        assignment_epoch: epoch for which the assignment was computed.
        topology_epoch: epoch of the group's topology; -1 if the group has no topology yet.
        subtopologies: parts of the topology.
        members: current members of the group, with their assignments.
    """

    group_id: str
    state: str
    group_epoch: int
    assignment_epoch: int
    topology_epoch: int
    subtopologies: tuple[Subtopology, ...]
    members: tuple[StreamsGroupMember, ...]


class ShareGroupOffset(NamedTuple):
    """A share group's start offset in one partition.

    Attributes:
        start_offset: first offset that is not fully processed; None if the group has not read the partition.
        leader_epoch: leader epoch of the start offset; None if unknown.
        lag: number of records that are not processed yet; None if unknown, and before Kafka 4.2.
    """

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


class GroupMethods(AdminRequests):
    """Admin methods for group members, share groups and streams groups."""

    async def remove_group_members(
        self, group_id: str, instance_ids: Iterable[str] | None = None, *, reason: str = "removed by an administrator"
    ) -> None:
        """Remove members from a classic or consumer group.

        Args:
            group_id: id of the group.
            instance_ids: instance ids of the static members to remove; None removes all members.
            reason: reason that the coordinator logs (KIP-800).

        Raises:
            BrokerError: an instance id is not a member of the group, or the principal may not read the group.
        """
        subject = f"group {group_id}"
        cls = self.settings.message_class("LeaveGroupRequest")
        if instance_ids is None:
            members = [
                cls.MemberIdentity(member_id=member_id, group_instance_id=instance_id, reason=reason)
                for member_id, instance_id in await self._list_member_ids(group_id)
            ]
        else:
            members = [
                cls.MemberIdentity(group_instance_id=entry, reason=reason)
                for entry in dict.fromkeys(to_list("instance_ids", instance_ids))
            ]
        if not members:
            return
        body = cls(group_id=group_id, members=members)
        response = await self._send_to_coordinator(group_id, body, subject, lambda entry: int(entry.error_code))
        raise_response_error(response, subject)
        require_success(
            {
                row.group_instance_id or row.member_id: get_row_error(
                    row, f"member {row.group_instance_id or row.member_id} of {subject}"
                )
                for row in response.members
            },
            [entry.group_instance_id or entry.member_id for entry in members],
        )

    async def _request_consumer_group(self, group_id: str) -> Any:
        """Return a group's ConsumerGroupDescribe row; None if the group or the broker does not use this protocol."""
        connection = await self._retry_step(self._cluster.get_any_connection)
        if CONSUMER_GROUP_DESCRIBE not in connection.ranges:
            return None
        cls = self.settings.message_class("ConsumerGroupDescribeRequest")
        row = await self._request_group_row(group_id, cls(group_ids=[group_id]))
        if row.error_code in _NOT_A_CONSUMER_GROUP_ERRORS:
            return None
        raise_response_error(row, f"group {group_id}")
        return row

    async def _request_classic_group(self, group_id: str) -> Any:
        """Return a group's row in the DescribeGroups response."""
        cls = self.settings.message_class("DescribeGroupsRequest")
        row = await self._request_group_row(group_id, cls(groups=[group_id]))
        raise_response_error(row, f"group {group_id}")
        return row

    async def _list_member_ids(self, group_id: str) -> list[tuple[str, str | None]]:
        """Return the member id and the instance id of each member of a classic or consumer group."""
        row = await self._request_consumer_group(group_id)
        if row is not None:
            return [(entry.member_id, entry.instance_id) for entry in row.members]
        row = await self._request_classic_group(group_id)
        return [(entry.member_id, entry.group_instance_id) for entry in row.members]

    async def describe_share_group(self, group_id: str) -> ShareGroupDescription:
        """Return the state and the members of a share group (KIP-932).

        Args:
            group_id: id of the share group.

        Raises:
            BrokerError: no share group has this id (GROUP_ID_NOT_FOUND), or the principal may not describe it.
        """
        row = await self._describe_group("ShareGroupDescribeRequest", group_id)
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
        """Return the state, the topology and the members of a streams group (KIP-1071).

        Args:
            group_id: id of the streams group.

        Raises:
            BrokerError: no streams group has this id (GROUP_ID_NOT_FOUND), or the principal may not describe it.
        """
        row = await self._describe_group("StreamsGroupDescribeRequest", group_id)
        subtopologies = () if row.topology is None else tuple(map(_to_subtopology, row.topology.subtopologies or ()))
        epoch = -1 if row.topology is None else row.topology.epoch
        members = tuple(map(_to_streams_member, row.members))
        return StreamsGroupDescription(
            group_id, row.group_state, row.group_epoch, row.assignment_epoch, epoch, subtopologies, members
        )

    async def _describe_group(self, request: str, group_id: str) -> Any:
        body = self.settings.message_class(request)(group_ids=[group_id])
        row = await self._request_group_row(group_id, body)
        raise_response_error(row, f"group {group_id}")
        return row

    async def share_group_offsets(
        self, group_id: str, partitions: Iterable[PartitionLike] | None = None
    ) -> dict[TopicPartition, ShareGroupOffset]:
        """Return the start offsets of a share group (KIP-1018).

        Args:
            group_id: id of the share group.
            partitions: partitions to return; None selects every partition that the group has read.

        Raises:
            BrokerError: the group does not exist, or the principal may not describe it or a topic.
        """
        cls = self.settings.message_class("DescribeShareGroupOffsetsRequest")
        partition_list = None if partitions is None else to_partitions(partitions)
        topics = None
        if partition_list is not None:
            topics = [
                cls.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
                for name, numbers in group_by_topic(partition_list).items()
            ]
        body = cls(groups=[cls.DescribeShareGroupOffsetsRequestGroup(group_id=group_id, topics=topics)])
        subject = f"group {group_id}"
        group = await self._request_group_row(group_id, body)
        raise_response_error(group, subject)
        results: dict[TopicPartition, ShareGroupOffset | BrokerError] = {}
        for topic in group.topics:
            for row in topic.partitions:
                partition = TopicPartition(topic.topic_name, row.partition_index)
                numbers = (None if number < 0 else number for number in (row.start_offset, row.leader_epoch, row.lag))
                results[partition] = get_row_error(row, f"offset of {partition}") or ShareGroupOffset(*numbers)
        return require_success(results, partition_list or ())

    async def alter_share_group_offsets(self, group_id: str, offsets: PartitionMapping[int]) -> None:
        """Set the start offsets of a share group without members (KIP-1018).

        Args:
            group_id: id of the share group.
            offsets: new start offset of each partition.

        Raises:
            OptionError: an offset is negative.
            BrokerError: the group has members (NON_EMPTY_GROUP), a partition does not exist, or the principal may not
                read the group.
        """
        cls = self.settings.message_class("AlterShareGroupOffsetsRequest")
        starts = to_partition_mapping(offsets)
        check_offsets(starts)
        rows = group_by_topic(
            starts,
            lambda entry: cls.AlterShareGroupOffsetsRequestPartition(
                partition_index=entry.partition, start_offset=starts[entry]
            ),
        )
        topics = [
            cls.AlterShareGroupOffsetsRequestTopic(topic_name=name, partitions=partitions)
            for name, partitions in rows.items()
        ]
        response = await self._send_share_offsets(cls(group_id=group_id, topics=topics), group_id)
        require_success(
            {
                partition: get_row_error(row, f"offset of {partition}")
                for topic in response.responses
                for row in topic.partitions
                for partition in [TopicPartition(topic.topic_name, row.partition_index)]
            },
            starts,
        )

    async def delete_share_group_offsets(self, group_id: str, topics: Iterable[str]) -> None:
        """Delete the offsets of topics from a share group without members (KIP-1018).

        Args:
            group_id: id of the share group.
            topics: names of the topics.

        Raises:
            BrokerError: the group has members (NON_EMPTY_GROUP), or it has no offsets for a topic.
        """
        cls = self.settings.message_class("DeleteShareGroupOffsetsRequest")
        names = list(dict.fromkeys(to_list("topics", topics)))
        rows = [cls.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
        response = await self._send_share_offsets(cls(group_id=group_id, topics=rows), group_id)
        require_success(
            {row.topic_name: get_row_error(row, f"offsets of topic {row.topic_name}") for row in response.responses},
            names,
        )

    async def _send_share_offsets(self, body: Any, group_id: str) -> Any:
        """Send a change to a share group's offsets to its coordinator and return the response."""
        subject = f"group {group_id}"
        response = await self._send_to_coordinator(
            group_id, body, subject, lambda entry: int(entry.error_code), retriable=_RETRIABLE_OFFSET_CODES
        )
        raise_response_error(response, subject)
        return response


def _to_subtopology(row: Any) -> Subtopology:
    return Subtopology(
        row.subtopology_id,
        tuple(row.source_topics),
        tuple(row.repartition_sink_topics),
        tuple(entry.name for entry in row.repartition_source_topics),
        tuple(entry.name for entry in row.state_changelog_topics),
    )


def _to_streams_member(row: Any) -> StreamsGroupMember:
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
