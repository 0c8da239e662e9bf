"""AlterReplicaLogDirs: move partitions to another log directory (KIP-113)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse

    Request: TypeAlias = RequestOf[AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse]

# The directory of a partition on its way is its name, an id and "-future".
_LONGEST_FUTURE = len(".") + 32 + len("-future")
_LONGEST_NAME = 255


def handle(request: Request, broker: BrokerState) -> Answer:
    """Say of each partition whether it is where it shall be."""

    def code_of(path: str, topic: str, index: int) -> int:
        if len(f"{topic}-{index}") + _LONGEST_FUTURE > _LONGEST_NAME:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if path != broker.logs.path:
            return ErrorCode.LOG_DIR_NOT_FOUND
        return ErrorCode.NONE if broker.partition(topic, index) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return _answer(request, code_of)


def _refuse(request: Request, code: int) -> Answer:
    return _answer(request, lambda *_: code)


def _answer(request: Request, code_of: Callable[[str, str, int], int]) -> Answer:
    types = request.response
    codes: dict[str, dict[int, int]] = {}
    for one in request.body.dirs:
        for topic in one.topics:
            for index in topic.partitions:
                codes.setdefault(topic.name, {})[index] = code_of(one.path, topic.name, index)
    return request.response(
        results=[
            types.AlterReplicaLogDirTopicResult(
                topic_name=name,
                partitions=[
                    types.AlterReplicaLogDirPartitionResult(partition_index=index, error_code=code)
                    for index, code in rows.items()
                ],
            )
            for name, rows in codes.items()
        ]
    )


API = Api(
    name="AlterReplicaLogDirs",
    handle=handle,
    tier="T3",
    behaviour="There is one log directory: to move a partition there changes nothing, any other is unknown.",
    gaps=("several log directories",),
    rights=(Right("ALTER", "CLUSTER"),),
    refuse=_refuse,
)
