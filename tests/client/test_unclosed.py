"""Unclosed clients send their pending records at the end of the program or when collected, and a warning names them."""

import subprocess
import sys
import textwrap

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncConsumer, AsyncProducer, Consumer, Producer, TopicPartition

NUMBERS_0 = TopicPartition("numbers", 0)


@pytest.fixture(scope="module")
def servers():
    with Broker() as broker:
        broker.create_topic("numbers")
        yield broker.bootstrap_servers


def run(servers: str, program: str) -> str:
    """Run a program; return its standard error output."""
    before = "import asyncio\nfrom kafkaframes.client import *\n"
    command = [sys.executable, "-W", "always::ResourceWarning", "-c", before + textwrap.dedent(program), servers]
    process = subprocess.run(command, stderr=subprocess.PIPE, text=True, timeout=120, check=True)
    return process.stderr


def read_last_value(servers: str) -> int:
    with Consumer(servers) as consumer:
        return consumer.end_offsets([NUMBERS_0])[NUMBERS_0]


def test_an_unclosed_producer_sends_its_records_at_exit_and_is_named(servers):
    before = read_last_value(servers)
    output = run(
        servers,
        """
        import sys
        producer = Producer(sys.argv[1], linger_ms=60_000, client_id="billing")
        for number in range(100):
            producer.send("numbers", b"%d" % number)
        """,
    )
    assert read_last_value(servers) == before + 100
    assert f"kafkaframes Producer 'billing' of {servers} was not closed" in output
    assert "Task was destroyed" not in output


def test_an_unclosed_consumer_is_named_and_commits_nothing(servers):
    with Producer(servers) as producer:
        producer.send("numbers", b"1").result()
    output = run(
        servers,
        """
        import sys
        consumer = Consumer(sys.argv[1], group_id="g", auto_offset_reset="earliest")
        consumer.subscribe("numbers")
        while not consumer.poll():
            pass
        """,
    )
    assert "kafkaframes Consumer 'kafkaframes' of" in output
    assert "Task was destroyed" not in output
    with Consumer(servers, group_id="g") as consumer:
        assert consumer.committed([NUMBERS_0]) == {}


@pytest.mark.parametrize(
    "ends", ["asyncio.run(main())", "loop = asyncio.new_event_loop(); loop.run_until_complete(main())"]
)
def test_unclosed_asyncio_clients_are_named(servers, ends):
    output = run(
        servers,
        f"""
        import sys
        async def main():
            producer = AsyncProducer(sys.argv[1], linger_ms=60_000)
            global sent
            sent = await producer.send("numbers", b"lost")
            consumer = AsyncConsumer(sys.argv[1], group_id="h")
            await consumer.subscribe("numbers")
            await consumer.poll(10)
        {ends}
        print("no result" if not sent.done() else "cancelled", file=sys.stderr)
        """,
    )
    assert "cancelled" in output or "new_event_loop" in ends
    assert "Task was destroyed" not in output
    for kind in (AsyncProducer, AsyncConsumer):
        assert f"ResourceWarning: {kind.__name__} of {servers} was not closed" in output


def test_a_garbage_collected_producer_is_named_and_sends_its_records(servers):
    before = read_last_value(servers)
    futures = [Producer(servers, linger_ms=60_000).send("numbers", b"1")]
    thread = futures[0]._owner._loop._thread
    with pytest.warns(ResourceWarning, match="kafkaframes Producer 'kafkaframes' of .* was not closed"):
        futures.clear()
    thread.join(60)
    assert read_last_value(servers) == before + 1


def test_a_future_keeps_its_producer_alive(servers):
    producer = Producer(servers)
    future = producer.send("numbers", b"1")
    of_the_producer = producer
    del producer
    assert future.result().topic == "numbers"
    of_the_producer.close()
