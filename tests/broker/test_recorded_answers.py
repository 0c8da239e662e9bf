"""Random requests with Kafka 4.3.1's recorded answers: this broker's answers are the same.

``python -m tests.interop.random_differential --seed 4301 --requests 800 --record FILE`` records the file again from
Kafka. ``make interop`` generates other requests and compares more of them.
"""

from __future__ import annotations

from pathlib import Path

from tests.interop.random_differential.__main__ import EMBEDDED_PROPERTIES
from tests.interop.random_differential.recorded import replay

from kafkaframes.broker import Broker

RECORDED_FILE = Path(__file__).parent / "recorded" / "kafka-4.3.1.jsonl.gz"
MIN_REQUESTS = 800


def test_recorded_requests_are_answered_as_by_kafka():
    with Broker(config=EMBEDDED_PROPERTIES, broker_release="4.3") as broker:
        findings = list(replay(RECORDED_FILE, ("127.0.0.1", broker.port)))
    assert [str(finding) for _, finding in findings if finding is not None] == []
    assert sum(size for size, _ in findings) >= MIN_REQUESTS
