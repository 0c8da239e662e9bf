"""GetTelemetrySubscriptions: which metrics a client shall push (KIP-714).

Not advertised until somebody sets a subscription: a client that sees this API begins to push.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import UUID, uuid4

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse

    Request: TypeAlias = RequestOf[GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse]

_DEFAULT_INTERVAL_MS = 300_000
_MOST_BYTES = 1_048_576
_CODECS = (4, 3, 1, 2)  # zstd, lz4, gzip, snappy, as Kafka orders them
_NOBODY = UUID(int=0)


def handle(request: Request, broker: BrokerState) -> Answer:
    """Answer with what is subscribed to."""
    metrics, interval_ms = subscription(broker)
    asked = request.body.client_instance_id
    return request.response(
        error_code=ErrorCode.NONE,
        client_instance_id=uuid4() if asked == _NOBODY else asked,
        subscription_id=subscription_id(metrics, interval_ms),
        accepted_compression_types=list(_CODECS),
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
    for one in stored.values():
        prefixes += [part.strip() for part in one.get("metrics", "").split(",") if part.strip()]
        intervals.append(int(one.get("interval.ms", _DEFAULT_INTERVAL_MS)))
    return (["*"] if "*" in prefixes else sorted(set(prefixes))), min(intervals)


def subscription_id(metrics: list[str], interval_ms: int) -> int:
    """Return the number of a subscription: another one where anything changed."""
    return zlib.crc32(f"{metrics} {interval_ms}".encode()) & 0x7FFFFFFF


API = Api(
    name="GetTelemetrySubscriptions",
    handle=handle,
    tier="T6",
    behaviour="Those of the client-metrics resources; advertised once there are some.",
    gaps=("a subscription's match is not looked at",),
    is_advertised=False,
)
