"""The future of a record sent by a synchronous producer is a ``concurrent.futures.Future``."""

import asyncio
import concurrent.futures
import logging
import threading
from contextlib import closing

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Consumer, Producer, RecordMetadata, TopicPartition
from kafkaframes.client.batches import PartResult
from kafkaframes.client.record_futures import ThreadResults
from kafkaframes.errors import BrokerError, EncodeError, NetworkError

NUMBERS_0 = TopicPartition("numbers", 0)


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        broker.create_topic("numbers")
        broker.create_topic("three", partitions=3)
        yield broker.bootstrap_servers


def batch(count: int):
    results = ThreadResults(NUMBERS_0, list(range(100, 100 + count)))
    return results, [results.create_future(None, None) for _ in range(count)]


def test_a_written_batch_gives_each_record_its_offset():
    results, futures = batch(3)
    assert not futures[0].done()
    assert not futures[0].cancel()
    with pytest.raises(TimeoutError):
        futures[0].result(0)
    results.set_results([PartResult(0, results.count, 7)])
    assert [future.result() for future in futures] == [RecordMetadata("numbers", 0, 7 + n, 100 + n) for n in range(3)]
    assert futures[2].exception() is None


@pytest.mark.parametrize(("base", "append_time", "last"), [(-1, -1, (-1, 101)), (5, 9, (6, 9))])
def test_results_without_acks_have_no_offset_and_append_times_are_the_brokers(base, append_time, last):
    results, futures = batch(2)
    results.set_results([PartResult(0, 3, base, append_time)])
    assert futures[1].result()[2:] == last


def test_futures_of_a_failed_batch_raise_its_error():
    results, futures = batch(2)
    results.set_error(NetworkError("gone"))
    with pytest.raises(NetworkError, match="gone"):
        futures[1].result()
    assert isinstance(futures[0].exception(), NetworkError)


def test_futures_work_with_wait_as_completed_and_asyncio():
    first, early = batch(2)
    second, late = batch(2)
    first.set_results([PartResult(0, first.count, 0)])
    done_futures, pending = concurrent.futures.wait(early + late, 0)
    assert (done_futures, pending) == (set(early), set(late))
    threading.Timer(0.05, second.set_error, [NetworkError("gone")]).start()
    assert set(concurrent.futures.as_completed(early + late, 60)) == set(early + late)

    async def wait_for_first():
        return await asyncio.wrap_future(early[1])

    assert asyncio.run(wait_for_first()).offset == 1


def test_callbacks_are_called_once_and_their_exceptions_are_logged(caplog):
    results, futures = batch(2)
    calls = []
    futures[0].add_done_callback(lambda future: 1 / 0)
    futures[1].add_done_callback(lambda future: calls.append(future.result().offset))
    with caplog.at_level(logging.ERROR):
        results.set_results([PartResult(0, results.count, 3)])
    futures[1].add_done_callback(lambda future: calls.append("later"))
    assert calls == [4, "later"]
    assert "ZeroDivisionError" in caplog.text


def test_on_delivery_gets_the_error_or_the_records_offset(servers):
    calls = []
    with Producer(servers, linger_ms=0) as producer:
        offset = producer.send("numbers", b"0").result(60).offset
        producer.send("numbers", b"1", on_delivery=lambda *arguments: calls.append(arguments)).result(60)
    assert calls == [(None, RecordMetadata("numbers", 0, offset + 1, calls[0][1].timestamp))]


def test_records_of_many_threads_are_each_written_once(servers):
    with Producer(servers, batch_size=500) as producer:

        def send(thread: int) -> list[concurrent.futures.Future]:
            return [producer.send("three", b"%d-%d" % (thread, n)) for n in range(500)]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            sent_futures = [future for futures in pool.map(send, range(4)) for future in futures]
        producer.flush()
        assert all(future.done() for future in sent_futures)
    written_places = {future.result()[:3] for future in sent_futures}
    assert len(written_places) == 2_000
    with Consumer(servers) as consumer:
        targets = consumer.partitions_for("three")
        consumer.assign(dict.fromkeys(targets, 0))
        values = []
        while len(values) < 2_000:
            values += [(record.partition, record.value) for record in consumer.poll(60_000)]
    assert len({value for _, value in values}) == 2_000
    for partition in range(3):  # the records of each thread are in order
        for thread in range(4):
            numbers = [int(v.split(b"-")[1]) for p, v in values if p == partition and v.startswith(b"%d-" % thread)]
            assert numbers == sorted(numbers)


def test_send_waits_if_the_buffer_is_full():
    with Broker() as broker:
        broker.create_topic("numbers")
        with Producer(broker.bootstrap_servers, buffer_memory=2_000, linger_ms=60_000) as producer:
            futures = [producer.send("numbers", bytes(500)) for _ in range(20)]
            assert futures[0].result(60).offset == 0  # batches do not linger while there is no free memory


def test_send_waits_at_most_max_block_ms_and_names_the_reason():
    producer = Producer("127.0.0.1:1", max_block_ms=300)
    with closing(producer), pytest.raises(NetworkError, match=r"waited 300 ms .*127\.0\.0\.1:1"):
        producer.send("numbers", b"v")


def test_unknown_partitions_and_closed_producers_are_rejected(servers):
    with Producer(servers) as producer:
        with pytest.raises(BrokerError, match="no partition 9; it has 1"):
            producer.send("numbers", b"v", partition=9)
        with pytest.raises(EncodeError, match="max_request_size"):
            producer.send("numbers", bytes(2_000_000))
    with pytest.raises(NetworkError, match="closed"):
        producer.send("numbers", b"v")
