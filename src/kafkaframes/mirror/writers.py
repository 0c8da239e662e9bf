"""How an answer of Fetch gets into the copy: with the offsets that it has, or with new ones and a mapping."""

from __future__ import annotations

import os
from bisect import bisect_left
from dataclasses import dataclass, field
from typing import Final, Protocol

from kafkaframes.client import Fetched
from kafkaframes.client.cluster import ClusterClient
from kafkaframes.client.metadata import TopicPartition
from kafkaframes.client.raw import takes_sets
from kafkaframes.mirror.mapping import Mapping, begin_writing, read_mapping
from kafkaframes.mirror.renumbering import BATCH_BYTES, renumber
from kafkaframes.mirror.report import PartitionReport
from kafkaframes.mirror.sending import Parcel, deliver, end_of
from kafkaframes.records.layout import CONTROL

_LEAST_REQUEST: Final = 14  # bytes: the smallest segment.bytes


class Writer(Protocol):
    """One way to write."""

    async def open(self, report: PartitionReport, identity: str) -> int:
        """Return the offset of the source to begin with; -1 for a copy that is empty."""

    async def write(self, fetched: Fetched, report: PartitionReport) -> None:
        """Write an answer; counts go into the report."""

    def translate(self, partition: TopicPartition, offset: int) -> int:
        """Return the copy's offset for one of the source."""

    def close(self) -> None:
        """End."""


@dataclass(slots=True)
class KeepingWriter:
    """Batches go as they are, offsets and all, into a broker that keeps them; the copy's end is where to go on."""

    cluster: ClusterClient
    request_bytes: dict[str, int] = field(default_factory=dict)  # by topic, so that a request fits into a segment
    _next: dict[TopicPartition, int] = field(default_factory=dict)
    _sets: dict[TopicPartition, bool] = field(default_factory=dict)

    async def open(self, report: PartitionReport, identity: str) -> int:
        """Look where the copy ends."""
        partition = TopicPartition(report.topic, report.partition)
        self._next[partition] = report.target_end = await end_of(self.cluster, partition)
        self._sets[partition] = await takes_sets(self.cluster, partition)
        return self._next[partition] or -1

    async def write(self, fetched: Fetched, report: PartitionReport) -> None:
        """Send the batches that the copy does not have."""
        partition, batches = fetched.partition, fetched.batches
        last = batches.column("last_offset").tolist()
        first = bisect_left(last, self._next[partition])
        if first == len(last):
            return
        kept = batches.part(first, len(last))
        positions, sizes = kept.column("position"), kept.column("size")
        start, end = int(positions[0]), int(positions[-1] + sizes[-1])
        parcel = Parcel(
            memoryview(fetched.data)[start:end],
            (positions + sizes - start).tolist(),
            [one + 1 for one in last[first:]],
            as_set=self._sets[partition],
        )
        request_bytes = max(self.request_bytes.get(partition.topic, 1 << 20), _LEAST_REQUEST)
        await deliver(self.cluster, partition, parcel, request_bytes=request_bytes)
        counts = kept.column("count")
        is_data = (kept.column("magic") >= 2) & (kept.column("attributes") & CONTROL == 0)
        records = int(counts[is_data].sum())
        report.batches_read += len(kept)
        report.batches_written += len(kept)
        report.records_read += records
        report.records_written += records
        report.bytes_read += end - start
        report.bytes_written += end - start
        self._next[partition] = report.target_end = last[-1] + 1

    def translate(self, partition: TopicPartition, offset: int) -> int:
        """Return the same offset; past the copy's end, the end."""
        return min(offset, self._next.get(partition, offset))

    def close(self) -> None:
        """End."""


@dataclass(slots=True)
class MappingWriter:
    """Batches get offsets from a broker that does not keep them; ``mapping.py`` remembers which."""

    cluster: ClusterClient
    state_dir: str
    is_dry_run: bool = False
    batch_bytes: dict[str, int] = field(default_factory=dict)  # by topic: max.message.bytes
    _mappings: dict[TopicPartition, Mapping] = field(default_factory=dict)

    async def open(self, report: PartitionReport, identity: str) -> int:
        """Open the mapping and compare it with where the copy ends."""
        partition = TopicPartition(report.topic, report.partition)
        report.target_end = await end_of(self.cluster, partition)
        path = os.path.join(self.state_dir, f"{partition}.offsets")
        found = read_mapping(path, identity, target_end=report.target_end)
        mapping = found if self.is_dry_run else begin_writing(found, path, identity)
        self._mappings[partition] = mapping
        return mapping.source_next

    async def write(self, fetched: Fetched, report: PartitionReport) -> None:
        """Send what a consumer of committed records sees, and write down where it goes before it does."""
        mapping, partition = self._mappings[fetched.partition], fetched.partition
        start = max(mapping.source_next, fetched.fetch_offset)
        made = renumber(
            fetched, start, batch_bytes=min(BATCH_BYTES, self.batch_bytes.get(partition.topic, BATCH_BYTES))
        )
        expected, ends, target_ends = mapping.target_next, list[int](), list[int]()
        position, target = 0, expected
        for piece, count in zip(made.pieces, made.counts, strict=True):
            position, target = position + len(piece), target + count
            ends.append(position)
            target_ends.append(target)
        mapping.add(made.runs(expected))
        parcel = Parcel(memoryview(b"".join(made.pieces)), ends, target_ends, expected=expected)
        await deliver(self.cluster, partition, parcel)
        mapping.reach(fetched.next_offset)
        report.batches_read += len(made.pieces) - made.rebuilt + sum(made.opened.values())
        report.batches_read += sum(made.batches_left_out.values())
        report.batches_written += len(made.pieces)
        report.rebuilt += made.rebuilt
        report.records_read += made.records_read
        report.records_written += sum(made.counts)
        report.bytes_read += sum(fetched.batches.column("size").tolist())
        report.bytes_written += position
        report.left_out += made.left_out
        report.batches_left_out += made.batches_left_out
        report.opened += made.opened
        report.target_end = target

    def translate(self, partition: TopicPartition, offset: int) -> int:
        """Return the offset of the copy's first record that is at or after ``offset``."""
        return self._mappings[partition].translate(offset)

    def close(self) -> None:
        """Let go of the files."""
        for mapping in self._mappings.values():
            mapping.close()
