"""Run classes of Kafka's cluster tests on the embedded broker, and read JUnit's reports.

The jars (``COORDINATES``) come from Maven Central. A class in ``java/`` replaces the one that starts Kafka's test
cluster.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
import zipfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

KAFKA_VERSION = "4.3.1"
ROOT = Path(__file__).parents[3]
SOURCES = Path(__file__).parent / "java"
INSIDE_MARK = "INSIDE KAFKA: "  # BrokerView.MARK
PASSED, FAILED, INSIDE_KAFKA, SKIPPED = "passed", "failed", "looks inside Kafka", "skipped"
NOT_RUN_STATUS = "not run"  # status of a class until make interop has run it
TEST_TIMEOUT_SECONDS = 120
_ANNOTATIONS = b"Lorg/apache/kafka/common/test/api/ClusterT"  # ClusterTest, ClusterTests, ClusterTemplate
_MAX_REASON_CHARACTERS = 300
_ARGUMENTS = re.compile(r"\([^()]*\)")
_TESTED = (
    *("kafka-clients", "kafka-clients-integration-tests", "kafka_2.13", "kafka-tools", "kafka-group-coordinator"),
    *("kafka-server", "kafka-storage", "kafka-metadata", "kafka-server-common", "kafka-share-coordinator"),
    *("kafka-transaction-coordinator", "kafka-raft", "kafka-coordinator-common", "kafka-test-common-util"),
)
_NEEDED = (
    *("kafka_2.13", "kafka-tools", "kafka-test-common-util", "kafka-test-common-runtime"),
    *("kafka-test-common-internal-api", "connect-runtime", "kafka-streams"),
)
_LIBRARIES = (
    "org.apache.logging.log4j:log4j-slf4j-impl:2.24.3",
    "org.apache.logging.log4j:log4j-core:2.24.3",
    "org.junit.platform:junit-platform-console:1.13.1",
    "org.junit.jupiter:junit-jupiter:5.13.1",
    "org.mockito:mockito-core:5.14.2",
    "org.mockito:mockito-junit-jupiter:5.14.2",
    "org.hamcrest:hamcrest:3.0",
    "org.awaitility:awaitility:4.2.2",
    "junit:junit:4.13.2",
    "org.bouncycastle:bcpkix-jdk18on:1.78.1",
)
# Maven artifacts: Kafka with its tests, and JUnit, as group:artifact:version[:classifier].
COORDINATES = (
    *(f"org.apache.kafka:{name}:{KAFKA_VERSION}" for name in _NEEDED),
    *(f"org.apache.kafka:{name}:{KAFKA_VERSION}:test" for name in _TESTED),
    *_LIBRARIES,
)


@dataclass(frozen=True, slots=True, order=True)
class TestResult:
    """The result of one invocation of a test.

    Attributes:
        suite: the test class, with its package.
        test: method and number of the invocation; a test with several configurations has several.
        status: ``passed``, ``failed``, ``skipped``, or ``looks inside Kafka`` (the test accesses Kafka's
            internals).
        message: exception and its message, shortened; empty if the test passed.
    """

    suite: str
    test: str
    status: str
    message: str = ""


def list_classes(libraries: Path) -> list[str]:
    """Return the classes with cluster tests, sorted."""
    classes = set()
    for jar in libraries.glob("*-test.jar"):
        with zipfile.ZipFile(jar) as archive:
            for name in archive.namelist():
                if name.endswith(".class") and "$" not in name and _ANNOTATIONS in archive.read(name):
                    classes.add(name.removesuffix(".class").replace("/", "."))
    return sorted(name for name in classes if ".common.test." not in name)


def compile_cluster(libraries: Path, classes: Path) -> None:
    """Compile the class that replaces Kafka's test cluster."""
    sources = sorted(SOURCES.rglob("*.java"))
    subprocess.run(["javac", "-nowarn", "-cp", f"{libraries}/*", "-d", classes, *sources], check=True, timeout=300)


def run_classes(
    names: Sequence[str], *, libraries: Path, classes: Path, folder: Path, timeout: float
) -> list[TestResult]:
    """Run test classes, or methods (``CLASS#METHOD``), in one JVM.

    ``folder`` gets JUnit's reports, the JVM's output and the brokers' log.

    Raises:
        subprocess.TimeoutExpired: the JVM did not end in time.
    """
    folder.mkdir(parents=True, exist_ok=True)
    selections = [word for name in names for word in (("-m" if "#" in name else "-c"), name)]
    command = [
        *("java", "-Xmx1200m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        f"-Dlog4j2.configurationFile={SOURCES / 'log4j2.properties'}",
        *(f"-Dkafkaframes.python={sys.executable}", f"-Dkafkaframes.log={folder / 'brokers.log'}"),
        *("-cp", f"{classes}:{libraries}/*", "org.junit.platform.console.ConsoleLauncher", "execute"),
        *("--disable-banner", "--disable-ansi-colors", "--details=tree", "--details-theme=ascii"),
        *("--config=junit.jupiter.extensions.autodetection.enabled=true", f"--reports-dir={folder}"),
        f"--config=junit.jupiter.execution.timeout.default={TEST_TIMEOUT_SECONDS}s",
        *selections,
    ]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    with open(folder / "output.txt", "wb") as output:
        subprocess.run(command, cwd=folder, env=environment, stdout=output, stderr=output, timeout=timeout, check=False)
    return sorted(read_reports(folder))


def read_reports(folder: Path) -> Iterator[TestResult]:
    """Yield the results in JUnit's reports (``TEST-*.xml``)."""
    for report in folder.glob("TEST-*.xml"):
        for case in ElementTree.parse(report).iter("testcase"):
            yield _result_of_case(case)


def _result_of_case(case: ElementTree.Element) -> TestResult:
    test = _ARGUMENTS.sub("", case.attrib["name"])
    suite = case.attrib["classname"]
    if case.find("skipped") is not None:
        return TestResult(suite, test, SKIPPED)
    failures = [child for child in case if child.tag in ("failure", "error")]
    if not failures:
        return TestResult(suite, test, PASSED)
    trace = failures[0].text or ""
    inside = trace.find(INSIDE_MARK)
    if inside >= 0:
        return TestResult(suite, test, INSIDE_KAFKA, trace[inside + len(INSIDE_MARK) :].partition("\n")[0].strip())
    lines = trace.strip().splitlines() or [failures[0].get("type", "")]
    return TestResult(suite, test, FAILED, " ".join(lines[0].split())[:_MAX_REASON_CHARACTERS])
