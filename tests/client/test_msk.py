"""Amazon MSK's IAM login with the settings of Java's clients: the requested token, and the number of requests."""

import sys
import types

import pytest

from kafkaframes.client.security.tokens import _SIGNER_NAME, IamTokenProvider, create_iam_provider
from kafkaframes.client.settings import ConsumerSettings
from kafkaframes.errors import MissingExtraError, OptionError

HOST = "b-1.orders.abc123.c2.kafka.eu-west-1.amazonaws.com"
JAVA = {
    "bootstrap.servers": f"{HOST}:9098",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "AWS_MSK_IAM",
    "sasl.jaas.config": 'software.amazon.msk.auth.iam.IAMLoginModule required awsRoleArn="arn:x";',
    "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
}


@pytest.fixture
def signed(monkeypatch):
    """Amazon's signer, which records its arguments."""
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


def test_javas_settings_become_a_token_of_the_clusters_region(signed):
    settings = ConsumerSettings.from_options(JAVA)
    assert settings.sasl_mechanism == "OAUTHBEARER"
    assert [settings.sasl_oauthbearer_token() for _ in range(2)] == ["token 1"] * 2  # fresh for a while
    assert signed == [("role", "eu-west-1", "arn:x", "MSKSASLDefaultSession")]


def test_the_handler_of_bearer_tokens_is_the_same_login(signed):
    module = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required;"
    handler = "software.amazon.msk.auth.iam.IAMOAuthBearerLoginCallbackHandler"
    bearer = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": module, "sasl.login.callback.handler.class": handler}
    assert ConsumerSettings.from_options({**JAVA, **bearer}).sasl_oauthbearer_token() == "token 1"
    assert signed == [("chain", "eu-west-1")]


def test_a_profile_and_a_token_that_is_over(signed):
    token = create_iam_provider(["boot-x.c1.kafka-serverless.us-east-1.amazonaws.com"], {"awsProfileName": "p"}, {})
    assert (token(), token()) == ("token 1", "token 2")
    assert signed[0] == ("profile", "us-east-1", "p")


def test_a_region_that_no_name_holds_is_the_environments_or_an_error():
    assert create_iam_provider(["localhost"], {}, {"AWS_REGION": "eu-north-1"}).region == "eu-north-1"
    with pytest.raises(OptionError, match="AWS_MSK_IAM needs a region"):
        create_iam_provider(["localhost"], {}, {})


def test_without_the_signer_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, _SIGNER_NAME.partition(".")[0], None)
    with pytest.raises(MissingExtraError, match=r"kafkaframes\[msk\]"):
        IamTokenProvider("eu-west-1")()
