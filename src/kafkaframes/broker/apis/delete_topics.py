"""DeleteTopics: take topics out of service (KIP-4)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.changes import Steps
from kafkaframes.broker.errors import code_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DeleteTopicsRequest, DeleteTopicsResponse

    Request: TypeAlias = RequestOf[DeleteTopicsRequest, DeleteTopicsResponse]

_FIRST_BY_ID = 6


def handle(request: Request, broker: BrokerState) -> Answer:
    """Delete the topics, each for itself."""
    if request.version >= _FIRST_BY_ID:
        asked = [(one.name, one.topic_id) for one in request.body.topics]
    else:
        asked = [(name, NO_UUID) for name in request.body.topic_names]
    return broker.changes.run(_deleted(request, broker, asked))


def _deleted(request: Request, broker: BrokerState, asked: list[tuple[Any, Any]]) -> Steps[Answer]:
    chosen: dict[UUID, Topic] = {}
    rows = []
    for (name, topic_id), times in Counter(asked).items():
        if times == 1:
            rows.append(_row(request, broker, name, topic_id, chosen))
        else:  # nothing is deleted for a name that comes twice
            types, code = request.response, ErrorCode.INVALID_REQUEST
            rows.append(types.DeletableTopicResult(name=name, topic_id=topic_id, error_code=code))
    try:
        yield from broker.deleting_topics(list(chosen.values()))
    except KafkaframesError as error:
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                row.error_code, row.error_message = code_of(error), str(error)
    return request.response(responses=rows)


def _row(
    request: Request, broker: BrokerState, name: str | None, topic_id: Any, chosen: dict[UUID, Topic]
) -> DeleteTopicsResponse.DeletableTopicResult:
    row = request.response.DeletableTopicResult(name=name, topic_id=topic_id)
    by_id = name is None
    if not by_id and topic_id != NO_UUID:
        row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "both a name and an id"
        return row
    topic = broker.topics_by_id.get(topic_id) if by_id else broker.topics.get(name or "")
    if topic is not None and topic.topic_id in chosen:
        topic = None
    known = topic.name if topic is not None else name or ""
    row.error_code = _code(request, broker, known, is_known=topic is not None, by_id=by_id)
    if topic is not None and not denied(request, broker.access, "TOPIC", known, "DESCRIBE"):
        row.name = known
    if row.error_code == ErrorCode.NONE and topic is not None:
        row.topic_id = topic.topic_id
        chosen[topic.topic_id] = topic
    return row


def _code(request: Request, broker: BrokerState, name: str, *, is_known: bool, by_id: bool) -> int:
    if by_id and not is_known:
        return ErrorCode.UNKNOWN_TOPIC_ID
    hidden = denied(request, broker.access, "TOPIC", name, "DESCRIBE")
    if hidden or not is_known:
        return hidden or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = denied(request, broker.access, "TOPIC", name, "DELETE")
    if code != ErrorCode.NONE:
        return code
    if not broker.settings.flag("delete.topic.enable"):
        return ErrorCode.TOPIC_DELETION_DISABLED
    return ErrorCode.POLICY_VIOLATION if broker.is_read_only else ErrorCode.NONE


API = Api(
    name="DeleteTopics",
    handle=handle,
    tier="T3",
    behaviour="The topic is gone when the answer is sent; its files go after file.delete.delay.ms.",
    notes={
        "v5+": "messages of errors",
        "v6+": "topics by id",
    },
    rights=(
        Right("DESCRIBE", "TOPIC", each="each topic", or_cluster="DELETE"),
        Right("DELETE", "TOPIC", each="each topic", or_cluster="DELETE"),
    ),
)
