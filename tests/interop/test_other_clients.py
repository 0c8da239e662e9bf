"""Clients of other languages and releases work with the embedded broker, each with all its features.

The clients are downloaded from their registries once, into ``~/.cache/kafkaframes/clients``. A missing client is
skipped by name. The trials are defined in ``trials.py``. The version of ``@platformatic/kafka`` is one that Node 20 can
run. Clients from before Kafka 0.11 write ten records and read them back.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.interop.clients_page import ClientTrials
from tests.interop.fetching import PYTHON_VERSIONS, Commands, compile_java, fetch_by_maven, fetch_client, prepare_python
from tests.interop.trials import CODECS, PeerClient, ServedBroker, run_trial, trials_of

SOURCES = Path(__file__).parent / "other"
VALUES = [f"value-{number}" for number in range(10)]
SIMPLE_LOG = "org.slf4j:slf4j-simple:1.7.36"

FRAMEWORK_FEATURES = {"has_transactions": False, "has_admin": False}
GROUP_FEATURES = {"codecs": (), **FRAMEWORK_FEATURES}  # the other features are tried in another row
PYTHON_CLIENTS = (
    PeerClient("confluent-kafka (librdkafka)", PYTHON_VERSIONS["confluent-kafka"], ("confluent-kafka",)),
    PeerClient(
        "confluent-kafka, group.protocol=consumer",
        PYTHON_VERSIONS["confluent-kafka"],
        ("confluent-kafka:consumer",),
        **GROUP_FEATURES,
    ),
    PeerClient("kafka-python", PYTHON_VERSIONS["kafka-python"], ("kafka-python",)),
    PeerClient("aiokafka", PYTHON_VERSIONS["aiokafka"], ("aiokafka",)),
    PeerClient("quixstreams", PYTHON_VERSIONS["quixstreams"], ("quixstreams",), **FRAMEWORK_FEATURES),
    PeerClient("faststream", PYTHON_VERSIONS["faststream[kafka]"], ("faststream",), **FRAMEWORK_FEATURES),
)
GO_CLIENTS = (
    PeerClient("franz-go", "1.22.2", ("franz-go",)),
    PeerClient("Sarama", "1.61.1", ("sarama",)),
    PeerClient("kafka-go", "0.4.51", ("kafka-go",), is_idempotent=False, has_transactions=False),
)
NODE_CLIENTS = (
    PeerClient("kafkajs", "2.2.4", ("kafkajs",), codecs=("none", "gzip")),
    PeerClient("@platformatic/kafka", "1.35.0", ("platformatic",), codecs=CODECS[:-1], has_transactions=False),
    PeerClient("@confluentinc/kafka-javascript", "1.10.1", ("confluent",)),
    PeerClient("node-rdkafka", "3.6.1", ("node-rdkafka",), **FRAMEWORK_FEATURES),
)
JAVA_CLIENTS = (
    PeerClient("Java client", "4.3.1", ("classic",)),
    PeerClient("Java client, group.protocol=consumer", "4.3.1", ("consumer",), **GROUP_FEATURES),
    PeerClient("Java client", "3.9.1", ("classic",)),
)
# clients with native code, each installed in a separate folder
NATIVE_NODE_CLIENTS = {"@confluentinc/kafka-javascript", "node-rdkafka"}


@pytest.fixture(scope="module")
def served_broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedBroker]:
    broker = ServedBroker(tmp_path_factory.mktemp("data"))
    yield broker
    broker.close()


@pytest.fixture(scope="module")
def classes(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that returns the folder for the classes of a version, the same in each test."""

    def folder(version: str) -> Path:
        classes_dir = tmp_path_factory.getbasetemp() / f"classes-{version}"
        classes_dir.mkdir(exist_ok=True)
        return classes_dir

    return folder


def parametrize_trials(clients: Sequence[PeerClient]) -> pytest.MarkDecorator:
    """Parametrize a test with each client and each of its trials."""
    trial_parameters = trials_of(clients)
    return pytest.mark.parametrize(
        ("client", "trial"), trial_parameters, ids=[f"{one.id}-{trial}" for one, trial in trial_parameters]
    )


def attempt(
    client_trials: ClientTrials,
    served_broker: ServedBroker,
    client: PeerClient,
    trial: str,
    program: Callable[[], Sequence[str | Path]],
) -> None:
    """Download a client's program, and run a trial, whose result is written to docs/clients.md."""
    client_trials.begin(client.name, client.version, trial)
    client_trials.saw(run_trial(served_broker, replace(client, command=(*program(), *client.command)), trial))


@parametrize_trials(PYTHON_CLIENTS)
def test_clients_of_python(client_trials, served_broker, client, trial):
    def program() -> Sequence[str | Path]:
        return prepare_python(), SOURCES / "clients.py"

    attempt(client_trials, served_broker, client, trial, program)


@parametrize_trials(GO_CLIENTS)
def test_clients_of_go(client_trials, served_broker, client, trial):
    def make(folder: Path) -> Commands:
        shutil.copyfile(SOURCES / "go.mod", folder / "go.mod")
        shutil.copyfile(SOURCES / "clients.go", folder / "clients.go")
        return [["go", "build", "-mod=mod", "-o", "clients", "clients.go"]]

    attempt(client_trials, served_broker, client, trial, lambda: [fetch_client("go", "go", make) / "clients"])


@parametrize_trials(NODE_CLIENTS)
def test_clients_of_node(client_trials, served_broker, client, trial):
    def make(folder: Path) -> Commands:
        install = ["npm", "install", "--silent", "--no-audit", "--no-fund"]
        if client.name in NATIVE_NODE_CLIENTS:
            return [[*install, f"{client.name}@{client.version}"]]
        shutil.copyfile(SOURCES / "package.json", folder / "package.json")
        return [install]

    def program() -> Sequence[str | Path]:
        folder = fetch_client(client.command[0] if client.name in NATIVE_NODE_CLIENTS else "node", "npm", make)
        return "node", shutil.copyfile(SOURCES / "clients.js", folder / "clients.js")

    attempt(client_trials, served_broker, client, trial, program)


@parametrize_trials(JAVA_CLIENTS)
def test_clients_of_java(client_trials, served_broker, classes, client, trial):
    def program() -> Sequence[str | Path]:
        libraries = fetch_by_maven(
            f"java-{client.version}", f"org.apache.kafka:kafka-clients:{client.version}", SIMPLE_LOG
        )
        return compile_java(SOURCES / "Client.java", libraries, classes(client.version))

    attempt(client_trials, served_broker, client, trial, program)


def run_ten_records(
    client_trials: ClientTrials,
    served_broker: ServedBroker,
    client: PeerClient,
    *command: str | Path,
    cwd: Path | None = None,
) -> None:
    """Run a client program that writes ten records to a topic and reads them back."""
    topic = f"ten-{client.id}"
    served_broker.create(topic, 1)
    words = [str(word).format(servers=served_broker.bootstrap, topic=topic) for word in command]
    process = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert process.returncode == 0, process.stderr[-2000:]
    last = process.stdout.strip().splitlines()[-1]
    assert json.loads(last) == VALUES
    assert sorted(served_broker.values(topic)) == VALUES
    client_trials.saw("ten records")


TEN_RECORDS_TRIAL = "write and read"


@pytest.mark.parametrize(("name", "version"), [("kafka-node", "5.0.0"), ("no-kafka", "3.4.4")])
def test_old_clients_of_node(client_trials, served_broker, name, version):
    def make(folder: Path) -> Commands:
        shutil.copyfile(SOURCES / "package.json", folder / "package.json")
        return [["npm", "install", "--silent", "--no-audit", "--no-fund"]]

    client_trials.begin(name, version, TEN_RECORDS_TRIAL)
    folder = fetch_client("node", "npm", make)
    shutil.copyfile(SOURCES / "old_clients.js", folder / "old_clients.js")
    run_ten_records(
        client_trials,
        served_broker,
        PeerClient(name, version),
        "node",
        "old_clients.js",
        name,
        "{servers}",
        "{topic}",
        cwd=folder,
    )


@pytest.mark.parametrize("version", ["2.4.1", "0.10.2.2"])
def test_java_clients_of_old_releases(client_trials, served_broker, classes, version):
    client_trials.begin("Java client", version, TEN_RECORDS_TRIAL)
    libraries = fetch_by_maven(f"java-{version}", f"org.apache.kafka:kafka-clients:{version}")
    program = compile_java(SOURCES / "OldClient.java", libraries, classes(version))
    run_ten_records(client_trials, served_broker, PeerClient("Java client", version), *program, "{servers}", "{topic}")


@pytest.mark.parametrize("version", ["2.0.2", "1.4.7"])
@pytest.mark.parametrize("speaks", [(), ("0.8.2",), ("0.9",), ("0.10",)])
def test_kafka_python_of_old_releases(client_trials, served_broker, version, speaks):
    def make(folder: Path) -> Commands:
        python = folder / "venv" / "bin" / "python"
        quiet = ["--quiet", "--disable-pip-version-check"]
        return [
            [sys.executable, "-m", "venv", folder / "venv"],
            [python, "-m", "pip", "install", *quiet, f"kafka-python=={version}"],
        ]

    client_trials.begin("kafka-python", version, " ".join(("as a client of", *speaks)) if speaks else TEN_RECORDS_TRIAL)
    folder = fetch_client(f"kafka-python-{version}", sys.executable, make)
    client = PeerClient("kafka-python", "-".join((version, *speaks)))
    program = SOURCES / "old_kafka_python.py"
    run_ten_records(
        client_trials,
        served_broker,
        client,
        folder / "venv" / "bin" / "python",
        program,
        "{servers}",
        "{topic}",
        *speaks,
    )
