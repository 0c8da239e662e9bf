"""Transactional ids: initialisation, fencing, both transaction versions, timeouts, expiry, restarts, failed appends."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import pytest
from tests.coordination.groups.support import ListLog, frozen_clock

from kafkaframes.broker.state.clock import Clock
from kafkaframes.coordination.groups.ports import ProducerIdentity
from kafkaframes.coordination.transactions.coordinator import (
    TransactionCoordinator,
    TransactionSettings,
)
from kafkaframes.coordination.transactions.state import (
    MAX_PRODUCER_EPOCH,
    VALID_PREVIOUS_STATES,
    State,
    TransactionState,
)
from kafkaframes.errors import ErrorCode, RefusedError, StorageError
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record
from kafkaframes.storage.files.names import TopicPartition

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@dataclass
class TransactionBench:
    """A transaction coordinator, its log in memory, and the written markers."""

    version: int = 2
    clock: Clock = field(default_factory=frozen_clock)
    log: ListLog = field(default_factory=ListLog)
    markers: list[tuple[Any, ...]] = field(default_factory=list)
    failing_partitions: set[TopicPartition] = field(default_factory=set)
    ids: Any = field(default_factory=lambda: count(1000))
    coordinator: TransactionCoordinator = field(init=False)

    def __post_init__(self) -> None:
        self.restart()

    def restart(self) -> None:
        self.coordinator = TransactionCoordinator(
            self.clock,
            self.log,
            TransactionSettings(transaction_version=self.version),
            lambda: next(self.ids),
            self.write_marker,
            lambda _partition: 7,
        )
        self.coordinator.load_transactions(list(self.log.rows))

    def write_marker(self, partition: TopicPartition, **marker: Any) -> None:
        if partition in self.failing_partitions:
            raise StorageError("the disk is full")
        self.markers.append((partition, *marker.values()))

    def init(self, *expected_identity: int, name: str = "t", timeout_ms: int = 60_000) -> ProducerIdentity:
        return self.coordinator.init_producer_id(
            name, timeout_ms, ProducerIdentity(*expected_identity) if expected_identity else None
        )

    def init_again(self) -> ProducerIdentity:
        """Initialise a producer as clients do, with retries after CONCURRENT_TRANSACTIONS."""
        assert error_code_of(self.init) == ErrorCode.CONCURRENT_TRANSACTIONS
        return self.init()

    def add(self, identity: ProducerIdentity, *partitions: TopicPartition) -> None:
        self.coordinator.add_partitions("t", *identity, partitions or (T0,), version=self.version)

    def end(self, identity: ProducerIdentity, *, commit: bool = True, version: int | None = None) -> ProducerIdentity:
        version = self.version if version is None else version
        return self.coordinator.end_transaction("t", *identity, commit=commit, version=version)

    @property
    def state(self) -> TransactionState:
        return self.coordinator.describe_transaction("t").state

    @property
    def logged_states(self) -> list[str]:
        """Return the transaction states in the log, in order."""
        by_number = {one.number: one.kafka_name for one in TransactionState}
        return [
            by_number[decode_coordinator_record("__transaction_state", row.key, row.value).value.transaction_status]
            for row in self.log.rows
            if row.value is not None
        ]


def error_code_of(call: Any, *arguments: Any, **options: Any) -> int:
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **options)
    return caught.value.code


@pytest.fixture(params=[0, 2], ids=["version 0", "version 2"])
def bench(request):
    return TransactionBench(request.param)


def test_a_producer_without_a_transactional_id_gets_a_new_id_each_time(bench):
    assert bench.coordinator.init_producer_id(None, 0) == (1000, 0)
    assert bench.coordinator.init_producer_id(None, 0) == (1001, 0)
    assert not bench.log.rows


def test_the_epoch_grows_with_each_initialisation(bench):
    assert [bench.init() for _ in range(3)] == [(1000, 0), (1000, 1), (1000, 2)]
    bench.restart()
    assert bench.init() == (1000, 3)


@pytest.mark.parametrize(
    ("name", "timeout_ms", "code"),
    [
        ("", 1, ErrorCode.INVALID_REQUEST),
        ("t", 0, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
        ("t", 900_001, ErrorCode.INVALID_TRANSACTION_TIMEOUT),
    ],
)
def test_invalid_initialisations_are_rejected(bench, name, timeout_ms, code):
    assert error_code_of(bench.init, name=name, timeout_ms=timeout_ms) == code


@pytest.mark.parametrize("commit", [True, False])
def test_each_state_is_logged_and_every_partition_gets_a_marker(bench, commit):
    identity = bench.init()
    bench.add(identity)
    bench.add(identity, T0, T1)
    bench.add(identity, T1)  # the partition is already part of the transaction, so nothing is written
    after = bench.end(identity, commit=commit)
    name = "Commit" if commit else "Abort"
    assert bench.logged_states == ["Empty", "Ongoing", "Ongoing", f"Prepare{name}", f"Complete{name}"]
    epoch = 1 if bench.version == 2 else 0
    assert after == (1000, epoch)
    assert bench.markers == [(partition, commit, 1000, epoch, 7) for partition in (T0, T1)]
    bench.restart()
    assert bench.coordinator.describe_transaction("t").partitions == frozenset()
    assert len(bench.markers) == 2
    bench.add(after)
    assert bench.state is State.ONGOING


def test_the_next_transaction_starts_with_its_first_partition(bench):
    identity = bench.init()
    bench.add(identity)
    began = bench.coordinator.describe_transaction("t").start_ms
    identity = bench.end(identity)
    bench.clock.advance(5)
    bench.add(identity, T1)
    assert bench.coordinator.describe_transaction("t").start_ms == began + 5_000
    bench.clock.advance(1)
    bench.add(identity, T0)
    assert bench.coordinator.describe_transaction("t").start_ms == began + 5_000


def test_the_next_initialisation_aborts_an_open_transaction(bench):
    old = bench.init()
    bench.add(old)
    new = bench.init_again()
    ((partition, commit, _, epoch, _),) = bench.markers
    assert (partition, commit) == (T0, False)
    assert (epoch, new.producer_epoch) == (1, 2)
    assert old.producer_epoch < epoch < new.producer_epoch  # the marker has an epoch that no producer has
    assert error_code_of(bench.add, old) == ErrorCode.PRODUCER_FENCED
    assert error_code_of(bench.end, old) == ErrorCode.PRODUCER_FENCED


def test_requests_of_other_producers_are_rejected(bench):
    identity = bench.init()
    other = ProducerIdentity(identity.producer_id + 1, 0)
    late = identity._replace(producer_epoch=9)
    for call in (bench.add, bench.end):
        assert error_code_of(call, other) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert error_code_of(call, late) == ErrorCode.PRODUCER_FENCED
    for call in (bench.coordinator.end_transaction, bench.coordinator.add_partitions):
        options = (
            {"commit": True, "version": bench.version}
            if call == bench.coordinator.end_transaction
            else {"new_partitions": [T0]}
        )
        assert error_code_of(call, "nobody", 1, 0, **options) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert error_code_of(call, "", 1, 0, **options) == ErrorCode.INVALID_REQUEST
    assert error_code_of(bench.coordinator.describe_transaction, "nobody") == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert error_code_of(bench.coordinator.describe_transaction, "") == ErrorCode.INVALID_REQUEST


def test_committing_an_empty_transaction_is_rejected(bench):
    identity = bench.init()
    assert error_code_of(bench.end, identity) == ErrorCode.INVALID_TXN_STATE


def test_aborting_an_empty_transaction_is_allowed_in_version_2_only():
    old = TransactionBench(0)
    assert error_code_of(old.end, old.init(), commit=False) == ErrorCode.INVALID_TXN_STATE
    new = TransactionBench(2)
    assert new.end(new.init(), commit=False) == (1000, 1)
    assert new.state is State.COMPLETE_ABORT
    assert not new.markers


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_end_succeeds_and_the_opposite_end_is_rejected(bench, commit):
    identity = bench.init()
    bench.add(identity)
    after = bench.end(identity, commit=commit)
    assert bench.end(identity, commit=commit) == after
    assert error_code_of(bench.end, identity, commit=not commit) == ErrorCode.INVALID_TXN_STATE
    assert len(bench.markers) == 1


def test_version_2_distinguishes_a_repeated_end_from_the_next_one():
    bench = TransactionBench(2)
    identity = bench.init()
    bench.add(identity)
    after = bench.end(identity)
    assert error_code_of(bench.end, after) == ErrorCode.INVALID_TXN_STATE  # commits an empty transaction
    assert bench.end(after, commit=False) == (1000, 2)
    assert error_code_of(bench.end, identity) == ErrorCode.PRODUCER_FENCED


def test_a_producer_requests_the_next_epoch(bench):
    who = bench.init()
    identity = bench.init(*who)
    assert identity == (1000, 1)
    assert bench.init(*who) == identity  # the producer did not receive the response
    assert error_code_of(bench.init, 1000, 7) == ErrorCode.PRODUCER_FENCED
    assert error_code_of(bench.init, 999, 0) == ErrorCode.PRODUCER_FENCED
    bench.init()
    assert error_code_of(bench.init, *identity) == ErrorCode.PRODUCER_FENCED


def exhaust_epochs(bench: TransactionBench) -> ProducerIdentity:
    """Return a producer with the highest epoch that the coordinator returns to clients."""
    bench.init()
    one = bench.coordinator.transactions["t"]
    bench.coordinator.transactions["t"] = replace(one, producer_epoch=MAX_PRODUCER_EPOCH - 1)
    return ProducerIdentity(1000, MAX_PRODUCER_EPOCH - 1)


def test_a_new_producer_id_follows_the_highest_epoch(bench):
    identity = exhaust_epochs(bench)
    assert bench.init(*identity) == (1001, 0)
    assert bench.init(*identity) == (1001, 0)  # the producer did not receive the response


def test_version_2_continues_with_a_new_producer_id_after_the_highest_epoch():
    bench = TransactionBench(2)
    identity = exhaust_epochs(bench)
    bench.add(identity)
    after = bench.end(identity)
    assert after == (1001, 0)
    assert bench.markers == [(T0, True, 1000, MAX_PRODUCER_EPOCH, 7)]
    assert bench.end(identity) == after
    bench.restart()
    assert bench.end(identity) == after
    bench.add(after)


def test_fencing_the_highest_epoch_uses_the_reserved_one(bench):
    identity = exhaust_epochs(bench)
    bench.add(identity)
    assert bench.init_again().producer_id == 1001
    assert bench.markers[0][3] == MAX_PRODUCER_EPOCH


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced(bench):
    identity = bench.init(timeout_ms=30_000)
    bench.clock.advance(100)
    bench.add(identity)
    bench.clock.advance(29)
    assert bench.state is State.ONGOING
    bench.clock.advance(12)
    assert bench.state is State.COMPLETE_ABORT
    assert [marker[1] for marker in bench.markers] == [False]
    late = ErrorCode.INVALID_TXN_STATE if bench.version == 2 else ErrorCode.PRODUCER_FENCED  # as Kafka 4.3.1
    assert error_code_of(bench.end, identity) == late
    assert error_code_of(bench.add, identity) == ErrorCode.PRODUCER_FENCED
    if bench.version == 2:
        assert bench.init(*identity).producer_epoch == identity.producer_epoch + 1  # it may continue
    new = bench.init()
    bench.add(new)
    bench.end(new)


def test_unused_transactional_ids_expire(bench):
    bench.init()
    bench.coordinator.init_producer_id("open", 900_000)
    bench.clock.advance(604_800 - 3_700)
    bench.coordinator.init_producer_id("late", 60_000)
    bench.clock.advance(7_300)
    assert set(bench.coordinator.transactions) == {"late"}
    bench.restart()
    assert set(bench.coordinator.transactions) == {"late"}


@pytest.mark.parametrize("commit", [True, False])
def test_a_decision_survives_a_crash_before_its_markers(bench, commit):
    identity = bench.init()
    bench.add(identity, T0, T1)
    bench.failing_partitions = {T1}
    bench.end(identity, commit=commit)
    assert bench.state in {State.PREPARE_COMMIT, State.PREPARE_ABORT}
    assert error_code_of(bench.init) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert error_code_of(bench.end, identity, commit=commit) == ErrorCode.CONCURRENT_TRANSACTIONS
    now = ProducerIdentity(1000, bench.coordinator.describe_transaction("t").producer_epoch)
    assert error_code_of(bench.add, now) == ErrorCode.CONCURRENT_TRANSACTIONS
    bench.failing_partitions = set()
    bench.restart()
    assert bench.state in {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
    assert {marker[:2] for marker in bench.markers} == {(T0, commit), (T1, commit)}


def test_a_failed_marker_write_is_retried(bench):
    identity = bench.init()
    bench.add(identity)
    bench.failing_partitions = {T0}
    bench.end(identity)
    bench.clock.advance(3)
    assert bench.state is State.PREPARE_COMMIT
    bench.failing_partitions = set()
    bench.clock.advance(1)
    assert bench.state is State.COMPLETE_COMMIT


def test_many_markers_are_written_in_steps_without_a_transaction_in_between(bench):
    """Previously 20,000 markers blocked the broker for 35 s. Kafka also responds before the markers are written."""
    turns = []

    def begin(steps):
        if next(steps, steps) is not steps:
            turns.append(steps)

    bench.coordinator.run_steps = begin
    producer, partitions = bench.init(), {TopicPartition("many", index) for index in range(120)}
    bench.add(producer, *partitions)
    after = bench.end(producer)
    written_count, now = (
        len(bench.markers),
        ProducerIdentity(1000, bench.coordinator.describe_transaction("t").producer_epoch),
    )
    assert (0 < written_count < 60, bench.state, len(turns)) == (True, State.PREPARE_COMMIT, 1)
    for call in (bench.add, bench.end):
        assert error_code_of(call, now) in {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED}
    assert error_code_of(bench.init) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(bench.markers) == written_count
    assert len(list(turns[0])) == 1
    assert (bench.state, {row[0] for row in bench.markers}) == (State.COMPLETE_COMMIT, partitions)
    assert len(bench.markers) == 120
    bench.add(after if bench.version else producer)


def test_steps_started_before_a_restart_write_nothing(bench):
    turns = []
    bench.coordinator.run_steps = lambda steps: turns.append((next(steps), steps))
    producer = bench.init()
    bench.add(producer, *(TopicPartition("many", index) for index in range(120)))
    bench.end(producer)
    late = bench.coordinator
    bench.restart()
    # the restarted coordinator writes all markers again
    assert (bench.state, len(bench.markers)) == (State.COMPLETE_COMMIT, 50 + 120)
    late.transactions = bench.coordinator.transactions
    assert list(turns[0][1]) == []
    assert len(bench.markers) == 50 + 120


def test_a_failed_append_changes_nothing(bench):
    identity = bench.init()
    bench.log.is_broken = True
    for call in (bench.init, lambda: bench.add(identity)):
        with pytest.raises(StorageError):
            call()
    bench.log.is_broken = False
    bench.add(identity)
    bench.log.is_broken = True
    with pytest.raises(StorageError):
        bench.end(identity)
    bench.log.is_broken = False
    assert bench.state is State.ONGOING
    bench.end(identity)


def test_produced_partitions_must_be_part_of_the_transaction(bench):
    identity = bench.init()
    bench.add(identity)
    admit = bench.coordinator.check_produce
    assert admit("t", *identity, "orders", 0, may_add=False) == 0
    assert admit("t", *identity, "orders", 1, may_add=False) == ErrorCode.INVALID_TXN_STATE
    assert admit("t", *identity, "orders", 1, may_add=False, knows_abortable=True) == ErrorCode.TRANSACTION_ABORTABLE
    assert admit("t", *identity, "orders", 1, may_add=True) == 0
    assert admit("t", *identity, "orders", 1, may_add=False) == 0
    assert admit("t", identity.producer_id, 9, "orders", 0, may_add=False) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert admit("u", *identity, "orders", 0, may_add=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_transactions_are_listed_by_state_producer_age_and_name(bench):
    bench.add(bench.init())
    bench.clock.advance(3)
    bench.coordinator.init_producer_id("other", 1_000)
    list_transactions = bench.coordinator.list_transactions

    def names(**filters: Any) -> set[str]:
        return {transaction.transactional_id for transaction in list_transactions(**filters)}

    assert names() == {"t", "other"}
    assert names(states=["Ongoing"]) == {"t"}
    assert names(producer_ids=[1001]) == {"other"}
    assert names(states=["Ongoing"], longer_than_ms=2_999) == {"t"}
    assert names(states=["Ongoing"], longer_than_ms=3_000) == set()
    assert names(transactional_ids={"other", "absent"}) == {"other"}


def test_records_have_the_version_of_the_feature_level(bench):
    bench.add(bench.init(), T0, T1)
    record = decode_coordinator_record("__transaction_state", bench.log.rows[-1].key, bench.log.rows[-1].value)
    assert record.value_version == (1 if bench.version else 0)
    (topic,) = record.value.transaction_partitions
    assert (topic.topic, topic.partition_ids) == ("orders", [0, 1])
    first = decode_coordinator_record("__transaction_state", bench.log.rows[0].key, bench.log.rows[0].value)
    assert first.value.transaction_partitions is None


def test_unreadable_records_are_counted_and_skipped(bench):
    bench.init()
    row = bench.log.rows[0]
    bench.log.rows += [row._replace(key=b"\0\x09x"), row._replace(value=row.value[:5])]
    bench.restart()
    assert bench.coordinator.undecodable_count == 2
    assert bench.init() == (1000, 1)


def test_every_group_state_has_its_valid_predecessors():
    assert set(VALID_PREVIOUS_STATES) == set(TransactionState)
