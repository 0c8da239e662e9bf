"""Metadata: brokers, topics, partitions and their leaders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from kafkaframes.broker.access import CLUSTER_NAME, denied, may
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.changes import Steps, each
from kafkaframes.broker.errors import code_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import NO_UUID, BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.protocol.messages import Message
from kafkaframes.storage.files.names import is_topic

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import MetadataRequest, MetadataResponse

    Request: TypeAlias = RequestOf[MetadataRequest, MetadataResponse]

_FIRST_WITH_NULL = 1
_FIRST_WITHOUT_NAME = 12
NOT_ASKED = -(2**31)


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with the cluster, and the topics that are asked for; those that are to be made are made before."""
    names, failed = _to_make(request, broker)
    return (
        broker.changes.run(_made_first(request, broker, names, failed)) if names else _answer(request, broker, failed)
    )


def _to_make(request: Request, broker: BrokerState) -> tuple[list[str], dict[str, int]]:
    """Return the names of topics that are to be made, and the error codes of those that may not be."""
    names: dict[str, None] = {}
    failed: dict[str, int] = {}
    may_make = broker.settings.flag("auto.create.topics.enable") and request.body.allow_auto_topic_creation
    asked = (request.body.topics or ()) if may_make and not broker.is_read_only and not _ids(request) else ()
    for name in (one.name for one in asked):
        if not name or name in broker.topics or not may(request, broker.access, "TOPIC", name, "DESCRIBE"):
            continue
        code = denied(request, broker.access, "TOPIC", name, "CREATE")
        if code != ErrorCode.NONE:
            failed[name] = code
        elif _code_for(name) != ErrorCode.INVALID_TOPIC_EXCEPTION:
            names[name] = None
    return list(names), failed


def _made_first(request: Request, broker: BrokerState, names: list[str], failed: dict[str, int]) -> Steps[Answer]:
    made = [topic for topic in (yield from each(_making(broker, name, failed) for name in names)) if topic is not None]
    try:
        if made:
            broker.keep(made)
    except KafkaframesError as error:
        failed |= {topic.name: code_of(error) for topic in made}
    return _answer(request, broker, failed)


def _making(broker: BrokerState, name: str, failed: dict[str, int]) -> Steps[Topic | None]:
    """Make a topic as the broker's settings say, internal ones as their coordinator wants; None if it is not made."""
    if name in broker.topics:  # somebody has made it meanwhile
        return None
    try:
        if broker.is_internal(name):
            return broker.create_internal(name)
        return (yield from broker.making_topic(name, broker.settings.number("num.partitions")))
    except KafkaframesError as error:
        failed[name] = code_of(error)
        return None


def _answer(request: Request, broker: BrokerState, failed: Mapping[str, int]) -> Message:
    """Answer with the cluster and its topics, and the error codes of those that could not be made."""
    body, version = request.body, request.version
    if version < _FIRST_WITHOUT_NAME and any(one.name is None or one.topic_id != NO_UUID for one in body.topics or ()):
        return _refuse_ids(request)
    nodes = broker.nodes
    brokers = []
    for node_id in nodes.ids:
        node = nodes.by_id[node_id]
        at = nodes.endpoint(node, request.session.listener)
        brokers.append(
            request.response.MetadataResponseBroker(node_id=node_id, host=at.host, port=at.port, rack=node.rack)
        )
    asks_all = body.topics is None or (version < _FIRST_WITH_NULL and not body.topics)
    wants = bool(body.include_topic_authorized_operations)
    rows = _all_topics(request, broker) if asks_all else _asked_topics(request, broker, failed)
    topics = list(rows)
    for row in topics:
        if wants and row.name is not None and row.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            row.topic_authorized_operations = broker.access.operations(request.session, "TOPIC", row.name)
    cluster = NOT_ASKED
    if body.include_cluster_authorized_operations:
        cluster = broker.access.operations(request.session, "CLUSTER", CLUSTER_NAME)
    return request.response(
        brokers=brokers,
        cluster_id=broker.cluster_id,
        controller_id=nodes.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster,
    )


def _refuse_ids(request: Request) -> Message:
    """Answer ids at versions 10 and 11, which carry them and have no meaning for them yet."""
    code = ErrorCode.INVALID_REQUEST
    rows = [_missing(request, one.name or "", code, one.topic_id) for one in request.body.topics or ()]
    return request.response(topics=rows, cluster_id=None, controller_id=-1)


def _all_topics(request: Request, broker: BrokerState) -> Iterator[Any]:
    for topic in broker.topics.values():
        if may(request, broker.access, "TOPIC", topic.name, "DESCRIBE"):
            yield topic_row(request, broker, topic)


def _asked_topics(request: Request, broker: BrokerState, failed: Mapping[str, int]) -> Iterator[Any]:
    ids = _ids(request)
    for topic_id in ids:
        topic = broker.topics_by_id.get(topic_id)
        code: int = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            code = denied(request, broker.access, "TOPIC", topic.name, "DESCRIBE")
        if topic is None or code != ErrorCode.NONE:
            yield _missing(request, None, code, topic_id)
        else:
            yield topic_row(request, broker, topic)
    for name in dict.fromkeys(one.name for one in (() if ids else request.body.topics or ())):
        if name is None:
            yield _missing(request, None, ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            yield _by_name(request, broker, name, failed)


def _ids(request: Request) -> list[UUID]:
    """Return the ids that are asked for; where there are some, names are not looked at, as in Kafka."""
    return list(dict.fromkeys(one.topic_id for one in request.body.topics or () if one.topic_id != NO_UUID))


def _by_name(request: Request, broker: BrokerState, name: str, failed: Mapping[str, int]) -> Any:
    code = denied(request, broker.access, "TOPIC", name, "DESCRIBE")
    if code != ErrorCode.NONE:
        return _missing(request, name, code)
    topic = broker.topics.get(name)
    if name in failed:
        return _missing(request, name, failed[name])
    if topic is None:
        return _missing(request, name, _code_for(name))
    return topic_row(request, broker, topic)


def _code_for(name: str) -> int:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _missing(
    request: Request, name: str | None, code: int, topic_id: Any = NO_UUID
) -> MetadataResponse.MetadataResponseTopic:
    return request.response.MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id)


def topic_row(request: Request, broker: BrokerState, topic: Topic) -> MetadataResponse.MetadataResponseTopic:
    """Return a topic as Metadata answers it."""
    up = set(broker.nodes.ids)
    partitions = []
    for one in topic.partitions:
        replicas = [one.leader_id]
        is_led = one.leader_id in up and not one.is_offline
        partitions.append(
            request.response.MetadataResponsePartition(
                error_code=ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
                partition_index=one.index,
                leader_id=one.leader_id if is_led else -1,
                leader_epoch=one.leader_epoch,
                replica_nodes=replicas,
                isr_nodes=replicas if is_led else [],
                offline_replicas=[] if is_led else replicas,
            )
        )
    return request.response.MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions
    )


API = Api(
    name="Metadata",
    handle=handle,
    tier="T0",
    behaviour=(
        "Every node with its address on the listener of the request; unknown topics are made at once and "
        "answered whole, where Kafka answers LEADER_NOT_AVAILABLE first."
    ),
    notes={
        "v0": "an empty list asks for all topics",
        "v1+": "null asks for all topics",
        "v0-v3": "unknown topics are made if auto.create.topics.enable",
        "v4+": "... and if the request allows it",
        "v8+": "authorized operations: topics, and up to v10 the cluster",
        "v10+": "topic ids; v12+ by topic id alone",
    },
    rights=(
        Right("DESCRIBE", "TOPIC", each="each topic; where all are requested, it is left out"),
        Right("CREATE", "TOPIC", each="each topic that is made", or_cluster="CREATE"),
    ),
)
