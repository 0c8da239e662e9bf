"""Tasks of one transaction that write to the same partitions, are killed, or are late. The tests run without Spark, on
real brokers.
"""

import os
import pickle
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest
from tests.spark.topics import read_committed

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic, Producer, TopicPartition
from kafkaframes.client.shared_transaction import add_partitions, share_transaction
from kafkaframes.errors import BrokerError, EncodeError, KafkaframesError
from kafkaframes.jobs.micro_batch import StreamBatch
from kafkaframes.jobs.write_topic import sink
from kafkaframes.jobs.write_topic.leases import LeaseServer, SharedTransaction
from kafkaframes.jobs.write_topic.sequences import LeaseLedger
from kafkaframes.jobs.write_topic.transaction_time import TransactionTimeouts
from kafkaframes.spark.exactly_once import topic_exactly_once
from kafkaframes.spark.exactly_once.exactly_once_task import TaskArguments, create_task_function, write_rows
from kafkaframes.spark.options import parse_topic_write_options

TASK = """
import pickle, sys
import pyarrow as pa
import pyspark
from kafkaframes.spark.exactly_once.exactly_once_task import write_rows
work, rows = pickle.load(sys.stdin.buffer)
write_rows(work, 0, iter([rows]))
"""


@pytest.fixture(scope="module")
def broker():
    with Broker() as broker:
        yield broker


@pytest.fixture
def options(broker, request):
    name = "".join(one if one.isalnum() else "-" for one in request.node.name)
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=3)])
    return parse_topic_write_options({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name})


def rows(task, first, count=40):
    return pa.record_batch(
        {"value": [b"%d-%d" % (task, n) for n in range(first, first + count)], "partition": thirds(count)}
    )


def thirds(count):
    return pa.array([n % 3 for n in range(count)], pa.int32())


@contextmanager
def transaction(options):
    """Begin a transaction as the driver does. Yield the producer, the ledger and the arguments of the tasks."""
    producer = Producer(**options.client, transactional_id=options.topic)
    ledger = LeaseLedger(sink.current_time_ms)
    with producer:
        producer.begin_transaction()
        shared_work = SharedTransaction(
            ledger, partial(add_partitions, producer), options.topic, share_transaction(producer)
        )
        with LeaseServer(lambda _: shared_work, listen="127.0.0.1", host="127.0.0.1") as server:
            yield producer, ledger, TaskArguments(options, server.address, {})


def test_many_tasks_write_to_the_same_partitions_without_duplicates_and_in_order(options, monkeypatch):
    monkeypatch.setattr("kafkaframes.jobs.write_topic.packing.MIN_PACKED_BYTES", 1)  # each round has its own lease
    batches_by_task = {task: [rows(task, first) for first in range(0, 200, 40)] for task in range(4)}
    with transaction(options) as (producer, ledger, work):
        with ThreadPoolExecutor(4) as pool:
            futures = [pool.submit(write_rows, work, task, iter(batches)) for task, batches in batches_by_task.items()]
        counts = sum((Counter(future.result()) for future in futures), Counter())
        assert ledger.verify_acknowledged(counts) == 800
        producer.commit_transaction()
    committed_rows = read_committed(options)
    assert sorted(value for _, value in committed_rows) == sorted(
        b"%d-%d" % (t, n) for t in range(4) for n in range(200)
    )
    for task, partition in [(t, p) for t in range(4) for p in range(3)]:
        mine = [value for at, value in committed_rows if at == partition and value.startswith(b"%d-" % task)]
        numbers = [int(value.partition(b"-")[2]) for value in mine]
        assert numbers == sorted(numbers)


def test_a_task_killed_while_it_holds_a_lease_fails_the_batch(broker, options):
    has_reached, is_killed = threading.Event(), threading.Event()

    def hold(_):
        has_reached.set()
        return is_killed.wait(60)

    with (
        transaction(options) as (_, ledger, work),
        broker.on("Produce", topic=options.topic, where=hold).once(),
        subprocess.Popen([sys.executable, "-c", TASK], stdin=subprocess.PIPE, env=with_sources()) as task,
    ):
        task.stdin.write(pickle.dumps((work, rows(0, 0))))
        task.stdin.flush()
        assert has_reached.wait(60)
        task.kill()
        task.wait(60)
        is_killed.set()
    with pytest.raises(
        KafkaframesError, match=r"task 0 was lost while it wrote to .*: the number of written records is unknown"
    ):
        ledger.verify_acknowledged({})
    write_again(options)


def test_a_task_that_outlives_its_batch_is_rejected(options):
    """As after the driver has ended and another one has begun: late rows get into no transaction."""
    with transaction(options) as (_, _, work):
        write_rows(work, 0, iter([rows(0, 0)]))
        new_sink(options)._fence_writer()
        with pytest.raises(BrokerError, match=r"PRODUCER_FENCED|INVALID_PRODUCER_EPOCH|INVALID_TXN_STATE"):
            write_rows(work, 1, iter([rows(1, 0)]))
    write_again(options)


def test_rows_that_cannot_be_written_fail_the_batch_without_waiting_tasks(options):
    wrong = pa.record_batch({"value": [b"v"], "topic": pa.array([None], pa.string())})
    several = parse_topic_write_options({**{f"kafka.{name}": value for name, value in options.client.items()}})
    with transaction(options) as (_, ledger, work):
        before = set(threading.enumerate())
        with pytest.raises(EncodeError, match="no topic"):
            write_rows(work._replace(options=several), 0, iter([wrong]))
        for thread in set(threading.enumerate()) - before:
            if not thread.name.startswith("asyncio_"):  # the broker's own threads
                thread.join(60)  # the thread of a DNS look-up ends by itself, after its result
                assert not thread.is_alive(), thread.name
    with pytest.raises(KafkaframesError, match="task 0 was lost before"):
        ledger.verify_acknowledged({})


def test_a_task_without_rows_requests_no_lease(options):
    work = TaskArguments(options, None, {})
    assert write_rows(work, 0, iter([rows(0, 0, 0)])) == {}


def test_the_marker_of_the_previous_batch_is_cached_unless_another_query_wrote(options, monkeypatch):
    reads = []
    newest = sink.read_markers
    monkeypatch.setattr(sink, "read_markers", lambda *arguments: reads.append(1) or newest(*arguments))

    def send(producer):
        share_transaction(producer)
        return sink.TransactionRecords(0, sink.current_time_ms())

    one, other = new_sink(options), new_sink(options)
    for batch_id in range(3):
        one.write_batch(batch(batch_id), send)
    assert len(reads) == 1
    other.write_batch(batch(3), send)
    one.write_batch(batch(4), send)
    assert len(reads) == 3
    one.write_batch(batch(4), send)  # it was committed, and is not written again
    assert len(reads) == 3
    one.write_batch(batch(5), send)  # the previous run has used an epoch: another query may have written in between
    assert len(reads) == 4


def batch(number):
    return StreamBatch("q", number, ends=(f'{{"in":{{"0":{number}}}}}',))


def new_sink(options):
    return sink.TopicSink(options, options.topic, times=TransactionTimeouts())


def write_again(options):
    """Write a batch as the next attempt does, and check that only its rows are visible."""
    with transaction(options) as (producer, ledger, work):
        counts = write_rows(work, 0, iter([rows(9, 0)]))
        ledger.verify_acknowledged(counts)
        producer.commit_transaction()
    assert sorted(value for _, value in read_committed(options)) == sorted(b"9-%d" % n for n in range(40))
    assert set(counts) == {TopicPartition(options.topic, n) for n in range(3)}


def with_sources():
    return os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.mark.parametrize(
    ("conf", "place"),
    [
        ({"spark.master": "local[2]", "spark.driver.host": "example"}, ("127.0.0.1", "127.0.0.1")),
        ({"spark.master": "local"}, ("127.0.0.1", "127.0.0.1")),
        ({"spark.master": "local-cluster[2,1,1024]", "spark.driver.host": "10.0.0.7"}, ("10.0.0.7", "10.0.0.7")),
        ({"spark.master": "yarn", "spark.driver.host": "[fd00::7]"}, ("fd00::7", "fd00::7")),
        (
            {"spark.master": "spark://m:7077", "spark.driver.host": "out", "spark.driver.bindAddress": "0.0.0.0"},
            ("0.0.0.0", "out"),
        ),
    ],
)
def test_the_driver_listens_on_the_address_of_sparks_driver(conf, place):
    assert topic_exactly_once._find_driver_address(SimpleNamespace(conf=conf)) == place


def test_a_second_attempt_of_either_kind_writes_nothing(options, monkeypatch):
    """Retries and speculative copies are both attempt 1. The attempt succeeds, so that Spark starts no third one."""
    repeat(monkeypatch)
    rest = iter([rows(0, 0), rows(0, 40)])
    [result] = next(create_task_function(TaskArguments(options, None, {}))(rest)).to_pylist()
    assert "task 3 would be repeated" in result["failure"]
    assert result == {**dict.fromkeys(("topic", "partition", "records")), "failure": result["failure"], "is_lost": True}
    assert len(list(rest)) == 2


def test_spark_reports_rows_that_fail_in_each_attempt(options, monkeypatch):
    def failing():
        yield rows(0, 0)
        raise ArithmeticError("of the rows")

    repeat(monkeypatch)
    with pytest.raises(ArithmeticError, match="of the rows"):
        next(create_task_function(TaskArguments(options, None, {}, is_retry=True))(failing()))


def repeat(monkeypatch):
    again = SimpleNamespace(get=lambda: SimpleNamespace(partitionId=lambda: 3, attemptNumber=lambda: 1))
    monkeypatch.setattr(pyspark, "TaskContext", again)


def test_rows_that_a_task_cannot_write_are_in_its_result(options):
    wrong = pa.record_batch({"value": [b"v"], "partition": pa.array([7], pa.int32())})
    with transaction(options) as (_, ledger, work):
        [result] = next(create_task_function(work)(iter([wrong]))).to_pylist()
        assert "has no partition 7" in result["failure"]
        assert not result["is_lost"]
        with pytest.raises(KafkaframesError, match="task 0 was lost before"):
            ledger.verify_acknowledged({})
