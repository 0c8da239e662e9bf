"""Handlers for committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.apis.groups import (
    GROUP,
    ValidatedOffsets,
    check_rights,
    find_coordinator_error,
    find_transaction_error,
    get_error_code,
)
from kafkaframes.broker.apis.transactions import find_offsets_partition
from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.failures import build_failure_response
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.access import check_denied
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.coordination.groups.commits import CommittedOffset
from kafkaframes.coordination.groups.ports import OffsetClient, ProducerIdentity
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition, group_by_topic
from kafkaframes.wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _OffsetCommit: TypeAlias = TypedRequest[kafka.OffsetCommitRequest, kafka.OffsetCommitResponse]
    _TxnOffsetCommit: TypeAlias = TypedRequest[kafka.TxnOffsetCommitRequest, kafka.TxnOffsetCommitResponse]
    _OffsetFetch: TypeAlias = TypedRequest[kafka.OffsetFetchRequest, kafka.OffsetFetchResponse]
    _Topic: TypeAlias = (
        kafka.OffsetFetchRequest.OffsetFetchRequestTopic | kafka.OffsetFetchRequest.OffsetFetchRequestTopics
    )
    _OffsetDelete: TypeAlias = TypedRequest[kafka.OffsetDeleteRequest, kafka.OffsetDeleteResponse]

_FIRST_VERSION_WITH_MEMBER_EPOCHS = 9
_FIRST_COMMIT_VERSION_WITH_TOPIC_IDS = 10
_FIRST_VERSION_WITH_ABORTABLE_ERROR = 4
_FIRST_VERSION_WITH_IMPLICIT_PARTITIONS = 5
_FIRST_TRANSACTIONAL_VERSION_WITH_TOPIC_IDS = 6
# Error from the coordinator -> error in the response to a TxnOffsetCommit.
_TRANSACTION_ERROR_REPLACEMENTS = {ErrorCode.PRODUCER_FENCED: ErrorCode.INVALID_PRODUCER_EPOCH}
_ABORTABLE_ERROR_REPLACEMENTS = {ErrorCode.TRANSACTION_ABORTABLE: ErrorCode.INVALID_TXN_STATE}
_FIRST_VERSION_WITH_GROUP_ERROR = 2
_FIRST_VERSION_WITH_GROUPS = 8
_FIRST_FETCH_VERSION_WITH_TOPIC_IDS = 10
_UNKNOWN_PARTITION_ERROR = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@Api(
    name="OffsetCommit",
    tier="T1",
    behaviour="Offsets and metadata are in the log before the response, and are replayed after a restart.",
    notes={
        "v0": "Kafka stored these offsets in ZooKeeper; here they are stored like those of later versions",
        "v1+": "member and generation are checked; generation -1 without a member id requires an empty group",
        "v2-v4": "the retention time of the request applies",
        "v6+": "leader epochs",
        "v7+": "static members",
        "v9+": "member epochs (KIP-848)",
        "v10+": "topic ids",
    },
    gaps=("the commit time of a v1 client is replaced by the broker's",),
    rights=(
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission("READ", "TOPIC", each="each topic"),
    ),
    refuse=build_failure_response,
)
def _handle_offset_commit(request: _OffsetCommit, broker: BrokerState) -> Answer:
    offsets = ValidatedOffsets(request, broker, by_id_since=_FIRST_COMMIT_VERSION_WITH_TOPIC_IDS)
    return offsets.validate_then_answer(lambda: _commit_offsets(request, broker, offsets))


def _commit_offsets(request: _OffsetCommit, broker: BrokerState, rows: ValidatedOffsets) -> Answer:
    body = request.body
    code = find_coordinator_error(request, broker, GROUP, body.group_id)
    codes: dict[TopicPartition, int] | int = code
    if code == ErrorCode.NONE:
        committer = OffsetClient(
            body.group_id,
            body.member_id,
            body.group_instance_id,
            body.generation_id_or_member_epoch,
            supports_epoch_errors=request.version >= _FIRST_VERSION_WITH_MEMBER_EPOCHS,
        )
        try:
            if rows.offsets:
                codes = broker.groups.commit(committer, rows.offsets, retention_ms=body.retention_time_ms)
        except KafkaframesError as error:
            codes = get_error_code(error)
    types = request.response
    return request.response(
        topics=rows.build_topic_rows(types.OffsetCommitResponseTopic, types.OffsetCommitResponsePartition, codes)
    )


@Api(
    name="TxnOffsetCommit",
    tier="T2",
    behaviour="Stages offsets in the transaction. Until its marker is written, OffsetFetch with "
    "require_stable returns UNSTABLE_OFFSET_COMMIT.",
    notes={
        "v0-v4": (
            "AddOffsetsToTxn must have added the group; otherwise v4 gets TRANSACTION_ABORTABLE, older "
            "versions INVALID_TXN_STATE"
        ),
        "v2+": "leader epochs",
        "v3+": "member, generation and instance id are checked (KIP-447)",
        "v5+": "the commit adds the group to the transaction (KIP-890)",
        "v6+": "topic ids",
    },
    rights=(
        RequiredPermission("WRITE", "TRANSACTIONAL_ID", "transactional_id"),
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission("READ", "TOPIC", each="each topic"),
    ),
    refuse=build_failure_response,
)
def _handle_txn_offset_commit(request: _TxnOffsetCommit, broker: BrokerState) -> Answer:
    offsets = ValidatedOffsets(request, broker, by_id_since=_FIRST_TRANSACTIONAL_VERSION_WITH_TOPIC_IDS)
    return offsets.validate_then_answer(lambda: _answer_staged_commit(request, broker, offsets))


def _answer_staged_commit(request: _TxnOffsetCommit, broker: BrokerState, rows: ValidatedOffsets) -> Answer:
    """Stage the offsets of a transaction, and return the response."""
    body, types = request.body, request.response
    codes: dict[TopicPartition, int] | int
    codes = find_transaction_error(request, broker, GROUP, body.group_id)
    if codes == ErrorCode.NONE and not body.group_id:
        codes = ErrorCode.INVALID_GROUP_ID
    if codes == ErrorCode.NONE and rows.offsets:
        codes = _stage_commit(request, broker, rows)
    return request.response(
        topics=rows.build_topic_rows(types.TxnOffsetCommitResponseTopic, types.TxnOffsetCommitResponsePartition, codes)
    )


def _stage_commit(
    request: _TxnOffsetCommit, broker: BrokerState, rows: ValidatedOffsets
) -> dict[TopicPartition, int] | int:
    """Add the offsets to the producer's transaction. Return an error code for each partition, or one for all."""
    body = request.body
    producer = ProducerIdentity(body.producer_id, body.producer_epoch)
    offsets_topic_partition = find_offsets_partition(broker, body.group_id)
    try:
        if request.version >= _FIRST_VERSION_WITH_IMPLICIT_PARTITIONS:
            broker.transactions.add_partitions(body.transactional_id, *producer, [offsets_topic_partition], version=2)
        else:
            broker.transactions.verify_partition(body.transactional_id, *producer, offsets_topic_partition)
    except KafkaframesError as error:
        code = _TRANSACTION_ERROR_REPLACEMENTS.get(get_error_code(error), get_error_code(error))
        return (
            code
            if request.version >= _FIRST_VERSION_WITH_ABORTABLE_ERROR
            else _ABORTABLE_ERROR_REPLACEMENTS.get(code, code)
        )
    committer = OffsetClient(body.group_id, body.member_id, body.group_instance_id, body.generation_id_or_member_epoch)
    try:
        return broker.groups.commits.commit_in_transaction(committer, rows.offsets, producer)
    except KafkaframesError as error:
        return get_error_code(error)


@Api(
    name="OffsetFetch",
    tier="T1",
    behaviour="Returns committed offsets with their metadata; -1 without an error if nothing was committed.",
    notes={
        "v0": (
            "Kafka read ZooKeeper; here it is like v1, but a partition without a committed offset is "
            "UNKNOWN_TOPIC_OR_PARTITION"
        ),
        "v2+": "null requests all partitions; the response has a field for the group's error",
        "v7+": "require_stable: UNSTABLE_OFFSET_COMMIT while a transaction has staged an offset (KIP-447)",
        "v8+": "several groups",
        "v9+": "member epochs (KIP-848)",
        "v10+": "topic ids",
    },
    rights=(
        RequiredPermission("DESCRIBE", "GROUP", each="each group"),
        RequiredPermission("DESCRIBE", "TOPIC", each="each topic; a request for all topics omits forbidden ones"),
    ),
)
def _handle_offset_fetch(request: _OffsetFetch, broker: BrokerState) -> Answer:
    body, types = request.body, request.response
    if request.version >= _FIRST_VERSION_WITH_GROUPS:
        return broker.changes.answer_rows(
            body.groups, partial(_build_group_row, request, broker), lambda rows: request.response(groups=rows)
        )
    committer = OffsetClient(body.group_id, supports_epoch_errors=False)
    partition_type = types.OffsetFetchResponsePartition
    error, offsets = _fetch_group_offsets(request, broker, committer, body.topics)
    if error != ErrorCode.NONE and request.version < _FIRST_VERSION_WITH_GROUP_ERROR:
        offsets = {
            TopicPartition(topic.name, index): CommittedOffset(error=error)
            for topic in body.topics or ()
            for index in topic.partition_indexes
        }
    if request.version == 0:
        offsets = {
            topic_partition: offset._replace(error=_UNKNOWN_PARTITION_ERROR) if offset.offset < 0 else offset
            for topic_partition, offset in offsets.items()
        }
    topics = [
        types.OffsetFetchResponseTopic(name=name, partitions=_rows(partition_type, name, indexes, offsets))
        for name, indexes in _list_offsets(body.topics if error == ErrorCode.NONE or offsets else [], offsets)
    ]
    return request.response(topics=topics, error_code=error)


def _list_offsets(
    topics: Iterable[_Topic] | None, offsets: dict[TopicPartition, CommittedOffset]
) -> Iterator[tuple[str, list[int]]]:
    """Yield the requested topics and partitions, including topics without partitions; all if ``topics`` is None."""
    if topics is None:
        yield from group_by_topic(offsets).items()
    else:
        yield from ((topic.name, topic.partition_indexes) for topic in topics)


def _fetch_group_offsets(
    request: _OffsetFetch, broker: BrokerState, committer: OffsetClient, topics: Iterable[_Topic] | None
) -> tuple[int, dict[TopicPartition, CommittedOffset]]:
    """Return a group's error code and its committed offsets in the topics (in all topics if ``topics`` is None)."""
    error = check_rights(request, broker, GROUP, committer.group_id)
    if error != ErrorCode.NONE:
        return error, {}
    partitions = (
        None
        if topics is None
        else [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]
    )
    try:
        offsets = broker.groups.commits.fetch(committer, partitions, require_stable=request.body.require_stable)
    except KafkaframesError as failed:
        return get_error_code(failed), {}
    codes = {
        name: check_denied(request, broker.access, "TOPIC", name)
        for name in {topic_partition.topic for topic_partition in offsets}
    }
    if partitions is None:
        return ErrorCode.NONE, {
            topic_partition: offset
            for topic_partition, offset in offsets.items()
            if codes[topic_partition.topic] == ErrorCode.NONE
        }
    return ErrorCode.NONE, {
        topic_partition: CommittedOffset(error=codes[topic_partition.topic]) if codes[topic_partition.topic] else offset
        for topic_partition, offset in offsets.items()
    }


def _build_group_row(
    request: _OffsetFetch, broker: BrokerState, group: kafka.OffsetFetchRequest.OffsetFetchRequestGroup
) -> kafka.OffsetFetchResponse.OffsetFetchResponseGroup:
    types = request.response
    committer = OffsetClient(
        group.group_id,
        group.member_id or "",
        None,
        group.member_epoch,
        supports_epoch_errors=request.version >= _FIRST_VERSION_WITH_MEMBER_EPOCHS,
        has_member_field=group.member_id is not None,
    )
    topics, unknown = group.topics, []
    if request.version >= _FIRST_FETCH_VERSION_WITH_TOPIC_IDS and topics is not None:
        unknown = [topic for topic in topics if topic.topic_id not in broker.topics_by_id]
        topics = [topic for topic in topics if topic.topic_id in broker.topics_by_id]
        for topic in topics:
            topic.name = broker.topics_by_id[topic.topic_id].name
    error, offsets = _fetch_group_offsets(request, broker, committer, topics)
    partition_type = types.OffsetFetchResponsePartitions
    rows = [
        types.OffsetFetchResponseTopics(
            name=name,
            topic_id=broker.topics[name].topic_id if name in broker.topics else NIL_UUID,
            partitions=_rows(partition_type, name, indexes, offsets),
        )
        for name, indexes in _list_offsets(topics if error == ErrorCode.NONE else [], offsets)
    ]
    unknown_topic = CommittedOffset(error=ErrorCode.UNKNOWN_TOPIC_ID)
    if request.version >= _FIRST_FETCH_VERSION_WITH_TOPIC_IDS:
        rows = [row for row in rows if row.topic_id != NIL_UUID]
    for topic in unknown if error == ErrorCode.NONE else ():
        partitions = [_build_offset_row(partition_type, index, unknown_topic) for index in topic.partition_indexes]
        rows.append(types.OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
    return types.OffsetFetchResponseGroup(group_id=group.group_id, topics=rows, error_code=error)


def _rows(struct: Any, name: str, indexes: list[int], offsets: dict[TopicPartition, CommittedOffset]) -> list[Any]:
    return [_build_offset_row(struct, index, offsets[TopicPartition(name, index)]) for index in indexes]


def _build_offset_row(struct: Any, index: int, offset: CommittedOffset) -> Any:
    return struct(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
        error_code=offset.error,
    )


@Api(
    name="OffsetDelete",
    tier="T1",
    behaviour="Deletes committed offsets of topics to which no member is subscribed (else "
    "GROUP_SUBSCRIBED_TO_TOPIC). A group with members that are not consumers must be empty.",
    rights=(
        RequiredPermission("DELETE", "GROUP", "group_id"),
        RequiredPermission("READ", "TOPIC", each="each topic"),
    ),
)
def _handle_offset_delete(request: _OffsetDelete, broker: BrokerState) -> Answer:
    body = request.body
    code = find_coordinator_error(request, broker, GROUP, body.group_id)
    if code == ErrorCode.NONE and not body.group_id:
        code = ErrorCode.INVALID_GROUP_ID
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    partitions = [TopicPartition(topic.name, row.partition_index) for topic in body.topics for row in topic.partitions]
    return broker.changes.answer_rows(
        dict.fromkeys(partitions),
        lambda where: (where, _find_deletion_error(request, broker, where.topic, where.partition)),
        lambda rows: _delete_offsets(request, broker, dict(rows)),
    )


def _delete_offsets(request: _OffsetDelete, broker: BrokerState, codes: dict[TopicPartition, int]) -> Answer:
    types, topics = request.response, []
    deletable_partitions = {topic_partition: None for topic_partition, code in codes.items() if code == ErrorCode.NONE}
    try:
        codes |= broker.groups.commits.delete(request.body.group_id, list(deletable_partitions))
    except KafkaframesError as error:
        return request.response(error_code=get_error_code(error))
    for topic in request.body.topics:
        if not topic.partitions and topic.name in broker.topics:
            continue  # as in Kafka, a known topic without partitions is omitted from the response
        partitions = [TopicPartition(topic.name, row.partition_index) for row in topic.partitions]
        # As in Kafka's responses, partitions with errors are first.
        partitions.sort(key=deletable_partitions.__contains__)
        rows = [
            types.OffsetDeleteResponsePartition(
                partition_index=topic_partition.partition, error_code=codes[topic_partition]
            )
            for topic_partition in partitions
        ]
        topics.append(types.OffsetDeleteResponseTopic(name=topic.name, partitions=rows))
    return request.response(topics=topics)


def _find_deletion_error(request: _OffsetDelete, broker: BrokerState, topic: str, index: int) -> int:
    """Return the error code of a partition in an OffsetDelete request; 0 if its offset may be deleted."""
    code = check_denied(request, broker.access, "TOPIC", topic)
    return code or (
        ErrorCode.NONE if broker.partition(topic, index) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    )
