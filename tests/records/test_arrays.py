"""Arrow arrays from buffers are those that ``pa.array`` makes."""

import numpy as np
import pyarrow as pa
import pytest

from kafkaframes.records import arrays


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
