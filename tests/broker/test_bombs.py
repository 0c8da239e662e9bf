"""Small batches that decompress to large ones: the memory of a request is limited, and other requests get turns."""

from __future__ import annotations

import threading

import pytest
from tests.broker.direct import DirectBroker
from tests.soak.broker_bounds import batch, call, connect, frame, produce, read

from kafkaframes import Broker
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.records import limits
from kafkaframes.records.append import entry
from kafkaframes.wire.checksum import crc32c

PARTITIONS, CONTENT = 20, 2 << 20
BATCHES_BEFORE_LIMIT = 4  # number of bombs that are decompressed before the budget is exhausted
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE


@pytest.fixture
def counted_batches(monkeypatch):
    """Set a small budget; return a list that gets an entry for each batch that the bounded decompression opens."""
    monkeypatch.setattr(limits, "MAX_CONTENT_BYTES", BATCHES_BEFORE_LIMIT * CONTENT)
    monkeypatch.setattr(limits, "REQUEST_RATIO", 1)
    batches, decompress = [], entry.decompress

    def decompress_counted(*arguments, **options):
        batches.append(arguments[0])
        return decompress(*arguments, **options)

    monkeypatch.setattr(entry, "decompress", decompress_counted)
    return batches


def bombs(codec: str, acks: int = 1) -> dict[str, object]:
    types = message("ProduceRequest")
    raw = batch(1, CONTENT, codec=codec)
    assert len(raw) < CONTENT // 64
    rows = [types.PartitionProduceData(index=number, records=raw) for number in range(PARTITIONS)]
    return {"acks": acks, "timeout_ms": 1000, "topic_data": [types.TopicProduceData(name="t", partition_data=rows)]}


def codes_of(answer) -> list[int]:
    return [row.error_code for row in answer.responses[0].partition_responses]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_the_decompressed_bytes_of_a_request_are_bounded_and_other_requests_run_in_between(codec, counted_batches):
    broker, due = DirectBroker(), []
    broker.state.create_topic("t", PARTITIONS)
    broker.state.changes.next_turn = due.append
    answer = broker.send("Produce", 7, **bombs(codec))
    turns = 0
    while due:
        assert answer.body is None
        due.pop(0)()
        turns += 1
    assert codes_of(answer.body) == [0] * BATCHES_BEFORE_LIMIT + [TOO_LARGE] * (PARTITIONS - BATCHES_BEFORE_LIMIT)
    assert len(counted_batches) == BATCHES_BEFORE_LIMIT
    assert turns >= 1
    broker.state.logs.abandon()


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "short"])
@pytest.mark.parametrize("acks", [1, 0])
def test_the_fast_path_has_the_same_decompression_limit(journal, acks, counted_batches):
    with Broker(journal=journal) as broker, connect(broker.port) as peer:
        broker.create_topic("t", PARTITIONS)
        peer.sendall(frame("Produce", 7, **bombs("zstd", acks)))
        if acks:
            answer, _ = message("ProduceResponse").decode_prefix(read(peer), 7)
            assert codes_of(answer) == [0] * BATCHES_BEFORE_LIMIT + [TOO_LARGE] * (PARTITIONS - BATCHES_BEFORE_LIMIT)
        else:
            assert peer.recv(1) == b""
        assert len(counted_batches) == BATCHES_BEFORE_LIMIT
        assert sum(len(broker.records("t", number)) for number in range(PARTITIONS)) == BATCHES_BEFORE_LIMIT


@pytest.fixture
def held_decompression(monkeypatch):
    """Block the general decompression path until the event is set."""
    event, decompress = threading.Event(), entry.decompress

    def decompress_held(*arguments, **options):
        assert event.wait(60)
        return decompress(*arguments, **options)

    monkeypatch.setattr(entry, "decompress", decompress_held)
    return event


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "short"])
def test_other_connections_are_answered_during_decompression_and_the_order_of_answers_is_kept(
    journal, held_decompression
):
    bomb, small = batch(1, 8 << 20, codec="gzip"), batch(1, 10)
    with Broker(journal=journal) as broker, connect(broker.port) as peer, connect(broker.port) as other:
        broker.create_topic("t")
        peer.sendall(b"".join(frame("Produce", 7, **produce(raw)) for raw in (small, bomb, small)))
        assert answer_offset(read(peer)) == 0
        assert call(other, "Metadata", 9, topics=[])
        other.sendall(frame("Produce", 7, **produce(small)))
        assert answer_offset(read(other)) == 1
        held_decompression.set()
        assert [answer_offset(read(peer)) for _ in range(2)] == [2, 3]
        assert [len(record.value) for record in broker.records("t")] == [10, 10, 8 << 20, 10]


def test_a_topic_deleted_during_decompression_appends_nothing(held_decompression):
    with Broker(journal=False) as broker, connect(broker.port) as peer, connect(broker.port) as ending_peer:
        broker.create_topic("t")
        for open_peer in (peer, ending_peer):
            open_peer.sendall(frame("Produce", 7, **produce(batch(1, 8 << 20, codec="gzip"))))
        broker.wait_for(lambda: broker.call(lambda state: len(waiting_connections(broker)) == 2))
        ending_peer.close()
        with connect(broker.port) as other:
            assert call(other, "DeleteTopics", 5, topic_names=["t"], timeout_ms=1000)
        held_decompression.set()
        answer, _ = message("ProduceResponse").decode_prefix(read(peer), 7)
        assert codes_of(answer) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


def waiting_connections(broker: Broker) -> list[object]:
    """Return the connections with an unanswered request."""
    return [connection for connection in broker._server.connections if connection.is_waiting]


def answer_offset(answer: bytes) -> int:
    row = message("ProduceResponse").decode_prefix(answer, 7)[0].responses[0].partition_responses[0]
    return row.base_offset if row.error_code == 0 else -row.error_code


def test_a_corrupt_batch_is_rejected_with_the_same_error_in_both_decompression_paths(monkeypatch):
    bomb = bytearray(batch(1, 8 << 20, codec="gzip"))
    bomb[-6] ^= 1  # a byte of the stream's own checksum
    bomb[17:21] = crc32c(bytes(bomb[21:])).to_bytes(4, "big")
    direct = DirectBroker()
    direct.state.create_topic("t", 1)
    expected_partition = direct.send("Produce", 7, **produce(bytes(bomb))).responses[0].partition_responses[0]
    with Broker(journal=False) as broker, connect(broker.port) as peer:
        broker.create_topic("t")
        answer, _ = message("ProduceResponse").decode_prefix(call(peer, "Produce", 7, **produce(bytes(bomb))), 7)
    assert expected_partition.error_code != 0
    assert answer.responses[0].partition_responses[0] == expected_partition
    direct.state.logs.abandon()


def test_the_decompression_limit_grows_with_the_request_size():
    assert limits.ContentBudget(100 << 20).max_bytes == 1600 << 20
    assert limits.ContentBudget(98 << 10).max_bytes == 256 << 20
