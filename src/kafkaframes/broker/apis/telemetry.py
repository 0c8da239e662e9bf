"""Clients' own metrics (KIP-714): GetTelemetrySubscriptions, PushTelemetry."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID, uuid4

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _GetTelemetrySubscriptions: TypeAlias = RequestOf[
        kafka.GetTelemetrySubscriptionsRequest, kafka.GetTelemetrySubscriptionsResponse
    ]
    _PushTelemetry: TypeAlias = RequestOf[kafka.PushTelemetryRequest, kafka.PushTelemetryResponse]

_DEFAULT_INTERVAL_MS = 300_000
_MOST_BYTES = 1_048_576
_ACCEPTED_CODECS = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy, as Kafka orders them
_NOBODY = UUID(int=0)
_KNOWN_CODECS = range(5)


@Api(
    name="GetTelemetrySubscriptions",
    tier="T6",
    behaviour="Those of the client-metrics resources; advertised once there are some.",
    gaps=("a subscription's match is not looked at",),
    is_advertised=False,
)
def _get_telemetry_subscriptions(request: _GetTelemetrySubscriptions, broker: BrokerState) -> Answer:
    """Not advertised until somebody sets a subscription: a client that sees this API begins to push."""
    metrics, interval_ms = subscription(broker)
    instance_id = request.body.client_instance_id
    return request.response(
        error_code=ErrorCode.NONE,
        client_instance_id=uuid4() if instance_id == _NOBODY else instance_id,
        subscription_id=subscription_id(metrics, interval_ms),
        accepted_compression_types=list(_ACCEPTED_CODECS),
        push_interval_ms=interval_ms,
        telemetry_max_bytes=_MOST_BYTES,
        delta_temporality=True,
        requested_metrics=metrics,
    )


def subscription(broker: BrokerState) -> tuple[list[str], int]:
    """Return the prefixes of metrics that are asked for, and how often."""
    stored: dict[str, dict[str, Any]] = broker.metadata.entities.get("client_metrics", {})
    prefixes: list[str] = []
    intervals = [_DEFAULT_INTERVAL_MS]
    for configs in stored.values():
        prefixes += [part.strip() for part in configs.get("metrics", "").split(",") if part.strip()]
        intervals.append(int(configs.get("interval.ms", _DEFAULT_INTERVAL_MS)))
    return (["*"] if "*" in prefixes else sorted(set(prefixes))), min(intervals)


def subscription_id(metrics: list[str], interval_ms: int) -> int:
    """Return the number of a subscription: another one where anything changed."""
    return zlib.crc32(f"{metrics} {interval_ms}".encode()) & 0x7FFFFFFF


@Api(
    name="PushTelemetry",
    tier="T6",
    behaviour="Counted; the last of each client is in the journal.",
    gaps=("the metrics (OTLP) are not decoded",),
    is_advertised=False,
)
def _push_telemetry(request: _PushTelemetry, broker: BrokerState) -> Answer:
    body = request.body
    code = ErrorCode.NONE
    if body.subscription_id != subscription_id(*subscription(broker)):
        code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    elif body.compression_type not in _KNOWN_CODECS:
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    elif len(body.metrics) > _MOST_BYTES:
        code = ErrorCode.TELEMETRY_TOO_LARGE
    else:
        broker.counters["client_metrics_pushed"] += 1
    return request.response(error_code=code)
