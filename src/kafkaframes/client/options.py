"""What the constructors take as keywords, for editors and mypy: the fields of ``settings``, all of them optional.

An editor shows the text below a name; ``properties`` says which other names are taken at run time, when nothing imports
this: the types would take 30 ms of each worker of Spark's.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypedDict

from kafkaframes.protocol.messages.registry import Specs

Servers = str | Sequence[str] | Mapping[str, Any]  # host:port, several, or a dict of properties


class ClientOptions(TypedDict, total=False):
    """Options of every client."""

    client_id: str
    """The name that brokers know this client by, in logs and quotas. Default: kafkaframes."""
    api_version: str | Sequence[int] | None
    """A release ("0.8.2", "2.8") whose versions are spoken; None asks each broker."""
    request_timeout_ms: int
    """How long an answer may take. Default: 30000."""
    retries: int
    """How often a request that failed for a while is sent again, within the time that it has. Default: 2147483647."""
    retry_backoff_ms: int
    """The first pause before that; it doubles. Default: 100."""
    retry_backoff_max_ms: int
    """The longest pause. Default: 1000."""
    reconnect_backoff_ms: int
    """The first pause before a broker that did not answer is tried again; it doubles. Default: 50."""
    reconnect_backoff_max_ms: int
    """The longest pause. Default: 1000."""
    default_api_timeout_ms: int
    """How long a call may take with all its tries. Default: 60000."""
    metadata_max_age_ms: int
    """After this, topics and leaders are looked up again. Default: 300000."""
    socket_connection_setup_timeout_ms: int
    """How long opening a connection may take. Default: 10000."""
    max_response_bytes: int
    """A larger answer closes the connection. Default: 104857600."""
    metrics_num_samples: int
    """Number of samples that rates, averages and maxima of ``metrics()`` are computed from. Default: 2."""
    metrics_sample_window_ms: int
    """Duration of a sample, in milliseconds. Default: 30000."""
    security_protocol: str
    """PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Default: PLAINTEXT."""
    sasl_mechanism: str
    """PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI or AWS_MSK_IAM. Default: PLAIN."""
    sasl_username: str | None
    """The user of PLAIN and SCRAM."""
    sasl_password: str | None
    """The user's password."""
    sasl_tokenauth: bool
    """Whether name and password, of SCRAM, are the id and the HMAC of a delegation token. Default: False."""
    sasl_oauthbearer_token: str | Callable[[], str] | None
    """A token, or a function that gives a fresh one."""
    sasl_jaas_config: str | None
    """Java's login in one line: module, control flag, options, semicolon."""
    sasl_login_callback_handler_class: str | None
    """Java's class that gets tokens; those of Kafka and Amazon MSK are known by their names."""
    sasl_kerberos_service_name: str | None
    """What brokers are called in their principals, of GSSAPI: often kafka."""
    sasl_kerberos_principal: str | None
    """Who to be, of GSSAPI; by default whom the keytab or the ticket cache is of."""
    sasl_kerberos_keytab: str | None
    """A file with the principal's keys; without one, tickets come from a cache, as kinit fills it."""
    sasl_kerberos_ticket_cache: str | None
    """A ticket cache; by default that of the process."""
    sasl_oauthbearer_token_provider: str | None
    """``module:function`` that gives tokens."""
    sasl_oauthbearer_token_endpoint_url: str | None
    """Where tokens are got with client credentials."""
    sasl_oauthbearer_client_credentials_client_id: str | None
    """The id at the token endpoint."""
    sasl_oauthbearer_client_credentials_client_secret: str | None
    """The secret at the token endpoint."""
    sasl_oauthbearer_scope: str | None
    """The scope that is asked of the token endpoint."""
    sasl_oauthbearer_header_urlencode: bool
    """Whether id and secret are URL-encoded for the token endpoint. Default: False."""
    ssl_cafile: str | None
    """A PEM file of certificates that brokers are checked by; without it, the system's."""
    ssl_certfile: str | None
    """A PEM file with this client's certificate."""
    ssl_keyfile: str | None
    """A PEM file with its private key."""
    ssl_password: str | None
    """The private key's password."""
    ssl_check_hostname: bool
    """Whether a broker's certificate has to name its host. Default: True."""
    ssl_endpoint_identification_algorithm: str
    """The same in Java's words: https, or empty for no check. Default: https."""
    ssl_truststore_location: str | None
    """A JKS, PKCS12 or PEM file of certificates that brokers are checked by."""
    ssl_truststore_type: str
    """JKS, PKCS12 or PEM. Default: JKS."""
    ssl_truststore_password: str | None
    """The truststore's password."""
    ssl_truststore_certificates: str | None
    """The certificates themselves, as PEM."""
    ssl_keystore_location: str | None
    """A JKS, PKCS12 or PEM file with this client's certificate and key."""
    ssl_keystore_type: str
    """JKS, PKCS12 or PEM. Default: JKS."""
    ssl_keystore_password: str | None
    """The keystore's password."""
    ssl_keystore_key: str | None
    """The private key itself, as PEM."""
    ssl_keystore_certificate_chain: str | None
    """The certificates themselves, as PEM."""
    ssl_enabled_protocols: str | Sequence[str]
    """Such as TLSv1.2,TLSv1.3; empty is what OpenSSL takes."""
    ssl_context: ssl.SSLContext | None
    """A context of Python's, instead of all other ``ssl_`` options."""
    send_buffer_bytes: int
    """Of a socket; -1 is the system's. Default: -1."""
    receive_buffer_bytes: int
    """Of a socket; -1 is the system's. Default: -1."""
    header_tags: Sequence[tuple[int, bytes]]
    """Tagged fields, as pairs of tag and bytes, for the header of every request of a flexible version (KIP-482)."""
    specs: Specs | None
    """Message specs of your own, before the catalog's: their file or folder."""


class ProducerOptions(ClientOptions, total=False):
    """Options of a producer beside those."""

    acks: int | str
    """Who must have a record before it counts as written: all, 1 (the leader) or 0 (nobody says). Default: all."""
    compression_type: str
    """none, gzip, snappy, lz4 or zstd. Default: none."""
    compression_level: int | None
    """The codec's level; None is its own default."""
    batch_size: int
    """So many bytes of records of one partition make a batch. Default: 16384."""
    linger_ms: int
    """How long records gather before a batch that is not full is sent. Default: 5."""
    buffer_memory: int
    """So many bytes may wait; then ``send`` does. Default: 33554432."""
    max_request_size: int
    """Size of the largest record, batch and request, in bytes. Default: 1048576."""
    max_in_flight_requests_per_connection: int
    """Requests that wait for an answer of one broker. Default: 5."""
    delivery_timeout_ms: int
    """After this, a record that is not written has failed. Default: 120000."""
    max_block_ms: int
    """How long a producer's start, ``send`` and tables may wait for brokers, metadata and memory. Default: 60000."""
    enable_idempotence: bool | None
    """Whether nothing is written twice; None: where acks is all and the brokers can (0.11 and later)."""
    transactional_id: str | None
    """The name of a transactional producer: an older one of that name is fenced off."""
    transaction_timeout_ms: int
    """After this, the coordinator aborts a transaction that is open. Default: 60000."""
    record_format: int | None
    """0, 1 or 2; None is the newest that the broker takes."""
    partitioner: str | Callable[[str, bytes | None, bytes | None, int, Sequence[int]], int | None] | None
    """Chooses partitions: a function, ``module:function``, or a name such as round_robin or consistent_random."""
    partitioner_ignore_keys: bool
    """Whether the default partitioner spreads records with a key as it does those without. Default: False."""
    partitioner_adaptive_partitioning_enable: bool
    """Whether records without a key prefer partitions with short queues (KIP-794). Default: True."""
    partitioner_availability_timeout_ms: int
    """Records without a key avoid leaders that took no batch for this long; 0 turns this off. Default: 0."""
    interceptors: str | Sequence[Any]
    """Objects with ``on_send`` or ``on_acknowledgement``, or ``module:name`` with commas (KIP-42)."""


class ConsumerOptions(ClientOptions, total=False):
    """Options of a consumer beside those."""

    group_id: str | None
    """The group that ``subscribe`` joins, and that offsets are committed for."""
    group_instance_id: str | None
    """A name that makes a static member: it may be away for the session's time."""
    group_protocol: str
    """classic, or consumer (KIP-848). Default: classic."""
    group_remote_assignor: str | None
    """The coordinator's assignor in the protocol consumer: uniform or range."""
    client_rack: str
    """Brokers that choose by it name a replica near by to read from (KIP-392)."""
    partition_assignment_strategy: str | Sequence[str]
    """Assignors of the protocol classic, roundrobin and sticky among them. Default: range, cooperative-sticky."""
    session_timeout_ms: int
    """After this without a heartbeat, a classic member has left. Default: 45000."""
    heartbeat_interval_ms: int
    """How often a classic member sends a heartbeat, in the background. Default: 3000."""
    max_poll_interval_ms: int
    """The longest time between two polls, and how long a rebalance waits for a member. Default: 300000."""
    auto_offset_reset: str
    """Start without a committed offset: earliest, latest, by_duration:PT1H, or none (error). Default: latest."""
    enable_auto_commit: bool
    """Whether what was handed out is committed by itself. Default: True."""
    auto_commit_interval_ms: int
    """How often. Default: 5000."""
    isolation_level: str
    """read_uncommitted or read_committed. Default: read_uncommitted."""
    fetch_min_bytes: int
    """A broker waits until it has so many. Default: 1."""
    fetch_max_wait_ms: int
    """How long it waits at most. Default: 500."""
    fetch_max_bytes: int
    """The most of one answer. Default: 52428800."""
    max_partition_fetch_bytes: int
    """The most of one partition in an answer. Default: 1048576."""
    max_poll_records: int
    """The most that ``poll`` gives. Default: 500."""
    check_crcs: bool
    """Whether checksums are verified. Default: True."""
    formats: Sequence[int]
    """The record formats that this consumer reads; another is an error. Default: 0, 1, 2."""
    interceptors: str | Sequence[Any]
    """Objects with ``on_consume`` or ``on_commit``, or ``module:name`` with commas (KIP-42)."""


class ShareConsumerOptions(ClientOptions, total=False):
    """Options of a share consumer, in addition to those of every client (KIP-932)."""

    group_id: str | None
    """The share group; required."""
    client_rack: str
    """Rack of the client, which the coordinator's assignor may use."""
    share_acknowledgement_mode: str
    """implicit: the next poll accepts the last one's records; explicit: the caller does. Default: implicit."""
    share_acquire_mode: str
    """batch_optimized, or record_limit for at most max_poll_records (KIP-1206). Default: batch_optimized."""
    fetch_min_bytes: int
    """A broker waits until it has so many bytes of records. Default: 1."""
    fetch_max_wait_ms: int
    """How long a broker waits for records, in milliseconds. Default: 500."""
    fetch_max_bytes: int
    """Largest size of a response, in bytes. Default: 52428800."""
    max_poll_records: int
    """Number of records that a poll asks each leader for. Default: 500."""
    check_crcs: bool
    """Whether checksums are verified. Default: True."""
