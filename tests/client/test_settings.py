"""A client's settings as keywords and as Kafka properties, and errors that suggest the most similar setting."""

import pytest

from kafkaframes.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from kafkaframes.errors import OptionError

SERVER_SETTINGS = {"bootstrap_servers": "h:1"}


def test_properties_and_keywords_are_equivalent():
    by_property = ProducerSettings.from_options(
        {"bootstrap.servers": "h:1", "linger.ms": "20", "enable.idempotence": "true"}
    )
    assert by_property == ProducerSettings(bootstrap_servers="h:1", linger_ms=20, enable_idempotence=True)


def test_protocol_names_are_accepted_in_any_letter_case_as_in_java():
    assert ClientSettings(bootstrap_servers="h:1", security_protocol="ssl").security_protocol == "SSL"
    assert ConsumerSettings(bootstrap_servers="h:1", group_protocol="CONSUMER").group_protocol == "consumer"


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"linger_mss": 1}, "did you mean linger_ms"),
        ({"linger.ms": "soon"}, "expected an integer"),
        ({"acks": 2}, "acks is '2'"),
        ({"compression_type": "brotli"}, "expected one of none, gzip, snappy, lz4, zstd"),
        ({"transactional_id": "t", "acks": 1}, "acks=all"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "sasl_username"),
        ({"sasl_mechanism": "PLAINN"}, "expected one of PLAIN, .*, AWS_MSK_IAM"),
        ({"api_version": "0.7"}, "unknown release '0.7'; expected 0.8.2.2"),
        ({"api_version": "new"}, "unknown release 'new'"),
    ],
)
def test_an_invalid_setting_is_rejected_with_the_reason(settings, reason):
    with pytest.raises(OptionError, match=reason):
        ProducerSettings.from_options({**SERVER_SETTINGS, **settings})


@pytest.mark.parametrize("servers", ["", [], "h:0", "h:99999999999", "h:x", " , "])
def test_invalid_servers_are_rejected(servers):
    with pytest.raises(OptionError, match="bootstrap_servers"):
        ClientSettings(bootstrap_servers=servers)


def test_a_password_is_not_shown():
    settings = ConsumerSettings(**SERVER_SETTINGS, sasl_username="u", sasl_password="secret")
    assert "secret" not in repr(settings)
