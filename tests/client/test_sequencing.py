"""A producer's batch order and its reaction to responses: single cases and schedules from Hypothesis."""

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule
from tests.soak.producer_schedules import (
    FAULTS,
    FENCED,
    FEW_REPLICAS,
    INT32_MAX,
    MODES,
    NODES,
    OUT_OF_ORDER,
    PARTITIONS,
    SCRIPTS,
    STALE_LEADER,
    TOO_LARGE,
    ProducerSimulation,
    explore,
)

from kafkaframes.client.batches import Batch, ProducerIdentity
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.sequencing import Sequencer
from kafkaframes.errors import BrokerError, ErrorCode, MaybeWrittenError, NetworkError

T_0 = TopicPartition("t", 0)
FIRST, SECOND = "the first connection", "the second connection"


def machine(**changes) -> Sequencer:
    settings = {"max_in_flight": 5, "retries": INT32_MAX, "delivery_timeout_s": 10.0, "backoff_s": lambda attempt: 0.0}
    sequencer = Sequencer(**settings | changes)
    sequencer.set_producer(ProducerIdentity(7, 0))
    return sequencer


def add_batches(sequencer: Sequencer, count: int, *, created_s: float = 0.0) -> list[Batch]:
    batches = [Batch(T_0, b"12", 1, created_s, None) for _ in range(count)]
    for batch in batches:
        sequencer.enqueue(batch)
    return batches


def acknowledge_first(sequencer: Sequencer) -> None:
    """Let the leader acknowledge a first batch, so that several batches may be in flight."""
    add_batches(sequencer, 1)
    sequencer.process_acknowledgement(sequencer.take_batch(T_0, FIRST, 0.0), 0, -1)
    sequencer.finished_batches.clear()


def take_all(sequencer: Sequencer, connection: object) -> list[Batch]:
    taken_batches = []
    while (batch := sequencer.take_batch(T_0, connection, 0.0)) is not None:
        taken_batches.append(batch)
    return taken_batches


def refuse(sequencer: Sequencer, batch: Batch, number: int) -> None:
    sequencer.process_error(batch, BrokerError("refused", ErrorCode(number)), 0.0)


def take_errors(sequencer: Sequencer) -> list[type | None]:
    return [
        None if ended_batch.error is None else type(ended_batch.error) for ended_batch in sequencer.finished_batches
    ]


def sequences(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(batch.assigned_stamp.producer.epoch, batch.assigned_stamp.base_sequence) for batch in batches]


def test_the_first_batch_of_a_producer_id_is_sent_alone():
    one = machine()
    add_batches(one, 3)
    assert len(take_all(one, FIRST)) == 1


def test_in_flight_batches_are_limited():
    one = machine(max_in_flight=2)
    acknowledge_first(one)
    add_batches(one, 3)
    assert len(take_all(one, FIRST)) == 2


def test_a_batch_is_not_sent_on_another_connection_while_earlier_ones_are_in_flight():
    one = machine()
    acknowledge_first(one)
    add_batches(one, 2)
    one.take_batch(T_0, FIRST, 0.0)
    assert one.take_batch(T_0, SECOND, 0.0) is None
    assert one.take_batch(T_0, FIRST, 0.0) is not None


def test_batches_are_retried_in_their_order_regardless_of_the_order_of_responses():
    one = machine()
    acknowledge_first(one)
    batches = add_batches(one, 4)
    taken_batches = [one.take_batch(T_0, FIRST, 0.0) for _ in range(3)]
    before = sequences(taken_batches)
    for batch in (taken_batches[1], taken_batches[2]):
        one.process_loss(batch, NetworkError("cut"), 0.0)
        assert one.take_batch(T_0, FIRST, 0.0) is None  # the first batch has no response yet
    one.process_loss(taken_batches[0], NetworkError("cut"), 0.0)
    assert take_all(one, SECOND) == batches
    assert sequences(batches[:3]) == before


def test_at_most_four_batches_follow_one_without_a_result():
    sequencer = machine()
    acknowledge_first(sequencer)
    batches = add_batches(sequencer, 8)
    first, *later_batches = (sequencer.take_batch(T_0, FIRST, 0.0) for _ in range(3))
    refuse(sequencer, first, 20)  # the batch is in the log, but too few replicas have it
    for offset, batch in enumerate(later_batches):
        sequencer.process_acknowledgement(batch, 2 + offset, -1)
    assert take_all(sequencer, FIRST) == [first, *batches[3:5]]
    sequencer.process_acknowledgement(first, 1, -1)
    assert take_all(sequencer, FIRST) == batches[5:8]


def test_a_retried_batch_waits_for_its_backoff():
    one = machine(backoff_s=lambda attempt: 5.0)
    add_batches(one, 1)
    one.process_loss(one.take_batch(T_0, FIRST, 0.0), NetworkError("cut"), 0.0)
    assert one.take_batch(T_0, FIRST, 4.9) is None
    assert one.next_time(0.0) == 5.0
    assert one.take_batch(T_0, FIRST, 5.0) is not None


def test_an_out_of_order_batch_is_retried_while_an_earlier_batch_is_open():
    one = machine()
    acknowledge_first(one)
    add_batches(one, 2)
    first, second = take_all(one, FIRST)
    refuse(one, first, FEW_REPLICAS)
    refuse(one, second, OUT_OF_ORDER)
    assert not one.finished_batches
    assert sequences(take_all(one, FIRST)) == [(0, 1), (0, 2)]


def test_batches_after_a_failed_batch_are_renumbered_once_its_fate_is_known():
    one = machine()
    acknowledge_first(one)
    add_batches(one, 3)
    first, second, third = take_all(one, FIRST)
    refuse(one, first, TOO_LARGE)
    refuse(one, second, OUT_OF_ORDER)
    assert one.take_batch(T_0, FIRST, 0.0) is None  # the third batch may still be written
    one.process_loss(third, NetworkError("cut"), 0.0)
    assert sequences([one.take_batch(T_0, SECOND, 0.0)]) == [(0, 3)]  # the retry determines whether it was written
    refuse(one, third, OUT_OF_ORDER)
    assert sequences(take_all(one, SECOND)) == [(1, 0), (1, 1)]
    assert take_errors(one) == [BrokerError]


def test_batches_that_expire_without_a_response_may_be_written_and_later_ones_start_a_new_epoch():
    one = machine()
    acknowledge_first(one)
    add_batches(one, 1)
    one.process_loss(one.take_batch(T_0, FIRST, 0.0), NetworkError("cut"), 0.0)
    one.expire_batches(10.0)
    assert take_errors(one) == [MaybeWrittenError]
    add_batches(one, 1, created_s=10.0)
    assert sequences(take_all(one, FIRST)) == [(1, 0)]


def test_an_expired_in_flight_batch_fails_and_its_late_response_settles_the_sequences():
    """KIP-91: Java's Sender fails expired in-flight batches, and drains no new ones until their responses have
    arrived.
    """
    one = machine()
    acknowledge_first(one)
    (expired_batch,) = add_batches(one, 1)
    assert take_all(one, FIRST) == [expired_batch]
    assert one.next_time(0.0) == 10.0
    one.expire_batches(10.0)
    assert take_errors(one) == [MaybeWrittenError]
    assert one.open_batches == one.open_bytes == 0
    (later,) = add_batches(one, 1, created_s=10.0)
    assert not take_all(one, FIRST)
    one.process_acknowledgement(expired_batch, 1, -1)
    assert len(one.finished_batches) == 1
    assert take_all(one, FIRST) == [later]
    assert sequences([later]) == [(0, 2)]


def test_the_epoch_is_bumped_after_an_expired_in_flight_batch_was_not_written():
    one = machine()
    acknowledge_first(one)
    (expired_batch,) = add_batches(one, 1)
    take_all(one, FIRST)
    one.expire_batches(10.0)
    (later,) = add_batches(one, 1, created_s=10.0)
    one.process_loss(expired_batch, NetworkError("lost"), 10.0)
    assert len(one.finished_batches) == 1
    assert take_all(one, SECOND) == [later]
    assert sequences([later]) == [(1, 0)]


def test_a_transaction_reports_its_first_error():
    one = machine()
    one.transactional = True
    first, _ = add_batches(one, 2)
    one.take_batch(T_0, FIRST, 0.0)
    one.process_error(first, BrokerError("fenced", ErrorCode.INVALID_PRODUCER_EPOCH), 0.0)
    assert one.abort_cause.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert "fenced" in str(one.finished_batches[1].error)
    one.set_producer(ProducerIdentity(7, 1))
    assert one.abort_cause is None


def test_the_epoch_is_kept_if_the_batch_after_an_expired_one_is_acknowledged():
    one = machine()
    acknowledge_first(one)
    add_batches(one, 1)
    add_batches(one, 1, created_s=5.0)
    for batch in take_all(one, FIRST):
        one.process_loss(batch, NetworkError("cut"), 5.0)
    one.expire_batches(10.0)
    add_batches(one, 1, created_s=10.0)
    later_batch = one.take_batch(T_0, SECOND, 10.0)
    assert one.take_batch(T_0, SECOND, 10.0) is None  # only after the result of the following batch is known
    one.process_acknowledgement(later_batch, 2, -1)
    assert sequences(take_all(one, SECOND)) == [(0, 3)]


def test_batches_of_unknown_fate_are_never_renumbered():
    one = machine()
    acknowledge_first(one)
    add_batches(one, 1)
    add_batches(one, 2, created_s=5.0)
    expired_batch, in_doubt, absent = take_all(one, FIRST)
    for batch in (expired_batch, in_doubt):
        one.process_loss(batch, NetworkError("cut"), 5.0)
    refuse(one, absent, OUT_OF_ORDER)
    one.expire_batches(10.0)
    refuse(one, one.take_batch(T_0, SECOND, 10.0), OUT_OF_ORDER)  # both batches may still reach the leader
    assert [ended_batch.batch for ended_batch in one.finished_batches] == [expired_batch, in_doubt]
    assert take_errors(one) == [MaybeWrittenError] * 2
    assert one.take_batch(T_0, SECOND, 10.0) is absent
    assert sequences([absent]) == [(1, 0)]


def test_another_partition_keeps_its_epoch_until_its_open_batches_have_ended():
    one = machine()
    other = Batch(TopicPartition("t", 1), b"", 1, 0.0, None)
    one.enqueue(other)
    one.take_batch(other.partition, FIRST, 0.0)
    add_batches(one, 1)
    refuse(one, one.take_batch(T_0, FIRST, 0.0), TOO_LARGE)
    assert one.producer.epoch == 1
    one.process_loss(other, NetworkError("cut"), 0.0)
    assert sequences([one.take_batch(other.partition, SECOND, 0.0)]) == [(0, 0)]


def test_an_exhausted_epoch_requires_a_new_producer_id():
    one = machine()
    one.set_producer(ProducerIdentity(7, 32_767))
    add_batches(one, 2)
    refuse(one, one.take_batch(T_0, FIRST, 0.0), TOO_LARGE)
    assert one.needs_new_id
    assert one.take_batch(T_0, FIRST, 0.0) is None
    one.set_producer(ProducerIdentity(8, 0))
    assert sequences(take_all(one, FIRST)) == [(0, 0)]


def test_parts_of_a_too_large_batch_take_its_place_and_sequences():
    one = machine()
    acknowledge_first(one)
    large = Batch(T_0, b"12345", 5, 0.0, None)
    one.enqueue(large)
    after = add_batches(one, 2)
    assert take_all(one, FIRST) == [large, *after]
    parts = [Batch(T_0, b"12", 2, 9.0, None), Batch(T_0, b"345", 3, 9.0, None)]
    one.split_batch(large, parts)
    assert (one.open_batches, one.open_bytes) == (4, 9)
    assert one.take_batch(T_0, FIRST, 0.0) is None  # the batches after it are in flight
    for batch in after:
        refuse(one, batch, OUT_OF_ORDER)
    assert take_all(one, FIRST) == [*parts, *after]
    assert sequences([*parts, *after]) == [(0, 1), (0, 3), (0, 6), (0, 7)]
    assert [(part.first, part.created_at) for part in parts] == [(0, 0.0), (2, 0.0)]


def test_single_records_and_batches_of_a_failed_transaction_are_not_divided():
    one = machine()
    one.transactional = True
    single, several = (Batch(T_0, b"12", count, 0.0, None) for count in (1, 2))
    assert (one.can_split(single), one.can_split(several)) == (False, True)
    one.fail_transaction(BrokerError("refused"))
    assert not one.can_split(several)


@pytest.mark.parametrize(("number", "kind"), [(TOO_LARGE, BrokerError), (STALE_LEADER, MaybeWrittenError)])
def test_a_rejected_batch_is_not_written_unless_its_error_can_follow_the_append(number, kind):
    sequencer = machine(retries=0)
    add_batches(sequencer, 1)
    refuse(sequencer, sequencer.take_batch(T_0, FIRST, 0.0), number)
    assert take_errors(sequencer) == [kind]


def test_a_failed_batch_fails_all_waiting_batches_of_its_transaction():
    sequencer = machine()
    sequencer.transactional = True
    add_batches(sequencer, 3)
    refuse(sequencer, sequencer.take_batch(T_0, FIRST, 0.0), FENCED)
    assert take_errors(sequencer) == [BrokerError] * 3
    assert sequencer.must_abort
    add_batches(sequencer, 1)
    assert take_errors(sequencer) == [BrokerError] * 4
    sequencer.set_producer(ProducerIdentity(7, 1))
    add_batches(sequencer, 1)
    assert sequences(take_all(sequencer, FIRST)) == [(1, 0)]


def test_batches_in_flight_at_close_may_be_written():
    one = machine()
    add_batches(one, 2)
    one.take_batch(T_0, FIRST, 0.0)
    one.fail_all_batches(NetworkError("closed"))
    assert take_errors(one) == [MaybeWrittenError, NetworkError]
    assert (one.open_batches, one.open_bytes) == (0, 0)


# --------------------------------------------------------------------------------------------------------- schedules


RECORD_SIZES = st.lists(st.integers(1, 2), max_size=2)


class SequencerMachine(RuleBasedStateMachine):
    """A Hypothesis state machine: simulated events in any order; the invariants are checked at the end."""

    simulation: ProducerSimulation | None = None

    @initialize(
        mode=st.sampled_from(MODES),
        max_in_flight=st.integers(1, 5),
        retries=st.sampled_from([1, 3, INT32_MAX]),
        epoch=st.sampled_from([0, 32_766]),
        first_sequence=st.sampled_from([0, INT32_MAX - 2]),
        raises_epochs=st.booleans(),
    )
    def begin(self, mode, max_in_flight, retries, epoch, first_sequence, raises_epochs):
        self.simulation = ProducerSimulation(
            mode=mode,
            max_in_flight=max_in_flight,
            retries=retries,
            epoch=0 if mode == "transactions" else epoch,
            first_sequence=0 if mode == "plain" else first_sequence,
            raises_epochs=raises_epochs,
        )

    @rule(partition=st.integers(0, PARTITIONS - 1), count=st.integers(1, 3))
    def put(self, partition, count):
        self.simulation.queue_batch(partition, count)

    @rule(partition=st.integers(0, PARTITIONS - 1), is_cut=st.sampled_from([False, False, False, True]))
    def send(self, partition, is_cut):
        self.simulation.send(partition, is_cut=is_cut)

    @rule(wire=st.integers(0, 5), fault=st.sampled_from(FAULTS))
    def handle(self, wire, fault):
        self.simulation.handle(wire, fault=fault)

    @rule(wire=st.integers(0, 5), sizes=RECORD_SIZES)
    def deliver(self, wire, sizes):
        self.simulation.deliver(wire, sizes=sizes)

    @rule(partition=st.integers(0, PARTITIONS - 1), sizes=RECORD_SIZES)
    def divide(self, partition, sizes):
        self.simulation.divide_next(partition, sizes)

    @rule(wire=st.integers(0, 5), kept_count=st.integers(0, 5))
    def cut(self, wire, kept_count):
        self.simulation.end_connection(wire, kept_count=kept_count)

    @rule(partition=st.integers(0, PARTITIONS - 1), retriable=st.booleans())
    def refuse_connection(self, partition, retriable):
        self.simulation.refuse_connection(partition, retriable=retriable)

    @rule(partition=st.integers(0, PARTITIONS - 1))
    def move(self, partition):
        self.simulation.move(partition)

    @rule(node=st.integers(0, NODES - 1))
    def restart(self, node):
        self.simulation.restart(node)

    @rule()
    def learn(self):
        self.simulation.refresh_metadata()

    @rule(seconds=st.sampled_from([0.05, 0.5, 6.0]))
    def pass_time(self, seconds):
        self.simulation.pass_time(seconds)

    @precondition(lambda self: self.simulation is not None and self.simulation.machine.needs_new_id)
    @rule()
    def renew(self):
        self.simulation.renew_producer_id()

    @precondition(lambda self: self.simulation is not None and self.simulation.mode == "transactions")
    @rule(commit=st.booleans(), answers_lost=st.integers(0, 2))
    def end_transaction(self, commit, answers_lost):
        self.simulation.end_transaction(commit=commit, answers_lost=answers_lost)

    def teardown(self):
        if self.simulation is not None:
            self.simulation.heal()
            self.simulation.end_transaction(commit=True, answers_lost=0)
            self.simulation.handle_leftovers()
            self.simulation.check()


TestSchedules = SequencerMachine.TestCase


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_schedules_that_chance_does_not_find(script):
    script()


def test_random_schedules_keep_the_sequencing_invariants():
    for seed in range(1_000):
        explore(seed)
