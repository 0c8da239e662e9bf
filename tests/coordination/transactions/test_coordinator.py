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
class Bench:
    """A coordinator, a log in memory, and the markers that were written."""

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
            self.write,
            lambda _partition: 7,
        )
        self.coordinator.load_transactions(list(self.log.rows))

    def write(self, where: TopicPartition, **marker: Any) -> None:
        if where in self.failing_partitions:
            raise StorageError("the disk is full")
        self.markers.append((where, *marker.values()))

    def init(self, *expected_identity: int, name: str = "t", timeout_ms: int = 60_000) -> ProducerIdentity:
        return self.coordinator.init_producer_id(
            name, timeout_ms, ProducerIdentity(*expected_identity) if expected_identity else None
        )

    def init_again(self) -> ProducerIdentity:
        """Initialise as clients do: retry after CONCURRENT_TRANSACTIONS."""
        assert to_error_code(self.init) == ErrorCode.CONCURRENT_TRANSACTIONS
        return self.init()

    def add(self, who: ProducerIdentity, *partitions: TopicPartition) -> None:
        self.coordinator.add_partitions("t", *who, partitions or (T0,), version=self.version)

    def end(self, who: ProducerIdentity, *, commit: bool = True, version: int | None = None) -> ProducerIdentity:
        version = self.version if version is None else version
        return self.coordinator.end_transaction("t", *who, commit=commit, version=version)

    @property
    def state(self) -> TransactionState:
        return self.coordinator.describe_transaction("t").state

    @property
    def written(self) -> list[str]:
        """The transaction states in the log, in order."""
        by_number = {one.number: one.kafka_name for one in TransactionState}
        return [
            by_number[decode_coordinator_record("__transaction_state", row.key, row.value).value.transaction_status]
            for row in self.log.rows
            if row.value is not None
        ]


def to_error_code(call: Any, *arguments: Any, **options: Any) -> int:
    with pytest.raises(RefusedError) as caught:
        call(*arguments, **options)
    return caught.value.code


@pytest.fixture(params=[0, 2], ids=["version 0", "version 2"])
def bench(request):
    return Bench(request.param)


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
    assert to_error_code(bench.init, name=name, timeout_ms=timeout_ms) == code


@pytest.mark.parametrize("commit", [True, False])
def test_each_state_is_logged_and_every_partition_gets_a_marker(bench, commit):
    who = bench.init()
    bench.add(who)
    bench.add(who, T0, T1)
    bench.add(who, T1)  # the partition is already part of it: nothing is written
    after = bench.end(who, commit=commit)
    name = "Commit" if commit else "Abort"
    assert bench.written == ["Empty", "Ongoing", "Ongoing", f"Prepare{name}", f"Complete{name}"]
    epoch = 1 if bench.version == 2 else 0
    assert after == (1000, epoch)
    assert bench.markers == [(where, commit, 1000, epoch, 7) for where in (T0, T1)]
    bench.restart()
    assert bench.coordinator.describe_transaction("t").partitions == frozenset()
    assert len(bench.markers) == 2
    bench.add(after)
    assert bench.state is State.ONGOING


def test_the_next_transaction_starts_with_its_first_partition(bench):
    who = bench.init()
    bench.add(who)
    began = bench.coordinator.describe_transaction("t").start_ms
    who = bench.end(who)
    bench.clock.advance(5)
    bench.add(who, T1)
    assert bench.coordinator.describe_transaction("t").start_ms == began + 5_000
    bench.clock.advance(1)
    bench.add(who, T0)
    assert bench.coordinator.describe_transaction("t").start_ms == began + 5_000


def test_the_next_initialisation_aborts_an_open_transaction(bench):
    old = bench.init()
    bench.add(old)
    new = bench.init_again()
    ((where, commit, _, epoch, _),) = bench.markers
    assert (where, commit) == (T0, False)
    assert (epoch, new.producer_epoch) == (1, 2)
    assert old.producer_epoch < epoch < new.producer_epoch  # no producer has the epoch of the marker
    assert to_error_code(bench.add, old) == ErrorCode.PRODUCER_FENCED
    assert to_error_code(bench.end, old) == ErrorCode.PRODUCER_FENCED


def test_requests_of_other_producers_are_rejected(bench):
    who = bench.init()
    other = ProducerIdentity(who.producer_id + 1, 0)
    late = who._replace(producer_epoch=9)
    for call in (bench.add, bench.end):
        assert to_error_code(call, other) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert to_error_code(call, late) == ErrorCode.PRODUCER_FENCED
    for call in (bench.coordinator.end_transaction, bench.coordinator.add_partitions):
        options = (
            {"commit": True, "version": bench.version}
            if call == bench.coordinator.end_transaction
            else {"new_partitions": [T0]}
        )
        assert to_error_code(call, "nobody", 1, 0, **options) == ErrorCode.INVALID_PRODUCER_ID_MAPPING
        assert to_error_code(call, "", 1, 0, **options) == ErrorCode.INVALID_REQUEST
    assert to_error_code(bench.coordinator.describe_transaction, "nobody") == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert to_error_code(bench.coordinator.describe_transaction, "") == ErrorCode.INVALID_REQUEST


def test_committing_an_empty_transaction_is_rejected(bench):
    who = bench.init()
    assert to_error_code(bench.end, who) == ErrorCode.INVALID_TXN_STATE


def test_aborting_an_empty_transaction_is_allowed_in_version_2_only():
    old = Bench(0)
    assert to_error_code(old.end, old.init(), commit=False) == ErrorCode.INVALID_TXN_STATE
    new = Bench(2)
    assert new.end(new.init(), commit=False) == (1000, 1)
    assert new.state is State.COMPLETE_ABORT
    assert not new.markers


@pytest.mark.parametrize("commit", [True, False])
def test_a_repeated_end_succeeds_and_the_opposite_end_is_rejected(bench, commit):
    who = bench.init()
    bench.add(who)
    after = bench.end(who, commit=commit)
    assert bench.end(who, commit=commit) == after
    assert to_error_code(bench.end, who, commit=not commit) == ErrorCode.INVALID_TXN_STATE
    assert len(bench.markers) == 1


def test_version_2_distinguishes_a_repeated_end_from_the_next_one():
    bench = Bench(2)
    who = bench.init()
    bench.add(who)
    after = bench.end(who)
    assert to_error_code(bench.end, after) == ErrorCode.INVALID_TXN_STATE  # commits an empty transaction
    assert bench.end(after, commit=False) == (1000, 2)
    assert to_error_code(bench.end, who) == ErrorCode.PRODUCER_FENCED


def test_a_producer_requests_the_next_epoch(bench):
    who = bench.init()
    identity = bench.init(*who)
    assert identity == (1000, 1)
    assert bench.init(*who) == identity  # it did not receive the response
    assert to_error_code(bench.init, 1000, 7) == ErrorCode.PRODUCER_FENCED
    assert to_error_code(bench.init, 999, 0) == ErrorCode.PRODUCER_FENCED
    bench.init()
    assert to_error_code(bench.init, *identity) == ErrorCode.PRODUCER_FENCED


def exhaust_epochs(bench: Bench) -> ProducerIdentity:
    """Return a producer with the highest epoch that clients get."""
    bench.init()
    one = bench.coordinator.transactions["t"]
    bench.coordinator.transactions["t"] = replace(one, producer_epoch=MAX_PRODUCER_EPOCH - 1)
    return ProducerIdentity(1000, MAX_PRODUCER_EPOCH - 1)


def test_a_new_producer_id_follows_the_highest_epoch(bench):
    who = exhaust_epochs(bench)
    assert bench.init(*who) == (1001, 0)
    assert bench.init(*who) == (1001, 0)  # it did not receive the response


def test_version_2_continues_with_a_new_producer_id_after_the_highest_epoch():
    bench = Bench(2)
    who = exhaust_epochs(bench)
    bench.add(who)
    after = bench.end(who)
    assert after == (1001, 0)
    assert bench.markers == [(T0, True, 1000, MAX_PRODUCER_EPOCH, 7)]
    assert bench.end(who) == after
    bench.restart()
    assert bench.end(who) == after
    bench.add(after)


def test_fencing_the_highest_epoch_uses_the_reserved_one(bench):
    who = exhaust_epochs(bench)
    bench.add(who)
    assert bench.init_again().producer_id == 1001
    assert bench.markers[0][3] == MAX_PRODUCER_EPOCH


def test_a_timed_out_transaction_is_aborted_and_its_producer_fenced(bench):
    who = bench.init(timeout_ms=30_000)
    bench.clock.advance(100)
    bench.add(who)
    bench.clock.advance(29)
    assert bench.state is State.ONGOING
    bench.clock.advance(12)
    assert bench.state is State.COMPLETE_ABORT
    assert [marker[1] for marker in bench.markers] == [False]
    late = ErrorCode.INVALID_TXN_STATE if bench.version == 2 else ErrorCode.PRODUCER_FENCED  # as Kafka 4.3.1
    assert to_error_code(bench.end, who) == late
    assert to_error_code(bench.add, who) == ErrorCode.PRODUCER_FENCED
    if bench.version == 2:
        assert bench.init(*who).producer_epoch == who.producer_epoch + 1  # it may continue
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
    who = bench.init()
    bench.add(who, T0, T1)
    bench.failing_partitions = {T1}
    bench.end(who, commit=commit)
    assert bench.state in {State.PREPARE_COMMIT, State.PREPARE_ABORT}
    assert to_error_code(bench.init) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert to_error_code(bench.end, who, commit=commit) == ErrorCode.CONCURRENT_TRANSACTIONS
    now = ProducerIdentity(1000, bench.coordinator.describe_transaction("t").producer_epoch)
    assert to_error_code(bench.add, now) == ErrorCode.CONCURRENT_TRANSACTIONS
    bench.failing_partitions = set()
    bench.restart()
    assert bench.state in {State.COMPLETE_COMMIT, State.COMPLETE_ABORT}
    assert {marker[:2] for marker in bench.markers} == {(T0, commit), (T1, commit)}


def test_a_failed_marker_write_is_retried(bench):
    who = bench.init()
    bench.add(who)
    bench.failing_partitions = {T0}
    bench.end(who)
    bench.clock.advance(3)
    assert bench.state is State.PREPARE_COMMIT
    bench.failing_partitions = set()
    bench.clock.advance(1)
    assert bench.state is State.COMPLETE_COMMIT


def test_many_markers_are_written_in_slices_without_a_transaction_in_between(bench):
    """20,000 markers blocked the broker for 35 s. Kafka also responds before the markers are written."""
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
        assert to_error_code(call, now) in {ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.PRODUCER_FENCED}
    assert to_error_code(bench.init) == ErrorCode.CONCURRENT_TRANSACTIONS
    assert len(bench.markers) == written_count
    assert len(list(turns[0])) == 1
    assert (bench.state, {row[0] for row in bench.markers}) == (State.COMPLETE_COMMIT, partitions)
    assert len(bench.markers) == 120
    bench.add(after if bench.version else producer)


def test_slices_from_before_a_restart_write_nothing(bench):
    turns = []
    bench.coordinator.run_steps = lambda steps: turns.append((next(steps), steps))
    producer = bench.init()
    bench.add(producer, *(TopicPartition("many", index) for index in range(120)))
    bench.end(producer)
    late = bench.coordinator
    bench.restart()
    assert (bench.state, len(bench.markers)) == (State.COMPLETE_COMMIT, 50 + 120)  # again from the first marker
    late.transactions = bench.coordinator.transactions
    assert list(turns[0][1]) == []
    assert len(bench.markers) == 50 + 120


def test_a_failed_append_changes_nothing(bench):
    who = bench.init()
    bench.log.is_broken = True
    for call in (bench.init, lambda: bench.add(who)):
        with pytest.raises(StorageError):
            call()
    bench.log.is_broken = False
    bench.add(who)
    bench.log.is_broken = True
    with pytest.raises(StorageError):
        bench.end(who)
    bench.log.is_broken = False
    assert bench.state is State.ONGOING
    bench.end(who)


def test_produced_partitions_must_be_part_of_the_transaction(bench):
    who = bench.init()
    bench.add(who)
    admit = bench.coordinator.check_produce
    assert admit("t", *who, "orders", 0, may_add=False) == 0
    assert admit("t", *who, "orders", 1, may_add=False) == ErrorCode.INVALID_TXN_STATE
    assert admit("t", *who, "orders", 1, may_add=False, knows_abortable=True) == ErrorCode.TRANSACTION_ABORTABLE
    assert admit("t", *who, "orders", 1, may_add=True) == 0
    assert admit("t", *who, "orders", 1, may_add=False) == 0
    assert admit("t", who.producer_id, 9, "orders", 0, may_add=False) == ErrorCode.INVALID_PRODUCER_EPOCH
    assert admit("u", *who, "orders", 0, may_add=True) == ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_transactions_are_listed_by_state_producer_age_and_name(bench):
    bench.add(bench.init())
    bench.clock.advance(3)
    bench.coordinator.init_producer_id("other", 1_000)
    list_transactions = bench.coordinator.list_transactions

    def names(**filters: Any) -> set[str]:
        return {one.transactional_id for one in list_transactions(**filters)}

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


def test_every_state_has_its_predecessors():
    assert set(VALID_PREVIOUS_STATES) == set(TransactionState)
