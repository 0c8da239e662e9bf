"""The start and end of a read, its partitions, and lost data."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import OptionError
from kafkaframes.scan.ranges import (
    EARLIEST,
    LATEST,
    GroupBound,
    TimeBound,
    check_batch_start,
    expand_bound,
    report_loss,
    resolve_bound,
    restrict_bound,
)

PARTITIONS = [("t", 0), ("t", 1)]
END_OFFSETS = {("t", 0): 100, ("t", 1): 50}


def look_up_times(times):
    """Look up a time in logs with one record per millisecond."""
    return {name: time if time < END_OFFSETS[name] else None for name, time in times.items()}


@pytest.mark.parametrize(
    ("range_bound", "offsets"),
    [
        (EARLIEST, [EARLIEST, EARLIEST]),
        (LATEST, [LATEST, LATEST]),
        ({("t", 0): 7, ("t", 1): LATEST}, [7, LATEST]),
        (TimeBound(20), [20, 20]),
        (TimeBound(60), [60, LATEST]),
        (TimeBound({("t", 0): 3, ("t", 1): 200}), [3, LATEST]),
    ],
)
def test_a_bound_has_an_offset_for_each_partition(range_bound, offsets):
    assert list(resolve_bound("end", range_bound, PARTITIONS, find=look_up_times).values()) == offsets


@pytest.mark.parametrize(
    ("range_bound", "setting"), [(TimeBound(60), "start_time"), (TimeBound(dict(END_OFFSETS)), "start_times")]
)
def test_a_time_after_every_record_is_an_error_on_request(range_bound, setting):
    with pytest.raises(OptionError, match=f"^`{setting}`: .*t-1 has no record at or after the time; `no_match`"):
        resolve_bound("start", range_bound, PARTITIONS, find=look_up_times, no_match="error")


@pytest.mark.parametrize(
    ("range_bound", "message"),
    [
        ({("t", 0): 7}, "^`start` requires an offset for t-1; use -2 for earliest"),
        ({**END_OFFSETS, ("u", 3): 7}, "^`start` contains u-3, which the read does not select$"),
        (TimeBound({("t", 1): 7}), "^`start_times` requires a time for t-0$"),
    ],
)
def test_exactly_the_selected_partitions_must_be_named(range_bound, message):
    with pytest.raises(OptionError, match=message):
        expand_bound("start", range_bound, PARTITIONS)


@given(st.dictionaries(st.tuples(st.sampled_from("ab"), st.integers(0, 3)), st.integers(-2, 9)), st.booleans())
def test_a_bound_for_a_selection_names_the_missing_partitions(values, is_time):
    names = [name for name in values if name[0] == "a"]
    range_bound = restrict_bound(TimeBound(values) if is_time else values, names)
    assert expand_bound("end", range_bound, names) == {name: values[name] for name in names}


@pytest.mark.parametrize("start", [EARLIEST, {("t", 0): 5}, TimeBound(7), GroupBound("g")])
def test_a_batch_read_starts_at_any_offset_except_latest(start):
    check_batch_start(start)
    for latest in (LATEST, {("t", 0): LATEST}):
        with pytest.raises(OptionError, match="`start`: a batch read cannot start at latest"):
            check_batch_start(latest)


def test_lost_records_are_an_error_or_a_warning(caplog):
    with pytest.raises(OptionError, match=r"^it is gone; `fail_on_data_loss`=false reads the existing records$"):
        report_loss("it is gone", fail=True)
    report_loss("it is gone", fail=False)
    assert "it is gone; the existing records are read" in caplog.text
