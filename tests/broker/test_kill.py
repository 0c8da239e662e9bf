"""Data of a killed broker after restart: all of it after a process crash, the flushed part after a power cut."""

from __future__ import annotations

import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Consumer, Producer
from kafkaframes.errors import OptionError

VALUES = [b"v%d" % number for number in range(50)]


def values(broker, topic="orders"):
    return [record.value for record in broker.records(topic)]


def fill(broker):
    """Produce records, and commit an offset and a transaction."""
    broker.create_topic("orders", retention_ms=123_456_789)
    broker.append("orders", [{"value": value} for value in VALUES])
    settings = {"bootstrap_servers": broker.bootstrap_servers}
    with Consumer(**settings, group_id="billing", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        record = next(iter(consumer))
        assert record.value == VALUES[0]
        consumer.commit()
    with Producer(**settings, transactional_id="payments") as producer:
        producer.begin_transaction()
        producer.send("orders", b"committed")
        producer.commit_transaction()


@pytest.mark.parametrize("end", ["kill", "restart", "twice"])
def test_an_in_memory_broker_keeps_everything(end):
    with Broker(cluster=3) as broker:
        fill(broker)
        before = broker.topics, broker.groups["billing"].offsets, broker.transactions["payments"], broker.port
        if end != "restart":
            broker.kill()
            with pytest.raises(OptionError):
                broker.records("orders")
        broker.restart()
        if end == "twice":
            broker.kill()
            broker.start()
        assert values(broker) == [*VALUES, b"committed"]
        assert broker.topics == before[0]
        assert broker.groups["billing"].offsets == before[1]
        assert broker.transactions["payments"] == before[2]
        assert broker.port == before[3]
        broker.append("orders", [{"value": b"later"}])
        assert values(broker)[-1] == b"later"
    with broker:
        assert broker.topics == {}


def test_a_power_cut_deletes_all_data_of_an_in_memory_broker():
    with Broker() as broker:
        fill(broker)
        port = broker.port
        broker.kill(power_cut=True)
        broker.restart()
        assert (broker.topics, broker.groups, broker.port) == ({}, {}, port)


def test_records_acknowledged_after_fsync_survive_a_power_cut(tmp_path):
    with Broker(data_dir=tmp_path, durability="fsync") as broker:
        broker.create_topic("orders", segment_bytes=2_000)
        with Producer(broker.bootstrap_servers, batch_size=300) as producer:
            for value in VALUES:
                producer.send("orders", value * 20).result(60)
        for _ in range(2):
            broker.kill(power_cut=True)
            broker.restart()
            assert values(broker) == [value * 20 for value in VALUES]


def test_data_in_the_page_cache_survives_a_kill_but_not_a_power_cut(tmp_path):
    with Broker(data_dir=tmp_path) as broker:
        broker.create_topic("orders")
        broker.append("orders", [{"value": value} for value in VALUES])
        broker.kill()
        broker.restart()
        assert values(broker) == VALUES
        broker.restart()  # a clean stop flushes
        broker.append("orders", [{"value": b"not flushed"}])
        broker.kill(power_cut=True)
        broker.restart()
        assert values(broker) == VALUES
        assert broker.append("orders", [{"value": b"again"}]) == len(VALUES)


def test_a_power_cut_is_rejected_if_it_cannot_be_simulated(tmp_path):
    with Broker(cluster=2) as broker:
        with pytest.raises(OptionError, match="node=1"):
            broker.kill(node=1, power_cut=True)
        assert broker.is_running
    with Broker(data_dir=tmp_path, journal=False) as broker:
        with pytest.raises(OptionError, match="journal=True"):
            broker.kill(power_cut=True)
        assert broker.is_running


@pytest.mark.parametrize("end", ["kill", "restart"])
def test_a_broker_that_serves_a_directory_keeps_committed_offsets(tmp_path, end):
    with Broker(data_dir=tmp_path) as broker:
        broker.append("orders", [{"value": value} for value in VALUES])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with Broker(serve=tmp_path) as broker:
        with Consumer(
            bootstrap_servers=broker.bootstrap_servers, group_id="billing", auto_offset_reset="earliest"
        ) as consumer:
            consumer.subscribe(["orders"])
            assert next(iter(consumer)).value == VALUES[0]
            consumer.commit()
        offsets = broker.groups["billing"].offsets
        for _ in range(2):
            if end == "kill":
                broker.kill()
            broker.restart()
            assert broker.groups["billing"].offsets == offsets
            assert values(broker) == VALUES
    assert offsets
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    with Broker(serve=tmp_path) as broker:
        assert "billing" not in broker.groups
