"""Handlers for streams groups (KIP-1071): StreamsGroupHeartbeat, StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkaframes.broker.apis.groups import GROUP, build_error_response, find_coordinator_error, format_client_host
from kafkaframes.broker.apis.modern_groups import build_member_fields, describe_groups, refuse_descriptions
from kafkaframes.broker.apis.topics import create_topic_from_row_in_steps, create_topics_in_steps
from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.access import find_first_denied_code, is_allowed
from kafkaframes.broker.state.changes import Steps
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Topic
from kafkaframes.coordination.groups.streams import (
    NO_TASKS,
    InternalTopic,
    StatusCode,
    StreamsGroup,
    StreamsMember,
    TaskRole,
    Tasks,
    Topology,
    check_topics,
    check_topology,
)
from kafkaframes.coordination.groups.streams_protocol import (
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
    check_request,
)
from kafkaframes.coordination.groups.streams_records import (
    TASK_FIELDS_BY_ROLE,
    build_subtopology_fields,
    build_task_rows,
    read_topology,
)
from kafkaframes.errors import ErrorCode, KafkaframesError
from kafkaframes.protocol.messages import message

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _Heartbeat: TypeAlias = TypedRequest[kafka.StreamsGroupHeartbeatRequest, kafka.StreamsGroupHeartbeatResponse]
    _Describe: TypeAlias = TypedRequest[kafka.StreamsGroupDescribeRequest, kafka.StreamsGroupDescribeResponse]

_BROKER_DEFAULT: Final = -1  # value in CreateTopics requests that selects the broker's default


@Api(
    name="StreamsGroupHeartbeat",
    tier="T6",
    group_type="streams",
    versions=(0, 0),
    behaviour="Manages members of streams groups; the sticky assignor assigns active and standby tasks; "
    "internal topics are created.",
    notes={"v0": "as in Kafka 4.3: no static members, patterns, warm-up tasks or second topology of a group"},
    rights=(
        RequiredPermission("READ", "GROUP", "group_id"),
        RequiredPermission("DESCRIBE", "TOPIC", each="all topics of the topology"),
        RequiredPermission("CREATE", "TOPIC", each="internal topics that are missing", or_cluster="CREATE"),
    ),
)
def _handle_streams_group_heartbeat(request: _Heartbeat, broker: BrokerState) -> Answer:
    """Version 1 was added by Kafka 4.4.

    Internal topics exist when the response is sent. Members get their tasks in the response to the next heartbeat.
    """
    try:
        topology = request.body.topology
        subtopologies = () if topology is None else topology.subtopologies
        names = {name for subtopology in subtopologies for name in _iterate_topic_names(subtopology)}
        sinks = {name for subtopology in subtopologies for name in subtopology.repartition_sink_topics}
        check_topics(names | sinks, broker.is_internal)
        code = find_first_denied_code(request, broker.access, "TOPIC", sorted(names))
        code = code or find_coordinator_error(request, broker, GROUP, request.body.group_id)
        if code != ErrorCode.NONE:
            return request.response(error_code=code)
        heartbeat = _to_heartbeat(request)
        check_request(heartbeat)
        if topology is not None:
            group_topology = read_topology(topology)
            check_topology(group_topology)
            heartbeat = heartbeat._replace(topology=group_topology)
        result = broker.groups.handle_streams_heartbeat(heartbeat)
    except KafkaframesError as error:
        return build_error_response(request, error)
    forbidden_topics = [
        topic.name for topic in result.missing if not is_allowed(request, broker.access, "TOPIC", topic.name, "CREATE")
    ]
    answer = _build_response(request, broker, heartbeat, result, forbidden_topics)
    creatable_topics = [topic for topic in result.missing if topic.name not in forbidden_topics]
    if not creatable_topics or broker.is_read_only:
        return answer
    return broker.changes.run(_create_missing_topics(broker, creatable_topics, answer))


def _iterate_topic_names(subtopology: kafka.StreamsGroupHeartbeatRequest.Subtopology) -> Iterator[str]:
    """Yield the names of source topics, repartition topics and changelog topics."""
    yield from subtopology.source_topics
    for topic in (*subtopology.repartition_source_topics, *subtopology.state_changelog_topics):
        yield topic.name


def _to_heartbeat(request: _Heartbeat) -> StreamsHeartbeatRequest:
    """Return the heartbeat in a request, with an empty topology instead of an invalid one."""
    body, topology, endpoint, tags = (
        request.body,
        request.body.topology,
        request.body.user_endpoint,
        request.body.client_tags,
    )
    subtopologies = () if topology is None else topology.subtopologies
    return StreamsHeartbeatRequest(
        group_id=body.group_id,
        member_id=body.member_id,
        epoch=body.member_epoch,
        endpoint_epoch=body.endpoint_information_epoch,
        instance_id=body.instance_id,
        rack_id=body.rack_id,
        rebalance_timeout_ms=body.rebalance_timeout_ms,
        topology=None if topology is None else Topology(topology.epoch),
        has_regex=any(subtopology.source_topic_regex for subtopology in subtopologies),
        owned_tasks=(
            _read_tasks(TaskRole.ACTIVE, body.active_tasks),
            _read_tasks(TaskRole.STANDBY, body.standby_tasks),
            _read_tasks(TaskRole.WARMUP, body.warmup_tasks),
        ),
        process_id=body.process_id,
        user_endpoint=None if endpoint is None else (endpoint.host, endpoint.port),
        client_tags=None if tags is None else tuple((tag.key, tag.value) for tag in tags),
        shuts_down=body.shutdown_application,
        client_id=request.client_id or "",
        client_host=format_client_host(request),
    )


def _read_tasks(role: TaskRole, rows: Iterable[Any] | None) -> Tasks | None:
    """Return the tasks of one role in a heartbeat; None if it does not report them."""
    if rows is None:
        return None
    return frozenset((role, row.subtopology_id, index) for row in rows for index in row.partitions)


def _build_response(
    request: _Heartbeat,
    broker: BrokerState,
    heartbeat: StreamsHeartbeatRequest,
    result: StreamsHeartbeatResult,
    forbidden_topics: list[str],
) -> kafka.StreamsGroupHeartbeatResponse:
    types = request.response
    answer: kafka.StreamsGroupHeartbeatResponse = types(
        member_id=result.member_id,
        member_epoch=result.epoch,
        heartbeat_interval_ms=result.interval_ms,
        endpoint_information_epoch=result.endpoint_epoch,
        status=[types.Status(status_code=status.code, status_detail=status.detail) for status in result.statuses],
        active_tasks=None,
        standby_tasks=None,
        warmup_tasks=None,
        partitions_by_user_endpoint=None,
    )
    if forbidden_topics:
        _append_status_detail(answer, f"; Unauthorized to CREATE on topics {', '.join(forbidden_topics)}.")
    if result.tasks is not None:
        for role, name in TASK_FIELDS_BY_ROLE.items():
            setattr(answer, name, build_task_rows(types, result.tasks, role))
    if result.sends_endpoints:
        group = broker.groups.find_group(heartbeat.group_id, StreamsGroup)
        members = sorted(group.members.values(), key=lambda member: member.member_id == heartbeat.member_id)
        answer.partitions_by_user_endpoint = [
            _build_endpoint(types, broker, group, member) for member in members if member.user_endpoint is not None
        ]
    return answer


def _build_endpoint(types: Any, broker: BrokerState, group: StreamsGroup, member: StreamsMember) -> Any:
    """Return the partitions that a member reads for its active and standby tasks."""

    def list_partitions(role: TaskRole) -> list[Any]:
        """Return the partitions of a member's tasks with a role, by topic."""
        indexes: dict[str, list[int]] = {}
        for name, index in group.list_task_partitions(member, role):
            if broker.partition(name, index) is not None:
                indexes.setdefault(name, []).append(index)
        return [types.TopicPartition(topic=name, partitions=indexes[name]) for name in sorted(indexes)]

    host, port = member.user_endpoint or ("", 0)
    return types.EndpointToPartitions(
        user_endpoint=types.Endpoint(host=host, port=port),
        active_partitions=list_partitions(TaskRole.ACTIVE),
        standby_partitions=list_partitions(TaskRole.STANDBY),
    )


def _create_missing_topics(broker: BrokerState, missing_topics: list[InternalTopic], answer: Answer) -> Steps[Answer]:
    """Create internal topics. A topic that cannot be created is also missing at the next heartbeat."""
    failures = yield from create_topics_in_steps(
        broker, {topic.name: partial(_create_topic_in_steps, broker, topic) for topic in missing_topics}
    )
    for name, error in failures.items():
        _append_status_detail(answer, f"; Creation of {name} failed: {error}")
    return answer


def _create_topic_in_steps(broker: BrokerState, topic: InternalTopic) -> Steps[Topic | None]:
    """Create an internal topic of a streams application. Return None if the topic already exists."""
    types: Any = message("CreateTopicsRequest")
    row = types.CreatableTopic(
        name=topic.name,
        num_partitions=topic.partitions,
        replication_factor=topic.replication_factor or _BROKER_DEFAULT,
        configs=[types.CreatableTopicConfig(name=name, value=value) for name, value in topic.configs],
    )
    return None if topic.name in broker.topics else (yield from create_topic_from_row_in_steps(broker, row))


def _append_status_detail(answer: Any, text: str) -> None:
    """Add a text to the status MISSING_INTERNAL_TOPICS of a heartbeat response."""
    for status in answer.status or ():
        if status.status_code == StatusCode.MISSING_INTERNAL_TOPICS:
            status.status_detail += text


@Api(
    name="StreamsGroupDescribe",
    tier="T6",
    group_type="streams",
    refuse=refuse_descriptions,
    versions=(0, 0),
    behaviour="Returns epochs, topology, members, current and target assignments of streams groups.",
    rights=(
        RequiredPermission("DESCRIBE", "GROUP", each="each group"),
        RequiredPermission("DESCRIBE", "TOPIC", each="all topics of a group"),
    ),
)
def _handle_streams_group_describe(request: _Describe, broker: BrokerState) -> Answer:
    """Version 1, with descriptions of topologies, was added by Kafka 4.4."""
    types = request.response

    def list_members(group: StreamsGroup) -> Iterator[Any]:
        for member in tuple(group.members.values()):
            endpoint = member.user_endpoint
            yield types.Member(
                **build_member_fields(member),
                instance_id=None,
                topology_epoch=member.topology_epoch,
                process_id=member.process_id,
                user_endpoint=None if endpoint is None else types.Endpoint(host=endpoint[0], port=endpoint[1]),
                client_tags=[types.KeyValue(key=key, value=value) for key, value in member.client_tags],
                assignment=build_assignment(member.assignment),
                target_assignment=build_assignment(group.targets.get(member.member_id, NO_TASKS)),
            )

    def build_assignment(tasks: Tasks) -> Any:
        return types.Assignment(
            **{name: build_task_rows(types, tasks, role) for role, name in TASK_FIELDS_BY_ROLE.items()}
        )

    def build_topology(group: StreamsGroup) -> dict[str, Any]:
        """Return the topology fields of a streams group's row."""
        if group.topology is None:
            return {"topology": None}
        counts = group.configured_topology.counts if group.configured_topology is not None else None
        rows = [
            types.Subtopology(**build_subtopology_fields(types.TopicInfo, types.KeyValue, subtopology, counts))
            for subtopology in group.topology.subtopologies
        ]
        return {"topology": types.Topology(epoch=group.topology.epoch, subtopologies=rows)}

    return describe_groups(
        request, broker, StreamsGroup, list_members, lambda _, group, rows: sorted(group.topics), build_topology
    )
