"""Sketches that processes fill separately and merge: the split does not change the result."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.jobs.report import reference

from kafkaframes.jobs.report import histograms
from kafkaframes.jobs.report.histograms import (
    DISTINCT_COUNT_STANDARD_ERROR,
    MAX_BUCKETS,
    MAX_STORED_HASHES,
    DistinctCounter,
    SizeHistogram,
    TimeHistogram,
    hash_keys,
)

SIZES = st.lists(st.integers(0, 2**50), max_size=60)
TIMES = st.lists(st.integers(-2, 2**62), max_size=60)


def filled_histogram(kind, values):
    histogram = kind()
    add = histogram.add_values if kind is SizeHistogram else histogram.add_timestamps
    add(np.asarray(values, np.int64))
    return histogram


def test_every_size_has_its_bucket():
    values = np.concatenate((np.arange(5000), 2 ** np.arange(12, 43), 2 ** np.arange(12, 43) - 1))
    for bucket, value in zip(histograms._compute_buckets(values).tolist(), values.tolist(), strict=True):
        assert histograms._compute_lower_bound(bucket) <= value < histograms._compute_lower_bound(bucket + 1)
    assert (histograms._find_buckets(values[:5000]) == histograms._compute_buckets(values[:5000])).all()


@given(SIZES, SIZES)
def test_a_split_does_not_change_size_histograms(one, other):
    joined_histogram, whole = filled_histogram(SizeHistogram, one), filled_histogram(SizeHistogram, one + other)
    joined_histogram.merge(filled_histogram(SizeHistogram, other))
    assert vars(joined_histogram).keys() == vars(whole).keys()
    for name, value in vars(whole).items():
        assert np.array_equal(getattr(joined_histogram, name), value), name


@given(st.lists(st.integers(0, 2**40), min_size=1, max_size=100), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_quantiles_are_right_within_a_sixteenth(values, share):
    exact = sorted(values)[max(int(np.ceil(share * len(values))), 1) - 1]
    assert abs(filled_histogram(SizeHistogram, values).estimate_quantile(share) - exact) <= exact / 16


@given(st.lists(st.integers(0, 2**40), max_size=100))
def test_octaves_hold_every_value(values):
    bins = filled_histogram(SizeHistogram, values).list_octaves()
    assert sum(one.count for one in bins) == len(values)
    for one in bins:
        assert one.count == sum(one.low <= value < one.high for value in values)


@given(TIMES, TIMES)
def test_a_split_does_not_change_time_histograms(one, other):
    joined_histogram, whole = filled_histogram(TimeHistogram, one), filled_histogram(TimeHistogram, one + other)
    joined_histogram.merge(filled_histogram(TimeHistogram, other))
    for name, value in vars(whole).items():
        assert np.array_equal(getattr(joined_histogram, name), value), name
    known_times = [value for value in one + other if value >= 0]
    assert (whole.first, whole.last) == (min(known_times, default=-1), max(known_times, default=-1))
    assert (int(whole.counts.sum()), whole.without) == (len(known_times), len(one + other) - len(known_times))


def test_time_buckets_widen_when_there_are_too_many():
    rng = np.random.default_rng(3)
    values = rng.integers(1_700_000_000_000, 1_700_086_400_000, 20_000)
    pieces = TimeHistogram()
    for piece in np.split(values, 40):
        pieces.merge(filled_histogram(TimeHistogram, piece))
    whole = filled_histogram(TimeHistogram, values)
    assert whole.starts.size <= MAX_BUCKETS
    assert whole.width_ms == 60_000
    assert pieces.starts.tolist() == whole.starts.tolist()
    assert pieces.counts.tolist() == whole.counts.tolist()


@given(st.lists(st.one_of(st.none(), st.binary(max_size=40)), max_size=20))
def test_the_kernel_hashes_like_its_reference(keys):
    buf = b"".join(key or b"" for key in keys)
    sizes = [-1 if key is None else len(key) for key in keys]
    places = np.cumsum([0] + [max(size, 0) for size in sizes])[:-1]
    hashes = hash_keys(np.frombuffer(buf, np.uint8), places.astype(np.int64), np.asarray(sizes, np.int32))
    assert hashes.tolist() == reference.hash_keys(buf, places.tolist(), sizes)


def hashes_of(numbers):
    raw = np.asarray(numbers, ">i8").view(np.uint8)
    places = np.arange(len(numbers), dtype=np.int64) * 8
    return hash_keys(raw, places, np.full(len(numbers), 8, np.int32))


@pytest.mark.parametrize(
    "count",
    [
        0,
        1,
        MAX_STORED_HASHES - 1,
        MAX_STORED_HASHES,
        MAX_STORED_HASHES + 1,
        5 * MAX_STORED_HASHES,
        20 * MAX_STORED_HASHES,
    ],
)
def test_distinct_keys_are_counted_exactly_and_then_approximately(count):
    hashes = hashes_of(range(count))
    one, other = DistinctCounter(), DistinctCounter()
    for piece in np.array_split(np.tile(hashes, 2), 7):
        one.add_hashes(piece)
    other.add_hashes(hashes[: count // 2])
    other.merge(one)
    assert other.count() == one.count()
    assert one.is_exact == (count <= MAX_STORED_HASHES)
    assert abs(one.count() - count) <= (0 if one.is_exact else 4 * DISTINCT_COUNT_STANDARD_ERROR * count)
