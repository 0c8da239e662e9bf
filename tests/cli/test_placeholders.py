"""Settings read secrets from files and from the environment."""

import pytest

from kafkaframes.cli.broker import _parse_settings
from kafkaframes.cli.connecting import merge_connection_settings
from kafkaframes.cli.placeholders import resolve_placeholders
from kafkaframes.cli.table import command as table
from kafkaframes.errors import OptionError


@pytest.fixture
def secrets(tmp_path):
    path = tmp_path / "secrets.properties"
    path.write_text("sasl.password = p=w#1\nother=2\n")
    path.chmod(0o600)
    return path


def test_a_value_comes_from_the_environment_or_from_a_file(secrets, monkeypatch):
    monkeypatch.setenv("PASSWORD", "${env:HOME}")  # a value is not resolved again
    assert resolve_placeholders(
        {
            "a": "${env:PASSWORD}",
            "b": f"${{file:{secrets}:sasl.password}}",
            "c": 'x password="${env:PASSWORD}" y',
            "d": f"${{directory:{secrets.parent}:secrets.properties}}",
            "e": "$literal ${other:x}",
        }
    ) == {
        "a": "${env:HOME}",
        "b": "p=w#1",
        "c": 'x password="${env:HOME}" y',
        "d": "sasl.password = p=w#1\nother=2",
        "e": "$literal ${other:x}",
    }


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("${env:NOT_SET_HERE}", "the environment variable NOT_SET_HERE is not set"),
        ("${file:secrets}", r"is not of the form \$\{file:PATH:KEY\}"),
        ("${file:/nowhere/x:key}", "No such file"),
        ("${file:PATH:missing}", "has no key missing"),
    ],
)
def test_a_placeholder_without_a_value_is_rejected(text, reason, secrets, monkeypatch):
    monkeypatch.delenv("NOT_SET_HERE", raising=False)
    with pytest.raises(OptionError, match=reason) as error:
        resolve_placeholders({"sasl.password": text.replace("PATH:m", f"{secrets}:m")})
    assert "p=w#1" not in str(error.value)


def test_a_file_readable_by_other_users_is_rejected(secrets):
    secrets.chmod(0o644)
    with pytest.raises(OptionError, match="chmod 600"):
        resolve_placeholders({"sasl.password": f"${{file:{secrets}:other}}"})


def test_clients_and_brokers_resolve_their_settings(secrets, monkeypatch, tmp_path):
    monkeypatch.setenv("TOKEN_SECRET", "s3")
    settings = merge_connection_settings("a:1", (f"sasl.plain.password=${{file:{secrets}:sasl.password}}",))
    assert settings["sasl.plain.password"] == "p=w#1"
    config = tmp_path / "server.properties"
    config.write_text("delegation.token.secret.key=${env:TOKEN_SECRET}\n")
    broker_settings, _ = _parse_settings(str(config), (f"super.users=${{file:{secrets}:other}}",))
    assert broker_settings == {"delegation.token.secret.key": "s3", "super.users": "2"}


def test_the_password_of_a_registry_is_resolved(monkeypatch):
    monkeypatch.setenv("REGISTRY_PASSWORD", "pw")
    (option,) = (parameter for parameter in table.params if parameter.name == "registry")
    assert option.callback(None, option, "http://me:${env:REGISTRY_PASSWORD}@registry:8081") == (
        "http://me:pw@registry:8081"
    )
    assert "${file:PATH:KEY} or ${env:NAME}" in option.help
