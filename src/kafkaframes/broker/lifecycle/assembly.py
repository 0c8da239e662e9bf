"""``open_broker`` creates a broker's state: it opens the log directory, and loads metadata and coordinators.

Explicit settings must be valid. A stored setting may be invalid if an earlier version accepted it without a check. An
invalid stored setting is ignored with a warning, and the next change removes it from the file.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final
from uuid import UUID, uuid4

from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.faults.disk_faults import DiskFaults
from kafkaframes.broker.lifecycle.opening import MEMORY_DIRECTORY, open_served_logs
from kafkaframes.broker.security.access import AllowAllAuthorizer, Authorizer
from kafkaframes.broker.security.options import Credentials
from kafkaframes.broker.settings.config_values import CONFIG_TYPES, normalize_value
from kafkaframes.broker.settings.properties import strip_listener_prefix
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.broker.state import coordinators
from kafkaframes.broker.state.clock import Clock
from kafkaframes.broker.state.config_changes import (
    check_broker_configs,
    check_group_configs,
    check_metrics_configs,
    check_topic_configs,
)
from kafkaframes.broker.state.internal import RecordsInMemory
from kafkaframes.broker.state.metadata_file import (
    METADATA_FILE_NAME,
    NODE_CONFIGS,
    StoredMetadata,
    StoredTopic,
    protect_metadata,
    read_metadata,
)
from kafkaframes.broker.state.state import DELETING, LOG, MEMORY, BrokerState, build_internal_topic_configs
from kafkaframes.broker.state.topics import INTERNAL_TOPICS, Nodes, Partition, Replicas, Topic
from kafkaframes.errors import LogDirError, OptionError
from kafkaframes.errors.words import count_text
from kafkaframes.storage.copies.decisions import MERGE
from kafkaframes.storage.files.checkpoints import MetaProperties, read_meta_properties
from kafkaframes.storage.files.directory import Remark, ServedDirectory
from kafkaframes.storage.files.disk import Disk, to_online_disk
from kafkaframes.storage.files.filesystem import join
from kafkaframes.storage.files.findings import Severity
from kafkaframes.storage.files.memory_disk import MemoryDisk, OverlayDisk
from kafkaframes.storage.files.names import META_PROPERTIES, TopicPartition
from kafkaframes.storage.partition import LogManager, LogSettings, ManagerSettings, open_log_directory
from kafkaframes.wire.primitives import uuid_from_text, uuid_to_text

NO_NODE_ID = -1


def open_broker(
    *,
    data_dir: str | None = None,
    serve: Sequence[str] = (),
    replicas: str = MERGE,
    storage: Mapping[str, Any] | None = None,
    settings: BrokerSettings | None = None,
    clock: Clock | None = None,
    nodes: Nodes | None = None,
    durability: str | None = None,
    disk: Disk | None = None,
    records_in_memory: RecordsInMemory | None = None,
    adopt: bool = False,
    access: Authorizer | None = None,
    credentials: Credentials | None = None,
    disk_faults: DiskFaults | None = None,
    new_id: Callable[[], UUID] = uuid4,
) -> BrokerState:
    """Open a broker's data directory, or create one in memory. All acknowledged records are available again.

    Args:
        data_dir: Kafka log directory; None for a directory in memory.
        serve: paths of log directories and stores that are served read-only (``ServedDirectory``). Changes of groups
            stay in memory.
        replicas, storage: arguments of ``serve_paths``.
        durability: ``memory``, ``log`` or ``fsync``.
        disk: disk of the log directory; by default the local file system, or memory.
        records_in_memory: records that groups wrote before a restart of a broker that serves directories.
        adopt: whether to accept and change a ``data_dir`` that another broker created.
        access: authorizer; the default allows everything.
        credentials: users for SASL.
        disk_faults: rules for disk faults.
        new_id: function that returns ids for topics and the cluster.

    Raises:
        LogDirError: the directory is in use, belongs to another broker, or cannot be read.
        OptionError: settings are invalid or exclude each other.
        StorageError: the disk fails.
    """
    if serve and (data_dir is not None or durability not in (None, MEMORY)):
        raise OptionError("data_dir and durability cannot be set with serve, because served directories are read-only")
    settings, clock, nodes = settings or BrokerSettings(), clock or Clock(), nodes or Nodes()
    check_static_settings(settings)
    served_logs, store = open_served_logs(serve, replicas=replicas, options=storage)
    path = data_dir or MEMORY_DIRECTORY if served_logs is None else served_logs.path
    inner_disk = disk or _choose_disk(data_dir, served_logs)
    online_disk = to_online_disk(inner_disk if disk_faults is None else disk_faults.wrap_disk(inner_disk))
    problems: list[LogDirError] = []
    if served_logs is None:
        _check_owner(online_disk, path, data_dir=data_dir, adopt=adopt)
    else:
        problems = _ignore_unreadable_metadata(online_disk, path)
    metadata = read_metadata(online_disk, path)
    is_new = metadata is None
    metadata = metadata or StoredMetadata(cluster_id=_read_cluster_id(online_disk, path) or uuid_to_text(new_id()))
    remove_invalid_settings(settings, metadata)
    stored_topics = metadata.topics
    settings.set_dynamic({"": metadata.configs} | metadata.entities.get(NODE_CONFIGS, {}))

    known_settings: dict[tuple[tuple[str, str], ...], LogSettings] = {}
    known_for: dict[str, str] = {}

    def find_log_settings(key: TopicPartition) -> LogSettings:
        """Return the log settings of a partition's topic."""
        topic = (state.topics.get(key.topic) or state.in_change.get(key.topic)) if is_assembled else None
        configs = (
            topic.configs
            if topic is not None
            else stored_topics[key.topic].configs
            if key.topic in stored_topics
            else choose_configs_of_adopted(settings, key.topic, is_read_only=served_logs is not None)
        )
        if known_for != settings.explicit:
            known_for.clear()
            known_for.update(settings.explicit)
            known_settings.clear()
        items = tuple(configs.items())
        if items not in known_settings:
            known_settings[items] = settings.build_log_settings(configs)
        return known_settings[items]

    is_assembled = False
    identity = None
    if online_disk.stat(join(path, META_PROPERTIES)) is None:
        node_id = str(min(nodes.by_id))
        properties = {"node.id": node_id, "version": "1", "cluster.id": metadata.cluster_id}
        # Kafka has written this property since version 3.7 (KIP-858).
        identity = MetaProperties(properties | {"directory.id": uuid_to_text(uuid4())})
    logs = open_log_directory(
        path,
        now_ms=clock.now_ms,
        settings_of=find_log_settings,
        settings=ManagerSettings(
            log_retention_check_interval_ms=settings.get_number("log.retention.check.interval.ms"),
            producer_check_interval_ms=settings.get_number("producer.id.expiration.check.interval.ms"),
        ),
        meta=identity,
        disk=online_disk,
        was_clean={} if served_logs is None else served_logs.was_clean,
        skips_unreadable=served_logs is not None,
    )
    logs.problems = (*problems, *logs.problems)
    state = BrokerState(
        clock=clock,
        settings=settings,
        logs=logs,
        metadata=metadata,
        nodes=nodes,
        durability=durability or (MEMORY if data_dir is None else LOG),
        is_read_only=served_logs is not None,
        records_in_memory=records_in_memory or RecordsInMemory(),
        store=store,
        remarks=() if served_logs is None else served_logs.remarks,
        access=access or AllowAllAuthorizer(),
        credentials=credentials or Credentials(),
        new_id=new_id,
    )
    is_assembled = True
    state.load_security()
    state.quotas.load(state.metadata.entities.get("quotas", ()))
    state.advertised = {key: api.range for key, api in collect_apis().items()}
    if not is_new:
        finish_deletions(state, logs, stored_topics)
    adopt_logs(state, logs, stored_topics, is_ours=not is_new)
    state.remarks += _describe_adopted_topics(state, stored_topics)
    if is_new:
        state.save_metadata()
    elif served_logs is None:
        protect_metadata(logs.disk, logs.path)
    coordinators.create_coordinators(state)
    return state


def _choose_disk(data_dir: str | None, served_logs: ServedDirectory | None) -> Disk | None:
    """Return a disk in memory for a broker without a directory; None for the local disk."""
    if served_logs is not None:
        return OverlayDisk(served_logs.filesystem)
    return MemoryDisk() if data_dir is None else None


def _check_owner(disk: Disk, path: str, *, data_dir: str | None, adopt: bool) -> None:
    """Reject a directory that another broker created, unless ``adopt`` is set."""
    directory = disk.stat(path)
    if directory is None:
        disk.make_directory(path)
    elif data_dir is not None and not adopt and disk.stat(join(path, METADATA_FILE_NAME)) is None:
        unknown_entries = [entry.name for entry in disk.list_directory(path) if not entry.name.startswith("lost+found")]
        if unknown_entries:
            entry_list = ", ".join(unknown_entries[:3])
            reason = (
                f"is not empty, and was not created by this broker ({entry_list}); `serve` reads a log directory, and "
                "`adopt` writes to it"
            )
            raise LogDirError(reason, file=path)


def _ignore_unreadable_metadata(disk: Disk, path: str) -> list[LogDirError]:
    """Ignore metadata files that cannot be read, so that the logs can be served without them; return the errors.

    Metadata files are only ignored in served directories. A broker that writes to a directory must know its cluster, as
    in Kafka.
    """
    problems = []
    for name, read in ((META_PROPERTIES, _read_cluster_id), (METADATA_FILE_NAME, read_metadata)):
        try:
            read(online_disk := to_online_disk(disk), path)
        except LogDirError as problem:
            problems.append(problem)
            online_disk.delete(join(path, name))  # deletes the file only in the in-memory overlay, not on disk
    return problems


_MAX_LISTED_TOPICS: Final = 5
# Settings of a topic that delete old records, with the broker's settings for topics without them.
_RETENTION_SETTINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "retention.ms": ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
    "retention.bytes": ("log.retention.bytes",),
}


def _read_cluster_id(disk: Disk, path: str) -> str | None:
    """Return the cluster id in a directory's ``meta.properties``; None if the file does not exist."""
    file = join(path, META_PROPERTIES)
    if disk.stat(file) is None:
        return None
    return read_meta_properties(disk.read(file), file=file).cluster_id


def _topic_id(logs: LogManager, keys: list[TopicPartition]) -> str | None:
    return next((logs.logs[key].topic_id for key in keys if key in logs.logs), None)


def finish_deletions(state: BrokerState, logs: LogManager, stored_topics: dict[str, StoredTopic]) -> None:
    """Delete the logs of topics with a deletion that was interrupted by a crash."""
    deleted_topic_ids = state.metadata.entities.pop(DELETING, {})
    for key, log in tuple(logs.logs.items()):
        if (
            key.topic in deleted_topic_ids
            and log.topic_id == deleted_topic_ids[key.topic]
            and key.topic not in stored_topics
        ):
            logs.rename_for_deletion(key, unique_id=uuid4().hex, now_ms=state.clock.now_ms)


def _check_missing_partitions(logs: LogManager, name: str, missing: list[int], *, is_ours: bool) -> None:
    """Raise a ``LogDirError`` if a partition with records is missing.

    A partition without records may have no directory.
    """
    if missing and not is_ours:
        reason = f"topic {name} lacks partitions {missing}; directories of a cluster can only be served, not adopted"
        raise LogDirError(reason, file=logs.path)
    if missing_partitions := [index for index in missing if logs.has_lost_records(TopicPartition(name, index))]:
        reason = f"topic {name} lacks partitions {missing_partitions}, which had records; their directories are missing"
        raise LogDirError(reason, file=logs.path)


def adopt_logs(state: BrokerState, logs: LogManager, stored_topics: dict[str, StoredTopic], *, is_ours: bool) -> None:
    """Create topics for existing logs. A topic without metadata gets the partitions of its directories.

    Args:
        stored_topics: stored topics by name.
        is_ours: whether kafkaframes created the log directory; empty partitions may then lack a directory.

    Raises:
        LogDirError: a partition is missing in a directory that the broker writes to.
    """
    by_topic: dict[str, list[TopicPartition]] = {name: [] for name in stored_topics}
    for key in sorted({*logs.logs, *logs.unreadable}):
        by_topic.setdefault(key.topic, []).append(key)
    for name, keys in by_topic.items():
        stored_topic = stored_topics.get(name)
        count = max(stored_topic.partitions if stored_topic else 0, keys[-1].partition + 1 if keys else 0)
        missing = [index for index in range(count) if TopicPartition(name, index) not in logs.logs]
        if not state.is_read_only:
            _check_missing_partitions(logs, name, missing, is_ours=is_ours)
        text = stored_topic.topic_id if stored_topic is not None else _topic_id(logs, keys)
        configs = (
            dict(stored_topic.configs)
            if stored_topic is not None
            else choose_configs_of_adopted(state.settings, name, is_read_only=state.is_read_only)
        )
        topic = Topic(name, uuid_from_text(text) if text else state.new_id(), configs)
        replicas = _choose_replicas(state, name, count, stored_topic)
        topic.partitions += [_adopt_log(state, logs, topic, index, node_ids) for index, node_ids in enumerate(replicas)]
        stored_count = stored_topic.partitions if stored_topic is not None and is_ours else 0
        for index in missing:
            if state.is_read_only and (index >= stored_count or logs.has_lost_records(TopicPartition(name, index))):
                topic.partitions[index].leader_id, topic.partitions[index].is_offline = NO_NODE_ID, True
        state.topics[name] = topic
        state.topics_by_id[topic.topic_id] = topic


def choose_configs_of_adopted(settings: BrokerSettings, name: str, *, is_read_only: bool) -> dict[str, str]:
    """Return the settings of a topic that another broker created, whose own settings are unknown.

    Kafka's internal topics have Kafka's settings. Nothing expires in other topics, because the default retention would
    delete the records of a backup or of a compacted topic minutes after the start. Explicit settings of this broker
    apply. A served directory is never changed, so its topics have the defaults.
    """
    if is_read_only:
        return {}
    if name in INTERNAL_TOPICS:
        return build_internal_topic_configs(settings, name)
    return {
        setting: "-1"
        for setting, broker_settings in _RETENTION_SETTINGS.items()
        if not any(broker_setting in settings.explicit for broker_setting in broker_settings)
    }


def _describe_adopted_topics(state: BrokerState, stored_topics: Mapping[str, StoredTopic]) -> tuple[Remark, ...]:
    """Return a remark about the topics in which nothing expires, because their settings are unknown."""
    names = sorted(
        topic.name for topic in state.topics.values() if not topic.is_internal and topic.name not in stored_topics
    )
    if state.is_read_only or not names:
        return ()
    listed_names = ", ".join(names[:_MAX_LISTED_TOPICS]) + (", ..." if len(names) > _MAX_LISTED_TOPICS else "")
    text = (
        f"the settings of {count_text(len(names), 'topic')} of another broker are unknown, so no records in them "
        f"expire unless this broker has a setting for it: {listed_names}"
    )
    return (Remark(Severity.NOTE, text),)


def _choose_replicas(state: BrokerState, name: str, count: int, stored_topic: StoredTopic | None) -> Replicas:
    """Return the replicas of a topic's partitions: the stored replicas if their nodes exist, else new replicas."""
    stored_replicas = stored_topic.replicas if stored_topic is not None else []
    factor = min(map(len, stored_replicas), default=state.default_factor)
    replicas = list(state.assign_replicas(name, count, max(factor, 1)))
    for index, nodes in enumerate(stored_replicas[:count]):
        if state.nodes.are_valid_replicas(nodes):
            replicas[index] = tuple(nodes)
    return replicas


def _adopt_log(state: BrokerState, logs: LogManager, topic: Topic, index: int, replicas: tuple[int, ...]) -> Partition:
    """Return a partition with its log, which is created if it does not exist."""
    key = TopicPartition(topic.name, index)
    log = logs.logs.get(key) or logs.create(key, topic_id=uuid_to_text(topic.topic_id), now_ms=state.clock.now_ms)
    log.update_high_watermark(log.log_end_offset)
    partition = Partition(key, log, replicas, leader_epoch=max(log.epochs.latest, 0))
    state.cache_settings(topic, partition)
    return partition


_LOGGER = logging.getLogger("kafkaframes.broker")


def check_static_settings(settings: BrokerSettings) -> None:
    """Raise an ``OptionError`` with the setting's name for an explicit setting that Kafka would reject at startup."""
    for name, value in settings.explicit.items():
        key = strip_listener_prefix(name)
        if key not in CONFIG_TYPES:
            continue
        try:
            normalize_value(key, value)
        except OptionError as error:
            raise OptionError(f"{name.removesuffix(key)}{error}") from None
    queued_max_bytes = settings.explicit.get("queued.max.request.bytes", "-1")
    if 0 < int(queued_max_bytes) < settings.get_number("socket.request.max.bytes"):
        raise OptionError(
            f"queued.max.request.bytes is {queued_max_bytes}; expected socket.request.max.bytes or more, or -1"
        )


def remove_invalid_settings(settings: BrokerSettings, metadata: StoredMetadata) -> None:
    """Remove invalid stored settings from ``metadata``, with a warning for each."""
    metadata.configs = _remove_invalid_settings("the broker", metadata.configs, check_broker_configs)
    by_node = metadata.entities.get(NODE_CONFIGS, {})
    for node, configs in by_node.items():
        by_node[node] = _remove_invalid_settings(f"node {node}", configs, check_broker_configs)
    for name, topic in metadata.topics.items():
        topic.configs = _remove_invalid_settings(f"topic {name}", topic.configs, partial(check_topic_configs, settings))
    for entity, words, check in (
        ("group_configs", "group", check_group_configs),
        ("client_metrics", "metrics", check_metrics_configs),
    ):
        entities = metadata.entities.get(entity, {})
        for name, configs in entities.items():
            entities[name] = _remove_invalid_settings(f"{words} {name}", configs, partial(check, settings))


def _remove_invalid_settings(
    owner: str, configs: Mapping[str, str], check: Callable[[dict[str, str]], object]
) -> dict[str, str]:
    """Return the stored settings that are still valid, and log a warning for each invalid setting."""
    kept_values = {}
    for name, value in configs.items():
        try:
            check({name: value})
        except OptionError as error:
            _LOGGER.warning("a stored setting of %s is ignored: %s", owner, error)
        else:
            kept_values[name] = value
    return kept_values
