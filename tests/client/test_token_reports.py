"""Public reports about OAUTHBEARER clients: token functions that fail, expiring tokens, extensions, token files."""

from __future__ import annotations

import base64
import json
import threading
import time

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.client import Admin, Consumer, NewTopic, Producer, ShareConsumer
from kafkaframes.client.security.logins import create_exchange
from kafkaframes.client.security.sasl import create_unsecured_token
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import NetworkError, OptionError

BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
SASL = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
TOPIC = "orders"
POLL_MS = 20_000


def read_user(token, now_ms):
    """Return the user of an unsigned token, as a broker that checks the characters and the expiry of tokens."""
    head, _, rest = token.partition(".")
    if json.loads(base64.urlsafe_b64decode(head + "==")) != {"alg": "none"}:
        raise AuthenticationError("unknown algorithm")
    claims = json.loads(base64.urlsafe_b64decode(rest.partition(".")[0] + "=="))
    if claims["exp"] * 1000 < now_ms:
        raise AuthenticationError("expired")
    return claims["sub"]


class Tokens:
    """A token function of a user, whose identity provider can be switched off."""

    def __init__(self, lifetime_s=3600):
        self.lifetime_s = lifetime_s
        self.is_down = False

    def __call__(self):
        if self.is_down:
            raise ConnectionError("the identity provider does not respond, client_secret=hidden7")
        return create_unsecured_token("alice", now_s=time.time(), lifetime_s=self.lifetime_s)


@pytest.fixture
def broker():
    security = Security(needs_sasl=True, mechanisms=("OAUTHBEARER",), check_token=read_user)
    config = {"connections.max.reauth.ms": 3_600_000, "group.share.heartbeat.interval.ms": 200}
    with Broker(security=security, config=config) as broker:
        with Admin(broker.bootstrap_servers, sasl_oauthbearer_token=Tokens(), **SASL) as admin:
            admin.create_topics([NewTopic(TOPIC, 1)])
            admin.alter_configs("group", "queue", {"share.auto.offset.reset": "earliest"})
        yield broker


def switch_on_later(tokens, delay_s=0.5):
    timer = threading.Timer(delay_s, lambda: setattr(tokens, "is_down", False))
    timer.start()
    return timer


def test_the_first_call_of_an_admin_client_requests_a_token(broker):
    """confluent-kafka-python#1296 and #1713, librdkafka#3871: list_topics hung, because only poll called oauth_cb."""
    with Admin(broker.bootstrap_servers, sasl_oauthbearer_token=Tokens(), **SASL) as admin:
        assert admin.list_topics() == [TOPIC]


def test_a_token_function_that_fails_is_called_again(broker):
    """confluent-kafka-python#1394: after an exception of oauth_cb, the client never requested a token again."""
    tokens = Tokens()
    tokens.is_down = True
    timer = switch_on_later(tokens)
    with Admin(broker.bootstrap_servers, sasl_oauthbearer_token=tokens, **SASL) as admin:
        assert admin.list_topics() == [TOPIC]
    timer.join()


def test_the_error_of_a_token_function_is_reported_without_secrets(broker):
    tokens = Tokens()
    tokens.is_down = True
    options = {"default_api_timeout_ms": 300, "sasl_oauthbearer_token": tokens, **SASL}
    with Admin(broker.bootstrap_servers, **options) as admin, pytest.raises(NetworkError) as failure:
        admin.list_topics()
    assert "the function in sasl_oauthbearer_token failed: ConnectionError: the identity" in str(failure.value)
    assert "hidden7" not in str(failure.value)


@pytest.mark.parametrize("client", ["producer", "classic", "consumer", "share"])
def test_clients_continue_after_their_token_function_has_failed(broker, client):
    """confluent-kafka-python#1394: producers failed all later records, and polls raised the function's exception."""
    tokens = Tokens(lifetime_s=1)
    options = {"sasl_oauthbearer_token": tokens, **SASL}
    long_lived = {"sasl_oauthbearer_token": Tokens(), **SASL}
    with Producer(broker.bootstrap_servers, **(options if client == "producer" else long_lived)) as producer:
        producer.send(TOPIC, b"1").result()
        if client == "producer":
            tokens.is_down = True
            time.sleep(1.1)
            timer = switch_on_later(tokens)
            assert producer.send(TOPIC, b"2").result().offset == 1
            timer.join()
            return
        if client == "share":
            consumer = ShareConsumer(broker.bootstrap_servers, group_id="queue", **options)
        else:
            group = {"group_id": "g", "group_protocol": client, "auto_offset_reset": "earliest"}
            consumer = Consumer(broker.bootstrap_servers, **group, **options)
        with consumer:
            consumer.subscribe([TOPIC])
            assert [record.value for record in consumer.poll(POLL_MS)] == [b"1"]
            tokens.is_down = True
            consumer.poll(1_500)
            consumer.poll(500)
            tokens.is_down = False
            producer.send(TOPIC, b"2").result()
            values = set()
            deadline = time.monotonic() + POLL_MS / 1000
            while b"2" not in values and time.monotonic() < deadline:
                values |= {record.value for record in consumer.poll(POLL_MS)}
            assert b"2" in values


@pytest.mark.parametrize("result", [None, "", ("token", 1_700_000_000.0)], ids=["none", "empty", "tuple"])
def test_a_result_that_is_not_a_token_is_named(broker, result):
    """oauth_cb of confluent-kafka returns a tuple. A broker rejects ``str(None)`` with an error about the token."""
    options = {"default_api_timeout_ms": 300, "sasl_oauthbearer_token": lambda: result, **SASL}
    reason = r"returned (empty text|a value of type (tuple|NoneType))"
    with Admin(broker.bootstrap_servers, **options) as admin, pytest.raises(NetworkError, match=reason):
        admin.list_topics()


@pytest.mark.parametrize("to_result", [str.encode, "{}\n".format], ids=["bytes", "newline"])
def test_tokens_as_bytes_and_with_a_newline_are_sent_without_them(broker, to_result):
    """aiokafka#1015 and others read tokens from files of Kubernetes, with open(path, "rb") or with a newline."""
    options = {"sasl_oauthbearer_token": lambda: to_result(Tokens()()), **SASL}
    with Admin(broker.bootstrap_servers, **options) as admin:
        assert admin.list_topics() == [TOPIC]


def test_a_token_is_read_from_the_file_of_the_endpoint_url(broker, tmp_path):
    """The Java clients read ``file:///...`` (KIP-768), and trim the text. A token that expires is read again."""
    path = tmp_path / "token file"
    path.write_text(Tokens(lifetime_s=-1)() + "\n")
    options = {"sasl.oauthbearer.token.endpoint.url": path.as_uri(), "retry_backoff_ms": 1, **SASL}
    with Admin(broker.bootstrap_servers, **options) as admin:
        with pytest.raises(Exception, match="expired"):
            admin.list_topics()
        path.write_text(Tokens()() + "\n")
        assert admin.list_topics() == [TOPIC]
    path.unlink()
    options |= {"default_api_timeout_ms": 300}
    with Admin(broker.bootstrap_servers, **options) as admin, pytest.raises(NetworkError, match="cannot be read"):
        admin.list_topics()


def settings_of(**options):
    return ClientSettings.from_options({"bootstrap.servers": "a:1", **SASL, **options})


def first_message(settings):
    return next(create_exchange(settings, "host", "t")).decode()


@pytest.mark.parametrize(
    "options",
    [
        {"sasl_oauthbearer_extensions": {"logicalCluster": "lkc-1", "identityPoolId": "pool-2"}},
        {"sasl.oauthbearer.extensions": "logicalCluster=lkc-1, identityPoolId=pool-2"},
        {
            "sasl.jaas.config": f'{BEARER} required clientId="a" clientSecret="b" extension_logicalCluster="lkc-1" '
            'extension_identityPoolId="pool-2";',
            "sasl.oauthbearer.token.endpoint.url": "https://a/token",
        },
        {
            "sasl.jaas.config": f'{BEARER} required unsecuredLoginStringClaim_sub="a" '
            'unsecuredLoginExtension_logicalCluster="lkc-1" unsecuredLoginExtension_identityPoolId="pool-2";'
        },
    ],
    ids=["dict", "librdkafka", "jaas", "unsecured"],
)
def test_extensions_are_sent_with_the_token(options):
    """confluent-kafka-python#1795, strimzi-kafka-oauth#227, platformatic/kafka#180: Confluent Cloud requires them."""
    settings = settings_of(**{"sasl_oauthbearer_token": "t", **options})
    initial_response = "n,,\x01auth=Bearer t\x01logicalCluster=lkc-1\x01identityPoolId=pool-2\x01\x01"
    assert first_message(settings) == initial_response


@pytest.mark.parametrize("extensions", ["auth=x", "identity_pool_id=x", "pool=", "pool=\x01", "pool"])
def test_extensions_that_brokers_reject_are_rejected_first(extensions):
    """emqx-docs#3747: a name with underscores fails at the broker, with an error that does not name it."""
    with pytest.raises(OptionError, match="sasl_oauthbearer_extensions"):
        settings_of(sasl_oauthbearer_token="t", sasl_oauthbearer_extensions=extensions)


def test_all_claims_of_unsecured_tokens_are_sent():
    """The options of Java's OAuthBearerUnsecuredLoginCallbackHandler (KIP-255); only ``sub`` had an effect."""
    text = (
        f'{BEARER} required unsecuredLoginPrincipalClaimName="user" unsecuredLoginStringClaim_user="alice" '
        'unsecuredLoginNumberClaim_level="2" unsecuredLoginListClaim_scope="|read|write" '
        'unsecuredLoginLifetimeSeconds="60";'
    )
    token = settings_of(**{"sasl.jaas.config": text}).sasl_oauthbearer_token()
    claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
    assert claims.pop("exp") - claims.pop("iat") == pytest.approx(60)
    assert claims == {"user": "alice", "level": 2.0, "scope": ["read", "write"]}
    with pytest.raises(OptionError, match="need unsecuredLoginStringClaim_sub"):
        settings_of(**{"sasl.jaas.config": f'{BEARER} required unsecuredLoginStringClaim_user="alice";'})
    with pytest.raises(OptionError, match="unsecuredLoginLifetimeSeconds is not a number"):
        settings_of(**{"sasl.jaas.config": text.replace('"60"', '"1h"')})
