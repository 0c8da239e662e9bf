"""``BrokerSettings``: the settings of a broker and of its topics, under Kafka's names (``server.properties``).

The value of a topic setting is the topic's own value, else the value of the corresponding broker setting, else the
default. Settings that have no effect in this broker are stored, returned by DescribeConfigs, and listed when the broker
starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkaframes.broker.settings.features import Feature, build_release_features
from kafkaframes.errors import OptionError
from kafkaframes.storage.partition import LogSettings
from kafkaframes.wire.integers import MAX_INT64

# Broker settings and their defaults. The defaults are Kafka's unless a comment gives Kafka's value.
DEFAULTS: Mapping[str, str] = {
    "node.id": "1",
    "num.partitions": "1",
    "default.replication.factor": "1",
    "auto.create.topics.enable": "true",
    "auto.leader.rebalance.enable": "true",
    "leader.imbalance.check.interval.seconds": "300",
    "delete.topic.enable": "true",
    "delegation.token.expiry.check.interval.ms": "3600000",
    "delegation.token.expiry.time.ms": "86400000",
    "delegation.token.max.lifetime.ms": "604800000",
    "delegation.token.secret.key": "",
    "message.max.bytes": "1048588",
    "socket.request.max.bytes": "104857600",
    "queued.max.request.bytes": "268435456",  # Kafka's -1 does not limit the memory of incomplete requests
    "fetch.max.bytes": "57671680",
    "max.connections": "2147483647",
    "connections.max.idle.ms": "600000",
    "max.incremental.fetch.session.cache.slots": "1000",
    "group.initial.rebalance.delay.ms": "0",  # Kafka's 3000 would delay every test
    "group.min.session.timeout.ms": "10",  # Kafka's 6000 is too long for tests
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "2147483647",
    "group.coordinator.rebalance.protocols": "classic,consumer,share,streams",
    "group.consumer.assignment.interval.ms": "0",  # Kafka's 1000 would delay each new member
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.session.timeout.ms": "45000",
    "group.consumer.max.assignment.interval.ms": "15000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.max.size": "2147483647",
    "group.consumer.min.assignment.interval.ms": "0",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.migration.policy": "bidirectional",
    "group.share.assignment.interval.ms": "0",  # Kafka's 1000
    "group.share.delivery.count.limit": "5",
    # 5000 in Kafka, where a member waits 5 s for its partitions: the second heartbeat returns them
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.max.assignment.interval.ms": "15000",
    "group.share.max.delivery.count.limit": "10",
    "group.share.max.heartbeat.interval.ms": "15000",
    "group.share.max.partition.max.record.locks": "4000",
    "group.share.max.record.lock.duration.ms": "60000",
    "group.share.max.session.timeout.ms": "60000",
    "group.share.max.share.sessions": "2000",
    "group.share.min.assignment.interval.ms": "0",
    "group.share.min.delivery.count.limit": "2",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.min.partition.max.record.locks": "100",
    "group.share.min.record.lock.duration.ms": "15000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.partition.max.record.locks": "2000",
    "group.share.record.lock.duration.ms": "30000",
    "group.share.session.timeout.ms": "45000",
    "group.streams.assignment.interval.ms": "1000",
    # 5000 in Kafka, where a member waits 10 s for its tasks: the third heartbeat returns them
    "group.streams.heartbeat.interval.ms": "1000",
    "group.streams.initial.rebalance.delay.ms": "0",  # Kafka's 3000 would delay every test
    "group.streams.max.assignment.interval.ms": "15000",
    "group.streams.max.heartbeat.interval.ms": "15000",
    "group.streams.max.session.timeout.ms": "60000",
    "group.streams.max.size": "2147483647",
    "group.streams.max.standby.replicas": "2",
    "group.streams.min.assignment.interval.ms": "0",
    "group.streams.min.heartbeat.interval.ms": "5000",
    "group.streams.min.session.timeout.ms": "45000",
    "group.streams.num.standby.replicas": "0",
    "group.streams.session.timeout.ms": "45000",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.minutes": "10080",
    "offsets.topic.num.partitions": "1",  # Kafka's 50 is for many brokers
    "offsets.topic.segment.bytes": "104857600",
    "transaction.state.log.num.partitions": "1",  # Kafka's 50
    "transaction.state.log.segment.bytes": "104857600",
    "share.coordinator.state.topic.num.partitions": "1",  # Kafka's 50
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transactional.id.expiration.ms": "604800000",
    "producer.id.expiration.ms": "86400000",
    "producer.id.expiration.check.interval.ms": "600000",
    "log.retention.check.interval.ms": "300000",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "15000",
    "sasl.server.max.receive.size": "524288",
    "connection.failed.authentication.delay.ms": "100",
    "connections.max.reauth.ms": "0",
    "super.users": "",
    "allow.everyone.if.no.acl.found": "false",
}

# Kafka 4.3's defaults where DEFAULTS differs, for test suites and tools that rely on them (``kafka_defaults``).
KAFKA_DEFAULTS: Mapping[str, str] = {
    "group.consumer.assignment.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.min.session.timeout.ms": "6000",
    "group.share.assignment.interval.ms": "1000",
    "group.share.heartbeat.interval.ms": "5000",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.initial.rebalance.delay.ms": "3000",
    "log.message.timestamp.after.max.ms": "3600000",
    "offsets.topic.num.partitions": "50",
    "queued.max.request.bytes": "-1",
    "share.coordinator.state.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
}

INTERNAL_TOPIC_KEYS = frozenset({"internal.segment.bytes"})  # accepted, but not returned by DescribeConfigs

# Topic setting -> (broker setting, default).
TOPIC_KEYS: Mapping[str, tuple[str, str]] = {
    "cleanup.policy": ("log.cleanup.policy", "delete"),
    "compression.type": ("compression.type", "producer"),
    "compression.gzip.level": ("compression.gzip.level", "-1"),
    "compression.lz4.level": ("compression.lz4.level", "9"),
    "compression.zstd.level": ("compression.zstd.level", "3"),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms", "86400000"),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms", "60000"),
    "flush.messages": ("log.flush.interval.messages", str(MAX_INT64)),
    "flush.ms": ("log.flush.interval.ms", str(MAX_INT64)),
    "follower.replication.throttled.replicas": ("", ""),
    "index.interval.bytes": ("log.index.interval.bytes", "4096"),
    "kafkaframes.on.noncontiguous": ("kafkaframes.on.noncontiguous", "kafka"),
    "leader.replication.throttled.replicas": ("", ""),
    "local.retention.bytes": ("log.local.retention.bytes", "-2"),
    "local.retention.ms": ("log.local.retention.ms", "-2"),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms", str(MAX_INT64)),
    "max.message.bytes": ("message.max.bytes", "1048588"),
    "message.downconversion.enable": ("log.message.downconversion.enable", "true"),
    "message.format.version": ("log.message.format.version", "3.0-IV1"),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms", str(MAX_INT64)),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms", str(MAX_INT64)),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms", str(MAX_INT64)),
    "message.timestamp.type": ("log.message.timestamp.type", "CreateTime"),
    "min.cleanable.dirty.ratio": ("log.cleaner.min.cleanable.ratio", "0.5"),
    "min.compaction.lag.ms": ("log.cleaner.min.compaction.lag.ms", "0"),
    "min.insync.replicas": ("min.insync.replicas", "1"),
    "preallocate": ("log.preallocate", "false"),
    "remote.storage.enable": ("", "false"),
    "retention.bytes": ("log.retention.bytes", "-1"),
    "retention.ms": ("log.retention.ms", "604800000"),
    "segment.bytes": ("log.segment.bytes", "1073741824"),
    "segment.index.bytes": ("log.index.size.max.bytes", "10485760"),
    "segment.jitter.ms": ("log.roll.jitter.ms", "0"),
    "segment.ms": ("log.roll.ms", "604800000"),
    "unclean.leader.election.enable": ("unclean.leader.election.enable", "false"),
}

# Group setting -> the broker setting that is its default, or its default value if no broker setting exists.
GROUP_SETTINGS: Mapping[str, str] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.auto.offset.reset": "latest",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.isolation.level": "read_uncommitted",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.renew.acknowledge.enable": "true",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
    "streams.assignment.interval.ms": "group.streams.assignment.interval.ms",
    "streams.heartbeat.interval.ms": "group.streams.heartbeat.interval.ms",
    "streams.initial.rebalance.delay.ms": "group.streams.initial.rebalance.delay.ms",
    "streams.num.standby.replicas": "group.streams.num.standby.replicas",
    "streams.session.timeout.ms": "group.streams.session.timeout.ms",
}

# Broker settings that are null by default in Kafka, because another setting (in hours, for example) applies instead.
NULL_DEFAULTS = frozenset({"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"})

_FIRST_MAGIC_1, _FIRST_MAGIC_2 = (0, 10), (0, 11)


def parse_format_version(text: str) -> int:
    """Parse a ``message.format.version``, and return its record format.

    >>> [parse_format_version(text) for text in ("0.9.0", "0.10.2-IV0", "0.11.0", "3.0-IV1")]
    [0, 1, 2, 2]

    Raises:
        OptionError: the text is not a version.
    """
    try:
        parts = tuple(int(part) for part in text.partition("-")[0].split("."))
    except ValueError:
        raise OptionError(f"message.format.version must be a version such as 0.10.2, not {text!r}") from None
    return (parts >= _FIRST_MAGIC_1) + (parts >= _FIRST_MAGIC_2)


@dataclass(slots=True)
class BrokerSettings:
    """The settings of a broker: explicit values over defaults.

    Attributes:
        explicit: effective settings that are not defaults, by Kafka's names, as text.
        dynamic_by_node: settings that clients have changed, by node id; the key "" holds the settings of all nodes.
        writes_format_2: whether ``message.format.version`` is ignored, as in Kafka from 3.0.
        groups_have_settings: whether groups have settings of their own, as in Kafka from 4.0.
        new_topic_error: error code in a Metadata response for a topic that the request has auto-created; clients then
            retry. 0 returns the new topic at once, which no Kafka release does.
        defaults: values that replace ``DEFAULTS``, by names of broker settings.
        features: supported and finalized feature levels of a new cluster.
    """

    explicit: dict[str, str] = field(default_factory=dict, repr=False)
    dynamic_by_node: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)
    writes_format_2: bool = False
    groups_have_settings: bool = True
    new_topic_error: int = 0
    defaults: Mapping[str, str] = field(default_factory=dict, repr=False)
    features: Mapping[str, Feature] = field(default_factory=build_release_features, repr=False)
    _static: dict[str, str] | None = field(default=None, repr=False)

    @property
    def static_settings(self) -> dict[str, str]:
        """The explicit settings at startup, without later changes by clients."""
        return self.explicit if self._static is None else self._static

    def set_dynamic(self, by_node: Mapping[str, Mapping[str, str]]) -> None:
        """Replace the settings that clients have changed.

        All nodes share one set of effective settings. If the settings of several nodes differ, the settings of the node
        with the lowest id apply.
        """
        self._static = static = dict(self.static_settings)
        self.dynamic_by_node = {node: dict(configs) for node, configs in by_node.items() if configs}
        self.explicit = static | self.dynamic_by_node.get("", {})
        for node in reversed(self.changed_nodes):
            self.explicit |= self.dynamic_by_node[node]

    @property
    def changed_nodes(self) -> list[str]:
        """The ids of nodes with settings of their own, in ascending order."""
        return sorted((node for node in self.dynamic_by_node if node), key=int)

    def get_default(self, key: str, fallback: str = "") -> str:
        """Return the default of a broker setting."""
        return self.defaults.get(key, DEFAULTS.get(key, fallback))

    def get_text(self, key: str) -> str:
        """Return the value of a broker setting; empty if the setting is unknown."""
        return self.explicit.get(key, self.get_default(key))

    @property
    def queued_max_bytes(self) -> int:
        """The larger of ``queued.max.request.bytes`` and ``socket.request.max.bytes``; -1 for no limit."""
        size_bytes = self.get_number("queued.max.request.bytes")
        return max(size_bytes, self.get_number("socket.request.max.bytes")) if size_bytes > 0 else -1

    def has_protocol(self, group_type: str) -> bool:
        """Return whether a group type is enabled in ``group.coordinator.rebalance.protocols``."""
        protocols = self.get_text("group.coordinator.rebalance.protocols").split(",")
        return group_type in (name.strip() for name in protocols)

    def get_number(self, key: str) -> int:
        """Return the integer value of a broker setting; raise an ``OptionError`` if it is not an integer."""
        try:
            return int(self.get_text(key))
        except ValueError:
            raise OptionError(f"{key} must be an integer, not {self.get_text(key)!r}") from None

    def find_listener_key(self, key: str, listener: str, mechanism: str) -> str:
        """Return the most specific key that is set for a listener and SASL mechanism (KIP-103, KIP-86).

        >>> settings = BrokerSettings({"listener.name.outside.plain.connections.max.reauth.ms": "5"})
        >>> settings.find_listener_key("connections.max.reauth.ms", "OUTSIDE", "PLAIN")
        'listener.name.outside.plain.connections.max.reauth.ms'
        """
        listener_prefix = f"listener.name.{listener.lower()}."
        keys = (f"{listener_prefix}{mechanism.lower()}.{key}", listener_prefix + key)
        return next((name for name in keys if name in self.explicit), key)

    def get_flag(self, key: str) -> bool:
        """Return the Boolean value of a broker setting."""
        return self.get_text(key).strip().lower() == "true"

    def get_topic_value(self, key: str, configs: Mapping[str, str]) -> str:
        """Return the value of a topic setting: the topic's own, or else the broker's, or else the default value."""
        if key in configs:
            return configs[key]
        broker_key, default = TOPIC_KEYS[key]
        return self.explicit.get(broker_key, self.defaults.get(broker_key, default))

    def get_topic_flag(self, key: str, configs: Mapping[str, str]) -> bool:
        """Return the Boolean value of a topic setting."""
        return self.get_topic_value(key, configs).strip().lower() == "true"

    def build_log_settings(self, configs: Mapping[str, str]) -> LogSettings:
        """Return the log settings of a topic with these configs; raise an ``OptionError`` for an invalid value."""
        from dataclasses import replace

        values = {key: self.get_topic_value(key, configs) for key in TOPIC_KEYS}
        if "internal.segment.bytes" in configs:  # Kafka's tests need smaller segments than segment.bytes allows
            values["segment.bytes"] = configs["internal.segment.bytes"]
        settings = LogSettings.from_topic(values)
        codec = settings.compression_type
        level = values.get(f"compression.{codec}.level") if f"compression.{codec}.level" in configs else None
        return replace(
            settings,
            segment_jitter_ms=0,
            record_format=2 if self.writes_format_2 else parse_format_version(values["message.format.version"]),
            compression_level=None if level is None else int(level),
            producer_id_expiration_ms=self.get_number("producer.id.expiration.ms"),
        )


_TOPIC_SETTING_DESCRIPTIONS: Mapping[str, str] = {
    "cleanup.policy": "Policy for old segments: delete, compact, or both.",
    "compression.type": "Codec of records in the log: gzip, snappy, lz4, zstd, uncompressed, or producer.",
    "compression.gzip.level": "gzip level if compression.type is gzip; -1 for the library's default.",
    "compression.lz4.level": "lz4 level if compression.type is lz4.",
    "compression.zstd.level": "zstd level if compression.type is zstd.",
    "delete.retention.ms": "Time for which compaction retains tombstones and transaction markers, in milliseconds.",
    "file.delete.delay.ms": "Delay before the files of a removed segment are deleted, in milliseconds.",
    "flush.messages": "Number of records after which a log is flushed to disk.",
    "flush.ms": "Time after which a log is flushed to disk, in milliseconds.",
    "follower.replication.throttled.replicas": "Accepted but ignored: this broker does not replicate.",
    "index.interval.bytes": "Bytes of records between two entries of the offset index.",
    "kafkaframes.on.noncontiguous": "Treatment of record sets with gaps between their offsets: kafka, "
    "reject, reassign or keep.",
    "leader.replication.throttled.replicas": "Accepted but ignored: this broker does not replicate.",
    "local.retention.bytes": "Accepted but ignored: this broker has no tiered storage.",
    "local.retention.ms": "Accepted but ignored: this broker has no tiered storage.",
    "max.compaction.lag.ms": "Longest time before a record is compacted, in milliseconds.",
    "max.message.bytes": "Largest size of a batch, in bytes, after compression.",
    "message.downconversion.enable": "Whether records are converted for consumers that only support older formats.",
    "message.format.version": "Record format of the log, as the Kafka release that introduced it.",
    "message.timestamp.after.max.ms": "Longest time by which a timestamp may be after the broker's time, "
    "in milliseconds.",
    "message.timestamp.before.max.ms": "Longest time by which a timestamp may be before the broker's "
    "time, in milliseconds.",
    "message.timestamp.difference.max.ms": "Older setting for both timestamp limits (before and after), in "
    "milliseconds.",
    "message.timestamp.type": "Timestamps of records: the client's (CreateTime) or the broker's (LogAppendTime).",
    "min.cleanable.dirty.ratio": "Smallest ratio of uncompacted bytes at which a log is compacted.",
    "min.compaction.lag.ms": "Shortest time before a record is compacted, in milliseconds.",
    "min.insync.replicas": "Number of in-sync replicas that a write with acks=all requires.",
    "preallocate": "Accepted but ignored: segments grow as they are written.",
    "remote.storage.enable": "Accepted but ignored: this broker has no tiered storage.",
    "retention.bytes": "Size of a partition above which its oldest segments are deleted, in bytes; -1: unlimited.",
    "retention.ms": "Time after which segments are deleted, in milliseconds; -1: never.",
    "segment.bytes": "Largest size of a segment, in bytes.",
    "segment.index.bytes": "Largest size of an index file, in bytes. A full index starts a new segment.",
    "segment.jitter.ms": "Accepted but ignored: all segments are rolled after the same time.",
    "segment.ms": "Time after which a new segment is started, whatever the size of the current one, in milliseconds.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may become leader if no in-sync "
    "replica is running.",
}
_BROKER_SETTING_DESCRIPTIONS: Mapping[str, str] = {
    "advertised.listeners": "Addresses that are sent to clients.",
    "allow.everyone.if.no.acl.found": "Whether every client may use a resource without ACLs.",
    "auto.create.topics.enable": "Whether a topic is created when a client requests its metadata.",
    "broker.id": "Node id, under its older name.",
    "connection.failed.authentication.delay.ms": "Delay of the response to a failed authentication, in milliseconds.",
    "connections.max.idle.ms": "Time after which an idle connection is closed, in milliseconds.",
    "connections.max.reauth.ms": "Longest validity of an authentication, in milliseconds; 0: until its "
    "token expires, or unlimited.",
    "default.replication.factor": "Replication factor of topics that do not specify one.",
    "delegation.token.expiry.check.interval.ms": "Time for which an expired delegation token is remembered, in "
    "milliseconds.",
    "delegation.token.expiry.time.ms": "Time until a delegation token expires if it is not renewed, in milliseconds.",
    "delegation.token.max.lifetime.ms": "Longest lifetime of a delegation token, in milliseconds.",
    "delegation.token.secret.key": "Key from which delegation tokens are derived. Without it, they are disabled.",
    "delete.topic.enable": "Whether topics can be deleted.",
    "auto.leader.rebalance.enable": "Whether preferred leaders are elected automatically after their node "
    "is running again.",
    "leader.imbalance.check.interval.seconds": "Interval between automatic elections of preferred leaders, in seconds.",
    "fetch.max.bytes": "Largest size of a Fetch response, in bytes.",
    "group.consumer.assignors": "Assignors of consumer groups (KIP-848).",
    "group.consumer.heartbeat.interval.ms": "Heartbeat interval of members of consumer groups (KIP-848), in "
    "milliseconds.",
    "group.consumer.assignment.interval.ms": "Shortest time between two assignments of a consumer group, in "
    "milliseconds. From 100 members on, one second.",
    "max.connections.per.ip": "Accepted but ignored: max.connections limits all connections together.",
    "group.consumer.max.assignment.interval.ms": "Longest assignment interval that a consumer group may set.",
    "group.consumer.max.heartbeat.interval.ms": "Longest heartbeat interval that a consumer group may set.",
    "group.consumer.max.session.timeout.ms": "Longest session timeout that a consumer group may set.",
    "group.consumer.min.assignment.interval.ms": "Shortest assignment interval that a consumer group may set.",
    "group.consumer.min.heartbeat.interval.ms": "Shortest heartbeat interval that a consumer group may set.",
    "group.consumer.min.session.timeout.ms": "Shortest session timeout that a consumer group may set.",
    "group.share.assignment.interval.ms": "Shortest time between two assignments of a share group, in milliseconds.",
    "group.share.delivery.count.limit": "Largest number of deliveries of a record in a share group.",
    "group.share.heartbeat.interval.ms": "Heartbeat interval of members of share groups, in milliseconds.",
    "group.share.max.assignment.interval.ms": "Longest assignment interval that a share group may set.",
    "group.share.max.delivery.count.limit": "Largest delivery count limit that a share group may set.",
    "group.share.max.heartbeat.interval.ms": "Longest heartbeat interval that a share group may set.",
    "group.share.max.partition.max.record.locks": "Largest limit of acquired records per partition that a share group "
    "may set.",
    "group.share.max.record.lock.duration.ms": "Longest record lock duration that a share group may set.",
    "group.share.max.session.timeout.ms": "Longest session timeout that a share group may set.",
    "group.share.max.share.sessions": "Largest number of open share sessions.",
    "group.share.min.assignment.interval.ms": "Shortest assignment interval that a share group may set.",
    "group.share.min.delivery.count.limit": "Smallest delivery count limit that a share group may set.",
    "group.share.min.heartbeat.interval.ms": "Shortest heartbeat interval that a share group may set.",
    "group.share.min.partition.max.record.locks": "Smallest limit of acquired records per partition that a share group "
    "may set.",
    "group.share.min.record.lock.duration.ms": "Shortest record lock duration that a share group may set.",
    "group.share.min.session.timeout.ms": "Shortest session timeout that a share group may set.",
    "group.share.partition.max.record.locks": "Largest number of acquired records of a share group in a partition.",
    "group.share.record.lock.duration.ms": "Time for which a record is acquired by a member of a share group, in "
    "milliseconds.",
    "group.share.session.timeout.ms": "Time without heartbeats after which a member is removed from its "
    "share group, in milliseconds.",
    "group.streams.assignment.interval.ms": "Shortest time between two assignments of a streams group (KIP-1071), "
    "in milliseconds.",
    "group.streams.heartbeat.interval.ms": "Heartbeat interval of members of streams groups, in milliseconds.",
    "group.streams.initial.rebalance.delay.ms": "Time for which a new streams group waits for more members, in "
    "milliseconds.",
    "group.streams.max.assignment.interval.ms": "Longest assignment interval that a streams group may set.",
    "group.streams.max.heartbeat.interval.ms": "Longest heartbeat interval that a streams group may set.",
    "group.streams.max.session.timeout.ms": "Longest session timeout that a streams group may set.",
    "group.streams.max.size": "Largest number of members of a streams group.",
    "group.streams.max.standby.replicas": "Largest number of standby tasks per task that a streams group may set.",
    "group.streams.min.assignment.interval.ms": "Shortest assignment interval that a streams group may set.",
    "group.streams.min.heartbeat.interval.ms": "Shortest heartbeat interval that a streams group may set.",
    "group.streams.min.session.timeout.ms": "Shortest session timeout that a streams group may set.",
    "group.streams.num.standby.replicas": "Number of standby tasks for each stateful task of a streams group.",
    "group.streams.session.timeout.ms": "Time without heartbeats after which a member is removed from its "
    "streams group, in milliseconds.",
    "group.consumer.max.size": "Largest number of members of a consumer group (KIP-848).",
    "group.consumer.migration.policy": "Allowed protocol changes of groups with members: disabled, upgrade, "
    "downgrade, or bidirectional.",
    "group.consumer.session.timeout.ms": "Time without heartbeats after which a member is removed from its "
    "consumer group (KIP-848), in milliseconds.",
    "group.coordinator.rebalance.protocols": "Enabled group protocols.",
    "group.initial.rebalance.delay.ms": "Time for which the first member of a classic group waits for more "
    "members, in milliseconds.",
    "group.max.session.timeout.ms": "Longest session timeout of a member of a classic group.",
    "group.max.size": "Largest number of members of a classic group.",
    "group.min.session.timeout.ms": "Shortest session timeout of a member of a classic group.",
    "listeners": "Addresses on which the broker listens.",
    "log.cleaner.backoff.ms": "Pause of the log cleaner if there is nothing to compact, in milliseconds.",
    "log.cleaner.enable": "Whether logs are compacted while the broker runs.",
    "log.dirs": "Log directory.",
    "log.retention.check.interval.ms": "Interval between two checks for segments to delete, in milliseconds.",
    "max.connections": "Largest number of open connections.",
    "max.incremental.fetch.session.cache.slots": "Largest number of incremental fetch sessions (KIP-227).",
    "node.id": "Node id.",
    "num.partitions": "Number of partitions of a topic that is created without this number.",
    "offset.metadata.max.bytes": "Largest size of the metadata of a committed offset, in bytes.",
    "offsets.retention.minutes": "Time for which the offsets of a group without members are retained, in minutes.",
    "offsets.topic.num.partitions": "Number of partitions of __consumer_offsets.",
    "offsets.topic.replication.factor": "Replication factor of __consumer_offsets.",
    "offsets.topic.segment.bytes": "Largest size of a segment of __consumer_offsets, in bytes.",
    "process.roles": "Roles of the node.",
    "producer.id.expiration.check.interval.ms": "Interval between two removals of expired producers, in milliseconds.",
    "producer.id.expiration.ms": "Time for which a partition remembers an idle producer, in milliseconds.",
    "sasl.server.max.receive.size": "Largest size of a request before a client is authenticated, in bytes.",
    "share.coordinator.state.topic.num.partitions": "Number of partitions of __share_group_state.",
    "queued.max.request.bytes": "Memory limit of incomplete requests above 1 MiB, in bytes; -1: unlimited.",
    "socket.request.max.bytes": "Largest size of a request, in bytes.",
    "super.users": "Principals that may execute every operation, separated by semicolons.",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "Interval between two "
    "checks for transactions that have timed out, in milliseconds.",
    "transaction.max.timeout.ms": "Longest transaction timeout that a producer may set.",
    "transaction.state.log.min.isr": "Number of in-sync replicas that __transaction_state requires.",
    "transaction.state.log.num.partitions": "Number of partitions of __transaction_state.",
    "transaction.state.log.replication.factor": "Replication factor of __transaction_state.",
    "transaction.state.log.segment.bytes": "Largest size of a segment of __transaction_state, in bytes.",
    "transactional.id.expiration.ms": "Time for which an unused transactional id is remembered, in milliseconds.",
}
# Settings of groups and of client metrics subscriptions (KIP-714).
_OTHER_SETTING_DESCRIPTIONS: Mapping[str, str] = {
    "consumer.assignment.interval.ms": "Shortest time between two assignments of this consumer group, in milliseconds.",
    "consumer.heartbeat.interval.ms": "Heartbeat interval of members of this consumer group, in milliseconds.",
    "consumer.session.timeout.ms": "Time without heartbeats after which a member is removed from this "
    "consumer group, in milliseconds.",
    "share.assignment.interval.ms": "Shortest time between two assignments of this share group, in milliseconds.",
    "share.auto.offset.reset": "Start offset of this share group: latest, earliest, or by_duration:DURATION.",
    "share.delivery.count.limit": "Largest number of deliveries of a record in this share group.",
    "share.heartbeat.interval.ms": "Heartbeat interval of members of this share group, in milliseconds.",
    "share.isolation.level": "Whether this share group reads uncommitted records.",
    "share.partition.max.record.locks": "Largest number of acquired records of this share group in a partition.",
    "share.record.lock.duration.ms": "Time for which a record is acquired by a member of this share group, "
    "in milliseconds.",
    "share.renew.acknowledge.enable": "Whether members of this share group may renew record locks.",
    "share.session.timeout.ms": "Time without heartbeats after which a member is removed from this "
    "share group, in milliseconds.",
    "streams.assignment.interval.ms": "Shortest time between two assignments of this streams group, in milliseconds.",
    "streams.heartbeat.interval.ms": "Heartbeat interval of members of this streams group, in milliseconds.",
    "streams.initial.rebalance.delay.ms": "Time for which this streams group waits for members before its first "
    "assignment, in milliseconds.",
    "streams.num.standby.replicas": "Number of standby tasks for each task of this streams group.",
    "streams.session.timeout.ms": "Time without heartbeats after which a member is removed from this "
    "streams group, in milliseconds.",
    "interval.ms": "Interval at which clients push their metrics, in milliseconds.",
    "match": "Clients that push metrics, as selectors of their attributes.",
    "metrics": "Name prefixes of the metrics that clients push.",
}
_LOG_SETTING_DESCRIPTIONS = {key: _TOPIC_SETTING_DESCRIPTIONS[name] for name, (key, _) in TOPIC_KEYS.items() if key}
SETTING_DESCRIPTIONS: Mapping[str, str] = {
    **_LOG_SETTING_DESCRIPTIONS,
    **_TOPIC_SETTING_DESCRIPTIONS,
    **_BROKER_SETTING_DESCRIPTIONS,
    **_OTHER_SETTING_DESCRIPTIONS,
}
