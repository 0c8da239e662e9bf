"""Kerberos and delegation tokens work between Java's client and the embedded broker and between this client and Kafka,
and principal rules are equal.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import random
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests import kdc as kdcs
from tests.interop import brokers

from kafkaframes.broker import Broker
from kafkaframes.broker.security.from_settings import build_security
from kafkaframes.broker.security.kerberos import PrincipalRules
from kafkaframes.broker.security.scram import AuthenticationError
from kafkaframes.broker.settings.listeners import ListenerOptions
from kafkaframes.client import Admin, Consumer, Producer
from kafkaframes.client.network import Connection
from kafkaframes.client.settings import ClientSettings
from kafkaframes.errors import BrokerError, OptionError

SOURCES = Path(__file__).parent / "java" / "clients"
VERSION = "4.3.1"
MIN_REAUTHENTICATIONS = 2
KRB5_LOGIN = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
SCRAM_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
LISTENERS = (ListenerOptions(protocol="SASL_PLAINTEXT", host="localhost"),)
RULE_CASE_COUNT = 20_000


@pytest.fixture(scope="module")
def kdc(tmp_path_factory: pytest.TempPathFactory) -> Iterator[kdcs.Kdc]:
    """A KDC for this process."""
    pytest.importorskip("gssapi", reason="the kerberos extra is not installed: pip install gssapi")
    if kdcs.find_missing_program():
        pytest.skip(
            f"no KDC: {kdcs.find_missing_program()} not installed (Debian: krb5-kdc, krb5-admin-server, krb5-user)"
        )
    before = dict(os.environ)
    with kdcs.Kdc(tmp_path_factory.mktemp("kdc")) as kdc:
        os.environ.update(kdc.environment)
        yield kdc
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(scope="module")
def keytabs(kdc: kdcs.Kdc) -> dict[str, str]:
    """The keytabs of a service and of a user."""
    return {"kafka": kdc.keytab("kafka/localhost"), "alice": kdc.keytab("alice")}


@pytest.fixture(scope="module")
def classpath(oracle: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The class path of this file's compiled Java programs and Kafka's libraries."""
    module = brokers.real_kafka(oracle)
    try:
        libraries = module.fetch(VERSION)
    except module.KafkaFailed as failure:
        pytest.skip(f"the clients of Kafka {VERSION} cannot be fetched: {failure}")
    folder = tmp_path_factory.mktemp("classes")
    result = f"{folder}:{libraries}/*"
    sources = [str(SOURCES / name) for name in ("Sessions.java", "ShortNames.java")]
    subprocess.run(["javac", "-cp", result, "-d", folder, *sources], check=True, timeout=300)
    return result


def login(keytab: str, principal: str) -> str:
    return f'{KRB5_LOGIN} keyTab="{keytab}" principal="{principal}@{kdcs.REALM}";'


def client(servers: str, jaas: str, mechanism: str = "GSSAPI") -> dict[str, str]:
    """Return the properties of a Java client or of this package's client."""
    client_properties = {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
    }
    return (
        client_properties
        | {"sasl.jaas.config": jaas}
        | ({"sasl.kerberos.service.name": "kafka"} if mechanism == "GSSAPI" else {})
    )


@pytest.fixture
def session_ms() -> int:
    """The session lifetime in ms, short enough for several sessions during a test."""
    return 2_500


@pytest.fixture
def ours(keytabs: dict[str, str], session_ms: int) -> Iterator[str]:
    """Our broker."""
    key = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    broker_properties = {
        "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256",
        key: login(keytabs["kafka"], "kafka/localhost"),
    }
    config = {"connections.max.reauth.ms": session_ms, "delegation.token.secret.key": "secret"}
    with Broker(
        security=build_security(broker_properties, listeners=LISTENERS), listeners=LISTENERS, config=config
    ) as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def theirs(
    oracle: Path, kdc: kdcs.Kdc, keytabs: dict[str, str], session_ms: int, tmp_path: Path, monkeypatch: Any
) -> Iterator[str]:
    """A real Kafka."""
    module = brokers.real_kafka(oracle)
    node = brokers.KafkaFactory(module, VERSION)(tmp_path)
    port, own = module.free_port(), "listener.name.sasl_plaintext."
    clear = f"PLAINTEXT://127.0.0.1:{node.port},SASL_PLAINTEXT://localhost:{port}"
    node.properties |= {
        "listeners": f"{clear},CONTROLLER://127.0.0.1:{node._second_port}",
        "advertised.listeners": clear,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL_PLAINTEXT:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
        "sasl.enabled.mechanisms": "GSSAPI,SCRAM-SHA-256",
        "sasl.kerberos.service.name": "kafka",
        f"{own}gssapi.sasl.jaas.config": login(keytabs["kafka"], "kafka/localhost"),
        f"{own}scram-sha-256.sasl.jaas.config": f"{SCRAM_LOGIN_MODULE} required;",
        f"{own}connections.max.reauth.ms": session_ms,
        "delegation.token.secret.key": "secret",
    }
    java_options = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.security.krb5.conf={kdc.settings}"
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", java_options.strip())
    with node:
        yield f"localhost:{port}"


def sessions(
    classpath: str, kdc: kdcs.Kdc, folder: Path, properties: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run Java's producer and consumer until both have reauthenticated."""
    bounds = {"request.timeout.ms": "8000", "delivery.timeout.ms": "10000", "max.block.ms": "10000"}
    file = folder / "client.properties"
    file.write_text("".join(f"{name}={value}\n" for name, value in (properties | bounds).items()))
    settings = f"-Djava.security.krb5.conf={kdc.settings}"
    command = ["java", "-Xmx256m", settings, "-cp", classpath, "Sessions", str(file), str(MIN_REAUTHENTICATIONS)]
    return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)


def test_a_java_client_authenticates_by_ticket_and_reauthenticates(ours, classpath, kdc, keytabs, tmp_path):
    process = sessions(classpath, kdc, tmp_path, client(ours, login(keytabs["alice"], "alice")))
    match = re.search(r"(\d+) sent, (\d+) read, (\d+), (\d+)", process.stdout)
    assert match is not None, process.stdout[-2000:] + process.stderr[-4000:]
    sent_count, read, *again = map(int, match.groups())
    assert sent_count == read
    assert min(again) >= MIN_REAUTHENTICATIONS


def test_a_java_client_with_a_ticket_for_another_key_is_rejected(classpath, kdc, keytabs, tmp_path):
    key = "listener.name.sasl_plaintext.gssapi.sasl.jaas.config"
    broker_properties = {"sasl.enabled.mechanisms": "GSSAPI", key: f'{KRB5_LOGIN} keyTab="{keytabs["alice"]}";'}
    with Broker(security=build_security(broker_properties, listeners=LISTENERS), listeners=LISTENERS) as broker:
        process = sessions(classpath, kdc, tmp_path, client(broker.bootstrap_servers, login(keytabs["alice"], "alice")))
    assert "SaslAuthenticationException" in process.stderr, process.stdout + process.stderr


def test_kafka_python_authenticates_by_ticket(ours, kdc, keytabs, monkeypatch):
    kafka = pytest.importorskip("kafka")
    monkeypatch.setenv("KRB5CCNAME", kdc.fill_cache("alice", keytabs["alice"]))
    client_options = {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
    }
    producer = kafka.KafkaProducer(bootstrap_servers=ours, **client_options)
    assert producer.send("orders", b"one").get(20).offset == 0
    producer.close()


@pytest.fixture(params=["ours", "theirs"])
def both_brokers(request: pytest.FixtureRequest, session_ms: int) -> str:
    """The embedded broker, then Apache Kafka."""
    return request.getfixturevalue(request.param)


def test_our_client_authenticates_by_ticket_and_by_its_delegation_token(both_brokers, keytabs):
    client_properties = client(both_brokers, login(keytabs["alice"], "alice"))
    sent_count = 0
    with (
        Producer(client_properties) as producer,
        Consumer(client_properties, group_id="readers", auto_offset_reset="earliest") as consumer,
    ):
        consumer.subscribe(["orders"])
        values: list[bytes] = []
        while sent_count < 60 or len(values) < sent_count:
            if sent_count < 60:
                producer.send("orders", b"%d" % sent_count).result(30)
                sent_count += 1
            values += [record.value for record in consumer.poll(timeout_ms=100)]
    assert sorted(map(int, values)) == list(range(60))
    owner, token_id, hmac = asyncio.run(create_token(ClientSettings.from_options(client_properties)))
    assert owner == "alice"
    with Admin(token_properties(both_brokers, token_id, hmac)) as admin:
        assert "orders" in admin.list_topics()
    for wrong in [(token_id, "wrong", "true"), (token_id, hmac, "false")]:
        with (
            pytest.raises(BrokerError, match="SASL_AUTHENTICATION_FAILED"),
            Admin(token_properties(both_brokers, *wrong)) as admin,
        ):
            admin.list_topics()


SPARK_SCRIPT = """
import json, sys
import kafkaframes
options = json.loads(sys.argv[1])
session = kafkaframes.spark.session("kerberos", master="local[2]", memory="512m")
values = session.range(1000).selectExpr("cast(id as string) value")
values.write.mode("append").format("kafka-topic").options(**options).option("topic", "numbers").save()
print(session.read.format("kafka-topic").options(**options).option("subscribe", "numbers").load().count())
"""


@pytest.mark.parametrize("session_ms", [600_000])
def test_spark_authenticates_by_ticket(both_brokers, keytabs):
    spark_options = {
        f"kafka.{name}": value for name, value in client(both_brokers, login(keytabs["alice"], "alice")).items()
    }
    command = [sys.executable, "-c", SPARK_SCRIPT, json.dumps(spark_options)]
    workers = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    process = subprocess.run(
        command, env=os.environ | workers, capture_output=True, text=True, timeout=600, check=False
    )
    assert process.stdout.split() == ["1000"], process.stderr[-4000:]


def token_properties(servers: str, token_id: str, hmac: str, is_token: str = "true") -> dict[str, str]:
    jaas = f'{SCRAM_LOGIN_MODULE} required username="{token_id}" password="{hmac}" tokenauth="{is_token}";'
    return client(servers, jaas, "SCRAM-SHA-256") | {"default.api.timeout.ms": "20000"}


async def create_token(settings: ClientSettings) -> tuple[str, str, str]:
    """Create a delegation token. Return the token's owner, its id and its HMAC as text."""
    ((host, port),) = settings.servers
    connection = await Connection.open(host, port, settings)
    try:
        body = settings.message_class("CreateDelegationTokenRequest")(renewers=[], max_lifetime_ms=-1)
        answer = await connection.request(body)
        assert answer.error_code == 0
        request = settings.message_class("DescribeDelegationTokenRequest")(owners=None)
        while answer.token_id not in [token.token_id for token in (await connection.request(request)).tokens]:
            await asyncio.sleep(0.1)  # Kafka's broker receives the token from its controller with a delay
    finally:
        connection.close()
    return answer.principal_name, answer.token_id, base64.b64encode(answer.hmac).decode()


# ------------------------------------------------------------------------------------------------ rules


def random_rule(choose: random.Random) -> str:
    """Return a random rule, often a valid one."""

    def text(letters: str, max_length: int) -> str:
        return "".join(choose.choices(letters, k=choose.randint(0, max_length)))

    if choose.random() < 0.1:
        return choose.choice(
            [
                "DEFAULT",
                "DEFAULT",
                "DEFAULT",
                "DEFAULT",
                "RULE:" + text("ab$@/[]():12gLU", 10),
                text("DEFAULTRULE:[1]", 8),
            ]
        )
    match = "" if choose.random() < 0.5 else f"({choose.choice(['.*', 'a.*', '.*@NEW', '.*@OLD', text('ab.*@|', 5)])})"
    replaced_text, parts = choose.choice(
        [("@.*", "ab"), ("a", ["b", "$0", "\\$"]), ("(a)(b)?", ["$1", "$2", "$12", "\\a"]), ("b*", "a")]
    )
    by = "".join(choose.choices(parts, k=choose.randint(0, 3)))
    change = "" if choose.random() < 0.5 else f"s/{replaced_text}/{by}/{choose.choice(['', 'g'])}"
    count = choose.choice("111222203")
    name_format = choose.choice(
        {"0": ["$0", "a"], "1": ["$1", "$1@$0", "b"]}.get(count, ["$1", "$1@$0", "$1.$2", "$2", "$1/$2"])
    )
    return f"RULE:[{count}:{name_format}]{match}{change}{choose.choice(['', '', '', '/L', '/U', 'L'])}"


def random_principal(choose: random.Random) -> str:
    parts = ["".join(choose.choices("abAB.", k=choose.randint(0, 4))) for _ in range(choose.choice([1, 1, 1, 2, 2, 3]))]
    return "/".join(parts) + choose.choice(["@NEW", "@NEW", "@OLD", "@OLD", "@", "@NEW@OLD"])


def test_rules_map_principals_as_in_kafka(classpath):
    choose = random.Random(20261123)
    cases = [
        (random_principal(choose), [random_rule(choose) for _ in range(choose.randint(0, 3))])
        for _ in range(RULE_CASE_COUNT)
    ]
    lines = "".join("\t".join([name, *rules]) + "\n" for name, rules in cases)
    command = ["java", "-Xmx256m", "-cp", classpath, "ShortNames"]
    process = subprocess.run(command, input=lines, capture_output=True, text=True, timeout=300, check=True)
    theirs = process.stdout.splitlines()
    assert len(theirs) == RULE_CASE_COUNT
    answers = [(case, apply_rules(*case), one) for case, one in zip(cases, theirs, strict=True)]
    assert [answer for answer in answers if not agrees(*answer[1:])] == []
    assert sum(their.startswith("=") for their in theirs) > RULE_CASE_COUNT // 5
    early = sum(
        ours == "#" != one for _, ours, one in answers
    )  # Kafka reports an inapplicable rule only when the rule is applied to a principal
    assert early < RULE_CASE_COUNT // 10


def apply_rules(principal: str, rules: list[str]) -> str:
    """Return the result of this package's rules, in the format of the Java program."""
    try:
        names = PrincipalRules(rules, "NEW")
    except OptionError:
        return "#"
    try:
        return f"={names.map_principal(principal)}"
    except AuthenticationError:
        return "!"


def agrees(ours: str, theirs: str) -> bool:
    """Return whether both results are equal, or this package rejects the rules, or the name is empty."""
    return ours in (theirs, "#") or (ours, theirs) == ("!", "=")
