"""The process that holds a stream's transaction, from the first task to the commit, and the failures in between.

The tests run without Spark and perform the steps of Spark's processes in order. Some tests run the whole process with
the transaction, others only parts of it.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from contextlib import contextmanager
from dataclasses import replace

import pyarrow as pa
import pytest
from pyspark.sql.types import StructType
from tests.processes import descendants_of
from tests.spark.topics import read_committed

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic
from kafkaframes.errors import KafkaframesError, LostTaskError, OptionError
from kafkaframes.jobs.driver_process import control as driver_control
from kafkaframes.jobs.driver_process import serving
from kafkaframes.jobs.driver_process.control import hold_lock
from kafkaframes.jobs.driver_process.serving import is_process_running, serve
from kafkaframes.jobs.write_topic import process_control, transaction_process
from kafkaframes.jobs.write_topic.process_control import TransactionProcess, compute_options_digest, make_socket_path
from kafkaframes.jobs.write_topic.transaction_process import AttemptRunner
from kafkaframes.spark.exactly_once.exactly_once_task import TaskArguments, write_rows
from kafkaframes.spark.options import parse_topic_write_options
from kafkaframes.spark.sources.kafka_topic import KafkaTopicDataSource

ROWS = pa.record_batch({"value": [b"v%d" % n for n in range(60)]})
EXPECTED_VALUES = sorted(ROWS.column("value").to_pylist())


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def control(broker, tmp_path, monkeypatch):
    """Return the address of a sink's process, whose checkpoint has planned two micro-batches."""
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr(driver_control.tempfile, "gettempdir", lambda: short)
        yield make_transaction(broker, tmp_path)


def make_transaction(broker, tmp_path):
    topic = f"t{uuid.uuid4().hex}"
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name=topic, num_partitions=3)])
    offsets = tmp_path / "checkpoint" / "offsets"
    offsets.mkdir(parents=True)
    for batch in (0, 1):
        (offsets / str(batch)).write_text(f'v1\n{{}}\n{{"in":{{"0":{60 * batch + 60}}}}}')
    options = parse_topic_write_options(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": topic, "sink": topic}
    )
    return TransactionProcess(options, f"file:{tmp_path / 'checkpoint'}")


@contextmanager
def serve_on_threads(control):
    """Serve on threads of this process, until the end of the block."""
    path = make_socket_path(control.checkpoint)
    with AttemptRunner(control) as holder:
        ready, should_exit = threading.Event(), threading.Event()
        holder.should_exit = should_exit.is_set
        serving = threading.Thread(target=serve, args=(path, holder, ready.set))
        serving.start()
        assert ready.wait(60)
        try:
            yield holder
        finally:
            should_exit.set()
            serving.join(60)


@pytest.fixture(autouse=True)
def looks_often(monkeypatch):
    monkeypatch.setattr(serving, "CHECK_INTERVAL_S", 0.01)


def work_of(control, attempt, batch=0):
    """Announce an attempt, as ``streamWriter()`` does. Return the arguments of the attempt's tasks."""
    return TaskArguments(
        control.options, control.announce_tasks(attempt), {"attempt": attempt, "query": "q", "batch": batch}
    )


def values(control):
    return sorted(value for _, value in read_committed(control.options))


def plain(counts):
    """Return counts in the form that the commit receives."""
    return {(at.topic, at.partition): records for at, records in counts.items()}


def write(control, attempt, batch=0):
    counts = plain(write_rows(work_of(control, attempt, batch), 0, iter([ROWS])))
    control.announce_tasks("of the commit")  # Spark creates a writer for that as well
    control.commit_attempt(attempt, batch, counts)


def test_tasks_write_a_commit_publishes_and_a_repeated_batch_is_skipped(control):
    with serve_on_threads(control):
        work = work_of(control, "one")
        counts = write_rows(work, 0, iter([ROWS.slice(0, 30)]))
        for at, records in write_rows(work, 1, iter([ROWS.slice(30)])).items():
            counts[at] = counts.get(at, 0) + records
        assert write_rows(work, 2, iter([])) == {}
        assert values(control) == []
        control.announce_tasks("of the commit")
        control.commit_attempt("one", 0, plain(counts))
        assert values(control) == EXPECTED_VALUES
        # the query was killed before it noted the commit
        again = write_rows(work_of(control, "two"), 0, iter([ROWS, ROWS]))
        assert again == {}
        control.commit_attempt("two", 0, again)
        write(control, "three", 1)
    assert values(control) == sorted([*EXPECTED_VALUES, *EXPECTED_VALUES])


def test_a_batch_without_rows_is_committed_without_a_message(control):
    with serve_on_threads(control):
        control.announce_tasks("one")
        control.commit_attempt("one", 0, {})
        control.commit_attempt("", 1, {})


def test_tasks_of_an_attempt_that_ended_are_refused(control):
    with serve_on_threads(control):
        old = work_of(control, "one")
        write_rows(old, 0, iter([ROWS]))
        control.abort_attempt("one")
        with pytest.raises(LostTaskError, match="the attempt to write the micro-batch that this task belongs to has"):
            write_rows(old._replace(batch=old.batch | {"attempt": "older"}), 0, iter([ROWS]))
        with pytest.raises(LostTaskError, match="Spark has aborted the micro-batch"):
            write_rows(old, 1, iter([ROWS]))
        work = work_of(control, "two")
        control.commit_attempt("two", 0, plain(write_rows(work, 0, iter([ROWS]))))
        with pytest.raises(LostTaskError, match="the attempt to write the micro-batch that this task belongs to has"):
            write_rows(work, 1, iter([ROWS]))
    assert values(control) == EXPECTED_VALUES


def test_an_abort_without_an_attempt_ends_the_current_one(control):
    with serve_on_threads(control) as holder:
        write_rows(work_of(control, "one"), 0, iter([ROWS]))
        control.abort_attempt("another")
        assert not holder._attempt.end.done()
        control.abort_attempt("")
        assert holder._attempt.end.done()
    assert values(control) == []


def test_a_newer_attempt_ends_the_current_one(control):
    with serve_on_threads(control):
        counts = write_rows(work_of(control, "one"), 0, iter([ROWS]))
        write(control, "two")
        with pytest.raises(
            KafkaframesError, match="micro-batch 0 no longer exists; the micro-batch must be written again"
        ):
            control.commit_attempt("one", 0, plain(counts))
    assert values(control) == EXPECTED_VALUES


def test_counts_that_brokers_have_not_acknowledged_are_not_committed(control):
    with serve_on_threads(control):
        write_rows(work_of(control, "one"), 0, iter([ROWS]))
        with pytest.raises(KafkaframesError, match="records of this batch, but Spark's tasks report 0"):
            control.commit_attempt("one", 0, {})
        assert values(control) == []
        counts = write_rows(work_of(control, "two"), 0, iter([ROWS]))
        with pytest.raises(
            KafkaframesError, match="micro-batch 1 no longer exists"
        ):  # another count than the tasks reported
            control.commit_attempt("two", 1, plain(counts))
        write(control, "three")
    assert values(control) == EXPECTED_VALUES


def test_a_repeated_task_fails_the_attempt(control):
    with serve_on_threads(control):
        work = work_of(control, "one")
        counts = write_rows(work, 0, iter([ROWS]))
        with pytest.raises(LostTaskError, match="task 0 would be repeated"):
            write_rows(work, 0, iter([ROWS]))
        with pytest.raises(KafkaframesError, match="task 0 would be repeated"):
            control.commit_attempt("one", 0, plain(counts))
    assert values(control) == []


def test_tasks_get_the_error_of_an_unreadable_or_wrong_checkpoint(control, tmp_path):
    with serve_on_threads(control):
        write(control, "one", 1)
        with pytest.raises(
            KafkaframesError,
            match=r"(?s)micro-batch 0 does not fit the marker of micro-batch 1 of .*The micro-batch was not written",
        ):
            write_rows(work_of(control, "two"), 0, iter([ROWS]))
        with pytest.raises(KafkaframesError, match="has no offsets of micro-batch 7"):
            write_rows(work_of(control, "three", 7), 0, iter([ROWS]))
        (tmp_path / "checkpoint" / "offsets" / "8").mkdir()
        with pytest.raises(KafkaframesError, match=r"cannot be read by a process on the driver's machine: .*offsets/8"):
            write_rows(work_of(control, "four", 8), 0, iter([ROWS]))
        work = work_of(control, "five", 7)
        for task in range(2):  # each of them: Spark shows the reason for one
            with pytest.raises(KafkaframesError, match="has no offsets of micro-batch 7"):
                write_rows(work, task, iter([ROWS]))
    assert values(control) == EXPECTED_VALUES


def test_an_invalid_request_is_answered(control):
    with serve_on_threads(control):
        for request in ({"commit": "x"}, {}, {"announce": []}):
            with pytest.raises(KafkaframesError, match="unknown or invalid request"):
                control._send_request(request)


def mine():
    return [each.pid for each in descendants_of(os.getpid()) if "transaction_process" in each.arguments]


def wait_until_gone(pids):
    """Wait until processes have ended."""
    deadline = time.monotonic() + 60
    while any(map(is_process_running, pids)) and time.monotonic() < deadline:
        for process in driver_control._STARTED_PROCESSES:
            process.poll()
        time.sleep(0.02)
    return not any(map(is_process_running, pids))


def test_the_process_is_started_once_and_leaves_no_visible_rows_if_killed(control, monkeypatch):
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setattr(process_control.os, "getppid", lambda: parent.pid)
    counts = write_rows(work_of(control, "one"), 0, iter([ROWS]))
    [holder] = mine()
    os.kill(holder, signal.SIGKILL)
    assert wait_until_gone([holder])
    with pytest.raises(KafkaframesError, match="the process that held the transaction of this micro-batch has ended"):
        control.commit_attempt("one", 0, plain(counts))
    control.announce_tasks("of the commit")
    with pytest.raises(KafkaframesError, match="the transaction of micro-batch 0 no longer exists"):
        control.commit_attempt("one", 0, plain(counts))
    assert values(control) == []
    write(control, "two")
    write(control, "three", 1)
    write_rows(work_of(control, "four", 1), 0, iter([ROWS]))
    assert values(control) == sorted([*EXPECTED_VALUES, *EXPECTED_VALUES])
    [holder] = mine()
    parent.communicate(b"\n")  # the process gets this line after Spark has ended
    assert wait_until_gone([holder])
    assert not make_socket_path(control.checkpoint).exists()


def test_other_options_for_the_same_checkpoint_end_the_process_and_its_open_transaction(control, monkeypatch):
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setattr(process_control.os, "getppid", lambda: parent.pid)
    port = free_port()
    first = replace(control, options=replace(control.options, driver_port=port))
    write_rows(work_of(first, "one"), 0, iter([ROWS]))  # the query is stopped, and no process aborts the transaction
    [holder] = mine()
    other = replace(first, options=replace(first.options, client={**control.options.client, "linger.ms": "7"}))
    write(other, "two")
    assert wait_until_gone([holder])
    [holder] = mine()
    assert values(control) == EXPECTED_VALUES
    parent.communicate(b"\n")
    assert wait_until_gone([holder])
    assert not list(make_socket_path(control.checkpoint).parent.iterdir())


def test_a_sink_that_waits_for_its_cluster_does_not_delay_other_sinks(control, broker, tmp_path):
    other = replace(control, checkpoint=f"{control.checkpoint}2")
    with hold_lock(make_socket_path(control.checkpoint)), serve_on_threads(other):
        other.announce_tasks("one")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


def test_a_stopped_process_delays_neither_a_commit_nor_the_next_attempt(control, monkeypatch):
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setattr(process_control.os, "getppid", lambda: parent.pid)
    counts = plain(write_rows(work_of(control, "one"), 0, iter([ROWS])))
    [stopped_pid] = mine()
    monkeypatch.setattr(
        driver_control, "MAX_SILENCE_S", 3
    )  # longer than HEARTBEAT_INTERVAL_S, which a busy process keeps
    os.kill(stopped_pid, signal.SIGSTOP)
    with pytest.raises(KafkaframesError, match=rf"process {stopped_pid} has not answered for 3 s and was killed"):
        control.commit_attempt("one", 0, counts)
    assert wait_until_gone([stopped_pid])
    monkeypatch.setattr(driver_control, "MAX_SILENCE_S", 60)  # the start takes longer than this test's silence timeout
    work_of(control, "two")
    [stopped_pid] = mine()
    os.kill(stopped_pid, signal.SIGSTOP)
    monkeypatch.setattr(driver_control, "MAX_SILENCE_S", 3)
    write(control, "three")  # a restart of the query
    assert wait_until_gone([stopped_pid])
    assert values(control) == EXPECTED_VALUES
    parent.communicate(b"\n")
    assert wait_until_gone(mine())


def test_a_process_without_its_socket_ends_and_releases_its_port(control, monkeypatch):
    parent = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    monkeypatch.setattr(process_control.os, "getppid", lambda: parent.pid)
    sink = replace(control, options=replace(control.options, driver_port=free_port()))
    counts = plain(write_rows(work_of(sink, "one"), 0, iter([ROWS])))
    [first] = mine()
    for file in make_socket_path(sink.checkpoint).parent.iterdir():  # like systemd-tmpfiles
        file.unlink()
    write(sink, "two")
    assert wait_until_gone([first])
    with pytest.raises(KafkaframesError, match="the transaction of micro-batch 0 no longer exists"):
        sink.commit_attempt("one", 0, counts)
    assert values(sink) == EXPECTED_VALUES
    parent.communicate(b"\n")
    assert wait_until_gone(mine())


def test_an_idle_process_ends(control, monkeypatch):
    with AttemptRunner(control) as holder:
        now = time.monotonic()
        monkeypatch.setattr(transaction_process.time, "monotonic", lambda: now)
        holder.handle_request(
            {"announce": "one", "watch": os.getpid(), "options": compute_options_digest(control.options)}
        )
        now += 1_000
        assert not holder.should_exit()  # its tasks may be queued
        holder.handle_request({"abort": "one"})
        assert not holder.should_exit()
        now += transaction_process.MAX_IDLE_TIME_S + 1
        assert holder.should_exit()


def test_a_process_that_fails_to_start_reports_the_reason(control, broker, monkeypatch):
    monkeypatch.setattr(driver_control, "_PORT_RETRY_TIMEOUT_S", 0)
    process = TransactionProcess(
        parse_topic_write_options(
            {
                "kafka.bootstrap.servers": broker.bootstrap_servers,
                "topic": "t",
                "driverPort": broker.bootstrap_servers.rpartition(":")[2],
            }
        ),
        control.checkpoint,
    )
    with pytest.raises(KafkaframesError, match=r"did not start: the driver cannot listen on 127\.0\.0\.1:\d+"):
        process.announce_tasks("one")
    monkeypatch.setattr(process_control, "_PROCESS_MODULE", "kafkaframes.no_such_module")
    with pytest.raises(KafkaframesError, match="the process printed no error; see the log of Spark's driver"):
        control.announce_tasks("one")


def test_settings_reserved_for_exactly_once_writes_are_rejected(broker):
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": "t", "delivery": "exactly-once"}
    for more, reason in (
        ({}, "needs the checkpoint's path as the sink's option checkpointLocation"),
        ({"checkpointLocation": "/c", "kafka.acks": "1"}, r"kafka\.acks"),
        ({"checkpointLocation": "/c", "onForeignMarker": "skip"}, "onForeignMarker=skip"),
        ({"checkpointLocation": "/c", "driverPort": "x"}, "driverPort"),
    ):
        with pytest.raises(OptionError, match=reason):
            KafkaTopicDataSource({**options, **more}).streamWriter(StructType().add("value", "binary"), overwrite=False)
