"""Determine the offset range that a mirror copies from each partition, and clip the batches at its ends."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Final

from kafkaframes.client import EARLIEST, LATEST, AsyncAdmin, FetchedBatches, TopicPartition
from kafkaframes.errors import OptionError
from kafkaframes.jobs.convert.trim import trim_batch
from kafkaframes.jobs.mirror.settings import MirroredPartition
from kafkaframes.records.scan import as_array
from kafkaframes.scan import ranges
from kafkaframes.scan.log.narrowing import ALL_OFFSETS, OffsetRange
from kafkaframes.scan.ranges import (
    NO_END,
    NO_START,
    GroupBound,
    Name,
    TimeBound,
    describe_offset_below_start,
    describe_offset_beyond_end,
    format_partition,
)
from kafkaframes.scan.selection import Selection

SHORTENED_REASON: Final = "at an end of the selected range"  # reason for rebuilding a batch at an end of the range


async def resolve_ranges(
    admin: AsyncAdmin, selection: Selection, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, OffsetRange]:
    """Return the range of each partition.

    A start at the earliest offset, or an end at the latest one, does not limit the range.

    Args:
        admin: admin client of the source.
        selection: start and end of the range.
        partitions: selected partitions.

    Raises:
        OptionError: a partition does not have an offset of the range, or a range by partition does not name all
            partitions.
        BrokerError: the source does not have the group of a bound.
    """
    start, end = selection.live_range
    if (start, end) == (ranges.EARLIEST, ranges.LATEST):
        return dict.fromkeys(partitions, ALL_OFFSETS)
    log_starts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST))
    ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST))
    if isinstance(start, GroupBound):
        commits = await admin.group_offsets(start.group_id, partitions)
        first_offsets = {
            partition: commits[partition].offset if partition in commits else NO_START for partition in partitions
        }
    else:
        first_offsets = await _resolve_offsets(admin, "start", start, partitions, ends)
        first_offsets = {
            partition: NO_START if offset == ranges.EARLIEST else offset for partition, offset in first_offsets.items()
        }
    end_offsets = dict.fromkeys(partitions, NO_END)
    if end != ranges.LATEST:
        end_offsets |= await _resolve_offsets(admin, "end", end, partitions, dict.fromkeys(partitions, NO_END))
    is_shared = isinstance(start, int | TimeBound | GroupBound) and isinstance(end, int | TimeBound)
    result = {}
    for partition in partitions:
        # One offset applies to all partitions, and this one is empty: it has lost no records.
        if is_shared and log_starts[partition] == ends[partition]:
            result[partition] = ALL_OFFSETS
            continue
        _reject_missing_offsets(
            _name_of(partition),
            first_offsets[partition],
            end_offsets[partition],
            log_starts[partition],
            ends[partition],
        )
        result[partition] = OffsetRange(first_offsets[partition], end_offsets[partition])
    return result


async def _resolve_offsets(
    admin: AsyncAdmin,
    setting: str,
    bound: ranges.Bound,
    partitions: Sequence[TopicPartition],
    latest: Mapping[TopicPartition, int],
) -> dict[TopicPartition, int]:
    """Return the offset of a range's start or end in each partition. The source looks up the offset of a time."""
    names = [_name_of(partition) for partition in partitions]
    times = ranges.expand_bound(setting, bound, names) if isinstance(bound, TimeBound) else {}
    found_offsets = (
        await admin.list_offsets({TopicPartition(*name): time for name, time in times.items()}) if times else {}
    )

    def find(_: Mapping[Name, int]) -> dict[Name, int | None]:
        return {name: None if (offset := found_offsets[TopicPartition(*name)]) < 0 else offset for name in names}

    offsets = ranges.resolve_bound(setting, bound, names, find=find)
    return {
        TopicPartition(*name): latest[TopicPartition(*name)] if offset == ranges.LATEST else offset
        for name, offset in offsets.items()
    }


def _reject_missing_offsets(name: Name, start: int, end: int, first: int, log_end: int) -> None:
    """Reject offsets that a partition of the source does not have."""
    if NO_START < start < first:
        problem = describe_offset_below_start(format_partition(name), start, first)
        raise OptionError(f"`start`: {problem}; give a later offset, or a time")
    for setting, offset in (("start", start), ("end", end)):
        if log_end < offset < NO_END:
            problem = describe_offset_beyond_end(format_partition(name), offset, log_end)
            raise OptionError(f"`{setting}`: {problem}; specify a lower offset or a time")


def _name_of(partition: TopicPartition) -> Name:
    return partition.topic, partition.partition


def clip_batches(fetched_batches: FetchedBatches, offsets: OffsetRange, report: MirroredPartition) -> FetchedBatches:
    """Return the batches, without records outside a range. Batches at the ends of the range are rebuilt.

    A damaged batch at an end is returned whole; the writer rejects or omits it.

    Args:
        fetched_batches: batches of one partition.
        offsets: range of offsets to copy.
        report: report of the partition, in which rebuilt batches are counted.
    """
    batches, data = fetched_batches.batches, as_array(fetched_batches.data)
    bases, last = batches.column("base_offset"), batches.column("last_offset")
    positions, sizes = batches.column("position"), batches.column("size")
    is_outside = (last < offsets.first_offset) | (batches.is_v2 & (bases >= offsets.end_offset))
    crosses = ~is_outside & ((bases < offsets.first_offset) | ~batches.is_v2 | (last >= offsets.end_offset))
    if not (is_outside | crosses).any():
        return fetched_batches
    parts = []
    for row in range(len(batches)):
        if is_outside[row]:
            continue
        part = data[int(positions[row]) : int(positions[row] + sizes[row])]
        if crosses[row]:
            part, removed_count = trim_batch(data, batches, row, offsets)
            if removed_count and len(part):
                report.opened[SHORTENED_REASON] += 1
                report.rebuilt += 1
        parts.append(bytes(part))
    return replace(fetched_batches, data=b"".join(parts))


def check_partition_numbers(numbers: frozenset[int] | None, partitions: Collection[TopicPartition]) -> None:
    """Check that each selected number is a partition of a selected topic.

    Raises:
        OptionError: no topic has a partition with this number.
    """
    if numbers is not None:
        ranges.check_partitions(numbers, {partition.partition for partition in partitions})
