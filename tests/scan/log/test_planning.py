"""Planning without a JVM and without files: the byte ranges of segments in each input partition."""

import re
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.errors import OptionError
from kafkaframes.scan.log.options import ReadOptions
from kafkaframes.scan.log.planning import (
    NO_END,
    NO_START,
    Segment,
    SegmentSlice,
    check_no_replicas,
    distribute_slices,
    pack_slices,
    prune_segments,
    select_segments,
    split_slice,
)

MEBIBYTE = 1 << 20
BATCH_BYTES = 16_000


def build_segment(topic, partition, base_offset, size_bytes=MEBIBYTE, **more):
    path = f"/logs/{topic}-{partition}/{base_offset:020}.log"
    return Segment(path, size_bytes, base_offset, topic, partition, f"/logs/{topic}-{partition}", **more)


def options(**settings):
    return ReadOptions(paths=("/logs",), **settings)


def yield_batch_boundaries(segment, positions):
    """Yield the batch boundaries of a file with batches of equal size."""
    return [-(-position // BATCH_BYTES) * BATCH_BYTES for position in positions]


def no_boundaries(segment, positions):
    return []


LOG = [
    build_segment("payments", 0, 0),
    build_segment("orders", 1, 500),
    build_segment("orders", 0, 100),
    build_segment("orders", 1, 0),
    build_segment("orders", 0, 0),
    build_segment("__consumer_offsets", 0, 0),
    build_segment("__debezium-heartbeat", 0, 0),
]


def names(segments):
    return [(s.topic, s.partition, s.base_offset) for s in segments]


def test_segments_are_ordered_by_topic_partition_and_offset_without_internal_topics():
    assert names(select_segments(LOG, options())) == [
        ("__debezium-heartbeat", 0, 0),
        ("orders", 0, 0),
        ("orders", 0, 100),
        ("orders", 1, 0),
        ("orders", 1, 500),
        ("payments", 0, 0),
    ]


@pytest.mark.parametrize(
    "selection",
    [
        {"subscribe": frozenset({"__consumer_offsets"})},
        {"assign": {"__consumer_offsets": (0,)}},
        {"include_internal": True},
        {"include_internal": True, "subscribe_pattern": re.compile("__con.*")},
    ],
)
def test_an_internal_topic_can_be_requested(selection):
    assert ("__consumer_offsets", 0, 0) in names(select_segments(LOG, options(**selection)))


def test_an_internal_topic_is_read_if_the_path_names_it():
    assert len(select_segments([build_segment("__consumer_offsets", 3, 0, is_named=True)], options())) == 1


def test_a_pattern_must_match_the_whole_name():
    assert select_segments(LOG, options(subscribe_pattern=re.compile("order"))) == []
    assert {s.topic for s in select_segments(LOG, options(subscribe_pattern=re.compile("orders|pay.*")))} == {
        "orders",
        "payments",
    }


def test_assign_selects_partitions():
    assert names(select_segments(LOG, options(assign={"orders": (1,)}))) == [("orders", 1, 0), ("orders", 1, 500)]


@pytest.mark.parametrize(
    ("selection", "message"),
    [
        ({"subscribe": frozenset({"order"})}, "topic order does not exist in /logs; found .*orders, payments"),
        ({"assign": {"orders": (0, 7)}}, "topic partition orders-7 does not exist in /logs"),
    ],
)
def test_missing_topics_and_partitions_are_an_error(selection, message):
    with pytest.raises(OptionError, match=message):
        select_segments(LOG, options(**selection))


def test_a_reader_of_one_log_rejects_two_replicas():
    twice = [*LOG, Segment("/other/orders-0/00000000000000000000.log", MEBIBYTE, 0, "orders", 0, "/other/orders-0")]
    with pytest.raises(OptionError, match="orders-0 is in two directories, /logs/orders-0 and /other/orders-0"):
        check_no_replicas(select_segments(twice, options()))
    check_no_replicas(select_segments(twice, options(subscribe=frozenset({"payments"}))))


def test_without_a_range_segments_are_read_completely_and_empty_ones_skipped():
    slices = prune_segments([build_segment("t", 0, 0), build_segment("t", 0, 10, size_bytes=0)], options())
    assert [(s.segment.base_offset, s.start, s.end, s.first_offset, s.end_offset) for s in slices] == [
        (0, 0, MEBIBYTE, NO_START, NO_END)
    ]


@pytest.mark.parametrize(
    ("start", "end", "base_offsets"),
    [
        (-2, -1, [0, 100, 200]),
        (99, -1, [0, 100, 200]),
        (100, -1, [100, 200]),
        (250, -1, [200]),
        (-2, 100, [0]),
        (-2, 101, [0, 100]),
        (150, 160, [100]),
        (0, 0, []),
    ],
)
def test_segments_outside_the_offsets_are_not_planned(start, end, base_offsets):
    log = [build_segment("t", 0, base) for base in (0, 100, 200)]
    slices = prune_segments(log, options(start={("t", 0): start}, end={("t", 0): end}))
    assert [s.segment.base_offset for s in slices] == base_offsets


def test_the_next_partition_does_not_limit_the_last_segment_of_this_one():
    log = [build_segment("t", 0, 1000), build_segment("t", 1, 0)]
    slices = prune_segments(log, options(start={("t", 0): 5000, ("t", 1): 7}))
    assert [(s.segment.partition, s.first_offset) for s in slices] == [(0, 5000), (1, 7)]


@pytest.mark.parametrize("option", ["start", "end"])
def test_offsets_must_name_the_selected_partitions(option):
    log = [build_segment("t", 0, 0), build_segment("t", 1, 0)]
    with pytest.raises(OptionError, match=f"`{option}` requires an offset for t-1"):
        prune_segments(log, options(**{option: {("t", 0): 5}}))
    with pytest.raises(OptionError, match=f"`{option}` contains u-0, which the read does not"):
        prune_segments(log, options(**{option: {("t", 0): 5, ("t", 1): 5, ("u", 0): 5}}))


def test_small_segments_share_a_task():
    works = distribute_slices(
        prune_segments([build_segment("t", 0, n, 1000) for n in range(1000)], options()),
        options(),
        cores=2,
        boundaries=no_boundaries,
    )
    assert [len(work) for work in works] == [500, 500]


def test_a_large_segment_is_split_at_batch_boundaries():
    size = 62_500 * BATCH_BYTES  # 1 GB
    works = distribute_slices(
        prune_segments([build_segment("t", 0, 0, size)], options()),
        options(),
        cores=2,
        boundaries=yield_batch_boundaries,
    )
    assert len(works) == 8
    assert all(len(work) == 1 and work[0].start % BATCH_BYTES == 0 for work in works)
    assert max(work[0].size_bytes for work in works) < 128 * MEBIBYTE


def test_a_large_segment_with_unknown_boundaries_is_not_split():
    works = distribute_slices(
        prune_segments([build_segment("t", 0, 0, 1000 * MEBIBYTE)], options()),
        options(),
        cores=2,
        boundaries=no_boundaries,
    )
    assert [[piece.size_bytes for piece in work] for work in works] == [[1000 * MEBIBYTE]]


def test_min_partitions_splits_even_little_input():
    works = distribute_slices(
        prune_segments([build_segment("t", 0, 0, 100 * BATCH_BYTES)], options()),
        options(min_partitions=10),
        cores=2,
        boundaries=yield_batch_boundaries,
    )
    assert len(works) >= 10


def test_the_input_is_divided_among_the_cores():
    works = distribute_slices(
        prune_segments([build_segment("t", n, 0, 25 * MEBIBYTE) for n in range(8)], options()),
        options(),
        cores=4,
        boundaries=no_boundaries,
    )
    assert [len(work) for work in works] == [2, 2, 2, 2]


sizes = st.lists(st.integers(1, 50 * BATCH_BYTES), min_size=1, max_size=20)


@given(sizes, st.integers(BATCH_BYTES, 20 * BATCH_BYTES))
def test_every_byte_is_read_once_and_in_order(sizes, target):
    log = [build_segment("t", 0, n, size) for n, size in enumerate(sizes)]
    wholes = prune_segments(log, options())
    pieces = [piece for whole in wholes for piece in split_slice(whole, target, yield_batch_boundaries)]
    works = pack_slices(pieces, target)
    assert [piece for work in works for piece in work] == pieces
    for whole in wholes:
        own = [piece for piece in pieces if piece.segment == whole.segment]
        assert (own[0].start, own[-1].end) == (0, whole.segment.size_bytes)
        assert all(before.end == after.start for before, after in pairwise(own))
    assert all(len(work) == 1 or sum(piece.size_bytes for piece in work) <= target for work in works)


@given(st.lists(st.integers(-5, 10 * MEBIBYTE)))
def test_boundaries_outside_the_slice_or_unordered_cause_no_errors(positions):
    whole = SegmentSlice(build_segment("t", 0, 0, 8 * MEBIBYTE), 0, 8 * MEBIBYTE)
    pieces = split_slice(whole, MEBIBYTE, lambda segment, _: positions)
    assert (pieces[0].start, pieces[-1].end) == (0, 8 * MEBIBYTE)
    assert all(piece.size_bytes > 0 for piece in pieces)
    assert all(before.end == after.start for before, after in pairwise(pieces))
