"""Spark's own Kafka connector and ``kafka-topic`` return the same rows, offsets and errors, and each continues the
other's checkpoints.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop import connector, connector_script

from kafkaframes.broker import Broker

FOLDER = Path(__file__).parent
SEED = os.environ.get("KAFKAFRAMES_SEED", "1")
DRAW_COUNT = int(os.environ.get("KAFKAFRAMES_DRAWS", "20"))


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        return ",".join(map(str, connector.find_jars()))
    except LookupError as error:
        pytest.skip(str(error))


def run(script: str, *arguments: str) -> list[str]:
    """Run a script in a process with its own Spark session. Return its lines."""
    command = [sys.executable, str(FOLDER / script), *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False, env=environment)
    assert process.returncode == 0, process.stderr[-3000:]
    return process.stdout.splitlines()


def compare(servers: str, jars: str) -> None:
    """Make each read with both sources, and KAFKAFRAMES_DRAWS additional random reads, drawn with KAFKAFRAMES_SEED."""
    lines = run("connector_script.py", servers, jars, SEED, str(DRAW_COUNT))
    different = [line for line in lines if line.startswith("DIFFERENT")]
    assert not different, "\n".join(different)
    written_down = len(connector_script.FIXED_OPTIONS) + len(connector_script.STREAM_OPTIONS) + 1
    assert written_down > 60
    assert lines[-1] == f"DONE {written_down + DRAW_COUNT}"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_reads_and_streams_are_equal(jars: str) -> None:
    with Broker() as broker:
        compare(broker.bootstrap_servers, jars)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_reads_and_streams_of_a_real_kafka_are_equal(jars: str, kafka, tmp_path: Path) -> None:
    with kafka(tmp_path / "kafka") as node:
        compare(node.bootstrap, jars)


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_each_source_continues_the_checkpoint_of_the_other(jars: str, tmp_path: Path) -> None:
    with Broker() as broker:
        lines = run("checkpoint_script.py", broker.bootstrap_servers, jars, str(tmp_path))
    counts = [json.loads(line) for line in lines if line.startswith("[")]
    assert counts == [
        ["kafka", "theirs", [8, 7, 7, 7, 7, 7, 7]],
        ["kafka-topic", "ours", [8, 7, 7, 7, 7, 7, 7]],
        ["kafka-topic", "theirs", [10] * 7],
        ["kafka", "ours", [10] * 7],
        ["kafka", "theirs", [12, 12, 12, 11, 11, 11, 11]],
        ["kafka-topic", "ours", [12, 12, 12, 11, 11, 11, 11]],
        ["kafka", "converted", [12, 12, 12, 11, 11, 11, 11]],
        ["kafka", "absent", [13, 13, 13, 12, 12, 12, 12]],
    ]
