"""DeleteShareGroupOffsets: a share group without members forgets its offsets of topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.coordination.groups.share import Initialized
from kafkaframes.coordination.groups.share_state import ShareKey
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse

    Request: TypeAlias = RequestOf[DeleteShareGroupOffsetsRequest, DeleteShareGroupOffsetsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Forget the topics."""
    body = request.body
    code: int = elsewhere(request, broker, GROUP, body.group_id) if body.group_id else ErrorCode.INVALID_GROUP_ID
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    refusals = {topic.topic_name: denied(request, broker.access, "TOPIC", topic.topic_name) for topic in body.topics}
    try:
        group = broker.groups.change_share_group(body.group_id)
        left, rows = dict(group.initialized), []
        for name, refusal in refusals.items():
            topic = None if refusal else broker.topics.get(name)
            if refusal or group.has_read:  # of a group that never read anything, Kafka says nothing
                rows.append(_forgotten(request, broker, left, name, topic, refusal))
        broker.groups.read_share_topics(group, left)
    except KafkaframesError as error:
        return request.response(error_code=error_of(error), error_message=str(error))
    return request.response(responses=rows)


def _forgotten(
    request: Request, broker: BrokerState, left: Initialized, name: str, topic: Topic | None, refusal: int
) -> DeleteShareGroupOffsetsResponse.DeleteShareGroupOffsetsResponseTopic:
    """Forget where a group stands in a topic, and take it from what the group reads.

    Raises:
        KafkaframesError: the log did not take it.
    """
    made = request.response.DeleteShareGroupOffsetsResponseTopic
    if topic is None or topic.topic_id not in left:
        return made(topic_name=name, error_code=refusal or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    _, indexes = left.pop(topic.topic_id)
    for index in indexes:
        broker.share_groups.states.forget(ShareKey(request.body.group_id, topic.topic_id, index))
    return made(topic_name=name, topic_id=topic.topic_id)


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
