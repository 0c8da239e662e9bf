"""The producer causes no duplicates, losses or reordering in Apache Kafka over connections that a proxy delays and
closes.

``KAFKAFRAMES_RUNS`` is the number of runs, ``KAFKAFRAMES_SEED`` the first seed. The modes alternate.
"""

from __future__ import annotations

import asyncio
import contextlib
import os

from tests.interop import brokers
from tests.soak.producer_proxy import MODES, run_seeds

VERSION = "4.3.1"


def test_closed_connections_cause_no_errors_in_the_log(oracle, tmp_path):
    start_kafka = brokers.kafka_or_skip(oracle, VERSION)

    @contextlib.contextmanager
    def kafka(port):
        advertised_listeners = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}"}
        with start_kafka(tmp_path, advertised_listeners) as node:
            yield node.port

    first, runs = int(os.environ.get("KAFKAFRAMES_SEED", "1")), int(os.environ.get("KAFKAFRAMES_RUNS", "8"))
    counts = asyncio.run(run_seeds(range(first, first + runs), MODES, broker=kafka))
    print(dict(counts))
    assert (counts["runs"], counts["wrong"]) == (runs, 0)
