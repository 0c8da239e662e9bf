"""One micro-batch in one transaction: after a failure at any step, its rows are written exactly once. The tests run
without Spark.

The driver's part and the tasks' part run in one process here, with the embedded brokers or a real cluster.
"""

import logging
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.spark.topics import read_committed, recreate_topic

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, NewTopic
from kafkaframes.client.shared_transaction import add_partitions, share_transaction
from kafkaframes.errors import KafkaframesError, LostTaskError, OptionError
from kafkaframes.jobs.micro_batch import StreamBatch
from kafkaframes.jobs.write_topic import sink
from kafkaframes.jobs.write_topic.leases import LeaseServer, SharedTransaction
from kafkaframes.jobs.write_topic.markers import Marker, find_marker, read_markers
from kafkaframes.jobs.write_topic.sequences import LeaseLedger
from kafkaframes.jobs.write_topic.transaction_time import TransactionTimeouts
from kafkaframes.spark.exactly_once import topic_exactly_once as driver
from kafkaframes.spark.exactly_once.exactly_once_task import TaskArguments, write_rows
from kafkaframes.spark.exactly_once.topic_exactly_once import write_in_transaction
from kafkaframes.spark.options import parse_topic_write_options

ROWS = pa.record_batch({"key": [b"k%d" % n for n in range(60)], "value": [b"v%d" % n for n in range(60)]})
APIS = ("InitProducerId", "CreateTopics", "ListOffsets", "Fetch", "Metadata", "AddPartitionsToTxn", "Produce", "EndTxn")
STEPS = ("before", "half", "sent", "committed")


class DriverKilledError(BaseException):
    """The driver is killed: it neither aborts its transaction nor shuts down cleanly."""


@pytest.fixture
def options(brokers, request):
    name = request.node.name.replace("[", "-").replace("]", "")
    with Admin(brokers.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=3)])
    return parse_topic_write_options({"kafka.bootstrap.servers": brokers.bootstrap_servers, "topic": name})


def write(options, batch_id, monkeypatch, *, kill_step="", times=None, before_end=lambda: None):
    """Write a micro-batch, with the driver killed at ``kill_step``. Call ``before_end`` before the commit."""
    running = new_sink(options, monkeypatch, kill_step=kill_step, times=times, before_end=before_end)
    write_in_transaction(running, None, batch(batch_id))


def batch(number):
    """Return a micro-batch as a checkpoint stores it."""
    ends = tuple(f'{{"in":{{"0":{end}}}}}' for end in (10 * number, 10 * number + 10))
    return StreamBatch("q", number, begins=ends[:1], ends=ends[1:])


def new_sink(options, monkeypatch, *, kill_step="", times=None, before_end=lambda: None):
    """Create the sink of a query run, with tasks that are threads here."""

    def send(_, running, producer, **_options):
        if kill_step == "before":
            raise DriverKilledError
        ledger = LeaseLedger(sink.current_time_ms)
        shared_work = SharedTransaction(
            ledger, partial(add_partitions, producer), running.transactional_id, share_transaction(producer)
        )
        with LeaseServer(lambda _: shared_work, listen="127.0.0.1", host="127.0.0.1") as server:
            work = TaskArguments(running.options, server.address, {})
            counts = in_two_tasks(work, ROWS.slice(0, 30) if kill_step == "half" else ROWS)
        if kill_step in ("half", "sent"):
            raise DriverKilledError
        before_end()
        return sink.TransactionRecords(ledger.verify_acknowledged(counts), ledger.since_ms)

    monkeypatch.setattr(driver, "send_rows", send)
    monkeypatch.setattr(sink.TopicSink, "_fence_writer", lambda _: None)
    return sink.TopicSink(options, f"sink-of-{options.topic}", times=times or TransactionTimeouts())


def in_two_tasks(work, rows):
    """Do the work of Spark's tasks, two at a time, which write to the same partitions. Return the sum of the counts
    that the tasks report.
    """
    half = rows.num_rows // 2
    with ThreadPoolExecutor(2) as pool:
        futures = [pool.submit(write_rows, work, n, iter([rows.slice(n * half, half)])) for n in range(2)]
    counts = Counter()
    for one in futures:
        counts.update(one.result())
    return counts


def values(options):
    return sorted(value for _, value in read_committed(options))


WANTED = sorted(ROWS.column("value").to_pylist())


@pytest.mark.parametrize("api", APIS)
def test_a_lost_response_to_a_processed_request(brokers, options, monkeypatch, api):
    with brokers.on(api).once().drop_reply() as rule:
        write(options, 0, monkeypatch)
    assert values(options) == WANTED
    assert rule.count or api == "CreateTopics"  # the marker topic is created once


@pytest.mark.parametrize("step", STEPS)
def test_a_killed_driver_writes_the_batch_again(options, monkeypatch, step):
    if step == "committed":
        write(options, 0, monkeypatch)
    else:
        with pytest.raises(DriverKilledError):
            write(options, 0, monkeypatch, kill_step=step)
        assert values(options) == []
    write(options, 0, monkeypatch)
    assert values(options) == WANTED
    write(options, 1, monkeypatch)
    assert values(options) == sorted([*WANTED, *WANTED])


@pytest.mark.parametrize("with_marker", [True, False])
@pytest.mark.parametrize("lost_count", [1, 2, 3])
def test_a_batch_with_lost_tasks_is_retried_a_few_times(options, monkeypatch, lost_count, with_marker, caplog):
    losses = iter([LostTaskError("task 0 was lost")] * lost_count)

    def lose_a_task():
        for error in losses:
            raise error

    running = new_sink(options, monkeypatch, before_end=lose_a_task)  # all rows are sent, and nothing is committed
    anew = []
    sending = driver.send_rows
    monkeypatch.setattr(
        driver, "send_rows", lambda *arguments, **kwargs: anew.append(kwargs) or sending(*arguments, **kwargs)
    )
    if lost_count < 3:
        write_in_transaction(running, None, batch(0) if with_marker else None)
        assert values(options) == WANTED
    else:
        with pytest.raises(KafkaframesError, match="task 0 was lost"):
            write_in_transaction(running, None, batch(0) if with_marker else None)
        assert values(options) == []
    assert [one["is_retry"] for one in anew] == [False, True, True][: lost_count + 1]
    assert caplog.text.count("is written again: task 0 was lost") == min(lost_count, 2)


def test_an_error_of_a_task_ends_the_batch_at_once(options, monkeypatch):
    def fail():
        raise KafkaframesError("PRODUCER_FENCED")

    times = []
    running = new_sink(options, monkeypatch, before_end=lambda: times.append(1) or fail())
    with pytest.raises(KafkaframesError, match="PRODUCER_FENCED"):
        write_in_transaction(running, None, batch(0))
    assert len(times) == 1
    assert values(options) == []


@pytest.fixture(scope="module")
def impatient():
    """A broker that limits transactions to a minute."""
    with Broker(config={"transaction.max.timeout.ms": 60_000}) as broker:
        broker.create_topic("t", partitions=3)
        yield broker


def options_of(servers, **more):
    return parse_topic_write_options({"kafka.bootstrap.servers": servers, "topic": "t", **more})


def test_a_batch_that_exceeds_the_transaction_timeout_is_reported(impatient, monkeypatch, caplog):
    brokers_time = SimpleNamespace(
        time=lambda: impatient.clock.now_ms / 1000, time_ns=lambda: impatient.clock.now_ms * 10**6
    )
    monkeypatch.setattr(sink, "time", brokers_time)
    options = options_of(impatient.bootstrap_servers)
    times = TransactionTimeouts.from_options(options)
    assert times.timeout_ms == 60_000
    times.add_duration(40_000)  # as if the batch before had taken so long
    with caplog.at_level(logging.WARNING, "kafkaframes"), pytest.raises(KafkaframesError) as caught:
        write(options, 0, monkeypatch, times=times, before_end=lambda: impatient.clock.advance(90))
    assert "micro-batch 0: the longest transaction of the previous micro-batches was open for 40 s" in caplog.text
    assert "its transaction could only be open for 60 s, so read_committed consumers see none of its rows" in str(
        caught.value
    )
    assert "transaction.max.timeout.ms" in str(caught.value)
    assert values(options) == []
    write(options, 0, monkeypatch, times=times)
    assert values(options) == WANTED


def test_the_marker_stores_how_long_the_last_batch_took(options, monkeypatch, caplog):
    write(options, 0, monkeypatch)
    assert find_marker(read_markers(options), f"sink-of-{options.topic}", batch(1)).batch == batch(0)
    monkeypatch.setattr(sink, "find_marker", lambda *_: Marker(batch(0), 50_000))
    with caplog.at_level(logging.WARNING, "kafkaframes"):
        write(options, 1, monkeypatch, times=TransactionTimeouts(chosen_ms=60_000, limit_ms=900_000))
    assert "was open for 50 s; the limit is 60 s" in caplog.text
    assert "increase kafka.transaction.timeout.ms, up to the brokers' transaction.max.timeout.ms, 900000" in caplog.text


def test_a_timeout_above_the_limit_of_the_broker_is_rejected_before_anything_is_written(impatient, monkeypatch):
    options = options_of(impatient.bootstrap_servers, **{"kafka.transaction.timeout.ms": "60001"})
    with pytest.raises(
        OptionError, match=r"is 60001, which exceeds the brokers' transaction\.max\.timeout\.ms of 60000; nothing was"
    ):
        TransactionTimeouts.from_options(options)
    # without permission to describe settings
    with pytest.raises(OptionError, match="is 60001, which exceeds the brokers'"):
        write(options, 0, monkeypatch, times=TransactionTimeouts(chosen_ms=60_001))


def test_another_batch_with_the_same_number_is_rejected_and_nothing_is_written(options, monkeypatch):
    write(options, 3, monkeypatch)
    other = replace(batch(3), ends=('{"in":{"0":45}}',))
    for refused_batch in (other, batch(2), replace(batch(4), begins=batch(3).begins)):
        with pytest.raises(KafkaframesError, match=r"micro-batch \d does not fit the marker of micro-batch 3 of"):
            write_in_transaction(new_sink(options, monkeypatch), None, refused_batch)
    assert values(options) == WANTED


def test_a_batch_that_is_never_repeated_reports_an_unknown_commit(brokers, options, monkeypatch):
    impatient = replace(options, client={**options.client, "default.api.timeout.ms": 3_000})
    with (
        brokers.on("EndTxn").drop_reply() as rule,
        pytest.raises(KafkaframesError, match="unknown whether they were committed") as caught,
    ):
        write_in_transaction(new_sink(impatient, monkeypatch), None, None)
    assert rule.count
    assert "read_committed" in str(caught.value)
    assert values(options) == WANTED


def test_a_recreated_topic_is_detected_before_anything_is_written(options, monkeypatch):
    write(options, 3, monkeypatch)
    running = new_sink(options, monkeypatch)
    write_in_transaction(running, None, batch(4))
    recreate_topic(options.client["bootstrap.servers"], options.topic, 3)
    for one, refused_batch in ((running, batch(5)), (new_sink(options, monkeypatch), batch(4))):
        with pytest.raises(
            KafkaframesError, match=r"was deleted and recreated after micro-batch 4 .* a new checkpoint"
        ):
            write_in_transaction(one, None, refused_batch)
    assert values(options) == []
    write(replace(options, on_foreign_marker="skip"), 5, monkeypatch)
    assert values(options) == WANTED
    write(options, 6, monkeypatch)
