"""After an interrupted cleaning, readers see the segments that a broker's start would serve (LogLoader, Kafka
4.3.1).
"""

import shutil

import pytest
from tests.storage.log.swapped_logs import CLEANED_OFFSETS, OLD_SEGMENTS, interrupt_cleaning, name, write_partition

import kafkaframes
from kafkaframes.storage.log.discover import discover
from kafkaframes.storage.log.swaps import swap_findings
from kafkaframes.storage.recovery.plan import plan_recovery


@pytest.fixture
def partition(tmp_path):
    path = tmp_path / "logs" / "orders-0"
    write_partition(path)
    return path


def offsets_of(path, **options):
    return kafkaframes.scan_log(path, **options).select("offset").to_arrow().column(0).to_pylist()


@pytest.mark.parametrize("old", ["there", "deleted", "gone"])
def test_a_finished_swap_replaces_the_segments_that_it_covers(partition, old):
    interrupt_cleaning(partition, old, {".swap": {0: CLEANED_OFFSETS}})
    assert offsets_of(partition.parent) == [*CLEANED_OFFSETS, *OLD_SEGMENTS[20]]
    assert offsets_of(partition) == [*CLEANED_OFFSETS, *OLD_SEGMENTS[20]]
    (directory,) = discover(str(partition))
    (finding,) = swap_findings(directory.partitions[0])
    assert finding.file == str(partition / name(0, ".swap"))
    assert ("2 segments" in finding.message) == (old == "there")


CASES = {
    "cleaned at the same base (unfinished split)": (
        "there",
        {".swap": {0: CLEANED_OFFSETS}, ".cleaned": {0: range(5)}},
    ),
    "cleaned above the swap": ("there", {".swap": {0: CLEANED_OFFSETS}, ".cleaned": {20: range(20, 25)}}),
    "cleaned only": ("there", {".cleaned": {0: range(5)}}),
    "two swaps of a split": ("gone", {".swap": {0: range(7), 7: range(7, 20)}}),
    "a swap whose first record was cleaned": ("there", {".swap": {0: range(11, 20)}}),
    "the last segment's swap": ("there", {".swap": {20: range(20, 30, 3)}}),
}  # fmt: skip


@pytest.mark.parametrize(("old", "new"), CASES.values(), ids=CASES)
def test_readers_and_recovery_agree(partition, old, new):
    interrupt_cleaning(partition, old, new)
    (directory,) = discover(str(partition.parent))
    plan = plan_recovery(directory, directory.partitions[0])
    shown_segments = [(segment.base_offset, segment.path) for segment in directory.partitions[0].segments]
    assert shown_segments == [(kept_segment.base_offset, kept_segment.path) for kept_segment in plan.segments]


def test_a_swap_file_given_by_the_user_is_read_as_a_file(partition):
    interrupt_cleaning(partition, "there", {".swap": {0: CLEANED_OFFSETS}})
    assert offsets_of(partition / name(0, ".swap")) == list(CLEANED_OFFSETS)
    assert offsets_of(partition / name(0)) == list(OLD_SEGMENTS[0])


def test_copies_are_merged_from_the_segments_that_each_would_serve(partition, tmp_path):
    shutil.copytree(partition.parent, tmp_path / "copy")
    interrupt_cleaning(partition, "gone", {".swap": {0: CLEANED_OFFSETS}})
    assert set(offsets_of([partition.parent, tmp_path / "copy"])) >= {*CLEANED_OFFSETS, *OLD_SEGMENTS[20]}
