"""The type of each setting, and which of a broker's can be changed while it runs: as Kafka 4.3.1 describes them."""

from __future__ import annotations

from collections.abc import Mapping

from kafkaframes.errors.sensitive import is_secret

# ConfigType of DescribeConfigs
UNKNOWN, BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(10)
_LARGEST_INT32 = 2**31 - 1

_BY_TYPE: Mapping[int, str] = {
    BOOLEAN: """
        allow.everyone.if.no.acl.found auto.create.topics.enable delete.topic.enable log.cleaner.enable log.preallocate
        log.message.downconversion.enable message.downconversion.enable preallocate remote.storage.enable
        share.renew.acknowledge.enable unclean.leader.election.enable
    """,
    STRING: """
        authorizer.class.name broker.rack compression.type group.consumer.migration.policy inter.broker.listener.name
        kafkaframes.on.noncontiguous listener.security.protocol.map log.message.format.version
        log.message.timestamp.type message.format.version message.timestamp.type share.auto.offset.reset
        share.isolation.level super.users
    """,
    INT: """
        broker.id compression.gzip.level compression.lz4.level compression.zstd.level
        connection.failed.authentication.delay.ms consumer.heartbeat.interval.ms consumer.session.timeout.ms
        default.replication.factor fetch.max.bytes group.consumer.heartbeat.interval.ms group.consumer.max.size
        group.consumer.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
        group.consumer.max.session.timeout.ms group.consumer.min.heartbeat.interval.ms
        group.consumer.min.session.timeout.ms group.share.max.heartbeat.interval.ms
        group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms
        group.share.min.heartbeat.interval.ms group.share.min.record.lock.duration.ms
        group.share.min.session.timeout.ms max.connections.per.ip group.share.delivery.count.limit
        group.share.max.delivery.count.limit group.share.max.partition.max.record.locks
        group.share.min.delivery.count.limit group.share.min.partition.max.record.locks
        group.share.partition.max.record.locks
        group.consumer.session.timeout.ms group.initial.rebalance.delay.ms group.max.session.timeout.ms group.max.size
        group.min.session.timeout.ms group.share.heartbeat.interval.ms group.share.record.lock.duration.ms
        group.share.session.timeout.ms index.interval.bytes interval.ms log.index.interval.bytes
        log.index.size.max.bytes log.segment.bytes log.cleaner.threads max.connections
        max.incremental.fetch.session.cache.slots max.message.bytes message.max.bytes min.insync.replicas node.id
        num.io.threads num.network.threads num.partitions offset.metadata.max.bytes offsets.retention.minutes
        offsets.topic.num.partitions offsets.topic.segment.bytes producer.id.expiration.ms
        sasl.server.max.receive.size segment.bytes segment.index.bytes share.coordinator.state.topic.num.partitions
        share.delivery.count.limit share.heartbeat.interval.ms share.partition.max.record.locks
        share.record.lock.duration.ms share.session.timeout.ms socket.request.max.bytes
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.segment.bytes
        transactional.id.expiration.ms
    """,
    SHORT: "offsets.topic.replication.factor transaction.state.log.replication.factor",
    LONG: """
        connections.max.idle.ms connections.max.reauth.ms delete.retention.ms file.delete.delay.ms flush.messages
        flush.ms local.retention.bytes local.retention.ms log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size
        log.cleaner.delete.retention.ms log.cleaner.max.compaction.lag.ms log.cleaner.min.compaction.lag.ms
        log.flush.interval.messages log.flush.interval.ms log.local.retention.bytes log.local.retention.ms
        log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms log.message.timestamp.difference.max.ms
        log.retention.bytes log.retention.check.interval.ms log.retention.ms log.roll.jitter.ms log.roll.ms
        log.segment.delete.delay.ms max.compaction.lag.ms message.timestamp.after.max.ms message.timestamp.before.max.ms
        message.timestamp.difference.max.ms min.compaction.lag.ms retention.bytes retention.ms segment.jitter.ms
        segment.ms
    """,
    DOUBLE: "log.cleaner.min.cleanable.ratio min.cleanable.dirty.ratio",
    LIST: """
        advertised.listeners cleanup.policy controller.listener.names follower.replication.throttled.replicas
        group.consumer.assignors group.coordinator.rebalance.protocols leader.replication.throttled.replicas listeners
        log.cleanup.policy log.dir log.dirs match metrics process.roles sasl.enabled.mechanisms
    """,
}
TYPES: Mapping[str, int] = {name: kind for kind, names in _BY_TYPE.items() for name in names.split()}

# What AlterConfigs may change of a broker that runs (KIP-226); everything else is read from server.properties.
_DYNAMIC = """
    compression.gzip.level compression.lz4.level compression.type compression.zstd.level
    group.consumer.assignment.interval.ms kafkaframes.on.noncontiguous listener.security.protocol.map
    log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms
    log.cleaner.max.compaction.lag.ms log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms
    log.cleaner.threads log.cleanup.policy log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes
    log.index.size.max.bytes log.local.retention.bytes log.local.retention.ms log.message.downconversion.enable
    log.message.format.version log.message.timestamp.after.max.ms log.message.timestamp.before.max.ms
    log.message.timestamp.difference.max.ms log.message.timestamp.type log.preallocate log.retention.bytes
    log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.bytes log.segment.delete.delay.ms max.connections
    max.connections.per.ip message.max.bytes min.insync.replicas num.io.threads num.network.threads
    producer.id.expiration.ms ssl.keystore.location ssl.truststore.location unclean.leader.election.enable
"""
DYNAMIC = frozenset(_DYNAMIC.split())


def type_of(name: str, value: str) -> int:
    """Return the ConfigType of a setting; of one that is not in the table, what its value looks like.

    >>> type_of("retention.bytes", "-1") == LONG, type_of("somebody.s.own", "0.5") == DOUBLE
    (True, True)
    """
    if name in TYPES:
        return TYPES[name]
    if is_secret(name):
        return PASSWORD
    if value in ("true", "false"):
        return BOOLEAN
    text = value.removeprefix("-")
    if text.isdigit():
        return INT if int(text) <= _LARGEST_INT32 and not name.endswith(".ms") else LONG
    return DOUBLE if text.replace(".", "", 1).isdigit() else STRING
