"""DescribeLogDirs: the log directory, and how much of it each partition takes (KIP-113, KIP-827)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeLogDirsRequest, DescribeLogDirsResponse

    Request: TypeAlias = RequestOf[DescribeLogDirsRequest, DescribeLogDirsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Describe the one directory."""
    types = request.response
    wanted = None
    if request.body.topics is not None:
        wanted = {(one.topic, index) for one in request.body.topics for index in one.partitions}
    topics = []
    for topic in broker.topics.values():
        rows: list[Any] = [
            types.DescribeLogDirsPartition(partition_index=one.index, partition_size=one.log.size_bytes)
            for one in topic.partitions
            if wanted is None or (topic.name, one.index) in wanted
        ]
        if rows:
            topics.append(types.DescribeLogDirsTopic(name=topic.name, partitions=rows))
    total, usable = broker.disk_space()
    result = types.DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR if broker.logs.is_offline else ErrorCode.NONE,
        log_dir=broker.logs.path,
        topics=topics,
        total_bytes=total,
        usable_bytes=usable,
    )
    return request.response(results=[result])


API = Api(
    name="DescribeLogDirs",
    handle=handle,
    tier="T3",
    behaviour="The one log directory, with the size of each partition.",
    notes={
        "v3+": "an error of its own",
        "v4+": "the size of the disk and what is free of it; -1 in memory",
    },
    rights=(Right("DESCRIBE", "CLUSTER"),),
)
