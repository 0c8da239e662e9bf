"""Handlers for the cluster: ApiVersions, DescribeCluster, DescribeQuorum, UpdateFeatures."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.security.access import CLUSTER_RESOURCE_NAME
from kafkaframes.broker.settings import features
from kafkaframes.broker.state.partitions import build_address
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.broker.state.topics import Node
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.api_keys import GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _ApiVersions: TypeAlias = TypedRequest[kafka.ApiVersionsRequest, kafka.ApiVersionsResponse]
    _DescribeCluster: TypeAlias = TypedRequest[kafka.DescribeClusterRequest, kafka.DescribeClusterResponse]
    _DescribeQuorum: TypeAlias = TypedRequest[kafka.DescribeQuorumRequest, kafka.DescribeQuorumResponse]
    _UpdateFeatures: TypeAlias = TypedRequest[kafka.UpdateFeaturesRequest, kafka.UpdateFeaturesResponse]


_SOFTWARE_NAME_PATTERN = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_FIRST_VERSION_WITH_SOFTWARE = 3
_FIRST_VERSION_WITH_ZERO_FEATURES = 4
# A client that finds these APIs starts to push metrics (KIP-714).
_TELEMETRY_API_KEYS = frozenset({GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY})
_BROKERS, _CONTROLLERS = 1, 2
_FIRST_VERSION_WITH_FENCED_BROKERS = 2
_METADATA_TOPIC = "__cluster_metadata"
_FIRST_VERSION_WITH_NODES = 2
_FIRST_VERSION_WITHOUT_FEATURE_RESULTS = 2


def _answer_unknown_version(request: _ApiVersions, broker: BrokerState) -> Answer:
    """Answer an ApiVersions request with an unknown version, at version 0."""
    low, high = broker.advertised.get(request.api.key, request.api.range)
    return request.response(
        error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=[_build_range_row(request, request.api.key, low, high)]
    )


@Api(
    name="ApiVersions",
    on_unknown_version=_answer_unknown_version,
    tier="T0",
    behaviour="Returns the version ranges of the broker's handlers, or of the Kafka release that it emulates.",
    notes={
        "unknown": "response at v0 with UNSUPPORTED_VERSION and only the range of this API",
        "v0-v3": (
            "features with minimum version 0 are omitted, because older Java clients cannot read them (KAFKA-17011)"
        ),
        "v3+": "the client's software name is stored; a name that violates KIP-511 is rejected with INVALID_REQUEST",
    },
    before_authentication=True,
)
def _handle_api_versions(request: _ApiVersions, broker: BrokerState) -> Answer:
    body = request.body
    if request.version >= _FIRST_VERSION_WITH_SOFTWARE:
        names = body.client_software_name, body.client_software_version
        if not all(_SOFTWARE_NAME_PATTERN.fullmatch(name) for name in names):
            return request.response(error_code=ErrorCode.INVALID_REQUEST)
        request.session.software = names
    has_subscriptions = bool(broker.metadata.entities.get("client_metrics"))
    return request.response(
        error_code=ErrorCode.NONE,
        api_keys=[
            _build_range_row(request, key, low, high)
            for key, (low, high) in sorted(broker.advertised.items())
            if has_subscriptions or key not in _TELEMETRY_API_KEYS
        ],
        finalized_features_epoch=0 if broker.features else -1,
        supported_features=[
            request.response.SupportedFeatureKey(name=name, min_version=low, max_version=high)
            for name, (low, high, _) in broker.features.items()
            if low > 0 or request.version >= _FIRST_VERSION_WITH_ZERO_FEATURES
        ],
        finalized_features=[
            request.response.FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, (_, _, level) in broker.features.items()
            if level
        ],
    )


def _build_range_row(request: _ApiVersions, key: int, low: int, high: int) -> kafka.ApiVersionsResponse.ApiVersion:
    return request.response.ApiVersion(api_key=key, min_version=low, max_version=high)


@Api(
    name="DescribeCluster",
    tier="T3",
    behaviour="Returns the running nodes, the controller and the cluster id.",
    notes={
        "v1+": "a request for controllers is rejected, as by Kafka brokers",
        "v2+": "stopped nodes are fenced brokers (KIP-1073)",
    },
)
def _describe_cluster(request: _DescribeCluster, broker: BrokerState) -> Answer:
    body = request.body
    if body.endpoint_type not in (_BROKERS, _CONTROLLERS):
        return request.response(error_code=ErrorCode.UNSUPPORTED_ENDPOINT_TYPE)
    if body.endpoint_type == _CONTROLLERS:  # Kafka's brokers do not return controllers either
        return request.response(error_code=ErrorCode.MISMATCHED_ENDPOINT_TYPE)
    rows = [
        _build_broker_row(request, broker, node)
        for node in broker.nodes.by_id.values()
        if node.is_up or body.include_fenced_brokers
    ]
    answer = request.response(cluster_id=broker.cluster_id, controller_id=broker.nodes.controller_id, brokers=rows)
    if body.include_cluster_authorized_operations:
        answer.cluster_authorized_operations = broker.access.allowed_operations(
            request.session, "CLUSTER", CLUSTER_RESOURCE_NAME
        )
    return answer


def _build_broker_row(
    request: _DescribeCluster, broker: BrokerState, node: Node
) -> kafka.DescribeClusterResponse.DescribeClusterBroker:
    row = request.response.DescribeClusterBroker(broker_id=node.node_id, **build_address(request, broker, node))
    if request.version >= _FIRST_VERSION_WITH_FENCED_BROKERS:
        row.is_fenced = not node.is_up
    return row


@Api(
    name="DescribeQuorum",
    tier="T3",
    behaviour="The first node is the only voter.",
    gaps=("__cluster_metadata does not exist; its end offset is reported as 0",),
    rights=(RequiredPermission("DESCRIBE", "CLUSTER"),),
)
def _describe_quorum(request: _DescribeQuorum, broker: BrokerState) -> Answer:
    is_metadata_topic = [
        (requested_topic.topic_name, [row.partition_index for row in requested_topic.partitions])
        for requested_topic in request.body.topics
    ] == [(_METADATA_TOPIC, [0])]
    indexes = [row.partition_index for topic in request.body.topics for row in topic.partitions]
    return broker.changes.answer_rows(
        indexes,
        lambda index: _build_partition_row(request, broker, index, is_metadata_topic=is_metadata_topic),
        lambda rows: _build_quorum_response(request, broker, rows, is_metadata_topic=is_metadata_topic),
    )


def _build_quorum_response(
    request: _DescribeQuorum,
    broker: BrokerState,
    rows: list[kafka.DescribeQuorumResponse.PartitionData],
    *,
    is_metadata_topic: bool,
) -> Answer:
    types, remaining_rows = request.response, iter(rows)
    topics = [
        types.TopicData(topic_name=topic.topic_name, partitions=list(islice(remaining_rows, len(topic.partitions))))
        for topic in request.body.topics
    ]
    controller = broker.nodes.controller_id
    node = broker.nodes.by_id.get(controller)
    nodes = []
    if is_metadata_topic and node is not None and request.version >= _FIRST_VERSION_WITH_NODES:
        endpoint = broker.nodes.get_endpoint(node, request.session.listener)
        listener = types.Listener(name=request.session.listener, host=endpoint.host, port=max(endpoint.port, 0))
        nodes = [types.Node(node_id=controller, listeners=[listener])]
    return request.response(error_message=None, topics=topics, nodes=nodes)


def _build_partition_row(
    request: _DescribeQuorum, broker: BrokerState, index: int, *, is_metadata_topic: bool
) -> kafka.DescribeQuorumResponse.PartitionData:
    types = request.response
    if not is_metadata_topic:
        return types.PartitionData(
            partition_index=index, error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error_message=None
        )
    controller = broker.nodes.controller_id
    voter = types.ReplicaState(replica_id=controller, log_end_offset=0)
    return types.PartitionData(
        partition_index=0,
        error_code=ErrorCode.NONE,
        error_message=None,
        leader_id=controller,
        leader_epoch=1,
        current_voters=[voter],
    )


_ALL_UPDATES_FAILED_MESSAGE = "The update failed for all features since the following feature had an error: "
_FIRST_VERSION_WITH_UPGRADE_TYPE = 1


@Api(
    name="UpdateFeatures",
    tier="T3",
    behaviour="Accepts supported feature levels; ApiVersions lists them.",
    notes={
        "v0": "allow_downgrade",
        "v1+": "the request has an upgrade type and validate_only",
        "v2+": "the response omits the results of single features",
    },
    gaps=("eligible.leader.replicas.version has no effect",),
    rights=(RequiredPermission("ALTER", "CLUSTER"),),
)
def _update_features(request: _UpdateFeatures, broker: BrokerState) -> Answer:
    updates = request.body.feature_updates
    for update in updates:
        upgrade_type = update.upgrade_type
        if request.version < _FIRST_VERSION_WITH_UPGRADE_TYPE and update.allow_downgrade:
            upgrade_type = features.SAFE_DOWNGRADE
        reason = features.check_update(
            broker.features,
            update.feature,
            update.max_version_level,
            upgrade_type,
            node=broker.nodes.controller_id,
        )
        if reason is not None:
            return request.response(
                error_code=ErrorCode.INVALID_UPDATE_VERSION, error_message=_ALL_UPDATES_FAILED_MESSAGE + reason
            )
    if not request.body.validate_only:
        broker.set_feature_levels({update.feature: update.max_version_level for update in updates})
    rows: list[Any] = []
    if request.version < _FIRST_VERSION_WITHOUT_FEATURE_RESULTS:
        rows = [
            request.response.UpdatableFeatureResult(feature=update.feature, error_message=None) for update in updates
        ]
    return request.response(error_message=None, results=rows)
