"""``send`` rejects invalid arguments by name before a record is queued, without affecting other records."""

import asyncio
import datetime

import numpy as np
import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncProducer, Consumer, Producer, TopicPartition
from kafkaframes.client.producer_records import check_record, to_bytes, to_header_pairs
from kafkaframes.errors import EncodeError, NetworkError

INVALID_VALUES = {
    "value": [{"a": 1}, 5, ["a"], "\ud800"],
    "key": [{"a": 1}, 1.5, object()],
    "timestamp_ms": [datetime.datetime.now(), "1", 1.0, 2**63, True],
    "partition": ["0", 0.0, -1, 2**31, True],
    "headers": ["a", 5, [("a",)], [(1, b"")], {"a": 5}, {"a": {"b": 1}}, [b"ab"]],
    "topic": [None, 5, b"numbers", ""],
}
CASES = [(name, value) for name, values in INVALID_VALUES.items() for value in values]


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        broker.create_topic("numbers")
        broker.create_topic("others")
        yield broker.bootstrap_servers


def read(servers, topic):
    with Consumer(servers) as consumer:
        target = TopicPartition(topic, 0)
        consumer.assign({target: 0})
        end = consumer.end_offsets([target])[target]
        records = []
        while consumer.position(target) < end:
            records += consumer.poll(60_000)
        return records


@pytest.mark.parametrize("kind", ["sync", "asyncio"])
def test_an_argument_of_a_wrong_type_is_named_and_valid_records_are_sent(servers, kind):
    def arguments(name, value):
        return {"topic": "numbers", "value": b"good"} | {name: value}

    def refused(error, name):
        assert name.split("_")[0] in str(error.value)

    async def run():
        async with AsyncProducer(servers) as producer:
            good = await producer.send("others", b"before")
            for name, value in CASES:
                with pytest.raises(EncodeError) as error:
                    await producer.send(**arguments(name, value))
                refused(error, name)
            assert (await good).topic == "others"

    if kind == "asyncio":
        asyncio.run(run())
        return
    with Producer(servers) as producer:
        good = producer.send("others", b"before")
        for name, value in CASES:
            with pytest.raises(EncodeError) as error:
                producer.send(**arguments(name, value))
            refused(error, name)
        assert good.result().topic == "others"


@pytest.mark.parametrize(
    ("headers", "expected_headers"),
    [
        (None, []),
        ({}, []),
        ({"a": b"1", "b": "é", "c": None}, [("a", b"1"), ("b", "é".encode()), ("c", None)]),
        ([("a", b"1"), ["a", b"2"]], [("a", b"1"), ("a", b"2")]),
        ((pair for pair in [("a", b"1")]), [("a", b"1")]),
    ],
    ids=["None", "empty", "dict", "pairs", "generator"],
)
def test_headers_can_be_a_dict_pairs_or_none(servers, headers, expected_headers):
    with Producer(servers) as producer:
        offset = producer.send("numbers", b"v", headers=headers).result().offset
    (record,) = [record for record in read(servers, "numbers") if record.offset == offset]
    assert list(record.headers) == expected_headers


def test_bytes_like_and_integer_like_values_are_accepted():
    assert to_bytes("value", bytearray(b"a")) == to_bytes("value", memoryview(b"a")) == b"a"
    assert check_record("numbers", None, None, None, np.int32(5), np.int64(6), 1_000)[4:6] == (5, 6)
    assert to_header_pairs({"a": memoryview(b"1")}) == [("a", b"1")]


@pytest.mark.parametrize("error", ["cancelled", "a BaseException that is not an Exception"])
def test_all_pending_results_fail_if_the_sending_task_ends(servers, monkeypatch, error):
    async def run():
        producer = AsyncProducer(servers, linger_ms=0)
        await producer.start()
        monkeypatch.setattr("kafkaframes.client.sequencing.Sequencer.take_batch", lambda *_: None)  # no batch is sent
        futures = [await producer.send("numbers", b"v") for _ in range(3)]
        await asyncio.sleep(0)
        task = producer._sender._loop_task
        if error == "cancelled":
            task.cancel()
        else:

            def fail(*_):
                raise GeneratorExit

            monkeypatch.setattr("kafkaframes.client.sender.Sender._send_ready", fail)
            producer._sender._wake.set()
        futures.append(await producer.send("numbers", b"later"))
        results = await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), 60)
        assert [type(result) for result in results] == [NetworkError] * 4
        await asyncio.wait_for(producer.close(), 60)

    asyncio.run(run())
