"""Event loops of clients: coroutines that run while another loop is running, cancelled tasks, and errors in threads."""

import asyncio
import concurrent.futures
import gc
import sys
import threading

import pytest

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import AsyncConsumer, AsyncProducer, Consumer, Producer, ShareConsumer, TopicPartition, loop
from kafkaframes.client.loop import LoopThread, cancel_tasks, run_in_new_loop, run_in_thread
from kafkaframes.errors import MaybeWrittenError, NetworkError


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_a_coroutine_runs_with_or_without_a_running_loop():
    async def in_a_notebook() -> int:
        return run_in_new_loop(answer())

    assert run_in_new_loop(answer()) == asyncio.run(in_a_notebook()) == 42


def test_topics_are_mirrored_while_a_loop_runs(tmp_path):
    with Broker() as broker:
        broker.create_topic("numbers")
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("numbers", b"1").result(60)

        async def in_a_notebook():
            return kafkaframes.mirror_topics(broker.bootstrap_servers, tmp_path / "copy", topics=("numbers",))

        assert asyncio.run(in_a_notebook()).to_dict()
    assert (tmp_path / "copy" / "numbers-0").is_dir()


def test_waiting_for_tasks_to_end_can_be_cancelled():
    async def run() -> None:
        is_cancelled = asyncio.Event()

        async def stubborn() -> None:
            try:
                await asyncio.sleep(600)
            except asyncio.CancelledError:
                is_cancelled.set()
                await asyncio.sleep(600)

        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        closing = asyncio.ensure_future(cancel_tasks(task, None))
        await is_cancelled.wait()
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing

    asyncio.run(run())


def test_closing_a_consumer_leaves_no_task():
    async def run(servers: str) -> None:
        async with AsyncConsumer(servers) as consumer:
            await consumer.assign({TopicPartition("numbers", 0): 0})
            await consumer.fetch(10)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    with Broker() as broker:
        broker.create_topic("numbers")
        asyncio.run(run(broker.bootstrap_servers))


@pytest.mark.parametrize("unusual", [SystemExit("no token"), KeyboardInterrupt(), StopIteration(3), GeneratorExit()])
def test_the_caller_of_a_thread_that_raises_any_exception_does_not_hang(unusual):
    def work() -> None:
        raise unusual

    async def run() -> None:
        with pytest.raises(RuntimeError, match=type(unusual).__name__):
            await asyncio.wait_for(run_in_thread(work), 60)

    asyncio.run(run())


def test_a_call_that_raises_system_exit_affects_only_its_caller():
    async def leave() -> None:
        sys.exit("enough")

    async def wait_for(event: asyncio.Event) -> int:
        await event.wait()
        return await answer()

    thread = LoopThread("test")
    event = asyncio.Event()
    waiting = thread.start_call(wait_for(event))
    with pytest.raises(SystemExit, match="enough"):
        thread.call(leave())
    thread.call_soon(event.set)
    assert waiting.result(60) == 42
    thread.close()


def test_calls_that_wait_while_a_client_closes_raise_its_network_error():
    begun_future = concurrent.futures.Future()

    async def close() -> None:
        await asyncio.sleep(0)

    async def wait() -> None:
        begun_future.set_result(None)
        await asyncio.sleep(600)

    thread = LoopThread("test")
    waiting = thread.start_call(wait())
    begun_future.result(60)
    thread.end_loop(close)
    with pytest.raises(NetworkError, match="this client was closed"):
        waiting.result(60)
    thread = LoopThread("test")
    abandoned_call = thread.start_call(asyncio.sleep(600))
    abandoned_call.cancel()
    with pytest.raises(concurrent.futures.CancelledError):  # the caller that cancels a future knows the reason
        abandoned_call.result(60)
    thread.close()


def test_closing_a_producer_without_a_flush_fails_calls_that_wait_for_records_or_metadata():
    async def run(broker: Broker) -> None:
        producer = AsyncProducer(broker.bootstrap_servers, linger_ms=60_000)
        sent_record = await producer.send("numbers", b"1")
        broker.on("Produce").ignore()
        pending_send = asyncio.ensure_future(producer.send_and_wait("numbers", b"2"))
        broker.on("Metadata").ignore()
        metadata_requested = asyncio.ensure_future(producer.send("others", b"3"))
        while not producer._cluster._refreshing:
            await asyncio.sleep(0.001)
        await producer.close(flush=False)
        for future in (sent_record, pending_send, metadata_requested):
            with pytest.raises((NetworkError, MaybeWrittenError), match="closed"):
                await future

    with Broker() as broker:
        broker.create_topic("numbers")
        asyncio.run(run(broker))


def test_a_cancelled_call_leaves_no_unretrieved_exception_when_the_client_is_closed(caplog):
    thread, has_started, has_ended = LoopThread("a client"), threading.Event(), threading.Event()

    async def wait():
        has_started.set()
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.to_thread(has_ended.wait, 10)  # the call ends while the client is being closed

    async def closing():
        has_ended.set()
        await asyncio.sleep(0.1)

    future = thread.start_call(wait())
    assert has_started.wait(10)
    future.cancel()
    thread.end_loop(closing)
    del future  # the future references its task, which reports an unretrieved exception when it is destroyed
    gc.collect()
    assert not caplog.records


def test_a_timeout_in_seconds_is_logged_once(monkeypatch, caplog):
    """confluent-kafka's ``poll(1.0)`` waits a second; here it waits a millisecond, so that a loop of polls is busy."""
    monkeypatch.setattr(loop, "_has_warned_about_seconds", False)
    for timeout_ms in (1_000, 1, None, 0.0, 250.5):
        loop.to_deadline(timeout_ms)
    assert caplog.messages == []
    with Broker() as broker:
        broker.create_topic("t")
        with Consumer(broker.bootstrap_servers) as consumer:
            consumer.assign([TopicPartition("t", 0)])
            consumer.poll(1.0)
            consumer.fetch_arrow(0.5)
        with ShareConsumer(broker.bootstrap_servers, group_id="g") as share_consumer:
            share_consumer.subscribe(["t"])
            share_consumer.poll(1.0)
    messages = [text for text in caplog.messages if "milliseconds" in text]
    assert messages == ["timeout_ms=1.0 waits 1 ms: timeouts are in milliseconds, unlike those of confluent-kafka"]
