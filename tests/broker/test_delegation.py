"""Delegation tokens: create, renew, expire, describe, and authenticate with one."""

from __future__ import annotations

import base64

import confluent_kafka as confluent
import confluent_kafka.admin  # makes confluent.admin available
import pytest

from kafkaframes.broker import Broker
from kafkaframes.broker.requests.login import Login
from kafkaframes.broker.requests.request import Session
from kafkaframes.broker.security.acls import ALLOW, LITERAL, Acl, AclAuthorizer
from kafkaframes.broker.security.options import Security
from kafkaframes.client import Admin
from kafkaframes.errors import BrokerError, ErrorCode, OptionError

DAY_MS, HOUR_MS = 86_400_000, 3_600_000
SECRET_KEY_CONFIG = {"delegation.token.secret.key": "of this cluster"}
USER, TOKEN, DESCRIBE, CREATE_TOKENS, DESCRIBE_TOKENS = 7, 6, 8, 13, 14


@pytest.fixture
def client(make_client):
    client = make_client(config=SECRET_KEY_CONFIG)
    client.session = Session(principal="User:alice")
    return client


def as_user(client, name):
    client.session = Session(principal=f"User:{name}")
    return client


def create(client, version=3, renewers=(), lifetime_ms=-1, **owner):
    types = client.types("CreateDelegationToken")
    rows = [types.CreatableRenewers(principal_type=kind, principal_name=name) for kind, name in renewers]
    return client.ask("CreateDelegationToken", version, renewers=rows, max_lifetime_ms=lifetime_ms, **owner)


def renew(client, hmac, period_ms=-1):
    answer = client.ask("RenewDelegationToken", 2, hmac=hmac, renew_period_ms=period_ms)
    return answer.error_code, answer.expiry_timestamp_ms


def expire(client, hmac, period_ms=-1):
    answer = client.ask("ExpireDelegationToken", 2, hmac=hmac, expiry_time_period_ms=period_ms)
    return answer.error_code, answer.expiry_timestamp_ms


def describe_tokens(client, *owners, version=3):
    types = client.types("DescribeDelegationToken")
    rows = [types.DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners] or None
    answer = client.ask("DescribeDelegationToken", version, owners=rows)
    return answer.error_code, answer.tokens


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_token_lasts_a_day_and_can_be_renewed_for_a_week(client, version):
    now = client.state.clock.now_ms
    create_answer = create(client, version, [("User", "bob")])
    assert (create_answer.error_code, create_answer.principal_type, create_answer.principal_name) == (
        0,
        "User",
        "alice",
    )
    times = create_answer.issue_timestamp_ms, create_answer.expiry_timestamp_ms, create_answer.max_timestamp_ms
    assert times == (now, now + DAY_MS, now + 7 * DAY_MS)
    assert (len(create_answer.token_id), len(create_answer.hmac)) == (22, 64)
    client.state.clock.advance(DAY_MS / 2000)
    assert renew(as_user(client, "bob"), create_answer.hmac) == (0, now + DAY_MS * 3 // 2)
    assert renew(client, create_answer.hmac, HOUR_MS) == (0, now + DAY_MS // 2 + HOUR_MS)
    for period_ms in (30 * DAY_MS, 0):  # Kafka 3.9.1 and 4.3.1: the usual period at most
        assert renew(client, create_answer.hmac, period_ms) == (0, now + DAY_MS * 3 // 2)
    code, (token,) = describe_tokens(client)
    assert (code, token.token_id, token.hmac) == (0, create_answer.token_id, create_answer.hmac)
    assert token.expiry_timestamp == now + DAY_MS * 3 // 2
    assert [(renewer.principal_type, renewer.principal_name) for renewer in token.renewers] == [("User", "bob")]
    assert create(client, version, lifetime_ms=HOUR_MS).max_timestamp_ms == now + DAY_MS // 2 + HOUR_MS


def test_token_requests_are_rejected_without_permission_or_secret_key(client, make_client):
    token = create(client)
    mallory = as_user(client, "mallory")
    assert renew(mallory, token.hmac)[0] == expire(mallory, token.hmac)[0] == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    assert renew(mallory, b"no such token") == (ErrorCode.DELEGATION_TOKEN_NOT_FOUND, -1)
    refusal = create(mallory, renewers=[("Group", "all")])
    assert (refusal.error_code, refusal.hmac, refusal.issue_timestamp_ms) == (ErrorCode.INVALID_PRINCIPAL_TYPE, b"", -1)
    client.session = Session()
    not_allowed = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    assert [create(client).error_code, renew(client, token.hmac)[0], describe_tokens(client)[0]] == [not_allowed] * 3
    client.session = Session(principal="User:alice", login=Login(by_token=True))
    assert create(client).error_code == not_allowed
    without_key = as_user(make_client(), "alice")
    disabled_code = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
    codes = [create(without_key).error_code, renew(without_key, b"")[0], expire(without_key, b"")[0]]
    assert [*codes, describe_tokens(without_key)[0]] == [disabled_code] * 4


def test_an_expired_token_is_removed_after_an_hour(client):
    hmac = create(client).hmac
    client.state.clock.advance(DAY_MS / 1000 + 1)
    expired_code = ErrorCode.DELEGATION_TOKEN_EXPIRED
    assert renew(client, hmac)[0] == expire(client, hmac, 1000)[0] == expired_code
    assert len(describe_tokens(client)[1]) == 1
    client.state.clock.advance(HOUR_MS / 1000 + 1)
    assert renew(client, hmac)[0] == ErrorCode.DELEGATION_TOKEN_NOT_FOUND
    assert describe_tokens(client) == (0, [])
    hmac = create(client).hmac
    assert expire(client, hmac, 1000) == (0, client.state.clock.now_ms + 1000)
    assert expire(client, hmac) == (0, client.state.clock.now_ms)
    assert describe_tokens(client) == (0, [])


def test_tokens_of_other_users_are_created_and_described_with_permission(make_client):
    def rule(principal, kind, name, operation):
        return Acl(kind, name, LITERAL, f"User:{principal}", "*", operation, ALLOW)

    access = AclAuthorizer(
        [
            rule("gateway", USER, "User:alice", CREATE_TOKENS),
            rule("auditor", USER, "User:alice", DESCRIBE_TOKENS),
        ]
    )
    client = make_client(config=SECRET_KEY_CONFIG, access=access)
    for_alice = {"owner_principal_type": "User", "owner_principal_name": "alice"}
    refusal = create(as_user(client, "mallory"), **for_alice)
    assert refusal.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
    token = create(as_user(client, "gateway"), **for_alice)
    assert (token.error_code, token.principal_name, token.token_requester_principal_name) == (0, "alice", "gateway")
    for name, count in {"gateway": 1, "alice": 1, "auditor": 1, "mallory": 0}.items():
        assert len(describe_tokens(as_user(client, name))[1]) == count, name
    assert len(describe_tokens(as_user(client, "alice"), "alice")[1]) == 1
    assert len(describe_tokens(client, "bob")[1]) == 0
    access.add(rule("mallory", TOKEN, token.token_id, DESCRIBE))
    assert len(describe_tokens(as_user(client, "mallory"))[1]) == 1


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_token_authenticates_its_owner_until_it_expires(tmp_path, mechanism):
    """librdkafka does not send SCRAM's ``tokenauth`` extension as kafka-python and Java do, so the test builds the
    messages.
    """
    from tests.broker.test_security import client_final

    security = Security(users={"alice": "secret"})
    with Broker(security=security, config=SECRET_KEY_CONFIG, data_dir=tmp_path) as broker:
        now = broker.clock.now_ms
        token = broker.call(lambda state: create_token(state, now))
        secret = base64.b64encode(broker.call(lambda state: state.credentials.tokens.compute_hmac(token))).decode()
    name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    with Broker(security=security, config=SECRET_KEY_CONFIG, data_dir=tmp_path) as broker:

        def proven(token_id, password, extension=",tokenauth=true"):
            exchange = broker.call(lambda state: state.credentials.start_exchange(mechanism, lambda: now))
            bare = f"n={token_id},r=nonce{extension}"
            last, proof = client_final(bare, exchange.respond(b"n,," + bare.encode()), password, name)
            assert exchange.respond(last) == proof
            return exchange

        exchange = proven(token.token_id, secret)
        assert (exchange.user, exchange.by_token, exchange.expires_ms) == ("alice", True, token.expires_ms)
        for wrong in [(token.token_id, "x"), ("nobody", secret), ("alice", "secret")]:
            with pytest.raises(Exception, match="invalid credentials"):
                proven(*wrong)
        with pytest.raises(Exception, match="invalid credentials"):
            proven(token.token_id, secret, "")
        assert proven("alice", "secret", "").by_token is False


def create_token(state, now_ms):
    token = state.credentials.tokens.create("User:alice", "User:alice", [], -1, now_ms)
    state.save_tokens()
    return token


def test_the_secret_key_is_never_described():
    with Broker(config=SECRET_KEY_CONFIG) as broker:
        admin = confluent.admin.AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        resource = confluent.admin.ConfigResource(confluent.admin.ResourceType.BROKER, "1")
        config = admin.describe_configs([resource])[resource].result(60)["delegation.token.secret.key"]
        assert (config.value, config.is_sensitive) == (None, True)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_our_client_authenticates_by_a_token_only_with_the_tokenauth_option(mechanism):
    with Broker(security=Security(users={"alice": "secret"}), config=SECRET_KEY_CONFIG) as broker:
        token = broker.call(lambda state: create_token(state, state.clock.now_ms))
        secret = base64.b64encode(broker.call(lambda state: state.credentials.tokens.compute_hmac(token))).decode()
        properties = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": mechanism}
        module = "org.apache.kafka.common.security.scram.ScramLoginModule"
        login = f'{module} required username="{token.token_id}" password="{secret}"'
        for way in (
            {"sasl.jaas.config": f'{login} tokenauth="true";'},
            {"sasl_username": token.token_id, "sasl_password": secret, "sasl_tokenauth": "true"},
        ):
            with Admin({"bootstrap.servers": broker.bootstrap_servers, **properties, **way}) as admin:
                assert admin.list_topics() == []
                assert "User:alice" in {connection.session.principal for connection in broker.connections()}
        without = {"bootstrap.servers": broker.bootstrap_servers, **properties, "sasl.jaas.config": f"{login};"}
        with pytest.raises(BrokerError, match="SASL_AUTHENTICATION_FAILED"), Admin(without) as admin:
            admin.list_topics()


def test_admin_creates_renews_expires_and_lists_tokens_that_clients_authenticate_with():
    users = Security(users={"alice": "secret", "bob": "hidden"})
    with Broker(security=users, config=SECRET_KEY_CONFIG) as broker:
        login = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
        login["sasl.mechanism"] = "SCRAM-SHA-256"
        with Admin(login, sasl_username="alice", sasl_password="secret") as admin:
            token = admin.create_delegation_token(["User:bob"], max_lifetime_ms=DAY_MS)
            assert (token.owner, token.requester, token.renewers) == ("User:alice", "User:alice", ("User:bob",))
            lifetime_ms = token.expiry_timestamp_ms - token.issue_timestamp_ms
            assert (lifetime_ms, token.max_timestamp_ms - token.issue_timestamp_ms) == (DAY_MS, DAY_MS)
            assert str(token.hmac) not in repr(token)
            for principals in (None, ["User:alice"], ["User:bob"], ["User:carol", "User:bob"]):
                assert admin.describe_delegation_token(principals) == [token]
            assert admin.describe_delegation_token(["User:carol"]) == []
            with Admin(login, sasl_username="bob", sasl_password="hidden") as renewer:
                assert renewer.renew_delegation_token(token.hmac, renew_period_ms=7 * DAY_MS) == token.max_timestamp_ms
            with Admin(login, sasl_username=token.token_id, sasl_password=token.password, sasl_tokenauth=True) as other:
                assert other.list_topics() == []
                with pytest.raises(BrokerError, match="DELEGATION_TOKEN_REQUEST_NOT_ALLOWED"):
                    other.create_delegation_token()
            assert admin.expire_delegation_token(token.hmac, expiry_period_ms=HOUR_MS) < token.expiry_timestamp_ms
            admin.expire_delegation_token(token.hmac)
            assert admin.describe_delegation_token() == []
            with pytest.raises(BrokerError, match="DELEGATION_TOKEN_NOT_FOUND"):
                admin.renew_delegation_token(token.hmac)
            with pytest.raises(OptionError, match="'bob' is not of the form User:name"):
                admin.create_delegation_token(["bob"])
