"""The keyword arguments of the clients' constructors, for editors and type checkers: optional fields of ``settings``.

Editors show the text below a name. At run time no module imports these types, because that would take 30 ms in each
Spark worker. ``properties`` lists the other names that are accepted.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from kafkaframes.protocol.messages.registry import Specs

Servers = str | Sequence[str] | Mapping[str, Any]  # host:port, a list of them, or a dict of properties


class ClientOptions(TypedDict, total=False):
    """Options of every client."""

    client_id: str
    """Name of the client in broker logs and quotas. Default: kafkaframes."""
    api_version: str | Sequence[int] | None
    """Kafka release of the brokers ("0.8.2", "2.8"); None asks each broker for its versions."""
    request_timeout_ms: int
    """Longest wait for a response, in milliseconds. Default: 30000."""
    retries: int
    """Maximum number of retries of a request, within its timeout. Default: 2147483647."""
    retry_backoff_ms: int
    """First delay before a retry, in milliseconds; it doubles with each retry. Default: 100."""
    retry_backoff_max_ms: int
    """Longest delay before a retry, in milliseconds. Default: 1000."""
    reconnect_backoff_ms: int
    """First delay before a client reconnects to a broker, in milliseconds; it doubles. Default: 50."""
    reconnect_backoff_max_ms: int
    """Longest delay before a client reconnects, in milliseconds. Default: 1000."""
    default_api_timeout_ms: int
    """Longest duration of a call with all retries, in milliseconds. Default: 60000."""
    metadata_max_age_ms: int
    """Age at which metadata is refreshed, in milliseconds. Default: 300000."""
    socket_connection_setup_timeout_ms: int
    """Longest duration of opening a connection, in milliseconds. Default: 10000."""
    max_response_bytes: int
    """Largest accepted response, in bytes; a larger one closes the connection. Default: 104857600."""
    metrics_num_samples: int
    """Number of samples that rates, averages and maxima of ``metrics()`` are computed from. Default: 2."""
    metrics_sample_window_ms: int
    """Duration of a sample, in milliseconds. Default: 30000."""
    enable_metrics_push: bool
    """Whether metrics are pushed to brokers that have subscribed to them (KIP-714). Default: False."""
    security_protocol: str
    """Security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Default: PLAINTEXT."""
    sasl_mechanism: str
    """SASL mechanism: PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI or AWS_MSK_IAM. Default: PLAIN."""
    sasl_username: str | None
    """User name for PLAIN and SCRAM."""
    sasl_password: str | None
    """Password for PLAIN and SCRAM."""
    sasl_tokenauth: bool
    """Whether the SCRAM user name and password belong to a delegation token. Default: False."""
    sasl_oauthbearer_token: str | Callable[[], str] | None
    """Access token, or a function that returns a valid one."""
    sasl_jaas_config: str | None
    """Login in JAAS format: module, control flag, options, semicolon."""
    sasl_login_callback_handler_class: str | None
    """Java class name of a login handler for tokens: one of Kafka's or Amazon MSK's."""
    sasl_kerberos_service_name: str | None
    """Service name in the brokers' Kerberos principals, often kafka."""
    sasl_kerberos_principal: str | None
    """Client's Kerberos principal; None uses the principal of the keytab or ticket cache."""
    sasl_kerberos_keytab: str | None
    """Keytab file; None reads tickets from a cache, as kinit writes it."""
    sasl_kerberos_ticket_cache: str | None
    """Kerberos ticket cache; None selects the default cache of the process."""
    sasl_oauthbearer_token_provider: str | None
    """Python function that returns access tokens, as ``module:function``."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """URL of the token endpoint for OpenID Connect client credentials."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """Client id for the token endpoint."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """Client secret for the token endpoint."""
    sasl_oauthbearer_scope: str | None
    """Scope of the requested token."""
    sasl_oauthbearer_header_urlencode: bool
    """Whether client id and secret are URL-encoded for the token endpoint. Default: False."""
    sasl_oauthbearer_extensions: Mapping[str, str] | str | None
    """SASL extensions that are sent with the token, as a dict or ``name=value,name=value`` (KIP-342)."""
    ssl_cafile: str | None
    """PEM file of trusted certificates; None selects the system's certificates."""
    ssl_certfile: str | None
    """PEM file with the client certificate."""
    ssl_keyfile: str | None
    """PEM file with the private key of the client certificate."""
    ssl_password: str | None
    """Password of the private key."""
    ssl_check_hostname: bool
    """Whether a broker's certificate must match its host name. Default: True."""
    ssl_endpoint_identification_algorithm: str
    """https checks host names as ``ssl_check_hostname`` does; empty does not. Default: https."""
    ssl_truststore_location: str | None
    """JKS, PKCS12 or PEM file of trusted certificates."""
    ssl_truststore_type: str
    """Format of the truststore: JKS, PKCS12 or PEM. Default: JKS."""
    ssl_truststore_password: str | None
    """Password of the truststore."""
    ssl_truststore_certificates: str | None
    """Trusted certificates as PEM text."""
    ssl_keystore_location: str | None
    """JKS, PKCS12 or PEM file with the client certificate and its private key."""
    ssl_keystore_type: str
    """Format of the keystore: JKS, PKCS12 or PEM. Default: JKS."""
    ssl_keystore_password: str | None
    """Password of the keystore."""
    ssl_keystore_key: str | None
    """Private key as PEM text."""
    ssl_keystore_certificate_chain: str | None
    """Client certificate and its chain as PEM text."""
    ssl_enabled_protocols: str | Sequence[str]
    """Accepted TLS versions, such as TLSv1.2,TLSv1.3; empty selects OpenSSL's default."""
    ssl_context: ssl.SSLContext | None
    """Python SSL context, which replaces all other ``ssl_`` settings."""
    send_buffer_bytes: int
    """Send buffer of a socket, in bytes; -1 selects the system's default. Default: -1."""
    receive_buffer_bytes: int
    """Receive buffer of a socket, in bytes; -1 selects the system's default. Default: -1."""
    header_tags: Sequence[tuple[int, bytes]]
    """Tagged fields (tag, bytes) for the headers of requests with flexible versions (KIP-482)."""
    specs: Specs | None
    """File or folder of message specs that replace those of the catalog."""


class ProducerOptions(ClientOptions, total=False):
    """Options of a producer, in addition to those of every client."""

    acks: int | str
    """Replicas that must have a record: all in-sync ones (all), the leader (1), or none (0). Default: all."""
    compression_type: str
    """Codec of batches: none, gzip, snappy, lz4 or zstd. Default: none."""
    compression_level: int | None
    """Compression level; None selects the codec's default."""
    batch_size: int
    """Size at which a batch is sent, in bytes of records. Default: 16384."""
    linger_ms: int
    """Longest wait for more records before a batch is sent, in milliseconds. Default: 5."""
    buffer_memory: int
    """Memory for queued records, in bytes; ``send`` waits while it is full. Default: 33554432."""
    max_request_size: int
    """Size of the largest record, batch and request, in bytes. Default: 1048576."""
    max_in_flight_requests_per_connection: int
    """Maximum number of Produce requests in flight to one broker. Default: 5."""
    delivery_timeout_ms: int
    """Time after which an unacknowledged record fails, in milliseconds. Default: 120000."""
    max_block_ms: int
    """Longest wait for brokers, metadata and memory, in ``send`` and at a producer's start, in ms. Default: 60000."""
    enable_idempotence: bool | None
    """Whether retries never duplicate records; None is True if acks is all (Kafka 0.11 and later)."""
    transactional_id: str | None
    """Id of a transactional producer; it fences older producers with the same id."""
    transaction_timeout_ms: int
    """Time after which the coordinator aborts an open transaction, in milliseconds. Default: 60000."""
    record_format: int | None
    """Record format 0, 1 or 2; None selects the newest that the broker supports."""
    partitioner: str | Callable[[str, bytes | None, bytes | None, int, Sequence[int]], int | None] | None
    """Partitioner: a function, ``module:function``, or a name such as round_robin or consistent_random."""
    partitioner_ignore_keys: bool
    """Whether the default partitioner ignores keys. Default: False."""
    partitioner_adaptive_partitioning_enable: bool
    """Whether records without a key prefer partitions with short queues (KIP-794). Default: True."""
    partitioner_availability_timeout_ms: int
    """Time without an accepted batch after which a leader is avoided, in ms; 0 disables it. Default: 0."""
    interceptors: str | Sequence[Any]
    """Interceptors: objects with ``on_send`` or ``on_acknowledgement``, or ``module:name`` texts (KIP-42)."""


class ConsumerOptions(ClientOptions, total=False):
    """Options of a consumer, in addition to those of every client."""

    group_id: str | None
    """Group that ``subscribe`` joins and ``commit`` uses."""
    group_instance_id: str | None
    """Id of a static member, which may restart within the session timeout (KIP-345)."""
    group_protocol: str
    """Group protocol: classic, or consumer (KIP-848). Default: classic."""
    group_remote_assignor: str | None
    """The coordinator's assignor, for the consumer protocol: uniform or range."""
    client_rack: str
    """Rack of the client; brokers may suggest a replica in this rack (KIP-392)."""
    partition_assignment_strategy: str | Sequence[str]
    """Assignors of the classic protocol; roundrobin and sticky also exist. Default: range, cooperative-sticky."""
    session_timeout_ms: int
    """Time without a heartbeat after which a classic member is removed, in milliseconds. Default: 45000."""
    heartbeat_interval_ms: int
    """Interval of a classic member's heartbeats, in milliseconds. Default: 3000."""
    max_poll_interval_ms: int
    """Longest time between two polls before a member leaves its group, in milliseconds. Default: 300000."""
    auto_offset_reset: str
    """Position without a committed offset: earliest, latest, by_duration:PT1H, or none (an error). Default: latest."""
    enable_auto_commit: bool
    """Whether positions are committed automatically. Default: True."""
    auto_commit_interval_ms: int
    """Interval of automatic commits, in milliseconds. Default: 5000."""
    isolation_level: str
    """Isolation level: read_uncommitted or read_committed. Default: read_uncommitted."""
    fetch_min_bytes: int
    """Minimum size of a response, in bytes of records. Default: 1."""
    fetch_max_wait_ms: int
    """Longest time that a broker waits for ``fetch_min_bytes``, in milliseconds. Default: 500."""
    fetch_max_bytes: int
    """Largest size of a response, in bytes. Default: 52428800."""
    max_partition_fetch_bytes: int
    """Largest size of one partition's part of a response, in bytes. Default: 1048576."""
    max_poll_records: int
    """Maximum number of records that ``poll`` returns. Default: 500."""
    check_crcs: bool
    """Whether batch checksums are verified. Default: True."""
    formats: Sequence[int]
    """Accepted record formats; a batch of another format is an error. Default: 0, 1, 2."""
    interceptors: str | Sequence[Any]
    """Interceptors: objects with ``on_consume`` or ``on_commit``, or ``module:name`` texts (KIP-42)."""


class ShareConsumerOptions(ClientOptions, total=False):
    """Options of a share consumer, in addition to those of every client (KIP-932)."""

    group_id: str | None
    """Share group to join; required."""
    client_rack: str
    """Rack of the client, which the coordinator's assignor may use."""
    share_acknowledgement_mode: str
    """implicit: a poll accepts the records of the previous poll; explicit: the caller does. Default: implicit."""
    share_acquire_mode: str
    """batch_optimized, or record_limit for at most max_poll_records (KIP-1206). Default: batch_optimized."""
    fetch_min_bytes: int
    """Minimum size of a response, in bytes of records. Default: 1."""
    fetch_max_wait_ms: int
    """Longest time that a broker waits for records, in milliseconds. Default: 500."""
    fetch_max_bytes: int
    """Largest size of a response, in bytes. Default: 52428800."""
    max_poll_records: int
    """Number of records that a poll requests from each leader. Default: 500."""
    max_poll_interval_ms: int
    """Longest time between polls, in milliseconds. After it, the member leaves its group. Default: 300000."""
    check_crcs: bool
    """Whether batch checksums are verified. Default: True."""
