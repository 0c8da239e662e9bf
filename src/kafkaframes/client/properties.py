"""Maps property names to settings: Java's consumer, producer and admin settings, and the names of other clients.

``list_java_properties`` has a row for every setting in Kafka 4.3.1's ConfigDefs. A setting is supported, ignored
because it has no effect here (which is logged once), or rejected with a reason. ``translate_options`` converts the
names that users specify in constructors, on the command line and in Spark options to the names in ``settings``.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from kafkaframes.errors import OptionError
from kafkaframes.wire.integers import MAX_INT32, MAX_INT64

_LOG: Final = logging.getLogger("kafkaframes.client")
Treatment = Literal["supported", "ignored", "rejected"]


@dataclass(frozen=True)
class JavaProperty:
    """A setting of Java's clients.

    Attributes:
        name: Java's name.
        clients: clients that have the setting: "consumer", "producer", "admin", "share consumer".
        treatment: ``supported``, ``ignored`` or ``rejected``.
        reason: reason why the setting is ignored or rejected; empty if it is supported.
    """

    name: str
    clients: tuple[str, ...]
    treatment: Treatment
    reason: str = ""


SHARE_CONSUMER: Final = "share consumer"
_CLIENT_BY_LETTER: Final = {"c": "consumer", "p": "producer", "a": "admin", "s": SHARE_CONSUMER}
# Setting names in the ConfigDefs of Kafka 4.3.1. A key has the letters in ``_CLIENT_BY_LETTER`` of the clients that
# accept the names.
_JAVA_NAMES_BY_CLIENTS: Final = {
    "cpa": """
        bootstrap.servers client.dns.lookup client.id config.providers connections.max.idle.ms
        enable.metrics.push metadata.max.age.ms metadata.recovery.rebootstrap.trigger.ms
        metadata.recovery.strategy metric.reporters metrics.num.samples metrics.recording.level
        metrics.sample.window.ms receive.buffer.bytes reconnect.backoff.max.ms reconnect.backoff.ms
        request.timeout.ms retry.backoff.max.ms retry.backoff.ms sasl.client.callback.handler.class
        sasl.jaas.config sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
        sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor sasl.login.callback.handler.class sasl.login.class
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds
        sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
        sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms
        sasl.mechanism sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.template.file sasl.oauthbearer.client.credentials.client.id
        sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.clock.skew.seconds
        sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.header.urlencode sasl.oauthbearer.jwks.endpoint.refresh.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.ms
        sasl.oauthbearer.jwks.endpoint.url sasl.oauthbearer.jwt.retriever.class
        sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name
        sasl.oauthbearer.sub.claim.name sasl.oauthbearer.token.endpoint.url security.protocol
        security.providers send.buffer.bytes socket.connection.setup.timeout.max.ms
        socket.connection.setup.timeout.ms ssl.cipher.suites ssl.enabled.protocols
        ssl.endpoint.identification.algorithm ssl.engine.factory.class ssl.key.password
        ssl.keymanager.algorithm ssl.keystore.certificate.chain ssl.keystore.key ssl.keystore.location
        ssl.keystore.password ssl.keystore.type ssl.protocol ssl.provider ssl.secure.random.implementation
        ssl.trustmanager.algorithm ssl.truststore.certificates ssl.truststore.location
        ssl.truststore.password ssl.truststore.type
    """,
    "c": """
        allow.auto.create.topics auto.commit.interval.ms auto.offset.reset check.crcs client.rack
        enable.auto.commit exclude.internal.topics fetch.max.bytes fetch.max.wait.ms fetch.min.bytes
        group.id group.instance.id group.protocol group.remote.assignor heartbeat.interval.ms
        internal.throw.on.fetch.stable.offset.unsupported isolation.level key.deserializer
        max.partition.fetch.bytes max.poll.interval.ms max.poll.records partition.assignment.strategy
        session.timeout.ms value.deserializer
    """,
    "s": """
        share.acknowledgement.mode share.acquire.mode
    """,
    "p": """
        acks batch.size buffer.memory compression.gzip.level compression.lz4.level compression.type
        compression.zstd.level delivery.timeout.ms enable.idempotence key.serializer linger.ms max.block.ms
        max.in.flight.requests.per.connection max.request.size metadata.max.idle.ms
        partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms partitioner.class
        partitioner.ignore.keys transaction.timeout.ms transaction.two.phase.commit.enable transactional.id
        value.serializer
    """,
    "a": """
        bootstrap.controllers
    """,
    "ca": """
        default.api.timeout.ms
    """,
    "cp": """
        interceptor.classes
    """,
    "pa": """
        retries
    """,
}
_IGNORED_PROPERTIES: Final = {
    "`metrics()` returns all metrics; JMX is not available": """
        metric.reporters metrics.recording.level auto.include.jmx.reporter statistics.interval.ms
    """,
    "the client tries all addresses of a host name in turn": "client.dns.lookup broker.address.family",
    "the client keeps connections open and reconnects after a broker has closed one": "connections.max.idle.ms",
    "socket.connection.setup.timeout.ms limits each connection attempt": "socket.connection.setup.timeout.max.ms",
    "the client tries the bootstrap servers again if no broker of its metadata responds": """
        metadata.recovery.strategy metadata.recovery.rebootstrap.trigger.ms
    """,
    "a producer keeps the metadata of its topics until it is closed": "metadata.max.idle.ms",
    "a consumer does not create topics": "allow.auto.create.topics",
    "a pattern does not match internal topics": "exclude.internal.topics",
    "the client always requests stable offsets if the broker supports them (KIP-447)": """
        internal.throw.on.fetch.stable.offset.unsupported
    """,
    "Python uses OpenSSL instead of Java's security providers": """
        security.providers ssl.provider ssl.secure.random.implementation ssl.keymanager.algorithm
        ssl.trustmanager.algorithm
    """,
    "the client negotiates the newest TLS version that ssl.enabled.protocols allows": "ssl.protocol",
    "the SASL mechanisms are built in; Java classes cannot be loaded": "sasl.client.callback.handler.class",
    "the client requests a new token for each connection": """
        sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor
        sasl.login.refresh.window.jitter
    """,
    "the Kerberos library acquires and renews tickets": """
        sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.ticket.renew.jitter
        sasl.kerberos.ticket.renew.window.factor
    """,
    "requests to the token endpoint have fixed timeouts and retries": """
        sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.retry.backoff.max.ms
        sasl.login.retry.backoff.ms
    """,
    "the broker validates tokens": """
        sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience sasl.oauthbearer.expected.issuer
        sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms
        sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url
        sasl.oauthbearer.jwt.validator.class sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name
    """,
    "buffer.memory limits a producer's memory, and fetch.max.bytes limits a consumer's": """
        queue.buffering.max.messages queue.buffering.max.kbytes queued.min.messages queued.max.messages.kbytes
        batch.num.messages
    """,
    "the setting tunes the event loop or the sockets of another client": """
        selector sock.chunk.bytes api.version.auto.timeout.ms api.version.request log.connection.close
        socket.keepalive.enable socket.nagle.disable socket.max.fails broker.address.ttl reconnect.backoff.jitter.ms
        coordinator.query.interval.ms topic.metadata.refresh.sparse sticky.partitioning.linger.ms
        fetch.error.backoff.ms fetch.queue.backoff.ms consume.callback.max.messages message.copy.max.bytes
        queue.buffering.backpressure.threshold
    """,
    "the client logs to the Python logger kafkaframes.client": """
        debug logger log.level log.queue log.thread.name
    """,
    "`on_delivery` is called for every record": "delivery.report.only.error",
    "certificates are verified unless ssl_context is an ssl.SSLContext that does not verify them": """
        enable.ssl.certificate.verification
    """,
    "sasl.oauthbearer.token.endpoint.url selects the method": "sasl.oauthbearer.method",
}
_REJECTED_PROPERTIES: Final = {
    "keys and values are bytes or text; encode them before `send`, decode them after `poll`": """
        key.serializer value.serializer key.deserializer value.deserializer
    """,
    "Java classes cannot be loaded": "sasl.login.class",
    "Java classes cannot be loaded; set sasl.oauthbearer.token.provider to a Python function": """
        sasl.oauthbearer.jwt.retriever.class
    """,
    "Java classes cannot be loaded; set ssl_context to an ssl.SSLContext": "ssl.engine.factory.class",
    "cipher names differ between Java and OpenSSL; set ssl_context to an ssl.SSLContext": """
        ssl.cipher.suites ssl.ciphers
    """,
    "references to configuration providers are not resolved; specify the values themselves": "config.providers",
    "an admin client connects to brokers only; set bootstrap.servers": "bootstrap.controllers",
    "two-phase commit (KIP-939) requires InitProducerId 6, which Kafka 4.3 does not serve by default": """
        transaction.two.phase.commit.enable
    """,
    "assertions (KIP-1258) are not supported; set sasl.oauthbearer.token.provider to a Python function": """
        sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud
        sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss
        sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds
        sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.file
        sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase
        sasl.oauthbearer.assertion.template.file
    """,
    "pass `timeout_ms` to `poll` or `fetch_arrow`": "consumer.timeout.ms",
    "pass `on_delivery` to `send`; other errors are raised": "on.delivery dr.cb error.cb stats.cb throttle.cb",
    "`commit` raises its errors": "on.commit",
    "`end_offsets` returns the end of a partition": "enable.partition.eof",
    "specify the topic's settings next to the other settings": "default.topic.config",
    "set sasl.oauthbearer.token.provider to a function that returns a token": "oauth.cb sasl.oauth.token.provider",
    "set ssl_context to an ssl.SSLContext": "ssl.crl.location ssl.crlfile ssl.engine.location ssl.providers",
    "the client stores a position when `poll` returns the record": "enable.auto.offset.store",
}
# Names of settings in librdkafka (confluent-kafka), kafka-python and older Kafka releases.
_SETTING_ALIASES: Final = {
    "metadata.broker.list": "bootstrap_servers",
    "partitioner.class": "partitioner",
    "interceptor.classes": "interceptors",
    "sasl.plain.username": "sasl_username",
    "sasl.plain.password": "sasl_password",
    "sasl.mechanisms": "sasl_mechanism",
    "ssl.ca.location": "ssl_cafile",
    "ssl.certificate.location": "ssl_certfile",
    "ssl.key.location": "ssl_keyfile",
    "ssl.key.password": "ssl_password",
    "ssl.ca.pem": "ssl_truststore_certificates",
    "sasl.oauthbearer.client.id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl.oauthbearer.client.secret": "sasl_oauthbearer_client_credentials_client_secret",
    "compression.codec": "compression_type",
    "compression.gzip.level": "compression_level",
    "compression.lz4.level": "compression_level",
    "compression.zstd.level": "compression_level",
    "topic.metadata.refresh.interval.ms": "metadata_max_age_ms",
    "socket.send.buffer.bytes": "send_buffer_bytes",
    "socket.receive.buffer.bytes": "receive_buffer_bytes",
    "receive.message.max.bytes": "max_response_bytes",
    "message.max.bytes": "max_request_size",
    "auto.commit.enable": "enable_auto_commit",
    "request.required.acks": "acks",
    "message.send.max.retries": "retries",
    "message.timeout.ms": "delivery_timeout_ms",
    "queue.buffering.max.ms": "linger_ms",
    "fetch.wait.max.ms": "fetch_max_wait_ms",
    "fetch.message.max.bytes": "max_partition_fetch_bytes",
    "max.in.flight": "max_in_flight_requests_per_connection",
    "socket.timeout.ms": "request_timeout_ms",
    "broker.version.fallback": "api_version",
}
# Values of other clients that have another form here: librdkafka's CONFIGURATION.md (-1 disables periodic refreshes, 0
# is an infinite timeout), and kafka-python before 1.0 (smallest, largest).
_VALUE_ALIASES: Final[Mapping[str, Mapping[str, Any]]] = {
    "topic.metadata.refresh.interval.ms": {"-1": MAX_INT64},
    "message.timeout.ms": {"0": MAX_INT32},
    "auto.offset.reset": {
        **dict.fromkeys(("smallest", "beginning"), "earliest"),
        **dict.fromkeys(("largest", "end"), "latest"),
        "error": "none",
    },
}
_CODEC_BY_LEVEL_SETTING: Final = {f"compression.{codec}.level": codec for codec in ("gzip", "lz4", "zstd")}


def _split_names(table: Mapping[str, str]) -> dict[str, str]:
    return {name: key for key, names in table.items() for name in names.split()}


@cache
def list_java_properties() -> dict[str, JavaProperty]:
    """Return the description of each setting of Java's clients, by name."""
    ignored_names, rejected_names, rows = _split_names(_IGNORED_PROPERTIES), _split_names(_REJECTED_PROPERTIES), {}
    for name, letters in _split_names(_JAVA_NAMES_BY_CLIENTS).items():
        treatment: Treatment = (
            "ignored" if name in ignored_names else "rejected" if name in rejected_names else "supported"
        )
        reason = ignored_names.get(name) or rejected_names.get(name) or ""
        rows[name] = JavaProperty(name, tuple(_CLIENT_BY_LETTER[letter] for letter in letters), treatment, reason)
    return rows


def translate_options(options: Mapping[str, Any], names: Collection[str], client: str) -> dict[str, Any]:
    """Return options under the names in ``settings``. Log the options that have no effect in these clients.

    Args:
        options: options under this package's, Java's, librdkafka's or kafka-python's names.
        names: names that the client's settings class has.
        client: "consumer", "producer" or "admin".

    Raises:
        OptionError: a name is unknown (the error suggests a similar one) or rejected.
    """
    keys = map_options(options, names, client)
    log_ignored_settings(options.keys() - keys.keys())
    return {key: _translate_value(name, options[name]) for name, key in keys.items()}


def map_options(options: Mapping[str, Any], names: Collection[str], client: str) -> dict[str, str]:
    """Return the setting of each option, without options that have no effect. See ``translate_options``."""
    keys: dict[str, str] = {}
    codec = next(
        (str(value) for name, value in options.items() if _to_setting_name(name) == "compression_type"), "none"
    )
    for name, value in options.items():
        key = _to_setting_name(name)
        if _CODEC_BY_LEVEL_SETTING.get(_to_dotted(name), codec) != codec:
            continue
        if key in names:
            keys[name] = key
        else:
            _reject_name(name, key, value, names, client)
    return keys


def _translate_value(name: str, value: Any) -> Any:
    """Return the value of an option of any client as a value of this package's setting."""
    return _VALUE_ALIASES.get(_to_dotted(name), {}).get(str(value), value)


def _to_dotted(name: str) -> str:
    return name.replace("_", ".").replace("-", ".")


def _to_setting_name(name: str) -> str:
    """Return this package's name of a setting, with underscores, for any of the setting's names."""
    return _SETTING_ALIASES.get(_to_dotted(name)) or _to_dotted(name).replace(".", "_")


def _reject_name(name: str, key: str, value: Any, names: Collection[str], client: str) -> None:
    """Raise an error for a name that cannot be ignored. A rejected setting is accepted if it is switched off."""
    spellings = [_to_dotted(name), _to_dotted(key)]  # the given name, and the setting's name
    if any(spelling in _split_names(_IGNORED_PROPERTIES) for spelling in spellings):
        return
    for java_property in filter(None, map(list_java_properties().get, spellings)):
        if java_property.clients == (SHARE_CONSUMER,) and client == "consumer":
            raise OptionError(f"{name} is a setting of ShareConsumer; a consumer does not acknowledge single records")
        # The setting belongs to another client.
        if java_property.treatment == "supported" or client not in java_property.clients:
            return
    reason = next(filter(None, map(_split_names(_REJECTED_PROPERTIES).get, spellings)), None)
    if reason is None:
        raise OptionError(f"{_CLIENT_TITLES[client]} has no setting {name!r}{suggest_name(name, names)}")
    if str(value).lower() not in ("", "none", "null", "false") and not str(value).endswith(_ACCEPTED_SERDE_CLASSES):
        raise OptionError(f"{name}: {reason}")


_MAX_LISTED_NAMES: Final = 12  # an error about an unknown name lists the valid names if there are at most this many
_CLIENT_TITLES: Final = {"consumer": "a consumer", "producer": "a producer", "admin": "an admin client"}
# Java classes that the ignored settings key.serializer, value.deserializer etc. may name.
_ACCEPTED_SERDE_CLASSES: Final = ("ByteArraySerializer", "StringSerializer", "ByteArrayDeserializer")


def merge_settings(*mappings: Mapping[str, Any]) -> dict[str, Any]:
    """Merge several mappings of settings into one.

    Later mappings override earlier ones, even under another name of a setting.

    >>> merge_settings({"compression.type": "none"}, {"compression.codec": "zstd"})
    {'compression.codec': 'zstd'}
    """
    result: dict[str, Any] = {}
    names: dict[str, str] = {}
    for mapping in mappings:
        for name, value in mapping.items():
            key = name if name in _CODEC_BY_LEVEL_SETTING else _to_setting_name(name)
            result.pop(names.get(key, name), None)
            result[name] = value
            names[key] = name
    return result


def to_kafka_names(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return options under dotted names: Kafka's name for settings that Kafka has, and one name for each other setting.

    >>> to_kafka_names({"request.required.acks": "1", "ssl.ca.location": "ca.pem", "batch_size": 5})
    {'acks': '1', 'ssl.cafile': 'ca.pem', 'batch.size': 5}

    Raises:
        OptionError: two options are names of the same setting.
    """
    first_names: dict[str, str] = {}
    for name in options:
        first_name = first_names.setdefault(to_kafka_name(name), name)
        if first_name != name:
            raise OptionError(f"{first_name} and {name} are names of one setting; set one of them")
    return {kafka_name: _translate_value(name, options[name]) for kafka_name, name in first_names.items()}


def to_kafka_name(name: str) -> str:
    """Return the dotted name of a setting for any of its aliases: Kafka's name if Kafka has the setting."""
    dotted_name = _to_dotted(name)
    if dotted_name in _CODEC_BY_LEVEL_SETTING:
        return dotted_name
    key = _to_setting_name(name)
    return _list_kafka_names().get(key) or _to_dotted(key)


@cache
def _list_kafka_names() -> dict[str, str]:
    """Return Kafka's name of each setting, without the compression levels, which share a setting."""
    return {_to_setting_name(name): name for name in list_java_properties() if name not in _CODEC_BY_LEVEL_SETTING}


def log_ignored_settings(names: Collection[str]) -> None:
    """Log why settings are ignored, once per process for each set of names."""
    _log_ignored_once(frozenset(names))


@cache
def _log_ignored_once(names: frozenset[str]) -> None:
    reasons = _split_names(_IGNORED_PROPERTIES)
    for name in sorted(names):
        reason = reasons.get(name.replace("_", "."), "the setting belongs to another codec or client")
        _LOG.warning("%s is ignored: %s", name, reason)


def suggest_name(name: str, names: Collection[str]) -> str:
    """Return a hint for an unknown name: the most similar name, in the user's spelling, or all names if they are few.

    >>> suggest_name("linger.sm", ["acks", "linger_ms"]), suggest_name("key", ["acks", "linger_ms"])
    ('; did you mean linger.ms?', '; expected acks, linger_ms')
    """
    close = difflib.get_close_matches(name.replace(".", "_"), names, 1)
    suggestion = close[0].replace("_", ".") if close and "." in name else "".join(close)
    if close:
        return f"; did you mean {suggestion}?"
    return f"; expected {', '.join(names)}" if len(names) <= _MAX_LISTED_NAMES else ""
