"""One round of cleaning of one partition, from its directory into a new one; the source is never written to.

Two walks: the dirty part, for the last offset of each key; then everything up to the end of the map, filtered. The
new directory is complete or absent: it is written under another name and renamed at the end.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from kafkaframes.errors import LogDirError
from kafkaframes.log import names
from kafkaframes.log.cleaner.filter import Filter, Tally
from kafkaframes.log.cleaner.latest import Latest, walk_dirty_part
from kafkaframes.log.cleaner.plan import RoundPlan, group_segments
from kafkaframes.log.cleaner.plan import plan_round as plan_round
from kafkaframes.log.cleaner.settings import CleanerSettings
from kafkaframes.log.cleaner.transactions import CleanedTransactions
from kafkaframes.log.cleaner.window import windows
from kafkaframes.log.directory import LogFile, Partition, Segment
from kafkaframes.log.filesystem import FileSystem
from kafkaframes.log.offset_index import write_offset_index
from kafkaframes.log.rebuild import build_indexes
from kafkaframes.log.time_index import write_time_index
from kafkaframes.log.txn_index import AbortedTransaction, write_txn_index
from kafkaframes.records.layout import PLACE
from kafkaframes.records.memory import Recycler
from kafkaframes.records.scan import FILE, Ints, as_array, scan_all

_UNFINISHED = ".kafkaframes-cleaning"


@dataclass(frozen=True, slots=True)
class CleaningRound:
    """What a round did.

    Attributes:
        plan: its range.
        end_offset: the next round's first dirty offset; the cleaner's checkpoint.
        groups: base offsets of the segments that became one, by the name of the new one.
        tally: records and batches, kept and gone.
        directory: the new partition's directory.
    """

    plan: RoundPlan
    end_offset: int
    groups: dict[int, tuple[int, ...]]
    tally: Tally
    directory: Path


def clean_partition(
    filesystem: FileSystem, partition: Partition, settings: CleanerSettings, destination: Path
) -> CleaningRound | None:
    """Clean a partition into ``destination``, which must not exist; ``None``: there is nothing to clean.

    Args:
        filesystem, partition: from the discovery.
        settings: of the round.
        destination: the new partition's directory.

    Raises:
        LogDirError: something cannot be read, is damaged, or ``destination`` exists. Nothing is left behind then.
    """
    plan = plan_round(filesystem, partition, settings)
    if plan.is_empty:
        return None
    if destination.exists():
        raise LogDirError("exists already", file=str(destination))
    known = walk_dirty_part(filesystem, plan)
    unfinished = destination.with_name(destination.name + _UNFINISHED)
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    try:
        result = _write(filesystem, plan, settings, known, unfinished)
        os.replace(unfinished, destination)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    end, groups, tally = result
    return CleaningRound(plan, end, groups, tally, destination)


def _write(
    filesystem: FileSystem, plan: RoundPlan, settings: CleanerSettings, known: Latest, directory: Path
) -> tuple[int, dict[int, tuple[int, ...]], Tally]:
    end_offset = known.latest_offset + 1
    segments = plan.segments_between(0, end_offset)
    transactions = CleanedTransactions()
    filter_ = Filter(plan, settings, known, transactions)
    old_horizon = _old_horizon(plan, settings)
    groups: dict[int, tuple[int, ...]] = {}
    for group in group_segments(segments, settings, plan.first_uncleanable_offset):
        transactions.kept = []
        base = group[0].base_offset
        groups[base] = tuple(segment.base_offset for segment in group)
        path = directory / names.segment_file_name(base, "log")
        with path.open("wb") as out:
            out.writelines(_kept(filesystem, plan, group, filter_, transactions, old_horizon))
            out.flush()
            os.fsync(out.fileno())
        filter_.tally.bytes_written += path.stat().st_size
        _write_indexes(path, base, settings, transactions.kept)
        _keep_mtime(path, group[-1].log)
    cleaned = {base for bases in groups.values() for base in bases}
    _copy_rest(filesystem, plan.partition, directory, gone=cleaned - groups.keys(), rewritten=set(groups))
    return end_offset, groups, filter_.tally


def _kept(
    filesystem: FileSystem,
    plan: RoundPlan,
    group: list[Segment],
    filter_: Filter,
    transactions: CleanedTransactions,
    old_horizon: int,
) -> Iterator[bytes | memoryview]:
    """Yield what stays of segments that become one."""
    memory = Recycler()
    nexts = [segment.base_offset for segment in group[1:]] + [_next_base(plan, group[-1])]
    for segment, next_base in zip(group, nexts, strict=True):
        transactions.add(plan.aborted_between(segment.base_offset, next_base))
        young = (segment.log.mtime_ms or 0) > old_horizon
        for window in windows(filesystem, segment, memory=memory):
            yield from filter_.keep(window, retain_old_deletes=young)


def preview_partition(
    filesystem: FileSystem, partition: Partition, settings: CleanerSettings
) -> tuple[RoundPlan, Tally | None]:
    """Say what a round would do, writing nothing; no tally: there is nothing to clean.

    Raises:
        LogDirError: as ``clean_partition``.
    """
    plan = plan_round(filesystem, partition, settings)
    if plan.is_empty:
        return plan, None
    known = walk_dirty_part(filesystem, plan)
    transactions = CleanedTransactions()
    filter_ = Filter(plan, settings, known, transactions)
    segments = plan.segments_between(0, known.latest_offset + 1)
    old_horizon = _old_horizon(plan, settings)
    for group in group_segments(segments, settings, plan.first_uncleanable_offset):
        for piece in _kept(filesystem, plan, group, filter_, transactions, old_horizon):
            filter_.tally.bytes_written += len(piece)
    return plan, filter_.tally


def _next_base(plan: RoundPlan, segment: Segment) -> int:
    later = [one.base_offset for one in plan.partition.segments if one.base_offset > segment.base_offset]
    return later[0] if later else plan.log_end_offset


def _old_horizon(plan: RoundPlan, settings: CleanerSettings) -> int:
    """Return the file time up to which old tombstones may go: that of the last clean segment less the retention."""
    clean = plan.segments_between(0, plan.first_dirty_offset)
    return (clean[-1].log.mtime_ms or 0) - settings.delete_retention_ms if clean else 0


def _write_indexes(path: Path, base: int, settings: CleanerSettings, kept: list[AbortedTransaction]) -> None:
    table = scan_file(path)
    positions, last_offsets, stamps = (table[PLACE[name]] for name in ("position", "last_offset", "max_timestamp"))
    offset_index, time_index = build_indexes(
        base, positions, last_offsets, stamps, interval_bytes=settings.index_interval_bytes
    )
    path.with_suffix(".index").write_bytes(write_offset_index(offset_index))
    path.with_suffix(".timeindex").write_bytes(write_time_index(time_index))
    if kept:
        path.with_suffix(".txnindex").write_bytes(write_txn_index(kept))


def scan_file(path: Path) -> Ints:
    """Return the headers of a file's batches as a table; the file is mapped, being ours."""
    data = np.memmap(path, np.uint8, "r") if path.stat().st_size else as_array(b"")
    return scan_all(data, rules=FILE).table


def _keep_mtime(path: Path, last: LogFile) -> None:
    if last.mtime_ms is not None:
        os.utime(path, ns=(last.mtime_ms * 1_000_000,) * 2)


def _copy_rest(
    filesystem: FileSystem, partition: Partition, directory: Path, *, gone: set[int], rewritten: set[int]
) -> None:
    """Copy what the round does not touch: later segments, small files, and snapshots but for stray ones.

    A producer snapshot that stands beside no segment is stray, unless it is the one at the log's end; a broker removes
    such files at its next start (``ProducerStateManager.removeStraySnapshots``).
    """
    bases = {segment.base_offset for segment in partition.segments} - gone
    last = max((file.name.offset for file in partition.producer_snapshots), default=-1)
    snapshots = bases | ({last} if last > max(bases, default=-1) else set())
    for info in filesystem.list_directory(partition.directory):
        if info.is_directory:
            continue
        parsed = names.FileName.parse(info.name)
        if parsed is not None and not _stays(parsed, gone | rewritten, snapshots):
            continue
        target = directory / info.name
        with target.open("wb") as out:
            out.writelines(_chunks(filesystem, info.path))
        if info.mtime_ms is not None:
            os.utime(target, ns=(info.mtime_ms * 1_000_000,) * 2)


def _stays(name: names.FileName, cleaned: set[int], snapshots: set[int]) -> bool:
    if name.temporary:
        return False
    if name.kind in names.SEGMENT_KINDS:
        return name.offset not in cleaned
    return name.kind != "snapshot" or name.offset in snapshots


def _chunks(filesystem: FileSystem, path: str, chunk_bytes: int = 4 << 20) -> Iterator[bytes]:
    with filesystem.open(path) as read_at:
        position = 0
        while chunk := read_at(position, chunk_bytes):
            yield chunk
            position += len(chunk)
