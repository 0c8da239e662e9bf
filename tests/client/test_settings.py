"""A client's settings: keywords, Kafka's properties, errors that name the nearest setting."""

import pytest

from kafkaframes.client.settings import ClientSettings, ConsumerSettings, ProducerSettings
from kafkaframes.errors import OptionError

SERVER = {"bootstrap_servers": "h:1"}


def test_properties_and_keywords_mean_the_same():
    by_property = ProducerSettings.from_options(
        {"bootstrap.servers": "h:1", "linger.ms": "20", "enable.idempotence": "true"}
    )
    assert by_property == ProducerSettings(bootstrap_servers="h:1", linger_ms=20, enable_idempotence=True)


def test_names_of_protocols_are_taken_in_any_letter_case_as_by_java():
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
def test_what_does_not_fit_is_said(settings, reason):
    with pytest.raises(OptionError, match=reason):
        ProducerSettings.from_options({**SERVER, **settings})


@pytest.mark.parametrize("servers", ["", [], "h:0", "h:99999999999", "h:x", " , "])
def test_servers_that_are_none(servers):
    with pytest.raises(OptionError, match="bootstrap_servers"):
        ClientSettings(bootstrap_servers=servers)


def test_a_password_is_not_shown():
    settings = ConsumerSettings(**SERVER, sasl_username="u", sasl_password="secret")
    assert "secret" not in repr(settings)
