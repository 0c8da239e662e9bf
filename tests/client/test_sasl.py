"""SASL exchanges against the examples of the RFCs, and against dishonest servers."""

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.client import Admin, Producer
from kafkaframes.client.security import sasl
from kafkaframes.errors import BrokerError

# RFC 7677, section 3
NONCE = "rOprNGfwEbeRWgbNEkqO"
FIRST = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
PROOF = b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
LAST = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def scram():
    return sasl.authenticate_scram("SCRAM-SHA-256", "user", "pencil", nonce=NONCE)


def test_scram_as_the_rfc_has_it():
    exchange = scram()
    assert next(exchange) == b"n,,n=user,r=" + NONCE.encode()
    assert exchange.send(FIRST) == PROOF
    with pytest.raises(StopIteration):
        exchange.send(LAST)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"r=other,s=AAAA,i=4096", "nonce"),
        (b"r=" + NONCE.encode() + b",s=AAAA,i=4096", "nonce"),
        (b"r=" + NONCE.encode() + b"x,s=AAAA", "no salt"),
        (b"r=" + NONCE.encode() + b"x,s=?,i=4096", "no salt"),
        (b"r=" + NONCE.encode() + b"x,s=AAAA,i=1", "1 iterations"),
        (b"r=" + NONCE.encode() + b"x,s=AAAA,i=99999999999", "iterations"),
        (b"\xff", "nonce"),
    ],
)
def test_a_challenge_that_is_none(answer, reason):
    exchange = scram()
    next(exchange)
    with pytest.raises(BrokerError, match=reason):
        exchange.send(answer)


def test_a_server_that_does_not_know_the_password():
    exchange = scram()
    next(exchange)
    exchange.send(FIRST)
    with pytest.raises(BrokerError, match="does not prove"):
        exchange.send(b"v=" + b"A" * 44)


def test_plain_and_bearer():
    assert next(sasl.authenticate_plain("u", "p")) == b"\0u\0p"
    exchange = sasl.authenticate_oauthbearer("token")
    assert next(exchange) == b"n,,\x01auth=Bearer token\x01\x01"
    assert exchange.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(BrokerError, match="invalid_token"):
        exchange.send(b"")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_brokers_before_1_0_are_sent_bare_tokens(mechanism):
    login = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": mechanism, "sasl_username": "alice"}
    with Broker(security=Security(users={"alice": "secret"}), broker_release="0.10.2") as broker:
        with Producer(broker.bootstrap_servers, sasl_password="secret", **login) as producer:
            assert producer.send("orders", b"one").result().offset == 0
        admin = Admin(broker.bootstrap_servers, sasl_password="wrong", **login)
        with admin, pytest.raises(BrokerError, match=f"rejected {mechanism} or its credentials"):
            admin.list_topics()
        broker.journal.assert_requested("SaslHandshake", version=0)
        broker.journal.assert_not_requested("SaslAuthenticate")
