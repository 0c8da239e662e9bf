"""Handlers for leader elections, and moves of replicas between nodes and directories: ElectLeaders,
AlterPartitionReassignments, ListPartitionReassignments, AlterReplicaLogDirs, DescribeLogDirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.state.elections import elect
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _ElectLeaders: TypeAlias = TypedRequest[kafka.ElectLeadersRequest, kafka.ElectLeadersResponse]
    _AlterPartitionReassignments: TypeAlias = TypedRequest[
        kafka.AlterPartitionReassignmentsRequest, kafka.AlterPartitionReassignmentsResponse
    ]
    _ListPartitionReassignments: TypeAlias = TypedRequest[
        kafka.ListPartitionReassignmentsRequest, kafka.ListPartitionReassignmentsResponse
    ]
    _AlterReplicaLogDirs: TypeAlias = TypedRequest[kafka.AlterReplicaLogDirsRequest, kafka.AlterReplicaLogDirsResponse]
    _DescribeLogDirs: TypeAlias = TypedRequest[kafka.DescribeLogDirsRequest, kafka.DescribeLogDirsResponse]

_PREFERRED, _UNCLEAN = 0, 1
_ELECTION_ERROR_MESSAGES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "the partition does not exist",
    ErrorCode.ELECTION_NOT_NEEDED: "the replica is already the leader",
    ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE: "the preferred leader is offline",
    ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE: "all replicas are offline",
}
# The directory of a partition that is being moved has the suffix ".", a unique id and "-future".
_MAX_FUTURE_SUFFIX_LENGTH = len(".") + 32 + len("-future")
_MAX_DIRECTORY_NAME_LENGTH = 255


def _refuse_elections(request: _ElectLeaders, code: int) -> Answer:
    """Return the error code for every partition; version 0 has no top-level error code."""
    types = request.response
    rows = [
        types.ReplicaElectionResult(
            topic=topic.topic,
            partition_result=[types.PartitionResult(partition_id=index, error_code=code) for index in topic.partitions],
        )
        for topic in request.body.topic_partitions or ()
    ]
    return request.response(error_code=code if request.version else ErrorCode.NONE, replica_election_results=rows)


@Api(
    name="ElectLeaders",
    tier="T3",
    behaviour="Elects the preferred leader at once, or, in an unclean election, any running replica.",
    notes={
        "v0": "preferred elections only",
        "v1+": "unclean elections are supported; the response has a top-level error code",
    },
    rights=(RequiredPermission("ALTER", "CLUSTER"),),
    refuse=_refuse_elections,
)
def _elect_leaders(request: _ElectLeaders, broker: BrokerState) -> Answer:
    body = request.body
    if body.topic_partitions == []:  # Kafka's QuorumController.electLeaders returns an empty response
        return request.response()
    if body.election_type not in (_PREFERRED, _UNCLEAN):
        return _refuse_elections(request, ErrorCode.INVALID_REQUEST)
    is_unclean = body.election_type == _UNCLEAN
    elections: Iterable[tuple[str, Iterable[int]]]
    if body.topic_partitions is None:
        elections = [(topic.name, range(len(topic.partitions))) for topic in broker.topics.values()]
    else:
        elections = [(topic_row.topic, topic_row.partitions) for topic_row in body.topic_partitions]
    results = []
    for topic, indexes in elections:
        rows: list[Any] = [_elect_leader(request, broker, topic, index, is_unclean=is_unclean) for index in indexes]
        if body.topic_partitions is None:  # Kafka returns all topics, without partitions that needed no election
            rows = [row for row in rows if row.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        results.append(request.response.ReplicaElectionResult(topic=topic, partition_result=rows))
    return request.response(replica_election_results=results)


def _elect_leader(
    request: _ElectLeaders, broker: BrokerState, topic: str, index: int, *, is_unclean: bool
) -> kafka.ElectLeadersResponse.PartitionResult:
    """Elect the leader of a partition, and return the response row."""
    partition = broker.partition(topic, index)
    code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if partition is not None:
        code = elect(broker, partition, is_unclean=is_unclean)
    return request.response.PartitionResult(
        partition_id=index, error_code=code, error_message=_ELECTION_ERROR_MESSAGES.get(code)
    )


def _refuse_moves(request: _AlterPartitionReassignments, code: int) -> Answer:
    return _build_moves_response(request, code, lambda *_: (code, None))


@Api(
    name="AlterPartitionReassignments",
    tier="T3",
    behaviour="Assigns the new replicas at once, because no data has to be copied; the leader does not "
    "change if it is among them.",
    gaps=("a reassignment is never in progress, so it cannot be cancelled",),
    rights=(RequiredPermission("ALTER", "CLUSTER"),),
    refuse=_refuse_moves,
)
def _alter_partition_reassignments(request: _AlterPartitionReassignments, broker: BrokerState) -> Answer:
    """Reassign the partitions, and return a response with an error code for each."""
    answer = _build_moves_response(
        request, ErrorCode.NONE, lambda topic, row: _move_replicas(broker, topic, row.partition_index, row.replicas)
    )
    broker.save_metadata()
    return answer


def _build_moves_response(
    request: _AlterPartitionReassignments, code: int, move: Callable[[str, Any], tuple[int, str | None]]
) -> Answer:
    """Return the response with the error code and message of each partition's reassignment."""
    types = request.response
    topics = []
    for topic in request.body.topics:
        moves = [(partition.partition_index, *move(topic.name, partition)) for partition in topic.partitions]
        rows = [
            types.ReassignablePartitionResponse(partition_index=index, error_code=code, error_message=message)
            for index, code, message in moves
        ]
        topics.append(types.ReassignableTopicResponse(name=topic.name, partitions=rows))
    allows_factor_change = (
        request.body.allow_replication_factor_change or not topics
    )  # Kafka returns the default if the request has no topics
    return request.response(
        error_code=code,
        error_message=None,
        responses=topics,
        allow_replication_factor_change=bool(code) or allows_factor_change,
    )


def _move_replicas(broker: BrokerState, topic: str, index: int, replicas: list[int] | None) -> tuple[int, str | None]:
    """Change the replicas of a partition, and return the error code and message."""
    partition = broker.partition(topic, index)
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "the partition does not exist"
    if replicas is None:
        return ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "no reassignment is in progress"
    if not broker.nodes.are_valid_replicas(replicas):
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"replicas {list(replicas)}"
    previous_leader, partition.replicas = partition.leader_id, tuple(replicas)
    broker.nodes.elect_leader(partition)
    if previous_leader in partition.in_sync:
        partition.leader_id = previous_leader
    else:
        broker.move_leader(partition, partition.leader_id)
    return ErrorCode.NONE, None


@Api(
    name="ListPartitionReassignments",
    tier="T3",
    behaviour="Always returns an empty list, because partitions move at once.",
    rights=(RequiredPermission("DESCRIBE", "CLUSTER"),),
)
def _list_partition_reassignments(request: _ListPartitionReassignments, broker: BrokerState) -> Answer:
    return request.response(error_message=None)


def _refuse_log_dirs(request: _AlterReplicaLogDirs, code: int) -> Answer:
    return _build_log_dirs_response(request, lambda *_: code)


@Api(
    name="AlterReplicaLogDirs",
    tier="T3",
    behaviour="The broker has one log directory. Moving a partition to it changes nothing; any other "
    "directory is unknown.",
    gaps=("several log directories are not supported",),
    rights=(RequiredPermission("ALTER", "CLUSTER"),),
    refuse=_refuse_log_dirs,
)
def _alter_replica_log_dirs(request: _AlterReplicaLogDirs, broker: BrokerState) -> Answer:
    def check_replica(path: str, topic: str, index: int) -> int:
        """Return the error code for a replica that is to be moved to a log directory."""
        if len(f"{topic}-{index}") + _MAX_FUTURE_SUFFIX_LENGTH > _MAX_DIRECTORY_NAME_LENGTH:
            return ErrorCode.INVALID_TOPIC_EXCEPTION
        if path != broker.logs.path:
            return ErrorCode.LOG_DIR_NOT_FOUND
        return ErrorCode.NONE if broker.partition(topic, index) is not None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    return _build_log_dirs_response(request, check_replica)


def _build_log_dirs_response(request: _AlterReplicaLogDirs, check_replica: Callable[[str, str, int], int]) -> Answer:
    types = request.response
    codes: dict[str, dict[int, int]] = {}
    for directory in request.body.dirs:
        for topic in directory.topics:
            for index in topic.partitions:
                codes.setdefault(topic.name, {})[index] = check_replica(directory.path, topic.name, index)
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


@Api(
    name="DescribeLogDirs",
    tier="T3",
    behaviour="Returns the only log directory, with the size of each partition that has a replica on the node.",
    notes={
        "v3+": "the response has a top-level error code",
        "v4+": "the response contains the disk's total and free bytes; -1 for a broker in memory",
    },
    rights=(RequiredPermission("DESCRIBE", "CLUSTER"),),
)
def _describe_log_dirs(request: _DescribeLogDirs, broker: BrokerState) -> Answer:
    types = request.response
    requested_partitions = None
    if request.body.topics is not None:
        requested_partitions = {(topic.topic, index) for topic in request.body.topics for index in topic.partitions}
    topics = []
    for topic in broker.topics.values():
        rows: list[Any] = [
            types.DescribeLogDirsPartition(partition_index=partition.index, partition_size=partition.log.size_bytes)
            for partition in topic.partitions
            if (requested_partitions is None or (topic.name, partition.index) in requested_partitions)
            and request.session.node_id in partition.replicas
        ]
        if rows:
            topics.append(types.DescribeLogDirsTopic(name=topic.name, partitions=rows))
    total_bytes, usable = broker.get_disk_space()
    result = types.DescribeLogDirsResult(
        error_code=ErrorCode.KAFKA_STORAGE_ERROR if broker.logs.is_offline else ErrorCode.NONE,
        log_dir=broker.logs.path,
        topics=topics,
        total_bytes=total_bytes,
        usable_bytes=usable,
    )
    return request.response(results=[result])
