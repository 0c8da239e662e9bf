"""CreateTopics: make topics (KIP-4)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.access import denied, may
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.changes import Steps, each
from kafkaframes.broker.config_changes import checked_topic
from kafkaframes.broker.configs import topic_rows
from kafkaframes.broker.errors import code_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.broker.topics import Topic
from kafkaframes.coordination.refusal import RefusedError
from kafkaframes.errors import ErrorCode, KafkaframesError, OptionError
from kafkaframes.storage.files.names import check_topic

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import CreateTopicsRequest, CreateTopicsResponse

    Request: TypeAlias = RequestOf[CreateTopicsRequest, CreateTopicsResponse]

_DEFAULT = -1
_MOST_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class _Batch:
    """What one request has made so far.

    Attributes:
        metrics_names: the names of all topics, by what metrics make of them.
        made: topics that are there with their logs, and are to be kept.
    """

    metrics_names: dict[str, str]
    made: dict[str, Topic] = field(default_factory=dict)


def handle(request: Request, broker: BrokerState) -> Answer:
    """Make the topics, each for itself."""
    return broker.changes.run(_made(request, broker, request.body.topics))


def _made(request: Request, broker: BrokerState, topics: list[CreateTopicsRequest.CreatableTopic]) -> Steps[Answer]:
    names = Counter(asked.name for asked in topics)
    rows_of = {asked.name: asked for asked in topics}.values()  # a name that comes twice has one row
    batch = _Batch({_metrics_name(name): name for name in broker.topics})
    rows = yield from each(_result(request, broker, asked, names[asked.name], batch) for asked in rows_of)
    try:
        if batch.made:
            broker.keep(batch.made.values())
    except KafkaframesError as error:
        for row in rows:
            if row.name in batch.made:
                row.error_code, row.error_message = code_of(error), str(error)
    return request.response(topics=rows)


def _result(request: Request, broker: BrokerState, asked: Any, times: int, batch: _Batch) -> Steps[Any]:
    row = request.response.CreatableTopicResult(name=asked.name, error_message=None)
    try:
        if times > 1:
            raise RefusedError(ErrorCode.INVALID_REQUEST, "the topic is asked for twice")
        yield from _create(request, broker, asked, row, batch)
    except RefusedError as refused:
        row.error_code, row.error_message = refused.code, refused.reason
    except OptionError as error:
        row.error_code, row.error_message = ErrorCode.INVALID_CONFIG, str(error)
    except KafkaframesError as error:
        row.error_code, row.error_message = code_of(error), str(error)
    return row


def _create(
    request: Request, broker: BrokerState, asked: Any, row: CreateTopicsResponse.CreatableTopicResult, batch: _Batch
) -> Steps[None]:
    _check(request, broker, asked.name, batch)
    configs = _configs(broker, asked)
    leaders = _leaders(broker, asked)
    count = len(leaders) or _count(broker, asked)
    if not request.body.validate_only:
        topic = yield from broker.making_topic(asked.name, count, configs)
        for partition, leader in zip(topic.partitions, leaders, strict=False):
            partition.leader_id = leader
        row.topic_id = topic.topic_id
        batch.made[asked.name] = topic
        batch.metrics_names[_metrics_name(asked.name)] = asked.name
    _describe(request, broker, row, count, configs)


def _configs(broker: BrokerState, topic: Any) -> dict[str, str]:
    """Return a topic's settings; they are checked before its partitions."""
    if len({config.name for config in topic.configs}) < len(topic.configs):
        raise RefusedError(ErrorCode.INVALID_CONFIG, "a setting is given twice")
    nulls = [config.name for config in topic.configs if config.value is None]
    if nulls:
        raise RefusedError(ErrorCode.INVALID_CONFIG, f"no value for {', '.join(nulls)}")
    return checked_topic(broker.settings, {config.name: config.value for config in topic.configs})


def _count(broker: BrokerState, topic: Any) -> int:
    """Return how many partitions a topic gets without a manual assignment."""
    factor, count, nodes = topic.replication_factor, topic.num_partitions, len(broker.nodes.ids)
    if factor != _DEFAULT and factor < 1:
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, f"the replication factor is 1 or more, not {factor}")
    if count == _DEFAULT:
        count = broker.settings.number("num.partitions")
    if not 0 < count <= _MOST_PARTITIONS:
        raise RefusedError(
            ErrorCode.INVALID_PARTITIONS, f"a topic has 1 to {_MOST_PARTITIONS} partitions here, not {count}"
        )
    if factor > nodes:
        reason = f"the replication factor is {nodes} at most, the number of nodes, not {factor}"
        raise RefusedError(ErrorCode.INVALID_REPLICATION_FACTOR, reason)
    return int(count)


def _check(request: Request, broker: BrokerState, name: str, batch: _Batch) -> None:
    try:
        check_topic(name)
    except OptionError as error:
        raise RefusedError(ErrorCode.INVALID_TOPIC_EXCEPTION, str(error)) from None
    if not may(request, broker.access, "TOPIC", name, "CREATE"):
        raise RefusedError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not allowed")
    if broker.is_read_only:
        raise RefusedError(ErrorCode.POLICY_VIOLATION, "the broker serves a directory that is only read")
    if name in broker.topics:
        raise RefusedError(ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} is there already")
    same = batch.metrics_names.get(_metrics_name(name))
    if same is not None:
        raise RefusedError(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"topic {name!r} collides with {same!r}: metrics take . for _"
        )


def _metrics_name(name: str) -> str:
    return name.replace(".", "_")


def _leaders(broker: BrokerState, asked: Any) -> list[int]:
    """Return the leader of each partition of a manual assignment."""
    if not asked.assignments:
        return []
    if asked.num_partitions != _DEFAULT or asked.replication_factor != _DEFAULT:
        raise RefusedError(
            ErrorCode.INVALID_REQUEST, "a manual assignment, and partitions or a replication factor beside it"
        )
    rows = {one.partition_index: one.broker_ids for one in asked.assignments}
    if sorted(rows) != list(range(len(asked.assignments))):
        raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "the partitions of an assignment are 0, 1, 2, ...")
    known = set(broker.nodes.by_id)
    for index, ids in rows.items():
        if not ids or not known.issuperset(ids) or len(set(ids)) < len(ids):
            raise RefusedError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index} is assigned to {list(ids)}")
    return [rows[index][0] for index in range(len(rows))]


def _describe(request: Request, broker: BrokerState, row: Any, count: int, configs: dict[str, str]) -> None:
    row.topic_config_error_code = denied(request, broker.access, "TOPIC", row.name, "DESCRIBE_CONFIGS")
    if row.topic_config_error_code != ErrorCode.NONE:
        row.configs = []
        return
    row.num_partitions, row.replication_factor = count, 1
    row.configs = [
        request.response.CreatableTopicConfigs(name=one.name, value=one.value, config_source=one.source)
        for one in topic_rows(broker.settings, configs)
    ]


API = Api(
    name="CreateTopics",
    handle=handle,
    tier="T3",
    behaviour=(
        "A topic is there, with its logs, when the answer is sent. A replication factor above the number of "
        "nodes is INVALID_REPLICATION_FACTOR (38)."
    ),
    notes={
        "v1+": "validate_only",
        "v2+": "messages of errors",
        "v5+": "partitions and settings are answered (KIP-525); -1 stands for the defaults",
        "v7+": "the topic's id",
    },
    gaps=("replicas are nominal: a manual assignment chooses the leader only",),
    rights=(
        Right("CREATE", "TOPIC", each="each topic", or_cluster="CREATE"),
        Right("DESCRIBE_CONFIGS", "TOPIC", each="the settings in the answer, v5+"),
    ),
)
