"""Copies of one partition on disk, and a small model of the cluster that writes them.

The model identifies batches by unique names, not by epochs and offsets, so that it knows exactly which batches two
brokers' logs share.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import kafkaframes
from kafkaframes.storage.copies.merge import merge
from kafkaframes.storage.copies.reading import CopySource, FileInspector, read_copy
from kafkaframes.storage.files.checkpoints import EpochStart, write_leader_epochs, write_offset_checkpoint
from kafkaframes.storage.files.names import TopicPartition, name_segment_file
from kafkaframes.storage.log.discover import discover

TOPIC = TopicPartition("orders", 0)


@dataclass(frozen=True)
class NamedBatch:
    """The records of one append, with a unique name."""

    name: str
    base: int
    count: int
    epoch: int

    @property
    def end(self) -> int:
        return self.base + self.count

    def rows(self) -> dict[int, bytes]:
        return {self.base + n: f"{self.name}.{n}".encode() for n in range(self.count)}

    def raw(self, magic: int = 2, codec: str = "none") -> bytes:
        columns = {"value": list(self.rows().values()), "offset": list(self.rows())}
        columns["timestamp"] = [1_700_000_000_000 + offset for offset in columns["offset"]]
        epoch = self.epoch if magic == 2 else -1
        return kafkaframes.build_records(columns, record_format=magic, codec=codec, leader_epoch=epoch)


def write_partition(
    log_directory: Path,
    segments: dict[int, bytes],
    *,
    epochs: list[tuple[int, int]] | None = None,
    high_watermark: int | None = None,
    start_offset: int | None = None,
    clean_offset: int | None = None,
    topic_id: str | None = None,
    name: str = "orders-0",
) -> Path:
    """Write one copy. Checkpoints that are None are not written. With ``clean_offset=-1``, the cleaner checkpoint has
    no entry for the partition.
    """
    directory = log_directory / name
    directory.mkdir(parents=True)
    for base, raw in segments.items():
        (directory / name_segment_file(base, "log")).write_bytes(raw)
    if epochs is not None:
        entries = [EpochStart(epoch, start) for epoch, start in epochs]
        (directory / "leader-epoch-checkpoint").write_bytes(write_leader_epochs(entries))
    if topic_id is not None:
        (directory / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")
    checkpoints = {
        "replication-offset-checkpoint": high_watermark,
        "log-start-offset-checkpoint": start_offset,
        "cleaner-offset-checkpoint": clean_offset,
    }
    for file, value in checkpoints.items():
        if value is not None:
            entries = {} if value == -1 else {TOPIC: value}
            (log_directory / file).write_bytes(write_offset_checkpoint(entries))
    return directory


def find_copies(*paths: Path) -> list[CopySource]:
    return [
        CopySource(directory, partition)
        for directory in discover([str(path) for path in paths])
        for partition in directory.partitions
        if partition.is_live
    ]


def merge_copies(*paths: Path, check: bool = True):
    copy_sources = find_copies(*paths)
    copies = [read_copy(source) for source in copy_sources]
    return merge(copy_sources[0].partition.topic_partition, copies, FileInspector(copy_sources, copies), check=check)


def read_rows(result, mode: str = "fail") -> list[tuple[int, bytes]]:
    """Return (offset, value) of all records of the merge result. Checksums are verified."""
    rows = []
    for piece in result.spans:
        with open(result.segment(piece.segment_range).path, "rb") as file:
            raw = file.read()[piece.segment_range.start : piece.segment_range.end]
        start = max(piece.first_offset, result.start_offset) if piece.is_clipped else result.start_offset
        bounds = {"start": start, "end": piece.end_offset if piece.is_clipped else None}
        for batch in kafkaframes.read_records(raw, columns=["offset", "value"], on_damage=mode, **bounds):
            rows += zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    return rows


def checks(result) -> set[str]:
    return {decision.check for decision in result.decisions}


@dataclass
class ModelBroker:
    """A broker of the model: its batches, leader epochs and high watermark."""

    log: list[NamedBatch] = field(default_factory=list)
    epochs: list[tuple[int, int]] = field(default_factory=list)
    high_watermark: int = 0

    @property
    def end(self) -> int:
        return self.log[-1].end if self.log else 0

    def record_epoch(self, epoch: int, start: int) -> None:
        if not self.epochs or self.epochs[-1][0] < epoch:
            self.epochs = [*(epoch for epoch in self.epochs if epoch[1] < start), (epoch, start)]

    def truncate(self, end: int) -> None:
        self.log = [batch for batch in self.log if batch.end <= end]
        self.epochs = [epoch for epoch in self.epochs if epoch[1] < self.end]
        self.high_watermark = min(self.high_watermark, self.end)


@dataclass
class ModelCluster:
    """A model of brokers with one leader. Any broker can be elected, in sync or not."""

    brokers: list[ModelBroker]
    leader: int = 0
    epoch: int = 0
    append_count: int = 0

    def __post_init__(self) -> None:
        self.brokers[self.leader].record_epoch(0, 0)

    def append(self, count: int) -> None:
        leader = self.brokers[self.leader]
        leader.log.append(NamedBatch(f"b{self.append_count}", leader.end, count, self.epoch))
        self.append_count += 1

    def fetch(self, place: int, batches: int) -> None:
        """Let a follower truncate its log to the part that it shares with the leader, and then fetch some batches."""
        follower, leader = self.brokers[place], self.brokers[self.leader]
        if place == self.leader:
            return
        shared_end = 0
        for mine, theirs in zip(follower.log, leader.log, strict=False):
            if mine != theirs:
                break
            shared_end = mine.end
        follower.truncate(shared_end)
        for batch in [one for one in leader.log if one.base >= follower.end][:batches]:
            follower.log.append(batch)
            follower.record_epoch(batch.epoch, next(start for epoch, start in leader.epochs if epoch == batch.epoch))
        ends = sorted((broker.end for broker in self.brokers), reverse=True)
        leader.high_watermark = min(max(leader.high_watermark, ends[1]), leader.end)
        follower.high_watermark = min(leader.high_watermark, follower.end)

    def elect(self, place: int) -> None:
        self.leader, self.epoch = place, self.epoch + 1
        self.brokers[place].record_epoch(self.epoch, self.brokers[place].end)

    def truth(self) -> dict[int, bytes]:
        return {offset: value for batch in self.brokers[self.leader].log for offset, value in batch.rows().items()}
