"""Injected disk faults (slow, full, failing, torn writes) and the errors that clients get."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import time

import pytest
from tests.broker.test_durability import ask, produce_frame

from kafkaframes import verify_log
from kafkaframes.broker import Broker
from kafkaframes.broker.faults.disk_faults import DISK_OPERATIONS, DiskFaults
from kafkaframes.errors import ErrorCode, KafkaframesError, OptionError
from kafkaframes.storage.files.memory_disk import MemoryDisk

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR


def to_error_code(answer):
    return answer.responses[0].partition_responses[0].error_code


@pytest.fixture
def disk():
    faults = DiskFaults()
    return faults, faults.wrap_disk(MemoryDisk())


def test_a_full_disk_accepts_writes_that_fit_and_rejects_others(disk):
    faults, over = disk
    file = over.open_file("/a")
    faults.on("write").full(after_bytes=5)
    file.write(0, b"abc")
    with pytest.raises(OSError, match="No space left") as error:
        file.write(3, b"defg")
    assert (error.value.errno, error.value.filename) == (errno.ENOSPC, "/a")
    assert over.read("/a") == b"abcde"
    with pytest.raises(OSError, match="No space left"):
        file.write(5, b"x")


def test_a_torn_write_leaves_only_its_first_bytes(disk):
    faults, over = disk
    file = over.open_file("/a")
    faults.on("write", path="/a").torn(2).once()
    with pytest.raises(OSError, match="error"):
        file.write(0, b"abc")
    assert over.read("/a") == b"ab"
    file.write(0, b"xyz")
    assert over.read("/a") == b"xyz"


@pytest.mark.parametrize("effect", DISK_OPERATIONS)
def test_a_fault_can_skip_some_operations_and_fail_a_given_number(disk, effect):
    faults, over = disk
    over.make_directory("/d")
    file = over.open_file("/d/a")
    acts = {
        "open": lambda: over.open_file("/d/b").close(),
        "write": lambda: file.write(0, b"x"),
        "truncate": lambda: file.truncate(0),
        "fsync": file.fsync,
        "rename": lambda: (over.rename("/d/a", "/d/c"), over.rename("/d/c", "/d/a")),
        "delete": lambda: (over.open_file("/d/e").close(), over.delete("/d/e")),
        "make_directory": lambda: over.make_directory("/d/f"),
        "sync_directory": lambda: over.sync_directory("/d"),
    }
    act = acts[effect]
    rule = faults.on(effect).error("EROFS").after(2).times(1)
    act()
    if effect != "rename":  # the change consists of two renames
        act()
    with pytest.raises(OSError, match="Read-only"):
        act()
    assert rule.count == 3


def test_a_fault_applies_to_matching_files_until_it_is_removed(disk):
    faults, over = disk
    faults.on(path="*.log").error()
    over.open_file("/a.index").close()
    with pytest.raises(OSError, match="error"):
        over.open_file("/a.log")
    faults.clear()
    over.open_file("/a.log").close()
    with faults.on("open").error(), pytest.raises(OSError, match="error"):
        over.open_file("/b")
    over.open_file("/b").close()


def test_a_slow_disk_delays_its_callers(disk):
    faults, over = disk
    faults.on("fsync").slow(0.05)
    before = time.monotonic()
    over.open_file("/a").fsync()
    assert time.monotonic() - before >= 0.05


def test_misspelt_operations_and_errors_are_rejected(disk):
    faults, _ = disk
    with pytest.raises(OptionError, match="operation 'wirte'"):
        faults.on("wirte")
    with pytest.raises(OptionError, match="error 'EFULL'"):
        faults.on("write").error("EFULL")


def test_a_disk_failure_loses_no_acknowledged_record(tmp_path):
    broker = Broker(data_dir=tmp_path).start()
    try:
        broker.create_topic("orders")
        assert to_error_code(ask(broker.port, produce_frame(0, -1), 9)) == 0
        broker.on_disk("write", path="*/orders-0/*.log").torn(30)
        assert to_error_code(ask(broker.port, produce_frame(1, -1), 9)) == STORAGE_ERROR
        broker.clear_faults()
        # the directory is offline, as in Kafka
        assert to_error_code(ask(broker.port, produce_frame(2, -1), 9)) == STORAGE_ERROR
        broker.kill()
        broker.restart()
        assert [record.value for record in broker.records("orders")] == [b"0"]
        assert to_error_code(ask(broker.port, produce_frame(3, -1), 9)) == 0
        assert [record.value for record in broker.records("orders")] == [b"0", b"3"]
    finally:
        broker.stop()


@pytest.mark.parametrize("durability", ["log", "fsync"])
def test_a_partition_accepts_records_again_when_a_full_disk_has_space(tmp_path, durability):
    with Broker(data_dir=tmp_path, durability=durability) as broker:
        broker.create_topic("orders")
        assert to_error_code(ask(broker.port, produce_frame(0, -1), 9)) == 0
        broker.on_disk("write").full(after_bytes=30)
        assert [to_error_code(ask(broker.port, produce_frame(number, -1), 9)) for number in (1, 2)] == [
            STORAGE_ERROR,
            STORAGE_ERROR,
        ]
        with pytest.raises(KafkaframesError, match="No space left"):
            broker.create_topic("others")
        broker.clear_faults()
        assert to_error_code(ask(broker.port, produce_frame(3, -1), 9)) == 0
        broker.create_topic("others")
        assert [record.value for record in broker.records("orders")] == [b"0", b"3"]
        broker.kill()
        broker.restart()
        assert [record.value for record in broker.records("orders")] == [b"0", b"3"]
    assert verify_log(tmp_path, deep=True).report.is_sound


@pytest.fixture
def small_disk(tmp_path):
    """A mounted file system of 4 MiB."""
    place = tmp_path / "small"
    place.mkdir()
    if shutil.which("mount") is None or os.geteuid():
        pytest.skip("only root can mount a file system")
    process = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", place], capture_output=True, check=False
    )
    if process.returncode:
        pytest.skip(f"cannot mount a file system: {process.stderr.decode().strip()}")
    yield place
    subprocess.run(["umount", place], check=True)


def test_a_full_file_system_accepts_records_again_when_it_has_space(small_disk):
    accepted_count = 0
    with Broker(data_dir=small_disk / "data") as broker:
        broker.create_topic("orders", segment_index_bytes=65536)
        code = 0
        while code == 0:
            code = to_error_code(ask(broker.port, produce_frame(0, -1, value=b"x" * 20_000), 9))
            accepted_count += code == 0
        assert (code, accepted_count > 50) == (STORAGE_ERROR, True)
        assert to_error_code(ask(broker.port, produce_frame(0, -1, value=b"x" * 20_000), 9)) == STORAGE_ERROR
        subprocess.run(["mount", "-o", "remount,size=8m", small_disk], check=True)
        for _ in range(10):
            assert to_error_code(ask(broker.port, produce_frame(0, -1, value=b"y" * 20_000), 9)) == 0
        assert [record.value[:1] for record in broker.records("orders")] == [b"x"] * accepted_count + [b"y"] * 10
    assert verify_log(small_disk / "data", deep=True).report.is_sound


@pytest.mark.parametrize("count", [1, 30])
def test_a_torn_tail_loses_only_the_last_batch(tmp_path, count):
    with Broker(data_dir=tmp_path) as broker:
        broker.append("orders", [{"value": b"0"}])
        broker.append("orders", [{"value": b"1"}])
        with pytest.raises(OptionError, match="kill"):
            broker.tear_tail("orders", 0, count)
        broker.kill()
        with pytest.raises(OptionError, match="orders-1 has no segment"):
            broker.tear_tail("orders", 1, count)
        with pytest.raises(OptionError, match="cannot be removed"):
            broker.tear_tail("orders", 0, 1 << 20)
        broker.tear_tail("orders", 0, count)
        broker.restart()
        assert [record.value for record in broker.records("orders")] == [b"0"]


def test_an_in_memory_broker_can_have_disk_faults_and_still_stops():
    with Broker() as broker:
        broker.create_topic("orders")
        broker.on_disk("write").error()
        with pytest.raises(KafkaframesError, match="Input/output error"):
            broker.append("orders", [{"value": b"0"}])


def test_a_broker_without_a_journal_does_not_support_faults():
    with Broker(journal=False) as broker, pytest.raises(OptionError, match="journal=False"):
        broker.on_disk("write")
