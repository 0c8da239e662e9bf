"""Write fetched batches to the copy, either with the source's offsets, or with new offsets and a mapping.

Batches of a partition are written in order and exactly once. After a failure, the copy's end offset shows which batches
arrived. Each partition has one request in flight, so that requests cannot overtake each other. Only the mirror may
write to a copy. If the copy's end offset is unexpected, another producer has written to it, and the mirror stops.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from kafkaframes.client import FetchedBatches
from kafkaframes.client.batches import reset_base_offset
from kafkaframes.client.cluster import ClusterClient, is_retriable
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.offsets import LATEST, list_boundary_offsets
from kafkaframes.client.sender import accepts_record_sets, produce_raw
from kafkaframes.errors import BrokerError, CorruptRecordError, ErrorCode, NetworkError
from kafkaframes.errors.words import count_text
from kafkaframes.jobs.mirror.mapping import (
    DAMAGED_BATCH_REASON,
    REBUILT_BATCH_BYTES,
    OffsetMapping,
    begin_writing,
    find_damaged_batches,
    lock_topic,
    name_mapping_file,
    read_mapping,
    renumber_fetched_batches,
)
from kafkaframes.jobs.mirror.settings import MirroredPartition
from kafkaframes.records.build import build_empty_batch
from kafkaframes.records.divide import split_batch
from kafkaframes.records.scan import BatchHeaders, scan_all
from kafkaframes.storage.log.transactions import TransactionState
from kafkaframes.wire.primitives import NIL_UUID


@dataclass(frozen=True, slots=True)
class BatchParcel:
    """Consecutive batches to write.

    Attributes:
        data: bytes of the batches.
        ends: end position of each batch in ``data``.
        target_ends: end offset of the copy after each batch is appended.
        expected_offset: base offset that the broker will assign to the first batch; None if batches keep their offsets.
        as_set: whether a request may have several batches.
    """

    data: memoryview
    ends: list[int]
    target_ends: list[int]
    expected_offset: int | None = None
    as_set: bool = False

    def get_position(self, index: int) -> int:
        """Return the position of a batch in ``data``."""
        return self.ends[index - 1] if index else 0

    def get_expected_base_offset(self, index: int) -> int | None:
        """Return the base offset that the broker will assign to a batch; None if batches keep their offsets."""
        if self.expected_offset is None:
            return None
        return self.target_ends[index - 1] if index else self.expected_offset

    def split_batch(self, index: int) -> BatchParcel | None:
        """Return a parcel with a batch split into smaller ones; None if it cannot be split, as with a single record."""
        start, end = self.get_position(index), self.ends[index]
        batch = bytes(self.data[start:end])
        header = scan_all(batch)
        if not header.is_v2[0] or header.is_control[0]:
            return None
        parts = split_batch(batch, len(batch) * 2 // 3)
        if len(parts) < 2:
            return None
        sizes = [len(data) for data, _ in parts]
        if self.expected_offset is None:  # batches keep their offsets
            last = [int(scan_all(data).column("last_offset")[0]) + 1 for data, _ in parts]
            targets = [*last[:-1], self.target_ends[index]]
        else:
            base = self.target_ends[index - 1] if index else self.expected_offset
            targets = [base + total for total in accumulate(count for _, count in parts)]
            parts = [(reset_base_offset(data), count) for data, count in parts]
        new_data = b"".join((self.data[:start], *(data for data, _ in parts), self.data[end:]))
        added_batches = len(new_data) - len(self.data)
        ends = [*self.ends[:index], *(start + total for total in accumulate(sizes))]
        return BatchParcel(
            memoryview(new_data),
            [*ends, *(position + added_batches for position in self.ends[index + 1 :])],
            [*self.target_ends[:index], *targets, *self.target_ends[index + 1 :]],
            expected_offset=self.expected_offset,
            as_set=self.as_set,
        )

    def find_request_end(self, index: int, request_bytes: int) -> int:
        """Return the index of the first batch, after batch ``index``, that does not fit into the same request."""
        if not self.as_set:
            return index + 1
        return max(bisect_right(self.ends, self.get_position(index) + request_bytes), index + 1)


class SplitCounts(NamedTuple):
    """The number of batches that the target rejected as too large, so that they were split, and of their parts."""

    batches: int
    parts: int

    def add_to_report(self, report: MirroredPartition) -> None:
        """Add the numbers to a partition's report."""
        if self.batches:
            report.batches_written += self.parts - self.batches
            report.opened[TOO_LARGE_REASON] += self.batches
            report.rebuilt += self.parts


async def read_end_offset(cluster: ClusterClient, partition: TopicPartition) -> int:
    """Return the end offset of a partition's copy."""
    return (await list_boundary_offsets(cluster, [partition], LATEST))[partition]


async def deliver_parcel(
    cluster: ClusterClient, partition: TopicPartition, parcel: BatchParcel, *, request_bytes: int = 1 << 20
) -> SplitCounts:
    """Write all batches of a parcel in order, each once. A batch that is too large for the target is split (KIP-126).

    Returns:
        The number of batches that were split, and the number of their parts.

    Raises:
        BrokerError: the broker rejects a batch, or another producer writes to the copy.
        NetworkError: the broker is unreachable for ``default_api_timeout_ms``.
    """
    index, failures = 0, 0
    split_count, parts, parts_end = 0, 0, 0  # all batches before ``parts_end`` are parts of a split batch
    patience_s = cluster.settings.default_api_timeout_ms / 1000
    deadline = time.monotonic() + patience_s
    while index < len(parcel.ends):
        try:
            if failures:
                index = await _find_first_missing_batch(cluster, partition, parcel, index)
            index = await _send_request(cluster, partition, parcel, index, request_bytes)
            failures, deadline = 0, time.monotonic() + patience_s
        except (BrokerError, NetworkError) as error:
            if isinstance(error, BrokerError) and error.code == ErrorCode.MESSAGE_TOO_LARGE:
                if parcel.find_request_end(index, request_bytes) > index + 1:
                    request_bytes = 0  # from now on one batch per request, to find the batch that is too large
                    continue
                if (smaller := parcel.split_batch(index)) is not None:
                    is_part, unsent_count = index < parts_end, len(smaller.ends) - len(parcel.ends)
                    split_count, parts = split_count + (not is_part), parts + unsent_count + (not is_part)
                    parts_end = parts_end + unsent_count if is_part else index + unsent_count + 1
                    parcel = smaller
                    continue
                raise _explain_large_batch(partition, parcel, index, error) from None
            if not is_retriable(error) or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(cluster.backoff_s(failures))
            failures += 1
    return SplitCounts(split_count, parts)


def _explain_large_batch(partition: TopicPartition, parcel: BatchParcel, index: int, error: BrokerError) -> BrokerError:
    """Return the error about a large batch that cannot be split, with its offset, its size and the remedy."""
    size = parcel.ends[index] - parcel.get_position(index)
    offset = parcel.get_expected_base_offset(index)
    if offset is None:
        offset = int(scan_all(parcel.data[parcel.get_position(index) : parcel.ends[index]]).column("base_offset")[0])
    reason = (
        f"the batch at offset {offset:,} of the copy of {partition} has {count_text(size, 'byte')}, which is more than "
        "the target accepts, and cannot be split; increase `max.message.bytes` of the target's topic, and resume"
    )
    return BrokerError(reason, error.code)


async def _send_request(
    cluster: ClusterClient, partition: TopicPartition, parcel: BatchParcel, index: int, request_bytes: int
) -> int:
    """Send the batches that fit into one request, and return the index of the next batch."""
    if index == len(parcel.ends):
        return index
    stop = parcel.find_request_end(index, request_bytes)
    part = parcel.data[parcel.get_position(index) : parcel.ends[stop - 1]]
    base = await produce_raw(cluster, partition, part, as_set=parcel.as_set)
    _check_base_offset(partition, base, parcel.get_expected_base_offset(index))
    return stop


async def _find_first_missing_batch(
    cluster: ClusterClient, partition: TopicPartition, parcel: BatchParcel, index: int
) -> int:
    """Return the index of the first batch, from ``index`` on, that the copy does not have."""
    end = await read_end_offset(cluster, partition)
    next_index = max(bisect_right(parcel.target_ends, end), index)
    if next_index < len(parcel.ends):
        _check_base_offset(partition, end, parcel.get_expected_base_offset(next_index))
    return next_index


def _check_base_offset(partition: TopicPartition, base: int, expected_base: int | None) -> None:
    """Check that the target assigned the expected base offset."""
    if expected_base is not None and base != expected_base:
        raise BrokerError(
            f"{partition} of the target continues at offset {base:,}, not at {expected_base:,}: another program "
            "writes to it"
        )


TOO_LARGE_REASON: Final = "larger than the target accepts"
_MIN_REQUEST_BYTES: Final = 14  # the minimum of segment.bytes


@dataclass(slots=True)
class OffsetKeepingWriter:
    """Writes unchanged batches to a broker that keeps their offsets. A mirror resumes at the copy's end offset."""

    cluster: ClusterClient
    skip_damaged: bool = False
    request_bytes: dict[str, int] = field(default_factory=dict)  # limit by topic, so that a request fits into a segment
    first_offsets: dict[TopicPartition, int] = field(default_factory=dict)  # first offset of each copy
    _next: dict[TopicPartition, int] = field(default_factory=dict)
    _sets: dict[TopicPartition, bool] = field(default_factory=dict)

    async def open_copy(self, report: MirroredPartition, identity: str) -> int:
        """Return the copy's end offset, at which the mirror resumes; -1 if the copy is empty."""
        partition = TopicPartition(report.topic, report.partition)
        self._next[partition] = report.target_end = await read_end_offset(self.cluster, partition)
        self._sets[partition] = await accepts_record_sets(self.cluster, partition)
        return self._next[partition] or -1

    async def write_batches(self, fetched_batches: FetchedBatches, report: MirroredPartition) -> None:
        """Write the batches that the copy does not have."""
        partition, batches = fetched_batches.partition, fetched_batches.batches
        _check_order(partition, batches)
        is_new = batches.column("last_offset") >= self._next[partition]
        is_damaged = find_damaged_batches(fetched_batches, skip=self.skip_damaged) & is_new
        batches_to_copy = batches.select(is_new & ~is_damaged)
        report.batches_read += int(is_new.sum())
        if is_damaged.any():
            report.batches_left_out[DAMAGED_BATCH_REASON] += int(is_damaged.sum())
        if len(batches_to_copy):
            await self._send_parcel(fetched_batches, batches_to_copy, report)

    async def _send_parcel(
        self, fetched_batches: FetchedBatches, batches_to_copy: BatchHeaders, report: MirroredPartition
    ) -> None:
        """Write the batches of a fetch as one parcel. Contiguous batches are not copied in memory."""
        partition = fetched_batches.partition
        positions, sizes = batches_to_copy.column("position"), batches_to_copy.column("size")
        ends, last = np.cumsum(sizes), int(batches_to_copy.column("last_offset")[-1])
        start = int(positions[0])
        data = memoryview(fetched_batches.data)
        if (positions == start + ends - sizes).all():  # the batches are adjacent: none between them is omitted
            data = data[start : start + int(ends[-1])]
        else:
            data = memoryview(
                b"".join(data[position : position + size] for position, size in zip(positions, sizes, strict=True))
            )
        targets = (batches_to_copy.column("last_offset") + 1).tolist()
        parcel = BatchParcel(data, ends.tolist(), targets, as_set=self._sets[partition])
        request_bytes = max(self.request_bytes.get(partition.topic, 1 << 20), _MIN_REQUEST_BYTES)
        split_counts = await deliver_parcel(self.cluster, partition, parcel, request_bytes=request_bytes)
        counts = batches_to_copy.column("count")
        is_data = batches_to_copy.is_v2 & ~batches_to_copy.is_control
        records = int(counts[is_data].sum())
        report.batches_written += len(batches_to_copy)
        split_counts.add_to_report(report)
        report.unopened += int((~batches_to_copy.is_v2).sum())
        report.records_read += records
        report.records_written += records
        report.bytes_read += len(data)
        report.bytes_written += len(data)
        self._next[partition] = report.target_end = last + 1

    async def extend_copy(self, partition: TopicPartition, end: int) -> None:
        """Append an empty batch, so that the copy ends at the source's end offset even if the last records are deleted.

        Cleaners write empty batches too (KAFKA-5490). The next record gets the same offset as in the source.
        """
        if end > self._next[partition]:
            empty = build_empty_batch(end - 1, end - 1)
            parcel = BatchParcel(memoryview(empty), [len(empty)], [end], as_set=self._sets[partition])
            await deliver_parcel(self.cluster, partition, parcel)
            self._next[partition] = end

    def get_copy_end(self, partition: TopicPartition) -> int:
        """Return the offset after the copy's last record."""
        return self._next[partition]

    def translate_offset(self, partition: TopicPartition, offset: int) -> int:
        """Return the same offset, limited to the copy's first offset and its end offset."""
        return min(max(offset, self.first_offsets.get(partition, offset)), self._next.get(partition, offset))


def _check_order(partition: TopicPartition, batches: BatchHeaders) -> None:
    """Reject batches with decreasing offsets, because a log cannot store them."""
    last = batches.column("last_offset")
    decreases = np.flatnonzero(last[1:] <= last[:-1])
    if len(decreases):
        previous_last, next_last = last[decreases[0]], last[decreases[0] + 1]
        reason = (
            f"a batch that ends with offset {next_last} follows one that ends with {previous_last}; "
            "repair the source with kafkaframes repair"
        )
        raise CorruptRecordError(reason, file=str(partition))


@dataclass(slots=True)
class OffsetMappingWriter:
    """Writes batches to a broker that assigns new offsets, and stores these in a mapping (``mapping.py``)."""

    cluster: ClusterClient
    state_dir: str
    skip_damaged: bool = False
    is_dry_run: bool = False
    batch_bytes: dict[str, int] = field(default_factory=dict)  # max.message.bytes by topic
    # Transactions that the markers in a log directory describe.
    transactions: dict[TopicPartition, TransactionState] = field(default_factory=dict)
    _mappings: dict[TopicPartition, OffsetMapping] = field(default_factory=dict)
    _identities: dict[TopicPartition, str] = field(default_factory=dict)
    _lock_releases: dict[str, Callable[[], None]] = field(default_factory=dict)  # by topic

    async def open_copy(self, report: MirroredPartition, identity: str) -> int:
        """Return the source offset at which the mirror resumes, from the copy's mapping; -1 if the mapping is empty."""
        partition = TopicPartition(report.topic, report.partition)
        report.target_end = await read_end_offset(self.cluster, partition)
        if not self.is_dry_run and partition.topic not in self._lock_releases:
            self._lock_releases[partition.topic] = lock_topic(self.state_dir, partition.topic)
        path = os.path.join(self.state_dir, name_mapping_file(partition.topic, partition.partition))
        stored_mapping = read_mapping(path, identity, target_end=report.target_end)
        mapping = stored_mapping if self.is_dry_run else begin_writing(stored_mapping, path, identity)
        self._mappings[partition], self._identities[partition] = mapping, identity
        return mapping.next_source_offset

    async def write_batches(self, fetched_batches: FetchedBatches, report: MirroredPartition) -> None:
        """Write the records that a read_committed consumer sees, after adding their offsets to the mapping."""
        mapping, partition = self._mappings[fetched_batches.partition], fetched_batches.partition
        fetched_batches = self._select_stable_batches(fetched_batches)
        start = max(mapping.next_source_offset, fetched_batches.fetch_offset)
        is_damaged = find_damaged_batches(fetched_batches, skip=self.skip_damaged)
        batch_bytes = min(REBUILT_BATCH_BYTES, self.batch_bytes.get(partition.topic, REBUILT_BATCH_BYTES))
        transactions = self.transactions.get(partition)
        mapped_batches = renumber_fetched_batches(
            fetched_batches, start, is_damaged, batch_bytes=batch_bytes, transactions=transactions
        )
        expected_base, ends, target_ends = mapping.next_target_offset, list[int](), list[int]()
        position, target = 0, expected_base
        for batch, count in zip(mapped_batches.batches, mapped_batches.counts, strict=True):
            position, target = position + len(batch), target + count
            ends.append(position)
            target_ends.append(target)
        mapping.add_runs(mapped_batches.assign_target_offsets(expected_base))
        parcel = BatchParcel(
            memoryview(b"".join(mapped_batches.batches)), ends, target_ends, expected_offset=expected_base
        )
        split_counts = await deliver_parcel(self.cluster, partition, parcel)
        mapping.advance_source(fetched_batches.next_offset)
        report.batches_read += (
            len(mapped_batches.batches) - mapped_batches.rebuilt + sum(mapped_batches.decoded_batches.values())
        )
        report.batches_read += sum(mapped_batches.batches_left_out.values())
        report.batches_written += len(mapped_batches.batches)
        split_counts.add_to_report(report)
        report.rebuilt += mapped_batches.rebuilt
        report.records_read += mapped_batches.records_read
        report.records_written += sum(mapped_batches.counts)
        report.bytes_read += sum(fetched_batches.batches.column("size").tolist())
        report.bytes_written += position
        report.left_out += mapped_batches.left_out
        report.batches_left_out += mapped_batches.batches_left_out
        report.opened += mapped_batches.decoded_batches
        report.target_end = target

    def _select_stable_batches(self, fetched_batches: FetchedBatches) -> FetchedBatches:
        """Return the batches before the first open transaction by the markers in a source directory."""
        state = self.transactions.get(fetched_batches.partition)
        if state is None or not state.open:
            return fetched_batches
        first_unstable = np.flatnonzero(fetched_batches.batches.column("last_offset") >= state.last_stable_offset)
        if not len(first_unstable):
            return fetched_batches
        return replace(
            fetched_batches,
            data=fetched_batches.data[: int(fetched_batches.batches.column("position")[first_unstable[0]])],
        )

    def get_mapping(self, partition: TopicPartition) -> OffsetMapping:
        """Return the mapping of an opened partition."""
        return self._mappings[partition]

    def proves_identity(self, partition: TopicPartition) -> bool:
        """Return whether the mapping stores the topic ids of source and copy, which prove that it belongs to them."""
        return str(NIL_UUID) not in self._identities[partition].split()

    def translate_offset(self, partition: TopicPartition, offset: int) -> int:
        """Return the offset of the copy's first record from source offset ``offset`` on."""
        return self._mappings[partition].translate_offset(offset)

    def close(self) -> None:
        """Close the mapping files, and release the locks."""
        for mapping in self._mappings.values():
            mapping.close()
        for release in self._lock_releases.values():
            release()
        self._lock_releases.clear()


Writer = OffsetKeepingWriter | OffsetMappingWriter
