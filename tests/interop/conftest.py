"""Apache Kafka's own classes and brokers as judges: found, built once with Maven, or skipped with a reason.

The judges are a Maven project (``RecordsTruth`` and others) in the folder ``KAFKAFRAMES_ORACLE``, or one next to this
checkout. It is built in a copy under ``~/.cache/kafkaframes/oracle``, so the folder itself may be read-only.
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
    """The site, as ``make docs`` builds it, or the one in ``KAFKAFRAMES_SITE``."""
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
    """The folder ``target`` of the built judges: the jar, and its libraries in ``lib``."""
    source = Path(os.environ.get("KAFKAFRAMES_ORACLE", ROOT.parent / "shared" / "tools" / "oracle"))
    target = CACHE / "oracle" / "target"
    if shutil.which("java") is None:
        pytest.skip("no java on the PATH")
    if (target / JAR).exists():
        return target
    if not (source / "pom.xml").exists():
        pytest.skip(f"the folder of judges does not exist: {source} (set KAFKAFRAMES_ORACLE)")
    if shutil.which("mvn") is None:
        pytest.skip("no Maven on the PATH to build the judges with")
    shutil.copytree(source, CACHE / "oracle", dirs_exist_ok=True, copy_function=_copy_writable)
    for folder, _, _ in os.walk(CACHE / "oracle"):
        os.chmod(folder, 0o755)
    process = subprocess.run(
        ["mvn", "-q", "-B", "package"], cwd=CACHE / "oracle", capture_output=True, text=True, timeout=900, check=False
    )
    if process.returncode:
        pytest.skip(f"Maven could not build the judges: {process.stdout[-500:]}")
    return target


def _copy_writable(source: str, target: str) -> str:
    target_path: str = shutil.copyfile(source, target)
    return target_path


@pytest.fixture(scope="session")
def java_command(oracle: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[str]]:
    """The command that runs one of ``tests/interop/java``'s classes against the judges' libraries."""
    classes = tmp_path_factory.mktemp("classes")
    sources = sorted((Path(__file__).parent / "java").glob("*.java"))
    classpath = f"{classes}:{oracle / 'lib'}/*"
    subprocess.run(["javac", "-cp", classpath, "-d", classes, *sources], check=True, timeout=300)

    def command(name: str, *arguments: str | Path) -> list[str]:
        return ["java", "-Xmx2g", "-cp", classpath, name, *map(str, arguments)]

    return command


@pytest.fixture(scope="session")
def java(java_command: Callable[..., list[str]]) -> Callable[..., str]:
    """Run such a class and return what it prints: ``java("Name", *arguments)``."""

    def run(name: str, *arguments: str | Path, timeout: float = 600) -> str:
        _, *words = java_command(name, *arguments)
        return run_java(*words, timeout=timeout)

    return run


@pytest.fixture(scope="module", params=brokers.VERSIONS)
def kafka(request: pytest.FixtureRequest, oracle: Path) -> brokers.Kafka:
    """Start brokers of a version on a directory: ``with kafka(path) as node``. Skips the test if its jars cannot be
    fetched.
    """
    return brokers.kafka_or_skip(oracle, request.param)


@pytest.fixture
def client_trials(request: pytest.FixtureRequest) -> clients_page.ClientTrials:
    """Record the trials of a client, for docs/clients.md."""
    client_trials = clients_page.ClientTrials()
    request.node.user_properties.append((clients_page.PROPERTY, client_trials.note))
    return client_trials


_SENTENCES: dict[str, str] = {}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Record each file's claim: the first sentence of its module."""
    for item in items:
        sentence = getattr(getattr(item, "module", None), "__doc__", None) or ""
        _SENTENCES[item.nodeid.partition("::")[0]] = sentence.strip().partition("\n")[0]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the judges and their results."""
    categories = ("passed", "failed", "error", "skipped")
    reports = [
        (category, one)
        for category in categories
        for one in terminalreporter.stats.get(category, ())
        if one.nodeid.partition("::")[0] in _SENTENCES
    ]
    terminalreporter.section("what was claimed, and what its judges say")
    for line in summary.lines(summary.claims_of(reports, _SENTENCES)):
        terminalreporter.write_line(line)
    if clients_page.FILE in os.environ:
        rows = clients_page.rows_of(reports, f"{datetime.now(UTC):%Y-%m-%d}")
        Path(os.environ[clients_page.FILE]).write_text(json.dumps(rows))
