"""Fetches and commits a group's offsets at its coordinator (KIP-447, KIP-709)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.metadata import TopicPartition, group_by_topic
from kafkaframes.client.response_rows import require_one_row, require_rows
from kafkaframes.errors import COORDINATOR_MOVED_CODES, BrokerError, ErrorCode, OptionError, to_broker_error
from kafkaframes.protocol.spec.versions import Versions
from kafkaframes.wire.primitives import NIL_UUID

_GROUP_LIST_VERSION: Final = 8  # first version of OffsetFetch with several groups
# Last version of OffsetFetch and OffsetCommit with topic names; later ones have topic ids.
_MAX_VERSION_WITH_TOPIC_NAMES: Final = 9
_OFFSET_FETCH: Final = 9  # API key
_STABLE_VERSION: Final = 7  # first version of OffsetFetch that can wait for open transactions
_ALL_TOPICS_VERSION: Final = 2  # first version of OffsetFetch in which null topics mean all topics


class CommittedOffset(NamedTuple):
    """A committed offset of a group.

    Attributes:
        offset: offset of the next record to read.
        leader_epoch: leader epoch of the last record that was read (KIP-320); -1 if unknown.
        metadata: text of the application that is stored with the offset.
    """

    offset: int
    leader_epoch: int = -1
    metadata: str | None = ""


def to_committed_offset(value: CommittedOffset | int) -> CommittedOffset:
    """Return the committed offset that a caller specifies, possibly as a bare offset."""
    return value if isinstance(value, CommittedOffset) else CommittedOffset(value)


def check_offsets(
    offsets: Mapping[TopicPartition, CommittedOffset | int],
) -> Mapping[TopicPartition, CommittedOffset | int]:
    """Return the offsets of a commit if none is negative.

    Raises:
        OptionError: an offset is negative, such as ``EARLIEST``. Brokers would store a negative offset, and clients
            would reject it.
    """
    for partition, value in offsets.items():
        offset = to_committed_offset(value).offset
        if offset < 0:
            raise OptionError(
                f"offset {offset} of {partition} is negative; `list_offsets` returns those of EARLIEST and LATEST"
            )
    return offsets


class GroupMember(NamedTuple):
    """The identity with which a consumer commits, for ``send_offsets_to_transaction``.

    Attributes:
        group_id: id of the group.
        generation_id: generation, or member epoch (KIP-848); -1 for a consumer that has not subscribed.
        member_id: id of the member; empty for a consumer that has not subscribed.
        group_instance_id: id of a static member (KIP-345); None for a dynamic member.
    """

    group_id: str
    generation_id: int = -1
    member_id: str = ""
    group_instance_id: str | None = None


async def fetch_committed_offsets(
    cluster: ClusterClient, group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool = False
) -> dict[TopicPartition, CommittedOffset]:
    """Return a group's committed offsets in the given partitions; in all partitions if None.

    Args:
        cluster: client of the cluster.
        group_id: id of the group.
        partitions: partitions to look up. The result omits partitions without a committed offset.
        stable: whether to wait until no open transaction has uncommitted offsets of the group (KIP-447).

    Raises:
        BrokerError: the client may not read the group.
    """
    partition_list = None if partitions is None else list(partitions)
    return await cluster.retry_step(lambda: request_committed_offsets(cluster, group_id, partition_list, stable=stable))


async def request_committed_offsets(
    cluster: ClusterClient, group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool
) -> dict[TopicPartition, CommittedOffset]:
    """Send one request, without the retries of ``fetch_committed_offsets``."""
    results = {}
    for partition, row in (await fetch_offset_rows(cluster, group_id, partitions, stable=stable)).items():
        if isinstance(row, BrokerError):
            raise row
        if row is not None:
            results[partition] = row
    return results


async def fetch_offset_rows(
    cluster: ClusterClient, group_id: str, partitions: Iterable[TopicPartition] | None, *, stable: bool
) -> dict[TopicPartition, CommittedOffset | BrokerError | None]:
    """Send one request. Return the committed offset of each partition, None if it has none, or its error.

    Raises:
        BrokerError: the coordinator rejects the request for the whole group.
    """
    partition_list = None if partitions is None else list(partitions)
    cls = cluster.settings.message_class("OffsetFetchRequest")
    body = cls()
    async with cluster.connect_to_coordinator(group_id) as connection:
        if partition_list is None and connection.ranges.get(_OFFSET_FETCH, Versions.NONE).highest < _ALL_TOPICS_VERSION:
            await cluster.refresh_metadata()
            partition_list = [
                entry for topic in cluster.cluster.topics for entry in cluster.cluster.partitions_of(topic)
            ]
        names = None if partition_list is None else group_by_topic(partition_list)
        ids = {name: cluster.cluster.topic_id(name) for name in names or ()}
        # The response for all topics needs names.
        max_version = _MAX_VERSION_WITH_TOPIC_NAMES if names is None or NIL_UUID in ids.values() else None
        version = connection.select_version(
            body, max_version=max_version, min_version=_ALL_TOPICS_VERSION if partition_list is None else 0
        )
        # Brokers before 2.5 return offsets of open transactions as they were before, as for older consumers (KIP-447).
        body.require_stable = stable and version >= _STABLE_VERSION
        if version > _MAX_VERSION_WITH_TOPIC_NAMES:
            topics = [
                cls.OffsetFetchRequestTopics(topic_id=ids[name], partition_indexes=all_)
                for name, all_ in (names or {}).items()
            ]
            body.groups = [cls.OffsetFetchRequestGroup(group_id=group_id, topics=topics)]
        elif version >= _GROUP_LIST_VERSION:
            body.groups = [cls.OffsetFetchRequestGroup(group_id=group_id, topics=_to_topic_rows(cls, "s", names))]
        else:
            body.group_id, body.topics = group_id, _to_topic_rows(cls, "", names)
        response = await connection.request(body, version=version)
    subject = f"committed offsets of group {group_id}"
    answer = require_one_row(response.groups, subject) if version >= _GROUP_LIST_VERSION else response
    cluster.check_coordinator(answer.error_code, subject, group_id)
    by_id = {topic_id: name for name, topic_id in ids.items()}
    rows: dict[TopicPartition, CommittedOffset | BrokerError | None] = {}
    for topic in answer.topics:
        name = (
            topic.name if version <= _MAX_VERSION_WITH_TOPIC_NAMES else by_id.get(topic.topic_id) or str(topic.topic_id)
        )
        for entry in topic.partitions:
            partition = TopicPartition(name, entry.partition_index)
            rows[partition] = _to_fetch_result(cluster, group_id, partition, entry)
    require_rows(partition_list or (), rows, subject)
    return rows


def _to_fetch_result(
    cluster: ClusterClient, group_id: str, partition: TopicPartition, entry: Any
) -> CommittedOffset | BrokerError | None:
    if entry.error_code:
        _refresh_stale_entry(cluster, group_id, partition, entry.error_code)
        return to_broker_error(entry.error_code, f"committed offset of {partition}")
    if entry.committed_offset < 0:
        return None
    return CommittedOffset(entry.committed_offset, entry.committed_leader_epoch, entry.metadata)


def _to_topic_rows(cls: Any, plural: str, names: Mapping[str, list[int]] | None) -> list[Any] | None:
    """Return the topics of an OffsetFetch request; None requests all topics."""
    topic = getattr(cls, f"OffsetFetchRequestTopic{plural}")
    return None if names is None else [topic(name=name, partition_indexes=all_) for name, all_ in names.items()]


async def commit_offsets(
    cluster: ClusterClient,
    member: GroupMember,
    offsets: Mapping[TopicPartition, CommittedOffset | int],
    *,
    timeout_ms: int | None = None,
    skip_unknown_topics: bool = False,
    topic_ids: Mapping[str, UUID] | None = None,
) -> None:
    """Commit offsets for a group.

    Args:
        cluster: client of the cluster.
        member: committing member, without a member id if the group has no members.
        offsets: offset of the next record to read, by partition.
        timeout_ms: longest time of all attempts, in milliseconds; ``default_api_timeout_ms`` if None.
        skip_unknown_topics: whether to skip topics that do not exist instead of retrying until the timeout.
        topic_ids: ids of the topics to which the offsets belong. Topics that were recreated in the meantime are
            skipped.

    Raises:
        BrokerError: the coordinator rejects the commit: the member was removed (ILLEGAL_GENERATION, UNKNOWN_MEMBER_ID),
            the group rebalances, or the metadata is too long.
    """

    async def commit_once() -> None:
        ids = await _get_current_topic_ids(cluster, offsets, topic_ids or {})
        expected_ids = {**ids, **(topic_ids or {})}
        valid = {entry: offset for entry, offset in offsets.items() if ids[entry.topic] == expected_ids[entry.topic]}
        rows = await commit_offset_rows(cluster, member, valid) if valid else {}
        for error in rows.values():
            is_unknown = error is not None and error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            if error is not None and not (skip_unknown_topics and is_unknown):
                raise error
        # A commit by name would store the offsets of a deleted topic for the next topic of that name.
        deleted_partitions = [entry for entry in offsets if ids[entry.topic] == NIL_UUID != expected_ids[entry.topic]]
        if deleted_partitions and not skip_unknown_topics:
            action = f"commit of {deleted_partitions[0]} for group {member.group_id}"
            raise to_broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, action)

    if offsets:
        await cluster.retry_step(commit_once, timeout_ms=timeout_ms)


async def _get_current_topic_ids(
    cluster: ClusterClient, partitions: Iterable[TopicPartition], expected_ids: Mapping[str, UUID]
) -> dict[str, UUID]:
    """Return the topic ids in the metadata. Refresh the metadata if an expected topic is missing or expired."""
    names = {entry.topic for entry in partitions}
    for name in names.intersection(expected_ids):
        if name in cluster.cluster.expired_topics or cluster.cluster.topic_id(name) == NIL_UUID:
            await cluster.refresh_metadata([name])
    return {name: cluster.cluster.topic_id(name) for name in names}


async def commit_offset_rows(
    cluster: ClusterClient, member: GroupMember, offsets: Mapping[TopicPartition, CommittedOffset | int]
) -> dict[TopicPartition, BrokerError | None]:
    """Send one OffsetCommit request. Return the error for each partition, or None.

    Args:
        cluster: client of the cluster.
        member: committing member, as for ``commit_offsets``.
        offsets: offset of the next record to read, by partition.
    """
    cls = cluster.settings.message_class("OffsetCommitRequest")
    body = cls(
        group_id=member.group_id,
        generation_id_or_member_epoch=member.generation_id,
        member_id=member.member_id,
        group_instance_id=member.group_instance_id,
    )
    ids = {entry.topic: cluster.cluster.topic_id(entry.topic) for entry in offsets}

    def to_row(partition: TopicPartition) -> Any:
        value = to_committed_offset(offsets[partition])
        return cls.OffsetCommitRequestPartition(
            partition_index=partition.partition,
            committed_offset=value.offset,
            committed_leader_epoch=value.leader_epoch,
            committed_metadata=value.metadata,
        )

    async with cluster.connect_to_coordinator(member.group_id) as connection:
        version = connection.select_version(
            body, max_version=_MAX_VERSION_WITH_TOPIC_NAMES if NIL_UUID in ids.values() else None
        )
        body.topics = [
            cls.OffsetCommitRequestTopic(
                **({"topic_id": ids[name]} if version > _MAX_VERSION_WITH_TOPIC_NAMES else {"name": name}),
                partitions=all_,
            )
            for name, all_ in group_by_topic(offsets, to_row).items()
        ]
        response = await connection.request(body, version=version)
    names = {topic_id: name for name, topic_id in ids.items()}
    rows: dict[TopicPartition, BrokerError | None] = {}
    for topic in response.topics:
        name = (
            topic.name if version <= _MAX_VERSION_WITH_TOPIC_NAMES else names.get(topic.topic_id) or str(topic.topic_id)
        )
        for entry in topic.partitions:
            partition = TopicPartition(name, entry.partition_index)
            rows[partition] = None
            if entry.error_code:
                _refresh_stale_entry(cluster, member.group_id, partition, entry.error_code)
                rows[partition] = to_broker_error(
                    entry.error_code, f"commit of {partition} for group {member.group_id}"
                )
    require_rows(offsets, rows, f"commit for group {member.group_id}")
    return rows


def _refresh_stale_entry(cluster: ClusterClient, group_id: str, partition: TopicPartition, code: int) -> None:
    """Refresh a topic's id before the next attempt if the topic was recreated. Look up a coordinator that has moved."""
    if code == ErrorCode.UNKNOWN_TOPIC_ID:
        cluster.cluster.expire(partition.topic)
    if code in COORDINATOR_MOVED_CODES:
        cluster.forget_coordinator(group_id)
