"""The client's cache of Metadata responses."""

import asyncio
import gc
import threading

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import AsyncAdmin
from kafkaframes.client.metadata import Cluster
from kafkaframes.errors import NetworkError
from kafkaframes.protocol import framing
from kafkaframes.protocol.messages.registry import message


def test_topics_that_were_not_requested_are_ignored():
    """A hostile server may send any number of topics with any number of partitions."""
    cls = message("MetadataResponse")
    partitions = [cls.MetadataResponsePartition(partition_index=index, leader_id=1) for index in range(3)]
    topics = [cls.MetadataResponseTopic(name=name, partitions=partitions) for name in ("asked", "not-asked")]
    response = cls(brokers=[cls.MetadataResponseBroker(node_id=1, host="h", port=1)], topics=topics)
    cluster = Cluster()
    cluster.update(response, now=1.0, has_all_topics=False, requested_topics={"asked"})
    assert list(cluster.topics) == ["asked"]
    cluster.update(response, now=2.0, has_all_topics=False, requested_topics=())
    assert cluster.refreshed_at == {"asked": 1.0}
    assert list(cluster.brokers) == [1]
    cluster.update(response, now=3.0, has_all_topics=True)
    assert set(cluster.topics) == {"asked", "not-asked"}


@pytest.fixture
def broker_of_many():
    """A broker with 30,000 partitions in its Metadata responses."""
    cls = message("MetadataResponse")
    with Broker() as broker:
        host, port = broker.bootstrap_servers.split(":")
        partitions = [
            cls.MetadataResponsePartition(partition_index=index, leader_id=1, replica_nodes=[1], isr_nodes=[1])
            for index in range(30_000)
        ]
        response = cls(
            brokers=[cls.MetadataResponseBroker(node_id=1, host=host, port=int(port))],
            topics=[cls.MetadataResponseTopic(name="many", partitions=partitions)],
        )
        with broker.on("Metadata").answer(lambda _: response):
            yield broker


def test_a_large_response_is_decoded_outside_the_event_loop(broker_of_many, monkeypatch):
    """300,000 partitions blocked the event loop for two seconds, and with it the heartbeats of all its consumers."""
    threads, collects = [], []

    def record_threads(owner, name, is_large):
        original = getattr(owner, name)

        def call(*args, **options):
            if is_large(*args):
                threads.append(threading.current_thread())
                collects.append(gc.isenabled())
            return original(*args, **options)

        monkeypatch.setattr(owner, name, call)

    record_threads(framing, "decode_response", lambda data, *_: len(data) > 100_000)
    record_threads(Cluster, "read_topics", lambda *_: True)

    async def run():
        async with AsyncAdmin(broker_of_many.bootstrap_servers) as admin:
            return await admin.describe_cluster()

    cluster = asyncio.run(run())
    assert len(cluster.topics["many"].partitions) == 30_000
    assert len(threads) == 2
    assert threading.current_thread() not in threads
    assert collects == [False, False]
    assert gc.isenabled()


def test_closing_a_client_while_a_large_response_is_decoded_ends_its_calls(broker_of_many, monkeypatch):
    has_begun, may_end = threading.Event(), threading.Event()
    decode = framing.decode_response

    def wait(data, *args, **options):
        if len(data) > 100_000:
            has_begun.set()
            may_end.wait(60)
        return decode(data, *args, **options)

    monkeypatch.setattr(framing, "decode_response", wait)

    async def run():
        admin = AsyncAdmin(broker_of_many.bootstrap_servers)
        call = asyncio.create_task(admin.describe_cluster())
        await asyncio.to_thread(has_begun.wait, 60)
        await admin.close()
        with pytest.raises(NetworkError):
            await asyncio.wait_for(call, 60)

    try:
        asyncio.run(run())
    finally:
        may_end.set()


def test_metadata_changed_while_a_response_was_decoded_are_compared_again():
    """Another response with a newer leader epoch was processed in the meantime (KIP-320)."""
    cls = message("MetadataResponse")

    def respond(epoch):
        partition = cls.MetadataResponsePartition(partition_index=0, leader_id=epoch, leader_epoch=epoch)
        return cls(topics=[cls.MetadataResponseTopic(name="t", partitions=[partition])])

    cluster = Cluster()
    topics = cluster.read_topics(respond(1))
    cluster.update(respond(2), now=1.0, has_all_topics=False)
    cluster.update(respond(1), now=2.0, has_all_topics=False, topics=topics)
    assert cluster.topics["t"].partitions[0].leader_epoch == 2
