"""What the constructors take as keywords, for editors and mypy: the fields of ``settings``, all of them optional.

``settings`` says what each means and its default; ``properties`` which other names are taken at run time.
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
    api_version: str | Sequence[int] | None
    request_timeout_ms: int
    retries: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    default_api_timeout_ms: int
    metadata_max_age_ms: int
    socket_connection_setup_timeout_ms: int
    max_response_bytes: int
    security_protocol: str
    sasl_mechanism: str
    sasl_username: str | None
    sasl_password: str | None
    sasl_oauthbearer_token: str | Callable[[], str] | None
    sasl_jaas_config: str | None
    sasl_login_callback_handler_class: str | None
    sasl_kerberos_service_name: str | None
    sasl_oauthbearer_token_provider: str | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_header_urlencode: bool
    ssl_cafile: str | None
    ssl_certfile: str | None
    ssl_keyfile: str | None
    ssl_password: str | None
    ssl_check_hostname: bool
    ssl_endpoint_identification_algorithm: str
    ssl_truststore_location: str | None
    ssl_truststore_type: str
    ssl_truststore_password: str | None
    ssl_truststore_certificates: str | None
    ssl_keystore_location: str | None
    ssl_keystore_type: str
    ssl_keystore_password: str | None
    ssl_keystore_key: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_enabled_protocols: str | Sequence[str]
    ssl_context: ssl.SSLContext | None
    send_buffer_bytes: int
    receive_buffer_bytes: int
    header_tags: Sequence[tuple[int, bytes]]
    specs: Specs | None


class ProducerOptions(ClientOptions, total=False):
    """Options of a producer beside those."""

    acks: int | str
    compression_type: str
    compression_level: int | None
    batch_size: int
    linger_ms: int
    buffer_memory: int
    max_request_size: int
    max_in_flight_requests_per_connection: int
    delivery_timeout_ms: int
    max_block_ms: int
    enable_idempotence: bool | None
    transactional_id: str | None
    transaction_timeout_ms: int
    record_format: int | None


class ConsumerOptions(ClientOptions, total=False):
    """Options of a consumer beside those."""

    group_id: str | None
    group_instance_id: str | None
    group_protocol: str
    group_remote_assignor: str | None
    client_rack: str
    partition_assignment_strategy: str | Sequence[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    max_poll_interval_ms: int
    auto_offset_reset: str
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    isolation_level: str
    fetch_min_bytes: int
    fetch_max_wait_ms: int
    fetch_max_bytes: int
    max_partition_fetch_bytes: int
    max_poll_records: int
    check_crcs: bool
    formats: Sequence[int]


def merged(bootstrap_servers: Servers | None, options: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a constructor's arguments as one mapping; keywords win over properties."""
    if bootstrap_servers is None:
        return options
    if isinstance(bootstrap_servers, Mapping):
        return {**bootstrap_servers, **options}
    return {"bootstrap_servers": bootstrap_servers, **options}
