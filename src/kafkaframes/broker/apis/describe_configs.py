"""DescribeConfigs: the settings of topics, brokers, groups and client metrics (KIP-133, KIP-226)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.config_types import PASSWORD, UNKNOWN
from kafkaframes.broker.configs import ConfigRow, is_type, rows_of
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.setting_texts import TEXTS
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import DescribeConfigsRequest, DescribeConfigsResponse

    Request: TypeAlias = RequestOf[DescribeConfigsRequest, DescribeConfigsResponse]


def handle(request: Request, broker: BrokerState) -> Answer:
    """Describe each resource; a type that has no settings fails the request."""
    if not all(is_type(one.resource_type) for one in request.body.resources):
        return _refuse(request, ErrorCode.INVALID_REQUEST)
    return broker.changes.rows(
        request.body.resources, partial(_result, request, broker), lambda rows: request.response(results=rows)
    )


def _result(
    request: Request, broker: BrokerState, asked: DescribeConfigsRequest.DescribeConfigsResource
) -> DescribeConfigsResponse.DescribeConfigsResult:
    code, message, rows = rows_of(request, broker, asked.resource_type, asked.resource_name)
    if asked.configuration_keys is not None and code == ErrorCode.NONE:
        wanted = set(asked.configuration_keys)
        rows = [row for row in rows if row.name in wanted]
    return request.response.DescribeConfigsResult(
        error_code=code,
        error_message=message,
        resource_type=asked.resource_type,
        resource_name=asked.resource_name,
        configs=[_row(request, row) for row in rows],
    )


def _refuse(request: Request, code: int) -> Answer:
    row = request.response.DescribeConfigsResult
    rows = [
        row(error_code=code, resource_type=one.resource_type, resource_name=one.resource_name)
        for one in request.body.resources
    ]
    return request.response(results=rows)


def _row(request: Request, row: ConfigRow) -> DescribeConfigsResponse.DescribeConfigsResourceResult:
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
            types.DescribeConfigsSynonym(name=name, value=None if is_sensitive else value, source=by)
            for name, value, by in synonyms
        ],
        documentation=TEXTS.get(row.name) if row.is_known and request.body.include_documentation else None,
    )


API = Api(
    name="DescribeConfigs",
    handle=handle,
    tier="T3",
    behaviour=(
        "Every setting with a meaning here, and those that were set, with where a value comes from; passwords"
        " have no value."
    ),
    notes={
        "v0": "isDefault is always false, as in Kafka",
        "v1+": "sources, and synonyms on request",
        "v3+": "types, and documentation on request",
    },
    gaps=("levels of loggers are nominal",),
    rights=(
        Right("DESCRIBE_CONFIGS", "TOPIC", each="each topic"),
        Right("DESCRIBE_CONFIGS", "GROUP", each="each group"),
        Right("DESCRIBE_CONFIGS", "CLUSTER", each="each broker, its loggers, and client metrics"),
    ),
)
