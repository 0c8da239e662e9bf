"""Arrow batches of about one size: the same rows, in the same order."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.scan.rebatch import rebatch

TARGET = 1000


def batch_of(lengths):
    return pa.record_batch({"value": pa.array([bytes([n % 256]) * n for n in lengths], pa.binary())})


@given(st.lists(st.lists(st.integers(0, 3 * TARGET), max_size=8), max_size=12))
def test_rows_stay_and_sizes_come_near_the_target(lengths):
    batches = [batch_of(one) for one in lengths]
    made = list(rebatch(batches, target=TARGET))
    assert [value for batch in made for value in batch["value"].to_pylist()] == [
        value for batch in batches for value in batch["value"].to_pylist()
    ]
    assert all(batch.num_rows > 0 for batch in made)
    largest_row = max((n for one in lengths for n in one), default=0) + 8
    assert all(batch.nbytes <= TARGET + largest_row * 2 or batch.num_rows == 1 for batch in made)


def test_many_small_batches_become_few():
    assert len(list(rebatch((batch_of([6]) for _ in range(1000)), target=TARGET))) <= 20


def test_it_takes_one_batch_at_a_time():
    taken = []

    def source():
        for n in range(100):
            taken.append(n)
            yield batch_of([900])

    next(rebatch(source(), target=TARGET))
    assert len(taken) <= 2
