"""SASL and TLS settings of the Java clients with the embedded broker: valid ones connect, invalid ones are rejected."""

import http.server
import json
import threading
from base64 import b64encode
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafkaframes.broker import Broker
from kafkaframes.broker.security.options import OAUTHBEARER, PASSWORD_MECHANISMS, Security
from kafkaframes.broker.security.tls import create_server_context
from kafkaframes.broker.security.tokens import unsecured_token as unsecured
from kafkaframes.client import Admin
from kafkaframes.client.security import jks
from kafkaframes.client.security.sasl import create_unsecured_token
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import AuthenticationError, DecodeError, KafkaframesError, NetworkError, OptionError
from kafkaframes.protocol import jaas

STORES = Path(__file__).parent / "stores"
PLAIN_LOGIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN_MODULE = "kafkashaded.org.apache.kafka.common.security.scram.ScramLoginModule"
BEARER_LOGIN_MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
KRB5_LOGIN_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LOGIN_OPTIONS = 'required username="alice" password="s;\\"1";'


def store(name: str) -> str:
    return str(STORES / name)


def text(name: str) -> str:
    return (STORES / name).read_text()


@pytest.fixture(scope="module")
def secure_broker():
    """A broker that requires TLS, a client certificate, and SASL."""
    context = create_server_context(
        store("server-cert.pem"), store("server-key.pem"), authorities=store("client-cert.pem"), needs_client=True
    )
    with Broker(
        security=Security(
            users={"alice": 's;"1'}, mechanisms=(*PASSWORD_MECHANISMS, OAUTHBEARER), check_token=unsecured, tls=context
        )
    ) as broker:
        yield broker.bootstrap_servers


def topics(servers: str, **settings: str) -> list[str]:
    client_properties = {name.replace("_", "."): value for name, value in settings.items()}
    with Admin(bootstrap_servers=servers, **{"default.api.timeout.ms": "60000", **client_properties}) as admin:
        return admin.list_topics()


TRUST_STORES = {
    "jks": {"ssl_truststore_location": store("trust.jks"), "ssl_truststore_password": "secret1"},
    "jks, unchecked": {"ssl_truststore_location": store("trust.jks")},
    "p12": {
        "ssl_truststore_location": store("trust.p12"),
        "ssl_truststore_password": "secret1",
        "ssl_truststore_type": "PKCS12",
    },
    "pem": {"ssl_truststore_location": store("server-cert.pem"), "ssl_truststore_type": "PEM"},
    "text": {"ssl_truststore_certificates": text("server-cert.pem"), "ssl_truststore_type": "PEM"},
    "one line": {"ssl_truststore_certificates": text("server-cert.pem").replace("\n", " ")},
}
KEY_STORES = {
    "jks": {
        "ssl_keystore_location": store("client.jks"),
        "ssl_keystore_password": "secret1",
        "ssl_key_password": "secret2",
    },
    "p12": {"ssl_keystore_location": store("client.p12"), "ssl_keystore_password": "secret1"},
    "text": {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": text("client-key.pem"),
        "ssl_keystore_certificate_chain": text("client-cert.pem"),
    },
    "encrypted": {
        "ssl_keystore_type": "PEM",
        "ssl_keystore_key": text("client-key-encrypted.pem"),
        "ssl_keystore_certificate_chain": text("client-cert.pem"),
        "ssl_key_password": "secret2",
    },
}
SASL_SETTINGS = {
    "plain": {"sasl_mechanism": "PLAIN", "sasl_jaas_config": f"{PLAIN_LOGIN_MODULE} {LOGIN_OPTIONS}"},
    "scram": {"sasl_mechanism": "SCRAM-SHA-512", "sasl_jaas_config": f"{SCRAM_LOGIN_MODULE} {LOGIN_OPTIONS}"},
    "unsecured": {
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_jaas_config": f'{BEARER_LOGIN_MODULE} required unsecuredLoginStringClaim_sub="alice";',
    },
    "function": {"sasl_mechanism": "OAUTHBEARER", "sasl_oauthbearer_token_provider": f"{__name__}:give_token"},
}
CONNECTION_CASES = [
    *((trust, "jks", "plain") for trust in TRUST_STORES),
    *(("pem", own, "scram") for own in KEY_STORES),
    *(("text", "text", login) for login in SASL_SETTINGS),
]


def give_token() -> str:
    return create_unsecured_token("bob", now_s=1_700_000_000, lifetime_s=10**9)


@pytest.mark.parametrize(("trust", "own", "login"), CONNECTION_CASES)
def test_clients_connect_with_every_kind_of_store_and_login(secure_broker, trust, own, login):
    assert (
        topics(
            secure_broker,
            security_protocol="SASL_SSL",
            **TRUST_STORES[trust],
            **KEY_STORES[own],
            **SASL_SETTINGS[login],
        )
        == []
    )


@pytest.mark.parametrize(
    ("changed_settings", "message"),
    [
        ({"ssl_truststore_password": "wrong"}, r"ssl\.truststore\.location=.*password is wrong"),
        ({"ssl_truststore_location": store("nothing.jks")}, "cannot be read: No such file"),
        ({"ssl_truststore_location": store("client-key.pem")}, "contains no certificates"),
        ({"ssl_truststore_location": store("README.md")}, "is not a PEM, JKS or PKCS#12 store"),
        ({"ssl_truststore_type": "BKS"}, r"ssl\.truststore\.type is 'BKS'; expected one of PEM, JKS, PKCS12"),
        ({"ssl_truststore_location": store("trust.p12"), "ssl_truststore_password": "no"}, "password is wrong"),
        ({"ssl_key_password": "wrong"}, r"ssl\.keystore\.location=.*key's password is wrong"),
        ({"ssl_keystore_location": store("trust.jks"), "ssl_key_password": ""}, "contains no private key"),
        (
            {"sasl_jaas_config": f'{PLAIN_LOGIN_MODULE} required username="alice" password="no";'},
            "SASL_AUTHENTICATION_FAILED|58",
        ),
    ],
)
def test_an_unusable_store_is_reported_with_its_option_and_reason(secure_broker, changed_settings, message):
    settings = {
        "security_protocol": "SASL_SSL",
        **TRUST_STORES["jks"],
        **KEY_STORES["jks"],
        **SASL_SETTINGS["plain"],
        **changed_settings,
    }
    with pytest.raises(KafkaframesError, match=message) as error_info:
        topics(secure_broker, **settings)
    assert "secret1" not in str(error_info.value)


def test_the_host_name_in_a_certificate_is_verified_unless_disabled():
    context = create_server_context(
        store("client-cert.pem"), store("client-key.pem")
    )  # a certificate without any host name
    settings = {"security_protocol": "SSL", "ssl_truststore_location": store("client-cert.pem")}
    with Broker(security=Security(tls=context)) as broker:
        with pytest.raises(AuthenticationError, match="certificate is not valid for"):
            topics(broker.bootstrap_servers, **settings, default_api_timeout_ms="300")
        assert topics(broker.bootstrap_servers, **settings, ssl_endpoint_identification_algorithm="") == []


@pytest.mark.parametrize(
    ("given_settings", "message"),
    [
        ({"sasl.mechanism": "GSSAPI"}, r"GSSAPI needs sasl\.kerberos\.service\.name, or serviceName"),
        ({"sasl.jaas.config": f"{KRB5_LOGIN_MODULE} required;"}, r"GSSAPI needs sasl\.kerberos\.service\.name"),
        (
            {"sasl.mechanism": "GSSAPI", "sasl.jaas.config": f"{PLAIN_LOGIN_MODULE} {LOGIN_OPTIONS}"},
            "GSSAPI; PlainLoginModule requires PLAIN",
        ),
        (
            {"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": f"{KRB5_LOGIN_MODULE} required;"},
            "Krb5LoginModule requires GSSAPI",
        ),
        (
            {"sasl.kerberos.service.name": "a", "sasl.jaas.config": f'{KRB5_LOGIN_MODULE} required serviceName="b";'},
            r"serviceName is b, but sasl\.kerberos\.service\.name is a",
        ),
        (
            {"sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} {LOGIN_OPTIONS}"},
            "sasl.mechanism is PLAIN; ScramLoginModule requires SCRAM-SHA-256 or",
        ),
        (
            {"sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required username="hidden7";'},
            "PlainLoginModule needs username and password",
        ),
        ({"sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required username="hidden7"'}, "semicolon"),
        ({"sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required username="hidden7;'}, "quote is not closed"),
        ({"sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} username="hidden7";'}, "control flag"),
        (
            {"sasl.jaas.config": f"{PLAIN_LOGIN_MODULE} required username=hidden7 {BEARER_LOGIN_MODULE} required;"},
            "second module follows",
        ),
        ({"sasl.jaas.config": "example.MyLoginModule required;"}, "unknown login module MyLoginModule; expected Plain"),
        ({"sasl.login.callback.handler.class": "a.B"}, "token.provider=module:function"),
        ({"sasl.mechanism": "OAUTHBEARER"}, "token.endpoint.url"),
        (
            {"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.endpoint.url": "https://a/t"},
            "needs clientId and clientSecret",
        ),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": "nowhere_at_all:f"}, "nowhere_at_all"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": "json"}, "expected module:function"),
        ({"sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.token.provider": "json:decoder"}, "expected a function"),
        ({"ssl.truststore.locaton": "x"}, "did you mean ssl.truststore.location"),
    ],
)
def test_contradictory_settings_are_rejected_immediately_without_showing_secrets(given_settings, message):
    with pytest.raises(OptionError, match=message) as error_info:
        ClientSettings.from_options(
            {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT", **given_settings}
        )
    assert "hidden7" not in str(error_info.value)


def test_javas_mechanism_means_nothing_where_there_is_no_sasl():
    assert not ClientSettings.from_options({"bootstrap.servers": "a:1", "sasl.mechanism": "GSSAPI"}).uses_sasl


def test_the_repr_of_settings_does_not_show_secrets():
    settings = ClientSettings.from_options(
        {"bootstrap.servers": "a:1", "security.protocol": "SASL_PLAINTEXT", "ssl.keystore.password": "hidden7"}
        | {"sasl.jaas.config": f'{PLAIN_LOGIN_MODULE} required username="alice" password="hidden7";'}
    )
    assert settings.sasl_password == "hidden7"
    assert "hidden7" not in repr(settings)


# ------------------------------------------------------------------------------------------------ OpenID Connect


class _TokenEndpoint(http.server.BaseHTTPRequestHandler):
    token_requests: ClassVar[list[tuple[str, str]]] = []
    answers: ClassVar[list[tuple[int, bytes]]] = []

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.token_requests.append((self.headers["Authorization"], body))
        status, answer = self.answers.pop(0)
        self.send_response(status)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def endpoint():
    _TokenEndpoint.token_requests, _TokenEndpoint.answers = [], []
    server = http.server.HTTPServer(("127.0.0.1", 0), _TokenEndpoint)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/token"
    server.shutdown()
    thread.join()
    server.server_close()


def test_client_credentials_are_exchanged_for_a_token_that_is_cached(endpoint):
    token = {"access_token": give_token(), "expires_in": 300}
    _TokenEndpoint.answers[:] = [(503, b"busy"), (200, json.dumps(token).encode())]
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": endpoint,
        "sasl_jaas_config": f'{BEARER_LOGIN_MODULE} required clientId="me" clientSecret="hidden7" scope="kafka read";',
    }
    with Broker(security=Security(needs_sasl=True, mechanisms=("OAUTHBEARER",), check_token=unsecured)) as broker:
        assert topics(broker.bootstrap_servers, **settings) == []
        assert topics(broker.bootstrap_servers, **settings) == []
    basic = "Basic " + b64encode(b"me:hidden7").decode()
    assert _TokenEndpoint.token_requests == [(basic, "grant_type=client_credentials&scope=kafka+read")] * 2


def test_a_token_that_the_broker_rejects_is_not_used_again(endpoint):
    """strimzi-kafka-operator#3021: after Keycloak had new keys, the client sent the cached token until it expired."""
    _TokenEndpoint.answers[:] = [
        (200, json.dumps({"access_token": token, "expires_in": 300}).encode()) for token in ("old", give_token())
    ]
    settings = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "OAUTHBEARER",
        "sasl_oauthbearer_token_endpoint_url": endpoint,
        "sasl_jaas_config": f'{BEARER_LOGIN_MODULE} required clientId="me" clientSecret="hidden7";',
    }
    with Broker(security=Security(needs_sasl=True, mechanisms=("OAUTHBEARER",), check_token=unsecured)) as broker:
        admin = Admin(broker.bootstrap_servers, **settings)
        with admin, pytest.raises(AuthenticationError):
            admin.list_topics()
        assert topics(broker.bootstrap_servers, **settings) == []
    assert len(_TokenEndpoint.token_requests) == 2


@pytest.mark.parametrize("answer", [(401, b"unknown client"), (200, b"{}"), (200, b"[1]"), (200, b"no")])
def test_an_endpoint_without_a_token_is_an_error_that_shows_no_secret(endpoint, answer, monkeypatch):
    monkeypatch.setattr("time.sleep", lambda _: None)
    _TokenEndpoint.answers[:] = [answer] * 3
    settings = ClientSettings.from_options(
        {
            "bootstrap.servers": "a:1",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.token.endpoint.url": endpoint,
            "sasl.oauthbearer.client.id": "me",
            "sasl.oauthbearer.client.secret": "hidden7",
        }
    )
    with pytest.raises(NetworkError, match="returned no token") as error_info:
        settings.sasl_oauthbearer_token()
    assert "hidden7" not in str(error_info.value)


# ------------------------------------------------------------------------------------------------ hostile bytes

KEY_STORE_BYTES = (STORES / "client.jks").read_bytes()


@given(st.one_of(st.binary(max_size=200).map(lambda raw: jks.JKS_MAGIC + raw), st.data()))
def test_any_bytes_are_read_as_a_store_or_rejected(raw):
    if not isinstance(raw, bytes):
        place = raw.draw(st.integers(0, len(KEY_STORE_BYTES) - 1))
        raw = KEY_STORE_BYTES[:place] + raw.draw(st.binary(min_size=1, max_size=4)) + KEY_STORE_BYTES[place + 1 :]
    try:
        for key in jks.read_key_store(raw, None).keys:
            jks.decrypt_key(key.encrypted_key, "secret2")
    except (DecodeError, OptionError):
        pass


@given(st.text(alphabet='aP."= ;\\', max_size=40))
def test_any_text_is_parsed_as_a_login_or_rejected(given_text):
    try:
        jaas.parse(given_text)
        jaas.parse(f"PlainLoginModule required {given_text};")
    except OptionError:
        pass


@pytest.mark.parametrize(
    ("options", "expected_credentials"),
    [
        ("""username='u' password="p=;'x\"""", ("u", "p=;'x")),
        ("""username='a"b' password='c\\'d'""", ('a"b', "c'd")),
        (r"""username="a\nb\tc\\d\101\7e\q" password=u1""", ("a\nb\tc\\dA\aeq", "u1")),
        (r"""username='\400\18' password=''""", (" 0\x018", "")),
        ("""'username'='q' password='x;y'""", ("q", "x;y")),
    ],
)
def test_quoted_values_are_parsed_as_by_java(options, expected_credentials):
    """The expected values are those that kafka-clients 4.3.1 parses. Single quotes are common in Python strings."""
    login = jaas.parse(f"a.PlainLoginModule required {options};")
    assert (login.options["username"], login.options["password"]) == expected_credentials
