"""The types, ranges and valid values of settings, as in the ConfigDefs of Kafka 4.3.1.

Topics, brokers and groups share one table, because a broker setting that is the default of a topic setting has the same
type and range. Unlike in Kafka 4, segments may be smaller than 1 MiB, so that tests can roll them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kafkaframes.broker.settings.settings import GROUP_SETTINGS, TOPIC_KEYS, parse_format_version
from kafkaframes.errors import OptionError
from kafkaframes.errors.sensitive import is_secret
from kafkaframes.wire.integers import MAX_INT32

# ConfigType of DescribeConfigs
UNKNOWN, BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(10)

_KEYS_BY_TYPE: Mapping[int, str] = {
    BOOLEAN: """
        allow.everyone.if.no.acl.found auto.create.topics.enable auto.leader.rebalance.enable delete.topic.enable
        log.cleaner.enable message.downconversion.enable preallocate remote.storage.enable
        share.renew.acknowledge.enable unclean.leader.election.enable
    """,
    STRING: """
        authorizer.class.name broker.rack compression.type group.consumer.migration.policy inter.broker.listener.name
        kafkaframes.on.noncontiguous listener.security.protocol.map message.format.version message.timestamp.type
        share.auto.offset.reset share.isolation.level super.users
    """,
    INT: """
        broker.id compression.gzip.level compression.lz4.level compression.zstd.level
        connection.failed.authentication.delay.ms default.replication.factor fetch.max.bytes
        group.consumer.assignment.interval.ms group.consumer.heartbeat.interval.ms
        group.consumer.max.assignment.interval.ms group.consumer.max.heartbeat.interval.ms
        group.consumer.max.session.timeout.ms group.consumer.max.size group.consumer.min.assignment.interval.ms
        group.consumer.min.heartbeat.interval.ms group.consumer.min.session.timeout.ms group.consumer.session.timeout.ms
        group.initial.rebalance.delay.ms group.max.session.timeout.ms group.max.size group.min.session.timeout.ms
        group.share.assignment.interval.ms group.share.delivery.count.limit group.share.heartbeat.interval.ms
        group.share.max.assignment.interval.ms group.share.max.delivery.count.limit
        group.share.max.heartbeat.interval.ms group.share.max.partition.max.record.locks
        group.share.max.record.lock.duration.ms group.share.max.session.timeout.ms group.share.max.share.sessions
        group.share.min.assignment.interval.ms group.share.min.delivery.count.limit
        group.share.min.heartbeat.interval.ms group.share.min.partition.max.record.locks
        group.share.min.record.lock.duration.ms group.share.min.session.timeout.ms
        group.share.partition.max.record.locks group.share.record.lock.duration.ms group.share.session.timeout.ms
        group.streams.assignment.interval.ms group.streams.heartbeat.interval.ms
        group.streams.initial.rebalance.delay.ms group.streams.max.assignment.interval.ms
        group.streams.max.heartbeat.interval.ms group.streams.max.session.timeout.ms group.streams.max.size
        group.streams.max.standby.replicas group.streams.min.assignment.interval.ms
        group.streams.min.heartbeat.interval.ms group.streams.min.session.timeout.ms group.streams.num.standby.replicas
        group.streams.session.timeout.ms index.interval.bytes internal.segment.bytes interval.ms log.cleaner.threads
        max.connections
        max.connections.per.ip max.incremental.fetch.session.cache.slots max.message.bytes min.insync.replicas node.id
        num.io.threads num.network.threads num.partitions offset.metadata.max.bytes offsets.retention.minutes
        offsets.topic.num.partitions offsets.topic.segment.bytes producer.id.expiration.check.interval.ms
        producer.id.expiration.ms sasl.server.max.receive.size segment.bytes segment.index.bytes
        share.coordinator.state.topic.num.partitions socket.request.max.bytes
        transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.segment.bytes
        transactional.id.expiration.ms
    """,
    SHORT: "offsets.topic.replication.factor transaction.state.log.replication.factor",
    LONG: """
        connections.max.idle.ms connections.max.reauth.ms delegation.token.expiry.check.interval.ms
        delegation.token.expiry.time.ms delegation.token.max.lifetime.ms delete.retention.ms file.delete.delay.ms
        flush.messages flush.ms leader.imbalance.check.interval.seconds local.retention.bytes local.retention.ms
        log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.retention.check.interval.ms max.compaction.lag.ms
        message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.difference.max.ms
        min.compaction.lag.ms queued.max.request.bytes retention.bytes retention.ms segment.jitter.ms segment.ms
    """,
    PASSWORD: "delegation.token.secret.key",
    DOUBLE: "min.cleanable.dirty.ratio",
    LIST: """
        advertised.listeners cleanup.policy controller.listener.names follower.replication.throttled.replicas
        group.consumer.assignors group.coordinator.rebalance.protocols leader.replication.throttled.replicas listeners
        log.dir log.dirs match metrics process.roles sasl.enabled.mechanisms
    """,
}
_TOPIC_SETTINGS_BY_BROKER_KEY: Mapping[str, str] = {key: name for name, (key, _) in TOPIC_KEYS.items() if key}


def _add_equivalent_settings(names_by_value: Mapping[int, str]) -> dict[str, int]:
    """Return the value of each setting, from lists of setting names by value.

    The result also has the broker settings that are defaults of topic or group settings, each with the value of the
    topic or group setting.
    """
    values_by_name = {name: value for value, names in names_by_value.items() for name in names.split()}
    equivalent_names = {**_TOPIC_SETTINGS_BY_BROKER_KEY, **GROUP_SETTINGS}
    return {
        **{name: values_by_name[other] for name, other in equivalent_names.items() if other in values_by_name},
        **values_by_name,
    }


CONFIG_TYPES: Mapping[str, int] = _add_equivalent_settings(_KEYS_BY_TYPE)

# Broker settings that AlterConfigs may change (KIP-226), in addition to the defaults of topic settings. All other
# settings are only read from server.properties.
_DYNAMIC_KEYS_TEXT = """
    group.consumer.assignment.interval.ms group.share.assignment.interval.ms group.streams.assignment.interval.ms
    listener.security.protocol.map log.cleaner.backoff.ms log.cleaner.dedupe.buffer.size log.cleaner.threads
    max.connections max.connections.per.ip num.io.threads num.network.threads producer.id.expiration.ms
    ssl.keystore.location ssl.truststore.location
"""
DYNAMIC_KEYS = frozenset((*_DYNAMIC_KEYS_TEXT.split(), *_TOPIC_SETTINGS_BY_BROKER_KEY))
# Settings that Kafka changes only for a listener, with its prefix (DynamicBrokerConfig.DYNAMIC_SECURITY_CONFIGS).
_LISTENER_ONLY_KEYS_TEXT = """
    ssl.key.password ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location ssl.keystore.password
    ssl.keystore.type ssl.truststore.certificates ssl.truststore.location ssl.truststore.password
    ssl.truststore.type
"""
LISTENER_ONLY_KEYS = frozenset(_LISTENER_ONLY_KEYS_TEXT.split())
# Settings of Kafka 4.3.1 that this broker does not read, and that Kafka does not change while a broker runs.
_FIXED_AND_UNUSED_KEYS_TEXT = """
    add.partitions.to.txn.retry.backoff.max.ms add.partitions.to.txn.retry.backoff.ms alter.config.policy.class.name
    alter.log.dirs.replication.quota.window.num alter.log.dirs.replication.quota.window.size.seconds
    broker.heartbeat.interval.ms broker.rack broker.session.timeout.ms client.quota.callback.class
    controlled.shutdown.enable controller.performance.always.log.threshold.ms
    controller.performance.sample.period.ms controller.quorum.append.linger.ms controller.quorum.auto.join.enable
    controller.quorum.bootstrap.servers controller.quorum.election.backoff.max.ms
    controller.quorum.election.timeout.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.voters
    controller.quota.window.num controller.quota.window.size.seconds controller.socket.timeout.ms
    create.topic.policy.class.name delete.records.purgatory.purge.interval.requests early.start.listeners
    fetch.purgatory.purge.interval.requests group.consumer.regex.refresh.interval.ms
    group.coordinator.append.linger.ms group.coordinator.background.threads group.coordinator.threads
    group.share.assignors group.share.initialize.retry.interval.ms group.share.max.size
    group.share.persister.class.name initial.broker.registration.timeout.ms internal.metadata.delete.delay.millis
    internal.metadata.log.segment.bytes internal.metadata.max.batch.size.in.bytes
    kafka.metrics.polling.interval.secs kafka.metrics.reporters log.dir.failure.timeout.ms
    log.flush.offset.checkpoint.interval.ms log.flush.scheduler.interval.ms
    log.flush.start.offset.checkpoint.interval.ms log.initial.task.delay.ms max.request.partition.size.limit
    metadata.log.dir metadata.log.max.record.bytes.between.snapshots metadata.log.max.snapshot.interval.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.max.idle.interval.ms metadata.max.retention.bytes
    metadata.max.retention.ms metrics.num.samples metrics.recording.level metrics.sample.window.ms
    num.replica.alter.log.dirs.threads offsets.commit.timeout.ms offsets.load.buffer.size
    offsets.retention.check.interval.ms offsets.topic.compression.codec producer.purgatory.purge.interval.requests
    queued.max.requests quota.window.num quota.window.size.seconds remote.log.index.file.cache.ttl.ms
    remote.log.manager.copy.quota.window.num remote.log.manager.copy.quota.window.size.seconds
    remote.log.manager.fetch.quota.window.num remote.log.manager.fetch.quota.window.size.seconds
    remote.log.manager.task.interval.ms remote.log.manager.task.retry.backoff.max.ms
    remote.log.manager.task.retry.backoff.ms remote.log.manager.task.retry.jitter
    remote.log.manager.thread.pool.size remote.log.metadata.custom.metadata.max.bytes
    remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path
    remote.log.metadata.manager.impl.prefix remote.log.metadata.manager.listener.name
    remote.log.reader.max.pending.tasks remote.log.storage.manager.class.name remote.log.storage.manager.class.path
    remote.log.storage.manager.impl.prefix remote.log.storage.system.enable replica.fetch.backoff.ms
    replica.fetch.max.bytes replica.fetch.min.bytes replica.fetch.response.max.bytes replica.fetch.wait.max.ms
    replica.high.watermark.checkpoint.interval.ms replica.lag.time.max.ms replica.selector.class
    replica.socket.receive.buffer.bytes replica.socket.timeout.ms replication.quota.window.num
    replication.quota.window.size.seconds request.timeout.ms sasl.client.callback.handler.class
    sasl.login.callback.handler.class sasl.login.class sasl.login.connect.timeout.ms sasl.login.read.timeout.ms
    sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms sasl.mechanism.controller.protocol
    sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
    sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
    sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
    sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file sasl.oauthbearer.assertion.private.key.file
    sasl.oauthbearer.assertion.private.key.passphrase sasl.oauthbearer.assertion.template.file
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.client.credentials.client.secret
    sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
    sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope
    sasl.oauthbearer.token.endpoint.url sasl.server.callback.handler.class security.inter.broker.protocol
    security.providers server.max.startup.time.ms share.coordinator.append.linger.ms
    share.coordinator.cold.partition.snapshot.interval.ms share.coordinator.load.buffer.size
    share.coordinator.snapshot.update.records.per.snapshot share.coordinator.state.topic.compression.codec
    share.coordinator.state.topic.min.isr share.coordinator.state.topic.prune.interval.ms
    share.coordinator.state.topic.replication.factor share.coordinator.state.topic.segment.bytes
    share.coordinator.threads share.coordinator.write.timeout.ms share.fetch.purgatory.purge.interval.requests
    socket.connection.setup.timeout.max.ms socket.connection.setup.timeout.ms socket.listen.backlog.size
    socket.receive.buffer.bytes socket.send.buffer.bytes ssl.allow.dn.changes ssl.allow.san.changes
    ssl.principal.mapping.rules telemetry.max.bytes transaction.remove.expired.transaction.cleanup.interval.ms
    transaction.state.log.load.buffer.size transaction.two.phase.commit.enable unclean.leader.election.interval.ms
    unstable.api.versions.enable unstable.feature.versions.enable
"""
FIXED_AND_UNUSED_KEYS = frozenset(_FIXED_AND_UNUSED_KEYS_TEXT.split())


def find_config_type(name: str, value: str) -> int:
    """Return the ConfigType of a setting. The type of an unknown setting is derived from its value.

    >>> find_config_type("retention.bytes", "-1") == LONG, find_config_type("somebody.s.own", "0.5") == DOUBLE
    (True, True)
    """
    if name in CONFIG_TYPES:
        return CONFIG_TYPES[name]
    if is_secret(name):
        return PASSWORD
    if value in ("true", "false"):
        return BOOLEAN
    text = value.removeprefix("-")
    if text.isdigit():
        return INT if int(text) <= MAX_INT32 and not name.endswith(".ms") else LONG
    return DOUBLE if text.replace(".", "", 1).isdigit() else STRING


_MIN_SEGMENT_BYTES = 14  # as in Kafka: the overhead of the oldest record format
# Bits of the value, without the sign.
_VALUE_BITS_BY_TYPE: Mapping[int, int] = {SHORT: 15, INT: 31, LONG: 63}
_TYPE_DESCRIPTIONS: Mapping[int, str] = {
    SHORT: "a whole number of 16 bits",
    INT: "a whole number of 32 bits",
    LONG: "a whole number",
}
_INTEGER_PATTERN = re.compile(r"[+-]?[0-9]{1,20}")
_DECIMAL_PATTERN = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,3})?")
_REPLICA_PATTERN = re.compile(r"[0-9]{1,9}:[0-9]{1,9}")
_DURATION_PATTERN = re.compile(
    r"by_duration:P(?=[0-9T])([0-9]{1,9}D)?(T(?=[0-9])([0-9]{1,9}H)?([0-9]{1,9}M)?([0-9]{1,9}(\.[0-9]{1,9})?S)?)?"
)

# Minimum value -> the settings with this minimum. Some also have a maximum, in _MAX_VALUES_BY_KEY.
_KEYS_BY_MIN_VALUE: Mapping[int, str] = {
    -131072: "compression.zstd.level",
    -2: "local.retention.bytes local.retention.ms",
    -1: "compression.gzip.level retention.ms",
    0: """
        connection.failed.authentication.delay.ms delete.retention.ms file.delete.delay.ms flush.ms
        group.consumer.assignment.interval.ms group.consumer.max.assignment.interval.ms
        group.consumer.min.assignment.interval.ms group.share.assignment.interval.ms
        group.share.max.assignment.interval.ms group.share.min.assignment.interval.ms
        group.streams.assignment.interval.ms group.streams.initial.rebalance.delay.ms group.streams.num.standby.replicas
        index.interval.bytes log.cleaner.backoff.ms log.cleaner.threads max.connections max.connections.per.ip
        max.incremental.fetch.session.cache.slots max.message.bytes message.timestamp.after.max.ms
        message.timestamp.before.max.ms message.timestamp.difference.max.ms min.cleanable.dirty.ratio
        min.compaction.lag.ms node.id segment.jitter.ms
    """,
    1: """
        compression.lz4.level flush.messages group.consumer.heartbeat.interval.ms group.consumer.max.size
        group.consumer.session.timeout.ms group.max.size group.share.heartbeat.interval.ms
        group.share.session.timeout.ms leader.imbalance.check.interval.seconds log.retention.check.interval.ms
        max.compaction.lag.ms min.insync.replicas num.io.threads num.network.threads num.partitions
        offsets.retention.minutes offsets.topic.num.partitions offsets.topic.replication.factor
        offsets.topic.segment.bytes producer.id.expiration.check.interval.ms producer.id.expiration.ms segment.ms
        share.coordinator.state.topic.num.partitions
        socket.request.max.bytes transaction.abort.timed.out.transaction.cleanup.interval.ms transaction.max.timeout.ms
        transaction.state.log.min.isr transaction.state.log.num.partitions transaction.state.log.replication.factor
        transaction.state.log.segment.bytes transactional.id.expiration.ms
    """,
    2: "group.share.delivery.count.limit",
    4: "segment.index.bytes",
    100: "group.share.partition.max.record.locks",
    _MIN_SEGMENT_BYTES: "internal.segment.bytes segment.bytes",
    1000: "group.share.record.lock.duration.ms",
    1024: "fetch.max.bytes",
}
_MAX_VALUES_BY_KEY: Mapping[str, int] = {
    "compression.gzip.level": 9,
    "compression.lz4.level": 17,
    "compression.zstd.level": 22,
    "group.share.delivery.count.limit": 10,
    "group.share.partition.max.record.locks": 10_000,
    "group.share.record.lock.duration.ms": 3_600_000,
    "min.cleanable.dirty.ratio": 1,
}
_MIN_VALUES_BY_KEY: Mapping[str, int] = _add_equivalent_settings(_KEYS_BY_MIN_VALUE)
_VALID_VALUES_BY_KEY: Mapping[str, tuple[str, ...]] = {
    "cleanup.policy": ("compact", "delete"),
    "compression.type": ("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
    "kafkaframes.on.noncontiguous": ("kafka", "reject", "reassign", "keep"),
    "message.timestamp.type": ("CreateTime", "LogAppendTime"),
    "share.isolation.level": ("read_committed", "read_uncommitted"),
}
_THROTTLED_REPLICA_KEYS = ("follower.replication.throttled.replicas", "leader.replication.throttled.replicas")


def normalize_value(name: str, value: str) -> str:
    """Return a value as DescribeConfigs returns it: lists without spaces and duplicates, ratios as doubles.

    >>> normalize_value("cleanup.policy", " compact,delete,compact"), normalize_value("min.cleanable.dirty.ratio", "1")
    ('compact,delete', '1.0')

    Raises:
        OptionError: the value is invalid for the setting. The message contains the setting and the value.
    """
    kind, topic_key = CONFIG_TYPES.get(name, STRING), _TOPIC_SETTINGS_BY_BROKER_KEY.get(name, name)
    text = value.strip()
    if kind == BOOLEAN:
        return _check_boolean(name, text)
    if kind in _VALUE_BITS_BY_TYPE:
        return str(_check_range(name, topic_key, _parse_integer(name, text, kind)))
    if kind == DOUBLE:
        if _DECIMAL_PATTERN.fullmatch(text) is None:
            raise _refuse_value(name, value, "a number")
        return repr(float(_check_range(name, topic_key, float(text))))
    if kind == LIST:
        return ",".join(_check_list(name, topic_key, split_list(value)))
    choices = _VALID_VALUES_BY_KEY.get(topic_key)
    if choices is not None and value not in choices:
        raise _refuse_value(name, value, f"one of {', '.join(choices)}")
    _KEY_VALIDATORS.get(name, _any)(name, value)
    return value


def split_list(value: str) -> list[str]:
    """Return the parts of a list without duplicates.

    >>> split_list(" a, b,a"), split_list("")
    (['a', 'b'], [])
    """
    return list(dict.fromkeys(part.strip() for part in value.split(","))) if value.strip() else []


def _refuse_value(name: str, value: object, expectation: str) -> OptionError:
    return OptionError(f"{name} must be {expectation}, not {value!r}")


def _check_boolean(name: str, text: str) -> str:
    if text.lower() not in ("true", "false"):
        raise _refuse_value(name, text, "true or false")
    return text.lower()


def _parse_integer(name: str, text: str, kind: int) -> int:
    limit = 1 << _VALUE_BITS_BY_TYPE[kind]
    if _INTEGER_PATTERN.fullmatch(text) is None or not -limit <= int(text) < limit:
        raise _refuse_value(name, text, _TYPE_DESCRIPTIONS[kind])
    return int(text)


def _check_range(name: str, topic_key: str, number: float) -> float:
    """Return the number, after a check that it is in the setting's range."""
    min_value, max_value = _MIN_VALUES_BY_KEY.get(topic_key), _MAX_VALUES_BY_KEY.get(topic_key)
    if min_value is not None and number < min_value:
        raise _refuse_value(name, number, f"at least {min_value}")
    if max_value is not None and number > max_value:
        raise _refuse_value(name, number, f"at most {max_value}")
    if name == "compression.gzip.level" and number == 0:
        raise _refuse_value(name, number, "1 to 9, or -1")
    return number


def _check_list(name: str, topic_key: str, parts: list[str]) -> list[str]:
    """Return the list, after a check that each element is a valid value of the setting."""
    choices = _VALID_VALUES_BY_KEY.get(topic_key, ())
    for part in parts:
        if choices and part not in choices:
            raise _refuse_value(name, part, f"a list of {', '.join(choices)}")
        if name in _THROTTLED_REPLICA_KEYS and parts != ["*"] and _REPLICA_PATTERN.fullmatch(part) is None:
            raise _refuse_value(name, part, "* or a list of PARTITION:BROKER")
    return parts


def _any(name: str, value: str) -> None:
    """Accept any text."""


def parse_duration_ms(value: str) -> int:
    """Parse ``by_duration:PnDTnHnMn.nS``, and return the duration in milliseconds.

    >>> parse_duration_ms("by_duration:P1DT1M0.5S")
    86460500
    """
    match = _DURATION_PATTERN.fullmatch(value)
    days, _, hours, minutes, seconds, _ = match.groups() if match else (None,) * 6
    parts = (days, 86_400_000), (hours, 3_600_000), (minutes, 60_000), (seconds, 1_000)
    return int(sum(float(text[:-1]) * unit for text, unit in parts if text))


def _check_offset_reset(name: str, value: str) -> None:
    if value not in ("latest", "earliest") and _DURATION_PATTERN.fullmatch(value) is None:
        raise _refuse_value(name, value, "latest, earliest or by_duration:PnDTnHnMn.nS")


def _check_format_version(name: str, value: str) -> None:
    try:
        parse_format_version(value)
    except OptionError:
        raise _refuse_value(name, value, "a version such as 0.10.2") from None


def _check_migration_policy(name: str, value: str) -> None:
    choices = ("disabled", "upgrade", "downgrade", "bidirectional")
    if value.lower() not in choices:
        raise _refuse_value(name, value, f"one of {', '.join(choices)}")


_KEY_VALIDATORS: Mapping[str, Callable[[str, str], None]] = {
    "share.auto.offset.reset": _check_offset_reset,
    "message.format.version": _check_format_version,
    "log.message.format.version": _check_format_version,
    "group.consumer.migration.policy": _check_migration_policy,
}
