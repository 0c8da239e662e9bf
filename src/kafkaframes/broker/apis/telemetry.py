"""Handlers for client telemetry (KIP-714): GetTelemetrySubscriptions, PushTelemetry.

The state of a client instance belongs to its connection, because Kafka forgets an instance when its connection ends.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from uuid import UUID

from kafkaframes.broker.requests.api import Answer, Api
from kafkaframes.broker.requests.request import Session, TypedRequest
from kafkaframes.broker.state.state import BrokerState
from kafkaframes.errors import ErrorCode
from kafkaframes.records.codecs import Codec
from kafkaframes.wire.integers import MAX_INT32
from kafkaframes.wire.primitives import NIL_UUID

if TYPE_CHECKING:
    from kafkaframes.protocol.messages import kafka

    _GetTelemetrySubscriptions: TypeAlias = TypedRequest[
        kafka.GetTelemetrySubscriptionsRequest, kafka.GetTelemetrySubscriptionsResponse
    ]
    _PushTelemetry: TypeAlias = TypedRequest[kafka.PushTelemetryRequest, kafka.PushTelemetryResponse]


_DEFAULT_PUSH_INTERVAL_MS: Final = 300_000
_MAX_TELEMETRY_BYTES: Final = 1_048_576  # Kafka's default of telemetry.max.bytes
_ACCEPTED_CODECS: Final = (Codec.ZSTD, Codec.LZ4, Codec.GZIP, Codec.SNAPPY)  # in Kafka's order of preference
_RESERVED_INSTANCE_IDS: Final = frozenset({NIL_UUID, UUID(int=1)})
_IMMEDIATE_RETRY_ERRORS: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


@dataclass(slots=True)
class _MetricsSubscription:
    """The metrics that all subscriptions together request."""

    prefixes: tuple[str, ...]
    interval_ms: int

    def compute_subscription_id(self, instance_id: UUID) -> int:
        """Return the subscription id of a client instance, a hash of the subscription and the instance id."""
        number = zlib.crc32(f"{self.prefixes} {self.interval_ms}".encode()) ^ (instance_id.int & 0xFFFFFFFF)
        return number & MAX_INT32


@dataclass(slots=True)
class _ClientInstance:
    """A client that pushes metrics over one connection. Times are read from the broker's monotonic clock."""

    instance_id: UUID
    subscription: _MetricsSubscription
    subscribed_at_ms: int | None = None
    pushed_at_ms: int | None = None
    is_terminating: bool = False
    last_error: ErrorCode = ErrorCode.NONE

    def may_subscribe(self, now_ms: int) -> bool:
        """Return whether the push interval has passed, or the last error allows an immediate retry."""
        times = [time_ms for time_ms in (self.subscribed_at_ms, self.pushed_at_ms) if time_ms is not None]
        is_due = not times or now_ms - max(times) >= self.subscription.interval_ms
        if is_due:
            self.subscribed_at_ms = now_ms
        return is_due or self.last_error in _IMMEDIATE_RETRY_ERRORS

    def may_push(self, now_ms: int) -> bool:
        """Return whether the push interval has passed. The first push after a new subscription is always accepted."""
        pushed_at_ms = self.pushed_at_ms
        is_first = self.subscribed_at_ms is not None and (pushed_at_ms is None or self.subscribed_at_ms > pushed_at_ms)
        is_due = is_first or pushed_at_ms is None or now_ms - pushed_at_ms >= self.subscription.interval_ms
        if is_due:
            self.pushed_at_ms = now_ms
        return is_due


def _combine_subscriptions(broker: BrokerState) -> _MetricsSubscription:
    """Return the metrics and the push interval of all client metrics subscriptions together."""
    subscriptions: dict[str, dict[str, Any]] = broker.metadata.entities.get("client_metrics", {})
    prefixes: set[str] = set()
    interval_ms = _DEFAULT_PUSH_INTERVAL_MS
    for configs in subscriptions.values():
        prefixes |= {part.strip() for part in configs.get("metrics", "").split(",") if part.strip()}
        interval_ms = min(interval_ms, int(configs.get("interval.ms", _DEFAULT_PUSH_INTERVAL_MS)))
    return _MetricsSubscription(("*",) if "*" in prefixes else tuple(sorted(prefixes)), interval_ms)


def _find_client_instance(session: Session, instance_id: UUID, subscription: _MetricsSubscription) -> _ClientInstance:
    """Return the state of a client instance.

    Create the state at the first request, and after a change of subscriptions.
    """
    instance = session.telemetry
    if (
        not isinstance(instance, _ClientInstance)
        or instance.instance_id != instance_id
        or instance.subscription != subscription
    ):
        instance = session.telemetry = _ClientInstance(instance_id, subscription)
    return instance


@Api(
    name="GetTelemetrySubscriptions",
    tier="T6",
    behaviour="Returns the metrics of all subscriptions together. The API is advertised while a subscription exists.",
    gaps=("a subscription's match is ignored",),
)
def _get_telemetry_subscriptions(request: _GetTelemetrySubscriptions, broker: BrokerState) -> Answer:
    subscription = _combine_subscriptions(broker)
    instance_id = broker.new_id() if request.body.client_instance_id == NIL_UUID else request.body.client_instance_id
    instance = _find_client_instance(request.session, instance_id, subscription)
    if not instance.may_subscribe(broker.clock.monotonic_ms):
        return request.response(error_code=ErrorCode.THROTTLING_QUOTA_EXCEEDED)
    instance.last_error = ErrorCode.NONE
    return request.response(
        error_code=ErrorCode.NONE,
        client_instance_id=instance_id,
        subscription_id=subscription.compute_subscription_id(instance_id),
        accepted_compression_types=list(_ACCEPTED_CODECS),
        push_interval_ms=subscription.interval_ms,
        telemetry_max_bytes=_MAX_TELEMETRY_BYTES,
        delta_temporality=True,
        requested_metrics=list(subscription.prefixes),
    )


@Api(
    name="PushTelemetry",
    tier="T6",
    behaviour="Counts accepted pushes; the journal contains their payload.",
    gaps=("the payload (OTLP) is not decoded",),
)
def _push_telemetry(request: _PushTelemetry, broker: BrokerState) -> Answer:
    if request.body.client_instance_id in _RESERVED_INSTANCE_IDS:
        return request.response(error_code=ErrorCode.INVALID_REQUEST)
    instance = _find_client_instance(request.session, request.body.client_instance_id, _combine_subscriptions(broker))
    instance.last_error = _find_push_error(request, instance, broker.clock.monotonic_ms)
    instance.is_terminating = request.body.terminating
    if instance.last_error is ErrorCode.NONE:
        broker.counters["client_metrics_pushed"] += 1
    return request.response(error_code=instance.last_error)


def _find_push_error(request: _PushTelemetry, instance: _ClientInstance, now_ms: int) -> ErrorCode:
    """Return the error for a push, in the order of Kafka's checks."""
    body = request.body
    if instance.is_terminating:
        return ErrorCode.INVALID_REQUEST
    if not instance.may_push(now_ms) and not body.terminating:
        return ErrorCode.THROTTLING_QUOTA_EXCEEDED
    if body.subscription_id != instance.subscription.compute_subscription_id(instance.instance_id):
        return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    if body.compression_type not in set(Codec):
        return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    if len(body.metrics) > _MAX_TELEMETRY_BYTES:
        return ErrorCode.TELEMETRY_TOO_LARGE
    return ErrorCode.NONE
