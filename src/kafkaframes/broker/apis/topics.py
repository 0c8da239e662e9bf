"""Handlers that create, extend and delete topics: CreateTopics, CreatePartitions, DeleteTopics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID

from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.access import check_denied, is_allowed
from kafkaframes.broker.state.changes import Steps, run_each
from kafkaframes.broker.state.config_changes import check_topic_configs
from kafkaframes.broker.state.configs import build_topic_rows
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Replicas, Topic
from kafkaframes.errors import ErrorCode, KafkaframesError, OptionError, RefusedError, to_error_code
from kafkaframes.storage.files.names import check_topic_name
from kafkaframes.wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _CreateTopics: TypeAlias = TypedRequest[kafka.CreateTopicsRequest, kafka.CreateTopicsResponse]
    _CreatePartitions: TypeAlias = TypedRequest[kafka.CreatePartitionsRequest, kafka.CreatePartitionsResponse]
    _DeleteTopics: TypeAlias = TypedRequest[kafka.DeleteTopicsRequest, kafka.DeleteTopicsResponse]
    _Changes: TypeAlias = _CreateTopics | _CreatePartitions | _DeleteTopics

_BROKER_DEFAULT = -1
_MAX_PARTITIONS_PER_TOPIC = 10_000
_FIRST_VERSION_WITH_TOPIC_IDS = 6


@dataclass(frozen=True, slots=True)
class _TopicCreations:
    """The topics that a request has created so far.

    Attributes:
        metrics_names: names of the topics that existed before the request, keyed by their name in metrics. A request
            may create two topics with the same name in metrics, as in Kafka 4.3.1.
        created_topics: topics with logs, but without stored metadata yet.
    """

    metrics_names: dict[str, str]
    created_topics: dict[str, Topic] = field(default_factory=dict)


@Api(
    name="CreateTopics",
    tier="T3",
    behaviour="The topic and its logs exist when the response is sent. A replication factor above the "
    "number of nodes is INVALID_REPLICATION_FACTOR (38).",
    notes={
        "v1+": "validate_only",
        "v2+": "error messages",
        "v5+": "the response contains partitions and settings (KIP-525); -1 requests the default",
        "v7+": "the topic's id",
    },
    gaps=("replicas share one log, so they are in sync while their nodes are running",),
    rights=(
        RequiredPermission("CREATE", "TOPIC", each="each topic", or_cluster="CREATE"),
        RequiredPermission("DESCRIBE_CONFIGS", "TOPIC", each="the settings in the response, v5+"),
    ),
)
def _create_topics(request: _CreateTopics, broker: BrokerState) -> Answer:
    return broker.changes.run(_create_topics_in_steps(request, broker, request.body.topics))


def _create_topics_in_steps(
    request: _CreateTopics, broker: BrokerState, topics: list[kafka.CreateTopicsRequest.CreatableTopic]
) -> Steps[Answer]:
    names = Counter(request_topic.name for request_topic in topics)
    distinct_topics = {
        request_topic.name: request_topic for request_topic in topics
    }.values()  # a name that is listed twice gets one row
    batch = _TopicCreations({_to_metrics_name(name): name for name in broker.topics})
    rows = yield from run_each(
        _create_topic_row_in_steps(request, broker, request_topic, names[request_topic.name], batch)
        for request_topic in distinct_topics
    )
    try:
        if batch.created_topics:
            broker.publish_topics(batch.created_topics.values())
    except KafkaframesError as error:
        _set_errors((row for row in rows if row.name in batch.created_topics), error)
    return request.response(topics=rows)


def _create_topic_row_in_steps(
    request: _CreateTopics, broker: BrokerState, request_topic: Any, listing_count: int, batch: _TopicCreations
) -> Steps[Any]:
    row = request.response.CreatableTopicResult(name=request_topic.name, error_message=None)
    try:
        if listing_count > 1:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "the topic is listed twice")
        yield from _create_requested_topic(request, broker, request_topic, row, batch)
    except KafkaframesError as error:
        _set_errors([row], error)
        if isinstance(error, OptionError):
            row.error_code = ErrorCode.INVALID_CONFIG
    return row


def _set_errors(rows: Iterable[Any], error: KafkaframesError) -> None:
    """Set the error code and message of rows."""
    for row in rows:
        row.error_code, row.error_message = (
            to_error_code(error),
            error.reason if isinstance(error, RefusedError) else str(error),
        )


def _create_requested_topic(
    request: _CreateTopics,
    broker: BrokerState,
    request_topic: Any,
    row: kafka.CreateTopicsResponse.CreatableTopicResult,
    batch: _TopicCreations,
) -> Steps[None]:
    """Create a topic of a CreateTopics request, and fill its response row."""
    _check_new_topic(request, broker, request_topic.name, batch)
    configs = _check_configs(broker, request_topic)
    replicas = _read_assignment(broker, request_topic) or broker.assign_replicas(
        request_topic.name, *_choose_partition_count_and_factor(broker, request_topic)
    )
    if not request.body.validate_only:
        _charge_partition_quota(request, broker, len(replicas))
        topic = yield from broker.create_topic_in_steps(request_topic.name, replicas, configs)
        row.topic_id = topic.topic_id
        batch.created_topics[request_topic.name] = topic
    _describe_created_topic(request, broker, row, replicas, configs)


def create_topic_from_row_in_steps(broker: BrokerState, row: Any) -> Steps[Topic]:
    """Create a topic for the broker itself, from a CreateTopics row.

    The topic is visible after ``BrokerState.publish_topics``.
    """
    if row.name in broker.topics:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {row.name!r} already exists")
    configs, replicas = (
        _check_configs(broker, row),
        broker.assign_replicas(row.name, *_choose_partition_count_and_factor(broker, row)),
    )
    return (yield from broker.create_topic_in_steps(row.name, replicas, configs))


def create_topics_in_steps(
    broker: BrokerState, creators: Mapping[str, Callable[[], Steps[Topic | None]]]
) -> Steps[dict[str, KafkaframesError]]:
    """Create topics and store their metadata.

    Return the errors by topic. A creator that returns None creates nothing.
    """
    failures: dict[str, KafkaframesError] = {}

    def create_topic_in_steps(name: str) -> Steps[Topic | None]:
        """Create the topic with this name; return None and store the error if it fails."""
        try:
            return (yield from creators[name]())
        except KafkaframesError as error:
            failures[name] = error
            return None

    created_topics = [
        topic for topic in (yield from run_each(map(create_topic_in_steps, creators))) if topic is not None
    ]
    try:
        if created_topics:
            broker.publish_topics(created_topics)
    except KafkaframesError as error:
        failures |= {topic.name: error for topic in created_topics}
    return failures


def _check_configs(broker: BrokerState, topic: Any) -> dict[str, str]:
    """Return a topic's validated settings. As in Kafka, the settings are validated before the partitions."""
    if len({config.name for config in topic.configs}) < len(topic.configs):
        raise RefusedError(ErrorCode.INVALID_CONFIG, "a setting is listed twice")
    names_without_value = [config.name for config in topic.configs if config.value is None]
    if names_without_value:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"{', '.join(names_without_value)} must have a value")
    return check_topic_configs(broker.settings, {config.name: config.value for config in topic.configs})


def _choose_partition_count_and_factor(broker: BrokerState, topic: Any) -> tuple[int, int]:
    """Return the number of partitions and the replication factor of a topic without a manual assignment."""
    factor, count, nodes = topic.replication_factor, topic.num_partitions, len(broker.nodes.by_id)
    if factor != _BROKER_DEFAULT and factor < 1:
        raise RefusedError(
            ErrorCode.INVALID_REPLICATION_FACTOR, f"the replication factor is {factor}; expected 1 or more"
        )
    if count == _BROKER_DEFAULT:
        count = broker.settings.get_number("num.partitions")
    if not 0 < count <= _MAX_PARTITIONS_PER_TOPIC:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS,
            f"the number of partitions is {count}; expected 1 to {_MAX_PARTITIONS_PER_TOPIC}",
        )
    if factor > nodes:
        reason = f"the replication factor is {factor}, above the number of nodes, {nodes}"
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    return int(count), broker.default_factor if factor == _BROKER_DEFAULT else int(factor)


def _check_new_topic(request: _CreateTopics, broker: BrokerState, name: str, batch: _TopicCreations) -> None:
    """Reject a topic that is invalid, not allowed or already exists."""
    try:
        check_topic_name(name)
    except OptionError as error:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None
    if not is_allowed(request, broker.access, "TOPIC", name, "CREATE"):
        raise RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed")
    if broker.is_read_only:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, "the broker serves a directory read-only")
    if name in broker.topics:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} already exists")
    colliding_topic = batch.metrics_names.get(_to_metrics_name(name))
    if colliding_topic is not None:
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            f"topic {name!r} collides with {colliding_topic!r}: metric names do not distinguish . and _",
        )


def _to_metrics_name(name: str) -> str:
    return name.replace(".", "_")


def _read_assignment(broker: BrokerState, request_topic: Any) -> Replicas:
    """Return the replicas of each partition in a manual assignment."""
    if not request_topic.assignments:
        return []
    if request_topic.num_partitions != _BROKER_DEFAULT or request_topic.replication_factor != _BROKER_DEFAULT:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST,
            "a manual assignment cannot be combined with a partition count or a replication factor",
        )
    rows = {assignment.partition_index: assignment.broker_ids for assignment in request_topic.assignments}
    if sorted(rows) != list(range(len(request_topic.assignments))):
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions of an assignment must be 0, 1, 2, ... without gaps"
        )
    replicas = [tuple(rows[index]) for index in range(len(rows))]
    for index, ids in enumerate(replicas):
        if not broker.nodes.are_valid_replicas(ids) or len(ids) != len(replicas[0]):
            raise RefusedError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} cannot be assigned to the nodes {list(ids)}"
            )
    return replicas


def _describe_created_topic(
    request: _CreateTopics, broker: BrokerState, row: Any, replicas: Replicas, configs: dict[str, str]
) -> None:
    """Fill a response row with the partition count and settings of a new topic."""
    row.topic_config_error_code = check_denied(request, broker.access, "TOPIC", row.name, "DESCRIBE_CONFIGS")
    if row.topic_config_error_code != ErrorCode.NONE:
        row.configs = []
        return
    row.num_partitions, row.replication_factor = len(replicas), len(replicas[0])
    row.configs = [
        request.response.CreatableTopicConfigs(name=config.name, value=config.value, config_source=config.source)
        for config in build_topic_rows(broker.settings, configs)
    ]


@Api(
    name="CreatePartitions",
    tier="T3",
    behaviour="Adds partitions to a topic; they exist when the response is sent.",
    rights=(RequiredPermission("ALTER", "TOPIC", each="each topic"),),
)
def _create_partitions(request: _CreatePartitions, broker: BrokerState) -> Answer:
    return broker.changes.run(_add_partitions_in_steps(request, broker, request.body.topics))


def _add_partitions_in_steps(
    request: _CreatePartitions, broker: BrokerState, topics: list[kafka.CreatePartitionsRequest.CreatePartitionsTopic]
) -> Steps[Answer]:
    names = Counter(topic.name for topic in topics)
    distinct_topics = {topic.name: topic for topic in topics}.values()  # a name that is listed twice gets one row
    rows = yield from run_each(
        _add_topic_partitions_in_steps(request, broker, topic, names[topic.name]) for topic in distinct_topics
    )
    try:
        broker.save_metadata()
    except KafkaframesError as error:
        _set_errors((row for row in rows if row.error_code == ErrorCode.NONE), error)
    return request.response(results=rows)


def _add_topic_partitions_in_steps(
    request: _CreatePartitions, broker: BrokerState, request_topic: Any, listing_count: int
) -> Steps[Any]:
    code: int = ErrorCode.INVALID_REQUEST
    message: str | None = "named twice"
    if listing_count == 1:
        try:
            code, message = yield from _add_topic_partitions(request, broker, request_topic)
        except RefusedError as error:
            code, message = error.code, error.reason
    return request.response.CreatePartitionsTopicResult(name=request_topic.name, error_code=code, error_message=message)


def _add_topic_partitions(
    request: _CreatePartitions, broker: BrokerState, request_topic: Any
) -> Steps[tuple[int, str | None]]:
    code = check_denied(request, broker.access, "TOPIC", request_topic.name)
    if code != ErrorCode.NONE:
        return code, None
    topic = broker.topics.get(request_topic.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the topic does not exist"
    current_count = len(topic.partitions)
    if not current_count < request_topic.count <= _MAX_PARTITIONS_PER_TOPIC:
        return (
            ErrorCode.INVALID_PARTITIONS,
            f"topic {request_topic.name!r} has {current_count} partitions; {request_topic.count} were requested",
        )
    replicas = _choose_new_replicas(broker, topic, request_topic.count - current_count, request_topic.assignments)
    if broker.is_read_only:
        return ErrorCode.POLICY_VIOLATION, "the broker serves a directory read-only"
    if not request.body.validate_only:
        _charge_partition_quota(request, broker, len(replicas))
        try:
            yield from broker.add_partitions_in_steps(topic, replicas)
        except KafkaframesError as error:
            return to_error_code(error), str(error)
    return ErrorCode.NONE, None


def _choose_new_replicas(broker: BrokerState, topic: Topic, count: int, assignments: Any) -> Replicas:
    """Return the replicas of new partitions, with the replication factor of the topic's first partition."""
    current_count = len(topic.partitions)
    factor = len(topic.partitions[0].replicas) if current_count else broker.default_factor
    if assignments is None:
        return broker.assign_replicas(topic.name, count, factor, first=current_count)
    if len(assignments) != count:
        raise RefusedError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"the request has {len(assignments)} assignments for {count} new partitions",
        )
    replicas = [tuple(assignment.broker_ids) for assignment in assignments]
    if any(len(ids) != factor or not broker.nodes.are_valid_replicas(ids) for ids in replicas):
        reason = f"a partition must have {factor} replicas on existing nodes"
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, reason)
    return replicas


def _charge_partition_quota(request: _Changes, broker: BrokerState, partitions: int) -> None:
    """Charge created or deleted partitions to the client's quota; raise if the quota is exceeded (KIP-599)."""
    if not broker.quotas.may_change(request, partitions, broker.waits.now_ms):
        raise RefusedError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "controller_mutation_rate is exceeded")


@Api(
    name="DeleteTopics",
    tier="T3",
    behaviour="The topic is deleted when the response is sent; its files are deleted after file.delete.delay.ms.",
    notes={
        "v5+": "error messages",
        "v6+": "topics by id",
    },
    rights=(
        RequiredPermission("DESCRIBE", "TOPIC", each="each topic", or_cluster="DELETE"),
        RequiredPermission("DELETE", "TOPIC", each="each topic", or_cluster="DELETE"),
    ),
)
def _delete_topics(request: _DeleteTopics, broker: BrokerState) -> Answer:
    if request.version >= _FIRST_VERSION_WITH_TOPIC_IDS:
        requested_topics = [(topic.name, topic.topic_id) for topic in request.body.topics]
    else:
        requested_topics = [(name, NIL_UUID) for name in request.body.topic_names]
    return broker.changes.run(_delete_topics_in_steps(request, broker, requested_topics))


def _delete_topics_in_steps(
    request: _DeleteTopics, broker: BrokerState, requested_topics: list[tuple[Any, Any]]
) -> Steps[Answer]:
    topics_to_delete: dict[UUID, Topic] = {}
    rows = []
    for (name, topic_id), listing_count in Counter(requested_topics).items():
        if listing_count == 1:
            rows.append(_build_deletion_row(request, broker, name, topic_id, topics_to_delete))
        else:  # a topic that is listed twice is not deleted
            types, code = request.response, ErrorCode.INVALID_REQUEST
            rows.append(types.DeletableTopicResult(name=name, topic_id=topic_id, error_code=code))
    try:
        yield from broker.delete_topics_in_steps(list(topics_to_delete.values()))
    except KafkaframesError as error:
        _set_errors((row for row in rows if row.error_code == ErrorCode.NONE), error)
    return request.response(responses=rows)


def _build_deletion_row(
    request: _DeleteTopics, broker: BrokerState, name: str | None, topic_id: Any, topics_to_delete: dict[UUID, Topic]
) -> kafka.DeleteTopicsResponse.DeletableTopicResult:
    row = request.response.DeletableTopicResult(name=name, topic_id=topic_id)
    by_id = name is None
    if not by_id and topic_id != NIL_UUID:
        row.error_code, row.error_message = ErrorCode.INVALID_REQUEST, "the request has both a name and an id"
        return row
    topic = broker.topics_by_id.get(topic_id) if by_id else broker.topics.get(name or "")
    if topic is not None and topic.topic_id in topics_to_delete:
        topic = None
    topic_name = topic.name if topic is not None else name or ""
    row.error_code = _check_deletion(request, broker, topic_name, is_known=topic is not None, by_id=by_id)
    if topic is not None and not check_denied(request, broker.access, "TOPIC", topic_name, "DESCRIBE"):
        row.name = topic_name
    if row.error_code != ErrorCode.NONE or topic is None:
        return row
    try:
        _charge_partition_quota(request, broker, len(topic.partitions))
    except RefusedError as error:
        _set_errors([row], error)
        return row
    row.topic_id = topic.topic_id
    topics_to_delete[topic.topic_id] = topic
    return row


def _check_deletion(request: _DeleteTopics, broker: BrokerState, name: str, *, is_known: bool, by_id: bool) -> int:
    """Return the error code for the deletion of a topic; 0 if it may be deleted."""
    if by_id and not is_known:
        return ErrorCode.UNKNOWN_TOPIC_ID
    is_hidden = check_denied(request, broker.access, "TOPIC", name, "DESCRIBE")
    if is_hidden or not is_known:
        return is_hidden or ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    code = check_denied(request, broker.access, "TOPIC", name, "DELETE")
    if code != ErrorCode.NONE:
        return code
    if not broker.settings.get_flag("delete.topic.enable"):
        return ErrorCode.TOPIC_DELETION_DISABLED
    return ErrorCode.POLICY_VIOLATION if broker.is_read_only else ErrorCode.NONE
