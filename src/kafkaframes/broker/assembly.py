"""Put a broker together: its log directory, what it knew before, and its coordinators."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID, uuid4

from kafkaframes.broker import coordinators
from kafkaframes.broker.clock import Clock
from kafkaframes.broker.metadata_file import StoredMetadata, StoredTopic, read_metadata
from kafkaframes.broker.nodes import Nodes
from kafkaframes.broker.settings import BrokerSettings
from kafkaframes.broker.state import LOG, MEMORY, BrokerState, id_of_text, text_of_id
from kafkaframes.broker.table import all_apis
from kafkaframes.broker.topics import Partition, Topic
from kafkaframes.errors import LogDirError
from kafkaframes.files.checkpoints import MetaProperties
from kafkaframes.files.disk import Disk, online
from kafkaframes.files.memory_disk import MemoryDisk
from kafkaframes.files.names import TopicPartition
from kafkaframes.partition import LogManager, LogSettings, open_log_directory

MEMORY_DIRECTORY = "/memory"


def open_broker(
    *,
    data_dir: str | None = None,
    settings: BrokerSettings | None = None,
    clock: Clock | None = None,
    nodes: Nodes | None = None,
    durability: str | None = None,
    disk: Disk | None = None,
    new_id: Callable[[], UUID] = uuid4,
) -> BrokerState:
    """Open a broker's data directory, or begin one in memory; everything that was acknowledged is there again.

    Args:
        data_dir: a Kafka log directory; None for one in memory.
        settings: the broker's.
        clock: its clock.
        nodes: its virtual nodes.
        durability: ``memory``, ``log`` or ``fsync``.
        disk: what it writes to; this machine's, or one in memory, by default.
        new_id: gives topic ids and the cluster's id.

    Raises:
        LogDirError: the directory is in use, is another broker's, or cannot be read.
        StorageError: the disk fails.
    """
    settings, clock, nodes = settings or BrokerSettings(), clock or Clock(), nodes or Nodes()
    path = data_dir or MEMORY_DIRECTORY
    there = online(disk or (MemoryDisk() if data_dir is None else None))
    if there.stat(path) is None:
        there.make_directory(path)
    metadata = read_metadata(there, path)
    is_new = metadata is None
    metadata = metadata or StoredMetadata(cluster_id=text_of_id(new_id()))
    stored = metadata.topics
    settings.given.update(metadata.configs)
    settings.dynamic = set(metadata.configs)

    def settings_of(key: TopicPartition) -> LogSettings:
        topic = state.topics.get(key.topic) if made else None
        known = topic.configs if topic is not None else stored[key.topic].configs if key.topic in stored else {}
        return settings.log_settings(known)

    made = False
    identity = MetaProperties({"node.id": str(min(nodes.by_id)), "version": "1", "cluster.id": metadata.cluster_id})
    logs = open_log_directory(path, now_ms=clock.now_ms, settings_of=settings_of, meta=identity, disk=there)
    state = BrokerState(
        clock=clock,
        settings=settings,
        logs=logs,
        metadata=metadata,
        nodes=nodes,
        durability=durability or (MEMORY if data_dir is None else LOG),
        new_id=new_id,
    )
    made = True
    state.advertised = {key: api.range for key, api in all_apis().items() if api.is_advertised}
    adopt_logs(state, logs, stored)
    if is_new:
        state.save()
    coordinators.attach(state)
    return state


def adopt_logs(state: BrokerState, logs: LogManager, stored: dict[str, StoredTopic]) -> None:
    """Make topics of the logs that are there; a topic that is not stored is taken as its directories show it.

    Raises:
        LogDirError: a partition is missing between others.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for key in sorted(logs.logs):
        by_topic.setdefault(key.topic, []).append(key)
    for name, keys in by_topic.items():
        if [key.partition for key in keys] != list(range(len(keys))):
            raise LogDirError(f"topic {name} has partitions {[key.partition for key in keys]}", file=logs.path)
        known = stored.get(name)
        text = known.topic_id if known is not None else logs.logs[keys[0]].topic_id
        topic = Topic(name, id_of_text(text) if text else state.new_id(), dict(known.configs) if known else {})
        for key in keys:
            log = logs.logs[key]
            log.update_high_watermark(log.log_end_offset)
            epoch = max(log.leader_epochs.latest, 0)
            partition = Partition(key, log, state.nodes.leader_of(name, key.partition), epoch)
            state.note_settings(topic, partition)
            topic.partitions.append(partition)
        state.topics[name] = topic
        state.topics_by_id[topic.topic_id] = topic
        if known is not None and known.partitions > len(topic.partitions):  # a crash while it was made
            state.add_partitions(topic, known.partitions)
