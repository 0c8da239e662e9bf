"""A slow store delays the request that reads it, and no other request."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.broker.test_handle import ask
from tests.storage.copies.cluster import NamedBatch, write_partition

from kafkaframes.broker import Broker
from kafkaframes.broker.lifecycle import opening
from kafkaframes.client import Consumer
from kafkaframes.coordination.groups.share_state import ShareKey
from kafkaframes.errors import ErrorCode, LogDirError
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.storage.files.directory import ServedDirectory
from kafkaframes.storage.files.filesystem import LocalFileSystem, ReadAt
from kafkaframes.storage.files.names import TopicPartition

TIMEOUT_S = 60


class BlockingStore:
    """A store whose reads block until ``is_open`` is set; a blocked read sets ``was_asked``."""

    def __init__(self) -> None:
        self.is_open, self.was_asked = threading.Event(), threading.Event()
        self.is_open.set()
        self.fails = False
        self._files = LocalFileSystem()
        for name in ("list_directory", "stat", "read", "glob"):
            setattr(self, name, getattr(self._files, name))

    @contextmanager
    def open(self, path: str) -> Iterator[ReadAt]:
        with self._files.open(path) as read_at:

            def read_blocking(position: int, length: int) -> bytes:
                if not self.is_open.is_set():
                    self.was_asked.set()
                    assert self.is_open.wait(TIMEOUT_S)
                if self.fails:
                    raise LogDirError("the store is unavailable", file=path)
                return read_at(position, length)

            yield read_blocking


@pytest.fixture
def store():
    return BlockingStore()


@pytest.fixture
def served_broker(tmp_path, monkeypatch, store):
    """A broker that serves ``orders-0`` (200 records) and ``orders-1`` from the blocking store."""
    raws = [NamedBatch(f"b{base}", base, 20, 0).raw() for base in range(0, 200, 20)]
    write_partition(tmp_path, {0: b"".join(raws[:5]), 100: b"".join(raws[5:])}, epochs=[(0, 0)], high_watermark=200)
    write_partition(tmp_path, {0: raws[0]}, epochs=[(0, 0)], high_watermark=20, name="orders-1")
    monkeypatch.setattr(opening, "serve_paths", lambda *_, **__: ServedDirectory(str(tmp_path), store))
    with Broker(serve=tmp_path, journal=False) as broker:
        yield broker
        store.is_open.set()


def fetch(port: int, *partitions: int, version: int = 4, offset: int = 0):
    types = message("FetchRequest")
    rows = [
        types.FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=100_000)
        for partition in partitions
    ]
    topics = [types.FetchTopic(topic="orders", partitions=rows)]
    return ask(port, "Fetch", version, max_bytes=1 << 20, topics=topics).responses[0].partitions


def start_in_thread(call, *arguments):
    results: list[object] = []
    thread = threading.Thread(target=lambda: results.append(call(*arguments)))
    thread.start()
    return thread, results


def test_other_requests_are_answered_while_a_store_is_read(served_broker, store):
    expected_records = [bytes(row.records) for row in fetch(served_broker.port, 0, 1)]
    store.is_open.clear()
    thread, results = start_in_thread(fetch, served_broker.port, 0, 1)
    assert store.was_asked.wait(TIMEOUT_S)
    assert [topic.name for topic in ask(served_broker.port, "Metadata", 1, topics=None).topics] == ["orders"]
    assert not results
    store.is_open.set()
    thread.join(TIMEOUT_S)
    assert [bytes(row.records) for row in results[0]] == expected_records
    assert all(expected_records)


def test_a_lookup_by_time_does_not_block_other_requests(served_broker, store):
    types = message("ListOffsetsRequest")
    rows = [types.ListOffsetsPartition(partition_index=0, timestamp=0)]

    def look_up():
        topics = [types.ListOffsetsTopic(name="orders", partitions=rows)]
        return ask(served_broker.port, "ListOffsets", 2, replica_id=-1, topics=topics).topics[0].partitions[0].offset

    store.is_open.clear()
    thread, results = start_in_thread(look_up)
    assert store.was_asked.wait(TIMEOUT_S)
    assert ask(served_broker.port, "Metadata", 1, topics=None).topics
    store.is_open.set()
    thread.join(TIMEOUT_S)
    assert results == [0]


def test_a_failed_store_read_is_reported_and_retried_later(served_broker, store):
    store.fails = True
    (row,) = fetch(served_broker.port, 0)
    assert row.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    store.fails = False
    (row,) = fetch(served_broker.port, 0)
    assert row.records


def test_a_connection_closed_during_a_store_read_is_dropped(served_broker, store):
    store.is_open.clear()
    with Consumer(served_broker.bootstrap_servers) as consumer:
        consumer.assign({TopicPartition("orders", 0): 0})
        assert consumer.poll(0) == []
        assert store.was_asked.wait(TIMEOUT_S)
    served_broker.wait_for(lambda: not served_broker.connections())
    store.is_open.set()
    assert fetch(served_broker.port, 0)[0].records


def test_fetch_sessions_and_long_polls_work_over_a_store(served_broker):
    """A fetch session must not advance twice when a request is run again after a store read."""
    with Consumer(served_broker.bootstrap_servers, fetch_min_bytes=1_000_000, fetch_max_wait_ms=20) as consumer:
        consumer.assign({TopicPartition("orders", number): 0 for number in (0, 1)})
        values: dict[int, list[int]] = {0: [], 1: []}
        while sum(map(len, values.values())) < 220:
            for row in consumer.poll(TIMEOUT_S * 1000):
                values[row.partition].append(row.offset)
    assert values == {0: list(range(200)), 1: list(range(20))}


def test_records_lost_by_conversion_are_counted_once(served_broker):
    fetch(served_broker.port, 0, version=1)
    once = served_broker.counters()["down_converted_records"]
    assert once == 100


def share_fetch(peer: socket.socket, topic_id, epoch: int):
    connection = ClientConnection(client_id="test")
    types = message("ShareFetchRequest")
    rows = [types.FetchPartition(partition_index=number) for number in (0, 1)]
    topics = [types.FetchTopic(topic_id=topic_id, partitions=rows)]
    fields = {"group_id": "g", "member_id": "m", "max_wait_ms": 20, "max_bytes": 1 << 20, "max_records": 1_000}
    body = types(share_session_epoch=epoch, topics=topics, **fields)
    connection.send_request(body, 1)
    peer.sendall(connection.data_to_send())
    while (frame := connection.next_response()) is None:
        connection.receive_data(peer.recv(1 << 20))
    answer = frame.body
    assert answer.error_code == 0
    return {
        row.partition_index: [
            (record.first_offset, record.last_offset, record.delivery_count) for record in row.acquired_records
        ]
        for topic in answer.responses
        for row in topic.partitions
    }


def test_a_share_group_reads_a_store_without_blocking_others_and_gets_each_record_once(served_broker, store):
    config = {"share.auto.offset.reset": "earliest"}
    served_broker.call(lambda state: state.metadata.entities.update(group_configs={"g": config}))
    topic_id = served_broker.topics["orders"].topic_id
    keys = [ShareKey("g", topic_id, index) for index in (0, 1)]
    served_broker.call(lambda state: [state.share_groups.initialize_state(key, 1) for key in keys])
    store.is_open.clear()
    peer = socket.create_connection(("127.0.0.1", served_broker.port), TIMEOUT_S)
    thread, results = start_in_thread(share_fetch, peer, topic_id, 0)
    assert store.was_asked.wait(TIMEOUT_S)
    assert ask(served_broker.port, "Metadata", 1, topics=None).topics
    assert not results
    store.is_open.set()
    thread.join(TIMEOUT_S)
    records: dict[int, list[tuple[int, int]]] = {0: [], 1: []}
    answer, epoch = results[0], 0
    while True:
        for number, rows in answer.items():
            records[number] += [
                (number, deliveries) for first, last, deliveries in rows for number in range(first, last + 1)
            ]
        if sum(map(len, records.values())) >= 220 or epoch == 100:
            break
        epoch += 1
        answer = share_fetch(peer, topic_id, epoch)
    peer.close()
    assert records == {0: [(number, 1) for number in range(200)], 1: [(number, 1) for number in range(20)]}


def test_opening_a_store_does_not_block_the_event_loop(tmp_path, monkeypatch, store):
    write_partition(tmp_path, {0: NamedBatch("b", 0, 20, 0).raw()}, epochs=[(0, 0)], high_watermark=20)
    store.is_open.clear()
    monkeypatch.setattr(opening, "serve_paths", lambda *_, **__: ServedDirectory(str(tmp_path), store))

    async def run() -> int:
        async def enter() -> int:
            async with Broker(serve=tmp_path, journal=False) as broker:
                return broker.topics["orders"].partitions

        entering = asyncio.ensure_future(enter())
        assert await asyncio.get_running_loop().run_in_executor(None, store.was_asked.wait, TIMEOUT_S)
        assert not entering.done()  # the event loop continues
        store.is_open.set()
        return await entering

    assert asyncio.run(run()) == 1
