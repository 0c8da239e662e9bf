"""ShareGroupHeartbeat: a member of a share group joins, stays and leaves (KIP-932).

Version 0 was Kafka 4.0's early access, which Kafka has withdrawn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, client_host, elsewhere, error_of
from kafkaframes.broker.apis._share import is_member_id
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.consumer import by_topic
from kafkaframes.coordination.groups.share_protocol import ShareBeat
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

    Request: TypeAlias = RequestOf[ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with the member's epoch, and its assignment where it has changed."""
    body = request.body
    if not is_member_id(body.member_id):
        return request.response(error_code=ErrorCode.INVALID_REQUEST)
    return broker.changes.rows(
        body.subscribed_topic_names or (),
        lambda name: denied(request, broker.access, "TOPIC", name),
        lambda codes: _beaten(request, broker, next(filter(None, codes), ErrorCode.NONE)),
    )


def _beaten(request: Request, broker: BrokerState, code: int) -> Answer:
    body, types = request.body, request.response
    code = code or elsewhere(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    beat = ShareBeat(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        rack_id=body.rack_id,
        topics=body.subscribed_topic_names,
        client_id=request.client_id or "",
        client_host=client_host(request),
    )
    try:
        answer = broker.groups.share_heartbeat(beat)
    except KafkaframesError as error:
        reason = error.reason if isinstance(error, RefusedError) else None
        return request.response(error_code=error_of(error), error_message=reason)
    assignment = None
    if answer.assignment is not None:
        rows = by_topic(answer.assignment).items()
        assignment = types.Assignment(
            topic_partitions=[types.TopicPartitions(topic_id=one, partitions=indexes) for one, indexes in rows]
        )
    return request.response(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=assignment,
    )


API = Api(
    name="ShareGroupHeartbeat",
    handle=handle,
    tier="T6",
    versions=(1, 1),
    behaviour="Members of share groups; every partition has a reader, every member a partition.",
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right("DESCRIBE", "TOPIC", each="the topics that are subscribed to; all or none"),
    ),
)
