"""The order of a producer's batches, and its reaction to responses: single cases, and schedules from Hypothesis."""

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

TARGET = TopicPartition("t", 0)
FIRST, SECOND = "the first connection", "the second connection"


def machine(**changes) -> Sequencer:
    settings = {"max_in_flight": 5, "retries": INT32_MAX, "delivery_timeout_s": 10.0, "backoff_s": lambda attempt: 0.0}
    sequencer = Sequencer(**settings | changes)
    sequencer.set_producer(ProducerIdentity(7, 0))
    return sequencer


def put_batches(sequencer: Sequencer, count: int, *, created_s: float = 0.0) -> list[Batch]:
    batches = [Batch(TARGET, b"12", 1, created_s, None) for _ in range(count)]
    for batch in batches:
        sequencer.enqueue(batch)
    return batches


def acknowledge_first(sequencer: Sequencer) -> None:
    """Let the leader acknowledge a first batch, so that several may be under way."""
    put_batches(sequencer, 1)
    sequencer.process_acknowledgement(sequencer.take_batch(TARGET, FIRST, 0.0), 0, -1)
    sequencer.finished_batches.clear()


def take_all(sequencer: Sequencer, connection: object) -> list[Batch]:
    taken_batches = []
    while (batch := sequencer.take_batch(TARGET, connection, 0.0)) is not None:
        taken_batches.append(batch)
    return taken_batches


def refuse(sequencer: Sequencer, batch: Batch, number: int) -> None:
    sequencer.process_error(batch, BrokerError("refused", ErrorCode(number)), 0.0)


def errors(sequencer: Sequencer) -> list[type | None]:
    return [
        None if ended_batch.error is None else type(ended_batch.error) for ended_batch in sequencer.finished_batches
    ]


def sequences(batches: list[Batch]) -> list[tuple[int, int]]:
    return [(batch.assigned_stamp.producer.epoch, batch.assigned_stamp.base_sequence) for batch in batches]


def test_the_first_batch_under_an_id_goes_alone():
    one = machine()
    put_batches(one, 3)
    assert len(take_all(one, FIRST)) == 1


def test_at_most_so_many_are_under_way():
    one = machine(max_in_flight=2)
    acknowledge_first(one)
    put_batches(one, 3)
    assert len(take_all(one, FIRST)) == 2


def test_a_batch_does_not_go_on_another_connection_while_earlier_ones_are_under_way():
    one = machine()
    acknowledge_first(one)
    put_batches(one, 2)
    one.take_batch(TARGET, FIRST, 0.0)
    assert one.take_batch(TARGET, SECOND, 0.0) is None
    assert one.take_batch(TARGET, FIRST, 0.0) is not None


def test_batches_that_come_back_in_any_order_go_again_in_theirs_and_nothing_overtakes_them():
    one = machine()
    acknowledge_first(one)
    batches = put_batches(one, 4)
    taken_batches = [one.take_batch(TARGET, FIRST, 0.0) for _ in range(3)]
    before = sequences(taken_batches)
    for batch in (taken_batches[1], taken_batches[2]):
        one.process_loss(batch, NetworkError("cut"), 0.0)
        assert one.take_batch(TARGET, FIRST, 0.0) is None  # the first has no answer yet
    one.process_loss(taken_batches[0], NetworkError("cut"), 0.0)
    assert take_all(one, SECOND) == batches
    assert sequences(batches[:3]) == before


def test_four_go_behind_one_without_a_result_for_a_leader_knows_five():
    one = machine()
    acknowledge_first(one)
    batches = put_batches(one, 8)
    first, *behind = (one.take_batch(TARGET, FIRST, 0.0) for _ in range(3))
    refuse(one, first, 20)  # it is in the log, and too few replicas have it
    for offset, batch in enumerate(behind):
        one.process_acknowledgement(batch, 2 + offset, -1)
    assert take_all(one, FIRST) == [first, *batches[3:5]]
    one.process_acknowledgement(first, 1, -1)
    assert take_all(one, FIRST) == batches[5:8]


def test_a_batch_waits_for_its_backoff():
    one = machine(backoff_s=lambda attempt: 5.0)
    put_batches(one, 1)
    one.process_loss(one.take_batch(TARGET, FIRST, 0.0), NetworkError("cut"), 0.0)
    assert one.take_batch(TARGET, FIRST, 4.9) is None
    assert one.next_time(0.0) == 5.0
    assert one.take_batch(TARGET, FIRST, 5.0) is not None


def test_out_of_order_is_sent_again_while_an_earlier_batch_is_open():
    one = machine()
    acknowledge_first(one)
    put_batches(one, 2)
    first, second = take_all(one, FIRST)
    refuse(one, first, FEW_REPLICAS)
    refuse(one, second, OUT_OF_ORDER)
    assert not one.finished_batches
    assert sequences(take_all(one, FIRST)) == [(0, 1), (0, 2)]


def test_behind_a_batch_that_is_refused_for_good_the_rest_is_numbered_anew_once_its_fate_is_known():
    one = machine()
    acknowledge_first(one)
    put_batches(one, 3)
    first, second, third = take_all(one, FIRST)
    refuse(one, first, TOO_LARGE)
    refuse(one, second, OUT_OF_ORDER)
    assert one.take_batch(TARGET, FIRST, 0.0) is None  # the third may still be written
    one.process_loss(third, NetworkError("cut"), 0.0)
    assert sequences([one.take_batch(TARGET, SECOND, 0.0)]) == [(0, 3)]  # asks what became of it
    refuse(one, third, OUT_OF_ORDER)
    assert sequences(take_all(one, SECOND)) == [(1, 0), (1, 1)]
    assert errors(one) == [BrokerError]


def test_what_expires_without_an_answer_may_be_written_and_the_next_begin_a_new_epoch():
    one = machine()
    acknowledge_first(one)
    put_batches(one, 1)
    one.process_loss(one.take_batch(TARGET, FIRST, 0.0), NetworkError("cut"), 0.0)
    one.expire_batches(10.0)
    assert errors(one) == [MaybeWrittenError]
    put_batches(one, 1, created_s=10.0)
    assert sequences(take_all(one, FIRST)) == [(1, 0)]


def test_a_batch_in_flight_fails_when_its_time_has_expired_and_its_late_answer_settles_the_sequences():
    """KIP-91: Java's Sender fails expired batches in flight, and drains no new ones until their answers are there."""
    one = machine()
    acknowledge_first(one)
    (expired_batch,) = put_batches(one, 1)
    assert take_all(one, FIRST) == [expired_batch]
    assert one.next_time(0.0) == 10.0
    one.expire_batches(10.0)
    assert errors(one) == [MaybeWrittenError]
    assert one.open_batches == one.open_bytes == 0
    (later,) = put_batches(one, 1, created_s=10.0)
    assert not take_all(one, FIRST)
    one.process_acknowledgement(expired_batch, 1, -1)
    assert len(one.finished_batches) == 1
    assert take_all(one, FIRST) == [later]
    assert sequences([later]) == [(0, 2)]


def test_after_a_batch_that_has_expired_in_flight_and_is_not_written_the_epoch_is_raised():
    one = machine()
    acknowledge_first(one)
    (expired_batch,) = put_batches(one, 1)
    take_all(one, FIRST)
    one.expire_batches(10.0)
    (later,) = put_batches(one, 1, created_s=10.0)
    one.process_loss(expired_batch, NetworkError("lost"), 10.0)
    assert len(one.finished_batches) == 1
    assert take_all(one, SECOND) == [later]
    assert sequences([later]) == [(1, 0)]


def test_a_transaction_names_the_first_error():
    one = machine()
    one.transactional = True
    first, _ = put_batches(one, 2)
    one.take_batch(TARGET, FIRST, 0.0)
    one.process_error(first, BrokerError("fenced", ErrorCode.INVALID_PRODUCER_EPOCH), 0.0)
    assert one.abort_cause.code == ErrorCode.INVALID_PRODUCER_EPOCH
    assert "fenced" in str(one.finished_batches[1].error)
    one.set_producer(ProducerIdentity(7, 1))
    assert one.abort_cause is None


def test_the_epoch_stays_if_what_came_behind_an_expired_batch_is_acknowledged():
    one = machine()
    acknowledge_first(one)
    put_batches(one, 1)
    put_batches(one, 1, created_s=5.0)
    for batch in take_all(one, FIRST):
        one.process_loss(batch, NetworkError("cut"), 5.0)
    one.expire_batches(10.0)
    put_batches(one, 1, created_s=10.0)
    behind = one.take_batch(TARGET, SECOND, 10.0)
    assert one.take_batch(TARGET, SECOND, 10.0) is None  # not before the result of the batch after it is known
    one.process_acknowledgement(behind, 2, -1)
    assert sequences(take_all(one, SECOND)) == [(0, 3)]


def test_behind_a_batch_of_unknown_fate_what_is_in_doubt_is_never_numbered_anew():
    one = machine()
    acknowledge_first(one)
    put_batches(one, 1)
    put_batches(one, 2, created_s=5.0)
    expired_batch, in_doubt, absent = take_all(one, FIRST)
    for batch in (expired_batch, in_doubt):
        one.process_loss(batch, NetworkError("cut"), 5.0)
    refuse(one, absent, OUT_OF_ORDER)
    one.expire_batches(10.0)
    refuse(one, one.take_batch(TARGET, SECOND, 10.0), OUT_OF_ORDER)  # both may still reach the leader, late
    assert [ended_batch.batch for ended_batch in one.finished_batches] == [expired_batch, in_doubt]
    assert errors(one) == [MaybeWrittenError] * 2
    assert one.take_batch(TARGET, SECOND, 10.0) is absent
    assert sequences([absent]) == [(1, 0)]


def test_another_partition_keeps_its_epoch_until_it_has_nothing_open():
    one = machine()
    other = Batch(TopicPartition("t", 1), b"", 1, 0.0, None)
    one.enqueue(other)
    one.take_batch(other.partition, FIRST, 0.0)
    put_batches(one, 1)
    refuse(one, one.take_batch(TARGET, FIRST, 0.0), TOO_LARGE)
    assert one.producer.epoch == 1
    one.process_loss(other, NetworkError("cut"), 0.0)
    assert sequences([one.take_batch(other.partition, SECOND, 0.0)]) == [(0, 0)]


def test_epochs_have_an_end():
    one = machine()
    one.set_producer(ProducerIdentity(7, 32_767))
    put_batches(one, 2)
    refuse(one, one.take_batch(TARGET, FIRST, 0.0), TOO_LARGE)
    assert one.needs_new_id
    assert one.take_batch(TARGET, FIRST, 0.0) is None
    one.set_producer(ProducerIdentity(8, 0))
    assert sequences(take_all(one, FIRST)) == [(0, 0)]


def test_parts_of_a_batch_that_is_too_large_go_in_its_place_with_its_sequences():
    one = machine()
    acknowledge_first(one)
    large = Batch(TARGET, b"12345", 5, 0.0, None)
    one.enqueue(large)
    after = put_batches(one, 2)
    assert take_all(one, FIRST) == [large, *after]
    parts = [Batch(TARGET, b"12", 2, 9.0, None), Batch(TARGET, b"345", 3, 9.0, None)]
    one.split_batch(large, parts)
    assert (one.open_batches, one.open_bytes) == (4, 9)
    assert one.take_batch(TARGET, FIRST, 0.0) is None  # those after it are under way
    for batch in after:
        refuse(one, batch, OUT_OF_ORDER)
    assert take_all(one, FIRST) == [*parts, *after]
    assert sequences([*parts, *after]) == [(0, 1), (0, 3), (0, 6), (0, 7)]
    assert [(part.first, part.created_at) for part in parts] == [(0, 0.0), (2, 0.0)]


def test_one_record_is_not_divided_and_nothing_in_a_transaction_that_must_be_aborted():
    one = machine()
    one.transactional = True
    single, several = (Batch(TARGET, b"12", count, 0.0, None) for count in (1, 2))
    assert (one.can_split(single), one.can_split(several)) == (False, True)
    one.fail_transaction(BrokerError("refused"))
    assert not one.can_split(several)


@pytest.mark.parametrize(("number", "kind"), [(TOO_LARGE, BrokerError), (STALE_LEADER, MaybeWrittenError)])
def test_what_a_leader_refuses_is_not_written_unless_its_error_can_come_afterwards(number, kind):
    one = machine(retries=0)
    put_batches(one, 1)
    refuse(one, one.take_batch(TARGET, FIRST, 0.0), number)
    assert errors(one) == [kind]


def test_in_a_transaction_a_batch_that_ends_without_being_written_ends_all_that_wait():
    one = machine()
    one.transactional = True
    put_batches(one, 3)
    refuse(one, one.take_batch(TARGET, FIRST, 0.0), FENCED)
    assert errors(one) == [BrokerError] * 3
    assert one.must_abort
    put_batches(one, 1)
    assert errors(one) == [BrokerError] * 4
    one.set_producer(ProducerIdentity(7, 1))
    put_batches(one, 1)
    assert sequences(take_all(one, FIRST)) == [(1, 0)]


def test_what_is_under_way_when_everything_ends_may_be_written():
    one = machine()
    put_batches(one, 2)
    one.take_batch(TARGET, FIRST, 0.0)
    one.fail_all_batches(NetworkError("closed"))
    assert errors(one) == [MaybeWrittenError, NetworkError]
    assert (one.open_batches, one.open_bytes) == (0, 0)


# --------------------------------------------------------------------------------------------------------- schedules


SIZES = st.lists(st.integers(1, 2), max_size=2)


class Schedules(RuleBasedStateMachine):
    """The events of a simulation in any order; the invariants are checked at the end."""

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

    @rule(wire=st.integers(0, 5), sizes=SIZES)
    def deliver(self, wire, sizes):
        self.simulation.deliver(wire, sizes=sizes)

    @rule(partition=st.integers(0, PARTITIONS - 1), sizes=SIZES)
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
        self.simulation.learn()

    @rule(seconds=st.sampled_from([0.05, 0.5, 6.0]))
    def pass_time(self, seconds):
        self.simulation.pass_time(seconds)

    @precondition(lambda self: self.simulation is not None and self.simulation.machine.needs_new_id)
    @rule()
    def renew(self):
        self.simulation.renew()

    @precondition(lambda self: self.simulation is not None and self.simulation.mode == "transactions")
    @rule(commit=st.booleans(), answers_lost=st.integers(0, 2))
    def end_transaction(self, commit, answers_lost):
        self.simulation.end_transaction(commit=commit, answers_lost=answers_lost)

    def teardown(self):
        if self.simulation is not None:
            self.simulation.heal()
            self.simulation.end_transaction(commit=True, answers_lost=0)
            self.simulation.leftovers()
            self.simulation.check()


TestSchedules = Schedules.TestCase


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_schedules_that_chance_does_not_find(script):
    script()


def test_schedules_by_chance():
    for seed in range(1_000):
        explore(seed)
