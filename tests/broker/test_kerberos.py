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

MODULE = "com.sun.security.auth.module.Krb5LoginModule"
LISTENERS = (ListenerOptions(protocol="SASL_PLAINTEXT", host="localhost"),)


@pytest.fixture(scope="module")
def kdc(tmp_path_factory):
    pytest.importorskip("gssapi", reason="the extra kerberos is not installed: pip install gssapi")
    if kdcs.missing():
        pytest.skip(f"no KDC: {kdcs.missing()} not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)")
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


def security(keytab: str, **more: str) -> Security:
    login = (
        f'{MODULE} required useKeyTab=true storeKey=true keyTab="{keytab}" principal="kafka/localhost@EXAMPLE.TEST";'
    )
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
    broker_security = security(service, sasl_kerberos_principal_to_local_rules=rules)
    with Broker(security=broker_security, listeners=LISTENERS) as broker:
        yield broker


def properties(broker: Broker, keytab: str, principal: str = "alice@EXAMPLE.TEST") -> dict[str, str]:
    """Return a Java client's properties; they name no mechanism, as GSSAPI is Java's default."""
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.jaas.config": f'{MODULE} required useKeyTab=true keyTab="{keytab}" principal="{principal}";',
        "default.api.timeout.ms": "20000",
    }


def principals(broker: Broker) -> set[str]:
    return {connection.session.principal for connection in broker.connections()}


def test_a_principal_of_a_keytab_writes_reads_and_is_known_by_its_short_name(broker, alice):
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


def test_a_ticket_of_a_cache_and_names_of_librdkafka_come_in(broker, kdc, alice):
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


def test_a_command_comes_in_by_properties(broker, alice):
    client_properties = {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.keytab": alice,
    }
    flags = [word for name, value in client_properties.items() for word in ("-X", f"{name}={value}")]
    assert ask("topics", "list", "-b", broker.bootstrap_servers, *flags).exit_code == 0


def test_rules_give_the_name(broker, kdc):
    keytab = kdc.keytab("reports/host.example")
    with Admin(properties(broker, keytab, "reports/host.example@EXAMPLE.TEST")) as admin:
        admin.list_topics()
        assert "User:REPORTS" in principals(broker)


def test_a_principal_without_a_name_stays_out(broker, kdc):
    keytab = kdc.keytab("unruly/host.example")
    client_properties = properties(broker, keytab, "unruly/host.example@EXAMPLE.TEST")
    with Admin(client_properties) as admin:
        admin.list_topics()  # DEFAULT takes the first component
        assert "User:unruly" in principals(broker)
    strict_security = security(
        str(kdc.folder / "kafka-localhost.keytab"), sasl_kerberos_principal_to_local_rules="RULE:[1:$1]"
    )
    with (
        Broker(security=strict_security, listeners=LISTENERS) as strict,
        Admin({**client_properties, "bootstrap.servers": strict.bootstrap_servers}) as admin,
        pytest.raises(KafkaframesError, match="has no rule for the principal"),
    ):
        admin.list_topics()


def bob(broker: Broker) -> dict[str, str]:
    own = {"bootstrap.servers": broker.bootstrap_servers, "security.protocol": "SASL_PLAINTEXT"}
    return {**own, "sasl.username": "bob", "sasl.password": "secret"}


def test_another_mechanism_of_the_same_listener_goes_on(broker):
    with Admin(bob(broker)) as admin:
        admin.list_topics()
        assert "User:bob" in principals(broker)


@pytest.mark.parametrize(
    ("changed_properties", "error", "message"),
    [
        ({"sasl.kerberos.service.name": "http"}, OptionError, "GSSAPI: .*not found in Kerberos database"),
        ({"sasl.jaas.config": f'{MODULE} required useKeyTab=true keyTab="/nowhere";'}, OptionError, "GSSAPI: "),
        ({"sasl.jaas.config": f"{MODULE} required useTicketCache=true;"}, OptionError, "No Kerberos credentials"),
        (
            {"sasl.jaas.config": f'{MODULE} required useKeyTab=true keyTab="NOWHERE" principal="a@NOWHERE.TEST";'},
            NetworkError,
            "Cannot contact any KDC",
        ),
    ],
)
def test_without_a_ticket_it_is_said_why(broker, kdc, alice, changed_properties, error, message):
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
    client_properties = {**properties(broker, alice), **changed_properties, "default.api.timeout.ms": "1000"}
    with pytest.raises(error, match=message), Admin(client_properties) as admin:
        admin.list_topics()


def test_a_kdc_that_says_nothing_holds_up_neither_the_client_nor_the_programs_end(
    kdc, service, alice, tmp_path, monkeypatch
):
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        Broker(security=security(service), listeners=LISTENERS) as own,
    ):
        text = kdc.settings.read_text().replace(f":{kdc.port}", f":{silent.getsockname()[1]}")
        (tmp_path / "krb5.conf").write_text(text)
        client_properties = {
            **properties(own, ""),
            "socket.connection.setup.timeout.ms": "100",
            "default.api.timeout.ms": "300",
        }
        client_properties |= {
            "sasl.jaas.config": f'{MODULE} required useKeyTab=true keyTab="{silent_copy(alice, tmp_path)}";'
        }
        monkeypatch.setenv("KRB5_CONFIG", str(tmp_path / "krb5.conf"))
        with Admin(client_properties) as admin, pytest.raises(NetworkError, match="did not respond"):
            admin.list_topics()
        waiting = [thread for thread in threading.enumerate() if thread.name == "kafkaframes-apart"]
        assert waiting
        assert all(thread.daemon for thread in waiting)


def silent_copy(keytab, folder):
    """Return a copy of the keytab for which no ticket is cached yet."""
    copy = folder / "copy.keytab"
    copy.write_bytes(Path(keytab).read_bytes())
    return copy


def test_a_ticket_for_other_keys_is_refused_and_the_connection_closed(broker, kdc, tmp_path, alice):
    other = kdc.keytab("kafka/127.0.0.1")
    login = f'{MODULE} required useKeyTab=true keyTab="{other}";'
    key = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    other_security = build_security({"sasl.enabled.mechanisms": "GSSAPI", key: login}, listeners=LISTENERS)
    with Broker(security=other_security, listeners=LISTENERS) as stranger:
        client_properties = {**properties(stranger, alice), "default.api.timeout.ms": "3000"}
        with (
            pytest.raises(KafkaframesError, match="invalid credentials with SASL mechanism GSSAPI"),
            Admin(client_properties) as admin,
        ):
            admin.list_topics()


def test_a_session_ends_and_is_authenticated_anew(service, alice):
    with Broker(security=security(service), listeners=LISTENERS, config={"connections.max.reauth.ms": "300"}) as broker:
        with Producer(properties(broker, alice)) as producer:
            numbers = set()
            for _ in range(30):
                producer.send("orders", b"x").result(20)
                numbers |= {connection.session.number for connection in broker.connections()}
                threading.Event().wait(0.03)
        assert len(numbers) > 3  # the bootstrap's, and one after the other


def test_clients_before_sasl_authenticate_send_bare_tokens(broker, alice):
    settings = ClientSettings.from_options({**properties(broker, alice), "api.version": "0.10.2"})
    with Admin({**properties(broker, alice), "api.version": "0.10.2"}) as admin:
        admin.list_topics()
    assert settings.sasl_mechanism == "GSSAPI"


def test_a_broker_that_waits_for_a_thread_answers_others(broker, alice, monkeypatch):
    has_entered, go = threading.Event(), threading.Event()
    respond = KerberosExchange.respond

    def slow(self, message):
        has_entered.set()
        assert go.wait(20)
        return respond(self, message)

    monkeypatch.setattr(KerberosExchange, "respond", slow)
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


def exchanges(service: str, alice: str) -> tuple[KerberosExchange, list[bytes]]:
    """Return the server's side of a new exchange, and the client's first token."""
    kerberos = Kerberos(keytab=service, principal="kafka/localhost@EXAMPLE.TEST")
    settings = ClientSettings.from_options(
        {"bootstrap.servers": "a:1", "sasl.kerberos.service.name": "kafka"} | {"sasl.kerberos.keytab": alice}
    )
    client = create_exchange(settings, "localhost", "")
    return KerberosExchange(kerberos, kerberos.parse_rules()), client


def without_mutual_authentication(gssapi, keytab):
    """Return a client's context that is complete with its first token, as Java's are."""
    name = gssapi.Name("kafka@localhost", gssapi.NameType.hostbased_service)
    credentials = gssapi.Credentials(usage="initiate", store={"client_keytab": keytab, "ccache": "MEMORY:layers"})
    return gssapi.SecurityContext(name=name, creds=credentials, flags=[gssapi.RequirementFlag.integrity])


CHANGES = st.tuples(
    st.floats(0, 1), st.binary(max_size=40), st.integers(0, 3)
)  # position, inserted bytes, number of removed bytes


@given(st.dictionaries(st.integers(0, 2), CHANGES, max_size=2))
def test_a_token_that_was_changed_is_refused(service, alice, changes):
    server, client = exchanges(service, alice)
    token, is_whole, step = advance_exchange(client, None), True, 0
    while server.user is None:
        if step in changes:
            where, put_in, left_out = changes[step]
            position = int(where * len(token))
            changed_token = token[:position] + put_in + token[position + left_out :]
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
def test_any_bytes_are_refused(service, alice, messages):
    server, _ = exchanges(service, alice)
    for message in messages:
        with pytest.raises(AuthenticationError):
            server.respond(message)
        assert server.user is None


@pytest.mark.parametrize("chosen_layer", [b"", b"\x01", b"\x02\0\0\0", b"\x04\xff\xff\xff", b"\x03\0\0\0alice"])
def test_no_other_layer_is_taken(service, alice, chosen_layer):
    server, _ = exchanges(service, alice)
    gssapi = pytest.importorskip("gssapi")
    context = without_mutual_authentication(gssapi, alice)
    token = context.step(None)  # without mutual authentication the layers follow at once
    offered_layers = context.unwrap(server.respond(token)).message
    assert (context.complete, offered_layers) == (True, b"\x01\0\0\0")
    with pytest.raises(AuthenticationError, match="layer"):
        server.respond(context.wrap(chosen_layer, False).message)
    assert server.user is None


def test_who_a_client_asks_to_be_is_not_looked_at(service, alice):
    """As in Kafka: kafka-python sends the broker's name there."""
    gssapi = pytest.importorskip("gssapi")
    server, _ = exchanges(service, alice)
    context = without_mutual_authentication(gssapi, alice)
    server.respond(context.step(None))
    assert server.respond(context.wrap(b"\x01\0\0\0root@EXAMPLE.TEST", False).message) == b""
    assert server.user == "alice"


def test_a_long_token_ends_the_connection(broker):
    host, port = broker.bootstrap_servers.split(":")
    with socket.create_connection((host, int(port)), 20) as raw:
        raw.sendall((600_000).to_bytes(4, "big"))
        assert raw.recv(1) == b""


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"sasl.enabled.mechanisms": "GSSAPI"}, "GSSAPI and a Kerberos login require each other"),
        ({"listener.name.a.gssapi.sasl.jaas.config": f"{MODULE} required;"}, "require each other"),
        ({"sasl.kerberos.principal.to.local.rules": "DEFAULT"}, "requires listener.name.NAME.gssapi"),
        (
            {"listener.name.a.gssapi.sasl.jaas.config": 'PlainLoginModule required username="a";'},
            "must name Krb5LoginModule",
        ),
        (
            {
                "listener.name.a.gssapi.sasl.jaas.config": f'{MODULE} required serviceName="a";',
                "sasl.kerberos.service.name": "b",
            },
            "serviceName is a, but sasl.kerberos.service.name is b",
        ),
        (
            {
                f"listener.name.{name}.gssapi.sasl.jaas.config": f'{MODULE} required principal="{name}";'
                for name in "ab"
            },
            "must have the same",
        ),
    ],
)
def test_settings_of_a_broker_that_do_not_fit_are_refused(properties, message):
    with pytest.raises(OptionError, match=message):
        build_security(dict(properties))


def test_a_keytab_that_is_none_is_said_at_the_start(kdc, tmp_path):
    broker_security = security(str(tmp_path / "none"))
    with pytest.raises(OptionError, match="GSSAPI: the keytab cannot be used"):
        Broker(security=broker_security, listeners=LISTENERS).start()


def test_without_the_extra_both_sides_name_it(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "gssapi", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'kafkaframes\[kerberos\]'"):
        Broker(security=security("/none"), listeners=LISTENERS).start()
    settings = ClientSettings.from_options({"bootstrap.servers": "a:1", "sasl.kerberos.service.name": "kafka"})
    with pytest.raises(MissingExtraError, match=r"pip install 'kafkaframes\[kerberos\]'"):
        advance_exchange(create_exchange(settings, "localhost", ""), None)
