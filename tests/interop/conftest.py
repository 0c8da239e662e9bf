"""Fixtures with Apache Kafka's own classes and brokers, to which results are compared. The Java classes are built once
with Maven.

The Java classes (``RecordsTruth`` and others) are a Maven project in the folder ``KAFKAFRAMES_ORACLE``, or in one next
to this checkout. The project is built in a copy under ``~/.cache/kafkaframes/oracle``, so the folder itself may be
read-only.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.interop import brokers, clients_page, summary

ROOT = Path(__file__).parents[2]
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "kafkaframes"
JAR = "records-truth.jar"


def run_java(*arguments: str | Path, timeout: float = 600) -> str:
    process = subprocess.run(
        ["java", *map(str, arguments)], capture_output=True, text=True, timeout=timeout, check=False
    )
    if process.returncode:
        raise AssertionError(f"java {arguments}: {process.stderr[-4000:]}")
    return process.stdout


@pytest.fixture(scope="session")
def built_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The documentation site, built as by ``make docs``, or the one in ``KAFKAFRAMES_SITE``."""
    if site_dir := os.environ.get("KAFKAFRAMES_SITE"):
        return Path(site_dir)
    mkdocs = shutil.which("mkdocs", path=str(Path(sys.executable).parent)) or shutil.which("mkdocs")
    if mkdocs is None:
        pytest.skip("MkDocs is not installed: run make docs")
    site = tmp_path_factory.mktemp("site")
    subprocess.run([mkdocs, "build", "--quiet", "--site-dir", site], cwd=ROOT, check=True, timeout=1800)
    return site


@pytest.fixture(scope="session")
def oracle() -> Path:
    """The folder ``target`` of the built Maven project, with the jar, and its libraries in ``lib``."""
    source = Path(os.environ.get("KAFKAFRAMES_ORACLE", ROOT.parent / "shared" / "tools" / "oracle"))
    target = CACHE / "oracle" / "target"
    if shutil.which("java") is None:
        pytest.skip("no java on the PATH")
    if (target / JAR).exists():
        return target
    if not (source / "pom.xml").exists():
        pytest.skip(f"the folder of the Java project does not exist: {source} (set KAFKAFRAMES_ORACLE)")
    if shutil.which("mvn") is None:
        pytest.skip("Maven is not on the PATH, and the Java project cannot be built")
    shutil.copytree(source, CACHE / "oracle", dirs_exist_ok=True, copy_function=_copy_writable)
    for folder, _, _ in os.walk(CACHE / "oracle"):
        os.chmod(folder, 0o755)
    process = subprocess.run(
        ["mvn", "-q", "-B", "package"], cwd=CACHE / "oracle", capture_output=True, text=True, timeout=900, check=False
    )
    if process.returncode:
        pytest.skip(f"Maven could not build the Java project: {process.stdout[-500:]}")
    return target


def _copy_writable(source: str, target: str) -> str:
    target_path: str = shutil.copyfile(source, target)
    return target_path


@pytest.fixture(scope="session")
def java_command(oracle: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """The command that runs a class of ``tests/interop/java`` with the project's libraries."""
    classes = tmp_path_factory.mktemp("classes")
    sources = sorted((Path(__file__).parent / "java").glob("*.java"))
    classpath = f"{classes}:{oracle / 'lib'}/*"
    subprocess.run(["javac", "-cp", classpath, "-d", classes, *sources], check=True, timeout=300)

    def command(name: str, *arguments: str | Path) -> list[str]:
        return ["java", "-Xmx2g", "-cp", classpath, name, *map(str, arguments)]

    return command


@pytest.fixture(scope="session")
def java(java_command: Callable[..., list[str]]) -> Callable[..., str]:
    """A function that runs a class and returns its output: ``java("Name", *arguments)``."""

    def run(name: str, *arguments: str | Path, timeout: float = 600) -> str:
        _, *words = java_command(name, *arguments)
        return run_java(*words, timeout=timeout)

    return run


@pytest.fixture(scope="module", params=brokers.VERSIONS)
def kafka(request: pytest.FixtureRequest, oracle: Path) -> brokers.KafkaFactory:
    """The factory of nodes of a Kafka version: ``with kafka(path) as node`` runs one on a directory. The test is
    skipped if the jars cannot be fetched.
    """
    return brokers.kafka_or_skip(oracle, request.param)


@pytest.fixture
def client_trials(request: pytest.FixtureRequest) -> clients_page.ClientTrials:
    """The trials of a client, recorded for docs/clients.md."""
    client_trials = clients_page.ClientTrials()
    request.node.user_properties.append((clients_page.PROPERTY, client_trials.note))
    return client_trials


_CLAIMS_BY_FILE: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Store each file's claim, which is the first sentence of its module docstring."""
    for item in items:
        sentence = getattr(getattr(item, "module", None), "__doc__", None) or ""
        _CLAIMS_BY_FILE[item.nodeid.partition("::")[0]] = sentence.strip().partition("\n")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the claims, and the results of the comparisons."""
    categories = ("passed", "failed", "error", "skipped")
    reports = [
        (category, one)
        for category in categories
        for one in terminalreporter.stats.get(category, ())
        if one.nodeid.partition("::")[0] in _CLAIMS_BY_FILE
    ]
    terminalreporter.section("what was claimed, and what its judges say")
    for line in summary.summary_lines(summary.group_claims(reports, _CLAIMS_BY_FILE)):
        terminalreporter.write_line(line)
    if clients_page.ROWS_FILE_VARIABLE in os.environ:
        rows = clients_page.rows_of(reports, f"{datetime.now(UTC):%Y-%m-%d}")
        Path(os.environ[clients_page.ROWS_FILE_VARIABLE]).write_text(json.dumps(rows))
