"""A first micro-batch that an earlier run planned; no JVM."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.spark.first_batch import check_first


@pytest.mark.parametrize(
    ("first", "start", "end", "is_refused"),
    [
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 9, "1": 5}, False),  # a new query
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 5, "1": 5}, True),  # latest by now is where it ended
        ({"0": 5, "1": 9}, {"0": 5, "1": 9}, {"0": 8, "1": 7}, True),  # or beyond
        ({"0": 5}, {"0": 3}, {"0": 3}, False),  # from a checkpoint
        (None, {"0": 5}, {"0": 5}, False),
        ({}, {}, {"0": 5}, False),  # a pattern that nothing fitted
        ({"0": 0}, {"0": 0}, {"0": 0, "1": 4}, False),  # a partition that came
    ],
)
def test_a_first_micro_batch_of_an_earlier_run_is_known(first, start, end, is_refused):
    asked = [None if one is None else {"t": one} for one in (first, start, end)]
    if not is_refused:
        check_first(*asked)
        return
    with pytest.raises(OptionError, match=r"Give startingOffsets as JSON where it began"):
        check_first(*asked)
