"""Complete a restored log directory after its partitions: committed offsets, topic settings and files of the node."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from kafkaframes.errors import LogDirError
from kafkaframes.jobs.restore.cluster import (
    DirectoryNode,
    LogOffsets,
    build_checkpoint_files,
    build_node_files,
    make_layouts,
    write_files,
)
from kafkaframes.jobs.restore.groups import (
    OFFSETS_TOPIC,
    CommitKey,
    OffsetCommit,
    SourceGroups,
    format_csv,
    write_groups,
)
from kafkaframes.jobs.restore.partition import RestoreReport
from kafkaframes.jobs.restore.plan import NewId
from kafkaframes.jobs.restore.settings import KRAFT, RestoreSettings
from kafkaframes.jobs.restore.source import SourceMetadata, TopicSettings
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover

GROUP_OFFSETS_CSV = "group-offsets.csv"  # file with committed offsets for ``kafka-consumer-groups --from-file``
_DEFAULT_OFFSETS_PARTITIONS = 50  # Kafka's default of offsets.topic.num.partitions
_PRODUCER_ID_BLOCK = 1000  # number of producer ids that a broker requests from the controller
_OFFSETS_TOPIC_CONFIGS = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
_MIN_CONFIG_VALUES = {"segment.bytes": 1 << 20}  # a 4.x broker does not start if a topic has a smaller value (KIP-1030)
_UNLIMITED_RETENTION = {"retention.ms": "-1", "retention.bytes": "-1"}


class DirectoryCompleter:
    """Writes the remaining files of a restored directory after its partitions are written.

    The report lists the partitions and topic ids.

    Args:
        metadata: topics and settings that the source's controller stored.
        now_ms: current time, in milliseconds.
        new_id: function that returns a new id.
        offsets_topic_ids: ids of ``__consumer_offsets`` in the sources.
    """

    def __init__(
        self,
        settings: RestoreSettings,
        report: RestoreReport,
        metadata: SourceMetadata,
        *,
        now_ms: int,
        new_id: NewId,
        offsets_topic_ids: tuple[str, ...] = (),
    ) -> None:
        self._settings, self._report, self._metadata = settings, report, metadata
        self._now_ms, self._new_id, self._offsets_topic_ids = now_ms, new_id, offsets_topic_ids

    def report_unlimited_topics(self) -> None:
        """Add the topics with unlimited retention to the report."""
        self._report.held = sorted(
            name for name, configs in self._collect_configs().items() if _has_unlimited_retention(configs)
        )

    def write_files(self, directory: Path, commits: Mapping[CommitKey, OffsetCommit], groups: SourceGroups) -> None:
        """Write everything except the restored partitions.

        Args:
            directory: the new log directory.
            commits: committed offsets for the new log.
            groups: groups of the sources, with their protocols and the partition count of ``__consumer_offsets``.

        Raises:
            LogDirError: a file cannot be written.
        """
        logs = {
            TopicPartition(report.topic, report.partition): report.log_offsets for report in self._report.partitions
        }
        if self._settings.bootstrap != KRAFT:
            if commits:
                write_files(directory, iter([(GROUP_OFFSETS_CSV, format_csv(commits).encode())]))
            write_files(directory, build_checkpoint_files(logs))
            check_topic_ids(directory, self._report.topic_ids)
            return
        if commits or self._settings.offsets_partitions:
            ends = self._write_groups(directory, commits, groups)
            logs |= {partition: LogOffsets(0, 0, end) for partition, end in ends.items()}
        write_files(directory, build_checkpoint_files(logs))
        self._write_node(directory, logs)
        check_topic_ids(directory, self._report.topic_ids)

    def _write_groups(
        self, directory: Path, commits: Mapping[CommitKey, OffsetCommit], groups: SourceGroups
    ) -> dict[TopicPartition, int]:
        """Write ``__consumer_offsets``, and return the end offset of each of its partitions."""
        count = self._settings.offsets_partitions or groups.partitions or _DEFAULT_OFFSETS_PARTITIONS
        known_ids, requested_ids = self._offsets_topic_ids, dict(self._settings.topic_ids).get(OFFSETS_TOPIC)
        topic_id = requested_ids or (known_ids[0] if len(known_ids) == 1 else self._new_id())
        self._report.topic_ids[OFFSETS_TOPIC] = topic_id
        return write_groups(
            directory,
            commits,
            groups.protocols,
            partitions=count,
            topic_id=topic_id,
            now_ms=self._now_ms,
            keep_times=self._settings.keep_commit_times,
        )

    # ------------------------------------------------------------------------------------------------------ the node

    def _write_node(self, directory: Path, logs: Mapping[TopicPartition, LogOffsets]) -> None:
        """Write the files of a KRaft node: checkpoints, metadata snapshot and properties."""
        settings, report = self._settings, self._report
        epochs = {
            TopicPartition(partition.topic, partition.partition): partition.leader_epoch
            for partition in report.partitions
        }
        configs = self._collect_configs()
        counts = {
            settings.rename_topic(name): topic_settings.partitions
            for name, topic_settings in self._metadata.topics.items()
        }
        layouts = make_layouts(dict.fromkeys(logs, 0) | epochs, report.topic_ids, configs, counts)
        report.held = sorted(
            name for name, topic_settings in configs.items() if _has_unlimited_retention(topic_settings)
        )
        report.cluster_id = settings.cluster_id or self._new_id()
        node = DirectoryNode(
            node_id=settings.node_id,
            cluster_id=report.cluster_id,
            directory_id=self._new_id(),
            release=settings.release,
        )
        last_producer_id = max((partition.last_producer_id for partition in report.partitions), default=-1)
        first_unused_producer_id = (
            (last_producer_id // _PRODUCER_ID_BLOCK + 1) * _PRODUCER_ID_BLOCK if last_producer_id >= 0 else 0
        )
        next_producer_id = max(first_unused_producer_id, self._metadata.next_producer_id)
        write_files(directory, build_node_files(node, layouts, now_ms=self._now_ms, next_producer_id=next_producer_id))

    def _collect_configs(self) -> dict[str, dict[str, str]]:
        """Return each topic's settings: those of the source, unlimited retention, and those that the user specified."""
        sources = {
            self._settings.rename_topic(topic): topic_settings
            for topic, topic_settings in self._metadata.topics.items()
        }
        configs = {topic: self._build_topic_configs(topic, sources.get(topic)) for topic in self._report.topic_ids}
        if self._settings.groups:
            configs[OFFSETS_TOPIC] = _OFFSETS_TOPIC_CONFIGS | self._select_requested_configs(OFFSETS_TOPIC)
        return configs

    def _build_topic_configs(self, topic: str, source: TopicSettings | None) -> dict[str, str]:
        """Return the settings of a restored topic. ``source`` contains the topic's settings in the old cluster."""
        configs = dict(source.configs) if source is not None else {}
        configs |= {
            name: str(minimum) for name, minimum in _MIN_CONFIG_VALUES.items() if _is_below(configs.get(name), minimum)
        }
        if not self._settings.keep_retention and "delete" in configs.get("cleanup.policy", "delete"):
            configs |= _UNLIMITED_RETENTION
        return configs | self._select_requested_configs(topic)

    def _select_requested_configs(self, topic: str) -> dict[str, str]:
        """Return the settings that the user specified for a topic or for all topics."""
        pairs = [(name.rpartition(":"), value) for name, value in self._settings.topic_configs]
        return {name: value for (topic_name, _, name), value in pairs if topic_name in ("", topic)}


def check_topic_ids(directory: Path, topic_ids: Mapping[str, str]) -> None:
    """Check that each partition stores the id of its topic, because a broker ignores partitions with another id.

    Raises:
        LogDirError: a partition has another topic id, or no topic id.
    """
    (log_directory,) = discover(str(directory))
    for partition in log_directory.partitions:
        topic_id = partition.metadata.topic_id if partition.metadata is not None else None
        if topic_id != topic_ids.get(partition.topic):
            reason = (
                f"its topic id is {topic_id}, but topic {partition.topic} has the id {topic_ids.get(partition.topic)}"
            )
            raise LogDirError(reason, file=partition.directory)


def _is_below(value: str | None, minimum: int) -> bool:
    """Return whether a setting is a number below a minimum."""
    return value is not None and value.isascii() and value.isdigit() and int(value) < minimum


def _has_unlimited_retention(configs: Mapping[str, str]) -> bool:
    """Return whether a topic's ``retention.ms`` is unlimited."""
    return configs.get("retention.ms") == "-1"
