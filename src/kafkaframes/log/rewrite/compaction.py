"""Compact the topics of a log directory into a new one, and prove that a key is gone.

Each partition goes through Kafka's own rules (``log/cleaner``). Partitions of other topics, and those in which there is
nothing to clean, are copied as they are; ``cleaner-offset-checkpoint`` says afterwards how far the new log is clean.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kafkaframes.errors import OptionError
from kafkaframes.log import names
from kafkaframes.log.checkpoints import write_offset_checkpoint
from kafkaframes.log.cleaner.filter import Tally
from kafkaframes.log.cleaner.plan import RoundPlan
from kafkaframes.log.cleaner.round import clean_partition, preview_partition
from kafkaframes.log.cleaner.settings import CleanerSettings
from kafkaframes.log.decoded import Decoded
from kafkaframes.log.directory import Partition, discover
from kafkaframes.log.filesystem import FileInfo, FileSystem
from kafkaframes.log.names import FileName, TopicPartition
from kafkaframes.log.rewrite import files
from kafkaframes.log.rewrite.batches import damaged_batches
from kafkaframes.log.rewrite.job import (
    Log,
    Runner,
    Source,
    described,
    earlier,
    one_log,
    paths_of,
    run_here,
    source_text,
    write_report,
)
from kafkaframes.log.rewrite.staged_compaction import Split, clean_partitions
from kafkaframes.log.scan import scan_segment
from kafkaframes.records.scan import as_array

INTERNAL_COMPACTED = ("__consumer_offsets", "__transaction_state", "__share_group_state")


@dataclass(frozen=True, slots=True)
class CompactionTask:
    """One partition to compact; picklable. Without a ``target`` it is only looked at."""

    filesystem: FileSystem
    partition: Partition
    settings: CleanerSettings
    target: str | None


@dataclass(slots=True)
class CompactedPartition:
    """What a round does to one partition.

    Attributes:
        first_dirty_offset, end_offset: what was not clean before, and up to where it is clean now.
        reason: why it ends there.
        dropped: why records go -> how many.
        cleaned: whether there was anything to clean.
    """

    name: str
    first_dirty_offset: int
    end_offset: int
    reason: str
    cleaned: bool = False
    records_read: int = 0
    records_kept: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    dropped: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True)
class CompactionReport:
    """What a compaction did, or would do (``destination`` is empty then)."""

    source: str
    destination: str
    settings: dict[str, Any]
    fingerprint: str
    partitions: list[CompactedPartition] = field(default_factory=list)
    done_before: bool = False

    def as_json(self) -> dict[str, Any]:
        """Return the report as values that JSON has."""
        parts = [{name: getattr(one, name) for name in one.__slots__} for one in self.partitions]
        return {name: getattr(self, name) for name in self.__slots__} | {"partitions": parts}


def compact_partition(task: CompactionTask) -> CompactedPartition:
    """Compact one partition, or copy it where there is nothing to clean.

    Raises:
        LogDirError: something is damaged, or cannot be read or written.
    """
    if task.target is None:
        return _described(task, *preview_partition(task.filesystem, task.partition, task.settings))
    if Path(task.target).exists():  # of an attempt whose worker was lost
        shutil.rmtree(task.target)
    with files.writing(Path(task.target)):
        done = clean_partition(task.filesystem, task.partition, task.settings, Path(task.target))
    if done is None:
        files.copy_tree(task.filesystem, task.partition.directory, Path(task.target))
        return _described(task, *preview_partition(task.filesystem, task.partition, task.settings))
    return replace(_described(task, done.plan, done.tally), end_offset=done.end_offset)


def _described(task: CompactionTask, plan: RoundPlan, tally: Tally | None) -> CompactedPartition:
    found = CompactedPartition(
        str(task.partition.topic_partition), plan.first_dirty_offset, plan.first_uncleanable_offset, plan.reason
    )
    if tally is None:
        return replace(found, end_offset=plan.first_dirty_offset)
    counts = {name: getattr(tally, name) for name in ("records_read", "records_kept", "bytes_read", "bytes_written")}
    return replace(found, cleaned=True, dropped=dict(tally.dropped), **counts)


def compact(
    source: Source,
    destination: str | Path | None,
    settings: CleanerSettings,
    *,
    topics: Sequence[str] = (),
    run: Runner = run_here,
    split: Split | None = None,
    storage: Mapping[str, Any] | None = None,
) -> CompactionReport:
    """Compact a log directory (or one partition) into ``destination``; ``None``: say what would be removed.

    Args:
        topics: names or patterns; by default those that a broker's cleaner has compacted before
            (``cleaner-offset-checkpoint``) and Kafka's own compacted ones. Never more by itself: on a topic that is not
            compacted, records without a key would go.
        split: share out large partitions, each to many tasks; without it a partition is one task. Both make the same
            files.
        storage: options of the store that has ``source``; ``key_files`` of encrypted tiered segments.

    Raises:
        LogDirError: something is damaged, cannot be read or written, or exists; nothing is left behind.
        OptionError: no topic is to be compacted, or ``destination`` lies in ``source``.
    """
    log = one_log(source, storage=storage)
    chosen = _chosen(log, topics)
    report = CompactionReport(
        source_text(source),
        "" if destination is None else str(destination),
        _settings(settings, topics),
        log.fingerprint,
    )
    if destination is None:
        report.partitions = list(run(compact_partition, _tasks(log, chosen, settings, None)))
        return report
    target = Path(destination)
    files.refuse_inside(target, paths_of(source))
    with files.locked(target):
        if target.exists():
            before = earlier(target, report.as_json())
            parts = [CompactedPartition(**one) for one in before["partitions"]]
            return replace(report, partitions=parts, done_before=True)
        with files.unfinished(target) as directory:
            _compact_into(
                log, chosen, directory, report, partial(_compact_all, settings=settings, run=run, split=split)
            )
            write_report(directory, report)
    return report


def _settings(settings: CleanerSettings, topics: Sequence[str]) -> dict[str, Any]:
    known = described(settings)
    del known["now_ms"]  # the clock goes on between two runs of one job
    return known | {"topics": sorted(topics)}


def _chosen(log: Log, topics: Sequence[str]) -> list[Partition]:
    if log.kind == "segment":
        raise OptionError("a segment alone cannot be compacted: name its partition's directory")
    if topics:
        chosen = [one for one in log.rewritten if any(fnmatchcase(one.topic, pattern) for pattern in topics)]
    elif log.kind == "partition":
        chosen = log.rewritten
    else:
        chosen = [one for one in log.rewritten if _is_compacted(one)]
    _refuse_strangers(log, topics)
    if not chosen:
        raise OptionError("no topic to compact; name those whose cleanup.policy is compact (topics, --topic)")
    return chosen


def _refuse_strangers(log: Log, topics: Sequence[str]) -> None:
    """Refuse a pattern that no topic has: a misspelt one would leave its topic as it was, unseen."""
    known = {one.topic for one in log.rewritten}
    strangers = [pattern for pattern in topics if not any(fnmatchcase(name, pattern) for name in known)]
    if strangers:
        raise OptionError(f"no topic {', '.join(strangers)} here: there are {', '.join(sorted(known)[:20])}")


def _is_compacted(partition: Partition) -> bool:
    return names.CLEANER_CHECKPOINT in partition.checkpointed or partition.topic in INTERNAL_COMPACTED


def _tasks(
    log: Log, chosen: Sequence[Partition], settings: CleanerSettings, directory: Path | None
) -> list[CompactionTask]:
    return [
        CompactionTask(log.filesystem, one, settings, str(log.target(directory, one)) if directory else None)
        for one in chosen
    ]


def _compact_into(
    log: Log,
    chosen: Sequence[Partition],
    directory: Path,
    report: CompactionReport,
    compact_all: Callable[[Log, Sequence[Partition], Path], list[CompactedPartition]],
) -> None:
    if log.kind == "partition":
        directory.rmdir()  # the one partition is this directory
    else:
        for other in (one for one in log.rewritten if one not in chosen):
            files.copy_tree(log.filesystem, other.directory, log.target(directory, other))
        log.copy_rest(directory)
    report.partitions = compact_all(log, chosen, directory)
    if log.kind == "directory":
        offsets = dict(log.directory.offset_checkpoints.get(names.CLEANER_CHECKPOINT, {}))
        ends = {one.topic_partition: done.end_offset for one, done in zip(chosen, report.partitions, strict=True)}
        _write_checkpoint(directory, offsets | ends)


def _compact_all(
    log: Log,
    chosen: Sequence[Partition],
    directory: Path,
    *,
    settings: CleanerSettings,
    run: Runner,
    split: Split | None,
) -> list[CompactedPartition]:
    """Compact the large partitions with many tasks each, then the others with one each."""
    tasks = _tasks(log, chosen, settings, directory)
    done: dict[int, CompactedPartition] = {}
    if split is not None:
        large = [place for place, one in enumerate(chosen) if one.size_bytes > split.above_bytes]
        jobs = [(log.filesystem, chosen[place], log.target(directory, chosen[place])) for place in large]
        for place, made in zip(large, clean_partitions(jobs, settings, split, run) if jobs else [], strict=True):
            if made is not None:
                said = _described(tasks[place], made.plan, made.tally)
                done[place] = replace(said, end_offset=made.end_offset)
    left = [place for place in range(len(tasks)) if place not in done]
    if left:
        done |= dict(zip(left, run(compact_partition, [tasks[place] for place in left]), strict=True))
    return [done[place] for place in range(len(tasks))]


def _write_checkpoint(directory: Path, offsets: dict[TopicPartition, int]) -> None:
    with files.new_file(directory / names.CLEANER_CHECKPOINT) as out:
        out.write(write_offset_checkpoint(offsets))


# -------------------------------------------------------------------------------------------------- a key is gone


@dataclass(frozen=True, slots=True)
class SearchTask:
    """One file to search for records with a key; picklable."""

    filesystem: FileSystem
    path: str
    size_bytes: int
    key: bytes


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether a key is gone.

    Attributes:
        files: how many files with records were read, from first to last byte.
        found: file, offset of each record that has the key.
        unread: file, position, reason: what could not be read, so that nothing is proven.
    """

    files: int
    found: tuple[tuple[str, int], ...]
    unread: tuple[tuple[str, int, str], ...]

    @property
    def is_gone(self) -> bool:
        """Whether every file was read and none has a record with the key, a tombstone included."""
        return not self.found and not self.unread


def prove_gone(path: Source, key: bytes, *, run: Runner = run_here, storage: Mapping[str, Any] | None = None) -> Proof:
    """Read every record below ``path`` and look for a key: segments, snapshots, temporary and renamed ones, too.

    Of several log directories every one is read, whether they are copies of each other or not.

    Raises:
        LogDirError: there is nothing, or it cannot be read.
    """
    listed = [
        (log.filesystem, info)
        for log in _every_log(path, storage)
        for info in _walk(log.filesystem, _top(log))
        if _has_records(info)
    ]
    tasks = [SearchTask(filesystem, info.path, info.size_bytes, key) for filesystem, info in listed]
    answers = list(run(search, tasks))
    return Proof(
        len(tasks), tuple(one for found, _ in answers for one in found), tuple(one for _, bad in answers for one in bad)
    )


def _every_log(path: Source, storage: Mapping[str, Any] | None) -> Iterator[Log]:
    for one in [path] if isinstance(path, str) else path:
        found = discover(one, options=storage)
        if len(found) == 1:
            yield one_log(one, half_done=True, storage=storage)
        else:
            yield from (Log(directory.path, "directory", directory) for directory in found)


def _top(log: Log) -> str:
    return log.path if log.kind != "segment" else log.directory.partitions[0].directory


def _walk(filesystem: FileSystem, directory: str) -> Iterator[FileInfo]:
    for info in filesystem.list_directory(directory):
        if info.is_directory:
            yield from _walk(filesystem, info.path)
        else:
            yield info


def _has_records(info: FileInfo) -> bool:
    parsed = FileName.parse(info.name)
    return info.name.endswith(".checkpoint") or (parsed is not None and parsed.kind in ("log", "checkpoint"))


def search(task: SearchTask) -> tuple[list[tuple[str, int]], list[tuple[str, int, str]]]:
    """Return the records of a file that have the key, and what could not be read."""
    found: list[tuple[str, int]] = []
    unread: list[tuple[str, int, str]] = []
    with task.filesystem.open(task.path) as read_at:
        for window in scan_segment(read_at, size_bytes=task.size_bytes, whole=True):
            if len(window.batches):
                decoded = Decoded.of(as_array(window.data), window.in_data())
                found += [(task.path, offset) for offset in _offsets_of(decoded, task.key)]
                positions = window.batches.column("position")
                unread += [
                    (task.path, int(positions[batch]), reason) for batch, reason in damaged_batches(decoded).items()
                ]
            end = window.batches.end
            if not end.goes_on and end.position < task.size_bytes:
                unread.append((task.path, end.position, end.reason))
    return found, unread


def _offsets_of(decoded: Decoded, key: bytes) -> list[int]:
    index = decoded.index
    candidates = np.flatnonzero(index.key_size == len(key))
    if not len(key):
        return [int(offset) for offset in index.offsets[candidates]]
    wanted = np.frombuffer(key, np.uint8)
    for at in (0, len(key) - 1, len(key) // 2):  # most differ here, so little is gathered below
        candidates = candidates[decoded.sections.buf[index.key_at[candidates] + at] == wanted[at]]
    places = index.key_at[candidates].tolist()
    buf = decoded.sections.buf
    same = [buf[place : place + len(key)].tobytes() == key for place in places]
    return [int(offset) for offset, is_same in zip(index.offsets[candidates], same, strict=True) if is_same]


__all__ = ["CompactedPartition", "CompactionReport", "Proof", "compact", "prove_gone"]
