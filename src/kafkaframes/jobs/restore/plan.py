"""Plan a restore: the partitions of the new log, their topic ids, and the directories that are not restored.

Internal topics are handled separately. ``__consumer_offsets`` is rebuilt from the committed offsets (``groups.py``).
``__cluster_metadata`` is read for topic settings (``source.py``). ``__transaction_state`` and ``__share_group_state``
refer to offsets and ids of other partitions, so they are copied only if neither offsets nor names change. Other
internal topics are restored only if the user names them.

If a partition occurs several times (backups of replicas, later parts of a log), the copies are read as one log
(``copies``; ``docs/many-copies.md`` has the rules).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kafkaframes.errors import LogDirError, MissingSegmentError, OptionError
from kafkaframes.jobs.restore.groups import OFFSETS_TOPIC
from kafkaframes.jobs.restore.settings import ABORT, KRAFT, RestoreSettings
from kafkaframes.jobs.restore.source import MAX_OFFSET, SegmentPart
from kafkaframes.records.reasons import DROP
from kafkaframes.scan.log.log_range import check_offsets
from kafkaframes.scan.ranges import check_partitions, expand_bound
from kafkaframes.storage.copies.decisions import Decision
from kafkaframes.storage.copies.one_log import open_one_log
from kafkaframes.storage.files import names
from kafkaframes.storage.files.directory import LogDirectory, Partition, partitions_of
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import check_topics
from kafkaframes.storage.recovery.plan import plan_layout
from kafkaframes.wire.integers import MAX_INT32

# Internal topics that refer to offsets and ids of other partitions.
STATE_TOPICS = ("__transaction_state", "__share_group_state")
NewId = Callable[[], str]
_Copy = tuple[LogDirectory, Partition]


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """One partition of the new log.

    Attributes:
        target: topic partition in the new log.
        source: topic partition in the sources.
        parts: segments of the sources, in order.
        directory: directory of the source; ``merged/...`` for a log from several copies.
    """

    target: TopicPartition
    source: TopicPartition
    parts: tuple[SegmentPart, ...] = ()
    log_start_offset: int = 0
    directory: str = ""

    @property
    def size_bytes(self) -> int:
        """The size of the sources' segments, in bytes."""
        return sum(part.size_bytes for part in self.parts)


@dataclass(slots=True)
class RestorePlan:
    """The plan of a restore.

    Attributes:
        partitions: partitions of the new log.
        topic_ids: topic id by new topic name.
        offsets_copies: partitions of ``__consumer_offsets`` to read, with their directories.
        left_out: directories that are not restored, with the reason.
        decisions: choices between several copies of a partition.
    """

    partitions: list[PlannedPartition] = field(default_factory=list)
    topic_ids: dict[str, str] = field(default_factory=dict)
    offsets_copies: list[_Copy] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)


def plan_restore(
    directories: Sequence[LogDirectory],
    settings: RestoreSettings,
    *,
    new_id: NewId,
    storage: Mapping[str, Any] | None = None,
) -> RestorePlan:
    """Plan a restore from listings of the sources. Batch headers are read only for partitions with several copies.

    Args:
        directories: log directories of the sources.
        settings: settings that select the records to restore, and the form of the new log.
        new_id: function that returns a new topic id.
        storage: options of the sources' stores.

    Raises:
        LogDirError: copies have different topic ids, or (unless damage is skipped) different records.
        OptionError: the settings select no partition, or a topic of the topic map does not exist.
    """
    plan = RestorePlan()
    _check_selection(directories, settings)
    log = open_one_log([_select_partitions(directory, settings, plan) for directory in directories], options=storage)
    plan.decisions = log.decisions
    _reject_undecided_copies(plan.decisions, settings)
    copies: dict[TopicPartition, _Copy] = {}
    for directory, partition in partitions_of(log.directories):
        if settings.groups and partition.topic == OFFSETS_TOPIC:
            plan.offsets_copies.append((directory, partition))
        else:
            _report_missing_segments(partition, settings, plan)
            copies[partition.topic_partition] = (directory, partition)
    _check_new_names(copies, settings)
    _check_range(copies, settings)
    for source, (directory, partition) in sorted(copies.items()):
        target = replace(source, topic=settings.rename_topic(source.topic))
        plan.partitions.append(_plan_partition(target, directory, partition))
    if not plan.partitions:
        raise OptionError("nothing to restore: no live partition of the sources is selected")
    plan.topic_ids = _choose_topic_ids(copies, settings, new_id)
    plan.partitions.sort(key=lambda log: log.target)
    return plan


def _check_selection(directories: Sequence[LogDirectory], settings: RestoreSettings) -> None:
    """Reject topics and partitions that the sources do not have. The topics with ids may be those of a cluster."""
    topic_partitions = [partition.topic_partition for directory in directories for partition in directory.partitions]
    topic_partitions += [
        entry.topic_partition for directory in directories for entry in directory.unreadable_partitions
    ]
    if not settings.topic_ids:
        check_topics(settings.topic_names, (name.topic for name in topic_partitions))
    selected_names = [name for name in topic_partitions if settings.selects_topic(name.topic, is_internal=False)]
    check_partitions(settings.partition_numbers, {name.partition for name in selected_names})


def _select_partitions(directory: LogDirectory, settings: RestoreSettings, plan: RestorePlan) -> LogDirectory:
    """Return a source with the partitions to read. Other partitions are added to ``plan.left_out``.

    Raises:
        LogDirError: a partition to read, or the metadata log with the topics' settings, cannot be read.
    """
    selected_partitions = []
    for entry in directory.unreadable_partitions:
        name = entry.topic_partition
        reason = _find_omission_reason(Partition(name, entry.directory, state=entry.state), settings)
        is_needed = name.topic == names.CLUSTER_METADATA_TOPIC or (settings.groups and name.topic == OFFSETS_TOPIC)
        if not reason or (is_needed and not entry.state):
            raise entry.as_error()
        plan.left_out.append((entry.directory, reason))
    for partition in directory.partitions:
        is_offsets = settings.groups and partition.topic == OFFSETS_TOPIC and partition.is_live
        reason = "" if is_offsets else _find_omission_reason(partition, settings)
        if reason:
            plan.left_out.append((partition.directory, reason))
        else:
            selected_partitions.append(partition)
    return replace(directory, partitions=tuple(selected_partitions))


def _report_missing_segments(partition: Partition, settings: RestoreSettings, plan: RestorePlan) -> None:
    """Reject a tiered partition that lacks segments.

    If the settings drop damage, add the reasons to ``plan.left_out`` instead.
    """
    for problem in partition.problems:
        if isinstance(problem, MissingSegmentError):
            if settings.on_damage != DROP:
                raise LogDirError(
                    f"{problem.reason}: nothing was restored (`on_damage`=drop restores the other segments)",
                    file=problem.file,
                )
            plan.left_out.append((problem.file or partition.directory, problem.reason))


def _reject_undecided_copies(decisions: Iterable[Decision], settings: RestoreSettings) -> None:
    """Reject copies whose merge found an error, unless the settings drop damage."""
    for decision in decisions:
        if decision.severity is Severity.ERROR and settings.on_damage != DROP:
            location = decision.locations[0] if decision.locations else None
            position = location.position if location else None
            raise LogDirError(
                f"{decision}: nothing was restored",
                file=location.file if location else decision.copy,
                position=position,
            )


def _find_omission_reason(partition: Partition, settings: RestoreSettings) -> str:
    """Return the reason for not restoring a partition; empty if it is restored."""
    topic = partition.topic
    if partition.state:
        return f"the broker has renamed the directory (suffix {partition.state})"
    if topic == names.CLUSTER_METADATA_TOPIC:
        return "only used for the topics' settings, because the new node starts its own metadata log"
    if topic == OFFSETS_TOPIC:
        return "committed offsets are not restored by these settings"
    if topic in STATE_TOPICS and not settings.topics:
        return (
            "" if keeps_everything(settings) else "its records contain offsets, names or ids that the restore changes"
        )
    if not settings.selects_topic(topic, is_internal=topic in names.INTERNAL_TOPICS):
        return "not selected"
    if settings.partition_numbers and partition.partition not in settings.partition_numbers:
        return "not selected"
    return ""


def keeps_everything(settings: RestoreSettings) -> bool:
    """Return whether a restore for a new node keeps all offsets, names and topics unchanged."""
    changes = (
        settings.topics,
        settings.partitions,
        settings.topic_map,
        settings.topic_ids,
        settings.moves_offsets,
        settings.leader_epoch,
        settings.open_transactions == ABORT,
        settings.bootstrap != KRAFT,
    )
    return not any(changes) and not settings.is_limited


def _check_new_names(copies: Mapping[TopicPartition, _Copy], settings: RestoreSettings) -> None:
    """Check the names of topics after the restore."""
    topics = {topic_partition.topic for topic_partition in copies}
    for topic in sorted(topics):
        if settings.rename_topic(topic) == topic:  # existing topics may have names that Kafka no longer allows
            names.check_topic_name(topic)
    for old_name, new_name in settings.topic_map:
        if old_name not in topics:
            raise OptionError(f"`topic_map` contains topic {old_name}, which is not restored")
        if new_name in topics and settings.rename_topic(new_name) == new_name:
            raise OptionError(f"`topic_map` gives two topics the name {new_name}")
        check_topic_name(new_name)


def _check_range(copies: Mapping[TopicPartition, _Copy], settings: RestoreSettings) -> None:
    """Reject a range with missing offsets, or a range by partition that does not name all partitions."""
    if not settings.has_offset_range or settings.on_damage == DROP:  # the end offset of a damaged log is unknown
        names_to_restore = {(topic_partition.topic, topic_partition.partition) for topic_partition in copies}
        for setting, limit in zip(("start", "end"), settings.selection.log_range, strict=True):
            expand_bound(setting, limit, names_to_restore)
        return
    directories = [replace(directory, partitions=(partition,)) for directory, partition in copies.values()]
    check_offsets(settings.selection, directories)


def check_topic_name(name: str) -> None:
    """Reject names that Kafka does not allow for topics.

    Raises:
        OptionError: the name is not allowed.
    """
    names.check_topic_name(name)
    if name.startswith("__"):
        raise OptionError(
            f"{name!r} cannot be the name of a restored topic: names of Kafka's internal topics begin with __"
        )


# ------------------------------------------------------------------------------------------------------- partitions


def _plan_partition(target: TopicPartition, directory: LogDirectory, partition: Partition) -> PlannedPartition:
    """Return the plan of one partition: its segments, each with the offsets to read."""
    parts = list(_list_segment_parts(directory, partition))
    next_base_offsets = [*(part.base_offset for part in parts), MAX_OFFSET][1:]
    limited_segments = tuple(
        replace(part, end_offset=min(next_part, part.base_offset + MAX_INT32 + 1), is_last=part is parts[-1])
        for part, next_part in zip(parts, next_base_offsets, strict=True)
    )
    return PlannedPartition(
        target, partition.topic_partition, limited_segments, partition.log_start_offset, partition.directory
    )


def _list_segment_parts(directory: LogDirectory, partition: Partition) -> Iterator[SegmentPart]:
    """Yield the valid segments, after resolving incomplete swaps by Kafka's rules."""
    swap_times = {segment.path: segment.log.mtime_ms for segment in partition.segments}
    swap_times |= {file.path: file.mtime_ms for file in partition.temporary}
    plan = plan_layout(directory, partition)
    filesystem = plan.view or directory.filesystem
    for kept_segment in plan.segments:
        yield SegmentPart(
            filesystem,
            kept_segment.path,
            kept_segment.base_offset,
            kept_segment.size_bytes,
            swap_times.get(kept_segment.path),
        )


# -------------------------------------------------------------------------------------------------------- topic ids


def _choose_topic_ids(
    copies: Mapping[TopicPartition, _Copy], settings: RestoreSettings, new_id: NewId
) -> dict[str, str]:
    """Return each topic's id: the one in the settings, otherwise the one in the sources, otherwise a new one.

    Renamed topics get new ids.

    Raises:
        LogDirError: the sources have different ids for a topic.
    """
    by_topic: dict[str, dict[str, str]] = {}
    for source, (_, partition) in copies.items():
        directories_of_topic = by_topic.setdefault(source.topic, {})
        if partition.metadata is not None:
            directories_of_topic.setdefault(partition.metadata.topic_id, partition.directory)
    topic_ids = dict(settings.topic_ids)
    if unknown := topic_ids.keys() - {settings.rename_topic(topic) for topic in by_topic}:
        raise OptionError(f"`topic_ids` has an id for {', '.join(sorted(unknown))}, which is not restored")
    ids: dict[str, str] = {}
    for topic, directories_by_id in sorted(by_topic.items()):
        name = settings.rename_topic(topic)
        if name not in topic_ids and len(directories_by_id) > 1:
            ids_text = ", ".join(f"{topic_id} in {directory}" for topic_id, directory in directories_by_id.items())
            raise LogDirError(f"{topic} has two ids ({ids_text}); specify a single source, or set `topic_ids`")
        kept_id = next(iter(directories_by_id), None) if name == topic else None
        ids[name] = topic_ids.get(name) or kept_id or new_id()
    return ids
