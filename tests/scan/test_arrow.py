"""Arrow arrays built from buffers equal those of ``pa.array``."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.scan import arrow


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
@pytest.mark.parametrize(
    ("value", "kind"),
    [("orders", pa.string()), ("", pa.string()), ("\u20ac", pa.string()), (None, pa.string()), (None, pa.int32())]
    + [(-3, kind) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
)
def test_repeated_values_are_built(value, kind, count):
    repeated_array = arrow.repeat_value(value, kind, count)
    repeated_array.validate(full=True)
    assert repeated_array.equals(pa.array([value] * count, kind))


def test_a_time_outside_microseconds_is_null():
    edge = (2**63 - 1) // 1000
    assert arrow.to_instants(np.array([edge, edge + 1, -edge - 1, -1])).is_null().to_pylist() == [
        False,
        True,
        True,
        False,
    ]


@given(st.lists(st.none() | st.integers(-(2**53), 2**53), max_size=20), st.integers(0, 3))
def test_timestamps_become_microseconds_and_nulls_are_kept(times, start):
    times_array = pa.array(times, pa.timestamp("ms", "UTC")).slice(start)
    instants = arrow.to_instant_array(times_array)
    instants.validate(full=True)
    assert instants.equals(times_array.cast(arrow.INSTANT_TYPE))
