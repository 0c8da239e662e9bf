"""How an answer of Fetch gets into the copy: with the offsets that it has, or with new ones and a mapping.

Batches to one partition in their order, each once: after a failure the copy's end says what arrived.

One request at a time and partition, so that nothing can be overtaken. Only the mirror writes to a copy: where its end
is not where it should be, somebody else has written, and the mirror stops.
"""

from __future__ import annotations

import asyncio
import os
import time
from bisect import bisect_right
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Final, NamedTuple

import numpy as np

from kafkaframes.client import Fetched
from kafkaframes.client.batches import at_offset_0
from kafkaframes.client.cluster import ClusterClient, is_retriable
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.offsets import LATEST, ends
from kafkaframes.client.sender import produce_raw, takes_sets
from kafkaframes.errors import BrokerError, CorruptRecordError, ErrorCode, NetworkError
from kafkaframes.jobs.mirror.mapping import (
    BATCH_BYTES,
    DAMAGED,
    Mapping,
    begin_writing,
    damaged_batches,
    read_mapping,
    renumber,
)
from kafkaframes.jobs.mirror.settings import PartitionReport
from kafkaframes.protocol.spec.model import NIL_UUID
from kafkaframes.records.build import build_empty_batch
from kafkaframes.records.divide import divide_batch
from kafkaframes.records.scan import Batches, scan_all
from kafkaframes.storage.log.transactions import TransactionState


@dataclass(frozen=True, slots=True)
class Parcel:
    """Batches that follow each other.

    Attributes:
        data: their bytes.
        ends: of each batch, the position behind it.
        target_ends: of each, the first offset of the copy behind it.
        expected: the base offset that the broker will give the first; None where batches bring their own.
        as_set: several go in one request.
    """

    data: memoryview
    ends: list[int]
    target_ends: list[int]
    expected: int | None = None
    as_set: bool = False

    def start(self, index: int) -> int:
        """The position of a batch."""
        return self.ends[index - 1] if index else 0

    def base(self, index: int) -> int | None:
        """The base offset that a batch will get, if the broker decides."""
        if self.expected is None:
            return None
        return self.target_ends[index - 1] if index else self.expected

    def divide(self, index: int) -> Parcel | None:
        """Return a parcel with smaller batches, of the same records, in the place of one; None if it is one record."""
        start, end = self.start(index), self.ends[index]
        batch = bytes(self.data[start:end])
        header = scan_all(batch)
        if not header.is_v2[0] or header.is_control[0]:
            return None
        parts = divide_batch(batch, len(batch) * 2 // 3)
        if len(parts) < 2:
            return None
        sizes = [len(data) for data, _ in parts]
        if self.expected is None:  # offsets are kept
            last = [int(scan_all(data).column("last_offset")[0]) + 1 for data, _ in parts]
            targets = [*last[:-1], self.target_ends[index]]
        else:
            base = self.target_ends[index - 1] if index else self.expected
            targets = [base + total for total in accumulate(count for _, count in parts)]
            parts = [(at_offset_0(data), count) for data, count in parts]
        joined = b"".join((self.data[:start], *(data for data, _ in parts), self.data[end:]))
        growth = len(joined) - len(self.data)
        ends = [*self.ends[:index], *(start + total for total in accumulate(sizes))]
        return Parcel(
            memoryview(joined),
            [*ends, *(position + growth for position in self.ends[index + 1 :])],
            [*self.target_ends[:index], *targets, *self.target_ends[index + 1 :]],
            expected=self.expected,
            as_set=self.as_set,
        )

    def stop(self, index: int, request_bytes: int) -> int:
        """The batch behind those that go into one request."""
        if not self.as_set:
            return index + 1
        return max(bisect_right(self.ends, self.start(index) + request_bytes), index + 1)


class Divided(NamedTuple):
    """The batches that were larger than the target accepts, and the parts in which their records were written."""

    batches: int
    parts: int

    def add_to(self, report: PartitionReport) -> None:
        """Add them to a partition's report."""
        if self.batches:
            report.batches_written += self.parts - self.batches
            report.opened[TOO_LARGE] += self.batches
            report.rebuilt += self.parts


async def end_of(cluster: ClusterClient, partition: TopicPartition) -> int:
    """Return where the copy of a partition ends."""
    return (await ends(cluster, [partition], LATEST))[partition]


async def deliver(
    cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, *, request_bytes: int = 1 << 20
) -> Divided:
    """Write all batches of a parcel, in order, each once; one that is too large for the target in parts (KIP-126).

    Returns:
        How many batches were written in parts, and in how many parts altogether.

    Raises:
        BrokerError: the broker refuses one, or something else writes to the copy.
        NetworkError: it cannot be reached for ``default_api_timeout_ms``.
    """
    index, failures = 0, 0
    divided, parts, parts_end = 0, 0, 0  # ``parts_end``: batches before it are parts
    patience_s = cluster.settings.default_api_timeout_ms / 1000
    deadline = time.monotonic() + patience_s
    while index < len(parcel.ends):
        try:
            if failures:
                index = await _arrived(cluster, partition, parcel, index)
            index = await _send(cluster, partition, parcel, index, request_bytes)
            failures, deadline = 0, time.monotonic() + patience_s
        except (BrokerError, NetworkError) as error:
            if isinstance(error, BrokerError) and error.code == ErrorCode.MESSAGE_TOO_LARGE:
                if parcel.stop(index, request_bytes) > index + 1:
                    request_bytes = 0  # one batch in each request from now on, to find the one that is too large
                    continue
                if (smaller := parcel.divide(index)) is not None:
                    is_part, more = index < parts_end, len(smaller.ends) - len(parcel.ends)
                    divided, parts = divided + (not is_part), parts + more + (not is_part)
                    parts_end = parts_end + more if is_part else index + more + 1
                    parcel = smaller
                    continue
            if not is_retriable(error) or time.monotonic() >= deadline:
                raise
            await asyncio.sleep(cluster.backoff_s(failures))
            failures += 1
    return Divided(divided, parts)


async def _send(
    cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, index: int, request_bytes: int
) -> int:
    """Send one request; return the batch behind those that it carried."""
    if index == len(parcel.ends):
        return index
    stop = parcel.stop(index, request_bytes)
    part = parcel.data[parcel.start(index) : parcel.ends[stop - 1]]
    base = await produce_raw(cluster, partition, part, as_set=parcel.as_set)
    _check_base(partition, base, parcel.base(index))
    return stop


async def _arrived(cluster: ClusterClient, partition: TopicPartition, parcel: Parcel, index: int) -> int:
    """Return the first batch from ``index`` on that the copy does not have."""
    end = await end_of(cluster, partition)
    arrived = max(bisect_right(parcel.target_ends, end), index)
    if arrived < len(parcel.ends):
        _check_base(partition, end, parcel.base(arrived))
    return arrived


def _check_base(partition: TopicPartition, base: int, expected: int | None) -> None:
    if expected is not None and base != expected:
        raise BrokerError(
            f"{partition} of the target goes on at {base:,}, not at {expected:,}: something else writes to it"
        )


TOO_LARGE: Final = "larger than the target accepts"
_LEAST_REQUEST: Final = 14  # bytes: the smallest segment.bytes


@dataclass(slots=True)
class KeepingWriter:
    """Batches go as they are, offsets and all, into a broker that keeps them; the copy's end is where to go on."""

    cluster: ClusterClient
    skip_damaged: bool = False
    request_bytes: dict[str, int] = field(default_factory=dict)  # by topic, so that a request fits into a segment
    _next: dict[TopicPartition, int] = field(default_factory=dict)
    _sets: dict[TopicPartition, bool] = field(default_factory=dict)

    async def open(self, report: PartitionReport, identity: str) -> int:
        """Return where the copy ends, and where to go on; -1 where it is empty."""
        partition = TopicPartition(report.topic, report.partition)
        self._next[partition] = report.target_end = await end_of(self.cluster, partition)
        self._sets[partition] = await takes_sets(self.cluster, partition)
        return self._next[partition] or -1

    async def write(self, fetched: Fetched, report: PartitionReport) -> None:
        """Send the batches that the copy does not have."""
        partition, batches = fetched.partition, fetched.batches
        _check_order(partition, batches)
        is_new = batches.column("last_offset") >= self._next[partition]
        damaged = damaged_batches(fetched, skip=self.skip_damaged) & is_new
        kept = batches.select(is_new & ~damaged)
        report.batches_read += int(is_new.sum())
        if damaged.any():
            report.batches_left_out[DAMAGED] += int(damaged.sum())
        if len(kept):
            await self._send(fetched, kept, report)

    async def _send(self, fetched: Fetched, kept: Batches, report: PartitionReport) -> None:
        partition = fetched.partition
        positions, sizes = kept.column("position"), kept.column("size")
        ends, last = np.cumsum(sizes), int(kept.column("last_offset")[-1])
        start = int(positions[0])
        data = memoryview(fetched.data)
        if (positions == start + ends - sizes).all():  # nothing between them is left out
            data = data[start : start + int(ends[-1])]
        else:
            data = memoryview(b"".join(data[at : at + size] for at, size in zip(positions, sizes, strict=True)))
        targets = (kept.column("last_offset") + 1).tolist()
        parcel = Parcel(data, ends.tolist(), targets, as_set=self._sets[partition])
        request_bytes = max(self.request_bytes.get(partition.topic, 1 << 20), _LEAST_REQUEST)
        divided = await deliver(self.cluster, partition, parcel, request_bytes=request_bytes)
        counts = kept.column("count")
        is_data = kept.is_v2 & ~kept.is_control
        records = int(counts[is_data].sum())
        report.batches_written += len(kept)
        divided.add_to(report)
        report.unopened += int((~kept.is_v2).sum())
        report.records_read += records
        report.records_written += records
        report.bytes_read += len(data)
        report.bytes_written += len(data)
        self._next[partition] = report.target_end = last + 1

    async def reach(self, partition: TopicPartition, end: int) -> None:
        """Let a copy end where the source ends, though its last records are gone: with a batch that holds none.

        A cleaner leaves such batches (KAFKA-5490); the next record gets the offset that it would get in the source.
        """
        if end > self._next[partition]:
            empty = build_empty_batch(end - 1, end - 1)
            parcel = Parcel(memoryview(empty), [len(empty)], [end], as_set=self._sets[partition])
            await deliver(self.cluster, partition, parcel)
            self._next[partition] = end

    def end_of_copy(self, partition: TopicPartition) -> int:
        """Return the offset after the copy's last record."""
        return self._next[partition]

    def translate(self, partition: TopicPartition, offset: int) -> int:
        """Return the same offset; past the copy's end, the end."""
        return min(offset, self._next.get(partition, offset))


def _check_order(partition: TopicPartition, batches: Batches) -> None:
    """Refuse batches whose offsets go back: no log can keep them."""
    last = batches.column("last_offset")
    wrong = np.flatnonzero(last[1:] <= last[:-1])
    if len(wrong):
        before, after = last[wrong[0]], last[wrong[0] + 1]
        reason = f"a batch that ends with offset {after} follows one that ends with {before}: kafkaframes repair first"
        raise CorruptRecordError(reason, file=str(partition))


@dataclass(slots=True)
class MappingWriter:
    """Batches get offsets from a broker that does not keep them; ``mapping.py`` remembers which."""

    cluster: ClusterClient
    state_dir: str
    skip_damaged: bool = False
    is_dry_run: bool = False
    batch_bytes: dict[str, int] = field(default_factory=dict)  # by topic: max.message.bytes
    transactions: dict[TopicPartition, TransactionState] = field(default_factory=dict)  # of a directory, by its markers
    _mappings: dict[TopicPartition, Mapping] = field(default_factory=dict)
    _identities: dict[TopicPartition, str] = field(default_factory=dict)

    async def open(self, report: PartitionReport, identity: str) -> int:
        """Return the offset of the source to begin with, -1 for none: of a mapping that fits where the copy ends."""
        partition = TopicPartition(report.topic, report.partition)
        report.target_end = await end_of(self.cluster, partition)
        path = os.path.join(self.state_dir, f"{partition}.offsets")
        stored = read_mapping(path, identity, target_end=report.target_end)
        mapping = stored if self.is_dry_run else begin_writing(stored, path, identity)
        self._mappings[partition], self._identities[partition] = mapping, identity
        return mapping.source_next

    async def write(self, fetched: Fetched, report: PartitionReport) -> None:
        """Send what a consumer of committed records sees, and write down where it goes before it does."""
        mapping, partition = self._mappings[fetched.partition], fetched.partition
        fetched = self._stable_part(fetched)
        start = max(mapping.source_next, fetched.fetch_offset)
        damaged = damaged_batches(fetched, skip=self.skip_damaged)
        batch_bytes = min(BATCH_BYTES, self.batch_bytes.get(partition.topic, BATCH_BYTES))
        transactions = self.transactions.get(partition)
        made = renumber(fetched, start, damaged, batch_bytes=batch_bytes, transactions=transactions)
        expected, ends, target_ends = mapping.target_next, list[int](), list[int]()
        position, target = 0, expected
        for batch, count in zip(made.batches, made.counts, strict=True):
            position, target = position + len(batch), target + count
            ends.append(position)
            target_ends.append(target)
        mapping.add(made.runs(expected))
        parcel = Parcel(memoryview(b"".join(made.batches)), ends, target_ends, expected=expected)
        divided = await deliver(self.cluster, partition, parcel)
        mapping.reach(fetched.next_offset)
        report.batches_read += len(made.batches) - made.rebuilt + sum(made.opened.values())
        report.batches_read += sum(made.batches_left_out.values())
        report.batches_written += len(made.batches)
        divided.add_to(report)
        report.rebuilt += made.rebuilt
        report.records_read += made.records_read
        report.records_written += sum(made.counts)
        report.bytes_read += sum(fetched.batches.column("size").tolist())
        report.bytes_written += position
        report.left_out += made.left_out
        report.batches_left_out += made.batches_left_out
        report.opened += made.opened
        report.target_end = target

    def _stable_part(self, fetched: Fetched) -> Fetched:
        """Return what a directory's markers show to be stable; its broker may not know of an open transaction."""
        state = self.transactions.get(fetched.partition)
        if state is None or not state.open:
            return fetched
        beyond = np.flatnonzero(fetched.batches.column("last_offset") >= state.last_stable_offset)
        if not len(beyond):
            return fetched
        return replace(fetched, data=fetched.data[: int(fetched.batches.column("position")[beyond[0]])])

    def mapping_of(self, partition: TopicPartition) -> Mapping:
        """Return the mapping of a partition that was opened."""
        return self._mappings[partition]

    def proves_identity(self, partition: TopicPartition) -> bool:
        """Return whether the mapping names the ids of both topics, so that it is of these and no others."""
        return str(NIL_UUID) not in self._identities[partition].split()

    def translate(self, partition: TopicPartition, offset: int) -> int:
        """Return the offset of the copy's first record that is at or after ``offset``."""
        return self._mappings[partition].translate(offset)

    def close(self) -> None:
        """Let go of the files."""
        for mapping in self._mappings.values():
            mapping.close()


Writer = KeepingWriter | MappingWriter
