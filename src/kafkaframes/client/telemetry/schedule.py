"""Decides when a client requests its telemetry subscription, pushes metrics, and stops (KIP-714).

``TelemetrySchedule`` does no I/O and reads no clock. The schedule follows Java's ``ClientTelemetryReporter`` with two
exceptions. After an error, GetTelemetrySubscriptions is never repeated at once. The first push of a new
subscription is never earlier than one interval after the last push, because brokers would throttle an earlier push.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from uuid import UUID

from kafkaframes.errors import ErrorCode
from kafkaframes.records.codecs import Codec
from kafkaframes.wire.primitives import NIL_UUID

DEFAULT_INTERVAL_S: Final = 300.0
# Encoding a payload of this size blocks the event loop for 30 ms. The default of telemetry.max.bytes is 1 MiB.
MAX_PAYLOAD_BYTES: Final = 262_144
_MIN_JITTER, _MAX_JITTER = 0.5, 1.5
_RESUBSCRIBE_ERRORS: Final = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
_WAIT_INTERVAL_ERRORS: Final = frozenset({ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


class TelemetrySubscription(NamedTuple):
    """The metrics that a broker requests of this client.

    Attributes:
        client_instance_id: id of this client, which the broker has assigned.
        subscription_id: id that pushes refer to.
        codecs: codecs that the broker accepts, in the broker's order of preference.
        interval_s: time between pushes, in seconds.
        max_bytes: largest payload that the broker accepts; 0 if the broker has not reported it.
        is_delta: whether sums are differences from the last push.
        prefixes: prefixes of the names of requested metrics; ``*`` for all; empty for none.
    """

    client_instance_id: UUID
    subscription_id: int
    codecs: tuple[int, ...]
    interval_s: float
    max_bytes: int
    is_delta: bool
    prefixes: tuple[str, ...]

    @classmethod
    def from_response(cls, response: Any) -> TelemetrySubscription:
        """Return the subscription in a GetTelemetrySubscriptions response. An invalid interval becomes 5 minutes."""
        return cls(
            response.client_instance_id,
            response.subscription_id,
            tuple(response.accepted_compression_types),
            response.push_interval_ms / 1000 if response.push_interval_ms > 0 else DEFAULT_INTERVAL_S,
            max(response.telemetry_max_bytes, 0),
            response.delta_temporality,
            tuple(response.requested_metrics),
        )


class TelemetrySchedule:
    """The state of a client's telemetry. Times are in seconds of a monotonic clock.

    Attributes:
        subscription: last subscription; None before the first.
        due_s: time of the next request.
        needs_subscription: whether the next request is GetTelemetrySubscriptions. If False, the next request is
            PushTelemetry.
        disabling_error: error after which the client sends no more telemetry; None while telemetry is enabled.
    """

    def __init__(self, uniform: Callable[[float, float], float]) -> None:
        """Create a schedule with a first request that is due at once.

        Args:
            uniform: function that returns a random number between two bounds.
        """
        self._uniform = uniform
        self.subscription: TelemetrySubscription | None = None
        self.due_s = 0.0
        self.needs_subscription = True
        self.disabling_error: ErrorCode | None = None
        self._pushed_at_s: float | None = None
        self._rejected_codecs: set[int] = set()
        self._max_bytes = MAX_PAYLOAD_BYTES

    @property
    def client_instance_id(self) -> UUID:
        """The id for the next request; the nil UUID requests a new one."""
        return NIL_UUID if self.subscription is None else self.subscription.client_instance_id

    @property
    def can_push(self) -> bool:
        """Whether a terminating push is possible."""
        return self.disabling_error is None and not self.needs_subscription

    @property
    def codec(self) -> Codec:
        """The broker's preferred codec; none if it accepts no codec that this client has."""
        accepted_codecs = () if self.subscription is None else self.subscription.codecs
        supported_codecs = set(Codec) - self._rejected_codecs
        return next((Codec(codec) for codec in accepted_codecs if codec in supported_codecs), Codec.NONE)

    @property
    def max_payload_bytes(self) -> int:
        """The largest uncompressed payload.

        Some releases of Kafka limit the uncompressed size, and others limit the compressed size.
        """
        max_reported_bytes = 0 if self.subscription is None else self.subscription.max_bytes
        return min(self._max_bytes, max_reported_bytes or self._max_bytes)

    def handle_subscription_response(self, response: Any, now_s: float) -> None:
        """Process a GetTelemetrySubscriptions response."""
        code = ErrorCode(response.error_code)
        throttle_s = response.throttle_time_ms / 1000
        if code != ErrorCode.NONE:
            self._handle_error(code, now_s, self._interval_s, throttle_s)
            return
        if response.client_instance_id == NIL_UUID:
            self.disabling_error = ErrorCode.INVALID_REQUEST
            return
        subscription = self.subscription = TelemetrySubscription.from_response(response)
        self.needs_subscription = not subscription.prefixes
        if self.needs_subscription:
            self.due_s = now_s + max(subscription.interval_s, throttle_s)
            return
        jitter = self._uniform(_MIN_JITTER, _MAX_JITTER)  # clients that start together do not push together
        self.due_s = now_s + max(subscription.interval_s * jitter, throttle_s)
        if self._pushed_at_s is not None:
            self.due_s = max(self.due_s, self._pushed_at_s + subscription.interval_s)

    def handle_push_response(self, response: Any, payload_bytes: int, codec: int, now_s: float) -> bool:
        """Process a PushTelemetry response. Return whether the broker has accepted the payload.

        Args:
            response: body of the response.
            payload_bytes: uncompressed size of the payload.
            codec: number of the codec that compressed the payload.
            now_s: current time.
        """
        code = ErrorCode(response.error_code)
        throttle_s = response.throttle_time_ms / 1000
        self._pushed_at_s = now_s
        if code == ErrorCode.NONE:
            self.due_s = now_s + max(self._interval_s, throttle_s)
            return True
        if code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
            self._rejected_codecs.add(codec)
        if code == ErrorCode.TELEMETRY_TOO_LARGE:
            self._max_bytes = max(payload_bytes // 2, 1)
        self._handle_error(code, now_s, 0.0 if code in _RESUBSCRIBE_ERRORS else self._interval_s, throttle_s)
        return False

    def handle_failure(self, now_s: float) -> None:
        """Process a request without a response. The subscription is requested again after an interval."""
        self.needs_subscription = True
        self.due_s = now_s + self._interval_s

    @property
    def _interval_s(self) -> float:
        return DEFAULT_INTERVAL_S if self.subscription is None else self.subscription.interval_s

    def _handle_error(self, code: ErrorCode, now_s: float, delay_s: float, throttle_s: float) -> None:
        self.needs_subscription = True
        self.due_s = now_s + max(delay_s, throttle_s)
        if not (code in _RESUBSCRIBE_ERRORS or code in _WAIT_INTERVAL_ERRORS or code.is_retriable):
            self.disabling_error = code
