"""The settings of a broker under Kafka's names: ``server.properties`` where a key has a meaning here.

A topic's setting is looked up in the topic, then in the broker (under the name that brokers have for it), then in
Kafka's defaults. Keys without a meaning here are kept, listed by DescribeConfigs, and named when the broker starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkaframes.errors import OptionError
from kafkaframes.storage.partition import LogSettings

LARGEST_INT64 = 2**63 - 1
LARGEST_INT32 = 2**31 - 1

# A broker's key -> its default. Kafka's, but where a comment says otherwise.
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
    "fetch.max.bytes": "57671680",
    "max.connections": "2147483647",
    "connections.max.idle.ms": "600000",
    "max.incremental.fetch.session.cache.slots": "1000",
    "group.initial.rebalance.delay.ms": "0",  # Kafka's 3000 makes every test wait
    "group.min.session.timeout.ms": "10",  # Kafka's 6000: tests want short ones
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "2147483647",
    "group.consumer.assignment.interval.ms": "0",  # Kafka's 1000: who joins waits for it
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
    "group.share.heartbeat.interval.ms": "1000",  # Kafka's 5000: a member has its partitions with the second one
    "group.share.max.assignment.interval.ms": "15000",
    "group.share.max.delivery.count.limit": "10",
    "group.share.max.heartbeat.interval.ms": "15000",
    "group.share.max.partition.max.record.locks": "4000",
    "group.share.max.record.lock.duration.ms": "60000",
    "group.share.max.session.timeout.ms": "60000",
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
    "group.streams.heartbeat.interval.ms": "1000",  # Kafka's 5000: an application has its tasks with the third one
    "group.streams.initial.rebalance.delay.ms": "0",  # Kafka's 3000 makes every test wait
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
    "offsets.topic.num.partitions": "1",  # Kafka's 50: one node needs no more
    "offsets.topic.segment.bytes": "104857600",
    "transaction.state.log.num.partitions": "1",  # Kafka's 50
    "transaction.state.log.segment.bytes": "104857600",
    "share.coordinator.state.topic.num.partitions": "1",  # Kafka's 50
    "transaction.max.timeout.ms": "900000",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "10000",
    "transactional.id.expiration.ms": "604800000",
    "producer.id.expiration.ms": "86400000",
    "log.retention.check.interval.ms": "300000",
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "15000",
    "sasl.server.max.receive.size": "524288",
    "connection.failed.authentication.delay.ms": "100",
    "connections.max.reauth.ms": "0",
    "super.users": "",
    "allow.everyone.if.no.acl.found": "false",
}

# What Kafka 4.3's defaults are instead, for suites and tools that count on them (``kafka_defaults``).
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
    "share.coordinator.state.topic.num.partitions": "50",
    "transaction.state.log.num.partitions": "50",
}

# A topic's key -> (the broker's key, the default).
TOPIC_KEYS: Mapping[str, tuple[str, str]] = {
    "cleanup.policy": ("log.cleanup.policy", "delete"),
    "compression.type": ("compression.type", "producer"),
    "compression.gzip.level": ("compression.gzip.level", "-1"),
    "compression.lz4.level": ("compression.lz4.level", "9"),
    "compression.zstd.level": ("compression.zstd.level", "3"),
    "delete.retention.ms": ("log.cleaner.delete.retention.ms", "86400000"),
    "file.delete.delay.ms": ("log.segment.delete.delay.ms", "60000"),
    "flush.messages": ("log.flush.interval.messages", str(LARGEST_INT64)),
    "flush.ms": ("log.flush.interval.ms", str(LARGEST_INT64)),
    "follower.replication.throttled.replicas": ("", ""),
    "index.interval.bytes": ("log.index.interval.bytes", "4096"),
    "kafkaframes.on.noncontiguous": ("kafkaframes.on.noncontiguous", "kafka"),
    "leader.replication.throttled.replicas": ("", ""),
    "local.retention.bytes": ("log.local.retention.bytes", "-2"),
    "local.retention.ms": ("log.local.retention.ms", "-2"),
    "max.compaction.lag.ms": ("log.cleaner.max.compaction.lag.ms", str(LARGEST_INT64)),
    "max.message.bytes": ("message.max.bytes", "1048588"),
    "message.downconversion.enable": ("log.message.downconversion.enable", "true"),
    "message.format.version": ("log.message.format.version", "3.0-IV1"),
    "message.timestamp.after.max.ms": ("log.message.timestamp.after.max.ms", str(LARGEST_INT64)),
    "message.timestamp.before.max.ms": ("log.message.timestamp.before.max.ms", str(LARGEST_INT64)),
    "message.timestamp.difference.max.ms": ("log.message.timestamp.difference.max.ms", str(LARGEST_INT64)),
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

# Settings of brokers that are null in Kafka: their defaults stand in other units (hours), or are another setting's.
NULL_DEFAULTS = frozenset({"log.flush.interval.ms", "log.retention.ms", "log.roll.jitter.ms", "log.roll.ms"})

_FIRST_MAGIC_1, _FIRST_MAGIC_2 = (0, 10), (0, 11)


def magic_of_format_version(text: str) -> int:
    """Return the record format that a ``message.format.version`` stands for.

    >>> [magic_of_format_version(text) for text in ("0.9.0", "0.10.2-IV0", "0.11.0", "3.0-IV1")]
    [0, 1, 2, 2]

    Raises:
        OptionError: it is no version.
    """
    try:
        parts = tuple(int(part) for part in text.partition("-")[0].split("."))
    except ValueError:
        raise OptionError(f"message.format.version is a version such as 0.10.2, not {text!r}") from None
    return (parts >= _FIRST_MAGIC_1) + (parts >= _FIRST_MAGIC_2)


@dataclass(slots=True)
class BrokerSettings:
    """A broker's settings; what was given, over Kafka's defaults.

    Attributes:
        explicit: under Kafka's names, as text.
        dynamic: those of them that a client has set while the broker runs.
        writes_format_2: ``message.format.version`` is not looked at, as by Kafka from 3.0 on.
        groups_have_settings: groups are a type of resource with settings, as from Kafka 4.0 on.
    """

    explicit: dict[str, str] = field(default_factory=dict, repr=False)
    dynamic: set[str] = field(default_factory=set)
    writes_format_2: bool = False
    groups_have_settings: bool = True

    def text(self, key: str) -> str:
        """Return a setting as text; empty for one that nobody knows."""
        return self.explicit.get(key, DEFAULTS.get(key, ""))

    def number(self, key: str) -> int:
        """Return a setting that is a whole number.

        Raises:
            OptionError: it is none.
        """
        try:
            return int(self.text(key))
        except ValueError:
            raise OptionError(f"{key} is a number, not {self.text(key)!r}") from None

    def key_of_listener(self, key: str, listener: str, mechanism: str) -> str:
        """Return the key that holds for a listener and a SASL mechanism (KIP-103, KIP-86): the narrowest that is set.

        >>> settings = BrokerSettings({"listener.name.outside.plain.connections.max.reauth.ms": "5"})
        >>> settings.key_of_listener("connections.max.reauth.ms", "OUTSIDE", "PLAIN")
        'listener.name.outside.plain.connections.max.reauth.ms'
        """
        of_listener = f"listener.name.{listener.lower()}."
        keys = (f"{of_listener}{mechanism.lower()}.{key}", of_listener + key)
        return next((name for name in keys if name in self.explicit), key)

    def flag(self, key: str) -> bool:
        """Return a setting that is true or false."""
        return self.text(key).strip().lower() == "true"

    def of_topic(self, key: str, configs: Mapping[str, str]) -> str:
        """Return a topic's setting: its own, the broker's, or Kafka's default."""
        if key in configs:
            return configs[key]
        broker_key, default = TOPIC_KEYS[key]
        return self.explicit.get(broker_key, default)

    def flag_of_topic(self, key: str, configs: Mapping[str, str]) -> bool:
        """Return a topic's setting that is true or false."""
        return self.of_topic(key, configs).strip().lower() == "true"

    def log_settings(self, configs: Mapping[str, str]) -> LogSettings:
        """Return the settings of the logs of a topic with these configs.

        Raises:
            OptionError: a value is none.
        """
        from dataclasses import replace

        values = {key: self.of_topic(key, configs) for key in TOPIC_KEYS}
        settings = LogSettings.from_topic(values)
        codec = settings.compression_type
        level = values.get(f"compression.{codec}.level") if f"compression.{codec}.level" in configs else None
        return replace(
            settings,
            segment_jitter_ms=0,
            record_format=2 if self.writes_format_2 else magic_of_format_version(values["message.format.version"]),
            compression_level=None if level is None else int(level),
            producer_id_expiration_ms=self.number("producer.id.expiration.ms"),
        )
