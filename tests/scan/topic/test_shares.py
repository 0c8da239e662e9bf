"""Ranges are divided among tasks: each offset belongs to one task, even if end offsets change before it runs."""

import random
from itertools import pairwise

import pytest

from kafkaframes.client import TopicPartition
from kafkaframes.scan.topic.shares import NewPartitionShare, PartitionRange, RangeShare, divide_among_tasks


def partition(number, topic="t"):
    return TopicPartition(topic, number)


def list_offsets(share, bounds):
    return [
        (part.topic_partition, offset) for part in share.select_ranges(bounds) for offset in range(part.first, part.end)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_each_offset_is_read_by_the_same_single_task_in_every_execution(seed):
    dice = random.Random(seed)
    topics = [f"t{n}" for n in range(3)]
    partitions = [partition(n, topic) for topic in topics for n in range(dice.randrange(1, 5))]
    planned_ranges = {
        partition: (first := dice.randrange(10), first + dice.choice([0, 0, 7, 40])) for partition in partitions
    }
    ranges = []
    for one, (first, end) in planned_ranges.items():
        cuts = sorted({first, *(dice.randrange(first, end) for _ in range(3) if end > first), end})
        ranges += [PartitionRange(one.topic, one.partition, a, b) for a, b in pairwise(cuts)]
    shares = divide_among_tasks(partitions, ranges, cores=dice.randrange(1, 5), can_grow=True)
    owners = {}
    for _ in range(4):
        bounds = {partition: (first := dice.randrange(30), first + dice.randrange(60)) for partition in partitions}
        bounds |= {partition(n, "t0"): (0, dice.randrange(3)) for n in range(5, 8)}
        bounds |= {partition(0, f"new{dice.randrange(3)}"): (0, 2)}
        bounds.pop(dice.choice(partitions))  # the topic was deleted
        offsets_read = [(entry, index) for index, share in enumerate(shares) for entry in list_offsets(share, bounds)]
        assert sorted(entry for entry, _ in offsets_read) == sorted(
            (one, offset) for one, (first, end) in bounds.items() for offset in range(first, end)
        )
        for entry, index in offsets_read:
            assert owners.setdefault(entry, index) == index


def test_every_range_is_a_task_and_empty_partitions_share_the_cores():
    partitions = [partition(n) for n in range(10)]
    ranges = [PartitionRange("t", 0, 0, 5), PartitionRange("t", 0, 5, 9), PartitionRange("t", 3, 0, 2)]
    shares = divide_among_tasks(partitions, ranges, cores=5, can_grow=False)
    assert [share.parts[0] for share in shares[:3]] == [
        RangeShare("t", 0, None, 5),
        RangeShare("t", 0, 5, None),
        RangeShare("t", 3),
    ]
    assert sorted(len(share.parts) for share in shares) == [2, 2, 2, 2, 3]
    assert len(shares) == 5
    assert len(divide_among_tasks(partitions, [], cores=4, can_grow=False)) == 4
    assert all(share.new is None for share in shares)


def test_one_task_reads_new_partitions():
    (share,) = divide_among_tasks([], [], cores=4, can_grow=True)
    assert share.select_ranges({partition(0): (0, 0), partition(1): (3, 5)}) == [PartitionRange("t", 1, 3, 5)]
    (share,) = divide_among_tasks([], [], cores=4, can_grow=False)
    assert share.select_ranges({partition(0): (0, 2)}) == []


def test_new_partitions_are_distributed_over_tasks():
    readers = [NewPartitionShare({"t": 2}, index, 3) for index in range(3)]
    for number in range(2, 40):
        assert sum(reader.reads_partition(partition(number)) for reader in readers) == 1
    assert not any(reader.reads_partition(partition(number)) for reader in readers for number in range(2))
    assert all(any(reader.reads_partition(partition(number)) for number in range(2, 40)) for reader in readers)
