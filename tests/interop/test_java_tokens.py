"""Java's unmodified client authenticates and reauthenticates with valid tokens and passwords, and is rejected with
invalid ones.
"""

from __future__ import annotations

import base64
import http.server
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from tests.interop import brokers

from kafkaframes.broker import Broker
from kafkaframes.broker.security.from_settings import build_security
from kafkaframes.broker.security.options import Security

SOURCE = Path(__file__).parent / "java" / "clients" / "Sessions.java"
VERSION = "4.3.1"
KEY, ANOTHER = (rsa.generate_private_key(65537, 2048) for _ in range(2))
BEARER_PACKAGE = "org.apache.kafka.common.security.oauthbearer."
TOKEN_LIFETIME_S = 4
MIN_REAUTHENTICATIONS = 2


def encode_base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def signed_token(key: rsa.RSAPrivateKey) -> str:
    """Create a token for alice that is valid for some seconds."""
    now = time.time()
    claims = {"sub": "alice", "iat": int(now), "exp": now + TOKEN_LIFETIME_S, "scope": "kafka", "aud": "brokers"}
    parts = (json.dumps(part).encode() for part in ({"alg": "RS256", "kid": "k"}, claims))
    text = ".".join(map(encode_base64url, parts))
    return f"{text}.{encode_base64url(key.sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def key_set() -> str:
    numbers = KEY.public_key().public_numbers()
    modulus, exponent = (
        encode_base64url(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e)
    )
    return json.dumps({"keys": [{"kty": "RSA", "kid": "k", "alg": "RS256", "use": "sig", "n": modulus, "e": exponent}]})


@pytest.fixture
def issuer() -> Iterator[Callable[[rsa.RSAPrivateKey], str]]:
    """A server that issues a new signed token for each request."""
    keys: list[rsa.RSAPrivateKey] = []

    class Endpoint(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            answer = json.dumps({"access_token": signed_token(keys[0]), "expires_in": TOKEN_LIFETIME_S}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: object) -> None:
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()

    def start(key: rsa.RSAPrivateKey) -> str:
        keys.append(key)
        return f"http://127.0.0.1:{server.server_port}/token"

    yield start
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module")
def sessions(oracle: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs the Java program with a client's properties."""
    libraries = brokers.kafka_or_skip(oracle, VERSION).module.fetch(VERSION)
    folder = tmp_path_factory.mktemp("classes")
    classpath = f"{folder}:{libraries}/*"
    subprocess.run(["javac", "-cp", classpath, "-d", folder, SOURCE], check=True, timeout=300)

    def run(properties: Mapping[str, str], *, url: str = "") -> subprocess.CompletedProcess[str]:
        file = folder / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        allowed_urls = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={url}"
        command = [
            "java",
            "-Xmx256m",
            allowed_urls,
            "-cp",
            classpath,
            "Sessions",
            str(file),
            str(MIN_REAUTHENTICATIONS),
        ]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)

    return run


def client(broker: Broker, mechanism: str, login: str, **more: str) -> dict[str, str]:
    """Return the properties of a client with short timeouts."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": login,
        "request.timeout.ms": "8000",
        "delivery.timeout.ms": "10000",
        "max.block.ms": "10000",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def check_done(process: subprocess.CompletedProcess[str]) -> None:
    """Check that producer and consumer have reauthenticated without losing records."""
    match = re.search(r"(\d+) sent, (\d+) read, (\d+), (\d+)", process.stdout)
    assert match is not None, process.stdout[-2000:] + process.stderr[-4000:]
    sent_count, read, *again = map(int, match.groups())
    assert sent_count == read
    assert min(again) >= MIN_REAUTHENTICATIONS


@pytest.mark.parametrize("key", [KEY, ANOTHER], ids=["ours", "another's"])
def test_only_tokens_signed_by_a_configured_key_are_accepted(sessions, issuer, tmp_path, key):
    (tmp_path / "keys.json").write_text(key_set())
    url = issuer(key)
    security = build_security(
        {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri(),
            "sasl.oauthbearer.expected.audience": "brokers",
            "sasl.oauthbearer.clock.skew.seconds": "1",
        }
    )
    with Broker(security=security) as broker:
        login = f'{BEARER_PACKAGE}OAuthBearerLoginModule required clientId="me" clientSecret="secret";'
        handler = f"{BEARER_PACKAGE}OAuthBearerLoginCallbackHandler"
        more = {"sasl_login_callback_handler_class": handler, "sasl_oauthbearer_token_endpoint_url": url}
        process = sessions(client(broker, "OAUTHBEARER", login, **more), url=url)
    if key is KEY:
        check_done(process)
    else:
        assert "SaslAuthenticationException" in process.stderr, process.stdout + process.stderr


@pytest.mark.parametrize("allows", [True, False])
def test_unsecured_tokens_are_accepted_only_if_enabled(sessions, tmp_path, allows):
    unsecured_setting = "kafkaframes.sasl.oauthbearer.allow.unsecured"
    (tmp_path / "keys.json").write_text(key_set())
    properties = (
        {unsecured_setting: "true"}
        if allows
        else {"sasl.oauthbearer.jwks.endpoint.url": (tmp_path / "keys.json").as_uri()}
    )
    with Broker(security=build_security({"sasl.enabled.mechanisms": "OAUTHBEARER"} | properties)) as broker:
        claims = f'unsecuredLoginStringClaim_sub="alice" unsecuredLoginLifetimeSeconds="{TOKEN_LIFETIME_S}"'
        process = sessions(client(broker, "OAUTHBEARER", f"{BEARER_PACKAGE}OAuthBearerLoginModule required {claims};"))
    if allows:
        check_done(process)
    else:
        assert "SaslAuthenticationException" in process.stderr, process.stdout + process.stderr


@pytest.mark.parametrize(("mechanism", "module"), [("PLAIN", "plain.Plain"), ("SCRAM-SHA-512", "scram.Scram")])
def test_password_sessions_expire_after_the_configured_time(sessions, mechanism, module):
    security, config = Security(users={"alice": "secret"}), {"connections.max.reauth.ms": 2_500}
    login = f'org.apache.kafka.common.security.{module}LoginModule required username="alice" password="secret";'
    with Broker(security=security, config=config) as broker:
        check_done(sessions(client(broker, mechanism, login)))
