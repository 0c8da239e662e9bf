"""A broker that is stopped ends what is under way, and flushes each file of a log once."""

from __future__ import annotations

import os
from collections import Counter

from tests.soak.broker_bounds import connect, frame

from kafkaframes import Broker
from kafkaframes.protocol.messages import message


def test_a_stop_does_not_wait_for_topics_that_are_being_made(tmp_path):
    types = message("CreateTopicsRequest")
    topics = [
        types.CreatableTopic(name=f"c-{number}", num_partitions=1, replication_factor=1) for number in range(2000)
    ]
    with Broker(data_dir=tmp_path, journal=False) as broker, connect(broker.port) as peer:
        peer.sendall(frame("CreateTopics", 6, topics=topics, timeout_ms=60_000))
        while not any(name.startswith("c-") for name in os.listdir(tmp_path)):
            pass
        broker.stop()
        assert peer.recv(1) == b""
        made = [name for name in os.listdir(tmp_path) if name.startswith("c-")]
        assert 0 < len(made) < 2000
    with Broker(data_dir=tmp_path) as again:
        again.create_topic("after")


def test_a_clean_stop_flushes_each_file_and_directory_of_a_log_once(tmp_path, monkeypatch):
    flushed: Counter[str] = Counter()
    fsync = os.fsync

    def counted(descriptor: int) -> None:
        flushed[os.readlink(f"/proc/self/fd/{descriptor}")] += 1
        fsync(descriptor)

    broker = Broker(data_dir=tmp_path, journal=False).start()
    broker.create_topic("t", 3)
    broker.append("t", [{"value": b"x"}])
    monkeypatch.setattr(os, "fsync", counted)
    broker.stop()
    of_logs = {
        path: count for path, count in flushed.items() if os.path.basename(path).startswith("t-") or "/t-" in path
    }
    assert any(path.endswith(".log") for path in of_logs)
    assert {count for path, count in of_logs.items() if "checkpoint" not in path} == {1}
