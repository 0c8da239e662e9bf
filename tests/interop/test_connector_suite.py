"""Spark's connector and ``kafka-topic`` give the expected result in each row of docs/connector-suite.md, on Apache
Kafka.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pyspark
import pytest
from tests.interop import brokers, connector
from tests.interop.test_spark_connector import jars  # noqa: F401 (a fixture)
from tests.spark.connector_suite import CONNECTOR, OURS, PLAYED, Run, name_of

TIMEOUT_SECONDS = 1800
KAFKA_VERSION = brokers.VERSIONS[-1]


@pytest.fixture
def servers(oracle: Path, tmp_path: Path):
    """Apache Kafka of the newest tested release."""
    with brokers.kafka_or_skip(oracle, KAFKA_VERSION)(tmp_path / "kafka") as node:
        yield node.bootstrap


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_SECONDS + 300)
def test_both_sources_give_the_expected_result_in_each_row(jars: str, servers: str) -> None:  # noqa: F811
    command = [sys.executable, "-m", "tests.spark.connector_suite", servers, jars]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False, env=environment
    )
    assert process.returncode == 0, process.stderr[-3000:]
    lines = [json.loads(line) for line in process.stdout.splitlines() if line.startswith("{")]
    names = [name_of(row) for row in PLAYED]
    assert [(line["row"], line["form"]) for line in lines] == [
        (name, form) for name in names for form in (CONNECTOR, OURS)
    ]
    assert [line for line in lines if not line["expected"]] == []
    release = connector.COORDINATES[0].rpartition(":")[2]
    Run(f"{datetime.now(UTC):%Y-%m-%d}", pyspark.__version__, release, KAFKA_VERSION, names).write()
