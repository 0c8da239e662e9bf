"""Situations from public reports about TLS and SASL settings: the cause is reported at once, with the setting."""

import socket
import threading
from pathlib import Path

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.tls import create_server_context
from kafkaframes.client import Admin, Consumer, Producer
from kafkaframes.errors import AuthenticationError, NetworkError, OptionError

STORES = Path(__file__).parent / "stores"
SERVER, SERVER_KEY, CLIENT, CLIENT_KEY, ENCRYPTED_KEY = (
    str(STORES / name)
    for name in ("server-cert.pem", "server-key.pem", "client-cert.pem", "client-key.pem", "client-key-encrypted.pem")
)


@pytest.fixture(scope="module")
def servers():
    with Broker(security=Security(tls=create_server_context(SERVER, SERVER_KEY))) as broker:
        yield broker.bootstrap_servers


def list_topics(servers, **settings):
    with Admin(servers, **settings) as admin:
        return admin.list_topics()


def poll_consumer(servers, **settings):
    with Consumer(servers, group_id="g", **settings) as consumer:
        consumer.subscribe(["t"])
        return consumer.poll(timeout_ms=30_000)


def send_record(servers, **settings):
    with Producer(servers, **settings) as producer:
        return producer.send("t", b"v").result()


@pytest.mark.parametrize("use", [list_topics, poll_consumer, send_record])
def test_a_certificate_of_an_unknown_authority_is_not_retried(servers, use):
    """confluent-kafka-python #1731, kafka-python #1957: a client that retries reports the cause only in its log.

    The Java clients raise SslAuthenticationException at once.
    """
    with pytest.raises(AuthenticationError, match=r"certificate was rejected: .*; `ssl_cafile` specifies the trusted"):
        use(servers, security_protocol="SSL", ssl_cafile=CLIENT)


def test_the_authority_is_verified_even_if_the_host_name_is_not(servers):
    """kafka-python #1452 and #1957, kafkajs #70: ``ssl_check_hostname=False`` disables only the host name check."""
    with pytest.raises(AuthenticationError, match="certificate was rejected"):
        list_topics(servers, security_protocol="SSL", ssl_cafile=CLIENT, ssl_check_hostname=False)


def test_a_certificate_of_another_host_is_reported_with_the_setting():
    """See kafka-python #2013 and #1770."""
    with Broker(security=Security(tls=create_server_context(CLIENT, CLIENT_KEY))) as broker:
        settings = {"security_protocol": "SSL", "ssl_cafile": CLIENT}
        with pytest.raises(AuthenticationError, match=r"'127\.0\.0\.1'; `ssl_check_hostname=False` accepts"):
            list_topics(broker.bootstrap_servers, **settings)
        assert list_topics(broker.bootstrap_servers, **settings, ssl_check_hostname=False) == []


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"ssl_cafile": "no.pem"}, r"ssl_cafile=no\.pem: cannot be read: No such file"),
        ({"ssl_cafile": SERVER_KEY}, rf"ssl_cafile={SERVER_KEY}: expected certificates in PEM format"),
        ({"ssl_certfile": "no.pem"}, r"ssl_certfile=no\.pem: cannot be read"),
        ({"ssl_certfile": CLIENT, "ssl_keyfile": "no.pem"}, r"ssl_keyfile=no\.pem: cannot be read"),
        ({"ssl_certfile": CLIENT, "ssl_keyfile": SERVER_KEY}, "the key does not belong to the certificate"),
        ({"ssl_certfile": CLIENT, "ssl_keyfile": ENCRYPTED_KEY}, "an encrypted key needs `ssl_password`"),
        ({"ssl_certfile": CLIENT, "ssl_keyfile": ENCRYPTED_KEY, "ssl_password": "?"}, "is `ssl_password` the password"),
    ],
)
def test_an_unusable_file_is_named(servers, settings, reason):
    """OpenSSL prompts for the password of an encrypted key, which blocks a service without a terminal."""
    with pytest.raises(OptionError, match=reason):
        list_topics(servers, security_protocol="SSL", **settings)


@pytest.mark.parametrize(
    ("answer", "protocol", "error"),
    [
        # KAFKA-4493: a TLS alert read as the size 352,518,912
        (bytes.fromhex("15030300020250"), "PLAINTEXT", NetworkError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "PLAINTEXT", NetworkError),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "SSL", AuthenticationError),
    ],
)
def test_a_port_of_another_protocol_is_suspected(answer, protocol, error):
    """KAFKA-4493, logstash-input-kafka #153, Burrow #435, kafkajs #1643: out of memory, or "no brokers available"."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer_all():
            while True:
                try:
                    client, _ = server.accept()
                except OSError:
                    return
                with client:
                    client.recv(1 << 16)
                    client.sendall(answer)

        threading.Thread(target=answer_all, daemon=True).start()
        with pytest.raises(error, match=r"does this port use TLS\?"):
            list_topics(
                f"127.0.0.1:{server.getsockname()[1]}", security_protocol=protocol, default_api_timeout_ms=1_000
            )
        server.shutdown(socket.SHUT_RDWR)


def test_a_missing_client_certificate_is_suspected():
    context = create_server_context(SERVER, SERVER_KEY, authorities=CLIENT, needs_client=True)
    with Broker(security=Security(tls=context)) as broker:
        settings = {"security_protocol": "SSL", "ssl_cafile": SERVER, "default_api_timeout_ms": 1_000}
        with pytest.raises(NetworkError, match=r"does it require `ssl_certfile`\?"):
            list_topics(broker.bootstrap_servers, **settings)


def test_settings_without_effect_are_logged_once(caplog):
    """librdkafka also warns: "sasl.mechanism set to PLAIN but security.protocol is not configured for SASL"."""
    with Broker() as broker:
        list_topics(broker.bootstrap_servers, sasl_username="alice", sasl_password="secret", ssl_cafile=SERVER)
    assert [record.getMessage() for record in caplog.records if "no effect" in record.getMessage()] == [
        "client 'kafkaframes': sasl_username, sasl_password, ssl_cafile have no effect, "
        "because security_protocol is PLAINTEXT"
    ]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
@pytest.mark.parametrize("use", [list_topics, poll_consumer, send_record])
def test_a_wrong_password_is_not_retried(mechanism, use):
    """See confluent-kafka-python #1398 and kafka-rest #807."""
    with Broker(security=Security(users={"alice": "secret"})) as broker:
        settings = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism}
        with pytest.raises(AuthenticationError, match="the broker rejected the credentials"):
            use(broker.bootstrap_servers, **settings, sasl_username="alice", sasl_password="other")
