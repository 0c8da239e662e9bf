"""``BrokerState``: the state that request handlers read and change: topics, settings, the clock, the coordinators."""

from __future__ import annotations

import logging
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID, uuid4

from kafkaframes.broker.requests.quotas import Quotas
from kafkaframes.broker.security.access import AllowAllAuthorizer, Authorizer
from kafkaframes.broker.security.acls import Acl, AclAuthorizer
from kafkaframes.broker.security.options import Credentials
from kafkaframes.broker.security.scram import ScramCredential
from kafkaframes.broker.settings.features import FEATURES_KEY, GROUP_FEATURES, Feature, restore_levels
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.broker.state.changes import ChangeQueue, Steps, finish_steps
from kafkaframes.broker.state.clock import Clock, monotonic_ms
from kafkaframes.broker.state.fetch_sessions import FetchSessions
from kafkaframes.broker.state.internal import InternalTopics, RecordsInMemory
from kafkaframes.broker.state.metadata_file import (
    NODE_CONFIGS,
    PRODUCER_ID_BLOCK_SIZE,
    StoredMetadata,
    StoredTopic,
    write_metadata,
)
from kafkaframes.broker.state.problem_log import ProblemLog
from kafkaframes.broker.state.store_reads import StoreFileSystem
from kafkaframes.broker.state.topics import (
    GROUP_OFFSETS,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE,
    TRANSACTION_STATE,
    Nodes,
    Partition,
    Replicas,
    Topic,
)
from kafkaframes.coordination.groups.coordinator import GroupCoordinator
from kafkaframes.coordination.groups.share_state import ShareStates
from kafkaframes.coordination.transactions.coordinator import TransactionCoordinator
from kafkaframes.errors import KafkaframesError, OptionError, StorageError
from kafkaframes.storage.files.directory import Remark
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.partition import LogManager
from kafkaframes.wire.primitives import uuid_to_text

_SALTS, DELETING, _TOKENS = "scram_salts", "deleting", "delegation_tokens"  # keys of StoredMetadata.entities
_LOGGER = logging.getLogger("kafkaframes.broker")
# Internal topic -> the prefix of its broker settings, and its topic settings as Kafka sets them.
_INTERNAL_TOPICS = {
    GROUP_OFFSETS: ("offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}),
    TRANSACTION_STATE: ("transaction.state.log", {"cleanup.policy": "compact", "compression.type": "uncompressed"}),
    SHARE_GROUP_STATE: ("share.coordinator.state.topic", {"cleanup.policy": "delete", "retention.ms": "-1"}),
}
MEMORY, LOG, FSYNC = "memory", "log", "fsync"


@dataclass(slots=True, eq=False)
class BrokerState:
    """The state of one broker, without its sockets. ``assembly.open_broker`` creates it.

    Attributes:
        metadata: metadata that is stored next to the logs. ``save_metadata`` writes it.
        is_read_only: whether the broker rejects changes, because it serves directories (``--serve``).
        advertised: lowest and highest version that ApiVersions reports for each API, by API key.
        features: supported and finalized levels by feature name (KIP-584).
        unflushed: partitions with appends since the last group commit (``fsync`` only).
        counters: counters for the metrics, by name.
        store: reader of a served store with reads that may be slow; None for local disks.
        remarks: findings about the served partitions, such as differences between their copies.
        records_in_memory: records of internal topics, such as committed offsets, while the broker serves read-only.
        waits: clock for long polls, which follows real time even if a test advances ``clock``.
        changes: queue of topic changes, which run one after the other. Other requests run between the steps of a
            change.
        in_change: topics that are being created, extended or deleted, by name.
        on_topic_deleted: called after a topic is deleted, so that the coordinators remove its state.
        disk_problems: log of disk errors.
        is_unsaved: whether the last write of ``metadata`` failed; maintenance retries the write.
    """

    clock: Clock
    settings: BrokerSettings
    logs: LogManager
    metadata: StoredMetadata
    nodes: Nodes
    durability: str = LOG
    is_read_only: bool = False
    topics: dict[str, Topic] = field(default_factory=dict)
    topics_by_id: dict[UUID, Topic] = field(default_factory=dict)
    topics_version: int = 0  # number that changes whenever a topic is created, extended or deleted
    access: Authorizer = field(default_factory=AllowAllAuthorizer)
    credentials: Credentials = field(default_factory=Credentials)
    advertised: dict[int, tuple[int, int]] = field(default_factory=dict)
    features: dict[str, Feature] = field(init=False)
    quotas: Quotas = field(default_factory=Quotas)
    unflushed: set[Partition] = field(default_factory=set)
    counters: Counter[str] = field(default_factory=Counter)
    store: StoreFileSystem | None = None
    records_in_memory: RecordsInMemory = field(default_factory=RecordsInMemory)
    remarks: tuple[Remark, ...] = ()
    waits: Clock = field(default_factory=lambda: Clock(monotonic_ms))
    changes: ChangeQueue = field(default_factory=ChangeQueue)
    in_change: dict[str, Topic] = field(default_factory=dict)
    new_id: Callable[[], UUID] = uuid4
    on_topic_deleted: list[Callable[[Topic], None]] = field(default_factory=list)
    is_unsaved: bool = False
    disk_problems: ProblemLog = field(init=False, repr=False)
    internal: InternalTopics = field(init=False)
    groups: GroupCoordinator = field(init=False)
    transactions: TransactionCoordinator = field(init=False)
    share_groups: ShareStates = field(init=False)
    fetch_sessions: FetchSessions = field(init=False)
    _producer_ids_end: int = 0

    def __post_init__(self) -> None:
        self.features = restore_levels(self.settings.features, self.metadata.entities.get(FEATURES_KEY, {}))
        self.disk_problems = ProblemLog(_LOGGER, lambda: self.clock.monotonic_ms)
        self.fetch_sessions = FetchSessions(self.settings.get_number("max.incremental.fetch.session.cache.slots"))
        self._producer_ids_end = self.metadata.next_producer_id
        self.internal = InternalTopics(
            partition_of=self.get_internal_partition,
            partitions=lambda name: self.topics[name].partitions if name in self.topics else [],
            now_ms=lambda: self.clock.now_ms,
            appended=self.note_append,
        )

    @property
    def cluster_id(self) -> str:
        """The cluster's id, 22 characters."""
        return self.metadata.cluster_id

    # ---------------------------------------------------------------------------------------------- topics

    def partition(self, topic: str, index: int) -> Partition | None:
        """Return a partition; None if it does not exist."""
        topic_or_none = self.topics.get(topic)
        return None if topic_or_none is None else topic_or_none.partition(index)

    def partitions(self) -> Iterator[Partition]:
        """Yield every partition of every topic."""
        for topic in self.topics.values():
            yield from topic.partitions

    def assign_replicas(self, name: str, count: int, factor: int, *, first: int = 0) -> Replicas:
        """Return the replicas of a topic's partitions ``first`` to ``first + count - 1``."""
        return [self.nodes.choose_replicas(name, index, factor) for index in range(first, first + count)]

    @property
    def default_factor(self) -> int:
        """The setting ``default.replication.factor``, limited to the number of nodes."""
        return min(self.settings.get_number("default.replication.factor"), len(self.nodes.by_id))

    def create_topic(self, name: str, partitions: int, configs: dict[str, str] | None = None) -> Topic:
        """Create a topic with the default replication factor.

        The caller has validated the settings and checked that the topic does not exist.

        Raises:
            OptionError: Kafka rejects the name or a setting.
            StorageError: the disk fails.
        """
        replicas = self.assign_replicas(name, partitions, self.default_factor)
        topic = finish_steps(self.create_topic_in_steps(name, replicas, configs))
        self.publish_topics([topic])
        return topic

    def create_topic_in_steps(
        self, name: str, replicas: Replicas, configs: dict[str, str] | None = None
    ) -> Steps[Topic]:
        """Create the logs of a topic, one partition a step. The topic is visible after :meth:`publish_topics`.

        If a step fails, the topic stays with the partitions that were created before.

        Raises:
            OptionError, StorageError: :meth:`create_topic` raises the same errors; or the topic is being deleted.
        """
        topic = Topic(name, self.new_id(), dict(configs or {}))
        self.settings.build_log_settings(topic.configs)  # rejects invalid settings before a log is created
        try:
            yield from self.add_partitions_in_steps(topic, replicas)
        except KafkaframesError:
            if topic.partitions:
                self._publish_topic(topic)
            raise
        return topic

    def _publish_topic(self, topic: Topic) -> None:
        """Add a topic to the tables by name and by id."""
        self.topics[topic.name] = self.topics_by_id[topic.topic_id] = topic
        self.topics_version += 1

    def publish_topics(self, topics: Iterable[Topic]) -> None:
        """Make new topics visible, and write the metadata once for all topics.

        Raises:
            StorageError: the disk fails; the new topics then stay invisible.
        """
        topics = tuple(topics)
        for topic in topics:
            self._publish_topic(topic)
        try:
            self.save_metadata()
        except StorageError:
            for topic in topics:
                del self.topics[topic.name], self.topics_by_id[topic.topic_id]
                for partition in topic.partitions:
                    del self.logs.logs[partition.topic_partition]
            raise

    @contextmanager
    def _mark_changing(self, topic: Topic) -> Iterator[None]:
        """Reject other changes to a topic while the block runs."""
        if topic.name in self.in_change:
            raise OptionError(f"topic {topic.name!r} is being changed")
        self.in_change[topic.name] = topic
        try:
            yield
        finally:
            del self.in_change[topic.name]

    def _create_partition(self, topic: Topic, index: int, replicas: tuple[int, ...]) -> Partition:
        """Create a partition's log, and elect its leader."""
        key = TopicPartition(topic.name, index)
        log = self.logs.create(key, topic_id=uuid_to_text(topic.topic_id), now_ms=self.clock.now_ms)
        partition = Partition(key, log, replicas)
        self.nodes.elect_leader(partition)
        self.cache_settings(topic, partition)
        return partition

    def add_partitions_in_steps(self, topic: Topic, replicas: Replicas) -> Steps[None]:
        """Add partitions to a topic, one a step. All new partitions become visible after the last step.

        If a step fails, the topic gets the partitions that were created before. The caller saves the metadata.

        Raises:
            OptionError, StorageError: the topic is already being changed (OptionError), or the disk fails
                (StorageError).
        """
        created_partitions: list[Partition] = []
        with self._mark_changing(topic):
            try:
                for index, partition_replicas in enumerate(replicas, len(topic.partitions)):
                    if created_partitions:
                        yield
                    created_partitions.append(self._create_partition(topic, index, partition_replicas))
            finally:
                topic.partitions += created_partitions
                self.topics_version += 1

    def delete_topics_in_steps(self, topics: Sequence[Topic]) -> Steps[None]:
        """Delete topics, one partition a step. The topics are invisible from the first step.

        A timer deletes the files later. The metadata file lists the ids of the topics during the steps, so that the
        broker continues the deletion when it starts after a crash.

        Raises:
            OptionError, StorageError: a topic is already being changed (OptionError), or the disk fails (StorageError).
        """
        with ExitStack() as change_locks:
            for topic in topics:
                change_locks.enter_context(self._mark_changing(topic))
                del self.topics[topic.name]
                del self.topics_by_id[topic.topic_id]
            self.topics_version += 1
            partitions = [partition for topic in topics for partition in topic.partitions]
            for partition in partitions:
                self.unflushed.discard(partition)
                partition.is_offline = True
            topic_ids = {topic.name: uuid_to_text(topic.topic_id) for topic in topics}
            self.metadata.entities[DELETING] = topic_ids
            self._save_or_defer()  # deleting topics must be possible on a full disk
            for partition in partitions:
                partition.notify()
            for number, partition in enumerate(partitions):
                if number:
                    yield
                self.logs.rename_for_deletion(
                    partition.topic_partition, unique_id=uuid4().hex, now_ms=self.clock.now_ms
                )
            self.logs.checkpoint_all()
            # The next save removes the ids from the file. Until then, they do no harm: a new topic has another id.
            del self.metadata.entities[DELETING]
        for topic in topics:
            for call in self.on_topic_deleted:
                call(topic)

    def configure_topic(self, topic: Topic, configs: dict[str, str]) -> None:
        """Replace a topic's own settings, which must be valid. The caller saves the metadata."""
        settings = self.settings.build_log_settings(configs)
        topic.configs = configs
        for partition in topic.partitions:
            partition.log.configure(settings)
            self.cache_settings(topic, partition)

    def configure_broker(self, by_node: Mapping[str, dict[str, str]]) -> None:
        """Replace the broker settings that clients have changed, which apply to all topics without values of their own.

        The caller saves the metadata.

        Args:
            by_node: settings by node id; the key "" holds the settings of all nodes.
        """
        self.settings.set_dynamic(by_node)
        dynamic_by_node = dict(self.settings.dynamic_by_node)
        self.metadata.configs = dynamic_by_node.pop("", {})
        self.metadata.entities[NODE_CONFIGS] = dynamic_by_node
        for topic in self.topics.values():
            self.configure_topic(topic, topic.configs)

    def cache_settings(self, topic: Topic, partition: Partition) -> None:
        """Cache frequently read settings in a partition. ``min.insync.replicas`` is 1 for internal topics."""
        configs = topic.configs
        minimum = 1 if topic.is_internal else int(self.settings.get_topic_value("min.insync.replicas", configs))
        partition.min_insync_replicas = minimum
        partition.may_down_convert = self.settings.get_topic_flag("message.downconversion.enable", configs)

    def get_internal_partition(self, name: str, index: int) -> Partition:
        """Return a partition of an internal topic. The topic is created if it does not exist."""
        topic = self.topics.get(name) or self.create_internal_topic(name)
        return topic.partitions[index]

    def create_internal_topic(self, name: str) -> Topic:
        """Create an internal topic with Kafka's settings for it."""
        return self.create_topic(
            name, self.get_internal_partition_count(name), build_internal_topic_configs(self.settings, name)
        )

    def get_internal_partition_count(self, name: str) -> int:
        """Return the number of partitions that an internal topic has, or will have when it is created."""
        if name in self.topics:
            return len(self.topics[name].partitions)
        return self.settings.get_number(f"{_INTERNAL_TOPICS[name][0]}.num.partitions")

    @staticmethod
    def is_internal(name: str) -> bool:
        """Return whether a topic is internal to a coordinator."""
        return name in INTERNAL_TOPICS

    def move_leader(self, partition: Partition, node_id: int) -> None:
        """Move a partition's leadership to a node, in a new leader epoch. The node becomes a replica if necessary."""
        partition.add_to_isr(node_id)
        partition.leader_id = node_id
        partition.leader_epoch += 1
        partition.notify()

    def get_disk_space(self) -> tuple[int, int]:
        """Return the total and free bytes of the log directory's disk; (-1, -1) in memory."""
        if self.durability == MEMORY:
            return -1, -1
        usage = shutil.disk_usage(self.logs.path)
        return usage.total, usage.free

    # ---------------------------------------------------------------------------------------------- records

    def note_append(self, partition: Partition) -> None:
        """Wake waiting requests after an append, and mark the partition as unflushed (``fsync`` only)."""
        if self.durability == FSYNC:
            self.unflushed.add(partition)
        if partition.waiting:
            partition.notify()

    # ---------------------------------------------------------------------------------------------- the rest

    def assign_producer_id(self) -> int:
        """Return a producer id that was never assigned. Blocks of ids are reserved on disk.

        Ids in the logs' producer state are skipped: mirrored records keep the ids that another broker assigned.
        """
        producer_id = self._producer_ids_end
        while any(producer_id in log.producers.states for log in self.logs.logs.values()):
            producer_id += 1
        if producer_id >= self.metadata.next_producer_id:
            old_end, self.metadata.next_producer_id = (
                self.metadata.next_producer_id,
                producer_id + PRODUCER_ID_BLOCK_SIZE,
            )
            try:
                self.save_metadata()
            except StorageError:
                self.metadata.next_producer_id = old_end
                raise
        self._producer_ids_end = producer_id + 1
        return producer_id

    def save_credentials(self) -> None:
        """Write the SCRAM credentials."""
        users: dict[str, Any] = {}
        for (user, mechanism), credential in self.credentials.scram.items():
            users.setdefault(user, {})[mechanism] = credential.to_dict()
        self.metadata.entities["scram"] = users
        self.save_metadata()

    def set_feature_levels(self, levels: Mapping[str, int]) -> None:
        """Finalize feature levels, and store them.

        The caller has validated the levels with ``features.check_update``.
        """
        self.features |= {name: self.features[name]._replace(level=level) for name, level in levels.items()}
        self.metadata.entities[FEATURES_KEY] = {name: feature.level for name, feature in self.features.items()}
        self.save_metadata()

    def offers_group_type(self, group_type: str) -> bool:
        """Return whether groups of a type (``consumer``, ``share``, ``streams``) are enabled.

        A missing feature does not disable the groups, because releases before 4.0 have only the setting.
        """
        feature = self.features.get(GROUP_FEATURES[group_type])
        return self.settings.has_protocol(group_type) and (feature is None or feature.level > 0)

    def save_tokens(self) -> None:
        """Write the delegation tokens."""
        self.metadata.entities[_TOKENS] = self.credentials.tokens.to_list()
        self.save_metadata()

    def save_acls(self) -> None:
        """Write the ACLs if the broker has an authorizer."""
        if isinstance(self.access, AclAuthorizer):
            self.metadata.entities["acls"] = [list(acl) for acl in self.access]
            self.save_metadata()

    def load_security(self) -> None:
        """Load the stored SCRAM credentials and delegation tokens, and the ACLs if the broker has an authorizer."""
        tokens, settings = self.credentials.tokens, self.settings
        tokens.secret_key = settings.get_text("delegation.token.secret.key")
        tokens.longest_ms = settings.get_number("delegation.token.max.lifetime.ms")
        tokens.default_ms = settings.get_number("delegation.token.expiry.time.ms")
        tokens.kept_ms = settings.get_number("delegation.token.expiry.check.interval.ms")
        tokens.load(self.metadata.entities.get(_TOKENS, []))
        for user, mechanisms in self.metadata.entities.get("scram", {}).items():
            for mechanism, values in mechanisms.items():
                self.credentials.scram[user, mechanism] = ScramCredential.from_dict(values)
        if self.credentials.scram or self.credentials.passwords:
            self._load_salt_secret()
        if isinstance(self.access, AclAuthorizer):
            for values in self.metadata.entities.get("acls", []):
                self.access.add(Acl(*values))

    def _load_salt_secret(self) -> None:
        """Load or store the secret from which salts of unknown users are derived.

        The salts therefore stay the same after a restart, which does not reveal which users exist.
        """
        if _SALTS not in self.metadata.entities:
            self.metadata.entities[_SALTS] = self.credentials.secret.hex()
            self.save_metadata()
        self.credentials.secret = self.metadata.entities[_SALTS].encode()
        self.credentials.prepare_credentials()

    def save_metadata(self) -> None:
        """Write the metadata; raise ``StorageError`` if the disk fails."""
        if self.is_read_only:
            return
        self.is_unsaved = True
        self.metadata.topics = {
            name: StoredTopic(
                uuid_to_text(topic.topic_id), len(topic.partitions), topic.configs, self._list_stored_replicas(topic)
            )
            for name, topic in self.topics.items()
        }
        write_metadata(self.logs.disk, self.logs.path, self.metadata)
        self.is_unsaved = False

    def _list_stored_replicas(self, topic: Topic) -> list[list[int]]:
        """Return the replicas of a topic's partitions for storage; an empty list if the broker has one node."""
        return [list(partition.replicas) for partition in topic.partitions] if len(self.nodes.by_id) > 1 else []

    def _save_or_defer(self) -> None:
        """Write the metadata. If the disk is full, maintenance writes the metadata later."""
        try:
            self.save_metadata()
        except StorageError:
            if self.logs.is_offline:
                raise


def build_internal_topic_configs(settings: BrokerSettings, name: str) -> dict[str, str]:
    """Return Kafka's settings for an internal topic."""
    setting, configs = _INTERNAL_TOPICS[name]
    if name == SHARE_GROUP_STATE:
        return dict(configs)
    return {**configs, "segment.bytes": settings.get_text(f"{setting}.segment.bytes")}
