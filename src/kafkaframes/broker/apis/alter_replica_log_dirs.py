"""AlterReplicaLogDirs (34): move partitions to another log directory (KIP-113).

Versions 0 to 2. There is one log directory: to move a partition there changes nothing, any other one is unknown.

Gaps: several log directories.
"""

from __future__ import annotations

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.errors import CODE, NONE
from kafkaframes.broker.request import Request
from kafkaframes.broker.state import BrokerState


def handle(request: Request, broker: BrokerState) -> Answer:
    """Say of each partition whether it is where it shall be."""
    types = request.types
    codes: dict[str, dict[int, int]] = {}
    for one in request.body.dirs:
        for topic in one.topics:
            for index in topic.partitions:
                code = NONE if one.path == broker.logs.path else CODE["LOG_DIR_NOT_FOUND"]
                if broker.partition(topic.name, index) is None:
                    code = CODE["UNKNOWN_TOPIC_OR_PARTITION"]
                codes.setdefault(topic.name, {})[index] = code
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
)
