"""``send_batches`` writes all of its bytes or none.

A Fetch response may end inside a batch, so its bytes must not be forwarded unchecked.
"""

import pytest

import kafkaframes
from kafkaframes.client import Producer, TopicPartition
from kafkaframes.errors import CorruptRecordError

T_0 = TopicPartition("t", 0)
BATCH = kafkaframes.build_records([{"value": b"v%d" % number} for number in range(10)])


@pytest.mark.parametrize("tail", [BATCH[:-1], BATCH[:60], BATCH[:5], b"\0"], ids=len)
def test_an_incomplete_last_batch_is_rejected_before_any_batch_is_written(tail):
    with kafkaframes.Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        broker.create_topic("t", 1)
        with pytest.raises(CorruptRecordError, match="not a complete batch"):
            producer.send_batches(T_0, BATCH + tail)
        assert producer.send_batches(T_0, BATCH * 2) == [0, 10]
        assert kafkaframes.scan_topic(broker.bootstrap_servers, "t").count() == 20


def test_empty_bytes_contain_no_batches():
    with kafkaframes.Broker() as broker, Producer(broker.bootstrap_servers) as producer:
        broker.create_topic("t", 1)
        assert producer.send_batches(T_0, b"") == []
