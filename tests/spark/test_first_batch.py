"""A first micro-batch that an earlier run has planned; without a JVM."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.spark.runtime.micro_batches import FirstBatch


@pytest.mark.parametrize(
    ("first", "start", "end", "is_refused"),
    [
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 9, "1": 5}, False),  # a new query
        # latest now has the offsets at which the other one ended
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 5, "1": 5}, True),
        ({"0": 5, "1": 9}, {"0": 5, "1": 9}, {"0": 8, "1": 7}, True),  # or beyond
        ({"0": 5}, {"0": 3}, {"0": 3}, False),  # from a checkpoint
        (None, {"0": 5}, {"0": 5}, False),
        ({}, {}, {"0": 5}, False),  # a pattern without a matching topic
        ({"0": 0}, {"0": 0}, {"0": 0, "1": 4}, False),  # a new partition
    ],
)
def test_a_first_micro_batch_of_an_earlier_run_is_recognised(first, start, end, is_refused):
    begin, start, end = (None if one is None else {"t": one} for one in (first, start, end))
    batch = FirstBatch()
    if begin is not None:
        batch.find_start(lambda: begin)
    if not is_refused:
        batch.check_batch(start, end)
        return
    with pytest.raises(OptionError, match=r"Set startingOffsets to its start as JSON"):
        batch.check_batch(start, end)
    batch.record_lookup()
    batch.check_batch(start, end)  # planned by this run


def test_start_offsets_are_looked_up_once_and_are_not_shared():
    batch, answers = FirstBatch(), [{"t": {"0": 5}}, {"t": {"0": 9}}]
    batch.find_start(lambda: answers.pop(0))["t"]["0"] = 7
    assert batch.find_start(lambda: answers.pop(0)) == {"t": {"0": 5}}
    assert len(answers) == 1
