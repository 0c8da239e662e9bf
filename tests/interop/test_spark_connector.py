"""Spark's own Kafka connector beside ``kafka-topic``: the same rows, offsets and refusals; checkpoints go both ways."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.interop import connector

from kafkaframes.broker import Broker

FOLDER = Path(__file__).parent
SEED = os.environ.get("KAFKAFRAMES_SEED", "1")


@pytest.fixture(scope="module")
def jars() -> str:
    try:
        return ",".join(map(str, connector.jars()))
    except LookupError as error:
        pytest.skip(str(error))


@pytest.fixture(params=["ours", "kafka"])
def servers(request, tmp_path):
    """Ours, and each real Kafka that can be had."""
    if request.param == "ours":
        with Broker() as broker:
            yield broker.bootstrap_servers
        return
    kafka = request.getfixturevalue("kafka")
    with kafka(tmp_path / "kafka") as node:
        yield node.bootstrap


def run(script: str, *arguments: str) -> list[str]:
    """Run a script with a Spark of its own; return its lines."""
    command = [sys.executable, str(FOLDER / script), *arguments]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=1500, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_eighty_reads_and_streams_give_the_same(jars: str, servers: str) -> None:
    lines = run("connector_script.py", servers, jars, SEED)
    assert [line for line in lines if line.startswith("DIFFERENT")] == []
    assert lines[-1] == "DONE 80"


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_a_checkpoint_goes_from_one_to_the_other_and_back(jars: str, tmp_path: Path) -> None:
    with Broker() as broker:
        lines = run("checkpoint_script.py", broker.bootstrap_servers, jars, str(tmp_path))
    found = [json.loads(line) for line in lines if line.startswith("[")]
    assert found == [
        ["kafka", "theirs", [8, 7, 7, 7, 7, 7, 7]],
        ["kafka-topic", "ours", [8, 7, 7, 7, 7, 7, 7]],
        ["kafka-topic", "theirs", [10] * 7],
        ["kafka", "ours", [10] * 7],
        ["kafka", "theirs", [12, 12, 12, 11, 11, 11, 11]],
        ["kafka-topic", "ours", [12, 12, 12, 11, 11, 11, 11]],
        ["kafka", "converted", [12, 12, 12, 11, 11, 11, 11]],
    ]
