"""Arrow arrays that are built from buffers equal the arrays of ``pa.array``."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import EncodeError
from kafkaframes.records import arrays
from kafkaframes.records.partitioner import split_by_partition


@given(
    st.sampled_from([("s", 1, 1000), ("ms", 1, 1), ("us", 1000, 1), ("ns", 1_000_000, 1)]),
    st.sampled_from([None, "UTC", "Europe/Berlin"]),
    st.lists(st.none() | st.integers(-(10**15), 10**15), max_size=4),
    st.integers(0, 2),
)
def test_timestamps_of_every_unit_are_rounded_down_to_milliseconds(unit, zone, values, start):
    name, parts, times = unit
    milliseconds = arrays.whole_milliseconds(pa.array(values, pa.timestamp(name, zone))[start:], 7)
    milliseconds.validate(full=True)
    assert milliseconds.type == pa.int64()
    assert milliseconds.to_pylist() == [7 if value is None else value * times // parts for value in values[start:]]


@pytest.mark.parametrize(
    "values",
    [pa.array(["5"]), pa.array([5.0]), pa.array([2**62], pa.timestamp("s")), pa.array([2**64 - 1], pa.uint64())],
)
def test_invalid_timestamps_are_rejected(values):
    with pytest.raises(EncodeError, match=r"at \$\.timestamp"):
        arrays.whole_milliseconds(values, 7)


@given(st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=3) | st.none()), max_size=12), st.integers(0, 3))
def test_rows_are_partitioned_in_their_order(rows, start):
    whole = pa.record_batch({"value": pa.array([value for _, value in rows], pa.binary())}).slice(start)
    partitions = np.array([number for number, _ in rows[start:]], np.int64)
    values_by_partition = {number: part["value"].to_pylist() for number, part in split_by_partition(whole, partitions)}
    assert list(values_by_partition) == sorted(set(partitions.tolist()))
    for number, values in values_by_partition.items():
        assert values == [value for at, value in rows[start:] if at == number]


def test_records_without_a_timestamp_get_the_current_time():
    rows = pa.record_batch({"partition": [1, 2], "value": ["a", "b"], "key": pa.nulls(2)})
    assert arrays.add_timestamps(rows, 5).to_pydict() == {"key": [None, None], "value": ["a", "b"], "timestamp": [5, 5]}
    timed_rows = rows.append_column("timestamp", pa.array([None, 1_999], pa.timestamp("us")))
    assert arrays.add_timestamps(timed_rows, 5)["timestamp"].to_pylist() == [5, 1]
