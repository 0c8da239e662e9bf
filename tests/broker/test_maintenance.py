"""Periodic work of a broker: retention runs at its interval, or never."""

from __future__ import annotations

import pytest
from tests.broker.direct import START_MS, DirectBroker

from kafkaframes.broker import Broker, Clock
from kafkaframes.broker.lifecycle.maintenance import Maintenance
from kafkaframes.protocol.messages import message
from kafkaframes.records.build import build_records

_WEEK_MS = 7 * 86_400_000


@pytest.mark.parametrize(
    ("interval_ms", "seconds", "is_kept"),
    [(300_000, 299, True), (300_000, 301, False), (2**63 - 1, 1_000, True), (60_000, 61, False)],
)
def test_retention_runs_at_the_configured_interval(interval_ms, seconds, is_kept):
    """The first retention check deletes a record of two weeks ago. A mirror sets an infinite interval."""
    broker = DirectBroker(log_retention_check_interval_ms=interval_ms)
    broker.state.create_topic("orders", 1)
    request_type, old_ms = message("ProduceRequest"), START_MS - 2 * _WEEK_MS
    row = request_type.PartitionProduceData(index=0, records=build_records({"value": [b"v"], "timestamp": [old_ms]}))
    broker.send("Produce", 8, acks=-1, topic_data=[request_type.TopicProduceData(name="orders", partition_data=[row])])
    Maintenance(broker.state)
    broker.clock.advance(seconds)
    assert (broker.state.topics["orders"].partitions[0].log.log_start_offset == 0) is is_kept


def test_a_full_disk_is_logged_once_until_the_situation_changes(tmp_path, caplog):
    clock = Clock(is_frozen=True)
    with Broker(data_dir=tmp_path, clock=clock) as broker:
        broker.append("orders", [{"value": b"v"}])
        broker.on_disk().full()
        for _ in range(10):
            broker.clock.advance(60)  # checkpoints are written and old segments are deleted
        assert len(caplog.records) == 1
        assert "No space left on device" in caplog.text
        assert caplog.records[0].exc_info is None
        broker.clear_faults()
        for _ in range(5):
            broker.clock.advance(60)
        assert len(caplog.records) == 1
        broker.append("orders", [{"value": b"v"}])
        broker.on_disk().full()
        for _ in range(3):
            broker.clock.advance(60)
        assert len(caplog.records) == 2
        broker.clear_faults()
