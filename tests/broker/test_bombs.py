"""Batches that are small and become large: what a request may have opened of them in all, and turns for others."""

from __future__ import annotations

import pytest
from tests.broker.direct import DirectBroker
from tests.soak.broker_bounds import batch, connect, frame, read

from kafkaframes import Broker
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.messages import message
from kafkaframes.records import limits
from kafkaframes.records.append import entry

PARTITIONS, CONTENT = 20, 2 << 20
OPENED = 4  # of them, before the budget is spent
TOO_LARGE = ErrorCode.MESSAGE_TOO_LARGE


@pytest.fixture
def opened(monkeypatch):
    """A small budget, and a list with an entry for each batch that was opened with care."""
    monkeypatch.setattr(limits, "MOST_CONTENT_BYTES", OPENED * CONTENT)
    monkeypatch.setattr(limits, "REQUEST_RATIO", 1)
    found, decompress = [], entry.decompress

    def decompress_counted(*arguments, **named):
        found.append(arguments[0])
        return decompress(*arguments, **named)

    monkeypatch.setattr(entry, "decompress", decompress_counted)
    return found


def bombs(codec: str, acks: int = 1) -> dict[str, object]:
    types = message("ProduceRequest")
    raw = batch(1, CONTENT, codec=codec)
    assert len(raw) < CONTENT // 64
    rows = [types.PartitionProduceData(index=number, records=raw) for number in range(PARTITIONS)]
    return {"acks": acks, "timeout_ms": 1000, "topic_data": [types.TopicProduceData(name="t", partition_data=rows)]}


def codes_of(answer) -> list[int]:
    return [row.error_code for row in answer.responses[0].partition_responses]


@pytest.mark.parametrize("codec", ["gzip", "zstd"])
def test_what_a_request_opens_in_all_is_bounded_and_others_have_turns(codec, opened):
    broker, due = DirectBroker(), []
    broker.state.create_topic("t", PARTITIONS)
    broker.state.changes.next_turn = due.append
    answer = broker.send("Produce", 7, **bombs(codec))
    turns = 0
    while due:
        assert answer.body is None
        due.pop(0)()
        turns += 1
    assert codes_of(answer.body) == [0] * OPENED + [TOO_LARGE] * (PARTITIONS - OPENED)
    assert len(opened) == OPENED
    assert turns >= 1
    broker.state.logs.abandon()


@pytest.mark.parametrize("journal", [True, False], ids=["journal", "short"])
@pytest.mark.parametrize("acks", [1, 0])
def test_the_short_way_has_the_same_bound(journal, acks, opened):
    with Broker(journal=journal) as broker, connect(broker.port) as peer:
        broker.create_topic("t", PARTITIONS)
        peer.sendall(frame("Produce", 7, **bombs("zstd", acks)))
        if acks:
            answer, _ = message("ProduceResponse").decode_prefix(read(peer), 7)
            assert codes_of(answer) == [0] * OPENED + [TOO_LARGE] * (PARTITIONS - OPENED)
        else:
            assert peer.recv(1) == b""
        assert len(opened) == OPENED
        assert sum(len(broker.records("t", number)) for number in range(PARTITIONS)) == OPENED


def test_a_large_request_may_have_more_in_proportion():
    assert limits.ContentBudget(100 << 20).most_bytes == 1600 << 20
    assert limits.ContentBudget(98 << 10).most_bytes == 256 << 20
