"""Handlers for settings of topics, brokers, groups and client metrics: DescribeConfigs, AlterConfigs,
IncrementalAlterConfigs, ListConfigResources.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkaframes.broker.requests.api import Answer, Api, RequiredPermission
from kafkaframes.broker.requests.request import TypedRequest
from kafkaframes.broker.settings.config_values import PASSWORD, UNKNOWN
from kafkaframes.broker.settings.settings import SETTING_DESCRIPTIONS
from kafkaframes.broker.state.config_changes import alter_resources, create_alteration, create_replacement
from kafkaframes.broker.state.configs import (
    BROKER,
    BROKER_LOGGER,
    CLIENT_METRICS,
    GROUP,
    TOPIC,
    ConfigRow,
    describe_resource,
    has_settings,
)
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _DescribeConfigs: TypeAlias = TypedRequest[kafka.DescribeConfigsRequest, kafka.DescribeConfigsResponse]
    _AlterConfigs: TypeAlias = TypedRequest[kafka.AlterConfigsRequest, kafka.AlterConfigsResponse]
    _IncrementalAlterConfigs: TypeAlias = TypedRequest[
        kafka.IncrementalAlterConfigsRequest, kafka.IncrementalAlterConfigsResponse
    ]
    _ListConfigResources: TypeAlias = TypedRequest[kafka.ListConfigResourcesRequest, kafka.ListConfigResourcesResponse]

_RESOURCE_TYPES = (TOPIC, BROKER, BROKER_LOGGER, CLIENT_METRICS, GROUP)

_SETTINGS_PER_WORK_UNIT = 4  # four settings take as long as a response row of other APIs


@Api(
    name="DescribeConfigs",
    tier="T3",
    behaviour="Returns every setting that the broker uses, and every setting that was set, with the source "
    "of its value. Values of passwords are left out.",
    notes={
        "v0": "isDefault is always false, as in Kafka",
        "v1+": "the source of each value, and synonyms on request",
        "v3+": "the type of each setting, and documentation on request",
    },
    gaps=("logger levels have no effect",),
    rights=(
        RequiredPermission("DESCRIBE_CONFIGS", "TOPIC", each="each topic"),
        RequiredPermission("DESCRIBE_CONFIGS", "GROUP", each="each group"),
        RequiredPermission("DESCRIBE_CONFIGS", "CLUSTER", each="each broker, its loggers, and client metrics"),
    ),
)
def _describe_configs(request: _DescribeConfigs, broker: BrokerState) -> Answer:
    if not all(has_settings(broker, resource.resource_type) for resource in request.body.resources):
        return _build_error_response(request, ErrorCode.INVALID_REQUEST)
    return broker.changes.answer_rows(
        request.body.resources,
        partial(_describe_resource, request, broker),
        lambda rows: request.response(results=rows),
        size=lambda row: 1 + len(row.configs) // _SETTINGS_PER_WORK_UNIT,
    )


def _describe_resource(
    request: _DescribeConfigs, broker: BrokerState, resource: kafka.DescribeConfigsRequest.DescribeConfigsResource
) -> kafka.DescribeConfigsResponse.DescribeConfigsResult:
    code, message, rows = describe_resource(request, broker, resource.resource_type, resource.resource_name)
    if resource.configuration_keys and code == ErrorCode.NONE:  # as in Kafka, an empty list selects all settings
        names = set(resource.configuration_keys)
        rows = [row for row in rows if row.name in names]
    return request.response.DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=resource.resource_type,
        resource_name=resource.resource_name,
        configs=[_build_config_row(request, row) for row in rows],
    )


def _build_error_response(request: _DescribeConfigs, code: int) -> Answer:
    row = request.response.DescribeConfigsResult
    rows = [
        row(error_code=code, resource_type=resource.resource_type, resource_name=resource.resource_name)
        for resource in request.body.resources
    ]
    return request.response(results=rows)


def _build_config_row(
    request: _DescribeConfigs, row: ConfigRow
) -> kafka.DescribeConfigsResponse.DescribeConfigsResourceResult:
    types, is_sensitive = request.response, row.kind in (PASSWORD, UNKNOWN)
    synonyms = row.synonyms if request.body.include_synonyms else ()
    return types.DescribeConfigsResourceResult(
        name=row.name,
        value=None if is_sensitive else row.value,
        is_sensitive=is_sensitive,
        read_only=row.is_read_only,
        config_source=row.source,
        config_type=row.kind,
        synonyms=[
            types.DescribeConfigsSynonym(name=name, value=None if is_sensitive else value, source=config_source)
            for name, value, config_source in synonyms
        ],
        documentation=SETTING_DESCRIPTIONS.get(row.name)
        if row.is_known and request.body.include_documentation
        else None,
    )


@Api(
    name="AlterConfigs",
    tier="T3",
    behaviour="Replaces all settings of a resource; settings that the request does not name return to their defaults.",
    rights=(
        RequiredPermission("ALTER_CONFIGS", "TOPIC", each="each topic"),
        RequiredPermission("ALTER_CONFIGS", "GROUP", each="each group"),
        RequiredPermission("ALTER_CONFIGS", "CLUSTER", each="each broker, and client metrics"),
    ),
)
def _alter_configs(request: _AlterConfigs, broker: BrokerState) -> Answer:
    return alter_resources(request, broker, create_replacement)


@Api(
    name="IncrementalAlterConfigs",
    tier="T3",
    behaviour="Supports SET, DELETE, APPEND and SUBTRACT for single settings.",
    rights=(
        RequiredPermission("ALTER_CONFIGS", "TOPIC", each="each topic"),
        RequiredPermission("ALTER_CONFIGS", "GROUP", each="each group"),
        RequiredPermission("ALTER_CONFIGS", "CLUSTER", each="each broker, its loggers, and client metrics"),
    ),
)
def _incremental_alter_configs(request: _IncrementalAlterConfigs, broker: BrokerState) -> Answer:
    return alter_resources(request, broker, create_alteration)


@Api(
    name="ListConfigResources",
    tier="T3",
    behaviour="Lists topics, brokers, client metrics and groups that have settings.",
    notes={
        "v0": "client metrics only",
        "v1+": "lists the resources of the requested types, or all resources",
    },
    rights=(RequiredPermission("DESCRIBE_CONFIGS", "CLUSTER"),),
)
def _list_config_resources(request: _ListConfigResources, broker: BrokerState) -> Answer:
    kinds = set(request.body.resource_types or _RESOURCE_TYPES) if request.version else {CLIENT_METRICS}
    if not kinds.issubset(_RESOURCE_TYPES):
        return request.response(error_code=ErrorCode.UNSUPPORTED_VERSION)
    nodes = [str(node_id) for node_id in broker.nodes.by_id]
    entities = broker.metadata.entities
    names: dict[int, Any] = {
        TOPIC: broker.topics,
        BROKER: nodes,
        BROKER_LOGGER: nodes,
        CLIENT_METRICS: entities.get("client_metrics", {}),
        GROUP: entities.get("group_configs", {}),
    }
    return request.response(
        config_resources=[
            request.response.ConfigResource(resource_name=name, resource_type=kind)
            for kind in _RESOURCE_TYPES
            if kind in kinds
            for name in names[kind]
        ]
    )
