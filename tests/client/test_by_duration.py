"""``auto.offset.reset=by_duration:PT1H`` starts with the first record of the last hour (KIP-1106)."""

import time

import pytest

from kafkaframes import Broker
from kafkaframes.client import Consumer
from kafkaframes.client.settings import ConsumerSettings, parse_duration
from kafkaframes.errors import OptionError

HOUR_MS = 3_600_000


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        now = int(time.time() * 1000)
        broker.create_topic("hours")
        for hours in range(10, 0, -1):
            broker.append("hours", [{"value": b"%d" % hours, "timestamp": now - hours * HOUR_MS + 60_000}])
        yield broker


def read_first(broker, **options) -> list[bytes]:
    with Consumer(broker.bootstrap_servers, **options) as consumer:
        if "group_id" in options:
            consumer.subscribe("hours")
        else:
            consumer.assign([("hours", 0)])
        return [record.value for record in consumer.poll(60_000)]


@pytest.mark.parametrize("group", [{}, {"group_id": "classic"}, {"group_id": "new", "group_protocol": "consumer"}])
def test_the_first_record_is_that_many_hours_old(broker, group):
    assert read_first(broker, auto_offset_reset="by_duration:PT3H", **group) == [b"3", b"2", b"1"]


def test_by_duration_starts_at_the_end_if_all_records_are_older(broker):
    with Consumer(broker.bootstrap_servers, auto_offset_reset="by_duration:PT10M") as consumer:
        consumer.assign([("hours", 0)])
        assert consumer.poll(300) == []
        deadline = time.monotonic() + 60
        while True:
            broker.append("hours", [{"value": b"new", "timestamp": 1}])
            if records := consumer.poll(300):
                break
            assert time.monotonic() < deadline
    assert {record.value for record in records} == {b"new"}


@pytest.mark.parametrize(
    ("text", "expected_ms"),
    [("PT1H", HOUR_MS), ("pt1h", HOUR_MS), ("P1D", 24 * HOUR_MS), ("PT0S", 0), ("P1DT1M0.25S", 24 * HOUR_MS + 60_250)],
)
def test_iso_durations_are_converted_to_milliseconds(text, expected_ms):
    assert parse_duration(text) == expected_ms
    assert (
        ConsumerSettings(bootstrap_servers="h:1", auto_offset_reset=f"by_duration:{text}").reset_duration_ms
        == expected_ms
    )


@pytest.mark.parametrize(
    "text", ["", "1H", "P", "PT", "P1DT", "-PT1H", "PT-1H", "P1Y", "P1W", "PT1H ", "PT１H", "3600"]
)
def test_an_invalid_duration_is_rejected_immediately(text):
    with pytest.raises(OptionError, match="auto_offset_reset"):
        ConsumerSettings(bootstrap_servers="h:1", auto_offset_reset=f"by_duration:{text}")


@pytest.mark.parametrize("text", ["by_duration", "duration:PT1H", "newest"])
def test_an_unknown_reset_policy_is_rejected_with_the_valid_ones(text):
    with pytest.raises(OptionError, match="earliest, latest, none, by_duration"):
        ConsumerSettings(bootstrap_servers="h:1", auto_offset_reset=text)
