"""Event loops of clients: a function that needs one beside a loop that runs, and tasks that are ended."""

import asyncio

import pytest

import kafkaframes
from kafkaframes.broker import Broker
from kafkaframes.client import AsyncConsumer, Producer, TopicPartition
from kafkaframes.client.loop import cancelled, run_alone


async def answer() -> int:
    await asyncio.sleep(0)
    return 42


def test_a_coroutine_runs_with_a_loop_or_without():
    async def in_a_notebook() -> int:
        return run_alone(answer())

    assert run_alone(answer()) == asyncio.run(in_a_notebook()) == 42


def test_topics_are_mirrored_while_a_loop_runs(tmp_path):
    with Broker() as broker:
        broker.create_topic("numbers")
        with Producer(broker.bootstrap_servers) as producer:
            producer.send("numbers", b"1").result(60)

        async def in_a_notebook():
            return kafkaframes.mirror_topics(broker.bootstrap_servers, tmp_path / "copy", topics=("numbers",))

        assert asyncio.run(in_a_notebook()).to_dict()
    assert (tmp_path / "copy" / "numbers-0").is_dir()


def test_who_waits_for_tasks_to_end_can_be_cancelled():
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
        closing = asyncio.ensure_future(cancelled(task, None))
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
