"""OAUTHBEARER: token signatures and claims, and that only configured mechanisms and keys are accepted."""

from __future__ import annotations

import base64
import contextlib
import hmac
import json
import os
import re
import subprocess
import sys
import time

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

from kafkaframes.broker import Broker
from kafkaframes.broker.network.http_server import HttpServer, Route
from kafkaframes.broker.requests.api import CloseConnection, DeferredResponse
from kafkaframes.broker.security import tokens
from kafkaframes.broker.security.from_settings import build_security, parse_users, read_private_file
from kafkaframes.broker.security.options import BearerExchange, Credentials, Security
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.security.tokens import ClaimRules, KeySet, SignedTokens, unsecured_token
from kafkaframes.client import Producer
from kafkaframes.errors import ErrorCode, KafkaframesError, OptionError

NOW_SECONDS = 1_700_000_000
NOW_MS = NOW_SECONDS * 1000
RSA_KEY = rsa.generate_private_key(65537, 2048)
WEAK_KEY = rsa.generate_private_key(65537, 1024)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
OTHER_KEY = rsa.generate_private_key(65537, 2048)
CLAIM_RULES = ClaimRules(issuer="https://issuer", audiences=("kafka", "other"), scopes=("kafka.write",))
CLAIMS = {
    "sub": "alice",
    "iss": "https://issuer",
    "aud": ["x", "kafka"],
    "iat": NOW_SECONDS - 5,
    "nbf": NOW_SECONDS - 5,
    "exp": NOW_SECONDS + 60,
    "scope": "openid kafka.write",
}


def encode_base64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def number(value):
    return encode_base64url(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def rsa_jwk(key, **more):
    numbers = key.public_key().public_numbers()
    return {"kty": "RSA", "n": number(numbers.n), "e": number(numbers.e), **more}


def ec_jwk(key, **more):
    numbers = key.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "x": number(numbers.x), "y": number(numbers.y), **more}


KEYS = {
    "keys": [
        rsa_jwk(OTHER_KEY, kid="encryption", use="enc"),
        rsa_jwk(WEAK_KEY, kid="weak"),
        {"kty": "oct", "k": encode_base64url(b"symmetric"), "kid": "oct", "alg": "HS256"},
        {"kty": "EC", "crv": "P-256", "x": number(1), "y": number(1), "kid": "no point"},
        rsa_jwk(RSA_KEY, kid="r", alg="RS256", use="sig"),
        ec_jwk(EC_KEY, kid="e"),
    ]
}


def signed_text(text, algorithm):
    data = text.encode()
    if algorithm == "RS256":
        return RSA_KEY.sign(data, padding.PKCS1v15(), hashes.SHA256())
    r, s = decode_dss_signature(EC_KEY.sign(data, ec.ECDSA(hashes.SHA256())))
    return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def build_token(claims=None, *, algorithm="RS256", kid=None, header=None, text=None, signature=None, **changed_claims):
    """Return a token; ``text`` replaces the claims' JSON, ``changed_claims`` changes or (None) removes claims."""
    head = {"alg": algorithm} | ({} if kid is None else {"kid": kid}) | (header or {})
    claims = {name: value for name, value in ((claims or CLAIMS) | changed_claims).items() if value is not None}
    body = json.dumps(claims) if text is None else text
    signed = f"{encode_base64url(json.dumps(head).encode())}.{encode_base64url(body.encode())}"
    valid_signature = signed_text(signed, algorithm if algorithm in ("RS256", "ES256") else "RS256")
    return f"{signed}.{encode_base64url(valid_signature if signature is None else signature)}"


@pytest.fixture(scope="module")
def token_check(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "jwks.json"
    path.write_text(json.dumps(KEYS))
    return SignedTokens(KeySet(path.as_uri()), CLAIM_RULES)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256"])
@pytest.mark.parametrize("kid", [None, True])
def test_a_signed_token_names_its_user(token_check, algorithm, kid):
    kid = kid and {"RS256": "r", "ES256": "e"}[algorithm]
    assert token_check(build_token(algorithm=algorithm, kid=kid), NOW_MS) == "alice"
    assert token_check(build_token(algorithm=algorithm, kid=kid, nbf=None, aud="other"), NOW_MS) == "alice"
    assert token_check(build_token(algorithm=algorithm, scope=["a", "kafka.write"]), NOW_MS) == "alice"


def forge_tokens():
    whole = build_token()
    header, claims, signature = whole.split(".")
    public = RSA_KEY.public_key().public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    symmetric = f"{encode_base64url(json.dumps({'alg': 'HS256'}).encode())}.{claims}"
    yield "no signature", f"{header}.{claims}."
    yield "unsecured", build_token(algorithm="none", signature=b"")
    yield "unsecured in capitals", build_token(algorithm="NONE", signature=b"")
    yield (
        "the public key used as an HMAC secret",
        f"{symmetric}.{encode_base64url(hmac.digest(public, symmetric.encode(), 'sha256'))}",
    )
    yield (
        "a symmetric key in the key set",
        f"{symmetric}.{encode_base64url(hmac.digest(b'symmetric', symmetric.encode(), 'sha256'))}",
    )
    yield "another's claims", f"{header}.{encode_base64url(json.dumps(CLAIMS | {'sub': 'root'}).encode())}.{signature}"
    yield (
        "another's key",
        build_token(signature=OTHER_KEY.sign(whole.rpartition(".")[0].encode(), padding.PKCS1v15(), hashes.SHA256())),
    )
    yield "a key that is embedded in the token", build_token(header={"jwk": rsa_jwk(OTHER_KEY)}, signature=b"x" * 256)
    yield "the signature of another algorithm", build_token(algorithm="ES256", signature=bytes(64))
    yield "a DER signature", build_token(algorithm="ES256", signature=EC_KEY.sign(b"x", ec.ECDSA(hashes.SHA256())))
    yield "an all-zero ECDSA signature (CVE-2022-21449)", build_token(algorithm="ES256", signature=b"\0" * 64)
    yield "an unknown key", build_token(kid="nobody")
    yield "a key for encryption", build_token(kid="encryption")
    yield "an RSA key that is too short", build_token(kid="weak")
    yield "a key of another type", build_token(kid="e")
    yield "a key id that is not a string", build_token(header={"kid": ["r"]})
    yield "critical extensions", build_token(header={"crit": ["exp"]})
    yield "padding", f"{header}.{claims}.{signature}=="
    yield "a token with white space", f"{header}.{claims}.\n{signature}"
    yield "more parts", f"{whole}.x"
    yield "doubled names", build_token(text='{"sub": "eve", ' + json.dumps(CLAIMS)[1:])
    yield "an array", build_token(text="[1]")
    yield "deep", build_token(text="[" * 30_000)
    yield "long", build_token(text=json.dumps(CLAIMS | {"x": "x" * (1 << 20)}))


FORGED_TOKENS = dict(forge_tokens())


@pytest.mark.parametrize("name", FORGED_TOKENS)
def test_a_forged_token_is_rejected(token_check, name):
    with pytest.raises(AuthenticationError):
        token_check(FORGED_TOKENS[name], NOW_MS)


BAD_TIMES = [
    "NaN",
    "Infinity",
    "-Infinity",
    "1e400",
    "1e300",
    "253402300800",
    "9" * 400,
    "9" * 5000,
    "-1",
    "0",
    '"9999999999"',
]
BAD_TIMES += ["true", "null", "[9999999999]", "{}", "-1e400", '"Infinity"', "1700000000", "1600000000"]


@pytest.mark.parametrize("expires", BAD_TIMES)
def test_an_invalid_expiry_is_rejected(token_check, expires):
    claims = json.dumps({name: value for name, value in CLAIMS.items() if name != "exp"})
    for text in (claims[:-1] + f', "exp": {expires}' + "}",):
        late = NOW_MS + 31_000  # more than the allowed clock skew
        with pytest.raises(AuthenticationError):
            token_check(build_token(text=text), late)
        with pytest.raises(AuthenticationError):
            unsecured_token(build_token(text=text, algorithm="none", signature=b""), late)


@pytest.mark.parametrize(
    "changed_claims",
    [
        {"exp": None},
        {"iat": None},
        {"iat": NOW_SECONDS + 31},
        {"nbf": NOW_SECONDS + 31},
        {"nbf": "5"},
        {"iss": None},
        {"iss": "https://issuer/"},
        {"iss": ["https://issuer"]},
        {"aud": None},
        {"aud": "kafk"},
        {"aud": ["x"]},
        {"aud": {"kafka": 1}},
        {"aud": [["kafka"]]},
        {"scope": None},
        {"scope": "kafka.writer"},
        {"scope": {"kafka.write": 1}},
        {"sub": None},
        {"sub": ""},
        {"sub": "  "},
        {"sub": 5},
        {"sub": ["alice"]},
    ],
)
def test_an_invalid_claim_is_rejected(token_check, changed_claims):
    with pytest.raises(AuthenticationError):
        token_check(build_token(**changed_claims), NOW_MS)


def test_clocks_may_differ_by_the_skew(token_check):
    assert token_check(build_token(exp=NOW_SECONDS - 29, iat=NOW_SECONDS + 29, nbf=NOW_SECONDS + 29), NOW_MS) == "alice"


def test_an_authzid_of_another_user_is_rejected(token_check):
    for acting_for, is_taken in ((b"n,,", True), (b"n,a=alice,", True), (b"n,a=root,", False)):
        exchange = BearerExchange(token_check, lambda: NOW_MS)
        exchange.respond(acting_for + b"\x01auth=Bearer " + build_token().encode() + b"\x01\x01")
        assert (exchange.user == "alice") is is_taken


def test_a_malicious_first_message_is_parsed_in_linear_time(token_check):
    bearer = b"n,,\x01auth=Bearer "
    for message in (bearer + b" " * 500_000, b"n,," + b"\x01a=" * 150_000, bearer + b"x" + b"\x01" * 500_000):
        began = time.process_time()
        exchange = BearerExchange(token_check, lambda: NOW_MS)
        with contextlib.suppress(AuthenticationError):
            exchange.respond(message)
        assert exchange.user is None
        assert time.process_time() - began < 10


def test_new_keys_are_fetched_when_a_token_has_an_unknown_key_id(monkeypatch):
    monkeypatch.setattr(tokens, "_JWKS_RETRY_SECONDS", -1.0)
    published_keys = [{"keys": [rsa_jwk(OTHER_KEY, kid="old")]}]
    server = HttpServer([Route("GET", "/keys", lambda request: published_keys[-1])])
    try:
        token_check = SignedTokens(KeySet(f"{server.url}/keys"), CLAIM_RULES)
        published_keys.append(KEYS)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                assert token_check(build_token(kid="r"), NOW_MS) == "alice"
                break
            except AuthenticationError:
                time.sleep(0.01)
        published_keys.append({"keys": []})  # a failing issuer does not remove keys
        token_check.keys._fetch_key_set()
        assert token_check(build_token(kid="r"), NOW_MS) == "alice"
    finally:
        server.close()


@pytest.mark.parametrize(
    "url", ["http://issuer.example/keys", "ftp://127.0.0.1/x", "keys.json", "", "http://[", "data:,{}"]
)
def test_keys_are_loaded_from_https_a_file_or_loopback(url):
    with pytest.raises(OptionError, match="JWKS"):
        KeySet(url)


def test_redirects_and_invalid_key_sets_are_rejected(tmp_path):
    for text in ("", "[]", "{}", '{"keys": 5}', '{"keys": []}', '{"keys": [{"kty": "RSA"}]}', "[" * 100_000):
        (tmp_path / "keys").write_text(text)
        with pytest.raises(OptionError, match="JWKS"):
            KeySet((tmp_path / "keys").as_uri())
    with pytest.raises(OptionError, match="cannot be read"):
        KeySet((tmp_path / "none").as_uri())


# Enabled mechanisms

UNSECURED_SETTINGS = {"sasl.enabled.mechanisms": "OAUTHBEARER", "kafkaframes.sasl.oauthbearer.allow.unsecured": "true"}


def produce_record(broker, **options):
    options |= {"bootstrap_servers": broker.bootstrap_servers, "security_protocol": "SASL_PLAINTEXT"}
    with Producer(**options) as producer:
        return producer.send("orders", b"x").result().offset


def test_a_token_is_rejected_if_only_passwords_are_enabled():
    """Previously a client with {"alg":"none"}.{"sub":"alice"} was alice on every broker with SASL."""
    eternal = build_token({"sub": "alice", "exp": 10**11}, algorithm="none", signature=b"")
    with Broker(security=Security(users={"alice": "secret"})) as broker:
        with pytest.raises(KafkaframesError, match=r"OAUTHBEARER|UNSUPPORTED_SASL_MECHANISM"):
            produce_record(broker, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=lambda: eternal)
        assert produce_record(broker, sasl_mechanism="PLAIN", sasl_username="alice", sasl_password="secret") == 0
    assert build_security({}, users=["alice=secret"]).mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


def test_only_enabled_mechanisms_are_offered():
    with Broker(security=Security(users={"alice": "secret"}, mechanisms=("SCRAM-SHA-512",))) as broker:
        for mechanism in ("PLAIN", "SCRAM-SHA-256"):
            with pytest.raises(KafkaframesError, match=r"SCRAM-SHA-512|UNSUPPORTED_SASL_MECHANISM"):
                produce_record(broker, sasl_mechanism=mechanism, sasl_username="alice", sasl_password="secret")
        assert (
            produce_record(broker, sasl_mechanism="SCRAM-SHA-512", sasl_username="alice", sasl_password="secret") == 0
        )


def test_unsecured_tokens_require_an_explicit_setting():
    security = build_security(dict(UNSECURED_SETTINGS))
    assert security.needs_sasl
    now = int(time.time())
    with Broker(security=security) as broker:
        text = build_token({"sub": "alice", "exp": now + 600}, algorithm="none", signature=b"")
        assert produce_record(broker, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=lambda: text) == 0


def test_signed_tokens_are_verified_with_keys_from_the_settings(tmp_path):
    path = tmp_path / "keys.json"
    path.write_text(json.dumps(KEYS))
    properties = {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        "sasl.oauthbearer.jwks.endpoint.url": path.as_uri(),
        "sasl.oauthbearer.expected.issuer": "https://issuer",
        "sasl.oauthbearer.expected.audience": "a, kafka",
        "sasl.oauthbearer.clock.skew.seconds": "5",
        "sasl.oauthbearer.sub.claim.name": "email",
        "sasl.oauthbearer.scope.claim.name": "scp",
        "kafkaframes.sasl.oauthbearer.required.scopes": "kafka.write",
    }
    now = int(time.time())
    good = {"email": "a@b", "scp": ["kafka.write"], "iat": now, "exp": now + 600, "nbf": None}
    with Broker(security=build_security(properties)) as broker:
        text = build_token(**good)
        assert produce_record(broker, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=lambda: text) == 0
        forged_token = build_token(**good, signature=b"x" * 256)
        with pytest.raises(KafkaframesError):
            produce_record(broker, sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token=lambda: forged_token)


def test_a_session_ends_with_its_token_unless_the_same_user_reauthenticates(make_client):
    client = make_client()
    clock = client.state.clock
    client.session.is_authenticated = False
    client.state.credentials = Credentials(mechanisms=("OAUTHBEARER", "PLAIN"), check_token=unsecured_token)

    def authenticate(user, expires, version=1):
        handshake = client.ask("SaslHandshake", version, mechanism="OAUTHBEARER")
        if handshake.error_code:
            return handshake.error_code, None
        text = build_token({"sub": user, "exp": expires}, algorithm="none", signature=b"")
        answer = client.send("SaslAuthenticate", 1, auth_bytes=b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01")
        if isinstance(answer, DeferredResponse):
            client.state.waits.advance(1)
            return answer.answer.error_code, None
        return answer.error_code, answer.session_lifetime_ms

    assert authenticate("alice", NOW_SECONDS + 10) == (0, 10_000)
    assert client.ask("Metadata", 9, topics=None).brokers
    assert client.ask("SaslHandshake", 1, mechanism="PLAIN").error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert authenticate("alice", NOW_SECONDS + 20, version=0) == (34, None)
    assert authenticate("alice", NOW_SECONDS + 20) == (0, 20_000)
    clock.advance(15)
    assert client.ask("Metadata", 9, topics=None).brokers
    clock.advance(6)
    with pytest.raises(CloseConnection, match="session expired"):
        client.ask("Metadata", 9, topics=None)
    assert authenticate("root", NOW_SECONDS + 60) == (58, None)
    assert client.session.principal == "User:alice"
    assert client.session.closes_after_response


@pytest.mark.parametrize(("expires", "lifetime_ms"), [(NOW_SECONDS + 3, 3_000), (NOW_SECONDS + 60, 5_000)])
def test_a_session_lasts_no_longer_than_its_token_and_the_setting(make_client, expires, lifetime_ms):
    client = make_client(config={"connections.max.reauth.ms": "5000"})
    client.session.is_authenticated = False
    client.state.credentials = Credentials(mechanisms=("OAUTHBEARER",), check_token=unsecured_token)
    text = build_token({"sub": "alice", "exp": expires}, algorithm="none", signature=b"")
    client.ask("SaslHandshake", 1, mechanism="OAUTHBEARER")
    answer = client.ask("SaslAuthenticate", 1, auth_bytes=b"n,,\x01auth=Bearer " + text.encode() + b"\x01\x01")
    assert answer.session_lifetime_ms == lifetime_ms


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"sasl.enabled.mechanisms": "PLAIN,OAUTHBEARER"}, "require each other"),
        (UNSECURED_SETTINGS | {"sasl.enabled.mechanisms": "PLAIN"}, "requires OAUTHBEARER"),
        (UNSECURED_SETTINGS | {"sasl.oauthbearer.expected.issuer": "x"}, "tokens are then not verified"),
        (UNSECURED_SETTINGS | {"kafkaframes.sasl.oauthbearer.allow.unsecured": "false"}, "require each other"),
        ({"sasl.enabled.mechanisms": "OAUTHBEARER", "sasl.oauthbearer.expected.issuer": "x"}, "require each other"),
        ({"sasl.enabled.mechanisms": "DIGEST-MD5"}, "unknown SASL mechanism DIGEST-MD5"),
    ],
)
def test_insecure_settings_are_rejected(properties, reason):
    with pytest.raises(OptionError, match=reason):
        build_security(dict(properties))


# User files


def test_users_are_read_from_a_file_that_only_its_owner_can_read(tmp_path):
    path = tmp_path / "users"
    path.write_text("# who\nalice=se=cret \n\n bob=b\n")
    path.chmod(0o600)
    assert parse_users(read_private_file(str(path)), source="users") == ["alice=se=cret", "bob=b"]
    for mode in (0o640, 0o604, 0o620, 0o666):
        path.chmod(mode)
        with pytest.raises(OptionError, match=f"mode {mode:04o}.*chmod 600"):
            read_private_file(str(path))
    with pytest.raises(OptionError, match="No such file"):
        read_private_file(str(tmp_path / "none"))
    for text in ("alice", "alice=", "=hunter2", "a=b\nhunter2"):
        with pytest.raises(OptionError, match="NAME=PASSWORD") as caught:
            parse_users(text, source="users")
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("by_file", [True, False])
def test_the_command_reads_passwords_from_a_file_or_the_environment(tmp_path, by_file):
    path, environment = tmp_path / "users", {**os.environ, "KAFKAFRAMES_SASL_USERS": "bob=b\nalice=secret"}
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0", "--sasl", "SCRAM-SHA-256"]
    if by_file:
        del environment["KAFKAFRAMES_SASL_USERS"]
        path.write_text("alice=secret\n")
        path.chmod(0o600)
        command += ["--sasl-users-file", str(path)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        try:
            listening_line = re.match(r"listening on (\S+)", process.stderr.readline())
            options = {"bootstrap_servers": listening_line[1], "security_protocol": "SASL_PLAINTEXT"}
            options |= {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "alice", "sasl_password": "secret"}
            with Producer(**options) as producer:
                assert producer.send("orders", b"x").result().offset == 0
        finally:
            process.terminate()
        assert "secret" not in process.stderr.read()
    if by_file:
        path.chmod(0o644)
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert (result.returncode != 0, "chmod 600" in result.stderr, "=secret" in result.stderr) == (True, True, False)


def test_the_error_of_a_rejected_argument_does_not_show_its_value():
    command = [sys.executable, "-m", "kafkaframes", "broker", "--port", "0"]
    for arguments in (["--sasl-user", "hunter2"], ["--set", "ssl.nothing.password=hunter2"], ["--set", "hunter2"]):
        process = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60, check=False)
        assert process.returncode != 0
        assert ("hunter2" in process.stderr) is (arguments[1] == "hunter2" and arguments[0] == "--set")
