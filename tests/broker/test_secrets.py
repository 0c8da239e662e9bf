"""Requests and responses with a secret in each sensitive field: the broker's logs, files, answers and pages do not
contain it.
"""

from __future__ import annotations

import base64
import copy
import json
import os
import socket
import stat
import urllib.request
from contextlib import ExitStack

import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.dispatch.table import collect_apis
from kafkaframes.broker.faults.journal import open_request_log
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.scram import credential_from_password
from kafkaframes.errors import ErrorCode
from kafkaframes.errors.sensitive import (
    CONFIG_FIELDS,
    CONFIG_NAME_FIELDS,
    REQUEST,
    RESPONSE,
    SECRET_FIELDS,
    redact_json,
    redact_message,
)
from kafkaframes.protocol.framing import ClientConnection
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import body_class

SECRET = "QhiddenQvalueQ"
PASSWORD_NAMES = ("ssl.key.password", "sasl.jaas.config", "listener.name.x.ssl.keystore.password", "my.token")
SCRAM_SHA_256 = "SCRAM-SHA-256"


def secret_encodings(secret=SECRET):
    """Return a secret's encodings: as text, as base64 at each alignment, and as hexadecimal digits."""
    secret_forms = {secret, secret.encode().hex()}
    for before in range(3):
        text = base64.b64encode(bytes(before) + secret.encode()).decode()
        secret_forms.add(text[4 if before else 0 : -4])
    return secret_forms


def contains_no_secret(text):
    text = text if isinstance(text, str) else text.decode("latin-1")
    return not any(form in text for form in secret_encodings())


def with_secret(cls, path, **values):
    """Return a message with one element in each array on a path, and values in the path's last struct."""
    root_message = cls()
    holder = root_message
    for name in path:
        field = next(info for info in holder._fields if info.spec.json_name == name)
        child = getattr(cls, field.spec.type.name)()
        is_list = isinstance(getattr(holder, field.attribute), list)
        setattr(holder, field.attribute, [child] if is_list else child)
        holder = child
    for name, value in values.items():
        setattr(holder, name, value)
    return root_message


def attribute_name(cls, path, name):
    root_message = with_secret(cls, path)
    for step in path:
        info = next(field for field in root_message._fields if field.spec.json_name == step)
        root_message = getattr(root_message, info.attribute)
        root_message = root_message[0] if isinstance(root_message, list) else root_message
    return next(field.attribute for field in root_message._fields if field.spec.json_name == name)


def messages_with_secrets():
    """Yield (API key, direction, message) with the secret in one field, for each sensitive field."""
    for (key, direction), paths in SECRET_FIELDS.items():
        cls = body_class(key, direction)
        for path in paths:
            yield (
                key,
                direction,
                with_secret(cls, path[:-1], **{attribute_name(cls, path[:-1], path[-1]): SECRET.encode()}),
            )
    for (key, direction), paths in CONFIG_FIELDS.items():
        cls = body_class(key, direction)
        for path in paths:
            for name in PASSWORD_NAMES:
                kind = getattr(cls, field_type(cls, path))
                key_field = next(
                    field.attribute for field in kind._fields if field.spec.json_name in CONFIG_NAME_FIELDS
                )
                yield key, direction, with_secret(cls, path, **{key_field: name, "value": SECRET})


def field_type(cls, path):
    holder, name = cls(), ""
    for step in path:
        name = next(field.spec.type.name for field in holder._fields if field.spec.json_name == step)
        holder = getattr(cls, name)()
    return name


ALL_MESSAGES = list(messages_with_secrets())


@pytest.mark.parametrize(
    ("key", "direction", "filled_message"), ALL_MESSAGES, ids=lambda value: getattr(type(value), "__name__", "")[:30]
)
def test_secrets_are_removed_from_objects_and_json_at_every_version(key, direction, filled_message):
    before = copy.deepcopy(filled_message)
    assert contains_no_secret(repr(redact_message(key, direction, filled_message)))
    assert filled_message == before  # the handler's message still has the secrets
    shown_count = 0
    for version in range(
        type(filled_message).spec.valid_versions.lowest, type(filled_message).spec.valid_versions.highest + 1
    ):
        try:
            text = json.dumps(filled_message.to_json(version))
        except Exception:  # the version lacks the field
            continue
        shown_count += not contains_no_secret(text)
        assert contains_no_secret(json.dumps(redact_json(key, direction, filled_message.to_json(version))))
    assert shown_count


def test_secrets_in_a_forwarded_request_are_hidden():
    for key, is_hidden in ((51, True), (3, False)):
        envelope = message("EnvelopeRequest")(request_data=key.to_bytes(2, "big") + SECRET.encode())
        assert contains_no_secret(json.dumps(redact_json(58, REQUEST, envelope.to_json(0)))) is is_hidden
        assert contains_no_secret(repr(redact_message(58, REQUEST, envelope)))
    answer = message("EnvelopeResponse")(response_data=SECRET.encode())
    assert contains_no_secret(repr(redact_message(58, RESPONSE, answer)))


class RawConnection:
    """A connection that sends requests and receives answers."""

    def __init__(self, broker):
        host, port = broker.bootstrap_servers.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=60)
        self.connection = ClientConnection(client_id="test")

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.socket.close()

    def send(self, body, version):
        self.connection.send_request(body, version)
        self.socket.sendall(self.connection.data_to_send())
        while (frame := self.connection.next_response()) is None:
            data = self.socket.recv(1 << 16)
            if not data:
                return None
            self.connection.receive_data(data)
        return frame.body

    def authenticate(self, password):
        self.send(message("SaslHandshakeRequest")(mechanism="PLAIN"), 1)
        return self.send(message("SaslAuthenticateRequest")(auth_bytes=b"\0alice\0" + password.encode()), 2)


def test_a_brokers_output_contains_no_secrets(tmp_path, capfd, caplog):
    caplog.set_level(0)
    path = tmp_path / "requests.log"
    with open_request_log(str(path)) as file, ExitStack() as stack:
        security = Security(users={"alice": SECRET}, mechanisms=("PLAIN", "SCRAM-SHA-256"))
        broker = Broker(
            data_dir=tmp_path / "data",
            config={"ssl.truststore.password": SECRET},
            security=security,
            request_log=lambda line: print(line, file=file, flush=True),
            metrics=0,
        )
        shown_texts = [
            repr(security),
            repr(broker),
            repr(security.credentials()),
            repr(credential_from_password(SCRAM_SHA_256, SECRET)),
        ]
        with broker:
            with RawConnection(broker) as other:
                assert other.authenticate(SECRET + "wrong").error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
            wire = stack.enter_context(RawConnection(broker))
            assert wire.authenticate(SECRET).error_code == 0
            served_apis = {api.key: api for api in collect_apis().values()}
            for key, direction, filled_message in ALL_MESSAGES:
                if direction == RESPONSE or key not in served_apis or key == 36:
                    continue
                low, high = served_apis[key].range
                for version in range(low, high + 1):
                    shown_texts.append(repr(wire.send(filled_message, version)))
            request_type = message("DescribeConfigsRequest")
            resource = request_type.DescribeConfigsResource(resource_type=4, resource_name="1", configuration_keys=None)
            for version in range(5):
                request = request_type(resources=[resource], include_synonyms=version > 0)
                answer = wire.send(request, version)
                rows = {row.name: row for row in answer.results[0].configs}
                assert rows["ssl.truststore.password"].is_sensitive
                assert rows["ssl.truststore.password"].value is None
                assert not rows["log.retention.ms"].is_sensitive
                shown_texts.append(repr(answer))
            shown_texts += [broker.journal.text(), *map(repr, broker.journal), broker.report(), repr(broker.call(repr))]
            shown_texts.append(
                urllib.request.urlopen(f"http://127.0.0.1:{broker.metrics_port}/metrics").read().decode()
            )
            assert {"SaslAuthenticate", "AlterUserScramCredentials"} <= {entry.api for entry in broker.journal}
    written_text = path.read_text()
    assert written_text.count("(redacted)") > 10
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    out, err = capfd.readouterr()
    for text in (*shown_texts, written_text, out, err, caplog.text):
        assert contains_no_secret(text)
    for file in (tmp_path / "data").rglob("*"):
        assert file.is_dir() or contains_no_secret(file.read_bytes()), file


def test_truncated_requests_are_logged_without_secrets(tmp_path, capfd, caplog):
    caplog.set_level(0)
    path, shown_texts, sent_count = tmp_path / "requests.log", [], 0
    with (
        open_request_log(str(path)) as file,
        Broker(request_log=lambda line: print(line, file=file, flush=True)) as broker,
    ):
        for key, direction, filled_message in ALL_MESSAGES:
            api = collect_apis().get(key)
            if direction == RESPONSE or api is None:
                continue
            connection = ClientConnection(client_id="test")
            connection.send_request(filled_message, api.range[1])
            frame = connection.data_to_send()[4:]
            for end in {*range(20, len(frame), 5), len(frame) - 1}:
                sent_count += 1
                with RawConnection(broker) as wire:
                    wire.socket.sendall(end.to_bytes(4, "big") + frame[:end])
                    wire.socket.shutdown(socket.SHUT_WR)
                    while wire.socket.recv(1 << 16):
                        pass
        shown_texts += [broker.journal.text(), *map(repr, broker.journal), broker.report()]
    assert sent_count > 100
    out, err = capfd.readouterr()
    for text in (*shown_texts, path.read_text(), out, err, caplog.text):
        assert contains_no_secret(text)
