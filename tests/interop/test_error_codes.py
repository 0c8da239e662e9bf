"""Error codes equal Kafka's: number, name, whether they are retriable, and whether metadata is stale."""

from __future__ import annotations

import subprocess

from tests.interop.releases import JAVA_SOURCES, SLF4J_COORDINATE, fetch

from kafkaframes.errors import LEADER_MOVED_CODES, ErrorCode


def test_error_codes_are_those_of_kafkas_class() -> None:
    jars = [fetch("org.apache.kafka:kafka-clients:4.3.1"), fetch(SLF4J_COORDINATE)]
    command = ["java", "-cp", ":".join(map(str, jars)), str(JAVA_SOURCES / "ErrorCodes.java")]
    process = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    ours = [
        f"{int(code)} {code.name} {str(code.is_retriable).lower()} {str(code in LEADER_MOVED_CODES).lower()}"
        for code in ErrorCode
    ]
    assert ours == process.stdout.splitlines()
