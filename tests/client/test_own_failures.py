"""Internal errors reach the caller unchanged, once, and do not count as a lost connection."""

import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition
from kafkaframes.client.group_messages import GroupMessages
from kafkaframes.errors import BrokerError, ErrorCode
from kafkaframes.protocol import framing as framed
from kafkaframes.protocol.framing import FrameBuffer

PRODUCE, FETCH = 0, 1
NUMBERS_0 = TopicPartition("numbers", 0)
QUICK_SETTINGS = {"retry_backoff_ms": 10, "fetch_max_wait_ms": 50}


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        broker.create_topic("numbers")
        yield broker.bootstrap_servers


@pytest.fixture
def break_decoding(monkeypatch):
    """Return a function that makes decoding an API's responses raise MemoryError."""
    decode_response = framed.decode_response

    def break_decoding(api_key: int) -> None:
        def decode(data, key, *rest, **more):
            if key == api_key:
                raise MemoryError("no room")
            return decode_response(data, key, *rest, **more)

        monkeypatch.setattr(framed, "decode_response", decode)

    return break_decoding


def test_a_consumer_raises_memory_errors_of_decoding(servers, break_decoding):
    break_decoding(FETCH)
    with Consumer(servers, **QUICK_SETTINGS) as consumer:
        consumer.assign({NUMBERS_0: 0})
        for _ in range(2):  # a second call raises as well, instead of hanging
            with pytest.raises(MemoryError):
                consumer.fetch(60_000)


def test_a_consumer_raises_memory_errors_of_the_receive_buffer(servers, monkeypatch):
    with Producer(servers) as producer:
        producer.send("numbers", b"n", partition=0).result()
    original_get_buffer = FrameBuffer.get_buffer

    def get_buffer(self, size_hint=-1):
        if self.max_bytes == 7_777_777:
            raise MemoryError("no room")
        return original_get_buffer(self, size_hint)

    with Consumer(servers, max_response_bytes=7_777_777, **QUICK_SETTINGS) as consumer:
        consumer.assign({NUMBERS_0: 0})
        consumer.fetch(60_000)
        monkeypatch.setattr(FrameBuffer, "get_buffer", get_buffer)
        with pytest.raises(MemoryError):
            consumer.fetch(60_000)
        monkeypatch.undo()


def test_a_producer_raises_memory_errors_of_decoding(servers, break_decoding):
    break_decoding(PRODUCE)
    with Producer(servers) as producer, pytest.raises(MemoryError):
        producer.send("numbers", b"lost", partition=0).result()


def test_records_whose_batch_cannot_be_built_fail_immediately(servers, monkeypatch):
    def fail_to_build(*_):
        raise MemoryError("no room")

    monkeypatch.setattr(AsyncProducer, "_encode_open_batches", fail_to_build)
    with Producer(servers) as producer:
        for _ in range(2):  # the sending task continues
            with pytest.raises(MemoryError):
                producer.send("numbers", b"lost", partition=0).result()


@pytest.mark.parametrize("client", ["consumer", "producer"])
def test_calls_fail_if_the_event_loop_has_stopped_unexpectedly(servers, monkeypatch, client):
    monkeypatch.setattr("kafkaframes.client.positions.Positions.next_requests", lambda self, now, cluster: 1 / 0)
    monkeypatch.setattr("kafkaframes.client.sender.Sender._send_ready", lambda self: 1 / 0)
    if client == "producer":
        with Producer(servers) as producer:
            for _ in range(2):
                with pytest.raises(ZeroDivisionError):
                    producer.send("numbers", b"lost", partition=0).result()
        return
    with Consumer(servers, **QUICK_SETTINGS) as consumer:
        for call in (
            lambda: consumer.assign([NUMBERS_0]),
            lambda: consumer.fetch(60_000),
            lambda: next(iter(consumer)),
        ):
            with pytest.raises(ZeroDivisionError):
                call()


def test_heartbeats_continue_after_the_coordinator_was_unreachable_once(monkeypatch):
    beats: list[int] = []
    send_to_coordinator = GroupMessages._send_to_coordinator

    async def ask(self, body, **rest):
        if type(body).__name__ == "HeartbeatRequest":
            beats.append(1)
            if len(beats) == 1:
                raise BrokerError("away", ErrorCode(15))
        return await send_to_coordinator(self, body, **rest)

    monkeypatch.setattr(GroupMessages, "_send_to_coordinator", ask)
    with Broker() as broker:
        broker.create_topic("numbers")
        with Consumer(broker.bootstrap_servers, group_id="g", heartbeat_interval_ms=20) as consumer:
            consumer.subscribe("numbers")
            deadline = time.monotonic() + 60
            while len(beats) < 2:
                consumer.poll(50)
                assert time.monotonic() < deadline


def test_asyncio_clients_raise_the_same_errors(servers, break_decoding):
    import asyncio

    break_decoding(FETCH)

    async def read() -> None:
        async with AsyncConsumer(servers, **QUICK_SETTINGS) as consumer:
            await consumer.assign({NUMBERS_0: 0})
            await consumer.fetch(60_000)

    with pytest.raises(MemoryError):
        asyncio.run(read())
