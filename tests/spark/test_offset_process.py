"""The process that looks up offsets once per query execution. The tests run without Spark and act as its planners and
tasks.
"""

import os
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import pytest
from pyspark import TaskContext

from kafkaframes.client import TopicPartition
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.jobs.driver_process import control
from kafkaframes.jobs.driver_process.serving import is_process_running
from kafkaframes.scan.topic.shares import PartitionRange, divide_among_tasks
from kafkaframes.spark.options import parse_topic_options
from kafkaframes.spark.sources import execution_offsets, offset_process
from kafkaframes.spark.sources.execution_offsets import (
    DeferredOffsetWork,
    defer_offsets,
    digest_options,
    identify_process,
)
from kafkaframes.spark.sources.offset_process import ExecutionOffsetCache, OffsetService

ONE = TopicPartition("t", 0)
OPTIONS = parse_topic_options(
    {"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t", "kafka.default.api.timeout.ms": "500"}, is_stream=False
)


class FakeCluster:
    """A topic that grows by one record at each look-up."""

    def __init__(self):
        self.ends = 0
        self.error = None

    def resolve(self, options):
        if self.error is not None:
            raise self.error
        self.ends += 1
        return {ONE: (0, self.ends)}


@pytest.fixture
def cluster():
    return FakeCluster()


@contextmanager
def serving(resolve, **settings):
    service = OffsetService(resolve, **settings)
    try:
        request = {"watch": os.getpid(), "host": "127.0.0.1", "port": 0, "required": False}
        answer = service.handle_request(request)
        secret = bytes.fromhex(answer["secret"])
        address = execution_offsets.TaskServerAddress("127.0.0.1", answer["loopbackPort"], secret)
        (share,) = divide_among_tasks([ONE], [], cores=1, can_grow=True)
        yield service, DeferredOffsetWork(share, "plan", digest_options(OPTIONS), address, None)
    finally:
        service.close()


@pytest.fixture
def task(monkeypatch):
    """Return a function that acts as a task of an execution."""
    local = threading.local()

    class Context:
        def getLocalProperty(self, name):  # noqa: N802 (Spark's name)
            return local.properties.get(name)

    monkeypatch.setattr(TaskContext, "get", classmethod(lambda cls: Context()))

    def run(work, execution, **properties):
        local.properties = {"spark.sql.execution.id": execution, **properties}
        return [entry.end for entry in work.resolve_ranges(OPTIONS)]

    return run


def test_all_tasks_of_an_execution_have_the_same_offsets_and_the_next_one_newer_offsets(cluster, task):
    with serving(cluster.resolve) as (_, work):
        assert [task(work, "7") for _ in range(3)] == [[1]] * 3
        other_load = replace(work, plan="another DataFrame")
        assert [task(other_load, "7"), task(work, "8"), task(work, "7"), task(work, "8")] == [[1], [2], [1], [2]]
        assert task(replace(work, digest="other options"), "8") == [3]


def test_simultaneous_tasks_wait_for_one_look_up(cluster, task):
    has_begun, goes_on = threading.Event(), threading.Event()

    def resolve(options):
        has_begun.set()
        assert goes_on.wait(60)
        return cluster.resolve(options)

    with serving(resolve) as (_, work), ThreadPoolExecutor(60) as pool:
        answers = [pool.submit(task, work, "1") for _ in range(60)]  # more than the process has threads
        assert has_begun.wait(60)
        goes_on.set()
        assert [answer.result(60) for answer in answers] == [[1]] * 60


def test_a_failure_is_reported_with_spark_names_and_retried_by_the_next_attempt(cluster, task):
    with serving(cluster.resolve) as (_, work):
        cluster.error = OptionError("offsets are lost; `fail_on_data_loss`=false reads the existing records")
        with pytest.raises(KafkaframesError, match="offsets are lost; failOnDataLoss=false reads"):
            task(work, "1")
        cluster.error = RuntimeError("a fault")
        with pytest.raises(KafkaframesError, match="a fault"):
            task(work, "1")
        cluster.error = None
        assert task(work, "1") == [1]


def test_an_rdd_keeps_the_offsets_of_its_dataframe_and_warns_when_they_are_old(cluster, task, monkeypatch, caplog):
    with serving(cluster.resolve) as (_, work):
        assert [task(work, "1"), task(work, None), task(work, "2"), task(work, None)] == [[1], [2], [3], [2]]
        assert task(replace(work, plan="another DataFrame"), None) == [4]
        assert not caplog.records
        monkeypatch.setattr(execution_offsets, "_MAX_SILENT_AGE_SECONDS", -1)
        assert task(work, None) == [2]
    assert "load() the topic again for newer records" in caplog.text


def test_forgotten_offsets_are_an_error_and_not_looked_up_again():
    now = 100.0
    memory = ExecutionOffsetCache(4 * 540, lambda: now)
    for execution in range(3):
        memory.add_offsets((execution, "d"), {ONE: (0, execution)})
    memory.add_offsets(("plan", "d"), {ONE: (0, 1)})
    assert memory.find_offsets((0, "d")) == ([["t", 0, 0, 0]], 0)  # it was used, and is therefore kept
    for execution in range(3, 5):
        memory.add_offsets((execution, "d"), {ONE: (0, execution)})
    for key in ((1, "d"), (1, "e"), (2, "d")):
        with pytest.raises(KafkaframesError, match=rf"execution {key[0]} were evicted by newer executions"):
            memory.find_offsets(key)
    assert memory.find_offsets((0, "d")) is not None
    assert memory.find_offsets((9, "d")) is None
    for execution in range(10, 15):
        memory.add_offsets((execution, "d"), {ONE: (0, execution)})
    with pytest.raises(KafkaframesError, match="execution plan were evicted"):
        memory.find_offsets(("plan", "d"))
    assert memory.find_offsets(("other plan", "d")) is None
    memory = ExecutionOffsetCache(10)
    memory.add_offsets((1, "d"), {ONE: (0, 1)})  # the newest entry is kept, however large it is
    assert memory.find_offsets((1, "d")) is not None


def test_a_thousand_partitions_take_a_few_kilobytes():
    memory = ExecutionOffsetCache(offset_process.MAX_CACHE_BYTES)
    memory.add_offsets(
        (1, "d"), {TopicPartition("a.topic.with.a.long.name", n): (10**9 + n, 10**9 + 7 * n) for n in range(1000)}
    )
    assert memory._size_bytes < 20_000


def test_addresses_follow_sparks_settings(cluster, task):
    with serving(cluster.resolve) as (_, work):
        unreachable = replace(work.local, port=1)
        remote = replace(work, local=unreachable, remote=replace(work.local, host="192.0.2.1"))
        cluster_mode = {"spark.master": "spark://h:7077", "spark.driver.host": "127.0.0.1"}
        assert task(remote, "1", **cluster_mode) == [1]
        for properties in ({}, {"spark.master": "local[2]"}):
            assert task(replace(work, remote=unreachable), "2", **properties) == [2]
        with pytest.raises(KafkaframesError, match=r"cannot be reached at 127\.0\.0\.1:1 .*; .* set driverHost"):
            task(replace(work, local=unreachable), "3")
        with pytest.raises(KafkaframesError, match=r"another program listens on|connection was closed"):
            task(replace(work, local=replace(work.local, secret=bytes(32))), "3")


def test_a_planner_starts_the_process_once_and_it_ends_with_spark(monkeypatch, task):
    with tempfile.TemporaryDirectory() as short:
        monkeypatch.setattr(control.tempfile, "gettempdir", lambda: short)
        jvm = subprocess.Popen(["sleep", "600"])
        try:
            monkeypatch.setattr(execution_offsets, "_find_jvm_process", lambda: jvm.pid)
            shares = divide_among_tasks([ONE], [PartitionRange("t", 0, 0, 5)], cores=1, can_grow=True)
            before = len(control._STARTED_PROCESSES)
            (first,), (second,) = defer_offsets(OPTIONS, shares), defer_offsets(OPTIONS, shares)
            assert first.local == second.local
            assert first.plan != second.plan
            [process] = control._STARTED_PROCESSES[before:]
            with pytest.raises(KafkaframesError, match=r"NetworkError|cannot|refused"):  # no broker runs there
                task(first, "1")
            deferred_options = replace(OPTIONS, driver_host="127.0.0.1", driver_port=first.local.port)
            with pytest.raises(KafkaframesError, match=r"cannot listen on 127\.0\.0\.1:\d+ for its tasks"):
                defer_offsets(deferred_options, shares)
            (elsewhere,) = defer_offsets(replace(OPTIONS, driver_host="127.0.0.1"), shares)
            assert elsewhere.remote == elsewhere.local
        finally:
            jvm.kill()
            jvm.wait()
        assert process.wait(60) == 0


def test_the_spark_process_is_the_first_ancestor_other_than_python():
    code = "from kafkaframes.spark.sources.execution_offsets import _find_jvm_process as p; print(p())"
    nested_command = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}], check=True)"
    shell = ["sh", "-c", f'"{sys.executable}" -c "{nested_command}"; echo $$']
    spark_pid, shell_pid = subprocess.run(shell, capture_output=True, text=True, check=True).stdout.split()
    assert spark_pid == shell_pid
    assert identify_process(os.getpid()) == identify_process(os.getpid())
    assert identify_process(os.getpid())[1]


def test_an_unused_service_ends(monkeypatch):
    monkeypatch.setattr(offset_process, "FIRST_REQUEST_TIMEOUT_SECONDS", 0)
    service = OffsetService(lambda options: {})
    try:
        time.sleep(0.01)
        assert service.should_exit()
        service.handle_request({"watch": os.getpid(), "host": "127.0.0.1", "port": 0, "required": False})
        assert not service.should_exit()
        assert is_process_running(os.getpid())
    finally:
        service.close()
