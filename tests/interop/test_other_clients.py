"""Clients of other languages and other times beside the embedded broker: each writes ten records and reads them back.

They are fetched by their registries' own clients, once, into ``~/.cache/kafkaframes/clients``; what is missing is
skipped. ``@platformatic/kafka`` is one that Node 20 can run: 2.x needs Node 22.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.interop.conftest import CACHE

from kafkaframes.broker import Broker

SOURCES = Path(__file__).parent / "other"
VALUES = [f"value-{number}" for number in range(10)]
POM = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
    "<artifactId>clients</artifactId><version>1</version><packaging>pom</packaging><dependencies><dependency>"
    "<groupId>org.apache.kafka</groupId><artifactId>kafka-clients</artifactId><version>{version}</version>"
    "</dependency></dependencies></project>"
)


def fetched(name: str, tool: str, make: Callable[[Path], Sequence[Sequence[str | Path]]]) -> Path:
    """Return a client's folder, made by commands the first time; skip where they cannot be run."""
    if shutil.which(tool) is None:
        pytest.skip(f"no {tool} on the PATH")
    folder = CACHE / "clients" / name
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for command in make(folder):
            done = subprocess.run(
                list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=600, check=False
            )
            if done.returncode:
                pytest.skip(f"{name} cannot be had: {(done.stdout + done.stderr)[-300:]}")
        (folder / ".complete").touch()
    return folder


@pytest.fixture(scope="module")
def broker(tmp_path_factory):
    with Broker(data_dir=tmp_path_factory.mktemp("data"), journal=False) as running:
        yield running


def check(broker: Broker, topic: str, *command: str | Path, cwd: Path | None = None) -> None:
    """Run a client that is told the broker's address and a topic of its own."""
    broker.create_topic(topic)
    words = [str(word).format(servers=broker.bootstrap_servers, topic=topic) for word in command]
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    last = done.stdout.strip().splitlines()[-1]
    assert json.loads(last) == VALUES
    assert sorted(one.value.decode() for one in broker.records(topic)) == VALUES


@pytest.mark.parametrize("name", ["kafkajs", "platformatic", "kafka-node", "no-kafka"])
def test_clients_of_node(broker, name):
    def make(folder: Path) -> Sequence[Sequence[str]]:
        for source in ("package.json", "clients.js"):
            shutil.copyfile(SOURCES / source, folder / source)
        return [["npm", "install", "--silent", "--no-audit", "--no-fund"]]

    folder = fetched("node", "npm", make)
    shutil.copyfile(SOURCES / "clients.js", folder / "clients.js")
    check(broker, f"node-{name}", "node", "clients.js", name, "{servers}", "{topic}", cwd=folder)


@pytest.mark.parametrize("name", ["franz-go", "sarama"])
def test_clients_of_go(broker, name):
    def make(folder: Path) -> Sequence[Sequence[str]]:
        for source in ("go.mod", "clients.go"):
            shutil.copyfile(SOURCES / source, folder / source)
        return [["go", "build", "-mod=mod", "-o", "clients", "clients.go"]]

    folder = fetched("go", "go", make)
    check(broker, f"go-{name}", folder / "clients", name, "{servers}", "{topic}")


@pytest.mark.parametrize("version", ["2.4.1", "0.10.2.2"])
def test_java_clients_of_other_times(broker, version):
    def make(folder: Path) -> Sequence[Sequence[str | Path]]:
        (folder / "pom.xml").write_text(POM.format(version=version))
        return [
            ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"],
            ["javac", "-nowarn", "-cp", f"{folder / 'lib'}/*", "-d", folder, SOURCES / "OldClient.java"],
        ]

    folder = fetched(f"java-{version}", "mvn", make)
    classpath = f"{folder}:{folder / 'lib'}/*"
    check(broker, f"java-{version}", "java", "-Xmx256m", "-cp", classpath, "OldClient", "{servers}", "{topic}")


@pytest.mark.parametrize("version", ["2.0.2", "1.4.7"])
@pytest.mark.parametrize("speaks", [(), ("0.8.2",), ("0.9",), ("0.10",)])
def test_kafka_python_of_other_times(broker, version, speaks):
    def make(folder: Path) -> Sequence[Sequence[str | Path]]:
        python = folder / "venv" / "bin" / "python"
        quiet = ["--quiet", "--disable-pip-version-check"]
        return [
            [sys.executable, "-m", "venv", folder / "venv"],
            [python, "-m", "pip", "install", *quiet, f"kafka-python=={version}"],
        ]

    folder = fetched(f"kafka-python-{version}", sys.executable, make)
    python = folder / "venv" / "bin" / "python"
    topic = "-".join(("python", version, *speaks))
    check(broker, topic, python, SOURCES / "old_kafka_python.py", "{servers}", "{topic}", *speaks)
