"""A stopping broker does not wait for running operations."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import time

from tests.soak.broker_bounds import batch, call, connect, frame, produce

from kafkaframes import Broker
from kafkaframes.protocol.messages import message


def test_a_stop_does_not_wait_for_topic_creation(tmp_path):
    types = message("CreateTopicsRequest")
    topics = [
        types.CreatableTopic(name=f"c-{number}", num_partitions=1, replication_factor=1) for number in range(2000)
    ]
    with Broker(data_dir=tmp_path, journal=False) as broker, connect(broker.port) as peer:
        peer.sendall(frame("CreateTopics", 6, topics=topics, timeout_ms=60_000))
        while not broker.call(lambda state: state.logs.logs):
            pass
        broker.stop()
        assert peer.recv(1) == b""
    with Broker(data_dir=tmp_path) as again:
        assert not again.topics
        again.create_topic("after")


_MAX_STOP_SECONDS = 2.0  # time from the signal until requests are no longer answered


def test_the_command_answers_nothing_two_seconds_after_sigterm(tmp_path):
    """Even while topics are being created and a large batch is being decompressed."""
    types = message("CreateTopicsRequest")
    topics = [
        types.CreatableTopic(name=f"c-{number}", num_partitions=10, replication_factor=1) for number in range(1000)
    ]
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--data-dir", str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            port = int(process.stderr.readline().rpartition(":")[2])
            with connect(port) as creating, connect(port) as opening, connect(port) as other:
                call(other, "Metadata", 9, topics=[message("MetadataRequest").MetadataRequestTopic(name="t")])
                creating.sendall(frame("CreateTopics", 6, topics=topics, timeout_ms=60_000))
                opening.sendall(frame("Produce", 7, **produce(batch(1, 60 << 20, codec="gzip"))))
                assert call(other, "Metadata", 9, topics=[])
                process.send_signal(signal.SIGTERM)
                began = time.monotonic()
                with contextlib.suppress(ConnectionError):
                    while True:
                        call(other, "Metadata", 9, topics=[])
                assert time.monotonic() - began < _MAX_STOP_SECONDS
                # the system may accept one connection until the process has exited
                with contextlib.suppress(ConnectionError):
                    while time.monotonic() - began < _MAX_STOP_SECONDS:
                        connect(port).close()
                    raise AssertionError("a connection was accepted")
            assert process.wait(60) == 0
        finally:
            process.kill()
