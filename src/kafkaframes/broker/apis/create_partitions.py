"""CreatePartitions: give topics more partitions (KIP-195)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.access import denied
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.changes import Steps, each
from kafkaframes.broker.errors import code_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode, KafkaframesError

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import CreatePartitionsRequest, CreatePartitionsResponse

    Request: TypeAlias = RequestOf[CreatePartitionsRequest, CreatePartitionsResponse]

_MOST_PARTITIONS = 10_000


def handle(request: Request, broker: BrokerState) -> Answer:
    """Add partitions, topic by topic."""
    return broker.changes.run(_added(request, broker, request.body.topics))


def _added(
    request: Request, broker: BrokerState, topics: list[CreatePartitionsRequest.CreatePartitionsTopic]
) -> Steps[Answer]:
    names = Counter(topic.name for topic in topics)
    rows_of = {topic.name: topic for topic in topics}.values()  # a name that comes twice has one row
    rows = yield from each(_result(request, broker, topic, names[topic.name]) for topic in rows_of)
    try:
        broker.save()
    except KafkaframesError as error:
        for row in rows:
            if row.error_code == ErrorCode.NONE:
                row.error_code, row.error_message = code_of(error), str(error)
    return request.response(results=rows)


def _result(request: Request, broker: BrokerState, asked: Any, times: int) -> Steps[Any]:
    code: int = ErrorCode.INVALID_REQUEST
    message: str | None = "asked for twice"
    if times == 1:
        code, message = yield from _add(request, broker, asked)
    return request.response.CreatePartitionsTopicResult(name=asked.name, error_code=code, error_message=message)


def _add(request: Request, broker: BrokerState, asked: Any) -> Steps[tuple[int, str | None]]:
    code = denied(request, broker.access, "TOPIC", asked.name)
    if code != ErrorCode.NONE:
        return code, None
    topic = broker.topics.get(asked.name)
    if topic is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "there is no such topic"
    have = len(topic.partitions)
    if not have < asked.count <= _MOST_PARTITIONS:
        return ErrorCode.INVALID_PARTITIONS, f"topic {asked.name!r} has {have} partitions, {asked.count} were asked for"
    new = asked.assignments
    if new is not None and len(new) != asked.count - have:
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{len(new)} assignments for {asked.count - have} new partitions"
    if any(len(one.broker_ids) != 1 or one.broker_ids[0] not in broker.nodes.by_id for one in new or ()):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, "a partition has one replica, on a node that there is"
    if broker.is_read_only:
        return ErrorCode.POLICY_VIOLATION, "the broker serves a directory that is only read"
    if not request.body.validate_only:
        try:
            yield from broker.adding_partitions(topic, asked.count)
        except KafkaframesError as error:
            return code_of(error), str(error)
        for partition, one in zip(topic.partitions[have:], new or (), strict=False):
            partition.leader_id = one.broker_ids[0]
    return ErrorCode.NONE, None


API = Api(
    name="CreatePartitions",
    handle=handle,
    tier="T3",
    behaviour="Gives a topic more partitions, there when the answer is sent.",
    gaps=("an assignment chooses the leader only",),
    rights=(Right("ALTER", "TOPIC", each="each topic"),),
)
