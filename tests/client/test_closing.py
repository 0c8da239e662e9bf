"""Clients that are closed, used in callbacks, forked, moved to another event loop or shared by threads while they work.

User reports: kafka-python's ``close`` leaves threads waiting, confluent-kafka hangs after ``fork`` in gunicorn and
celery, Java's ``KafkaProducer.close`` inside a callback (KAFKA-2169), and "KafkaConsumer is not safe for multi-threaded
access" (``ConcurrentModificationException``).
"""

import asyncio
import logging
import os
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import closing

import pyarrow as pa
import pytest

from kafkaframes import Broker
from kafkaframes.client import (
    Admin,
    AsyncAdmin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Producer,
    TopicPartition,
)
from kafkaframes.errors import BrokerError, KafkaframesError, NetworkError, OptionError

PROMPT_S = 20.0


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        broker.create_topic("t", 2)
        broker.create_topic("small", 1, max_message_bytes=1_000)
        yield broker


# ----------------------------------------------------------------------------------------------------------- closing

OPERATIONS = {
    "send": lambda client: client.send("t", b"x").result(),
    "send without a look": lambda client: client.send("t", b"x"),
    "send_arrow": lambda client: client.send_arrow(pa.table({"value": [b"x"]}), topic="t"),
    "queue_arrow": lambda client: client.queue_arrow(pa.table({"value": [b"x"]}), topic="t").result(),
    "flush": lambda client: (client.send("t", b"x"), client.flush()),
    "partitions_for": lambda client: client.partitions_for("t"),
    "poll": lambda client: client.poll(60_000),
    "fetch_arrow": lambda client: client.fetch_arrow(50),
    "iteration": lambda client: next(iter(client)),
    "end_offsets": lambda client: client.end_offsets([TopicPartition("t", 0)]),
    "list_topics": lambda client: client.list_topics(),
}
CONSUMER_OPERATIONS = ("poll", "fetch_arrow", "iteration", "end_offsets")


@pytest.mark.parametrize("work", OPERATIONS)
def test_running_operations_of_a_closed_client_raise_network_errors(broker, work):
    for attempt in range(4):
        if work in CONSUMER_OPERATIONS:
            client = Consumer(broker.bootstrap_servers)
            client.assign({("t", 0): 1 << 40} if work == "poll" else [("t", 0)])
        else:
            small = {} if work == "list_topics" else {"buffer_memory": 50_000}
            client = (Admin if work == "list_topics" else Producer)(broker.bootstrap_servers, **small)
            OPERATIONS[work](client)
        errors = []

        def run(client=client, errors=errors):
            try:
                while True:
                    OPERATIONS[work](client)
            except BaseException as error:
                errors.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        time.sleep(attempt * 0.01)
        client.close()
        thread.join(60)
        assert errors, "still waits"
        assert isinstance(errors[0], NetworkError), errors[0]


def test_every_record_of_a_closed_producer_has_a_result(broker):
    producer = Producer(broker.bootstrap_servers, linger_ms=1, buffer_memory=50_000)
    producer.send("t", b"x").result(60)
    futures = []

    def run():
        try:
            while True:
                futures.append(producer.send("t", b"x"))
        except KafkaframesError:
            pass

    threads = [threading.Thread(target=run, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    time.sleep(0.05)
    producer.close()
    for thread in threads:
        thread.join(60)
    assert futures
    for future in futures:
        assert isinstance(future.exception(60), (NetworkError, type(None)))


def test_calls_of_a_closed_client_are_rejected_and_a_second_close_does_nothing(broker):
    for client in (
        Producer(broker.bootstrap_servers),
        Consumer(broker.bootstrap_servers),
        Admin(broker.bootstrap_servers),
    ):
        client.close()
        client.close()
        call = {Producer: "send", Consumer: "poll", Admin: "list_topics"}[type(client)]
        with pytest.raises(NetworkError, match="closed"):
            OPERATIONS[call](client)


def fail_in_thread(call) -> threading.Thread:
    """Start a thread that makes a call and ends if the call raises NetworkError."""

    def run():
        with pytest.raises(NetworkError):
            call()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def silent_server():
    """Return a listener that accepts connections and never responds."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(16)
    return listener


@pytest.mark.parametrize("kind", [Consumer, Admin])
def test_closing_takes_at_most_its_timeout(kind):
    with closing(silent_server()) as listener:
        options = {"group_id": "g"} if kind is Consumer else {}
        client = kind(f"127.0.0.1:{listener.getsockname()[1]}", default_api_timeout_ms=60_000, **options)
        thread = fail_in_thread(lambda: client.subscribe("t") if kind is Consumer else client.list_topics())
        time.sleep(0.1)
        began = time.monotonic()
        client.close(timeout_ms=300)
        assert time.monotonic() - began < PROMPT_S
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.parametrize("timeout_ms", [None, 300])
def test_closing_a_producer_waits_for_its_records_or_its_timeout(broker, timeout_ms):
    producer = Producer(broker.bootstrap_servers, delivery_timeout_ms=1_500)
    with broker.on("Produce").error("NOT_ENOUGH_REPLICAS"):
        future = producer.send("t", b"x")
        producer.close(timeout_ms=timeout_ms)
    error = future.exception(60)
    assert isinstance(error, BrokerError if timeout_ms is None else NetworkError), error


# --------------------------------------------------------------------------------------------------------- callbacks


def test_a_failed_record_is_sent_to_another_topic_by_its_callback(broker):
    """The callback sends to a dead letter topic whose metadata are not cached, while the buffer is full."""
    broker.create_topic("dead-letters")
    with Producer(broker.bootstrap_servers, buffer_memory=20_000) as producer:
        letters = []

        def send_to_dead_letters(error, metadata):
            if error is not None:
                letters.append(producer.send("dead-letters", b"x" * 900))

        futures = [producer.send("small", os.urandom(3_000), on_delivery=send_to_dead_letters) for _ in range(30)]
        assert all(isinstance(future.exception(60), BrokerError) for future in futures)
        producer.flush()
        assert len(letters) == 30
    assert len(broker.records("dead-letters")) == 30


def test_records_that_callbacks_send_while_a_producer_closes_are_written(broker):
    broker.create_topic("late-letters")
    with Producer(broker.bootstrap_servers, linger_ms=60_000) as producer:
        for _ in range(3):
            producer.send("small", os.urandom(3_000), on_delivery=lambda *_: producer.send("late-letters", b"x"))
    assert len(broker.records("late-letters")) == 3


def test_waiting_in_a_callback_raises_immediately_with_the_callbacks_name(broker):
    errors = {}
    with Producer(broker.bootstrap_servers) as producer:
        waiting = producer.send("t", b"first")

        def call_back(error, metadata):
            later = producer.send("t", b"later")
            for name, call in (
                ("result()", lambda: later.result(60)),
                ("exception()", lambda: later.exception(60)),
                ("flush()", producer.flush),
                ("close()", producer.close),
            ):
                try:
                    call()
                except OptionError as closing_error:
                    errors[name] = str(closing_error)

        producer.send("t", b"x", on_delivery=call_back)
        producer.flush()
        waiting.result(60)
        assert producer.send("t", b"still works").result(60)
    assert list(errors) == ["result()", "exception()", "flush()", "close()"]
    assert all(name in text and "on_delivery" in text for name, text in errors.items())


def test_a_slow_callback_does_not_block_the_producer(broker):
    slow = threading.Event()
    producer = Producer(broker.bootstrap_servers)
    producer.send("t", b"x", on_delivery=lambda *_: slow.wait(60))
    assert producer.send("t", b"y").result(60)
    assert producer.partitions_for("t")
    slow.set()
    producer.close()


def test_a_callback_of_a_future_may_send_records(broker):
    futures = []
    with Producer(broker.bootstrap_servers) as producer:
        future = producer.send("t", b"x")
        future.add_done_callback(lambda _: futures.append(producer.send("never-seen-before", b"y")))
        producer.flush()
        producer.flush()
        assert futures[0].result(60).topic == "never-seen-before"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_rebalance_callbacks_use_the_consumer_in_the_polling_thread(broker, protocol):
    """kafka-python and Java allow ``seek`` and ``commit`` in a rebalance listener, on the polling thread."""
    topic = f"listened-{protocol}"
    broker.create_topic(topic)
    broker.append(topic, [{"value": b"%d" % number} for number in range(10)])
    calls = []
    options = {"group_id": topic, "group_protocol": protocol, "enable_auto_commit": False}
    with Consumer(broker.bootstrap_servers, auto_offset_reset="earliest", **options) as consumer:

        def on_assign(partitions):
            (partition,) = partitions
            consumer.seek(partition, 5)
            calls.append((threading.get_ident(), consumer.position(partition), list(consumer.committed([partition]))))
            consumer.pause(partition)
            consumer.resume(partition)
            with pytest.raises(OptionError, match="another thread reads"):
                consumer.poll(0)

        def on_revoke(partitions):
            consumer.commit(dict.fromkeys(partitions, 7))
            calls.append((threading.get_ident(), dict(consumer.committed(partitions))))

        consumer.subscribe(topic, on_assign=on_assign, on_revoke=on_revoke)
        records = []
        while len(records) < 5:
            records += consumer.poll(60_000)
        assert [record.offset for record in records] == [5, 6, 7, 8, 9]
        consumer.unsubscribe()
    here = threading.get_ident()
    assert calls[0] == (here, 5, [])
    assert [(thread, offset.offset) for thread, offsets in calls[1:] for offset in offsets.values()] == [(here, 7)]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt])
def test_poll_raises_the_exception_of_a_rebalance_callback(broker, error):
    def on_assign(partitions):
        raise error

    with Consumer(broker.bootstrap_servers, group_id=f"raises-{error.__name__}") as consumer:
        consumer.subscribe("t", on_assign=on_assign)
        with pytest.raises(error):
            consumer.poll(60_000)


# -------------------------------------------------------------------------------------------------------------- fork


def run_in_fork(work):
    """Run a function in a forked child; return its result or its error, and its standard error output."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            result = work()
        except BaseException as error:
            result = f"{type(error).__name__}: {error}"
        os.write(write_end, pickle.dumps(result))
        os._exit(0)
    os.close(write_end)
    deadline = time.monotonic() + 60
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGKILL)
            raise AssertionError("the child hangs")
        time.sleep(0.01)
    with os.fdopen(read_end, "rb") as stream:
        return pickle.loads(stream.read())


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
@pytest.mark.parametrize(
    "work", ["send", "send without a look", "send_arrow", "flush", "poll", "list_topics", "result"]
)
def test_using_the_parents_client_in_a_forked_child_raises_immediately(broker, work):
    with (
        Producer(broker.bootstrap_servers, linger_ms=60_000) as producer,
        Consumer(broker.bootstrap_servers) as consumer,
        Admin(broker.bootstrap_servers) as admin,
    ):
        producer.send("t", b"x")
        waiting = producer.send("t", b"waits")
        consumer.assign([("t", 0)])
        clients = {"poll": consumer, "list_topics": admin}
        call = {"result": lambda: waiting.result()}.get(work, lambda: OPERATIONS[work](clients.get(work, producer)))
        message = run_in_fork(call)
        assert message.startswith("OptionError")
        assert "created before fork()" in message
        run_in_fork(lambda: (producer.close(), consumer.close(), admin.close()))  # does nothing
        producer.flush()
        assert waiting.result(60)
        assert admin.list_topics()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_forked_child_neither_reports_nor_closes_its_parents_clients(broker, tmp_path):
    program = f"""
import os, sys
from kafkaframes.client import Admin, Consumer, Producer
producer = Producer({broker.bootstrap_servers!r}, linger_ms=60_000)
consumer = Consumer({broker.bootstrap_servers!r})
consumer.assign([("t", 0)])
sent = producer.send("t", b"of the parent")
pid = os.fork()
if pid == 0:
    sys.stderr.write("child\\n")
    sys.exit(0)
os.waitpid(pid, 0)
sys.stderr.write("parent\\n")
producer.close()
consumer.close()
assert sent.exception() is None
"""
    before = len(broker.records("t"))
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", program]
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, check=True)
    lines = [line for line in process.stderr.splitlines() if "fork() may lead to deadlocks" not in line]
    assert [line for line in lines if "pid = os.fork()" not in line] == ["child", "parent"]
    assert len(broker.records("t")) == before + 1


# ----------------------------------------------------------------------------------------------------- slow callbacks


@pytest.mark.parametrize("kind", ["on_delivery", "add_done_callback"])
def test_a_slow_on_delivery_blocks_send_when_buffer_memory_is_full(broker, kind):
    """Java completes a batch's callbacks before it releases the batch's memory (``Sender.completeBatch``)."""
    may_go, calls = threading.Event(), []

    def on_delivery(*_):
        may_go.wait(60)
        calls.append(1)

    def send(producer):
        if kind == "on_delivery":
            producer.send("t", b"x" * 1_000, on_delivery=on_delivery)
        else:
            producer.send("t", b"x" * 1_000).add_done_callback(on_delivery)

    settings = {"buffer_memory": 50_000, "batch_size": 5_000, "max_block_ms": 500}
    with Producer(broker.bootstrap_servers, **settings) as producer:
        sent_count, message = 0, ""
        try:
            while sent_count < 1_000:
                send(producer)
                sent_count += 1
        except NetworkError as error:
            message = str(error)
        finally:
            may_go.set()  # otherwise each callback delays the close by a minute
        assert re.search("`max_block_ms`.*`on_delivery` that has not returned", message)
        assert sent_count <= 120  # first the records are in flight, then their callbacks run
        producer.flush()
        for _ in range(200):
            send(producer)
        producer.flush()
        assert producer._accumulator.callback_bytes == 0
    assert len(calls) == sent_count + 200


def test_an_on_delivery_that_sends_does_not_wait_for_its_own_records_memory(broker):
    results = []

    def on_delivery(error, record):
        producer.send("t", b"y" * 1_000, on_delivery=lambda error, record: results.append(error))

    settings = {"buffer_memory": 20_000, "batch_size": 5_000, "max_block_ms": 20_000}
    with Producer(broker.bootstrap_servers, **settings) as producer:
        for _ in range(100):
            producer.send("t", b"x" * 1_000, on_delivery=on_delivery)
    assert results == [None] * 100


def test_dropped_records_release_their_memory(broker):
    calls = []
    with Producer(broker.bootstrap_servers, transactional_id="dropped", linger_ms=60_000) as producer:
        for _ in range(3):
            producer.begin_transaction()
            producer.send("t", b"x" * 1_000, on_delivery=lambda error, record: calls.append(error))
            producer.abort_transaction()
        assert producer._accumulator.callback_bytes == 0
    assert len(calls) == 3
    assert all(isinstance(error, KafkaframesError) for error in calls)


# ------------------------------------------------------------------------------------------------- loops and threads


def test_using_a_consumer_on_a_second_event_loop_raises_immediately(broker):
    calls = {
        "poll": lambda consumer: consumer.poll(0),
        "fetch": lambda consumer: consumer.fetch(0),
        "fetch_arrow": lambda consumer: consumer.fetch_arrow(0),
        "iteration": lambda consumer: anext(aiter(consumer)),
        "assign": lambda consumer: consumer.assign([("t", 1)]),
        "subscribe": lambda consumer: consumer.subscribe("t"),
        "commit": lambda consumer: consumer.commit(),
        "unsubscribe": lambda consumer: consumer.unsubscribe(),
        "close": lambda consumer: consumer.close(),
        "end_offsets": lambda consumer: consumer.end_offsets([("t", 0)]),
    }

    async def use_on_two_loops():
        async def call_elsewhere(call):
            await call(consumer)

        async with AsyncConsumer(broker.bootstrap_servers, group_id="loops") as consumer:
            await consumer.assign({("t", 0): 0})
            await consumer.poll(100)
            for call in calls.values():
                with pytest.raises(OptionError, match="another event loop"):
                    await asyncio.to_thread(asyncio.run, call_elsewhere(call))
            assert await consumer.end_offsets([("t", 0)])

    asyncio.run(use_on_two_loops())


def test_reading_in_two_tasks_raises_immediately(broker):
    """Java raises ConcurrentModificationException in this case. Without the error, each task would get some of the
    records.
    """

    async def read_twice():
        async with AsyncConsumer(broker.bootstrap_servers) as consumer:
            await consumer.assign({("t", 0): 1 << 40})
            reader = asyncio.create_task(consumer.poll(600_000))
            await asyncio.sleep(0.05)
            for call in (consumer.poll, consumer.fetch, consumer.fetch_arrow, lambda: anext(aiter(consumer))):
                with pytest.raises(OptionError, match="a task while another task reads"):
                    await call()
            assert await consumer.end_offsets([("t", 0)])  # other calls are allowed in any task
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            assert await consumer.poll(0) == []

    asyncio.run(read_twice())


def test_polling_in_a_rebalance_callback_raises_immediately(broker):
    errors = []

    async def subscribe():
        async with AsyncConsumer(broker.bootstrap_servers, group_id="callback") as consumer:

            async def on_assign(_):
                try:
                    await consumer.poll(0)
                except OptionError as error:
                    errors.append(str(error))

            await consumer.subscribe("t", on_assign=on_assign)
            while not errors:
                await consumer.poll(100)

    asyncio.run(subscribe())
    assert "its own callback" in errors[0]


@pytest.mark.parametrize("kind", [AsyncProducer, AsyncAdmin])
def test_using_a_client_on_a_second_event_loop_raises_immediately(broker, kind):
    client = kind(broker.bootstrap_servers)

    async def use():
        await (client.send("t", b"x") if kind is AsyncProducer else client.list_topics())

    async def use_and_close():
        await use()
        with pytest.raises(OptionError, match="another event loop"):
            await asyncio.to_thread(asyncio.run, use())
        await client.close()

    asyncio.run(use_and_close())


def test_polling_in_two_threads_raises_immediately(broker):
    with Consumer(broker.bootstrap_servers) as consumer:
        consumer.assign({("t", 0): 1 << 40})
        thread = fail_in_thread(lambda: consumer.poll(600_000))
        deadline = time.monotonic() + 60
        while not consumer._reader.locked():
            assert time.monotonic() < deadline
            time.sleep(0.001)
        for call in (consumer.poll, consumer.fetch, consumer.fetch_arrow, lambda: next(iter(consumer))):
            with pytest.raises(OptionError, match="another thread reads"):
                call()
        assert consumer.end_offsets([TopicPartition("t", 0)])  # other calls are allowed in any thread
    thread.join(60)
    assert not thread.is_alive()


def test_a_closed_client_logs_nothing(broker, caplog):
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            with Producer(broker.bootstrap_servers) as producer:
                producer.send("t", b"x")
    assert not caplog.records
