"""The settings of a client: typed settings under Kafka's property names, as keywords or as properties.

``bootstrap_servers`` is Kafka's ``bootstrap.servers``. As in Kafka's own clients, durations are in milliseconds and
sizes in bytes. ``options`` contains the description of each setting below its name, which editors show.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from decimal import Decimal
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from kafkaframes.client.metrics import ADMIN, CONSUMER, PRODUCER, SHARE
from kafkaframes.client.properties import map_options, translate_options
from kafkaframes.client.security.logins import resolve_logins
from kafkaframes.errors import OptionError
from kafkaframes.protocol.addresses import parse_address
from kafkaframes.protocol.messages.registry import Specs, add_catalog_specs, message, specs_by_name
from kafkaframes.protocol.spec.releases import find_release
from kafkaframes.wire.integers import MAX_INT32

if TYPE_CHECKING:
    from kafkaframes.client.options import Servers

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
SASL_MECHANISMS: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "GSSAPI", "AWS_MSK_IAM")
_DURATION_PATTERN: Final = re.compile(
    r"\+?P(?:\+?(\d+)D)?(T(?:\+?(\d+)H)?(?:\+?(\d+)M)?(?:\+?(\d+(?:[.,]\d{1,9})?)S)?)?", re.IGNORECASE | re.ASCII
)
_BOOLEAN_BY_TEXT: Final = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


# Smallest values of settings, as in ProducerConfig and ConsumerConfig. Below them, a client would wait without an end,
# or each connection would fail (the last two settings, for which Kafka has no minimum or no setting).
_MIN_VALUES: Final = {
    **dict.fromkeys(("send_buffer_bytes", "receive_buffer_bytes"), -1),
    **dict.fromkeys(
        (
            *("request_timeout_ms", "default_api_timeout_ms", "metadata_max_age_ms", "retry_backoff_ms"),
            *("retries", "retry_backoff_max_ms", "reconnect_backoff_ms", "reconnect_backoff_max_ms"),
            *("batch_size", "linger_ms", "buffer_memory", "max_request_size", "delivery_timeout_ms", "max_block_ms"),
            *("fetch_min_bytes", "fetch_max_bytes", "fetch_max_wait_ms", "max_partition_fetch_bytes"),
            *("auto_commit_interval_ms", "partitioner_availability_timeout_ms"),
        ),
        0,
    ),
    **dict.fromkeys(
        (
            *("metrics_num_samples", "metrics_sample_window_ms", "max_in_flight_requests_per_connection"),
            *("max_poll_records", "max_poll_interval_ms", "session_timeout_ms", "heartbeat_interval_ms"),
            *("socket_connection_setup_timeout_ms", "max_response_bytes"),
        ),
        1,
    ),
}


@dataclass(frozen=True, kw_only=True)
class ClientSettings:
    """The settings of every client."""

    client: ClassVar[str] = "admin"
    metrics_prefix: ClassVar[str] = ADMIN
    bootstrap_servers: str | Sequence[str] = ()
    client_id: str = "kafkaframes"
    api_version: str | Sequence[int] | None = None
    request_timeout_ms: int = 30_000
    retries: int = MAX_INT32
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    reconnect_backoff_ms: int = 50
    reconnect_backoff_max_ms: int = 1_000
    default_api_timeout_ms: int = 60_000
    metadata_max_age_ms: int = 300_000
    socket_connection_setup_timeout_ms: int = 10_000
    max_response_bytes: int = 104_857_600
    metrics_num_samples: int = 2
    metrics_sample_window_ms: int = 30_000
    enable_metrics_push: bool = False
    security_protocol: str = "PLAINTEXT"
    sasl_mechanism: str = "PLAIN"
    sasl_username: str | None = None
    sasl_password: str | None = field(default=None, repr=False)
    sasl_tokenauth: bool = False
    sasl_oauthbearer_token: str | Callable[[], str] | None = field(default=None, repr=False)
    sasl_jaas_config: str | None = field(default=None, repr=False)
    sasl_login_callback_handler_class: str | None = None
    sasl_kerberos_service_name: str | None = None
    sasl_kerberos_principal: str | None = None
    sasl_kerberos_keytab: str | None = None
    sasl_kerberos_ticket_cache: str | None = None
    sasl_oauthbearer_token_provider: str | None = None
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    sasl_oauthbearer_client_credentials_client_secret: str | None = field(default=None, repr=False)
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_header_urlencode: bool = False
    sasl_oauthbearer_extensions: Mapping[str, str] | str | None = None
    ssl_cafile: str | None = None
    ssl_certfile: str | None = None
    ssl_keyfile: str | None = None
    ssl_password: str | None = field(default=None, repr=False)
    ssl_check_hostname: bool = True
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_truststore_location: str | None = None
    ssl_truststore_type: str = "JKS"
    ssl_truststore_password: str | None = field(default=None, repr=False)
    ssl_truststore_certificates: str | None = field(default=None, repr=False)
    ssl_keystore_location: str | None = None
    ssl_keystore_type: str = "JKS"
    ssl_keystore_password: str | None = field(default=None, repr=False)
    ssl_keystore_key: str | None = field(default=None, repr=False)
    ssl_keystore_certificate_chain: str | None = field(default=None, repr=False)
    ssl_enabled_protocols: str | Sequence[str] = ()
    ssl_context: Any = field(default=None, repr=False)
    send_buffer_bytes: int = -1
    receive_buffer_bytes: int = -1
    specs: Specs | None = field(default=None, repr=False)
    header_tags: Sequence[tuple[int, bytes]] = ()

    def __post_init__(self) -> None:
        """Check the settings without a connection.

        Raises:
            OptionError: a value is invalid, or no bootstrap server is specified.
        """
        if self.specs is not None:  # a directory is read once, not for each request
            object.__setattr__(self, "specs", add_catalog_specs(self.specs))
        # A tuple such as (2, 8), as in kafka-python.
        if self.api_version is not None and not isinstance(self.api_version, str):
            object.__setattr__(self, "api_version", ".".join(map(str, self.api_version)))
        if isinstance(self.api_version, str):
            find_release(self.api_version)  # raises if the release is unknown
        # Java accepts upper and lower case.
        object.__setattr__(self, "security_protocol", self.security_protocol.upper())
        check_choice("security_protocol", self.security_protocol, SECURITY_PROTOCOLS)
        for name, minimum in _MIN_VALUES.items():
            if getattr(self, name, minimum) < minimum:
                raise OptionError(f"{name} is {getattr(self, name)}; expected a number of at least {minimum}")
        if self.enable_metrics_push and self.api_version is not None:
            reason = "only brokers that advertise client telemetry accept it"
            raise OptionError(f"enable_metrics_push does not work with api_version: {reason}; remove `api_version`")
        if not self.servers:
            raise OptionError("bootstrap_servers is empty; expected host:port, or several separated by commas")
        for name, value in resolve_logins(self).items():
            object.__setattr__(self, name, value)
        check_choice("sasl_mechanism", self.sasl_mechanism, SASL_MECHANISMS)
        if self.security_protocol.startswith("SASL"):
            self._check_sasl()

    def _check_sasl(self) -> None:
        if self.sasl_mechanism == "OAUTHBEARER":
            if not self.sasl_oauthbearer_token:
                raise OptionError(
                    "sasl_mechanism OAUTHBEARER needs sasl_oauthbearer_token (a token, or a function), "
                    "sasl.oauthbearer.token.provider=module:function, or sasl.oauthbearer.token.endpoint.url"
                )
        elif self.sasl_mechanism != "GSSAPI" and (self.sasl_username is None or self.sasl_password is None):
            raise OptionError(
                f"sasl_mechanism {self.sasl_mechanism} needs sasl_username and sasl_password, or sasl.jaas.config"
            )
        elif self.sasl_mechanism != "GSSAPI":
            for name in ("sasl_username", "sasl_password"):
                if not isinstance(getattr(self, name), str):
                    raise OptionError(f"{name} is not text; the password of a delegation token is `token.password`")

    @property
    def servers(self) -> list[tuple[str, int]]:
        """The bootstrap servers as host and port.

        >>> ClientSettings(bootstrap_servers="a:1, [::1]:2,b").servers
        [('a', 1), ('::1', 2), ('b', 9092)]
        """
        names, protocol = _split_names(self.bootstrap_servers), self.security_protocol
        return [parse_address(name, protocol=protocol, protocols=SECURITY_PROTOCOLS) for name in names]

    def message_class(self, name: str) -> Any:
        """Return the class of a message: from ``specs`` if they have it, else from the catalog."""
        is_own = self.specs is not None and name in specs_by_name(self.specs)
        return message(name, specs=self.specs if is_own else None)

    @property
    def tls_versions(self) -> list[str]:
        """The accepted TLS versions, in order; empty for OpenSSL's default."""
        return sorted(_split_names(self.ssl_enabled_protocols))

    @property
    def uses_tls(self) -> bool:
        """Whether connections are encrypted."""
        return self.security_protocol.endswith("SSL")

    @property
    def uses_sasl(self) -> bool:
        """Whether a connection begins with SASL."""
        return self.security_protocol.startswith("SASL")

    @property
    def has_client_certificate(self) -> bool:
        """Whether the client may have a certificate; an SSL context that the user passes may contain one."""
        return any((self.ssl_certfile, self.ssl_keystore_location, self.ssl_keystore_key, self.ssl_context))

    @property
    def unused_security_settings(self) -> list[str]:
        """Names of the specified settings that have no effect with this ``security_protocol``."""
        unused_prefixes = tuple(
            prefix for prefix, is_used in (("sasl_", self.uses_sasl), ("ssl_", self.uses_tls)) if not is_used
        )
        return [
            one.name
            for one in fields(ClientSettings)
            if one.name.startswith(unused_prefixes) and getattr(self, one.name) != one.default
        ]

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Create settings from keywords or any client's properties (``linger.ms``), with typed values or text.

        None selects the default, as in kafka-python (``compression_type=None``).

        Raises:
            OptionError: a name is unknown (the error suggests a similar one), or a value has a wrong type.
        """
        hints = _get_type_hints(cls)  # type: ignore[arg-type]
        values_by_name = translate_options(options, list_setting_names(cls), cls.client)
        values = {
            name: _convert_value(hints[name], value, name)
            for name, value in values_by_name.items()
            if value is not None
        }
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class ProducerSettings(ClientSettings):
    """The settings of a producer, in addition to those of every client."""

    client: ClassVar[str] = "producer"
    metrics_prefix: ClassVar[str] = PRODUCER
    acks: int | str = "all"
    compression_type: str = "none"
    compression_level: int | None = None
    batch_size: int = 16_384
    linger_ms: int = 5
    buffer_memory: int = 33_554_432
    max_request_size: int = 1_048_576
    max_in_flight_requests_per_connection: int = 5
    delivery_timeout_ms: int = 120_000
    max_block_ms: int = 60_000
    enable_idempotence: bool | None = None
    transactional_id: str | None = None
    transaction_timeout_ms: int = 60_000
    record_format: int | None = None
    partitioner: str | Callable[[str, bytes | None, bytes | None, int, Sequence[int]], int | None] | None = None
    partitioner_ignore_keys: bool = False
    partitioner_adaptive_partitioning_enable: bool = True
    partitioner_availability_timeout_ms: int = 0
    interceptors: str | Sequence[Any] = ()

    def __post_init__(self) -> None:
        """Check the settings without a connection."""
        super().__post_init__()
        check_choice("acks", str(self.acks), ("all", "-1", "0", "1"))
        check_choice("compression_type", self.compression_type, ("none", "gzip", "snappy", "lz4", "zstd"))
        if self.record_format is not None:
            check_choice("record_format", self.record_format, (0, 1, 2))
        if self.transactional_id is not None and self.required_acks != -1:
            raise OptionError("transactional_id needs acks=all")
        if self.transactional_id is not None and self.enable_idempotence is False:
            raise OptionError("transactional_id needs enable_idempotence=True; remove `enable_idempotence`")
        if self.enable_idempotence and self.required_acks != -1:
            raise OptionError("enable_idempotence needs acks=all")
        if self.enable_idempotence and self.max_in_flight_requests_per_connection > 5:
            raise OptionError("enable_idempotence needs max_in_flight_requests_per_connection of at most 5")

    @property
    def required_acks(self) -> int:
        """The value of ``acks`` in requests: -1, 0 or 1."""
        return -1 if str(self.acks) == "all" else int(self.acks)


@dataclass(frozen=True, kw_only=True)
class ConsumerSettings(ClientSettings):
    """The settings of a consumer, in addition to those of every client."""

    client: ClassVar[str] = "consumer"
    metrics_prefix: ClassVar[str] = CONSUMER
    group_id: str | None = None
    group_instance_id: str | None = None
    group_protocol: str = "classic"
    group_remote_assignor: str | None = None
    client_rack: str = ""
    partition_assignment_strategy: str | Sequence[str] = ("range", "cooperative-sticky")
    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 3_000
    max_poll_interval_ms: int = 300_000
    auto_offset_reset: str = "latest"
    enable_auto_commit: bool = True
    auto_commit_interval_ms: int = 5_000
    isolation_level: str = "read_uncommitted"
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_partition_fetch_bytes: int = 1_048_576
    max_poll_records: int = 500
    check_crcs: bool = True
    formats: Sequence[int] = (0, 1, 2)
    interceptors: str | Sequence[Any] = ()

    def __post_init__(self) -> None:
        """Check the settings without a connection."""
        super().__post_init__()
        if self.reset_duration_ms is None:
            check_choice(
                "auto_offset_reset", self.auto_offset_reset, ("earliest", "latest", "none", "by_duration:PT1H ...")
            )
        check_choice("isolation_level", self.isolation_level, ("read_uncommitted", "read_committed"))
        object.__setattr__(self, "group_protocol", self.group_protocol.lower())  # as above
        check_choice("group_protocol", self.group_protocol, ("classic", "consumer"))
        has_heartbeats = self.group_id is not None and self.group_protocol == "classic"
        if has_heartbeats and self.heartbeat_interval_ms >= self.session_timeout_ms:
            raise OptionError(
                f"heartbeat_interval_ms is {self.heartbeat_interval_ms}; expected less than session_timeout_ms "
                f"({self.session_timeout_ms}), or the group removes the consumer"
            )

    @property
    def reset_duration_ms(self) -> int | None:
        """The duration of the policy by_duration (KIP-1106), in milliseconds; None for other policies."""
        policy, colon, duration = self.auto_offset_reset.partition(":")
        return parse_duration(duration) if colon and policy == "by_duration" else None

    @property
    def reads_committed(self) -> bool:
        """Whether records of open and aborted transactions are omitted."""
        return self.isolation_level == "read_committed"

    @property
    def strategies(self) -> list[str]:
        """The assignment strategies in order of preference."""
        return [
            _ASSIGNOR_BY_JAVA_CLASS.get(name.rpartition(".")[2], name)
            for name in _split_names(self.partition_assignment_strategy)
        ]


@dataclass(frozen=True, kw_only=True)
class ShareConsumerSettings(ClientSettings):
    """Settings of a share consumer, in addition to those of every client (KIP-932)."""

    client: ClassVar[str] = "consumer"
    metrics_prefix: ClassVar[str] = SHARE
    group_id: str | None = None
    client_rack: str = ""
    share_acknowledgement_mode: str = "implicit"
    share_acquire_mode: str = "batch_optimized"
    fetch_min_bytes: int = 1
    fetch_max_wait_ms: int = 500
    fetch_max_bytes: int = 52_428_800
    max_poll_records: int = 500
    max_poll_interval_ms: int = 300_000
    check_crcs: bool = True

    def __post_init__(self) -> None:
        """Check the settings without a connection."""
        super().__post_init__()
        if not self.group_id:
            raise OptionError("a share consumer needs group_id")
        for name in ("share_acknowledgement_mode", "share_acquire_mode"):  # Java accepts upper and lower case
            object.__setattr__(self, name, getattr(self, name).lower())
        check_choice("share_acknowledgement_mode", self.share_acknowledgement_mode, ("implicit", "explicit"))
        check_choice("share_acquire_mode", self.share_acquire_mode, ("batch_optimized", "record_limit"))

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> Self:
        """Return settings as ``ClientSettings.from_options`` does. Reject settings that share groups do not have."""
        for name in options:
            if name.replace("_", ".") in ("interceptors", "interceptor.classes") and options[name]:
                raise OptionError(f"{name} is not a setting of share consumers, which have no interceptors")
            if name.replace("_", ".") in _REJECTED_SHARE_SETTINGS:
                raise OptionError(
                    f"{name} is not a setting of share consumers; set the group's configuration with `alter_configs`"
                )
        return super().from_options(options)

    @property
    def required_group_id(self) -> str:
        """The group id, which every share consumer has."""
        assert self.group_id is not None
        return self.group_id

    @property
    def is_explicit(self) -> bool:
        """Whether the caller acknowledges each record."""
        return self.share_acknowledgement_mode == "explicit"


_REJECTED_SHARE_SETTINGS: Final = frozenset(  # Java's share consumer also rejects these settings
    {
        "auto.offset.reset",
        "enable.auto.commit",
        "group.instance.id",
        "group.protocol",
        "group.remote.assignor",
        "heartbeat.interval.ms",
        "isolation.level",
        "partition.assignment.strategy",
        "session.timeout.ms",
    }
)
_ASSIGNOR_BY_JAVA_CLASS: Final = {  # Java class name -> assignor
    "RangeAssignor": "range",
    "RoundRobinAssignor": "roundrobin",
    "StickyAssignor": "sticky",
    "CooperativeStickyAssignor": "cooperative-sticky",
}


def _split_names(value: str | Sequence[str]) -> list[str]:
    names = value.split(",") if isinstance(value, str) else [str(name) for name in value]
    return [name.strip() for name in names if name.strip()]


def parse_duration(text: str) -> int:
    """Return an ISO 8601 duration of days, hours, minutes and seconds in milliseconds, as Java's ``Duration`` reads it.

    >>> parse_duration("PT1H"), parse_duration("P1DT0.5S")
    (3600000, 86400500)

    Raises:
        OptionError: the text is not a duration, or the duration is negative.
    """
    match = _DURATION_PATTERN.fullmatch(text)
    days, clock, hours, minutes, seconds = match.groups() if match is not None else ("", "", "", "", "")
    if match is None or not (days or hours or minutes or seconds) or clock == "T":
        expectation = "a non-negative ISO 8601 duration, such as PT1H or P2DT30M"
        raise OptionError(f"auto_offset_reset by_duration has {text!r}; expected {expectation}")
    whole_minutes = (int(days or 0) * 24 + int(hours or 0)) * 60 + int(minutes or 0)
    return whole_minutes * 60_000 + int(Decimal((seconds or "0").replace(",", ".")) * 1000)


def merge_options(bootstrap_servers: Servers | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a constructor's arguments as one mapping. Keywords override properties."""
    if bootstrap_servers is None:
        return options
    if isinstance(bootstrap_servers, Mapping):
        return {**bootstrap_servers, **options}
    return {"bootstrap_servers": bootstrap_servers, **options}


def list_setting_names(cls: type[ClientSettings]) -> list[str]:
    """Return the names of a client's settings."""
    return [field.name for field in fields(cls)]


def select_client_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that every client has, without those of consumers or producers only.

    >>> select_client_options({"bootstrap.servers": "a:1", "fetch.max.bytes": "5", "ssl.ca.location": "ca.pem"})
    {'bootstrap.servers': 'a:1', 'ssl.ca.location': 'ca.pem'}

    Raises:
        OptionError: a name is unknown.
    """
    keys = map_options(options, _list_all_setting_names(), ClientSettings.client)
    client_names = list_setting_names(ClientSettings)
    return {name: options[name] for name, key in keys.items() if key in client_names}


@cache
def _list_all_setting_names() -> frozenset[str]:
    classes = (ClientSettings, ProducerSettings, ConsumerSettings, ShareConsumerSettings)
    return frozenset(name for cls in classes for name in list_setting_names(cls))


@cache  # it takes milliseconds
def _get_type_hints(cls: type[ClientSettings]) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def check_choice(name: str, value: Any, allowed_values: Sequence[Any]) -> None:
    """Raise an OptionError unless ``value`` is in ``allowed_values``."""
    if value not in allowed_values:
        raise OptionError(f"{name} is {value!r}; expected one of {', '.join(map(str, allowed_values))}")


def _convert_value(hint: Any, value: Any, name: str) -> Any:
    """Convert text to the type of a setting. Values that are not text are returned unchanged."""
    if not isinstance(value, str):
        return value
    kinds = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    if str in kinds:
        return value
    if bool in kinds:
        if value.lower() not in _BOOLEAN_BY_TEXT:
            raise OptionError(f"{name} is {value!r}; expected true or false")
        return _BOOLEAN_BY_TEXT[value.lower()]
    if int in kinds:
        try:
            return int(value)
        except ValueError:
            raise OptionError(f"{name} is {value!r}; expected an integer") from None
    return value
