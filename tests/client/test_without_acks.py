"""With acks 0, a result means that the record was sent, and closing sends all pending records."""

import time

from kafkaframes.broker import Broker
from kafkaframes.client import Consumer, Producer, TopicPartition

NUMBERS_0 = TopicPartition("numbers", 0)


def test_closing_sends_records_that_the_socket_has_not_accepted_yet():
    with Broker() as broker:
        broker.create_topic("numbers")
        for turn in range(5):
            with Producer(broker.bootstrap_servers, acks=0, batch_size=1) as producer:
                for _ in range(4):
                    producer.send("numbers", bytes(1_000_000))
            with Consumer(broker.bootstrap_servers) as consumer:
                deadline = time.monotonic() + 60
                while consumer.end_offsets([NUMBERS_0])[NUMBERS_0] < 4 * (turn + 1):
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
