"""Fencing errors (KIP-98, KIP-360) of a leader or a coordinator, and the errors that the producer raises afterwards.

In Java's producer, fencing is fatal: no transaction can follow, even if an offset commit reported it (KAFKA-10631). In
librdkafka, fencing is a fatal error as well (librdkafka#3928).
"""

import pyarrow as pa
import pytest

from kafkaframes import Broker
from kafkaframes.client import Producer
from kafkaframes.errors import BrokerError, ProducerFencedError


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.create_topic("t", 1)
        yield broker


@pytest.mark.parametrize("code", ["INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED"])
@pytest.mark.parametrize("method", ["send", "send_arrow"])
def test_a_commit_after_produce_was_fenced_raises_the_fencing_error(broker, method, code):
    with Producer(broker.bootstrap_servers, transactional_id=f"{method} {code}") as producer:
        producer.begin_transaction()
        producer.send("t", b"first").result(30)
        with broker.on("Produce").error(code):
            if method == "send":
                assert isinstance(producer.send("t", b"x").exception(30), ProducerFencedError)
                assert "abort the transaction" in str(producer.send("t", b"follows").exception(30))
            else:
                with pytest.raises(ProducerFencedError):
                    producer.send_arrow(pa.table({"value": [b"x"]}), topic="t")
            with pytest.raises(ProducerFencedError):
                producer.commit_transaction()
        producer.abort_transaction()  # the coordinator does not confirm the fencing
        producer.begin_transaction()
        producer.send("t", b"later").result(30)
        producer.commit_transaction()


def test_a_commit_after_the_coordinator_fenced_the_producer_raises_the_fencing_error(broker):
    with Producer(broker.bootstrap_servers, transactional_id="offsets") as producer:
        producer.begin_transaction()
        with broker.on("TxnOffsetCommit").error("INVALID_PRODUCER_EPOCH"):
            with pytest.raises(ProducerFencedError):
                producer.send_offsets_to_transaction({("t", 0): 1}, "g")
            with pytest.raises(ProducerFencedError):
                producer.commit_transaction()
        producer.abort_transaction()


def test_every_call_of_an_older_producer_is_fenced_by_a_newer_one(broker):
    with Producer(broker.bootstrap_servers, transactional_id="same") as older:
        older.begin_transaction()
        older.send("t", b"x").result(30)
        with Producer(broker.bootstrap_servers, transactional_id="same") as newer:
            newer.begin_transaction()
            newer.send("t", b"y").result(30)
            assert isinstance(older.send("t", b"z").exception(30), BrokerError)
            with pytest.raises(ProducerFencedError):
                older.commit_transaction()
            with pytest.raises(ProducerFencedError):
                older.abort_transaction()
            newer.commit_transaction()
