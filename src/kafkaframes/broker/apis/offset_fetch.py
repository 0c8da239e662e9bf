"""OffsetFetch: what a group has committed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, by_topic, error_of, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.coordination.groups.commits import Fetched
from kafkaframes.coordination.groups.membership import Committer
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.storage.files.names import TopicPartition

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import OffsetFetchRequest, OffsetFetchResponse

    Request: TypeAlias = RequestOf[OffsetFetchRequest, OffsetFetchResponse]
    _Topic: TypeAlias = OffsetFetchRequest.OffsetFetchRequestTopic | OffsetFetchRequest.OffsetFetchRequestTopics

_FIRST_WITH_ERROR = 2
_FIRST_WITH_GROUPS = 8
_FIRST_WITH_EPOCHS = 9
_FIRST_WITH_IDS = 10
_UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer for one group, or for each of several."""
    body, types = request.body, request.response
    if request.version >= _FIRST_WITH_GROUPS:

        def answer(rows: list[OffsetFetchResponse.OffsetFetchResponseGroup]) -> Answer:
            return request.response(groups=rows)

        return broker.changes.rows(body.groups, lambda one: _group(request, broker, one), answer)
    who = Committer(body.group_id, knows_epochs=False)
    partition_type = types.OffsetFetchResponsePartition
    error, found = _fetch(request, broker, who, body.topics)
    if error != ErrorCode.NONE and request.version < _FIRST_WITH_ERROR:
        found = {
            TopicPartition(topic.name, index): Fetched(error=error)
            for topic in body.topics or ()
            for index in topic.partition_indexes
        }
    if request.version == 0:
        found = {where: one._replace(error=_UNKNOWN) if one.offset < 0 else one for where, one in found.items()}
    topics = [
        types.OffsetFetchResponseTopic(name=name, partitions=_rows(partition_type, name, indexes, found))
        for name, indexes in _listed(body.topics if error == ErrorCode.NONE or found else [], found)
    ]
    return request.response(topics=topics, error_code=error)


def _listed(topics: Iterable[_Topic] | None, found: dict[TopicPartition, Fetched]) -> Iterator[tuple[str, list[int]]]:
    """Yield topics and partitions as they were requested, those without any too; all that are there if none were."""
    if topics is None:
        yield from by_topic(found)
    else:
        yield from ((topic.name, topic.partition_indexes) for topic in topics)


def _fetch(
    request: Request, broker: BrokerState, who: Committer, topics: Iterable[_Topic] | None
) -> tuple[int, dict[TopicPartition, Fetched]]:
    """Return a group's error, and its offsets of these topics; of all topics if they are None."""
    error = refused(request, broker, GROUP, who.group_id)
    if error != ErrorCode.NONE:
        return error, {}
    wanted = (
        None
        if topics is None
        else [TopicPartition(topic.name, index) for topic in topics for index in topic.partition_indexes]
    )
    try:
        found = broker.groups.commits.fetch(who, wanted, require_stable=request.body.require_stable)
    except KafkaframesError as failed:
        return error_of(failed), {}
    codes = {name: denied(request, broker.access, "TOPIC", name) for name in {where.topic for where in found}}
    if wanted is None:
        return ErrorCode.NONE, {where: one for where, one in found.items() if codes[where.topic] == ErrorCode.NONE}
    return ErrorCode.NONE, {
        where: Fetched(error=codes[where.topic]) if codes[where.topic] else one for where, one in found.items()
    }


def _group(
    request: Request, broker: BrokerState, asked: OffsetFetchRequest.OffsetFetchRequestGroup
) -> OffsetFetchResponse.OffsetFetchResponseGroup:
    types = request.response
    who = Committer(
        asked.group_id,
        asked.member_id or "",
        None,
        asked.member_epoch,
        knows_epochs=request.version >= _FIRST_WITH_EPOCHS,
    )
    topics, unknown = asked.topics, []
    if request.version >= _FIRST_WITH_IDS and topics is not None:
        unknown = [one for one in topics if one.topic_id not in broker.topics_by_id]
        topics = [one for one in topics if one.topic_id in broker.topics_by_id]
        for one in topics:
            one.name = broker.topics_by_id[one.topic_id].name
    error, found = _fetch(request, broker, who, topics)
    partition_type = types.OffsetFetchResponsePartitions
    rows = [
        types.OffsetFetchResponseTopics(
            name=name,
            topic_id=broker.topics[name].topic_id if name in broker.topics else NO_UUID,
            partitions=_rows(partition_type, name, indexes, found),
        )
        for name, indexes in _listed(topics if error == ErrorCode.NONE else [], found)
    ]
    missing = Fetched(error=ErrorCode.UNKNOWN_TOPIC_ID)
    if request.version >= _FIRST_WITH_IDS:
        rows = [row for row in rows if row.topic_id != NO_UUID]
    for one in unknown if error == ErrorCode.NONE else ():
        partitions = [_row(partition_type, index, missing) for index in one.partition_indexes]
        rows.append(types.OffsetFetchResponseTopics(topic_id=one.topic_id, partitions=partitions))
    return types.OffsetFetchResponseGroup(group_id=asked.group_id, topics=rows, error_code=error)


def _rows(struct: Any, name: str, indexes: list[int], found: dict[TopicPartition, Fetched]) -> list[Any]:
    return [_row(struct, index, found[TopicPartition(name, index)]) for index in indexes]


def _row(struct: Any, index: int, one: Fetched) -> Any:
    return struct(
        partition_index=index,
        committed_offset=one.offset,
        committed_leader_epoch=one.leader_epoch,
        metadata=one.metadata,
        error_code=one.error,
    )


API = Api(
    name="OffsetFetch",
    handle=handle,
    tier="T1",
    behaviour="Committed offsets with their metadata; -1 without an error where there is none.",
    notes={
        "v0": (
            "Kafka looked into ZooKeeper; here it is like v1, but what was never committed is "
            "UNKNOWN_TOPIC_OR_PARTITION"
        ),
        "v2+": "null asks for everything; the group's error has a field",
        "v7+": "require_stable: UNSTABLE_OFFSET_COMMIT while a transaction has staged an offset (KIP-447)",
        "v8+": "several groups",
        "v9+": "member epochs (KIP-848)",
        "v10+": "topic ids",
    },
    rights=(
        Right("DESCRIBE", "GROUP", each="each group"),
        Right("DESCRIBE", "TOPIC", each="each topic; where all are requested, it is left out"),
    ),
)
