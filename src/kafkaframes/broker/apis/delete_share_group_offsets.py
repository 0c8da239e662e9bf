"""DeleteShareGroupOffsets: a share group without members forgets its offsets of topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import error_of
from kafkaframes.broker.apis._share import without_members
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse

    Request: TypeAlias = RequestOf[DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Forget the topics."""
    body, types = request.body, request.response
    code, reason = without_members(request, broker) if body.group_id else (ErrorCode.INVALID_GROUP_ID, None)
    if code != ErrorCode.NONE:
        return request.response(error_code=code, error_message=reason)
    rows = []
    for asked in body.topics:
        refusal = denied(request, broker.access, "TOPIC", asked.topic_name)
        topic = None if refusal else _read_topic(request, broker, asked.topic_name)
        rows.append(
            types.DeleteShareGroupOffsetsResponseTopic(
                topic_name=asked.topic_name,
                topic_id=NO_UUID if topic is None else topic.topic_id,
                error_code=refusal or _forgotten(request, broker, topic),
            )
        )
    return request.response(responses=rows)


def _read_topic(request: Request, broker: BrokerState, name: str) -> Topic | None:
    """Return a topic in which the group stands somewhere."""
    topic = broker.topics.get(name)
    keys = broker.share_groups.states.keys_of(request.body.group_id)
    return topic if topic is not None and any(key.topic_id == topic.topic_id for key in keys) else None


def _forgotten(request: Request, broker: BrokerState, topic: Topic | None) -> int:
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    states = broker.share_groups.states
    try:
        for key in states.keys_of(request.body.group_id):
            if key.topic_id == topic.topic_id:
                states.forget(key)
    except KafkaframesError as error:
        return error_of(error)
    return ErrorCode.NONE


API = Api(
    name="DeleteShareGroupOffsets",
    handle=handle,
    tier="T6",
    behaviour="Forgets where a share group without members stood in topics.",
    rights=(
        Right("DELETE", "GROUP", "group_id"),
        Right("READ", "TOPIC", each="each topic"),
    ),
)
