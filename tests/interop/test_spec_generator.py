"""Kafka's own generator accepts the specs of ``spec rewrite``, and its evolution verifier rejects only documented
messages.
"""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest
from tests.interop.releases import JAVA_SOURCES, fetch

from kafkaframes.cli.main import cli

RELEASE = "4.3.1"
GENERATOR_CLASS = "org.apache.kafka.message.MessageGenerator"
JARS = (
    f"org.apache.kafka:generator:{RELEASE}",
    "net.sourceforge.argparse4j:argparse4j:0.7.0",
    "com.fasterxml.jackson.core:jackson-databind:2.21.2",
    "com.fasterxml.jackson.core:jackson-annotations:2.21",
    "com.fasterxml.jackson.core:jackson-core:2.21.2",
    "com.fasterxml.jackson.datatype:jackson-datatype-jdk8:2.21.2",
    "org.eclipse.jgit:org.eclipse.jgit:7.5.0.202512021534-r",
)


@pytest.fixture(scope="module", name="classes")
def _find_class_path():
    if shutil.which("java") is None or shutil.which("mvn") is None:
        pytest.skip("Java or Maven is not on the PATH")
    try:
        return ":".join(str(fetch(jar)) for jar in JARS)
    except subprocess.SubprocessError as error:
        pytest.skip(f"Kafka's generator cannot be fetched: {error}")


@pytest.fixture(scope="module", name="published")
def published_specs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("published")
    with zipfile.ZipFile(fetch(f"org.apache.kafka:kafka-clients:{RELEASE}")) as jar:
        for name in jar.namelist():
            if name.endswith(".json"):
                (folder / Path(name).name).write_bytes(jar.read(name))
    return folder


def rewrite_specs(to: Path, *source: str) -> Path:
    cli(["spec", "rewrite", "kip-636", *source, "--to", str(to)], standalone_mode=False)
    return to


def java(classes: str, *arguments: object) -> str:
    process = subprocess.run(
        ["java", "-Xmx512m", "-cp", classes, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    return process.stdout + process.stderr


@pytest.mark.parametrize("of", ["published", "catalog"])
def test_the_generator_accepts_every_file(classes, published_dir, tmp_path, of):
    folder = rewrite_specs(tmp_path / "new", *(["--from", str(published_dir)] if of == "published" else []))
    count = len(list(folder.glob("*.json")))
    options = ("-t", "ApiMessageTypeGenerator", "-m", "MessageDataGenerator", "JsonConverterGenerator")
    output = java(classes, GENERATOR_CLASS, "-p", "org.example", "-o", tmp_path / "java", "-i", folder, *options)
    assert f"processed {count} Kafka message JSON file(s)" in output


def test_the_verifier_rejects_only_messages_with_a_new_null_default(classes, published_dir, tmp_path):
    """The verifier rejects fifteen of the published files as successors of themselves; these are skipped."""
    refused_messages = dict(
        line.split(": ", 1)
        for line in java(classes, JAVA_SOURCES / "VerifyEvolution.java", published_dir, published_dir).splitlines()
    )
    folder = rewrite_specs(tmp_path / "new", "--from", str(published_dir))
    output = java(classes, JAVA_SOURCES / "VerifyEvolution.java", published_dir, folder).splitlines()
    new = {name: reason for name, reason in (line.split(": ", 1) for line in output) if name not in refused_messages}
    assert new
    assert all("ErrorMessage is 'null', but default" in reason for reason in new.values()), new
