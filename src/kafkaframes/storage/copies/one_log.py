"""Merge log directories in which partitions occur more than once into one log.

The option ``replicas=merge`` selects the merge; ``all`` leaves the directories unchanged. Directories that a broker
renamed (``-delete``, ``-future``, ``-stray``) do not count as copies, unless the user specified them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from kafkaframes.errors import LogDirError
from kafkaframes.storage.copies.decisions import Decision, sort_by_severity
from kafkaframes.storage.copies.merge import check_topic_ids, group_directories_by_id, merge
from kafkaframes.storage.copies.reading import CopySource, FileInspector, group_by_partition, read_copy
from kafkaframes.storage.copies.spans import MergedLog
from kafkaframes.storage.copies.view import MergedViewBuilder
from kafkaframes.storage.files.directory import LogDirectory
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import has_copies, plain_directories

log = logging.getLogger("kafkaframes.storage")
_Task = TypeVar("_Task")
_Answer = TypeVar("_Answer")
Run = Callable[[Callable[[_Task], _Answer], Sequence[_Task]], Iterable[_Answer]]


@dataclass(frozen=True, slots=True)
class MergedDirectories:
    """Log directories after all copies of a partition were merged, so that each partition occurs once.

    Attributes:
        directories: the given directories if nothing had to be merged; otherwise one directory with all partitions.
        merged_partitions: partitions that were merged.
    """

    directories: tuple[LogDirectory, ...]
    merged_partitions: tuple[MergedLog, ...] = ()

    @property
    def decisions(self) -> list[Decision]:
        """The decisions of all merges, including conflicts that could not be resolved; most severe first."""
        return sort_by_severity(
            decision for merged_partition in self.merged_partitions for decision in merged_partition.decisions
        )


def limit_decisions(
    one_log: MergedDirectories, ranges: Mapping[TopicPartition, Sequence[tuple[int, int]]]
) -> MergedDirectories:
    """Return a log without the decisions about offsets outside of ranges.

    Args:
        one_log: log with decisions.
        ranges: first offset and end offset (exclusive) of the ranges of each topic partition.
    """
    return replace(
        one_log,
        merged_partitions=tuple(
            replace(
                merged_log,
                decisions=type(merged_log.decisions)(
                    decision
                    for decision in merged_log.decisions
                    if any(
                        decision.first_offset < end and max(decision.end_offset, decision.first_offset + 1) > first
                        for first, end in ranges[decision.topic_partition]
                    )
                ),
            )
            for merged_log in one_log.merged_partitions
        ),
    )


def select_copies(directories: Iterable[LogDirectory], partition_paths: Collection[str] = ()) -> list[CopySource]:
    """Return the partitions to read: live ones, and renamed ones that the user named."""
    return [
        CopySource(directory, partition)
        for directory in directories
        for partition in directory.partitions
        if partition.is_live or partition.directory in partition_paths
    ]


def merge_copies(
    sources: Sequence[CopySource], *, check: bool = False, scan: bool = False, run: Run[Any, Any] = map
) -> MergedLog:
    """Merge the copies of one topic partition.

    Args:
        check: whether to verify checksums, and replace damaged batches with those of other copies.
        scan: whether to read the headers of segments in stores as well.
        run: function like ``map`` that reads the copies, with results in their order.

    Raises:
        LogDirError: the copies belong to different topics or clusters, or one cannot be read.
    """
    check_same_log(sources)
    copies = list(run(partial(read_copy, scan=scan), sources))
    return merge(sources[0].partition.topic_partition, copies, FileInspector(sources, copies), check=check)


def check_same_log(sources: Sequence[CopySource]) -> None:
    """Check by topic and cluster ids that directories of one partition are copies of one log.

    Raises:
        LogDirError: the directories belong to different topics or clusters. A mirror in another cluster has other
            records at the same offsets.
    """
    partitions = [source.partition for source in sources]
    ids = (
        (partition.directory, partition.metadata.topic_id if partition.metadata else None) for partition in partitions
    )
    check_topic_ids(partitions[0].topic_partition, ids)
    metas = ((source.partition.directory, source.log_directory.meta) for source in sources)
    directories_by_cluster = group_directories_by_id(
        (directory, meta.cluster_id if meta else None) for directory, meta in metas
    )
    if len(directories_by_cluster) > 1:
        descriptions = ", ".join(
            f"{directory} belongs to cluster {cluster}" for cluster, directory in directories_by_cluster.items()
        )
        raise LogDirError(
            f"{sources[0].partition.topic_partition} belongs to two clusters: {descriptions}; load only one of them"
        )


def open_one_log(
    directories: Sequence[LogDirectory],
    *,
    partition_paths: Collection[str] = (),
    options: Mapping[str, Any] | None = None,
    check: bool = True,
    join: bool = False,
) -> MergedDirectories:
    """Merge the partitions that occur more than once, and present all partitions as one log directory.

    Args:
        partition_paths: paths of partition directories that the user named.
        check: whether to verify checksums, and replace damaged batches with those of other copies; this reads segments
            in stores.
        join: whether to present several directories as one even if no partition occurs more than once.

    Raises:
        LogDirError: copies belong to different topics or clusters, or cannot be read.
    """
    sources_by_partition = group_by_partition(select_copies(directories, partition_paths))
    if not (join and len(directories) > 1) and all(len(sources) == 1 for sources in sources_by_partition.values()):
        return MergedDirectories(tuple(directories))
    view, merged_partitions = MergedViewBuilder(options or {}), []
    for sources in sources_by_partition.values():
        if len(sources) == 1:
            view.add_single(sources[0])
        else:
            merged_partitions.append(merge_copies(sources, check=check, scan=check))
            view.add_merged(merged_partitions[-1], sources)
    return MergedDirectories((view.build_directory(directories),), tuple(merged_partitions))


def find_merge_error(directories: Sequence[LogDirectory], partition_paths: Collection[str] = ()) -> LogDirError | None:
    """Return the error that prevents a merge of the directories because of their ids; None if they can be merged."""
    for sources in group_by_partition(select_copies(directories, partition_paths)).values():
        try:
            check_same_log(sources)
        except LogDirError as error:
            return error
    return None


def merge_directories(
    directories: Sequence[LogDirectory],
    paths: Iterable[str],
    *,
    check: bool,
    options: Mapping[str, Any] | None = None,
) -> tuple[MergedDirectories, LogDirError | None]:
    """Merge the copies of partitions, unless the directories are not copies of one log.

    Renamed partition directories are included if a path leads to them.

    Args:
        directories: the selected log directories.
        paths: paths that the user named.
        check: as for ``open_one_log``.
        options: as for ``open_one_log``.

    Returns: The merged log and None, or the unchanged directories and the reason why they are not merged.
    """
    if not has_copies(directories, paths):
        return MergedDirectories(tuple(directories)), None
    plain_paths = plain_directories(paths)
    reason = find_merge_error(directories, plain_paths)
    if reason is not None:
        return MergedDirectories(tuple(directories)), reason
    return open_one_log(directories, partition_paths=plain_paths, options=options, check=check), None


def open_whole_log(
    directories: Sequence[LogDirectory], *, options: Mapping[str, Any] | None = None, join: bool = False
) -> tuple[LogDirectory, ...]:
    """Return directories in which each partition occurs once, for jobs that write a new log from them.

    Decisions are written to the logger ``kafkaframes.storage.log``.

    Raises:
        LogDirError: copies belong to different topics or clusters, contradict each other, or cannot be read.
    """
    one_log = open_one_log(directories, options=options, join=join)
    for decision in one_log.decisions:
        if decision.check == "undecided":
            location = decision.locations[0]
            raise LogDirError(f"{decision}; specify one copy", file=location.file, position=location.position)
        if decision.severity > Severity.NOTE:
            log.warning("%s", decision)
    return one_log.directories
