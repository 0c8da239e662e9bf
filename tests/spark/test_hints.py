"""A large read without a selection suggests options that narrow it. A small read and a read with a selection suggest
nothing.
"""

import pytest
from tests.spark.truth import EXAMPLE_LOG_DIR

from kafkaframes.scan.log.resolve import plan_log
from kafkaframes.spark.options import parse_log_options
from kafkaframes.spark.sources.kafka_log import describe_large_read


def hint(large_bytes=1, **log_settings):
    options = parse_log_options({"path": str(EXAMPLE_LOG_DIR), **log_settings})
    return describe_large_read(options, plan_log(options, cores=2), large_bytes=large_bytes)


def test_a_read_of_a_whole_log_suggests_options_that_narrow_it():
    message = hint()
    assert "4 topics" in message
    assert "WHERE on topic" in message
    assert message.endswith("subscribe, assign, startingOffsets, endingOffsets, startingTimestamp, endingTimestamp")


def test_a_read_of_one_topic_suggests_options_for_offsets_and_times():
    assert hint(subscribe="orders").endswith(
        "options that limit the read: startingOffsets, endingOffsets, startingTimestamp, endingTimestamp"
    )


@pytest.mark.parametrize(
    "read_options",
    [
        {"subscribe": "orders", "startingTimestamp": "1"},
        {"assign": '{"orders": [0]}', "endingOffsets": '{"orders": {"0": 5}}'},
    ],
)
def test_a_narrowed_read_has_no_hint(read_options):
    assert hint(**read_options) is None


def test_a_small_read_has_no_hint():
    assert hint(large_bytes=1 << 30) is None
