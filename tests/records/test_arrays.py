"""Arrow arrays from buffers are those that ``pa.array`` makes."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import EncodeError
from kafkaframes.records import arrays
from kafkaframes.records.partitioner import by_partition


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize(
    ("value", "kind"),
    [("orders", pa.string()), ("", pa.string()), ("\u20ac", pa.string()), (None, pa.string()), (None, pa.int32())]
    + [(-3, kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
)
def test_what_is_repeated(value, kind, count):
    made = arrays.repeated(value, kind, count)
    made.validate(full=True)
    assert made.equals(pa.array([value] * count, kind))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 100])
def test_numbers_with_and_without_nulls(count):
    values, missing = np.arange(count), np.arange(count) % 3 == 1
    for mask in (None, missing, np.zeros(count, bool), np.ones(count, bool)):
        made = arrays.numbers(values, pa.int64(), missing=mask)
        made.validate(full=True)
        assert made.equals(pa.array(values, mask=mask))
        assert made.null_count == (0 if mask is None else mask.sum())


def test_values_without_a_copy_and_without_nulls():
    whole = pa.array(range(100)).cast(pa.timestamp("ms"))
    assert arrays.int64_values(whole.slice(3, 5)).tolist() == [3, 4, 5, 6, 7]
    with pytest.raises(ValueError, match="nulls"):
        arrays.int64_values(pa.array([1, None]))


def test_a_time_that_microseconds_cannot_say_is_null():
    edge = (2**63 - 1) // 1000
    assert arrays.instants(np.array([edge, edge + 1, -edge - 1, -1])).is_null().to_pylist() == [
        False,
        True,
        True,
        False,
    ]


def test_times_of_a_log_are_instants_in_microseconds():
    times = pa.array([-1, 0, 1_700_000_000_123], pa.timestamp("ms")).slice(1)
    assert arrays.instants_of(times).to_pylist() == times.cast(arrays.INSTANT).to_pylist()


@given(
    st.sampled_from([("s", 1, 1000), ("ms", 1, 1), ("us", 1000, 1), ("ns", 1_000_000, 1)]),
    st.sampled_from([None, "UTC", "Europe/Berlin"]),
    st.lists(st.none() | st.integers(-(10**15), 10**15), max_size=4),
    st.integers(0, 2),
)
def test_whole_milliseconds_are_rounded_down_whatever_the_unit(unit, zone, values, start):
    name, parts, times = unit
    made = arrays.whole_milliseconds(pa.array(values, pa.timestamp(name, zone))[start:], 7)
    made.validate(full=True)
    assert made.type == pa.int64()
    assert made.to_pylist() == [7 if value is None else value * times // parts for value in values[start:]]


@pytest.mark.parametrize(
    "values",
    [pa.array(["5"]), pa.array([5.0]), pa.array([2**62], pa.timestamp("s")), pa.array([2**64 - 1], pa.uint64())],
)
def test_what_is_no_time_in_milliseconds_is_refused(values):
    with pytest.raises(EncodeError, match=r"at \$\.timestamp"):
        arrays.whole_milliseconds(values, 7)


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=3) | st.none()), max_size=12), st.integers(0, 3))
def test_rows_are_shared_out_in_their_order(rows, start):
    whole = pa.record_batch({"value": pa.array([value for _, value in rows], pa.binary())}).slice(start)
    partitions = np.array([number for number, _ in rows[start:]], np.int64)
    shared = {number: part["value"].to_pylist() for number, part in by_partition(whole, partitions)}
    assert list(shared) == sorted(set(partitions.tolist()))
    for number, values in shared.items():
        assert values == [value for at, value in rows[start:] if at == number]


def test_records_without_a_time_get_that_of_now():
    rows = pa.record_batch({"partition": [1, 2], "value": ["a", "b"], "key": pa.nulls(2)})
    assert arrays.stamped(rows, 5).to_pydict() == {"key": [None, None], "value": ["a", "b"], "timestamp": [5, 5]}
    timed = rows.append_column("timestamp", pa.array([None, 1_999], pa.timestamp("us")))
    assert arrays.stamped(timed, 5)["timestamp"].to_pylist() == [5, 1]
