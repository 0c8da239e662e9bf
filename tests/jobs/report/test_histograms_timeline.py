"""Calendar buckets for any timestamps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.jobs.report.histograms import (
    DAY,
    MAX_CALENDAR_MS,
    MAX_TIMELINE_COLUMNS,
    TimeHistogram,
    choose_ticks,
    choose_timeline,
)

START = 1_700_000_000_000


def times_of(values):
    times = TimeHistogram()
    times.add_timestamps(np.asarray(values, np.int64))
    return times


@given(st.lists(st.integers(-1, 2**63 - 1) | st.integers(START, START + 10**9), max_size=50))
def test_every_record_is_drawn_or_counted_as_outside(values):
    times = times_of(values)
    line = choose_timeline(times)
    assert sum(line.counts) + line.before + line.after + times.without == len(values)
    assert len(line.counts) == max(len(line.edges) - 1, 0) <= MAX_TIMELINE_COLUMNS + 1
    assert line.edges == sorted(set(line.edges))
    assert line.count_in_buckets(times) == line.counts
    if line.edges:
        labels = choose_ticks(line.edges)
        assert len(labels) <= 13
        assert all(line.edges[0] <= label.position <= line.edges[-1] and label.label for label in labels)


@pytest.mark.parametrize(
    ("span", "unit", "first_label"),
    [
        (50, "millisecond", "22:13:20.000\n14 Nov 2023"),
        (3_600_000, "minute", "22:20\n14 Nov 2023"),
        (10 * DAY, "6 hours", "15 Nov\n2023"),
        (400 * DAY, "7 days", "Jan\n2024"),
        (3000 * DAY, "quarter", "2024"),
        (365 * 90 * DAY, "2 years", "2030"),
    ],
)
def test_buckets_are_round(span, unit, first_label):
    line = choose_timeline(times_of(np.linspace(START, START + span, 5000).astype(np.int64)))
    assert line.unit == unit
    assert 20 <= len(line.counts) <= MAX_TIMELINE_COLUMNS
    assert choose_ticks(line.edges)[0].label == first_label


def test_a_few_outliers_do_not_compress_the_timeline():
    line = choose_timeline(times_of([0, 5, 2**62, *(START + 1000 * number for number in range(9000))]))
    assert (line.unit, line.before, line.after) == ("5 minutes", 2, 1)


def test_timestamps_outside_the_calendar_are_not_drawn():
    line = choose_timeline(times_of([MAX_CALENDAR_MS + 1, 2**62]))
    assert (line.edges, line.after) == ([], 2)
