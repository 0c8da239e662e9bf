"""Acknowledged records survive ``kill -9`` under load and a torn tail; after a disk failure nothing is acknowledged."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.errors import ErrorCode
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.records.batch import read_batches
from kafkaframes.records.build import build_records
from kafkaframes.storage.files.local_disk import LocalDisk
from kafkaframes.storage.files.memory_disk import MemoryDisk


def produce_frame(number, producer_id, topic="orders", value=None, timestamp=None):
    """Return a Produce request frame; by default its record has the current time, as clients send it."""
    types = message("ProduceRequest")
    timestamp = time.time_ns() // 1_000_000 if timestamp is None else timestamp
    records = build_records(
        {"value": [b"%d" % number if value is None else value], "timestamp": [timestamp]},
        producer_id=producer_id,
        producer_epoch=0 if producer_id >= 0 else -1,
        base_sequence=number if producer_id >= 0 else -1,
    )
    row = types.PartitionProduceData(index=0, records=records)
    return types(acks=-1, topic_data=[types.TopicProduceData(name=topic, partition_data=[row])])


def ask(port, body, version):
    connection = ClientConnection()
    connection.send_request(body, version)
    with socket.create_connection(("127.0.0.1", port), 60) as peer:
        peer.sendall(connection.data_to_send())
        while (frame := connection.next_response()) is None:
            data = peer.recv(1 << 16)
            if not data:
                raise ConnectionError("closed")
            connection.receive_data(data)
    return frame.body


class Writer(threading.Thread):
    """A thread that produces numbers until the broker is killed, and keeps the acknowledged ones."""

    def __init__(self, port, producer_id, first):
        super().__init__(daemon=True)
        self.port, self.producer_id, self.next = port, producer_id, first
        self.acknowledged_values = []

    def run(self):
        try:
            while True:
                answer = ask(self.port, produce_frame(self.next, self.producer_id), 9)
                assert answer.responses[0].partition_responses[0].error_code == 0
                self.acknowledged_values.append(self.next)
                self.next += 1
        except OSError:
            return


def start(directory):
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--data-dir", str(directory)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
    return process, int(re.search(r":(\d+)$", process.stderr.readline().strip())[1])


def create_topic_on(port):
    types = message("MetadataRequest")
    ask(port, types(topics=[types.MetadataRequestTopic(name="orders")]), 4)


def test_kill_9_under_load_neither_loses_nor_duplicates_acknowledged_records(tmp_path):
    acknowledged_values, producer_id, first = [], None, 0
    for _ in range(2):
        process, port = start(tmp_path)
        try:
            create_topic_on(port)
            if producer_id is None:
                producer_id = ask(port, message("InitProducerIdRequest")(transactional_id=None), 1).producer_id
            writer = Writer(port, producer_id, first)
            writer.start()
            deadline = time.monotonic() + 60
            while len(writer.acknowledged_values) < 15 and time.monotonic() < deadline:
                time.sleep(0.01)
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(60)
            process.stderr.close()
        writer.join(60)
        acknowledged_values += writer.acknowledged_values
        first = writer.next  # the record that was in flight is sent again; it may already be in the log
    assert len(acknowledged_values) > 20
    with Broker(data_dir=tmp_path) as broker:
        stored_values = [int(record.value) for record in broker.records("orders")]
    assert set(acknowledged_values) <= set(stored_values)
    assert len(stored_values) == len(set(stored_values))
    assert stored_values == sorted(stored_values)


@pytest.mark.parametrize(("timestamp", "is_known"), [(None, True), (-1, False)])
def test_after_kill_9_a_retried_batch_is_recognised_as_a_duplicate(tmp_path, timestamp, is_known):
    """Kafka 4.3.1 also drops a producer's state at start if its last timestamp is older than
    producer.id.expiration.ms.
    """
    offsets = []
    for _ in range(2):
        process, port = start(tmp_path)
        try:
            create_topic_on(port)
            answer = ask(port, produce_frame(0, 7, timestamp=timestamp), 9)
        finally:
            process.kill()
            process.wait(60)
            process.stderr.close()
        offsets.append(answer.responses[0].partition_responses[0].base_offset)
    assert offsets == [0, 0 if is_known else 1]


@pytest.mark.parametrize("rest", [b"", bytes(100), b"\xff" * 40], ids=["cut", "zeros", "ones"])
def test_a_tail_torn_at_every_byte_leaves_the_batches_before_it(rest):
    disk = MemoryDisk()
    state = open_broker(data_dir="/data", disk=disk)
    log = state.create_topic("orders", 1).partitions[0].log
    for number in range(4):
        data = build_records({"value": [b"%d" % number]})
        log.append_as_leader(data, leader_epoch=0, now_ms=state.clock.now_ms)
    state.logs.abandon()
    path = f"/data/orders-0/{0:020}.log"
    whole = disk.read(path)
    size = len(whole) // 4
    for cut_at in range(2 * size, len(whole)):
        file = disk.open_file(path)
        file.truncate(0)
        file.write(0, whole[:cut_at] + rest)
        count = next(
            n for n in (4, 3, 2) if (whole[:cut_at] + rest).startswith(whole[: n * size])
        )  # a cut within zeros may leave a valid file
        again = open_broker(data_dir="/data", disk=disk)
        log = again.topics["orders"].partitions[0].log
        assert log.log_end_offset == log.high_watermark == count
        batches = read_batches(log.read(0, max_bytes=1 << 20).records)
        assert [batch.records[0].value for batch in batches] == [b"%d" % number for number in range(count)]
        again.logs.abandon()


class FailingDisk(LocalDisk):
    """A disk whose ``fsync`` fails on demand."""

    is_broken = False

    def open_file(self, path, *, is_private=False):
        file, disk = super().open_file(path, is_private=is_private), self
        fsync = file.fsync

        def fail_fsync():
            if disk.is_broken and path.endswith(".log"):
                raise OSError(5, "Input/output error")
            fsync()

        file.fsync = fail_fsync
        return file


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_records_are_not_acknowledged_after_a_failed_fsync(tmp_path, monkeypatch):
    monkeypatch.setattr("kafkaframes.storage.files.disk.LocalDisk", FailingDisk)
    broker = Broker(data_dir=tmp_path, durability="fsync", journal=False).start()
    broker.create_topic("orders")
    assert ask(broker.port, produce_frame(0, -1), 9).responses[0].partition_responses[0].error_code == 0
    monkeypatch.setattr(FailingDisk, "is_broken", True)
    with pytest.raises(OSError, match=r"closed|reset"):
        ask(broker.port, produce_frame(1, -1), 9)
    answer = ask(broker.port, produce_frame(2, -1), 9)
    assert answer.responses[0].partition_responses[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    broker.kill()
