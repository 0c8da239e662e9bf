"""Batches without a response: the error says that they may be written, and later records are written once and in
order.
"""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Consumer, Producer, TopicPartition
from kafkaframes.errors import BrokerError, MaybeWrittenError

NUMBERS_0 = TopicPartition("numbers", 0)
NO_RETRIES = {"request_timeout_ms": 2_000, "retries": 0, "linger_ms": 0}


@pytest.fixture
def broker():
    with Broker() as running:
        running.create_topic("numbers")
        yield running


def values(broker) -> list[bytes]:
    with Consumer(broker.bootstrap_servers, isolation_level="read_committed") as consumer:
        consumer.assign({NUMBERS_0: 0})
        end = consumer.end_offsets([NUMBERS_0])[NUMBERS_0]
        values = []
        while consumer.position(NUMBERS_0) < end:
            values += consumer.poll(100)
        return [record.value for record in values]


@pytest.mark.parametrize("is_written", [True, False])
def test_a_record_without_a_response_may_be_written_and_later_records_continue(broker, is_written):
    with Producer(broker.bootstrap_servers, **NO_RETRIES) as producer:
        producer.send("numbers", b"0").result()
        before = producer.identity
        rule = broker.on("Produce")
        (rule.drop_reply if is_written else rule.ignore)()
        with pytest.raises(MaybeWrittenError, match="1 records for numbers-0 may or may not have been written"):
            producer.send("numbers", b"1").result()
        rule.remove()
        assert producer.send("numbers", b"2").result().offset == (2 if is_written else 1)
        assert producer.identity.epoch == before.epoch + 1
    assert values(broker) == [b"0", *([b"1"] if is_written else []), b"2"]


def test_a_transaction_with_a_record_without_a_response_must_be_aborted(broker):
    with Producer(broker.bootstrap_servers, transactional_id="t", **NO_RETRIES) as producer:
        producer.begin_transaction()
        rule = broker.on("Produce").drop_reply()
        with pytest.raises(MaybeWrittenError):
            producer.send("numbers", b"1").result()
        rule.remove()
        with pytest.raises(BrokerError, match="abort the transaction"):
            producer.commit_transaction()
        producer.abort_transaction()
        producer.begin_transaction()
        producer.send("numbers", b"2").result()
        producer.commit_transaction()
    assert values(broker) == [b"2"]


def test_a_commit_without_a_response_may_have_succeeded_and_can_be_retried(broker):
    with Producer(broker.bootstrap_servers, transactional_id="t", **NO_RETRIES) as producer:
        producer.begin_transaction()
        producer.send("numbers", b"1").result()
        rule = broker.on("EndTxn").drop_reply()
        with pytest.raises(MaybeWrittenError, match="committing the transaction may or may not have succeeded"):
            producer.commit_transaction()
        rule.remove()
        producer.commit_transaction()
    assert values(broker) == [b"1"]
