"""With too few file descriptors, connections wait, files are closed and reopened, and log directories stay online."""

from __future__ import annotations

import errno
import os
import re
import resource
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from tests.broker.direct import START_MS

from kafkaframes.broker import Broker
from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.network.acceptor import DescriptorBudget
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, TopicPartition
from kafkaframes.errors import StorageError
from kafkaframes.records.build import build_records
from kafkaframes.storage.files.descriptors import count_reserved_descriptors
from kafkaframes.storage.files.disk import OnlineDisk
from kafkaframes.storage.files.local_disk import LocalDisk

LIMIT, PARTITIONS, CLIENTS = 64, 100, 8


def start(directory, limit, *flags):
    """Start the command with a soft and a hard limit; return the process and the port."""
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--data-dir", str(directory), *flags]
    set_limit = lambda: resource.setrlimit(resource.RLIMIT_NOFILE, limit)  # noqa: E731
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, preexec_fn=set_limit)
    assert process.stderr is not None
    return process, int(re.search(r":(\d+)$", process.stderr.readline().strip())[1])


def end(process):
    process.terminate()
    text = process.communicate(timeout=60)[1]
    assert process.returncode == 0
    return text


@pytest.mark.parametrize("durability", ["log", "fsync"])
def test_a_hundred_partitions_work_with_eight_clients_and_few_descriptors(tmp_path, durability):
    process, port = start(tmp_path / "d", (LIMIT, LIMIT), "--durability", durability)
    server, failures = f"127.0.0.1:{port}", []
    with ExitStack() as stack:
        stack.callback(process.kill)
        stack.enter_context(Admin(server)).create_topics([NewTopic(name="t", num_partitions=PARTITIONS)])

        def run(number):
            try:
                with Producer(server) as producer:
                    for result in [producer.send("t", b"%d" % number, partition=one) for one in range(PARTITIONS)]:
                        result.result(120)
            except Exception as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=(number,)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(180)
        assert failures == []
        with Consumer(server, auto_offset_reset="earliest") as consumer:
            consumer.assign([TopicPartition("t", number) for number in range(PARTITIONS)])
            values, deadline = [], time.monotonic() + 120
            while len(values) < CLIENTS * PARTITIONS and time.monotonic() < deadline:
                values += [(one.partition, one.value) for one in consumer.poll(1.0)]
        assert len(values) == len(set(values)) == CLIENTS * PARTITIONS
        text = end(process)
        assert "offline" not in text
        assert "Traceback" not in text


def test_connections_over_the_limit_wait_until_others_close(tmp_path):
    process, port = start(tmp_path / "d", (LIMIT, LIMIT))
    server = f"127.0.0.1:{port}"
    with ExitStack() as stack:
        stack.callback(process.kill)
        admin = stack.enter_context(Admin(server))
        admin.create_topics([NewTopic(name="t", num_partitions=1)])
        idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), 60)) for _ in range(LIMIT)]
        waiting = idle[-1]
        waiting.settimeout(60)
        waiting.sendall(b"\x00\x00\x00\x0b\x00\x12\x00\x00\x00\x00\x00\x07\x00\x01c")  # ApiVersions 0
        # descriptors are still available for topic files
        admin.create_topics([NewTopic(name="more", num_partitions=20)])
        for idle_peer in idle[:-1]:
            idle_peer.close()
        assert waiting.recv(8)[4:8] == b"\x00\x00\x00\x07"  # answered after other connections have closed
        text = end(process)
        assert text.count("connections wait") == 1
        assert "Traceback" not in text


def test_a_warning_is_logged_once_a_minute_while_connections_wait(monkeypatch, caplog):
    free_counts, now = iter([4, 0, 4, 0, 4, 0]), [100.0]
    monkeypatch.setattr("kafkaframes.broker.network.acceptor.count_free_descriptors", lambda: next(free_counts))
    monkeypatch.setattr("kafkaframes.broker.network.acceptor.count_reserved_descriptors", lambda: 0)
    monkeypatch.setattr("kafkaframes.broker.network.acceptor.time.monotonic", lambda: now[0])
    budget = DescriptorBudget(lambda: False)
    for now[0], warning_count in (100.0, 1), (130.0, 1), (161.0, 2):  # at each of these, connections begin to wait
        assert [budget.take_slot() for _ in range(3)] == [True, True, False]
        assert len(caplog.records) == warning_count


def test_only_the_command_raises_the_soft_limit(tmp_path):
    process, _ = start(tmp_path / "d", (LIMIT, 500))
    try:
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert re.search(r"Max open files\s+500\s+500", limits)
    finally:
        end(process)
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Broker():
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == before


class ShortDisk(LocalDisk):
    """A disk on which an operation fails a given number of times, as if no file descriptor were available."""

    def fail(self, effect, code, times):
        def raise_error(*_, **__):
            remaining_writes[0] -= 1
            if not remaining_writes[0]:
                vars(self).pop(effect)
            raise OSError(code, os.strerror(code))

        remaining_writes = [times]
        vars(self)[effect] = raise_error


def test_without_a_free_descriptor_a_file_is_closed_and_the_open_is_retried(tmp_path):
    short_disk = ShortDisk()
    disk = OnlineDisk(short_disk)
    files = [disk.open_file(str(tmp_path / str(number))) for number in range(3)]
    short_disk.fail("open_file", errno.EMFILE, 2)
    disk.open_file(str(tmp_path / "more")).write(0, b"x")
    for file in files:  # closed files are opened again
        file.write(0, b"y")
    assert disk.failure is None


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
@pytest.mark.parametrize("effect", ["open_file", "make_directory"])
def test_an_append_without_a_free_descriptor_is_rolled_back_and_retried(tmp_path, code, effect):
    short_disk = ShortDisk()
    state = open_broker(data_dir=str(tmp_path), disk=short_disk)
    state.create_topic("t", 1)
    log = state.topics["t"].partitions[0].log
    records = build_records({"value": [b"v"], "timestamp": [START_MS]})
    short_disk.fail(effect, code, 1_000)
    with pytest.raises(StorageError, match="Too many open files"):
        log.append_as_leader(records, leader_epoch=0, now_ms=START_MS)
    assert not state.logs.is_offline
    vars(short_disk).clear()
    assert log.append_as_leader(records, leader_epoch=0, now_ms=START_MS).first_offset == 0
    state.logs.abandon()


def test_connections_leave_a_reserve_of_descriptors_and_close_files_first(monkeypatch):
    free, made_room = [count_reserved_descriptors()], []

    def make_room():
        made_room.append(True)
        free[0] += 4
        return len(made_room) < 2

    monkeypatch.setattr("kafkaframes.broker.network.acceptor.count_free_descriptors", lambda: free[0])
    budget = DescriptorBudget(make_room)
    assert [budget.take_slot() for _ in range(2)] == [True, True]
    free[0] = count_reserved_descriptors() - 100
    assert not budget.take_slot()
    assert len(made_room) == 2
