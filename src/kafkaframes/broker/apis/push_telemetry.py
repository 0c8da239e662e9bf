"""PushTelemetry: a client's metrics (KIP-714)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkaframes.broker.api import Answer, Api
from kafkaframes.broker.apis.get_telemetry_subscriptions import subscription, subscription_id
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.errors import ErrorCode

if TYPE_CHECKING:
    from kafkaframes.protocol.messages.kafka import PushTelemetryRequest, PushTelemetryResponse

    Request: TypeAlias = RequestOf[PushTelemetryRequest, PushTelemetryResponse]

_MOST_BYTES = 1_048_576
_CODECS = range(5)


def handle(request: Request, broker: BrokerState) -> Answer:
    """Take the metrics."""
    body = request.body
    code = ErrorCode.NONE
    if body.subscription_id != subscription_id(*subscription(broker)):
        code = ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    elif body.compression_type not in _CODECS:
        code = ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    elif len(body.metrics) > _MOST_BYTES:
        code = ErrorCode.TELEMETRY_TOO_LARGE
    else:
        broker.counters["client_metrics_pushed"] += 1
    return request.response(error_code=code)


API = Api(
    name="PushTelemetry",
    handle=handle,
    tier="T6",
    behaviour="Counted; the last of each client is in the journal.",
    gaps=("the metrics (OTLP) are not decoded",),
    is_advertised=False,
)
