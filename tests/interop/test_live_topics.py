"""The behaviour suite of live topics on Spark passes on Apache Kafka, with each delivery guarantee.

The files run as in ``make test``, with ``--kafka-bootstrap``. Tests with faults or kills of the broker are skipped;
they run on the embedded broker only.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUITE_FILES = (
    "spark/test_kafka_topic.py",  # reads, batch writes and at-least-once streams
    "spark/test_topic_writer.py",
    "spark/test_topic_stream_writer.py",
    "spark/test_topic_exactly_once.py",  # streams exactly once
    "spark/test_topic_transaction.py",  # drivers that are killed at each step of a transaction
    "spark/test_write_topic.py",  # batches that are written completely or not at all
    "scan/topic/test_following.py",  # recreated topics
    "scan/topic/test_planning.py",
    "scan/topic/test_reading.py",
    "spark/test_topic_stream.py",
    "spark/test_topic_listener.py",  # lag and group offsets
)
MIN_TESTS = 44  # number of tests that require only an address


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_the_behaviour_suite_of_live_topics(kafka, tmp_path):
    files = [str(ROOT / "tests" / name) for name in SUITE_FILES]
    # some timestamps are older than the default retention time
    with kafka(tmp_path / "kafka", {"log.retention.ms": "-1"}) as node:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs", "--timeout", "300"]
        process = subprocess.run(
            [*command, *files, "--kafka-bootstrap", node.bootstrap, "--basetemp", str(tmp_path / "run")],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            timeout=1400,
            check=False,
        )
    assert process.returncode == 0, process.stdout[-5000:]
    passed_match = re.search(r"(\d+) passed", process.stdout)
    assert passed_match is not None
    assert int(passed_match[1]) >= MIN_TESTS, process.stdout[-3000:]
