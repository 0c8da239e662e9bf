"""Redaction: settings of Kafka and of other systems, texts, and fields of messages."""

import dataclasses
import importlib
import json
import pkgutil
import re
import time

import pytest

from kafkaframes.broker.settings.config_values import CONFIG_TYPES, PASSWORD
from kafkaframes.errors.sensitive import (
    REDACTED_TEXT,
    REQUEST,
    RESPONSE,
    SECRET_FIELDS,
    has_secrets,
    is_secret,
    redact_json,
    redact_text,
    redact_value,
)
from kafkaframes.protocol.messages.headers import body_class
from kafkaframes.protocol.spec import catalog

# Settings of type PASSWORD in the clients and brokers of Kafka 4.3 and older releases.
_PASSWORDS = """
    ssl.key.password ssl.keystore.password ssl.truststore.password ssl.keystore.key
    ssl.keystore.certificate.chain ssl.truststore.certificates sasl.jaas.config
    sasl.oauthbearer.client.credentials.client.secret sasl.oauthbearer.assertion.private.key.passphrase
    delegation.token.secret.key delegation.token.master.key password.encoder.secret
    password.encoder.old.secret listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config
    listener.name.internal.ssl.key.password
"""
PASSWORDS = _PASSWORDS.split()
_ELSEWHERE = """
    sasl_password sasl_plain_password clientSecret saslJaasConfig fs.s3a.secret.key fs.s3a.access.key
    fs.s3a.session.token fs.azure.account.key.me.dfs.core.windows.net fs.azure.sas.fixed.token storageOptions
    key secret sig X-Amz-Signature X-Amz-Credential X-Amz-Security-Token Authorization Proxy-Authorization
    Set-Cookie X-Api-Key basic.auth.user.info schema.registry.basic.auth.user.info bearer.auth.token
    connection_string hmac client_assertion PGPASSWORD pwd
"""
ELSEWHERE = _ELSEWHERE.split()
_HARMLESS = """
    secrets sasl.mechanism sasl.oauthbearer.token.endpoint.url delegation.token.max.lifetime.ms
    sasl.oauthbearer.client.credentials.client.id sasl.oauthbearer.assertion.private.key.file
    sasl.tokenauth sasl_tokenauth
    fs.s3a.aws.credentials.provider basic.auth.credentials.source password.encoder.iterations key.deserializer
    ssl.keystore.location ssl.truststore.type forward basic cwd tokenId subscribe username
"""
HARMLESS = _HARMLESS.split()


@pytest.mark.parametrize("name", [*PASSWORDS, *ELSEWHERE, *(name.upper() for name in ELSEWHERE)])
def test_secret_names(name):
    assert is_secret(name)
    assert redact_value(name, "x") == REDACTED_TEXT


@pytest.mark.parametrize("name", [*HARMLESS, *(name for name, kind in CONFIG_TYPES.items() if kind != PASSWORD)])
def test_harmless_names(name):
    assert not is_secret(name)


@pytest.mark.parametrize(
    "text",
    [
        "password=HIDE",
        "{'sasl_password': 'HIDE', 'a': 1}",
        '{"hmac":"HI\\"DE"}',
        '"{\\"password\\":\\"HIDE\\"}"',
        "Settings(sasl_password=b'HIDE')",
        'sasl.jaas.config=org.a.PlainLoginModule required username="u" password="HI \'DE\' \\" HIDE";',
        "http://user:HIDE@host/x",
        "https://HIDE@host",
        "https://h/x?a=1&X-Amz-Signature=HIDE&b=2",
        "Authorization: Bearer HIDE",
        "{'Authorization': 'Basic HIDE'}",
        "ssl.key.password : HIDE",
    ],
)
def test_secrets_in_texts_are_redacted(text):
    assert not re.search("HI|DE", redact_text(text))


@pytest.mark.parametrize("text", ["api_key=18", '{"requestApiKey":3,"x":1}', "ApiKey: -1", "retries=3", "token ring"])
def test_other_texts_are_unchanged(text):
    assert redact_text(text) == text


def test_no_dataclass_has_a_secret_in_its_repr():
    secrets = []
    for package in ("broker", "capture", "client", "scan", "storage", "testing"):
        root = importlib.import_module(f"kafkaframes.{package}")
        for module in pkgutil.walk_packages(root.__path__, f"{root.__name__}."):
            for value in vars(importlib.import_module(module.name)).values():
                if isinstance(value, type) and dataclasses.is_dataclass(value):
                    names = {field.name for field in dataclasses.fields(value) if field.repr}
                    secrets += [
                        (value.__name__, name) for name in names if is_secret(name) and not name.endswith("key")
                    ]
    harmless = {
        ("BrokerState", "credentials"),  # the repr of the credentials hides their fields
        ("TokenBucket", "remaining_tokens"),  # a number: tokens of a rate limit
        ("Login", "by_token"),  # a bool: whether the client uses a delegation token
    }
    assert set(secrets) <= harmless


def test_redaction_of_a_long_text_takes_linear_time():
    for text in (
        "token" * 200_000,
        "a" * 1_000_000,
        "password " * 100_000,
        "://" * 300_000,
        "?a" * 500_000,
        '"' * 10**6,
    ):
        start = time.process_time()
        redact_text(text)
        assert time.process_time() - start < 20


@pytest.mark.parametrize("direction", [REQUEST, RESPONSE])
def test_all_message_fields_with_secret_names_are_redacted(direction):
    secret_name = re.compile(r"^(authBytes|hmac|salt|saltedPassword|.*[pP]assword|.*[sS]ecret)$")
    expected_paths = {}
    for api in catalog.list_apis():
        spec = body_class(api.key, direction).spec
        paths = {path for path in _paths(spec, spec.struct) if secret_name.match(path[-1])}
        if paths:
            expected_paths[api.key, direction] = paths
    assert expected_paths == {
        key: set(paths) for key, paths in SECRET_FIELDS.items() if key[1] == direction and key[0] != 50
    }
    assert all(has_secrets(key) for key, _ in expected_paths)


def _paths(spec, struct, parents=()):
    for field in struct.fields:
        path = (*parents, field.json_name)
        yield path
        if field.type.name in spec.structs and len(parents) < 6:
            yield from _paths(spec, spec.structs[field.type.name], path)


def test_secret_settings_in_messages_are_redacted():
    body = {"resources": [{"configs": [{"name": "ssl.key.password", "value": "x"}, {"name": "a", "value": "b"}]}]}
    assert json.dumps(redact_json(44, REQUEST, body)).count(REDACTED_TEXT) == 1
    topics = {"repartitionSourceTopics": [{"topicConfigs": [{"key": "my.password", "value": "x"}]}]}
    assert REDACTED_TEXT in json.dumps(redact_json(88, REQUEST, {"topology": {"subtopologies": [topics]}}))
