"""A sample of a partition's batches, and estimates from it."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.client.range_reader import fetch_sample
from kafkaframes.errors import BrokerError
from kafkaframes.records.build import build_records

T_0 = TopicPartition("t", 0)
TIME_MS = 1_760_000_000_000


@pytest.fixture(scope="module")
def consumer():
    """Return a consumer of a topic with two batches, of five and two records."""

    with Broker() as broker, Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name="t", num_partitions=1)])
        with Producer(broker.bootstrap_servers) as producer:
            for count in (5, 2):
                rows = [{"value": b"v", "timestamp": TIME_MS + count} for _ in range(count)]
                producer.send_batches(T_0, build_records(rows))
        with Consumer(broker.bootstrap_servers, auto_offset_reset="none", fetch_max_wait_ms=10) as one:
            yield one


def test_the_batches_at_an_offset_are_counted_by_their_headers(consumer):
    estimate = fetch_sample(consumer, T_0, 0)
    assert estimate is not None
    assert (estimate.offsets, estimate.records, estimate.first_timestamp) == (7, 7, TIME_MS + 5)
    assert estimate.bytes_per_offset == estimate.size_bytes / 7 > 1


def test_a_sample_that_starts_inside_a_batch_counts_no_more_records_than_offsets(consumer):
    estimate = fetch_sample(consumer, T_0, 4)
    assert estimate is not None
    assert (estimate.offsets, estimate.records) == (3, 3)


def test_at_the_end_there_is_nothing(consumer):
    assert fetch_sample(consumer, T_0, 7, wait_ms=50) is None


def test_an_unknown_offset_raises_the_brokers_error(consumer):
    with pytest.raises(BrokerError, match="OFFSET_OUT_OF_RANGE"):
        fetch_sample(consumer, T_0, 99)
