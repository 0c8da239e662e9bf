"""GSSAPI on both sides with a KDC: accepted clients, their principals, and the errors of rejected clients."""

import os
import socket
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests import kdc as kdcs
from tests.cli.calling import ask

from kafkaframes.broker import Broker
from kafkaframes.broker.security.from_settings import build_security
from kafkaframes.broker.security.kerberos import Kerberos, KerberosExchange
from kafkaframes.broker.security.options import Security
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.client import Admin, Consumer, Producer
from kafkaframes.client.security.logins import create_exchange
from kafkaframes.client.security.sasl import advance_exchange
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import KafkaframesError, MissingExtraError, NetworkError, OptionError

KRB5_MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LISTENERS = (ListenerOptions(protocol="SASL_PLAINTEXT", host="localhost"),)


@pytest.fixture(scope="module")
def kdc(tmp_path_factory):
    pytest.importorskip("gssapi", reason="the kerberos extra is not installed: pip install gssapi")
    if kdcs.find_missing_program():
        pytest.skip(
            f"no KDC: {kdcs.find_missing_program()} is not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
        )
    before = dict(os.environ)
    with kdcs.Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        os.environ.update(kdc.environment)
        yield kdc
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def service(kdc):
    return kdc.keytab("kafka/localhost")


@pytest.fixture(scope="module")
def alice(kdc):
    return kdc.keytab("alice")


def gssapi_security(keytab: str, **more: str) -> Security:
    principal = "kafka/localhost@EXAMPLE.TEST"
    login = f'{KRB5_MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="{principal}";'
    return build_security(
        {
            "sasl.enabled.mechanisms": "GSSAPI,PLAIN",
            "sasl.kerberos.service.name": "kafka",
            "listener.name.sasl_plaintext.gssapi.sasl.jaas.config": login,
            **{name.replace("_", "."): value for name, value in more.items()},
        },
        listeners=LISTENERS,
        users=["bob=secret"],
    )


@pytest.fixture(scope="module")
def broker(service):
    rules = "RULE:[2:$1@$0](reports@.*)s/@.*//U,DEFAULT"
    broker_security = gssapi_security(service, sasl_kerberos_principal_to_local_rules=rules)
    with Broker(security=broker_security, listeners=LISTENERS) as broker:
        yield broker


def properties(broker: Broker, keytab: str, principal: str = "alice@EXAMPLE.TEST") -> dict[str, str]:
    """Return a Java client's properties, without sasl.mechanism because GSSAPI is Java's default."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{KRB5_MODULE} required useKeyTab=true keyTab="{keytab}" principal="{principal}";',
        "default.api.timeout.ms": "20000",
    }


def principals(broker: Broker) -> set[str]:
    return {connection.session.principal for connection in broker.connections()}


def test_a_keytab_client_produces_and_consumes_under_its_short_name(broker, alice):
    properties_of_alice = properties(broker, alice)
    with Producer(properties_of_alice) as producer:
        producer.send("orders", b"one").result(20)
    with Consumer(properties_of_alice, group_id="readers", auto_offset_reset="earliest") as consumer:
        consumer.subscribe(["orders"])
        records = []
        while not records:
            records = consumer.poll(timeout_ms=500)
    with Admin(properties_of_alice) as admin:
        assert admin.list_topics() == ["orders"]
        assert "User:alice" in principals(broker)


def test_a_client_authenticates_by_a_ticket_cache_with_librdkafkas_property_names(broker, kdc, alice):
    client_properties = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
    }
    with Admin(
        {**client_properties, "sasl.kerberos.keytab": alice, "sasl.kerberos.principal": "alice@EXAMPLE.TEST"}
    ) as admin:
        admin.list_topics()
    with Admin({**client_properties, "sasl_kerberos_ticket_cache": kdc.fill_cache("alice", alice)}) as admin:
        admin.list_topics()


def test_a_command_authenticates_by_properties(broker, alice):
    client_properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": alice,
    }
    flags = [word for name, value in client_properties.items() for word in ("-X", f"{name}={value}")]
    assert ask("topics", "list", "-b", broker.bootstrap_servers, *flags).exit_code == 0


def test_principal_to_local_rules_map_the_name(broker, kdc):
    keytab = kdc.keytab("reports/host.example")
    with Admin(properties(broker, keytab, "reports/host.example@EXAMPLE.TEST")) as admin:
        admin.list_topics()
        assert "User:REPORTS" in principals(broker)


def test_a_principal_that_no_rule_matches_is_rejected(broker, kdc):
    keytab = kdc.keytab("unruly/host.example")
    client_properties = properties(broker, keytab, "unruly/host.example@EXAMPLE.TEST")
    with Admin(client_properties) as admin:
        admin.list_topics()  # the DEFAULT rule uses the first component
        assert "User:unruly" in principals(broker)
    strict_security = gssapi_security(
        str(kdc.folder / "kafka-localhost.keytab"), sasl_kerberos_principal_to_local_rules="RULE:[1:$1]"
    )
    with (
        Broker(security=strict_security, listeners=LISTENERS) as strict,
        Admin({**client_properties, "bootstrap.servers": strict.bootstrap_servers}) as admin,
        pytest.raises(KafkaframesError, match="has no rule for the principal"),
    ):
        admin.list_topics()


def bob(broker: Broker) -> dict[str, str]:
    bob_properties = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    return {**bob_properties, "sasl.username": "bob", "sasl.password": "secret"}


def test_another_mechanism_of_the_same_listener_still_works(broker):
    with Admin(bob(broker)) as admin:
        admin.list_topics()
        assert "User:bob" in principals(broker)


@pytest.mark.parametrize(
    ("changed_properties", "error", "message"),
    [
        ({"sasl.kerberos.service.name": "http"}, OptionError, "GSSAPI: .*not found in Kerberos database"),
        (
            {"sasl.jaas.config": f'{KRB5_MODULE} required useKeyTab=true keyTab="/nowhere";'},
            OptionError,
            "GSSAPI: the keytab /nowhere cannot be read",
        ),
        (  # confluentinc/librdkafka#3149 and others: the library's message names neither the keytab nor the principal
            {
                "sasl.jaas.config": f'{KRB5_MODULE} required useKeyTab=true keyTab="KEYTAB" '
                'principal="bob@EXAMPLE.TEST";'
            },
            OptionError,
            r"GSSAPI: .* \(service kafka@localhost; keytab .*, which must have a key of bob@EXAMPLE.TEST\)",
        ),
        (
            {"sasl.jaas.config": f"{KRB5_MODULE} required useTicketCache=true;"},
            OptionError,
            "No Kerberos credentials",
        ),
        (
            {"sasl.jaas.config": f'{KRB5_MODULE} required useKeyTab=true keyTab="NOWHERE" principal="a@NOWHERE.TEST";'},
            NetworkError,
            "Cannot contact any KDC",
        ),
    ],
)
def test_the_error_says_why_a_client_has_no_ticket(broker, kdc, alice, changed_properties, error, message):
    if "NOWHERE" in str(changed_properties):
        keytab = kdc.folder / "nowhere.keytab"
        keytab.write_bytes(
            Path(alice).read_bytes().replace(b"EXAMPLE.TEST", b"NOWHERE.TEST").replace(b"alice", b"a    ")
        )
        pytest.importorskip("gssapi")
        changed_properties = {
            name: value.replace('"NOWHERE"', f'"{keytab}"').replace("a@", "a    @")
            for name, value in changed_properties.items()
        }
    changed_properties = {name: value.replace('"KEYTAB"', f'"{alice}"') for name, value in changed_properties.items()}
    client_properties = {**properties(broker, alice), **changed_properties, "default.api.timeout.ms": "1000"}
    with pytest.raises(error, match=message), Admin(client_properties) as admin:
        admin.list_topics()


def test_a_silent_kdc_blocks_neither_the_client_nor_the_exit_of_the_program(kdc, service, alice, tmp_path, monkeypatch):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Broker(security=gssapi_security(service), listeners=LISTENERS) as broker,
    ):
        text = kdc.settings.read_text().replace(f":{kdc.port}", f":{silent.getsockname()[1]}")
        (tmp_path / "krb5.conf").write_text(text)
        client_properties = {
            **properties(broker, ""),
            "socket.connection.setup.timeout.ms": "100",
            "default.api.timeout.ms": "300",
        }
        client_properties |= {
            "sasl.jaas.config": f'{KRB5_MODULE} required useKeyTab=true keyTab="{copy_keytab(alice, tmp_path)}";'
        }
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        with Admin(client_properties) as admin, pytest.raises(NetworkError, match="did not respond"):
            admin.list_topics()
        waiting = [thread for thread in threading.enumerate() if thread.name == "kafkaframes-apart"]
        assert waiting
        assert all(thread.daemon for thread in waiting)


def copy_keytab(keytab, folder):
    """Return a copy of the keytab that has no cached ticket yet."""
    copy = folder / "copy.keytab"
    copy.write_bytes(Path(keytab).read_bytes())
    return copy


def test_a_ticket_for_other_keys_is_rejected_and_the_connection_is_closed(broker, kdc, tmp_path, alice):
    other = kdc.keytab("kafka/127.0.0.1")
    login = f'{KRB5_MODULE} required useKeyTab=true keyTab="{other}";'
    key = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    other_security = build_security({"sasl.enabled.mechanisms": "GSSAPI", key: login}, listeners=LISTENERS)
    with Broker(security=other_security, listeners=LISTENERS) as stranger:
        client_properties = {**properties(stranger, alice), "default.api.timeout.ms": "3000"}
        with (
            pytest.raises(KafkaframesError, match="invalid credentials with SASL mechanism GSSAPI"),
            Admin(client_properties) as admin,
        ):
            admin.list_topics()


def test_a_session_expires_and_reauthenticates(service, alice):
    with Broker(
        security=gssapi_security(service), listeners=LISTENERS, config={"connections.max.reauth.ms": "300"}
    ) as broker:
        with Producer(properties(broker, alice)) as producer:
            numbers = set()
            for _ in range(30):
                producer.send("orders", b"x").result(20)
                numbers |= {connection.session.number for connection in broker.connections()}
                threading.Event().wait(0.03)
        assert len(numbers) > 3  # the bootstrap connection, then one connection after the other


def test_clients_before_sasl_authenticate_send_bare_tokens(broker, alice):
    settings = ClientSettings.from_options({**properties(broker, alice), "api.version": "0.10.2"})
    with Admin({**properties(broker, alice), "api.version": "0.10.2"}) as admin:
        admin.list_topics()
    assert settings.sasl_mechanism == "GSSAPI"


def test_a_broker_answers_other_clients_while_gssapi_runs_in_a_thread(broker, alice, monkeypatch):
    has_entered, go = threading.Event(), threading.Event()
    respond = KerberosExchange.respond

    def respond_slowly(self, message):
        has_entered.set()
        assert go.wait(20)
        return respond(self, message)

    monkeypatch.setattr(KerberosExchange, "respond", respond_slowly)
    client_properties = properties(broker, alice)
    with Admin(client_properties) as admin:
        asking = threading.Thread(target=admin.list_topics)
        asking.start()
        assert has_entered.wait(20)
        try:
            with Admin(bob(broker)) as other:
                other.list_topics()
            assert asking.is_alive()
        finally:
            go.set()
        asking.join(20)
        assert not asking.is_alive()


# ------------------------------------------------------------------------------------------------ hostile tokens


def start_exchange(service: str, alice: str) -> tuple[KerberosExchange, list[bytes]]:
    """Return the server's side of a new SASL exchange, and the client's first token."""
    kerberos = Kerberos(keytab=service, principal="kafka/localhost@EXAMPLE.TEST")
    settings = ClientSettings.from_options(
        {"bootstrap.servers": "a:1", "sasl.kerberos.service.name": "kafka"} | {"sasl.kerberos.keytab": alice}
    )
    client = create_exchange(settings, "localhost", "")
    return KerberosExchange(kerberos, kerberos.parse_rules()), client


def without_mutual_authentication(gssapi, keytab):
    """Return a client context that is complete after its first token, as Java's contexts are."""
    name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    credentials = gssapi.Credentials(usage="initiate", store={"client_keytab": keytab, "ccache": "MEMORY:layers"})
    return gssapi.SecurityContext(name=name, creds=credentials, flags=[gssapi.RequirementFlag.integrity])


TOKEN_CHANGES = st.tuples(
    st.floats(0, 1), st.binary(max_size=40), st.integers(0, 3)
)  # position, inserted bytes, number of removed bytes


@given(st.dictionaries(st.integers(0, 2), TOKEN_CHANGES, max_size=2))
def test_a_modified_token_is_rejected(service, alice, changes):
    server, client = start_exchange(service, alice)
    token, is_whole, step = advance_exchange(client, None), True, 0
    while server.user is None:
        if step in changes:
            change_position, inserted_bytes, removed_count = changes[step]
            position = int(change_position * len(token))
            changed_token = token[:position] + inserted_bytes + token[position + removed_count :]
            token, is_whole = changed_token, is_whole and changed_token == token
        step += 1
        try:
            answer = server.respond(token)
        except AuthenticationError:
            assert not is_whole
            assert server.user is None
            return
        if server.user is None:
            token = advance_exchange(client, answer)
            assert token is not None
    assert server.user == "alice"


@given(st.lists(st.binary(max_size=200), min_size=1, max_size=4))
def test_random_bytes_are_rejected(service, alice, messages):
    server, _ = start_exchange(service, alice)
    for message in messages:
        with pytest.raises(AuthenticationError):
            server.respond(message)
        assert server.user is None


@pytest.mark.parametrize("chosen_layer", [b"", b"\x01", b"\x02\0\0\0", b"\x04\xff\xff\xff", b"\x03\0\0\0alice"])
def test_only_the_security_layer_none_is_accepted(service, alice, chosen_layer):
    server, _ = start_exchange(service, alice)
    gssapi = pytest.importorskip("gssapi")
    context = without_mutual_authentication(gssapi, alice)
    token = context.step(None)  # without mutual authentication, the security layers follow immediately
    offered_layers = context.unwrap(server.respond(token)).message
    assert (context.complete, offered_layers) == (True, b"\x01\0\0\0")
    with pytest.raises(AuthenticationError, match="layer"):
        server.respond(context.wrap(chosen_layer, False).message)
    assert server.user is None


def test_the_authzid_of_a_client_is_ignored(service, alice):
    """Kafka ignores it, too: kafka-python sends the broker's host name as authzid."""
    gssapi = pytest.importorskip("gssapi")
    server, _ = start_exchange(service, alice)
    context = without_mutual_authentication(gssapi, alice)
    server.respond(context.step(None))
    assert server.respond(context.wrap(b"\x01\0\0\0root@EXAMPLE.TEST", False).message) == b""
    assert server.user == "alice"


def test_a_too_long_token_closes_the_connection(broker):
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), 20) as raw:
        raw.sendall((600_000).to_bytes(4, "big"))
        assert raw.recv(1) == b""


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI and a Kerberos login require each other"),
        ({"listener.name.a.gssapi.sasl.jaas.config": f"{KRB5_MODULE} required;"}, "require each other"),
        ({"sasl.kerberos.principal.to.local.rules": "DEFAULT"}, "requires listener.name.NAME.gssapi"),
        (
            {"listener.name.a.gssapi.sasl.jaas.config": 'PlainLoginModule required username="a";'},
            "must name Krb5LoginModule",
        ),
        (
            {
                "listener.name.a.gssapi.sasl.jaas.config": f'{KRB5_MODULE} required serviceName="a";',
                "sasl.kerberos.service.name": "b",
            },
            "serviceName is a, but sasl.kerberos.service.name is b",
        ),
        (
            {
                f"listener.name.{name}.gssapi.sasl.jaas.config": f'{KRB5_MODULE} required principal="{name}";'
                for name in "ab"
            },
            "must have the same",
        ),
    ],
)
def test_contradictory_broker_settings_are_rejected(properties, message):
    with pytest.raises(OptionError, match=message):
        build_security(dict(properties))


def test_an_invalid_keytab_is_reported_at_start(kdc, tmp_path):
    broker_security = gssapi_security(str(tmp_path / "none"))
    with pytest.raises(OptionError, match="GSSAPI: the keytab cannot be used"):
        Broker(security=broker_security, listeners=LISTENERS).start()


def test_without_gssapi_both_sides_name_the_kerberos_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kafkaframes\[kerberos\]'"):
        Broker(security=gssapi_security("/none"), listeners=LISTENERS).start()
    settings = ClientSettings.from_options({"bootstrap.servers": "a:1", "sasl.kerberos.service.name": "kafka"})
    with pytest.raises(MissingExtraError, match=r"pip install 'kafkaframes\[kerberos\]'"):
        advance_exchange(create_exchange(settings, "localhost", ""), None)
