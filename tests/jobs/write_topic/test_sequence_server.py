"""Leases over a socket: what tasks receive, when they wait, and how lost tasks are handled. The tests run without
Spark.
"""

import socket
import threading
from contextlib import contextmanager, suppress
from dataclasses import replace

import pytest

from kafkaframes.client import TopicPartition
from kafkaframes.client.batches import ProducerIdentity
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.write_topic import leases
from kafkaframes.jobs.write_topic.leases import LeaseConnection, LeaseServer, SharedTransaction
from kafkaframes.jobs.write_topic.sequences import LeaseLedger

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
HERE = {"listen": "127.0.0.1", "host": "127.0.0.1"}


@contextmanager
def serving(add=lambda _: None):
    ledger = LeaseLedger(lambda: 1)
    with LeaseServer(lambda _: SharedTransaction(ledger, add, "id", ProducerIdentity(7, 1)), **HERE) as server:
        yield ledger, server.address


def test_a_second_task_waits_until_the_first_returns_its_lease():
    added_partitions = []
    with serving(lambda places: added_partitions.append(sorted(places))) as (ledger, door):
        one, two = LeaseConnection(door, 0, {}), LeaseConnection(door, 1, {})
        assert one.take_leases({A: 3, B: 2}) == {A: 0, B: 0}
        got = []
        waiting = threading.Thread(target=lambda: got.append(two.take_leases({A: 4})))
        waiting.start()
        one.return_leases([B])
        assert one.take_leases({B: 1}, []) == {B: 2}
        assert got == []
        one.return_leases([A, B])
        waiting.join(100)
        assert got == [{A: 3}]
        two.return_leases([A])
        one.report_end()
        two.report_end()
        one.close()
        two.close()
    assert added_partitions == [[A, B], [B], [A]]
    assert ledger.verify_acknowledged({A: 7, B: 3}) == 10


def test_a_task_gets_the_transaction_of_its_batch_or_learns_that_it_is_committed():
    batches = {}

    def find(batch):
        batches[batch["name"]] = batch
        return (
            None
            if batch["name"] == "old"
            else SharedTransaction(LeaseLedger(lambda: 1), lambda _: None, "id", ProducerIdentity(7, 1))
        )

    with LeaseServer(find, **HERE) as server:
        new, old = (LeaseConnection(server.address, 0, {"name": name}) for name in ("new", "old"))
        assert new.transaction == ("id", ProducerIdentity(7, 1))
        assert old.transaction is None
        new.close()
        old.close()
    assert batches == {"new": {"name": "new"}, "old": {"name": "old"}}


def test_a_slow_operation_is_polled(monkeypatch):
    monkeypatch.setattr(leases, "POLL_TIMEOUT_S", 0.01)
    with serving() as (_, door):
        one, two = LeaseConnection(door, 0, {}), LeaseConnection(door, 1, {})
        one.take_leases({A: 3})
        give_back = threading.Timer(0.1, one.return_leases, [[A]])
        give_back.start()
        assert two.take_leases({A: 4}) == {A: 3}
        give_back.join()
        one.close()
        two.close()


def test_a_task_that_waits_for_a_lost_task_is_notified(monkeypatch):
    monkeypatch.setattr(leases, "POLL_TIMEOUT_S", 0.01)
    with serving() as (ledger, door):
        one, two = LeaseConnection(door, 0, {}), LeaseConnection(door, 1, {})
        one.take_leases({A: 3})
        one.close()
        with pytest.raises(KafkaframesError, match="another task was lost while it wrote"):
            two.take_leases({A: 1})
        two.close()
    with pytest.raises(KafkaframesError, match="was lost while it wrote"):
        ledger.verify_acknowledged({A: 3})


def test_a_second_attempt_is_rejected_and_the_first_gets_no_further_lease():
    with serving() as (ledger, door):
        one = LeaseConnection(door, 0, {})
        with pytest.raises(KafkaframesError, match="task 0 would be repeated"):
            LeaseConnection(door, 0, {})
        with pytest.raises(KafkaframesError, match="task 0 would be repeated"):
            one.take_leases({A: 1})
        one.close()
    with pytest.raises(KafkaframesError, match="task 0 would be repeated"):
        ledger.verify_acknowledged({})


def test_a_partition_that_cannot_be_added_to_the_transaction_fails_the_batch():
    def refuse(_):
        raise KafkaframesError("PRODUCER_FENCED")

    with serving(refuse) as (ledger, door):
        task = LeaseConnection(door, 0, {})
        with pytest.raises(KafkaframesError, match="PRODUCER_FENCED"):
            task.take_leases({A: 1})
        task.close()
    with pytest.raises(KafkaframesError, match="PRODUCER_FENCED"):
        ledger.verify_acknowledged({})


def test_a_missing_driver_is_named_with_its_address():
    with serving() as (ledger, door):
        task = LeaseConnection(door, 0, {})
        assert task.take_leases({A: 1}) == {A: 0}
    with pytest.raises(KafkaframesError, match=rf"the driver.* is gone from 127\.0\.0\.1:{door.port}: .*driverPort"):
        task.return_leases([A])
    with pytest.raises(KafkaframesError, match=r"cannot be reached at|does not answer at"):
        LeaseConnection(door, 1, {})
    task.close()
    with pytest.raises(KafkaframesError, match="task 0 was lost while it wrote to t-0"):
        ledger.verify_acknowledged({A: 1})


@pytest.mark.parametrize("sent_bytes", [b"", b"GET / HTTP/1.1\r\n\r\n", bytes(64), bytes(64) + b'{"task": 0}\n'])
def test_an_unauthenticated_client_gets_no_response_and_changes_nothing(sent_bytes):
    with serving() as (ledger, door):
        with socket.create_connection((door.host, door.port), timeout=100) as stranger:
            nonce = stranger.recv(32, socket.MSG_WAITALL)
            with suppress(ConnectionResetError):
                stranger.sendall(sent_bytes)
                stranger.shutdown(socket.SHUT_WR)
                assert stranger.recv(1) == b""
        assert len(nonce) == 32
        LeaseConnection(door, 0, {}).close()
    with pytest.raises(KafkaframesError, match="task 0 was lost before"):  # only this task was accepted
        ledger.verify_acknowledged({})


def test_tasks_of_another_batch_or_driver_are_rejected():
    with serving() as (_, door), pytest.raises(KafkaframesError, match="does not answer at"):
        LeaseConnection(replace(door, secret=bytes(32)), 0, {})
    with socket.create_server(("127.0.0.1", 0)) as other:
        answering = threading.Thread(target=play_driver, args=[other])
        answering.start()
        with pytest.raises(KafkaframesError, match="another program listens on"):
            LeaseConnection(replace(door, port=other.getsockname()[1]), 0, {})
        answering.join()


def play_driver(listener):
    connection, _ = listener.accept()
    with connection:
        connection.sendall(bytes(32))
        read = 0
        while read < 64:
            read += len(connection.recv(64 - read))
        connection.sendall(bytes(32))


def test_a_port_in_use_is_named():
    with socket.create_server(("127.0.0.1", 0)) as bound_socket:
        port = bound_socket.getsockname()[1]
        with (
            pytest.raises(KafkaframesError, match=rf"cannot listen on 127\.0\.0\.1:{port} for its tasks"),
            LeaseServer(lambda _: None, **HERE, port=port),
        ):
            pass


def test_the_end_of_a_micro_batch_closes_waiting_connections(capfd):
    with serving() as (_, door):
        one, two = LeaseConnection(door, 0, {}), LeaseConnection(door, 1, {})
        one.take_leases({A: 1})
        refusals = []
        waiting = threading.Thread(target=lambda: refusals.append(refusal(two)))
        waiting.start()
    waiting.join(100)
    assert "is gone from" in refusals[0]
    one.close()
    two.close()
    assert "CancelledError" not in capfd.readouterr().err


def refusal(task):
    try:
        return str(task.take_leases({A: 1}))
    except KafkaframesError as error:
        return str(error)
