"""Download clients and frameworks from their package registries once, into ``~/.cache/kafkaframes/clients``."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.interop.conftest import CACHE

Commands = Sequence[Sequence[str | Path]]
POM_TEMPLATE = (
    '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion><groupId>local</groupId>'
    "<artifactId>clients</artifactId><version>1</version><packaging>pom</packaging><dependencies>{dependencies}"
    "</dependencies></project>"
)
MAX_SECONDS = 900  # some clients compile native code
PYTHON_VERSIONS = {
    "confluent-kafka": "2.12.2",
    "kafka-python": "3.0.12",
    "aiokafka": "0.14.0",
    "quixstreams": "3.28.1",
    "faststream[kafka]": "0.7.8",
    "cramjam": "2.14.0",
    "lz4": "4.4.5",
    "python-snappy": "0.7.3",
    "zstandard": "0.25.0",
}


_failed_downloads: dict[str, str] = {}  # store the reason, so that this run does not try again


def fetch_client(name: str, tool: str, make: Callable[[Path], Commands]) -> Path:
    """Return a client's directory, which commands create the first time; skip the test if they fail."""
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not on the PATH")
    folder = CACHE / "clients" / name
    if name in _failed_downloads:
        pytest.skip(_failed_downloads[name])
    if not (folder / ".complete").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for command in make(folder):
            if reason := _run(list(map(str, command)), folder):
                _failed_downloads[name] = f"{name} could not be downloaded: {reason}"
                pytest.skip(_failed_downloads[name])
        (folder / ".complete").touch()
    return folder


def prepare_python() -> Path:
    """Return the interpreter of a virtual environment with the other Python clients.

    The test is skipped if the environment cannot be created.
    """

    def make(folder: Path) -> Commands:
        pip = [folder / "venv" / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        packages = [f"{name}=={version}" for name, version in PYTHON_VERSIONS.items()]
        return [[sys.executable, "-m", "venv", folder / "venv"], [*pip, *packages]]

    return fetch_client("python", sys.executable, make) / "venv" / "bin" / "python"


def _run(command: list[str], folder: Path) -> str:
    """Run a command; return a description of its failure, or an empty string."""
    try:
        process = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=MAX_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"{command[0]} takes longer than {MAX_SECONDS} s"
    return (process.stdout + process.stderr)[-300:] or f"exit status {process.returncode}" if process.returncode else ""


def fetch_by_maven(name: str, *coordinates: str) -> Path:
    """Return a folder of jars (``group:artifact:version[:classifier]``) with their dependencies. Maven fetches them."""

    def make(folder: Path) -> Commands:
        dependencies = "".join(map(_dependency, coordinates))
        (folder / "pom.xml").write_text(POM_TEMPLATE.format(dependencies=dependencies))
        return [["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={folder / 'lib'}"]]

    return fetch_client(name, "mvn", make) / "lib"


def _dependency(coordinate: str) -> str:
    names = ("groupId", "artifactId", "version", "classifier")
    fields = "".join(f"<{name}>{value}</{name}>" for name, value in zip(names, coordinate.split(":"), strict=False))
    return f"<dependency>{fields}</dependency>"


def compile_java(source: Path, libraries: Path, to: Path) -> list[str | Path]:
    """Compile a Java program. Return the command that runs the program."""
    to.mkdir(exist_ok=True)
    if not list(to.glob("*.class")):
        subprocess.run(["javac", "-nowarn", "-cp", f"{libraries}/*", "-d", to, source], check=True, timeout=300)
    quiet = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    return ["java", "-Xmx256m", *quiet, "-cp", f"{to}:{libraries}/*", source.stem]
