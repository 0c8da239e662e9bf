"""A first micro-batch that an earlier run has planned; these tests need no JVM."""

import pytest

from kafkaframes.errors import OptionError
from kafkaframes.spark.runtime.micro_batches import FirstBatch


@pytest.mark.parametrize(
    ("first", "start", "end", "is_refused"),
    [
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 9, "1": 5}, False),  # a new query with new rows
        # an earlier run planned a micro-batch up to these offsets, which startingOffsets=latest means in this run
        ({"0": 5, "1": 5}, {"0": 5, "1": 5}, {"0": 5, "1": 5}, True),
        (
            {"0": 5, "1": 9},
            {"0": 5, "1": 9},
            {"0": 8, "1": 7},
            True,
        ),  # startingOffsets is now beyond one end of the planned micro-batch
        ({"0": 5}, {"0": 3}, {"0": 3}, False),  # the micro-batch begins at the offsets of a checkpoint
        (None, {"0": 5}, {"0": 5}, False),
        ({}, {}, {"0": 5}, False),  # a pattern without a matching topic
        ({"0": 0}, {"0": 0}, {"0": 0, "1": 4}, False),  # partition 1 is new
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
    batch.check_batch(start, end)  # a micro-batch that this run planned is accepted


def test_start_offsets_are_looked_up_once_and_are_not_shared():
    batch, answers = FirstBatch(), [{"t": {"0": 5}}, {"t": {"0": 9}}]
    batch.find_start(lambda: answers.pop(0))["t"]["0"] = 7
    assert batch.find_start(lambda: answers.pop(0)) == {"t": {"0": 5}}
    assert len(answers) == 1
