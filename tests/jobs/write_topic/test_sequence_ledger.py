"""Which task may write to a partition, with which sequences: rules for any order of tasks. The rules are tested without
I/O.
"""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.client import TopicPartition
from kafkaframes.errors import KafkaframesError
from kafkaframes.jobs.write_topic.sequences import LeaseLedger

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def ledger():
    return with_tasks(2)


def with_tasks(count):
    ledger = LeaseLedger(lambda: 1_234)
    for task in range(count):
        ledger.register_task(task)
    return ledger


def test_sequences_continue_after_the_previous_task(ledger):
    assert ledger.since_ms is None
    assert ledger.lease_partitions(0, {A: 30, B: 5}) == {A: 0, B: 0}
    assert ledger.lease_partitions(1, {A: 7}) == {}
    ledger.note_written(0, [A])
    assert ledger.lease_partitions(1, {A: 7, B: 1}) == {A: 30}
    ledger.note_written(0, [B])
    ledger.note_written(1, [A])
    assert ledger.lease_partitions(1, {A: 1}) == {A: 37}
    ledger.note_written(1, [A])
    ledger.finish_task(0)
    ledger.finish_task(1)
    ledger.lose_task(1)  # its connection ends after it has reported its end
    assert ledger.verify_acknowledged({A: 38, B: 5}) == 43
    assert ledger.since_ms == 1_234


def test_sequences_continue_after_the_largest(ledger):
    ledger.lease_partitions(0, {A: 2**31 - 1})
    ledger.note_written(0, [A])
    assert ledger.lease_partitions(0, {A: 3}) == {A: 2**31 - 1}
    ledger.note_written(0, [A])
    assert ledger.lease_partitions(0, {A: 1}) == {A: 2}


def test_a_repeated_task_fails_the_whole_batch(ledger):
    with pytest.raises(KafkaframesError, match="task 1 would be repeated"):
        ledger.register_task(1)
    with pytest.raises(KafkaframesError, match="task 1 would be repeated"):
        ledger.lease_partitions(0, {A: 1})
    with pytest.raises(KafkaframesError, match="task 1 would be repeated"):
        ledger.verify_acknowledged({})


def test_a_lease_that_is_not_returned_fails_the_batch(ledger):
    ledger.lease_partitions(0, {A: 3})
    ledger.lose_task(0)
    assert ledger.is_blocked([A])
    assert not ledger.is_blocked([B])
    assert ledger.lease_partitions(1, {A: 1, B: 1}) == {B: 0}
    ledger.note_written(1, [B])
    ledger.finish_task(1)
    with pytest.raises(
        KafkaframesError, match="task 0 was lost while it wrote to t-0: the number of written records is unknown"
    ):
        ledger.verify_acknowledged({A: 3, B: 1})


def test_a_task_lost_between_its_leases_fails_the_batch(ledger):
    ledger.finish_task(1)
    ledger.lose_task(0)
    with pytest.raises(KafkaframesError, match="task 0 was lost before it had written all its records"):
        ledger.verify_acknowledged({})


@pytest.mark.parametrize("reported_counts", [{}, {A: 2}, {A: 4}, {A: 3, B: 1}])
def test_counts_reported_by_spark_tasks_must_equal_the_acknowledged_ones(ledger, reported_counts):
    ledger.lease_partitions(0, {A: 3})
    ledger.note_written(0, [A])
    ledger.finish_task(0)
    ledger.finish_task(1)
    with pytest.raises(KafkaframesError, match=r"t-\d has \d records of this batch, but Spark's tasks report \d"):
        ledger.verify_acknowledged(reported_counts)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda one: one.note_written(0, [A]), "wrote to t-0 without a lease"),
        (lambda one: (one.lease_partitions(1, {A: 1}), one.note_written(0, [A])), "wrote to t-0 without a lease"),
        (lambda one: (one.lease_partitions(0, {A: 1}), one.finish_task(0)), "task 0 ended before t-0 had acknowledged"),
        (lambda one: one.lease_partitions(7, {A: 1}), "task 7 requested sequences"),
        (lambda one: (one.finish_task(0), one.lease_partitions(0, {A: 1})), "task 0 requested sequences"),
    ],
)
def test_impossible_requests_are_rejected(ledger, act, message):
    with pytest.raises(KafkaframesError, match=message):
        act(ledger)
    with pytest.raises(KafkaframesError, match=message):
        ledger.verify_acknowledged({})


@given(st.lists(st.tuples(st.integers(0, 2), st.sampled_from([A, B]), st.integers(1, 9), st.booleans()), max_size=60))
def test_in_any_order_the_sequences_of_a_partition_are_consecutive(requests):
    ledger, ends, held_partitions, reported_ends = with_tasks(3), {A: 0, B: 0}, {}, {}
    for task, place, records, give_back in requests:
        got = ledger.lease_partitions(task, {place: records})
        assert set(got) == (set() if place in held_partitions else {place})
        if got:
            assert got[place] == ends[place]
            held_partitions[place], ends[place] = task, ends[place] + records
            reported_ends[place] = ends[place]
        if give_back and place in held_partitions:
            ledger.note_written(held_partitions.pop(place), [place])
    for place, task in held_partitions.items():
        ledger.note_written(task, [place])
    for task in range(3):
        ledger.finish_task(task)
    assert ledger.verify_acknowledged(reported_ends) == sum(ends.values())
