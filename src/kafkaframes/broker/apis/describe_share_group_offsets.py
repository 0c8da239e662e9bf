"""DescribeShareGroupOffsets: the offsets that share groups have reached (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, refused
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.coordination.groups.share import ShareGroup
from kafkaframes.coordination.groups.share_state import ShareKey
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse

    Request: TypeAlias = RequestOf[DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsResponse]

_NONE = -1


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer for each group."""

    def answer(rows: list[DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup]) -> Answer:
        return request.response(groups=rows)

    return broker.changes.rows(request.body.groups, lambda asked: _group(request, broker, asked), answer)


def _group(
    request: Request, broker: BrokerState, asked: DescribeShareGroupOffsetsRequest.DescribeShareGroupOffsetsRequestGroup
) -> DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseGroup:
    made = request.response.DescribeShareGroupOffsetsResponseGroup
    code = refused(request, broker, GROUP, asked.group_id)
    known = [topic.partitions for topic in asked.topics or () if topic.topic_name in broker.topics]
    if code == ErrorCode.NONE and known and (not asked.group_id or any(min(some, default=-1) < 0 for some in known)):
        code = ErrorCode.INVALID_REQUEST  # Kafka's share coordinator fails: UNKNOWN_SERVER_ERROR
    if code != ErrorCode.NONE:
        return made(group_id=asked.group_id, error_code=code)
    if asked.topics is None:
        wanted = _everything(request, broker, asked.group_id)
    else:
        wanted = {topic.topic_name: list(topic.partitions) for topic in asked.topics}
    topics = [_topic(request, broker, asked.group_id, name, indexes) for name, indexes in wanted.items()]
    return made(group_id=asked.group_id, topics=topics)


def _everything(request: Request, broker: BrokerState, group_id: str) -> dict[str, list[int]]:
    group = broker.groups.groups.get(group_id)
    read = group.initialized if isinstance(group, ShareGroup) else {}
    return {
        topic.name: sorted(indexes)
        for topic_id, (_, indexes) in read.items()
        if (topic := broker.topics_by_id.get(topic_id)) and not denied(request, broker.access, "TOPIC", topic.name)
    }


def _topic(
    request: Request, broker: BrokerState, group_id: str, name: str, indexes: list[int]
) -> DescribeShareGroupOffsetsResponse.DescribeShareGroupOffsetsResponseTopic:
    types = request.response
    topic = broker.topics.get(name)
    refusal = denied(request, broker.access, "TOPIC", name)
    states = broker.share_groups.states
    rows = []
    for index in indexes:
        row = types.DescribeShareGroupOffsetsResponsePartition(partition_index=index, start_offset=_NONE)
        partition = None if topic is None else topic.partition(index)
        if refusal != ErrorCode.NONE:
            row.error_code = refusal
        elif topic is not None and partition is not None:  # of others nothing is known, which is no error
            stored = states.stored.get(ShareKey(group_id, topic.topic_id, index))
            if stored is not None:
                row.start_offset = stored.start
            if stored is not None and stored.start != _NONE and stored.done != _NONE:
                row.lag = partition.log.high_watermark - stored.start - stored.done
        rows.append(row)
    topic_id = NO_UUID if topic is None or refusal else topic.topic_id
    return types.DescribeShareGroupOffsetsResponseTopic(topic_name=name, topic_id=topic_id, partitions=rows)


API = Api(
    name="DescribeShareGroupOffsets",
    handle=handle,
    tier="T6",
    behaviour="Start offset and lag of share groups, as they are stored; -1 until something was acknowledged.",
    notes={
        "v1+": "lag (KIP-1226)",
    },
    rights=(
        Right("DESCRIBE", "GROUP", each="each group"),
        Right("DESCRIBE", "TOPIC", each="each topic; where all are requested, it is left out"),
    ),
)
