"""Handlers that describe brokers, topics, partitions and leaders: Metadata, DescribeTopicPartitions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from kafkaframes.broker.apis.topics import create_topics_in_steps
from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.access import CLUSTER_RESOURCE_NAME, check_denied, is_allowed
from kafkaframes.broker.state.changes import Steps
from kafkaframes.broker.state.partitions import list_addresses
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Partition, Topic
from kafkaframes.errors import ErrorCode, to_error_code
from kafkaframes.protocol.messages import Message
from kafkaframes.storage.files.names import is_topic_name
from kafkaframes.wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _Metadata: TypeAlias = TypedRequest[kafka.MetadataRequest, kafka.MetadataResponse]
    _DescribeTopicPartitions: TypeAlias = TypedRequest[
        kafka.DescribeTopicPartitionsRequest, kafka.DescribeTopicPartitionsResponse
    ]

_FIRST_VERSION_WITH_NULL_TOPICS = 1
_FIRST_VERSION_WITHOUT_NAME = 12
OPERATIONS_NOT_REQUESTED = -(2**31)
_MAX_PARTITION_ROWS = 2_000


@Api(
    name="Metadata",
    tier="T0",
    behaviour="Returns every node with its address on the listener of the request. Unknown topics are "
    "created and returned at once. With Kafka's defaults, or if the broker emulates a release, "
    "the first response has an error, as in Kafka.",
    notes={
        "v0": "an empty list requests all topics",
        "v1+": "null requests all topics",
        "v0-v3": "unknown topics are created if auto.create.topics.enable is true",
        "v4+": "an unknown topic is created if the request and auto.create.topics.enable allow it",
        "v8+": "authorized operations of topics, and up to v10 of the cluster, on request",
        "v10+": "the response contains topic ids; from v12 on, a request may name topics by id",
    },
    rights=(
        RequiredPermission("DESCRIBE", "TOPIC", each="each topic; a request for all topics omits forbidden ones"),
        RequiredPermission("CREATE", "TOPIC", each="each topic that is created", or_cluster="CREATE"),
    ),
)
def _handle_metadata(request: _Metadata, broker: BrokerState) -> Answer:
    names, failures = _find_topics_to_create(request, broker)
    return (
        broker.changes.run(_create_missing_topics(request, broker, names, failures))
        if names
        else _build_metadata_response(request, broker, failures)
    )


def _find_topics_to_create(request: _Metadata, broker: BrokerState) -> tuple[list[str], dict[str, int]]:
    """Return the names of topics to auto-create, and the error codes of topics that the client may not create."""
    names: dict[str, None] = {}
    failures: dict[str, int] = {}
    may_create = broker.settings.get_flag("auto.create.topics.enable") and request.body.allow_auto_topic_creation
    topics = (
        (request.body.topics or ())
        if may_create and not broker.is_read_only and not _list_requested_topic_ids(request)
        else ()
    )
    for name in (topic.name for topic in topics):
        if not name or name in broker.topics or not is_allowed(request, broker.access, "TOPIC", name, "DESCRIBE"):
            continue
        code = check_denied(request, broker.access, "TOPIC", name, "CREATE")
        if code != ErrorCode.NONE:
            failures[name] = code
        elif _find_code(name) != ErrorCode.INVALID_TOPIC_EXCEPTION:
            names[name] = None
    return list(names), failures


def _create_missing_topics(
    request: _Metadata, broker: BrokerState, names: list[str], failures: dict[str, int]
) -> Steps[Answer]:
    errors = yield from create_topics_in_steps(
        broker, {name: partial(_auto_create_in_steps, broker, name) for name in names}
    )
    error_of_new_topics = (
        dict.fromkeys(names, broker.settings.new_topic_error) if broker.settings.new_topic_error else {}
    )
    return _build_metadata_response(
        request,
        broker,
        failures | error_of_new_topics | {name: to_error_code(error) for name, error in errors.items()},
    )


def _auto_create_in_steps(broker: BrokerState, name: str) -> Steps[Topic | None]:
    """Auto-create a topic, with the settings of the broker or of a coordinator. Return None if the topic exists."""
    if name in broker.topics:  # another request has created the topic in the meantime
        return None
    if broker.is_internal(name):
        return broker.create_internal_topic(name)
    replicas = broker.assign_replicas(name, broker.settings.get_number("num.partitions"), broker.default_factor)
    return (yield from broker.create_topic_in_steps(name, replicas))


def _build_metadata_response(request: _Metadata, broker: BrokerState, failures: Mapping[str, int]) -> Message:
    """Return a response with the cluster, its topics, and the error codes of topics that could not be created."""
    body, version = request.body, request.version
    if version < _FIRST_VERSION_WITHOUT_NAME and any(
        topic.name is None or topic.topic_id != NIL_UUID for topic in body.topics or ()
    ):
        return _refuse_topic_ids(request)
    requests_all_topics = body.topics is None or (version < _FIRST_VERSION_WITH_NULL_TOPICS and not body.topics)
    wants = bool(body.include_topic_authorized_operations)
    rows = _list_topics(request, broker) if requests_all_topics else _find_topics(request, broker, failures)
    topics = list(rows)
    for row in topics:
        if wants and row.name is not None and row.error_code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            row.topic_authorized_operations = broker.access.allowed_operations(request.session, "TOPIC", row.name)
    cluster = OPERATIONS_NOT_REQUESTED
    if body.include_cluster_authorized_operations:
        cluster = broker.access.allowed_operations(request.session, "CLUSTER", CLUSTER_RESOURCE_NAME)
    return request.response(
        brokers=[
            request.response.MetadataResponseBroker(node_id=node_id, **address)
            for node_id, address in list_addresses(request, broker).items()
        ],
        cluster_id=broker.cluster_id,
        controller_id=broker.nodes.controller_id,
        topics=topics,
        cluster_authorized_operations=cluster,
    )


def _refuse_topic_ids(request: _Metadata) -> Message:
    """Reject topic ids in versions 10 and 11, which have the field but do not support it."""
    code = ErrorCode.INVALID_REQUEST
    rows = [
        _build_missing_topic_row(request, topic.name or "", code, topic.topic_id) for topic in request.body.topics or ()
    ]
    return request.response(topics=rows, cluster_id=None, controller_id=-1)


def _list_topics(request: _Metadata, broker: BrokerState) -> Iterator[Any]:
    """Yield the response rows of all topics that the client may describe."""
    for topic in broker.topics.values():
        if is_allowed(request, broker.access, "TOPIC", topic.name, "DESCRIBE"):
            yield build_topic_row(request, broker, topic)


def _find_topics(request: _Metadata, broker: BrokerState, failures: Mapping[str, int]) -> Iterator[Any]:
    """Return the response rows of the requested topics."""
    ids = _list_requested_topic_ids(request)
    for topic_id in ids:
        topic = broker.topics_by_id.get(topic_id)
        code: int = ErrorCode.UNKNOWN_TOPIC_ID
        if topic is not None:
            code = check_denied(request, broker.access, "TOPIC", topic.name, "DESCRIBE")
        if topic is None or code != ErrorCode.NONE:
            yield _build_missing_topic_row(request, None, code, topic_id)
        else:
            yield build_topic_row(request, broker, topic)
    for name in dict.fromkeys(requested_topic.name for requested_topic in (() if ids else request.body.topics or ())):
        if name is None:
            yield _build_missing_topic_row(request, None, ErrorCode.UNKNOWN_TOPIC_ID)
        else:
            yield _find_topic_by_name(request, broker, name, failures)


def _list_requested_topic_ids(request: _Metadata) -> list[UUID]:
    """Return the requested topic ids. As in Kafka, names are ignored if there are ids."""
    return list(dict.fromkeys(topic.topic_id for topic in request.body.topics or () if topic.topic_id != NIL_UUID))


def _find_topic_by_name(request: _Metadata, broker: BrokerState, name: str, failures: Mapping[str, int]) -> Any:
    code = check_denied(request, broker.access, "TOPIC", name, "DESCRIBE")
    if code != ErrorCode.NONE:
        return _build_missing_topic_row(request, name, code)
    topic = broker.topics.get(name)
    if name in failures:
        return _build_missing_topic_row(request, name, failures[name])
    if topic is None:
        return _build_missing_topic_row(request, name, _find_code(name))
    return build_topic_row(request, broker, topic)


def _find_code(name: str) -> int:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_topic_name(name) else ErrorCode.INVALID_TOPIC_EXCEPTION


def _build_missing_topic_row(
    request: _Metadata, name: str | None, code: int, topic_id: Any = NIL_UUID
) -> kafka.MetadataResponse.MetadataResponseTopic:
    return request.response.MetadataResponseTopic(error_code=code, name=name, topic_id=topic_id)


def build_topic_row(
    request: _Metadata, broker: BrokerState, topic: Topic
) -> kafka.MetadataResponse.MetadataResponseTopic:
    """Return the row of a topic in a Metadata response."""
    running_node_ids, row = set(broker.nodes.ids), request.response.MetadataResponsePartition
    partitions = [row(**_describe_partition_state(partition, running_node_ids)) for partition in topic.partitions]
    return request.response.MetadataResponseTopic(
        name=topic.name, topic_id=topic.topic_id, is_internal=topic.is_internal, partitions=partitions
    )


@Api(
    name="DescribeTopicPartitions",
    tier="T3",
    behaviour="Returns topics by name, in pages; all topics if the request does not name any. A cursor marks the "
    "start of the next page.",
    rights=(RequiredPermission("DESCRIBE", "TOPIC", each="each topic; a request for all topics omits forbidden ones"),),
)
def _describe_topic_partitions(request: _DescribeTopicPartitions, broker: BrokerState) -> Answer:
    body, types = request.body, request.response
    requested_names = {topic.name for topic in body.topics}
    names = sorted(requested_names or _visible(request, broker))
    start = 0
    if body.cursor is not None:
        names = [name for name in names if name >= body.cursor.topic_name]
        start = body.cursor.partition_index
    is_other_topic = body.cursor is not None and body.topics and body.cursor.topic_name not in names
    if start < 0 or is_other_topic or "" in requested_names:
        row = types.DescribeTopicPartitionsResponseTopic
        return request.response(
            topics=[row(name=topic.name, error_code=ErrorCode.INVALID_REQUEST) for topic in body.topics]
        )
    remaining_rows = min(max(body.response_partition_limit, 1), _MAX_PARTITION_ROWS)
    topics, cursor = [], None
    for name in names:
        first = start if body.cursor is not None and name == body.cursor.topic_name else 0
        row, taken_rows, next_cursor = _build_topic_page(request, broker, name, first, remaining_rows)
        if remaining_rows <= 0 and row.partitions == []:
            cursor = types.Cursor(topic_name=name, partition_index=0)
            break
        topics.append(row)
        remaining_rows -= taken_rows
        if next_cursor is not None:
            cursor = types.Cursor(topic_name=name, partition_index=next_cursor)
            break
    return request.response(topics=topics, next_cursor=cursor)


def _visible(request: _DescribeTopicPartitions, broker: BrokerState) -> list[str]:
    return [name for name in broker.topics if is_allowed(request, broker.access, "TOPIC", name)]


def _build_topic_page(
    request: _DescribeTopicPartitions, broker: BrokerState, name: str, first: int, max_rows: int
) -> tuple[Any, int, int | None]:
    """Return a topic's row, its number of partitions, and the first partition of the next page."""
    row = request.response.DescribeTopicPartitionsResponseTopic(name=name)
    row.error_code = check_denied(request, broker.access, "TOPIC", name)
    if row.error_code != ErrorCode.NONE:
        return row, 0, None
    if name:
        row.topic_authorized_operations = broker.access.allowed_operations(request.session, "TOPIC", name)
    topic = broker.topics.get(name)
    if topic is None:
        is_invalid = name and not is_topic_name(name)
        row.error_code = ErrorCode.INVALID_TOPIC_EXCEPTION if is_invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return row, 0, None
    row.topic_id, row.is_internal = topic.topic_id, topic.is_internal
    last = min(_to_int32(first + max_rows), len(topic.partitions))
    row.partitions = [_build_partition_row(request, broker, topic, index) for index in range(first, last)]
    return row, len(row.partitions), last if last < len(topic.partitions) else None


def _to_int32(value: int) -> int:
    """Wrap a sum to 32 bits, as Java does. In Kafka, too, a page near 2^31 ends at a negative number and is empty."""
    return (value + 2**31) % 2**32 - 2**31


def _build_partition_row(
    request: _DescribeTopicPartitions, broker: BrokerState, topic: Topic, index: int
) -> kafka.DescribeTopicPartitionsResponse.DescribeTopicPartitionsResponsePartition:
    return request.response.DescribeTopicPartitionsResponsePartition(
        **_describe_partition_state(topic.partitions[index], set(broker.nodes.ids)),
        eligible_leader_replicas=[],
        last_known_elr=[],
    )


def _describe_partition_state(partition: Partition, running_node_ids: set[int]) -> dict[str, Any]:
    """Return the fields of a partition that Metadata and DescribeTopicPartitions responses have in common."""
    is_led = partition.leader_id in running_node_ids and not partition.is_offline
    return {
        "error_code": ErrorCode.NONE if is_led else ErrorCode.LEADER_NOT_AVAILABLE,
        "partition_index": partition.index,
        "leader_id": partition.leader_id if is_led else -1,
        "leader_epoch": partition.leader_epoch,
        "replica_nodes": list(partition.replicas),
        "isr_nodes": list(partition.in_sync),
        "offline_replicas": [
            replica for replica in partition.replicas if replica not in running_node_ids or partition.is_offline
        ],
    }
