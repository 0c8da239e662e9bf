"""ConsumerGroupHeartbeat: the protocol of consumer groups (KIP-848).

A partition goes to its new owner after the old one has said that it gave it up. A classic group of the same name
becomes a consumer group, and the other way round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.access import all_denied, viewer_of
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, client_host, elsewhere, error_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.consumer import by_topic
from kafkaframes.coordination.groups.consumer_protocol import Beat
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse

    Request: TypeAlias = RequestOf[ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse]

_FIRST_WITH_CLIENT_IDS = 1


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with the member's epoch, and its assignment where it has changed."""
    body = request.body
    code = all_denied(request, broker.access, "TOPIC", body.subscribed_topic_names or ())
    code = code or elsewhere(request, broker, GROUP, body.group_id)
    if code != ErrorCode.NONE:
        return request.response(error_code=code)
    beat = Beat(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topics=body.subscribed_topic_names,
        regex=body.subscribed_topic_regex,
        assignor=body.server_assignor,
        owned=_owned(body.topic_partitions),
        client_id=request.client_id or "",
        client_host=client_host(request),
        owns_rows=bool(body.topic_partitions),
        viewer=viewer_of(request.session, broker.access),
    )
    try:
        answer = broker.groups.consumer_heartbeat(beat, may_lack_id=request.version < _FIRST_WITH_CLIENT_IDS)
    except KafkaframesError as error:
        reason = error.reason if isinstance(error, RefusedError) else None
        return request.response(error_code=error_of(error), error_message=reason)
    return request.response(
        member_id=answer.member_id,
        member_epoch=answer.epoch,
        heartbeat_interval_ms=answer.interval_ms,
        assignment=None if answer.assignment is None else _assignment(request, answer.assignment),
    )


def _owned(rows: list[ConsumerGroupHeartbeatRequest.TopicPartitions] | None) -> frozenset[Any] | None:
    return None if rows is None else frozenset((row.topic_id, index) for row in rows for index in row.partitions)


def _assignment(request: Request, assigned: Any) -> ConsumerGroupHeartbeatResponse.Assignment:
    types = request.response
    rows = [types.TopicPartitions(topic_id=one, partitions=indexes) for one, indexes in by_topic(assigned).items()]
    return types.Assignment(topic_partitions=rows)


API = Api(
    name="ConsumerGroupHeartbeat",
    handle=handle,
    tier="T5",
    behaviour="Joining, leaving, subscribing and reconciling in one request; assignors uniform and range.",
    notes={
        "v0": "the coordinator gives a new member its id",
        "v1+": (
            "the client does (KIP-1082); patterns for topics in RE2's language, resolved at once, where Kafka "
            "does it a moment later"
        ),
    },
    rights=(
        Right("READ", "GROUP", "group_id"),
        Right("DESCRIBE", "TOPIC", each="the topics that are subscribed to by name; all or none"),
    ),
)
