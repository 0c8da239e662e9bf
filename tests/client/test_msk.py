"""Amazon MSK's IAM login with the settings of the Java clients: the requested token, and the number of requests."""

import sys
import types

import pytest

from kafkaframes.client.security.tokens import _SIGNER_NAME, IamTokenProvider, create_iam_provider
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import MissingExtraError, OptionError

MSK_HOST = "b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com"
JAVA_SETTINGS = {
    "bootstrap.servers": f"{MSK_HOST}:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": 'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:x";',
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


@pytest.fixture
def signer_calls(monkeypatch):
    """Replace Amazon's signer by one that records its arguments."""
    calls = []

    def sign(name, expires_ms):
        return lambda *arguments: (calls.append((name, *arguments)) or f"token {len(calls)}", expires_ms)

    signer = types.ModuleType(_SIGNER_NAME)
    signer.generate_auth_token = sign("chain", 2**62)
    signer.generate_auth_token_from_profile = sign("profile", 0)
    signer.generate_auth_token_from_role_arn = sign("role", 2**62)
    monkeypatch.setitem(sys.modules, _SIGNER_NAME.partition(".")[0], types.ModuleType("package"))
    monkeypatch.setitem(sys.modules, _SIGNER_NAME, signer)
    return calls


def test_javas_settings_give_a_token_for_the_clusters_region(signer_calls):
    settings = ConsumerSettings.from_options(JAVA_SETTINGS)
    assert settings.sasl_mechanism == "OAUTHBEARER"
    assert [settings.sasl_oauthbearer_token() for _ in range(2)] == ["token 1"] * 2  # the token is still valid
    assert signer_calls == [("role", "eu-west-1", "arn:x", "MSKSASLDefaultSession")]


def test_the_bearer_token_handler_selects_the_iam_login(signer_calls):
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    bearer = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": module, "sasl.login.callback.handler.class": handler}
    assert ConsumerSettings.from_options({**JAVA_SETTINGS, **bearer}).sasl_oauthbearer_token() == "token 1"
    assert signer_calls == [("chain", "eu-west-1")]


def test_an_expired_token_is_replaced_with_the_configured_profile(signer_calls):
    token = create_iam_provider(["boot-x.c1.kafka-serverless.us-east-1.amazonaws.com"], {"awsProfileName": "p"}, {})
    assert (token(), token()) == ("token 1", "token 2")
    assert signer_calls[0] == ("profile", "us-east-1", "p")


def test_without_a_region_in_the_host_name_the_environment_is_used_or_an_error_raised():
    assert create_iam_provider(["localhost"], {}, {"AWS_REGION": "eu-north-1"}).region == "eu-north-1"
    with pytest.raises(OptionError, match="AWS_MSK_IAM needs a region"):
        create_iam_provider(["localhost"], {}, {})


def test_without_the_signer_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, _SIGNER_NAME.partition(".")[0], None)
    with pytest.raises(MissingExtraError, match=r"kafkaframes\[msk\]"):
        IamTokenProvider("eu-west-1")()
