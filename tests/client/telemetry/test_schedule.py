"""The time of each telemetry request, depending on the previous responses.

Public reports that these tests reproduce: subscription requests that are retried in a tight loop after an error,
KAFKA-19747 (errors that are not retriable), KAFKA-19506 (a codec that one side does not support), KAFKA-21077 (the
broker's maximum payload size is ignored, and every push is rejected).
"""

from types import SimpleNamespace
from uuid import UUID

import pytest

from kafkaframes.client.telemetry.schedule import MAX_PAYLOAD_BYTES, TelemetrySchedule
from kafkaframes.errors import ErrorCode
from kafkaframes.records.codecs import Codec

INSTANCE_ID = UUID(int=5)
NIL_ID = UUID(int=0)


def build_subscription(**fields):
    body = {
        "error_code": 0,
        "throttle_time_ms": 0,
        "client_instance_id": INSTANCE_ID,
        "subscription_id": 7,
        "accepted_compression_types": [4, 3],
        "push_interval_ms": 10_000,
        "telemetry_max_bytes": 1_000,
        "delta_temporality": True,
        "requested_metrics": ["*"],
    }
    return SimpleNamespace(**{**body, **fields})


def response(code=0, throttle_time_ms=0):
    return SimpleNamespace(error_code=int(code), throttle_time_ms=throttle_time_ms)


def make_schedule(jitter=1.0):
    return TelemetrySchedule(lambda low, high: jitter)


def make_subscribed_schedule(jitter=1.0, **fields):
    schedule = make_schedule(jitter)
    schedule.handle_subscription_response(build_subscription(**fields), 100.0)
    return schedule


def test_the_first_request_is_sent_immediately_without_an_instance_id():
    schedule = make_schedule()
    assert (schedule.due_s, schedule.needs_subscription, schedule.client_instance_id) == (0.0, True, NIL_ID)
    assert not schedule.can_push


def test_the_jitter_is_between_half_and_one_and_a_half_intervals():
    bounds = []
    schedule = TelemetrySchedule(lambda low, high: bounds.append((low, high)) or 0.5)
    schedule.handle_subscription_response(build_subscription(), 100.0)
    assert bounds == [(0.5, 1.5)]
    assert (schedule.due_s, schedule.needs_subscription, schedule.can_push) == (105.0, False, True)
    assert schedule.client_instance_id == INSTANCE_ID


def test_later_pushes_follow_after_whole_intervals():
    schedule = make_subscribed_schedule(0.5)
    assert schedule.handle_push_response(response(), 10, Codec.ZSTD, 105.0)
    assert (schedule.due_s, schedule.needs_subscription) == (115.0, False)


def test_a_subscription_without_metrics_is_read_again_after_an_interval():
    schedule = make_subscribed_schedule(requested_metrics=[])
    assert (schedule.due_s, schedule.needs_subscription, schedule.can_push) == (110.0, True, False)
    assert schedule.client_instance_id == INSTANCE_ID


@pytest.mark.parametrize("interval_ms", [0, -1])
def test_an_invalid_interval_is_five_minutes(interval_ms):
    assert make_subscribed_schedule(push_interval_ms=interval_ms).due_s == 400.0


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE])
def test_an_outdated_subscription_is_read_again_at_once_and_the_next_push_keeps_the_interval(code):
    schedule = make_subscribed_schedule(0.5)
    assert not schedule.handle_push_response(response(code), 10, Codec.ZSTD, 105.0)
    assert (schedule.due_s, schedule.needs_subscription) == (105.0, True)
    assert schedule.client_instance_id == INSTANCE_ID
    schedule.handle_subscription_response(build_subscription(subscription_id=8), 105.1)
    assert (schedule.due_s, schedule.needs_subscription) == (115.0, False)  # brokers count the rejected push


@pytest.mark.parametrize("code", [ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED])
def test_other_errors_of_a_push_wait_for_an_interval(code):
    schedule = make_subscribed_schedule()
    assert not schedule.handle_push_response(response(code), 10, Codec.ZSTD, 110.0)
    assert (schedule.due_s, schedule.needs_subscription, schedule.disabling_error) == (120.0, True, None)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.UNKNOWN_SUBSCRIPTION_ID,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.REQUEST_TIMED_OUT,
    ],
)
def test_a_failed_subscription_request_is_not_retried_immediately(code):
    schedule = make_schedule()
    schedule.handle_subscription_response(build_subscription(error_code=code), 100.0)
    assert (schedule.due_s, schedule.needs_subscription, schedule.disabling_error) == (400.0, True, None)


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_RECORD,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        9999,
    ],
)
def test_errors_that_are_not_retriable_disable_telemetry(code):
    schedule = make_schedule()
    schedule.handle_subscription_response(build_subscription(error_code=code), 100.0)
    assert schedule.disabling_error == code
    pushing = make_subscribed_schedule()
    assert not pushing.handle_push_response(response(code), 10, Codec.ZSTD, 110.0)
    assert (pushing.disabling_error, pushing.can_push) == (code, False)


def test_a_subscription_without_an_id_disables_telemetry():
    assert make_subscribed_schedule(client_instance_id=NIL_ID).disabling_error == ErrorCode.INVALID_REQUEST


def test_a_request_without_a_response_is_retried_after_an_interval():
    schedule = make_schedule()
    schedule.handle_failure(100.0)
    assert (schedule.due_s, schedule.needs_subscription) == (400.0, True)
    schedule = make_subscribed_schedule()
    schedule.handle_failure(110.0)
    assert (schedule.due_s, schedule.needs_subscription) == (120.0, True)


def test_throttling_delays_the_next_request():
    schedule = make_subscribed_schedule(throttle_time_ms=60_000)
    assert schedule.due_s == 160.0
    schedule.handle_push_response(response(throttle_time_ms=30_000), 10, Codec.ZSTD, 160.0)
    assert schedule.due_s == 190.0


@pytest.mark.parametrize(
    ("accepted_codecs", "codec"),
    [([4, 3, 1, 2], Codec.ZSTD), ([9, 1], Codec.GZIP), ([0], Codec.NONE), ([], Codec.NONE), ([9, -1], Codec.NONE)],
)
def test_the_codec_is_the_first_that_both_sides_have(accepted_codecs, codec):
    assert make_subscribed_schedule(accepted_compression_types=accepted_codecs).codec == codec


def test_a_rejected_codec_is_not_used_again():
    schedule = make_subscribed_schedule()
    schedule.handle_push_response(response(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE), 10, Codec.ZSTD, 110.0)
    schedule.handle_subscription_response(build_subscription(), 110.0)
    assert schedule.codec == Codec.LZ4


def test_a_payload_is_limited_by_the_broker_and_halved_when_it_is_rejected():
    assert make_subscribed_schedule(telemetry_max_bytes=0).max_payload_bytes == MAX_PAYLOAD_BYTES
    assert make_subscribed_schedule(telemetry_max_bytes=2**31 - 1).max_payload_bytes == MAX_PAYLOAD_BYTES
    schedule = make_subscribed_schedule()
    assert schedule.max_payload_bytes == 1_000
    schedule.handle_push_response(response(ErrorCode.TELEMETRY_TOO_LARGE), 900, Codec.ZSTD, 110.0)
    schedule.handle_subscription_response(build_subscription(), 120.0)
    assert schedule.max_payload_bytes == 450
