"""SASL exchanges with the examples of the RFCs, and with dishonest servers."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import Admin, Producer
from kafkaframes.client.security import sasl
from kafkaframes.errors import BrokerError

# RFC 7677, section 3
RFC_NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram():
    return sasl.authenticate_scram("SCRAM-SHA-256", "user", "pencil", nonce=RFC_NONCE)


def test_scram_matches_the_rfc_example():
    exchange = scram()
    assert next(exchange) == b"n,,n=user,r=" + RFC_NONCE.encode()
    assert exchange.send(SERVER_FIRST) == CLIENT_FINAL
    with pytest.raises(StopIteration):
        exchange.send(SERVER_FINAL)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"r=other,s=AAAA,i=4096", "nonce"),
        (b"r=" + RFC_NONCE.encode() + b",s=AAAA,i=4096", "nonce"),
        (b"r=" + RFC_NONCE.encode() + b"x,s=AAAA", "no salt"),
        (b"r=" + RFC_NONCE.encode() + b"x,s=?,i=4096", "no salt"),
        (b"r=" + RFC_NONCE.encode() + b"x,s=AAAA,i=1", "1 iterations"),
        (b"r=" + RFC_NONCE.encode() + b"x,s=AAAA,i=99999999999", "iterations"),
        (b"\xff", "nonce"),
    ],
)
def test_an_invalid_challenge_is_rejected(answer, reason):
    exchange = scram()
    next(exchange)
    with pytest.raises(BrokerError, match=reason):
        exchange.send(answer)


def test_a_server_without_the_password_is_rejected():
    exchange = scram()
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(BrokerError, match="does not prove"):
        exchange.send(b"v=" + b"A" * 44)


def test_the_reason_of_a_server_is_reported():
    """RFC 5802, section 7: ``e=`` and a reason, in place of the server's signature."""
    exchange = scram()
    next(exchange)
    exchange.send(SERVER_FIRST)
    with pytest.raises(BrokerError, match=r"rejected the credentials .*: unknown-user"):
        exchange.send(b"e=unknown-user")


def test_plain_and_bearer_messages_have_the_rfc_format():
    assert next(sasl.authenticate_plain("u", "p")) == b"\0u\0p"
    exchange = sasl.authenticate_oauthbearer("token")
    assert next(exchange) == b"n,,\x01auth=Bearer token\x01\x01"
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(BrokerError, match="invalid_token"):
        exchange.send(b"")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_brokers_before_1_0_get_bare_tokens(mechanism):
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_username": "alice"}
    with Broker(security=Security(users={"alice": "secret"}), broker_release="0.10.2") as broker:
        with Producer(broker.bootstrap_servers, sasl_password="secret", **login) as producer:
            assert producer.send("orders", b"one").result().offset == 0
        admin = Admin(broker.bootstrap_servers, sasl_password="wrong", **login)
        with admin, pytest.raises(BrokerError, match=f"rejected {mechanism} or its credentials"):
            admin.list_topics()
        broker.journal.assert_requested("SaslHandshake", version=0)
        broker.journal.assert_not_requested("SaslAuthenticate")
